"""`das tables`: the published numbers with labels, in every format; mistakes list what there is."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from das.cli import main
from das.files import published_tables
from das.files import spine as spine_file
from das.model.histogram import Histogram
from das.model.schema import H1, PL94
from das.model.spine import Spine
from das.tables import published

CODES = np.array(["001A", "001B", "002A"])
SPEC = """
run.name = "made by hand"
data.reader = "pl94-2010"
schema.name = "pl94"
geography.levels = ["State", "County"]
budget.rho = "1"
budget.neighbours = "bounded"
budget.levels = { State = "1/2", County = "1/2" }
budget.queries = { State = { total = "1" }, County = { total = "1" } }
housing.budget.relative = "1"
housing.budget.levels = { State = "1/2", County = "1/2" }
housing.budget.queries = { State = { detailed = "1" }, County = { detailed = "1" } }
"""


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Specification, spine and tables: all that the command reads."""
    folder = tmp_path_factory.mktemp("made") / "release"
    folder.mkdir()
    (folder / "spec.toml").write_text(SPEC)
    up = np.zeros(3, dtype=np.int64)
    spine_file.write(folder / "spine.parquet", Spine(("State", "County"), (np.array(["0"]), CODES), (up[:1], up)))
    rng = np.random.default_rng(0)
    for schema in (PL94, H1):
        dense = rng.poisson(0.3, (3, schema.cells))
        h = Histogram.of(3, schema.cells, *(i.ravel() for i in np.indices(dense.shape)), dense.ravel())
        for level, codes, counts in (("State", np.array(["0"]), h.up(up, 1)), ("County", CODES, h)):
            published_tables.write(folder / "tables", level, codes, published(schema), counts)
    return folder


Das = Callable[..., tuple[int, str, str]]


@pytest.fixture
def das(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Das:
    monkeypatch.setenv("COLUMNS", "200")

    def call(*args: object) -> tuple[int, str, str]:
        capfdbinary.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["tables", *map(str, args)])
        out, err = capfdbinary.readouterr()
        return int(end.value.code or 0), out.decode(), err.decode()

    return call


def p2(release: Path) -> pd.DataFrame:
    return pd.read_csv(release / "tables" / "P2_County.csv", dtype={"GEOCODE": str})


TABLE = {t.name: t for t in (*published(PL94), *published(H1))}


def test_without_a_name_it_lists_what_there_is(das: Das, release: Path) -> None:
    code, out, _ = das(release)
    assert code == 0
    assert all(name in out for name in (*TABLE, "Occupancy status", "State, County"))
    rows = json.loads(das(release, "--json")[1])
    assert [(r["table"], r["columns"], r["levels"]) for r in rows] == [
        (t.name, len(t.columns), ["State", "County"]) for t in TABLE.values()
    ]


@pytest.mark.parametrize("names", ["both", "field", "label"])
def test_csv_has_every_number_under_its_label(das: Das, release: Path, names: str) -> None:
    code, out, err = das(release, "--level", "County", "--table", "p2", "--names", names)
    assert (code, err) == (0, "")
    head, *rows = csv.reader(io.StringIO(out))
    t = TABLE["P2"]
    expected = {"both": [f"{f} {x}" for f, x in zip(t.columns, t.labels, strict=True)], "field": list(t.columns),
                "label": list(t.labels)}  # fmt: skip
    assert head == ["GEOCODE", *expected[names]]
    assert rows == p2(release).astype(str).to_numpy().tolist()


def test_labels_alone_tell_the_columns_apart() -> None:
    """Else JSON by label would lose some."""
    for t in TABLE.values():
        assert len(set(t.labels)) == len(t.labels)


