"""Reconstruction: the attack of Dinur and Nissim, and the attack on our own published tables
(docs/explanation/reconstruction.md).

There are three parts. The first compares the box-constrained least squares with SciPy's, Clarabel's
and OSQP's at equal accuracy, and its results with theory. The second reconstructs everybody's
record from published tables: of the shipped extract, or of Rhode Island (``--rhode-island``). The
third is the question that the guarantee answers: how much more often is a person found *because* of
the own record?

For one person in every block a coin decides whether the own record is replaced. The replacement is
somebody else's record, of the same kind of dwelling in the same state. A second run has the coins
turned over. So each person is looked for once with the own record and once without, and the others
have the same distribution, as the guarantee assumes."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from time import process_time

import numpy as np
from scipy.optimize import lsq_linear

from benchmarks.common import CONFIG, RHODE_ISLAND, ROOT, Figures, no_data, shared_data, timed
from benchmarks.peers import PeerUnavailable, ask, environment
from benchmarks.table_attack import (
    attacked,
    count_at,
    guess,
    most_often_right,
    published_by,
    variance,
)
from das import spec as specification
from das.engine import Silent
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.release.opened import open_release
from das.runs import pipeline
from das.stages import Stages
from das.truth.preparation import Prepared, prepare
from studies.jason import box_least_squares
from studies.jason import experiments as jason
from studies.jason.bits import Noise, laplace

BUDGETS = ("1/10", "293764/114921", "1000")
SHIPPED = ROOT / "data" / "pl94_2010"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.reconstruction", description=__doc__
    )
    parser.add_argument("--bits", type=int, default=400)
    parser.add_argument(
        "--trials", type=int, default=10, help="of Dinur and Nissim's attack, for each figure"
    )
    parser.add_argument(
        "--rho", nargs="*", default=list(BUDGETS), help="budgets of the attack on tables"
    )
    parser.add_argument(
        "--rhode-island", action="store_true", help="a whole state, a minute a budget and run"
    )
    given = parser.parse_args(arguments)
    figures = Figures("reconstruction")
    with tempfile.TemporaryDirectory() as folder:
        for noise in (laplace(0.1), Noise("little", "normal", 1.0)):
            _solver(figures, noise, given.bits, Path(folder))
        _theory(figures, given.bits, given.trials)
        data = shared_data(RHODE_ISLAND) if given.rhode_island else SHIPPED
        if data is None:
            figures.skipped("attack on tables", no_data(RHODE_ISLAND))
            return
        _tables(figures, data, given.rho, Path(folder))


# --- Dinur and Nissim
# ----------------------------------------------------------------------------------------


def _solver(figures: Figures, noise: Noise, bits: int, folder: Path) -> None:
    rng = np.random.default_rng(1)
    queries = 2 * bits
    q = rng.integers(0, 2, (queries, bits)).astype(float)
    a = q @ rng.integers(0, 2, bits) + noise.draw(rng, queries)
    found: list[box_least_squares.BoxSolution] = []

    def ours() -> None:
        found.append(box_least_squares.solve(q.T @ q, (q.T @ a)[None]))

    t = timed(ours, 3)
    began = process_time()
    theirs = lsq_linear(q, a, (0, 1))
    seconds = {"scipy lsq_linear": process_time() - began}
    excess = {"scipy lsq_linear": 0.0}
    best = float(theirs.cost)
    path = folder / "box.npz"
    np.savez(path, q=q, a=a)
    try:
        python = environment("quadratic", ["clarabel", "osqp", "numpy", "scipy"])
        lines = ask(python, "box.py", str(path))
        seconds |= {line["solver"]: line["seconds"] for line in lines}
        excess |= {line["solver"]: line["objective"] for line in lines}
        best = min([best, *(line["objective"] for line in lines)])
    except PeerUnavailable as why:
        figures.skipped("Clarabel and OSQP", str(why))
    x = found[-1].x[0]
    own = float(0.5 * np.sum((q @ x - a) ** 2))
    for peer, s in seconds.items():
        value = excess[peer] or float(theirs.cost)
        figures(
            f"box least squares, {bits} bits, {queries} queries, noise {noise.deviation:.3g}: times"
            f" faster than {peer}",
            s / t.cpu,
            "ratio",
            at_least=3,
            seconds=t.cpu,
            theirs=s,
            excess=(own - best) / best,
            their_excess=(value - best) / best,
            iterations=found[-1].iterations,
        )


def _theory(figures: Figures, bits: int, trials: int) -> None:
    rng = np.random.default_rng(2)
    began = process_time()
    points = jason.figure_5_7(trials, rng, bits=bits)
    off = max(abs(p.mean - (p.theory or 0.0)) for p in points)
    figures(
        "figure 5-7: farthest from theory",
        off,
        "fraction of bits",
        at_most=0.03,
        bits=bits,
        trials=trials,
        points=len(points),
        cpu_seconds=process_time() - began,
    )
    for p in points:
        figures(
            f"figure 5-7: epsilon {p.epsilon:g} a query, {p.queries // bits} queries a bit",
            p.mean,
            "fraction of bits",
            theory=p.theory,
            total_epsilon=p.total,
            bits=bits,
        )
    needed = jason.figure_4_2(trials, rng, sizes=(50, 100, 200, 400))
    figures(
        "figure 4-2: slope",
        jason.slope(needed),
        "queries a bit",
        at_most=0.56,
        jason=0.5,
        needed=[p.queries for p in needed],
    )


# --- the published tables
# ------------------------------------------------------------------------------------


def _tables(figures: Figures, data: Path, budgets: Sequence[str], folder: Path) -> None:
    spec = specification.parse(CONFIG.read_text(encoding="utf-8"), where=str(CONFIG))
    prepared = prepare(spec, [data], Stages(), Silent())
    for rho in budgets:
        run = _run(prepared, rho, folder / "all")
        began = process_time()
        r = attacked(run)
        figures(
            f"records recovered from the published tables, rho {r.cost:.4g}",
            r.attack.agreement,
            "of persons",
            baseline=r.baseline.agreement,
            face_value=r.face_value.agreement,
            allowed=r.allowed,
            expected=r.attack.expected,
            precision=list(r.attack.precision),
            uniques=r.attack.uniques,
            uniques_found=r.attack.uniques_found,
            uniques_found_by_baseline=r.baseline.uniques_found,
            claims_right=r.attack.claims_right,
            claims_right_by_baseline=r.baseline.claims_right,
            cpu_seconds=process_time() - began,
        )
        _canaries(figures, prepared, rho, folder)


def _run(prepared: Prepared, rho: str, folder: Path) -> Path:
    text = CONFIG.read_text(encoding="utf-8")
    spec = specification.parse(
        text, where=str(CONFIG), overrides=(f"budget.rho={rho}", "output.report=false")
    )
    out = folder / rho.replace("/", "_")
    pipeline.run_prepared(spec, prepared, out)
    return out


def _canaries(figures: Figures, prepared: Prepared, rho: str, folder: Path) -> None:
    """The same persons, asked for in a run that has their records and in one that has others in
    their place.
    """
    persons = specification.parse(CONFIG.read_text(encoding="utf-8"), where=str(CONFIG)).persons
    lowest = prepared.spine.levels[-1]
    truth = prepared.truth["persons"][lowest].open(
        "to replace some records and see whether they are found less often"
    )
    rng = np.random.default_rng(3)
    unit, cell, other = _chosen(truth, prepared.spine, persons.schema, rng)
    own = rng.random(len(unit)) < 0.5
    found = []
    for name, kept in (("heads", own), ("tails", ~own)):
        changed = _replaced(truth, unit[~kept], cell[~kept], other[~kept])
        without = replace(prepared, lowest={**prepared.lowest, "persons": Confidential(changed)})
        found.append(_found(_run(without, rho, folder / name), unit, cell, truth))
    # of the n in the cell one has gone: the attacker is right about it if he still claims n
    p1, p0 = np.where(own, *found), np.where(own, *reversed(found))
    alone = count_at(truth, unit, cell) == 1
    cost = float(Fraction(rho))
    for who, these in (("persons", np.ones_like(alone)), ("unique persons", alone)):
        without_it = float(p0[these].mean())
        figures(
            f"{who} found with the own record less without it, rho {cost:.4g}",
            float((p1 - p0)[these].mean()),
            "of persons",
            with_it=float(p1[these].mean()),
            without_it=without_it,
            persons=int(these.sum()),
            standard_error=float((p1 - p0)[these].std() / these.sum() ** 0.5),
            allowed=most_often_right(
                without_it, cost, persons.plan.mechanism, persons.plan.neighbours
            ),
        )


def _chosen(
    truth: Histogram, spine: Spine, schema: Schema, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """One person of every unit that has any, and the record of another of the state in the same
    kind of dwelling.
    """
    person = rng.permutation(np.repeat(np.arange(len(truth.count)), truth.count))
    mine = person[np.unique(truth.unit[person], return_index=True)[1]]
    state = spine.up(spine.levels[-1], spine.levels[1])[truth.unit]
    kind = state * schema.cells + schema.level_of(schema.dwelling or "")[truth.cell]
    by_kind = {int(k): person[kind[person] == k] for k in np.unique(kind[mine])}
    other = np.array([truth.cell[rng.choice(by_kind[int(kind[p])])] for p in mine])
    return truth.unit[mine], truth.cell[mine], other


def _replaced(truth: Histogram, unit: np.ndarray, cell: np.ndarray, other: np.ndarray) -> Histogram:
    one = np.ones_like(unit)
    return Histogram.from_triplets(
        truth.units,
        truth.cells,
        np.concatenate([truth.unit, unit, unit]),
        np.concatenate([truth.cell, cell, other]),
        np.concatenate([truth.count, -one, one]),
    )


def _found(run: Path, unit: np.ndarray, cell: np.ndarray, truth: Histogram) -> np.ndarray:
    """The chance that each person is among those named: records claimed over persons who have that
    record.
    """
    opened = open_release(run / "release")
    g = guess(published_by(opened), opened.spine, variance(opened))
    claims = Histogram.from_triplets(
        truth.units, truth.cells, g.unit, g.cell, np.ones(len(g.unit), dtype=np.int64)
    )
    return np.minimum(1.0, count_at(claims, unit, cell) / count_at(truth, unit, cell))


if __name__ == "__main__":
    main()
