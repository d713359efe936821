"""Texts in CSV files, and the one way to write such a file. It makes harmless what a spreadsheet
would run or a terminal would obey.

A spreadsheet takes a cell that begins with ``=``, ``+``, ``-`` or ``@`` for a formula. A formula
can send its neighbors to somebody else. A direction mark makes a reader see a different name from
the one in the file. Names of places and labels come from input, so they cannot be trusted. Numbers
are not texts and stay unchanged. So does a text that is a negative number, or a sign alone, such as
the relation of a constraint.

There are two rules. Readers call :func:`plain`, which undoes both, so every text comes back
unchanged:

1. Control characters, marks that change the direction of text, and line ends become ``\\uXXXX``. So
   does the backslash of a text that looks like one of these, and a semicolon before what looks like
   a formula. The reason for semicolons: where the comma is the decimal sign, a spreadsheet splits
   lines at them, even within quotes.
2. A text that begins like a formula, after any spaces and apostrophes, gets an apostrophe before
   it. Call these texts S. An apostrophe before a text of S gives a text of S, and no text outside
   of S is changed. So taking one apostrophe from a text of S that begins with one undoes the rule,
   and changes nothing else."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

#: For the dictionary of a release.
SAYS = (
    "in every CSV file a text that a spreadsheet would take for a formula has an apostrophe before"
    " it; a control character, a direction mark, or a semicolon before such a text is written as a"
    " backslash, u and four hexadecimal digits; undo both to get the text"
)
#: C0, delete and C1; Arabic letter mark, LRM and RLM, line and paragraph separators, embeddings,
#: overrides, isolates; BOM.
_MARKS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
_CODE = r"\\u[0-9a-f]{4}"
_LEAD, _SIGNS = "[' \u00a0]*", "=+@\uff1d\uff0b\uff0d\uff20"
#: A semicolon ends a cell where the comma is the decimal sign, whatever quotes are around it; what
#: follows must not begin a formula.
_ENDS = rf';(?=["{_LEAD[1:]}[{_SIGNS}-])'
_HIDDEN = re.compile(rf"[{_MARKS}]|\\(?=u[0-9a-f]{{4}})|{_ENDS}")
_NUMBER = r"-(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?(?:/[0-9]+)?\Z"
_FORMULA = re.compile(rf"{_LEAD}(?:[{_SIGNS}]|(?!{_NUMBER})-).")
#: Finds every text that is changed, in Arrow's dialect, and some that are not.
_PERHAPS = rf'[{_MARKS}]|{_CODE}|^{_LEAD}[{_SIGNS}-]|;["{_LEAD[1:]}[{_SIGNS}-]'
#: By byte, whether it can be in a match of that.
_SUSPECT = np.isin(np.arange(256), [*range(0x20), *b"\\=+@-;", *range(0x7F, 0x100)])


@lru_cache(maxsize=4096)  # most cells say what those above them do
def safe(text: str) -> str:
    """A text as a CSV file has it.

    >>> safe("=1+1"), safe("-5"), safe("-a"), safe("'t Hoog"), safe("a\\tb")
    ("'=1+1", '-5', "'-a", "'t Hoog", 'a\\\\u0009b')"""
    shown = _HIDDEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return f"'{shown}" if _FORMULA.match(shown) else shown


def plain(text: str) -> str:
    """The text that :func:`safe` has written.

    >>> all(
    ...     plain(safe(text)) == text
    ...     for text in ("=1", "'=1", "-5", "-a", "a\\tb", "\\\\u0009", "")
    ... )
    True"""
    shown = text[1:] if text.startswith("'") and _FORMULA.match(text) else text
    return re.sub(_CODE, lambda found: chr(int(found[0][2:], 16)), shown)


def write_rows(file: IO[str], rows: Iterable[Sequence[object]]) -> None:
    """Lines of texts, numbers and empty fields, to a file that was opened with ``newline=""``."""
    lines = csv.writer(file, lineterminator="\n")
    lines.writerows([safe(v) if isinstance(v, str) else v for v in row] for row in rows)


def write_table(table: pa.Table, file: Any, options: pacsv.WriteOptions) -> None:
    """Write Arrow columns as CSV, with the same rules."""
    for i, kind in enumerate(table.schema.types):
        if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
            table = table.set_column(i, table.schema.names[i], _safe(table.column(i)))
    pacsv.write_csv(table, file, options)


def read_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The texts of a column that was read."""
    return _changed(column, plain)


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if not pa.types.is_string(column.type) or not any(map(_is_suspect, column.chunks)):
        return column
    return _changed(column, safe)


