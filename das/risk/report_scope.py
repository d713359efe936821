"""What a report on the risk covers: a query at every measured level, and one sentence for those who
read nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from das.model.plan import Plan
from das.model.schema import Schema
from das.risk.exposure import ExposureRow, Outlook

R = TypeVar("R", ExposureRow, Outlook)


def queries_by_level(
    plan: Plan, schema: Schema, wanted: Sequence[str] = ()
) -> dict[str, tuple[str, ...]]:
    """For each measured level, in the order of the tree, the queries of a report: those of
    ``wanted`` that are measured there; where there is none, the measured one with the most answers.
    So no level is left out. Of two with equally many answers, the first of the plan is taken.
    """
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
    ["State does not measure 'detailed': its finest query is 'total', and the report uses that."]
    """
    return [
        f"{level} does not measure {' or '.join(map(repr, wanted))}: its finest query is"
        f" {queries[0]!r}, and the report uses that."
        for level, queries in by_level.items()
        if wanted and not set(queries) & set(wanted)
    ]


def summary_of_run(rows: Sequence[ExposureRow]) -> str:
    """The risk of a run's unique persons at its lowest level, in plain words. Confidential."""
    alone = [r for r in rows if r.levels == 1 and r.bin == "all"]
    if not alone:
        return "Nobody is alone in a measured cell of this run."
    r = _even([r for r in alone if r.level == alone[-1].level])
    return (
        f"{r.uniques:,} persons are alone in their answer to {r.query!r} at {r.level}. An intruder"
        f" who knows everybody else there believes with probability {r.prior:g} that such a person"
        f" is there. After this release he believes it with {r.mean:.3f} on average, and finds"
        f" {r.decided:.1%} of them."
    )


def summary_of_plan(rows: Sequence[Outlook]) -> str:
    """What the plan says about its lowest level, in plain words."""
    single = [r for r in rows if r.levels == 1]
    r = _even([r for r in single if r.level == single[-1].level])
    return (
        f"At {r.level}, an intruder who knows everybody else believes with probability"
        f" {r.prior:g} that a person has some answer to {r.query!r}. If it is true, he believes it"
        f" with {r.marginal_posterior:.3f} on average after this release. He decides right"
        f" {r.decision_probability:.1%} of the time."
    )


def _even(rows: Sequence[R]) -> R:
    """The row whose prior is nearest to a coin's."""
    return min(rows, key=lambda r: abs(r.prior - 0.5))
