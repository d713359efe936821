"""Families of the size of the DHC of 2020, by ``das.solve.LayeredGram``: seconds of one
core, gap and memory.

The queries are those of its persons (12, 6, 76, 4, 8, 60 and 19 answers, one of GQ types merged,
one of all cells; the sixth and seventh with four times the weight), on cells and persons that are
made up: attributes of skewed levels, most cells of a few persons. Exact sums are those of
group-quarters class, voting age, Hispanic origin and race of each child."""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Figures, timed
from das.model.solution import Solution, Status
from das.solve import ChildrenQP, LayeredGram, children_qps

Array = NDArray[np.float64]
Index = NDArray[np.intp]

#: Children and cells: a county of Rhode Island with its tract groups, 0.75 million variables; and
#: what most families are like.
LARGE, SMALL = (58, 13_000), (20, 700)
FAMILIES, TOL = 300, 1e-6
#: Seconds: of the large one; of a variable of the small ones, for 17 million variables (Rhode
#: Island) in eight minutes.
LONGEST, EACH = 60.0, 480 / 17e6
#: Standard deviations of a query's noise in the levels of 2020.
SIGMAS = (4.57, 30.2)
_HOUSEHOLD, _TYPES, _AGES, _RACES = 18, 24, 40, 63


@dataclass(frozen=True)
class Cells:
    """Levels of the attributes of some cells, ``(cells,)`` each."""

    relation: Index
    sex: Index
    age: Index
    hispanic: Index
    race: Index

    def queries(self) -> list[Index]:
        """The answer of each cell, query by query."""
        r, a = self.relation, self.age
        quarters = np.where(r < _HOUSEHOLD, 0, 1 + r % 7)
        classes, adult = np.digitize(r, [2, 18, 33]), np.digitize(a, [18, 36])
        ages = np.digitize(a, np.r_[1:15, 18:40])
        asked = [
            (adult, classes),
            (adult, self.sex),
            (ages, self.sex),
            (self.hispanic, self.sex),
            (self.sex, classes),
            (
                np.where(r < _HOUSEHOLD, 0, 1 + r % 5),
                np.digitize(a, [3, 15, 16, 17, 18, 20, 24, 26, 28]),
            ),
            (np.minimum(r, _HOUSEHOLD),),
            (
                self.hispanic,
                self.sex,
                a,
                np.where(r < _HOUSEHOLD, r, _HOUSEHOLD + quarters),
                self.race,
            ),
            (r, self.sex, a, self.hispanic, self.race),
        ]
        return [_numbered(*q) for q in asked]

    def groups(self) -> Index:
        quarters = np.where(self.relation < _HOUSEHOLD, 0, 1 + self.relation % 7)
        return _numbered(quarters, np.digitize(self.age, [18]), self.hispanic, self.race)


def family(children: int, cells: int, sigma: float, seed: int) -> ChildrenQP:
    """One family; a function of its arguments."""
    r = np.random.default_rng(seed)
    cell, truth = _truth(children, cells, r)
    queries = cell.queries()
    weight = np.full((len(queries), children), sigma**-2)
    weight[5:7] *= 4
    rhs = np.zeros(truth.shape)
    for q, w in zip(queries, weight[:, 0], strict=True):
        answers = np.stack([np.bincount(q, t) for t in truth])
        rhs += w * (answers + np.rint(r.normal(0, w**-0.5, answers.shape)))[:, q]
    group = cell.groups()
    held = np.stack([np.bincount(group, t) for t in truth]).astype(float)
    return ChildrenQP(LayeredGram(queries, weight), rhs, truth.sum(axis=0), group, held, held)


def _truth(children: int, cells: int, r: np.random.Generator) -> tuple[Cells, Array]:
    """As many persons as fill this many cells, with the home of each."""
    relation = np.concatenate([0.975 * _skewed(_HOUSEHOLD, 1.1), 0.025 * _skewed(_TYPES, 1.0)])
    age = np.concatenate(
        [np.full(18, 0.0125), 0.06 * np.exp(-(np.linspace(0, 2, _AGES - 18) ** 2))]
    )
    size = r.dirichlet(np.full(children, 1.5))
    code, child = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    while len(np.unique(code)) < cells:
        levels = [
            r.choice(len(p), cells, p=p / p.sum())
            for p in (relation, np.ones(2), age, np.array([0.85, 0.15]), _skewed(_RACES, 2.2))
        ]
        code = np.append(code, np.ravel_multi_index(levels, _SHAPE))
        child = np.append(child, r.choice(children, cells, p=size))
    some = np.sort(r.permutation(np.unique(code))[:cells])
    here = np.isin(code, some)
    truth = np.zeros((children, cells))
    np.add.at(truth, (child[here], np.searchsorted(some, code[here])), 1.0)
    return Cells(*np.unravel_index(some, _SHAPE)), truth


_SHAPE = (_HOUSEHOLD + _TYPES, 2, _AGES, 2, _RACES)


def _skewed(levels: int, power: float) -> Array:
    share = np.arange(1, levels + 1) ** -power
    return np.asarray(share / share.sum())


def _numbered(*levels: Index) -> Index:
    return np.unique(np.stack(levels), axis=1, return_inverse=True)[1].ravel()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_families", description=__doc__
    )
    parser.add_argument("--families", type=int, default=FAMILIES, help="small families")
    given = parser.parse_args(arguments)
    figures = Figures("large_families")
    for sigma in SIGMAS:
        _large(figures, sigma)
    _small(figures, given.families)


def _solved(problems: Sequence[ChildrenQP]) -> tuple[list[Solution], float]:
    found: list[Solution] = []
    time = timed(lambda: found.extend(children_qps(problems, tol=TOL)), 1)
    return found, time.cpu


def _large(figures: Figures, sigma: float) -> None:
    p = family(*LARGE, sigma, 1)
    before = _peak()
    (s,), seconds = _solved([p])
    label = f"{LARGE[0]} x {LARGE[1]}, sigma {sigma:g}"
    figures(
        f"{label}: seconds",
        seconds,
        "s",
        at_most=LONGEST,
        iterations=s.iterations,
        persons=float(p.parent.sum()),  # type: ignore[union-attr]
    )
    figures(
        f"{label}: relative duality gap",
        s.gap,
        "relative",
        at_most=TOL,
        residual=s.residual,
        status=s.status.value,
    )
    if (more := _peak() - before) > 0:  # the peak of the process: the first family's
        figures(f"{label}: memory beside the problem", more / s.x.size, "bytes a variable")


def _peak() -> float:
    return 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _small(figures: Figures, families: int) -> None:
    problems = [family(*SMALL, SIGMAS[seed % 2], seed) for seed in range(families)]
    found, seconds = _solved(problems)
    label = f"{families} of {SMALL[0]} x {SMALL[1]}"
    variables = sum(s.x.size for s in found)
    figures(
        f"{label}: seconds of a variable", seconds / variables, "s", at_most=EACH, seconds=seconds
    )
    late = sum(s.status is not Status.OPTIMAL for s in found)
    figures(
        f"{label}: not within the tolerance",
        late,
        "families",
        at_most=0,
        worst_gap=max(s.gap for s in found),
    )


if __name__ == "__main__":
    main()
