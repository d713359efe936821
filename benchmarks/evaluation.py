"""Evaluation, comparison and sweeps: what they cost, and whether noise and standard errors are as
stated.

On Rhode Island: the evaluation of a run, compared with reading its measurements alone, on one
thread; ``das run`` with ``das compare``; and, with ``--sweep``, the default grid of ``make sweep``.
On one county (Bristol), repeated: noise compared with theory, and the standard errors of biases
within a run compared with the spread of the biases over runs."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from math import sqrt
from pathlib import Path
from statistics import mean, median, stdev
from time import perf_counter

from benchmarks.common import CONFIG, RHODE_ISLAND, ROOT, Figures, no_data, shared_data, timed
from benchmarks.whole_run import WholeRun, whole_run
from das.model.error_rows import SweepRow
from das.release.opened import open_release
from das.spec import parse
from das.tools.sweep.runs import sweep
from das.truth import assessment

BRISTOL = RHODE_ISLAND.with_name("ri2010_bristol_44001.pl.zip")
RHO = Fraction(293764, 114921)
GRID = (Fraction(1, 10), Fraction(1, 2), RHO, Fraction(10), Fraction(50))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.evaluation", description=__doc__)
    parser.add_argument("--repeats", type=int, default=12, help="runs of the county")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--sweep", action="store_true", help="the default grid on Rhode Island as well"
    )
    given = parser.parse_args(arguments)
    figures = Figures("evaluation")
    data, county = shared_data(RHODE_ISLAND), shared_data(BRISTOL)
    with tempfile.TemporaryDirectory() as folder:
        if data is None:
            figures.skipped("Rhode Island", no_data(RHODE_ISLAND))
        else:
            _state(figures, data, Path(folder), given.workers, given.sweep)
        if county is None:
            figures.skipped("noise and standard errors", no_data(BRISTOL))
        else:
            swept = sweep(
                parse(CONFIG.read_text("utf-8"), where="c"),
                [RHO],
                Path(folder) / "county",
                repeats=given.repeats,
                paths=[county],
                workers=given.workers,
            )
            _noise(figures, swept.rows)
            _standard_errors(figures, swept.rows, given.repeats)


def _state(figures: Figures, data: Path, folder: Path, workers: int, and_sweep: bool) -> None:
    run = whole_run(data, folder / "run", workers=workers)
    reading = timed(partial(_read_all, run), 3)
    whole = timed(partial(assessment.evaluate_run, run.directory.root), 3)
    figures(
        "evaluating a finished run, beside reading its measurements",
        whole.cpu / reading.cpu,
        "ratio",
        at_most=4,
        cpu_seconds=whole.cpu,
        reading_cpu_seconds=reading.cpu,
    )
    began = perf_counter()
    subprocess.run(
        [sys.executable, "-m", "das", "compare", str(run.directory.root)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    figures(
        "das run and das compare",
        run.seconds + perf_counter() - began,
        "s",
        at_most=180,
        workers=workers,
    )
    if and_sweep:
        began = perf_counter()
        sweep(
            parse(CONFIG.read_text("utf-8"), where="c"),
            GRID,
            folder / "sweep",
            paths=[data],
            workers=workers,
        )
        figures(
            "das sweep, default grid",
            perf_counter() - began,
            "s",
            at_most=900,
            workers=workers,
            runs=len(GRID),
        )


def _read_all(run: WholeRun) -> None:
    opened = open_release(run.directory.release)
    for u in opened.after.universes:
        reader = opened.source(u)
        for level in reader.spine.levels:
            for query in reader.queries(level):
                for start, stop in reader.spine.batches(level, u.schema.query(query).answers):
                    reader.read(level, query, start, stop)


def _noise(figures: Figures, rows: Sequence[SweepRow]) -> None:
    """Distances of mean absolute errors from theory, where there are answers enough for a normal
    law.
    """
    z = [
        r.error.mae_z
        for r in rows
        if r.error.bin == "all" and r.error.n >= 100 and r.error.mae_z is not None
    ]
    figures(
        "noise against theory: standard deviation of the distances",
        stdev(z),
        "standard errors",
        at_most=1.25,
        rows=len(z),
        mean=mean(z),
        largest=max(map(abs, z)),
    )


def _standard_errors(figures: Figures, rows: Sequence[SweepRow], repeats: int) -> None:
    """Of published counts, by class: the standard error that a run states, over the spread of its
    bias over runs.
    """
    groups: dict[tuple[str, str, str], list[SweepRow]] = {}
    for r in rows:
        if (
            r.error.source == "postprocessed"
            and r.error.bin != "all"
            and (r.error.clusters or 0) >= 10
        ):
            groups.setdefault((r.error.level, r.error.query, r.error.bin), []).append(r)
    for level in dict.fromkeys(key[0] for key in groups):
        ratios, held = [], []
        for key, group in groups.items():
            bias = [r.error.bias for r in group]
            if key[0] == level and len(group) == repeats and stdev(bias) > 0:
                ratios.append(
                    sqrt(mean((r.error.bias_se or 0.0) ** 2 for r in group)) / stdev(bias)
                )
                held += [
                    (r.error.bias_low or 0.0) <= mean(bias) <= (r.error.bias_high or 0.0)
                    for r in group
                ]
        if ratios:
            figures(
                f"standard error of a bias within a run over its spread over runs, {level}",
                median(ratios),
                "ratio",
                at_least=0.8,
                runs=repeats,
                classes=len(ratios),
                least=min(ratios),
                largest=max(ratios),
                intervals_that_hold_the_mean=mean(held),
            )


if __name__ == "__main__":
    main()
