"""What the optimizer of shares promises, and whether runs on Rhode Island keep it.

``random problems``: how wide the widest gap is, and what a general solver finds of the same
problems. ``least``: the smallest share of production's rho that keeps every target as exact as it
is, with its certificate and the time it takes: for a nation of which only the numbers of units are
known, and over the real tree of Rhode Island. ``spare``: the State total's share spent anew by the
targets ``policy``; published errors of full information beside those of production's shares, on the
same seeds. ``cells``: root mean square errors of these runs beside the deviations that the cell
model predicts from one release."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from time import perf_counter

import numpy as np

from benchmarks.common import CONFIG, RHODE_ISLAND, ROOT, Figures, no_data, shared_data
from benchmarks.published import both, bounds, published
from das import spec as specification
from das.design import trees
from das.design.model import Choices, Estimand
from das.design.optimize import optimize
from das.design.target_set import AccuracyTarget, TargetSet
from das.engine import Silent, executor
from das.model.histogram import Histogram
from das.spec import RunSpec, budget_toml
from das.spec.parts import BudgetPart
from das.stages import Stages
from das.tools.planning import ground as plan_ground
from das.tools.planning import optimizing
from das.tools.planning.target_file import read_targets, target_set_of
from das.truth.preparation import Prepared, prepare
from tests.design.random_problems import make, solved

UNITS = (
    1,
    52,
    3221,
    73057,
    217740,
    6_500_000,
)  #: the last is assumed: blocks in which somebody lives
CELLS, FULL = "hispanic * cenrace", "votingage * hispanic * cenrace"
#: What policy asks for (``configs/targets/policy.toml``), with blocks, which must not become worse.
POLICY = (
    ("State", CELLS),
    ("State", FULL),
    *(
        (level, q)
        for level in ("County", "Tract")
        for q in ("total", "votingage", CELLS, FULL, "hhgq")
    ),
    *(("Block_Group", q) for q in ("total", "votingage", CELLS, FULL)),
    ("Block", "total"),
    ("Block", FULL),
)
MARGINALS = (
    "total",
    "votingage",
    "hispanic",
    "cenrace",
    CELLS,
    "votingage * cenrace",
    "votingage * hispanic",
    FULL,
)
#: Mean absolute errors, or root mean square ones, that spending the spare third may leave of
#: production's.
SPARE = {
    ("Tract", "total", None): 0.82,
    ("Tract", "votingage", 1): 0.40,
    ("Block_Group", "total", None): 0.90,
}
LEVELS = ("Tract", "Block_Group", "Block")
Errors = Mapping[tuple[str, str, int | None], tuple[float, float]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strategy", description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=3, help="runs of each of the two allocations"
    )
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--problems", type=int, default=2000, help="random problems to solve")
    given = parser.parse_args(arguments)
    figures, data = Figures("strategy"), shared_data(RHODE_ISLAND)
    _random(figures, given.problems)
    spec = _spec("geography.spine=tabulation", "estimation.method=full-information")
    _nation(figures, spec)
    if data is None:
        figures.skipped("Rhode Island", no_data(RHODE_ISLAND))
        return
    began = perf_counter()
    ground = plan_ground.of_data(spec, spec.persons.name, [data], Silent())
    found = optimizing.optimum(spec.persons, _least(POLICY), ground)
    figures(
        "least, Rhode Island, policy list",
        found.value,
        "of production's rho",
        at_most=0.6458 * 1.01,
        bound=found.bound,
        steps=found.steps,
    )
    figures("least, Rhode Island, policy list: time", perf_counter() - began, "seconds", at_most=60)
    spare = _spare(figures, spec, ground)
    prepared = prepare(spec, [data], Stages(), Silent())
    with executor(given.workers) as pool:
        runs = {
            name: [_run(s, prepared, seed, pool) for seed in range(1, given.repeats + 1)]
            for name, s in (("production", spec), ("spare", spare))
        }
    errors = {name: [e for e, _ in found] for name, found in runs.items()}
    _compare(figures, errors)
    _cells(
        figures, {"production": spec, "spare": spare}, prepared, runs["production"][0][1], errors
    )


def _random(figures: Figures, count: int) -> None:
    """Nine tenths of numbers of units, the others of trees with areas; further seeds than the tests
    have.
    """
    widest, above, below = 0.0, 0.0, 0.0
    for i in range(count):
        case = make(1000 + i, "tree" if i % 10 == 9 else "numbers")
        found, other = optimize(case.problem, 1e-3, 400), solved(case)
        ratio = (
            np.array([found.value, found.bound]) / other
            if found.least
            else np.exp([found.value - other, found.bound - other])
        )
        widest, above = max(widest, found.gap), max(above, float(ratio[0]) - 1)
        below = max(below, float(ratio[1]) - 1)
    figures("random problems: the widest gap", widest, "relative", at_most=1e-3, problems=count)
    figures(
        "random problems: above what sequential quadratic programming finds",
        above,
        "relative",
        at_most=1e-3,
    )
    figures("random problems: a bound above what it finds", below, "relative", at_most=1e-5)


def _spec(*changes: str) -> RunSpec:
    return specification.parse(
        CONFIG.read_text(encoding="utf-8"), where=str(CONFIG), overrides=changes
    )


def _least(pairs: Sequence[tuple[str, str]], keep: Sequence[tuple[str, str]] = ()) -> TargetSet:
    return TargetSet(
        "least", tuple(AccuracyTarget(Estimand(*pair)) for pair in pairs), keep=tuple(keep)
    )


def _nation(figures: Figures, spec: RunSpec) -> None:
    """Numbers of units alone; group quarters are left out, for these are households."""
    u = spec.persons
    ground = plan_ground.of_units(spec, u, UNITS)
    every = [
        (level, q)
        for level in u.plan.levels
        for q in MARGINALS
        if q != "total" or level not in ("US", "State")
    ]
    kept = [
        ("State", q) for q in ("total", "hhgq", "hhinstlevels")
    ]  # among households these are one query
    policy = [pair for pair in POLICY if pair[1] != "hhgq"]
    for says, pairs, keep, expected, near, most in (
        ("policy list", policy, (), 0.6489, 0.0005, 1.0),
        ("all 46 pairs", every, (), 0.6751, 0.001, 10.0),
        ("policy list, State total kept", policy, kept, 0.973, 0.001, 1.0),
        ("all 46 pairs, State total kept", every, kept, 0.9997, 0.001, 10.0),
    ):
        began = perf_counter()
        found = optimizing.optimum(u, _least(pairs, keep), ground)
        figures(
            f"least, nation, {says}",
            abs(found.value - expected),
            f"from {expected}",
            at_most=near,
            of_rho=found.value,
            bound=found.bound,
            steps=found.steps,
        )
        figures(f"least, nation, {says}: time", perf_counter() - began, "seconds", at_most=most)


def _spare(figures: Figures, spec: RunSpec, ground: plan_ground.TreeKnowledge) -> RunSpec:
    """Production with the State total's share spent anew."""
    path = ROOT / "configs" / "targets" / "policy.toml"
    written = read_targets(path.read_text(encoding="utf-8"), where=str(path))
    u = spec.persons
    target_set = target_set_of(
        written, "spare", (), u.schema, spec.geography.levels, ground.measurements.pairs, str(path)
    )
    found = optimizing.optimum(u, target_set, ground)
    figures(
        "spare, Rhode Island",
        found.value,
        "geometric mean of the targets' variances beside now",
        bound=found.bound,
    )
    budget = tomllib.loads(budget_toml(spec, u.name, found.plan))["budget"]
    return _with(spec, budget)


