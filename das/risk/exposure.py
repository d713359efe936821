r"""From a run: how exposed its unique persons are, by what was really published of them.

*Unique* is meant as in Kazan and Reiter (2022, section 4.2): a person is unique at a level, in a query, if her unit of
that level has the true count 1 in the answer that she falls in; in their study the query is ``detailed`` and the level
the lowest. The intruder knows everybody else in the unit, so that ``known`` = 0, sees the noisy answer of this one
query, and believes with probability p that she is there.

*Uniques at several levels* (supplement S1.3): a unique of the lowest level who is also unique in the units above it, up
to some level without a gap. The intruder knows that, and weighs one noisy answer a level (:mod:`das.risk.joint`).

:func:`exposure` and :func:`ladder` open the truth, and what they return is confidential; :func:`outlook` needs the plan
alone, and is public.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.budget import Draw, Plan, total
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.risk import joint, one_level
from das.risk.noise import Floats

REASON = "the unique persons of a run are the targets whose risk is measured, for confidential/ only"
#: Classes of the population of a unit: their names, and the first of each.
CLASSES = ("1", "2-9", "10-99", "100-999", "1000-9999", "10000+")
_FIRST = np.array([1, 2, 10, 100, 1000, 10000])
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Outlook:
    """What the plan alone says of an intruder with this prior, on a query at a level or, in a ladder, at ``levels`` from
    the lowest up to this one: average posterior of the truth, over the prior, and how often 0-1 loss finds it."""

    level: str
    query: str
    prior: float
    levels: int
    marginal_posterior: float
    risk: float
    decision_probability: float


@dataclass(frozen=True, repr=False)
class ExposureRow(Closed):
    """The unique persons of a level and query in units of one class of population (``bin``; ``all``), and the
    intruder's posterior of the truth over them, by what was published: mean, quantiles, the largest; ``risk``: its
    mean over the prior; ``decided``: the share of whom he finds."""

    level: str
    query: str
    bin: str
    prior: float
    levels: int
    uniques: int
    mean: float
    p50: float
    p95: float
    max: float
    risk: float
    decided: float


def outlook(plan: Plan, priors: Sequence[float], *, query: str = "detailed") -> list[Outlook]:
    """Every draw of the plan for an intruder who sees it alone, then the ladder of ``query`` from the lowest level up."""
    single = [o for d in plan.draws for o in _outlook(plan, [d], priors)]
    ladder_ = _ladder_draws(plan, query)
    return single + [o for n in range(2, len(ladder_) + 1) for o in _outlook(plan, ladder_[:n], priors)]


def exposure(
    truth: Mapping[str, Confidential[Histogram]],
    noisy: MeasurementSource,
    plan: Plan,
    spine: Spine,
    schema: Schema,
    *,
    prior: float,
    queries: Sequence[str] | None = None,
) -> list[ExposureRow]:
    """For each level and each of ``queries`` measured there (default: all): rows for all its uniques, and by class of
    the unit's population. Units that were not measured are left out. Confidential."""
    rows = []
    for d in plan.draws:
        if d.level in spine.levels and (queries is None or d.query in queries):
            histogram = truth[d.level].open(REASON)
            unit, answer = uniques(histogram, schema.query(d.query))
            seen, measured = _published(noisy, d, spine, schema, unit, answer)
            size = np.searchsorted(_FIRST, histogram.totals()[unit[measured]], side="right") - 1
            after = one_level.posterior(seen[measured], prior=prior, neighbours=plan.neighbours, **_cost([d]))
            rows += _rows(d, prior, 1, after, size)
    return rows


