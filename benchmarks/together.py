"""What the DHC's measurements add to the redistricting measurements of a state and of a county, by
the budgets of production: standard deviations of unbiased estimates from the measurements of one
unit, the redistricting files' alone and both pooled.

The noise of a hundred units is drawn, every answer of the DHC too. Stated standard deviations use
the largest number of answers that a margin sums; the measured error cannot be larger, except by
chance."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Figures
from das import spec
from das.estimate.margins_of_error import LevelMargins
from das.files.measurements.nmf_reader import Margins, Means
from das.geography.invariants import Invariants
from das.model.measurement import Measurement, Measurements
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.model.strategy import finest

CONFIG = Path(__file__).resolve().parents[1] / "configs" / "pl94-2010.toml"
UNITS = 100
#: Of each unit, all in the first cell, which no count of interest has. The total of a state is exact.
PEOPLE = 1_000_000
#: Of the measured error over the stated one, three standard deviations of chance.
CHANCE = 1 + 3 / (2 * UNITS) ** 0.5
#: By name a query, and which of its answers are counted.
COUNTED = {
    "total": ("total", [0]),
    "18 and over": ("votingage", [1]),
    "Hispanic": ("hispanic", [1]),
    "group quarters": ("hhinstlevels", [1, 2]),
    "18 and over and Hispanic": ("votingage * hispanic", [3]),
}


def together(say: Figures) -> None:
    """The gain at each level that both publications have."""
    text = CONFIG.read_text(encoding="utf-8")
    planned = spec.parse(text, where=str(CONFIG), folder=CONFIG.parents[1]).persons.plan
    for level in ("State", "County"):
        own = {d.query: float(d.variance) for d in planned.at(level)}
        gain(level, own, {q: float(1 / r) for q, r in strategy.persons().rho[level].items()}, say)


def gain(level: str, own: Mapping[str, float], dhc: Mapping[str, float], say: Figures) -> None:
    rng, codes = np.random.default_rng(1), (np.arange(UNITS) + UNITS).astype("S3")
    alone, means = [], dict[tuple[str, str], Means]()
    for name, variance in own.items():
        shape = (UNITS, PL94.query(name).answers)
        values = noise(rng, variance, shape)
        values[:, 0] += PEOPLE
        alone.append(Measurement(level, name, 0, values, np.full(UNITS, variance)))
        nothing = np.zeros(UNITS), np.zeros(shape)
        means[level, name] = Means(np.arange(UNITS), *nothing)
    for name, variance in dhc.items():
        margin = finest(own, DHCP.query(name), variance)
        if margin is None:
            continue
        stated = margin.terms * variance
        found = means[level, margin.query.name]
        each = (noise(rng, variance, (margin.of.answers,)) for _ in range(UNITS))
        sums = np.stack([margin.sums(values) for values in each])
        sums[:, 0] += PEOPLE
        means[level, margin.query.name] = Means(
            found.unit, found.precision + 1 / stated, found.weighted + sums / stated
        )
    pooled = [Margins(means).pooled(m) for m in alone]
    spine = Spine(
        ("US", level), (np.array(["US"]), codes), (np.zeros(1, int), np.zeros(UNITS, int))
    )
    exact = ((level, PL94.query("total"), np.full((UNITS, 1), PEOPLE)),)
    known = Invariants(None, exact if level == "State" else (), None).bounds(PL94, spine)[level]
    columns = np.stack([np.isin(PL94.query(q).index, at) for q, at in COUNTED.values()])
    read = [
        LevelMargins.for_level(level, PL94, source, known).read(source, columns, 0, UNITS)
        for source in (
            Measurements.from_measurements(alone),
            Measurements.from_measurements(pooled),
        )
    ]
    for i, what in enumerate(COUNTED):
        before, after = (float(error[0, i]) for _, error in read)
        measured = float(np.sqrt(((read[1][0][:, i] - PEOPLE * (what == "total")) ** 2).mean()))
        if before < 1e-6:
            continue  # known exactly
        say(
            f"{level}, {what}: standard deviation with the DHC",
            after,
            "persons",
            at_most=before,
            alone=before,
            measured=measured,
        )
        say(f"{level}, {what}: measured over stated", measured / after, "", at_most=CHANCE)


def noise(rng: np.random.Generator, variance: float, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Whole numbers, near enough the noise of production."""
    return np.rint(rng.normal(0, variance**0.5, shape)).astype(np.int64)


if __name__ == "__main__":
    together(Figures("together"))
