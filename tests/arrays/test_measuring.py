"""Counting and measuring in memory: against counts by another library, and against the measurements
of a run.
"""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest

import das
from das.accounting.draws import Composition
from das.api.arrays.counting import Counted
from das.errors import InputError, PrivacyError, SpecError
from das.model.names import text
from das.model.not_private import CELL, COLUMN

PLACES = pd.DataFrame({"County": ["b", "a", "b", "a"], "Block": ["b2", "a1", "b1", "a2"]})
SPINE = das.Spine.from_frame(PLACES, ["State", "County", "Block"])
SCHEMA = das.Schema.from_attributes(
    "people",
    {"age": 4, "sex": {"f": "Female", "m": "Male"}},
    impossible=[{"age": [3], "sex": ["m"]}],
)
PLAN = das.Plan.of_rho("1/2", ["State", "County", "Block"], {"total": "1/4", "sex * age": "3/4"})


def people(n: int = 500, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "Block": rng.choice(["a1", "b1", "b2"], n),
            "sex": rng.choice(["m", "f"], n),
            "age": rng.integers(0, 3, n),
        }
    )
    frame.loc[frame["sex"] == "f", "age"] += 1
    return frame


@pytest.fixture(scope="module")
def truth() -> Counted:
    return das.count(people(), SCHEMA, SPINE)


# --- counting
# --------------------------------------------------------------------------------------------------


def test_counts_are_those_of_another_library(truth: Counted) -> None:
    frame = people().assign(County=lambda f: f["Block"].str[0], State="State")
    for level, codes in zip(SPINE.levels, SPINE.codes, strict=True):
        table = pd.crosstab(frame[level], [frame["age"].astype(str), frame["sex"]])
        wanted = table.reindex(
            index=text(codes).tolist(), columns=[(a, s) for a in "0123" for s in "fm"], fill_value=0
        )
        assert np.array_equal(truth.levels[level].open("test").dense(), wanted.to_numpy())


@pytest.mark.parametrize(
    "change",
    [
        lambda f: f.to_dict("list"),
        lambda f: f.assign(age=f["age"].astype(str)),
        lambda f: f.astype({"sex": "category", "Block": "string", "age": "Int64"}),
        lambda f: f.groupby(["Block", "sex", "age"]).size().reset_index(name="n"),
        lambda f: f.rename(columns={"Block": "home"}),
    ],
)
def test_the_same_records_in_another_form_count_the_same(truth: Counted, change: Any) -> None:
    given = change(people())
    known = list(given)
    again = das.count(
        given,
        SCHEMA,
        SPINE,
        place="home" if "home" in known else None,
        counts="n" if "n" in known else None,
    )
    assert again.levels["Block"].open("test").same_as(truth.levels["Block"].open("test"))


def test_numbers_are_codes_where_codes_are_numbers_and_positions_where_that_is_said() -> None:
    schema = das.Schema.from_attributes("x", {"sex": ["2", "1"], "home": ["no", "yes"]})
    spine = das.Spine.from_frame({"B": ["b"]}, ["B"])
    records = {"B": ["b", "b"], "sex": [1, 1], "home": [1, 0]}
    h = das.count(records, schema, spine, positions=["home"]).levels["B"].open("test")
    assert h.dense().tolist() == [[0, 0, 1, 1]]
    h = das.count(records, schema, spine, positions=["home", "sex"]).levels["B"].open("test")
    assert h.dense().tolist() == [[0, 0, 1, 1]]
    h = (
        das.count(records | {"sex": [0, 1]}, schema, spine, positions=["home", "sex"])
        .levels["B"]
        .open("test")
    )
    assert h.dense().tolist() == [[0, 1, 1, 0]]


@pytest.mark.parametrize(
    "sex, positions, said",
    [
        (
            [1, 1],
            [],
            (
                r"column 'sex' has whole numbers, and the codes of its levels are texts[\s\S]*f,"
                r" m[\s\S]*positions=\['sex'\]"
            ),
        ),
        ([1, 2], ["sex"], "a value in 'sex' that is none of its levels, [^$]*'2'"),
        (["f", "m"], ["sex"], "column 'sex' is not of whole numbers"),
        (["f", "m"], "sex", "give a list of attributes"),
    ],
)
def test_numbers_are_no_codes_of_texts(sex: Any, positions: Any, said: str) -> None:
    """Sexes of 1 and 2 for levels f and m: no rule can say which is which."""
    records = {"Block": ["a1", "b1"], "age": [1, 1], "sex": sex}
    with pytest.raises(InputError, match=said):
        das.count(records, SCHEMA, SPINE, positions=positions)


def test_arguments_in_another_order_are_told() -> None:
    with pytest.raises(InputError, match=r"count: this is a Spine, and no Schema"):
        das.count(people(), SPINE, SCHEMA)  # type: ignore[arg-type]


def test_the_truth_is_closed(truth: Counted) -> None:
    assert repr(truth) == "<Counted: confidential>"
    assert repr(truth.levels["State"]) == "<confidential>"
    for leave in (pickle.dumps, copy.deepcopy):
        with pytest.raises(PrivacyError):
            leave(truth)


