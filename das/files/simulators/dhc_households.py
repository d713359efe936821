"""How many adults and minors live in each simulated household of a block: all of them, and somebody
in each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from das.files.readers.formats import MOST_AT_HOME
from das.files.simulators.dhc_shares import BEYOND, COMPOSITION
from das.files.simulators.people import Floats, Ints, choose_by_row, rank_in_group

_ROUNDS = 24
_MOST = (
    14  #: adults, or minors, of two households that are drawn anew; with more they stay as they are
)


class Compositions(NamedTuple):
    """Arrays of shape ``(households,)``, in order of blocks: their block, adults and minors."""

    block: Ints
    adults: Ints
    minors: Ints


def compositions(rng: np.random.Generator, adults: Ints, minors: Ints, homes: Ints) -> Compositions:
    r"""The adults and minors of each household, for all blocks. ``adults``, ``minors``, ``homes``:
    the totals of each block, with at least one person a home.

    The distribution is that of independent households of weights :math:`w(a, m)` (``COMPOSITION``),
    given the sums of adults and minors over the block. It is approached from households that are as
    alike as possible. In each round households are paired at random within their block. Each pair
    shares out its members by :math:`w(a, m)\,w(a_+ - a, m_+ - m)` (Gibbs sampling, which leaves
    that distribution invariant). No household has more than ``MOST_AT_HOME`` members, unless its
    block has more persons than that for each home. In blocks of a thousand, shares by size after 16 rounds differ
    from those after 64 by at most a quarter of one per cent."""
    block = np.repeat(np.arange(len(homes)), homes)
    place, of = rank_in_group(homes), homes[block]
    a, m = (total[block] // of for total in (adults, minors))
    a += place < (adults % np.maximum(homes, 1))[block]
    m += (
        of - 1 - place < (minors % np.maximum(homes, 1))[block]
    )  # from the other end: nobody is alone with nobody
    weights = _pairs()
    for _ in range(_ROUNDS):
        order = np.argsort(block + rng.random(len(block)), kind="stable")
        first = (place[:-1] % 2 == 0) & (
            block[1:] == block[:-1]
        )  # in order of blocks, which the shuffle keeps
        i, j = order[:-1][first], order[1:][first]
        low = (a[i] + a[j] <= _MOST) & (m[i] + m[j] <= _MOST)
        i, j = i[low], j[low]
        every_a, every_m = a[i] + a[j], m[i] + m[j]
        row = every_a * (_MOST + 1) + every_m
        found = choose_by_row(rng, weights, row)
        drawn = weights[row, found] > 0
        a[i], m[i] = (
            np.where(drawn, new, old)
            for new, old in zip(divmod(found, _MOST + 1), (a[i], m[i]), strict=True)
        )
        a[j], m[j] = every_a - a[i], every_m - m[i]
    return Compositions(block, a, m)


def _pairs() -> Floats:
    """Row ``a+ 15 + m+``, column ``a 15 + m``: the weight of a pair of households with ``a+``
    adults and ``m+`` minors in which the first has ``a`` and ``m``."""
    n = _MOST + 1
    one = np.zeros((n, n))
    rows, columns = COMPOSITION.shape
    at = np.arange(n)
    beyond = BEYOND ** (np.maximum(at - rows + 1, 0)[:, None] + np.maximum(at - columns + 1, 0))
    beyond[at[:, None] + at > MOST_AT_HOME] = 0
    one[:] = COMPOSITION[np.ix_(np.minimum(at, rows - 1), np.minimum(at, columns - 1))] * beyond
    out = np.zeros((n, n, n, n))
    for a in range(n):
        for m in range(n):
            out[a, m, : a + 1, : m + 1] = one[: a + 1, : m + 1] * one[a::-1, m::-1]
    out[(0, 0, 1), (0, 1, 0)] = 1.0  # two persons at least live in two households
    return out.reshape(n * n, n * n)
