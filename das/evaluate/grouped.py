"""What belongs together, of several parts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def grouped(values: Iterable[T], key: Callable[[T], Hashable]) -> list[list[T]]:
    """Those of the same key, in the order in which keys come first.

    >>> grouped(["Block", "Tract", "Blocks"], lambda name: name[0])
    [['Block', 'Blocks'], ['Tract']]
    """
    out: dict[Hashable, list[T]] = {}
    for value in values:
        out.setdefault(key(value), []).append(value)
    return list(out.values())
