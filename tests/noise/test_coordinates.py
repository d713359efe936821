"""Noise on request: what its definition says of each coordinate, the right law, and the same value
whatever else is asked.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache
from math import sqrt
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.errors import InputError, PrivacyError
from das.noise import discrete_gaussian, discrete_laplace, entropy, rejection
from das.noise.coordinates import LIMIT, CoordinateNoise
from das.noise.entropy import ChunkLabel, CipherBlocks, CoordinateLabel, Entropy, keyed, seeded
from das.noise.rejection import InverseCdf, symmetric
from das.noise.samplers import Sampler
from tests.noise.test_entropy import KEY, LABEL, OTHERS, SHIFTED, hmac_sha256, written
from tests.oracles import (
    ReferenceInverse,
    chi_square_p,
    gaussian_pmf,
    gaussian_reference,
    independent_p,
    laplace_pmf,
    laplace_reference,
    tally,
)

QUERY = CoordinateLabel(LABEL, "detailed")
LEAST_P = 1e-4  #: seeds are fixed, so a right sampler passes always
N = 500_000
PRODUCTION = Fraction(136_89, 100)  #: 11.7^2, of the nation's cells; 30.2^2 is of its blocks'
VARIANCES = [Fraction(1, 8), PRODUCTION, Fraction(912_04, 100), Fraction(10**4)]
SCALED = [Fraction(7, 10), Fraction(13, 10)]
NAMES = {"ids": lambda s: f"{float(s):.4g}"}


def noise(
    parameter: Fraction = PRODUCTION,
    label: CoordinateLabel = QUERY,
    sampler: Sampler = discrete_gaussian,
    source: Entropy | None = None,
    size: int = LIMIT,
) -> CoordinateNoise:
    return CoordinateNoise((source or keyed(KEY)).blocks(label), size, sampler, parameter)


def anywhere(seed: int, n: int = N, size: int = LIMIT) -> NDArray[np.int64]:
    """Different coordinates, in no order."""
    return np.random.default_rng(seed).permutation(
        np.unique(np.random.default_rng(seed).integers(0, size, n))
    )


# --- what the definition says, bit by bit
# -----------------------------------------------------------------------


class ByHand:
    """The bits of coordinates from RFC 2104 and single blocks of the cipher, as integers."""

    def __init__(self, label: CoordinateLabel) -> None:
        c = label.chunk
        chunk = written(
            c.universe.encode(),
            c.level.encode(),
            b"1",
            c.first,
            c.last,
            c.plan,
            c.sampler.encode(),
            c.truth,
            c.scheme.encode(),
        )
        name = written(chunk, label.query.encode(), b"das noise by coordinate 1")
        self._key = hmac_sha256(KEY, written(b"coordinates", name))

    def block(self, a: int, b: int) -> bytes:
        cipher = Cipher(algorithms.AES(self._key), modes.ECB()).encryptor()
        return cipher.update(a.to_bytes(8, "little") + b.to_bytes(8, "little"))

    def word(self, i: int) -> int:
        """256 bits of U."""
        lane = self.block(i // 8, 0)[2 * (i % 8) :][:2]
        first, second, third = (self.block(i, b) for b in (1, 2, 3))
        word = int.from_bytes(lane, "little") << 48 | int.from_bytes(first[:8], "little") >> 16
        for eight in (first[8:], second[:8], second[8:]):
            word = word << 64 | int.from_bytes(eight, "big")
        assert third != second
        return word


REFERENCES: dict[str, tuple[Sampler, Fraction, Callable[[Fraction], ReferenceInverse]]] = {
    "N 1/8": (discrete_gaussian, Fraction(1, 8), gaussian_reference),
    "N 11.7^2": (discrete_gaussian, PRODUCTION, gaussian_reference),
    "N 10^4": (discrete_gaussian, Fraction(10**4), gaussian_reference),
    "L 1280/27": (discrete_laplace, Fraction(1280, 27), laplace_reference),
}


@pytest.mark.parametrize("case", REFERENCES)
def test_a_coordinate_is_what_its_definition_says(case: str) -> None:
    sampler, parameter, reference = REFERENCES[case]
    drawn, hand, inverse = noise(parameter, sampler=sampler), ByHand(QUERY), reference(parameter)
    asked = np.concatenate([np.arange(40), LIMIT - 1 - np.arange(20), anywhere(1, 2000)])
    assert drawn.at(asked).tolist() == [inverse(hand.word(i)) for i in asked.tolist()]


class Spy(CipherBlocks):
    """Counts how many blocks are asked for of each second number."""

    def __init__(self, key: bytes) -> None:
        super().__init__(key)
        self.asked: dict[int, int] = {}

    def __call__(self, first: NDArray[np.uint64], second: int) -> NDArray[np.uint8]:
        self.asked[second] = self.asked.get(second, 0) + len(first)
        return super().__call__(first, second)


def loosened(parameter: Fraction) -> InverseCdf:
    """The same distribution from brackets so wide that 16 bits decide nothing, 64 little, 128 not
    all, and 192 nearly.
    """
    exact, width = (
        symmetric(lambda n: discrete_gaussian.weights(parameter, n)),
        {64: 5, 128: 9, 192: 14},
    )

    def brackets(n: int) -> tuple[int, list[int], list[int]]:
        first, lo, hi = exact(n)
        loose = 1 << (n - width[n]) if n in width else 0
        return first, [max(0, x - loose) for x in lo], [min(1 << n, x + loose) for x in hi]

    return InverseCdf(lru_cache(brackets))


def test_what_is_not_decided_goes_on_as_far_as_it_must_to_the_same_value() -> None:
    """Wide brackets cost work, and change nothing: each stage is reached, by thousands and by few,
    and is right.
    """
    sigma_sq, asked, hand = Fraction(9), anywhere(2, 600), ByHand(QUERY)
    table, blocks = loosened(sigma_sq), Spy(hand._key)
    sampler: Any = SimpleNamespace(refuse=discrete_gaussian.refuse, inverse=lambda _: table)
    drawn = CoordinateNoise(blocks, LIMIT, sampler, sigma_sq).at(asked)
    inverse = gaussian_reference(sigma_sq)
    assert (
        drawn.tolist()
        == [inverse(hand.word(i)) for i in asked.tolist()]
        == noise(sigma_sq).at(asked).tolist()
    )
    # B(i, 1) at the second and again at the third stage; B(i, 2) at the fourth; at the fifth its
    # second half
    assert blocks.asked[0] == len(asked)
    assert blocks.asked[1] > 1.3 * len(asked)
    assert blocks.asked[2] > 10
    ordinary = Spy(hand._key)
    CoordinateNoise(ordinary, LIMIT, discrete_gaussian, sigma_sq).at(asked)
    assert ordinary.asked.get(1, 0) < 10


def test_where_no_table_pays_a_coordinate_has_a_stream_of_its_own() -> None:
    class Stream(Entropy):
        def __init__(self, i: int) -> None:
            self.i, self.at, self.hand = i, 0, ByHand(QUERY)

        def bytes(self, n: int) -> bytes:
            out = bytes(
                self.hand.block(self.i, 1 + k // 16)[k % 16] for k in range(self.at, self.at + n)
            )
            self.at += n
            return out

    for sampler, one, parameter in (
        (discrete_gaussian, rejection.discrete_gaussian, Fraction(10**10 + 1, 3)),
        (discrete_laplace, rejection.discrete_laplace, Fraction(10**5 + 1, 3)),
    ):
        drawn, asked = noise(parameter, sampler=sampler), anywhere(3, 60)
        assert drawn.at(asked).tolist() == [one(parameter, Stream(i)) for i in asked.tolist()]
        np.testing.assert_array_equal(drawn.at(np.array([5, 3, 5])), drawn.dense(0, 6)[[5, 3, 5]])


# --- the same whatever else is asked
# ----------------------------------------------------------------------------

SIZE = 5000
WIDE = noise(Fraction(10**4), size=SIZE)  #: one in a hundred needs a second block
WHOLE = WIDE.dense(0, SIZE)


@given(
    st.lists(st.integers(0, SIZE - 1), max_size=60),
    st.sampled_from([np.int64, np.int32, np.uint16, np.uint64]),
)
@settings(max_examples=30, deadline=None)
def test_a_coordinate_has_one_value_in_any_company_order_and_type(
    asked: list[int], dtype: type[np.integer[Any]]
) -> None:
    got = WIDE.at(np.array(asked, dtype=dtype))
    assert got.dtype == np.int64
    assert got.tolist() == WHOLE[np.array(asked, dtype=int)].tolist()


@given(st.integers(0, SIZE), st.integers(0, SIZE))
@settings(max_examples=30, deadline=None)
def test_a_stretch_is_its_coordinates(a: int, b: int) -> None:
    first, last = min(a, b), max(a, b)
    np.testing.assert_array_equal(WIDE.dense(first, last), WHOLE[first:last])


def test_many_at_once_are_those_of_one_at_a_time() -> None:
    """Beyond what is done in one piece, in both ways, and from another object of the same key."""
    drawn, first = noise(Fraction(10**4)), LIMIT - 600_011
    whole = drawn.dense(first, LIMIT)
    order = np.random.default_rng(4).permutation(len(whole))
    np.testing.assert_array_equal(noise(Fraction(10**4)).at(first + order), whole[order])
    np.testing.assert_array_equal(drawn.at(first + order[::-1]), whole[order[::-1]])
    for i in order[:50].tolist():
        assert (
            drawn.at(np.array([first + i])).tolist()
            == [whole[i]]
            == drawn.dense(first + i, first + i + 1).tolist()
        )


# --- the law
# ----------------------------------------------------------------------------------------------------


def gaussian_p(drawn: NDArray[np.int64], sigma_sq: Fraction) -> float:
    top = int(8 * sqrt(sigma_sq)) + 2
    return chi_square_p(tally(drawn, top), gaussian_pmf(sigma_sq, top), len(drawn))


@pytest.mark.parametrize("sigma_sq", VARIANCES, **NAMES)
def test_coordinates_have_their_law_and_no_other(sigma_sq: Fraction) -> None:
    asked = anywhere(5)
    for drawn in (
        noise(sigma_sq, source=seeded(1)).at(asked),
        noise(sigma_sq, source=seeded(2)).dense(7, 7 + N),
    ):
        assert gaussian_p(drawn, sigma_sq) > LEAST_P
        for factor in SCALED:
            assert gaussian_p(drawn, sigma_sq * factor**2) < 1e-20
    for factor in SCALED:
        assert gaussian_p(noise(sigma_sq * factor**2, source=seeded(3)).at(asked), sigma_sq) < 1e-20


def test_laplace_coordinates_have_their_law_and_no_other() -> None:
    scale = Fraction(1280, 27)
    top = int(25 * scale) + 5
    counts = tally(noise(scale, sampler=discrete_laplace, source=seeded(1)).at(anywhere(7)), top)
    assert chi_square_p(counts, laplace_pmf(scale, top), counts.sum()) > LEAST_P
    for factor in SCALED:
        assert chi_square_p(counts, laplace_pmf(scale * factor, top), counts.sum()) < 1e-20


def test_every_lane_has_the_law_and_lanes_of_a_block_are_independent() -> None:
    sigma_sq, blocks = Fraction(2), 400_000
    lanes = noise(sigma_sq, source=seeded(4)).dense(0, 8 * blocks).reshape(blocks, 8).T
    assert all(gaussian_p(lane, sigma_sq) > LEAST_P for lane in lanes)
    pairs = [(i, j) for i in range(8) for j in range(i)]
    assert min(independent_p(lanes[i], lanes[j]) for i, j in pairs) > LEAST_P
    assert (
        independent_p(lanes[0], lanes[1] + (np.arange(blocks) % 30 == 0) * lanes[0]) < 1e-20
    )  # it can fail


@pytest.mark.parametrize("lag", [1, 7, 8, 9, 64, 1 << 15, 1 << 18])
def test_neighbours_are_independent(lag: int) -> None:
    drawn = noise(Fraction(2), source=seeded(5)).dense(3, 3 + N)
    assert independent_p(drawn[:-lag], drawn[lag:]) > LEAST_P


def test_what_is_asked_because_of_what_was_answered_has_the_law() -> None:
    """One of two coordinates, chosen by a third: like a full draw whose rest is ignored. Choosing
    by the two themselves is detected."""
    sigma_sq, drawn = Fraction(2), noise(Fraction(2), source=seeded(6))
    first = anywhere(9, 300_000, LIMIT // 3) * 3
    looked = drawn.at(first)
    then = drawn.at(np.where(looked > 0, first + 1, first + 2))
    assert gaussian_p(then, sigma_sq) > LEAST_P
    assert independent_p(looked, then) > LEAST_P
    one, two = drawn.at(first + 1), drawn.at(first + 2)
    assert (
        gaussian_p(np.where(np.arange(len(one)) % 10 == 0, np.maximum(one, two), one), sigma_sq)
        < 1e-20
    )


LABELS = {name: replace(QUERY, chunk=chunk) for name, chunk in OTHERS.items()} | {
    "query": replace(QUERY, query="age"),
    "own scheme": replace(QUERY, scheme="another"),
}


@pytest.mark.parametrize("name", LABELS)
def test_another_truth_plan_level_query_is_unrelated(name: str) -> None:
    sigma_sq, asked = Fraction(2), anywhere(8, 300_000)
    one, other = noise(sigma_sq).at(asked), noise(sigma_sq, LABELS[name]).at(asked)
    assert independent_p(one, other) > LEAST_P
    assert independent_p(one, other + (np.arange(len(one)) % 10 == 0) * one) < 1e-20


def test_every_label_has_its_own_bits_and_none_those_of_a_chunk() -> None:
    assert {f.name for f in fields(ChunkLabel)} | {"query", "own scheme"} == LABELS.keys()
    shifted = [replace(QUERY, chunk=c) for c in SHIFTED] + [
        replace(QUERY, query="detailedd", scheme="as noise by coordinate 1")
    ]
    labels = [QUERY, *LABELS.values(), *shifted]
    chunks = [LABEL, *OTHERS.values(), *SHIFTED]
    assert len({x.encoded() for x in [*labels, *chunks]}) == len(labels) + len(chunks)
    source, at = keyed(KEY), np.arange(2, dtype=np.uint64)
    streams = {source.blocks(x)(at, 0).tobytes() for x in labels} | {
        source.chunk(x).bytes(32) for x in chunks
    }
    assert len(streams) == len(labels) + len(chunks)
    assert len({source.mark(x) for x in [*labels, *chunks]}) == len(labels) + len(chunks)
    assert (
        len(
            {
                s.blocks(QUERY)(at, 0).tobytes()
                for s in (source, keyed(KEY[::-1]), seeded(1), seeded(2))
            }
        )
        == 4
    )


# --- what is refused, and what does not leave
# ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "positions",
    [
        np.array([-1]),
        np.array([0, SIZE]),
        np.array([2**63 - 1]),
        np.array([2**64 - 1], dtype=np.uint64),
        np.array([2**64 - 8], dtype=np.uint64),
        np.array([1.0]),
        np.array([True]),
        np.array([[1]]),
    ],
)
def test_what_is_no_coordinate_is_refused(positions: NDArray[Any]) -> None:
    with pytest.raises(InputError, match="noise on demand"):
        WIDE.at(positions)


@pytest.mark.parametrize("first, last", [(-1, 3), (3, 2), (0, SIZE + 1), (2**64 - 8, 2**64)])
def test_what_is_no_stretch_is_refused(first: int, last: int) -> None:
    with pytest.raises(InputError, match="noise on demand"):
        WIDE.dense(first, last)


def test_a_stream_has_not_more_coordinates_than_a_key_is_for() -> None:
    assert LIMIT <= 1 << 40  # 2^(2 * 41 - 129) of an advantage
    assert noise(size=LIMIT).at(np.array([LIMIT - 1])).shape == (1,)
    for size in (LIMIT + 1, 2**64, -1):
        with pytest.raises(InputError, match="coordinates of one stream"):
            noise(size=size)


def test_a_float_is_refused_before_a_bit_is_looked_at() -> None:
    with pytest.raises(TypeError, match="must be a Fraction"):
        CoordinateNoise(keyed(KEY).blocks(QUERY), 1, discrete_gaussian, 2.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("source", [entropy.system(), entropy.kernel()])
def test_a_source_that_keeps_nothing_has_no_noise_on_request(source: Entropy) -> None:
    with pytest.raises(PrivacyError, match=r"keeps nothing.*\n.*keyed"):
        source.blocks(QUERY)


def test_a_key_does_not_leave() -> None:
    drawn, blocks = noise(), keyed(KEY).blocks(QUERY)
    secrets = [KEY, ByHand(QUERY)._key]
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="a key is in no pickle"):
            duplicate(blocks)
    for duplicate in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a key is in no pickle"):
            duplicate(drawn)
    for x in (drawn, blocks):
        shown = f"{x!r} {x} {vars(x)}"
        assert not any(s.hex() in shown or repr(s)[2:-1] in shown for s in secrets)
