"""The least squares of one pass over one family (:mod:`das.estimate.outer`), query by query."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.estimate.shares import SharedOut
from das.model.frozen import Frozen

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: Weight of what is taken for granted where nothing was measured, as a share of what was.
_WEAK = 1e-2


@dataclass(frozen=True, eq=False)
class PassEquations(Frozen):
    """The ``index`` of each query on the variables, and its ``weight`` ``(queries, children)``. The
    right-hand side is ``rhs`` ``(children, variables)``; ``answers`` are what each query should be,
    ``(children, answers)``. ``seen``: what the answers say of the
    spread about shares (:meth:`das.estimate.shares.SharedOut.deviations`)."""

    index: tuple[Ints, ...]
    weight: Floats
    rhs: Floats
    answers: tuple[Floats, ...] = ()
    seen: Floats = field(default_factory=lambda: np.zeros(3))

    @staticmethod
    def nothing(children: int) -> PassEquations:
        """Of no variable."""
        return PassEquations((), np.zeros((0, children)), np.zeros((children, 0)))


@dataclass
class EquationsInMaking:
    """The equations of variables that each child is ``able`` to have or not, ``(children,
    variables)``, as far as queries were added. ``own`` and ``precision`` are of the answers of one
    variable alone: the sum of their weights, and of weight times answer."""

    able: Mask

    def __post_init__(self) -> None:
        self.index, self.weights, self.answers = list[Ints](), list[Floats](), list[Floats]()
        self.rhs, self.own, self.precision = (np.zeros(self.able.shape) for _ in range(3))

    def add(self, of: Ints, weight: Floats, answers: Floats) -> None:
        """A query: the answer ``of`` each variable, or -1, and the weight of each child.
        ``answers``: what was measured, ``(children, answers)``, or 0."""
        said = weight[:, None] * answers[:, of] * (of >= 0)
        alone = (np.bincount(of[of >= 0]) == 1)[of] & (of >= 0)
        self.rhs += said
        self.own += said * alone
        self.precision += weight[:, None] * alone
        self.index.append(of)
        self.weights.append(weight)
        self.answers.append(answers)

    def weak(self) -> Floats:
        """A small weight for children that are not measured for each variable by itself,
        ``(children,)``."""
        most = max((float(w.max()) for w in self.weights), default=0.0) or 1.0
        untold = (self.able & (self.precision == 0)).any(axis=1)
        return np.where(untold, _WEAK * most, 0.0)

    def equations(self, shared: SharedOut, pull: Floats, *, looks: bool) -> PassEquations:
        """With the distance from the parent's shares, of the weight ``pull`` ``(children,)``;
        where it ``looks``, with what is seen of the spread about them."""
        seen = shared.deviations(self.own, self.precision) if looks else np.zeros(3)
        if pull.any():
            self.rhs += pull[:, None] * shared.expected
            self.index.append(np.arange(self.able.shape[1]))
            self.weights.append(pull)
            self.answers.append(shared.expected)
        return PassEquations(
            tuple(self.index), np.array(self.weights), self.rhs, tuple(self.answers), seen
        )
