"""Runs in the environment of Clarabel and OSQP: their times for one problem. Arguments: a file of
arrays, seconds.

Each solver gets the problem in two forms: *dense*, with the Gram matrix of the cells of each child;
*lifted*, with the answers of each query as further variables, so that all matrices are sparse.

Solvers must be equally accurate, not equally lenient. An answer is made feasible (cut off at 0,
each cell scaled to the parent), its objective taken; ``excess`` is how far that is above the best
known, relative to it. OSQP is asked for ever more accuracy until its excess is at most ``WANTED``;
its time is that of its set-up and the last solve."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from statistics import median
from time import process_time
from typing import Any

import clarabel
import numpy as np
import osqp
from scipy import sparse

WANTED = 1e-6


@dataclass
class Form:
    """min 1/2 v'Pv + q'v, Ev = e, v[:cells] >= 0; the first variables are the cells, child by
    child.
    """

    p: Any
    q: Any
    e_matrix: Any
    e: Any
    cells: int


def dense(data: Any) -> Form:
    gram, rhs, parent = data["gram"], data["rhs"], data["parent"]
    children, cells = rhs.shape
    p = sparse.block_diag([sparse.csc_matrix(gram)] * children, format="csc")
    coupling = sparse.kron(np.ones((1, children)), sparse.eye(cells), format="csc")
    return Form(p, -rhs.ravel(), coupling, parent, rhs.size)


def lifted(data: Any) -> Form:
    rhs, parent = data["rhs"], data["parent"]
    children, cells = rhs.shape
    on_cells, linear = np.zeros(cells), np.zeros(rhs.shape)
    diagonal, q, rows = [], [], []
    for i in range(int(data["queries"])):
        index, values, weight = data[f"index{i}"], data[f"values{i}"], float(data[f"weight{i}"])
        if len(np.unique(index)) == cells:
            on_cells += weight
            linear -= weight * values[:, index]
        else:
            diagonal.append(np.full(values.size, weight))
            q.append(-weight * values.ravel())
            rows.append(
                sparse.csr_matrix(
                    (np.ones(cells), (index, np.arange(cells))), (values.shape[1], cells)
                )
            )
    p = sparse.diags(np.concatenate([np.tile(on_cells, children), *diagonal]), format="csc")
    coupling = sparse.kron(np.ones((1, children)), sparse.eye(cells), format="csc")
    sums = sparse.vstack([sparse.kron(sparse.eye(children), r) for r in rows], format="csc")
    answers = sums.shape[0]
    e_matrix = sparse.bmat([[coupling, None], [sums, -sparse.eye(answers)]], format="csc")
    return Form(
        p,
        np.concatenate([linear.ravel(), *q]),
        e_matrix,
        np.concatenate([parent, np.zeros(answers)]),
        rhs.size,
    )


def by_clarabel(form: Form, tol: float) -> tuple[Any, float, int]:
    variables, equal = len(form.q), len(form.e)
    at_least = -sparse.eye(form.cells, variables, format="csc")
    a, b = (
        sparse.vstack([form.e_matrix, at_least], format="csc"),
        np.concatenate([form.e, np.zeros(form.cells)]),
    )
    cones = [clarabel.ZeroConeT(equal), clarabel.NonnegativeConeT(form.cells)]
    upper = sparse.triu(form.p, format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.tol_gap_rel = settings.tol_gap_abs = settings.tol_feas = tol
    began = process_time()
    answer = clarabel.DefaultSolver(upper, form.q, a, b, cones, settings).solve()
    return np.array(answer.x)[: form.cells], process_time() - began, answer.iterations


class Osqp:
    """One form, set up once; each solve starts cold. Seconds are of the set-up and of that
    solve.
    """

    def __init__(self, form: Form) -> None:
        a = sparse.vstack([form.e_matrix, sparse.eye(form.cells, len(form.q))], format="csc")
        lower = np.concatenate([form.e, np.zeros(form.cells)])
        upper = np.concatenate([form.e, np.full(form.cells, np.inf)])
        p, self.cells, self.solver = sparse.triu(form.p, format="csc"), form.cells, osqp.OSQP()
        began = process_time()
        self.solver.setup(
            p, form.q, a, lower, upper, verbose=False, warm_starting=False, max_iter=200_000
        )
        self.setup = process_time() - began

    def __call__(self, tol: float, limit: float) -> tuple[Any, float, int]:
        self.solver.update_settings(
            eps_abs=tol, eps_rel=tol, time_limit=max(1.0, limit - self.setup)
        )
        began = process_time()
        answer = self.solver.solve()
        return (
            np.array(answer.x)[: self.cells],
            self.setup + process_time() - began,
            int(answer.info.iter),
        )


def often(solve: Callable[[], tuple[Any, float, int]]) -> tuple[Any, float, int]:
    """A quick solve is timed three times, and its median counts."""
    x, seconds, iterations = solve()
    if seconds < 2:
        seconds = median([seconds, solve()[1], solve()[1]])
    return x, seconds, iterations


def repaired(data: Any, x: Any) -> Any:
    x = np.maximum(x.reshape(data["rhs"].shape), 0.0)
    total, parent = x.sum(axis=0), data["parent"]
    return np.where(total > 0, x * (parent / np.where(total > 0, total, 1.0)), parent / len(x))


def objective(data: Any, x: Any) -> float:
    return float(0.5 * np.sum(x * (x @ data["gram"])) - np.sum(data["rhs"] * x))


def main(path: str, limit: float) -> None:
    data = np.load(path)
    forms = {"dense": dense(data), "lifted": lifted(data)}
    best = repaired(data, by_clarabel(forms["lifted"], 1e-11)[0])
    value = objective(data, best)
    tries = []
    for name, form in forms.items():
        x, seconds, iterations = often(partial(by_clarabel, form, WANTED))
        tries.append(("clarabel", name, WANTED, x, seconds, iterations))
        by_osqp = Osqp(form)
        for tol in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
            x, seconds, iterations = often(partial(by_osqp, tol, limit))
            if (objective(data, repaired(data, x)) - value) / max(
                1.0, abs(value)
            ) <= WANTED or seconds >= limit:
                break
        tries.append(("osqp", name, tol, x, seconds, iterations))
    keys = ("solver", "version", "form", "tol", "excess", "persons_off", "seconds", "iterations")
    lines = []
    for solver, name, tol, x, seconds, iterations in tries:
        x = repaired(data, x)
        excess = (objective(data, x) - value) / max(1.0, abs(value))
        off = float(np.abs(x - best).max())
        lines.append(
            dict(zip(keys, (solver, version(solver), name, tol, excess, off, seconds, iterations)))
        )
    np.save(path + ".best.npy", best)
    print(json.dumps(lines))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
