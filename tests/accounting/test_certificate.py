"""Proved enclosures lie inside those with an allowance for rounding, and hold the oracle's
value.
"""

from __future__ import annotations

import sys
from fractions import Fraction

import pytest

from das.accounting import delta, epsilon
from das.errors import UserError
from tests.accounting.oracle_convolution import Convolution
from tests.oracles import as_mpf

CASES = [
    [(Fraction(5), 10)],
    [(Fraction(1, 8), 1), (Fraction(40), 1)],
    [(Fraction(3, 2), 2), (Fraction(5, 2), 1)],
]


@pytest.mark.parametrize("pairs", CASES)
def test_proved_bounds(pairs: list[tuple[Fraction, int]]) -> None:
    pytest.importorskip("flint", reason="python-flint, the extra 'certify', is not installed")
    truth = Convolution(pairs)
    for eps in (Fraction(0), Fraction(1), Fraction(13, 7), Fraction(6)):
        a, b = delta(pairs, eps)
        low, high = delta(pairs, eps, certify=True)
        assert as_mpf(Fraction(low)) <= truth.delta(eps) <= as_mpf(Fraction(high))
        assert a * (1 - 1e-15) <= low <= high <= b * (1 + 1e-15)
        assert high - low < 1e-13 * high


def test_proved_epsilon() -> None:
    pytest.importorskip("flint", reason="python-flint, the extra 'certify', is not installed")
    a, b = epsilon(CASES[0], "1e-10")
    low, high = epsilon(CASES[0], "1e-10", certify=True)
    assert a <= low <= high <= b
    assert high - low < 1e-13


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    with pytest.raises(UserError, match=r"python-flint, which is not installed") as e:
        epsilon(CASES[0], "1e-10", certify=True)
    assert "certify" in str(e.value)
    assert e.value.exit_code == 2
