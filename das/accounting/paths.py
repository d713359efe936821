"""Neighbors on an irregular spine, where two places can have different queries and variances."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations_with_replacement

from das.accounting.draws import Composition, DrawCounts, Draws, Exactly, Moves
from das.accounting.profile import checked_delta, worst_epsilon


def worst_pair(
    paths: Mapping[str, Draws | Composition], delta: Exactly, *, certify: bool = False
) -> tuple[tuple[str, str], tuple[float, float]]:
    """The pair of paths between which replacing one record costs most, and an interval that
    contains that epsilon.

    A record on path i counts once in each of i's draws. If a record on path j replaces it, one
    answer changes in each of i's draws and one in each of j's. So the loss is the sum of two
    independent losses. Each of ``paths`` has the draws for one record's place, every query counted
    once. A pair can be the same path twice. The upper end of the interval holds for all pairs.
    Which pair is worst can change with delta.

    >>> from fractions import Fraction
    >>> worst_pair(
    ...     {"plain": [(Fraction(8), 10)], "bypassed": [(Fraction(8), 9), (Fraction(4), 1)]},
    ...     "1e-10",
    ... )[0]
    ('bypassed', 'bypassed')
    """
    if not paths:
        raise ValueError("there are no paths")
    number: dict[DrawCounts, int] = {}
    names: list[str] = []
    for name, draws in paths.items():
        counts = Composition.of(draws).counts
        if counts not in number:
            number[counts] = len(names)
            names.append(name)
    moves = tuple(combinations_with_replacement(range(len(names)), 2))
    part = Moves(tuple(number), moves, tuple(() for _ in names))
    found = worst_epsilon((part,), checked_delta(delta), certify)
    a, b = part.moves[found.at[0]]
    return (names[a], names[b]), (found.low, found.high)
