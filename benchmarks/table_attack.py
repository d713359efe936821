r"""An intruder who reads the published tables of the blocks and writes down everybody's record.

*What the tables determine.* A column is a sum of cells; a query is determined if each of its
answers is a combination of columns (:func:`determines`). P1 to P4 determine voting age by Hispanic
origin by race, 252 numbers a block; P5 with the total determines the dwelling type; nothing ties
the two. So for each block the intruder knows two things. One is a published count :math:`y_v` of
every combination :math:`v` of *traits*; the other is the persons :math:`q_g` in each type of
dwelling.

*How sure he can be.* The published count is the true one, :math:`T_v`, plus noise whose variance
:math:`s^2` is public. Before he looks at the block he expects what its surroundings have, the block
itself taken out:

.. math:: p_v^{(l)} = \frac{n^{(l)}_v - y_v + \kappa\, p_v^{(l-1)}}{n^{(l)} - y + \kappa} ,

from the root (even before it) down to the parent of the block. He assumes
:math:`T_v \sim \text{BetaBinomial}(N, A p_v, A(1 - p_v))` with :math:`N` the published population,
because neighbors are alike. Bayes' rule gives

.. math:: P[T_v = t \mid y_v] \propto P[T_v = t]\; e^{-(y_v - t)^2 / 2 s^2} .

*The guess.* A multiset with :math:`g_v` copies of each record agrees with the truth in
:math:`\sum_v \min(T_v, g_v) = \sum_v \sum_{k=1}^{g_v} [T_v \ge k]` records. Its expectation is
greatest for the :math:`N` pairs :math:`(v, k)` with the largest :math:`P[T_v \ge k \mid y]`. That
probability is the confidence of record number :math:`k`. Dwellings are dealt out by the published
counts, the commonest type to the surest records. They are taken as independent of the traits, and
structural zeros are respected.

*Two other intruders.* With :math:`s^2 = \infty` he is the *baseline*: he knows the block's
published population and dwellings, and its surroundings, but not its own traits. With
:math:`s^2 = 0` he takes the tables *at face value*."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das import tables
from das.errors import InputError, ReleaseError, UserError
from das.files.release import tables as published_tables
from das.model.budget import Neighbours
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.mechanisms import Mechanism
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.release.opened import OpenedRelease
from das.truth.assessment import truth_of

#: Persons that the composition of a level is worth as evidence for one below it (kappa).
SHRINK = 10.0
#: How alike the persons of a block are (A): small is alike.
ALIKE = 10.0
#: Records less probable than this are not guessed.
LEAST = 0.01
_WIDTH = 8.0  # standard deviations of noise on each side of a published count
_AT_ONCE = 1 << 22  # probabilities held at once

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Tables:
    """What the tables of one level say: ``traits``, a histogram of the cells of ``query``;
    ``dwellings`` ``(units, types)``; ``cell`` ``(traits, types)`` the cell of the schema that the
    two make."""

    traits: Histogram
    dwellings: Ints
    cell: Ints
    possible: NDArray[np.bool_]

    def __post_init__(self) -> None:
        if len(self.dwellings) != self.traits.units or self.cell.shape != (
            self.traits.cells,
            self.dwellings.shape[1],
        ):
            raise InputError(
                "traits, dwellings and cells do not fit together", where="table attack"
            )
        wrong = np.flatnonzero(self.dwellings.sum(axis=1) != self.traits.totals())
        if len(wrong) or self.dwellings.min(initial=0) < 0:
            raise InputError(
                f"the tables disagree on how many persons unit {wrong[:1]} has",
                where="table attack",
                remedy="give all tables of one release",
            )


@dataclass(frozen=True, eq=False)
class GuessedRecords:
    """Records, block by block and surest first: the ``nth`` (from 1) of its ``cell`` in
    ``unit``.
    """

    unit: Ints
    cell: Ints
    nth: Ints
    confidence: Floats


# --- reading
# -------------------------------------------------------------------------------------------------


def determines(columns: NDArray[np.generic], query: Query) -> Floats | None:
    """The matrix R with R columns = query, ``(answers, columns)``; ``None`` where there is none.

    ``columns`` is 0/1, ``(columns, cells)``: which cells each column of the tables adds up.
    """
    if query.answers > len(columns):
        return None
    c = columns.astype(float)
    wanted = np.zeros((query.answers, c.shape[1]))
    wanted[query.index, np.arange(c.shape[1])] = 1
    out = wanted @ c.T @ np.linalg.pinv(c @ c.T, rcond=1e-10, hermitian=True)
    return out if np.abs(out @ c - wanted).max() < 1e-7 else None


def read(columns: NDArray[np.generic], values: Ints, schema: Schema) -> Tables:
    """The traits and dwellings that tables determine. ``values`` is ``(units, columns)``.

    Raises:
        InputError: tables that do not determine them, or that contradict themselves.
    """
    detailed = schema.query("detailed")
    if (r := determines(columns, detailed)) is not None:
        traits = _counts(values, r)
        dwellings = traits.totals()[:, None]
        return Tables(traits, dwellings, np.arange(schema.cells)[:, None], schema.possible[:, None])
    names = [a.name for a in schema.attributes if a.name != schema.dwelling]
    if schema.dwelling is None or not names:
        raise InputError(
            "they do not determine the records of a unit",
            where="table attack",
            remedy='publish the table of all attributes ([tables.all] query = "detailed"), or'
            " attack the lines that are there: das risk reconstruct",
        )
    traits_of, dwelling_of = schema.query(" * ".join(names)), schema.query(schema.dwelling)
    total = np.concatenate(
        [columns, np.ones((1, schema.cells))]
    )  # the total is the sum of any partition
    joint = determines(columns, traits_of)
    with_total = determines(total, dwelling_of)
    if joint is None or with_total is None:
        raise InputError(
            "they do not determine the traits, or not the dwellings",
            where="table attack",
            remedy="the attack needs P1 to P5, or a table of all attributes",
        )
    traits = _counts(values, joint)
    everybody = np.concatenate([values, traits.totals()[:, None]], axis=1)
    dwellings = np.rint(everybody @ with_total.T).astype(np.int64)
    cell = np.empty((traits_of.answers, dwelling_of.answers), dtype=np.int64)
    cell[traits_of.index, dwelling_of.index] = np.arange(schema.cells)
    return Tables(traits, dwellings, cell, schema.possible[cell])


def _counts(values: Ints, r: Floats) -> Histogram:
    units, cells = len(values), len(r)
    step = max(1, _AT_ONCE // cells)
    found = []
    for start in range(0, units, step):
        dense = np.rint(values[start : start + step] @ r.T).astype(np.int64)
        unit, cell = np.nonzero(dense)
        found.append((unit + start, cell, dense[unit, cell]))
    unit, cell, count = (np.concatenate(a) for a in zip(*found, strict=True))
    if (count < 0).any():
        raise InputError(
            "they contradict themselves: a count of traits is negative", where="table attack"
        )
    return Histogram.from_triplets(units, cells, unit, cell, count)


# --- the intruder
# --------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pairs:
    """A unit and a combination of traits that it may have, with what is published and expected of
    it.
    """

    unit: Ints
    trait: Ints
    published: Ints
    share: Floats
    persons: Ints


def guess(tables: Tables, spine: Spine, variance: float | None) -> GuessedRecords:
    """The best guess of everybody's record in the units of the lowest level. ``variance`` is the
    variance of a published count; 0 takes the tables at face value, ``None`` is the baseline."""
    if variance == 0:
        h = tables.traits
        unit, trait = np.repeat(h.unit, h.count), np.repeat(h.cell, h.count)
        return _housed(tables, unit, trait, np.ones(len(unit)))
    chances = _chances(_pairs(tables.traits, spine, variance is not None), variance)
    unit, trait, nth, chance = (np.concatenate(a) for a in zip(*chances, strict=True))
    order = np.lexsort((nth, -chance, unit))
    unit, trait, chance = unit[order], trait[order], chance[order]
    keep = _rank(unit) < tables.traits.totals()[unit]
    return _housed(tables, unit[keep], trait[keep], chance[keep])


def _pairs(h: Histogram, spine: Spine, informed: bool) -> _Pairs:
    """Every unit with every combination of traits that may be there. Unless ``informed``, nothing
    about the traits of the unit is in what comes out."""
    if len(spine) < 2 or spine.units(spine.levels[-1]) != h.units:
        raise InputError(
            "the tables are not of the lowest level of the spine", where="table attack"
        )
    around = [
        (above.dense(), spine.up(spine.levels[-1], level))
        for level, above in _ancestors(h, spine).items()
    ]
    step = max(1, _AT_ONCE // h.cells)
    found = []
    for start in range(0, h.units, step):
        own = h.rows(start, min(start + step, h.units)).dense()
        persons = own.sum(axis=1, keepdims=True)
        share = np.full(own.shape, 1 / h.cells)
        for above, of in around:
            here = above[of[start : start + step]]
            share = (here - own + SHRINK * share) / (
                here.sum(axis=1, keepdims=True) - persons + SHRINK
            )
        published = own if informed else np.zeros_like(own)
        at = (persons > 0) & ((published > 0) | (persons * share > LEAST))
        unit, trait = np.nonzero(at)
        found.append((unit + start, trait, published[at], share[at], persons[unit, 0]))
    return _Pairs(*(np.concatenate(a) for a in zip(*found, strict=True)))


def _ancestors(h: Histogram, spine: Spine) -> dict[str, Histogram]:
    """The counts of the levels above, root first."""
    out, below = {}, h
    for depth in range(len(spine) - 1, 0, -1):
        below = below.up(spine.parent[depth], spine.units(spine.levels[depth - 1]))
        out[spine.levels[depth - 1]] = below
    return dict(reversed(out.items()))


def _chances(pairs: _Pairs, variance: float | None) -> Iterator[tuple[Ints, Ints, Ints, Floats]]:
    """Unit, trait, number and P[T >= number | y] of every record that is probable enough, in
    portions.
    """
    wide = np.inf if variance is None else _WIDTH * variance**0.5 + 1
    # above the published count, or what is expected, nothing is probable but within the spread of
    # either
    spread = np.sqrt(pairs.persons * pairs.share * (1 + pairs.persons / ALIKE)) * 6 + 10
    low = np.zeros(len(pairs.unit)) if variance is None else np.floor(pairs.published - wide)
    high = np.minimum(
        pairs.published + wide, pairs.persons * pairs.share + pairs.published + spread
    )
    first = np.clip(low, 0, pairs.persons).astype(np.int64)
    last = np.clip(high, first, pairs.persons).astype(np.int64)
    certain = np.repeat(np.arange(len(first)), first)
    yield pairs.unit[certain], pairs.trait[certain], _up_to(first), np.ones(len(certain))
    order = np.argsort(last - first, kind="stable")
    begin = 0
    while begin < len(order):
        # as many pairs as fit with the width of the last one; widths only grow
        width = last[order[begin:]] - first[order[begin:]] + 1
        fit = int(np.searchsorted(width * np.arange(1, len(width) + 1), _AT_ONCE, side="right"))
        part = order[begin : begin + max(1, fit)]
        begin += len(part)
        tail = _tails(pairs, part, first[part], last[part], variance)
        row, column = np.nonzero(tail >= LEAST)
        yield (
            pairs.unit[part[row]],
            pairs.trait[part[row]],
            first[part[row]] + column + 1,
            tail[row, column],
        )


def _tails(pairs: _Pairs, part: Ints, first: Ints, last: Ints, variance: float | None) -> Floats:
    """P[T >= first + 1 + j | y] in column j. The prior runs up from ``first`` by the ratios of its
    probabilities; constants cancel. The ratio P[t + 1] / P[t] is (N - t)(a + t) / ((t + 1)(b + N -
    t - 1))."""
    n, share = pairs.persons[part, None], pairs.share[part, None]
    a, b = ALIKE * share, ALIKE * (1 - share)
    t = first[:, None] + np.arange(int((last - first).max()) + 1)
    inside = t <= last[:, None]
    below = np.minimum(t, last[:, None])[:, :-1]
    left = np.maximum(n - below, 1)
    ratio = np.log(left * (a + below)) - np.log((below + 1) * (b + left - 1))
    weight = np.concatenate([np.zeros((len(part), 1)), np.cumsum(ratio, axis=1)], axis=1)
    if variance is not None:
        weight -= (pairs.published[part, None] - t) ** 2 / (2 * variance)
    weight = np.where(inside, weight, -np.inf)
    chance = np.exp(weight - weight.max(axis=1, keepdims=True))
    above = np.cumsum(chance[:, ::-1], axis=1)[:, ::-1]
    return above[:, 1:] / above[:, :1]


def _housed(tables: Tables, unit: Ints, trait: Ints, chance: Floats) -> GuessedRecords:
    """Dwellings for the records, which come unit by unit and surest first."""
    q = tables.dwellings[unit]
    order = np.argsort(-q, axis=1, kind="stable")
    filled = np.cumsum(np.take_along_axis(q, order, axis=1), axis=1)
    place = np.minimum((filled <= _rank(unit)[:, None]).sum(axis=1), q.shape[1] - 1)
    kind = np.take_along_axis(order, place[:, None], axis=1)[:, 0]
    open_to = np.where(tables.possible[trait], q, 0)
    kind = np.where(tables.possible[trait, kind], kind, open_to.argmax(axis=1))
    chance = chance * open_to[np.arange(len(unit)), kind] / np.maximum(open_to.sum(axis=1), 1)
    cell = tables.cell[trait, kind]
    order = np.lexsort((-chance, cell, unit))
    nth = np.empty(len(unit), dtype=np.int64)
    nth[order] = _rank(unit[order] * (int(tables.cell.max(initial=0)) + 1) + cell[order]) + 1
    return GuessedRecords(unit, cell, nth, chance)


# --- arrays
# --------------------------------------------------------------------------------------------------


def _up_to(sizes: Ints) -> Ints:
    """1..n for each n, one after another."""
    ends = np.cumsum(sizes)
    return np.arange(1, (int(ends[-1]) if len(ends) else 0) + 1) - np.repeat(ends - sizes, sizes)


def _rank(sorted_keys: Ints) -> Ints:
    """The place of each among its equals, from 0; equals stand together."""
    starts = np.flatnonzero(np.diff(sorted_keys, prepend=-1))
    return np.arange(len(sorted_keys)) - np.repeat(
        starts, np.diff(np.append(starts, len(sorted_keys)))
    )


def count_at(h: Histogram, unit: Ints, cell: Ints) -> Ints:
    """The count of each (unit, cell), 0 where none is stored."""
    keys = h.unit * h.cells + h.cell
    wanted = unit * h.cells + cell
    at = np.minimum(np.searchsorted(keys, wanted), max(len(keys) - 1, 0))
    return (
        np.where(keys[at] == wanted, h.count[at], 0)
        if len(keys)
        else np.zeros(len(wanted), dtype=np.int64)
    )


# How right a guess of the records is.

#: Parts of the guesses, surest first, whose precision is told.
PARTS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0)


@dataclass(frozen=True, repr=False)
class Score(NoRepr):
    """``agreement``: sum over units and cells of min(true, guessed), over persons. ``expected``:
    what the intruder expected of it. ``precision``: the part that is right of the surest 1%, 5%,
    ... of his guesses.

    A *unique* is a person whose record nobody else in the unit has: ``uniques`` of them are there,
    ``uniques_found`` is the part whose record is guessed; ``claims`` is how often he guesses a
    record just once in a unit, ``claims_right`` the part of these where that is a unique person.
    """

    persons: int
    guessed: int
    agreement: float
    expected: float
    precision: tuple[float, ...]
    uniques: int
    uniques_found: float
    claims: int
    claims_right: float


def hits(truth: Histogram, guess: GuessedRecords) -> NDArray[np.bool_]:
    """Which records of the guess are there: the n-th of its cell is, if the unit has n or more."""
    return guess.nth <= count_at(truth, guess.unit, guess.cell)


def score(truth: Histogram, guess: GuessedRecords, parts: Sequence[float] = PARTS) -> Score:
    """Compare a guess with the truth. Surest first; where equally sure, in the order of units.

    Raises:
        InputError: nobody to guess, or nothing guessed.
    """
    persons, guessed = int(truth.count.sum()), len(guess.unit)
    if not persons or not guessed:
        raise InputError(f"{persons} persons, {guessed} guesses", where="score of an attack")
    right = hits(truth, guess)
    surest = np.argsort(-guess.confidence, kind="stable")
    found = np.cumsum(right[surest])
    sizes = [max(1, round(p * guessed)) for p in parts]
    claimed = Histogram.from_triplets(
        truth.units, truth.cells, guess.unit, guess.cell, np.ones(guessed, dtype=np.int64)
    )
    single, once = truth.count == 1, claimed.count == 1
    have = count_at(claimed, truth.unit[single], truth.cell[single]) > 0
    true = count_at(truth, claimed.unit[once], claimed.cell[once]) == 1
    return Score(
        persons,
        guessed,
        float(right.sum() / persons),
        float(guess.confidence.sum() / persons),
        tuple(float(found[n - 1] / n) for n in sizes),
        int(single.sum()),
        float(have.mean()) if len(have) else 0.0,
        int(once.sum()),
        float(true.mean()) if len(true) else 0.0,
    )


@dataclass(frozen=True, repr=False)
class AttackReport(NoRepr):
    """An attack on one run. ``variance`` is that of the noise as the intruder knows it.

    ``allowed`` is the most success with a record that the guarantee allows, if success without it
    is ``baseline.agreement``."""

    cost: float
    variance: float
    attack: Score
    face_value: Score
    baseline: Score
    allowed: float


# How often anybody can be right about a record, given the guarantee.
#
# Take an intruder with any method. Let :math:`p_0` be the probability that he names a person's record
# from a release that was made *without* it (with another one instead). Let :math:`p_1` be that
# probability for the release made with the record. The guarantee bounds :math:`p_1` by a function of
# :math:`p_0`:
#
# * pure :math:`\varepsilon`: :math:`p_1 \le \min\{e^\varepsilon p_0,\; 1 - e^{-\varepsilon}(1 -
# p_0)\}`;
# * :math:`\rho`-zCDP: the release's Rényi divergence of every order :math:`\alpha > 1` is at most
# :math:`\alpha\rho`, in both directions. By data processing so is that of the two coins "he is
# right". Each order gives a valid bound, and the least of them is taken.
#
# Both are concave in :math:`p_0` (Rényi divergence is jointly quasi-convex), so they hold for
# averages over persons, too. The neighbor relation is replacement: under add/remove, replacing is two
# steps, :math:`4\rho` or :math:`2\varepsilon`.
#
# Sources: Bun and Steinke 2016, definition 1.1 and proposition 1.9; van Erven and Harremoës 2014,
# theorems 9 and 13.

_ORDERS = 1 + np.geomspace(1e-3, 1e4, 400)


def most_often_right(p0: float, cost: float, mechanism: Mechanism, neighbours: Neighbours) -> float:
    """The largest ``p1`` that a guarantee of ``cost`` (rho or epsilon) allows, given ``p0``.

    >>> from das.model.mechanisms import DISCRETE_GAUSSIAN
    >>> round(most_often_right(0.5, 0.005, DISCRETE_GAUSSIAN, Neighbours.BOUNDED), 3)
    0.55
    """
    if not (0 <= p0 <= 1 and cost >= 0):
        raise InputError(f"p0 is {p0}, the cost {cost}", where="what the guarantee allows")
    steps = 1 if neighbours is Neighbours.BOUNDED else 2
    if mechanism.pure:
        return min(exp(min(steps * cost, 700)) * p0, 1 - exp(-steps * cost) * (1 - p0))
    return _renyi(p0, steps**2 * cost)


def _renyi(p0: float, rho: float) -> float:
    """By bisection, from above: the coins' divergence grows with p1 beyond p0."""
    if p0 in (0.0, 1.0) or rho == 0:
        return p0
    low, high = p0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if middle < 1 and _allowed(middle, p0, rho) else (low, middle)
    return high


