"""Who the members of simulated households are to the householder, their sex and their age."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers.formats import MOST_AT_HOME
from das.files.simulators.people import Floats, Ints, choose_by_row, rank_in_group, skewed
from das.publications.dhc.model import quarters
from das.publications.dhc.model.members import ADULT, HEADS, LEVEL, OWN, PARENTS, PARTNERS
from das.publications.dhc.model.persons import DHCP, OLDEST
from das.publications.dhc.simulation import shares
from das.publications.dhc.simulation.shares import BEYOND, COMPOSITION

# How many adults and minors live in each simulated household of a block: all of them, and somebody
# in each.

_ROUNDS = 24
_MOST = (
    14  #: adults, or minors, of two households that are drawn anew; with more they stay as they are
)


class Compositions(NamedTuple):
    """Arrays of shape ``(households,)``, in order of blocks: their block, adults and minors."""

    block: Ints
    adults: Ints
    minors: Ints


def compositions(rng: np.random.Generator, adults: Ints, minors: Ints, homes: Ints) -> Compositions:
    r"""The adults and minors of each household, for all blocks. ``adults``, ``minors``, ``homes``:
    the totals of each block, with at least one person a home.

    The distribution is that of independent households of weights :math:`w(a, m)` (``COMPOSITION``),
    given the sums of adults and minors over the block. It is approached from households that are as
    alike as possible. In each round households are paired at random within their block. Each pair
    shares out its members by :math:`w(a, m)\,w(a_+ - a, m_+ - m)` (Gibbs sampling, which leaves
    that distribution invariant). No household has more than ``MOST_AT_HOME`` members, unless its
    block has more persons than that for each home. In blocks of a thousand, shares by size after 16 rounds differ
    from those after 64 by at most a quarter of one per cent."""
    block = np.repeat(np.arange(len(homes)), homes)
    place, of = rank_in_group(homes), homes[block]
    a, m = (total[block] // of for total in (adults, minors))
    a += place < (adults % np.maximum(homes, 1))[block]
    m += (
        of - 1 - place < (minors % np.maximum(homes, 1))[block]
    )  # from the other end: nobody is alone with nobody
    weights = _pairs()
    for _ in range(_ROUNDS):
        order = np.argsort(block + rng.random(len(block)), kind="stable")
        first = (place[:-1] % 2 == 0) & (
            block[1:] == block[:-1]
        )  # in order of blocks, which the shuffle keeps
        i, j = order[:-1][first], order[1:][first]
        low = (a[i] + a[j] <= _MOST) & (m[i] + m[j] <= _MOST)
        i, j = i[low], j[low]
        every_a, every_m = a[i] + a[j], m[i] + m[j]
        row = every_a * (_MOST + 1) + every_m
        found = choose_by_row(rng, weights, row)
        drawn = weights[row, found] > 0
        a[i], m[i] = (
            np.where(drawn, new, old)
            for new, old in zip(divmod(found, _MOST + 1), (a[i], m[i]), strict=True)
        )
        a[j], m[j] = every_a - a[i], every_m - m[i]
    return Compositions(block, a, m)


def _pairs() -> Floats:
    """Row ``a+ 15 + m+``, column ``a 15 + m``: the weight of a pair of households with ``a+``
    adults and ``m+`` minors in which the first has ``a`` and ``m``."""
    n = _MOST + 1
    one = np.zeros((n, n))
    rows, columns = COMPOSITION.shape
    at = np.arange(n)
    beyond = BEYOND ** (np.maximum(at - rows + 1, 0)[:, None] + np.maximum(at - columns + 1, 0))
    beyond[at[:, None] + at > MOST_AT_HOME] = 0
    one[:] = COMPOSITION[np.ix_(np.minimum(at, rows - 1), np.minimum(at, columns - 1))] * beyond
    out = np.zeros((n, n, n, n))
    for a in range(n):
        for m in range(n):
            out[a, m, : a + 1, : m + 1] = one[: a + 1, : m + 1] * one[a::-1, m::-1]
    out[(0, 0, 1), (0, 1, 0)] = 1.0  # two persons at least live in two households
    return out.reshape(n * n, n * n)


# Which person of the block is which member of a simulated household: origin and race, mostly those
# of the householder.

# : how often a member is to be of the householder's origin and race, if the block still has such a
# person
KINSHIP = 0.9
ORIGINS = 2 * 63


def assign(
    rng: np.random.Generator,
    household: Ints,
    group: Ints,
    head: NDArray[np.bool_],
    persons: tuple[Ints, Ints],
) -> Ints:
    """Each member's ``hispanic 63 + cenrace``, ``(members,)``.

    ``group`` is the block and voting age of each member; ``persons`` has the same and the origin of
    each person of the blocks, in any order. Every person is taken once, so each group has the
    members that it must have. Householders are drawn at random from their group. A share
    ``KINSHIP`` of the others look for a person like their householder, first come, first served, in
    random order. The rest get the remaining persons."""
    order, pool = by_group(rng, persons[0]), np.argsort(2 * group + ~head, kind="stable")
    out = np.empty(len(group), dtype=np.int64)
    out[pool] = persons[1][order]
    of_head = np.empty(int(household[-1]) + 1 if len(household) else 0, dtype=np.int64)
    of_head[household[head]] = out[head]
    rest = pool[~head[pool]]
    if not len(rest):
        return out
    there = np.sort(group[rest] * ORIGINS + out[rest])
    kin = rest[rng.random(len(rest)) < KINSHIP]
    wanted = group[kin] * ORIGINS + of_head[household[kin]]
    queue = by_group(rng, wanted)
    kin, wanted = kin[queue], wanted[queue]
    taken = np.searchsorted(there, wanted) + np.arange(len(kin)) - np.searchsorted(wanted, wanted)
    found = taken < np.searchsorted(there, wanted, side="right")
    out[kin[found]] = wanted[found] % ORIGINS
    left = np.ones(len(rest), dtype=bool)
    left[taken[found]] = False
    over = there[left][by_group(rng, there[left] // ORIGINS)] % ORIGINS
    waiting = np.ones(len(group), dtype=bool)
    waiting[head] = waiting[kin[found]] = False
    last = np.flatnonzero(waiting)
    out[last[np.argsort(group[last], kind="stable")]] = over
    return out


def by_group(rng: np.random.Generator, group: Ints) -> Ints:
    """An order by group, at random within."""
    return np.argsort(group + rng.random(len(group)), kind="stable")


Bools = NDArray[np.bool_]
_ALONE = len(PARTNERS)  #: the kind of couple that is none
_SAME_SEX = (1, 3)
_YOUNGEST, _YOUNG = 15, 39  #: of householders; of those whose partner is under 18


@dataclass(frozen=True, eq=False)
class SimulatedMembers:
    """Arrays of shape ``(persons,)``, by household, the householder first, adults before minors:
    number of the household, level of ``relgq``, sex and age."""

    household: Ints
    relgq: Ints
    sex: Ints
    age: Ints


def draw_members(rng: np.random.Generator, homes: Compositions) -> SimulatedMembers:
    """All members of all households. First come the householder and the partner, then the roles of
    the others, then ages. Role, householder's age and structural zeros limit the ages."""
    a, m = homes.adults, homes.minors
    couple = _couples(rng, a, m)
    head_age, head_male = _heads(rng, a, m, couple)
    household, place = np.repeat(np.arange(len(a)), a + m), rank_in_group(a + m)
    adult = place < a[household]
    relgq = _roles(rng, household, place, adult, couple, head_age)
    male = rng.random(len(household)) < _MALE[relgq]
    partner = (place == 1) & (couple[household] != _ALONE)
    male[partner] = (head_male ^ ~np.isin(couple, _SAME_SEX))[household[partner]]
    male[place == 0] = head_male
    age = _ages(rng, relgq, adult, head_age[household], head_male[household])
    age[place == 0] = head_age
    return SimulatedMembers(household, relgq, (~male).astype(np.int64), age)


