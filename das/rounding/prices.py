r"""Rounding that keeps marginals which do not form a chain.

A network keeps the sums over nested partitions (:mod:`das.rounding.controlled`). It ignores sums
that cross them (age and occupation), and the nearest integers lose rare levels: 300 cells of 0.2
become 300 zeros. So each sum :math:`g` of child :math:`c` has a *price* :math:`\pi_{cg}`, added to
the cost of rounding up any of its cells. The price is the multiplier of
:math:`\sum_{k \in g} n_{ck} = \sum_{k \in g} x_{ck}` in the Lagrangian. At the right prices the
sums hold as nearly as integers can. They are found by a few rounds of

.. math:: \pi_{cg} \mathrel{+}= \theta\, \frac{\sum_{k \in g} (n_{ck} - x_{ck})}{s_{cg}},

with :math:`s_{cg}` the number of cells that a price of 1 would turn. :math:`\theta` becomes shorter
after each round that made it worse; the best rounding of all rounds is kept. Each is one that the
network could have given without prices: floors and ceilings, and every constraint exact. Among a
few children of few persons, rounding alone leaves the sums well within the noise of their
measurements. There this is enough."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.query import Query
from das.model.solution import Solution, Status

Array = NDArray[np.float64]

ROUNDS = 24  #: at most; each is a network
FEW = 4  #: rounds if there is a chain, which keeps most sums already
_APART = 1.0  # cells of one fraction turn one after another, not all at one price
_GOLDEN = (5**0.5 - 1) / 2
_STEP = 0.8  # of the way, shared by the partitions
_SHORTER = 0.6  # the step of what has gone too far, as where many children share a parent


@dataclass(frozen=True)
class Marginal:
    """A query whose sums the rounding is to keep, and how near: the standard deviation of its noise
    counts.
    """

    query: Query
    deviation: float

    @property
    def close(self) -> float:
        """Nearer than this no price is needed: a quarter of the noise adds 3 % to it."""
        return max(1.0, 0.25 * self.deviation)


def priced(
    rounded: Callable[[Array | None], Solution],
    x: Array,
    cell: NDArray[np.int64],
    marginals: Sequence[Marginal],
    *,
    few: bool = False,
) -> Solution:
    """The best of a few roundings of ``x`` ``(children, cells)`` by what it leaves of the
    ``marginals`` on the cells ``cell``; ``rounded`` gives the rounding at prices ``(children,
    cells)``; of ``FEW`` where few will do."""
    best = rounded(None)
    if not marginals or best.status is not Status.OPTIMAL:
        return best
    parts = [np.unique(m.query.index[cell], return_inverse=True)[1] for m in marginals]
    fraction = x - np.floor(x)
    loose = ((fraction > 1e-6) & (fraction < 1 - 1e-6)).astype(float)
    turns = [np.maximum(0.5 * _sums(loose, p), 1.0) for p in parts]
    prices = [np.zeros_like(t) for t in turns]
    apart = _APART * (np.arange(x.size) * _GOLDEN % 1 - 0.5).reshape(x.shape)
    off, least = _off(np.asarray(best.x, dtype=float) - x, parts, marginals)
    step, before = _STEP / len(parts), least
    for _ in range(FEW if few else ROUNDS):
        if all((np.abs(o) <= m.close).all() for o, m in zip(off, marginals, strict=True)):
            break
        for price, o, t in zip(prices, off, turns, strict=True):
            price += step * np.where(np.abs(o) > 0.5, o, 0.0) / t
        found = rounded(
            np.sum([price[:, p] for price, p in zip(prices, parts, strict=True)], axis=0) + apart
        )
        off, here = _off(np.asarray(found.x, dtype=float) - x, parts, marginals)
        if here < least:
            best, least = found, here
        step *= _SHORTER if here > before else 1.0
        before = here
    return best


def _off(
    rest: Array, parts: Sequence[NDArray[np.intp]], marginals: Sequence[Marginal]
) -> tuple[list[Array], float]:
    """What a rounding leaves of each marginal's sums, and its squares in units of what is near."""
    off = [_sums(rest, p) for p in parts]
    return off, sum(float(np.sum((o / m.close) ** 2)) for o, m in zip(off, marginals, strict=True))


def _sums(values: Array, part: NDArray[np.intp]) -> Array:
    out = np.zeros((int(part.max(initial=0)) + 1, len(values)))
    np.add.at(out, part, values.T)
    return out.T
