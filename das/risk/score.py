"""How right a guess of the records is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.closed import Closed
from das.model.histogram import Histogram
from das.risk.table_attack import GuessedRecords, count_at

#: Parts of the guesses, surest first, whose precision is told.
PARTS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, repr=False)
class Score(Closed):
    """``agreement``: sum over units and cells of min(true, guessed), over persons. ``expected``:
    what the intruder expected of it. ``precision``: the part that is right of the surest 1%, 5%,
    ... of his guesses.

    A *unique* is a person whose record nobody else in the unit has: ``uniques`` of them are there,
    ``uniques_found`` is the part whose record is guessed; ``claims`` is how often he guesses a
    record just once in a unit, ``claims_right`` the part of these where that is a unique person.
    """

    persons: int
    guessed: int
    agreement: float
    expected: float
    precision: tuple[float, ...]
    uniques: int
    uniques_found: float
    claims: int
    claims_right: float


def hits(truth: Histogram, guess: GuessedRecords) -> NDArray[np.bool_]:
    """Which records of the guess are there: the n-th of its cell is, if the unit has n or more."""
    return guess.nth <= count_at(truth, guess.unit, guess.cell)


def score(truth: Histogram, guess: GuessedRecords, parts: Sequence[float] = PARTS) -> Score:
    """Compare a guess with the truth. Surest first; where equally sure, in the order of units.

    Raises:
        InputError: nobody to guess, or nothing guessed.
    """
    persons, guessed = int(truth.count.sum()), len(guess.unit)
    if not persons or not guessed:
        raise InputError(f"{persons} persons, {guessed} guesses", where="score of an attack")
    right = hits(truth, guess)
    surest = np.argsort(-guess.confidence, kind="stable")
    found = np.cumsum(right[surest])
    sizes = [max(1, round(p * guessed)) for p in parts]
    claimed = Histogram.of(
        truth.units, truth.cells, guess.unit, guess.cell, np.ones(guessed, dtype=np.int64)
    )
    single, once = truth.count == 1, claimed.count == 1
    have = count_at(claimed, truth.unit[single], truth.cell[single]) > 0
    true = count_at(truth, claimed.unit[once], claimed.cell[once]) == 1
    return Score(
        persons,
        guessed,
        float(right.sum() / persons),
        float(guess.confidence.sum() / persons),
        tuple(float(found[n - 1] / n) for n in sizes),
        int(single.sum()),
        float(have.mean()) if len(have) else 0.0,
        int(once.sum()),
        float(true.mean()) if len(true) else 0.0,
    )


@dataclass(frozen=True, repr=False)
class Report(Closed):
    """An attack on one run. ``variance`` is that of the noise as the intruder knows it.

    ``allowed`` is the most success with a record that the guarantee allows, if success without it
    is ``baseline.agreement``."""

    run: str
    budget: str
    currency: str
    cost: float
    variance: float
    attack: Score
    face_value: Score
    baseline: Score
    allowed: float
