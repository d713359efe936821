"""Tenure of simulated households, and why simulated vacant units are vacant."""

from __future__ import annotations

import numpy as np

from das.files.simulators import dhc_shares as shares
from das.files.simulators.people import Ints, choose, skewed
from das.model.dhc.members import HEADS, PARTNERS, LinkedPersons
from das.model.dhc.units import TENURES, VACANCIES

_MORTGAGE, _CLEAR, _RENTED, _CASHLESS = range(len(TENURES))


def tenures(rng: np.random.Generator, people: LinkedPersons, block: Ints, blocks: int) -> Ints:
    """Tenure in four classes of each household: by the householder's age, whether there is a
    couple, and the block.
    """
    homes = len(block)
    head = np.flatnonzero(np.isin(people.relgq, HEADS))
    age = np.empty(homes, dtype=np.int64)
    age[people.household[head]] = np.searchsorted(
        (25, 35, 45, 55, 60, 65, 75, 85), people.age[head], side="right"
    )
    couple = np.bincount(people.household[np.isin(people.relgq, PARTNERS)], minlength=homes) > 0
    owned = shares.OWNED[1 - couple.astype(np.int64), age]
    odds = owned / (1 - owned) * skewed(rng, blocks, shares.BLOCK_TENURE)[block]
    owns = rng.random(homes) < odds / (1 + odds)
    indebted, pays = rng.random(homes) < shares.MORTGAGE[age], rng.random(homes) >= shares.CASHLESS
    return np.where(owns, np.where(indebted, _MORTGAGE, _CLEAR), np.where(pays, _RENTED, _CASHLESS))


def vacancies(rng: np.random.Generator, vacant: Ints) -> Ints:
    """Vacant units by why, ``(blocks, 7)``. ``vacant``: units of each block."""
    block = np.repeat(np.arange(len(vacant)), vacant)
    usual = choose(rng, shares.VACANT, len(vacant))[block]
    why = np.where(
        rng.random(len(block)) < shares.ALIKE, usual, choose(rng, shares.VACANT, len(block))
    )
    return np.bincount(
        block * len(VACANCIES) + why, minlength=len(VACANCIES) * len(vacant)
    ).reshape(-1, len(VACANCIES))
