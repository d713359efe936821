"""Runs in the environment of Clarabel and OSQP: min 1/2 |Qx - a|^2, 0 <= x <= 1. Argument: a file
with q and a.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from time import process_time
from typing import Any

import clarabel
import numpy as np
import osqp
from scipy import sparse


def by_clarabel(gram: Any, rhs: Any) -> Any:
    n = len(rhs)
    a = sparse.vstack([sparse.eye(n), -sparse.eye(n)], format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    cones = [clarabel.NonnegativeConeT(2 * n)]
    upper = sparse.triu(sparse.csc_matrix(gram), format="csc")
    b = np.concatenate([np.ones(n), np.zeros(n)])
    return np.array(clarabel.DefaultSolver(upper, -rhs, a, b, cones, settings).solve().x)


def by_osqp(gram: Any, rhs: Any) -> Any:
    n = len(rhs)
    solver = osqp.OSQP()
    solver.setup(
        sparse.triu(sparse.csc_matrix(gram), format="csc"),
        -rhs,
        sparse.eye(n, format="csc"),
        np.zeros(n),
        np.ones(n),
        verbose=False,
        eps_abs=1e-5,
        eps_rel=1e-6,
        max_iter=50_000,
    )
    return np.array(solver.solve().x)


def main(path: str) -> None:
    data = np.load(path)
    q, a = data["q"], data["a"]
    lines = []
    for name, solve in (("clarabel", by_clarabel), ("osqp", by_osqp)):
        began = process_time()
        x = solve(q.T @ q, q.T @ a)
        seconds = process_time() - began
        x = np.clip(x, 0, 1)
        objective = float(0.5 * np.sum((q @ x - a) ** 2))
        lines.append(
            {"solver": name, "version": version(name), "seconds": seconds, "objective": objective}
        )
    print(json.dumps(lines))


if __name__ == "__main__":
    main(sys.argv[1])