def _allowed(p1: float, p0: float, rho: float) -> bool:
    room = _ORDERS * (_ORDERS - 1) * rho
    return all((_log_moment(p, q) <= room).all() for p, q in ((p1, p0), (p0, p1)))


def _log_moment(p: float, q: float) -> np.ndarray:
    """(alpha - 1) D_alpha of two coins, every order."""
    yes = _ORDERS * np.log(p) + (1 - _ORDERS) * np.log(q)
    no = _ORDERS * np.log1p(-p) + (1 - _ORDERS) * np.log1p(-q)
    return np.logaddexp(yes, no)


def attacked(run: Path) -> AttackReport:
    """Attack one finished run. The intruder has its published tables, its spine and its plan."""
    opened, known = truth_of(run)
    u, level = opened.run.persons, opened.spine.levels[-1]
    published, noise = published_by(opened), variance(opened)
    truth = known[u.name][level].open(
        "to score an attack on the published tables; the result stays confidential"
    )
    scores = {v: score(truth, guess(published, opened.spine, v)) for v in (noise, 0.0, None)}
    base = scores[None]
    allowed = most_often_right(
        base.agreement, float(u.plan.cost), u.plan.mechanism, u.plan.neighbours
    )
    return AttackReport(float(u.plan.cost), noise, scores[noise], scores[0.0], base, allowed)


