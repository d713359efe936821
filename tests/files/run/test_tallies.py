"""Frozen values of arrays as a file: they come back, of the same bytes, and nothing else does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import ReleaseError
from das.files.run import tallies
from das.model.frozen import NoRepr


@dataclass(frozen=True, eq=False, repr=False)
class Leaf(NoRepr):
    name: str
    counts: NDArray[np.int64]
    sums: NDArray[np.float64]
    codes: NDArray[np.bytes_]
    large: int


@dataclass(frozen=True, eq=False, repr=False)
class Tree(NoRepr):
    leaves: tuple[Leaf, ...]
    numbers: tuple[int, ...] | None


def leaf(n: int) -> Leaf:
    codes = np.array([b"44001", b"", b"9" * (n + 1)])
    return Leaf(
        f"n{n}",
        np.arange(6 * n).reshape(2, n, 3),
        np.array([n / 3, -np.inf, np.nan]),
        codes,
        -(10**40) - n,
    )


def test_a_value_comes_back_and_is_always_the_same_bytes(tmp_path: Path) -> None:
    tree = Tree((leaf(0), leaf(4), leaf(1)), None)
    for name in ("a", "b"):
        tallies.write(tmp_path / name, tree)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    again = tallies.read(tmp_path / "a", Tree)
    assert again.numbers is None
    for one, other in zip(tree.leaves, again.leaves, strict=True):
        assert (other.name, other.large) == (one.name, one.large)
        for name in ("counts", "sums", "codes"):
            x, y = getattr(one, name), getattr(other, name)
            assert x.dtype.kind == y.dtype.kind
            assert np.array_equal(x, y, equal_nan=name == "sums")
    tallies.write(tmp_path / "a", Tree((), (1, -2)))
    assert tallies.read(tmp_path / "a", Tree).numbers == (1, -2)


def test_what_is_no_such_value_is_refused(tmp_path: Path) -> None:
    """Another class, another type of a number, a text cut off, objects that would be unpickled:
    never with a count.
    """
    path = tmp_path / "t.npz"
    for value, kind in ((leaf(1), Tree), (Tree((), (1,)), Leaf), (Tree((), (True,)), Tree)):
        tallies.write(path, value)
        with pytest.raises(ReleaseError, match="no counts of errors") as found:
            tallies.read(path, kind)
        assert "1000000" not in str(found.value)
    tallies.write(path, Tree((leaf(2),), None))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ReleaseError):
        tallies.read(path, Tree)
    np.savez(path, value=np.array([{"an": "object"}], dtype=object))
    with pytest.raises(ReleaseError):
        tallies.read(path, Tree)
    with pytest.raises(ReleaseError):
        tallies.read(tmp_path / "none.npz", Tree)
