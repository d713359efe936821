"""Errors of the DHC, held against slow code that looks at each person and household by
itself.

Figures are counted again from linked persons: of a household by who lives in it, not by its cell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from math import pi, sqrt

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from das.model.confidential import Confidential
from das.model.error_rows import FigureRow, ImpossibleRow
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine
from das.publications.dhc.files import official
from das.publications.dhc.model import strategy
from das.publications.dhc.model.figures import FIGURES, GROUPS
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation.records import SimulatedDhc
from das.publications.dhc.truth.assessment import dhc_impossible, medians
from das.publications.dhc.truth.evaluation import SMALL, figures, query_errors
from tests.dhc_worlds import LEVELS, SIZES, budgeted, counts, on_tree, sealed, tree, world

Ints = NDArray[np.int64]


# --- figures, record by record
# ---------------------------------------------------------------------------------------


def persons_of(w: SimulatedDhc) -> pd.DataFrame:
    p = w.people
    return pd.DataFrame({"block": w.block, "relgq": p.relgq, "sex": p.sex, "age": p.age})


def homes_of(w: SimulatedDhc) -> pd.DataFrame:
    """A row for each household, from those who live in it."""
    p = w.people
    everybody = pd.DataFrame(
        {
            "home": p.household,
            "relgq": p.relgq,
            "sex": p.sex,
            "age": p.age,
            "hispanic": p.hispanic,
            "race": np.minimum(p.cenrace, 6),
        }
    )
    everybody = everybody[everybody.home >= 0]
    heads = everybody[everybody.relgq <= 1].set_index("home").sort_index()

    def any_of(which: pd.Series) -> pd.Series:
        return which.groupby(everybody.home).any().sort_index()

    r, own = everybody.relgq, everybody.relgq.isin([6, 7, 8]) & (everybody.age < 18)
    generations = sum(any_of(r.isin(g)).astype(int) for g in ([10, 12], [6, 7, 8, 13], [11]))
    couple = pd.Series("", index=heads.index)
    for code, kind in ((2, "MO"), (4, "MS"), (3, "CO"), (5, "CS")):
        couple[any_of(r == code)] = kind
    return heads.assign(
        block=w.home_block,
        tenure=w.tenure,
        size=everybody.groupby("home").size(),
        generations=generations,
        couple=couple,
        own=any_of(own),
        small=any_of(own & (everybody.age < 6)),
    )


def units_of(w: SimulatedDhc) -> pd.DataFrame:
    occupied = pd.DataFrame({"block": w.home_block, "unit": w.tenure})
    block, why = (np.repeat(x, w.vacant[np.nonzero(w.vacant)]) for x in np.nonzero(w.vacant))
    return pd.concat([occupied, pd.DataFrame({"block": block, "unit": 4 + why})])


def lines(
    persons: pd.DataFrame, homes: pd.DataFrame, units: pd.DataFrame
) -> dict[str, list[pd.Series]]:
    """The records that each line of each figure counts, in the Bureau's order."""
    owned, ages = homes.tenure <= 1, [(15, 24), (25, 34), (35, 54), (55, 64), (65, 115)]
    tenures, races, kinds = (owned, ~owned), range(7), ("MO", "MS", "CO", "CS")
    three = homes.generations >= 2
    origins = [homes.hispanic == 1, homes.hispanic == 0]
    married, cohabiting, none = (homes.couple.isin(k) for k in (["MO", "MS"], ["CO", "CS"], [""]))
    anyone = pd.Series(True, index=persons.index)
    sexes = (anyone, persons.sex == 0, persons.sex == 1)
    fives = [(a, a + 4 if a < 110 else 115) for a in range(0, 111, 5)]
    quarters = [range(18, 24), range(24, 27), [27], range(28, 33), [33], [34, 35], range(36, 42)]
    return {
        "tenure": [units.unit == 0, units.unit == 1, units.unit.isin([2, 3])],
        "vacancy": [units.unit == 4 + i for i in range(7)],
        "tenure_by_age": [t & homes.age.between(*a) for t in tenures for a in ages],
        "tenure_by_origin": [t & o for t in tenures for o in origins],
        "tenure_by_race": [t & (homes.race == r) for t in tenures for r in races],
        "household_size": [homes["size"] == n for n in range(1, 7)] + [homes["size"] >= 7],
        "alone_65": [(homes["size"] == 1) & (homes.age >= 65)],
        "generations_by_origin": [three & o for o in origins],
        "generations_by_race": [three & (homes.race == r) for r in races],
        "type_by_own_children": [
            homes.own & married,
            homes.own & cohabiting,
            homes.own & none & (homes.sex == 0),
            homes.own & none & (homes.sex == 1),
        ],
        "own_children_under_6": [homes.small],
        "couples": [homes.couple == k for k in kinds],
        "couples_by_origin": [(homes.couple == k) & o for k in kinds for o in origins],
        "couples_by_race": [(homes.couple == k) & (homes.race == r) for k in kinds for r in races],
        "relationship": [persons.relgq <= 1] + [persons.relgq == i for i in range(2, 18)],
        "sex_by_three_ages": [
            s & persons.age.between(*a) for s in sexes for a in [(0, 17), (18, 64), (65, 115)]
        ],
        "sex_by_five_years": [s & persons.age.between(*a) for s in sexes for a in fives],
        "over_75": [persons.age >= 75],
        "single_years": [persons.age == a for a in range(18)],
        "group_quarters": [
            persons.relgq.between(18, 32),
            *(persons.relgq.isin(q) for q in quarters[:4]),
            persons.relgq >= 33,
            *(persons.relgq.isin(q) for q in quarters[4:]),
        ],
    }


