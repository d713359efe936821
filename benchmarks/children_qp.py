"""``das.solve.children_qp`` next to Clarabel and OSQP, on problems like those of redistricting
data.

All run on one core, at the same accuracy: each solver's answer, made feasible, is at most 1e-6
above the least known objective. Each ratio is given twice. One is to a peer with the same matrices
as ``children_qp``. The other is to the peer at its best, which can use a sparse form that we made
from the queries (:mod:`benchmarks.peers.quadratic`). Seconds are of the processor; a ratio is the
median over the problems. The last part compares small problems solved together with the same
problems one by one."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.common import Figures, Timing, short, timed
from benchmarks.peers import PeerUnavailable, ask, environment
from benchmarks.problems import Array, Problem, Shape, problem
from das.model.solution import Solution
from das.solve import ChildrenQP, children_qp, children_qps

#: Blocks of a block group, tracts of a county, counties of a large state (sizes over six orders of
#: magnitude).
BLOCKS = Shape("Block", 30, 70, 1_400, 1.2)
TRACTS = Shape("Tract", 60, 180, 240_000, 0.4)
COUNTIES = Shape("County", 254, 1_500, 25e6, 2.4)
#: Most families: a few blocks, and few cells.
FEW = Shape("Block", 12, 26, 300, 1.2)
#: How many times faster a batch of this size is than its problems one by one.
BATCH, GAIN = 500, 2.0
#: How many times faster than each peer.
TARGETS = {BLOCKS: {"clarabel": 50.0, "osqp": 20.0}, TRACTS: {"clarabel": 30.0, "osqp": 30.0}}
#: What the peers are given, and which of the peers' forms that is.
FORMS = {"same matrices": "dense", "better of two forms": "either"}
TOL = 1e-6
LONGEST = 60.0


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.children_qp", description=__doc__)
    parser.add_argument(
        "--problems", type=int, default=3, help="random problems of 30 x 70 (fewer of 60 x 180)"
    )
    parser.add_argument(
        "--peer-limit", type=float, default=120.0, help="seconds that OSQP may take"
    )
    given = parser.parse_args(arguments)
    figures = Figures("children_qp")
    try:
        python: Path | None = environment("quadratic", ("clarabel", "osqp", "numpy", "scipy"))
    except PeerUnavailable as why:
        python = None
        figures.skipped("ratios to Clarabel and OSQP", str(why))
    for shape, problems in ((BLOCKS, given.problems), (TRACTS, 1 + given.problems // 4)):
        _compare(figures, shape, problems, python, given.peer_limit)
    _large(figures)
    _company(figures)


def _solve(p: Problem, repeats: int) -> tuple[Solution, Timing]:
    found: list[Solution] = []
    t = timed(lambda: found.append(children_qp(p.gram, p.rhs, p.parent, tol=TOL)), repeats)
    return found[-1], t


def _compare(
    figures: Figures, shape: Shape, problems: int, python: Path | None, limit: float
) -> None:
    label = f"{shape.children} x {shape.cells}"
    ratios: dict[tuple[str, str], list[float]] = {(s, f): [] for s in TARGETS[shape] for f in FORMS}
    ours, worst = [], 0.0
    for seed in range(problems):
        p = problem(shape, seed)
        solution, t = _solve(p, 5)
        ours.append(t.cpu)
        worst = max(worst, solution.gap)
        if python is None:
            continue
        try:
            tries, best = _ask(python, p, limit)
        except PeerUnavailable as why:
            figures.skipped(f"{label}, problem {seed}: peers", str(why))
            continue
        x, least = solution.x.astype(float), p.objective(best)
        figures(
            f"{label}, problem {seed}: objective above the best known",
            (p.objective(x) - least) / abs(least),
            "relative",
            at_most=TOL,
            gap=solution.gap,
            iterations=solution.iterations,
            seconds=t.cpu,
            condition=p.condition,
            persons_off=float(np.abs(x - best).max()),
            peers=tries,
        )
        for solver, form in ratios:
            of = [
                y for y in tries if y["solver"] == solver and FORMS[form] in (y["form"], "either")
            ]
            equal = [
                y for y in of if y["excess"] <= TOL
            ]  # where none got there, its time is a lower bound
            ratios[solver, form].append(min(y["seconds"] for y in equal or of) / t.cpu)
    figures(f"{label}: seconds", median(ours), "s", problems=problems, worst_gap=worst)
    for (solver, form), each in ratios.items():
        if each:
            figures(
                f"{label}: times faster than {solver}, {form}",
                median(each),
                "times",
                at_least=TARGETS[shape][solver],
                each=each,
            )


def _ask(python: Path, p: Problem, limit: float) -> tuple[list[dict[str, Any]], Array]:
    """What the peers say of a problem, and the best answer known."""
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "problem.npz")
        parts = {f"{k}{i}": v for i, a in enumerate(p.answers) for k, v in vars(a).items()}
        np.savez(file, gram=p.gram, rhs=p.rhs, parent=p.parent, queries=len(p.answers), **parts)
        tries = ask(python, "quadratic.py", file, str(limit))
        return [{k: short(v) for k, v in y.items()} for y in tries], np.load(file + ".best.npy")


def _large(figures: Figures) -> None:
    label = f"{COUNTIES.children} x {COUNTIES.cells}"
    p = problem(COUNTIES, 0)
    sizes = np.rint(p.answers[0].values).max(axis=1)
    solution, t = _solve(p, 1)
    figures(
        f"{label}: seconds",
        t.cpu,
        "s",
        at_most=LONGEST,
        iterations=solution.iterations,
        condition=p.condition,
        smallest_child=float(sizes.min()),
        largest_child=float(sizes.max()),
        wall_seconds=t.seconds,
    )
    figures(
        f"{label}: relative duality gap",
        solution.gap,
        "relative",
        at_most=TOL,
        status=solution.status.value,
    )


def _company(figures: Figures) -> None:
    label = f"{BATCH} of {FEW.children} x {FEW.cells}"
    problems = [
        ChildrenQP(p.gram, p.rhs, p.parent) for p in (problem(FEW, seed) for seed in range(BATCH))
    ]
    alone: list[Solution] = []
    together: list[Solution] = []
    one_by_one = timed(lambda: alone.extend(children_qps([p], tol=TOL)[0] for p in problems), 1)
    at_once = timed(lambda: together.extend(children_qps(problems, tol=TOL)), 1)
    figures(
        f"{label}: times faster together",
        one_by_one.cpu / at_once.cpu,
        "times",
        at_least=GAIN,
        alone=one_by_one.cpu,
        together=at_once.cpu,
        iterations=sum(s.iterations for s in together),
    )
    apart = sum(a.x.tobytes() != b.x.tobytes() for a, b in zip(alone, together, strict=True))
    figures(f"{label}: answers that are not the same to the last bit", apart, "problems", at_most=0)


if __name__ == "__main__":
    main()
