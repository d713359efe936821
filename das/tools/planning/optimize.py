"""``das plan --optimize``: the best shares of a budget, on the terminal, as JSON, or as tables of a
configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from das.accounting.changes import pair_limits
from das.cli.kit.console import CommandAnswer, console, print_answer, records_table
from das.cli.kit.options import exact_option, warn
from das.design.model import Choices, Estimand, LevelQuery
from das.design.target_set import Objective, TargetSet
from das.engine import Progress
from das.engine.display import Live
from das.errors import InputError, SpecError, UserError
from das.files import packaged
from das.files.run.run_directory import release_of
from das.model.budget import ALL
from das.model.histogram import Histogram
from das.model.not_private import PLANNED, marked
from das.model.spelling import named
from das.model.universe import PERSONS, Planned
from das.publications.dhc import release_files
from das.publications.dhc.release import OpenedDhc, open_dhc
from das.publications.dhc.release_files import tables_of
from das.publications.dhc.spec import DhcSpec, DhcUniverse, all_of_production, dhc_budget_toml
from das.release.opened import open_release
from das.spec import RunSpec, Specification, budget_toml
from das.tables import Table
from das.tools.planning import ground as plan_ground
from das.tools.planning import optimizing
from das.tools.planning.epsilon_guards import guarded_losses
from das.tools.planning.ground import SampledPass, SampledUnit, TreeKnowledge, UnitsAlone
from das.tools.planning.optimizing import LossRow, Optimum, TargetRow
from das.tools.planning.target_file import (
    new_measurements,
    read_targets,
    target_set_of,
    targets_of_blocks,
)

#: A standard deviation has changed if it is this many times its earlier value.
CHANGED = 1.005
#: Counts that a list of what becomes worse names, and the price that is explained.
WORST, DEAR = 12, 0.05
#: A gap that is so many times what a search goes on to is said to be one.
UNPROVED = 2
#: From here on a ratio is said in times, and below it in per cent.
SOME = 10


@dataclass(frozen=True)
class OptimizeOptions:
    """The options of the command that are for this."""

    targets: Path
    units: str | None
    data: tuple[Path, ...]
    like: Path | None
    keep: tuple[str, ...]
    rho: str | None
    least: bool
    spare: bool

    def __post_init__(self) -> None:
        known = [
            o
            for o, given in (("--units", self.units), ("--data", self.data), ("--like", self.like))
            if given
        ]
        if len(known) > 1:
            raise UserError(
                f"goes without {known[0]}", where=known[1], remedy="say in one way what the tree is"
            )
        if self.least and self.spare:
            raise UserError("goes without --least", where="--spare")
        if self.rho is not None and self.least:
            raise UserError("goes without --least, which finds it", where="--rho")

    @property
    def objective(self) -> Objective | None:
        return "least" if self.least else "spare" if self.spare else None


def show_optimum(
    spec: RunSpec, universe: Planned, asked: OptimizeOptions, as_toml: bool, as_json: bool
) -> None:
    where = str(asked.targets)
    levels = spec.geography.levels
    if asked.targets.is_file() and asked.targets.suffix != ".toml":
        written = targets_of_blocks(asked.targets, levels[-1])
    else:
        written = read_targets(packaged.targets(asked.targets), where=where)
    pairs = [(d.level, d.query) for d in universe.plan.plain]
    target_set = target_set_of(
        written, asked.objective, asked.keep, universe.schema, levels, pairs, where
    )
    rho = None if asked.rho is None else exact_option("--rho", asked.rho)
    if rho is not None and rho <= 0:
        raise UserError(f"a rho of {rho}", where="--rho", remedy="give a positive one")
    losses = guarded_losses(written.epsilon.each, spec, universe.name, where)
    costs = {(d.level, d.query): d.cost for d in universe.plan.plain}
    limits = pair_limits(universe.schema, pairs, costs) if written.epsilon.pairs else {}
    with Live(quiet=as_json or as_toml) as shown:
        ground = _ground(spec, universe.name, asked, written.lists, shown)
        found = optimizing.optimum(universe, target_set, ground, rho, shown, losses, limits)
    if as_toml:
        made = made_from(found, asked.targets.name)
        tables = budget_toml(spec, universe.name, found.plan, made)
        click.echo(toml_of(found, asked.targets.name, tables), nl=False)
    else:
        show(found, spec, universe.name, universe.records, as_json)


def show(optimum: Optimum, spec: Specification, universe: str, records: str, as_json: bool) -> None:
    """On the terminal or as JSON."""
    data = marked(_said(optimum, spec, universe), spec.run.private, PLANNED)
    print_answer(CommandAnswer(data, lambda: _print(optimum, spec, records)), as_json)


def _ground(
    spec: RunSpec, universe: str, asked: OptimizeOptions, lists: Sequence[Path], shown: Progress
) -> TreeKnowledge:
    if asked.units is not None:
        return plan_ground.of_units(spec, spec.universe(universe), unit_numbers(asked.units))
    if asked.like is not None:
        return plan_ground.of_release(spec, universe, open_release(release_of(asked.like)), lists)
    return plan_ground.of_data(spec, universe, asked.data, shown, lists)


def unit_numbers(text: str) -> list[int]:
    """The numbers of units of the levels, as ``--units`` has them."""
    try:
        return [int(n.strip().replace("_", "")) for n in text.split(",")]
    except ValueError:
        raise UserError(
            f"{text!r} is no list of whole numbers",
            where="--units",
            remedy="write for instance 1,52,3221,73057,217740,6500000",
        ) from None


# --- what is shown


def _print(optimum: Optimum, spec: Specification, records: str) -> None:
    warn(spec.run.private, PLANNED)
    title = f"{spec.run.name}: {records}, {optimum.ground.says}"
    console().print(records_table(title, [_row(r, optimum) for r in optimum.rows]))
    console().print(records_table("Shares of rho, %", _shares(optimum)))
    if optimum.losses:
        console().print(records_table("Guards on epsilon", [_loss(r) for r in optimum.losses]))
    for says in _sentences(optimum):
        click.echo(says)


def _row(r: TargetRow, optimum: Optimum) -> dict[str, Any]:
    row: dict[str, Any] = {
        "target": str(r.estimand),
        "now": _figure(r.now),
        "best": _figure(r.then),
        "ratio": _figure(r.then / r.now) if r.now else "–",
    }
    if any(x.limit is not None for x in optimum.rows):
        row["limit"] = "–" if r.limit is None else _figure(r.limit)
    if r.predicted is not None:
        row |= {"predicted now": _figure(r.predicted[0]), "predicted best": _figure(r.predicted[1])}
    return row | {"price, %": f"{100 * r.price:.1f}"}


def _loss(r: LossRow) -> dict[str, Any]:
    return {
        "between": r.relation.replace("_", " "),
        "of": r.name,
        "over": r.over,
        "now": f"{r.now:.6f}",
        "at most": f"{r.most:.6f}",
        "best": f"{r.then:.6f}",
    }


def _figure(value: float) -> str:
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


def _costs(optimum: Optimum) -> list[tuple[str, str, Fraction, Fraction]]:
    now, then = ({(d.level, d.query): d.cost for d in p.plain} for p in (optimum.now, optimum.plan))
    return [
        (lv, q, now.get((lv, q), Fraction(0)), then.get((lv, q), Fraction(0)))
        for lv, q in optimum.ground.measurements.pairs
    ]


def _shares(optimum: Optimum) -> list[dict[str, Any]]:
    """By level and query of the plan's that has one, in per cent of the total of each plan."""
    a, b = optimum.now.cost, optimum.plan.cost
    return [
        {
            "level": lv,
            "query": q,
            "now": f"{float(100 * n / a):.2f}",
            "best": f"{float(100 * t / b):.2f}" if t else "–",
        }
        for lv, q, n, t in _costs(optimum)
    ]


