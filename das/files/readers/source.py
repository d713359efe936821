"""Where input bytes come from: a plain file, a gzip file, a zip archive, or a folder of these.

Every reader takes its bytes through :class:`Member`. So every missing, empty, truncated or
encrypted file is reported in one way. The manifest names every file that was read, with its
SHA-256."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from numpy.typing import NDArray

from das.errors import InputError
from das.model.source import Source

#: What is read: a file, an entry of an archive, or what either holds compressed.
Stream = IO[bytes] | gzip.GzipFile
DAMAGED = (zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, EOFError, NotImplementedError)
AGAIN = "fetch the file again, and compare its size with the publisher's"


@dataclass(frozen=True)
class Member:
    """One stream of bytes: the file ``path``, or the entry ``inner`` of the zip archive
    ``path``."""

    path: Path
    inner: str | None = None

    @property
    def name(self) -> str:
        return self.path.name if self.inner is None else f"{self.path.name}/{self.inner}"

    @property
    def base(self) -> str:
        """The file's own name in lower case, without folders and without ``.gz``."""
        return Path(self.inner or self.path.name).name.lower().removesuffix(".gz")

    @contextmanager
    def open(self) -> Iterator[Stream]:
        """The decompressed bytes; damage that shows while the body reads becomes an
        :class:`InputError`."""
        try:
            with self._raw() as stream:
                yield stream
        except DAMAGED as e:
            raise InputError(f"damaged or cut short ({e})", where=self.name, remedy=AGAIN) from None
        except OSError as e:
            raise InputError(f"cannot be read ({e.strerror or e})", where=self.path) from None

    @contextmanager
    def _raw(self) -> Iterator[Stream]:
        if self.inner is None:
            opener = gzip.open if self.path.suffix.lower() == ".gz" else open
            with opener(self.path, "rb") as stream:
                yield stream
            return
        with zipfile.ZipFile(self.path) as archive:
            if archive.getinfo(self.inner).flag_bits & 1:
                raise InputError(
                    "is encrypted", where=self.name, remedy="give the archive without a password"
                )
            with archive.open(self.inner) as entry:
                if self.inner.lower().endswith(".gz"):
                    with gzip.open(entry, "rb") as stream:
                        yield stream
                else:
                    yield entry


def members(path: Path) -> list[Member]:
    """What a path holds, in the order of names: itself, its archive entries, or all that is in the
    folder.

    Raises :class:`InputError` for a path that does not exist, an empty file, or a ``.zip`` that is
    none."""
    if not path.exists():
        raise InputError(
            "no such file or folder",
            where=path,
            remedy="check the path: in the configuration data.path, or on the command line",
        )
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        return [m for p in inside if p.stat().st_size for m in members(p)]
    if path.stat().st_size == 0:
        raise InputError("the file is empty", where=path, remedy=AGAIN)
    if path.suffix.lower() != ".zip":
        _refuse_workbook(path)
        return [Member(path)]
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(i.filename for i in archive.infolist() if not i.is_dir())
    except (zipfile.BadZipFile, UnicodeDecodeError, NotImplementedError) as e:
        raise InputError(f"is not a complete zip archive ({e})", where=path, remedy=AGAIN) from None
    except OSError as e:
        raise InputError(f"cannot be read ({e.strerror or e})", where=path) from None
    return [Member(path, n) for n in names if not Path(n).name.startswith((".", "_"))]


def _refuse_workbook(path: Path) -> None:
    """Raises :class:`InputError` for a workbook, whatever its name is."""
    try:
        with path.open("rb") as stream:
            begin = stream.read(8)
    except OSError as e:
        raise InputError(f"cannot be read ({e.strerror or e})", where=path) from None
    if begin.startswith(b"PK\x03\x04") or begin == b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1":
        raise InputError(
            "is an Excel workbook, or another archive, and not a table of text",
            where=path,
            remedy="in Excel: File, Save As, CSV UTF-8; name that file. An archive must end in .zip",
        )


