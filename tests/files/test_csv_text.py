"""No text of a CSV file is run by a spreadsheet, and every text comes back from it."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.files import csv_text, rows_csv
from das.files.release import table_export, tables
from das.model.error_rows import ErrorRow
from das.model.histogram import Histogram
from das.model.names import encoded
from das.model.redistricting import PL94
from das.release.dictionary import DictionaryLine, written
from das.tables import published
from tests.commands import Commands
from tests.worlds import Worlds

ATTACKS = [
    "=1+1",
    '=HYPERLINK("http://x"&A1,"y")',
    "+1",
    "-1+2",
    "-cmd|' /C calc'!A0",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    " =1",
    "'=1",
    "''=1",
    "\u202egnp.exe",
    "a\u2066b\u2069",
    "\x1b[2J",
    "\uff1d1",
    "\ufeff=1",
    "\\u003d1",
    "\\\\u202e",
    "a;=1",
    "a;+1",
    "a; -1",
    'a;"=1',
    "a;'@b",
]
HARMLESS = [
    "",
    "=",
    "-",
    ">=",
    "-5",
    "-0.5",
    "-1e-10",
    "-1/2",
    "5",
    "a=b",
    "a-b",
    "'t Hoog",
    "L'Aquila",
    "\\unit",
    "Ñuñoa",
    "a b",
    "a;b",
    "a; b=1",
    "नेपाल\u200d",
]
TEXTS = st.text(
    st.one_of(
        st.sampled_from("=+-@;' \\u0af12\t\r\n\u202e\u2066\x00,\"|"), st.characters(codec="utf-8")
    ),
    max_size=12,
)


def is_harmless(text: str) -> bool:
    """Said otherwise than in the code: nothing that is not shown, and what a spreadsheet reads
    first is no sign.
    """
    if any(
        unicodedata.category(c) == "Cc"
        or unicodedata.bidirectional(c)
        in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
        for c in text
    ):
        return False
    first = unicodedata.normalize("NFKC", text.lstrip(" \u00a0"))[:1]
    if not first or first not in "=+-@" or len(text.lstrip(" \u00a0")) == 1:
        return True
    return bool(
        re.fullmatch(r"-[0-9.]+(e[+-]?[0-9]+)?(/[0-9]+)?", text.strip(" \u00a0"), re.IGNORECASE)
    )


@given(TEXTS)
def test_every_text_is_harmless_and_comes_back(text: str) -> None:
    shown = csv_text.safe(text)
    assert is_harmless(shown), shown
    assert csv_text.plain(shown) == text


@given(TEXTS)
def test_no_part_of_a_text_is_run_where_a_semicolon_ends_a_cell(text: str) -> None:
    """Spreadsheets of half the world cut the line of a comma file there, and mind no quote that
    does not begin a cell.
    """
    line = io.StringIO()
    csv_text.write_rows(line, [["a", text, 5]])
    assert not any(
        cell.lstrip("\"' \u00a0")[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20")
        for cell in line.getvalue().split(";")[1:]
    )


@pytest.mark.parametrize("text", ATTACKS)
def test_attacks_are_changed(text: str) -> None:
    assert not is_harmless(text) or re.search("[\ufeff';]|u[0-9a-f]{4}", text)
    assert csv_text.safe(text) != text


@pytest.mark.parametrize("text", HARMLESS)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert csv_text.safe(text) == text


@given(st.lists(TEXTS.filter(lambda t: '"' not in t), min_size=1, max_size=5))
def test_both_writers_write_the_same(texts: list[str]) -> None:
    """Of Arrow's columns, also of codes of texts; and of rows."""
    rows, plain, coded = io.StringIO(), io.BytesIO(), io.BytesIO()
    csv_text.write_rows(rows, [[t, -5] for t in texts])
    options = pacsv.WriteOptions(include_header=False, quoting_style="needed")
    column, number = pa.chunked_array([pa.array(texts)]), pa.array([-5] * len(texts))
    csv_text.write_table(pa.table([column, number], names=["a", "b"]), plain, options)
    csv_text.write_table(
        pa.table([column.dictionary_encode(), number], names=["a", "b"]), coded, options
    )
    assert plain.getvalue() == coded.getvalue()
    found = [
        list(csv.reader(io.StringIO(f.decode("utf-8"), newline="")))
        for f in (rows.getvalue().encode(), plain.getvalue())
    ]
    assert found[0] == found[1] == [[csv_text.safe(t), "-5"] for t in texts]
    assert (
        csv_text.read_column(pa.chunked_array([[csv_text.safe(t) for t in texts]])).to_pylist()
        == texts
    )


