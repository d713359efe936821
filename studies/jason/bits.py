r"""The attack of Dinur and Nissim, as JASON ran it.

A data set is :math:`n` secret bits :math:`d`. A query is a random subset, each bit in it with
probability 1/2; its answer is the sum of its bits plus noise, :math:`a = Qd + e`. The attacker
solves

.. math:: \hat d = \operatorname{round}\Bigl(\operatorname{argmin}_{0 \le x \le 1} \|Qx - a\|^2\Bigr)

and is judged by the fraction of bits that are right; 1/2 is what guessing gives. All that the
attacker needs of the queries is :math:`Q'Q` and :math:`Q'a`, so queries are asked in portions and
forgotten. (:math:`Q'Q` counts queries: it is exact in single precision up to 2^24 of them.)

*Two theories that it can be held against.*

Without noise, :math:`d` is the only point of the box that gives the answers if and only if no
vector of the null space of :math:`Q` has its signs; a null space of dimension :math:`n - m` in
general position meets :math:`2\sum_{k<n-m}\binom{n-1}{k}` of the :math:`2^n` orthants, and
:math:`d` is random, so (Wendel 1962; Donoho and Tanner 2010, theorem 1.1 for vertices)

.. math:: P[\text{all bits determined}] = P[\operatorname{Bin}(n-1, \tfrac12) \ge n - m] ,

a threshold at n/2 queries, of width :math:`\sqrt n / 2`. See :func:`determined`.

With noise of variance :math:`\sigma^2`, as :math:`n \to \infty` with :math:`\delta = m/n`, the
fraction right tends to
:math:`\Phi(1/\tau)`, where :math:`\tau` minimizes

.. math:: \frac\tau2\Bigl(\delta - \tfrac12\Bigr) + \frac{16\sigma^2/n}{2\tau}
   + \frac\tau2 \int_{2/\tau}^\infty (h - 2/\tau)^2 \varphi(h)\,dh

(Thrampoulidis, Abbasi and Hassibi 2015, theorem 1, for Gaussian matrices; a 0/1 query is a random
sign over 2 and a half of the sum, and bits are half a sign: hence the 16). For :math:`m \gg n` this
is :math:`\tau^2 = 16\sigma^2/m`: the :math:`16\sigma^2` queries of JASON's information-theoretic
estimate (equation A-16) are those at which 84% of the bits are right. See :func:`predicted`.

Sources: Dinur and Nissim 2003; JASON JSR-19-2F, sections 4.2-4.4 and 5.6, appendices A and B.
Randomness here is simulation: nothing is protected by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, isfinite, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import bdtrc, ndtr

from das.errors import InputError
from studies.jason.box_least_squares import solve

_PORTION = 4096  # queries held at once


@dataclass(frozen=True)
class Noise:
    """What is added to every answer: nothing, a normal or a Laplace variable, by its standard
    deviation.
    """

    name: str
    kind: str
    deviation: float
    epsilon: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("none", "normal", "laplace") or not (
            isfinite(self.deviation) and self.deviation >= 0
        ):
            raise InputError(
                f"no noise of kind {self.kind!r} with deviation {self.deviation}",
                where="reconstruction",
            )

    def draw(self, rng: np.random.Generator, size: int) -> NDArray[np.float64]:
        if self.kind == "normal":
            return rng.normal(0.0, self.deviation, size)
        if self.kind == "laplace":
            return rng.laplace(0.0, self.deviation / sqrt(2), size)
        return np.zeros(size)


NOISELESS = Noise("none", "none", 0.0)


def laplace(epsilon: float) -> Noise:
    """Lap(1/epsilon), variance 2/epsilon^2: ``epsilon`` is that of **one** query; m queries cost m
    times as much (JASON, sections 5.5 and 5.6)."""
    if not epsilon > 0:
        raise InputError(f"epsilon is {epsilon}, not positive", where="reconstruction")
    return Noise(f"Laplace, epsilon {epsilon:g} a query", "laplace", sqrt(2) / epsilon, epsilon)


def of_the_text(bits: int) -> Noise:
    """Normal with *variance* sqrt(n) log(n) / 2: what section 4.4 and the caption of figure 4-4
    say.
    """
    return Noise("normal, variance sqrt(n) log(n)/2", "normal", sqrt(sqrt(bits) * log(bits) / 2))


def of_the_listing(bits: int) -> Noise:
    """Normal with *standard deviation* sqrt(n) log(n) / 2: what appendix B, listing 3, hands to
    ``normrnd``.
    """
    return Noise("normal, deviation sqrt(n) log(n)/2", "normal", sqrt(bits) * log(bits) / 2)


class Attack:
    """One secret, asked about under several noises at once: the queries are the same, the noise is
    each its own.
    """

    def __init__(self, secret: NDArray[np.integer], noises: Sequence[Noise]) -> None:
        if secret.ndim != 1 or not len(secret) or not np.isin(secret, (0, 1)).all():
            raise InputError("a secret is a vector of bits", where="reconstruction")
        self.secret, self.noises = secret.astype(np.float32), tuple(noises)
        self.queries = 0
        self.gram = np.zeros((len(secret), len(secret)), dtype=np.float32)
        self.rhs = np.zeros((len(self.noises), len(secret)))

    def ask(self, rng: np.random.Generator, queries: int) -> None:
        """Ask ``queries`` more."""
        for start in range(0, queries, _PORTION):
            m = min(_PORTION, queries - start)
            q = rng.integers(0, 2, (m, len(self.secret)), dtype=np.int8).astype(np.float32)
            exact = (q @ self.secret).astype(float)
            answers = np.stack([exact + noise.draw(rng, m) for noise in self.noises])
            self.gram += q.T @ q
            self.rhs += answers @ q.astype(float)
        self.queries += queries

    def guesses(self, tol: float = 1e-4) -> NDArray[np.int64]:
        """The attacker's bits under each noise, ``(noises, n)``."""
        return np.rint(solve(self.gram.astype(float), self.rhs, tol=tol).x).astype(np.int64)

    def recovered(self, tol: float = 1e-4) -> NDArray[np.float64]:
        """The fraction of bits that are right under each noise, ``(noises,)``."""
        return (self.guesses(tol) == self.secret).mean(axis=1)


