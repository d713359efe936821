"""Microdata, tables and dictionary of a release of the DHC: of a small world, against its records
one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from das.errors import InputError
from das.files.microdata.reading import read_frame
from das.files.release import tables as table_files
from das.model.histogram import Histogram
from das.model.not_private import COLUMN
from das.model.spine import Spine
from das.publications.dhc import release_files
from das.publications.dhc.release_files import PUBLISHED, levels_of, tables_of
from tests.dhc_small import EMPTY, PRISON, counted, simulated, tree
from tests.release.test_dictionary import columns_of, held
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def spine() -> Spine:
    return tree()


@pytest.fixture(scope="module")
def lowest() -> dict[str, Histogram]:
    return simulated()


@pytest.fixture(scope="module")
def release(
    tmp_path_factory: pytest.TempPathFactory, spine: Spine, lowest: dict[str, Histogram]
) -> Path:
    out = tmp_path_factory.mktemp("release")
    release_files.write(out, spine, counted(spine, lowest), name="a test", private=True, csv=True)
    return out


def test_the_world_is_not_too_plain(lowest: dict[str, Histogram]) -> None:
    totals = {u: h.totals() for u, h in lowest.items()}
    assert totals["persons"][EMPTY] == totals["households"][EMPTY] == 0 < totals["units"][EMPTY]
    assert totals["persons"][PRISON] > 0 == totals["households"][PRISON]
    assert {2, 3} <= set(lowest["units"].cell.tolist())  # with rent and without


def test_microdata_hold_the_counts(
    release: Path, spine: Spine, lowest: dict[str, Histogram]
) -> None:
    found = release_files.read_counts(release, spine)
    assert list(found) == ["persons", "units", "households"]
    assert all(found[u].same_as(lowest[u]) for u in lowest)
    for folder, fields in (("persons", 16), ("units", 27)):
        frame = read_frame(release / "microdata" / folder)
        assert len(frame.columns) == fields
        assert set(frame.SCHEMA_BUILD_ID) == {"a test"}
        assert len(read_frame(release / "microdata" / f"{folder}.csv")) == len(frame)


# --- tables
# ------------------------------------------------------------------------------------------


def read_table(release: Path, name: str, level: str) -> table_files.TableValues:
    return table_files.read(release / "tables" / f"{name}_{level}.csv")


def test_each_table_is_there_for_the_levels_it_is_published_for(
    release: Path, spine: Spine
) -> None:
    every = [t for u in PUBLISHED for t in tables_of(u)]
    assert len({t.name for t in every}) == len(every) == 65
    want = {f"{t.name}_{level}.csv" for t in every for level in levels_of(t, spine)}
    assert {p.name for p in (release / "tables").iterdir()} == want
    deepest = {t.name: levels_of(t, spine)[-1] for t in every}
    assert {
        n: v for n, v in deepest.items() if n in ("P1", "P12", "H1", "H14", "PCT12", "HCT3", "PCO1")
    } == {
        "P1": "Block",
        "P12": "Block",
        "H1": "Block",
        "H14": "Block",
        "PCT12": "Tract",
        "HCT3": "Tract",
        "PCO1": "County",
    }


def test_of_a_tree_without_tracts_all_but_the_lowest_level_have_them() -> None:
    flat = Spine.from_frame(
        {"County": ["1", "2"], "Block": ["11", "21"]}, ["State", "County", "Block"]
    )
    (pct,) = [t for t in tables_of("persons") if t.name == "PCT12"]
    assert levels_of(pct, flat) == ("State", "County")
    assert levels_of(pct, flat.truncated("State")) == ("State",)


def test_tables_say_what_the_records_are(release: Path, spine: Spine) -> None:
    """By block, from the microdata, record by record."""
    people, homes = (read_frame(release / "microdata" / f) for f in ("persons", "units"))
    for frame in (people, homes):
        frame["code"] = [
            "".join(x)
            for x in zip(
                *(
                    frame[c].astype(str)
                    for c in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
                ),
                strict=True,
            )
        ]
    codes = spine.geocodes("Block").tolist()

    def count(frame: pd.DataFrame, which: pd.Series) -> list[int]:
        return [int(((frame.code == c) & which).sum()) for c in codes]

    age, home = people.QAGE.astype(int), homes.TEN.astype(int) > 0
    housing = homes.RTYPE == "2"
    cases = [
        ("P1", 1, count(people, age >= 0)),
        ("P12", 2, count(people, people.QSEX == "1")),
        ("P12", 49, count(people, (people.QSEX == "2") & (age >= 85))),
        ("P14", 12, count(people, (people.QSEX == "1") & (age == 9))),
        ("P18", 1, count(people, people.RTYPE == "5")),
        ("H8", 1, count(people, people.RTYPE == "3")),
        ("H1", 1, count(homes, housing)),
        ("H3", 2, count(homes, home)),
        ("H4", 4, count(homes, homes.TEN.isin(["3", "4"]))),
        ("H5", 8, count(homes, homes.VACS == "7")),
        ("H9", 2, count(homes, homes.HHSIZE == "1")),
        ("P16", 3, count(homes, homes.HHT == "1")),
        ("P21", 2, count(homes, homes.TP18.eq("1") & home)),
        ("H13", 21, count(homes, homes.TEN.isin(["3", "4"]) & homes.THHLDRAGE.eq("9"))),
    ]
    for name, column, want in cases:
        found = read_table(release, name, "Block")
        assert found.values[:, column - 1].tolist() == want, (name, column)
        assert sum(want) > 0 or name in ("H5", "H13"), name


def test_tables_add_up(release: Path, spine: Spine) -> None:
    for depth, level in enumerate(spine.levels[1:], 1):
        for path in sorted((release / "tables").glob(f"*_{level}.csv")):
            here, above = (
                table_files.read(path),
                read_table(release, path.name.split("_")[0], spine.levels[depth - 1]),
            )
            total = np.zeros_like(above.values)
            np.add.at(total, spine.parent[depth], here.values)
            assert np.array_equal(total, above.values), path.name


def test_no_array_of_units_by_cells_is_made(
    tmp_path: Path, spine: Spine, lowest: dict[str, Histogram], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine blocks by 1,227,744 cells would be 88 MB."""
    made = []
    monkeypatch.setattr(
        Histogram,
        "dense",
        lambda h: made.append(h.units * h.cells) or np.zeros((h.units, h.cells), dtype=np.int64),
    )
    counts = counted(spine, lowest)
    release_files.write_tables(tmp_path, spine, counts, private=True)
    assert max(made, default=0) < 1000


