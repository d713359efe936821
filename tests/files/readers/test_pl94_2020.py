"""The 2020 redistricting files: exact tables, group quarters by type, the real prototype, and
damage.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.files.readers import pl94_2020, pl94_common
from das.model.histogram import Histogram
from das.model.names import text as as_text
from das.model.records import Extract
from das.model.redistricting import PL94
from das.truth.readers import read

SHARED = Path(os.environ.get("DAS_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))
RACES = [len(c) for n in range(1, 7) for c in combinations(range(6), n)]


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not there: set DAS_SHARED_DATA to the folder of public test data")
    return path


def race_cells(by_race: np.ndarray) -> list[int]:
    size = np.array(RACES)
    out = [by_race[size == 1].sum(), *by_race[size == 1], by_race[size > 1].sum()]
    for n in range(2, 7):
        out += [by_race[size == n].sum(), *by_race[size == n]]
    return [int(x) for x in out]


class State:
    """One county of 2 tracts x 2 block groups x 2 blocks; a test may damage its rows."""

    def __init__(self, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.people: dict[str, np.ndarray] = {}
        self.units: dict[str, tuple[int, int]] = {}
        keys = [
            ("72", "005", t, g, f"{g}00{b}")
            for t in ("000100", "000200")
            for g in "12"
            for b in "35"
        ]
        for key in keys:
            h = rng.integers(0, 4, (8, 2, 2, 63)) * (rng.random((8, 2, 2, 63)) < 0.01)
            h[3, 0] = 0
            self.people["".join(key)] = h
            self.units["".join(key)] = (int(rng.integers(0, 9)), int(rng.integers(1, 9)))
        self.rows: list[dict] = []
        for depth, sumlev in ((1, "040"), (2, "050"), (3, "140"), (4, "150"), (5, "750")):
            for prefix in dict.fromkeys(k[:depth] for k in keys):
                self.add(sumlev, prefix, ["".join(k) for k in keys if k[:depth] == prefix])

    def add(self, sumlev: str, prefix: tuple[str, ...], inside: list[str]) -> None:
        h = sum(self.people[b] for b in inside)
        dwelling, cells = h.sum(axis=(1, 2, 3)), []
        for part in (h.sum(axis=(0, 1)), h[:, 1].sum(axis=0)):
            total, hispanic = int(part.sum()), int(part[1].sum())
            cells.append([total, *race_cells(part.sum(axis=0))])
            cells.append([total, hispanic, total - hispanic, *race_cells(part[0])])
        occupied, vacant = np.sum([self.units[b] for b in inside], axis=0)
        p5 = [
            dwelling[1:].sum(),
            dwelling[1:5].sum(),
            *dwelling[1:5],
            dwelling[5:].sum(),
            *dwelling[5:],
        ]
        self.rows.append(
            {
                "sumlev": sumlev,
                "key": [*prefix, *[""] * (5 - len(prefix))],
                "logrecno": len(self.rows) + 1,
                1: cells[0] + cells[1],
                2: cells[2] + cells[3] + [occupied + vacant, occupied, vacant],
                3: p5,
                "pop100": cells[0][0],
                "hu100": 4321,
            }
        )

    def files(self) -> dict[str, bytes]:
        out: dict[str, list[str]] = {f"zz{part}2020.pl": [] for part in pl94_2020.PARTS}
        for row in self.rows:
            geo = [""] * 97
            for at, text in zip((13, 15, 33, 34, 35), row["key"], strict=True):
                geo[at - 1] = text
            block = row["sumlev"] == "750"
            for at, text in (
                (1, "PLST"),
                (2, "ZZ"),
                (3, row["sumlev"]),
                (4, "00"),
                (5, "00"),
                (8, f"{row['logrecno']:07d}"),
                (18, "11111" if block else ""),
                (30, "99999" if block else ""),
                (36, "0012" if block else ""),
                (88, 'Añasco "barrio"'),
                (91, row["pop100"]),
                (92, row["hu100"]),
            ):
                geo[at - 1] = str(text)
            out["zzgeo2020.pl"].append("|".join(geo))
            for n in (1, 2, 3):
                head = ["PLST", "ZZ", "000", f"{n:02d}", f"{row['logrecno']:07d}"]
                out[f"zz0000{n}2020.pl"].append("|".join(map(str, [*head, *row[n]])))
        return {n: ("\n".join(lines) + "\n").encode("latin-1") for n, lines in out.items()}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def histogram(e: Extract) -> np.ndarray:
    p = e.persons.open("comparison with what was written")
    return (
        Histogram.from_triplets(len(e.blocks), p.schema.cells, p.block, p.cell, p.count)
        .dense()
        .reshape(-1, 8, 2, 2, 63)
    )


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_tables_and_group_quarters_come_back(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    state = State(seed)
    e = read("pl94-2020", [put(tmp_path_factory.mktemp("pl"), state.files())], PL94)
    codes = sorted(state.people)
    written = np.array([state.people[c] for c in codes])
    got = histogram(e)
    assert as_text(e.blocks.fields["Block"]).tolist() == codes
    np.testing.assert_array_equal(got.sum(axis=1), written.sum(axis=1))  # tables P1 to P4
    np.testing.assert_array_equal(got.sum(axis=(2, 3, 4)), written.sum(axis=(2, 3, 4)))  # table P5
    u = e.others["housing"].open("comparison")
    units = Histogram.from_triplets(8, 2, u.block, u.cell, u.count).dense()
    assert units.tolist() == [
        [vacant, occupied] for occupied, vacant in (state.units[c] for c in codes)
    ]
    assert e.blocks.structures is not None
    assert e.blocks.structures[:, 0].tolist() == [sum(state.units[c]) for c in codes]
    np.testing.assert_array_equal(e.blocks.structures[:, 1:], got.sum(axis=(2, 3, 4))[:, 1:] > 0)


def test_the_geographic_fields_are_complete_codes(tmp_path: Path) -> None:
    e = read("pl94-2020", [put(tmp_path, State().files())], PL94)
    assert {field: codes[0].decode() for field, codes in e.blocks.fields.items()} == {
        "State": "72",
        "County": "72005",
        "Tract": "72005000100",
        "Block_Group": "720050001001",
        "Block": "7200500010011003",
        "Tract_Group": "720050001",
        "County_Subdivision": "7200511111",
        "Place": "99999",
        "AIAN": "0012",
    }
    assert {x for n in e.blocks.names.values() for x in n.names.tolist()} == {
        'Añasco "barrio"'
    }  # latin-1
    assert "Block" not in e.blocks.names


def test_a_zip_gives_the_same_as_its_files(tmp_path: Path) -> None:
    files = State().files()
    with zipfile.ZipFile(tmp_path / "zz2020.pl.zip", "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    a = read("pl94-2020", [tmp_path / "zz2020.pl.zip"], PL94)
    b = read("pl94-2020", [put(tmp_path / "x", files)], PL94)
    np.testing.assert_array_equal(histogram(a), histogram(b))


def test_positions_and_cells_are_as_in_the_published_layout() -> None:
    layout = pd.read_csv(shared("layouts/pl94_2020_fields.csv"), dtype=str)
    geo = layout[layout["file"] == "geo"].set_index("position_1based")["field"]
    assert len(geo) == pl94_2020.FIELDS
    for position, name in pl94_2020.POSITIONS.items():
        assert geo[str(position)] == name
    for number, cells in pl94_2020.SEGMENTS.items():
        listed = layout[
            layout["file"].isin([str(number), f"seg{number}", f"segment{number}", f"{number:02d}"])
        ]
        assert listed["field"].tolist() == [*pl94_common.IDS, *cells]


def test_the_prototype_of_2018_is_read_whole() -> None:
    e = read("pl94-2020", [shared("pl94_2020/ri_2018_e2e_prototype")], PL94)
    got = histogram(e)
    assert got.shape[0] == 569
    assert e.blocks.names["County"].at(np.array(["44007"])).tolist() == ["Providence County"]
    assert got.sum() == 29_225
    assert got[:, 1:].sum() == 995
    assert got[:, 3, 0].sum() == 0
    assert e.others["housing"].open("comparison").count.sum() == 11_425
    assert len(e.sources) == 4
    assert e.blocks.structures is not None
    home = got[:, 0].sum(axis=(1, 2, 3)) > 0
    assert (e.blocks.structures[home, 0] > 0).all()


# --- damage
# ------------------------------------------------------------------------------------------

Change = Callable[[State], object]
BLOCK = (
    9  # the first of the rows of blocks, after 1 state, 1 county, 2 tracts, 4 block groups, from 1
)


def cell(row: int, part: object, at: int, by: int) -> Change:
    def change(s: State) -> None:
        s.rows[row][part][at] += by

    return change


def gap(s: State) -> None:
    """Record numbers as in a selection of records, with a county that counts more than is there."""
    for row in s.rows:
        row["logrecno"] += 100 * (row["sumlev"] == "750")
    other_county(s)


def other_county(s: State) -> None:
    """The county and the state count one adult more."""
    for row in s.rows[:2]:
        for part, places in ((1, (0, 1, 2, 71, 73, 74, 75)), (2, (0, 1, 2, 71, 73, 74, 75))):
            for at in places:
                row[part][at] += 1
        row["pop100"] += 1


def all_in_nursing_homes(s: State) -> None:
    """P5 of every row says that all live in nursing homes, minors too."""
    for row in s.rows:
        n = row[1][0]
        row[3] = [n, n, 0, 0, n, 0, 0, 0, 0, 0]


def no_housing(s: State) -> None:
    for row in s.rows:
        row[2][-3:] = [0, 0, 0]


CASES: dict[str, tuple[Change, str]] = {
    "sub-total of P5": (
        cell(BLOCK, 3, 4, 1),
        r"line 10: P0050002 must be the same as the sum of P0050003 to P0050006",
    ),
    "total of P5": (cell(BLOCK, 3, 0, 1), r"line 10: P0050001 must be"),
    "leaf of P2": (cell(BLOCK, 1, 71 + 4, 1), r"line 10: P0020004 must be"),
    "housing": (cell(BLOCK, 2, -1, 1), r"line 10: H0010001 must be"),
    "population of the header": (
        lambda s: s.rows[BLOCK].update(pop100=77),
        r"line 10: POP100 is not P0010001",
    ),
    "county of a whole file": (
        other_county,
        r"the blocks of County 72005 add up to another P0010001",
    ),
    "block lost": (lambda s: s.rows.pop(BLOCK), r"the blocks of Block_Group \d+ add up to"),
    "block group": (
        lambda s: s.rows[BLOCK]["key"].__setitem__(3, "2"),
        r"line 10: block 1005 is not of its block gr",
    ),
    "long code": (
        lambda s: s.rows[BLOCK]["key"].__setitem__(4, "10055"),
        r"BLOCK of zzgeo2020.pl: a code of 5 char",
    ),
    "short code": (
        lambda s: s.rows[BLOCK]["key"].__setitem__(4, "105"),
        r"line 10: the Block code .* not all digits",
    ),
    "minors in nursing homes": (
        all_in_nursing_homes,
        r"more persons in group quarters of type 3 than there are adults",
    ),
    "persons without housing": (
        no_housing,
        r"has persons outside group quarters, but no housing unit",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_damage_is_named(tmp_path: Path, name: str) -> None:
    change, message = CASES[name]
    state = State()
    change(state)
    with pytest.raises(InputError, match=message):
        read("pl94-2020", [put(tmp_path, state.files())], PL94)


def test_counties_of_a_selection_of_records_are_not_compared(tmp_path: Path) -> None:
    state = State()
    gap(state)
    assert len(read("pl94-2020", [put(tmp_path, state.files())], PL94).blocks) == 8


@pytest.mark.parametrize("part", pl94_2020.PARTS)
def test_missing_swapped_and_foreign_files_are_named(tmp_path: Path, part: str) -> None:
    files, name = State().files(), f"zz{part}2020.pl"
    lost = {n: d for n, d in files.items() if n != name}
    with pytest.raises(InputError, match=f"zz{part}2020.pl is missing"):
        read("pl94-2020", [put(tmp_path / "a", lost)], PL94)
    foreign = files | {name: files[name].replace(b"|ZZ|", b"|YY|")}
    with pytest.raises(InputError, match=rf"{name}, line 1: STUSAB is 'YY', where 'ZZ'"):
        read("pl94-2020", [put(tmp_path / "b", foreign)], PL94)
    other = "zz000012020.pl" if part != "00001" else "zz000022020.pl"
    with pytest.raises(InputError, match=rf"{name}, line 1: \d+ fields"):
        read("pl94-2020", [put(tmp_path / "c", files | {name: files[other]})], PL94)
    cut = files | {name: files[name][: len(files[name]) // 2]}
    with pytest.raises(InputError, match=rf"{name}, line \d+: \d+ fields|has \d+ records"):
        read("pl94-2020", [put(tmp_path / "d", cut)], PL94)
    with pytest.raises(InputError, match=rf"{name}: has no records"):
        read("pl94-2020", [_zip(tmp_path / "e.zip", files | {name: b""})], PL94)
    old = files | {name: files[name].replace(b"|", b",")}
    with pytest.raises(InputError, match=rf"{name}, line 1: 1 fields separated by '\|'"):
        read("pl94-2020", [put(tmp_path / "f", old)], PL94)


def _zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path