def _sentences(optimum: Optimum) -> list[str]:
    out = [optimum.certificate]
    if optimum.target_set.objective == "least":
        out.append(
            f"rho = {float(optimum.plan.cost):.6g} in place of {float(optimum.now.cost):.6g}"
        )
    if optimum.losses:
        out.append(
            f"rho = {float(optimum.plan.cost):.6g}, at which every guard on epsilon holds by exact"
            " composition"
        )
    if optimum.pairs:
        out.append(
            f"no two records cost more rho than their limit ({optimum.pairs:,} kinds of pairs)"
        )
    if optimum.gap > optimizing.GAPS[optimum.ground.kind][0] * UNPROVED:
        out.append(_unproved(optimum))
    for level, query in optimum.redundant:
        cost = next(n for lv, q, n, _ in _costs(optimum) if (lv, q) == (level, query))
        out.append(
            f"the measurement {level}:{query} takes {float(100 * cost / optimum.now.cost):.2f} % of rho and"
            " adds nothing"
        )
    out += [*_worse(optimum), *_unmoved(optimum)]
    if optimum.over:
        out.append(
            f"a limit is exceeded by {100 * optimum.over:.2g} %: the search ended after {optimum.steps}"
            " steps"
        )
    return [*out, optimum.ground.note]


def _unproved(optimum: Optimum) -> str:
    """That the search did not reach its bound, and what that leaves open."""
    why = (
        ""
        if optimum.ground.measurements.separate
        else ", which need not be in reach where only children share their parents' budget"
    )
    return (
        f"NOT PROVED BEST: after {optimum.steps:,} steps the plan is {100 * optimum.gap:.2g} % above its"
        f" bound{why}. Another plan can be better by that much at most; prices are the bound's."
    )


