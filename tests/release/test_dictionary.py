"""The data dictionary: everything that a release holds is in it, and it says nothing of what is not
there.
"""

from __future__ import annotations

import csv
from fnmatch import fnmatch
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import das
from das import spec
from das.errors import UserError
from das.model.not_private import COLUMN
from das.release import dictionary
from das.runs import pipeline
from tests.worlds import Worlds

ESTIMATED = ("estimation.method=full-information", "output.csv=true")


@pytest.fixture(scope="module", params=["pl94-2010", "1940", "1940-pure-dp"])
def release(request: pytest.FixtureRequest, worlds: Worlds) -> Path:
    if request.param == "pl94-2010":
        return (
            worlds.run("geography.spine=optimized", data="three thousand", report=True) / "release"
        )
    changes = ESTIMATED if request.param == "1940" else ("run.seed=1",)
    return worlds.run(*changes, config=request.param, data="1940") / "release"


@pytest.fixture(scope="module")
def lines(release: Path) -> pd.DataFrame:
    return pd.read_csv(release / dictionary.NAME, dtype=str, keep_default_na=False)


def columns_of(path: Path) -> list[str]:
    if path.suffix == ".parquet":
        return pq.read_schema(path).names
    with path.open(encoding="utf-8") as file:
        header = next(line for line in file if not line.startswith("#"))
    return next(csv.reader([header], delimiter="|" if "|" in header else ","))


def held(release: Path) -> list[str]:
    return [str(p.relative_to(release)) for p in sorted(release.rglob("*")) if p.is_file()]


def test_every_file_and_every_column_is_in_it_and_no_other(release: Path) -> None:
    check_complete(release)


def check_complete(release: Path) -> None:
    """Every file and column of a release is in its dictionary, and nothing else."""
    lines = pd.read_csv(release / dictionary.NAME, dtype=str, keep_default_na=False)
    files = lines[lines.kind == "file"]
    patterns = files.file.tolist()
    assert len(set(patterns)) == len(patterns)
    for name in held(release):
        assert [p for p in patterns if fnmatch(name, p)], f"{name} is not in the dictionary"
    for pattern in patterns:
        here = [
            n for n in held(release) if n == pattern or (fnmatch(n, pattern) and n not in patterns)
        ]
        assert here or pattern in ("report.html", "areas.parquet"), f"{pattern} names no file"
        if (
            not here
            or Path(here[0]).suffix not in (".csv", ".parquet")
            or pattern == dictionary.NAME
        ):
            continue
        said = lines[(lines.kind == "column") & (lines.file == pattern)].column.tolist()
        found = {c for n in here for c in columns_of(release / n)}
        assert found == set(said), pattern
        assert len(said) == len(set(said))


def test_every_code_of_the_microdata_is_in_it(release: Path, lines: pd.DataFrame) -> None:
    codes = lines[lines.kind == "code"].groupby(["file", "column"]).code.apply(set).to_dict()
    for folder in (release / "microdata").iterdir():
        if folder.is_dir():
            table = pa.concat_tables(
                [pq.read_table(p) for p in folder.glob("*.parquet")]
            ).to_pandas()
            coded = [
                c for f, c in codes if f == f"microdata/{folder.name}/*.parquet" and c != COLUMN
            ]
            assert coded
            for column in coded:
                here = f"microdata/{folder.name}/*.parquet", column
                assert set(table[column].astype(str)) <= codes[here], here


def test_words_are_words(release: Path, lines: pd.DataFrame) -> None:
    assert (lines.label != "").all()
    assert (COLUMN in lines.columns) == (
        "seed" in (release / "spec.toml").read_text(encoding="utf-8").split("[data]")[0]
    )
    about = lines[(lines.universe == "persons") & (lines.file == "")]
    said = {(x.kind, x.column, x.code): x.label for x in about.itertuples()}
    assert len(said) == len(about)
    assert said["attribute", "hhgq", ""] == "Group quarters"
    assert said["level", "hhgq", "military"].startswith("Military")
    assert said["query", "", "detailed"] == "All attributes crossed"
    race = lines[
        (lines.file == "microdata/persons/*.parquet")
        & (lines.column == "CENRACE")
        & (lines.kind == "code")
    ]
    assert "White" in race.label.iloc[0]
    assert race.code.iloc[0] in ("01", "1")


def test_it_is_a_function_of_specification_spine_and_what_was_assigned(release: Path) -> None:
    from das.release.opened import open_release

    opened = open_release(release)
    assigned = {u.name: opened.assigned(u.name) for u in opened.spec.universes}
    assert dictionary.text(opened.after, opened.spine, assigned, opened.own_spine) == (
        release / dictionary.NAME
    ).read_text(encoding="utf-8")


def test_frames_have_the_words_of_the_release(release: Path, tmp_path: Path) -> None:
    """Of persons from wherever in the release, of other universes by their folder; each word stands
    for one code.
    """
    plain, said = (
        das.read_microdata(release.parent),
        das.read_microdata(release.parent, labels=True),
    )
    assert list(plain.columns) == list(said.columns)
    for column in ("CENRACE", "CENHISP", "RTYPE"):
        pairs = set(zip(plain[column], said[column], strict=True))
        assert len(pairs) == plain[column].nunique() == said[column].nunique()
        assert pairs & {
            ("1", "White"),
            ("01", "White alone"),
            ("1", "Not Hispanic or Latino"),
            ("3", "person in a housing unit"),
        }
    pd.testing.assert_frame_equal(
        said, das.read_microdata(release / "microdata" / "persons", labels=True)
    )
    (part,) = (release / "microdata" / "persons").glob("*.parquet")
    alone = tmp_path / part.name
    alone.write_bytes(part.read_bytes())
    assert len(das.read_microdata(alone)) == len(plain)
    with pytest.raises(UserError, match="in its release"):
        das.read_microdata(alone, labels=True)
    for folder in ("nmf", "nmf-housing"):
        if (release / folder).is_dir():
            level = sorted(p.stem for p in (release / folder).glob("*.parquet"))[0]
            frame = das.read_nmf(release / folder, level=level, query="detailed")
            first = {"nmf": "Household, Under 18 years", "nmf-housing": "Vacant"}[folder]
            assert frame["label"].iloc[0].startswith(first)
            assert (frame["h1"] if folder == "nmf-housing" else frame["hhgq"]).iloc[0] in (
                "household",
                "vacant",
            )


def test_frames_of_ones_own_schema_have_ones_own_words(root: Path, tmp_path: Path) -> None:
    text = (root / "configs" / "1940.toml").read_text(encoding="utf-8")
    words = '[schema.labels.race]\ntitle = "Origine"\nlevels = { White = "Blanc" }\n'
    chosen = spec.parse(
        text + words, where="c", overrides=("output.report=false", "output.csv=true")
    )
    pipeline.run(chosen, tmp_path / "run", paths=[root / "data" / "ext1940"])
    assert "Blanc" in set(das.read_microdata(tmp_path / "run", labels=True)["CENRACE"])
    assert "Blanc" in set(
        das.read_microdata(tmp_path / "run" / "release" / "microdata" / "persons.csv", labels=True)[
            "CENRACE"
        ]
    )
    frame = das.read_nmf(tmp_path / "run", level="State", query="votingage * hispanic * race")
    assert frame["label"].iloc[0] == "Under 18 years, Not Hispanic or Latino, Blanc"
    assert frame["race"].iloc[0] == "White"