def by_state(
    paths: Sequence[Path], pattern: re.Pattern[str], expected: str
) -> dict[str, dict[str, Member]]:
    """Group the members of all paths by state and part: ``{"ri": {"geo": ..., "00001": ...}}``.

    ``pattern`` matches the lower-case base name whole, with groups ``state`` and ``part``; other
    members are passed over. Raises where a path holds nothing that matches (``expected`` says what
    would), and where two members claim the same part of one state."""
    found: dict[str, dict[str, Member]] = {}
    for path in paths:
        names = []
        for member in members(Path(path)):
            names.append(member.base)
            if not (match := pattern.fullmatch(member.base)):
                continue
            parts = found.setdefault(match["state"], {})
            if (other := parts.get(match["part"])) is not None:
                raise InputError(
                    f"{other.path / (other.inner or '')} and {member.path / (member.inner or '')}"
                    " are the same part of the same state",
                    where=path,
                    remedy="give each state once",
                )
            parts[match["part"]] = member
        if not any(pattern.fullmatch(n) for n in names):
            shown = ", ".join(names[:5]) or "nothing"
            raise InputError(
                f"holds no {expected}, but {shown}",
                where=path,
                remedy="check data.path and data.reader",
            )
    if not found:
        raise InputError(
            "no input files", where="data.path", remedy=f"name at least one {expected}"
        )
    return dict(sorted(found.items()))


def apart(groups: Mapping[str, Mapping[str, Member]]) -> list[list[Path]]:
    """The files of each state, in the order of the states; all together where two are in one
    archive."""
    of_state = [list(dict.fromkeys(m.path for m in parts.values())) for parts in groups.values()]
    every = [path for paths in of_state for path in paths]
    return of_state if len(set(every)) == len(every) else [list(dict.fromkeys(every))]


def sources(used: Sequence[Member]) -> tuple[Source, ...]:
    """Name, size and SHA-256 of every file that the members come from, each once, in order."""
    return tuple(source_of(path) for path in dict.fromkeys(m.path for m in used))


def source_of(path: Path) -> Source:
    try:
        with path.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
        return Source(path.name, path.stat().st_size, sha256)
    except OSError as e:
        raise InputError(f"cannot be read ({e.strerror or e})", where=path) from None


@dataclass(frozen=True)
class DelimitedFormat:
    """How a delimited file is split. ``columns`` maps every column in order to its type, or to
    ``None`` if it is not needed. ``skip`` lines precede the first record; ``quotes`` says whether
    fields can be quoted; ``encoding`` is that of the text."""

    delimiter: str
    columns: Mapping[str, pa.DataType | None]
    skip: int = 0
    quotes: bool = False
    encoding: str = "utf-8"


def batches(
    member: Member, layout: DelimitedFormat, block_size: int = 1 << 22
) -> Iterator[pa.RecordBatch]:
    """The wanted columns, a batch of records at a time.

    Raises :class:`InputError` with the number of the first line that has another number of fields,
    or a field that is not of its type."""
    wanted = {n: t for n, t in layout.columns.items() if t is not None}
    read = pa.csv.ReadOptions(
        column_names=list(layout.columns),
        skip_rows=layout.skip,
        block_size=block_size,
        encoding=layout.encoding,
    )
    parse = pa.csv.ParseOptions(
        delimiter=layout.delimiter,
        quote_char='"' if layout.quotes else False,
        ignore_empty_lines=False,
    )
    convert = pa.csv.ConvertOptions(
        column_types=wanted, include_columns=list(wanted), null_values=[], strings_can_be_null=False
    )
    try:
        with member.open() as stream, pa.csv.open_csv(stream, read, parse, convert) as reader:
            yield from reader
    except pa.ArrowInvalid as e:  # its words quote the line, which may be a record
        if "Empty CSV" in str(e):
            raise InputError("has no records", where=member.name, remedy=AGAIN) from None
        other = InputError(
            "does not read as delimited text",
            where=member.name,
            remedy="look for a line of another form than the others",
        )
        text = layout.encoding.lower() == "utf-8"
        found = _first_fault(member, layout) or (
            mis_encoded(member, layout.encoding) if text else None
        )
        raise found or other from None
    except UnicodeError as e:
        raise not_in(member, layout.encoding, e) from None


def _first_fault(member: Member, layout: DelimitedFormat) -> InputError | None:
    """The first line that does not fit the layout. Slow, and only for files that failed."""
    names, types, line = list(layout.columns), list(layout.columns.values()), 0
    one_byte = layout.encoding.lower() == "utf-8"  # lines of a text that may be something else
    encoding = "latin-1" if one_byte else layout.encoding
    with member.open() as stream, io.TextIOWrapper(stream, encoding, "replace", newline="") as text:
        dialect = Quoted if layout.quotes else Plain
        try:
            for line, row in enumerate(
                csv.reader(text, dialect, delimiter=layout.delimiter), start=1
            ):
                where = f"{member.name}, line {line}"
                if line <= layout.skip:
                    continue
                if len(row) != len(names):
                    return InputError(
                        f"{len(row)} fields separated by {layout.delimiter!r}, where {len(names)}"
                        " are expected",
                        where=where,
                        remedy=(
                            "the line is cut short, or the file is of another format than"
                            " data.reader says"
                        ),
                    )
                for name, kind, value in zip(names, types, row, strict=True):
                    if (
                        kind is not None
                        and pa.types.is_integer(kind)
                        and not _fits(value, kind.bit_width)
                    ):
                        return InputError(f"{name} is not a whole number as expected", where=where)
        except csv.Error as e:
            return InputError(
                f"is not a delimited text ({e})", where=f"{member.name}, line {line + 1}"
            )
    return None