def _worse(optimum: Optimum) -> list[str]:
    """What becomes worse of all that is a target or is measured, by how much, and why."""
    rows = [r for r in (*optimum.rows, *optimum.guarded) if r.then > CHANGED * r.now]
    if not rows:
        return ["nothing that is a target or is measured becomes worse"]
    cost = {
        (lv, q): (n / optimum.now.cost, t / optimum.plan.cost) for lv, q, n, t in _costs(optimum)
    }
    rows.sort(key=lambda r: -r.then / r.now)
    out = [
        f"{len(rows):,} of {len(optimum.rows) + len(optimum.guarded):,} counts that are targets or are"
        " measured become worse, for their share of rho goes to the targets"
        + ("" if optimum.target_set.guard else " and no [guard] holds them")
    ]
    for r in rows[:WORST]:
        spent = cost.get((r.estimand.place, r.estimand.query))
        why = (
            ""
            if spent is None
            else ": its own draw "
            + (f"from {float(100 * spent[0]):.2f} to {float(100 * spent[1]):.2f} % of rho")
        )
        times = r.then / r.now if r.now else float("inf")
        by = f"{100 * (times - 1):+.0f} %" if times < SOME else f"{times:,.0f} times as much"
        out.append(f"  {r.estimand}: {_figure(r.now)} to {_figure(r.then)} ({by}){why}")
    if len(rows) > WORST:
        out.append(f"  and {len(rows) - WORST:,} more (--json has all, as `targets` and `others`)")
    return out


def _unmoved(optimum: Optimum) -> list[str]:
    """Targets that have a price, and are not better for it."""
    return [
        f"{r.estimand} costs {100 * r.price:.0f} % and is not better: so much of rho is what holds it at"
        f" {_figure(r.then)}"
        + (f", its limit being {_figure(r.limit)}" if r.limit is not None else "")
        + "; with less weight or a looser limit that goes to the other targets"
        for r in optimum.rows
        if r.price >= DEAR and r.then > r.now / CHANGED
    ]


