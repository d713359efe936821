"""Each level of refinement, reached through bits that are chosen, against an inverse to 256
bits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from das.noise import discrete_gaussian, discrete_laplace
from das.noise.entropy import Entropy
from das.noise.rejection import InverseCdf, symmetric
from tests.oracles import ReferenceInverse, gaussian_reference, laplace_reference


class Scripted(Entropy):
    """One draw's U, given as 256 bits and revealed as they are asked for: 16, then 48, then 64 at a
    time.

    ``junk`` fills the bits of a word that the sampler throws away; it must not matter.
    """

    name, private = "scripted", False

    def __init__(self, word: int, junk: int = 0) -> None:
        self.word, self.junk, self.given = word, junk, 0

    def _next(self, bits: int) -> int:
        self.given += bits
        assert self.given <= 256, "asked for more than is scripted"
        return self.word >> (256 - self.given) & ((1 << bits) - 1)

    def uint16(self, n: int) -> NDArray[np.uint16]:
        assert (n, self.given) == (1, 0)
        return np.array([self._next(16)], dtype=np.uint16)

    def uint64(self, n: int) -> NDArray[np.uint64]:
        assert (n, self.given) == (1, 16)
        return np.array([self._next(48) << 16 | self.junk], dtype=np.uint64)

    def bytes(self, n: int) -> bytes:
        assert n == 8
        assert self.given >= 64
        return self._next(64).to_bytes(8, "big")


def sampler(
    weights: Callable[[Fraction, int], tuple[list[int], list[int], int]], parameter: Fraction
) -> InverseCdf:
    """As the module makes it, but with brackets remembered: thousands of draws here reach the third
    level.
    """
    return InverseCdf(lru_cache(symmetric(lambda n: weights(parameter, n))))


CASES = {
    "N 1/100": lambda: (
        sampler(discrete_gaussian.weights, Fraction(1, 100)),
        gaussian_reference(Fraction(1, 100)),
    ),
    "N 1/2": lambda: (
        sampler(discrete_gaussian.weights, Fraction(1, 2)),
        gaussian_reference(Fraction(1, 2)),
    ),
    "N 500/99": lambda: (
        sampler(discrete_gaussian.weights, Fraction(500, 99)),
        gaussian_reference(Fraction(500, 99)),
    ),
    "N odd": lambda: (
        sampler(discrete_gaussian.weights, Fraction(10**40 + 7, 10**38 + 9)),
        gaussian_reference(Fraction(10**40 + 7, 10**38 + 9)),
    ),
    "N 10^4": lambda: (
        sampler(discrete_gaussian.weights, Fraction(10**4)),
        gaussian_reference(Fraction(10**4)),
    ),
    "L 1/2": lambda: (
        sampler(discrete_laplace.weights, Fraction(1, 2)),
        laplace_reference(Fraction(1, 2)),
    ),
    "L 1280/27": lambda: (
        sampler(discrete_laplace.weights, Fraction(1280, 27)),
        laplace_reference(Fraction(1280, 27)),
    ),
}


def thresholds_at(reference: ReferenceInverse, most: int = 120) -> list[int]:
    """The integer parts of 2^64 F(k), a spread of at most ``most`` of them."""
    words = sorted({t >> 192 for t in reference.thresholds})
    return words[:: max(1, len(words) // most)]


@pytest.fixture(params=CASES, scope="module")
def case(request: pytest.FixtureRequest) -> tuple[InverseCdf, ReferenceInverse]:
    return CASES[request.param]()


def test_words_around_every_threshold(case: tuple[InverseCdf, ReferenceInverse]) -> None:
    """Words of 64 bits from 2 below to 3 above each threshold, with any bits behind them."""
    inverse, reference = case
    generator = random.Random(1)
    extended = 0
    for threshold in thresholds_at(reference):
        for step in range(-2, 4):
            head = threshold + step
            if not 0 <= head < 1 << 64:
                continue
            rest = generator.getrandbits(192)
            # F at the ends of the table differs from 0 and 1 by less than 2^-256; a test word there
            # has no answer.
            word = min(
                max(head << 192 | rest, reference.thresholds[0] + 1), reference.thresholds[-1] - 1
            )
            bits = Scripted(word, junk=generator.getrandbits(16))
            drawn = inverse.sample(1, bits)
            assert drawn.dtype == np.int64
            assert drawn.tolist() == [reference(word)]
            extended += bits.given > 64
    assert extended > 0  # the third level was reached, and right


def test_bits_that_follow_a_threshold_as_far_as_they_go(
    case: tuple[InverseCdf, ReferenceInverse],
) -> None:
    """U equal to F(k) in its first 64, 128 or 190 bits: decided by the bits after those, and by no
    fewer.
    """
    inverse, reference = case
    low, high = reference.thresholds[0], reference.thresholds[-1]
    tried = 0
    for threshold in reference.thresholds[:: max(1, len(reference.thresholds) // 25)]:
        for shared in (64, 128, 190):
            tail = 256 - shared
            kept = threshold >> tail << tail
            for word in (kept, kept | ((1 << tail) - 1)):
                if not low < word < high or abs(word - threshold) >> (tail - 6) < 2:
                    # no answer to compare with, or so close by chance that 256 bits may not do
                    continue
                bits = Scripted(word)
                assert inverse.sample(1, bits).tolist() == [reference(word)]
                assert bits.given > shared
                tried += 1
    assert tried > 0


def test_any_words_whatever(case: tuple[InverseCdf, ReferenceInverse]) -> None:
    inverse, reference = case
    generator = random.Random(2)
    for _ in range(500):
        word = generator.getrandbits(256)
        bits = Scripted(word)
        assert inverse.sample(1, bits).tolist() == [reference(word)]
        assert bits.given <= 64


@pytest.mark.parametrize("k", [-12, -9, 9, 12])
def test_the_ends_of_the_line(k: int) -> None:
    """Draws so rare that no run will see them: the first and last word of 64 bits are always
    extended.
    """
    sigma_sq = Fraction(1, 2)
    inverse, reference = CASES["N 1/2"]()
    at = reference.thresholds[k - reference.first]
    word = at - 1 if k < 0 else reference.thresholds[k - 1 - reference.first] + 1
    assert word >> 192 in (0, (1 << 64) - 1)
    bits = Scripted(word)
    assert inverse.sample(1, bits).tolist() == [k] == [reference(word)]
    assert bits.given > 64
    assert discrete_gaussian.sample(sigma_sq, 1, Scripted(word)).tolist() == [k]


class Replay(Entropy):
    """Many draws: the given prefixes, then the given second words, each asked for once and in
    order.
    """

    name, private = "replay", False

    def __init__(self, prefixes: NDArray[np.uint16], words: list[int]) -> None:
        self.prefixes, self.words = prefixes, words

    def uint16(self, n: int) -> NDArray[np.uint16]:
        out, self.prefixes = self.prefixes[:n], self.prefixes[n:]
        assert len(out) == n
        return out

    def uint64(self, n: int) -> NDArray[np.uint64]:
        out, self.words = self.words[:n], self.words[n:]
        assert len(out) == n
        return np.array(out, dtype=np.uint64)

    def bytes(self, n: int) -> bytes:
        raise AssertionError("no draw here needs a third level")


def test_each_draw_of_a_block_has_bits_of_its_own() -> None:
    """Decided and undecided prefixes mixed over more than one block: second words go to those that
    need them.
    """
    inverse, reference = CASES["N 500/99"]()
    generator = random.Random(3)
    undecided = np.flatnonzero(inverse._table == inverse._undecided)[1:-1]
    size = 300_000
    prefixes = np.array([generator.getrandbits(16) for _ in range(size)], dtype=np.uint16)
    places = generator.sample(range(size), 200)
    prefixes[places] = [generator.choice(undecided.tolist()) for _ in places]
    asking = np.flatnonzero(np.isin(prefixes, np.append(undecided, [0, (1 << 16) - 1])))
    words = [generator.getrandbits(64) for _ in asking]
    drawn = inverse.sample(size, Replay(prefixes.copy(), list(words)))
    for i, second in zip(asking, words, strict=True):
        assert drawn[i] == reference(int(prefixes[i]) << 240 | (second >> 16) << 192 | 1 << 191)
    decided = np.setdiff1d(np.arange(size), asking)
    for i in decided[::997]:
        assert drawn[i] == reference(int(prefixes[i]) << 240 | 1 << 100)