def counted(
    people: SimulatedDhc, homes: SimulatedDhc, spine: Spine
) -> dict[tuple[str, str, int], Ints]:
    """By figure, level and line."""
    frames = {
        "persons": persons_of(people),
        "households": homes_of(homes),
        "units": units_of(homes),
    }
    found = lines(frames["persons"], frames["households"], frames["units"])
    out = {}
    for f in FIGURES:
        frame = frames[f.universe]
        for level in LEVELS:
            area = spine.up("Block", level)[frame.block.to_numpy()]
            for j, mask in enumerate(found[f.name]):
                out[f.name, level, j] = np.bincount(
                    area[mask.to_numpy()], minlength=spine.units(level)
                )
    return out


def by_line(rows: Sequence[FigureRow]) -> Iterator[tuple[tuple[str, str, int], FigureRow]]:
    number: defaultdict[tuple[str, str], int] = defaultdict(int)
    for r in rows:
        yield (r.figure, r.level, number[r.figure, r.level]), r
        number[r.figure, r.level] += 1


def test_figures_are_those_of_the_records() -> None:
    spine, mine, other, third = tree(*SIZES), world(1), world(2), world(3)
    rows = dict(
        by_line(figures(sealed(counts(mine, mine, spine)), counts(other, third, spine), LEVELS))
    )
    true, out = counted(mine, mine, spine), counted(other, third, spine)
    assert set(rows) == set(true)
    differ = 0
    for key, row in rows.items():
        t, e = true[key], out[key] - true[key]
        assert row.n == len(t)
        percent = np.where(t > 0, 100 * e / np.maximum(t, 1), 200 * (e > 0))
        expected = (np.abs(e).mean(), sqrt((e**2).mean()), e.mean(), np.abs(percent).mean())
        assert (row.mae, row.rmse, row.bias, row.mape) == pytest.approx(expected), key
        differ += int(e.any())
        beside = official.ERRORS.get(key[:2])
        assert (row.official_mae, row.official_rmse) == (beside[key[2]] if beside else (None, None))
        assert row.official_n == (official.UNITS[key[1]] if beside else None)
    assert differ > len(rows) * 0.9  # that much of the code was looked at