def between(rng: np.random.Generator, weights: Floats, row: Ints, least: Ints, most: Ints) -> Ints:
    """One column of row ``row[i]`` of ``weights`` for each ``i``, from ``least[i]`` to ``most[i]``,
    by the weights of these."""
    cdf = np.cumsum(weights, axis=1)
    cdf = np.concatenate([np.zeros((len(cdf), 1)), cdf / cdf[:, -1:]], axis=1)
    low, high = cdf[row, least], cdf[row, most + 1]
    at = low + rng.random(len(row)) * (high - low)
    flat = (cdf[:, 1:] + np.arange(len(cdf))[:, None]).ravel()
    found = np.searchsorted(flat, row + at, side="right") - row * weights.shape[1]
    return np.clip(found, least, most).astype(np.int64)


def possible_ages() -> tuple[Ints, Ints]:
    """The least and the greatest age of each level of ``relgq``, ``(42,)``: of each there is one
    range."""
    can = DHCP.possible.reshape(DHCP.shape)[:, 0, :, 0, 0]
    return can.argmax(axis=1), OLDEST - can[:, ::-1].argmax(axis=1)


_MALE = np.zeros(len(LEVEL))
_LEAST_GAP, _MOST_GAP = (np.zeros(len(LEVEL), dtype=np.int64) for _ in range(2))
for _name, (_, _, _least, _most, _male) in shares.GAPS.items():
    _MALE[LEVEL[_name]], _LEAST_GAP[LEVEL[_name]], _MOST_GAP[LEVEL[_name]] = _male, _least, _most


