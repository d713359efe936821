"""The best and the fair configuration next to the Bureau's method with its own allocation, on Rhode
Island. Between any two data sets all are at the same epsilon and delta. Between data sets that
agree on what is published exactly, the best is not (``docs/explanation/strategy-results.md``).

``production``: ``configs/pl94-2010.toml`` with top-down estimation. It runs over two spines: that
of tabulation, where its block groups and tracts are most accurate, and that of 2020 (``of 2020``),
on which the Bureau measured. ``best``: ``configs/pl94-2010-best.toml``; ``corrected`` of
blocks, which is optional (``docs/explanation/limits.md``). ``fair``: ``configs/pl94-2010-fair.toml``. Every
level and query that is worse than production's is listed, with the standard error of the ratio.

Errors are those of published counts, after non-negativity and rounding. They cover all levels, all
kinds of areas and all measured queries; blocks also by size and by what most of their people are.
The errors that the Bureau published for its own run are added."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import (
    CONFIG,
    CONFIG_BEST,
    CONFIG_FAIR,
    METRICS,
    RHODE_ISLAND,
    Figures,
    no_data,
    shared_data,
)
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
    "best, corrected": (CONFIG_BEST, ("estimation.bias=corrected",)),
    "fair": (CONFIG_FAIR, ()),
}
#: What a table has, by its words: level or kind of area, query, and one answer or all.
LINES = {
    "total, county": ("County", "total", None),
    "Hispanic origin, county": ("County", "hispanic", None),
    "Hispanic origin by race, county": ("County", "hispanic * cenrace", None),
    "total, tract": ("Tract", "total", None),
    "18 and over, tract": ("Tract", "votingage", 1),
    "Hispanic origin by race, tract": ("Tract", "hispanic * cenrace", None),
    "total, block group": ("Block_Group", "total", None),
    "by voting age, block group": ("Block_Group", "votingage", None),
    "Hispanic origin by race, block group": ("Block_Group", "hispanic * cenrace", None),
    "total, block": ("Block", "total", None),
    "Hispanic origin by race, block": ("Block", "hispanic * cenrace", None),
    "total, town": ("County_Subdivision", "total", None),
    "total, place": ("Place", "total", None),
    "total, state-house district": ("SLDL", "total", None),
    "total, state-senate district": ("SLDU", "total", None),
    "total, congressional district": ("CD", "total", None),
}
#: Relative to production: the mean absolute error must be at most this part of it.
BARS: dict[tuple[str, str, int | None], float] = {
    ("Tract", "total", None): 0.6,
    ("Tract", "votingage", 1): 0.35,
    ("Block_Group", "total", None): 0.85,
    ("County", "hispanic * cenrace", None): 0.6,
    ("Place", "total", None): 0.3,
    ("SLDL", "total", None): 0.3,
    ("Block", "total", None): 0.75,
}
#: The same for the fair configuration.
FAIR: dict[tuple[str, str, int | None], float] = {
    ("Tract", "votingage", 1): 0.5,
    ("Tract", "total", None): 0.8,
    ("Block_Group", "total", None): 1.0,
    ("Block_Group", "votingage", None): 1.0,
    ("Block_Group", "hispanic * cenrace", None): 1.0,
}
BARS_OF = {"best": BARS, "best, corrected": BARS, "fair": FAIR}
#: Levels whose queries are listed where they are worse, and how much worse one may be.
LISTED, WORSE = ("State", "County", "Tract", "Block_Group", "Block"), 1.05
#: Levels where no query's root mean square error may be more than this part of production's.
LEVELS, WORST = ("Tract", "Block_Group", "Block"), 1.03
#: Classes of blocks by their true number of people.
SIZES = ((0, 0), (1, 9), (10, 49), (50, 99), (100, 249), (250, 499), (500, None))
MOSTLY = ("hispanic", "cenrace")
Key = tuple[
    str, str, int | None
]  #: level, kind of area or class of blocks; query; one answer, or all
Errors = Mapping[
    Key, NDArray[np.float64]
]  #: of one run: mean absolute and mean square error, and bias


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.best", description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--run", action="append", choices=list(RUNS), help="some of the runs alone")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="changes",
        help="changes to the best configuration",
    )
    parser.add_argument("--table", action="store_true", help="mean absolute errors as Markdown")
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
            spec = specification.parse(
                config.read_text(encoding="utf-8"), where=str(config), overrides=changes
            )
            prepared = prepare(spec, [data], Stages(), Silent())
            for seed in range(1, given.repeats + 1):
                found.setdefault(name, []).append(dict(_errors(spec, prepared, seed, pool)))
    if given.table:
        _table(found)
    else:
        _print(figures, found)


def _table(found: Mapping[str, Sequence[Errors]]) -> None:
    """A line of each count, a column of each run; and how many runs each column has."""
    means = {name: _means(runs) for name, runs in found.items()}
    print("| | " + " | ".join(f"{name}, {len(runs)} runs" for name, runs in found.items()) + " |")
    print("|---" * (len(found) + 1) + "|")
    for says, key in LINES.items():
        print(f"| {says} | " + " | ".join(f"{of[key][0]:.3g}" for of in means.values()) + " |")


def _errors(
    spec: RunSpec, prepared: Prepared, seed: int, pool: Executor
) -> Iterator[tuple[Key, NDArray[np.float64]]]:
    """By level or kind of area and query, and of the blocks of each class."""
    schema = spec.persons.schema
    lowest = published(spec, prepared, seed, pool)
    queries = dict.fromkeys(d.query for d in spec.persons.plan.measurements) | {
        "total": None,
        "votingage": None,
    }
    for kind, true, out in both(prepared, spec.persons.name, lowest):
        for name in queries:
            query = schema.query(name)
            yield from _three(kind, name, out.answer(query) - true.answer(query))
        if kind in {c.level for c in COMPARED}:
            known = dict(counted(true))
            for what, n in counted(out):
                yield from _three(kind, f"official: {what}", (n - known[what])[:, None])
        if kind == prepared.spine.levels[-1]:
            error = (out.answer(schema.query("total")) - true.answer(schema.query("total")))[:, 0]
            for says, blocks, of in _classes(schema, true):
                yield from _three(says, "total", error[blocks][:, None])
                if of is not None:
                    query, answer = schema.query(of[0]), of[1]
                    these = out.answer(query)[:, answer] - true.answer(query)[:, answer]
                    yield from _three(says, f"these in {of[0]}", these[blocks][:, None])


def _three(
    kind: str, query: str, off: NDArray[np.int64]
) -> Iterator[tuple[Key, NDArray[np.float64]]]:
    """Of differences ``(units, answers)``, of all answers and of one that has a bar."""
    for answer in (None, *((1,) if (kind, query, 1) in BARS | FAIR else ())):
        e = (off if answer is None else off[:, answer]).astype(float)
        yield (kind, query, answer), np.array([np.abs(e).mean(), np.square(e).mean(), e.mean()])


def _classes(
    schema: Schema, blocks: Histogram
) -> Iterator[tuple[str, NDArray[np.bool_], tuple[str, int] | None]]:
    """Of blocks by size, and by the group that more than half of their people are of, which is the
    query and answer.
    """
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
    official = (
        {}
        if path is None
        else {(c.level, f"official: {c.counted}"): (c, t) for c, t in bureau(path).items()}
    )
    means = {name: _means(runs) for name, runs in found.items()}
    base = means.get("production", {})
    for name, of in means.items():
        for key, three in of.items():
            if key[1].startswith("official: ") and key[:2] not in official:
                continue
            more: dict[str, Any] = {"runs": len(found[name])}
            if key[:2] in official:
                c, theirs = official[key[:2]]
                more |= {
                    "bureau": theirs.mae,
                    "bureau_of": f"{theirs.units:,} {c.of or c.level} of the nation",
                }
            _line(figures, name, key, three, base.get(key) if name != "production" else None, more)
    if "fair" in found and base:
        _worse(figures, found["fair"], found["production"])
    for name in (n for n in found if base and n.startswith("best")):
        for level in LEVELS:
            ratio = {
                q: three[1] / base[level, q, None][1]
                for (k, q, answer), three in means[name].items()
                if k == level
                and answer is None
                and not q.startswith("official: ")
                and base[level, q, None][1]
            }
            worst = max(ratio, key=ratio.__getitem__)
            figures(
                f"{name} beside production: {level}, the worst of {len(ratio)} queries",
                ratio[worst],
                "ratio of root mean square errors",
                at_most=WORST,
                query=worst,
            )


def _worse(figures: Figures, ours: Sequence[Errors], theirs: Sequence[Errors]) -> None:
    """Every level and query whose root mean square error is larger than production's."""
    for key in ours[0]:
        level, query, answer = key
        if level not in LISTED or answer is not None or query.startswith("official: "):
            continue
        a, b = (np.array([run[key][1] for run in runs]) for runs in (ours, theirs))
        if not b.mean() or (ratio := float(np.sqrt(a.mean() / b.mean()))) <= 1:
            continue
        spread = sum(np.var(x) / np.square(x.mean()) / max(len(x) - 1, 1) for x in (a, b))
        figures(
            f"fair is worse than production: {level}, {query}",
            ratio,
            "ratio of root mean square errors",
            at_most=WORSE,
            standard_error=ratio / 2 * float(np.sqrt(spread)),
        )


