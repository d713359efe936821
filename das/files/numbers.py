"""Numbers as Arrow has them, by their buffers: the same memory, not copied.

``pyarrow.array`` asks whether what it is given is a frame's column, and loads pandas to ask: a
sixth of a second, and thirty megabytes, of a command that has no frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


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
