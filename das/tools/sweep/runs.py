"""Runs of one prepared input over a grid of budgets, estimation methods and repeats.

The records are measured once for each budget and repeat, and every method estimates from that:
methods are compared on the same noise, and the budget of a comparison is spent once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import product
from operator import attrgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from das import spec as specification
from das.accounting.document import decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.zcdp import tight
from das.engine import Progress, Silent, executor, refuse_within_import
from das.engine.choice import EngineChoice
from das.engine.local import LocalEngine
from das.errors import SpecError
from das.evaluate.comparison import paired, summary
from das.files import rows_csv
from das.files.atomic import write_json, write_text
from das.files.release import statement as privacy_statement
from das.files.run import tallies
from das.files.run.run_directory import (
    RunDirectory,
    check_sweep,
    create_private,
    file_digest,
    read_json,
)
from das.model.error_rows import ErrorRow, PairedRow, SummaryRow, SweepRow
from das.model.frozen import NoRepr
from das.model.mechanisms import RHO
from das.model.names import level_inside, level_words
from das.model.not_private import Private, marked
from das.model.post_processing import METHODS
from das.model.schema import Schema
from das.model.universe import Planned, kind_of
from das.register.entering import RegisterOptions
from das.register.file import RegisterLink
from das.release.publications import publication, require
from das.report import facts
from das.report.chart import HIGH, WIDE, Chart, Picture
from das.report.facts import SERIES, titles
from das.report.panel import INK, MarkStyle
from das.report.template import render, upward
from das.runs.pipeline import finish_run
from das.runs.protocol import (
    DerivedOutputs,
    MeasuringRecord,
    RunContext,
    RunInput,
    SeriesMaker,
    series_of,
)
from das.spec import Specification
from das.stages import Stages

# The page of a sweep: error against budget, for noisy measurements, their theory and published
# counts.

#: Drawn where they were measured, one panel for each level.
QUERIES = ("total", "votingage", "hispanic * cenrace", "votingage * hispanic * race", "detailed")
#: How each method is drawn.
LINES = dict(zip(METHODS, ("-", "--", "-.", ":"), strict=False))


@dataclass(frozen=True)
class SweptAxis:
    """What was varied: a budget in the ``currency``, or (of another ``name``) a multiple of it.
    ``here``: where the configuration stands; ``costs``: what each universe costs there."""

    name: str
    here: Fraction
    currency: str
    costs: Mapping[str, Fraction]

    @property
    def label(self) -> str:
        return self.name if self.name == self.currency else "multiple of the budget"

    def epsilon(self, universe: str, budgets: Sequence[Fraction]) -> dict[Fraction, float]:
        """At :data:`DEFAULT_DELTA`, of each budget."""
        if self.currency != RHO:
            return {}
        return {b: tight(self.costs[universe] * b / self.here, DEFAULT_DELTA) for b in budgets}


@dataclass(frozen=True, repr=False)
class SweptErrors(NoRepr):
    """The mean errors of one universe over an axis, of all classes of size together; ``titles`` are
    words for queries, ``epsilon`` that of each budget, where there is one."""

    records: str
    rows: Sequence[SummaryRow]
    titles: Mapping[str, str]
    axis: SweptAxis
    epsilon: Mapping[Fraction, float]

    def published(self, level: str) -> list[SummaryRow]:
        """Of the first method and query that is off at all, by budget."""
        found = [r for r in self.rows if r.level == level and r.source == "postprocessed"]
        off = {r.query for r in found if r.mae > 0}
        here = [r for r in self.rows if r.level == level]
        query = next((q for q in drawn(here) if q in off), None)
        mine = [r for r in found if (r.query, r.method) == (query, found[0].method)]
        return sorted(mine, key=lambda r: r.budget)

    @property
    def levels(self) -> list[str]:
        """Those at which anything published is off, from the top down."""
        return list(dict.fromkeys(r.level for r in self.rows if self.published(r.level)))

    @property
    def exact(self) -> list[str]:
        """The others."""
        return list(dict.fromkeys(r.level for r in self.rows if r.level not in self.levels))

    @property
    def main(self) -> str | None:
        """The highest level of enough units for an average, and off by a person or more; or else the
        lowest that is off."""
        here = (
            lv
            for lv in self.levels
            if max(r.mae for r in self.published(lv)) >= 1
            and self.published(lv)[0].n * self.published(lv)[0].repeats >= ENOUGH
        )
        return next(here, self.levels[-1] if self.levels else None)

    @property
    def conclusion(self) -> str:
        """What the errors of two levels at two budgets say: at that of the configuration, or what is
        next to it, and at another."""
        if self.main is None:
            return f"No published count of {self.records} that is shown here is off."
        rows = self.published(self.main)
        here = min(rows, key=lambda r: abs(r.budget - self.axis.here))
        others = [r for r in rows if r is not here]
        others.sort(key=lambda r: (r.budget > here.budget, abs(r.budget - here.budget)))
        other = next(iter(others), None)
        said = f"{self._at(here.budget)}, {self._off(self.main, here.budget)}"
        lowest = self.levels[-1]
        if lowest != self.main:
            said += f", and {self._off(lowest, here.budget, as_said=rows[0].query)}"
        if other is None:
            return f"{said}."
        then = [f"{r.mae:.3g}" for lv in dict.fromkeys((self.main, lowest))
                for r in self.published(lv) if r.budget == other.budget]  # fmt: skip
        said += f". {_times(other.budget / here.budget)} makes it {' and '.join(then)}."
        worse = (other.mae > here.mae) == (other.budget < here.budget)
        return said if worse else f"{said} Chance decides: --repeats averages it out."

    def _at(self, budget: Fraction) -> str:
        if budget in self.epsilon:
            return f"At epsilon {upward(self.epsilon[budget])}"
        return f"At {self.axis.label} {facts.decimal(budget)}"

    def _off(self, level: str, budget: Fraction, as_said: str = "") -> str:
        row = next(r for r in self.published(level) if r.budget == budget)
        if row.query == as_said:
            return f"those by {level_inside(level)} by {row.mae:.3g}"
        what = self.titles.get(row.query, row.query)
        counts = self.records if row.query == "total" else f"{self.records} ({what})"
        return f"counts of {counts} by {level_inside(level)} are off by {row.mae:.3g} on average"


#: The least answers that an average speaks of.
ENOUGH = 30


def _times(ratio: Fraction) -> str:
    """A part of the budget, or a multiple, as a sentence begins.

    >>> _times(Fraction(1, 2)), _times(Fraction(1, 10)), _times(Fraction(2))
    ('Half the budget', '1/10 of the budget', 'Twice the budget')"""
    known = {Fraction(1, 2): "Half the budget", Fraction(2): "Twice the budget"}
    if ratio in known:
        return known[ratio]
    if ratio.numerator == 1:
        return f"1/{ratio.denominator} of the budget"
    return f"{float(ratio):.3g} times the budget"


def sweep_page(
    means: Mapping[str, Sequence[SummaryRow]],
    name: str,
    axis: SweptAxis,
    statement: Mapping[str, Any],
    schemas: Mapping[str, Schema] = MappingProxyType({}),
) -> tuple[str, Picture]:
    """One self-contained page, and its main figure. ``means`` are by universe; the budget of the
    configuration as it stands is marked on the ``axis``. ``statement`` says what all runs together
    cost; ``schemas`` name the queries."""
    first = next(iter(means.values()))
    budgets = sorted({r.budget for r in first})
    swept = {
        u: SweptErrors(
            kind_of(u).records,
            [r for r in rows if r.bin == "all"],
            titles(schemas[u], {r.query for r in rows}) if u in schemas else {},
            axis,
            axis.epsilon(u, budgets),
        )
        for u, rows in means.items()
    }
    page = render(
        "sweep.html",
        confidential=True,
        name=name,
        private=statement["private"],
        currency=axis.currency,
        axis=axis,
        conclusions=[s.conclusion for s in swept.values()],
        sections=[_section(s, u) for u, s in swept.items()],
        budgets=budgets,
        methods=list(dict.fromkeys(r.method for r in first)),
        delta=decimal(DEFAULT_DELTA),
        repeats=max(r.repeats for r in first),
        statement=statement,
        total=facts.decimal(Fraction(statement[axis.currency]["total"])),
        together=upward(statement["epsilon"]["zcdp-tight"]) if axis.currency == RHO else None,
    )
    return page, _picture(next(iter(swept.values())), name, private=statement["private"])


def _picture(swept: SweptErrors, name: str, *, private: Private) -> Picture:
    """The panel of the level that the conclusion speaks of."""
    level = swept.main or swept.rows[0].level
    chart = Chart(WIDE, HIGH)
    _draw(chart, swept, level)
    source = (
        f"Mean absolute error by {level_inside(level)}, {swept.records}, over all answers: {name}."
    )
    return Picture(chart, swept.conclusion, source, private, confidential=True)


def _section(swept: SweptErrors, universe: str) -> dict[str, Any]:
    """What the page has of one universe."""
    panels = []
    for i, level in enumerate(swept.levels):
        chart = Chart(4.6, 3.9)
        _draw(chart, swept, level)
        words = f"Mean absolute error against {swept.axis.label}: {swept.records} by {level_inside(level)}"
        panels.append(Markup(chart.svg(f"{universe}{i}", words)))
    noisy = {(r.budget, r.method, r.level, r.query): r for r in swept.rows if r.source == "nmf"}
    shown = drawn(swept.rows)
    return {
        "records": swept.records,
        "panels": panels,
        "exact": [level_inside(lv) for lv in swept.exact],
        "titles": swept.titles,
        "epsilon": {b: upward(e) for b, e in swept.epsilon.items()},
        "rows": [
            (r, noisy.get((r.budget, r.method, r.level, r.query)))
            for r in swept.rows
            if r.source == "postprocessed" and r.query in shown and r.level in swept.levels
        ],
    }


def drawn(rows: Sequence[SummaryRow]) -> tuple[str, ...]:
    """The queries of the panels, at most as many as there are colors. If none of the known queries
    except the total is present, they are the first that have errors."""
    present = dict.fromkeys(r.query for r in rows)
    known = [q for q in QUERIES if q in present]
    others = dict.fromkeys(r.query for r in rows if r.mae > 0)
    chosen = known if len(known) > 1 else list(others) or known
    return tuple(chosen)[: len(SERIES)] or ("total",)


def _draw(chart: Chart, swept: SweptErrors, level: str) -> None:
    """Errors at one level: a color for each query, a line for each method."""
    rows = [r for r in swept.rows if r.level == level]
    methods = list(dict.fromkeys(r.method for r in rows))
    chart.x.log = chart.y.log = True
    for query, (color, marker, _) in zip(drawn(rows), SERIES, strict=False):
        asked = [r for r in rows if r.query == query]
        published = [r for r in asked if r.source == "postprocessed" and r.mae > 0]
        noisy = [r for r in asked if r.source == "nmf"]
        _theory(chart, noisy or asked, color, marker, drawn=bool(noisy))
        for method in methods:
            look = MarkStyle(color, LINES[method], marker, size=5)
            label = swept.titles.get(query, query) if method == methods[0] else ""
            _line(chart, [r for r in published if r.method == method], look, label)
    for method in methods if len(methods) > 1 else ():
        chart.name(method, MarkStyle(INK, LINES[method]))
    if any(r.source == "nmf" for r in rows):
        chart.name("noisy measurements", MarkStyle(INK, mark="o", face="#fff", size=5))
    chart.name("expected of the noise", MarkStyle(INK, ":", width=1.1))
    chart.rule(float(swept.axis.here), upright=True, dash="-.")
    chart.x.above = [(float(b), f"{e:.3g}") for b, e in swept.epsilon.items()]
    chart.x.above_label = f"epsilon at delta = {decimal(DEFAULT_DELTA)}" if swept.epsilon else ""
    chart.x.label = f"{swept.axis.label} (dash-dotted: this configuration)"
    chart.y.label = f"mean absolute error, {swept.records}"
    chart.finish(level_words(level), 2)


def _theory(
    chart: Chart, noisy: Sequence[SummaryRow], color: str, marker: str, *, drawn: bool
) -> None:
    """Open marks: measured, where all was ``drawn``; dotted: what the noise alone must give."""
    at = sorted((float(r.budget), r.mae) for r in noisy if drawn and r.mae > 0)
    if at:
        xs, ys = zip(*at, strict=True)
        chart.plot(xs, ys, MarkStyle(color, mark=marker, face="#fff", size=5))
    known = sorted({(float(r.budget), r.expected_mae) for r in noisy if r.expected_mae})
    if known:
        xs, ys = zip(*known, strict=True)
        chart.plot(xs, ys, MarkStyle(color, ":", width=1.1))


def _line(chart: Chart, rows: Sequence[SummaryRow], look: MarkStyle, label: str) -> None:
    if not rows:
        return
    rows = sorted(rows, key=lambda r: r.budget)
    x, mae = [float(r.budget) for r in rows], [r.mae for r in rows]
    lows = [r.mae if r.mae_low is None else max(r.mae_low, r.mae / 10) for r in rows]
    low = [min(pair) for pair in zip(mae, lows, strict=True)]
    high = [r.mae if r.mae_high is None else r.mae_high for r in rows]
    chart.errors(x, mae, low, high, look, cap=2)
    chart.plot(x, mae, look, label)


# ``sweep.csv``, ``summary.csv`` and ``paired.csv``: budgets as decimals (``budget``) and exactly
# (``budget_exact``), the method and, in ``sweep.csv``, the number of the run; then the columns of the
# errors.


def write(path: Path, rows: Sequence[SweepRow], *, private: Private = True) -> None:
    """Long: one line for each line of each run's ``errors.csv``."""
    header = ("budget", "budget_exact", "method", "repeat", *rows_csv.columns(ErrorRow))
    error = attrgetter(*rows_csv.columns(ErrorRow))
    lines = ((float(r.budget), r.budget, r.method, r.repeat, *error(r.error)) for r in rows)
    rows_csv.write(path, header, lines, private=private)