def ladder(
    truth: Mapping[str, Confidential[Histogram]],
    noisy: MeasurementSource,
    plan: Plan,
    spine: Spine,
    schema: Schema,
    *,
    prior: float,
    query: str = "detailed",
) -> list[ExposureRow]:
    """For n = 2, 3, ...: persons who are unique in ``query`` at the n lowest levels, by n noisy answers. Confidential."""
    draws = _ladder_draws(plan, query)
    if len(draws) < 2:
        return []
    lowest = truth[spine.levels[-1]].open(REASON)
    unit, answer = uniques(lowest, schema.query(query))
    seen, there = _published(noisy, draws[0], spine, schema, unit, answer)
    counts, keep, rows = [seen], there, []
    for n, d in enumerate(draws[1:], start=2):
        above = spine.up(spine.levels[-1], d.level)[unit]
        keys = np.stack(uniques(truth[d.level].open(REASON), schema.query(query)))
        answers = schema.query(query).answers
        seen, there = _published(noisy, d, spine, schema, above, answer)
        counts.append(seen)
        keep = keep & there & np.isin(above * answers + answer, keys[0] * answers + keys[1])
        after = joint.joint_posterior(
            np.stack(counts, axis=1)[keep], prior=prior, neighbours=plan.neighbours,
            **_cost(draws[:n], several=True),
        )  # fmt: skip
        size = np.searchsorted(_FIRST, lowest.totals()[unit[keep]], side="right") - 1
        rows += _rows(d, prior, n, after, size)
    return rows


def uniques(histogram: Histogram, query: Query) -> tuple[Ints, Ints]:
    """The (unit, answer) pairs with the count 1."""
    answers = Histogram.of(
        histogram.units, query.answers, histogram.unit, query.index[histogram.cell].astype(np.int64), histogram.count
    )
    one = answers.count == 1
    return answers.unit[one], answers.cell[one]


def _published(
    noisy: MeasurementSource, draw: Draw, spine: Spine, schema: Schema, unit: Ints, answer: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """The noisy answer of each pair, and whether its unit was measured. Streams over batches of units."""
    seen, measured = np.zeros(len(unit), dtype=np.int64), np.zeros(len(unit), dtype=bool)
    for start, stop in spine.batches(draw.level, schema.query(draw.query).answers):
        here = np.flatnonzero((unit >= start) & (unit < stop))
        if len(here):
            m = noisy.read(draw.level, draw.query, start, stop)
            seen[here] = m.values[unit[here] - start, answer[here]]
            measured[here] = np.isfinite(m.variance[unit[here] - start])
    return seen, measured


def _rows(draw: Draw, prior: float, levels: int, after: Floats, size: Ints) -> list[ExposureRow]:
    classes = [("all", np.ones(len(size), dtype=bool)), *((c, size == i) for i, c in enumerate(CLASSES))]
    return [
        ExposureRow(draw.level, draw.query, name, prior, levels, int(which.sum()), float(a.mean()),
                    float(np.quantile(a, 0.5)), float(np.quantile(a, 0.95)), float(a.max()), float(a.mean() / prior),
                    float((a > 0.5).mean()))
        for name, which in classes if len(a := after[which])
    ]  # fmt: skip


def _outlook(plan: Plan, draws: Sequence[Draw], priors: Sequence[float]) -> list[Outlook]:
    costs = _cost(draws, several=True)
    average = joint.joint_marginal_posterior(prior=np.array(priors), neighbours=plan.neighbours, **costs)
    return [
        Outlook(draws[-1].level, draws[0].query, p, len(draws), float(a), float(a / p),
                joint.joint_decision_probability(prior=p, neighbours=plan.neighbours, **costs))
        for p, a in zip(priors, average, strict=True)
    ]  # fmt: skip


def _ladder_draws(plan: Plan, query: str) -> list[Draw]:
    """The draws of ``query`` from the lowest level up, without a gap."""
    levels = list(dict.fromkeys(d.level for d in plan.draws))[::-1]
    measured = {d.level: d for d in plan.draws if d.query == query}
    out = []
    for level in levels:
        if level not in measured:
            break
        out.append(measured[level])
    return out


def _cost(draws: Sequence[Draw], several: bool = False) -> dict[str, Any]:
    total(draws)  # refuses two currencies
    costs = [float(d.cost) for d in draws]
    return {draws[0].mechanism.currency: costs if several else costs[0]}
