"""What an intruder learns from a release of the Detailed DHC."""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from das.errors import UserError
from das.model.mechanisms import GEOMETRIC
from das.publications.detailed.model.iterations import GroupLevel
from das.publications.detailed.planning.margins import published, sizes
from das.publications.detailed.risk import ALARMS, EXCLUDED, disclosures, membership
from tests.detailed.worlds import households, persons

NORMAL = NormalDist()


@pytest.mark.parametrize(
    ("codes", "ethnic", "share"), [(1, False, 2), (1, True, 3), (None, True, 9)]
)
def test_a_person_is_found_as_in_noise_of_as_much_information(
    codes: int | None, ethnic: bool, share: int
) -> None:
    """Continuous noise of the same rho has 1 - f(alpha) = Phi(sqrt(2 rho) - z); the discrete one
    differs by less than it can jump.
    """
    p = persons(runs=("us",))
    found = membership(p, "us", codes, ethnic)
    apart = float(2 * p.cost("us") * share / 9) ** 0.5
    assert found.right == pytest.approx(NORMAL.cdf(apart / 2), abs=1e-4)
    for alarm, caught in found.found:
        assert caught == pytest.approx(
            NORMAL.cdf(apart - NORMAL.inv_cdf(1 - float(alarm))), abs=2e-3
        )


def test_who_writes_down_more_is_found_more_often() -> None:
    p = persons(runs=("us",))
    few, many = membership(p, "us", 1, False), membership(p, "us", 8, True)
    assert few.right < many.right < 1
    assert [a for a, _ in few.found] == list(ALARMS)
    assert all(one < other for (_, one), (_, other) in zip(few.found, many.found, strict=True))


def test_pure_differential_privacy_is_bounded_by_its_epsilon() -> None:
    with pytest.raises(UserError, match="puredp"):
        membership(persons(GEOMETRIC), "us")


def test_what_is_seen_excludes_what_would_hardly_be_seen() -> None:
    p = persons(runs=("us",))
    plan = next(plan for plan in p.plans("us") if plan.at == GroupLevel("TRACT", 2))
    seen = {s.seen: s for s in disclosures(plan, p.chance)}
    assert seen["not published"].most == 30  # of 21, and 1.645 times 5.6
    assert published(plan, p.chance, 30) < 1 - EXCLUDED <= published(plan, p.chance, 31)
    assert seen["total alone"].least == 13
    assert published(plan, p.chance, 12) <= EXCLUDED < published(plan, p.chance, 13)
    for size in (1, 2, 3):
        at = seen[f"table of size {size}"]
        assert (
            sizes(plan, at.least)[size:].sum() > EXCLUDED >= sizes(plan, at.least - 1)[size:].sum()
        )
        if at.most is not None:
            assert (
                sizes(plan, at.most)[: size + 1].sum()
                > EXCLUDED
                >= sizes(plan, at.most + 1)[: size + 1].sum()
            )
    assert seen["table of size 3"].most is None


def test_an_interval_of_sizes_holds_as_often_as_it_says() -> None:
    """Of groups of any number of people, what is seen excludes that number in no more than one case
    of ten: one in twenty, either way.
    """
    p = persons(runs=("us",))
    plan = next(plan for plan in p.plans("us") if plan.at == GroupLevel("COUNTY", 2))
    seen = [s for s in disclosures(plan, p.chance) if s.seen.startswith("table")]
    for people in np.unique(
        np.concatenate([np.arange(t - 60, t + 60, 7) for t in plan.thresholds])
    ).tolist():
        chance = sizes(plan, people)[1:]
        lost = sum(
            c
            for c, s in zip(chance, seen, strict=True)
            if people < s.least or (s.most is not None and people > s.most)
        )
        assert lost <= 2 * EXCLUDED


def test_levels_whose_tables_are_known_before_tell_nothing_more() -> None:
    p = households()
    assert all(disclosures(plan, Fraction(0)) == () for plan in p.plans("us"))
