r"""The sum of :mod:`das.accounting.contour` in ball arithmetic: it proves bounds on rounding
instead of allowing for it.

Each draw under the tilt is a theta function, whatever its variance: with :math:`\tau = 2\pi
i\sigma^2`,

.. math:: \varphi(t) = e^{-\sigma^2 t^2/2 + i c t} \, \frac{\vartheta_3(c + i\sigma^2 t \mid \tau)}{\vartheta_3(c \mid \tau)},

:math:`t/2\pi` the exact rational angle, reduced to [-1/2, 1/2]. Arb (python-flint, the extra
``certify``) encloses each value in a ball. The kept nodes, and the bounds on the terms left out,
are those of the contour."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter
from typing import Any

from das.accounting.contour import Contour, LogDelta
from das.errors import UserError

#: Bits of the balls: forty digits more than the result needs.
BITS = 192


def log_delta(contour: Contour, eps: Fraction) -> LogDelta:
    """Proved bounds of ln delta(eps). Raises :class:`UserError` if python-flint is missing."""
    flint = _flint()
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        return _enclosed(flint, contour, eps)
    finally:
        flint.ctx.prec = before


def _enclosed(flint: Any, contour: Contour, eps: Fraction) -> LogDelta:
    c, period, gap = Fraction(contour.c), contour.period, contour.gap(eps)
    scale = _arb(flint, contour.exponent(eps)).exp()
    draws = []
    for theta in contour.thetas:
        sigma_sq = _arb(flint, 1 / theta.p)
        tau = flint.acb(0, 2 * flint.arb.pi() * sigma_sq)
        tilt = theta.k * c
        at_c, at_0 = (_theta3(flint, flint.acb(_arb(flint, x)), tau) for x in (tilt, Fraction(0)))
        scale *= (at_c.real / at_0.real) ** theta.n
        draws.append((theta.rate / period, theta.n, sigma_sq, tau, at_c, _arb(flint, tilt)))
    total = flint.arb(0)
    rate = (contour.composition.rho - eps - gap) / period
    for j, weight in zip(
        contour.kept.j.tolist(), contour.weights(contour.kept.j).tolist(), strict=True
    ):
        term = _kernel(flint, contour, gap, j) * _turn(flint, j * rate).exp()
        for per_step, n, sigma_sq, tau, at_c, tilt in draws:
            t = _turn(flint, j * per_step).imag
            z = flint.acb(tilt, sigma_sq * t)
            phi = flint.acb(-sigma_sq * t * t / 2, tilt * t).exp() * _theta3(flint, z, tau) / at_c
            term *= phi**n
        total += int(weight) * term.real
    total /= _arb(flint, period)
    outside = flint.arb(contour.dropped + contour.beyond)
    alias = 2 * flint.arb(contour.log_alias(eps)).exp()  # twice: its logarithm is a float
    low, high = scale * (total - outside) - alias, scale * (total + outside)
    return LogDelta(
        *(_log(x, side) for x, side in ((low, -inf), (scale * total, 0.0), (high, inf)))
    )


def _kernel(flint: Any, contour: Contour, gap: Fraction, j: int) -> Any:
    angle = 2 * flint.arb.pi() * _arb(flint, j / contour.period)
    z = flint.acb(_arb(flint, Fraction(contour.c)), angle)
    if not contour.lattice:
        return 1 / (z * (z + 1))
    h = _arb(flint, contour.composition.step)
    return h * (1 / (1 - (-z * h).exp()) - (-_arb(flint, gap)).exp() / (1 - (-(z + 1) * h).exp()))


def _theta3(flint: Any, z: Any, tau: Any) -> Any:
    return flint.acb.modular_theta(z, tau)[2]


def _turn(flint: Any, turns: Fraction) -> Any:
    """2 pi i times the angle, reduced to half a turn at most, exactly."""
    return flint.acb(0, 2 * flint.arb.pi() * _arb(flint, turns - round(turns)))


def _arb(flint: Any, x: Fraction) -> Any:
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


def _log(ball: Any, side: float) -> float:
    """The logarithm of one end of a ball (or its middle), outwards."""
    end = ball.mid() if side == 0 else ball.upper() if side > 0 else ball.lower()
    if not end > 0:
        return -inf
    value = end.log()
    return (
        float(value.mid())
        if side == 0
        else nextafter(float((value.upper() if side > 0 else value.lower()).mid()), side)
    )


def _flint() -> Any:
    try:
        import flint
    except ImportError:
        raise UserError(
            "proved bounds need python-flint, which is not installed",
            where="certify",
            remedy="pip install 'topdown-das[certify]', or leave the certificate out",
        ) from None
    return flint
