"""Regions of different types that are the same blocks, from the list of blocks alone."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from das.model.population import Regions


def same(regions: Regions, kind: str, other: str) -> NDArray[np.int64]:
    """For each region of a ``kind``, the region of the ``other`` kind with exactly its blocks, or
    -1."""
    one, two = regions.of_block[kind], regions.of_block[other]
    many = len(regions.ids[other])
    out = np.full(len(regions.ids[kind]), -1, dtype=np.int64)
    both = (one >= 0) & (two >= 0)
    pair, blocks = np.unique(
        one[both].astype(np.int64) * max(many, 1) + two[both], return_counts=True
    )
    a, b = np.divmod(pair, max(many, 1))
    in_one = np.bincount(one[one >= 0], minlength=len(out))
    in_two = np.bincount(two[two >= 0], minlength=many)
    equal = (blocks == in_one[a]) & (blocks == in_two[b])
    out[a[equal]] = b[equal]
    return out


def hosts(
    regions: Regions, order: tuple[str, ...], guests: tuple[str, ...]
) -> Mapping[str, tuple[NDArray[np.int8], NDArray[np.int64]]]:
    """The host of each region of each type among ``guests``: the place of the host's type in
    ``order``, or -1, and its number. If there are several hosts, the first in the order. Hosts come
    before their guests there, and are not guests themselves."""
    out: dict[str, tuple[NDArray[np.int8], NDArray[np.int64]]] = {}
    for guest in guests:
        kind = np.full(len(regions.ids[guest]), -1, dtype=np.int8)
        number = np.full(len(kind), -1, dtype=np.int64)
        for i, host in enumerate(order):
            if host == guest:
                break
            if host not in regions.ids:
                continue
            found = same(regions, guest, host)
            free = (kind < 0) & (found >= 0)
            if host in out:
                free[free] = out[host][0][found[free]] < 0
            kind[free], number[free] = i, found[free]
        out[guest] = kind, number
    return out
