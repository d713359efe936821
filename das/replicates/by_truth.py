r"""Intervals of counts that hold by *true* value, of every size, as narrow as can be.

The Bureau's rule holds by published value. Most true counts of 1 to 4 in blocks are published as 0,
like nearly all true zeros. By that rule a 0 without a positive replicate is 0 to 0. Its
surroundings show which zeros can be small counts: the parent's count in the same column, how many
persons the unit has, how common the column is. Call that the context, c.

**Tests of small counts.** Let :math:`P_t(v, c)` be the distribution of published value and context
over the cells whose true count is t, and m that over all cells. A confidence set that holds by true
value is :math:`S(v, c) = \{t: (v, c) \in A_t\}` with regions of acceptance :math:`P_t(A_t) \ge
\gamma` for each t, where :math:`\gamma` is the coverage. Its mean size over all cells is

.. math:: \mathrm{E}_m |S| = \sum_{v, c} m(v, c) \sum_t [(v, c) \in A_t] = \sum_t m(A_t),

So the narrowest has, for each t by itself, the region of least m among those with
:math:`P_t(A_t) \ge \gamma`. By the lemma of Neyman and Pearson that is the region of the largest
:math:`P_t(v, c) / m(v, c)` (Pratt, 1961). Where a share :math:`\pi_t` of the cells has the true
count t, :math:`\pi_t P_t / m` is the share of t among the cells that show (v, c): each t accepts
the strongest evidence for it. ∎

**An interval about the published count.** Let e be its error, the published value v less the true
t. Let :math:`\hat\beta` be the mean error of the replicates, over the cells of its column with a
published count of its size. Suppose that the bias of the release is in the same direction, and up
to three times as large: :math:`e = \theta\hat\beta + x` with :math:`0 \le \theta \le 3`. Then

.. math:: v - \max(3\hat\beta, 0) - k \le t \le v + \max(-3\hat\beta, 0) + k

wherever :math:`|x| \le k`, because :math:`t = v - \theta\hat\beta - x`. k is :math:`t_s
\sqrt{\mathrm{mse}}` of the count's own s replicates, which holds with the coverage for normal x of
that mean square (:mod:`das.replicates.by_truth`). t is whole, so both ends are rounded to the nearest
whole number: if x is a rounded normal error, :math:`|x| \le k + 1/2` loses nothing. ∎

Replicates show only a part of the bias. The release that they are made from has come nearer to what
the algorithm pulls it to. Large blocks lose persons, and their replicates about a third as many. The 3 was chosen by trial, as the Bureau chose its five degrees of freedom.

*What is estimated, and what holds.* What was published stands for the truth, t, and each replicate
shows the (v, c) of each of its cells. All units of a level and columns of a table together make up
:math:`P_t` and m. So all this is about a truth that is like the publication, over the cells of one
table and level together. It does not cover each column, or a truth that is less smooth than its
publication. Real truth is less smooth. Coverage is measured (``docs/explanation/intervals.md``, ``python -m
benchmarks.intervals``).

*The interval* includes both: that about the published count, and every t up to :data:`LARGEST` that
accepts what is shown. The tests alone are narrower. But some values are accepted by zero alone, so
that most counts published as 1 to 4 would be outside their intervals. Every interval has its
published count in it, so a true count t is held at least as often as it is published exactly. True
zeros nearly always are: no such rule can hold them only as often as asked for.

Structural zeros and invariants have no width, and say nothing about other cells.

Source: Pratt (1961), *Length of confidence intervals*, J. Amer. Statist. Assoc. 56, 549-567."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen

# How far replicates fall from what they were made of, and rules that make intervals of these
# errors.
#
# A release :math:`\hat x_0` stands in for the truth, and the algorithm is run s times on it, with
# fresh noise: :math:`\tilde x_1, \dots, \tilde x_s`. For a statistic q let :math:`q_0 = q(\hat x_0)`,
# :math:`d_i = q(\tilde x_i) - q_0`, :math:`D = \sum d_i` and :math:`E = \sum d_i^2`. Then
#
# .. math:: \mathrm{bias} = D/s, \; \mathrm{mse} = E/s, \; \mathrm{var} = (E - D^2/s)/(s - 1).
#
# The assumption: errors of :math:`\tilde x` about :math:`\hat x_0` are distributed as those of
# :math:`\hat x_0` about the truth. Nothing confidential is touched, so it costs no privacy.
#
# The Bureau's rule, ``ct``, makes the interval :math:`q_0 - b \pm k\sqrt{\mathrm{mse}}`. k is the
# quantile of Student's t with 5 degrees of freedom, 2.571 at 95 %. b is the estimated bias, where
# :math:`q_0 > 5`, :math:`|\mathrm{bias}| \ge \mathrm{sd}/2`, and the bias is negative or :math:`q_0
# \ge 25`; otherwise 0. Counts are whole: the lower end is rounded down, and is not below 0; the upper
# end is rounded up. It is the rule of every statistic by itself. For the counts of a whole table
# there is a better one (:mod:`das.replicates.by_truth`).
#
# Five degrees of freedom make up for replicates that scatter too little: a published block is
# smoother than a true one. k also has to make up for the number of replicates s. About a known center
# :math:`\sum d_i^2` of normal errors has s degrees of freedom. So a new error is within :math:`t_s
# \sqrt{\mathrm{mse}}` with the coverage, and fewer than five replicates take :math:`t_s` instead of
# :math:`t_5`. With five and more :math:`t_5` is the larger.
#
# *Public bounds of a count.* A count is somewhere from a to b (:mod:`das.model.constraint`). Both
# ends are cut at these, which loses no truth; the interval of a count with a = b is the count itself.
# The Bureau subtracts no positive bias from small counts. Replicates cannot fall below 0, so for a
# count near 0 they are too high, and the truth is not. At b the same holds in reverse. With r = b -
# value, the room above, a bias is subtracted only if also :math:`r > 5`, and it is positive or
# :math:`r \ge 25`. So for two counts with a known sum, such as occupied and vacant units, one
# interval is the mirror image of the other. Without a known b this is exactly the Bureau's rule.
#
# *Other statistics than counts.* Noise can only raise some indexes (a dissimilarity, a deviation).
# Their bias is subtracted wherever it is half a standard deviation or more. That of a share, a
# difference or a rank is not. Noise moves these in either direction, and the bias that replicates show is that of a release *made from* the published counts. Over runs of blocks
# the estimated bias of shares had a mean of zero, and subtracting it lost a tenth of the coverage
# (``python -m benchmarks.intervals``).
#
# *The basis of an interval.* Replicates of a release hold public counts fixed: invariants, and the
# counts of an earlier release that this one is based on. No replicate moves what these determine.
# Where an invariant determines it, the count is *exact*. A published count of an earlier release has
# an error that nothing here knows. An interval from it would be a point, which holds the truth only
# if that release happens to be right. Such a count is *not covered*, and gets no interval. All other
# counts of such a release have intervals *given* those earlier counts, whose coverage is lower than
# stated.
#
# Source: Ashmead, Hawes, Pritts, Zhuravlev, Keller (2024), *An approximate Monte Carlo method*,
# sections 2 to 5.

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
    def from_replicates(
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
        can be."""
        ends: list[NDArray[Any]] = [
            np.clip(end, least, most).astype(end.dtype) for end in (self.lower, self.upper)
        ]
        return replace(self, lower=ends[0], upper=ends[1])


