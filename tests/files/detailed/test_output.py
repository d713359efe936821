"""Tables as they are written: what the rows are, in text and in Parquet, and all or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from das.errors import InputError
from das.model.names import encoded
from das.publications.detailed.files import output, parameters, totals
from das.publications.detailed.files.output import GroupRows
from tests.files.detailed.folders import HOUSEHOLDS, PERSONS, texts, written


def rows(
    table: str,
    kind: str,
    region: list[str],
    iteration: list[str],
    count: list[int],
    **cells: list[str],
) -> GroupRows:
    return GroupRows(
        table,
        kind,
        encoded(region),
        encoded(iteration),
        np.array(count),
        {n: encoded(c) for n, c in cells.items()},
    )


TOTALS = [
    rows("t1", "USA", ["1", "1"], ["2001", "3010"], [5, -2]),
    rows("t1", "PR-TRACT", ["72031050901"], ["2001"], [7]),
    rows("t1", "STATE", ["01", "02"], ["2001", "2001"], [0, 10**11]),
]
CELLS = rows(
    "t2",
    "USA",
    ["1"] * 3,
    ["2001"] * 3,
    [5, 2, 3],
    AGESTART=["*", "0", "18"],
    AGEEND=["*", "17", "115"],
    SEX=["1"] * 3,
)


def test_tables_are_as_the_original_writes_them(tmp_path: Path) -> None:
    written_ = output.write(tmp_path / "out", PERSONS, ("us", "pr"), iter([*TOTALS, CELLS]))
    assert written_ == {"t1": 5, "t2": 3}
    found = {
        p.relative_to(tmp_path / "out").as_posix(): p
        for p in (tmp_path / "out").rglob("*")
        if p.is_file()
    }
    assert sorted(found) == [
        "t1.parquet",
        "t1/headers.csv",
        "t1/part-00000-pr.csv",
        "t1/part-00000-us.csv",
        "t2.parquet",
        "t2/headers.csv",
        "t2/part-00000-pr.csv",
        "t2/part-00000-us.csv",
    ]
    text = {
        name: path.read_bytes().decode() for name, path in found.items() if name.endswith("csv")
    }
    assert text["t1/headers.csv"] == "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n"
    assert (
        text["t1/part-00000-us.csv"] == "REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT\n"
        "1|USA|2001|5\n1|USA|3010|-2\n01|STATE|2001|0\n02|STATE|2001|100000000000\n"
    )
    assert text["t1/part-00000-pr.csv"].splitlines()[1:] == ["72031050901|PR-TRACT|2001|7"]
    assert (
        text["t2/part-00000-us.csv"]
        == "REGION_ID|REGION_TYPE|ITERATION_CODE|AGESTART|AGEEND|SEX|COUNT\n"
        "1|USA|2001|*|*|1|5\n1|USA|2001|0|17|1|2\n1|USA|2001|18|115|1|3\n"
    )
    assert text["t2/part-00000-pr.csv"] == text["t2/headers.csv"]


def test_parquet_holds_the_same_rows(tmp_path: Path) -> None:
    output.write(tmp_path / "out", PERSONS, ("us", "pr"), [*TOTALS, CELLS])
    for table in ("t1", "t2"):
        whole = pq.read_table(tmp_path / "out" / f"{table}.parquet")
        assert whole.schema.field("COUNT").type == pa.int64()
        kinds = {n: whole.schema.field(n).type for n in whole.column_names}
        parts = [
            pacsv.read_csv(
                p,
                parse_options=pacsv.ParseOptions(delimiter="|"),
                convert_options=pacsv.ConvertOptions(column_types=kinds),
            )
            for p in sorted((tmp_path / "out" / table).glob("part-*.csv"))
        ]
        text = pa.concat_tables(parts)
        assert sorted(map(str, text.to_pylist())) == sorted(map(str, whole.to_pylist()))


def test_households_have_a_folder_for_each_size(tmp_path: Path) -> None:
    chunk = rows(
        "t3/T03002", "COUNTY", ["01001"] * 2, ["2001"] * 2, [4, 6], T3_DATA_CELL=["1", "6"]
    )
    output.write(tmp_path / "out", HOUSEHOLDS, ("us",), [chunk])
    folders = {
        p.parent.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.csv")
    }
    assert folders == set(output.layouts(HOUSEHOLDS))
    text = (tmp_path / "out" / "t3" / "T03002" / "part-00000-us.csv").read_text()
    assert (
        text
        == "REGION_ID|REGION_TYPE|ITERATION_CODE|T3_DATA_CELL|COUNT\n01001|COUNTY|2001|1|4\n01001|COUNTY|2001|6|6\n"
    )
    assert pq.read_table(tmp_path / "out" / "t4" / "T04002.parquet").num_rows == 0


def test_what_is_written_of_persons_is_read_for_households(tmp_path: Path) -> None:
    output.write(tmp_path / "out", PERSONS, ("us", "pr"), TOTALS)
    t = totals.totals(
        tmp_path / "out" / "t1",
        parameters.read(written(tmp_path / "p", texts(HOUSEHOLDS)), HOUSEHOLDS),
    )
    assert len(t) == 5
    assert t.count["USA"].tolist() == [5, -2]


def test_rows_of_a_seeded_run_say_so(tmp_path: Path) -> None:
    output.write(tmp_path / "out", PERSONS, ("us", "pr"), TOTALS, private=False)
    lines = (tmp_path / "out" / "t1" / "part-00000-us.csv").read_text().splitlines()
    assert lines[0].endswith("|COUNT|NOT PRIVATE")
    assert all(line.endswith("|seeded") for line in lines[1:])
    assert set(pq.read_table(tmp_path / "out" / "t1.parquet")["NOT PRIVATE"].to_pylist()) == {
        "seeded"
    }


WRONG = [
    (rows("t9", "USA", ["1"], ["2001"], [5]), "no table 't9' of persons"),
    (rows("t2", "USA", ["1"], ["2001"], [5]), "rows of USA with the cells none"),
    (rows("t1", "USA", ["1"], ["2001"], [5], SEX=["1"]), "rows of USA with the cells SEX"),
    (rows("t1", "PR-STATE", ["72"], ["2001"], [5]), "of the runs us"),
]


@pytest.mark.parametrize("chunk, says", WRONG)
def test_all_or_nothing(tmp_path: Path, chunk: GroupRows, says: str) -> None:
    output.write(tmp_path / "out", PERSONS, ("us",), [TOTALS[0]])
    before = (tmp_path / "out" / "t1" / "part-00000-us.csv").read_text()
    with pytest.raises(InputError, match=says):
        output.write(tmp_path / "out", PERSONS, ("us",), [TOTALS[2], chunk])
    assert [p.name for p in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out" / "t1" / "part-00000-us.csv").read_text() == before


def test_a_break_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> Iterator[GroupRows]:
        yield TOTALS[0]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        output.write(tmp_path / "out", PERSONS, ("us",), broken())
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_else_is_not_replaced(tmp_path: Path) -> None:
    output.write(tmp_path / "out", PERSONS, ("us",), [])
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="would be replaced"):
        output.write(tmp_path / "out", PERSONS, ("us",), [])
    assert (tmp_path / "out" / "notes.txt").exists()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="would be replaced"):
        output.write(tmp_path / "file", PERSONS, ("us",), [])


def test_rows_check_themselves() -> None:
    with pytest.raises(InputError, match="no type of region"):
        rows("t1", "TOWN", ["1"], ["2001"], [5])
    with pytest.raises(InputError, match="differ in length"):
        rows("t1", "USA", ["1", "1"], ["2001"], [5])
    with pytest.raises(InputError, match="differ in length"):
        rows("t2", "USA", ["1"], ["2001"], [5], SEX=["1", "2"])
