"""Estimation in memory: counts that agree and meet what is known, estimators of one's own, and what
is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import das
from das.api.arrays.counting import Counted
from das.api.arrays.estimating import Result
from das.errors import InfeasibleError, InputError, SolverError, SpecError
from das.estimate.family import Family
from das.model.not_private import CELL, COLUMN
from das.model.solution import Certificate

SCHEMA = das.Schema.from_attributes(
    "people",
    {"home": ["house", "college"], "age": 3, "sex": {"f": "Female", "m": "Male"}},
    dwelling="home",
    impossible=[{"home": ["college"], "age": [0]}],
)
PLACES = pd.DataFrame({"County": list("aabbb"), "Block": ["a1", "a2", "b1", "b2", "b3"]})
SPINE = das.Spine.from_frame(
    PLACES.assign(called=PLACES["County"].str.upper()),
    ["State", "County", "Block"],
    {"County": "called"},
)
PLAN = das.Plan.of_rho(1, ["State", "County", "Block"], ["total", "home", "detailed"])
#: Houses and colleges of each block: nobody lives in b3.
STRUCTURES = np.array([[9, 0], [9, 1], [9, 0], [9, 2], [0, 0]])


@pytest.fixture(scope="module")
def truth() -> Counted:
    rng = np.random.default_rng(5)
    block = rng.choice(["a1", "a2", "b1", "b2"], 800, p=[0.1, 0.3, 0.2, 0.4])
    college = np.isin(block, ["a2", "b2"]) & (rng.random(800) < 0.4)
    records = {
        "Block": block,
        "home": np.where(college, "college", "house"),
        "age": rng.integers(0, 3, 800),
        "sex": rng.choice(["f", "m"], 800),
    }
    records["age"] = np.where(college, np.maximum(records["age"], 1), records["age"])
    return das.count(records, SCHEMA, SPINE)


@pytest.fixture(scope="module")
def noisy(truth: Counted) -> das.Noisy:
    return das.measure(truth, PLAN, exact={"State": "total"})


def agrees(result: Result) -> None:
    """Children add up to their parents, at every level, cell by cell."""
    for depth in range(1, len(SPINE)):
        below, above = (
            result.histograms[SPINE.levels[d]].histogram.dense() for d in (depth, depth - 1)
        )
        summed = np.zeros_like(above)
        np.add.at(summed, SPINE.parent[depth], below)
        assert np.array_equal(summed, above)
        assert (below >= 0).all()


# --- what comes out
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["topdown", "full-information"])
def test_counts_agree_and_meet_what_is_known(method: str, noisy: das.Noisy) -> None:
    known = das.bounds(SCHEMA, SPINE, noisy.exact, STRUCTURES)
    result = das.topdown(noisy, SPINE, known, method)
    agrees(result)
    blocks = result.histograms["Block"].histogram.dense().reshape(5, 2, -1).sum(axis=2)
    assert result.histograms["State"].answer("total").tolist() == [[800]]
    assert (blocks[STRUCTURES == 0] == 0).all()
    assert (blocks[:, 1] >= STRUCTURES[:, 1]).all()
    assert not result.histograms["State"].histogram.dense()[:, ~SCHEMA.possible].any()
    assert set(result.certificates) == set(SPINE.levels)
    assert repr(result) == "<Result: 800 records at 3 levels>"
    assert repr(result.histograms["County"]) == "<LevelCounts: County, 2 units x 12 cells>"


def test_an_only_child_speaks_for_its_parent_and_an_estimator_hears_it() -> None:
    """90 with a variance of 4 and 100 with one of 1 are 98; of its two blocks each stands for
    itself.
    """
    spine = das.Spine.from_frame(
        {"County": ["a", "a"], "Block": ["a1", "a2"]}, ["State", "County", "Block"]
    )
    of = {"State": (90, 4.0), "County": (100, 1.0)}
    noisy = das.Noisy.from_measurements(
        SCHEMA,
        {(level, "total"): ([[n]], v) for level, (n, v) in of.items()}
        | {("Block", "total"): ([[40], [60]], 1.0)},
    )
    heard = {}

    def even(family: Family) -> np.ndarray:
        heard[family.level] = family.answers("total").values.tolist()
        whole = (
            np.full(len(family.cell), 98 / len(family.cell))
            if family.parent is None
            else family.parent
        )
        return np.tile(whole / len(family), (len(family), 1))

    result = das.topdown(noisy, spine, method=even)
    assert heard == {"State": [[98.0]], "Block": [[40], [60]]}
    assert result.histograms["County"].histogram.same_as(result.histograms["State"].histogram)
    by_rule = das.topdown(noisy, spine)
    assert by_rule.histograms["State"].histogram.totals().tolist() == [98]


def test_what_is_known_of_the_measurements_is_met_without_more_ado(noisy: das.Noisy) -> None:
    """And is what makes the difference: without it, the total is that of the noise."""
    assert das.topdown(noisy, SPINE).histograms["State"].answer("total").tolist() == [[800]]
    totals = {
        das.topdown(das.Noisy(SCHEMA, n.source), SPINE).histograms["State"].answer("total").item()
        for n in (noisy, *[Shifted(noisy.source, by) for by in (-50, 50)])
    }
    assert len(totals) == 3


def test_what_is_known_of_two_sides_is_met_together(noisy: das.Noisy) -> None:
    """Structures alone leave the total to the noise; with the total that the measurements know they
    do not.
    """
    result = das.topdown(noisy, SPINE, das.bounds(SCHEMA, SPINE, structures=STRUCTURES))
    assert result.histograms["State"].answer("total").tolist() == [[800]]
    assert (result.histograms["Block"].answer("home")[STRUCTURES == 0] == 0).all()
    more = das.bounds(SCHEMA, SPINE, {("County", "total"): [300, 500]})
    assert das.topdown(noisy, SPINE, more).histograms["County"].answer("total").tolist() == [
        [300],
        [500],
    ]


@pytest.mark.parametrize(
    "known, error, said",
    [
        (
            lambda: das.bounds(SCHEMA, SPINE, {("State", "total"): [801]}),
            InputError,
            "the counts of 'total' at 'State' are not those",
        ),
        (
            lambda: das.bounds(SCHEMA, SPINE, {("County", "total"): [300, 501]}),
            InputError,
            "totals of 'County' do not add up to",
        ),
        (
            lambda: das.bounds(SCHEMA, SPINE, structures=np.zeros((5, 2), int)),
            InfeasibleError,
            "no histogram meets",
        ),
        (lambda: dict(das.bounds(SCHEMA, SPINE)), InputError, "cannot be put together"),
        (lambda: 7, InputError, "bounds: this is a int"),
    ],
)
def test_what_contradicts_the_measurements_is_refused(
    known: Any, error: Any, said: str, noisy: das.Noisy
) -> None:
    with pytest.raises(error, match=said):
        das.topdown(noisy, SPINE, known())


class Shifted:
    """A source with something added to every answer."""

    def __init__(self, source: Any, by: int) -> None:
        self.source, self.inner, self.by = self, source, by

    def queries(self, level: str) -> tuple[str, ...]:
        return self.inner.queries(level)  # type: ignore[no-any-return]

    def read(self, level: str, query: str, start: int, stop: int) -> Any:
        m = self.inner.read(level, query, start, stop)
        return type(m)(level, query, start, m.values + self.by, m.variance)

    def part(self, level: str, start: int, stop: int) -> Any:
        return self


def test_full_information_has_unbiased_estimates(noisy: das.Noisy) -> None:
    result = das.full_information(noisy, SPINE)
    agrees(result)
    assert list(result.estimates) == ["State", "County"]
    frame = result.estimates["County"].to_frame("total")
    assert frame["name"].tolist() == ["A", "B"]
    own = noisy.to_frame("County", "total", SPINE)
    assert (frame["standard_error"] ** 2 < own["variance"]).all()
    assert frame["value"].sum() == pytest.approx(800)  # the state's total is known
    assert set(result.estimates["County"].to_frame()["query"]) == {"total", "home", "detailed"}
    assert repr(result.estimates["County"]) == "<LevelEstimates: County, total, home, detailed>"
    assert das.topdown(noisy, SPINE).estimates == {}


def test_records_count_to_the_counts(noisy: das.Noisy) -> None:
    result = das.topdown(noisy, SPINE)
    records = result.microdata()
    assert list(records) == ["Block", "home", "age", "sex"]
    assert len(records) == 800
    again = das.count(records.sample(frac=1, random_state=0), SCHEMA, SPINE)
    for level, counts in result.histograms.items():
        assert again.levels[level].open("test").same_as(counts.histogram)
    assert set(result.microdata(labels=True)["sex"]) == {"Female", "Male"}


def test_frames_of_counts(noisy: das.Noisy) -> None:
    """Without a query, the cells with somebody in them; with one, every answer."""
    counts = das.topdown(noisy, SPINE).histograms["County"]
    cells, homes = counts.to_frame(), counts.to_frame("home")
    columns = ["level", "geocode", "name", "query", "home", "age", "sex", "label", "value"]
    assert list(cells) == list(homes) == columns
    assert (cells["value"] > 0).all()
    by_home = cells.groupby(["geocode", "home"])["value"].sum()
    for row in homes.itertuples():
        assert by_home.get((row.geocode, row.home), 0) == row.value
    dense = counts.histogram.dense()[0].reshape(SCHEMA.shape)
    for row in cells[cells["geocode"] == "a"].itertuples():
        assert (
            dense[["house", "college"].index(row.home), int(row.age), "fm".index(row.sex)]
            == row.value
        )
        assert row.label == f"{row.home}, {row.age}, {'Female' if row.sex == 'f' else 'Male'}"


def test_everything_of_a_seed_says_so(truth: Counted) -> None:
    with pytest.warns(UserWarning, match=COLUMN):
        noisy = das.measure(truth, PLAN, seed=1)
    result = das.full_information(noisy, SPINE)
    counts, estimates = result.histograms["County"], result.estimates["County"]
    for frame in (
        counts.to_frame(),
        counts.to_frame("total"),
        result.microdata(),
        estimates.to_frame(),
    ):
        assert set(frame[COLUMN]) == {CELL}
    assert "NOT PRIVATE" in repr(result)


# --- measurements from elsewhere
# -------------------------------------------------------------------------------


def test_measurements_of_arrays_are_those_of_measuring(noisy: das.Noisy) -> None:
    """Values and variances out, and in again; the variance as one number for all units, too."""
    held, single = {}, {}
    for level in SPINE.levels:
        for query in ("total", "home", "detailed"):
            m = noisy.read(level, query, SPINE)
            held[level, query], single[level, query] = (
                (m.values, m.variance),
                (m.values.astype(np.int32), m.variance[0]),
            )
    wanted = das.topdown(noisy, SPINE)
    for arrays in (held, single):
        result = das.topdown(das.Noisy.from_measurements(SCHEMA, arrays, noisy.exact), SPINE)
        for level in SPINE.levels:
            assert result.histograms[level].histogram.same_as(wanted.histograms[level].histogram)
    assert repr(das.Noisy.from_measurements(SCHEMA, held)) == "<Noisy: people>"


@pytest.mark.parametrize("values", [np.zeros((2, 1)), np.zeros(2, int), np.zeros((2, 3), int)])
def test_arrays_of_another_kind_are_refused(values: Any) -> None:
    with pytest.raises(
        InputError, match=r"County/total: values of dtype [\s\S]*give integers, \(units, 1\)"
    ):
        das.Noisy.from_measurements(SCHEMA, {("County", "total"): (values, 1.0)})


def test_arrays_have_a_row_for_each_unit() -> None:
    """Neither more, which were cut off, nor fewer; nor other numbers for two queries of one
    level.
    """

    def of(counties: int, **rest: Any) -> das.Noisy:
        total = {
            lv: np.full((n, 1), 8) for lv, n in (("State", 1), ("County", counties), ("Block", 5))
        }
        return das.Noisy.from_measurements(
            SCHEMA, {(lv, "total"): (v, 2.0) for lv, v in total.items()}, **rest
        )

    assert of(2).read("County", "total", SPINE).values.tolist() == [[8], [8]]
    for counties in (1, 3):
        said = f"County/total: {counties} rows, and the level has 2 units"
        for call in (
            lambda n: of(n, spine=SPINE),
            lambda n: das.topdown(of(n), SPINE),
            lambda n: of(n).read("State", "total", SPINE),
        ):
            with pytest.raises(InputError, match=said):
                call(counties)
    with pytest.raises(InputError, match="County/home: 3 rows, and the level has 2 units"):
        das.Noisy.from_measurements(
            SCHEMA,
            {
                ("County", q): (np.zeros((n, k), int), 1.0)
                for q, n, k in (("total", 2, 1), ("home", 3, 2))
            },
        )
    with pytest.raises(InputError, match="no level 'Tract'"):
        das.topdown(das.Noisy.from_measurements(SCHEMA, {("Tract", "total"): ([[8]], 1.0)}), SPINE)
    with pytest.raises(InputError, match=r"County/total: variances of shape \(3,\)"):
        das.Noisy.from_measurements(SCHEMA, {("County", "total"): ([[8], [8]], [1.0, 2.0, 3.0])})
    with pytest.raises(
        InputError, match=r"County/total: values of dtype float64[\s\S]*integers \(2, 1\)"
    ):
        of(2, exact={("County", "total"): [1.0, 2.0]})


# --- estimators of one's own
# -----------------------------------------------------------------------------------


def proportional(family: Family) -> np.ndarray:
    """The root by its cells; children by their noisy totals."""
    if family.parent is None:
        return family.answers("detailed").values[:, family.cell].clip(0).astype(float)
    totals = family.answers("total").values[:, 0].clip(1)
    return totals[:, None] / totals.sum() * family.parent


class Even(das.Estimator):
    def estimate(self, family: Family) -> tuple[np.ndarray, Certificate]:
        shape = (len(family), len(family.cell))
        whole = (
            np.full(len(family.cell), 800 / len(family.cell))
            if family.parent is None
            else family.parent
        )
        return np.broadcast_to(whole / len(family), shape), Certificate()


class Bare(das.Estimator):
    """Without a certificate."""

    def estimate(self, family: Family) -> np.ndarray:
        return Even().estimate(family)[0]


@pytest.mark.parametrize("method", [proportional, Even(), Bare()])
def test_an_estimator_of_ones_own_is_rounded_and_checked_as_ours(
    method: Any, noisy: das.Noisy
) -> None:
    result = das.topdown(noisy, SPINE, method=method)
    agrees(result)
    assert result.histograms["State"].answer("total").tolist() == [[800]]
    if method is not proportional:
        assert np.ptp(result.histograms["County"].answer("total")) <= SCHEMA.possible.sum()


@pytest.mark.parametrize(
    "wrong, error, said",
    [
        (lambda f: -np.ones((len(f), len(f.cell))), SolverError, "negative or not finite"),
        (lambda f: np.zeros((1, 1)), SolverError, r"shape \(1, 1\)"),
        (lambda f: np.ones((len(f), len(f.cell))), SolverError, "does not sum to its parent"),
        ("bottomup", InputError, "no method 'bottomup'[^$]*'topdown' or 'full-information'"),
        (7, InputError, r"7 is no estimator[\s\S]*a function of a family"),
        (Even, InputError, r"Even is a class[\s\S]*Even\(\)"),
        (lambda f: f, SolverError, "<lambda> answers a Family, and no array"),
        (lambda f: np.zeros(3), SolverError, r"<lambda> answers an array of shape \(3,\)"),
    ],
)
def test_what_is_no_estimate_is_refused(
    wrong: Any, error: Any, said: str, noisy: das.Noisy
) -> None:
    with pytest.raises(error, match=said):
        das.topdown(noisy, SPINE, method=wrong)


# --- what is refused
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "exact, structures, error, said",
    [
        (
            {("State", "total"): [800.0]},
            None,
            InputError,
            r"State/total: values of dtype float64[\s\S]*integers \(1, 1\)",
        ),
        ({("County", "total"): [800]}, None, InputError, r"integers \(2, 1\)"),
        ({("State", "total"): [-1]}, None, InputError, "counts of 0 or more"),
        (
            {("State", "total"): [9], ("County", "total"): [4, 4]},
            None,
            InputError,
            "'County' do not add up to those of 'State'",
        ),
        ({("Tract", "total"): [9]}, None, InputError, "no level 'Tract'"),
        ({}, np.ones((5, 3), int), InputError, r"structures: values[\s\S]*integers \(5, 2\)"),
        ({("State", "sex"): [[4, 4]]}, STRUCTURES, InputError, "only totals can be known"),
        (
            {("State", "sex"): [[4, 4]], ("State", "age"): [[4, 2, 2]]},
            None,
            InputError,
            "are both known, and cross",
        ),
        (
            {("State", "total"): [2]},
            STRUCTURES,
            InfeasibleError,
            "no histogram meets the constraints",
        ),
    ],
)
def test_bounds_that_are_none_are_refused(
    exact: Any, structures: Any, error: Any, said: str
) -> None:
    with pytest.raises(error, match=said):
        das.bounds(SCHEMA, SPINE, exact, structures)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda n: das.topdown(SPINE, n), "topdown: this is a Spine, and no Noisy"),
        (lambda n: das.topdown(n, None), "topdown: this is a NoneType, and no Spine"),
        (
            lambda n: das.measure(n, PLAN),
            r"measure: this is a Noisy, and no Counted[\s\S]*das.count",
        ),
        (
            lambda n: das.bounds(SCHEMA, SPINE, {"State": [800]}),
            r"bounds, exact: this is a str[\s\S]*level and a query",
        ),
    ],
)
def test_another_thing_in_the_place_of_an_argument_is_told(
    call: Any, said: str, noisy: das.Noisy
) -> None:
    with pytest.raises(InputError, match=said):
        call(noisy)


@pytest.mark.parametrize(
    "call, said",
    [
        (lambda r: r.histograms["Tract"], "nothing of level 'Tract'[^$]*State, County, Block"),
        (lambda r: r.estimates["Block"], "nothing of level 'Block'[^$]*State, County"),
        (
            lambda r: r.estimates["County"].to_frame("age"),
            "County: no query 'age'[^$]*total, home, detailed",
        ),
        (
            lambda r: r.estimates["County"].to_frame(["home"]),
            "County: this is a list, and no query",
        ),
        (
            lambda r: r.histograms["County"].to_frame(["home"]),
            "County: this is a list, and no query",
        ),
        (lambda r: r.histograms["County"].answer("race"), "no attribute 'race'"),
        (
            lambda r: r.histograms["County"].histogram.answer("total"),
            r"a str, and no query[^$]*schema.query",
        ),
    ],
)
def test_names_of_something_else_are_one_message(call: Any, said: str, noisy: das.Noisy) -> None:
    with pytest.raises(InputError, match=said):
        call(das.full_information(noisy, SPINE))


def test_shares_of_a_plan_speak_of_the_plan() -> None:
    for queries, said in (
        ({"total": "1/2"}, "plan, shares of queries at State: the shares sum to 1/2"),
        ({}, "plan: queries"),
    ):
        with pytest.raises(SpecError, match=said):
            das.Plan.of_rho(1, ["State"], queries)


def test_what_a_notebook_shows_is_a_line(noisy: das.Noisy) -> None:
    known = das.bounds(SCHEMA, SPINE, noisy.exact, STRUCTURES)
    shown = [
        SCHEMA,
        SPINE,
        PLAN,
        noisy,
        known["Block"],
        known["State"],
        noisy.read("Block", "home", SPINE),
        SCHEMA.query("home"),
    ]
    assert [repr(thing) for thing in shown[4:]] == [
        "<LevelBounds: 5 units, 2 groups, no total known>",
        "<LevelBounds: 1 units, 2 groups, totals known>",
        "<Measurement: 'home' at Block, 5 units x 2 answers>",
        "<Query 'home': 2 answers>",
    ]
    assert all(len(repr(thing)) < 120 for thing in shown)


def test_structures_need_a_dwelling() -> None:
    with pytest.raises(InputError, match="structures need a schema"):
        das.bounds(das.Schema.from_attributes("x", {"age": 2}), SPINE, None, STRUCTURES)


def test_bounds_of_another_spine_are_refused(noisy: das.Noisy) -> None:
    other = das.Spine.from_frame(PLACES[:4], SPINE.levels)
    for known in (
        das.bounds(SCHEMA, other),
        das.bounds(das.Schema.from_attributes("x", {"age": 2}), SPINE),
        {},
    ):
        with pytest.raises(InputError, match="bounds: there are none for the units of"):
            das.topdown(noisy, SPINE, known)


def test_a_level_without_a_measurement_is_told(truth: Counted) -> None:
    plan = das.Plan.of_rho(1, ["State", "Block"], ["detailed"])
    with pytest.raises(
        InputError, match=r"no query to estimate it by[\s\S]*measure a query at every level"
    ):
        das.topdown(das.measure(truth, plan, some_levels=True), SPINE)
    coarse = das.measure(truth, das.Plan.of_rho(1, list(SPINE.levels), ["sex"]))
    with pytest.raises(InputError, match="full information needs the detailed query at 'Block'"):
        das.full_information(coarse, SPINE)


def test_exact_counts_that_cross_the_published_schemas_chain_do_without_it() -> None:
    """Voting age by dwelling is no sum of what rounding keeps for redistricting data."""
    schema = das.load_spec("pl94-2010").persons.schema
    spine = das.Spine.from_frame({"Block": ["1", "2"]}, ["US", "Block"])
    rng = np.random.default_rng(0)
    records = {
        "Block": rng.choice(["1", "2"], 60),
        "hhgq": [0] * 60,
        "votingage": rng.integers(0, 2, 60),
        "hispanic": rng.integers(0, 2, 60),
        "cenrace": rng.integers(0, 63, 60),
    }
    truth = das.count(records, schema, spine, positions=[a.name for a in schema.attributes])
    noisy = das.measure(
        truth,
        das.Plan.of_rho(1, ["US", "Block"], ["votingage", "detailed"]),
        exact={"Block": "votingage"},
    )
    result = das.topdown(noisy, spine)
    assert np.array_equal(
        result.histograms["Block"].answer("votingage"), noisy.exact["Block", "votingage"]
    )


def test_the_size_bias_is_taken_out_with_structures_and_without(noisy: das.Noisy) -> None:
    known, lowest = das.bounds(SCHEMA, SPINE, structures=STRUCTURES), SPINE.levels[-1]
    for bounds in (known, None):
        plain, found = (das.topdown(noisy, SPINE, bounds, bias=b) for b in ("none", "corrected"))
        assert found.histograms[SPINE.levels[0]].histogram.same_as(
            plain.histograms[SPINE.levels[0]].histogram
        )
        assert not found.histograms[lowest].histogram.same_as(plain.histograms[lowest].histogram)
    with pytest.raises(InputError, match="bias cannot be 'weather'"):
        das.topdown(noisy, SPINE, known, bias="weather")
    with pytest.raises(InputError, match="only our own methods correct the size bias"):
        das.topdown(noisy, SPINE, known, lambda family: family.parent / 2, bias="corrected")
