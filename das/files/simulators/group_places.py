"""The blocks of a state for the Detailed DHC, and the number of people in each: ``GRF-C.txt``.

Places are those of the simulated nation (:mod:`das.files.simulators.nation_places`). Puerto Rico
has totals of its own, close to those of 2020; its municipios are made up. American Indian areas can
cross state borders: the first area of each state continues those of its division."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das.errors import InputError
from das.files.detailed import geography
from das.files.simulators.nation_places import draw_state
from das.files.simulators.people import Floats, Ints, skewed, zipf
from das.files.simulators.totals import StateTotals, share_out, totals
from das.model.states import STATES, State

PUERTO_RICO = STATES[-1]
#: Of 2020, about: persons, counties, tracts, block groups, blocks.
_PUERTO_RICO = (3_285_874, 78, 939, 2_555, 41_987)
#: Names that stand for a list of states.
ALL = "ALL"
#: Standard deviations of the logarithm of a block's persons, between block groups and in them; the
#: share where nobody lives.
_GROUP_SIZE, _BLOCK_SIZE, EMPTY = 0.42, 1.05, 0.27
_RESERVATION, _OF_STATE = 10, 80


@dataclass(frozen=True, eq=False)
class GroupBlocks:
    """``(blocks,)``: the columns of ``GRF-C.txt`` as numbers, the ``persons`` of each, and its
    tract, numbered from 0.
    """

    columns: dict[str, Ints]
    persons: Ints
    tract: Ints

    def __len__(self) -> int:
        return len(self.persons)


def chosen(states: str) -> list[State]:
    """States by their postal abbreviations, PR among them, or ``all``. Raises :class:`InputError`
    for one that is none.
    """
    known = {s.usps: s for s in STATES}
    wanted = list(known) if states.upper() == ALL else states.upper().split(",")
    if wrong := [s for s in wanted if s not in known]:
        raise InputError(
            f"{wrong[0]!r} is no state",
            where="--states",
            remedy="give postal abbreviations, PR among them, as AZ,RI,PR; or all",
        )
    return [s for usps, s in known.items() if usps in wanted]


def state_totals(state: State, share: float = 1.0) -> StateTotals:
    """The totals of a state or of Puerto Rico, or of a share of it."""
    if state.division:
        return totals(state, share)
    persons, counties, tracts, groups, blocks = _PUERTO_RICO
    tracts, groups, blocks = (
        max(least, round(share * n)) for least, n in ((2, tracts), (4, groups), (60, blocks))
    )
    counties = min(counties, max(1, tracts // 2))
    people = share_out(max(600, round(share * persons)), zipf(counties, 0.6), least=1)
    none = np.zeros(counties, dtype=np.int64)
    return StateTotals(
        state,
        tracts,
        groups,
        blocks,
        {},
        1 + 2 * np.arange(counties),
        people,
        none,
        none,
        np.zeros((counties, 6), dtype=np.int64),
        none,
        none,
        none,
    )


def draw_blocks(rng: np.random.Generator, of: StateTotals, persons: int) -> GroupBlocks:
    """The blocks of a state, with ``persons`` people."""
    at = draw_state(rng, of)
    n = len(at)
    weight = skewed(rng, n, _BLOCK_SIZE) * (rng.random(n) >= EMPTY) * ~at.water
    weight *= skewed(rng, int(at.group[-1]) + 1, _GROUP_SIZE)[at.group]
    county = np.bincount(at.county, weight)
    weight *= (of.persons / np.maximum(county, 1e-9))[at.county]
    columns = {
        "TABBLKST": np.full(n, int(of.state.fips)),
        "TABBLKCOU": at.county_code,
        "TABTRACTCE": at.tract_code,
        "TABBLK": at.block_code,
        "PLACEFP": np.where(at.place < 0, geography.NO_PLACE, 100 + 20 * at.place),
        "AIANNHCE": _areas(of.state, at.aian_code),
    }
    return GroupBlocks(columns, _shared(persons, weight), at.tract)


def _areas(state: State, code: Ints) -> Ints:
    """Reservations have a number in each state; here, codes in the nation."""
    number = code - _RESERVATION
    own = _RESERVATION + int(state.fips) * _OF_STATE + np.minimum(number, _OF_STATE - 1)
    return np.where(number >= 1000, code, np.where(number == 0, state.division, own))


def _shared(total: int, weight: Floats) -> Ints:
    """``total`` persons in proportion to ``weight``, rounded along the blocks."""
    edge = np.cumsum(weight)
    if edge[-1] <= 0:
        edge = np.arange(1, len(weight) + 1, dtype=np.float64)
    steps = np.floor(edge / edge[-1] * total).astype(np.int64)
    steps[edge >= edge[-1]] = total
    return np.diff(steps, prepend=0)
