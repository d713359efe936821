r"""Swapping: pairs of households exchange their places.

Each household is chosen with a chance whose mean is ``rate``: the same for all, or, with ``rare``,
higher for a household with a rare member (:mod:`das.tools.protection.truth.methods.swapping`). The chosen ones are paired
(:mod:`das.tools.protection.truth.methods.swapping`): partners have the same number of persons, and as many in each group of
the attributes ``match``. With ``partner = "nearest"`` half as many are chosen, and each finds a
partner among all households nearby (:mod:`das.tools.protection.truth.methods.swapping`).

*Invariants.* All tables of areas that hold both partners. Without noise in sizes, the persons of
each place; with ``match = ["votingage"]``, its adults and minors. Two partners in one place change
nothing.

*What is proved.* Nothing of this version. :mod:`das.tools.protection.truth.methods.permutation` has a statement.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), section 2.3 and appendix C. Its two experiments are
:data:`LOW` and :data:`HIGH`. (Their code draws noise and reach from the same numbers; here they are
independent, as the text has it.)"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.spatial import KDTree
from scipy.special import gammaln

from das.errors import InputError, SpecError
from das.model.frozen import Frozen
from das.model.spine import Spine
from das.tools.protection.published import ProtectedTables, TableSet
from das.tools.protection.truth.method import (
    NO_HOUSEHOLD,
    Guarantee,
    ProtectionMethod,
    StudyRecords,
    exact_lines,
    generator,
)

# Partners of swapped households nearby: one of the five nearest elsewhere with the same key.
#
# The households that look for a partner do so in the given order. A partner has the same key, has not
# moved and is in another place. Each household draws its partner uniformly from the nearest
# :data:`CHOICE`, by the coordinates of their places; among those in one place, which are nearest is
# drawn, too. If the :data:`SEARCHED` nearest places have nobody, the household draws one of all that
# are free; if there is none, it stays.
#
# Source: arXiv 2502.01320 (:mod:`das.tools.protection.truth.methods.swapping`).

#: Households among which a partner is drawn.
CHOICE = 5
#: Nearest places that are searched before all others are.
SEARCHED = 32


def nearest_pairs(
    seekers: NDArray[np.int64],
    key: NDArray[np.int64],
    place: NDArray[np.int64],
    points: NDArray[np.float64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The pairs, ``(pairs, 2)``. ``seekers``: the units that look, in order; ``key`` and ``place``
    of each unit; ``points``: the coordinates of each place."""
    moved = np.zeros(len(key), dtype=bool)
    out = [np.zeros((0, 2), dtype=np.int64)]
    order = np.lexsort((rng.random(len(key)), place, key))
    for wanted in np.unique(key[seekers]):
        start, end = np.searchsorted(key[order], [wanted, wanted + 1])
        members = order[start:end]
        mine = seekers[key[seekers] == wanted]
        there, first = np.unique(place[members], return_index=True)
        homes = np.split(members, first[1:])
        near = KDTree(points[there]).query(points[place[mine]], k=min(SEARCHED, len(there)))[1]
        for seeker, found in zip(mine.tolist(), near.reshape(len(mine), -1), strict=True):
            if moved[seeker]:
                continue
            free = _nearest(place[seeker], found, there, homes, moved)
            if not len(free):
                free = members[~moved[members] & (place[members] != place[seeker])]
            if len(free):
                pair = np.array([[seeker, rng.choice(free)]])
                moved[pair] = True
                out.append(pair)
    return np.concatenate(out)


def _nearest(
    here: int,
    near: NDArray[np.int64],
    there: NDArray[np.int64],
    homes: list[NDArray[np.int64]],
    moved: NDArray[np.bool_],
) -> NDArray[np.int64]:
    """The nearest free members, :data:`CHOICE` at most, in places found near ``here``."""
    out = np.zeros(0, dtype=np.int64)
    for at in near:
        if there[at] != here:
            out = np.concatenate([out, homes[at][~moved[homes[at]]]])
        if len(out) >= CHOICE:
            break
    return out[:CHOICE]


# What is swapped: households, or single persons where records have no households.

#: What can be swapped.
KINDS = ("household", "person")


