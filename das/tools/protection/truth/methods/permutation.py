r"""Permutation swapping: the version of swapping with a statement, given its invariants.

Households with the same key (size, the persons in each group of ``match``, the unit of ``within``)
are a *stratum*. In each stratum every household is chosen with probability p, independently of the
others. If exactly one is chosen, the draw is repeated. The places of the chosen ones are permuted,
uniformly among the permutations that leave none where it was.

*What is proved.* Let k households of a stratum of b move. Such an outcome has a probability
proportional to :math:`o^k / D_k`, with the odds :math:`o = p / (1 - p)` and the number
:math:`D_k` of permutations of k without a fixed point. Let two data sets differ by exchanging two
households of the stratum. They reach the same outcome by k and by k + j moves, :math:`j \in \{0, 1,
2\}` either way. So its probabilities differ by a factor of at most :math:`e^\varepsilon`,

.. math:: \varepsilon(b, p) = \max_{k \ne 1,\; k + j \ne 1,\; k + j \le b}
    \Bigl| j \ln o - \ln \frac{D_{k+j}}{D_k} \Bigr|.

It is attained where all places and all households of the stratum differ. For :math:`p \le 1/2`
and :math:`b \ge 4` it is :math:`-2 \ln o + \ln(D_b / D_{b-2})`, just below :math:`2 (\ln (b + 1) -
\ln o)`. That is twice the value of the paper below, whose unit is half an exchange. It holds *given
the invariants*: counts of households by key and place, and everything about the households of a
stratum except their places. Larger strata mean a larger epsilon. It bounds no attack through the
invariants, and is no number to set next to that of a method without any.

Source: J. Bailie, R. Gong, X.-L. Meng, A refreshment stirred, not shaken II: invariant-preserving
deployments of differential privacy for the US decennial census, arXiv 2501.08449; part III, arXiv
2504.15246. The exact value is checked here by enumeration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from das.errors import SpecError
from das.tools.protection.published import ProtectedTables, TableSet
from das.tools.protection.truth.method import (
    Guarantee,
    ProtectionMethod,
    StudyRecords,
    exact_lines,
    generator,
)
from das.tools.protection.truth.methods.swapping import KINDS, SwapUnits

#: From here on a factorial over e is the number of derangements, to all digits of a double.
_MANY = 20


@dataclass(frozen=True)
class PermutationSwapping(ProtectionMethod):
    """``p``: the chance of each household to be chosen; ``match``: attributes or groupings whose
    counts in the household are part of its key; ``within``: the level whose units are, too;
    ``unit``: ``household`` or ``person``."""

    p: float = 0.05
    match: tuple[str, ...] = ()
    within: str | None = None
    unit: str = "household"

    name: ClassVar[str] = "permutation-swapping"
    random: ClassVar[bool] = True
    guarantee: ClassVar[Guarantee] = Guarantee.CONDITIONAL

    def __post_init__(self) -> None:
        for what, good in (
            (f"p is {self.p!r}: it must be above 0 and below 1", 0 < self.p < 1),
            (f"unit is {self.unit!r}: it can be {', '.join(KINDS)}", self.unit in KINDS),
        ):
            if not good:
                raise SpecError(what, where="method permutation-swapping")

    @property
    def label(self) -> str:
        what = "households" if self.unit == KINDS[0] else "persons (no households known)"
        key = ", ".join(("size", *self.match, *([self.within] if self.within else [])))
        return f"permutation swapping, {self.p:.3g} of {what}; {key}"

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        swapped = self.swapped(records, key).histogram()
        levels = exact_lines(swapped, records.spine, tables)
        return ProtectedTables(records.spine, tables, levels)

    def epsilon(self, records: StudyRecords) -> float:
        """Epsilon of the largest stratum, for the exchange of two households, given the invariants
        that the module names. It is a function of the invariants."""
        return conditional_epsilon(
            int(np.bincount(self._strata(records)[1]).max(initial=0)), self.p
        )

    def swapped(self, records: StudyRecords, key: bytes) -> StudyRecords:
        """The records after swapping."""
        units, stratum = self._strata(records)
        rng, place = generator(key, "permutation swapping"), units.place.copy()
        order = np.argsort(stratum, kind="stable")
        for members in np.split(order, np.flatnonzero(np.diff(stratum[order])) + 1):
            moving = members[moves(len(members), self.p, rng)]
            place[moving] = units.place[moving[derangement(len(moving), rng)]]
        return units.moved(records, place)

    def _strata(self, records: StudyRecords) -> tuple[SwapUnits, NDArray[np.int64]]:
        """The units, and the number of the stratum of each."""
        units, spine = SwapUnits.from_records(records, self.unit, self.match), records.spine
        area = spine.up(spine.levels[-1], self.within or spine.levels[0])[units.place]
        keys = np.stack([units.size, units.profile, area])
        return units, np.unique(keys, axis=1, return_inverse=True)[1].ravel()


def moves(b: int, p: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """The members of a stratum of b that move: independent draws, repeated while exactly one is
    drawn."""
    while True:
        drawn = np.flatnonzero(rng.random(b) < p)
        if len(drawn) != 1:
            return drawn


def derangement(n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A permutation of n without a fixed point, uniform among these: by rejection, e draws on
    average."""
    while True:
        drawn = rng.permutation(n)
        if not (drawn == np.arange(n)).any():
            return drawn


def conditional_epsilon(b: int, p: float) -> float:
    """Epsilon of permutation swapping for the exchange of two members of a stratum of b, as the
    module has it.

    >>> round(conditional_epsilon(4, 0.05), 4), round(conditional_epsilon(1000, 0.05), 3)
    (8.0861, 19.703)"""
    log_odds, size = np.log(p) - np.log1p(-p), np.arange(b + 1)
    logs = _log_derangements(b)
    worst = 0.0
    for j in (1, 2):
        k = size[: max(b + 1 - j, 0)]
        k = k[(k != 1) & (k + j != 1)]
        if len(k):
            worst = max(worst, float(abs(j * log_odds - logs[k + j] + logs[k]).max()))
    return worst


def _log_derangements(b: int) -> NDArray[np.float64]:
    r""":math:`\ln D_n` for n from 0 to b; :math:`-\infty` at 1."""
    exact = [1, 0]
    for n in range(2, min(b, _MANY) + 1):
        exact.append((n - 1) * (exact[-1] + exact[-2]))
    with np.errstate(divide="ignore"):
        few = np.log(np.array(exact[: b + 1], dtype=np.float64))
    many = gammaln(np.arange(len(few), b + 1) + 1.0) - 1.0
    return np.concatenate([few, many])
