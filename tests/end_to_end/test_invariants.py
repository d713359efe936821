"""Counts of several queries, exact at several levels: read off the published microdata and held
against the input, under so much noise that nothing else could be near it."""

from __future__ import annotations

import csv
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das import read_microdata
from das.errors import InputError, SpecError
from das.geography.invariants import crossing, exact_bounds
from das.model.query import Grouping
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.release import verify
from das.runs import pipeline
from das.spec import parse

CONFIG = """
[run]
name = "exact"
[data]
reader = "table"
path = "{folder}/people.csv"
[data.columns.geography]
Region = "region"
Town = "town"
Ward = "ward"
[schema]
name = "mine"
[schema.attributes]
sex = ["f", "m"]
age = ["0", "1", "2", "3", "4", "5"]
work = ["yes", "no"]
[schema.groupings.adult]
attribute = "age"
groups = {{ minor = ["0", "1"], adult = ["2", "3", "4", "5"] }}
[[schema.impossible]]
age = ["0"]
work = ["yes"]
[geography]
levels = ["Country", "Region", "Town", "Ward"]
[constraints]
total = "Town"
[[constraints.invariants]]
query = "sex"
levels = "Region"
[[constraints.invariants]]
query = "sex * age"
levels = ["Country"]
[budget]
rho = "1/10"
neighbors = "bounded"
levels = {{ Country = "1/4", Region = "1/4", Town = "1/4", Ward = "1/4" }}
[budget.queries]
Country = {{ detailed = 1 }}
Region = {{ total = "1/3", work = "1/3", detailed = "1/3" }}
Town = {{ total = "1/2", detailed = "1/2" }}
Ward = {{ total = "1/2", detailed = "1/2" }}
[output]
report = false
"""


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, draw = tmp_path_factory.mktemp("exact"), random.Random(5)
    with (folder / "people.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("region", "town", "ward", "sex", "age", "work"))
        for region in "AB":
            for town in "12":
                for ward in "xyz":
                    for _ in range(draw.randrange(40)):
                        age = draw.choice("012345")
                        work = "no" if age == "0" else draw.choice(("yes", "no"))
                        sex = "f" if (region, age) == ("A", "5") else draw.choice("fm")
                        rows.writerow((region, region + town, region + town + ward, sex, age, work))
    return folder


def truth(people: Path) -> list[dict[str, str]]:
    with (people / "people.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("method", ["topdown", "full-information"])
def test_what_is_exact_is_exact_and_what_is_not_is_noisy(
    people: Path, tmp_path: Path, method: str
) -> None:
    spec = parse(
        CONFIG.format(folder=people),
        where="c",
        overrides=[f"estimation.method={method}", "run.seed=5"],
    )
    release = pipeline.run(spec, tmp_path / "run").directory.release
    made = read_microdata(release)
    true = truth(people)
    assert Counter(made["geocode"].str[:2]) == Counter(r["town"] for r in true)
    assert Counter(zip(made["geocode"].str[0], made["sex"], strict=True)) == Counter(
        (r["region"], r["sex"]) for r in true
    )
    assert Counter(zip(made["sex"], made["age"], strict=True)) == Counter(
        (r["sex"], r["age"]) for r in true
    )
    assert Counter(made["work"]) != Counter(r["work"] for r in true)
    assert Counter(made["geocode"]) != Counter(r["ward"] for r in true)
    said = [c.says for c in verify.statement(release).outside]
    assert said == [
        f"the number of persons of every {x}, exactly"
        for x in ("Town", "Region by sex", "Country by sex * age")
    ]


def test_the_statement_counts_them_all(people: Path) -> None:
    """What neighbors agree on is every invariant: a draw that follows from one costs these
    nothing.
    """
    terms = parse(CONFIG.format(folder=people), where="c").terms
    assert terms.exact["persons"] == (
        ("Town", "total"),
        ("Region", "sex"),
        ("Country", "sex * age"),
    )


FAULTS = {
    "crossing": ('query = "sex"', 'query = "work"', "'work' and 'sex * age' cross"),
    "chain": (
        "[output]",
        '[rounding]\nchain = ["work * age"]\n[output]',
        "'work * age' (of rounding.chain) cross",
    ),
    "level": (
        'levels = "Region"',
        'levels = "Parish"',
        "constraints.invariants: 'Parish' is not a level",
    ),
    "query": ('query = "sex"', 'query = "gender"', "constraints.invariants: 'gender' is neither"),
    "dwelling": (
        'name = "mine"',
        'name = "mine"\ndwelling = "work"',
        "with bounds on dwellings only totals",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_no_rounding_could_meet_is_refused_before_anything_is_measured(name: str) -> None:
    old, new, message = FAULTS[name]
    with pytest.raises(SpecError) as caught:
        parse(CONFIG.replace(old, new, 1).format(folder="."), where="c")
    assert message in str(caught.value)


def test_nested_in_the_chain_they_may_be(people: Path, tmp_path: Path) -> None:
    text = CONFIG.replace(
        "[output]",
        '[rounding]\nchain = ["sex * age", "sex * adult"]\nobjective = "bureau-2020"\n[output]',
    )
    made = read_microdata(
        pipeline.run(
            parse(text.format(folder=people), where="c"), tmp_path / "run"
        ).directory.release
    )
    assert Counter(zip(made["sex"], made["age"], strict=True)) == Counter(
        (r["sex"], r["age"]) for r in truth(people)
    )


# --- the bounds
# ----------------------------------------------------------------------------------------------------------

SCHEMA = Schema(
    "s",
    (Attribute("a", ("0", "1", "2")), Attribute("b", ("0", "1"))),
    (Grouping("half", "a", ("x", "y"), (0, 0, 1)),),
)
SPINE = Spine(
    ("Root", "Mid", "Leaf"),
    (np.array(["r"]), np.array(["a", "b"]), np.array(["a1", "a2", "b1"])),
    (np.zeros(1, dtype=int), np.zeros(2, dtype=int), np.array([0, 0, 1])),
)
CHAIN = ("total", "half", "half * b", "detailed")


@given(st.data())
def test_bounds_say_all_that_is_known_and_nothing_more(data: st.DataObject) -> None:
    """Against histograms. The sums of the bounds' groups are those of the truth. Each known query
    at each level at or above its own is a function of them."""
    leaf = np.array(
        data.draw(
            st.lists(st.lists(st.integers(0, 5), min_size=6, max_size=6), min_size=3, max_size=3)
        )
    )
    truth = {"Leaf": leaf, "Mid": np.stack([leaf[:2].sum(0), leaf[2]]), "Root": leaf.sum(0)[None]}
    asked = data.draw(
        st.lists(
            st.tuples(st.sampled_from(SPINE.levels), st.sampled_from(CHAIN)),
            max_size=4,
            unique=True,
        )
    )
    known = [
        (lv, SCHEMA.query(q), np.asarray(SCHEMA.query(q).answer(truth[lv]))) for lv, q in asked
    ]
    bounds = exact_bounds(SCHEMA, SPINE, known)
    for depth, level in enumerate(SPINE.levels):
        here = [q for lv, q, _ in known if SPINE.index(lv) >= depth]
        b = bounds[level].dense()
        assert b.exact == bool(here)
        if not here:
            assert b.total is None
            continue
        sums = np.stack(
            [np.bincount(b.group, weights=row, minlength=b.groups) for row in truth[level]]
        )
        assert (b.lower == sums).all()
        assert (b.upper == sums).all()
        assert b.groups == max(q.answers for q in here)
        assert all(len(set(zip(b.group, q.index, strict=True))) == b.groups for q in here)


def test_contradictions_and_crossings_are_refused() -> None:
    total, half, b = (SCHEMA.query(q) for q in ("total", "half", "b"))
    assert crossing([total, half, b]) is not None
    with pytest.raises(InputError, match="cross"):
        exact_bounds(
            SCHEMA,
            SPINE,
            [("Root", half, np.array([[1, 2]])), ("Mid", b, np.zeros((2, 2), dtype=int))],
        )
    with pytest.raises(InputError, match="contradict each other"):
        exact_bounds(
            SCHEMA, SPINE, [("Root", half, np.array([[1, 2]])), ("Root", total, np.array([[4]]))]
        )
