"""Columns of what a user has in memory: a data frame of any library, or a mapping of names to
arrays.

A frame is asked for its names and for single columns; nothing here imports the library that made
it. Columns are taken as they stand or refused: a code that was read as a number has lost its zeros,
and no rule can give them back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.names import text

#: A pandas, polars or Arrow table, or a mapping of columns.
Frame = Any


def names(frame: Frame, where: str) -> list[str]:
    """The names of its columns."""
    found: Any = frame
    if not isinstance(frame, Mapping):
        found = getattr(
            frame, "column_names", None
        )  # Arrow, whose columns are the columns themselves
        found = getattr(frame, "columns", None) if found is None else found
        if found is None or not hasattr(frame, "__getitem__"):
            raise InputError(
                f"this is a {type(frame).__name__}, and no table",
                where=where,
                remedy="give a data frame, or a mapping of names to arrays",
            )
    return [str(name) for name in found]


def column(frame: Frame, name: str, where: str) -> NDArray[Any]:
    """One column, ``(rows,)``, in the dtype that it has; bytes, as :mod:`das.model.names` has them,
    as text."""
    known = names(frame, where)
    if name not in known:
        raise InputError(
            f"there is no column {name!r}",
            where=where,
            remedy=f"its columns are {', '.join(known[:30])}",
        )
    values = np.asarray(frame[name])
    if values.ndim != 1:
        raise InputError(
            f"column {name!r} has {values.ndim} dimensions",
            where=where,
            remedy="give one value a row",
        )
    return text(values) if values.dtype.kind == "S" else values


def rows(frame: Frame, where: str) -> int:
    """How many rows it has. Raises :class:`InputError` for none, and for columns of several
    lengths."""
    sizes = {len(frame[name]) for name in names(frame, where)}
    if len(sizes) > 1:
        raise InputError(
            f"its columns have {min(sizes)} to {max(sizes)} values",
            where=where,
            remedy="give columns of one length",
        )
    return sizes.pop() if sizes else 0


def missing(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where there is no value: ``None``, NaN, or the sign of a library for one."""
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind != "O":
        return np.zeros(len(values), dtype=bool)
    kinds = {type(v) for v in values.tolist()}
    if not any(
        k is type(None) or issubclass(k, float) or k.__name__ in ("NAType", "NaTType")
        for k in kinds
    ):
        return np.zeros(len(values), dtype=bool)
    return np.array(
        [
            v is None
            or type(v).__name__ in ("NAType", "NaTType")
            or (isinstance(v, float) and v != v)
            for v in values.tolist()
        ]
    )


def present(values: NDArray[Any], name: str, where: str) -> NDArray[Any]:
    """The values. Raises :class:`InputError` if one is missing."""
    if (lost := missing(values)).any():
        raise InputError(
            f"{name!r} has no value in {int(lost.sum()):,} of {len(values):,} rows, the first of"
            f" them number {int(lost.argmax())}",
            where=where,
            remedy="drop these rows, or give them a code of their own",
        )
    return values


def texts(frame: Frame, name: str, where: str) -> NDArray[np.str_]:
    """A column of codes. Raises :class:`InputError` for numbers, missing and empty values."""
    values = present(column(frame, name, where), name, where)
    if values.dtype.kind == "O" and all(isinstance(v, str) for v in set(values.tolist())):
        values = values.astype(np.str_)
    if values.dtype.kind == "T":  # NumPy's own strings of any length
        values = values.astype(np.str_)
    if values.dtype.kind != "U":
        raise InputError(
            f"column {name!r} is not text",
            where=where,
            remedy='codes are text, such as "04": read the column as text (pandas: dtype=str)',
        )
    if (values == "").any():
        raise InputError(
            f"{name!r} is empty in {int((values == '').sum()):,} of {len(values):,} rows",
            where=where,
            remedy="give every row a code",
        )
    return values


def counts(frame: Frame, name: str, where: str) -> NDArray[np.int64]:
    """A column of whole numbers that are not negative."""
    values = present(column(frame, name, where), name, where)
    if values.dtype.kind == "O" and all(isinstance(v, int) for v in values.tolist()):
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise InputError(
            f"column {name!r} is not of whole numbers",
            where=where,
            remedy="give counts as integers",
        )
    if (values < 0).any():
        raise InputError(
            f"{name!r} is negative in row number {int((values < 0).argmax())}",
            where=where,
            remedy="give counts of 0 or more",
        )
    return values.astype(np.int64)
