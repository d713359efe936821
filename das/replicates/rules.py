r"""Rules that make intervals of the errors of replicates.

All are :math:`q_0 - b \pm k\sqrt{\mathrm{mse}}` (:mod:`das.replicates.errors`):

======  ====================================================
========================================================= rule    k
b, the bias that is subtracted ======  ====================================================
========================================================= ``z``   the normal quantile, 1.645 at 90 %
0 ``t``   that of Student's t with 5 degrees of freedom, 2.015  0 ``cz``  as ``z``
the estimated bias, where :math:`q_0 > 5`,
                                                              :math:`|\mathrm{bias}| \ge
                                                              \mathrm{sd}/2`, and the bias is
                                                              negative or :math:`q_0 \ge 25`;
                                                              otherwise 0
``ct``  as ``t``                                              as ``cz`` ======
====================================================
=========================================================

Counts are whole: the lower end is rounded down, and is not below 0, the upper one is rounded up.
``ct`` is the Bureau's rule, and the default. Five degrees of freedom make up for replicates that
scatter too little: a published block is smoother than a true one. k also has to make up for the
number of replicates s. About a known center :math:`\sum d_i^2` of normal errors has s degrees of
freedom, so a new error is within :math:`t_s \sqrt{\mathrm{mse}}` with the coverage: fewer than five
replicates take :math:`t_s` in place of :math:`t_5`. With five and more :math:`t_5` is the larger.

*What is public of a count.* A count is somewhere from a to b (:mod:`das.model.count_range`). Both
ends are cut at these, which loses no truth; a count with a = b is certain, and gets itself. The
Bureau subtracts no positive bias from small counts: replicates cannot fall below 0, so of a count
near 0 they lie too high, and the truth does not. At b it is the same the other way round. With r =
b - value, the room above, a bias is subtracted only if also :math:`r > 5`, and it is positive or
:math:`r \ge 25`: of two counts that make up a known sum, such as occupied and vacant units, one has
the mirror image of the other's interval. Without a known b this is the Bureau's rule to the letter.

*What is no count.* The bias of an index that noise can only raise (a dissimilarity, a deviation) is
subtracted by ``ct`` and ``cz`` wherever it is half a standard deviation or more. That of a share, a
difference or a rank is not: noise moves it to either side, and what the replicates show as bias is
that of a release *made from* the published counts. Over runs of blocks the estimated bias of shares
had a mean of nothing, and subtracting it lost a tenth of the coverage (``python -m
benchmarks.intervals``).

Source: Ashmead, Hawes, Pritts, Zhuravlev, Keller (2024), sections 3 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from das.errors import InputError
from das.model.frozen import Frozen
from das.replicates.errors import ReplicateErrors

Floats = NDArray[np.float64]
#: Of Student's t: chosen by trial, by the Bureau.
DEGREES = 5
#: The largest coverage: normal errors are not known any farther out.
MOST = 0.999999
#: Published values above which a bias is subtracted, and from which one above 0 is.
SMALL, LARGE = 5, 25


def _student(coverage: float, replicates: int) -> float:
    return float(stdtrit(min(DEGREES, replicates), (1 + coverage) / 2))


def _normal(coverage: float, replicates: int) -> float:
    del replicates
    return NormalDist().inv_cdf((1 + coverage) / 2)


#: By name: the half-width in root mean squared errors at a coverage, of so many replicates, and
#: whether a bias is subtracted on condition.
RULES: Mapping[str, tuple[Callable[[float, int], float], bool]] = {
    "ct": (_student, True),
    "cz": (_normal, True),
    "t": (_student, False),
    "z": (_normal, False),
}


@dataclass(frozen=True, eq=False)
class ReplicateInterval(Frozen):
    """Ends of intervals, arrays of one shape; ``margin`` is their half-width before ends are made
    whole, ``subtracted`` whether the bias was."""

    lower: NDArray[np.int64] | Floats
    upper: NDArray[np.int64] | Floats
    margin: Floats
    subtracted: NDArray[np.bool_]

    def clipped(
        self, least: float | NDArray[np.int64], most: float | NDArray[np.int64]
    ) -> ReplicateInterval:
        """Of a statistic that is nowhere else: both ends are moved to the nearest place where it
        can be.
        """
        ends: list[NDArray[Any]] = [
            np.clip(end, least, most).astype(end.dtype) for end in (self.lower, self.upper)
        ]
        return replace(self, lower=ends[0], upper=ends[1])


def check_coverage(coverage: float) -> None:
    """Raises :class:`InputError` for a coverage that is none, or that no interval of numbers
    has.
    """
    if not 0 < coverage <= MOST:
        raise InputError(
            f"a coverage of {coverage}",
            where="coverage",
            remedy=f"give a number between 0 and 1, such as 0.9, and {MOST} at the most",
        )


def check_rule(coverage: float, rule: str, rules: Collection[str] = RULES) -> None:
    """Raises :class:`InputError` for a rule that is none of ``rules``, or a coverage that is
    none.
    """
    if rule not in rules:
        raise InputError(
            f"there is no rule {rule!r}", where="rule", remedy=f"the rules are {', '.join(rules)}"
        )
    check_coverage(coverage)


def interval(
    value: NDArray[np.int64] | Floats,
    errors: ReplicateErrors,
    coverage: float,
    rule: str = "ct",
    factor: float | None = None,
    *,
    within: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    raised: bool = False,
) -> ReplicateInterval:
    """Of published values, which are counts if they are integers. ``factor`` takes the place of the
    rule's own k. ``within``: of counts, the least and the most that each can be. ``raised``: of
    what is no count, whether noise raises it, so that its bias is subtracted.

    Raises:
        InputError: no such rule, or a coverage that is none.
    """
    check_rule(coverage, rule)
    wide, conditional = RULES[rule]
    counts = np.issubdtype(value.dtype, np.integer)
    subtracted = np.zeros(value.shape, dtype=bool)
    if conditional and counts:
        subtracted = errors.leans() & (value > SMALL) & ((errors.first < 0) | (value >= LARGE))
        if within is not None:
            room = within[1] - value
            subtracted &= (room > SMALL) & ((errors.first > 0) | (room >= LARGE))
    elif conditional and raised:
        subtracted = errors.leans()
    point = value - np.where(subtracted, errors.bias, 0.0)
    margin = (wide(coverage, errors.replicates) if factor is None else factor) * errors.rmse
    lower, upper = point - margin, point + margin
    if not counts:
        return ReplicateInterval(lower, upper, margin, subtracted)
    whole = ReplicateInterval(
        np.maximum(np.floor(lower), 0).astype(np.int64),
        np.ceil(upper).astype(np.int64),
        margin,
        subtracted,
    )
    return whole if within is None else whole.clipped(*within)