def write_means(
    path: Path, kind: type, rows: Sequence[SummaryRow] | Sequence[PairedRow], private: Private
) -> None:
    """Rows whose first field is the budget: means and intervals over the repeats; or comparisons of
    each method with the first on the same noise."""
    header = ("budget", "budget_exact", *rows_csv.columns(kind)[1:])
    values = attrgetter(*rows_csv.columns(kind))
    rows_csv.write(path, header, ((float(r.budget), *values(r)) for r in rows), private=private)


WARNING = (
    "Each budget and repeat of this sweep measured the same records anew; its methods share that"
    " noise, whose cost is counted once. A run published alone costs what its own privacy.json"
    " says, and so do all that share its noise. If you publish several of these runs, their costs add"
    " up: all of them together cost the total given here, and the measurements of interrupted"
    " attempts are counted in it. Errors depend on the truth: choosing by them which run to publish uses the"
    " records again, and no budget here pays for that."
)


@dataclass(frozen=True, repr=False)
class SweepResult(NoRepr):
    """The files of a sweep; ``rows`` and the first tables are those of the first universe, and
    ``others`` the tables of the others."""

    table: Path
    summary: Path
    page: Path
    statement: Path
    rows: Sequence[SweepRow]
    picture: Picture
    paired: Path | None = None  #: where there are several methods
    others: Sequence[Path] = ()


