r"""The same two distributions by rejection, one draw at a time, for scales at which tables no
longer pay.

It uses only integers, and its memory does not grow with the scale. Everything is made of uniform
integers below some :math:`n`: draw as many bits as :math:`n - 1` has, and repeat until the number
is below :math:`n`. A Bernoulli of probability :math:`a/b` tests whether a uniform integer below
:math:`b` is below :math:`a`.

*Bernoulli of* :math:`e^{-\gamma}`, :math:`0 \le \gamma \le 1`. Toss coins of probability
:math:`\gamma/1, \gamma/2, \gamma/3, \ldots` until one fails; the first :math:`k` all succeed with
probability :math:`\gamma^k/k!`, so the :math:`k`-th is the first to fail with probability
:math:`\gamma^{k-1}/(k-1)! - \gamma^k/k!`. Summed over odd :math:`k` this is :math:`1 - \gamma +
\gamma^2/2! - \ldots = e^{-\gamma}`: return whether the number of tosses is odd. A larger
:math:`\gamma` is cut into ones and a rest, :math:`e^{-\gamma} = (e^{-1})^{\lfloor\gamma\rfloor}
e^{-(\gamma - \lfloor\gamma\rfloor)}`, and the first part to fail ends it.

*Discrete Laplace of scale* :math:`t/s`. Keep a uniform :math:`U` in :math:`0..t-1` with probability
:math:`e^{-U/t}`. Let :math:`V` be the number of successes of probability :math:`e^{-1}` in a row.
Then :math:`X = U + tV` has :math:`P[X = x] \propto e^{-U/t}e^{-V} = e^{-x/t}` on :math:`x \ge 0`,
and :math:`Y = \lfloor X/s \rfloor` gathers :math:`s` neighbors:
:math:`P[Y = y] \propto e^{-ys/t}`. A fair sign,
with :math:`-0` sent back to the start so that 0 is not counted twice, gives :math:`P[\pm Y = z]
\propto e^{-|z|s/t}`.

*Discrete Gaussian.* With :math:`t = \lfloor\sigma\rfloor + 1`, propose :math:`Y` from the discrete
Laplace of scale :math:`t` and keep it with probability :math:`e^{-(|Y| - \sigma^2/t)^2/2\sigma^2}`.
The square expands to
:math:`Y^2/2\sigma^2 - |Y|/t + \sigma^2/2t^2`, so a kept :math:`Y` has
:math:`P[Y = y] \propto e^{-|y|/t} e^{-y^2/2\sigma^2 + |y|/t} = e^{-y^2/2\sigma^2}`. For large
:math:`\sigma` a draw takes about 1.3 proposals.

Each acceptance test compares integers, so the distributions are exact for uniform bits. The time of
a draw depends on its value, as with every sampler by rejection.

Source: Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy* (2020),
algorithms 1-3."""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

from das.noise.entropy import Entropy


def uniform(n: int, entropy: Entropy) -> int:
    """A uniform integer of 0..n-1."""
    if n < 1:
        raise ValueError(f"there is no integer of 0..{n - 1}")
    bits = (n - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        x = int.from_bytes(entropy.bytes(size), "little") >> (8 * size - bits)
        if x < n:
            return x


def bernoulli_exp(gamma: Fraction, entropy: Entropy) -> bool:
    """True with probability exp(-gamma), for a rational ``gamma`` that is not negative."""
    _exact("gamma", gamma)
    if gamma < 0:
        raise ValueError(f"exp(-gamma) is no probability for gamma = {gamma}")
    return _bernoulli_exp(gamma.numerator, gamma.denominator, entropy)


def discrete_laplace(scale: Fraction, entropy: Entropy) -> int:
    """One draw with P[X = x] proportional to exp(-|x| / scale)."""
    _exact("scale", scale)
    if scale <= 0:
        raise ValueError(f"scale must be positive, not {scale}")
    return _laplace(scale.numerator, scale.denominator, entropy)


def discrete_gaussian(sigma_sq: Fraction, entropy: Entropy) -> int:
    """One draw with P[X = x] proportional to exp(-x^2 / (2 sigma_sq))."""
    _exact("sigma_sq", sigma_sq)
    if sigma_sq <= 0:
        raise ValueError(f"sigma_sq must be positive, not {sigma_sq}")
    a, b = sigma_sq.numerator, sigma_sq.denominator
    t = isqrt(a // b) + 1  # floor(sigma) + 1
    while True:
        y = _laplace(t, 1, entropy)
        # (|y| - a/bt)^2 / (2a/b) = (|y|bt - a)^2 / (2 a b t^2)
        if _bernoulli_exp((abs(y) * b * t - a) ** 2, 2 * a * b * t * t, entropy):
            return y


def _exact(name: str, value: object) -> None:
    if not isinstance(value, Fraction):
        raise TypeError(
            f"{name} must be a Fraction, not {type(value).__name__}: privacy depends on it exactly"
        )


def _bernoulli_exp(a: int, b: int, entropy: Entropy) -> bool:
    """True with probability exp(-a/b)."""
    whole, rest = divmod(a, b)
    return all(
        _first_failure_is_odd(1, 1, entropy) for _ in range(whole)
    ) and _first_failure_is_odd(rest, b, entropy)


def _first_failure_is_odd(a: int, b: int, entropy: Entropy) -> bool:
    """True with probability exp(-a/b), for a <= b."""
    k = 1
    while uniform(b * k, entropy) < a:
        k += 1
    return k % 2 == 1


def _laplace(t: int, s: int, entropy: Entropy) -> int:
    """One draw of the discrete Laplace of scale t/s."""
    while True:
        u = uniform(t, entropy)
        if not _first_failure_is_odd(u, t, entropy):
            continue
        v = 0
        while _first_failure_is_odd(1, 1, entropy):
            v += 1
        y = (u + t * v) // s
        negative = uniform(2, entropy) == 1
        if not (negative and y == 0):
            return -y if negative else y
