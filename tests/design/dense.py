"""What the models of :mod:`das.design` should say, by one dense matrix: every cell of every lowest
unit a variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import null_space

from das.design.model import Array, Choices, Estimand, Model
from das.model import tabulation
from das.model.areas import Areas
from das.model.constraint import LevelBounds
from das.model.measured_spine import MeasuredSpine
from das.model.schema import Schema
from das.model.spine import Spine
from tests.oracles import dense


def choices(tree: MeasuredSpine, pairs: Sequence[tuple[str, str]]) -> Choices:
    """Draws over a tree, with the classes of its units."""
    if tree.alike:
        return Choices.alike(pairs, "all")
    return Choices(
        tuple(pairs),
        {p: held for p, held in tabulation.classes(tree.spine.levels, tree.paths).items() if held},
    )


def inside(spine: Spine, level: str) -> Array:
    """Which lowest units lie in which unit of a level, ``(units, lowest units)``."""
    home = spine.up(spine.levels[-1], level)
    return (home[None, :] == np.arange(spine.units(level))[:, None]).astype(float)


@dataclass(frozen=True, eq=False)
class DenseTree:
    """``allowed`` ``(lowest units, cells)``; ``settled`` ``(totals, lowest units)``: the lowest
    units of each known total. ``every``: as :class:`das.design.recursion.Recursion` has it."""

    schema: Schema
    tree: MeasuredSpine
    measurements: Choices
    allowed: NDArray[np.bool_]
    settled: Array
    every: bool
    areas: Mapping[str, Areas]

    @staticmethod
    def of(
        schema: Schema,
        tree: MeasuredSpine,
        measurements: Choices,
        bounds: Mapping[str, LevelBounds],
        areas: Mapping[str, Areas],
        allowed: NDArray[np.bool_] | None = None,
    ) -> DenseTree:
        """``allowed``: the cells of published units, in place of those of the bounds."""
        spine = tree.spine
        lowest = bounds[spine.levels[-1]].dense()
        settled = [np.zeros((0, spine.units(spine.levels[-1])))]
        for level in spine.levels:
            if bounds[level].total is not None:
                settled.append(inside(spine, level))
            if (joint := bounds[level].joint) is not None:
                part = (joint.part == np.arange(len(joint.total))[:, None]).astype(float)
                settled.append(part @ inside(spine, level))
        possible = (lowest.upper[:, lowest.group] > 0) & lowest.possible
        return DenseTree(
            schema,
            tree,
            measurements,
            possible if allowed is None else allowed,
            np.concatenate(settled),
            allowed is not None,
            areas,
        )

    def rows(self, units: Array, query: str) -> Array:
        """Answers ``(units x answers, free cells)`` of some sums of lowest units ``(units, lowest
        units)``.
        """
        all_cells = np.kron(units, dense(self.schema, self.schema.query(query))).astype(np.float64)
        return all_cells[:, np.flatnonzero(self.allowed.ravel())]

    @cached_property
    def _measured(self) -> list[Array]:
        """The Gram matrix of each class measurement."""
        out = []
        for k, query in self.measurements.members:
            level, unit_class = self.measurements.places[k]
            rows = self.rows(
                inside(self.tree.spine, level)[self.tree.classes(level)[unit_class]], query
            )
            out.append(rows.T @ rows)
        return out

    @cached_property
    def _directions(self) -> Array:
        """What may vary, given what is known."""
        known = self.rows(self.settled, "total")
        return null_space(known) if known.any() else np.eye(known.shape[1])

    def settles_more(self) -> bool:
        """Whether known totals settle more of some unit, or of some of those whose total is known
        together, than its total.
        """
        for units in (
            *(inside(self.tree.spine, level) for level in self.tree.spine.levels),
            self.settled,
        ):
            for one in units:
                rows = self.rows(one[None], "detailed")
                rows = rows[rows.any(axis=1)]
                if not len(rows):
                    continue
                vary = rows @ self._directions
                total = np.abs(vary.sum(axis=0)).max(initial=0.0) < 1e-9
                if len(rows) - np.linalg.matrix_rank(vary, tol=1e-9) > total:
                    return True
        return False

    def covariance(self, precision: Array) -> Array:
        n = self._directions
        x = sum(
            (p * g for p, g in zip(precision, self._measured, strict=True)),
            np.zeros((len(n), len(n))),
        )
        return n @ np.linalg.solve(n.T @ x @ n, n.T)

    def asked(self, estimand: Estimand) -> Array:
        """The answers that an estimand is a mean over, ``(answers, free cells)``."""
        spine = self.tree.spine
        if estimand.areas:
            areas = self.areas[estimand.place]
            units = np.zeros((len(areas), spine.units(spine.levels[-1])))
            area, unit = areas.over(self.tree)
            units[area, unit] = 1.0
            return self.rows(
                units if estimand.some is None else units[list(estimand.some)], estimand.query
            )
        rows = self.rows(inside(spine, estimand.place), estimand.query)
        return rows if self.every else rows[rows.any(axis=1)]

    def variances(self, precision: Array, estimands: Sequence[Estimand]) -> Array:
        covariance = self.covariance(precision)
        return np.array(
            [np.einsum("ij,jk,ik->i", r, covariance, r).mean() for r in map(self.asked, estimands)]
        )


def check_gradient(
    model: Model,
    precision: Array,
    rng: np.random.Generator,
    *,
    euler: float = 1e-8,
    least: float = 0.0,
) -> None:
    """Against central differences by some of the measurements, and against Euler: variances fall as
    fast as precisions grow. Of estimands with more than the ``least`` variance."""
    some = model.variances(precision) > least
    weight = np.where(some, rng.uniform(0.2, 2.0, len(model.estimands)), 0.0)
    f, h = model.gradient(precision, weight)
    assert np.allclose(f, model.variances(precision), rtol=1e-12, atol=0)

    def value(p: Array) -> float:
        return float(weight[some] @ np.log(model.variances(p)[some]))

    assert (h >= -1e-9 * np.abs(h).max()).all()
    assert abs(h @ precision - weight.sum()) < euler * weight.sum()
    step = 1e-4 * precision
    for i in rng.permutation(len(precision))[:6]:
        move = np.where(np.arange(len(precision)) == i, step, 0.0)
        slope = (value(precision - move) - value(precision + move)) / (2 * step[i])
        assert abs(slope - h[i]) < 1e-4 * abs(h[i]) + 1e-7 / precision[i], (i, slope, h[i])
