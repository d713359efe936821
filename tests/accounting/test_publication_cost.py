"""What a register keeps of a publication: its cost for each relation is that of the joint account,
and holds for every pair of data sets; its text gives it back."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.accounting.draws import record
from das.accounting.guarantee import worst_epsilon
from das.accounting.sources import joint_account, relations
from das.accounting.zcdp import no_more
from das.cli.kit.options import load_any
from das.errors import RegisterError
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, EPSILON
from das.register.book import Cap
from das.register.publication_cost import PublicationCost
from das.release.privacy_sources import SourceReader

BOUNDED = Neighbours.BOUNDED
NAMED = {r.name: r for r in relations()}


def gaussian(rho: Fraction, stability: int = 1) -> PublicationCost:
    """Of one replaced record."""
    draw = PlannedMeasurement.priced(
        "State", "total", DISCRETE_GAUSSIAN, BOUNDED, rho, stability=stability
    )
    return PublicationCost("bounded", rho, {"persons": record([draw], BOUNDED)})


def cost_of(config: str, relation: str) -> PublicationCost:
    chosen = NAMED[relation]
    found = SourceReader([chosen]).specification(load_any(Path(config), ()), config)
    return PublicationCost.from_sources(found.sources, chosen)


@pytest.mark.parametrize("relation", NAMED)
@pytest.mark.parametrize(
    "config", ["pl94-2010", "dhc-2020", "sdhc-2020", "kazan-reiter", "1940-pure-dp"]
)
def test_the_cost_is_the_most_of_the_joint_account(config: str, relation: str) -> None:
    spec, chosen = load_any(Path(config), ()), NAMED[relation]
    found = SourceReader([chosen]).specification(spec, config).sources
    if relation == "added-or-removed" and config in ("pl94-2010", "dhc-2020", "1940-pure-dp"):
        with pytest.raises(RegisterError, match="nothing follows"):
            PublicationCost.from_sources(found, chosen)
        return
    cost = PublicationCost.from_sources(found, chosen)
    delta = Fraction(1, 10**10)
    (stated,) = joint_account(found, [chosen], delta).relations
    assert cost.rho == max(case.rho for case in stated.cases)
    again = PublicationCost.from_json(json.loads(json.dumps(cost.to_json())))
    assert again.to_json() == cost.to_json()
    if config.startswith("pl94"):
        return  # its epsilon takes seconds, and is none of ours
    epsilon = Cap(EPSILON, Fraction(1), delta).spent([cost])
    assert epsilon >= max(case.epsilon.pld[0] for case in stated.cases)
    if not cost.pure:
        assert epsilon <= Fraction(no_more(cost.rho, delta)), (
            "what states rho alone is never cheaper"
        )


def test_an_altered_text_is_refused() -> None:
    text = gaussian(Fraction(1, 3)).to_json()
    for change in (
        {"rho": "1/4"},
        {"stated": "0"},
        {"more": 1},
        {"sources": {}},
        {"sources": {"persons": [{"noise": "discrete-gaussian", "paths": [], "moves": [[0]]}]}},
    ):
        with pytest.raises(Exception, match=r".") as refused:
            PublicationCost.from_json(text | change)
        assert not isinstance(refused.value, AssertionError)


def test_sources_of_one_name_add_up() -> None:
    """A list of sources may call two the same."""
    (one,) = SourceReader([NAMED["replaced"]]).specification(
        load_any(Path("kazan-reiter"), ()), "x"
    ).sources  # fmt: skip
    once = PublicationCost.from_sources([one], NAMED["replaced"])
    assert PublicationCost.from_sources([one, one], NAMED["replaced"]).rho == 2 * once.rho


# --- another relation


def square(a: dict[str, int], b: dict[str, int]) -> int:
    return sum((a.get(k, 0) - b.get(k, 0)) ** 2 for k in {*a, *b})


@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 2), min_size=4, max_size=4), st.integers(1, 9)),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 2),
)
def test_the_cost_holds_for_every_pair_of_data_sets(
    queries: list[tuple[list[int], int]], records: int
) -> None:
    """Every partition of four cells, and every way to replace one or two persons of a household."""

    def rho(before: list[int], after: list[int]) -> Fraction:
        total = Fraction(0)
        for groups, sigma_sq in queries:
            a, b = (Counter(f"g{groups[cell]}" for cell in cells) for cells in (before, after))
            total += Fraction(square(a, b), 2 * sigma_sq)
        return total

    cells = list(product(range(4), repeat=records))
    actual = max(rho([*x, 0], [*y, 0]) for x, y in product(cells, repeat=2))
    chosen = {r.name: r for r in relations(records)}["household"]
    draws = [
        PlannedMeasurement("State", f"q{i}", DISCRETE_GAUSSIAN, Fraction(s), Fraction(1, s))
        for i, (_, s) in enumerate(queries)
    ]
    from das.accounting.sources import REPLACED, PrivacySource, RecordLoss, Unit

    differing = record(draws, BOUNDED)
    loss = RecordLoss(sum((Fraction(1, s) for _, s in queries), Fraction(0)), differing)
    source = PrivacySource("p", "", Unit.PERSON, "bounded", loss.rho, {REPLACED: loss}, "")
    found = PublicationCost.from_sources([source], chosen)
    assert found.rho == records**2 * loss.rho >= actual
    if len(queries) == 1 and len(set(queries[0][0])) > 1:
        assert actual == found.rho, "and somebody reaches it"


def test_many_changes_are_bounded_by_rho(monkeypatch: pytest.MonkeyPatch) -> None:
    known = cost_of("kazan-reiter", "moved")
    monkeypatch.setattr("das.register.publication_cost.MOST_MOVES", 0)
    bounded = cost_of("kazan-reiter", "moved")
    assert (bounded.differing, bounded.rho) == ((), known.rho)
    delta = Fraction(1, 10**8)
    assert Cap(EPSILON, Fraction(1), delta).spent([bounded]) >= Fraction(
        worst_epsilon(known.differing, delta).low
    )


def test_two_persons_of_the_sdhc_can_raise_one_answer() -> None:
    """Each query reaches one answer by 1, and a unit record changes with its person: one who moves
    can raise the same answer twice, at four times what one who comes costs."""
    changes = ("sdhc.most.persons=1", "sdhc.most.children=1")
    given = load_any(Path("sdhc-2020"), changes)
    added, moved = (
        PublicationCost.from_sources(SourceReader([r]).specification(given, "s").sources, r)
        for r in (NAMED["added-or-removed"], NAMED["moved"])
    )
    assert moved.rho == 4 * added.rho
