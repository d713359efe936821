"""Regional groups that are sums of detailed ones, read off the code tables.

Each person has one code of ethnicity, so iterations of ethnicity without a common code have nobody
in common: a regional one whose codes are those of some detailed ones, each code in one of them, is
their sum. Codes of race make no such sums: somebody of two of them is in a regional group "alone",
and in no detailed group "alone"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.population import Iterations, Kind


@dataclass(frozen=True)
class Sum:
    """The iteration ``whole`` is the sum of ``parts``, by their numbers."""

    whole: int
    parts: tuple[int, ...]


def sums(iterations: Iterations) -> tuple[Sum, ...]:
    """The sums of detailed groups that are measured everywhere. If these do not cover a regional
    group, the sums of all that are not ``coarse_only``."""
    ethnic = iterations.kind == Kind.ETHNICITY
    detailed = np.flatnonzero((iterations.level == 2) & ethnic)
    out = []
    for whole in np.flatnonzero((iterations.level == 1) & ethnic).tolist():
        common = detailed[~iterations.detailed_only[detailed] & ~iterations.coarse_only[detailed]]
        fine = detailed[~iterations.coarse_only[detailed]]
        found = _cover(iterations, whole, common) or _cover(iterations, whole, fine)
        if found:
            out.append(Sum(whole, found))
    return tuple(out)


def bundles(every: Sequence[Sum]) -> list[list[int]]:
    """The iterations of sums, bundled where sums have iterations in common."""
    out: list[set[int]] = []
    for one in every:
        found = {one.whole, *one.parts}
        for other in [o for o in out if o & found]:
            found |= other
            out.remove(other)
        out.append(found)
    return [sorted(found) for found in out]


def _cover(iterations: Iterations, whole: int, among: NDArray[np.int64]) -> tuple[int, ...]:
    """The iterations whose codes all belong to the whole, if each code of the whole is in exactly
    one of them; otherwise none.
    """
    wanted = _codes(iterations, whole)
    inside = [i for i in among.tolist() if (codes := _codes(iterations, i)) and codes <= wanted]
    covered = sorted(c for i in inside for c in _codes(iterations, i))
    return tuple(inside) if covered == sorted(wanted) else ()


def _codes(iterations: Iterations, number: int) -> set[int]:
    return set(iterations.race_code[iterations.member == number].tolist())
