"""The State and the counties of Rhode Island in the packaged redistricting releases, with many
seeds: root mean square errors of every measured query, next to production's over the spine of
tabulation.

A descent ends at the counties. From the top down these depend on measurements down to them alone,
so no others are made. By full information they also depend on those below. Measurements of blocks
are left out (``--lowest Block`` makes them): a county is thousands of blocks, and the sum of their
noise tells next to nothing of it."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.best import RUNS
from benchmarks.common import RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import bounds, noisy, planned
from das import spec as specification
from das.engine import Silent
from das.estimate.descent import topdown
from das.estimate.passes import Passes
from das.estimate.pooled import PooledSource
from das.estimate.upward_pass import upward_pass
from das.model.histogram import Histogram
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

COUNTY, STATE = "County", "State"
#: A query is worse than production's if its error is more than this part of it, and not by chance:
#: by more than so many standard errors.
WORSE, ERRORS = 1.05, 2.0
Squares = Mapping[
    tuple[str, str], list[float]
]  #: by level and query the mean square error of each seed


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.counties", description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--run", action="append", choices=list(RUNS), help="some of the runs alone")
    parser.add_argument(
        "--lowest", choices=("Tract", "Block_Group", "Block"), default="Block_Group"
    )
    given = parser.parse_args(arguments)
    figures, data = Figures("counties"), shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    found = {
        name: errors(name, data, given.repeats, given.lowest)
        for name in given.run or ("production", "best", "fair")
    }
    for name, of in found.items():
        for key, squares in of.items():
            _line(figures, name, key, np.array(squares), found.get("production"))


def errors(name: str, data: Path, repeats: int, lowest: str) -> Squares:
    config, changes = RUNS[name]
    text = config.read_text(encoding="utf-8")
    spec = specification.parse(text, where=str(config), overrides=changes)
    prepared = prepare(spec, [data], Stages(), Silent())
    spec, out = spec.on(prepared.trees), dict[tuple[str, str], list[float]]()
    u = planned(spec, "persons")
    for seed in range(1, repeats + 1):
        counties = _counties(spec, prepared, seed, lowest)
        for level, ours in (COUNTY, counties), (STATE, counties.sum(axis=0, keepdims=True)):
            true = prepared.truth[u.name][level].open("to hold estimates against it")
            for q in dict.fromkeys(("total", *(d.query for d in u.plan.measurements))):
                query = u.schema.query(q)
                off = query.answer(ours).astype(float) - true.answer(query)
                out.setdefault((level, q), []).append(float(np.square(off).mean()))
    return out


def _counties(spec: RunSpec, prepared: Prepared, seed: int, lowest: str) -> NDArray[np.int64]:
    """The published counties, ``(counties, cells)``."""
    u, tree, limits = planned(spec, "persons"), prepared.trees["persons"], bounds(spec, prepared)
    passes, after = Passes(u.passes, spec.after.tolerance), spec.after
    if after.method == "full-information":
        spine = tree.spine.truncated(lowest)
        found = noisy(spec, prepared, seed, to=lowest)
        some = {level: limits[level] for level in spine.levels}
        method = upward_pass(found, spine, some, u).estimator(passes, after.tolerance)
        release = topdown(found, spine, some, u, method, to=COUNTY)
    else:
        found = noisy(spec, prepared, seed, to=COUNTY)
        source = PooledSource.over_chains(found, tree.spine, limits, u.schema, tree.measured)
        release = topdown(source, tree.spine, limits, u, passes, to=COUNTY)
    return _published(prepared, release.histograms[COUNTY])


def _published(prepared: Prepared, of_tree: Histogram) -> NDArray[np.int64]:
    """Parts of counties, which two branches of the tree have, added up by their blocks."""
    tree, spine = prepared.trees["persons"], prepared.spine
    place = np.zeros(of_tree.units, dtype=np.int64)
    place[tree.spine.up(tree.spine.levels[-1], COUNTY)] = spine.up(spine.levels[-1], COUNTY)[
        tree.place
    ]
    out = np.zeros((spine.units(COUNTY), of_tree.cells), dtype=np.int64)
    np.add.at(out, place, of_tree.dense())
    return out


def _line(
    figures: Figures,
    name: str,
    key: tuple[str, str],
    squares: NDArray[np.float64],
    production: Squares | None,
) -> None:
    """One figure; next to production's with the standard error of the ratio of the two."""
    says, rmse = f"{name}: {key[0]}, {key[1]}", float(squares.mean()) ** 0.5
    error = _relative(squares)
    figures(says, rmse, "persons (root mean square error)", standard_error=rmse * error)
    if production is None or name == "production" or not rmse:
        return
    theirs = np.array(production[key])
    ratio = rmse / float(theirs.mean()) ** 0.5
    off = ratio * float(np.hypot(error, _relative(theirs)))
    bar = max(WORSE, 1 + ERRORS * off)
    figures(f"{says}, beside production", ratio, "ratio", at_most=bar, standard_error=off)


def _relative(squares: NDArray[np.float64]) -> float:
    """The relative standard error of the root of a mean."""
    if not squares.any():
        return 0.0  # it is published exactly
    spread = float(squares.std(ddof=1)) if len(squares) > 1 else float("nan")
    return spread / len(squares) ** 0.5 / 2 / float(squares.mean())


if __name__ == "__main__":
    main()
