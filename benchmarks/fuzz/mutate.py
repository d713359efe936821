"""How input is altered: bytes, lines, trees of values, columns and rows. Each takes its randomness
as an argument.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from random import Random
from typing import Any, cast

import pyarrow as pa

Key = str | int

#: What parsers stumble over.
WORDS = (
    "",
    " ",
    "0",
    "-1",
    "1/0",
    "1e-10",
    "1e400",
    "1e999999",
    "nan",
    "inf",
    "null",
    "true",
    "*",
    "detailed",
    "total",
    "total * total",
    "das:cell",
    "das:count",
    "__proto__",
    "..",
    "/",
    "\0",
    "\x1b[2J",
    "\ufeff",
    "\u202e",
    "é",
    "漢字",
    "😀",
    "'",
    '"',
    "\\",
    "\r",
    "\n",
    "\r\n",
    "\t",
    ",",
    "|",
    ";",
    "#",
    "=",
    "[",
    "]",
    "{",
    "}",
    "%s",
    "{0}",
    "${x}",
    "9" * 5000,
    "1" * 400,
    "a" * 140_000,
    "18446744073709551616",
    "-9223372036854775809",
    "0x10",
    "1_000",
    "١٢",
    "1/3",
    "104/4099",
)
VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    -(2**63) - 1,
    10**400,
    0.0,
    -0.5,
    0.1,
    1e300,
    5e-324,
    float("inf"),
    float("nan"),
    "",
    "a",
    [],
    [1],
    ["a", None],
    [[]],
    {},
    {"a": 1},
    {"": []},
)


def altered(data: bytes, rng: Random) -> bytes:
    """One to three changes of bytes or of lines."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        data = rng.choice(BYTES)(data, rng)
    return data


def _flip(data: bytes, rng: Random) -> bytes:
    if not data:
        return data
    out = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def _cut(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _slice(data: bytes, rng: Random) -> tuple[int, int]:
    a = rng.randrange(len(data) + 1)
    return a, min(len(data), a + rng.choice((1, 2, 8, 64, 1000)))


def _lost(data: bytes, rng: Random) -> bytes:
    a, b = _slice(data, rng)
    return data[:a] + data[b:]


def _twice(data: bytes, rng: Random) -> bytes:
    a, b = _slice(data, rng)
    return data[:b] + data[a:b] + data[b:]


def _inserted(data: bytes, rng: Random) -> bytes:
    a = rng.randrange(len(data) + 1)
    return data[:a] + rng.choice(WORDS).encode("utf-8", "surrogatepass") + data[a:]


def _random(data: bytes, rng: Random) -> bytes:
    a, b = _slice(data, rng)
    return data[:a] + rng.randbytes(b - a) + data[b:]


def _lines(data: bytes, rng: Random) -> bytes:
    lines = data.split(b"\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(5):
        case 0:
            lines[i], lines[j] = lines[j], lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            del lines[i]
        case 3:
            lines = lines[:i] if i else lines
        case _:
            return data.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\n\n", b"")))
    return b"\n".join(lines)


def _field(data: bytes, rng: Random) -> bytes:
    """A field of a line, by whatever separates there."""
    lines = data.split(b"\n")
    i = rng.randrange(len(lines))
    mark = next((m for m in (b"|", b",", b"=", b" ") if m in lines[i]), b",")
    fields = lines[i].split(mark)
    k = rng.randrange(len(fields))
    if rng.random() < 0.7:
        fields[k] = rng.choice(WORDS).encode("utf-8", "surrogatepass")
    else:
        fields[k] = rng.choice(fields)
    lines[i] = mark.join(fields)
    return b"\n".join(lines)


BYTES: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flip,
    _flip,
    _cut,
    _lost,
    _twice,
    _inserted,
    _random,
    _lines,
    _lines,
    _field,
    _field,
    _field,
)


# --- trees
# -------------------------------------------------------------------------------------------------------


def tree(value: Any, rng: Random) -> Any:
    """A copy of nested dictionaries and lists with one or two changes."""
    value = copy.deepcopy(value)
    for _ in range(rng.choice((1, 1, 2))):
        places = list(_places(value))
        if places:
            _change(*rng.choice(places), places, rng)
    return value


def _places(value: Any) -> Iterator[tuple[Any, Key]]:
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else ()
    )
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _change(node: Any, key: Key, places: list[tuple[Any, Key]], rng: Random) -> None:
    other, at = rng.choice(places)
    match rng.randrange(7):
        case 0:
            del node[key]
        case 1:
            node[key] = rng.choice(VALUES)
        case 2:
            node[key] = rng.choice(WORDS)
        case 3 if isinstance(node, dict):
            node[rng.choice(WORDS)[:300]] = node.pop(key)
        case 4 if isinstance(node, list):
            node.insert(rng.randrange(len(node) + 1), copy.deepcopy(cast(Any, node)[key]))
        case 5:
            node[key] = copy.deepcopy(other[at])
        case _:
            node[key] = _near(node[key], rng)


