"""Estimators of one's own: whatever they say of a family, the release is one; and what is no answer
is told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from das.engine import executor
from das.errors import InputError, SolverError
from das.estimate.descent import full_information, topdown
from das.estimate.family import Array, Estimator, Family
from das.estimate.passes import Passes
from das.model.measurement import Measurement, Measurements
from das.model.solution import Certificate
from tests.estimate.world import SMALL, World, passes, random_spine, random_world

QUERIES = ("total", "home", "detailed")


class Proportional(Estimator):
    """Cells by their own measurements, none below zero, and scaled to the parent."""

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        detailed = family.answers("detailed")
        x = np.maximum(detailed.values[:, detailed.query.index[family.cell]], 0) + 0.01
        if family.parent is not None:
            x *= family.parent / x.sum(axis=0)
        return x, Certificate()


class Crowded(Estimator):
    """Everybody to the first child, whatever it may hold."""

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        x = np.zeros((len(family), len(family.cell)))
        x[0] = 7.0 if family.parent is None else family.parent
        return x, Certificate()


def world(seed: int) -> World:
    rng = np.random.default_rng(seed)
    return random_world(rng, SMALL, random_spine(rng, 4, 4), size=8.0, facilities=0.4)


def measured(w: World, variance: float = 4.0, noise: float = 1.0) -> Measurements:
    return w.measured(np.random.default_rng(1), QUERIES, variance, noise=noise)


@pytest.mark.parametrize("estimator", [Proportional(), Crowded()], ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("total_level", [None, "L1"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_it_says_the_release_meets_every_bound(
    estimator: Estimator, total_level: str | None, seed: int
) -> None:
    """``Release`` checks sums, structural zeros, facilities and totals: rounding and repairing are
    not the estimator's.
    """
    w = world(seed)
    release = topdown(measured(w), w.spine, w.bounds(total_level), w.universe(), estimator)
    assert set(release.histograms) == set(release.certificates) == set(w.spine.levels)
    if isinstance(estimator, Crowded):  # a child that may not hold them is far from what was said
        assert sum(c.rounding.widened for c in release.certificates.values()) > 0


def test_it_decides_what_is_published() -> None:
    """Without noise, cells in proportion to the truth are the truth."""
    w = world(3)
    release = topdown(measured(w, noise=0.0), w.spine, w.bounds("L0"), w.universe(), Proportional())
    for level, h in w.truth.items():
        assert release.histograms[level].same_as(h)


class Answering(Estimator):
    def __init__(self, answer: Callable[[Family], Any]) -> None:
        self.answer = answer

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        return self.answer(family), Certificate()


@pytest.mark.parametrize(
    "answer, word",
    [
        (lambda f: np.zeros(len(f.cell)), "Answering answers an array of shape"),
        (lambda f: 1.0, "Answering answers an array of shape"),
        (lambda f: np.full((len(f), len(f.cell)), -1.0), "negative or not finite"),
        (lambda f: np.full((len(f), len(f.cell)), np.nan), "negative or not finite"),
        (lambda f: np.full((len(f), len(f.cell)), 7.5), "does not sum to its parent"),
    ],
)
def test_what_is_no_answer_is_told(answer: Callable[[Family], Any], word: str) -> None:
    w = world(0)
    with pytest.raises(SolverError, match=word):
        topdown(measured(w), w.spine, w.bounds(), w.universe(), Answering(answer))


def test_what_is_no_estimator_is_refused_before_anything_is_done() -> None:
    w = world(0)
    with pytest.raises(InputError, match=r"(?s)is no estimator.*subclass of Estimator"):
        topdown(measured(w), w.spine, w.bounds(), w.universe(), lambda family: family.parent)  # type: ignore[arg-type]


def test_it_sees_children_that_can_hold_somebody_and_cells_that_there_are_alone() -> None:
    seen: list[Family] = []

    def watched(family: Family) -> Array:
        seen.append(family)
        return Proportional().estimate(family)[0]

    w, bounds = world(2), world(2).bounds("L1")
    release = topdown(measured(w), w.spine, bounds, w.universe(), Answering(watched))
    assert {f.level for f in seen} == set(w.spine.levels)
    for f in seen:
        assert set(f.queries) == set(QUERIES)
        assert f.able.all()
        if f.parent is None:
            continue
        assert len(f) > 1
        depth = w.spine.index(f.level)
        (parent,) = set(w.spine.parent[depth][f.unit].tolist())
        above = release.histograms[w.spine.levels[depth - 1]].rows(parent, parent + 1)
        assert np.array_equal(above.cell, f.cell)
        assert np.array_equal(above.count, f.parent)
        m = measured(w).held[f.level, "home"]
        assert np.array_equal(f.answers("home").values, m.values[f.unit])


def test_a_level_without_a_pass_or_a_measurement_is_told() -> None:
    w = world(1)
    held = measured(w).held
    with pytest.raises(InputError, match="passes of level 'L0'"):
        topdown(Measurements(held), w.spine, w.bounds(), w.universe(), passes(w.spine, []))
    lost = Measurements({k: m for k, m in held.items() if k != ("L2", "home")})
    with pytest.raises(InputError, match="'home' is not measured at level 'L2'"):
        topdown(lost, w.spine, w.bounds(), w.universe(), passes(w.spine, [QUERIES]))
    few = Measurements({k: m for k, m in held.items() if k != ("L3", "detailed")})
    with pytest.raises(InputError, match="full information needs the detailed query at 'L3'"):
        full_information(few, w.spine, w.bounds(), w.universe(), passes(w.spine, [["total"]]))


class Counted:
    """A source that says what was taken of it, and whose whole never leaves this process."""

    def __init__(self, source: Measurements) -> None:
        self.source, self.parts = source, []

    def queries(self, level: str) -> tuple[str, ...]:
        return self.source.queries(level)

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        return self.source.read(level, query, start, stop)

    def part(self, level: str, start: int, stop: int) -> Measurements:
        self.parts.append((level, start, stop))
        return self.source.part(level, start, stop)

    def __reduce__(self) -> Any:
        raise AssertionError("the whole source was sent to a worker")


@pytest.mark.parametrize("descent", [topdown, full_information])
def test_workers_get_parts_and_answer_as_this_process_does(descent: Any) -> None:
    w = world(5)
    given = w.spine, w.bounds("L1"), w.universe(), passes(w.spine, [["total"], QUERIES[1:]])
    alone = descent(measured(w), *given)
    source = Counted(measured(w))
    with executor(2) as pool:
        spread = descent(source, *given, pool)
    assert spread.certificates == alone.certificates
    for level, h in alone.histograms.items():
        assert spread.histograms[level].same_as(h)
        assert next(p for p in source.parts if p[0] == level)[1] == 0


def test_full_information_is_topdown_at_the_lowest_level_and_better_above_it() -> None:
    """The root is measured badly and its lowest units well: what they say of it is taken."""
    rng = np.random.default_rng(4)
    w = random_world(rng, SMALL, random_spine(rng, 3, 3), size=40.0, facilities=0.4, empty=0.0)
    source = w.measured(rng, QUERIES, lambda level, q: 1.0 if level == "L2" else 1e4)
    given = source, w.spine, w.bounds(), w.universe(), passes(w.spine, [["total"], QUERIES[1:]])
    off = [
        np.abs(d(*given).histograms["L0"].dense() - w.truth["L0"].dense()).sum()
        for d in (topdown, full_information)
    ]
    assert off[1] < 40 < 200 < off[0]


def test_passes_by_rule_follow_from_what_the_source_says() -> None:
    """18 cells of variance 1 say 18 of the total and 6 of each home; 16 times as precise has a pass
    of its own.
    """
    w = world(6)
    variance = {"total": 0.15, "home": 0.25, "detailed": 1.0}
    held = w.measured(
        np.random.default_rng(1), QUERIES, lambda level, q: variance[q] if level != "L3" else 4.0
    ).held
    lost = {k: m for k, m in held.items() if k != ("L2", "home")}
    mixed = lost["L1", "total"]
    some = np.where(np.arange(len(mixed.variance)) == 0, np.inf, mixed.variance)
    lost["L1", "total"] = replace(mixed, variance=some if len(some) > 1 else mixed.variance)
    source = Measurements(lost)
    found = Passes.by_rule(source, w.spine, SMALL)
    assert found.passes["L0"] == (("total",), ("home",), ("detailed",))
    assert found.passes["L1"] == (("total",), ("home", "detailed"))
    assert found.passes["L2"] == (("total",), ("detailed",))
    assert found.passes["L3"] == (("total", "home", "detailed"),)
    topdown(source, w.spine, w.bounds(), w.universe(), found)