def _is_suspect(part: pa.StringArray) -> bool:
    """Whether a character is in it without which no text is changed. Names and codes of places
    rarely have one."""
    _, offsets, data = part.buffers()
    if data is None or not len(part):
        return False
    end = np.frombuffer(offsets, np.int32)[part.offset : part.offset + len(part) + 1]
    return bool(_SUSPECT[np.frombuffer(data, np.uint8)[end[0] : end[-1]]].any())


def _changed(column: pa.ChunkedArray, by: Any) -> pa.ChunkedArray:
    """Most columns have no such text, which is found out quickly."""
    if not pc.any(pc.match_substring_regex(column, _PERHAPS)).as_py():
        return column
    return pa.chunked_array(
        [[None if v is None else by(v) for v in part.to_pylist()] for part in column.chunks],
        pa.string(),
    )


# Numbers as Arrow has them, by their buffers: the same memory, not copied.
#
# ``pyarrow.array`` asks whether what it is given is a frame's column, and loads pandas to ask: a
# sixth of a second, and thirty megabytes, of a command that has no frames.


def column(values: NDArray[Any], there: NDArray[np.bool_] | None = None) -> pa.Array:
    """A column of ``values``, integers or floats; those that are not ``there`` are null."""
    if values.ndim != 1 or values.dtype.kind not in "iuf":
        raise TypeError(
            f"an array of {values.dtype} and shape {values.shape} is no column of numbers"
        )
    held = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
    kind = pa.from_numpy_dtype(values.dtype)
    return pa.Array.from_buffers(
        kind, len(values), [held, pa.py_buffer(np.ascontiguousarray(values))]
    )


def mask(chosen: NDArray[np.bool_]) -> pa.BooleanArray:
    """Which rows are chosen, for a filter."""
    bits = pa.py_buffer(np.packbits(chosen, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(chosen), [None, bits])


def lists(ends: NDArray[np.int64], values: NDArray[Any]) -> pa.LargeListArray:
    """A list for each but the first of ``ends``: the ``values`` from the one before up to it."""
    return pa.LargeListArray.from_arrays(column(ends), column(values))


def integers(given: pa.Array | pa.ChunkedArray, absent: int | None = None) -> NDArray[np.int64]:
    """:func:`array` of whole numbers. Raises ``ValueError`` for others."""
    if not pa.types.is_integer(given.type) or given.type == pa.uint64():
        raise ValueError(f"a column of {given.type} is none of whole numbers")
    return array(given, absent).astype(np.int64)


def array(given: pa.Array | pa.ChunkedArray, absent: int | None = None) -> NDArray[Any]:
    """The numbers of a column, from the same memory unless some are ``absent``. Raises
    ``ValueError`` where one is null that may not be, and for other columns."""
    if isinstance(given, pa.ChunkedArray):
        parts = [array(part, absent) for part in given.chunks]
        return (
            parts[0]
            if len(parts) == 1
            else np.concatenate([np.zeros(0, given.type.to_pandas_dtype()), *parts])
        )
    if not (pa.types.is_integer(given.type) or pa.types.is_floating(given.type)):
        raise ValueError(f"a column of {given.type} is none of numbers")
    if given.null_count and absent is None:
        raise ValueError("a number is missing")
    kind = np.dtype(given.type.to_pandas_dtype())
    values = np.frombuffer(given.buffers()[1] or b"", kind)[
        given.offset : given.offset + len(given)
    ]
    return np.where(there(given), values, kind.type(absent)) if given.null_count else values


def there(given: pa.Array) -> NDArray[np.bool_]:
    """Which values are not null."""
    held = given.buffers()[0]
    if held is None:
        return np.full(len(given), given.null_count == 0)
    bits = np.unpackbits(np.frombuffer(held, np.uint8), bitorder="little")
    return bits[given.offset : given.offset + len(given)].astype(bool)
