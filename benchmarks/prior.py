"""With and without the prior of housing, on the same noise, on Rhode Island: by size, by race, for
enclaves, for areas.

Each run measures the persons once and estimates them by both methods, with ``estimation.prior`` at
"none" and at "housing". Published counts of blocks are compared with the truth by class. Classes
are by how many persons live there, by how many of a group live there, and *enclaves* of a group. An
enclave is a block where the group is more than half, in a block group where it is less than a
fifth.

A ``ratio`` below 1 is the prior's gain. ``worse`` says that the difference of errors, over the
runs, is more than three standard errors above zero (never for one run). Classes are of the truth,
so any estimate that uses neighbors must err towards them in an enclave; the benchmark shows how
much."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import estimated, estimating, lowest
from das import spec as specification
from das.engine import Silent, executor
from das.model.histogram import Histogram
from das.model.post_processing import HousingPrior
from das.model.query import Query
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

METHODS = ("topdown", "full-information")
SIZES = ((0, 0), (1, 9), (10, 24), (25, 49), (50, 99), (100, 199), (200, 499), (500, None))
MANY = ((1, 4), (5, 19), (20, 49), (50, None))
#: Groups of people: the answers of hispanic * cenrace that they are.
GROUPS = {
    "Hispanic": range(63, 126),
    "White": [0],
    "Black": [1],
    "AIAN": [2],
    "Asian": [3],
    "NHPI": [4],
    "Other": [5],
    "two or more": range(6, 63),
}
#: (method, what is counted) -> largest ratio of mean absolute errors.
TARGETS = {
    ("full-information", "total, all blocks"): 0.82,
    ("full-information", "18 and over, all blocks"): 0.85,
    ("full-information", "Hispanic, all blocks"): 0.88,
}
Errors = Mapping[str, NDArray[np.int64]]  #: by what is counted where: published less true


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.prior", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--spine", default="optimized", choices=["optimized", "tabulation"])
    given = parser.parse_args(arguments)
    figures, data = Figures("prior"), shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    changes = [f"geography.spine={given.spine}"]
    spec = specification.parse(
        CONFIG.read_text(encoding="utf-8"), where=str(CONFIG), overrides=changes
    )
    prepared = prepare(spec, [data], Stages(), Silent())
    spec = spec.on(prepared.trees)
    with executor(given.workers) as pool:
        for method in given.method or METHODS:
            found: list[tuple[Errors, Errors]] = []
            for seed in range(1, given.repeats + 1):
                with_prior, prior = _run(spec, prepared, seed, method, True, pool)
                found.append((_run(spec, prepared, seed, method, False, pool)[0], with_prior))
                if seed == 1 and prior is not None:
                    _spreads(figures, method, prior)
            _print(figures, method, found)


def _run(
    spec: RunSpec, prepared: Prepared, seed: int, method: str, housing: bool, pool: Executor
) -> tuple[Errors, HousingPrior | None]:
    changed = estimating(spec, method=method, prior="housing" if housing else "none")
    out = estimated(changed, prepared, seed, pool)
    return dict(_errors(spec, prepared, lowest(prepared, spec.persons.name, out))), out.prior


def _errors(
    spec: RunSpec, prepared: Prepared, published: Histogram
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    spine, schema = prepared.spine, spec.persons.schema
    true = prepared.truth[spec.persons.name][spine.levels[-1]].open(
        "to hold published counts against it"
    )
    home, ours, theirs = (
        spine.parent[-1],
        *(
            {"total": h.totals(), "18 and over": h.answer(schema.query("votingage"))[:, 1]}
            | _groups(h, schema.query("hispanic * cenrace"))
            for h in (published, true)
        ),
    )
    size = theirs["total"]
    around = np.bincount(home, weights=size)[home]
    for name, value in ours.items():
        error, there = value - theirs[name], theirs[name]
        yield f"{name}, all blocks", error
        if name not in GROUPS:
            for low, high in SIZES:
                yield f"{name}, blocks of {_words(low, high)}", error[_between(size, low, high)]
        else:
            for low, high in MANY:
                yield f"{name}, {_words(low, high)} in the block", error[_between(there, low, high)]
            most = there > 0.5 * size
            yield f"{name}, more than half of the block", error[most]
            yield (
                f"{name}, enclaves",
                error[most & (np.bincount(home, weights=there)[home] < 0.2 * around)],
            )
        for level in spine.levels[2:-1]:
            at = spine.up(spine.levels[-1], level)
            yield f"{name}, {level}", np.bincount(at, weights=error).astype(np.int64)
        for areas in prepared.areas:
            yield (
                f"{name}, {areas.kind}",
                np.bincount(areas.area, weights=error[areas.unit]).astype(np.int64),
            )


def _groups(h: Histogram, query: Query) -> dict[str, NDArray[np.int64]]:
    answers = h.answer(query)
    return {name: answers[:, list(which)].sum(axis=1) for name, which in GROUPS.items()}


def _between(x: NDArray[np.int64], low: int, high: int | None) -> NDArray[np.bool_]:
    return (x >= low) & (x <= (high if high is not None else x.max()))


def _words(low: int, high: int | None) -> str:
    return f"{low} and more" if high is None else f"{low}" if low == high else f"{low} to {high}"


def _spreads(figures: Figures, method: str, prior: HousingPrior) -> None:
    for s in prior.spreads:
        figures(
            f"{method}: spread of {s.query}",
            s.common.linear,
            "persons",
            quadratic=s.common.quadratic,
            own={a: [d.linear, d.quadratic] for a, d in list(s.own.items())[:6]},
            answers_seen=s.seen,
        )


def _print(figures: Figures, method: str, found: Sequence[tuple[Errors, Errors]]) -> None:
    for name in found[0][0]:
        none, housing = ([run[i][name].astype(float) for run in found] for i in (0, 1))
        if not len(none[0]):
            continue
        mae, rms, bias = (
            [np.array([f(e) for e in errors]) for errors in (none, housing)]
            for f in (
                lambda e: np.abs(e).mean(),
                lambda e: np.sqrt((e**2).mean()),
                lambda e: e.mean(),
            )
        )
        if not mae[0].any() and not mae[1].any():
            continue
        figures(
            f"{method}: {name}",
            float(mae[1].mean() / mae[0].mean()),
            "ratio of mean absolute errors",
            at_most=TARGETS.get((method, name)),
            none=float(mae[0].mean()),
            housing=float(mae[1].mean()),
            rmse_ratio=float(rms[1].mean() / rms[0].mean()),
            bias_none=float(bias[0].mean()),
            bias_housing=float(bias[1].mean()),
            worse=worse(mae[1] - mae[0]),
            units=len(none[0]),
            runs=len(found),
        )


def worse(difference: NDArray[np.float64]) -> bool:
    if len(difference) < 2:
        return False
    return bool(difference.mean() > 3 * difference.std(ddof=1) / len(difference) ** 0.5)


if __name__ == "__main__":
    main()
