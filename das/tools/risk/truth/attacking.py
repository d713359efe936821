"""An attack on the published tables of a finished run, compared with the truth (confidential)."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np

from das import tables
from das.errors import InputError, ReleaseError, UserError
from das.files.release import tables as published_tables
from das.model.budget import Neighbours
from das.model.mechanisms import Mechanism
from das.release.opened import OpenedRelease
from das.tools.risk.figure import Report, score
from das.tools.risk.table_attack import Tables, guess, read
from das.truth.assessment import truth_of

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


def attacked(run: Path) -> Report:
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
    return Report(
        opened.after.name,
        str(u.plan.cost),
        u.plan.mechanism.currency,
        float(u.plan.cost),
        noise,
        scores[noise],
        scores[0.0],
        base,
        allowed,
    )


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
