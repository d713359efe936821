"""Measuring in memory: the noise, the ledger and the streams of random bits of a run, without its
files."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from das.api.arrays.counting import Counted
from das.api.arrays.noisy import Noisy, expect
from das.errors import PrivacyError, SpecError
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement, Measurements
from das.model.not_private import WARNING
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.spelling import SIGN
from das.model.spine import Spine
from das.model.universe import PERSONS
from das.noise import entropy
from das.truth.measure import invariant_counts
from das.truth.measure import measure as measured


def measure(
    truth: Counted,
    plan: Plan,
    *,
    exact: Mapping[str, str | Sequence[str]] | None = None,
    seed: int | None = None,
    some_levels: bool = False,
) -> Noisy:
    """Add the noise of ``plan`` to every answer: the only step that spends the budget.

    Noise is drawn from the system's entropy. With ``seed`` it is that of a run with ``run.seed``,
    repeatable **and not private**: the result says so, with a warning. ``exact``: by level, the
    queries that are published without noise, such as ``{"State": "total"}``. These counts are
    outside the guarantee.

    A plan that leaves a level of the tree unmeasured is refused, because nothing could be estimated
    there. ``some_levels`` allows it: full information needs only *detailed* at the lowest level.

    Every event is in the ledger before its first draw, and nothing is drawn that the ledger does
    not cover. Measuring the same truth again spends the budget again.

    Raises:
        SpecError: a plan with levels or queries that the truth does not have, a seed that is none.
    """
    for given, kind, source_of in ((truth, Counted, "das.count"), (plan, Plan, "das.Plan.of_rho")):
        expect(given, kind, "measure", f"give what {source_of} returns")
    schema, spine = truth.schema, truth.spine
    plan = _spelt(plan)
    _check(plan, schema, spine, some_levels)
    known = _exact(truth, exact or {})
    if seed is not None:
        if type(seed) is not int or seed < 0:
            raise SpecError(
                f"the seed is {seed!r}",
                where="measure",
                remedy="give a whole number of 0 or more, or none",
            )
        warnings.warn(WARNING, stacklevel=2)
    source = entropy.system() if seed is None else entropy.seeded(seed)
    ledger = Ledger(plan.cost, paths=plan.paths)
    drawn: list[Measurement] = []
    for level in spine.levels:
        if plan.at(level):
            drawn += measured(
                truth.levels[level],
                level,
                PERSONS.name,
                schema,
                MeasuredSpine.from_published(spine),
                plan,
                source,
                ledger,
            )
    if ledger.cost != plan.cost:
        raise PrivacyError(f"the ledger says {ledger.cost}, the plan {plan.cost}", where="measure")
    return Noisy(
        schema,
        Measurements.from_measurements(m.as_published() for m in drawn),
        known,
        plan,
        ledger.events,
        source.private,
        spine,
    )


def _spelt(plan: Plan) -> Plan:
    """The plan with spaces around the factors of queries, as in the schema's names."""
    draws = tuple(
        replace(d, query=SIGN.join(f.strip() for f in d.query.split("*")))
        for d in plan.measurements
    )
    return plan if draws == plan.measurements else replace(plan, measurements=draws)


def _check(plan: Plan, schema: Schema, spine: Spine, some_levels: bool) -> None:
    for d in plan.measurements:
        if d.level not in spine.levels:
            raise SpecError(
                f"{d.level!r} is not a level",
                where="plan",
                remedy=f"the levels of the spine are {', '.join(spine.levels)}",
            )
        schema.query(d.query)
    if not some_levels and (bare := [level for level in spine.levels if not plan.at(level)]):
        raise SpecError(
            f"nothing is measured at {', '.join(map(repr, bare))}, and nothing was spent",
            where="plan",
            remedy=(
                "give every level a share, or say some_levels=True and estimate by full information"
            ),
        )


def _exact(
    truth: Counted, wanted: Mapping[str, str | Sequence[str]]
) -> dict[tuple[str, str], NDArray[np.int64]]:
    expect(
        wanted,
        Mapping,
        "measure, exact",
        'give a mapping of levels to queries, such as {"State": "total"}',
    )
    pairs = [(lv, q) for lv, qs in wanted.items() for q in ([qs] if isinstance(qs, str) else qs)]
    for level, _ in pairs:
        truth.spine.index(level)
    return {
        (level, query): invariant_counts(truth.levels[level], truth.schema.query(query))
        for level, query in pairs
    }