@dataclass(frozen=True)
class _Run:
    """One point of the grid, its specification and its folder."""

    budget: Fraction
    method: str
    repeat: int
    spec: Specification
    directory: RunDirectory

    @cached_property
    def maker(self) -> SeriesMaker:
        """What makes it: one value, for it may keep what the run has begun with."""
        return series_of(self.spec, RunInput())

    @property
    def noise(self) -> tuple[Fraction, int]:
        """What runs have in common that differ by the method alone."""
        return self.budget, self.repeat

    @property
    def statement(self) -> Path:
        """Written when everything is measured."""
        return self.directory.release / "privacy.json"

    @property
    def goes_on(self) -> bool:
        """Whether something may have been drawn; of a run with a register, whether it has begun."""
        begun = self.directory.register_link.exists() and self.directory.can_go_on()
        return begun or self.directory.ledger.exists()

    @property
    def is_done(self) -> bool:
        """The manifest is the last file of a run."""
        return self.directory.manifest.exists()


def sweep(
    spec: Specification,
    budgets: Sequence[Fraction],
    out: Path,
    *,
    methods: Sequence[str] = (),
    repeats: int = 1,
    paths: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
    resume: bool = False,
    register: RegisterOptions | None = None,
) -> SweepResult:
    """Run ``spec`` at each budget, by each method (default: its own), ``repeats`` times. The input
    is read once, and measured once for each budget and repeat. Budgets are for persons, in the
    currency of the configuration. For a publication whose budgets are multiples, they are multiples
    (``das.runs.protocol.BudgetAxis``).

    Each run has its folder under ``out/runs``, complete except for its pages. ``sweep.csv`` has all
    errors, and ``summary.csv`` their means and intervals over the repeats. ``paired.csv`` has the
    differences between methods on the same noise. ``sweep.html`` draws them. ``privacy.json`` has
    the cost of all runs together. The names of other universes' tables end in the universe. All of
    it is confidential. Runs go side by side, one to a worker, but are measured here, one after
    another.

    With ``resume``, finished runs are kept, and the grid may have grown. An interrupted run is
    made again: measured levels stand, and lost measurements are in its privacy statement.

    With a ``register`` each noise enters it; all of them together must have room before the first
    is drawn."""
    refuse_within_import()
    require(publication(spec.publication()), "sweep", "das sweep")
    maker = series_of(spec, RunInput(tuple(paths)))
    progress, methods = progress or Silent(), tuple(methods) or (_method(spec),)
    _check(maker, budgets, methods, repeats)
    runs = list(_grid(maker, budgets, methods, repeats, out))
    if register is not None:
        runs = _entered(runs, register)
    if resume:
        check_sweep(out, {r.directory.root.name for r in runs})
    else:
        RunDirectory(out).refuse_if_taken()
    names = [u.name for u in publication(spec.publication()).resolved(spec).universes]
    with executor(workers) as pool:
        read = maker.read(progress)
        create_private(out)
        for run in runs:
            if run.goes_on:
                run.maker.check_begun(read, run.directory)
        progress.stage("runs", len(runs))
        done: list[_Run] = []
        with RunDirectory(out).lock():
            for run in _performed(runs, read, pool, workers):
                done.append(run)
                progress.advance()
                write(
                    out / "sweep.csv",
                    _rows([r for r in runs if r in done], names[0]),
                    private=spec.run.private,
                )
    return _written(maker, names, runs, out)


