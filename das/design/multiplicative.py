r"""The first steps towards the best allocation. Each costs one gradient, and most problems need no
others.

Let :math:`\lambda_a` be multipliers of the limits. A step multiplies :math:`x_j` by what a little
more of draw j is worth (:meth:`das.design.choices.Choices.multiplier`), and brings x back to its
sum. It multiplies :math:`\lambda_a` by :math:`f_a/t_a`. Where limits bind on many draws at once
such steps stall; then :mod:`das.design.newton` goes on.

Source: multiplicative steps of optimal design, Titterington 1976 and Yu 2010. For these criteria
they were monotone in every trial; that is not proved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das.design.problem import Array, Incumbent, Problem, View

#: What the multipliers of limits sum to at first, next to weights that sum to 1; and at most.
_FIRST, _DEAREST = 1e-2, 1e6
#: How much of the free part all measurements have alike at first.
_SPREAD = 0.01
#: What the least share of a measurement is on the way, which may yet grow.
_NEGLIGIBLE = 1e-8
#: The steps in which what is missing has to fall to half.
_PATIENCE = 25
#: The multipliers move half as fast as the allocation: together they would circle.
_DUAL = 0.5


def steps(problem: Problem, incumbent: Incumbent, gap: float, most: int) -> None:
    """Until ``gap`` is reached, until they stall, or ``most`` of them."""
    search = _Search.of(problem)
    before = np.inf
    for number in range(1, most + 1):
        view = search.evaluate()
        found = incumbent.see(view)
        if incumbent.done(gap) or not search.x.any():
            return
        if number % _PATIENCE == 0:
            if found.missing > before / 2 or not np.isfinite(found.missing):
                return
            before = found.missing
        search.move(view)


@dataclass
class _Search:
    """The free part ``x`` and the multipliers of the limits."""

    problem: Problem
    x: Array
    multiplier: Array

    @staticmethod
    def of(problem: Problem) -> _Search:
        limited = problem.limited / max(problem.limited.sum(), 1)
        return _Search(
            problem, problem.spread(_SPREAD), limited * (1.0 if problem.least else _FIRST)
        )

    def evaluate(self) -> View:
        problem = self.problem
        rho = problem.kept + self.x
        p = problem.model.measurements.precision(rho)
        f, h = problem.model.gradient(p, problem.weight + self.multiplier)
        return View(
            rho, f, problem.over(f), p, np.maximum(h, 0.0), self.multiplier.copy()
        )  # h is no less, except for rounding

    def move(self, view: View) -> None:
        total, some = self.problem.room, self.multiplier > 0
        if self.problem.least:  # towards limits that are met on the average
            total = float(self.x.sum() * np.exp(self.multiplier[some] @ view.over[some]))
        least = np.where(self.x > 0, _NEGLIGIBLE * total, 0.0)
        self.x = self.x * self.problem.model.measurements.multiplier(view.rho, view.h)
        self.x = np.maximum(self.x * (total / self.x.sum()), least)
        self.multiplier[some] *= np.exp(np.clip(view.over[some], -1.0, 1.0) * _DUAL)
        most = 1.0 if self.problem.least else _DEAREST
        if self.problem.least or self.multiplier.sum() > most:
            self.multiplier *= most / self.multiplier.sum()
