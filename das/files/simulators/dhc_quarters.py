"""Facilities of group quarters by type, and who lives in them."""

from __future__ import annotations

import numpy as np

from das.errors import InputError
from das.files.simulators import dhc_shares as shares
from das.files.simulators.dhc_members import between, possible_ages
from das.files.simulators.dhc_origins import by_group
from das.files.simulators.people import Ints, choose_by_row, skewed
from das.model.dhc import quarters
from das.model.dhc.members import ADULT, LEVEL
from das.model.dhc.persons import OLDEST

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