def determined(bits: int, queries: int) -> float:
    """P[the exact answers leave no other point of the box], for queries in general position.

    >>> determined(1000, 500) < 0.5 < determined(1000, 501)
    True
    """
    if queries >= bits:
        return 1.0
    return float(bdtrc(bits - queries - 1, bits - 1, 0.5))


def predicted(bits: int, queries: int, deviation: float) -> float:
    """The fraction of bits right, in the limit of many bits: Phi(1/tau). Needs noise, or more
    queries than n/2.

    >>> round(predicted(1000, 160_000, 100.0), 2)  # 16 sigma^2 queries
    0.84
    """
    if deviation == 0:
        if 2 * queries <= bits:
            raise InputError(
                "without noise the prediction begins at n/2 queries", where="reconstruction"
            )
        return 1.0
    ratio, power = queries / bits, 16 * deviation**2 / bits

    def cost(log_tau: float) -> float:
        tau = exp(log_tau)
        edge = 2 / tau
        tail = (1 + edge**2) * float(ndtr(-edge)) - edge * exp(-(edge**2) / 2) / sqrt(2 * pi)
        return tau / 2 * (ratio - 0.5) + power / (2 * tau) + tau / 2 * tail

    center = 0.5 * log(power / max(ratio, 1e-3))
    best = minimize_scalar(
        cost, bounds=(center - 5, center + 10), method="bounded", options={"xatol": 1e-10}
    )
    return float(ndtr(exp(-best.x)))