# --- dictionary
# --------------------------------------------------------------------------------------


def test_every_file_column_and_code_is_in_the_dictionary(worlds: Worlds) -> None:
    release = worlds.dhc() / "release"
    lines = pd.read_csv(release / "dictionary.csv", dtype=str, keep_default_na=False)
    files = lines[lines.kind == "file"].file
    assert files.is_unique
    for name in held(release):
        assert any(fnmatch(name, p) for p in files), name
    for pattern in files:
        here = [
            n
            for n in held(release)
            if n == pattern or (fnmatch(n, pattern) and n not in set(files))
        ]
        assert here or pattern == "report.html", pattern
        if here and pattern != "dictionary.csv" and Path(here[0]).suffix in (".csv", ".parquet"):
            said = lines[(lines.kind == "column") & (lines.file == pattern)].column
            assert said.is_unique
            assert {c for n in here for c in columns_of(release / n)} == set(said), pattern
    for folder in ("persons", "units"):
        code = lines[(lines.kind == "code") & (lines.file == f"microdata/{folder}/*.parquet")]
        assert not code.duplicated(["column", "code"]).any()
        assert (code.label != "").all()
        frame = read_frame(release / "microdata" / folder)
        for column, known in code.groupby("column").code:
            assert set(frame[column]) <= set(known), column


def test_codes_of_units_say_what_they_mean_in_the_whole_file(worlds: Worlds) -> None:
    release = worlds.dhc() / "release"
    lines = pd.read_csv(release / "dictionary.csv", dtype=str, keep_default_na=False)
    units = (
        lines[(lines.kind == "code") & (lines.file == "microdata/units/*.parquet")]
        .set_index(["column", "code"])
        .label
    )
    assert units["TEN"].to_dict() == {
        "0": "no household",
        "1": "Owned with a mortgage or a loan",
        "2": "Owned free and clear",
        "3": "Rented",
        "4": "Occupied without payment of cash rent",
    }
    assert units["CPLT"]["0"] == "Living alone, or no household"
    assert units["RTYPE"].to_dict() == {"2": "housing unit", "4": "group-quarters facility"}
    assert units["VACS"]["0"] == "not vacant"


# --- refusals, and what is said of seeded runs
# --------------------------------------------------------


def test_a_seeded_run_says_so_everywhere(
    tmp_path: Path, spine: Spine, lowest: dict[str, Histogram]
) -> None:
    release_files.write(tmp_path, spine, counted(spine, lowest), name="a test", private=False)
    for folder in ("persons", "units"):
        assert COLUMN in read_frame(tmp_path / "microdata" / folder).columns
    assert all(COLUMN in columns_of(p) for p in (tmp_path / "tables").iterdir())
    assert not list(tmp_path.glob("microdata/*.csv"))


def faults(
    spine: Spine, lowest: dict[str, Histogram]
) -> Iterator[tuple[str, dict[str, dict[str, Histogram]]]]:
    whole = counted(spine, lowest)
    yield "no counts of units at level 'State'", {u: h for u, h in whole.items() if u != "units"}
    yield (
        "no counts of persons at level 'Tract'",
        whole | {"persons": {k: v for k, v in whole["persons"].items() if k != "Tract"}},
    )
    yield (
        "units of 35 cells, not 9 of 1,578,528",
        whole | {"households": whole["households"] | {"Block": lowest["units"]}},
    )
    nobody = Histogram.from_triplets(
        9, lowest["households"].cells, *(np.zeros(0, dtype=np.int64),) * 3
    )
    yield "households by tenure, and occupied units", whole | {"households": nobody.upward(spine)}


@pytest.mark.parametrize("number", range(4))
def test_counts_that_do_not_fit_are_refused(
    tmp_path: Path, spine: Spine, lowest: dict[str, Histogram], number: int
) -> None:
    message, counts = list(faults(spine, lowest))[number]
    with pytest.raises(InputError, match=message):
        release_files.write(tmp_path / "out", spine, counts, name="a test", private=True)
    assert not (tmp_path / "out").exists()
