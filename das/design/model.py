"""What the optimizer needs from a model of the estimates: variances, and the gain from a little
more precision."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.model import tabulation
from das.model.budget import ALL
from das.model.measured_spine import MeasuredSpine

# What may be drawn, and with which precision the units of each class are then measured.
#
# An allocation gives :math:`\rho_{lq}` to query q of level l: the level has :math:`S_l = \sum_q
# \rho_{lq}`. Units of class k, whose first level is t and which hold the shares of some levels
# :math:`l \in k` (:mod:`das.model.tabulation`), are measured with
#
# .. math:: p_{kq} = Y_k\,\rho_{tq}/S_t, \qquad Y_k = \sum_{l \in k} S_l .
#
# Without only children each class holds its own level alone, and :math:`p = \rho`.
#
# *Steps.* With :math:`h = -\partial F/\partial p` the share of level l deserves :math:`G_l = \sum_{k
# \ni l} \sum_q h_{kq}\, \rho_{tq}/S_t`, and query q within it :math:`H_{lq} = \sum_{k: t = l} Y_k
# h_{kq}`; so :math:`\rho_{lq}` is multiplied by
# :math:`m_{lq} = G_l H_{lq}/\sum_q (\rho_{lq}/S_l) H_{lq}`, and :math:`\sum \rho m = \sum p h`.
#
# *Bound.* :math:`p_{kq} = \rho_{tq} + (Y_k - S_t)\,\rho_{tq}/S_t`, so for every allocation
# :math:`\sum_{kq} h_{kq} p_{kq} \le \sum_{lq} c_{lq} \rho_{lq}` with
#
# .. math:: c_{lq} = \sum_{k: t = l} h_{kq} + \sum_{k \ni l,\ t \ne l} \max_{q'} h_{kq'} .

Array = NDArray[np.float64]
LevelQuery = tuple[str, str]


@dataclass(frozen=True)
class Choices:
    r"""``pairs`` ``(J,)``: level and query of each measurement, level by level, root first.
    ``classes``: of each level and class of units that is measured the levels whose shares it holds,
    its own among them (:func:`das.model.tabulation.classes`). Class draws ``(I,)`` are those of each
    class in turn. ``each``: the precision that one rho buys, :math:`1/\sigma^2`: 1 where records
    are replaced, 2 where they are added or removed; p and what follows from it is that many times
    as much."""

    pairs: tuple[LevelQuery, ...]
    classes: Mapping[LevelQuery, tuple[str, ...]]
    each: float = 1.0

    @staticmethod
    def alike(pairs: Sequence[LevelQuery], unit_class: str, each: float = 1.0) -> Choices:
        """All units of a level in one class."""
        levels = dict.fromkeys(level for level, _ in pairs)
        return Choices(tuple(pairs), {(level, unit_class): (level,) for level in levels}, each)

    @staticmethod
    def over(pairs: Sequence[LevelQuery], tree: MeasuredSpine, each: float = 1.0) -> Choices:
        """The choices for the units of a tree, in its classes."""
        levels = tree.spine.levels
        if tree.alike:
            return Choices.alike(pairs, ALL, each)
        if not tree.shares:  # another publisher's
            return Choices.alike(pairs, tabulation.MEASURED, each)
        held = {
            place: some for place, some in tabulation.classes(levels, tree.paths).items() if some
        }
        return Choices(tuple(pairs), held, each)

    @cached_property
    def levels(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(level for level, _ in self.pairs))

    @cached_property
    def level(self) -> NDArray[np.intp]:
        """The number of each measurement's level, ``(J,)``."""
        return np.array([self.levels.index(lv) for lv, _ in self.pairs], dtype=np.intp)

    @cached_property
    def places(self) -> tuple[LevelQuery, ...]:
        """Level and class of each class, ``(K,)``: those without a measurement are left out."""
        return tuple(place for place in self.classes if place[0] in self.levels)

    @cached_property
    def members(self) -> tuple[tuple[int, str], ...]:
        """Class and query of each class measurement, ``(I,)``."""
        return tuple(
            (k, q)
            for k, (level, _) in enumerate(self.places)
            for lv, q in self.pairs
            if lv == level
        )

    @cached_property
    def of_class(self) -> NDArray[np.intp]:
        """The class of each class measurement, ``(I,)``."""
        return np.array([k for k, _ in self.members], dtype=np.intp)

    @cached_property
    def of_pair(self) -> NDArray[np.intp]:
        """The measurement whose share of its level each class measurement has, ``(I,)``."""
        at = {pair: j for j, pair in enumerate(self.pairs)}
        return np.array([at[self.places[k][0], q] for k, q in self.members], dtype=np.intp)

    @cached_property
    def _holds(self) -> NDArray[np.bool_]:
        """Which levels' shares a class holds, ``(K, levels)``."""
        held = [self.classes[place] for place in self.places]
        return np.array([[level in some for level in self.levels] for some in held], dtype=bool)

    @cached_property
    def _own(self) -> NDArray[np.bool_]:
        """Which level a class begins at, ``(K, levels)``."""
        return np.array(
            [[level == at for level in self.levels] for at, _ in self.places], dtype=bool
        )

    @property
    def separate(self) -> bool:
        """Whether each class holds the share of its own level alone."""
        return all(len(held) == 1 for held in self.classes.values())

    @cached_property
    def lowest(self) -> tuple[str, ...]:
        """The levels that some lowest units are measured at, root first: their own, and those of
        chains that end with it."""
        ends = {place[0] for place in self.places if self.levels[-1] in self.classes[place]}
        return tuple(level for level in self.levels if level in ends)

    def _sums(self, rho: Array) -> tuple[Array, Array, Array]:
        """S of each level, Y of each class, and each measurement's share of its level."""
        level = np.bincount(self.level, weights=rho, minlength=len(self.levels)).astype(np.float64)
        share = np.divide(
            rho, level[self.level], out=np.zeros_like(rho), where=level[self.level] > 0
        )
        return level, self._holds @ level, share

    def precision(self, rho: Array) -> Array:
        """p of each class measurement, ``(I,)``."""
        _, of_class, share = self._sums(rho)
        return self.each * of_class[self.of_class] * share[self.of_pair]

    def slope(self, rho: Array) -> Array:
        r"""The derivatives of p by :math:`\rho`, ``(I, J)``."""
        if self.separate:
            return self.each * (self.of_pair[:, None] == np.arange(len(rho))[None, :])
        level, of_class, share = self._sums(rho)
        mine = share[self.of_pair][:, None]
        own = self.level[self.of_pair]
        whole = np.divide(
            of_class[self.of_class], level[own], out=np.zeros(len(own)), where=level[own] > 0
        )
        within = (self.of_pair[:, None] == np.arange(len(rho))[None, :]) - (
            own[:, None] == self.level[None, :]
        ) * mine
        held = self._holds[self.of_class][:, self.level]
        return np.asarray(self.each * (held * mine + whole[:, None] * within), dtype=np.float64)

    def multiplier(self, rho: Array, h: Array) -> Array:
        """m of each measurement, ``(J,)``."""
        _, of_class, share = self._sums(rho)
        h = self.each * h
        deserved = self._holds.T @ np.bincount(
            self.of_class, weights=h * share[self.of_pair], minlength=len(self.places)
        )
        within = np.bincount(self.of_pair, weights=of_class[self.of_class] * h, minlength=len(rho))
        mean = np.bincount(self.level, weights=share * within, minlength=len(self.levels))[
            self.level
        ]
        return np.asarray(
            deserved[self.level] * np.divide(within, mean, out=np.ones_like(rho), where=mean > 0)
        )

    def most(self, h: Array) -> Array:
        """c of each measurement, ``(J,)``."""
        h = self.each * h
        best = np.zeros(len(self.places))
        np.maximum.at(best, self.of_class, h)
        others = (self._holds & ~self._own).T @ best
        return np.bincount(self.of_pair, weights=h, minlength=len(self.pairs)) + others[self.level]


