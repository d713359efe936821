"""What the budget of a release achieves: the precision of every measured count from all
measurements together.

Variances are those of :mod:`das.design`: of the best linear unbiased estimates from the
measurements of all levels, over the release's own tree and structures. They are functions of the
specification and of public structure, and of no count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from das.design import trees
from das.design.model import Choices, Estimand, LevelQuery
from das.design.target_set import redundant
from das.errors import UserError
from das.estimate.contrasts import Contrasts
from das.model.universe import Planned, Universe
from das.release.opened import OpenedRelease

#: What a page waits for: units of all levels; and units above the lowest level, times
#: multiplications for each. Beyond these nothing is said. Rhode Island has 26,247 and 17 million,
#: and takes half a second.
UNITS, WORK = 200_000, 200_000_000


@dataclass(frozen=True)
class AchievedPrecision:
    """For a level and query: the standard deviation of one answer from all measurements together,
    in persons; 0 where it is published exactly. ``nothing``: no estimate would be worse without its
    measurement."""

    deviation: float
    nothing: bool


def achieved_precision(
    release: OpenedRelease, u: Universe
) -> Mapping[LevelQuery, AchievedPrecision]:
    """The precision of everything measured. Empty for a part of a release, where it takes too long,
    or where the measurements do not separate every cell.
    """
    tree = release.tree(u)
    if release.part is not None or not (
        tree.alike or all(n.mechanism.currency == "rho" for n in u.noise)
    ):  # shares of chains add up in rho alone
        return {}
    noise = u.own if isinstance(u, Planned) else u.noise
    pairs = tuple((n.level, n.query) for n in noise)
    if not _quick(u, [tree.spine.units(level) for level in tree.spine.levels], pairs):
        return {}
    draws, precision = Choices.over(pairs, tree), np.array([1 / n.variance for n in noise])
    estimands = [Estimand(level, q) for level, q in pairs]
    try:
        model = trees.of_structures(u.schema, tree, release.bounds(u), draws, estimands, {})
        f = model.variances(draws.precision(precision))
    except UserError:  # nothing tells some cells apart; or the tree is one unit
        return {}
    spare = redundant(model, precision, f)
    measured = {(n.level, n.query) for n in u.noise}
    return {
        pair: AchievedPrecision(float(np.sqrt(v)), bool(no))
        for pair, v, no in zip(pairs, f, spare, strict=True)
        if pair in measured
    }


def _quick(u: Universe, units: list[int], pairs: tuple[LevelQuery, ...]) -> bool:
    contrasts = Contrasts.of(
        u.schema, [u.schema.query(q) for q in dict.fromkeys(q for _, q in pairs)]
    )
    above = sum(units[:-1])
    return above + units[-1] <= UNITS and above * len(contrasts.kinds) * contrasts.d**3 <= WORK
