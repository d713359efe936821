"""The best configuration beside the Bureau's method with its own allocation, at the same epsilon and delta, on Rhode Island.

``production``: ``configs/pl94-2010.toml`` with top-down estimation, over the spine of tabulation, which is the one that
its block groups and tracts are closest on, and over the spine of 2020 (``of 2020``), on which the Bureau measured.
``best``: ``configs/pl94-2010-best.toml``; ``with the prior`` of blocks, which is a choice (``docs/limits.md``). Errors are those of published counts, after non-negativity and rounding, of all levels and
kinds of areas and all queries that are measured; of blocks by size and by what most of their people are, too. Beside them stand those that
the Bureau published of its own run where it did.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, CONFIG_BEST, METRICS, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import both, published
from benchmarks.published_errors import COMPARED, bureau, counted
from das import spec as specification
from das.engine import Silent, executor
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

RUNS = {
    "production": (CONFIG, ("geography.spine=tabulation", "estimation.method=topdown")),
    "of 2020": (CONFIG, ("geography.spine=optimized", "estimation.method=topdown")),
    "best": (CONFIG_BEST, ()),
    "best, with the prior": (CONFIG_BEST, ("estimation.prior=housing",)),
}
#: Beside production: how much smaller the mean absolute error of what is counted must be, at most this part of it.
BARS = {
    ("Tract", "total", None): 0.6, ("Tract", "votingage", 1): 0.35, ("Block_Group", "total", None): 0.85,
    ("County", "hispanic * cenrace", None): 0.6, ("Place", "total", None): 0.3, ("SLDL", "total", None): 0.3,
    ("Block", "total", None): 0.75,
}  # fmt: skip
#: Levels where no query's root mean square error may be more than this part of production's.
LEVELS, WORST = ("Tract", "Block_Group", "Block"), 1.03
#: Classes of blocks by their true number of people.
SIZES = ((0, 0), (1, 9), (10, 49), (50, 99), (100, 249), (250, 499), (500, None))
MOSTLY = ("hispanic", "cenrace")
Errors = Mapping[tuple[str, str], NDArray[np.int64]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.best", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run", action="append", choices=list(RUNS), help="some of the runs alone")
    parser.add_argument("--set", action="append", default=[], dest="changes", help="changes to the best configuration")
    given = parser.parse_args(arguments)
    figures, data = Figures("best"), shared_data(RHODE_ISLAND)
    if data is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    found: dict[str, list[Errors]] = {}
    with executor(given.workers) as pool:
        for name in given.run or list(RUNS):
            config, changes = RUNS[name]
            changes = (*changes, *(given.changes if name == "best" else ()))
            spec = specification.parse(config.read_text(encoding="utf-8"), where=str(config), overrides=changes)
            prepared = prepare(spec, [data], Stages(), Silent())
            for seed in range(1, given.repeats + 1):
                found.setdefault(name, []).append(dict(_errors(spec, prepared, seed, pool)))
    _print(figures, found)


def _errors(
    spec: RunSpec, prepared: Prepared, seed: int, pool: Executor
) -> Iterator[tuple[tuple[str, str], NDArray[np.int64]]]:
    """Published less true, ``(units, answers)``, by level or kind of area and query; and of the blocks of each class."""
    schema = spec.persons.schema
    lowest = published(spec, prepared, seed, pool)
    queries = dict.fromkeys(d.query for d in spec.persons.plan.draws) | {"total": None, "votingage": None}
    for kind, true, out in both(prepared, spec.persons.name, lowest):
        for name in queries:
            query = schema.query(name)
            yield (kind, name), out.answer(query) - true.answer(query)
        if kind in {c.level for c in COMPARED}:
            known = dict(counted(true))
            for what, n in counted(out):
                yield (kind, f"official: {what}"), (n - known[what])[:, None]
        if kind == prepared.spine.levels[-1]:
            error = (out.answer(schema.query("total")) - true.answer(schema.query("total")))[:, 0]
            for says, blocks, of in _classes(schema, true):
                yield (says, "total"), error[blocks][:, None]
                if of is not None:
                    query, answer = schema.query(of[0]), of[1]
                    yield (says, f"these in {of[0]}"), (out.answer(query) - true.answer(query))[blocks, answer][:, None]


def _classes(schema: Schema, blocks: Histogram) -> Iterator[tuple[str, NDArray[np.bool_], tuple[str, int] | None]]:
    """Of blocks by size, and by the group that more than half of their people are of, which is the query and answer."""
    people = blocks.totals()
    for low, high in SIZES:
        says = f"blocks of {low} to {high}" if high is not None else f"blocks of {low} or more"
        yield says, (people >= low) & (people <= (high if high is not None else people.max())), None
    for name in MOSTLY:
        query = schema.query(name)
        counts = blocks.answer(query)
        for answer, says in enumerate(query.captions()):
            some = (people > 0) & (2 * counts[:, answer] > people)
            if some.sum() >= 50:
                yield f"blocks that are mostly {says}", some, (name, answer)


def _print(figures: Figures, found: Mapping[str, Sequence[Errors]]) -> None:
    path = shared_data(METRICS)
    official = {} if path is None else {(c.level, f"official: {c.counted}"): (c, t) for c, t in bureau(path).items()}
    base = found.get("production", [])
    for name, runs in found.items():
        for key in runs[0]:
            if key[1].startswith("official: ") and key not in official:
                continue
            more: dict[str, object] = {}
            if key in official:
                c, theirs = official[key]
                more = {"bureau": theirs.mae, "bureau_of": f"{theirs.units:,} {c.of or c.level} of the nation"}
            for answer in (None, *((1,) if (*key, 1) in BARS else ())):
                _line(figures, name, runs, base if name != "production" else [], key, answer, more)
    for name in (n for n in found if base and n.startswith("best")):
        for level in LEVELS:
            ratio = {q: _three(found[name], (k, q), None)[1] / b for k, q in found[name][0] if k == level
                     and not q.startswith("official: ") and (b := _three(base, (k, q), None)[1])}  # fmt: skip
            worst = max(ratio, key=ratio.__getitem__)
            figures(f"{name} beside production: {level}, the worst of {len(ratio)} queries", ratio[worst],
                    "ratio of root mean square errors", at_most=WORST, query=worst)  # fmt: skip


def _line(
    figures: Figures, name: str, runs: Sequence[Errors], base: Sequence[Errors], key: tuple[str, str], answer: int | None,
    more: dict[str, object],
) -> None:  # fmt: skip
    """One figure and, where it has one, its bar."""
    mae, rmse, bias = _three(runs, key, answer)
    says = f"{key[0]}, {'18 and over' if answer else key[1]}"
    theirs = _three(base, key, answer) if base else (0.0, 0.0, 0.0)
    if theirs[0]:
        more = more | {"beside_production": mae / theirs[0], "rmse_beside_production": rmse / theirs[1]}
    figures(f"{name}: {says}", mae, "persons (mean absolute error)", rmse=rmse, bias=bias, runs=len(runs), **more)
    if not theirs[0] or not name.startswith("best"):
        return
    of_class = key[0].startswith(("blocks of", "blocks that"))
    if (*key, answer) in BARS or of_class:
        figures(f"{name} beside production: {says}", mae / theirs[0], "ratio of errors",
                at_most=1.0 if of_class else BARS[(*key, answer)], bias=bias, bias_of_production=theirs[2])  # fmt: skip


def _three(runs: Sequence[Errors], key: tuple[str, str], answer: int | None) -> tuple[float, float, float]:
    """Mean absolute and root mean square error, and bias, of all answers or of one; means over runs."""
    each = [(r[key] if answer is None else r[key][:, answer]).astype(float) for r in runs]
    return (float(np.mean([np.abs(e).mean() for e in each])), float(np.mean([np.square(e).mean() for e in each]) ** 0.5),
            float(np.mean([e.mean() for e in each])))  # fmt: skip


if __name__ == "__main__":
    main()