def _with(spec: RunSpec, budget: Mapping[str, object]) -> RunSpec:
    changed = spec.model_copy(update={"budget": BudgetPart.model_validate(budget)})
    for name in ("universes", "after", "terms"):
        changed.__dict__.pop(name, None)
    return changed


def _run(spec: RunSpec, prepared: Prepared, seed: int, pool: Executor) -> tuple[Errors, Histogram]:
    """By level, query and answer, or all answers, the mean absolute and mean square error; and what
    was published of the lowest units.
    """
    lowest = published(spec, prepared, seed, pool)
    schema = spec.persons.schema
    queries = [
        schema.query(q) for q in dict.fromkeys(d.query for d in _spec().persons.plan.measurements)
    ]
    out: dict[tuple[str, str, int | None], tuple[float, float]] = {}
    for kind, true, counts in both(prepared, spec.persons.name, lowest):
        if kind not in prepared.spine.levels:
            continue
        for q in queries:
            off = (counts.answer(q) - true.answer(q)).astype(float)
            for answer in (None, *((1,) if (kind, q.name, 1) in SPARE else ())):
                e = off if answer is None else off[:, answer]
                out[kind, q.name, answer] = float(np.abs(e).mean()), float(np.square(e).mean())
    return out, lowest


def _rmse(runs: Sequence[Errors], key: tuple[str, str]) -> float:
    return float(np.mean([r[(*key, None)][1] for r in runs]) ** 0.5)


