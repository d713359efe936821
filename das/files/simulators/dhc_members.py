"""Who the members of simulated households are to the householder, their sex and their age."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.files.simulators import dhc_shares as shares
from das.files.simulators.dhc_households import Compositions
from das.files.simulators.people import Floats, Ints, choose_by_row, rank_in_group
from das.model.dhc.members import ADULT, HEADS, LEVEL, OWN, PARENTS, PARTNERS
from das.model.dhc.persons import DHCP, OLDEST

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
    by the weights of these.
    """
    cdf = np.cumsum(weights, axis=1)
    cdf = np.concatenate([np.zeros((len(cdf), 1)), cdf / cdf[:, -1:]], axis=1)
    low, high = cdf[row, least], cdf[row, most + 1]
    at = low + rng.random(len(row)) * (high - low)
    flat = (cdf[:, 1:] + np.arange(len(cdf))[:, None]).ravel()
    found = np.searchsorted(flat, row + at, side="right") - row * weights.shape[1]
    return np.clip(found, least, most).astype(np.int64)


def possible_ages() -> tuple[Ints, Ints]:
    """The least and the greatest age of each level of ``relgq``, ``(42,)``: of each there is one
    range.
    """
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
    """Of everybody but householders: so much older than the householder as their role has it,
    adults from 18 and minors below.
    """
    least, most = (bound[relgq] for bound in possible_ages())
    least, most = (
        np.maximum(least, np.where(adult, ADULT, 0)),
        np.minimum(most, np.where(adult, OLDEST, ADULT - 1)),
    )
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
