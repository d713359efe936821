"""Cell keys and the cell-key method: the same persons, the same change."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das.errors import SpecError
from das.tools.protection.truth.method import exact_lines, generator
from das.tools.protection.truth.methods.cell_key import CellKey, cell_keys, uniform
from tests.protect.people import records, tables


def test_a_cell_key_is_the_sum_of_its_persons_keys() -> None:
    people, key = records(), b"k"
    drawn = generator(key, "record keys").integers(0, 2**64, size=len(people), dtype=np.uint64)
    keys = cell_keys(people, tables(), key)
    for level in ("Tract", "Block"):
        lines = tables().lines(level)
        unit = people.spine.up("Block", level)[people.place]
        masks = lines.matrix.toarray() > 0
        for u, line in ((1, 0), (2, 3), (3, 7)):
            inside = (unit == u) & masks[line][people.cell]
            total = sum(int(x) for x in drawn[inside]) % 2**64
            assert int(keys[level][u, line]) == total


def test_cell_keys_are_uniform() -> None:
    keys = np.unique(cell_keys(records(), tables(), b"k")["Block"])
    chance = uniform(keys[keys > 0])
    ends = np.histogram(chance, bins=10, range=(0, 1))[0]
    assert abs(ends - len(chance) / 10).max() < 5 * np.sqrt(len(chance) / 10)


@pytest.mark.parametrize("method", [CellKey(), CellKey(5, 2.0, 2), CellKey(3, 1.0, 1)])
def test_bounds_zeros_and_determinism(method: CellKey) -> None:
    people = records()
    exact = exact_lines(people.histogram(), people.spine, tables())
    shown = method.published(people, tables(), b"k")
    for level, lines in shown.levels.items():
        truth = exact[level].value
        assert (lines.lower <= truth).all()
        assert (truth <= lines.upper).all()
        assert (lines.value[truth == 0] == 0).all()
        assert not ((lines.value >= 1) & (lines.value <= method.js)).any()
        assert abs(lines.value - truth).max() < len(lines.price)
        assert (lines.upper - lines.value).max() <= method.D
    assert shown == method.published(people, tables(), b"k")
    assert shown != method.published(people, tables(), b"l")


def test_the_same_cell_in_two_tables_has_the_same_change() -> None:
    """The White of T2, and the White of T3 in blocks where none is Hispanic; the block with all
    that a tract has of a line."""
    people = records()
    exact = exact_lines(people.histogram(), people.spine, tables())["Block"].value
    names = tables().lines("Block").names
    race, origin = names.index("T0020001"), names.index("T0030001")
    same = exact[:, race] == exact[:, origin]
    assert same.any()
    value = CellKey().published(people, tables(), b"k").levels["Block"].value
    assert (value[same, race] == value[same, origin]).all()


def test_a_line_of_one_block_is_changed_there_as_in_its_tract() -> None:
    people = records()
    lines = exact_lines(people.histogram(), people.spine, tables())
    shown = CellKey().published(people, tables(), b"k").levels
    tract = people.spine.up("Block", "Tract")
    same = (lines["Block"].value == lines["Tract"].value[tract]) & (lines["Block"].value > 0)
    assert same.any()
    assert (shown["Block"].value == shown["Tract"].value[tract])[same].all()


def test_unbiased_with_the_variance_asked_for() -> None:
    """Over keys, of the lines of counts 2 and more."""
    people = records()
    truth = exact_lines(people.histogram(), people.spine, tables())["Block"].value
    errors = np.concatenate(
        [
            (CellKey().published(people, tables(), bytes([k])).levels["Block"].value - truth)[
                truth >= 2
            ]
            for k in range(30)
        ]
    )
    assert abs(errors.mean()) < 4 / np.sqrt(len(errors) / 4)  # lines of a block overlap
    assert errors.var() == pytest.approx(1, abs=0.05)


def test_the_price_is_minus_the_log_likelihood() -> None:
    method = CellKey(3, 1.2)
    row = method.perturbations.p[-1, 3:]
    assert method.price == pytest.approx(-np.log(row / row[0]))
    assert method.price[0] == 0


def test_the_price_covers_every_distance() -> None:
    """Where the variance is small, large changes have no probability in a double."""
    method = CellKey(12, 0.3)
    assert (method.perturbations.p[-1] == 0).any()
    assert len(method.price) == 13
    assert (np.diff(method.price, 2) >= -1e-9).all()
    method.published(records(), tables(), b"k")
    assert len(CellKey(3, 1e-20).price) == 4


def test_closure_of_intervals_is_rare() -> None:
    """Two counts of 1 kept at 1 while their total of 2 is printed as 0 are exact: probability
    .3665^2 x .0638 = .00857 at D = 2, V = 1."""
    p = CellKey().perturbations.p
    assert p[1, 2] ** 2 * p[2, 0] == pytest.approx(0.00857, abs=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"D": 0}, "D is 0"),
        ({"js": 2}, "less than D"),
        ({"V": 0.0}, "V is 0.0"),
        ({"js": -1}, "js"),
    ],
)
def test_refusals(change: dict[str, float], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        replace(CellKey(), **change)


def test_label() -> None:
    assert CellKey(5, 2, 2).label == "cell key, D = 5, V = 2, js = 2"
