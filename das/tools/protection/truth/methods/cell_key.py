r"""The cell-key method: small random changes that are the same wherever the same persons are
counted.

Published count = count + change, where the change is looked up in a perturbation table by the count
and the cell's key. Zeros stay zero. Each total is changed on its own, so tables do not add up.

*What is known of a line.* The true count lies between the least and the largest count that the
table can turn into y, within y - D and y + D. The price is minus the logarithm of the symmetric
row, :math:`-\ln p_{|v|}`: the law of all but the smallest counts. It is convex, because a
symmetric row is :math:`p_v \propto e^{b v^2}`, :math:`b \le 0`.

*What is proved.* Of tables nothing: a fixed key is one draw for ever, and a bounded change rules out
most counts for certain. Of one printed count alone an epsilon and a delta
(:meth:`PerturbationTable.one_count`).

Source: Australian Bureau of Statistics (Fraser and Wooton, 2005); Eurostat's guidelines for the
2021 censuses; Office for National Statistics, census 2021. J. Bailie, C.-H. Chien, ABS perturbation
methodology through the lens of differential privacy (2019), for the epsilon."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import log
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import brentq

from das.errors import SpecError
from das.model.frozen import Frozen
from das.tools.protection.published import LevelLines, ProtectedTables, TableSet
from das.tools.protection.truth.method import ProtectionMethod, StudyRecords, exact_lines, generator

# Cell keys: a number for each set of persons, the same in every table that counts them.
#
# Each person has a *record key*, uniform on the integers below :math:`2^{64}`, drawn once. The *cell
# key* of a cell is the sum of the keys of its persons modulo :math:`2^{64}`. It is uniform, too,
# unless the cell is empty, and a function of the cell's persons alone. A method that decides by cell
# keys treats the same persons in the same way wherever they are counted. So nothing can be averaged
# away by asking twice.
#
# Source: B. Fraser, J. Wooton, A proposed method for confidentialising tabular output to protect
# against differencing, UNECE work session on statistical data confidentiality (2005).


def cell_keys(records: StudyRecords, tables: TableSet, key: bytes) -> dict[str, NDArray[np.uint64]]:
    """The key of each line of each level, ``(units, lines)``."""
    drawn = generator(key, "record keys").integers(0, 2**64, size=len(records), dtype=np.uint64)
    spine, cells = records.spine, records.schema.cells
    out = {}
    for level in tables.tables:
        unit = spine.up(spine.levels[-1], level)[records.place]
        sums = sparse.coo_array(
            (drawn, (unit, records.cell)), shape=(spine.units(level), cells)
        ).tocsr()
        out[level] = (sums @ tables.lines(level).matrix.T.astype(np.uint64)).toarray()
    return out


def uniform(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Cell keys as numbers above 0 and below 1, the middles of :math:`2^{52}` intervals.

    >>> uniform(np.array([0, 2**63, 2**64 - 1], dtype=np.uint64)).round(6).tolist()
    [0.0, 0.5, 1.0]"""
    return ((keys >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


# Perturbation tables by maximum entropy: how likely each change of a count is.
#
# For a count :math:`i` the change :math:`v \in \{-D..D\}` has the law with the largest entropy
# :math:`-\sum_v p_v \ln p_v` among those with
#
# * :math:`i + v \ge 0`, and :math:`i + v \notin \{1..js\}`: no small count is ever shown;
# * :math:`\sum_v v p_v = 0`: unbiased;
# * :math:`\sum_v v^2 p_v \le V`;
# * where ``mono``, :math:`p` rises from the lowest change towards :math:`v = 0`.
#
# Counts from :math:`D` on (:math:`D + js + 1` where :math:`js > 0`) share one symmetric row.
#
# *Solution.* Let :math:`a` and :math:`b \le 0` be multipliers of the two moments. The best law is
# :math:`p_v \propto e^{f_v}` with :math:`f_v = a v + b v^2`. With ``mono``, the isotonic regression
# of f takes its place on the changes up to 0. The mean increases in
# :math:`a`; at mean 0 the variance increases in :math:`b`. So two nested searches for a zero find
# both multipliers.
#
# Source: T. Enderle, S. Giessing, R. Tent, Calculation of risk probabilities for the cell key method,
# PSD 2020. The R package ptable makes the same tables.

#: How far a moment may be from what it should be.
_TOLERANCE = 1e-9
#: What is less likely than this, compared with the likeliest change, never happens.
NEVER = 1e-15
#: The lowest multiplier of the variance: a law with it has the least variance that there is.
_LOWEST = -60.0


@dataclass(frozen=True, eq=False)
class PerturbationTable(Frozen):
    """``p[i, v + D]``: the probability of change v of count i, ``(rows, 2 D + 1)``. Row 0 changes
    nothing. Counts from the last row on have its law."""

    p: NDArray[np.float64]

    @staticmethod
    @cache
    def maximum_entropy(
        largest: int, variance: float, hidden: int = 0, mono: bool = True
    ) -> PerturbationTable:
        """The table of maximum entropy: changes up to ``largest`` (D), of at most this ``variance``
        (V); counts 1 to ``hidden`` (js) are never shown. Raises :class:`SpecError` where no law has
        these moments."""
        v = np.arange(-largest, largest + 1)
        rows = [(v == 0).astype(float)]
        for count in range(1, largest + hidden + (1 if hidden else 0) + 1):
            allowed = (count + v >= 0) & ~((count + v >= 1) & (count + v <= hidden))
            rows.append(np.zeros(len(v)))
            rows[-1][allowed] = _law(v[allowed], variance, mono, count)
        return PerturbationTable(np.array(rows))

    @property
    def largest(self) -> int:
        """The largest change, D."""
        return self.p.shape[1] // 2

    def one_count(self, first: int = 1) -> tuple[Fraction, Fraction]:
        r"""Of one printed count with a key of its own, between true counts from ``first`` on that
        differ by one person: the largest ratio of probabilities, and delta.

        Let P and Q be the two laws, and C what both can print. For every set S, :math:`P(S) \le r Q(S \cap C) + P(S \setminus C) \le r Q(S) + \delta`, where r is the
        largest ratio on C, and delta the probability of the others. No smaller delta has a finite
        epsilon: let S be all outside C. Exact, for the probabilities of the table."""
        rows = [[Fraction(x) for x in row] for row in [*self.p.tolist(), self.p[-1].tolist()]]
        laws = [{n + j: x / sum(row) for j, x in enumerate(row) if x} for n, row in enumerate(rows)]
        ratio, delta = Fraction(1), Fraction(0)
        for pair in zip(laws[first:], laws[first + 1 :], strict=False):
            for one, other in (pair, pair[::-1]):
                both = one.keys() & other.keys()
                ratio = max(ratio, *(one[y] / other[y] for y in both))
                delta = max(delta, sum((x for y, x in one.items() if y not in both), Fraction(0)))
        return ratio, delta

    def change(self, count: NDArray[np.int64], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        """The change of each count: the first v whose cumulative probability is above its uniform
        number."""
        row = np.minimum(count, len(self.p) - 1)
        above = np.cumsum(self.p, axis=1)
        out = np.zeros(count.shape, dtype=np.int64)
        for j in range(2 * self.largest):
            out += uniform >= above[row, j]
        return np.where(count > 0, out - self.largest, 0)

    def truths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The least and the largest count that can be printed as y, for y = 0, 1, 2, ...; beyond
        the last, they are y - D and y + D."""
        rows, d = len(self.p), self.largest
        ends = rows + 2 * d
        count = np.arange(ends)
        p = self.p[np.minimum(count, rows - 1)]
        i, j = np.nonzero(p > 0)
        printed = count[i] + j - d
        lower, upper = np.full(ends, ends), np.full(ends, -1)
        np.minimum.at(lower, printed[printed < ends], count[i][printed < ends])
        np.maximum.at(upper, printed[printed < ends], count[i][printed < ends])
        keep = rows + d
        return lower[:keep], upper[:keep]


def _law(v: NDArray[np.int64], variance: float, mono: bool, count: int) -> NDArray[np.float64]:
    """The row of the allowed changes ``v`` of a count."""
    where = f"perturbation of count {count}"
    if not (v < 0).any() or not (v > 0).any():
        raise SpecError(
            "no change of this size leaves it unbiased", where=where, remedy="raise D, or lower js"
        )
    at_most = _balanced(v, 0.0, mono)
    if at_most @ v**2 <= variance + _TOLERANCE:
        return at_most
    least = _balanced(v, _LOWEST, mono)
    if least @ v**2 > variance + _TOLERANCE:
        raise SpecError(
            f"every unbiased law has a variance of {least @ v**2:.4g} or more",
            where=where,
            remedy=f"raise V from {variance:g}, or lower js",
        )
    if least @ v**2 >= variance - _TOLERANCE:
        return least
    b = brentq(lambda b: _balanced(v, b, mono) @ v**2 - variance, _LOWEST, 0.0, xtol=1e-13)
    return _balanced(v, b, mono)


def _balanced(v: NDArray[np.int64], b: float, mono: bool) -> NDArray[np.float64]:
    """The law with multiplier b and mean 0."""
    if (v == -v[::-1]).all():
        return _tilted(v, 0.0, b, mono)
    end = 50.0 + 2 * abs(b) * np.abs(v).max()
    a = brentq(lambda a: _tilted(v, a, b, mono) @ v, -end, end, xtol=1e-13, rtol=1e-15)
    return _tilted(v, a, b, mono)


def _tilted(v: NDArray[np.int64], a: float, b: float, mono: bool) -> NDArray[np.float64]:
    f = a * v + b * v**2
    if mono:
        f[v <= 0] = _rising(f[v <= 0])
    p = np.exp(f - f.max())
    p[p < NEVER] = 0.0
    out: NDArray[np.float64] = p / p.sum()
    return out


def _rising(f: NDArray[np.float64]) -> NDArray[np.float64]:
    """The isotonic regression: the largest of the least means of runs around each value.

    >>> _rising(np.array([2.0, 0.0, 1.0, 5.0])).tolist()
    [1.0, 1.0, 1.0, 5.0]"""
    n, sums = len(f), np.concatenate([[0.0], np.cumsum(f)])
    return np.array(
        [
            max(
                min((sums[j] - sums[i]) / (j - i) for j in range(k + 1, n + 1))
                for i in range(k + 1)
            )
            for k in range(n)
        ]
    )


@dataclass(frozen=True)
class CellKey(ProtectionMethod):
    """``D``: the largest change; ``V``: the largest variance of a change; ``js``: counts from 1 to
    js are never printed."""

    D: int = 2
    V: float = 1.0
    js: int = 0

    name: ClassVar[str] = "cell-key"
    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for what, good in (
            (f"D is {self.D!r}: it must be an integer from 1 on", _whole(self.D, 1)),
            (f"js is {self.js!r}: it must be an integer from 0 to D - 1", _whole(self.js, 0)),
            (f"js is {self.js!r}: it must be less than D", self.js < self.D),
            (f"V is {self.V!r}: it must be above 0", self.V > 0),
        ):
            if not good:
                raise SpecError(what, where="method cell-key")
        _ = self.perturbations  # refuses moments that no law has

    @property
    def label(self) -> str:
        return f"cell key, D = {self.D}, V = {self.V:g}" + (f", js = {self.js}" * (self.js > 0))

    @property
    def statement(self) -> str:
        """Its epsilon, and what that does not hold for."""
        (ratio, delta), (_, zero) = (self.perturbations.one_count(n) for n in (1, 0))
        return (
            f"of one printed count, from 1 person on: epsilon {log(ratio) + 5e-5:.4f} at delta"
            f" {float(delta) + 5e-7:.6f}. It is no guarantee of tables: the losses of many counts add"
            " up, and the same persons get the same change. A zero is never changed: between 0 and 1"
            f" person, epsilon is infinite for each delta below {float(zero):.3f}"
        )

    @property
    def perturbations(self) -> PerturbationTable:
        """Its perturbation table."""
        return PerturbationTable.maximum_entropy(self.D, self.V, self.js)

    @property
    def price(self) -> tuple[float, ...]:
        """Of the distances 0 to D. Beyond those that the symmetric row has, it rises as before."""
        last = self.perturbations.p[-1, self.D :]
        costs = (-np.log(last[last > 0] / last[0])).tolist()
        step = costs[-1] - costs[-2] if len(costs) > 1 else -np.log(NEVER)
        beyond = self.D + 1 - len(costs)
        return (*costs, *(costs[-1] + step * np.arange(1, beyond + 1)).tolist())

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        keys, perturbations = cell_keys(records, tables, key), self.perturbations
        levels = {}
        for level, exact in exact_lines(records.histogram(), records.spine, tables).items():
            change = perturbations.change(exact.value, uniform(keys[level]))
            lower, upper = _truths(perturbations, exact.value + change)
            levels[level] = LevelLines(lower, upper, exact.value + change, self.price)
        return ProtectedTables(records.spine, tables, levels)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _truths(
    table: PerturbationTable, printed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bounds of the count behind each printed one."""
    least, most = table.truths()
    few, at = printed < len(least), np.minimum(printed, len(least) - 1)
    return (
        np.where(few, least[at], printed - table.largest),
        np.where(few, most[at], printed + table.largest),
    )
