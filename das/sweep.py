"""Reruns of one prepared input over a grid of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from das.engine import Progress, Silent
from das.errors import SpecError
from das.files import sweep_csv
from das.files.run_directory import RunDirectory, create_private, write_text
from das.model.result import SweepRow
from das.pipeline import prepare, run_prepared, scaled
from das.report.sweep import sweep_page
from das.spec import RunSpec
from das.stages import Stages


@dataclass(frozen=True)
class Swept:
    """What a sweep has written."""

    table: Path
    page: Path
    rows: Sequence[SweepRow]


def sweep(
    spec: RunSpec,
    budgets: Sequence[Fraction],
    out: Path,
    *,
    repeats: int = 1,
    paths: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Swept:
    """Run ``spec`` at each budget, ``repeats`` times; the input is read once.

    Each run has its folder under ``out/runs``; ``out/sweep.csv`` has all errors, one row for each line of
    each run's ``errors.csv``, and ``out/sweep.html`` draws them. All of it is confidential.
    """
    progress = progress or Silent()
    if not budgets or min(budgets) <= 0 or len(set(budgets)) != len(budgets) or repeats < 1:
        raise SpecError("a sweep needs positive, different budgets, and at least one repeat", where="--rho")
    if spec.run.seed is not None and repeats > 1:
        raise SpecError("repeats with one seed would be copies of each other", where="run.seed", remedy="leave it out")
    RunDirectory(out).refuse_if_taken()
    prepared = prepare(spec, paths, Stages(), progress)
    create_private(out)
    currency = spec.persons.plan.mechanism.currency
    rows: list[SweepRow] = []
    for budget in budgets:
        for repeat in range(repeats):
            name = f"{spec.run.name}-{budget}-{repeat}"
            folder = out / "runs" / f"{currency}-{str(budget).replace('/', '_')}-{repeat}"
            one = scaled(spec, budget, name)
            outcome = run_prepared(one, prepared, RunDirectory(folder), workers, Stages(), progress)
            rows += [SweepRow(budget, repeat, r) for r in outcome.rows["persons"]]
            sweep_csv.write(out / "sweep.csv", rows)
    write_text(out / "sweep.html", sweep_page(rows, spec.run.name, spec.persons.plan))
    return Swept(out / "sweep.csv", out / "sweep.html", rows)
