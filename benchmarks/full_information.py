"""Full information beside top-down estimation on the same noise, on Rhode Island over the tabulation spine.

Both methods run with the same seed, so every measurement is the same. Ratios are of mean errors over the runs; a
difference counts as worse when it is more than three standard errors above zero. The coverage is that of the 90 %
intervals of the unbiased estimates, over answers that are uncertain at all.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import das
from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from das.engine import Silent, executor
from das.files.release.estimates import EstimateReader, folder_of
from das.files.run.run_directory import RunDirectory
from das.model.error_rows import ErrorRow
from das.pipeline import run_prepared
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

#: Every level is measured, and units are those of tables.
SPINE = "geography.spine=tabulation"
#: What is to be better, by how much: (level, query, measure) -> largest ratio.
TARGETS = {
    ("Tract", "total", "mae"): 0.80,
    ("Tract", "votingage", "mae"): 0.85,
    ("Tract", "hispanic * cenrace", "rmse"): 0.90,
    ("County", "hispanic * cenrace", "rmse"): 0.90,
}
Errors = Mapping[tuple[str, str], ErrorRow]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.full_information", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    figures = Figures("full_information")
    data = shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    topdown = das.load_spec(CONFIG, [SPINE])
    prepared = prepare(topdown, [data], Stages(), Silent())
    top: list[Errors] = []
    full: list[Errors] = []
    covered: list[tuple[int, int]] = []
    for seed in range(1, given.repeats + 1):
        top.append(_errors(_spec(seed, "topdown"), prepared, None))
        full.append(_errors(_spec(seed, "full-information"), prepared, covered))
    for key in top[0]:
        for measure in ("mae", "rmse"):
            a, b = (np.array([getattr(errors[key], measure) for errors in runs]) for runs in (full, top))
            if b.mean() == 0:
                continue
            figures(
                f"ratio of {measure}, {key[0]}, {key[1]}",
                float(a.mean() / b.mean()),
                "full / topdown",
                at_most=TARGETS.get((*key, measure)),
                full=float(a.mean()),
                topdown=float(b.mean()),
                worse=_worse(a - b),
            )
    inside, of = np.sum(covered, axis=0)
    figures("coverage of 90 % intervals", float(inside / of), "share", at_least=0.88, answers=int(of))
    figures("coverage of 90 % intervals, not more", float(inside / of), "share", at_most=0.92)


def _worse(difference: np.ndarray) -> bool:
    if len(difference) < 2:
        return False
    return bool(difference.mean() > 3 * difference.std(ddof=1) / len(difference) ** 0.5)


def _spec(seed: int, method: str) -> RunSpec:
    return das.load_spec(CONFIG, [SPINE, f"run.seed={seed}", f"estimation.method={method}"])


def _errors(spec: RunSpec, prepared: Prepared, covered: list[tuple[int, int]] | None) -> Errors:
    with tempfile.TemporaryDirectory() as folder:
        out = RunDirectory(Path(folder) / "run")
        with executor(2) as pool:
            outcome = run_prepared(spec, prepared, out, pool, Stages(), Silent())
        if covered is not None:
            covered += [_coverage(out, prepared, spec, level) for level in prepared.spine.levels[:-1]]
    rows = outcome.rows["persons"]
    return {(r.level, r.query): r for r in rows if r.bin == "all" and r.source == "postprocessed"}


def _coverage(out: RunDirectory, prepared: Prepared, spec: RunSpec, level: str) -> tuple[int, int]:
    """How many answers of a level lie inside their interval, of how many that are uncertain."""
    truth = prepared.measured["persons"][level].open("to count how many intervals hold it")
    inside = of = 0
    spine = prepared.trees["persons"].spine
    reader = EstimateReader(folder_of(out.release, "persons"), spine)
    for name in reader.queries(level):
        value, error = reader.read(level, name, 0, spine.units(level))
        expected, known = truth.answer(spec.persons.schema.query(name)), error > 0.05
        inside += int((np.abs(value - expected)[known] <= 1.6449 * error[known]).sum())
        of += int(known.sum())
    return inside, of


if __name__ == "__main__":
    main()