def test_parquet_keeps_field_label_and_title(das: Das, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "p2.parquet"  # the format is that of the name
    code, said, _ = das(release, "--level", "County", "--table", "P2", "--names", "field", "--out", out)
    assert (code, said) == (0, f"written: {out} (3 units)\n")
    table = pq.read_table(out)
    assert table.schema.metadata[b"title"].decode() == TABLE["P2"].title
    assert table.schema.field(2).metadata == {b"field": b"P0020002", b"label": b"Hispanic or Latino"}
    pd.testing.assert_frame_equal(table.to_pandas(), p2(release), check_dtype=False)


def test_json_and_markdown_have_the_same_numbers(das: Das, release: Path) -> None:
    args = (release, "--level", "County", "--table", "P2", "--names", "field")
    answer = json.loads(das(*args, "--json")[1])
    assert answer["columns"][1] == {"field": "P0020002", "label": "Hispanic or Latino"}
    assert pd.DataFrame(answer["rows"]).equals(p2(release))
    lines = das(*args, "--format", "md")[1].splitlines()
    assert lines[2] == "| County | 001A | 001B | 002A |"
    cells = [line.strip("| ").split(" | ") for line in lines[4:]]
    assert [c[0] for c in cells] == list(TABLE["P2"].columns)
    assert [[int(x.replace(",", "")) for x in c[1:]] for c in cells] == p2(release).iloc[:, 1:].T.to_numpy().tolist()


def test_prefixes_choose_units(das: Das, release: Path) -> None:
    def chosen(*prefixes: str) -> list[str]:
        args = [x for p in prefixes for x in ("--geocode", p)]
        out = das(release, "--level", "County", "--table", "H1", *args)[1]
        return [row[0] for row in csv.reader(io.StringIO(out))][1:]

    assert chosen("001") == ["001A", "001B"]
    assert chosen("002", "001B") == ["001B", "002A"]
    assert chosen("0") == CODES.tolist()


@pytest.mark.parametrize("args,words", [
    (("--level", "Cuonty", "--table", "P2"), ["'Cuonty'", "State, County"]),
    (("--level", "County", "--table", "P9"), ["'P9'", "P1, P2, P3, P4, P5, H1"]),
    (("--level", "County"), ["--table"]),
    (("--table", "P1"), ["--level"]),
    (("--level", "County", "--table", "P1", "--geocode", "A"), ["--geocode"]),
    (("--level", "County", "--table", "P1", "--format", "parquet"), ["--out"]),
    (("--level", "County", "--table", "P1", "--out", "no/such/folder/x.csv"), ["no/such/folder/x.csv", "--out"]),
])  # fmt: skip
def test_mistakes_name_the_option_and_what_there_is(
    das: Das, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = das(release, *args)
    assert (code, out) == (2, "")
    assert err.startswith("das: ")
    assert all(w in err for w in words), err
    assert list(tmp_path.iterdir()) == []


def test_too_many_units_side_by_side(das: Das, release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("das.files.table_export.WIDEST", 2)
    code, _, err = das(release, "--level", "County", "--table", "H1", "--format", "md", "--out", tmp_path / "x.md")
    assert code == 2
    assert "--geocode" in err
    assert list(tmp_path.iterdir()) == []  # nothing half-written


def test_a_release_without_tables_or_with_altered_ones(das: Das, release: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(release, tmp_path / "run" / "release"))
    path = copied / "tables" / "P5_State.csv"
    path.write_text(path.read_text().replace("P0050002", "P0050099"))
    code, _, err = das(tmp_path / "run", "--level", "State", "--table", "P5")
    assert (code, "columns are not those" in err) == (2, True)
    path.write_text(path.read_text().replace("P0050099", "P0050002").replace("\n0,", "\n0,x"))
    code, _, err = das(tmp_path / "run", "--level", "State", "--table", "P5")
    assert (code, "P5_State.csv" in err) == (2, True)
    shutil.rmtree(copied / "tables")
    code, _, err = das(copied, "--level", "State", "--table", "P5")
    assert (code, "output.tables" in err) == (2, True)
    assert "no published tables" in das(copied)[1]
    code, _, err = das(tmp_path / "nothing")
    assert code == 2


def test_the_documentation_lists_every_column(root: Path) -> None:
    text = (root / "docs" / "tables.md").read_text(encoding="utf-8")
    for name in ("P1", "P2", "P5", "H1"):
        assert all(f"| `{f}` | {x} |" in text for f, x in zip(TABLE[name].columns, TABLE[name].labels, strict=True))
    for name, like in (("P3", "P1"), ("P4", "P2")):
        assert TABLE[name].labels == TABLE[like].labels
        assert f"`{TABLE[name].columns[0]}` to `{TABLE[name].columns[-1]}`" in text


def test_a_name_that_tells_of_another_format(das: Das, release: Path, tmp_path: Path) -> None:
    out = tmp_path / "p2.xlsx"
    code, _, err = das(release, "--level", "County", "--table", "P2", "--out", out)
    assert code == 2
    assert "'.xlsx' is none of the formats csv, parquet, md, json" in err
    assert not out.exists()
    assert das(release, "--level", "County", "--table", "P2", "--format", "csv", "--out", out)[0] == 0