@dataclass(frozen=True, eq=False, repr=False)
class SwapUnits(Frozen):
    """The units that change places. ``unit``: the unit of each person, -1 for those who stay, int64
    of shape ``(persons,)``; ``place``: where each unit is, ``(units,)``; ``size``: its persons;
    ``profile``: a number for its persons in each group of the attributes that partners share;
    ``persons``: whether each is a single person."""

    unit: NDArray[np.int64]
    place: NDArray[np.int64]
    size: NDArray[np.int64]
    profile: NDArray[np.int64]
    persons: bool = False

    @staticmethod
    def from_records(records: StudyRecords, kind: str, match: Sequence[str] = ()) -> SwapUnits:
        """The households (or persons) of ``records``. ``match``: attributes or groupings such as
        ``votingage``. Partners have as many persons in each of their groups."""
        unit = np.arange(len(records)) if kind == KINDS[1] else records.household
        if unit is None:
            raise InputError(
                "the records have no households",
                where="method swapping",
                remedy='swap persons instead: unit = "person"',
            )
        inside = unit != NO_HOUSEHOLD
        mine, units = unit[inside], int(unit.max(initial=-1)) + 1
        place = np.zeros(units, dtype=np.int64)
        place[mine] = records.place[inside]
        counts = []
        for name in match:
            query = records.schema.query(name)
            at = mine * query.answers + query.at(records.cell[inside])
            counts.append(
                np.bincount(at, minlength=units * query.answers).reshape(units, query.answers)
            )
        profile = np.zeros(units, dtype=np.int64)
        if counts and units:
            profile = np.unique(np.hstack(counts), axis=0, return_inverse=True)[1].ravel()
        return SwapUnits(unit, place, np.bincount(mine, minlength=units), profile, kind == KINDS[1])

    def __len__(self) -> int:
        return len(self.place)

    def moved(self, records: StudyRecords, place: NDArray[np.int64]) -> StudyRecords:
        """The records with each unit at another place, ``(units,)``. Where single persons move, it
        is unknown who lives with whom."""
        there = records.place.copy()
        inside = self.unit != NO_HOUSEHOLD
        there[inside] = place[self.unit[inside]]
        home = None if self.persons else records.household
        return replace(records, place=there, household=home)


# Who is swapped more often: households with a rare member.
#
# A household is as rare as its rarest member: the number of persons of its place with the same
# attributes. Among those as rare, the household in the smaller place comes first. By this order the
# rarest 0.5 %, the next 19.5 %, 30 % and 50 % of the households have the weights 1, 0.6, 0.3 and 0.1.
#
# Source: M. Ballesteros, C. Dwork, G. King, C. Olson, M. Raghavan, Evaluating the impacts of swapping
# on the US decennial census (2025), arXiv 2502.01320, for the classes and their weights. There the
# rarest households are visited first until enough have moved; here each has a chance of its own.

#: Shares of households by rarity, the rarest first, and the weight of each.
CLASSES = ((0.005, 1.0), (0.195, 0.6), (0.3, 0.3), (0.5, 0.1))


def chances(
    records: StudyRecords, units: SwapUnits, rate: float, rare: tuple[str, ...]
) -> NDArray[np.float64]:
    """The chance of each unit to be chosen, ``(units,)``: its weight times a number, at most 1, on
    average ``rate``; without attributes by which a person is ``rare``, the same for all."""
    if not rare or not len(units) or rate in (0, 1):
        return np.full(len(units), rate)
    order = np.argsort(rarity(records, units, rare), kind="stable")
    ends = np.cumsum([share for share, _ in CLASSES])[:-1] * len(units)
    weight = np.empty(len(units))
    weight[order] = np.array([w for _, w in CLASSES])[
        np.searchsorted(ends, np.arange(len(units)), side="right")
    ]
    scale = brentq(lambda c: np.minimum(1, c * weight).mean() - rate, 0, 1 / weight.min())
    out: NDArray[np.float64] = np.minimum(1, scale * weight)
    return out


def rarity(records: StudyRecords, units: SwapUnits, rare: tuple[str, ...]) -> NDArray[np.float64]:
    """The rarer, the less, ``(units,)``: how many persons of the place are like the unit's rarest
    member in the attributes ``rare``; and as a fraction below 1 how large the place is."""
    query = records.schema.query(" * ".join(rare))
    kind = records.place * query.answers + query.at(records.cell)
    _, at, many = np.unique(kind, return_inverse=True, return_counts=True)
    inside = units.unit >= 0
    fewest = np.full(len(units), np.inf)
    np.minimum.at(fewest, units.unit[inside], many[at[inside]])
    persons = np.bincount(records.place)
    out: NDArray[np.float64] = fewest + persons[units.place] / (persons.max() + 1.0)
    return out


