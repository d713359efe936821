"""What a person is told about measurements that improve nothing (:mod:`das.model.ledger`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from das.model.ledger import MeasuredRecords, RedundantMeasurement, RedundantMeasurements
from das.release.publications import PublicHalf


def spare_after(half: PublicHalf, spec: Any, release: Path) -> list[str]:
    """At most one sentence on measurements of a run that added nothing, by the trees that were
    measured."""
    _, foreseen = half.outlook(half.resolved(spec))
    all_ = half.spare_of(release) if foreseen else ()
    if not all_:
        return []
    share = 100 * max(float(i.share) for _, i in all_)
    where = dict.fromkeys(f"{i.measurement.query} at {i.measurement.level}" for _, i in all_)
    return [
        f"up to {share:.4g} % of {all_[0][1].measurement.mechanism.currency} measured what is exact"
        f" already, {', '.join(where)} (`das plan --optimize` spends it anew)"
    ]


def as_data(all_: RedundantMeasurements) -> list[dict[str, Any]]:
    """Every measurement, with its class where only units above only children have it."""
    from das.cli.kit.terminal_tables import class_of  # slow to load

    return [
        {
            "universe": u.name,
            "level": i.measurement.level,
            "query": i.measurement.query,
            i.measurement.mechanism.currency: str(i.measurement.cost),
            "share": float(i.share),
            "known": {"level": i.known[0], "query": i.known[1]},
            "everywhere": i.everywhere,
            "units": i.units,
            "of": i.of,
        }
        | class_of(i.measurement, u.plan)
        for u, i in all_
    ]


def lines(all_: RedundantMeasurements, config: Path) -> list[str]:
    """For each universe a line on what adds nothing anywhere, with what can be done about it in
    ``config``. For each level and query that adds nothing in some units, another. Of classes that
    there may be, only units without only children count."""
    groups: dict[tuple[str, str, str], list[tuple[MeasuredRecords, RedundantMeasurement]]] = {}
    for u, i in all_:
        if i.of is not None or i.measurement in u.plan.plain:
            groups.setdefault((u.name, i.measurement.level, i.measurement.query), []).append((u, i))
    out: list[str] = []
    for name in dict.fromkeys(universe for universe, _, _ in groups):
        own = [group for (universe, _, _), group in groups.items() if universe == name]
        everywhere = [g for g in own if all(i.everywhere for _, i in g)]
        universe = own[0][0][0]
        out += [_line(universe, [i for _, i in g]) for g in own if g not in everywhere]
        if everywhere:
            which = f" --universe {universe.name}" if universe.kind.table else ""
            out.append(
                f"{_together(universe, [[i for _, i in g] for g in everywhere])}."
                f" `das plan {config} --optimize TARGETS.toml --spare{which}` spends it anew"
            )
    return out


def _together(universe: MeasuredRecords, groups: Sequence[Sequence[RedundantMeasurement]]) -> str:
    """One line for all levels and queries that add nothing anywhere."""
    if len(groups) == 1:
        return _line(universe, groups[0])
    first = [group[0] for group in groups]
    share = sum(100 * max(float(i.share) for i in group) for group in groups)
    queries: dict[str, list[str]] = {}
    for i in first:
        queries.setdefault(i.measurement.query, []).append(i.measurement.level)
    measured = ", ".join(f"{q} at {' and '.join(levels)}" for q, levels in queries.items())
    known = dict.fromkeys(
        f"{i.known[1]} is {'held fixed' if i.kept else 'published exactly'} at {i.known[0]}"
        for i in first
    )
    above = ", and so above it" if any(i.measurement.level != i.known[0] for i in first) else ""
    return (
        f"{universe.records}: {measured} take {share:.4g} % of"
        f" {first[0].measurement.mechanism.currency} and add nothing: {', '.join(known)}{above}"
    )


def _line(universe: MeasuredRecords, group: Sequence[RedundantMeasurement]) -> str:
    """A line for the classes of a level that have the same query."""
    measurement, known = group[0].measurement, group[0].known
    shares = [100 * float(i.share) for i in group if i.units != 0]
    share = " to ".join(dict.fromkeys(f"{x:.4g}" for x in (min(shares), max(shares))))
    where, more = _where(group)
    above = "" if measurement.level == known[0] else ", and so above it"
    return (
        f"{universe.records}: {measurement.query} at {measurement.level} takes {share} % of"
        f" {measurement.mechanism.currency} and adds nothing{where}: {known[1]} is"
        f" {'held fixed' if group[0].kept else 'published exactly'} at {known[0]}{above}{more}"
    )


def _where(group: Sequence[RedundantMeasurement]) -> tuple[str, str]:
    """In which units, where it is not in all; and what it buys in the others."""
    if all(i.everywhere for i in group):
        return "", ""
    if group[0].of is None:
        return (
            f" in a {group[0].measurement.level} that is one unit of the tree",
            f". A {group[0].measurement.level} with American Indian areas is two units, and needs it",
        )
    units, of = (
        sum(n or 0 for n in counts)
        for counts in zip(*((i.units, i.of) for i in group), strict=True)
    )
    return f" in {units:,} of its {of:,} units", ". The others are parts of places, and need it"
