"""Codes of places and Arrow's texts: from one to the other by their buffers, without an object for
each place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.model.names import Codes, characters, of_characters, text
from das.model.schema import Schema

_MOST_BYTES = np.iinfo(np.int32).max
_TOO_LONG = "codes of more than two gigabytes in one column"


def column(codes: Codes) -> pa.StringArray:
    """The texts of ``codes``. Codes that are all as wide as their array are not copied."""
    raw, length = characters(codes), np.strings.str_len(codes)
    width = raw.shape[1]
    if (length < width).any():
        raw = raw[np.arange(width) < length[:, None]]
    end = np.concatenate([[0], np.cumsum(length)])
    if end[-1] > _MOST_BYTES:
        raise ValueError(_TOO_LONG)
    return pa.StringArray.from_buffers(
        len(codes), pa.py_buffer(end.astype(np.int32)), pa.py_buffer(raw)
    )


def codes(texts: pa.StringArray | pa.ChunkedArray) -> Codes:
    """The codes of a column of texts without nulls, as wide as the longest."""
    parts = [_codes(p) for p in (texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts])]
    return parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype="S1"), *parts])


def texts(column: pa.StringArray | pa.ChunkedArray) -> NDArray[np.str_]:
    """A column of texts without nulls, as NumPy's."""
    return text(codes(column))


def repeated(value: str, times: int) -> pa.StringArray:
    """A column that says the same in every row."""
    raw = value.encode("utf-8")
    if len(raw) * times > _MOST_BYTES:
        raise ValueError(_TOO_LONG)
    end = np.arange(times + 1, dtype=np.int32) * np.int32(len(raw))
    return pa.StringArray.from_buffers(times, pa.py_buffer(end), pa.py_buffer(raw * times))


def _codes(part: pa.StringArray) -> Codes:
    kind = np.int64 if pa.types.is_large_string(part.type) else np.int32
    _, offsets, data = part.buffers()
    if not len(part):
        return np.zeros(0, dtype="S1")
    end = np.frombuffer(offsets, kind)[part.offset : part.offset + len(part) + 1].astype(np.int64)
    raw = np.frombuffer(data or b"", np.uint8)[end[0] : end[-1]]
    length = np.diff(end)
    width = max(1, int(length.max()))
    if (length == width).all():
        return of_characters(raw.reshape(len(part), width))
    out = np.zeros((len(part), width), dtype=np.uint8)
    out[np.arange(width) < length[:, None]] = raw
    return of_characters(out)


def coded(index: NDArray[np.integer[Any]], levels: Sequence[str]) -> pa.DictionaryArray:
    """The texts of levels by their numbers."""
    numbers = pa.array(index.astype(np.int32))
    return pa.DictionaryArray.from_arrays(numbers, pa.array(levels, pa.string()))


def attributes(schema: Schema, cells: NDArray[np.int64]) -> dict[str, pa.Array]:
    """A column for each attribute of cells, with the names of its levels."""
    at = np.unravel_index(cells, schema.shape)
    return {a.name: coded(x, a.levels) for a, x in zip(schema.attributes, at, strict=True)}