def _target_data(r: TargetRow) -> dict[str, Any]:
    a = r.estimand
    place = {"kind": a.place} if a.areas else {"level": a.place}
    out = place | {
        "query": a.query,
        "weight": r.weight,
        "now": r.now,
        "best": r.then,
        "limit": r.limit,
        "price": r.price,
    }
    if a.says:
        out["population"] = a.says
    if r.predicted is not None:
        out |= {"predicted_now": r.predicted[0], "predicted_best": r.predicted[1]}
    return out


def _said(optimum: Optimum, spec: Specification, universe: str) -> dict[str, Any]:
    return {
        "name": spec.run.name,
        "universe": universe,
        "objective": optimum.target_set.objective,
        "tree": optimum.ground.says,
        "made_from": list(optimum.ground.made_from),
        "rho_now": str(optimum.now.cost),
        "rho": str(optimum.plan.cost),
        "value": optimum.value,
        "bound": optimum.bound,
        "certificate": optimum.certificate,
        "steps": optimum.steps,
        "exceeded": optimum.over,
        "targets": [_target_data(r) for r in optimum.rows],
        "others": [_target_data(r) for r in optimum.guarded],
        "gap": optimum.gap,
        "redundant": [{"level": lv, "query": q} for lv, q in optimum.redundant],
        "guards": [asdict(r) for r in optimum.losses],
        "pairs": optimum.pairs,
        "shares": [
            {
                "level": lv,
                "query": q,
                "now": str(n / optimum.now.cost),
                "best": str(t / optimum.plan.cost),
            }
            for lv, q, n, t in _costs(optimum)
        ],
    }


def made_from(optimum: Optimum, targets: str) -> tuple[str, ...]:
    """What the shares were made from."""
    return f"the targets {targets} ({optimum.target_set.objective})", *optimum.ground.made_from


def toml_of(optimum: Optimum, targets: str, tables: str) -> str:
    """The ``tables`` of a configuration, after what is proved of them."""
    head = [
        f"# das plan --optimize {targets}: {optimum.certificate}",
        *(f"# {m}" for m in optimum.ground.made_from),
    ]
    return "\n".join(head) + "\n" + tables


# ``das plan --optimize`` for the DHC: shares of one universe, from the cells of a release.


def show_dhc_optimum(
    spec: DhcSpec, universe: str | None, asked: OptimizeOptions, as_toml: bool, as_json: bool
) -> None:
    """Levels without a target keep their shares. Raises :class:`UserError` for what does not fit
    the DHC."""
    if asked.like is None:
        raise UserError(
            "the DHC is planned from the cells of an earlier release",
            where="--optimize",
            remedy="name a release of the DHC with --like",
        )
    where, levels = str(asked.targets), spec.geography.levels
    names = [u.name for u in spec.universes]
    own = spec.universe(named(universe or PERSONS.name, names, "universe", "--universe"))
    written = read_targets(packaged.targets(asked.targets), where=where)
    if written.area:
        raise UserError("areas are no target of the DHC", where=f"{where}, area")
    u = with_new(own, new_measurements(written, own.schema, levels, where))
    pairs = [(d.level, d.query) for d in u.plan.plain]
    tables = [t.name for t in tables_of(u.name)]
    target_set = target_set_of(
        written, asked.objective, asked.keep, u.schema, levels, pairs, where, tables
    )
    rho = own.plan.cost if asked.rho is None else exact_option("--rho", asked.rho)
    losses = guarded_losses(written.epsilon.each, spec, u.name, where, u.plan)
    most = all_of_production(spec, u.name)
    limits = pair_limits(u.schema, pairs, *most) if written.epsilon.pairs else {}
    at = list(dict.fromkeys(t.estimand.place for t in target_set.targets))
    with Live(quiet=as_json or as_toml) as shown:
        ground = of_sample(u, open_dhc(release_of(asked.like)), at)
        held = holding(target_set, u)
        best = optimizing.optimum(u, held, ground, rho, shown, losses, limits)
        found = at_levels(best, at)
    if as_toml:
        made = made_from(found, asked.targets.name)
        tables_toml = dhc_budget_toml(spec, u.name, found.plan, made)
        click.echo(toml_of(found, asked.targets.name, tables_toml), nl=False)
    else:
        show(found, spec, u.name, u.kind.records, as_json)