def _couples(rng: np.random.Generator, a: Ints, m: Ints) -> Ints:
    """The kind of couple that each household has, if it can have any."""
    row = np.where(a == 1, 0, np.where(a >= 4, 5, 2 * a - 3 + (m > 0)))
    found = choose_by_row(rng, shares.COUPLE, np.clip(row, 0, 5))
    return np.where((a > 1) | ((a == 1) & (m > 0)), found, _ALONE)


def _heads(rng: np.random.Generator, a: Ints, m: Ints, couple: Ints) -> tuple[Ints, Bools]:
    """The age of each householder, and whether male."""
    two, minors = couple != _ALONE, m > 0
    kind = np.where(two, 2 + 2 * (a > 2), np.where(a > 1, 6, 0)) + minors
    least, most = np.full(len(a), ADULT), np.full(len(a), OLDEST)
    least[a == 0], most[a == 0] = _YOUNGEST, ADULT - 1
    most[(a == 1) & two] = _YOUNG
    return between(rng, shares.HEAD_AGES, kind, least, most), rng.random(len(a)) < shares.HEAD_MALE[
        kind
    ]


def _roles(
    rng: np.random.Generator,
    household: Ints,
    place: Ints,
    adult: Bools,
    couple: Ints,
    head_age: Ints,
) -> Ints:
    """The level of ``relgq`` of everybody."""
    band = np.searchsorted(shares.BANDS, head_age, side="right")
    unrelated = rng.random(len(couple)) < shares.UNRELATED[band]
    of_adults = np.where(couple != _ALONE, 1, np.where(unrelated, 3, 2))
    row = np.where(adult, of_adults[household], 0) * (len(shares.BANDS) + 1) + band[household]
    weights = shares.ROLES.reshape(-1, len(shares.ROLE_LEVELS))
    relgq = shares.ROLE_LEVELS[choose_by_row(rng, weights, row)]
    for level in PARENTS:  # two of them at most
        is_one = relgq == level
        before = np.cumsum(is_one) - is_one
        third = is_one & (before - before[np.flatnonzero(place == 0)][household] >= 2)
        relgq[third] = LEVEL["other-relative"]
    partner = (place == 1) & (couple[household] != _ALONE)
    relgq[partner] = np.array(PARTNERS)[couple[household[partner]]]
    size = np.bincount(household)
    relgq[place == 0] = np.where(size > 1, HEADS[1], HEADS[0])
    return relgq


def _ages(
    rng: np.random.Generator, relgq: Ints, adult: Bools, head_age: Ints, head_male: Bools
) -> Ints:
    """Ages of everybody except householders. The role determines the difference to the
    householder's age; adults are 18 or older and minors younger."""
    least, most = (bound[relgq] for bound in possible_ages())
    least = np.maximum(least, np.where(adult, ADULT, 0))
    most = np.minimum(most, np.where(adult, OLDEST, ADULT - 1))
    oldest, youngest = head_age + _MOST_GAP[relgq], head_age + _LEAST_GAP[relgq]
    youngest -= np.where(head_male & np.isin(relgq, OWN), 10, 0)
    # where both cannot be, as of grandchildren of a hundred-year-old, the zeros go before the role
    least, most = np.clip(youngest, least, most), np.clip(oldest, least, most)
    return (
        head_age
        + between(rng, _GAPS, relgq, least - head_age + OLDEST, most - head_age + OLDEST)
        - OLDEST
    )


