from __future__ import annotations

import numpy as np
import pytest

from das.errors import InputError
from das.model.histogram import Histogram
from das.tools.protection.attack.reidentification import SIZES, reidentify
from tests.risk.attack_worlds import PEOPLE, people, tree

BLOCKS = 12
SPINE = tree(BLOCKS, 2)


@pytest.fixture(scope="module")
def truth() -> Histogram:
    return people(np.random.default_rng(1), BLOCKS, 20.0)


@pytest.fixture(scope="module")
def guess(truth: Histogram) -> Histogram:
    """Some records are true, some are others."""
    other = people(np.random.default_rng(2), BLOCKS, 12.0).dense()
    mixed = truth.dense() // 2 + other
    unit, cell = np.nonzero(mixed)
    return Histogram.from_triplets(BLOCKS, PEOPLE.cells, unit, cell, mixed[unit, cell])


def of(cells: list[tuple[int, tuple[int, ...], int]]) -> Histogram:
    """Persons in unit, with levels, and how often."""
    unit, at, count = zip(*cells, strict=True)
    cell = np.ravel_multi_index(np.array(at).T.tolist(), PEOPLE.shape)
    return Histogram.from_triplets(2, PEOPLE.cells, np.array(unit), cell, np.array(count))


def test_expectations_by_hand() -> None:
    """Block 0: three White men of age 0 and a Black one, and an Asian woman. The guess has two White
    men and a Black one of age 0. Of four men three are found; three times in four the record goes
    to a White man, who is White in two of three records."""
    spine = tree(2)
    truth = of(
        [(0, (0, 0, 0, 0), 3), (0, (0, 0, 0, 1), 1), (0, (1, 0, 0, 2), 1), (1, (0, 0, 0, 0), 1)]
    )
    guess = of([(0, (0, 0, 0, 0), 2), (0, (0, 0, 0, 1), 1), (1, (1, 0, 0, 0), 1)])
    found = reidentify(guess, truth, spine, PEOPLE)
    every = found.score()
    assert every.persons == 6
    assert every.agree == 3
    assert every.putative == 3
    assert every.confirmed == pytest.approx((3 * 2 + 1 * 1) / 4)
    assert every.modal == pytest.approx(3 * 3 / 4)
    assert every.proportional == pytest.approx(3 * 3 / 4 * 3 / 5 + 3 / 4 * 1 / 5)
    assert every.leave_one_out == pytest.approx(3 * 3 / 4 * 2 / 4)
    other = found.score("nonmodal")
    assert (other.persons, other.putative, other.confirmed) == (2, 0.75, 0.25)
    assert (
        found.score("nonmodal unique").persons == 1
    )  # the Asian woman; the Black man is not alone
    assert found.score("nonmodal unique").putative == 0
    assert np.isnan(found.score("nonmodal unique").precision)


def test_expectations_are_those_of_random_matching(truth: Histogram, guess: Histogram) -> None:
    """Against drawing the order of files."""
    rng = np.random.default_rng(3)
    t, g = truth.dense(), guess.dense()
    known = np.ravel_multi_index(
        np.unravel_index(np.arange(PEOPLE.cells), PEOPLE.shape)[:2], (2, 3)
    )
    sensitive = np.arange(PEOPLE.cells) % 6
    right = []
    for _ in range(300):
        hits = 0
        for u in range(BLOCKS):
            for k in range(6):
                pairs = [
                    rng.permutation(np.repeat(sensitive[known == k], x[u][known == k]))
                    for x in (t, g)
                ]
                n = min(map(len, pairs))
                hits += int((pairs[0][:n] == pairs[1][:n]).sum())
        right.append(hits)
    score = reidentify(guess, truth, SPINE, PEOPLE).score()
    error = np.std(right) / np.sqrt(len(right))
    assert abs(np.mean(right) - score.confirmed) < 4 * error
    assert score.confirmed > 30 * error


def test_the_truth_finds_everybody_and_the_modal_guess_nobody_else(truth: Histogram) -> None:
    found = reidentify(truth, truth, SPINE, PEOPLE)
    unique = found.score("nonmodal unique")
    assert found.agreement == 1
    assert unique.persons > 2
    assert unique.precision == unique.putative_rate == unique.confirmed_rate == 1
    assert found.score("nonmodal").baseline("modal") == 0
    for group in ("all", "nonmodal"):
        each = [found.score(group, size).persons for size in SIZES]
        assert sum(each) == found.score(group).persons


def test_names_of_places_and_the_order_of_persons_change_nothing(
    truth: Histogram, guess: Histogram
) -> None:
    """Blocks of one tract exchange their labels."""
    order = np.concatenate([np.random.default_rng(4).permutation(6), np.arange(6, BLOCKS)])
    one = reidentify(guess, truth, SPINE, PEOPLE)
    two = reidentify(guess.some(order), truth.some(order), SPINE, PEOPLE)
    for a, b in zip(one.scores, two.scores, strict=True):
        assert vars(a) == pytest.approx(vars(b), nan_ok=True)


def test_some_units_by_themselves(truth: Histogram, guess: Histogram) -> None:
    among = np.arange(BLOCKS) < 3
    found = reidentify(guess, truth, SPINE, PEOPLE, among=among)
    assert found.score(among=True).persons == truth.totals()[:3].sum()
    assert found.score().persons == truth.totals().sum()
    with pytest.raises(InputError, match="no score of 'all' persons"):
        reidentify(guess, truth, SPINE, PEOPLE).score(among=True)


def test_leave_one_out_knows_nothing_of_the_person() -> None:
    """In a block of two different persons the shares have the person in them; the others not."""
    truth = of([(0, (0, 0, 0, 0), 1), (0, (1, 0, 0, 1), 1), (1, (0, 0, 0, 2), 1)])
    every = reidentify(truth, truth, tree(2), PEOPLE).score()
    assert every.proportional == pytest.approx(0.5 + 0.5 + 1)
    assert every.leave_one_out == 0


def test_what_makes_no_sense_is_refused(truth: Histogram) -> None:
    with pytest.raises(InputError, match="other units or cells"):
        reidentify(truth, truth, tree(3), PEOPLE)
    with pytest.raises(InputError, match="both known and sensitive"):
        reidentify(truth, truth, SPINE, PEOPLE, known=("sex", "cenrace"))
    with pytest.raises(InputError, match="is sensitive"):
        reidentify(truth, truth, SPINE, PEOPLE, sensitive=())
    with pytest.raises(InputError, match="mark for each unit"):
        reidentify(truth, truth, SPINE, PEOPLE, among=np.array([True]))
