"""What tasks counted of the errors of a run, kept in ``confidential/`` until it is added up: an
``.npz`` of plain arrays.

All arrays of one type are concatenated in one array. ``value`` is a JSON text that says how they
make up a tree of frozen values, tuples and numbers. The reader gets the class of the value from its
caller, and builds only what the fields of that class name. So a file cannot bring a class of its
own, or code. The same value always gives the same bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, rows_csv
from das.model.error_rows import ErrorRow
from das.model.not_private import Private

T = TypeVar("T")
_VALUE = "value"


def write(path: Path, value: object) -> None:
    """A frozen value of arrays, numbers, texts, tuples of one kind, and of such values."""
    arrays: dict[str, list[NDArray[Any]]] = {}
    text = json.dumps(_packed(value, arrays, {}), separators=(",", ":"))
    flat: dict[str, Any] = {name: np.concatenate(parts) for name, parts in arrays.items()}
    flat[_VALUE] = np.frombuffer(text.encode(), dtype=np.uint8)
    with atomic.file(path) as draft, draft.open("wb") as file:
        np.savez_compressed(file, **flat)


def read(path: Path, kind: type[T]) -> T:
    """The value again. Raises :class:`ReleaseError` for a file without such a value."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        found: T = _unpacked(kind, json.loads(arrays.pop(_VALUE).tobytes()), arrays)
    except (OSError, BadZipFile, KeyError, IndexError, TypeError, ValueError, InputError) as error:
        raise ReleaseError(
            f"these are no counts of errors ({type(error).__name__})",
            where=path,
            remedy="delete the file and evaluate the run again",
        ) from None
    return found


def _packed(value: Any, arrays: dict[str, list[NDArray[Any]]], ends: dict[str, int]) -> Any:
    """As JSON has it; an array is its type, where it begins, and its shape."""
    if isinstance(value, np.ndarray):
        name = value.dtype.str.lstrip("<=|")
        start = ends.get(name, 0)
        ends[name] = start + value.size
        arrays.setdefault(name, []).append(value.ravel())
        return [name, start, *value.shape]
    if is_dataclass(value):
        return [_packed(getattr(value, f.name), arrays, ends) for f in fields(value)]
    if isinstance(value, tuple):
        return [_packed(v, arrays, ends) for v in value]
    return value


def _unpacked(kind: Any, value: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(*(_unpacked(hint, v, arrays) for hint, v in zip(hints, value, strict=True)))
    origin, given = get_origin(kind), get_args(kind)
    if origin is np.ndarray:
        name, start, *shape = value
        flat = arrays[name][start : start + int(np.prod(shape))]
        return flat.reshape(shape)
    if origin is tuple:
        return tuple(_unpacked(given[0], v, arrays) for v in value)
    if type(None) in given:
        return None if value is None else _unpacked(given[0], value, arrays)
    if type(value) is not kind:
        raise TypeError
    return value


@lru_cache
def _hints(kind: type) -> tuple[Any, ...]:
    """The types of the fields of a frozen value, in order."""
    hints = get_type_hints(kind)
    return tuple(hints[f.name] for f in fields(kind))


# ``errors.csv``: the rows of the evaluation.


def write_errors(path: Path, rows: Sequence[ErrorRow], *, private: Private = True) -> Path:
    """Write all rows under a temporary name, then give the true one. Numbers keep all their
    digits."""
    return rows_csv.write_rows(path, ErrorRow, rows, private=private)


def read_errors(path: Path) -> list[ErrorRow]:
    """Read the rows back. Raises :class:`InputError` with the line where a file is not one of
    errors."""
    return rows_csv.read_rows(path, ErrorRow, "errors")