def test_of_the_universes_that_are_there() -> None:
    spine, mine = tree(1, 2, 10), world(4, 10)
    both = counts(mine, mine, spine)
    known, made = ({"units": of["units"]} for of in (sealed(both), both))
    rows = figures(known, made, LEVELS)
    assert {r.figure for r in rows} == {"tenure", "vacancy"}
    assert all((r.mae, r.rmse, r.bias, r.mape) == (0, 0, 0, 0) for r in rows)


def test_what_is_moved_is_found() -> None:
    """Three rented units of each tract become vacant for rent, and two that are owned clear have a
    mortgage.
    """
    spine, mine = tree(*SIZES), world(5)
    both = counts(mine, mine, spine)
    dense = both["units"]["Block"].dense()
    first = spine.children("Tract"), spine.up("Block", "Tract")
    for tract in range(SIZES[1]):
        for was, now, number in ((2, 4, 3), (1, 0, 2)):
            blocks = np.flatnonzero(first[1] == tract)
            for _ in range(number):
                at = blocks[dense[blocks, was].argmax()]
                assert dense[at, was]
                dense[at, [was, now]] += (-1, 1)
    unit, cell = np.nonzero(dense)
    moved = Histogram.from_triplets(SIZES[2], TENVACGQ.cells, unit, cell, dense[unit, cell]).upward(
        spine
    )
    rows = dict(by_line(figures({"units": sealed(both)["units"]}, {"units": moved}, LEVELS)))
    for level, tracts in (("Tract", 1), ("County", SIZES[1] // SIZES[0]), ("State", SIZES[1])):
        for line, by in (("tenure", 2), ("tenure", -2), ("tenure", -3), ("vacancy", 3)):
            at = {("tenure", 2): 0, ("tenure", -2): 1, ("tenure", -3): 2, ("vacancy", 3): 0}[
                line, by
            ]
            row = rows[line, level, at]
            assert (row.bias, row.mae, row.rmse) == pytest.approx(
                (by * tracts, abs(by) * tracts, abs(by) * tracts)
            )
        assert rows["vacancy", level, 6].mae == 0


# --- what cannot be
# ------------------------------------------------------------------------------------------------------


def random_tracts(seed: int, tracts: int) -> dict[str, Histogram]:
    """Persons and households that have nothing to do with each other, few to a tract; one block to
    each.
    """
    rng = np.random.default_rng(seed)
    tract, cells = [], []
    for t in range(tracts):
        kind, n = int(rng.integers(5)), int(rng.integers(0, 40))
        sex = np.full(n, t % 2) if kind == 0 else rng.integers(0, 2, n)
        age = (
            rng.integers(0, 116, n)
            if kind != 1
            else np.where(sex == 0, rng.integers(0, 30, n), rng.integers(25, 90, n))
        )
        if kind == 2:
            n = int(rng.choice([199, 200, 900]))
            sex, age = rng.integers(0, 2, n), rng.integers(0, 18, n)
            age = np.where((sex == 1) & (age == 7) & (t % 3 == 0), 8, age)
        if (
            kind == 3
        ):  # children, and others of one age: at the ends of what counts as women of 18 to 44
            age = np.where(
                rng.random(n) < 0.5, rng.integers(0, 5, n), rng.choice([5, 17, 18, 44, 45])
            )
        if kind == 4 and t % 2:  # medians at 20 years, and next to it
            age = np.where(sex == 0, 30, rng.choice([49, 50, 51]))
        relgq = np.where(rng.random(n) < (0.1 if t % 4 == 0 else 0), 41, 9)
        races = rng.choice(9, n, p=[0.6] + [0.05] * 8)
        cells += np.ravel_multi_index(
            (relgq, sex, age, (rng.random(n) < 0.3).astype(int), races), DHCP.shape
        ).tolist()
        tract += [t] * n
    persons = Histogram.from_triplets(
        tracts, DHCP.cells, np.array(tract), np.array(cells), np.ones(len(cells), dtype=np.int64)
    )
    possible = np.flatnonzero(DHCH.possible)
    homes = rng.integers(0, 30, tracts) * (rng.random(tracts) < 0.8)
    where = np.repeat(np.arange(tracts), homes)
    households = Histogram.from_triplets(
        tracts,
        DHCH.cells,
        where,
        rng.choice(possible, homes.sum()),
        np.ones(homes.sum(), dtype=np.int64),
    )
    many = rng.integers(0, 8, (tracts, TENVACGQ.cells)) * (
        rng.random((tracts, TENVACGQ.cells)) < 0.1
    )
    unit, cell = np.nonzero(many)
    return {
        "persons": persons,
        "households": households,
        "units": Histogram.from_triplets(tracts, TENVACGQ.cells, unit, cell, many[unit, cell]),
    }


class Tract:
    """Its records one by one."""

    def __init__(self, of: dict[str, Histogram], t: int) -> None:
        def each(name: str, shape: tuple[int, ...]) -> list[tuple[int, ...]]:
            h = of[name].rows(t, t + 1)
            return [
                tuple(map(int, np.unravel_index(c, shape)))
                for c, k in zip(h.cell, h.count, strict=True)
                for _ in range(k)
            ]

        self.persons = each("persons", DHCP.shape)
        homes = each("households", DHCH.shape)
        self.homes = [
            (
                sex,
                age,
                hisp,
                race,
                dict(f.split("=") for f in said(DHCH.attributes[6].levels[kind])),
            )
            for sex, age, hisp, race, _, _, kind in homes
        ]
        self.units = [c for (c,) in each("units", TENVACGQ.shape)]


def said(code: str) -> list[str]:
    """Fields of a household type as its code says them."""
    couple, *rest = code.split()
    return [
        f"couple={couple}",
        *(f"{w.rstrip('0123456789')}={w.lstrip('abcdefghijklmnopqrstuvwxyz')}" for w in rest),
    ]


HHAGES = [(15, 24), (25, 34), (35, 44), (45, 54), (55, 59), (60, 64), (65, 74), (75, 84), (85, 115)]
MEMBER: dict[str, Callable[[tuple[int, ...]], bool]] = {
    **{g: lambda p, r=r: min(p[4], 6) == r for r, g in enumerate(GROUPS[:7])},
    GROUPS[7]: lambda p: p[3] == 1,
    GROUPS[8]: lambda p: p[3] == 0 and p[4] == 0,
}


def median(ages: list[int]) -> float:
    """By stepping through the years: half of all persons are younger."""
    below, half = 0.0, len(ages) / 2
    for a in range(116):
        here = ages.count(a)
        if here and below + here >= half:
            return a + (half - below) / here
        below += here
    raise AssertionError


def conditions(t: Tract) -> dict[str, tuple[bool, bool]]:
    """Of one tract: in the universe, and met."""
    n, housed = len(t.persons), sum(p[0] < 18 for p in t.persons)
    plain = n > 0 and housed == n
    out = {
        "more households than persons in them (2)": (True, len(t.homes) > housed),
        "more persons by the sizes of households than persons in them (2)": (
            True,
            sum(int(h[4]["size"]) for h in t.homes) > housed,
        ),
        "more householders of a race than persons (6)": (
            plain,
            any(
                sum(h[3] == r for h in t.homes) > sum(min(p[4], 6) == r for p in t.persons)
                for r in range(7)
            ),
        ),
        "more Hispanic householders than persons (7)": (
            plain,
            sum(h[2] for h in t.homes) > sum(p[3] for p in t.persons),
        ),
        "more householders of an age than persons (8)": (
            plain,
            any(
                sum(h[1] == i for h in t.homes) > sum(a <= p[2] <= b for p in t.persons)
                for i, (a, b) in enumerate(HHAGES)
            ),
        ),
        "more female householders than women (9)": (
            plain,
            sum(h[0] for h in t.homes) > sum(p[1] for p in t.persons),
        ),
        "more households with minors than minors (10)": (
            plain,
            sum(h[4]["minor"] == "1" for h in t.homes) > sum(p[2] < 18 for p in t.persons),
        ),
        "married couples of more than all of 15 and over (13)": (
            plain,
            2 * sum(h[4]["couple"] in ("MO", "MS") for h in t.homes)
            > sum(p[2] >= 15 for p in t.persons),
        ),
        "all of the same sex (16)": (n >= 5, len({p[1] for p in t.persons}) == 1),
        "nobody of some age under 18 and sex (17)": (
            sum(p[2] < 18 for p in t.persons) >= 200,
            len({p[1:3] for p in t.persons if p[2] < 18}) < 36,
        ),
    }
    for sex, who in enumerate(("males", "females")):
        couples = sum(h[4]["couple"] == "MO" for h in t.homes)
        out[f"more opposite-sex married couples than {who} ({11 + sex})"] = (
            plain,
            couples > sum(p[1] == sex for p in t.persons),
        )
    return out | by_group(t)


def by_group(t: Tract) -> dict[str, tuple[bool, bool]]:
    """14, 15 and 20, which are of counties as well."""

    def women(of: list[tuple[int, ...]]) -> tuple[bool, bool]:
        return sum(p[2] < 5 for p in of) >= 5, not any(p[1] == 1 and 18 <= p[2] <= 44 for p in of)

    out = {"children under 5, no women of 18 to 44 (14)": women(t.persons)}
    for group, member in MEMBER.items():
        of = [p for p in t.persons if member(p)]
        out[f"children under 5, no women of 18 to 44 (15): {group}"] = women(of)
        ages = [[p[2] for p in of if p[1] == sex] for sex in (0, 1)]
        enough = min(map(len, ages)) >= 5
        out[f"median ages of men and women 20 years apart (20): {group}"] = (
            enough,
            enough and abs(median(ages[0]) - median(ages[1])) >= 20,
        )
    return out


def test_what_cannot_be_is_counted_as_in_every_tract_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("das.publications.dhc.truth.assessment.AREAS", 37)
    n = 160
    spine = tree(1, n, n)
    true, out = random_tracts(1, n), random_tracts(2, n)
    both = [{name: h.upward(spine) for name, h in of.items()} for of in (true, out)]
    rows = {(r.condition, r.level): r for r in dhc_impossible(sealed(both[0]), both[1], LEVELS)}
    found = [[conditions(Tract(of, t)) for t in range(n)] for of in (true, out)]
    names = list(found[0][0])
    assert {c for c, level in rows if level == "Tract"} == set(names)
    assert {c for c, level in rows if level == "County"} == set(by_group(Tract(true, 0)))
    for name in names:
        expected = [
            sum(f) for of in found for f in ([c[name][0] for c in of], [all(c[name]) for c in of])
        ]
        row = rows[name, "Tract"]
        assert [row.of_true, row.true, row.of_published, row.published] == expected, name
        rare = name.startswith("median") or "(15)" in name
        assert rare or 0 < row.published < row.of_published, f"{name} would not be seen"
    assert sum(rows[name, "Tract"].published for name in names if name.startswith("median")) > 0
    blocks = [c for c, level in rows if level == "Block"]
    assert "persons in households, no occupied unit (4)" in blocks
    housed = [sum(p[0] < 18 for p in Tract(out, t).persons) for t in range(n)]
    occupied = [sum(u < 4 for u in Tract(out, t).units) for t in range(n)]
    four = rows["persons in households, no occupied unit (4)", "Block"]
    assert four.of_published == sum(h > 0 for h in housed)
    assert four.published == sum(h > 0 and not o for h, o in zip(housed, occupied, strict=True)) > 0


def test_nothing_that_cannot_be_is_in_a_truth() -> None:
    """Of linked persons and households, and every official condition has a row."""
    spine, mine, other = tree(*SIZES), world(1), world(2)
    rows = dhc_impossible(sealed(counts(mine, mine, spine)), counts(other, mine, spine), LEVELS)
    hardly = ("(15)", "(16)", "(17)", "(18)", "(20)")
    assert {
        r.condition for r in rows if r.true and not any(x in r.condition for x in hardly)
    } == set()
    assert any(r.published for r in rows if "(8)" in r.condition)
    assert set(official.IMPOSSIBLE) <= {(r.condition, r.level) for r in rows}
    assert all(isinstance(r, ImpossibleRow) for r in rows)


def test_a_median_halves_the_persons() -> None:
    rng = np.random.default_rng(3)
    for _ in range(200):
        ages = rng.integers(0, 116, rng.integers(1, 30)).tolist()
        assert medians(np.bincount(ages, minlength=116)) == pytest.approx(median(ages))
    assert medians(np.zeros((2, 116), dtype=np.int64)).tolist() == [0, 0]


# --- queries
# -----------------------------------------------------------------------------------------------------------------


def test_queries_of_few_answers_beside_their_noise() -> None:
    spine, mine, other = tree(*SIZES), world(1), world(2)
    of = budgeted(strategy.persons())
    true, out = (counts(w, w, spine)["persons"] for w in (mine, other))
    known = {level: Confidential(h) for level, h in true.items()}
    rows = {
        (r.level, r.query): r
        for r in query_errors(known, out, MeasuredSpine.from_published(spine), DHCP, of.plan())
        if r.bin == "all"
    }
    small = [q for p in of.outer for q in p.queries if DHCP.query(q).answers <= SMALL]
    assert set(rows) == {(level, q) for level in LEVELS for q in ("total", *small)}
    assert len(small) == 7
    for (level, query), row in rows.items():
        t, p = (h[level].answer(DHCP.query(query)) for h in (true, out))
        assert (row.n, row.source) == (t.size, "postprocessed")
        e = p - t
        assert (row.mae, row.rmse, row.bias) == pytest.approx(
            (np.abs(e).mean(), sqrt((e**2).mean()), e.mean())
        )
        if query == "total":
            assert row.expected_mae is None
        else:
            variance = 1 / of.rho[level][query]
            assert isinstance(variance, Fraction)
            assert row.expected_rmse == pytest.approx(sqrt(variance), rel=1e-6)
            assert row.expected_mae == pytest.approx(sqrt(2 * float(variance) / pi), rel=0.05)
            assert row.mae_z is None  # that is of noisy measurements


def test_noise_of_units_that_are_measured_with_several_levels() -> None:
    """An only child's share goes to its parent: the noise is that of a random unit of those that
    are measured.
    """
    spine = tree(2, 2, 4)
    of = budgeted(strategy.units())
    tree_of = MeasuredSpine.bypassed(spine, np.arange(4))
    assert not tree_of.measured("Tract").any()
    h = Histogram.from_triplets(
        4, TENVACGQ.cells, np.arange(4), np.arange(4), np.arange(1, 5)
    ).upward(spine)
    plan = on_tree(of, tree_of)
    rows = query_errors(
        {level: Confidential(x) for level, x in h.items()}, h, tree_of, TENVACGQ, plan
    )
    found = {r.level: r.expected_rmse for r in rows if r.query == "tenvacgq" and r.bin == "all"}
    both = of.rho["County"]["tenvacgq"] + of.rho["Tract"]["tenvacgq"]
    assert found.get("Tract") is None
    assert found["County"] == pytest.approx(sqrt(1 / both), rel=1e-6)
