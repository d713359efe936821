"""Privacy profiles by convolution of the noise itself, in integers: no Fourier transform, no tilt,
no floats.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, gcd, isqrt, lcm

import mpmath
from mpmath import mpf

from tests.oracles import as_mpf

BITS = 384  #: probabilities are integers over 2^BITS
SLOT = 2 * BITS // 8 + 8  #: bytes for one coefficient of a product

Pairs = Sequence[tuple[Fraction, int]]


def lattice(pairs: Pairs) -> tuple[Fraction, Fraction]:
    """rho, and the greatest common divisor of the precisions."""
    ps = [1 / s for s, _ in pairs]
    whole = lcm(*(p.denominator for p in ps))
    return sum(n / s for s, n in pairs) / 2, Fraction(gcd(*(int(p * whole) for p in ps)), whole)  # type: ignore[return-value]


def masses(pairs: Pairs) -> tuple[list[int], int]:
    """2^BITS P[sum of m_i X_i = s], m_i = p_i / h, and the s of the first."""
    _, h = lattice(pairs)
    with mpmath.workdps(140):
        out, first = [1 << BITS], 0
        for sigma_sq, n in pairs:
            r, m = isqrt(int(2 * sigma_sq * 270) + 1) + 1, int(1 / sigma_sq / h)
            w = [mpmath.exp(-as_mpf(Fraction(x * x) / (2 * sigma_sq))) for x in range(-r, r + 1)]
            whole = mpmath.fsum(w)
            one = [0] * (2 * r * m + 1)
            one[::m] = [int(mpmath.floor(x / whole * mpf(2) ** BITS)) for x in w]
            for _ in range(n):
                out, first = _product(out, one), first - r * m
    return out, first


def _product(a: list[int], b: list[int]) -> list[int]:
    """Of polynomials, by one multiplication of integers that hold the coefficients in slots."""
    x, y = (
        int.from_bytes(b"".join(c.to_bytes(SLOT, "little") for c in p), "little") for p in (a, b)
    )
    n = len(a) + len(b) - 1
    raw = (x * y).to_bytes(SLOT * (n + 1), "little")
    return [int.from_bytes(raw[SLOT * i : SLOT * (i + 1)], "little") >> BITS for i in range(n)]


class Convolution:
    """The loss of P against Q: rho + h s with the masses above."""

    def __init__(self, pairs: Pairs) -> None:
        self.rho, self.h = lattice(pairs)
        self._mass, self._first = masses(pairs)

    def losses(self) -> list[tuple[Fraction, mpf]]:
        return [
            (self.rho + self.h * (self._first + i), mpf(w) / mpf(2) ** BITS)
            for i, w in enumerate(self._mass)
            if w
        ]

    def delta(self, eps: Fraction) -> mpf:
        """E (1 - e^(eps - L))_+, to about a hundred digits after the point."""
        s = max(floor((eps - self.rho) / self.h) + 1, self._first)
        with mpmath.workdps(120):
            ratio, fall, total = (
                mpmath.exp(as_mpf(eps - self.rho - self.h * s)),
                mpmath.exp(-as_mpf(self.h)),
                mpf(0),
            )
            for w in self._mass[s - self._first :]:
                if w:
                    total += w * (1 - ratio)
                ratio *= fall
            return total / mpf(2) ** BITS

    def tradeoff(self, alpha: Fraction) -> mpf:
        """By Neyman and Pearson: reject P where the loss is lowest, up to a mass of alpha, the last
        atom in part.
        """
        with mpmath.workdps(120):
            left, kept = as_mpf(alpha), mpf(0)
            for x, w in sorted(self.losses()):
                used = min(left, w)
                left -= used
                kept += (w - used) * mpmath.exp(-as_mpf(x))
            return kept
