"""The loss between the unbiased estimates and the published counts, with marginals held and
without, on Rhode Island.

It gives, for each level and query, the root mean square error of the published counts relative to
the unbiased estimates' own standard errors. 1 means no loss; less means that non-negativity gained
something. The budget is that of production. With ``--config`` it is that of another plan, such as
one that spends the State total's share on counties, tracts and block groups. ``not held`` is the
same noise estimated with the totals held alone. The last lines are the processor time of both."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import bounds as bounds_of_units
from benchmarks.published import noisy
from das import spec as specification
from das.engine import Silent
from das.estimate.descent import topdown
from das.estimate.passes import Passes
from das.estimate.upward_pass import upward_pass
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

Squares = Mapping[tuple[str, str], float]  #: by level and query, a mean square
#: The largest ratio, where the plan measures the marginal well.
MOST = {("Tract", "votingage"): 1.25}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.held_marginals", description=__doc__
    )
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument("--set", action="append", default=[], dest="changes")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    figures, data = Figures("marginals"), shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    changes = ["geography.spine=tabulation", *given.changes]
    spec = specification.parse(
        given.config.read_text(encoding="utf-8"), where=str(given.config), overrides=changes
    )
    prepared = prepare(spec, [data], Stages(), Silent())
    known: list[Squares] = []
    found: dict[bool, list[Squares]] = {True: [], False: []}
    seconds = {True: 0.0, False: 0.0}
    for seed in range(1, given.repeats + 1):
        variances, errors, took = _run(spec.on(prepared.trees), prepared, seed)
        known.append(variances)
        for held in found:
            found[held].append(errors[held])
            seconds[held] += took[held]
    for key in known[0]:
        error, with_all, without = (_root(runs, key) for runs in (known, found[True], found[False]))
        if error > 0:
            figures(
                f"{key[0]}, {key[1]}",
                with_all / error,
                "published RMSE / standard error",
                at_most=MOST.get(key),
                published=with_all,
                standard_error=error,
                not_held=without / error,
            )
    figures(
        "processor time, held beside not",
        seconds[True] / seconds[False],
        "ratio",
        at_most=1.15,
        seconds=seconds[True] / given.repeats,
    )


def _root(runs: Sequence[Squares], key: tuple[str, str]) -> float:
    return float(np.mean([r[key] for r in runs]) ** 0.5)


def _run(
    spec: RunSpec, prepared: Prepared, seed: int
) -> tuple[Squares, dict[bool, Squares], dict[bool, float]]:
    """Variances of the unbiased estimates, and squared errors and processor time with marginals
    held and without."""
    u, tree = spec.persons, prepared.trees[spec.persons.name]
    found = noisy(spec, prepared, seed)
    bounds = bounds_of_units(spec, prepared)
    began = process_time()
    known = upward_pass(found, tree.spine, bounds, u)
    up = process_time() - began
    variances = {(level, q.name): float(np.mean(e**2)) for level, q, _, e in known.unbiased()}
    errors: dict[bool, Any] = {}
    took: dict[bool, float] = {}
    for held in (
        (True, False) if seed % 2 else (False, True)
    ):  # what comes first warms what comes next
        method = known.estimator(Passes(u.passes, spec.after.tolerance), spec.after.tolerance)
        if not held:
            method = replace(method, queries=dict.fromkeys(method.queries, ()))
        began = process_time()
        release = topdown(found, tree.spine, bounds, u, method)
        took[held] = up + process_time() - began
        errors[held] = {}
        for level, name in variances:
            query = u.schema.query(name)
            true = (
                prepared.measured[u.name][level]
                .open("to hold published counts against it")
                .answer(query)
            )
            off = release.histograms[level].answer(query) - true
            errors[held][level, name] = float(np.mean(off.astype(float) ** 2))
    return variances, errors, took


if __name__ == "__main__":
    main()
