"""Three spines on Rhode Island: tabulation, that of 2020, and one with the areas that people use in
its block groups.

Each run measures the persons over each spine with the same budget, estimates them by both methods,
with non-negativity and all, and holds the published counts of every level and kind of area against
the truth: mean absolute and root mean square errors of the total, of those of 18 and over, and of
Hispanics. ``theory`` is the linear standard deviation of the total
(:mod:`das.estimate.areas.estimates`), as a root mean square, which knows nothing of non-negativity.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, CONFIG_AREAS, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import both, bounds, estimating, published
from das import spec as specification
from das.engine import Silent, executor
from das.model.histogram import Histogram
from das.spec import RunSpec
from das.stages import Stages
from das.tools.areas.page import linear
from das.truth.preparation import Prepared, prepare

#: By name the configuration and what is changed in it.
SPINES = {
    "tabulation": (CONFIG, ("geography.spine=tabulation",)),
    "production": (CONFIG, ("geography.spine=optimized",)),
    "targets": (CONFIG_AREAS, ()),
}
METHODS = ("topdown", "full-information")
#: What is counted: a name, and the query and answer that it is.
STATISTICS = {"total": ("total", 0), "18 and over": ("votingage", 1), "Hispanic": ("hispanic", 1)}
#: Of these the targets must be so many times closer to the truth than the tabulation spine.
CLOSER = {("SLDL", "total"): 4.0, ("Place", "total"): 4.0}
#: Levels that the targets must leave nearly as good.
LEVELS = ("County", "Tract", "Block_Group", "Block")
Errors = Mapping[
    tuple[str, str], NDArray[np.int64]
]  #: by level or kind of area, and statistic: published less true


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spines", description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=10, help="runs of each spine, for both methods"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--spine", action="append", choices=list(SPINES), help="some of the spines alone"
    )
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="changes",
        help="changes to the last of the spines",
    )
    given = parser.parse_args(arguments)
    figures, data = Figures("spines"), shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    chosen = given.spine or list(SPINES)
    found: dict[Any, Any] = {}
    theory: dict[Any, Any] = {}
    with executor(given.workers) as pool:
        for name in chosen:
            config, changes = SPINES[name]
            changes = (*changes, *(given.changes if name == chosen[-1] else ()))
            spec = specification.parse(
                config.read_text(encoding="utf-8"), where=str(config), overrides=changes
            )
            prepared = prepare(spec, [data], Stages(), Silent())
            theory |= {(name, *key): value for key, value in _theory(spec, prepared)}
            for seed in range(1, given.repeats + 1):
                for method in given.method or METHODS:
                    found.setdefault((name, method), []).append(
                        _run(spec, prepared, seed, method, pool)
                    )
    _print(figures, found, theory)


def _run(spec: RunSpec, prepared: Prepared, seed: int, method: str, pool: Executor) -> Errors:
    found = published(estimating(spec, method=method), prepared, seed, pool)
    return dict(_errors(prepared, spec.persons.name, found))


def _theory(spec: RunSpec, prepared: Prepared) -> Iterator[tuple[tuple[str, str], float]]:
    """By method and kind, the root mean square of the standard deviations of the totals."""
    spec = spec.on(prepared.trees)
    tree, published = prepared.trees[spec.persons.name], prepared.spine
    bottom = published.levels[-1]
    at = tree.numbers(np.arange(published.units(bottom)))
    places = {
        level: (published.up(bottom, level), np.arange(len(at))) for level in published.levels
    }
    places |= {a.kind: (a.area, a.unit) for a in prepared.areas}
    for kind, (area, unit) in places.items():
        there = at[unit] >= 0
        found = linear(
            spec.persons,
            tree,
            bounds(spec, prepared),
            area[there],
            at[unit[there]],
            int(area.max()) + 1,
        )
        for method, deviation in zip(METHODS, found, strict=True):
            yield (method, kind), float(np.sqrt(np.mean(deviation**2)))


def _errors(
    prepared: Prepared, universe: str, lowest: Histogram
) -> Iterator[tuple[tuple[str, str], NDArray[np.int64]]]:
    schema = specification.parse(
        CONFIG.read_text(encoding="utf-8"), where=str(CONFIG)
    ).persons.schema
    for kind, a, b in both(prepared, universe, lowest):
        for name, (query, answer) in STATISTICS.items():
            yield (
                (kind, name),
                (b.answer(schema.query(query)) - a.answer(schema.query(query)))[:, answer],
            )


def _print(
    figures: Figures,
    found: Mapping[tuple[str, str], Sequence[Errors]],
    theory: Mapping[tuple[str, str, str], float],
) -> None:
    mae = {key: {k: _mean(runs, k, np.abs) for k in runs[0]} for key, runs in found.items()}
    for (spine, method), runs in found.items():
        for (kind, statistic), (value, deviation) in mae[spine, method].items():
            base = mae.get(("tabulation", method), {}).get((kind, statistic))
            closer = base[0] / value if base and value and spine != "tabulation" else None
            wanted = CLOSER.get((kind, statistic)) if spine == "targets" else None
            if spine == "targets" and kind in LEVELS and base and statistic == "total":
                figures(
                    f"{spine}, {method}: {kind}, {statistic}, beside the tabulation spine",
                    value / base[0],
                    "ratio of errors",
                    at_most=1.1,
                )
            figures(
                f"{spine}, {method}: {kind}, {statistic}",
                value,
                "persons (mean absolute error)",
                rmse=_mean(runs, (kind, statistic), np.square)[0] ** 0.5,
                deviation_between_runs=deviation,
                theory=theory[spine, method, kind] if statistic == "total" else None,
                units=len(runs[0][kind, statistic]),
                runs=len(runs),
                closer_than_tabulation=closer,
            )
            if wanted is not None and closer is not None:
                figures(
                    f"{spine}, {method}: {kind}, {statistic}, closer to the truth",
                    closer,
                    "times",
                    at_least=wanted,
                )


def _mean(runs: Sequence[Errors], key: tuple[str, str], of: np.ufunc) -> tuple[float, float]:
    each = [float(of(r[key].astype(float)).mean()) for r in runs]
    return float(np.mean(each)), float(np.std(each, ddof=1)) if len(each) > 1 else float("nan")


if __name__ == "__main__":
    main()
