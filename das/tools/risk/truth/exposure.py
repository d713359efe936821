r"""How exposed the unique persons of a run are, by what was really published about them.

*Unique* has the meaning of Kazan and Reiter (2022, section 4.2). Take a level and a query. A person
is unique in them if the answer that counts her has the true count 1 in her unit of that level. In
their study the query is ``detailed`` and the level the lowest. The intruder knows everybody else in
the unit, so ``known`` = 0. He sees the noisy answer of this one query, and believes with
probability p that she is there.

*Uniques at several levels* (supplement S1.3): they are unique at the lowest level and in the units
above, up to some level without a gap. The intruder knows that, and weighs one noisy answer a level
(:mod:`das.risk.joint`).

*Units are those that were measured*, and each answer is weighed with the noise of its own unit.
Where the shares of only children went to their parents (:mod:`das.model.tabulation`), an unmeasured
only child is on no rung of the ladder. The unit above it, which holds the same records, is.

:func:`exposure` and :func:`ladder` open the truth, and what they return is confidential;
:func:`outlook` needs the plan alone, and is public."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from das.model.budget import PlannedMeasurement, UnitPath, total
from das.model.confidential import Confidential
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import MeasurementSource
from das.model.names import level_inside
from das.model.plan import Plan
from das.model.query import Query
from das.model.schema import Schema
from das.risk import joint, one_level
from das.risk.recursion import Floats, evidence, log_odds
from das.truth.assessment import truth_of
from das.truth.prepared import over

REASON = (
    "the unique persons of a run are the targets whose risk is measured, for confidential/ only"
)
#: Classes of the population of a unit: their names, and the first of each.
CLASSES = ("1", "2-9", "10-99", "100-999", "1000-9999", "10000+")
_FIRST = np.array([1, 2, 10, 100, 1000, 10000])
Ints = NDArray[np.int64]
Exposed = tuple[
    Mapping[str, Confidential[Histogram]], MeasurementSource, Plan, MeasuredSpine, Schema
]


@dataclass(frozen=True)
class Outlook:
    """What the plan alone says about an intruder with this prior.

    It concerns a query at a level or, in a ladder, at ``levels`` of a path from its lowest one up
    to this one. It has the average posterior of the truth, over the prior, and how often 0-1 loss
    finds the truth. ``unit_class``: the class of the units that he looks at; for a ladder, of each
    from the lowest up."""

    level: str
    unit_class: str
    query: str
    prior: float
    levels: int
    marginal_posterior: float
    risk: float
    decision_probability: float


@dataclass(frozen=True, repr=False)
class ExposureRow(NoRepr):
    """The unique persons of a level and query, in units of one population class (``bin``; ``all``).

    It has the intruder's posterior of the truth over them, given what was published: mean,
    quantiles, the largest. ``risk``: its mean over the prior; ``decided``: the share of them that
    he finds."""

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
    """Every draw of the plan for an intruder who sees it alone, then the ladders of ``query`` up
    the paths of the plan."""
    single = [o for d in plan.measurements for o in _outlook(plan, [d], priors)]
    ladders = [_ladder_draws(plan, path, query) for path in plan.paths]
    each = dict.fromkeys(rungs[:n] for rungs in ladders for n in range(2, len(rungs) + 1))
    upward = sorted(each, key=lambda rungs: (len(rungs), -plan.levels.index(rungs[-1].level)))
    return single + [o for rungs in upward for o in _outlook(plan, rungs, priors)]


def exposure(
    truth: Mapping[str, Confidential[Histogram]],
    noisy: MeasurementSource,
    plan: Plan,
    tree: MeasuredSpine,
    schema: Schema,
    *,
    prior: float,
    queries: Mapping[str, Sequence[str]] | None = None,
) -> list[ExposureRow]:
    """For each level and each of its ``queries`` (default: all that are measured): rows for all its
    uniques, and by class of the unit's population. ``truth`` is over the ``tree``; units that were
    not measured are left out. Confidential."""
    rows = []
    for level, name in dict.fromkeys((d.level, d.query) for d in plan.measurements):
        if level in tree.spine.levels and (queries is None or name in queries.get(level, ())):
            histogram = truth[level].open(REASON)
            unit, answer = uniques(histogram, schema.query(name))
            seen, cost = _published(noisy, plan, tree, schema.query(name), level, unit, answer)
            there = np.isfinite(cost)
            size = np.searchsorted(_FIRST, histogram.totals()[unit[there]], side="right") - 1
            after = one_level.posterior(
                seen[there],
                prior=prior,
                neighbours=plan.neighbours,
                **{plan.mechanism.currency: cost[there]},
            )
            rows += _rows(level, name, prior, 1, after, size)
    return rows


def ladder(
    truth: Mapping[str, Confidential[Histogram]],
    noisy: MeasurementSource,
    plan: Plan,
    tree: MeasuredSpine,
    schema: Schema,
    *,
    prior: float,
    query: str = "detailed",
) -> list[ExposureRow]:
    """Persons who are unique in ``query`` in their units of the lowest levels, by n = 2, 3, ...
    noisy answers. There is a row for each n and each level of the last of these answers. Units that
    are not measured are no rung; a unit that is measured without ``query`` ends the ladder.
    Confidential."""
    spine, asked, rows = tree.spine, schema.query(query), []
    lowest = truth[spine.levels[-1]].open(REASON)
    unit, answer = uniques(lowest, asked)
    size = np.searchsorted(_FIRST, lowest.totals()[unit], side="right") - 1
    odds, rungs = np.full(len(unit), float(log_odds(prior))), np.zeros(len(unit), dtype=np.int64)
    for level in reversed([lv for lv in spine.levels if plan.at(lv)]):
        above = spine.up(spine.levels[-1], level)[unit]
        rung = _measured(plan, tree, level)[above]
        keys = np.stack(uniques(truth[level].open(REASON), asked))
        seen, cost = _published(noisy, plan, tree, asked, level, above, answer)
        one = np.isin(above * asked.answers + answer, keys[0] * asked.answers + keys[1])
        keep = ~rung | (np.isfinite(cost) & one)
        rung &= keep
        rate = cost[rung] / plan.neighbours.sensitivity
        odds[rung] += evidence(seen[rung], plan.mechanism, rate)
        rungs += rung
        for n in np.unique(rungs[rung & (rungs > 1)]).tolist():
            here = rung & (rungs == n)
            rows += _rows(level, query, prior, n, np.asarray(expit(odds[here])), size[here])
        unit, answer, size, odds, rungs = (x[keep] for x in (unit, answer, size, odds, rungs))
    return rows


def uniques(histogram: Histogram, query: Query) -> tuple[Ints, Ints]:
    """The (unit, answer) pairs with the count 1."""
    answers = Histogram.from_triplets(
        histogram.units,
        query.answers,
        histogram.unit,
        query.index[histogram.cell].astype(np.int64),
        histogram.count,
    )
    one = answers.count == 1
    return answers.unit[one], answers.cell[one]


def alone(run: Path, queries: Sequence[str]) -> dict[str, int]:
    """How many persons of a finished run are unique at its lowest level, by query: the rows of
    :func:`exposure`, of units that were measured with it. Confidential."""
    given = of_run(run)
    rows = exposure(*given, prior=0.5, queries={given[2].levels[-1]: queries})
    return {r.query: r.uniques for r in rows if r.bin == "all"}


def of_run(run: Path) -> Exposed:
    """What :func:`exposure` and :func:`ladder` take of a finished run. Confidential."""
    opened, known = truth_of(run)
    u, lowest = opened.run.persons, opened.spine.levels[-1]
    tree = opened.tree(u)
    return over(tree, known[u.name][lowest]), opened.source(u), u.plan, tree, u.schema


def _measured(plan: Plan, tree: MeasuredSpine, level: str) -> NDArray[np.bool_]:
    """The units of a level that are measured with anything, ``(units,)``."""
    out = np.zeros(tree.spine.units(level), dtype=bool)
    for unit_class, where in tree.classes(level).items():
        out |= where & bool(plan.of_class(level, unit_class))
    return out


def _costs(plan: Plan, tree: MeasuredSpine, level: str, query: str) -> Floats:
    """What the query costs in each unit of a level, ``(units,)``; NaN where it is not measured."""
    out = np.full(tree.spine.units(level), np.nan)
    for unit_class, where in tree.classes(level).items():
        for d in plan.of_class(level, unit_class):
            if d.query == query:
                out[where] = float(d.cost)
    return out


def _published(
    noisy: MeasurementSource,
    plan: Plan,
    tree: MeasuredSpine,
    query: Query,
    level: str,
    unit: Ints,
    answer: Ints,
) -> tuple[Ints, Floats]:
    """The noisy answer of each pair, and what it cost: NaN where its unit was not measured. Streams
    over batches of units."""
    seen, cost = np.zeros(len(unit), dtype=np.int64), _costs(plan, tree, level, query.name)[unit]
    for start, stop in tree.spine.batches(level, query.answers):
        here = np.flatnonzero((unit >= start) & (unit < stop) & np.isfinite(cost))
        if len(here):
            m = noisy.read(level, query.name, start, stop)
            seen[here] = m.values[unit[here] - start, answer[here]]
            cost[here[~np.isfinite(m.variance[unit[here] - start])]] = np.nan
    return seen, cost


def _rows(
    level: str, query: str, prior: float, levels: int, after: Floats, size: Ints
) -> list[ExposureRow]:
    classes = [
        ("all", np.ones(len(size), dtype=bool)),
        *((c, size == i) for i, c in enumerate(CLASSES)),
    ]
    return [
        ExposureRow(
            level,
            query,
            name,
            prior,
            levels,
            int(which.sum()),
            float(a.mean()),
            float(np.quantile(a, 0.5)),
            float(np.quantile(a, 0.95)),
            float(a.max()),
            float(a.mean() / prior),
            float((a > 0.5).mean()),
        )
        for name, which in classes
        if len(a := after[which])
    ]


def _outlook(
    plan: Plan, draws: Sequence[PlannedMeasurement], priors: Sequence[float]
) -> list[Outlook]:
    total(draws)  # refuses two currencies
    costs: dict[str, Any] = {
        draws[0].mechanism.currency: [float(d.cost) for d in draws],
        "neighbours": plan.neighbours,
    }
    average = joint.joint_marginal_posterior(prior=np.array(priors), **costs)
    classes = ", ".join(dict.fromkeys(d.unit_class for d in draws))
    return [
        Outlook(
            draws[-1].level,
            classes,
            draws[0].query,
            p,
            len(draws),
            float(a),
            float(a / p),
            joint.joint_decision_probability(prior=p, **costs),
        )
        for p, a in zip(priors, average, strict=True)
    ]


def _ladder_draws(plan: Plan, path: UnitPath, query: str) -> tuple[PlannedMeasurement, ...]:
    """The draws of ``query`` up a path, from its lowest unit that is measured, without a gap."""
    out: list[PlannedMeasurement] = []
    for place in reversed(path):
        draws = plan.of_class(*place)
        asked = [d for d in draws if d.query == query]
        if draws and not asked:
            break
        out += asked
    return tuple(out)


# What a report on the risk covers: a query at every measured level, and one sentence for those who
# read nothing else.

R = TypeVar("R", ExposureRow, Outlook)


def queries_by_level(
    plan: Plan, schema: Schema, wanted: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """For each measured level, in the order of the tree, the queries of a report: those of
    ``wanted`` that are measured there; where there is none, the measured one with the most answers.
    So no level is left out. Of two with equally many answers, the first of the plan is taken."""
    measured: dict[str, list[str]] = {}
    for m in plan.measurements:
        measured.setdefault(m.level, []).append(m.query)
    return {
        level: tuple(q for q in wanted if q in queries)
        or (max(dict.fromkeys(queries), key=lambda q: schema.query(q).answers),)
        for level, queries in measured.items()
    }


def substituted(by_level: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> list[str]:
    """A sentence for each level that is reported on by another query than the one ``wanted``.

    >>> substituted({"State": ("total",), "Block": ("detailed",)}, ["detailed"])
    ["State does not measure 'detailed': its finest query is 'total', and the report uses that."]"""
    return [
        f"{level} does not measure {' or '.join(map(repr, wanted))}: its finest query is"
        f" {queries[0]!r}, and the report uses that."
        for level, queries in by_level.items()
        if wanted and not set(queries) & set(wanted)
    ]


#: What is said of real persons begins so, wherever it is copied to.
OF_PERSONS = "Confidential: this is about the real persons of the run."


def summary_of_run(rows: Sequence[ExposureRow]) -> str:
    """What a neighbor learns about a run's unique persons at its lowest level, in plain words.
    Confidential."""
    alone = [r for r in rows if r.levels == 1 and r.bin == "all"]
    if not alone:
        return f"{OF_PERSONS} Nobody is alone in a measured cell of this run."
    r = _even([r for r in alone if r.level == alone[-1].level])
    most = max([x for x in rows if x.prior == r.prior and x.bin == "all"], key=lambda x: x.max)
    several = f", from the counts of {most.levels} levels together" if most.levels > 1 else ""
    return (
        f"{OF_PERSONS} {_before(r)} After this release the neighbor gives it {_percent(r.mean)} on"
        f" average, and guesses right for {_percent(r.decided)} of such persons. At most it is"
        f" {_percent(most.max)}{several}. There are {r.uniques:,} such persons (a true count,"
        f" confidential), alone in their answer to {r.query!r} in their {level_inside(r.level)}."
    )


def summary_of_plan(rows: Sequence[Outlook]) -> str:
    """What the plan says about its lowest level, in plain words."""
    single = [r for r in rows if r.levels == 1]
    r = _even([r for r in single if r.level == single[-1].level])
    return (
        f"{_before(r)} After such a release the neighbor gives it {_percent(r.marginal_posterior)}"
        f" on average, and guesses right {_percent(r.decision_probability)} of the time. This takes"
        f" the counts of {r.query!r} in that {level_inside(r.level)} alone."
    )


def _before(r: ExposureRow | Outlook) -> str:
    """What the intruder knows, and believes before the release."""
    return (
        f"A neighbor who knows everybody else in a {level_inside(r.level)} gives it"
        f" {_percent(r.prior)} that one more person, with certain answers, is there. In truth the"
        " person is."
    )


def _percent(x: float) -> str:
    return f"{100 * x:.1f} %"


def _even(rows: Sequence[R]) -> R:
    """The row whose prior is nearest to a coin's."""
    return min(rows, key=lambda r: abs(r.prior - 0.5))
