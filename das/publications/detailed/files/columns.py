"""Large delimited texts, a batch of lines at a time, each column as numbers.

A column whose values are all of one width, and sound, is read digit by digit, all lines at once. Of
any other the distinct values are judged. Which line a fault is on is looked for only where there is
one. What a file may look like is said in
:mod:`das.files.delimited`; it may be compressed (``.gz``)."""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from das.files import codes as texts
from das.files import csv_text as numbers
from das.files.delimited import DELIMITER, Faults, misnamed
from das.model.names import Codes, characters, of_characters

#: Bytes of text that are read at a time.
BLOCK = 1 << 23
#: Characters of a value that are looked at: no sound one is longer.
LONGEST_VALUE = 40
DAMAGED = (OSError, EOFError, zlib.error)


@dataclass(frozen=True, eq=False)
class Field:
    """A column: its ``name``, how its values become numbers, and the ``kind`` of numbers that the
    caller wants (``None``: the column is only checked).

    ``number`` gives a number for each of some distinct values; -1 - k means that ``refusals[k]``
    forbids the value.

    ``tidy`` does the same for values that all have ``width`` characters, given as bytes
    ``(n, width)``. It returns ``None`` if one of them is not allowed."""

    name: str
    number: Callable[[Codes], NDArray[np.int64]]
    refusals: tuple[str, ...]
    kind: type[np.signedinteger[Any]] | None = np.int64
    width: int = 0
    tidy: Callable[[NDArray[np.uint8]], NDArray[np.signedinteger[Any]] | None] | None = None

    def numbers(self, column: pa.BinaryArray) -> NDArray[np.signedinteger[Any]] | None:
        """The numbers of a column that is sound and of one width."""
        if self.tidy is None or (rows := _rows(column, self.width)) is None:
            return None
        return self.tidy(rows)

    def distinct(self, values: pa.BinaryArray) -> tuple[Codes, NDArray[np.int64]]:
        """Some values without the blanks behind them, and their numbers."""
        if (pc.max(pc.binary_length(values)).as_py() or 0) > LONGEST_VALUE:
            values = pc.binary_slice(values, 0, LONGEST_VALUE)
        given = np.strings.rstrip(texts.codes(values))
        return given, self.number(given)


def _rows(column: pa.BinaryArray, width: int) -> NDArray[np.uint8] | None:
    """The bytes of values, if all are of this width."""
    _, offsets, data = column.buffers()
    end = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    if not len(column) or end[-1] - end[0] != width * len(column) or (np.diff(end) != width).any():
        return None
    return np.frombuffer(data, np.uint8)[end[0] : end[-1]].reshape(len(column), width)


@dataclass(frozen=True, eq=False)
class LinesRead:
    """The sound lines of a batch: which ``record`` of the file each is, from 0, and the ``values``
    of its columns."""

    record: NDArray[np.int64]
    values: Mapping[str, NDArray[np.signedinteger[Any]]]

    def __len__(self) -> int:
        return len(self.record)

    def where(self, mask: NDArray[np.bool_]) -> LinesRead:
        return LinesRead(
            self.record[mask], {name: column[mask] for name, column in self.values.items()}
        )


@dataclass
class _Noted:
    """A kind of fault: the first record that has it, the message for that record, and the number of
    records."""

    record: int
    what: str
    times: int = 0


