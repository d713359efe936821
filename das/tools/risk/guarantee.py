r"""How often anybody can be right about a record, given the guarantee.

Take an intruder with any method. Let :math:`p_0` be the probability that he names a person's record
from a release that was made *without* it (with another one instead). Let :math:`p_1` be that
probability for the release made with the record. The guarantee bounds :math:`p_1` by a function of
:math:`p_0`:

* pure :math:`\varepsilon`: :math:`p_1 \le \min\{e^\varepsilon p_0,\; 1 - e^{-\varepsilon}(1 -
  p_0)\}`;
* :math:`\rho`-zCDP: the release's Rényi divergence of every order :math:`\alpha > 1` is at most
  :math:`\alpha\rho`, in both directions. By data processing so is that of the two coins "he is
  right". Each order gives a valid bound, and the least of them is taken.

Both are concave in :math:`p_0` (Rényi divergence is jointly quasi-convex), so they hold for
averages over persons, too. The neighbor relation is replacement: under add/remove, replacing is two
steps, :math:`4\rho` or :math:`2\varepsilon`.

Sources: Bun and Steinke 2016, definition 1.1 and proposition 1.9; van Erven and Harremoës 2014,
theorems 9 and 13."""

from __future__ import annotations

from math import exp

import numpy as np

from das.errors import InputError
from das.model.budget import Neighbours
from das.model.mechanisms import Mechanism

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
