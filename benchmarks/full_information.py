"""Full information next to top-down estimation on the same noise, on Rhode Island, over
production's tree and over that of the tables.

Both methods run with the same seed, so every measurement is the same, and the benchmark checks
that. Ratios are of mean errors over the runs. Their standard errors are over the runs, too (a ratio
of paired means, by the delta method). A difference counts as worse when it is more than three
standard errors above zero. The coverage is that of the 90 % intervals of the unbiased estimates,
over uncertain answers."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from das.engine import Silent
from das.files.release.estimates import EstimateReader, folder_of
from das.files.run.run_directory import RunDirectory
from das.model.error_rows import ErrorRow
from das.runs.pipeline import run_prepared
from das.spec import RunSpec, parse
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

#: The tree of production first (``das run pl94-2010``); of the other, units are those of tables.
SPINES = ("optimized", "tabulation")
#: What is to be better, by how much: (level, query, measure) -> largest ratio by tree.
TARGETS = {
    ("Tract", "total", "mae"): (0.90, 0.85),
    ("Tract", "votingage", "mae"): (0.90, 0.85),
    ("Tract", "hispanic * cenrace", "rmse"): (0.95, 0.90),
    ("County", "hispanic * cenrace", "rmse"): (0.95, 0.90),
}
Errors = Mapping[tuple[str, str], ErrorRow]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.full_information", description=__doc__
    )
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs; what the documentation states is of 10"
    )
    parser.add_argument("--spine", choices=SPINES, action="append", help="default: both")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    figures = Figures("full_information")
    data = shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    for spine in given.spine or SPINES:
        _compare(figures, data, spine, given.repeats, given.workers)


def _compare(figures: Figures, data: Path, spine: str, repeats: int, workers: int) -> None:
    prepared = prepare(_spec(spine, 1, "topdown"), [data], Stages(), Silent())
    top: list[Errors] = []
    full: list[Errors] = []
    covered: list[tuple[int, int]] = []
    for seed in range(1, repeats + 1):
        top_errors, noise = _errors(_spec(spine, seed, "topdown"), prepared, workers, None)
        full_errors, same = _errors(
            _spec(spine, seed, "full-information"), prepared, workers, covered
        )
        assert noise == same, "both methods must have the same measurements"
        top.append(top_errors)
        full.append(full_errors)
    for key in top[0]:
        for measure in ("mae", "rmse"):
            a, b = (
                np.array([getattr(errors[key], measure) for errors in runs]) for runs in (full, top)
            )
            if b.mean() == 0:
                continue
            target = TARGETS.get((*key, measure))
            ratio = a.mean() / b.mean()
            figures(
                f"ratio of {measure}, {key[0]}, {key[1]}",
                float(ratio),
                "full / topdown",
                at_most=None if target is None else target[SPINES.index(spine)],
                spine=spine,
                runs=repeats,
                error=_of_mean(a - ratio * b) / float(b.mean()) if repeats > 1 else None,
                full=float(a.mean()),
                topdown=float(b.mean()),
                worse=bool((a - b).mean() > 3 * _of_mean(a - b)) if repeats > 1 else None,
            )
    inside, of = np.sum(covered, axis=0)
    figures(
        "coverage of 90 % intervals",
        float(inside / of),
        "share",
        at_least=0.88,
        spine=spine,
        answers=int(of),
    )
    figures(
        "coverage of 90 % intervals, not more",
        float(inside / of),
        "share",
        at_most=0.92,
        spine=spine,
    )


def _of_mean(x: NDArray[np.float64]) -> float:
    """Standard error of the mean, of two runs or more."""
    return float(x.std(ddof=1) / len(x) ** 0.5)


def _spec(spine: str, seed: int, method: str) -> RunSpec:
    changes = [
        f"geography.spine={spine}",
        f"run.seed={seed}",
        f"estimation.method={method}",
        "output.report=false",
    ]
    return parse(CONFIG.read_text(encoding="utf-8"), where=str(CONFIG), overrides=changes)


def _errors(
    spec: RunSpec, prepared: Prepared, workers: int, covered: list[tuple[int, int]] | None
) -> tuple[Errors, Errors]:
    """Of what was published, and of the noisy measurements themselves."""
    with tempfile.TemporaryDirectory() as folder:
        out = RunDirectory(Path(folder) / "run")
        outcome = run_prepared(spec, prepared, out.root, workers=workers)
        if covered is not None:
            covered += [
                _coverage(out, prepared, spec, level) for level in prepared.spine.levels[:-1]
            ]
    rows = [r for r in outcome.rows["persons"] if r.bin == "all"]
    published, measured = (
        {(r.level, r.query): r for r in rows if r.source == source}
        for source in ("postprocessed", "nmf")
    )
    return published, measured


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
