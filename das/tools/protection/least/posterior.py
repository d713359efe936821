r"""What exact coarse tables and noisy measurements of the same census tell together.

The tables are a :class:`Staircase`. The measurements say of each unit u a vector :math:`y_u` of its
counts in the groups of the finest grain, with covariance :math:`S_u`. The shares of an atom are
:math:`p`, and A says how alike its units are. Then

.. math:: \Pr(x \mid T, y) \propto \prod_{u, c} \frac{\Gamma(x_{uc} + A p_c)}{x_{uc}!}
   \prod_u \exp\left(-\tfrac12 (x_u - y_u)' S_u^{-1} (x_u - y_u)\right),

over all tables with the sums T. This is the Dirichlet-multinomial prior: without y and with A
infinite, it assigns the persons of an atom to its units at random. A unit of n persons has a count of
variance :math:`n p_c (1 - p_c)(1 + (n - 1) \rho)`, :math:`\rho = 1/(A + 1)`. So the moments of
:math:`y - n p` give one :math:`\rho` for all units (:func:`correlation`), from what is public.

*The random assignment is drawn grain by grain*: :math:`\Pr(x_h \mid x_{h-1}) \propto \prod
x_{h-1}! / \prod x_h!`, and the product of these telescopes. The mean of :math:`x_h` is linear in
:math:`x_{h-1}`, so the mean of all is the estimate of greatest entropy (:meth:`Staircase.estimates`).

*The chain.* Two units u and v exchange k people of a group c for k of a group d. Both groups lie in
one group of the grain before the first at which u and v share an atom. Such exchanges keep T, and
connect all tables with these sums (Dobra 2003). A step chooses u, v, c, d and a window of some k by
chance that does not look at x. The window holds 0, at a random place. Then k is drawn from the
posterior itself: a Gibbs step. Units are paired off, so that all pairs step at once: each changes
its own two factors alone.

*Probabilities* are means over several chains: of those that the steps draw from (Rao and Blackwell),
and, once a round, of what is. Whether a step looks at a count does not depend on x, so these means are
right. A count that seldom moves looks certain in a single chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.estimate.information import alike
from das.model.frozen import Frozen
from das.model.measurement import Measurement
from das.model.schema import Schema
from das.tools.protection.least.staircase import Staircase

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Masks = NDArray[np.bool_]

#: Counts whose probabilities are kept: 0, 1 and 2.
SMALL = 3
#: Independent chains.
CHAINS = 8
#: What the count after a round weighs, where a probability that a step drew from weighs 1.
HELD = 0.1
#: Exchanges of each pair of units before others are paired.
EXCHANGES = 8
#: Among how many numbers of people, one after the other, an exchange is chosen.
WINDOW = 16
#: The precision of a count that no measurement says anything about.
_NOTHING = 1e-6
#: The least and the largest correlation of two persons of a unit.
_RHO = (1e-9, 0.9)


@dataclass(frozen=True, eq=False)
class NoisyCounts(Frozen):
    """What measurements say of the counts of each unit: ``value`` ``(units, groups)``, the best
    estimates; their covariance ``covariance[kind]`` and its inverse ``precision[kind]``,
    ``(kinds, groups, groups)``, zero for groups that cannot have anybody."""

    value: Floats
    covariance: Floats
    precision: Floats
    kind: Ints

    @staticmethod
    def from_measurements(
        schema: Schema, measured: Sequence[Measurement], group: Ints, allowed: Masks
    ) -> NoisyCounts:
        """From all measurements of the same units. ``group``: that of each cell, ``(cells,)``;
        ``allowed``: the cells in which each unit can have people, ``(units, cells)``."""
        queries = [schema.query(m.query) for m in measured]
        variance = np.stack([m.variance for m in measured], axis=1)
        kind, first = alike(allowed, variance)
        groups = int(group.max()) + 1
        value = np.zeros((len(variance), groups))
        covariance, precision = (np.zeros((len(first), groups, groups)) for _ in range(2))
        for k, unit in enumerate(first):
            here, inside = np.flatnonzero(kind == k), np.flatnonzero(allowed[unit])
            told = np.eye(len(inside)) * _NOTHING
            for q, v in zip(queries, variance[unit], strict=True):
                told += np.equal.outer(q.index[inside], q.index[inside]) / v
            asked = np.equal.outer(np.arange(groups), group[inside]).astype(float)
            weight = np.linalg.solve(told, asked.T)
            for q, m, v in zip(queries, measured, variance[unit], strict=True):
                into = np.zeros((q.answers, groups))
                np.add.at(into, q.index[inside], weight / v)
                value[here] += m.values[here] @ into
            some = np.ix_(*2 * [np.unique(group[inside])])
            covariance[k] = asked @ weight
            precision[k][some] = np.linalg.inv(covariance[k][some])
        return NoisyCounts(value, covariance, precision, kind)

    @staticmethod
    def joined(parts: Sequence[tuple[Ints, NoisyCounts]], units: int) -> NoisyCounts:
        """Of all ``units``, from those of each part and what is known of them."""
        kinds = np.cumsum([0, *(len(p.precision) for _, p in parts)])
        value = np.zeros((units, parts[0][1].value.shape[1]))
        kind = np.zeros(units, dtype=np.int64)
        for first, (here, part) in zip(kinds, parts, strict=False):
            value[here], kind[here] = part.value, first + part.kind
        covariance = np.concatenate([p.covariance for _, p in parts])
        return NoisyCounts(value, covariance, np.concatenate([p.precision for _, p in parts]), kind)


@dataclass(frozen=True, eq=False)
class Posterior(Frozen):
    """Of each unit and group: the ``mean``, ``(units, groups)``, and the probabilities of the
    counts 0, 1 and 2, ``small`` ``(3, units, groups)``. ``apart``: how far the means of the two
    halves of the chains are from each other, as a root mean square."""

    mean: Floats
    small: Floats
    apart: float


def posterior(
    tables: Staircase, noisy: NoisyCounts, seed: int, rounds: int = 40, rho: float | None = None
) -> Posterior:
    """The posterior, from :data:`CHAINS` that begin at random assignments and pair the units
    ``rounds`` times, after half as many that are forgotten. ``rho``: instead of
    :func:`correlation`."""
    if tables.joined:
        what = "not all totals of places are printed, so both releases cannot be read together"
        raise InputError(what, where="coarse tables", remedy="give tables with totals = 0")
    rng = np.random.default_rng(seed)
    rho = correlation(tables, noisy) if rho is None else max(rho, _RHO[0])
    means = np.zeros((CHAINS, *noisy.value.shape))
    told, looks = np.zeros((SMALL, *noisy.value.shape)), np.zeros(noisy.value.shape)
    for mean in means:
        chain = _Chain(tables, noisy, rho, rng)
        for n in range(-(rounds // 2), rounds):
            if n == 0:
                chain.told[:], chain.looks[:] = 0, 0
            chain.step()
            if n >= 0:
                mean += chain.count / rounds
                chain.told += HELD * (chain.count == np.arange(SMALL)[:, None, None])
                chain.looks += HELD
        told, looks = told + chain.told, looks + chain.looks
    apart = means[::2].mean(axis=0) - means[1::2].mean(axis=0)
    return Posterior(means.mean(axis=0), told / looks, float(np.sqrt(np.mean(apart**2))))


def correlation(tables: Staircase, noisy: NoisyCounts) -> float:
    """The correlation of two persons of a unit, by weighted moments of ``y - n p``."""
    n, share = _persons(tables)[:, None], _shares(tables)[tables.atom[-1]]
    noise = np.diagonal(noisy.covariance, axis1=1, axis2=2)[noisy.kind]
    random = n * share * (1 - share)
    weight = np.where(random > 0, 1 / (noise + random + (random == 0)) ** 2, 0.0)
    more = (noisy.value - n * share) ** 2 - noise - random
    most = float((weight * random * (n - 1)).sum())
    return float(np.clip((weight * more).sum() / most, *_RHO)) if most else _RHO[0]


def assignment(tables: Staircase, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Everybody's unit, in order, and group, ``(persons,)`` both: a random assignment with these
    tables. Each unit has somebody; the others of a printed total are in its units at random."""
    size, member = np.bincount(tables.atom[0]), np.argsort(tables.atom[0], kind="stable")
    spare = tables.count[0][:, 0] - size
    at = np.repeat(np.arange(len(size)), np.where(size > 1, spare, 0))
    place = np.cumsum(size)[at] - 1 - (rng.random(len(at)) * size[at]).astype(np.int64)
    more = np.where(size > 1, 0, spare)[tables.atom[0]]
    more += np.bincount(member[place], minlength=len(more))
    unit = np.repeat(np.arange(len(more)), 1 + more)
    group = np.zeros(len(unit), dtype=np.int64)
    for h, above in enumerate(tables.chain.above, 1):
        atom, finer = (i.ravel() for i in np.indices(tables.count[h].shape))
        order = np.lexsort((above[finer], atom))
        persons = np.lexsort((rng.random(len(unit)), group, tables.atom[h][unit]))
        group[persons] = np.repeat(finer[order], tables.count[h].ravel()[order])
    return unit, group


