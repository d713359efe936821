"""Least squares of many families at once: each asks for its problems one after the other, all are
answered together.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from das.estimate.estimator import Array, Estimator
from das.estimate.family import Family
from das.model.solution import Certificate, Solution
from das.solve import ChildrenQP, children_qps

#: The problems of one family, and what comes of their solutions.
Steps = Generator[ChildrenQP, Solution, tuple[Array, Certificate]]


class LeastSquaresEstimator(Estimator):
    """One that asks for solutions, to a relative duality gap of ``accuracy``."""

    accuracy: float

    def steps(self, family: Family) -> Steps:
        """Yields each problem of the family, and is sent its solution."""
        raise NotImplementedError

    def estimate(self, family: Family) -> tuple[Array, Certificate]:
        return self.estimates([family])[0]

    def estimates(self, families: Sequence[Family]) -> list[tuple[Array, Certificate]]:
        return solve_jointly([self.steps(family) for family in families], self.accuracy)


def solve_jointly(families: Sequence[Steps], accuracy: float) -> list[tuple[Array, Certificate]]:
    """What comes of each of the families, whose first problems are solved together, then their
    second ones, and so on.
    """
    said: dict[int, tuple[Array, Certificate]] = {}
    solutions: dict[int, Solution | None] = dict.fromkeys(range(len(families)))
    while solutions:
        problems: dict[int, ChildrenQP] = {}
        for i, solution in solutions.items():
            try:
                problems[i] = next(families[i]) if solution is None else families[i].send(solution)
            except StopIteration as end:
                said[i] = end.value
        solutions = dict(
            zip(problems, children_qps(list(problems.values()), tol=accuracy), strict=True)
        )
    return [said[i] for i in range(len(families))]