def check_coverage(coverage: float) -> None:
    """Raises :class:`InputError` for a coverage that is none, or that no interval of numbers
    has."""
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
        InputError: a coverage that is none."""
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
    replicates keep the counts of an earlier release."""
    if not earlier:
        return np.where(certain, EXACT, REPLICATES).astype(np.int8)
    return np.select([certain, errors.second == 0], [EXACT, NOT_COVERED], GIVEN).astype(np.int8)


# Intervals of counts whose bias replicates show in part, and together with those of their table.
#
# Replicates are made from a release, so they show the bias that the algorithm has *at the release*.
# Let it pull a count x toward a value a, because little is measured of it: the mean of a release is
# :math:`x - (1 - g)(x - a)`, with a gain g from 0 to 1. The bias is :math:`b = -(1 - g)(x - a)`.
# At a release that is off by just that, it is :math:`-(1 - g)(x + b - a) = gb`. So of a pulled count
# replicates show the part g of its bias, and where the release has come near a by chance, hardly any.
# Counts that only sums of hundreds of noisy answers tell are pulled most. In production's plan of the
# DHC these are the ages of householders. The table's total is known better: what one count has too
# much, others of the table have too little, and some of these show it.
#
# **The rule.** Let J be the columns of a table that some replicate has moved, in one unit. Let s
# replicates have the variances :math:`v_j` and the biases :math:`\hat b_j` there, and
#
# .. math:: B = \max\Bigl(0, \frac1{|J|} \sum_{j \in J} \bigl(\hat b_j^2 - v_j/s\bigr)\Bigr), \qquad
# \tau_j^2 = \max(\mathrm{mse}_j, v_j + 3B).
#
# The interval of column j is :math:`q_0 - b \pm k \tau_j`, with k and the subtracted b as of
# :mod:`das.replicates.by_truth`. No interval is narrower than that of the rule. Without biases it is
# that of the rule, about. Counts that no replicate has moved keep no width: they are exact,
# impossible, or there is nothing to be seen of them.
#
# **What holds.** Let :math:`e_j` be the error of column j, what is subtracted taken off, of variance
# :math:`v_j` and bias :math:`b_j`. Suppose
#
# 1. the mean of :math:`b_j^2` over J is 3B at the most: a third of the squared biases is seen, which
# is a gain of 0.58 or more. The replicates need to be right about one number of a table in one
# unit, in place of the bias of each count;
# 2. biases are not larger where variances are smaller: over J, :math:`b_j^2` and
# :math:`1/(v_j + 3B)` are not positively correlated;
# 3. :math:`e_j / \tau_j`, of a column that is drawn from J by lot, has a unimodal distribution, about
# any mode.
#
# Then at least the share :math:`1 - 4/(9k^2)` of the columns of J has its count in its interval, in
# expectation, if :math:`k \ge \sqrt{8/3}`: .891 at 90 %, where k = 2.015, and .933 at 95 %. Without
# the third condition it is :math:`1 - 1/k^2`.
#
# *Proof.* With :math:`w_j = 1/(v_j + 3B)` and means over J,
# :math:`\overline{\mathrm{E}\,e^2/\tau^2} \le \overline{(v + b^2)w} = 1 + \overline{(b^2 - 3B)w} \le 1
# + (\overline{b^2} - 3B)\,\overline w \le 1`, by the second condition and the first. So the second
# moment of e / tau, of a column drawn by lot, is 1 at the most. The inequality of Vysochanskij and
# Petunin (1980) is of deviations of a unimodal variable from any point. By it, e / tau is beyond k
# with probability :math:`4/(9k^2)` at the most; by that of Chebyshev with :math:`1/k^2`. That is the
# mean over J of the probabilities of being missed. Ends that are rounded outwards, and cut at what can be,
# miss no more. ∎
#
# The 3 was chosen by trial, as the Bureau chose its five degrees of freedom. The trial was on some of
# the releases of ``python -m benchmarks.dhc_coverage``, which measures what comes of it.
#
# **What no rule can hold.** Let x and x' be two truths, given or drawn by lot, whose counts differ by
# w or more. Let :math:`\tau` be the total variation between the distributions of what is measured.
# Take any rule, of measurements, releases, and replicates, with intervals shorter than w. It holds
# one of the two truths with probability :math:`(1 + \tau)/2` at the most.
#
# *Proof.* No such interval has both counts in it. So it cannot hold the one and the other at once, and
# under one distribution these two probabilities sum to 1 at the most. Under two distributions they
# sum to :math:`1 + \tau` at the most. ∎
#
# Let a count move by w, evenly over the k answers of a query with noise of precision :math:`\rho`.
# Then their mean moves by :math:`w\sqrt{\rho/k}` standard deviations, and :math:`\tau =
# 2\Phi(w\sqrt{\rho/k}/2) - 1`. So where :math:`w^2 \ll k/\rho`, coverage at every truth takes
# intervals of length w. The remedy is then a query that tells the count.
#
# Source: Vysochanskij and Petunin (1980), *Justification of the 3-sigma rule for unimodal
# distributions*, Theory of Probability and Mathematical Statistics 21, 25-36.