# Who exchanges places with whom: random pairs with the same key, near before far.
#
# A household has a *key*: its profile and its number of persons, altered by -1, 0 or 1 with the
# probabilities ``size_noise``. It looks for a partner from a unit of the first of the ``levels``: its
# own with probability ``reach[0]``. With probability ``reach[k]`` it is sent elsewhere: the units of
# those sent so far are permuted at random within each unit of ``levels[k]``. Those with the same key
# and unit are paired at random. Those without a partner are paired within the unit of the next level
# above, and so on up. The last stay without.


def paired(
    units: SwapUnits,
    chosen: NDArray[np.int64],
    spine: Spine,
    levels: Sequence[str],
    reach: Sequence[float],
    size_noise: Sequence[float],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """Pairs of the ``chosen`` units, ``(pairs, 2)``."""
    size = units.size[chosen] + rng.choice([-1, 0, 1], size=len(chosen), p=size_noise)
    search = _search(units.place[chosen], spine, levels, reach, rng)
    profile, left, out = units.profile[chosen], np.arange(len(chosen)), []
    for level in levels:
        area = spine.up(levels[0], level)[search[left]]
        keys = np.stack([area, size[left], profile[left]])
        group = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        out.append(left[pairs(group, rng)])
        left = np.setdiff1d(left, out[-1])
    return chosen[np.concatenate(out)]


def _search(
    place: NDArray[np.int64],
    spine: Spine,
    levels: Sequence[str],
    reach: Sequence[float],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """The unit of ``levels[0]`` where each looks for its partner."""
    out = spine.up(spine.levels[-1], levels[0])[place]
    group = rng.choice(len(reach), size=len(place), p=reach)
    for k in range(1, len(reach)):
        mine = np.flatnonzero(group == k)
        within = spine.up(levels[0], levels[k])[out[mine]]
        there = mine[np.lexsort((rng.random(len(mine)), within))]
        here = mine[np.argsort(within, kind="stable")]
        out[here] = out[there]
    return out


def pairs(group: NDArray[np.int64], rng: np.random.Generator) -> NDArray[np.int64]:
    """Random pairs within groups: positions in ``group``, ``(pairs, 2)``. One of each group of odd
    size has no partner."""
    order = np.lexsort((rng.random(len(group)), group))
    new = np.diff(group[order], prepend=-1) != 0
    start = np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))
    first = np.flatnonzero((np.arange(len(order)) - start) % 2 == 0)
    first = first[first + 1 < len(order)]
    first = first[group[order[first]] == group[order[first + 1]]]
    return np.stack([order[first], order[first + 1]], axis=1)


PARTNERS = ("random", "nearest")


