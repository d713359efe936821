r"""Sums of children that are shared out as their parent's are, and the prior of shares
(:class:`das.model.post_processing.SharesPrior`).

*The model.* In a pass of :mod:`das.estimate.outer` a child c has the sum :math:`n_{cg}` of the cells
of a group g. The parent has the share :math:`p_k` of the group's people in cell k, and the children
together :math:`N_g` people. The prior expects :math:`s_{ck} = n_{cg} p_k`. Its covariance within a
group is a times the multinomial one, so a cell has the variance :math:`a\,s_{ck}(1 - p_k)`, and
:math:`a (1 - n_{cg}/N_g)\,s_{ck}(1 - p_k)` if the parent is given. Without the prior a block's cells
of 0 to 3 persons have measurements with a standard deviation of 30. Least squares then puts its
people into the cells with the largest noise.

*Its weight.* The term :math:`\lambda \|x_c - s_c\|^2` has one weight for all children of a parent, so
they stay alike, and the solver needs one certificate for all. Where sums are known, a group of m
cells has m - 1 degrees of freedom. With this weight the variances of a child add up to
:math:`\sum_g (m_g - 1)/\lambda`. So

.. math:: \frac{1}{\lambda} = a\, v, \qquad
v = \frac{\sum_c \sum_k s_{ck} (1 - p_k)}{\sum_c \sum_g (m_g - 1)}

over the cells and groups where a child has somebody. As a goes to 0 the estimate goes to s; as a
goes to infinity the prior says nothing.

*The spread a* is estimated one level higher, where measurements say something: block groups about
their tract. Let m be a noisy answer of one cell with variance :math:`\sigma^2`,
:math:`x = (1 - n_{cg}/N_g)\, s_{ck} (1 - p_k)` and :math:`r = m - s_{ck}`. Then :math:`E\,r^2 -
\sigma^2 = a x`. Weighted least squares with :math:`T = x + \sigma^2`, a square's variance being
:math:`2T^2` at a = 1, give

.. math:: \hat a = \frac{\sum x (r^2 - \sigma^2) / T^2 + I_0}{\sum x^2 / T^2 + I_0}, \qquad
\text{standard error } \sqrt{\frac{2}{\sum x^2 / T^2 + I_0}},

with :math:`I_0 = 2`: one more observation of a = 1, with standard error 1, for places that are too
small. a is not below 1: persons do not vary less than if they settled alone. Outliers count in
full, so places with enclaves have a larger a, and a weaker prior. The parent's own errors raise a,
too. The sums are two numbers for each parent, so the estimate needs no further measurements, and
costs nothing. Each unit of :func:`scope` has its own a: by county, in the tree of the census."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.post_processing import SharesPrior
from das.model.spine import Spine

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

#: What is known of the spread before anything is seen, as a sum of squares over variances.
_BEFORE = 2.0
#: Persons that settle alone.
_LEAST = 1.0
#: Levels below the units that have a spread of their own: parents of parents of the lowest units.
_BELOW = 3


@dataclass(frozen=True, eq=False)
class SharedOut(Frozen):
    """Sums ``known`` ``(children, groups)``, and for each variable its ``group`` and the ``part``
    that it has of the parent's sum, ``(variables,)``."""

    known: Ints
    group: Ints
    part: Floats

    @staticmethod
    def from_parent(known: Ints, group: Ints, parent: Ints | None) -> SharedOut:
        """By the counts of the parent ``(variables,)``, or evenly where there is none."""
        of = np.ones(len(group)) if parent is None else parent.astype(float)
        return SharedOut(known, group, of / np.bincount(group, of)[group])

    @property
    def expected(self) -> Floats:
        """``(children, variables)``."""
        return self.known[:, self.group] * self.part

    @property
    def alone(self) -> Floats:
        """The variance of each count if everybody settled alone, ``(children, variables)``."""
        return self.expected * (1 - self.part)

    def mean_alone(self) -> float:
        """That of a degree of freedom; 0 where nobody is."""
        degrees = (self.known[:, self.group] > 0) @ (1 - 1 / np.bincount(self.group)[self.group])
        return float(self.alone.sum() / degrees.sum()) if degrees.any() else 0.0

    def weight(self, prior: SharesPrior, number: int, unit: int) -> Floats:
        """That of the prior, ``(children,)``: the same for all."""
        mean = self.mean_alone()
        return np.full(len(self.known), prior.weight(number, unit, mean) if mean else 0.0)

    def deviations(self, value: Floats, precision: Floats) -> Floats:
        """What noisy answers say about the spread: the two sums of the estimate, and the number of
        answers. ``precision`` ``(children, variables)``: the inverse variances; ``value``: these
        times the answers."""
        able = (precision > 0) & (self.known[:, self.group] > 0)
        noise = 1 / precision[able]
        off = value[able] * noise - self.expected[able]
        rest = 1 - self.known / np.maximum(self.known.sum(axis=0), 1)
        x = (self.alone * rest[:, self.group])[able]
        total = (x + noise) ** 2
        return np.array([(x * (off**2 - noise) / total).sum(), (x**2 / total).sum(), able.sum()])


def scope(spine: Spine) -> str:
    """The level whose units have spreads of their own.

    Raises:
        InputError: the tree has fewer than three levels."""
    if len(spine.levels) < _BELOW:
        raise InputError(
            f"a tree of the levels {', '.join(spine.levels)}",
            where="prior = 'shares'",
            remedy="its weight is estimated from the level above the lowest and its parents:"
            " name three levels, or do without a prior",
        )
    return spine.levels[max(0, len(spine.levels) - _BELOW - 1)]


def shares_prior(spine: Spine, seen: Sequence[Floats]) -> SharesPrior:
    """The prior from the sums of each pass (:meth:`SharedOut.deviations`), ``(parents, 3)`` over the
    parents of the parents of the lowest units."""
    level = scope(spine)
    home = spine.up(spine.levels[-_BELOW], level)
    sums = np.zeros((len(seen), spine.units(level), 3))
    for number, each in enumerate(seen):
        np.add.at(sums[number], home, each)
    information = sums[:, :, 1] + _BEFORE
    spread = np.maximum((sums[:, :, 0] + _BEFORE) / information, _LEAST)
    return SharesPrior(level, spread, np.sqrt(2 / information), sums[:, :, 2].astype(np.int64))


def joined_prior(spine: Spine, parts: Sequence[Mapping[str, NDArray[Any]]]) -> SharesPrior:
    """Of a tree, from those of its subtrees (:meth:`SharesPrior.to_arrays`), each with the ``code``
    of every unit."""
    order = np.argsort(np.concatenate([p["code"] for p in parts]))
    names = [name for name in parts[0] if name != "code"]
    together = {n: np.concatenate([p[n] for p in parts], axis=1)[:, order] for n in names}
    return SharesPrior(scope(spine), **together)
