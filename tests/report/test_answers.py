"""What a page shows of a release, and how the look-up packs it."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.areas import Areas
from das.model.budget import Allocation, Neighbours
from das.model.histogram import Histogram
from das.model.measurement import Measurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.model.plan import Plan
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.publications.counts.report import places
from das.report import answers as lookup
from das.report.answers import UNMEASURED, Answers, PublishedUniverse, gather
from tests.report.parsed import unpack

SPINE = Spine(
    ("Land", "Ward"),
    (np.array(["L"]), np.array(["a", "b", "c"])),
    (np.zeros(1, int), np.zeros(3, int)),
)
TOY = Schema(
    "toy", (Attribute("sex", ("f", "m")), Attribute("age", tuple(f"a{i}" for i in range(12))))
)
QUERIES = {"total": Fraction(1, 2), "sex": Fraction(1, 4), "detailed": Fraction(1, 4)}


class Noise:
    """Measurements that are the count of the unit, times ten; ``c`` was not measured."""

    def queries(self, level):
        return tuple(QUERIES) if level == "Ward" else ()

    def read(self, level, query, start, stop):
        values = np.arange(start, stop)[:, None] * 10 + np.arange(TOY.query(query).answers)
        variance = np.where(np.arange(start, stop) == 2, np.inf, 8.0)
        return Measurement(level, query, start, values, variance)


class Even(Noise):
    """One variance for all units, that of ``noise``."""

    def __init__(self, noise) -> None:
        self.variance = {(n.level, n.query): n.variance for n in noise}

    def read(self, level, query, start, stop):
        m = super().read(level, query, start, stop)
        return Measurement(
            level, query, start, m.values, np.full(stop - start, self.variance[level, query])
        )


def intervals(level, columns):
    """The number of the unit, give or take that of the column; nothing is known of the last column
    of ``c``.
    """
    units = SPINE.units(level)
    middle, within = np.indices((units, len(columns)))
    return middle, np.where(middle + 1 + (within == len(columns) - 1) > 3, UNMEASURED, within)


def world(noise=None, mechanism=DISCRETE_GAUSSIAN) -> PublishedUniverse:
    shares = Allocation(
        {"Land": Fraction(1, 2), "Ward": Fraction(1, 2)}, {"Land": QUERIES, "Ward": QUERIES}
    )
    plan = Plan.from_allocation(Fraction(1), mechanism, Neighbours.BOUNDED, shares)
    rng = np.random.default_rng(4)
    dense = rng.integers(0, 5, (3, TOY.cells))
    ward = Histogram.from_triplets(
        3, TOY.cells, *(i.ravel() for i in np.indices(dense.shape)), dense.ravel()
    )
    return PublishedUniverse(
        "persons",
        TOY,
        plan.measurements,
        {"Ward": ward, "Land": ward.up(np.zeros(3, int), 1)},
        noise or Noise(),
        {"Land": ("total",)},
        intervals,
    )


def names(shown, level):
    return [a.query for a in shown.at(level)]


def test_it_shows_totals_attributes_and_small_measured_queries() -> None:
    shown = gather(SPINE, [world()])
    assert names(shown, "Ward") == ["total", "sex", "age", "detailed"]
    assert names(shown, "Land") == ["total", "sex", "age"]
    assert shown.whole == ("Land", "Ward")
    detailed = shown.at("Ward")[3]
    assert np.array_equal(detailed.published, world().published["Ward"].dense())
    assert detailed.labels[13] == "m, a1"
    assert np.array_equal(detailed.noisy[1], 10 + np.arange(24))
    age = shown.at("Ward")[2]
    assert (age.noisy, age.margin, age.measured.tolist()) == (None, None, [False] * 3)
    assert shown.total("persons", "Land").exact
    assert not shown.total("persons", "Ward").exact


def test_room_is_spent_from_the_top() -> None:
    """Land takes 1 + 2 + 12; Ward 39 a unit whole, 3 with small queries, 1 with totals alone."""
    for room, expected in (
        (15 + 117, ["total", "sex", "age", "detailed"]),
        (15 + 116, ["total", "sex"]),
        (15 + 8, ["total"]),
        (15 + 3, ["total"]),
    ):
        shown = gather(SPINE, [world()], room)
        assert names(shown, "Ward") == expected
        assert shown.whole == ("Land", "Ward")
    none = gather(SPINE, [world()], 15 + 2)
    assert none.whole == ("Land",)
    assert none.total("persons", "Ward").published.shape == (3, 1)  # for the figures
    assert "Ward" not in lookup.data(none)


@pytest.mark.parametrize("mechanism", list(MECHANISMS.values()))
def test_margins_are_those_of_the_noise_where_one_scale_holds(mechanism: Mechanism) -> None:
    w = world(mechanism=mechanism)
    w = replace(w, noisy=Even(w.noise))
    expected = {d.query: d.margin() for d in w.noise if d.level == "Ward"}
    for a in gather(SPINE, [w]).at("Ward"):
        if a.margin is not None:
            assert a.margin.tolist() == [expected[a.query]] * 3


def test_margins_follow_the_variances_where_units_differ() -> None:
    sex = gather(SPINE, [world()]).at("Ward")[1]
    assert sex.margin.tolist() == [
        6,
        6,
        UNMEASURED,
    ]  # variance 8: P[|X| <= 5] = 0.948, P[|X| <= 6] = 0.979
    assert sex.measured.tolist() == [True, True, False]
    geometric = gather(SPINE, [world(mechanism=GEOMETRIC)]).at("Ward")[1]
    q = 1 + 1 / 8 - np.sqrt((1 + 1 / 8) ** 2 - 1)  # 2 q / (1 - q)^2 = 8
    tail = [2 * q ** (m + 1) / (1 + q) for m in range(20)]
    assert geometric.margin[0] == next(m for m, t in enumerate(tail) if t <= 0.05)


def test_areas_across_the_levels_say_what_was_assigned_and_what_is_exact() -> None:
    across = Areas("Parish", np.array(["p"]), np.zeros(2, int), np.array([0, 2]))
    assigned = replace(world(), assigned=("sex",), exact={"Land": ("age",), "Ward": ("age",)})
    shown = gather(SPINE, [assigned], areas=[across])
    said = {a.query: (a.title, a.exact) for a in shown.at("Parish")}
    assert said == {a.query: (a.title, a.exact) for a in shown.at("Ward")}
    assert said["sex"] == ("sex (NOT COUNTED: sex assigned)", False)
    assert [said[q][1] for q in ("total", "age", "detailed")] == [True, True, False]


def test_areas_of_all_kinds_have_their_intervals_from_one_pass() -> None:
    """Here an end is the number of the area, and the first cell of the sum."""
    asked = []

    def area_ends(areas: Areas, masks: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        asked.append((len(areas), masks))
        low = np.arange(len(areas))[:, None] + 0 * masks[:, 0]
        return low, np.broadcast_to(masks.argmax(axis=1), low.shape)

    kinds = [
        Areas("Parish", np.array(["p", "q"]), np.array([0, 0, 1]), np.array([0, 2, 1])),
        Areas("Diocese", np.array(["p"]), np.zeros(2, int), np.array([0, 1])),
    ]
    shown = gather(SPINE, [replace(world(), area_ends=area_ends)], areas=kinds)
    assert len(asked) == 1
    for kind, first in zip(kinds, (0, 2), strict=True):
        for a in shown.at(kind.kind):
            if len(a.labels) > lookup.SMALL:
                assert a.ends is None
                continue
            assert a.ends is not None
            query = TOY.query(a.query)
            cells = [query.index.tolist().index(i) for i in range(query.answers)]
            rows = range(first, first + len(kind))
            assert a.ends[0].tolist() == [[row] * query.answers for row in rows]
            assert a.ends[1].tolist() == [cells for _ in rows]
    assert {a.query for a in shown.at("Parish") if a.ends} == {"total", "sex"}


def test_each_query_has_its_own_columns_of_the_intervals() -> None:
    total, sex, age, detailed = gather(SPINE, [world()]).at("Ward")
    assert total.middle[:, 0].tolist() == [0, 1, 2]
    assert [a.within[0].tolist() for a in (total, sex, age)] == [[0], [1, 2], list(range(3, 15))]
    assert detailed.within[:, -1].tolist() == [38, 38, UNMEASURED]


def test_shapes_that_do_not_fit_are_refused() -> None:
    ones = np.ones((2, 1), dtype=np.int64)
    for labels, noisy, margin in (
        (("a", "b"), None, None),
        (("a",), ones, None),
        (("a",), ones[:1], ones[:, 0]),
        (("a",), ones, ones[:1, 0]),
    ):
        with pytest.raises(InputError):
            Answers("persons", "Ward", "total", "Total", labels, ones, noisy, margin, False)
    for middle, within in ((ones, None), (None, ones), (ones[:1], ones), (ones, ones[:, 0])):
        with pytest.raises(InputError):
            Answers(
                "persons", "Ward", "total", "Total", ("a",), ones, None, None, False, middle, within
            )


@given(st.lists(st.one_of(st.integers(-300, 300), st.integers(-(2**61), 2**61)), max_size=40))
def test_packing_loses_nothing(values: list[int]) -> None:
    assert unpack(lookup.pack(np.array(values, dtype=np.int64))).tolist() == values


def test_the_data_of_the_look_up_are_the_answers() -> None:
    shown = gather(SPINE, [world()])
    true = {a.key: a.published + 1 for a in shown.answers}
    for given_truth in (None, true):
        data = json.loads(lookup.data(shown, given_truth))
        assert [x["name"] for x in data["levels"]] == ["Land", "Ward"]
        for level, queries in ((x["name"], x["queries"]) for x in data["levels"]):
            for a, q in zip(shown.at(level), queries, strict=True):
                units, answers = a.published.shape
                assert np.array_equal(unpack(q["published"]).reshape(answers, units).T, a.published)
                assert ("noisy" in q) == (a.noisy is not None)
                if a.noisy is not None:
                    assert np.array_equal(unpack(q["noisy"]).reshape(answers, units).T, a.noisy)
                    assert np.array_equal(unpack(q["measured"]), a.measured)
                off, within, kind = (unpack(q[side]) for side in ("off", "within", "kind"))
                assert np.array_equal(a.published + off.reshape(answers, units).T, a.middle)
                assert np.array_equal(within.reshape(-1, answers)[kind], a.within)
                assert ("true" in q) == (given_truth is not None)
                if given_truth:
                    assert np.array_equal(unpack(q["true"]).reshape(answers, units).T, true[a.key])


def test_the_worst_places_are_the_largest_errors() -> None:
    shown = gather(SPINE, [world()])
    true = {a.key: a.published.copy() for a in shown.answers}
    true["persons", "Ward", "total"][:, 0] += [5, 0, -7]
    true["persons", "Ward", "sex"][1] += [-2, 3]
    tables = places(shown, true)
    assert list(tables) == ["Ward"]  # nothing is wrong with Land
    (_, totals), (_, others) = tables["Ward"]
    assert [(p.code, p.error, p.noisy) for p in totals] == [("c", 7, None), ("a", -5, 0)]
    assert [(p.code, p.what, p.error) for p in others] == [
        ("b", "m (sex, persons)", -3)
    ]  # the worse one of b