_SAY = (
    'say which it is: encoding = "latin-1" (also "cp1252", "utf-16", ...) next to the path in the'
    " configuration"
)


def refuse_encoding(member: Member, encoding: str) -> None:
    """Raises :class:`InputError` for a text that begins as UTF-16 does, where another encoding is
    said."""
    with member.open() as stream:
        begin = stream.read(2)
    if begin in (b"\xff\xfe", b"\xfe\xff") and not encoding.lower().replace("_", "-").startswith(
        ("utf-16", "utf16")
    ):
        raise InputError(
            f"is UTF-16, not {encoding}",
            where=member.name,
            remedy='say encoding = "utf-16" next to the path in the configuration',
        )


def not_in(member: Member, encoding: str, error: UnicodeError) -> InputError:
    """For a text whose encoding leaves no line to point at."""
    return InputError(f"is not {encoding} ({error})"[:300], where=member.name, remedy=_SAY)


def mis_encoded(member: Member, encoding: str) -> InputError | None:
    """The first line that is not text of this encoding, which must keep line feeds as they are."""
    with member.open() as stream:
        for number, line in enumerate(stream, start=1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError as e:
                odd = " ".join(f"{b:02x}" for b in line[e.start : e.end])
                return InputError(
                    f"is not {encoding}: the bytes {odd} mean nothing in it",
                    where=f"{member.name}, line {number}",
                    remedy=_SAY,
                )
    return None


def _fits(value: str, bits: int) -> bool:
    whole = re.fullmatch(r"\s*-?0*(\d{1,30})\s*", value)
    return whole is not None and int(whole[1]) < 1 << (bits - 1)


class Quoted(csv.excel):
    """Fields can be in double quotes."""


class Plain(csv.excel):
    """Quotation marks are letters like others."""

    quoting = csv.QUOTE_NONE


def fixed_width(column: pa.Array, width: int, where: str) -> NDArray[np.str_]:
    """An ASCII string column as NumPy strings of ``width`` characters, shorter ones padded with
    blanks."""
    size = pa.compute.max(pa.compute.binary_length(column)).as_py() or 0
    if size > width:
        raise InputError(f"a code of {size} characters, where {width} are expected", where=where)
    padded = pa.compute.ascii_rpad(column, width)
    offset = padded.offset
    raw = np.frombuffer(padded.buffers()[2], np.uint8)[: (offset + len(padded)) * width][
        offset * width :
    ]
    return letters(raw.reshape(len(padded), width))


def letters(code_points: NDArray[np.unsignedinteger]) -> NDArray[np.str_]:
    """Rows of code points (or latin-1 bytes), ``(n, width)``, as strings ``(n,)``, without an
    object for each."""
    return np.ascontiguousarray(code_points.astype(np.uint32, copy=False)).view(
        f"U{code_points.shape[1]}"
    )[:, 0]


def join(*codes: NDArray[np.str_]) -> NDArray[np.str_]:
    """Codes of fixed widths, put one behind the other."""
    return letters(np.concatenate([points(c) for c in codes], axis=1))


def points(codes: NDArray[np.str_]) -> NDArray[np.uint32]:
    """The code points of NumPy strings, shape ``(n, width)``."""
    width = codes.dtype.itemsize // 4
    return np.ascontiguousarray(codes).view(np.uint32).reshape(len(codes), width)


def are_digits(codes: NDArray[np.str_]) -> NDArray[np.bool_]:
    """Which codes are digits over their whole width."""
    p = points(codes)
    return np.asarray(((p >= ord("0")) & (p <= ord("9"))).all(axis=1))


def as_integers(codes: NDArray[np.str_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Values of right-justified decimal fields padded with blanks or zeros, and which of them are
    sound."""
    p = points(codes).astype(np.int64)
    digit = (p >= ord("0")) & (p <= ord("9"))
    sound = (
        (digit | (p == ord(" "))).all(axis=1)
        & digit[:, -1]
        & (np.diff(digit.astype(np.int8), axis=1) >= 0).all(1)
    )
    value = np.where(digit, p - ord("0"), 0) @ (10 ** np.arange(p.shape[1] - 1, -1, -1))
    return value, sound