def _method(spec: Specification) -> str:
    """How the configuration estimates."""
    method: str = spec.tree().get("estimation", {}).get("method", METHODS[0])
    return method


def _check(
    maker: SeriesMaker, budgets: Sequence[Fraction], methods: Sequence[str], repeats: int
) -> None:
    option = "--times" if maker.axis.is_multiple else "--rho"
    if not budgets or min(budgets) <= 0 or len(set(budgets)) != len(budgets) or repeats < 1:
        raise SpecError(
            "a sweep needs positive, different budgets, and at least one repeat", where=option
        )
    if maker.spec.run.seed is not None and repeats > 1:
        raise SpecError(
            "repeats with one seed would be copies of each other",
            where="run.seed",
            remedy="leave it out",
        )
    if len(methods) > 1 and not maker.shares_noise:
        raise SpecError(
            f"{maker.spec.title} is measured anew for each method: they share no noise",
            where="--method",
            remedy="sweep once for each, with --set estimation.method",
        )
    if len(set(methods)) != len(methods) or not set(methods) <= set(METHODS):
        raise SpecError(
            f"methods must be different, and among {', '.join(METHODS)}",
            where="--method",
            remedy="such as --method topdown,full-information",
        )


def _grid(
    maker: SeriesMaker, budgets: Sequence[Fraction], methods: Sequence[str], repeats: int, out: Path
) -> Iterator[_Run]:
    spec, axis = maker.spec, maker.axis
    for method in methods:
        for budget, repeat in product(budgets, range(repeats)):
            folder = out / "runs" / f"{axis.name}-{str(budget).replace('/', '_')}-{method}-{repeat}"
            changes = [
                "output.report=false",
                f"run.name={spec.run.name}-{budget}-{method}-{repeat}",
                *axis.changes(budget),
            ]
            if method != _method(spec):
                changes.append(f"estimation.method={method}")
            chosen = specification.load(spec.dump(), where="das sweep", overrides=changes)
            yield _Run(budget, method, repeat, chosen, RunDirectory(folder))


