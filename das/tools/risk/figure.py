"""Attacks on runs as a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Closed
from das.model.histogram import Histogram
from das.report.chart import Chart
from das.report.panel import INCH, Look, element, moved
from das.tools.risk.table_attack import GuessedRecords, count_at

# How right a guess of the records is.

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


#: Of a panel, in inches.
_WIDTH, _HEIGHT = 3.9, 3.6
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKS = ("o", "s", "^", "D", "v", "P")


def attack_figure(reports: Sequence[Report]) -> str:
    """Agreement against the budget, and precision against confidence, as an ``<svg>`` element."""
    reports = sorted(reports, key=lambda r: r.cost)
    kinds: dict[str, Callable[[Report], float]] = {
        "attack": lambda r: r.attack.agreement,
        "tables at face value": lambda r: r.face_value.agreement,
        "baseline, without the block's traits": lambda r: r.baseline.agreement,
        "what the guarantee allows from that baseline": lambda r: r.allowed,
    }
    found: dict[str, Callable[[Report], float]] = {
        "attack": lambda r: r.attack.uniques_found,
        "baseline": lambda r: r.baseline.uniques_found,
    }
    shown = [reports[0], *reports[1:-1][-4:], reports[-1]] if len(reports) > 6 else reports
    sure = {f"{r.currency} = {r.cost:.4g}": list(r.attack.precision) for r in shown}
    cost, currency = [r.cost for r in reports], reports[0].currency
    charts = [
        _curves(
            title, currency, label, cost, {n: [of(r) for r in reports] for n, of in kind.items()}
        )
        for title, label, kind in (
            ("Records recovered", "fraction of persons", kinds),
            ("Unique in their block", "fraction recovered", found),
        )
    ]
    part = [100 * p for p in PARTS]
    charts.append(
        _curves("The surest guesses", "surest % of the guesses", "fraction right", part, sure)
    )
    drawn = [
        moved(chart.drawn(f"attack{i}"), INCH * _WIDTH * i, 0) for i, chart in enumerate(charts)
    ]
    width = INCH * _WIDTH * len(charts)
    return element("attack", "Attacks on runs", width, INCH * _HEIGHT, "\n".join(drawn))


def _curves(
    title: str, x: str, y: str, at: Sequence[float], curves: Mapping[str, Sequence[float]]
) -> Chart:
    """A panel of curves over a logarithmic axis."""
    chart = Chart(_WIDTH, _HEIGHT)
    chart.x.label, chart.y.label, chart.x.log = x, y, True
    for (name, values), color, mark in zip(curves.items(), _COLORS, _MARKS, strict=False):
        chart.plot(at, values, Look(color, "-", mark), name)
    chart.finish(title, 1)
    return chart
