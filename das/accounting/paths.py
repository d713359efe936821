"""Neighbours on an irregular spine, where two places may lie under different queries and variances."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement

from das.accounting.draws import Composition, Draws, Exactly
from das.accounting.profile import epsilon


def worst_pair(
    paths: Mapping[str, Draws | Composition], delta: Exactly, *, certify: bool = False
) -> tuple[tuple[str, str], tuple[float, float]]:
    """The pair of paths between which replacing one record costs most, and an interval of that epsilon.

    A record under path i is one change in each of i's draws; replaced by one under path j, it is that and one
    change in each of j's, so the loss is the sum of two independent ones. ``paths`` holds the draws of one
    record's place each, every query counted once; a pair may be of one path twice. The upper end of the interval
    holds for all pairs. Which pair is worst can change with delta.

    >>> from fractions import Fraction
    >>> worst_pair({"plain": [(Fraction(8), 10)], "bypassed": [(Fraction(8), 9), (Fraction(4), 1)]}, "1e-10")[0]
    ('bypassed', 'bypassed')
    """
    if not paths:
        raise ValueError("there are no paths")
    made = {name: Composition.of(draws) for name, draws in paths.items()}
    known: dict[Composition, tuple[float, float]] = {}
    found = {}
    for a, b in combinations_with_replacement(made, 2):
        whole = made[a] + made[b]
        if whole not in known:
            known[whole] = epsilon(whole, delta, certify=certify)
        found[a, b] = known[whole]
    pair = max(found, key=lambda ab: found[ab][1])
    return pair, (max(low for low, _ in found.values()), found[pair][1])