def _entered(runs: Sequence[_Run], register: RegisterOptions) -> list[_Run]:
    """The same runs, which enter a register when they begin: one for each noise, which the others
    take over under its name."""
    begun = {r.noise for r in runs if r.directory.can_go_on()}
    new = {r.noise: r.spec for r in runs if r.noise not in begun}
    register.check_room(list(new.values()))
    for run in runs:
        if run.directory.can_go_on() and not run.is_done and not run.statement.exists():
            register.resume(run.directory, run.spec)
    links = {r.noise: found for r in runs if (found := RegisterLink.read(r.directory)) is not None}
    for noise, spec in new.items():
        links.setdefault(noise, register.link(spec))
    linked = [RunDirectory(r.directory.root, links[r.noise].to_json()) for r in runs]
    return [replace(run, directory=d) for run, d in zip(runs, linked, strict=True)]


def _rows(runs: Sequence[_Run], universe: str) -> list[SweepRow]:
    """The errors of finished runs, from their files."""
    return [
        SweepRow(run.budget, run.method, run.repeat, e)
        for run in runs
        for e in tallies.read_errors(run.directory.errors_of(universe))
    ]


def _performed(runs: Sequence[_Run], read: Any, pool: Executor, workers: int) -> Iterator[_Run]:
    """Each run as it is done: first those that were, then the others; of these, what has begun to
    measure before what can wait for its noise."""
    yield from (run for run in runs if run.is_done)
    noise = {r.noise: r.directory for r in reversed(runs) if r.statement.exists()}
    due = sorted((r for r in runs if not r.is_done), key=lambda r: not r.goes_on)
    side_by_side = max(1, min(workers, len(due)))
    ahead = side_by_side if workers > 1 else 0
    waiting: deque[
        tuple[_Run, RunContext, MeasuringRecord, Future[tuple[DerivedOutputs, Stages]]]
    ] = deque()
    for run in due:
        work, measured = _measured(run, read, noise.get(run.noise), workers)
        noise.setdefault(run.noise, run.directory)
        derived = run.maker.derive_in(pool, workers // side_by_side, work, measured)
        waiting.append((run, work, measured, derived))
        if len(waiting) > ahead:
            yield _finished(*waiting.popleft())
    while waiting:
        yield _finished(*waiting.popleft())


def _measured(
    run: _Run, read: Any, noise: RunDirectory | None, workers: int
) -> tuple[RunContext, MeasuringRecord]:
    """Measure, or take over the ``noise`` of a run that has, or go on with what an interrupted
    attempt has. Without a ledger nothing was drawn."""
    directory, choice = run.directory, EngineChoice(workers=workers)
    resume = run.goes_on
    if not resume:
        directory.remove()
        run.maker.begin_on(read, directory, noise)
    again = resume or noise is not None
    work = RunContext(directory, choice, LocalEngine(), Stages(), Silent(), again)
    return work, run.maker.measure(work)


def _finished(
    run: _Run,
    work: RunContext,
    measured: MeasuringRecord,
    derived: Future[tuple[DerivedOutputs, Stages]],
) -> _Run:
    found, after = derived.result()
    work.stages.done += after.done
    finish_run(run.maker, work, measured, found)
    return run


def _written(
    maker: SeriesMaker, universes: Sequence[str], runs: Sequence[_Run], out: Path
) -> SweepResult:
    """The tables of every universe, and the page of all."""
    spec, private = maker.spec, maker.spec.run.private
    rows = {name: _rows(runs, name) for name in universes}
    means = {name: summary(of) for name, of in rows.items()}
    several, others = len({r.method for r in runs}) > 1, []
    for i, (name, kind) in enumerate((name, kind_of(name)) for name in universes):
        files = [out / f"{kind.file(stem)}.csv" for stem in ("sweep", "summary", "paired")]
        write(files[0], rows[name], private=private)
        write_means(files[1], SummaryRow, means[name], private)
        if several:
            write_means(files[2], PairedRow, paired(rows[name]), private)
        others += files[: 2 + several] if i else []
    together = _statement(maker, runs)
    write_json(out / "privacy.json", together)
    resolved = publication(spec.publication()).resolved(spec)
    costs = {u.name: u.plan.cost for u in resolved.universes}
    axis = SweptAxis(maker.axis.name, maker.axis.here, resolved.terms.mechanism.currency, costs)
    schemas = {u.name: u.schema for u in resolved.universes if isinstance(u, Planned)}
    page, picture = sweep_page(means, spec.run.name, axis, together, schemas)
    write_text(out / "sweep.html", page)
    return SweepResult(
        out / "sweep.csv",
        out / "summary.csv",
        out / "sweep.html",
        out / "privacy.json",
        rows[universes[0]],
        picture,
        out / "paired.csv" if several else None,
        others,
    )


def _statement(maker: SeriesMaker, runs: Sequence[_Run]) -> dict[str, Any]:
    """What each run has spent, and all together: exact sums of their own privacy statements, each
    noise once."""
    terms = publication(maker.spec.publication()).resolved(maker.spec).terms
    currency = terms.mechanism.currency
    statements = [privacy_statement.read_ours(r.directory.release) for r in runs]
    noise_of = _shared(runs)
    lines = [
        {
            "run": r.directory.root.name,
            "method": r.method,
            "repeat": r.repeat,
            "private": s.private,
            currency: str(s.total),
            "interrupted_attempts": len(s.lost),
            "noise_of": noise_of.get(r.directory.root.name),
        }
        for r, s in zip(runs, statements, strict=True)
    ]
    total = sum(
        (Fraction(str(line[currency])) for line in lines if line["noise_of"] is None), Fraction(0)
    )
    out = marked(
        {"what_this_means": WARNING, "runs": lines, currency: {"total": str(total)}},
        all(s.private for s in statements),
    )
    if currency == RHO:
        out["epsilon"] = {"delta": decimal(terms.delta), "zcdp-tight": tight(total, terms.delta)}
    return out


def _shared(runs: Sequence[_Run]) -> dict[str, str]:
    """Runs that took over the noise of another, by name, with the run that represents it. That run
    has the same budget and repeat and the same ledger. The ledger alone is not enough, because two
    noises can be equal by chance."""
    took = {r.directory.root.name: "measured_in" in read_json(r.directory.inputs) for r in runs}
    stands: dict[tuple[object, ...], str] = {}
    out = {}
    for run in sorted(runs, key=lambda r: took[r.directory.root.name]):
        name = run.directory.root.name
        key = (run.noise, file_digest(run.directory.ledger))
        if took[name] and key in stands:
            out[name] = stands[key]
        stands.setdefault(key, name)
    return out
