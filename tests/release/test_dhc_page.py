"""The page of a release of the DHC: what it says is what is published, counted again."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.histogram import Histogram
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.not_private import WARNING
from das.model.solution import Certificate, Certificates
from das.model.spine import Spine
from das.publications.dhc import figures
from das.publications.dhc import page as dhc_page
from das.publications.dhc.figures import median_age
from das.publications.dhc.model.households import DHCH, TYPES
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.page import worst
from das.publications.dhc.release_files import DhcCounts
from das.report.template import upward
from das.spec import load
from tests.dhc_small import PRISON, counted, simulated, tree
from tests.oracles import gaussian_pmf
from tests.report.parsed import Page, assert_sound, unpack
from tests.statements import one_draw
from tests.worlds import ROOT

CERTIFICATES = {
    "persons": {
        "County": Certificates(Certificate(12, 0, 0, 3e-7), Certificate(12, 0, 2)),
        "Block": Certificates(Certificate(5, 1, 0, 4e-6)),
    },
    "households": {"County": Certificates(Certificate(7, 0, 0, 1e-8))},
}


@pytest.fixture(scope="module")
def spine() -> Spine:
    return tree()


@pytest.fixture(scope="module")
def counts(spine: Spine) -> DhcCounts:
    return counted(spine, simulated())


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, spine: Spine, counts: DhcCounts) -> str:
    return written(tmp_path_factory.mktemp("page"), spine, counts)


def written(out: Path, spine: Spine, counts: DhcCounts, **given: object) -> str:
    takes: dict[str, object] = {
        "certificates": CERTIFICATES,
        "privacy": one_draw(mechanism=DISCRETE_GAUSSIAN),
        "private": True,
    } | given
    dhc_page.write(out, "people & homes <1>", spine, counts, **takes)  # type: ignore[arg-type]
    return (out / "report.html").read_text(encoding="utf-8")


def at_the_usual_delta() -> str:
    """What the page says of the whole guarantee."""
    document = one_draw(mechanism=DISCRETE_GAUSSIAN)
    last = list(document.guarantee.values())[-1]
    (row,) = (e for e in last.epsilon if e.delta == Fraction(1, 10**10))
    return f"ε = {upward(row.pld[1])} at δ = 1e-10"


def rows(page: str) -> dict[str, list[str]]:
    """The table of places, by name."""
    table = page.partition("<h2>Every county</h2>")[2].partition("</table>")[0]
    found = re.findall(r'<tr><th scope="row">([^<]*)</th>(.*?)</tr>', table, re.S)
    return {name: re.findall(r"<td[^>]*>([^<]*)</td>", cells) for name, cells in found}


# --- what it says
# ------------------------------------------------------------------------------------


def test_it_is_whole_and_needs_nothing_from_elsewhere(
    page: str, tmp_path: Path, spine: Spine, counts: DhcCounts
) -> None:
    assert_sound(page)
    assert "people &amp; homes &lt;1&gt;" in page
    assert written(tmp_path, spine, counts) == page
    text = Page(page).text
    assert one_draw(mechanism=DISCRETE_GAUSSIAN).total == Fraction(1, 4)
    assert "Budget ρ = 0.25 " in text
    assert re.findall(r"ε = [\d.]+ at δ = 1e-10", text) == [at_the_usual_delta()]
    assert WARNING not in text


def test_the_look_up_has_headline_counts_of_every_place(
    page: str, spine: Spine, counts: DhcCounts
) -> None:
    """All levels; classes add up to the totals, and ages are those of the records."""
    data = json.loads(Page(page).scripts[0])
    assert [level["name"] for level in data["levels"]] == list(spine.levels)
    assert data["example"][0] == "County"
    for level in data["levels"]:
        n = spine.units(level["name"])
        of = {
            (q["records"], q["name"]): unpack(q["published"]).reshape(-1, n).T
            for q in level["queries"]
        }
        for records, parts in (
            ("persons", ("sex", "age")),
            ("households", ("tenure", "type")),
            ("housing units", ("occupancy",)),
        ):
            total = of[records, "total"][:, 0].tolist()
            assert all(of[records, part].sum(axis=1).tolist() == total for part in parts)
        persons = counts["persons"][level["name"]]
        assert persons.totals().tolist() == of["persons", "total"][:, 0].tolist()
        unit = np.repeat(np.arange(n), np.diff(persons.indptr))
        _, _, age, *_ = np.unravel_index(persons.cell, DHCP.shape)
        for j, (low, high) in enumerate(pairwise([0, 5, 18, 25, 35, 45, 55, 65, 75, 85, 200])):
            some = (age >= low) & (age < high)
            want = np.bincount(unit[some], weights=persons.count[some], minlength=n)
            assert of["persons", "age"][:, j].tolist() == want.tolist()


def test_a_large_level_is_left_to_the_tables(
    tmp_path: Path, spine: Spine, counts: DhcCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "MOST_UNITS", 5)
    text = written(tmp_path, spine, counts)
    assert len(json.loads(Page(text).scripts[0])["levels"]) < len(spine.levels)
    assert "This page has no room for" in Page(text).text


def test_places_of_one_name_are_told_apart() -> None:
    two = Spine.from_frame(
        {"State": ["01", "02", "02"], "County": ["01001", "02001", "02002"], "called": list("WWX")},
        ("US", "State", "County"),
        {"County": "called"},
    )
    assert dhc_page.called(two, "County") == ["W, 01", "W, 02", "X"]


def test_numbers_of_places_are_those_of_the_records(
    page: str, spine: Spine, counts: DhcCounts
) -> None:
    found = rows(page)
    assert next(iter(found)) == "44"
    assert (
        sorted(list(found)[1:], key=lambda n: -int(found[n][0].replace(",", ""))) == list(found)[1:]
    )
    for county, code in ((n, n[-3:]) for n in found if n != "44"):
        unit = int(spine.find("County", [f"44{code}"])[0])
        persons, units, households = (
            counts[u]["County"].rows(unit, unit + 1) for u in ("persons", "units", "households")
        )
        relgq, _, age, *_ = np.unravel_index(np.repeat(persons.cell, persons.count), DHCP.shape)
        *_, tenure, number = np.unravel_index(
            np.repeat(households.cell, households.count), DHCH.shape
        )
        n, homes, vacant = (
            len(age),
            len(tenure),
            int(units.count[(units.cell >= 4) & (units.cell < 11)].sum()),
        )
        away = int((relgq >= 18).sum())
        alone = sum(TYPES[t].size == 1 for t in number.tolist())
        want = [
            n,
            float(found[county][1]),
            100 * (age < 18).mean(),
            100 * (age >= 65).mean(),
            away,
            homes,
            (n - away) / homes,
            100 * (tenure < 2).mean(),
            100 * alone / homes,
            homes + vacant,
            100 * vacant / (homes + vacant),
        ]
        np.testing.assert_allclose(
            [float(x.replace(",", "")) for x in found[county]], want, atol=0.051
        )
        assert abs(float(found[county][1]) - np.median(age + 0.5)) <= 1


def test_households_of_a_kind_are_told_by_their_members(spine: Spine, counts: DhcCounts) -> None:
    places = dhc_page.profiles(spine, counts)
    households = counts["households"]["State"]
    *_, number = np.unravel_index(np.repeat(households.cell, households.count), DHCH.shape)
    found = [TYPES[t] for t in number.tolist()]
    want = [
        sum(t.couple[0] == "M" and t.own > 0 for t in found),
        sum(t.couple[0] == "M" and t.own == 0 for t in found),
        sum(t.couple[0] == "C" for t in found),
        sum(t.couple == "N" and t.own > 0 for t in found),
        sum(t.size == 1 for t in found),
    ]
    assert places.types[0].tolist() == [*want, len(found) - sum(want)]
    assert places.types[0].sum() == places.households[0]


def test_certificates_are_the_worst_of_all_levels(page: str) -> None:
    text = Page(page).text
    assert "persons 17 4.0e-06 1 2" in text
    assert "households 7 1.0e-08 0 0" in text
    assert worst([]) == Certificate()


def test_the_noise_of_every_question_with_few_answers_is_told(
    tmp_path: Path, spine: Spine, counts: DhcCounts
) -> None:
    text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
    levels = ", ".join(f'"{level}"' for level in spine.levels)
    chosen = load(text, where="c", overrides=[f"geography.levels=[{levels}]", "budget.persons=1/2"])
    page = written(tmp_path, spine, counts, universes=chosen.universes)
    assert_sound(page)
    told = (
        Page(page)
        .text.partition("How large the noise is")[2]
        .partition("How sure the estimation is")[0]
    )
    assert told.count("persons: ") == 7
    assert told.count("households: ") == 5
    rho = [
        Fraction(chosen.universe("persons").strategy.rho[level]["hispanic * sex"])
        for level in spine.levels
    ]
    want = []
    for sigma_sq in (float(1 / r) for r in rho):  # bounded neighbors: two answers of one record
        p = gaussian_pmf(sigma_sq, 400)
        inside = [float(p[400 - m : 401 + m].sum()) for m in range(400)]
        want.append(next(m for m, share in enumerate(inside) if share >= 0.95))
    assert "persons: Sex by Hispanic origin 4 " + " ".join(f"±{m}" for m in want) in told
    assert "How large the noise is" not in written(tmp_path, spine, counts)


# --- what hardly is so
# -------------------------------------------------------------------------------


def test_what_is_hardly_so_is_counted(spine: Spine) -> None:
    """None in a world without faults; each fault that is made is found, in its block only."""
    lowest = simulated()
    assert [o.units for o in dhc_page.odd(counted(spine, lowest), "Block")] == [0] * 7
    persons, homes = lowest["persons"], lowest["households"]

    def odd(persons: Histogram, homes: Histogram) -> list[int]:
        return [
            o.units
            for o in dhc_page.odd(
                counted(spine, lowest | {"persons": persons, "households": homes}), "Block"
            )
        ]

    def without(h: Histogram, block: int, which: np.ndarray | None = None) -> Histogram:
        keep = (h.unit != block) | (np.zeros(len(h.cell), dtype=bool) if which is None else ~which)
        return Histogram.from_triplets(h.units, h.cells, h.unit[keep], h.cell[keep], h.count[keep])

    assert odd(persons, without(homes, 0)) == [1, 0, 0, 0, 1, 1, 1]
    assert odd(without(persons, 0), homes) == [0, 1, 0, 0, 1, 1, 1]
    adults = np.unravel_index(persons.cell, DHCP.shape)[2] >= 18
    minors_only = without(persons, 1, adults)
    fewer = int(minors_only.totals()[1] < homes.totals()[1])
    assert odd(minors_only, homes)[:4] == [0, 0, fewer, int(minors_only.totals()[1] > 0)]
    assert odd(minors_only, homes)[-1] == 1
    many = Histogram.from_triplets(
        9,
        homes.cells,
        np.append(homes.unit, 2),
        np.append(homes.cell, 0),
        np.append(homes.count, 1000),
    )
    assert odd(persons, many) == [0, 0, 1, 0, 1, 1, 1]
    assert odd(without(persons, PRISON), homes) == [0, 0, 0, 0, 0, 0, 1]  # an empty facility


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12))
def test_half_are_younger_than_the_median_age(counts: list[int]) -> None:
    by_age = np.array(counts)
    found = median_age(by_age)
    if not by_age.sum():
        assert found is None
        return
    assert found is not None
    year = min(int(found), len(counts) - 1)
    younger = by_age[:year].sum() + (found - year) * by_age[year]
    assert younger == pytest.approx(by_age.sum() / 2)


# --- other trees
# -------------------------------------------------------------------------------------


def test_a_seeded_run_says_so_and_one_without_statement_refers_to_it(
    tmp_path: Path, spine: Spine, counts: DhcCounts
) -> None:
    page = written(tmp_path, spine, counts, private=False, privacy=None, certificates={})
    assert_sound(page)
    assert WARNING in Page(page).text
    assert "not at hand" in page
    assert "privacy.json" in page


def test_trees_of_one_level_without_counties_and_of_many(tmp_path: Path, counts: DhcCounts) -> None:
    state = Spine(("State",), (np.array([b"44"]),), (np.zeros(1, dtype=np.int64),))
    alone = {u: {"State": h["State"]} for u, h in counts.items()}
    page = written(tmp_path, state, alone)
    assert_sound(page)
    assert "<h2>Every" not in page
    tracts = Spine.from_frame({"Tract": [f"{i:03d}" for i in range(140)]}, ["State", "Tract"])
    nobody = {
        u: Histogram.from_triplets(139, h["State"].cells, *(np.zeros(0, dtype=np.int64),) * 3)
        for u, h in counts.items()
    }
    one = {u: h["State"] for u, h in counts.items()}
    many = {u: {"State": h, "Tract": Histogram.concatenate([h, nobody[u]])} for u, h in one.items()}
    page = written(tmp_path, tracts, many)
    assert_sound(page)
    assert "Every tract" in page
    assert "The 120 largest; the others are in the tables." in page
    empty = {
        u: {
            lv: Histogram.from_triplets(h.units, h.cells, *(np.zeros(0, dtype=np.int64),) * 3)
            for lv, h in of.items()
        }
        for u, of in many.items()
    }
    assert_sound(written(tmp_path, tracts, empty))


def test_counts_of_another_tree_are_refused(
    tmp_path: Path, spine: Spine, counts: DhcCounts
) -> None:
    other = replace(spine, names=()).truncated("County").restricted("County", np.array([0]))
    with pytest.raises(InputError, match="2 units of 1,227,744 cells, not 1 of"):
        written(tmp_path, other, counts)
    assert not list(tmp_path.iterdir())