def published_by(opened: OpenedRelease) -> Tables:
    """What the published tables of the lowest level say."""
    schema, level, folder = (
        opened.after.persons.schema,
        opened.spine.levels[-1],
        opened.folder / "tables",
    )
    values, members = [], []
    for table in tables.published(schema):
        path = folder / f"{table.name}_{level}.csv"
        rows = published_tables.read(path)
        if rows.columns != table.columns or not np.array_equal(rows.codes, opened.spine.codes[-1]):
            raise ReleaseError("other columns or other units than the release has", where=path)
        values.append(rows.values)
        members.append(table.masks)
    return read(np.concatenate(members), np.concatenate(values, axis=1), schema)


def variance(opened: OpenedRelease) -> float:
    """The noise in a count of traits of the lowest level, from the public noise: measurements at
    least as fine as ``detailed`` without dwellings, taken together; the finest one, where there is
    none. Where units are measured differently, that of most of them: the guess weighs all blocks
    alike."""
    u, level = opened.after.persons, opened.spine.levels[-1]
    here = [n for n in u.noise if n.level == level]
    answers = {n.query: u.schema.query(n.query).answers for n in here}
    if not answers:
        raise UserError(
            f"nothing is measured at {level}",
            where=opened.folder,
            remedy="attack a run that measures it",
        )
    traits = " * ".join(a.name for a in u.schema.attributes if a.name != u.schema.dwelling)
    fine = min(u.schema.query(traits).answers, max(answers.values()))
    return 1 / sum(1 / n.variance for n in here if answers[n.query] >= fine)