def _compare(figures: Figures, errors: Mapping[str, Sequence[Errors]]) -> None:
    before, after = errors["production"], errors["spare"]
    for (level, query, answer), most in SPARE.items():
        of = [
            float(np.mean([r[level, query, answer][0] for r in runs])) for runs in (after, before)
        ]
        name = f"spare: {level}, {'18 and over' if answer else query}"
        figures(
            name,
            of[0] / of[1],
            "ratio of mean absolute errors",
            at_most=most,
            spare=of[0],
            production=of[1],
        )
    key = ("County", CELLS)
    figures(
        f"spare: County, {CELLS}",
        _rmse(after, key) / _rmse(before, key),
        "ratio of root mean square errors",
        at_most=0.65,
    )
    for level in LEVELS:
        ratio = {
            q: _rmse(after, (level, q)) / b
            for lv, q, answer in before[0]
            if lv == level and answer is None and (b := _rmse(before, (level, q)))
        }
        worst = max(ratio, key=ratio.__getitem__)
        figures(
            f"spare: {level}, the worst of {len(ratio)} queries",
            ratio[worst],
            "ratio of root mean square errors",
            at_most=1.03,
            query=worst,
        )


def _cells(
    figures: Figures,
    specs: Mapping[str, RunSpec],
    prepared: Prepared,
    earlier: Histogram,
    errors: Mapping[str, Sequence[Errors]],
) -> None:
    """Predicted from the cells that one release has, whose errors are among those held against
    it.
    """
    ratios: dict[tuple[str, str, str], float] = {}
    for name, spec in specs.items():
        u = spec.persons
        tree = prepared.trees[u.name]
        draws = Choices.over([(d.level, d.query) for d in u.plan.plain], tree)
        asked = [
            Estimand(level, q)
            for level, q, answer in errors[name][0]
            if level in LEVELS and answer is None
        ]
        model = trees.of_cells(u.schema, tree, bounds(spec, prepared), earlier, draws, asked, {})
        rho = np.array([float(d.cost) for d in u.plan.plain])
        for a, f in zip(asked, model.variances(draws.precision(rho)), strict=True):
            if f > 0:
                ratios[name, a.place, a.query] = _rmse(errors[name], (a.place, a.query)) / float(
                    np.sqrt(f)
                )
    values = np.array(list(ratios.values()))
    least, most = min(ratios, key=ratios.__getitem__), max(ratios, key=ratios.__getitem__)
    figures(
        "cells: runs beside the model, the least",
        float(values.min()),
        "ratio",
        at_least=0.95,
        of=" ".join(least),
    )
    figures(
        "cells: runs beside the model, the most",
        float(values.max()),
        "ratio",
        at_most=1.95,
        of=" ".join(most),
    )
    figures(
        "cells: runs beside the model, the middle one",
        float(np.median(values)),
        "ratio",
        at_least=1.0,
    )
    figures(
        "cells: runs beside the model, the middle one, at most",
        float(np.median(values)),
        "ratio",
        at_most=1.35,
    )


if __name__ == "__main__":
    main()
