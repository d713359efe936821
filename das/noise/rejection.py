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

from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from math import isqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

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


# Exact sampling: inverts a distribution function whose values are known only by brackets.
#
# Let :math:`X` take integer values with distribution function :math:`F`, and :math:`U =
# 0.b_1b_2\ldots` be uniform. Then :math:`X = \min\{k : U < F(k)\}` has distribution :math:`F`. Bits
# of :math:`U` are drawn as they are needed.
#
# **Claim.** The value returned is :math:`F^{-1}(U)` exactly, almost surely.
#
# *Proof.* A prefix :math:`w` of :math:`n` bits says :math:`U \in [w, w+1)/2^n`. Let integers
# :math:`l_k \le 2^n F(k) \le h_k` be given. If :math:`w + 1 \le l_k` then :math:`U < F(k)`, whatever
# the later bits; if :math:`w \ge h_k` then :math:`U \ge F(k)`. When for some :math:`k` both :math:`w
# \ge h_{k-1}` and :math:`w + 1 \le l_k` hold, then :math:`F(k-1) \le U < F(k)`, that is :math:`X =
# k`. This is the only rule by which a value is returned. If a prefix satisfies it for no :math:`k`,
# further independent bits extend the prefix, and new brackets are computed for the longer one. The
# value is never guessed. As :math:`n` grows, brackets shrink to points. So the values :math:`U` that
# stay undecided forever lie in the countable set of values of :math:`F`, which has measure 0. ∎
#
# Nothing in the proof needs tight brackets: a loose bracket costs work, not correctness. Brackets
# come from integer arithmetic with outward rounding; no float is anywhere on this path.
#
# *Work.* A table over the first 16 bits decides most draws. For a discrete Gaussian it decides all
# but 1.1 % at :math:`\sigma^2 = 10^4`, but only 41 % at :math:`10^8`. The others are extended to 64
# bits and decided by binary search. About one draw in 10^17 needs 128 bits, in Python integers.
#
# *Two sources of bits, one rule.* Draws in bulk take their bits from one stream, in turn
# (:meth:`InverseCdf.sample`). Noise on demand has its own bits for each coordinate
# (:mod:`das.noise.coordinates`). :meth:`InverseCdf.invert` decides both.

#: ``brackets(n)`` returns ``(first, lo, hi)``: lo[i] <= 2^n F(first + i) <= hi[i], both
#: non-decreasing.
Brackets = Callable[[int], tuple[int, list[int], list[int]]]

_BLOCK = 1 << 17  # draws at a time: tables and bits stay in cache
_TOP = (1 << 64) - 1


class MoreBits(Protocol):
    """The bits of some draws after their first 16."""

    def words(self, which: NDArray[np.intp], /) -> NDArray[np.uint64]:
        """64 bits for each of the draws ``which``; the upper 48 are used."""
        ...

    def behind(self, draw: int, /) -> Entropy:
        """The source of one draw's bits after these."""
        ...


class _InTurn:
    """The bits of one stream, in the order in which they come."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy

    def words(self, which: NDArray[np.intp]) -> NDArray[np.uint64]:
        return self._entropy.uint64(len(which))

    def behind(self, draw: int) -> Entropy:
        del draw
        return self._entropy


class InverseCdf:
    """A sampler for one distribution, given its brackets."""

    def __init__(self, brackets: Brackets) -> None:
        self._brackets = brackets
        self._first, lo, hi = brackets(64)
        # 2^64 does not fit 64 bits. Clipping it to 2^64 - 1 leaves the two tests of the proof
        # unchanged for every prefix except 2^64 - 1 itself, and that prefix is always extended
        # (see _search).
        self._lo = np.array([min(x, _TOP) for x in lo], dtype=np.uint64)
        self._hi = np.array([min(x, _TOP) for x in hi], dtype=np.uint64)
        self._table, self._undecided = self._first_level()

    def _first_level(self) -> tuple[NDArray[np.generic], int]:
        """The value of every 16-bit prefix that decides; a sentinel for the others."""
        first = np.arange(1 << 16, dtype=np.uint64) << np.uint64(48)
        last = first + np.uint64((1 << 48) - 1)
        value, decided = self._search(first, last)
        reach = max(abs(self._first), abs(self._first + len(self._lo)))
        dtype = np.int16 if reach < 1 << 15 else np.int32 if reach < 1 << 31 else np.int64
        sentinel = int(np.iinfo(dtype).min)
        return np.where(decided, value, sentinel).astype(dtype), sentinel

    def _search(
        self, first: NDArray[np.uint64], last: NDArray[np.uint64]
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Values for 64-bit prefixes known to lie in ``[first, last]``, and where they are
        decided."""
        i = np.searchsorted(self._hi, first, side="right")  # the first threshold with hi > w
        inside = (i > 0) & (i < len(self._lo)) & (last < np.uint64(_TOP))
        decided = inside & (last < self._lo[np.minimum(i, len(self._lo) - 1)])
        return self._first + i, decided

    def sample(self, size: int, entropy: Entropy) -> NDArray[np.int64]:
        """``size`` independent draws, int64."""
        out, more = np.empty(size, dtype=np.int64), _InTurn(entropy)
        for start in range(0, size, _BLOCK):
            part = out[start : start + _BLOCK]
            self.invert(entropy.uint16(len(part)), more, part)
        return out

    def invert(self, prefix: NDArray[np.uint16], more: MoreBits, out: NDArray[np.int64]) -> None:
        """Writes the values of some draws into ``out`` ``(n,)``. ``prefix`` ``(n,)`` has their
        first 16 bits, ``more`` the others."""
        drawn = np.take(self._table, prefix)
        out[:] = drawn
        again = np.flatnonzero(drawn == self._undecided)
        if len(again):
            out[again] = self._second_level(prefix[again], again, more)

    def _second_level(
        self, prefix: NDArray[np.uint16], draw: NDArray[np.intp], more: MoreBits
    ) -> NDArray[np.int64]:
        word = (prefix.astype(np.uint64) << np.uint64(48)) | (more.words(draw) >> np.uint64(16))
        value, decided = self._search(word, word)
        for i in np.flatnonzero(~decided):
            value[i] = self._extend(int(word[i]), 64, more.behind(int(draw[i])))
        return value

    def _extend(self, word: int, bits: int, entropy: Entropy) -> int:
        """Takes 64 more bits at a time until the prefix decides."""
        while True:
            word = (word << 64) | int.from_bytes(entropy.bytes(8), "big")
            bits += 64
            first, lo, hi = self._brackets(bits)
            i = bisect_right(hi, word)
            if 0 < i < len(lo) and word < lo[i]:
                return first + i