def _near(value: Any, rng: Random) -> Any:
    """Another value of the kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return rng.choice(
            (
                value + 1,
                -value,
                value * 2,
                value * (1 + 2**-50) if abs(value) < 1e300 else 0,
                str(value),
            )
        )
    if isinstance(value, str):
        a = rng.randrange(len(value) + 1)
        return rng.choice(
            (
                value[:a],
                value + value,
                value[:a] + rng.choice(WORDS)[:50] + value[a:],
                value.upper(),
            )
        )
    return {"a": value} if rng.random() < 0.5 else [value]


# --- tables
# ------------------------------------------------------------------------------------------------------


def table(value: pa.Table, rng: Random) -> pa.Table:
    """A table with another column, or other rows."""
    i, n = rng.randrange(value.num_columns), value.num_rows
    name, column = value.column_names[i], value.column(i)
    match rng.randrange(11):
        case 0:
            return value.drop_columns([name])
        case 1:
            return value.rename_columns(
                [rng.choice(WORDS)[:99] if k == i else c for k, c in enumerate(value.column_names)]
            )
        case 2:
            return value.set_column(i, name, pa.nulls(n, column.type))
        case 3:
            return value.set_column(i, name, pa.array([rng.choice(VALUES[1:4])] * n))
        case 4:
            return value.set_column(
                i, name, pa.array([rng.choice(WORDS)[:2000].replace("\ud800", "")] * n)
            )
        case 5:
            rows = column.to_pylist()
            if rows:
                rows[rng.randrange(n)] = None
            return value.set_column(i, name, pa.array(rows, column.type))
        case 6:
            return value.append_column(rng.choice(("extra", name)), column)
        case 7:
            return pa.concat_tables([value, value.slice(rng.randrange(n + 1), rng.choice((1, n)))])
        case 8:
            return value.slice(rng.randrange(n + 1))
        case 9:
            order = list(range(n))
            rng.shuffle(order)
            return value.take(pa.array(order, pa.int64()))
        case _:
            return value.set_column(i, name, _other(column, rng))


def _other(column: pa.ChunkedArray, rng: Random) -> pa.Array:
    """One value of the column as another of its kind."""
    rows, kind = column.to_pylist(), column.type
    if rows:
        k = rng.randrange(len(rows))
        old = rows[k]
        new = rng.choice((2**31 - 1, -1, 0, 1)) if pa.types.is_integer(kind) else _near(old, rng)
        if isinstance(old, list):
            new = rng.choice(
                (
                    old[1:],
                    [*old, *old[:1]],
                    [x + 1 for x in old if x is not None],
                    [None] * len(old),
                    [],
                )
            )
        rows[k] = new
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, OverflowError, TypeError):
        return pa.nulls(len(rows), kind)