def _persons(tables: Staircase) -> Ints:
    return tables.count[0][tables.atom[0], 0]


def _shares(tables: Staircase) -> Floats:
    """Of each finest atom's persons in each group, ``(atoms, groups)``."""
    last = tables.count[-1]
    return np.asarray(last / np.maximum(last.sum(axis=1, keepdims=True), 1))


class _Chain:
    """The state: the counts, and the slope of the log-likelihood in each, ``-P (x - y)``. ``told``:
    the sums of the probabilities of 0, 1 and 2 that steps drew from, of the ``looks`` at each."""

    def __init__(
        self, tables: Staircase, noisy: NoisyCounts, rho: float, rng: np.random.Generator
    ) -> None:
        self.noisy, self.rng, self.atom = noisy, rng, np.stack(tables.atom)
        self.count = np.zeros(noisy.value.shape, dtype=np.int64)
        np.add.at(self.count, assignment(tables, rng), 1)
        off = self.count - noisy.value
        self.told, self.looks = np.zeros((SMALL, *noisy.value.shape)), np.zeros(noisy.value.shape)
        self.slope = -(noisy.precision[noisy.kind] @ off[:, :, None])[:, :, 0]
        self.prior = (1 / rho - 1) * _shares(tables)[self.atom[-1]]
        self.group = [np.arange(noisy.value.shape[-1])]
        for above in tables.chain.above[::-1]:
            self.group.insert(0, above[self.group[0]])
        self.paired = [_with_others(a, _persons(tables)) for a in self.atom[1:]]
        root = np.sqrt(tables.count[-1])  # rare groups are chosen more often than their people are
        self.chosen = np.cumsum(root / np.maximum(root.sum(axis=1, keepdims=True), 1), axis=1)

    def step(self) -> None:
        """Pair the units within the atoms of one grain at random, and let them exchange people."""
        open_ = [h for h, units in enumerate(self.paired, 1) if len(units)]
        if not open_:
            return
        h = open_[self.rng.integers(len(open_))]
        units = self.paired[h - 1]
        units = units[np.lexsort((self.rng.random(len(units)), self.atom[h][units]))]
        atom = self.atom[h][units]
        place = np.arange(len(units)) - np.searchsorted(atom, atom)
        first = np.flatnonzero((place[:-1] % 2 == 0) & (atom[:-1] == atom[1:]))
        one, other = units[first], units[first + 1]
        before = (self.atom[:, one] == self.atom[:, other]).argmax(axis=0) - 1
        for _ in range(EXCHANGES):
            self._exchange(one, other, np.stack(self.group)[before])

    def _exchange(self, one: Ints, other: Ints, same: Ints) -> None:
        """Between pairs of units, of groups that have the ``same`` number, ``(pairs, groups)``."""
        last = self.chosen[self.atom[-1][one]]
        c, d = (
            (self.rng.random((len(one), 1)) * last[:, -1:] >= last).sum(axis=1) for _ in range(2)
        )
        pair = np.arange(len(one))
        able = (c != d) & (same[pair, c] == same[pair, d])
        one, other, c, d = one[able], other[able], c[able], d[able]
        k = np.arange(WINDOW) - self.rng.integers(WINDOW, size=(len(one), 1))
        weight = self._weight(one, c, d, k) + self._weight(other, d, c, k)
        weight = np.exp(weight - weight.max(axis=1, keepdims=True))
        weight /= weight.sum(axis=1, keepdims=True)
        for unit, group, sign in ((one, c, -1), (one, d, 1), (other, d, -1), (other, c, 1)):
            after = self.count[unit, group][:, None] + sign * k
            for n in range(SMALL):
                self.told[n, unit, group] += (weight * (after == n)).sum(axis=1)
            self.looks[unit, group] += 1
        each = np.cumsum(weight, axis=1)
        drawn = (self.rng.random((len(one), 1)) * each[:, -1:] >= each).sum(axis=1)
        moved = np.take_along_axis(k, drawn[:, None], axis=1)
        for unit, less, more in ((one, c, d), (other, d, c)):
            self.count[unit, less] -= moved[:, 0]
            self.count[unit, more] += moved[:, 0]
            p, at = self.noisy.precision[self.noisy.kind[unit]], np.arange(len(unit))
            self.slope[unit] -= moved * (p[at, more] - p[at, less])

    def _weight(self, unit: Ints, less: Ints, more: Ints, k: Ints) -> Floats:
        """The logarithm of the unit's factor where k people of ``less`` are of ``more`` instead, up
        to a constant, ``(units, window)``."""
        p, at = self.noisy.precision[self.noisy.kind[unit]], np.arange(len(unit))
        bend = p[at, less, less] + p[at, more, more] - 2 * p[at, less, more]
        slope = self.slope[unit, more] - self.slope[unit, less]
        out = k * slope[:, None] - k**2 * bend[:, None] / 2
        for group, sign in ((less, -1), (more, 1)):
            x = self.count[unit, group][:, None] + sign * k
            low = np.maximum(np.minimum(x[:, 1:], x[:, :-1]), 0)
            rise = np.log((low + self.prior[unit, group][:, None]) / (low + 1))
            out[:, 1:] += sign * np.cumsum(rise, axis=1)
            out[x < 0] = -np.inf
        return out


def _with_others(atoms: Ints, persons: Ints) -> Ints:
    """The units with people in atoms that have several of these."""
    some = np.flatnonzero(persons)
    return some[np.bincount(atoms[some], minlength=len(atoms))[atoms[some]] > 1]