#: How many times the squared biases that replicates show those of the release are taken to be.
UNSEEN = 3


def factors(
    errors: ReplicateErrors, able: NDArray[np.bool_], coverage: float
) -> NDArray[np.float64]:
    r"""How many of its own root mean squared errors each margin of the rule is, ``(units,
    columns)``: :math:`k \tau_j / \sqrt{\mathrm{mse}_j}`. ``able``: where a count is not certain.

    >>> errors = ReplicateErrors(2, np.array([[0, 12, 0]]), np.array([[2, 72, 0]]))
    >>> factors(errors, np.ones((1, 3), dtype=bool), 0.9).round(2).tolist()
    [[21.56, 3.53, 2.92]]"""
    moved = able & (errors.second > 0)
    variance, s = errors.sd**2, errors.replicates
    square = np.where(moved, errors.bias**2 - variance / s, 0.0).sum(axis=1, keepdims=True)
    bias = np.maximum(square, 0.0) / np.maximum(moved.sum(axis=1, keepdims=True), 1)
    more = np.ones_like(variance)
    np.divide(s * (variance + UNSEEN * bias), errors.second, out=more, where=moved)
    return reach(coverage, s) * np.sqrt(np.maximum(more, 1.0))


Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

#: True counts up to this one are tested here.
LARGEST = 24
#: Published counts from this one on are one class.
MANY = 61
#: Where the classes of context begin: what the parent has of the column, and the persons (or
#: records) of the unit.
OF_PARENT = np.array([1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500])
OF_UNIT = np.array([1, 3, 6, 11, 25, 60, 150])
#: Where those of size begin, within which biases are averaged.
OF_VALUE = 4 ** np.arange(31)
#: And those of the mean of a column over the units of the level, from 1/256 on.
OF_COLUMN = 4.0 ** np.arange(-4, 2)
_CONTEXTS = (len(OF_PARENT) + 1) * (len(OF_UNIT) + 1) * (len(OF_COLUMN) + 1)