# --- the files
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ATTACKS)
def test_tables_and_what_is_exported_of_them(tmp_path: Path, text: str) -> None:
    code, table = (
        np.char.add(text.replace('"', "").replace(",", ""), ["a", "b"]),
        published(PL94)[0],
    )
    h = Histogram.from_triplets(2, PL94.cells, np.array([0, 1]), np.array([3, 5]), np.array([4, 2]))
    names = {tables.NAME: encoded(np.array([text, f"{text} 2"]))}
    (path,) = tables.write(tmp_path / "tables", "Place", encoded(code), [table], h, beside=names)
    shown = pd.read_csv(path, dtype=str, keep_default_na=False)
    assert all(map(is_harmless, [*shown["GEOCODE"], *shown["NAME"]]))
    assert [csv_text.plain(x) for x in shown["NAME"]] == [text, f"{text} 2"]
    assert tables.read(path).codes.tolist() == encoded(code).tolist()
    parts = [
        p.append_column(tables.NAME, pa.array([text] * 2))
        for p in table_export.rows(tmp_path, table, "Place", lambda _: None)
    ]
    assert [c for p in parts for c in p["GEOCODE"].to_pylist()] == code.tolist()
    out = io.BytesIO()
    table_export.write(iter(parts), table, "Place", "csv", "both", out)
    again = pd.read_csv(io.BytesIO(out.getvalue()), dtype=str, keep_default_na=False)
    assert all(map(is_harmless, [*again.columns, *again["GEOCODE"], *again["NAME"]]))


@pytest.mark.parametrize("text", ATTACKS)
def test_rows_and_dictionaries(tmp_path: Path, text: str) -> None:
    row = ErrorRow(text, text, "nmf", "all", 1, 1.0, 1.0, -1.0, 0.0, 0.0, 0.0, None)
    path = rows_csv.write_rows(tmp_path / "e.csv", ErrorRow, [row])
    assert rows_csv.read_rows(path, ErrorRow, "errors") == [row]
    shown = [
        path.read_text(encoding="utf-8"),
        written([DictionaryLine(text, "level", "", "x", text, text)], True),
    ]
    for lines in (list(csv.reader(io.StringIO(x, newline=""))) for x in shown):
        assert all(is_harmless(cell) for line in lines for cell in line)


def test_the_dictionary_says_how_it_is_undone(worlds: Worlds, commands: Commands) -> None:
    run = worlds.run("run.seed=1", data="one thousand")
    lines = pd.read_csv(run / "release" / "dictionary.csv", dtype=str, keep_default_na=False)
    (said,) = lines[(lines.kind == "file") & (lines.file == "dictionary.csv")].label
    assert csv_text.SAYS in said
    code, out, _ = commands.named("nmf")("show", run, "--level", "State", "--query", "total")
    assert code == 0
    shown = pd.read_csv(io.StringIO(out), dtype=str, keep_default_na=False)
    assert all(is_harmless(cell) for column in shown for cell in shown[column])


def test_nobody_else_writes_a_csv_file(root: Path) -> None:
    """But simulators, which write the formats of others."""
    writes = re.compile(r"\bcsv\.(writer|DictWriter)\(|\.write_csv\(|\.to_csv\(")
    found = {
        p.relative_to(root).as_posix()
        for p in (root / "das").rglob("*.py")
        if writes.search(p.read_text(encoding="utf-8"))
    }
    assert found == {"das/files/csv_text.py", "das/files/simulators/people.py"}