#: A matrix has no inverse, except for rounding error, if its trace is this many times its least
#: eigenvalue.
SINGULAR = 1e14
#: What is left of a difference of this part of its terms, or less, is rounding error.
ROUNDING = 1e-13


@dataclass(frozen=True)
class Estimand:
    """What is to be estimated: a query of the units of a level, or of the areas of a ``kind`` (with
    ``some``, only of these, by their numbers). Its variance is that of one answer, the mean over
    answers and units, or areas."""

    place: str
    query: str
    areas: bool = False
    some: tuple[int, ...] | None = None
    says: str = ""

    def __str__(self) -> str:
        return f"{self.place}{f' ({self.says})' if self.says else ''}:{self.query}"


class Model(Protocol):
    """Variances of the best linear unbiased estimates of some estimands from everything that is
    measured, before non-negativity."""

    @property
    def measurements(self) -> Choices: ...

    @property
    def estimands(self) -> tuple[Estimand, ...]: ...

    def variances(self, precision: Array) -> Array:
        """f ``(estimands,)`` for the precisions of the class measurements ``(I,)``: 0 where an
        estimand is known exactly.

        Raises:
            SpecError: the measurements of some lowest units do not tell their cells apart."""
        ...

    def gradient(self, precision: Array, weight: Array) -> tuple[Array, Array]:
        r"""f, and :math:`h_i = -\sum_a w_a\,\partial \log f_a/\partial p_i \ge 0` ``(I,)``, for
        weights ``(estimands,)``."""
        ...

    def gradients(
        self, precision: Array, weights: Array, tick: Callable[[], None]
    ) -> tuple[Array, Array]:
        """The gradients for several weights at one place, ``(n, estimands) -> (n, I)``; ``tick`` is
        called after each."""
        ...


def inverse(precision: Array) -> Array:
    """The inverses of matrices ``(..., d, d)``, with next to nothing along directions without
    information."""
    scale = np.maximum(np.trace(precision, axis1=-2, axis2=-1), 1e-300)[..., None, None]
    return np.asarray(np.linalg.inv(precision + 1e-15 * scale * np.eye(precision.shape[-1])))


def check_told(precision: Array, inverse: Array) -> None:
    """Raises :class:`SpecError` where a matrix ``(..., d, d)`` of the lowest units' measurements
    has no inverse."""
    most = SINGULAR / np.maximum(np.trace(precision, axis1=-2, axis2=-1), 1e-250)
    if not (np.diagonal(inverse, axis1=-2, axis2=-1).max(axis=-1) < most).all():
        raise SpecError(
            "nothing that is drawn tells some cells of the lowest units apart",
            where="budget.queries",
            remedy="measure 'detailed' there, and where only children are bypassed above them",
        )


def given_total(c: Array) -> Array:
    """What covariances ``(..., d, d)`` are once the sum of the d is known: C - C11'C/1'C1, and 0
    where that is rounding error."""
    moved = c.sum(axis=-1)
    rest = c - moved[..., :, None] * moved[..., None, :] / moved.sum(axis=-1)[..., None, None]
    return np.where(np.abs(rest) > ROUNDING * np.abs(c), rest, 0.0)
