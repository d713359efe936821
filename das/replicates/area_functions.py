r"""What analysts compute from counts of areas, as functions of arrays ``(areas,)``. Also, what
replicates say about these statistics, and the multiplier that holds for all areas at once.

=================  ==================================================================  ============
statistic          of counts :math:`a_d`, :math:`b_d` of areas d                       of
=================  ==================================================================  ============
``share``          :math:`a_d / b_d`                                                   each area
``difference``     :math:`a_d - b_d`                                                   each area
``rank``           1, and the number of areas with a larger :math:`a`                  each area
``deviation``      :math:`(\max a_d - \min a_d) / \bar a`, of a plan of districts      all together
``dissimilarity``  :math:`\tfrac12 \sum_d |a_d/\sum a - b_d/\sum b|`, of segregation   all together
=================  ==================================================================  ============

Noise makes areas look more different than they are. The replicates of a deviation or of a
dissimilarity are above the published value. Their bias is subtracted where it is half a standard
deviation or more. The interval of such an index needs a warning about that, and a second one.
Suppose districts were drawn to be equal in published counts. Then their published deviation is too
small, and the true one is where the replicates are. Noise moves a share, a difference or a rank in
either direction, and nothing is subtracted from them (:mod:`das.replicates.by_truth`). No interval
goes beyond the possible values of its statistic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.replicates.by_truth import ReplicateErrors, ReplicateInterval, interval, reach

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AreaFunction:
    """A ``function`` of one or two counts by area; ``each`` says whether of each area, or of all
    together. It is ``least`` at the least, and ``most`` at the most. ``raised``: noise makes it
    larger."""

    counts: int
    each: bool
    function: Callable[..., Floats]
    least: float = -np.inf
    most: float = np.inf
    raised: bool = False


def share(a: Floats, b: Floats) -> Floats:
    """Not a number where there is nothing to have a share of.

    >>> share(np.array([1.0, 0.0]), np.array([4.0, 0.0]))
    array([0.25,  nan])
    """
    out = np.full(a.shape, np.nan)
    np.divide(a, b, out=out, where=b > 0)
    return out


def difference(a: Floats, b: Floats) -> Floats:
    return a - b


def rank(a: Floats) -> Floats:
    """The largest is 1; as large ones have the same.

    >>> rank(np.array([5.0, 9.0, 5.0, 1.0]))
    array([2., 1., 2., 4.])
    """
    return np.asarray(1 + len(a) - np.searchsorted(np.sort(a), a, side="right"), dtype=np.float64)


def deviation(a: Floats) -> Floats:
    """
    >>> deviation(np.array([90.0, 110.0]))
    array([0.2])
    """
    return np.array([(a.max() - a.min()) / a.mean() if a.any() else np.nan])


def dissimilarity(a: Floats, b: Floats) -> Floats:
    """
    >>> dissimilarity(np.array([5.0, 0.0]), np.array([0.0, 7.0]))
    array([1.])
    """
    return np.array(
        [np.abs(a / a.sum() - b / b.sum()).sum() / 2 if a.any() and b.any() else np.nan]
    )


FUNCTIONS: Mapping[str, AreaFunction] = {
    "share": AreaFunction(2, True, share, 0, 1),
    "difference": AreaFunction(2, True, difference),
    "rank": AreaFunction(1, True, rank, 1),
    "deviation": AreaFunction(1, False, deviation, 0, raised=True),
    "dissimilarity": AreaFunction(2, False, dissimilarity, 0, 1, raised=True),
}


def other_side(value: Floats, replicates: Floats, threshold: float = 0.5) -> Floats:
    """How often a rerun of the algorithm would find a share on the other side of
    ``threshold``: the part of the replicates ``(s, areas)`` that are there. No probability about
    the truth."""
    return ((replicates > threshold) != (value > threshold)).mean(axis=0)


def for_all_at_once(
    value: NDArray[np.int64] | Floats, replicates: NDArray[np.int64] | Floats, coverage: float
) -> float:
    r"""How many root mean squared errors wide the intervals of all areas are, so that all hold
    together. It is an order statistic, and at least the rule's own k.

    The score of replicate i ``(s, areas)`` is
    :math:`\max_d |q_{d,i} - q_{d,0}| / \mathrm{rmse}_{d,-i}`, with the errors of the *other*
    replicates: the truth, too, is compared with an error that it has no part in. If the truth's
    error has their distribution, its score is equally likely to have any place among the s + 1. So
    the score at place :math:`\lceil (s + 1) c \rceil` of s is not exceeded with probability c or
    more. With fewer than :math:`c / (1 - c)` replicates that place is beyond s. Then the largest
    score is taken, which holds only with probability s / (s + 1)."""
    own = reach(coverage, len(replicates))
    square = np.asarray(replicates - value, dtype=np.float64) ** 2
    square = square[:, (square > 0).any(axis=0)]
    if not square.size:
        return own
    others = (square.sum(axis=0) - square) / (len(square) - 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        score = np.sort(np.sqrt(np.where(square > 0, square / others, 0.0)).max(axis=1))
    place = min(ceil(round((len(score) + 1) * coverage, 9)), len(score))
    finite = score[
        np.isfinite(score)
    ]  # an area that one replicate alone moves has no errors of others
    return max(own, float(finite[min(place, len(finite)) - 1])) if len(finite) else own


#: The least and the most that each of some counts can be.
Range = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class ReplicatedValues:
    """What replicates say of published values."""

    errors: ReplicateErrors
    interval: ReplicateInterval
    other_side: NDArray[np.float64] | None = None
    covered: NDArray[np.bool_] | None = None  #: where replicates say anything, if not everywhere

    @staticmethod
    def from_replicates(
        value: NDArray[Any],
        replicates: NDArray[Any],
        coverage: float,
        *,
        together: bool,
        side: bool = False,
        within: Range | None = None,
        raised: bool = False,
    ) -> ReplicatedValues:
        """Of values and their ``replicates``, ``(s, *value.shape)``. ``together``: intervals that
        hold for all of them at once; ``within`` and ``raised`` as of
        :func:`das.replicates.interval`."""
        errors = ReplicateErrors.from_replicates(value, replicates)
        factor = for_all_at_once(value, replicates, coverage) if together else None
        made = interval(value, errors, coverage, factor, within=within, raised=raised)
        return ReplicatedValues(errors, made, other_side(value, replicates) if side else None)

    def row(self, i: int) -> dict[str, float]:
        """What :class:`das.model.areas.AreaRow` has of replicates; nothing where the value is
        no number in some of them, or they do not cover it.
        """
        errors, made = self.errors, self.interval
        if not np.isfinite(errors.rmse[i]) or not (self.covered is None or self.covered[i]):
            return {}
        told = {"lower": made.lower, "upper": made.upper, "rmse": errors.rmse, "bias": errors.bias}
        if self.other_side is not None:
            told["other_side"] = self.other_side
        return {name: x[i].item() for name, x in told.items()}
