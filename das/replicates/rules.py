r"""How far replicates fall from what they were made of, and rules that make intervals of these
errors.

A release :math:`\hat x_0` stands in for the truth, and the algorithm is run s times on it, with
fresh noise: :math:`\tilde x_1, \dots, \tilde x_s`. For a statistic q let :math:`q_0 = q(\hat x_0)`,
:math:`d_i = q(\tilde x_i) - q_0`, :math:`D = \sum d_i` and :math:`E = \sum d_i^2`. Then

.. math:: \mathrm{bias} = D/s, \; \mathrm{mse} = E/s, \; \mathrm{var} = (E - D^2/s)/(s - 1).

The assumption: errors of :math:`\tilde x` about :math:`\hat x_0` are distributed as those of
:math:`\hat x_0` about the truth. Nothing confidential is touched, so it costs no privacy.

The Bureau's rule, ``ct``, makes the interval :math:`q_0 - b \pm k\sqrt{\mathrm{mse}}`. k is the
quantile of Student's t with 5 degrees of freedom, 2.571 at 95 %. b is the estimated bias, where
:math:`q_0 > 5`, :math:`|\mathrm{bias}| \ge \mathrm{sd}/2`, and the bias is negative or :math:`q_0
\ge 25`; otherwise 0. Counts are whole: the lower end is rounded down, and is not below 0; the upper
end is rounded up. It is the rule of every statistic by itself. For the counts of a whole table
there is a better one (:mod:`das.replicates.by_truth`).

Five degrees of freedom make up for replicates that scatter too little: a published block is
smoother than a true one. k also has to make up for the number of replicates s. About a known center
:math:`\sum d_i^2` of normal errors has s degrees of freedom. So a new error is within :math:`t_s
\sqrt{\mathrm{mse}}` with the coverage, and fewer than five replicates take :math:`t_s` instead of
:math:`t_5`. With five and more :math:`t_5` is the larger.

*Public bounds of a count.* A count is somewhere from a to b (:mod:`das.model.count_range`). Both
ends are cut at these, which loses no truth; the interval of a count with a = b is the count itself.
The Bureau subtracts no positive bias from small counts. Replicates cannot fall below 0, so for a
count near 0 they are too high, and the truth is not. At b the same holds in reverse. With r = b -
value, the room above, a bias is subtracted only if also :math:`r > 5`, and it is positive or
:math:`r \ge 25`. So for two counts with a known sum, such as occupied and vacant units, one
interval is the mirror image of the other. Without a known b this is exactly the Bureau's rule.

*Other statistics than counts.* Noise can only raise some indexes (a dissimilarity, a deviation).
Their bias is subtracted wherever it is half a standard deviation or more. That of a share, a
difference or a rank is not. Noise moves these in either direction, and the bias that replicates show is that of a release *made from* the published counts. Over runs of blocks
the estimated bias of shares had a mean of zero, and subtracting it lost a tenth of the coverage
(``python -m benchmarks.intervals``).

*The basis of an interval.* Replicates of a release hold public counts fixed: invariants, and the
counts of an earlier release that this one is based on. No replicate moves what these determine.
Where an invariant determines it, the count is *exact*. A published count of an earlier release has
an error that nothing here knows. An interval from it would be a point, which holds the truth only
if that release happens to be right. Such a count is *not covered*, and gets no interval. All other
counts of such a release have intervals *given* those earlier counts, whose coverage is lower than
stated.

Source: Ashmead, Hawes, Pritts, Zhuravlev, Keller (2024), *An approximate Monte Carlo method*,
sections 2 to 5.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

Floats = NDArray[np.float64]
#: By number, as rows have them; and what each means.
BASES = {
    "exact": "the count is known exactly: an invariant, or a combination that cannot be",
    "replicates": "the interval is from the replicates",
    "given earlier counts": (
        "the interval is from the replicates, which all have the counts of an earlier release: the"
        " errors of these are not in it, and it holds less often than it says"
    ),
    "not covered": (
        "there is no interval: an earlier release determines the count, which is the same in all"
        " replicates, and nothing here knows the errors of that release"
    ),
}
EXACT, REPLICATES, GIVEN, NOT_COVERED = range(len(BASES))
#: Of Student's t: chosen by trial, by the Bureau.
DEGREES = 5
#: The largest coverage: normal errors are not known any farther out.
MOST = 0.999999
#: Published values above which a bias is subtracted, and from which one above 0 is.
SMALL, LARGE = 5, 25


@dataclass(frozen=True, eq=False)
class ReplicateErrors(Frozen):
    """Of ``replicates``, and of statistics of any shape: the sums ``first`` of their differences
    and ``second`` of the squares of these. Of counts both are integers, and every comparison of
    them is exact."""

    replicates: int
    first: NDArray[np.int64] | Floats
    second: NDArray[np.int64] | Floats

    def __post_init__(self) -> None:
        if self.replicates < 2 or self.first.shape != self.second.shape:
            raise InputError(
                f"{self.replicates} replicates, sums of {self.first.shape} and squares of"
                f" {self.second.shape}",
                where="replicates",
                remedy="two replicates at the least, and as many sums as squares",
            )

    @staticmethod
    def of(
        value: NDArray[np.int64] | Floats, replicates: NDArray[np.int64] | Floats
    ) -> ReplicateErrors:
        """Of published values and their ``replicates``, ``(s, *value.shape)``."""
        difference = replicates - value
        return ReplicateErrors(
            len(replicates), difference.sum(axis=0), (difference * difference).sum(axis=0)
        )

    @staticmethod
    def over(value: NDArray[np.int64], replicates: Iterable[NDArray[np.int64]]) -> ReplicateErrors:
        """The errors of counts, from one replicate after the other."""
        first, second, number = np.zeros_like(value), np.zeros_like(value), 0
        for one in replicates:
            difference = one - value
            first += difference
            second += difference * difference
            number += 1
        return ReplicateErrors(number, first, second)

    @property
    def bias(self) -> Floats:
        return self.first / self.replicates

    @property
    def rmse(self) -> Floats:
        return np.sqrt(self.second / self.replicates)

    @property
    def sd(self) -> Floats:
        return np.sqrt(
            np.maximum(self.second - self.first * (self.first / self.replicates), 0)
            / (self.replicates - 1)
        )

    def leans(self) -> NDArray[np.bool_]:
        r"""Whether :math:`|\mathrm{bias}| \ge \mathrm{sd}/2`, and there is any: :math:`4(s-1)D^2
        \ge s(sE - D^2)`. Of counts, without rounding."""
        s, square = self.replicates, self.first * self.first
        return (self.first != 0) & (4 * (s - 1) * square >= s * (s * self.second - square))


def student(coverage: float, degrees: int) -> float:
    """The half-width that holds with the ``coverage``, in root mean squares."""
    from scipy.special import stdtrit  # slow to load

    return float(stdtrit(degrees, (1 + coverage) / 2))


def reach(coverage: float, replicates: int) -> float:
    """The k of the rule."""
    return student(coverage, min(DEGREES, replicates))


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


def interval(
    value: NDArray[np.int64] | Floats,
    errors: ReplicateErrors,
    coverage: float,
    factor: float | Floats | None = None,
    *,
    within: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None,
    raised: bool = False,
) -> ReplicateInterval:
    """Of published values, which are counts if they are integers. ``factor`` takes the place of the
    rule's own k, of all or of each. ``within``: of counts, the least and the most that each can be. ``raised``: of
    what is no count, whether noise raises it, so that its bias is subtracted.

    Raises:
        InputError: a coverage that is none.
    """
    check_coverage(coverage)
    counts = np.issubdtype(value.dtype, np.integer)
    subtracted = np.zeros(value.shape, dtype=bool)
    if counts:
        subtracted = errors.leans() & (value > SMALL) & ((errors.first < 0) | (value >= LARGE))
        if within is not None:
            room = within[1] - value
            subtracted &= (room > SMALL) & ((errors.first > 0) | (room >= LARGE))
    elif raised:
        subtracted = errors.leans()
    point = value - np.where(subtracted, errors.bias, 0.0)
    margin = (reach(coverage, errors.replicates) if factor is None else factor) * errors.rmse
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


def bases(
    errors: ReplicateErrors, certain: NDArray[np.bool_], *, earlier: bool
) -> NDArray[np.int8]:
    """Of counts with these errors. ``certain``: where a count is known exactly; ``earlier``: all
    replicates keep the counts of an earlier release.
    """
    if not earlier:
        return np.where(certain, EXACT, REPLICATES).astype(np.int8)
    return np.select([certain, errors.second == 0], [EXACT, NOT_COVERED], GIVEN).astype(np.int8)
