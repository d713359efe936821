r"""Quadratic programs like those of redistricting data, at random.

A parent has persons in some cells of the redistricting schema. Its children have log-normal sizes,
and noisy answers to every query of one level at the production variances. The problem is least
squares over the children,

.. math:: \min_{x \ge 0} \sum_q \frac{1}{2\sigma^2_q} \sum_c \|Q_q x_c - m_{qc}\|^2, \qquad \sum_c x_c = p,

with the constant left out: :math:`G = \sum_q Q_q'Q_q / \sigma^2_q` and :math:`b_c = \sum_q
Q_q'm_{qc} / \sigma^2_q`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG
from das import spec as specification
from das.model.redistricting import CENRACE, PL94

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Shape:
    """A kind of problem: the level measured, numbers of children and of cells, persons in the
    parent, and the spread (standard deviation of the logarithm) of the children's sizes."""

    level: str
    children: int
    cells: int
    persons: float
    spread: float


@dataclass(frozen=True)
class Answers:
    """One query: the answer that each cell is in ``(cells,)``, noisy answers ``(children,
    answers)``, 1/sigma^2.
    """

    index: NDArray[np.int64]
    values: Array
    weight: float


@dataclass(frozen=True)
class Problem:
    """``gram`` ``(cells, cells)``, ``rhs`` ``(children, cells)``, ``parent`` ``(cells,)``, and what
    they come from.
    """

    gram: Array
    rhs: Array
    parent: Array
    answers: tuple[Answers, ...]

    @property
    def condition(self) -> float:
        return float(np.linalg.cond(self.gram))

    def objective(self, x: Array) -> float:
        return float(0.5 * np.sum(x * (x @ self.gram)) - np.sum(self.rhs * x))


def problem(shape: Shape, seed: int) -> Problem:
    """One problem of a shape; a function of its arguments."""
    rng = np.random.default_rng(seed)
    cell, truth = _truth(shape, rng)
    plan = specification.parse(CONFIG.read_text(encoding="utf-8"), where=str(CONFIG)).persons.plan
    gram = np.zeros((shape.cells, shape.cells))
    rhs = np.zeros(truth.shape)
    answers = []
    for draw in plan.at(shape.level):
        known, index = np.unique(PL94.query(draw.query).index[cell], return_inverse=True)
        values: Array = np.rint(
            rng.normal(0, float(draw.parameter) ** 0.5, (shape.children, len(known)))
        )
        np.add.at(values.T, index, truth.T)
        weight = 1 / float(draw.parameter)
        gram += weight * (index[:, None] == index[None, :])
        rhs += weight * values[:, index]
        answers.append(Answers(index.astype(np.int64), values, weight))
    return Problem(gram, rhs, truth.sum(axis=0), tuple(answers))


def _truth(shape: Shape, rng: np.random.Generator) -> tuple[NDArray[np.int64], Array]:
    """The cells that the parent has somebody in, and persons ``(children, cells)``: a few cells
    hold nearly all.
    """
    races = np.array([1 + name.count("+") for name in CENRACE])[PL94.level_of("cenrace")]
    household, hispanic = PL94.level_of("hhgq") == 0, PL94.level_of("hispanic") == 1
    share = (
        0.1 ** (races - 1.0)
        * np.where(household, 1.0, 0.01)
        * np.where(hispanic, 0.2, 1.0)
        * PL94.possible
    )
    share *= np.exp(1.5 * rng.standard_normal(PL94.cells))
    cell = np.sort(np.argsort(-share)[: shape.cells])
    size = np.exp(shape.spread * rng.standard_normal(shape.children))
    mixture = size[:, None] * np.exp(0.7 * rng.standard_normal((shape.children, shape.cells)))
    expected = shape.persons * share[cell] / share[cell].sum() * mixture / mixture.sum(axis=0)
    truth = rng.poisson(expected).astype(float)
    largest = np.argmax(mixture, axis=0)
    truth[largest, np.arange(shape.cells)] += truth.sum(axis=0) == 0  # each cell has somebody
    return cell, truth
