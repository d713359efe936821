"""Runs of one prepared input over a grid of budgets, estimation methods and repeats.

The records are measured once for each budget and repeat, and every method estimates from that:
methods are compared on the same noise, and the budget of a comparison is spent once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

from das import spec as specification
from das.accounting.fields import decimal
from das.accounting.zcdp import tight
from das.engine import Progress, Silent, executor, refuse_within_import
from das.engine.choice import EngineChoice
from das.engine.local import LocalEngine
from das.errors import SpecError
from das.evaluate import paired, summary
from das.files.atomic import write_json, write_text
from das.files.release import statement as privacy_statement
from das.files.run import errors_csv, sweep_csv
from das.files.run.run_directory import (
    RunDirectory,
    check_sweep,
    create_private,
    file_digest,
    read_json,
)
from das.making.counts import CountsMaker, derived
from das.making.work import MeasuringRecord, RunInput, Running
from das.model.closed import Closed
from das.model.error_rows import SummaryRow, SweepRow
from das.model.mechanism import RHO
from das.model.not_private import marked
from das.pipeline import concluded, scaled
from das.release.estimating import Made, post_processed
from das.report.sweep import sweep_page
from das.spec import METHODS, RunSpec
from das.stages import Stages
from das.truth.by_shard import begin
from das.truth.measuring import check_configuration, check_sources
from das.truth.preparation import prepare
from das.truth.prepared import Prepared

WARNING = (
    "Each budget and repeat of this sweep measured the same records anew; its methods share that"
    " noise, whose cost is counted once. A run published alone costs what its own privacy.json"
    " says, and so do all that share its noise. Publishing several noises adds up their costs: all"
    " of them together cost the total given here, and the measurements of interrupted attempts are"
    " counted in it. Errors depend on the truth: choosing by them which run to publish uses the"
    " records once more, and no budget here pays for that."
)


@dataclass(frozen=True, repr=False)
class Swept(Closed):
    """What a sweep has written."""

    table: Path
    summary: Path
    page: Path
    statement: Path
    rows: Sequence[SweepRow]
    paired: Path | None = None  #: where there are several methods


@dataclass(frozen=True)
class _Run:
    """One point of the grid, its specification and its folder."""

    budget: Fraction
    method: str
    repeat: int
    spec: RunSpec
    directory: RunDirectory

    @property
    def noise(self) -> tuple[Fraction, int]:
        """What runs have in common that differ by the method alone."""
        return self.budget, self.repeat

    @property
    def statement(self) -> Path:
        """Written when everything is measured."""
        return self.directory.release / "privacy.json"

    @property
    def is_done(self) -> bool:
        """The manifest is the last file of a run."""
        return self.directory.manifest.exists()


def sweep(
    spec: RunSpec,
    budgets: Sequence[Fraction],
    out: Path,
    *,
    methods: Sequence[str] = (),
    repeats: int = 1,
    paths: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
    resume: bool = False,
) -> Swept:
    """Run ``spec`` at each budget, by each method (default: its own), ``repeats`` times; the input
    is read once, and measured once for each budget and repeat.

    Each run has its folder under ``out/runs``, complete but for its pages; ``sweep.csv`` has all
    errors, ``summary.csv`` their means and intervals over the repeats, ``paired.csv`` the
    differences between methods on the same noise, ``sweep.html`` draws them, ``privacy.json`` says
    what all runs together cost. All of it is confidential. Runs go side by side, one to a worker,
    but are measured here, one after another.

    With ``resume``, runs that are finished are kept, and the grid may have grown. One that was
    interrupted is made again: levels that were measured stand, and what was drawn and lost is in
    its privacy statement."""
    refuse_within_import()
    progress, methods = progress or Silent(), tuple(methods) or (spec.estimation.method,)
    _check(spec, budgets, methods, repeats)
    runs = list(_grid(spec, budgets, methods, repeats, out))
    if resume:
        check_sweep(out, {r.directory.root.name for r in runs})
    else:
        RunDirectory(out).refuse_if_taken()
    with executor(workers) as pool:
        prepared = prepare(spec, paths, Stages(), progress).together()
        create_private(out)
        for run in runs:
            if run.directory.ledger.exists():
                check_configuration(run.spec, run.directory)
                check_sources(prepared.sources, run.directory)
        progress.stage("runs", len(runs))
        found = {}
        with RunDirectory(out).held():
            for run, rows in _rows(runs, prepared, pool, workers):
                found[run.directory.root] = rows
                progress.advance()
                sweep_csv.write(
                    out / "sweep.csv",
                    [x for r in runs for x in found.get(r.directory.root, ())],
                    private=spec.run.private,
                )
    rows = [x for r in runs for x in found[r.directory.root]]
    return _written(spec, runs, rows, out)


def _check(
    spec: RunSpec, budgets: Sequence[Fraction], methods: Sequence[str], repeats: int
) -> None:
    if not budgets or min(budgets) <= 0 or len(set(budgets)) != len(budgets) or repeats < 1:
        raise SpecError(
            "a sweep needs positive, different budgets, and at least one repeat", where="--rho"
        )
    if spec.run.seed is not None and repeats > 1:
        raise SpecError(
            "repeats with one seed would be copies of each other",
            where="run.seed",
            remedy="leave it out",
        )
    if len(set(methods)) != len(methods) or not set(methods) <= set(METHODS):
        raise SpecError(
            f"methods must be different, and among {', '.join(METHODS)}",
            where="--method",
            remedy="such as --method topdown,full-information",
        )


def _grid(
    spec: RunSpec, budgets: Sequence[Fraction], methods: Sequence[str], repeats: int, out: Path
) -> Iterator[_Run]:
    currency = spec.persons.plan.mechanism.currency
    for method in methods:
        other = (f"estimation.method={method}", "output.report=false")
        by_method = specification.parse(spec.dump(), where="--method", overrides=other)
        for budget, repeat in product(budgets, range(repeats)):
            folder = out / "runs" / f"{currency}-{str(budget).replace('/', '_')}-{method}-{repeat}"
            name = f"{spec.run.name}-{budget}-{method}-{repeat}"
            yield _Run(
                budget, method, repeat, scaled(by_method, budget, name), RunDirectory(folder)
            )


def _rows(
    runs: Sequence[_Run], prepared: Prepared, pool: Executor, workers: int
) -> Iterator[tuple[_Run, list[SweepRow]]]:
    """The errors of each run as it is done: first those that were, then the others; of these, what
    has begun to measure before what can wait for its noise."""
    for run in runs:
        if run.is_done:
            yield (
                run,
                [
                    SweepRow(run.budget, run.method, run.repeat, e)
                    for e in errors_csv.read(run.directory.errors)
                ],
            )
    noise = {r.noise: r.directory for r in reversed(runs) if r.statement.exists()}
    due = sorted((r for r in runs if not r.is_done), key=lambda r: not r.directory.ledger.exists())
    side_by_side = max(1, min(workers, len(due)))
    ahead = side_by_side if workers > 1 else 0
    waiting: deque[tuple[_Run, Running, MeasuringRecord, Future[tuple[Made, Stages]]]] = deque()
    for run in due:
        work, measured = _measured(run, prepared, noise.get(run.noise))
        noise.setdefault(run.noise, run.directory)
        made = pool.submit(post_processed, run.directory.root, workers // side_by_side)
        waiting.append((run, work, measured, made))
        if len(waiting) > ahead:
            yield _finished(*waiting.popleft())
    while waiting:
        yield _finished(*waiting.popleft())


def _measured(
    run: _Run, prepared: Prepared, noise: RunDirectory | None
) -> tuple[Running, MeasuringRecord]:
    """Measure, or take over the ``noise`` of a run that has, or go on with what an interrupted
    attempt has. Without a ledger nothing was drawn."""
    directory, choice = run.directory, EngineChoice()
    resume = directory.ledger.exists()
    if not resume:
        directory.remove()
        begin(run.spec, prepared, directory, noise)
    again = resume or noise is not None
    work = Running(directory, choice, LocalEngine(), Stages(), Silent(), again)
    return work, CountsMaker(run.spec, RunInput()).measure(work)


def _finished(
    run: _Run, work: Running, measured: MeasuringRecord, made: Future[tuple[Made, Stages]]
) -> tuple[_Run, list[SweepRow]]:
    found, after = made.result()
    work.stages.done += after.done
    outcome = concluded(CountsMaker(run.spec, RunInput()), work, measured, derived(found))
    rows = outcome.rows[run.spec.persons.name]
    return run, [SweepRow(run.budget, run.method, run.repeat, e) for e in rows]


def _written(spec: RunSpec, runs: Sequence[_Run], rows: Sequence[SweepRow], out: Path) -> Swept:
    means: list[SummaryRow] = summary(rows)
    together = _statement(spec, runs)
    swept = Swept(
        out / "sweep.csv",
        out / "summary.csv",
        out / "sweep.html",
        out / "privacy.json",
        rows,
        out / "paired.csv" if len({r.method for r in runs}) > 1 else None,
    )
    sweep_csv.write_summary(swept.summary, means, private=spec.run.private)
    if swept.paired is not None:
        sweep_csv.write_paired(swept.paired, paired(rows), private=spec.run.private)
    write_json(swept.statement, together)
    write_text(swept.page, sweep_page(means, spec.run.name, spec.persons.plan, together))
    return swept


def _statement(spec: RunSpec, runs: Sequence[_Run]) -> dict[str, Any]:
    """What each run has spent, and all together: exact sums of their own privacy statements, each
    noise once.
    """
    currency = spec.persons.plan.mechanism.currency
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
        out["epsilon"] = {
            "delta": decimal(spec.budget.delta),
            "zcdp-tight": tight(total, spec.budget.delta),
        }
    return out


def _shared(runs: Sequence[_Run]) -> dict[str, str]:
    """Runs that took the noise of another over, by name, with the run that stands for it: one of
    the same budget and repeat with the same ledger. Ledgers alone would not do: two noises may
    happen to be equal."""
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
