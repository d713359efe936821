"""The same quadratic program by other means: Clarabel on the written-out problem, and
enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """min sum_c 1/2 x_c'G_c x_c - b_c'x_c, sum_c x_c = parent, x >= 0, lower <= x rows' <= upper, x
    = 0 off support, and the children c with ``parts[c] == s`` hold ``totals[s]`` together."""

    gram: Array
    rhs: Array
    parent: Array | None = None
    rows: Array | None = None
    lower: Array | None = None
    upper: Array | None = None
    support: NDArray[np.bool_] | None = None
    parts: NDArray[np.intp] | None = None
    totals: Array | None = None

    @property
    def grams(self) -> Array:
        return np.broadcast_to(self.gram, (len(self.rhs), *self.gram.shape[-2:]))

    def value(self, x: Array) -> float:
        return float(0.5 * np.einsum("ci,cij,cj->", x, self.grams, x) - (self.rhs * x).sum())

    def above(self, x: Array, y: Array) -> float:
        """``value(x) - value(y)``, without the cancellation of two large numbers."""
        return float(
            ((x - y) * (0.5 * np.einsum("cij,cj->ci", self.grams, x + y) - self.rhs)).sum()
        )

    def violation(self, x: Array) -> float:
        """The largest violation of a constraint, in persons."""
        worst = max(0.0, float((-x).max(initial=0.0)))
        if self.support is not None:
            worst = max(worst, float(np.abs(x[~self.support]).max(initial=0.0)))
        if self.parent is not None:
            worst = max(worst, float(np.abs(x.sum(axis=0) - self.parent).max(initial=0.0)))
        return max(worst, self.row_violation(x))

    @property
    def members(self) -> Array:
        """A row of 0/1 over the children for each part."""
        if self.parts is None or self.totals is None:
            return np.zeros((0, len(self.rhs)))
        return (self.parts[None, :] == np.arange(len(self.totals))[:, None]).astype(float)

    def row_violation(self, x: Array) -> float:
        worst = (
            float(np.abs(self.members @ x.sum(axis=1) - self.totals).max())
            if len(self.members)
            else 0.0
        )
        if self.rows is None:
            return worst
        held = x @ self.rows.T
        if self.lower is not None:
            worst = max(worst, float((self.lower - held).max(initial=0.0)))
        if self.upper is not None:
            worst = max(worst, float((held - self.upper).max(initial=0.0)))
        return worst

    @property
    def typical(self) -> float:
        """The geometric mean of the curvatures."""
        values = np.linalg.eigvalsh(self.grams)
        return float(np.exp(np.log(values[values > 1e-11 * values[:, -1:]]).mean()))

    def misfit(self) -> float:
        """1/2 sum_c b_c'G_c^+ b_c: with it added, the objective is the squared distance from the
        free minimum.
        """
        return float(
            sum(
                0.5 * b @ np.linalg.lstsq(g, b, rcond=None)[0] for g, b in zip(self.grams, self.rhs)
            )
        )


def clarabel_qp(p: Problem) -> Array | None:
    """The minimizer; ``None`` where Clarabel proves that there is none.

    Solved in the deviation from the minimum without bounds, so that large counts cost no digits.
    """
    children, cells = p.rhs.shape
    n = children * cells
    origin = np.stack([np.linalg.lstsq(g, b, rcond=None)[0] for g, b in zip(p.grams, p.rhs)])
    if p.parent is not None:
        origin += (p.parent - origin.sum(axis=0)) / children
    matrices, sides, cones = [], [], []

    def add(a: sp.spmatrix, b: Array, cone: type) -> None:
        if a.shape[0]:
            matrices.append(a)
            sides.append(b - a @ origin.ravel())
            cones.append(cone(a.shape[0]))

    if p.parent is not None:
        add(sp.kron(np.ones((1, children)), sp.eye(cells)).tocsr(), p.parent, clarabel.ZeroConeT)
    free = np.ones(n, bool) if p.support is None else p.support.ravel()
    add(sp.eye(n).tocsr()[~free], np.zeros((~free).sum()), clarabel.ZeroConeT)
    told = len(p.members)
    if told and p.parent is not None and p.members.any(axis=0).all():
        told -= 1  # the parent and the other parts say it already
    if told:
        add(
            sp.kron(p.members[:told], np.ones((1, cells))).tocsr(),
            p.totals[:told],
            clarabel.ZeroConeT,
        )
    if p.rows is not None:
        held = sp.kron(sp.eye(children), p.rows).tocsr()
        low = np.full((children, len(p.rows)), -np.inf) if p.lower is None else p.lower
        high = np.full((children, len(p.rows)), np.inf) if p.upper is None else p.upper
        low, high = low.ravel(), high.ravel()
        equal = low == high
        add(held[equal], low[equal], clarabel.ZeroConeT)
        add(
            held[~equal & np.isfinite(high)],
            high[~equal & np.isfinite(high)],
            clarabel.NonnegativeConeT,
        )
        add(
            -held[~equal & np.isfinite(low)],
            -low[~equal & np.isfinite(low)],
            clarabel.NonnegativeConeT,
        )
    add(-sp.eye(n).tocsr()[free], np.zeros(free.sum()), clarabel.NonnegativeConeT)
    gram = sp.block_diag(list(p.grams)).tocsc()
    linear = gram @ origin.ravel() - p.rhs.ravel()
    scale = max(1.0, float(np.abs(gram).max()))
    for accuracy in (1e-11, 1e-9, 1e-7):
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = accuracy
        settings.tol_infeas_abs = settings.tol_infeas_rel = 1e-13
        solver = clarabel.DefaultSolver(
            sp.triu(gram / scale).tocsc(),
            linear / scale,
            sp.vstack(matrices).tocsc(),
            np.concatenate(sides),
            cones,
            settings,
        )
        answer = solver.solve()
        if answer.status == clarabel.SolverStatus.Solved:
            return np.array(answer.x).reshape(children, cells) + origin
    if answer.status == clarabel.SolverStatus.PrimalInfeasible:
        return None
    raise AssertionError(f"Clarabel: {answer.status}")


def enumerated_qp(p: Problem) -> tuple[Array, float] | None:
    """The minimizer over every choice of the cells and rows that are active, for tiny definite
    problems.

    Each choice gives a linear system; the best of those whose answer is feasible is the minimum.
    """
    children, cells = p.rhs.shape
    gram = sp.block_diag(list(p.grams)).toarray()
    always = (
        []
        if p.parent is None
        else [(np.tile(np.eye(cells)[k], children), p.parent[k]) for k in range(cells)]
    )
    always += [(np.repeat(m, cells), p.totals[s]) for s, m in enumerate(p.members)]
    choices: list[list[list[tuple[Array, float]]]] = []
    for i in range(children * cells):
        zero = [(np.eye(children * cells)[i], 0.0)]
        choices.append([zero] if p.support is not None and not p.support.ravel()[i] else [[], zero])
    for c in range(children if p.rows is not None else 0):
        for g, row in enumerate(p.rows):
            a = np.zeros((children, cells))
            a[c] = row
            sides = [b[c, g] for b in (p.lower, p.upper) if b is not None and np.isfinite(b[c, g])]
            choices.append([[], *([(a.ravel(), side)] for side in dict.fromkeys(sides))])
    best: tuple[Array, float] | None = None
    for choice in product(*choices):
        active = always + [equation for part in choice for equation in part]
        a = np.array([e[0] for e in active]).reshape(len(active), children * cells)
        b = np.array([e[1] for e in active])
        whole = np.block([[gram, a.T], [a, np.zeros((len(a), len(a)))]])
        answer = np.linalg.lstsq(whole, np.concatenate([p.rhs.ravel(), b]), rcond=1e-12)[0]
        x = answer[: children * cells].reshape(children, cells)
        if p.violation(x) < 1e-7 and (best is None or p.value(x) < best[1]):
            best = (x, p.value(x))
    return best


# --- random problems
# -------------------------------------------------------------------------------------------


def partition(rng: np.random.Generator, cells: int) -> NDArray[np.intp]:
    """Some number of groups, none empty."""
    groups = int(rng.integers(1, cells + 1))
    return rng.permutation(
        np.concatenate([np.arange(groups), rng.integers(0, groups, cells - groups)])
    )


def random_problem(
    rng: np.random.Generator,
    children: int | None = None,
    cells: int | None = None,
    population: float | None = None,
    *,
    shared: bool = True,
    parent: bool = True,
    rows: str | None = None,
    singular: bool = False,
    scaled: bool = False,
    support: bool = False,
    parts: bool = False,
) -> Problem:
    """Noisy answers of random queries to a random truth, which meets every constraint.

    ``population`` is anything from one to a million. ``rows`` is ``partition`` or ``overlap``;
    ``singular`` leaves out the query that tells all cells apart; ``scaled`` mixes variances from
    0.01 to a million; ``parts`` knows the totals of some children together, and of some not at all.
    """
    children = children or int(rng.integers(1, 7))
    cells = cells or int(rng.integers(1, 13))
    people = int(population or 10 ** rng.uniform(0, 6))
    truth = (
        rng.multinomial(people, rng.dirichlet(np.full(children * cells, 0.3)))
        .reshape(children, cells)
        .astype(float)
    )
    queries = [
        np.zeros(cells, dtype=int),
        *(partition(rng, cells) for _ in range(rng.integers(1, 4))),
    ]
    if not singular:
        queries.append(np.arange(cells))
    gram, rhs = np.zeros((children, cells, cells)), np.zeros((children, cells))
    for q in queries:
        variance = np.full(children, 10 ** (rng.uniform(-2, 6) if scaled else rng.uniform(-0.5, 2)))
        if not shared:
            variance *= 10 ** rng.uniform(-0.5, 0.5, children)
        answers = np.stack([np.bincount(q, t) for t in truth])
        answers += np.rint(rng.normal(0, np.sqrt(variance)[:, None], answers.shape))
        gram += (q[:, None] == q[None, :]) / variance[:, None, None]
        rhs += answers[:, q] / variance[:, None]
    matrix = lower = upper = None
    if rows is not None:
        if rows == "partition":
            group = partition(rng, cells)
            matrix = (group[None, :] == np.arange(group.max() + 1)[:, None]).astype(float)
        else:
            matrix = np.concatenate(
                [np.ones((1, cells)), rng.random((int(rng.integers(1, 6)), cells)) < 0.5]
            )
        held = truth @ matrix.T
        lower = np.floor(held * rng.choice([0, 0.5, 0.9, 1], held.shape))
        upper = np.where(
            rng.random(held.shape) < 0.2,
            np.inf,
            np.ceil(held * rng.choice([1, 1.1, 2, 9], held.shape)),
        )
    part = together = None
    if parts:
        if (
            lower is not None
        ):  # with known totals, bounds that hold with equality leave Clarabel no interior
            lower, upper = np.minimum(lower, held - 0.5), np.maximum(upper, held + 0.5)
        part = np.unique(rng.integers(-1, children, children), return_inverse=True)[1] - int(
            rng.random() < 0.7
        )
        together = np.bincount(
            part[part >= 0], truth.sum(axis=1)[part >= 0], minlength=part.max() + 1
        )
    able = (truth > 0) | (rng.random(truth.shape) < 0.5) if support else None
    return Problem(
        gram[0] if shared else gram,
        rhs,
        truth.sum(axis=0) if parent else None,
        matrix,
        lower,
        upper,
        able,
        part,
        together,
    )