@dataclass
class Reading:
    """One file, read once. ``others``: the file can have more columns, in any order.

    A context that collects faults, including those that callers of :meth:`batches` find. At its end
    it reports the first line and the number of each kind of fault."""

    path: Path
    fields: Sequence[Field]
    faults: Faults
    others: bool = False
    _noted: dict[str, _Noted] = field(default_factory=dict)
    _cut: int = 0
    _names: tuple[str, ...] = ()

    def note(self, kind: str, what: str, records: NDArray[np.int64]) -> None:
        """Some records have a fault; ``what`` is the message for the first."""
        if len(records):
            self._noted.setdefault(kind, _Noted(int(records[0]), what)).times += len(records)

    @property
    def sound(self) -> bool:
        """Whether there is no fault so far, in this file or another."""
        return not (self._noted or self._cut or len(self.faults))

    def __enter__(self) -> Reading:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._tell()

    def batches(self) -> Iterator[LinesRead]:
        try:
            self._read_names()
            first = 0
            for batch in self._arrow() if self._names else ():
                yield self._lines(batch, first)
                first += len(batch)
        except DAMAGED as error:
            self.faults.add(self.path.name, None, f"is not there, or cannot be read ({error})")

    def _read_names(self) -> None:
        """The columns, if they are as expected."""
        with _opened(self.path) as stream:
            raw = stream.readline(1 << 20)
        if not raw.strip() or b"\0" in raw:
            self.faults.add(
                self.path.name,
                None if not raw.strip() else 1,
                "is not UTF-8" if raw.strip() else "is empty",
            )
            return
        if b"\r" in raw.rstrip(b"\r\n"):
            self.faults.add(
                self.path.name,
                1,
                "ends in CR alone, as all lines do: a line ends in LF, or in CR LF",
            )
            return
        first = raw.decode("utf-8-sig", "replace")
        names = [n.strip() for n in first.split(DELIMITER)]
        wrong = list(misnamed(names, [f.name for f in self.fields], others=self.others))
        for what in wrong:
            self.faults.add(self.path.name, 1, what)
        self._names = () if wrong else tuple(names)

    def _arrow(self) -> Iterator[pa.RecordBatch]:
        """Batches of the wanted columns, as bytes."""
        wanted, positions = {f.name for f in self.fields}, [str(i) for i in range(len(self._names))]
        chosen = {str(i): pa.binary() for i, n in enumerate(self._names) if n in wanted}
        read = pacsv.ReadOptions(column_names=positions, skip_rows=1, block_size=BLOCK)
        parse = pacsv.ParseOptions(
            delimiter=DELIMITER, quote_char=False, invalid_row_handler=self._malformed
        )
        convert = pacsv.ConvertOptions(
            column_types=chosen,
            include_columns=list(chosen),
            null_values=[],
            strings_can_be_null=False,
            check_utf8=False,
        )
        try:
            with _undecoded(self), pacsv.open_csv(self.path, read, parse, convert) as reader:
                for batch in reader:
                    yield batch.rename_columns([self._names[int(p)] for p in chosen])
        except pa.ArrowInvalid as error:
            if "Expected" in str(
                error
            ):  # a row that was not handed to _malformed: its line is found as that of others
                self._cut += 1
            elif not any(
                nothing in str(error) for nothing in ("Empty CSV", "Could not skip")
            ):  # but the first line
                self.faults.add(self.path.name, None, "does not read as delimited text")

    def _malformed(self, row: Any) -> str:
        self._cut += bool(row.text.strip())
        return "skip"

    def _lines(self, batch: pa.RecordBatch, first: int) -> LinesRead:
        values: dict[str, NDArray[np.signedinteger[Any]]] = {}
        sound = np.ones(len(batch), dtype=bool)
        for f in self.fields:
            column = batch.column(f.name)
            if (tidy := f.numbers(column)) is None:
                encoded = column.dictionary_encode()
                _, number = f.distinct(encoded.dictionary)
                tidy = number[numbers.array(encoded.indices)]
                for k, refusal in enumerate(f.refusals if number.min(initial=0) < 0 else ()):
                    bad = np.flatnonzero(tidy == -1 - k)
                    sound[bad] = False
                    if len(bad):
                        self.note(f"{f.name} {k}", f"{f.name} is {refusal}", first + bad)
            if f.kind is not None:
                values[f.name] = tidy.astype(f.kind, copy=False)
        lines = LinesRead(np.arange(first, first + len(batch)), values)
        return lines if sound.all() else lines.where(sound)

    def _tell(self) -> None:
        """Find the lines of the noted faults."""
        if not self._noted and not self._cut:
            return
        line, cut = self._lines_of({n.record for n in self._noted.values()})
        if self._cut:
            at, has = cut or (None, "another number of")
            what = f"has {has} fields, where {len(self._names)} are expected"
            self.faults.add(self.path.name, at, what + _more(self._cut))
        for n in sorted(self._noted.values(), key=lambda n: n.record):
            self.faults.add(self.path.name, line.get(n.record), n.what + _more(n.times))

    def _lines_of(self, records: set[int]) -> tuple[dict[int, int], tuple[int, str] | None]:
        """The lines of records, and the first line with another number of fields, and its
        number."""
        out: dict[int, int] = {}
        cut, record = None, 0
        with _opened(self.path) as stream:
            for line, raw in enumerate(stream, start=1):
                if line == 1 or not raw.strip():
                    continue
                if (has := raw.count(DELIMITER.encode()) + 1) != len(self._names):
                    cut = cut or (line, str(has))
                    continue
                if record in records:
                    out[record] = line
                record += 1
                if len(out) == len(records) and (cut or not self._cut):
                    break
        return out, cut