# What is known when the budget of the DHC is planned: the cells that units of an earlier release
# were published with. Records are never read.
#
# A unit has few of the million cells of a schema, so some units of each level are sampled, each by
# itself (:mod:`das.tools.planning.ground`). Levels without a target keep their measurements.

Ints = NDArray[np.int64]
#: Which units of a level are sampled: the quantiles of their number of records.
QUANTILES = (0.2, 0.4, 0.6, 0.8)
#: The most variables of a pass of one unit: its matrices take 130 MB each.
MOST = 4000
#: Of a query with more answers than this in a unit some are lines, evenly spaced.
LINES = 100
#: What the figures are.
NOTE = (
    "standard deviations of one line: those of least squares in the cells that the sampled units"
    " were published with, given exact earlier counts. Published errors are larger, because earlier"
    " counts have errors and estimates have other cells: check a plan by runs before you use it."
)
#: What a query that is not measured yet costs in the present plan.
NOTHING_YET = Fraction(1, 1_000_000)


def with_new(universe: DhcUniverse, new: Sequence[LevelQuery]) -> DhcUniverse:
    """The universe with more queries at some levels, at next to no cost. Raises
    :class:`UserError` for one that is measured already."""
    rho: dict[str, dict[str, Fraction]] = {lv: dict(qs) for lv, qs in universe.strategy.rho.items()}
    for level, query in new:
        if query in rho[level]:
            raise UserError(f"{level}:{query} is measured already", where="measure")
        rho[level][query] = NOTHING_YET
    try:
        return replace(universe, strategy=universe.strategy.measuring(rho))
    except SpecError as error:
        raise UserError(error.what, where="measure", remedy=error.remedy) from None


def holding(target_set: TargetSet, universe: DhcUniverse) -> TargetSet:
    """The targets, with every measurement held at levels that have none."""
    levels = {t.estimand.place for t in target_set.targets}
    others = ((d.level, d.query) for d in universe.plan.plain if d.level not in levels)
    return replace(target_set, hold=tuple(dict.fromkeys((*target_set.hold, *others))))


def of_sample(universe: DhcUniverse, opened: OpenedDhc, levels: Sequence[str]) -> TreeKnowledge:
    """Units of the ``levels``, as a release published them. Raises :class:`UserError` if it has
    not these levels."""
    if odd := [lv for lv in levels if lv not in opened.spine.levels]:
        raise UserError(
            f"the release has no level {odd[0]!r}",
            where="--like",
            remedy=f"its levels are {', '.join(opened.spine.levels)}",
        )
    counts = release_files.read_counts(opened.folder, opened.spine)[universe.name].upward(
        opened.spine
    )
    tables = {t.name: t for t in release_files.tables_of(universe.name)}
    pairs = tuple((d.level, d.query) for d in universe.plan.plain)
    measurements = Choices.alike(pairs, ALL)
    chosen = {level: _sample(counts[level]) for level in levels}

    def model(estimands: Sequence[Estimand]) -> UnitsAlone:
        samples = {}
        for level, units in chosen.items():
            here = [q for lv, q in pairs if lv == level]
            groups = _Groups.from_estimands(universe, tables, level, estimands)
            samples[level] = [
                _unit(universe, here, counts[level].rows(i, i + 1).cell, groups, len(units))
                for i in units.tolist()
            ]
        return UnitsAlone(measurements, tuple(estimands), samples)

    some = ", ".join(f"{len(units)} {level}" for level, units in chosen.items())
    says = f"units by themselves, with the cells that they were published with: {some}"
    made = (
        f"the release {opened.spec.run.name!r} of the DHC (specification"
        f" {opened.spec.digest[:16]}): a sample of {some}"
    )
    return TreeKnowledge("tree", says, (made,), measurements, {}, None, model, note=NOTE)