@dataclass(frozen=True, eq=False)
class ShownCounts(Frozen):
    """What one publication shows of some units: ``value`` and, of each unit's parent, ``above``,
    both ``(units, columns)``; ``population`` ``(units,)``, how many records the unit has."""

    value: Ints
    above: Ints
    population: Ints


@dataclass(frozen=True, eq=False)
class TrueValueRule(Frozen):
    """Of each class of what is shown, ``(classes,)``: the least and the largest true count that
    accepts it, and whether any does; of each column, ``(columns,)``, how common it is, and whether
    some replicate has moved it; and the mean error of the replicates ``(sizes, columns)``."""

    coverage: float
    least: Ints
    largest: Ints
    accepted: Mask
    common: Ints
    moved: Mask
    bias: NDArray[np.float64]

    def interval(
        self, shown: ShownCounts, errors: ReplicateErrors, able: Mask
    ) -> ReplicateInterval:
        """Of published counts with these ``errors`` of their replicates. ``able`` ``(units,
        columns)``: where a count is not certain; elsewhere it is its own interval."""
        value, of = shown.value, _classes(shown, self.common)
        bias = UNSEEN * self.bias[_size(value), np.arange(value.shape[1])]
        margin = student(self.coverage, errors.replicates) * errors.rmse
        lower = np.floor(value - margin - np.maximum(bias, 0) + 0.5).astype(np.int64)
        upper = np.ceil(value + margin - np.minimum(bias, 0) - 0.5).astype(np.int64)
        wider = self.moved & self.accepted[of]
        lower = np.maximum(np.where(wider, np.minimum(lower, self.least[of]), lower), 0)
        upper = np.where(wider, np.maximum(upper, self.largest[of]), upper)
        lower, upper = (np.where(able, end, value) for end in (lower, upper))
        margin = np.where(able, np.maximum(margin, (upper - lower) / 2), 0.0)
        return ReplicateInterval(lower, upper, margin, np.zeros(value.shape, dtype=bool))


