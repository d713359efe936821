"""Between the truth and estimation is a wall: public values and answers go one way, questions the
other."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.paying import paying
from das.engine import enclosed as engine
from das.errors import UserError
from das.estimate.estimator_process import PartOutline, of_message, to_message
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import OuterProblem
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import RecordingSource
from das.model.plan import Strategy
from das.noise import entropy
from das.publications.dhc.model import strategy
from das.publications.dhc.truth.oracle import AnsweredPart, OnDemandMeasurement, Oracle
from tests import dhc_small
from tests.engine.enclosed_jobs import Question, Surroundings


@cache
def units() -> tuple[OuterProblem, Any]:
    """The units of the small world: the problem, and what makes a source of seeded answers."""
    spine, whole = dhc_small.tree(), strategy.units()
    of = Strategy(whole.schema, dict.fromkeys(spine.levels, whole.rho["County"]), whole.outer)
    truth = dhc_small.simulated(12)["units"]
    fixed = truth.answer(of.schema.query("unit_class"))
    unit, cell = np.nonzero(fixed)
    lowest = Histogram.from_triplets(*fixed.shape, unit, cell, fixed[unit, cell])
    ties = FixedCounts.from_histogram(of.schema, "unit_class", lowest, spine)
    plan, tree = of.plan(), MeasuredSpine.from_published(spine)

    def source() -> RecordingSource:
        pay = paying(Ledger(plan.cost, paths=plan.paths), "units", of.schema, tree, plan)
        closed = {lv: Confidential(h) for lv, h in truth.upward(spine).items()}
        seeded = entropy.seeded(1)
        return RecordingSource(
            OnDemandMeasurement(closed, "units", of.schema, tree, plan, seeded, pay)
        )

    return OuterProblem(spine, of.schema, tuple(of.outer), ties), source


def test_beyond_the_wall_it_is_estimated_as_here() -> None:
    """The same bits, the same questions; and the estimator has no code that opens a file of
    ours."""
    problem, source = units()
    here, there = source(), source()
    said, found = problem.estimated(here), Oracle().estimated(problem, there)
    assert found == said
    for level in problem.levels:
        for a, b in zip(here.recorded(level), there.recorded(level), strict=True):
            assert (a.query, a.at.tolist(), a.values.tolist()) == (
                b.query,
                b.at.tolist(),
                b.values.tolist(),
            )
    with engine.enclosed() as process:
        process.begin(Surroundings(), 1)
        modules = process.receive()[0]["done"]["modules"]
    assert "das.estimate.outer" in modules
    beyond = {".".join(m.split(".")[:2]) for m in modules if m.startswith("das.")}
    assert beyond <= {
        *("das.engine", "das.errors", "das.estimate", "das.fold", "das.model", "das.rounding"),
        *("das.plugins", "das.solve", "das.threads", "das.version"),
    }


def test_a_result_is_what_was_sent() -> None:
    problem, source = units()
    found = problem.estimated(source())
    assert of_message(*to_message(found)) == found


def test_nothing_that_it_is_sent_names_a_place_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two kinds of message: the job, and answers."""
    sent = list[tuple[Any, Any]]()
    real = engine.EnclosedProcess.send

    def send(self: Any, head: Any, arrays: Any = None) -> None:
        sent.append((head, arrays))
        real(self, head, arrays)

    monkeypatch.setattr(engine.EnclosedProcess, "send", send)
    problem, source = units()
    Oracle().estimated(problem, source())
    (first, job), *answers = sent
    assert first == {"workers": 1}
    assert not [w for w in (b"confidential", b"das.truth", b"Path") if w in job["job"].tobytes()]
    assert answers
    for head, arrays in answers:
        assert (head, list(arrays), arrays["answers"].dtype) == ({}, ["answers"], np.int64)


@pytest.mark.parametrize(
    "question",
    [
        Question(0, "Nowhere", "unit_class", (0,)),
        Question(0, "State", "nothing", (0,)),
        Question(0, "State", "QUERY", (-1,)),
        Question(0, "State", "QUERY", (1 << 40,)),
        Question(0, "State", "QUERY", (0.5,)),
        Question(7, "State", "QUERY", (0,)),
    ],
)
def test_a_question_outside_of_the_part_is_refused_before_anything_is_drawn(
    question: Question,
) -> None:
    problem, make = units()
    source = make()
    query = source.queries("State")[0]
    asked = Question(
        question.number, question.level, question.query.replace("QUERY", query), question.at
    )
    own = AnsweredPart(PartOutline.from_source(source, problem.spine, problem.levels), source)
    with pytest.raises(UserError, match="which this part of the run does not measure"):
        Oracle()._done(asked, own)  # type: ignore[arg-type]
    assert not [m for level in problem.levels for m in source.recorded(level) if len(m.at)]