def at_levels(optimum: Optimum, levels: Sequence[str]) -> Optimum:
    """Without what is said of levels that were not sampled: nothing is known of them."""
    return replace(
        optimum,
        guarded=tuple(r for r in optimum.guarded if r.estimand.place in levels),
        redundant=tuple(pair for pair in optimum.redundant if pair[0] in levels),
    )


def _sample(counts: Histogram) -> Ints:
    """Units at quantiles of their size, of those that have records."""
    size = np.bincount(counts.unit, counts.count, counts.units)
    order = np.argsort(size, kind="stable")[int((size == 0).sum()) :]
    at = [int(q * (len(order) - 1)) for q in QUANTILES]
    return np.unique(order[at])


@dataclass(frozen=True, eq=False)
class _Groups:
    """The estimands of a level: their numbers, and what each is a group of lines of."""

    numbers: tuple[int, ...]
    lines: tuple[Table | str, ...]

    @staticmethod
    def from_estimands(
        universe: DhcUniverse,
        tables: Mapping[str, Table],
        level: str,
        estimands: Sequence[Estimand],
    ) -> _Groups:
        here = [i for i, a in enumerate(estimands) if a.place == level and not a.areas]
        return _Groups(
            tuple(here), tuple(tables.get(estimands[i].query, estimands[i].query) for i in here)
        )

    def of_cells(self, universe: DhcUniverse, cells: Ints) -> tuple[NDArray[np.float64], Ints]:
        """Every line on some cells, ``(cells, L)``, and the estimand of each."""
        parts = [_lines(universe, of, cells) for of in self.lines]
        numbers = [np.full(p.shape[1], n) for p, n in zip(parts, self.numbers, strict=True)]
        return np.concatenate(parts, axis=1), np.concatenate(numbers)


def _lines(universe: DhcUniverse, estimand: Table | str, cells: Ints) -> NDArray[np.float64]:
    """How often each line of a table, or answer to a query, counts each cell; those with any."""
    if isinstance(estimand, Table):
        answer = estimand.query.at(cells)
        every = np.stack([estimand.times(j)[answer] for j in range(len(estimand.columns))], axis=1)
        return every[:, every.any(axis=0)].astype(float)
    answer = np.unique(universe.schema.query(estimand).at(cells), return_inverse=True)[1]
    many = int(answer.max()) + 1
    some = np.unique(np.linspace(0, many - 1, min(many, LINES)).astype(int))
    return (answer[:, None] == some).astype(float)


def _unit(
    universe: DhcUniverse, measured: Sequence[str], cells: Ints, groups: _Groups, units: int
) -> SampledUnit:
    """The passes of a unit with these positive cells."""
    lines, group = groups.of_cells(universe, cells)
    last, passes = universe.schema.query(universe.fixed_query), []
    for outer in universe.strategy.outer:
        key, first, of = np.unique(
            universe.schema.query(outer.frozen).at(cells), return_index=True, return_inverse=True
        )
        if len(key) > MOST:
            raise InputError(
                f"a sampled unit has {len(key):,} variables: {MOST:,} are the most",
                where="targets",
                remedy="name targets of lower levels alone: levels without a target stay",
            )
        mean = np.zeros((len(key), lines.shape[1]))
        np.add.at(mean, of, lines)
        mean /= np.bincount(of)[:, None]
        index = {
            q: np.unique(universe.schema.query(q).at(cells[first]), return_inverse=True)[1]
            for q in outer.queries
            if q in measured
        }
        if not index:
            raise InputError("a pass in which nothing is measured", where=universe.name)
        tie = np.unique(last.at(cells[first]), return_inverse=True)[1]
        passes.append(SampledPass(index, tie, mean))
        last = universe.schema.query(outer.frozen)
    share = 1 / np.bincount(group, minlength=group.max() + 1)[group] / units
    return SampledUnit(tuple(passes), group, share)