@dataclass(frozen=True)
class Swapping(ProtectionMethod):
    """``rate``: the share of households that are chosen; ``match``: attributes or groupings whose
    counts partners share; ``rare``: attributes by which a person is rare; ``partner``: ``random`` or
    ``nearest``; ``unit``: ``household`` or ``person``.

    ``levels``: where partners are looked for, the smallest first; without any, all levels above the
    lowest. ``size_noise`` and ``reach``: as :mod:`das.tools.protection.truth.methods.swapping` has them."""

    rate: float = 0.05
    match: tuple[str, ...] = ()
    size_noise: tuple[float, float, float] = (0.0, 1.0, 0.0)
    levels: tuple[str, ...] = ()
    reach: tuple[float, ...] = (1.0,)
    rare: tuple[str, ...] = ()
    partner: str = "random"
    unit: str = "household"

    name: ClassVar[str] = "swapping"
    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        exact, near = self.size_noise[1:2] == (1,), self.partner == PARTNERS[1]
        partners, kinds = ", ".join(PARTNERS), ", ".join(KINDS)
        many = len(self.reach) > len(self.levels) > 0
        for what, good in (
            (f"rate is {self.rate!r}: it must be from 0 to 1", 0 <= self.rate <= 1),
            (f"unit is {self.unit!r}: it can be {kinds}", self.unit in KINDS),
            (f"partner is {self.partner!r}: it can be {partners}", self.partner in PARTNERS),
            ("size_noise must be three probabilities", _law(self.size_noise, 3)),
            ("reach must be probabilities, one a level", _law(self.reach, len(self.reach))),
            ("reach has more entries than levels", not many),
            ("match and size_noise together: noise would undo the match", exact or not self.match),
            ("a nearest partner has no reach, no levels and no noise", not near or self._plain),
        ):
            if not good:
                raise SpecError(what, where="method swapping")

    @property
    def _plain(self) -> bool:
        return self.size_noise[1] == 1 and len(self.reach) == 1 and not self.levels

    @property
    def label(self) -> str:
        what = "households" if self.unit == KINDS[0] else "persons (no households known)"
        noise = " give or take 1" * (self.size_noise[1] < 1)
        parts = [f"{100 * self.rate:.3g} % of {what} swapped, same size{noise}", *self.match]
        parts += ["far"] * (len(self.reach) > 1) + ["nearest"] * (self.partner == PARTNERS[1])
        return ", ".join(parts + [f"rare by {' x '.join(self.rare)}"] * bool(self.rare))

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        swapped = self.swapped(records, key).histogram()
        levels = exact_lines(swapped, records.spine, tables)
        return ProtectedTables(records.spine, tables, levels)

    def swapped(self, records: StudyRecords, key: bytes) -> StudyRecords:
        """The records after swapping."""
        units = SwapUnits.from_records(records, self.unit, self.match)
        rng = generator(key, "swapping")
        chance = chances(records, units, self.rate, self.rare)
        if self.partner == PARTNERS[1]:
            pair = self._nearest(records, units, chance, rng)
        else:
            pair = self._random(records, units, chance, rng)
        place = units.place.copy()
        place[pair] = place[pair[:, ::-1]]
        return units.moved(records, place)

    def _random(
        self,
        records: StudyRecords,
        units: SwapUnits,
        chance: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        chosen = np.flatnonzero(rng.random(len(units)) < chance)
        levels = self.levels or records.spine.levels[-2::-1]
        if len(self.reach) > len(levels):
            raise SpecError("reach has more entries than levels", where="method swapping")
        return paired(units, chosen, records.spine, levels, self.reach, self.size_noise, rng)

    def _nearest(
        self,
        records: StudyRecords,
        units: SwapUnits,
        chance: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """As many look for a partner as make ``rate`` of the units move; in random order."""
        if records.points is None:
            raise InputError(
                "the places have no coordinates",
                where="method swapping",
                remedy='swap with partner = "random"',
            )
        seekers = rng.permutation(np.flatnonzero(rng.random(len(units)) < chance / 2))
        keys = np.stack([units.size, units.profile])
        key = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        return nearest_pairs(seekers, key, units.place, records.points, rng)


def _law(p: tuple[Any, ...], length: int) -> bool:
    good = len(p) == length > 0 and all(isinstance(x, int | float) and x >= 0 for x in p)
    return good and abs(sum(p) - 1) < 1e-9


#: The two experiments, for a tree with levels of these names.
_AREAS = ("Tract", "County", "State")
LOW = Swapping(rate=0.05, levels=_AREAS)
HIGH = Swapping(rate=0.5, size_noise=(0.25, 0.5, 0.25), levels=_AREAS, reach=(0.3, 0.4, 0.3))


# Permutation swapping: the version of swapping with a statement, given its invariants.
#
# Households with the same key (size, the persons in each group of ``match``, the unit of ``within``)
# are a *stratum*. In each stratum every household is chosen with probability p, independently of the
# others. If exactly one is chosen, the draw is repeated. The places of the chosen ones are permuted,
# uniformly among the permutations that leave none where it was.
#
# *What is proved.* Let k households of a stratum of b move. Such an outcome has a probability
# proportional to :math:`o^k / D_k`, with the odds :math:`o = p / (1 - p)` and the number
# :math:`D_k` of permutations of k without a fixed point. Let two data sets differ by exchanging two
# households of the stratum. They reach the same outcome by k and by k + j moves, :math:`j \in \{0, 1,
# 2\}` either way. So its probabilities differ by a factor of at most :math:`e^\varepsilon`,
#
# .. math:: \varepsilon(b, p) = \max_{k \ne 1,\; k + j \ne 1,\; k + j \le b}
#     \Bigl| j \ln o - \ln \frac{D_{k+j}}{D_k} \Bigr|.
#
# It is attained where all places and all households of the stratum differ. For :math:`p \le 1/2`
# and :math:`b \ge 4` it is :math:`-2 \ln o + \ln(D_b / D_{b-2})`, just below :math:`2 (\ln (b + 1) -
# \ln o)`. That is twice the value of the paper below, whose unit is half an exchange. It holds *given
# the invariants*: counts of households by key and place, and everything about the households of a
# stratum except their places. Larger strata mean a larger epsilon. It bounds no attack through the
# invariants, and is no number to set next to that of a method without any.
#
# Source: J. Bailie, R. Gong, X.-L. Meng, A refreshment stirred, not shaken II: invariant-preserving
# deployments of differential privacy for the US decennial census, arXiv 2501.08449; part III, arXiv
# 2504.15246. The exact value is checked here by enumeration.

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