@pytest.mark.parametrize(
    "change, said",
    [
        (lambda f: f[:0], "there is no record"),
        (lambda f: f.drop(columns="sex"), r"no column 'sex'[\s\S]*Block, age"),
        (lambda f: f.drop(columns="Block"), "no column 'Block'"),
        (
            lambda f: f.assign(Block=f["Block"].where(f.index != 3)),
            "'Block' has no value in 1 of 500 rows, [^$]*number 3",
        ),
        (
            lambda f: f.assign(Block=f["Block"].where(f.index != 3, "c1")),
            "1 of 500 rows have a code in 'Block' that is no unit of Block, [^$]*'c1'[^$]*'a1'",
        ),
        (
            lambda f: f.assign(Block=f["Block"].where(f.index != 3, "a")),
            "is no unit of Block, [^$]*'a'",
        ),
        (lambda f: f.assign(Block=7), "column 'Block' is not text"),
        (
            lambda f: f.assign(sex=f["sex"].where(f.index != 3)),
            "'sex' has no value in 1 of 500 rows",
        ),
        (
            lambda f: f.assign(sex=f["sex"].where(f.index != 3, "x")),
            (
                "1 of 500 rows have a value in 'sex' that is none of its levels,"
                " [^$]*'x'[^$]*levels are f, m"
            ),
        ),
        (
            lambda f: f.assign(sex=2),
            "'sex' has whole numbers, and the codes of its levels are texts",
        ),
        (lambda f: f.assign(age=-1), "none of its levels, [^$]*'-1'"),
        (lambda f: f.assign(sex=True), "neither texts nor whole numbers"),
        (lambda f: f.assign(age=f["age"] / 1.0), "neither texts nor whole numbers"),
        (
            lambda f: f.assign(age=f["age"].where(f.index != 3)),
            "'age' has no value in 1 of 500 rows",
        ),
        (lambda f: f.assign(age=f["age"].where(f.index != 3, 4)), "none of its levels, [^$]*'4'"),
        (
            lambda f: f.assign(age=3, sex="m"),
            "500 records have a combination that the schema calls impossible",
        ),
        (lambda f: f.assign(age=[*f["age"][:-1], "x"]), "neither texts nor whole numbers"),
    ],
)
def test_records_that_are_none_are_refused(change: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        das.count(change(people()), SCHEMA, SPINE)


def test_counts_of_rows_are_whole() -> None:
    with pytest.raises(InputError, match="'n' is negative"):
        das.count(people().assign(n=-1), SCHEMA, SPINE, counts="n")


# --- measuring
# -------------------------------------------------------------------------------------------------


def test_what_is_drawn_is_in_the_ledger_and_costs_the_plan(truth: Counted) -> None:
    noisy = das.measure(truth, PLAN)
    assert noisy.private
    assert [(e.universe, e.level, e.query, e.units) for e in noisy.events][:3] == [
        ("persons", "State", "total", 1),
        ("persons", "State", "sex * age", 1),
        ("persons", "County", "total", 2),
    ]
    assert sum(e.cost for e in noisy.events) == PLAN.cost == Fraction(1, 2)
    assert das.epsilon(noisy.events, "1e-10") == das.epsilon(PLAN, "1e-10")
    assert Composition.from_draws(noisy.events).rho == Fraction(1, 2)
    assert repr(noisy) == "<Noisy: people, 6 queries, rho = 1/2>"


def test_noise_is_new_each_time_and_of_the_plans_scale(truth: Counted) -> None:
    """Over 300 measurings the mean square of 600 draws is within 6 of its standard errors (sigma^2
    (2/n)^0.5); with sigma 0.7 or 1.3 times as large it is more than 6 away."""
    plan = das.Plan.of_rho("1/8", ["State"], ["sex"])
    true = truth.levels["State"].open("test").answer(SCHEMA.query("sex"))
    drawn = np.concatenate(
        [
            das.measure(truth, plan, some_levels=True).read("State", "sex", SPINE).values - true
            for _ in range(300)
        ]
    )
    assert len(np.unique(drawn)) > 5
    square, away = (drawn**2).mean(), 8 * (2 / drawn.size) ** 0.5
    assert abs(square - 8) < 6 * away < min(abs(8 * 0.7**2 - 8), abs(8 * 1.3**2 - 8))


def test_a_seed_repeats_and_says_so(truth: Counted) -> None:
    with pytest.warns(UserWarning, match=COLUMN) as said:
        noisy, again = (das.measure(truth, PLAN, seed=7) for _ in range(2))
    assert {w.filename for w in said} == {__file__}
    frames = [n.to_frame("County", "sex * age", SPINE) for n in (noisy, again)]
    assert frames[0].equals(frames[1])
    assert set(frames[0][COLUMN]) == {CELL}
    assert "NOT PRIVATE" in repr(noisy)
    assert COLUMN not in das.measure(truth, PLAN).to_frame("State", "total", SPINE)


@pytest.mark.parametrize("seed", [-1, "7", True, 7.0, np.int64(7)])
def test_a_seed_is_as_strict_as_that_of_a_configuration(seed: Any, truth: Counted) -> None:
    with pytest.raises(SpecError, match=r"measure: the seed is .*[^$]*a whole number of 0 or more"):
        das.measure(truth, PLAN, seed=seed)


def test_measurements_know_their_places(truth: Counted) -> None:
    """Another tree with as many units, or with fewer, or the same under other names."""
    noisy = das.measure(truth, PLAN)
    same = das.Spine.from_frame(PLACES, SPINE.levels, {"Block": "Block"})
    assert np.array_equal(
        noisy.read("Block", "total", same).values, noisy.read("Block", "total", SPINE).values
    )
    levels = ["State", "County", "Block"]
    others = {
        "it has 1 units of County, not 2": das.Spine.from_frame(
            {"County": ["a"] * 4, "Block": PLACES["Block"]}, levels
        ),
        "its Block number 3 is 'b9', not 'b2'": das.Spine.from_frame(
            PLACES.replace("b2", "b9"), levels
        ),
        "its Block 'a2' lies in another County": das.Spine.from_frame(
            PLACES.assign(County=["b", "a", "b", "b"]), levels
        ),
        "it has 3 units of Block, not 4": das.Spine.from_frame(PLACES[:3], levels),
        "its levels are US, County, Block": das.Spine.from_frame(PLACES, ["US", "County", "Block"]),
    }
    for said, other in others.items():
        for call in (
            lambda s: noisy.read("County", "total", s),
            lambda s: das.topdown(noisy, s),
            lambda s: noisy.to_frame("County", "total", s),
        ):
            with pytest.raises(InputError, match=f"made with another spine: {said}"):
                call(other)


def test_counts_without_noise_are_those_that_were_asked_for(truth: Counted) -> None:
    noisy = das.measure(truth, PLAN, exact={"State": "total", "County": ["total", "sex"]})
    assert list(noisy.exact) == [("State", "total"), ("County", "total"), ("County", "sex")]
    assert noisy.exact["State", "total"].tolist() == [[500]]
    assert (
        noisy.exact["County", "sex"].sum(axis=1).tolist()
        == noisy.exact["County", "total"][:, 0].tolist()
    )
    assert repr(noisy) == "<Noisy: people, 6 queries, rho = 1/2, 3 counted exactly>"


@pytest.mark.parametrize(
    "plan, exact, error, said",
    [
        (
            das.Plan.of_rho(1, ["State", "Tract"], ["total"]),
            None,
            SpecError,
            "'Tract' is not a level[^$]*State, County, Block",
        ),
        (
            das.Plan.of_rho(1, ["State"], ["race"]),
            None,
            SpecError,
            "'race' is neither an attribute",
        ),
        (
            das.Plan.of_rho(1, ["State", "Block"], ["total"]),
            None,
            SpecError,
            "nothing is measured at 'County', and nothing was spent",
        ),
        (PLAN, {"Tract": "total"}, InputError, "no level 'Tract'"),
        (PLAN, {"State": "race"}, SpecError, "'race' is neither"),
        (PLAN, "total", InputError, r"measure, exact: this is a str[\s\S]*a mapping of levels"),
        (None, None, InputError, "measure: this is a NoneType, and no Plan"),
    ],
)
def test_a_plan_of_something_else_is_refused(
    plan: Any, exact: Any, error: Any, said: str, truth: Counted
) -> None:
    with pytest.raises(error, match=said):
        das.measure(truth, plan, exact=exact)


def test_blanks_and_order_of_factors_do_not_matter(truth: Counted) -> None:
    """As in the readers and on the command line; the measurements are those of the plan as it is
    spelt elsewhere.
    """
    noisy = das.measure(truth, das.Plan.of_rho(1, list(SPINE.levels), ["age*sex", "total"]))
    assert noisy.source.queries("County") == ("age * sex", "total")
    wanted = noisy.to_frame("County", "age * sex", SPINE)
    for query in ("sex*age", "Age * Sex", "age*sex"):
        assert noisy.to_frame("County", query, SPINE).equals(wanted)
    counts = das.topdown(noisy, SPINE).histograms["County"]
    assert np.array_equal(counts.answer("sex*age"), counts.answer("age * sex"))
    assert counts.to_frame("sex*age").equals(counts.to_frame("age * sex"))


def test_a_frame_of_measurements_has_names_and_labels(truth: Counted) -> None:
    frame = das.measure(truth, PLAN).to_frame("County", "sex * age", SPINE)
    assert list(frame) == [
        "level",
        "geocode",
        "name",
        "query",
        "age",
        "sex",
        "label",
        "value",
        "variance",
    ]
    assert frame["geocode"].tolist() == ["a"] * 8 + ["b"] * 8
    assert frame.loc[3, ["age", "sex", "label"]].tolist() == ["1", "m", "1, Male"]