def rule_of(
    shown: Iterable[tuple[Ints, Mask, Iterable[ShownCounts]]], columns: int, coverage: float
) -> TrueValueRule:
    """From some units at a time: the published counts, which stand for the truth, and where they
    are not certain, both ``(units, columns)``; and what each replicate shows of the units.
    ``shown`` is gone through twice, and so no iterator."""
    units, total, moved = 0, np.zeros(columns, dtype=np.int64), np.zeros(columns, dtype=bool)
    sizes, bias = (len(OF_VALUE) + 1, columns), np.zeros((2, (len(OF_VALUE) + 1) * columns))
    for true, able, replicates in shown:
        units, total = units + len(true), total + true.sum(axis=0)
        error, number = np.zeros_like(true), 0
        for one in replicates:
            moved |= (one.value != true).any(axis=0)
            error, number = error + (one.value - true), number + 1
        at = (_size(true) * columns + np.arange(columns))[able]
        for i, of_cells in enumerate((error, np.full_like(true, number))):
            bias[i] += np.bincount(at, of_cells[able], len(bias[i]))
    common = np.searchsorted(OF_COLUMN, total / max(units, 1), side="right")
    seen = np.zeros((LARGEST + 1, (MANY + 1) * _CONTEXTS), dtype=np.int64)
    every = np.zeros(seen.shape[1], dtype=np.int64)
    for true, able, replicates in shown:
        counted = able & moved
        tested = counted & (true <= LARGEST)
        for one in replicates:
            of = _classes(one, common)
            np.add.at(every, of[counted], 1)
            np.add.at(seen, (true[tested], of[tested]), 1)
    there = np.flatnonzero(every)  # few of the classes
    accepts = np.array([_accepts(row, every[there], coverage) for row in seen[:, there]])
    least, largest = np.zeros((2, len(every)), dtype=np.int64)
    accepted = np.zeros(len(every), dtype=bool)
    accepted[there], least[there] = accepts.any(axis=0), accepts.argmax(axis=0)
    largest[there] = LARGEST - accepts[::-1].argmax(axis=0)
    mean = (bias[0] / np.maximum(bias[1], 1)).reshape(sizes)
    return TrueValueRule(coverage, least, largest, accepted, common, moved, mean)


def _size(value: Ints) -> Ints:
    """The class of each count in which biases are averaged."""
    return np.searchsorted(OF_VALUE, value, side="right").astype(np.int64)


def _accepts(seen: Ints, every: Ints, coverage: float) -> Mask:
    """The classes with the largest share of one true count, until they hold the ``coverage`` of its
    cells; those of equal share together."""
    out, there = np.zeros(len(seen), dtype=bool), np.flatnonzero(seen)
    share = seen[there] / every[there]
    order = np.argsort(-share, kind="stable")
    held = np.cumsum(seen[there[order]])
    if len(held):
        last = share[order[np.searchsorted(held, coverage * held[-1])]]
        out[there[share >= last]] = True
    return out


def _classes(shown: ShownCounts, common: Ints) -> Ints:
    """The class of each cell, ``(units, columns)``, from 0: of its value and its context."""
    out = np.minimum(shown.value, MANY) * (len(OF_PARENT) + 1) + np.searchsorted(
        OF_PARENT, shown.above, side="right"
    )
    out = (
        out * (len(OF_UNIT) + 1) + np.searchsorted(OF_UNIT, shown.population, side="right")[:, None]
    )
    return out * (len(OF_COLUMN) + 1) + common
