r"""Controlled rounding of an estimate by a network flow.

Each count becomes its floor or ceiling. Children sum to their parent exactly, and bounds and known
totals hold exactly. The sums over a chain of nested queries (from cells to the total) stay as close
as they can to their estimates. See :mod:`das.solve.network` for the problem and why it is a
network."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from das.model.constraint import Bounds
from das.model.estimate import Estimate
from das.model.histogram import Histogram
from das.model.query import Query
from das.model.solution import Certificate, Solution
from das.rounding.prices import Marginal, priced
from das.solve import round_children
from das.solve.chain import Drains, Link

_TOTAL_WEIGHT = 64.0  # the total comes first: it outweighs the chain below it


def round_estimate(
    estimate: Estimate,
    bounds: Bounds,
    chain: Sequence[Query],
    below: tuple[NDArray[np.int64], Bounds] | None = None,
    *,
    marginals: Sequence[Marginal] = (),
    objective: str = "nearest",
) -> tuple[Histogram, Certificate]:
    """The integers of one family: a histogram of its children, and the certificate.

    ``bounds`` are those of the children. ``chain`` runs from fine to coarse and is nested; the
    dwelling groups are inserted where they belong. ``below`` is for children that have descendants
    with known totals: it gives the child of each descendant, and their bounds. With joint totals
    these are bounds of whole parts (``Bounds.by_part``).

    ``marginals`` are queries that do not form a chain. Their sums are kept as near as floors and
    ceilings allow. Those that nest (coarse ones first) join the chain, and the network keeps them.
    Those that cross have prices, which take a few rounds if there is a chain, and more if there is
    none.

    ``objective`` ``nearest`` compares with the estimates themselves. ``bureau-2020`` is that of the
    production rounder. It first rounds every sum of fractional parts half to even. The cells count
    twice (once as the full cross of the attributes, once as ``detailed``); totals come first, as in
    its first pass."""
    bureau = objective == "bureau-2020"
    cells = len(bounds.group)
    if not len(estimate.cell):
        return Histogram.of(
            len(estimate.x), cells, *(np.zeros(0, dtype=np.int64),) * 3
        ), Certificate()
    few = bool(chain)
    chain, crossing = _nested(estimate.cell, bounds, chain, marginals)
    links = _links(estimate.cell, bounds, chain, with_total=below is None)
    drains = None
    if below is not None and below[1].total is not None:
        drains = Drains(below[0], below[1].lower, below[1].upper, below[1].total)
    joint = bounds.joint
    total = None
    if estimate.parent is None:
        total = int(np.rint(estimate.x.sum())) if bounds.total is None else int(bounds.total.sum())

    def rounded_at(price: NDArray[np.float64] | None) -> Solution:
        return round_children(
            estimate.x,
            estimate.parent,
            chain=links,
            drains=drains,
            total=total,
            parts=None if joint is None else joint.part,
            totals=None if joint is None else joint.total,
            cell_weight=2.0 if bureau else 1.0,
            integer_targets=bureau,
            price=price,
        )

    solution = priced(rounded_at, estimate.x, estimate.cell, crossing, few=few)
    unit, position = np.nonzero(solution.x)
    ends = np.searchsorted(unit, np.arange(len(estimate.x) + 1))
    rounded = Histogram(
        cells, ends, estimate.cell[position], solution.x[unit, position].astype(np.int64)
    )
    # A rounding has no duality gap to report, and its distance to x is no violation.
    certificate = Certificate(solves=1, widened=Certificate().add(solution).widened)
    return rounded, certificate


def _nested(
    cell: NDArray[np.int64], bounds: Bounds, chain: Sequence[Query], marginals: Sequence[Marginal]
) -> tuple[list[Query], list[Marginal]]:
    """The chain with all marginals that nest in it and in the dwelling groups, fine to coarse; and
    the other marginals.

    Coarse ones are tried first: they sum the most cells, so rounding loses most of them.
    """
    nested, crossing = list(chain), []
    for m in sorted(marginals, key=lambda m: m.query.answers):
        index = m.query.index[cell]
        others = [q.index[cell] for q in nested]
        if _coarsens(index, bounds.group[cell]) and all(
            _coarsens(index, o) or _coarsens(o, index) for o in others
        ):
            nested.append(m.query)
        else:
            crossing.append(m)
    return sorted(nested, key=lambda q: -np.count_nonzero(np.bincount(q.index[cell]))), crossing


def _links(
    cell: NDArray[np.int64], bounds: Bounds, chain: Sequence[Query], *, with_total: bool
) -> list[Link]:
    """The chain on the cells at hand; with drains, it ends in the dwelling groups, which feed
    them.
    """
    dwelling = bounds.group[cell]
    finer = [q.index[cell] for q in chain if not _coarsens(dwelling, q.index[cell])]
    links = [Link(np.unique(i, return_inverse=True)[1]) for i in finer]
    links.append(Link(dwelling, bounds.lower, bounds.upper))
    if with_total:
        total = None if bounds.total is None else bounds.total[:, None]
        links.append(Link(np.zeros(len(cell), dtype=np.intp), total, total, weight=_TOTAL_WEIGHT))
    return links


def _coarsens(fine: NDArray[np.intp], coarse: NDArray[np.intp]) -> bool:
    """True if ``coarse`` is constant on the groups of ``fine``."""
    one_of = np.zeros(int(fine.max(initial=0)) + 1, dtype=np.intp)
    one_of[fine] = coarse
    return np.array_equal(one_of[fine], coarse)