_GAPS = shares.gap_ages()


# Facilities of group quarters by type, and who lives in them.

CLASSES = len(quarters.HHGQ.levels) - 1
TYPES = len(quarters.TYPES)


def facilities_by_type(rng: np.random.Generator, given: Ints | None, persons: Ints) -> Ints:
    """Facilities of each of the 24 types, ``(blocks, 24)``.

    ``persons``: in each of the seven classes, ``(blocks, 7)``. ``given``: facilities by type; or by
    class, then the type of each is drawn; or ``None``, then there is one of each class that
    somebody lives in. Raises :class:`InputError` unless there is a facility where there are
    persons, and no more facilities than persons."""
    given = (persons > 0).astype(np.int64) if given is None else np.asarray(given, dtype=np.int64)
    if given.shape not in ((len(persons), CLASSES), (len(persons), TYPES)) or (given < 0).any():
        raise InputError(
            f"facilities of shape {given.shape}",
            where="simulate",
            remedy=f"give counts of shape (blocks, {CLASSES}) or (blocks, {TYPES})",
        )
    by_class = (
        given
        if given.shape[1] == CLASSES
        else given @ (shares.CLASS[:, None] == np.arange(1, CLASSES + 1))
    )
    if (wrong := (by_class > persons) | ((by_class == 0) & (persons > 0))).any():
        first, odd = (int(i[0]) for i in np.nonzero(wrong))
        raise InputError(
            f"block number {first} has {persons[first, odd]} persons in {by_class[first, odd]}"
            f" facilities of class {quarters.HHGQ.levels[odd + 1]!r}",
            where="simulate",
            remedy="give each facility a person, and each person one",
        )
    if given.shape[1] == TYPES:
        return given
    at, kind = np.nonzero(by_class)
    number = by_class[at, kind]
    block, row = np.repeat(at, number), np.repeat(kind, number)
    weights = shares.FACILITIES * (np.arange(1, CLASSES + 1)[:, None] == shares.CLASS)
    kinds = choose_by_row(rng, weights, row)
    return np.bincount(block * TYPES + kinds, minlength=TYPES * len(persons)).reshape(-1, TYPES)


def types_of(rng: np.random.Generator, block: Ints, kind: Ints, facilities: Ints) -> Ints:
    """The type, 0 to 23, that each person lives in: ``kind`` is the class, 1 to 7. Each facility
    has one person at least, and the others go by the sizes of those of their class in their
    block."""
    at, number = np.nonzero(facilities)
    count = facilities[at, number]
    at, number = np.repeat(at, count), np.repeat(number, count)
    group = (
        at * CLASSES + shares.CLASS[number] - 1
    )  # increasing, as types are in order of their classes
    size = np.cumsum(skewed(rng, len(at), 0.9) * shares.FACILITY_SIZES[number])
    wanted = block * CLASSES + kind - 1
    order = by_group(rng, wanted)
    mine = wanted[order]
    first, last = np.searchsorted(group, mine), np.searchsorted(group, mine, side="right") - 1
    before = np.concatenate([[0.0], size])[first]
    drawn = np.searchsorted(
        size, before + rng.random(len(mine)) * (size[last] - before), side="right"
    )
    nth = first + np.arange(len(mine)) - np.searchsorted(mine, mine)
    out = np.empty(len(block), dtype=np.int64)
    out[order] = number[np.where(nth <= last, nth, np.clip(drawn, first, last))]
    return out


def residents(rng: np.random.Generator, types: Ints, adult: Ints) -> tuple[Ints, Ints, Ints]:
    """For each person in a facility of ``types``: the level of ``relgq``, sex and age."""
    relgq = len(LEVEL) + types
    least, most = (bound[relgq] for bound in possible_ages())
    age = between(
        rng,
        shares.QUARTERS_AGES,
        types,
        np.maximum(least, ADULT * adult),
        np.minimum(most, np.where(adult, OLDEST, ADULT - 1)),
    )
    return relgq, (rng.random(len(types)) >= shares.QUARTERS_MALE[types]).astype(np.int64), age