def _means(runs: Sequence[Errors]) -> dict[Key, tuple[float, float, float]]:
    """Mean absolute and root mean square error, and bias, over runs."""
    out = {}
    for key in runs[0]:
        absolute, square, bias = np.mean([r[key] for r in runs], axis=0).tolist()
        out[key] = absolute, square**0.5, bias
    return out


def _line(
    figures: Figures,
    name: str,
    key: Key,
    ours: tuple[float, float, float],
    theirs: tuple[float, float, float] | None,
    more: dict[str, Any],
) -> None:
    """One figure and, where it has one, its bar."""
    says = f"{key[0]}, {'18 and over' if key[2] else key[1]}"
    if theirs is not None and theirs[0]:
        more = more | {
            "beside_production": ours[0] / theirs[0],
            "rmse_beside_production": ours[1] / theirs[1],
        }
    figures(
        f"{name}: {says}",
        ours[0],
        "persons (mean absolute error)",
        rmse=ours[1],
        bias=ours[2],
        **more,
    )
    bars = BARS_OF.get(name)
    if theirs is None or not theirs[0] or bars is None:
        return
    of_class = key[0].startswith(("blocks of", "blocks that"))
    if key in bars or of_class:
        figures(
            f"{name} beside production: {says}",
            ours[0] / theirs[0],
            "ratio of errors",
            at_most=1.0 if of_class else bars[key],
            bias=ours[2],
            bias_of_production=theirs[2],
        )


if __name__ == "__main__":
    main()