@contextmanager
def _undecoded(reading: Reading) -> Iterator[None]:
    """Keep Python from printing a decoding failure that the reading already handles.

    pyarrow decodes a row with a wrong number of fields before it hands the row over. Where the row
    is not UTF-8, the reading ends there, as it should."""
    before = sys.unraisablehook

    def hook(said: sys.UnraisableHookArgs) -> None:
        if not (
            said.object == reading._malformed and isinstance(said.exc_value, UnicodeDecodeError)
        ):
            before(said)

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before


def _opened(path: Path) -> Any:
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError("it is no file")
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def _more(times: int) -> str:
    return f" (and {times - 1:,} more such lines)" if times > 1 else ""


# --- columns


def whole(values: Codes, width: int = 15) -> NDArray[np.int64]:
    """The numbers that values of 1 to ``width`` digits are, -1 for others."""
    rows = characters(values)
    if rows.shape[1] > width:
        longer = rows[:, width:].any(axis=1)
        rows = rows[:, :width]
    else:
        longer = np.zeros(len(rows), dtype=bool)
    digit = (rows >= ord("0")) & (rows <= ord("9"))
    out = np.zeros(len(rows), dtype=np.int64)
    for column, is_digit in zip(rows.T, digit.T, strict=True):
        out = np.where(is_digit, out * 10 + column - ord("0"), out)
    gone = (rows[:, :-1] == 0) & (rows[:, 1:] != 0)  # nothing follows the end of a text
    return np.where(
        (digit | (rows == 0)).all(axis=1) & digit[:, 0] & ~longer & ~gone.any(axis=1), out, -1
    )


def decimal(rows: NDArray[np.uint8], low: int, high: int) -> NDArray[np.signedinteger[Any]] | None:
    """The numbers whose digits are the rows, if all are digits, and all numbers in these bounds."""
    digit = rows - np.uint8(ord("0"))
    if digit.max(initial=0) > 9:
        return None
    out: NDArray[np.signedinteger[Any]] = (
        digit[:, 0].astype(np.int64) if digit.shape[1] > 9 else digit[:, 0].astype(np.int32)
    )
    for place in range(1, digit.shape[1]):
        out *= 10
        out += digit[:, place]
    return out if low <= out.min(initial=low) and out.max(initial=high) <= high else None


def digits(
    name: str,
    width: int,
    low: int = 0,
    high: int | None = None,
    *,
    kind: type[np.signedinteger[Any]] | None = np.int64,
) -> Field:
    """A column of ``width`` digits that make a number from ``low`` to ``high``."""
    most = 10**width - 1 if high is None else high

    def number(values: Codes) -> NDArray[np.int64]:
        n = whole(values, width)
        return np.where((np.strings.str_len(values) == width) & (n >= low) & (n <= most), n, -1)

    bounds = f" from {low:0{width}} to {most:0{width}}" if low or high is not None else ""
    return Field(
        name,
        number,
        (f"not {width} digits{bounds}",),
        kind,
        width,
        lambda rows: decimal(rows, low, most),
    )


def choice(
    name: str, allowed: Sequence[str], *, kind: type[np.signedinteger[Any]] | None = np.int8
) -> Field:
    """A column of one of some words, as the place of each."""
    known = {word.encode(): i for i, word in enumerate(allowed)}
    refusals = (f"not {', '.join(allowed[:-1])} or {allowed[-1]}",)

    def number(values: Codes) -> NDArray[np.int64]:
        return np.array([known.get(v, -1) for v in values.tolist()], dtype=np.int64)

    if max(map(len, known)) > 1:
        return Field(name, number, refusals, kind)
    place = np.full(256, -1, dtype=np.int8)
    place[[ord(word) for word in known]] = list(known.values())

    def tidy(rows: NDArray[np.uint8]) -> NDArray[np.int8] | None:
        out = place[rows[:, 0]]
        return out if out.min(initial=0) >= 0 else None

    return Field(name, number, refusals, kind, 1, tidy)


def written(numbers: NDArray[np.int64], width: int) -> Codes:
    """Numbers as codes of ``width`` digits."""
    out = np.empty((len(numbers), width), dtype=np.uint8)
    rest = numbers
    for place in range(width - 1, -1, -1):
        rest, out[:, place] = np.divmod(rest, 10)
    out += ord("0")
    return of_characters(out)