def exp_minus(x: Fraction, bits: int) -> tuple[int, int]:
    r"""Integers ``lo <= 2^bits exp(-x) <= hi`` for ``x >= 0``, a few units apart.

    :math:`e^{-x} = (e^{-y})^{2^h}` with :math:`y = x/2^h \le 1/2`; the alternating Taylor series of
    :math:`e^{-y}`, whose remainder is at most its first omitted term, then :math:`h` squarings,
    every division rounded outwards. A squaring doubles a relative error: ``h + 8`` guard bits
    absorb it."""
    h = max(0, (2 * x.numerator // x.denominator).bit_length())
    work = bits + h + 8
    y = x / (1 << h)
    lo = hi = term_lo = term_hi = 1 << work
    i = 0
    while term_hi > 1:
        i += 1
        term_lo = term_lo * y.numerator // (y.denominator * i)
        term_hi = -(-term_hi * y.numerator // (y.denominator * i))
        lo, hi = (lo - term_hi, hi - term_lo) if i % 2 else (lo + term_lo, hi + term_hi)
    lo, hi = max(lo - 1, 0), hi + 1  # the remainder is at most the next term, at most 1 unit
    for _ in range(h):
        lo, hi = (lo * lo) >> work, -((-hi * hi) >> work)
    return lo >> (work - bits), -((-hi) >> (work - bits))


def symmetric(weights: Callable[[int], tuple[list[int], list[int], int]]) -> Brackets:
    r"""Brackets of :math:`F`, from brackets of the unnormalized weights of a distribution that is
    symmetric about 0.

    ``weights(n)`` returns ``(g_lo, g_hi, tail)`` in one fixed-point unit: brackets of
    :math:`g_1..g_K` relative to :math:`g_0 = 2^P` (``g[0]`` is that unit itself), and ``tail`` at
    least
    :math:`\sum_{k > K} g_k`. With :math:`A_k = \sum_{j \ge k} g_j` and :math:`S = g_0 + 2A_1`:
    :math:`F(-k) = A_k/S` and :math:`F(k - 1) = 1 - A_k/S`."""

    def brackets(n: int) -> tuple[int, list[int], list[int]]:
        g_lo, g_hi, tail = weights(n)
        top = len(g_lo) - 1
        a_lo, a_hi = [0] * (top + 1), [0] * (top + 1)
        low, high = 0, tail
        for k in range(top, 0, -1):
            low, high = low + g_lo[k], high + g_hi[k]
            a_lo[k], a_hi[k] = low, high
        s_lo, s_hi = g_lo[0] + 2 * low, g_hi[0] + 2 * high
        one = 1 << n
        below_lo = [(a << n) // s_hi for a in a_lo]  # F(-k), k = 0 unused
        below_hi = [-((-a << n) // s_lo) for a in a_hi]
        lo = below_lo[:0:-1] + [one - x for x in below_hi[1:]]
        hi = below_hi[:0:-1] + [one - x for x in below_lo[1:]]
        return -top, lo, hi

    return brackets
