"""The configuration: each fault that a person makes, and what the message says."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das import tables
from das.errors import SpecError
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.spec import RunSpec, parse
from tests.strategies import allocations

BASE = """\
[run]
name = "small"

[data]
reader = "pl94-2010"
path = ["a.zip", "b.zip"]

[schema]
name = "pl94"

[geography]
levels = ["US", "State", "Block"]

[constraints]
total = "State"

[estimation.passes]
default = [["total"], ["*"]]
US = [["*"]]

[budget]
rho = "5/2"
neighbors = "bounded"

[budget.levels]
US = "1/4"
State = "1/4"
Block = "1/2"

[budget.queries.US]
hhgq = "1/3"
detailed = "2/3"

[budget.queries.State]
total = "1/3"
"hispanic * cenrace" = "1/3"
detailed = "1/3"

[budget.queries.Block]
total = 1
"""

UNITS = """
[housing.budget]
relative = "1/10"
[housing.budget.levels]
US = "1/3"
State = "1/3"
Block = "1/3"
[housing.budget.queries.US]
detailed = 1
[housing.budget.queries.State]
detailed = 1
[housing.budget.queries.Block]
detailed = 1
"""

OWN = """\
[run]
name = "own"

[data]
reader = "table"
[data.columns]
count = "n"
[data.columns.geography]
Block = "block"

[schema]
name = "mine"
dwelling = "home"
impossible = [{ home = ["ship"], age = ["young"] }, { age = ["ancient"], home = ["house", "ship"] }]
[schema.attributes]
home = ["house", "ship"]
age = ["young", "old", "ancient"]
[schema.groupings.grown]
attribute = "age"
groups = { yes = ["old", "ancient"], no = ["young"] }

[geography]
levels = ["Root", "Block"]

[budget]
epsilon = 1
neighbors = "unbounded"
mechanism = "geometric"
delta = "1e-9"
[budget.levels]
Root = "1/2"
Block = "1/2"
[budget.queries.Root]
grown = "1/2"
"home * grown" = "1/2"
[budget.queries.Block]
detailed = 1
"""


def read(text: str = BASE, *overrides: str) -> RunSpec:
    return parse(text, where="run.toml", overrides=overrides)


def fault(text: str, *overrides: str) -> str:
    with pytest.raises(SpecError) as caught:
        read(text, *overrides)
    message = str(caught.value)
    assert "run.toml" in message or "--set" in message
    assert "pydantic" not in message
    assert "https://" not in message
    return message


def change(old: str, new: str, text: str = BASE) -> str:
    assert text.count(old) == 1, old
    return text.replace(old, new)


# --- what is right
# -------------------------------------------------------------------------------------------


def test_a_configuration_becomes_a_plan() -> None:
    spec = read()
    assert spec.run.seed is None
    assert spec.data.path == ("a.zip", "b.zip")
    assert spec.budget.delta == Fraction(1, 10**10)
    plan = spec.persons.plan
    assert (plan.mechanism, plan.neighbours, plan.cost) == (
        DISCRETE_GAUSSIAN,
        Neighbours.BOUNDED,
        Fraction(5, 2),
    )
    assert [(d.level, d.query, d.cost) for d in plan.measurements] == [
        ("US", "hhgq", Fraction(5, 24)),
        ("US", "detailed", Fraction(5, 12)),
        ("State", "total", Fraction(5, 24)),
        ("State", "hispanic * cenrace", Fraction(5, 24)),
        ("State", "detailed", Fraction(5, 24)),
        ("Block", "total", Fraction(5, 4)),
    ]
    assert spec.persons.passes == {
        "US": (("hhgq", "detailed"),),
        "State": (("total",), ("hispanic * cenrace", "detailed")),
        "Block": (("total",),),
    }
    assert spec.universes == (spec.persons,)


def test_levels_are_measured_in_the_order_of_the_geography() -> None:
    mixed = change(
        'US = "1/4"\nState = "1/4"\nBlock = "1/2"', 'Block = "1/2"\nUS = "1/4"\nState = "1/4"'
    )
    assert [d.level for d in read(mixed).persons.plan.measurements] == [
        d.level for d in read().persons.plan.measurements
    ]


def test_units_have_a_multiple_of_the_persons_budget() -> None:
    for rho in ("5/2", "1"):
        spec = read(BASE + UNITS, f"budget.rho={rho}")
        persons, units = spec.universes
        assert (persons.name, units.name, units.records) == ("persons", "housing", "housing units")
        assert units.plan.cost == Fraction(rho) / 10
        assert units.passes == dict.fromkeys(("US", "State", "Block"), (("detailed",),))
        assert units.chain == ()
        assert spec.universe("housing") is units


def test_the_table_units_of_earlier_configurations_is_housing() -> None:
    earlier = UNITS.replace("[housing", "[units")
    said: list[str] = []
    spec = parse(
        BASE + earlier, where="old.toml", note=said.append, overrides=["units.budget.relative=1/20"]
    )
    assert spec == read(BASE + UNITS, "housing.budget.relative=1/20")
    assert said == ["old.toml: the table [units] is read as [housing]; rename it"]
    table = '[tables.Vacant]\ntitle = "Vacant"\nuniverse = "units"\nquery = "h1"\n'
    spec = parse(BASE + UNITS + table, where="old.toml", note=said.append)
    assert spec == read(BASE + UNITS + table.replace("units", "housing"))
    assert said[1:] == [
        "old.toml: the universe 'units' of tables.Vacant is read as 'housing'; rename it"
    ]
    assert [t.name for t in spec.universe("housing").own_tables] == ["Vacant"]
    with pytest.raises(SpecError, match=r"\[units\] and \[housing\] are one table"):
        read(BASE + UNITS + earlier)


def test_a_schema_of_ones_own() -> None:
    spec = read(OWN)
    schema = spec.persons.schema
    assert (schema.name, schema.shape, schema.dwelling) == ("mine", (2, 3), "home")
    assert schema.query("grown").labels() == [("*", "yes"), ("*", "no")]
    assert schema.query("grown").index.tolist() == [1, 0, 0, 1, 0, 0]
    assert schema.possible.tolist() == [True, True, False, False, True, False]
    assert spec.persons.plan.mechanism is GEOMETRIC
    assert spec.persons.plan.neighbours is Neighbours.UNBOUNDED
    assert [d.parameter for d in spec.persons.plan.measurements] == [4, 4, 2]
    assert spec.persons.passes == {"Root": (("grown", "home * grown"),), "Block": (("detailed",),)}


LABELS = """
[schema.labels.grown]
title = "Grown up"
[schema.labels.grown.levels]
no = "Not yet"
[schema.labels.home.levels]
house = "In a house"
"""


def test_labels_of_ones_own() -> None:
    schema = read(OWN + LABELS).persons.schema
    assert schema == read(OWN).persons.schema
    assert schema.query("home * grown").title == "home by Grown up"
    assert schema.query("grown").captions() == ["yes", "Not yet"]
    assert schema.attribute("home").labels[0] == "In a house"
    assert parse(read(OWN + LABELS).dump(), where="again").persons.schema.query(
        "grown"
    ).captions() == ["yes", "Not yet"]
    french = read(
        BASE + '[schema.labels.hispanic]\ntitle = "Origine"'
    ).persons.schema  # a published one, in other words
    assert french.query("hispanic").title == "Origine"


WORDS = """
[schema.words]
total = "Ensemble"
by = "par"
"""


def test_a_table_of_places_goes_with_tables() -> None:
    with pytest.raises(SpecError, match="'pl94-2010' has all places in its input"):
        read(BASE, "geography.places=places.csv")


def test_headings_in_another_language() -> None:
    """Of queries and of tables; the specification of the release has them, and a schema is the same
    in any language."""
    read_ = read(OWN + WORDS + '[tables.foyers]\ntitle = "Foyers"\nquery = "home"\n')
    again = parse(read_.dump(), where="again")
    for spec in (read_, again):
        schema = spec.persons.schema
        assert schema == read(OWN).persons.schema
        assert [schema.query(q).title for q in ("total", "home * grown", "detailed")] == [
            "Ensemble",
            "home par grown",
            "All attributes crossed",
        ]
        assert schema.query("total").captions() == ["Ensemble"]
        (t0,) = (t for t in tables.universe_tables(spec.persons) if t.name == "foyers")
        assert t0.labels[0] == "Ensemble"
    assert again.digest == read_.digest
    assert "words" not in read(OWN).dump()


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ('[schema.words]\nby = " "', "the word for 'by' is empty"),
        ('[schema.words]\nfrom = "de"', "schema.words.from"),
        ("[schema.labels.x]", "'x' is neither an attribute nor a grouping"),
        ("[schema.labels.home]\nlevels = { nowhere = 'N' }", "no level 'nowhere' to label"),
        ("[schema.labels.grown]\nlevels = { no = 'yes' }", "label of its own"),
    ],
)
def test_labels_of_nothing_are_refused(labels: str, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        read(f"{OWN}\n{labels}\n")


# --- round trips and digests
# ---------------------------------------------------------------------------------

TUNED = '[rounding]\nchain = ["hhgq"]\n[estimation]\ntolerance = "1/7"\n[estimation.passes]'
ALL = [
    BASE,
    BASE + UNITS,
    OWN,
    change("[run]", "[run]\nseed = 7"),
    change('"5/2"', '"2.5"'),
    change("[estimation.passes]", TUNED),
]


@pytest.mark.parametrize("text", ALL)
def test_a_dumped_specification_reads_back_as_itself(text: str) -> None:
    spec = read(text)
    again = parse(spec.dump(), where="dumped")
    assert again.digest == spec.digest
    assert again.dump() == spec.dump()
    assert again.persons == spec.persons
    assert again.universes == spec.universes
    assert again.data.path == ()
    resolved: Any = {
        "data": {"path"},
        "estimation": {"passes"},
    }  # passes by rule are written out, and are in universes
    assert again.model_dump(exclude=resolved) == spec.model_dump(exclude=resolved)
    tomllib.loads(spec.dump())


@given(allocations(), st.fractions(Fraction(1, 10**6), 10**6))
def test_any_exact_allocation_survives(allocation, rho: Fraction) -> None:  # type: ignore[no-untyped-def]
    lines = [
        "[run]",
        'name = "x"',
        "[data]",
        'reader = "ppmf"',
        "[schema]",
        'name = "s"',
        "[schema.attributes]",
    ]
    lines += [f'q{i} = ["a", "b"]' for i in range(5)]
    lines += [
        "[geography]",
        f"levels = {list(allocation.levels)}",
        "[budget]",
        f'rho = "{rho}"',
        'neighbors = "bounded"',
    ]
    lines += ["[budget.levels]", *(f'{lv} = "{s}"' for lv, s in allocation.levels.items())]
    for level, shares in allocation.queries.items():
        lines += [f"[budget.queries.{level}]", *(f'{q} = "{s}"' for q, s in shares.items())]
    spec = read("\n".join(lines))
    assert spec.persons.plan.cost == rho
    assert parse(spec.dump(), where="dumped").digest == spec.digest


def test_a_digest_is_of_the_meaning_not_of_the_text_or_the_machine() -> None:
    same = [
        read(),
        read("# a comment\n" + BASE.replace("\n\n", "\n")),
        read(change('"5/2"', '"2.5"')),
        read(change('path = ["a.zip", "b.zip"]', 'path = "elsewhere.zip"')),
        read(BASE, "budget.rho=5/2"),
        read(BASE, "run.name=small"),
    ]
    assert len({s.digest for s in same}) == 1
    others = [
        read(BASE, "run.name=other"),
        read(BASE, "run.seed=1"),
        read(BASE, "budget.rho=5/3"),
        read(BASE, "budget.neighbors=unbounded"),
        read(BASE, "constraints.total=US"),
        read(BASE + UNITS),
    ]
    assert len({s.digest for s in [read(), *others]}) == 1 + len(others)


def test_a_specification_is_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read().run.seed = 7


# --- faults
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, path, near",
    [
        (change("neighbors =", "neighbers ="), "budget.neighbers", "neighbors"),
        (change("[geography]", "[geografy]"), "geografy", "geography"),
        (change("[run]", "[run]\nsed = 1"), "run.sed", "seed"),
        (
            change("[constraints]", "[constraints]\nhousing_unit = true"),
            "constraints.housing_unit",
            "housing_units",
        ),
        (change("relative", "relativ", BASE + UNITS), "housing.budget.relativ", "relative"),
        (change("[schema]", "[schema]\nname_ = 1"), "schema.name_", "name"),
    ],
)
def test_an_unknown_key_is_named_with_the_nearest_known(text: str, path: str, near: str) -> None:
    assert f"{path}: unknown key; did you mean {near!r}?" in fault(text)


def test_the_british_spelling_of_the_neighbors_is_read_without_a_word() -> None:
    said: list[str] = []
    given = parse(change("neighbors =", "neighbours ="), where="here", note=said.append)
    override = parse(BASE, where="here", overrides=["budget.neighbours=bounded"])
    assert (given, override, said) == (read(BASE), read(BASE), [])
    both = change("neighbors =", 'neighbours = "bounded"\nneighbors =')
    assert "are one key" in fault(both)


def test_an_unknown_key_like_no_other_comes_with_those_there_are() -> None:
    assert "run.xyzzy: unknown key; known keys: name, seed" in fault(
        change("[run]", "[run]\nxyzzy = 1")
    )


def test_several_faults_are_reported_together() -> None:
    text = change(
        "neighbors =", "neighbers =", change('name = "small"', "", change('"pl94-2010"', '"pl95"'))
    )
    message = fault(change('rho = "5/2"', "rho = 2.5", text))
    for part in (
        "run.name: missing",
        "data.reader: there is no reader 'pl95': there are pl94-2010, pl94-2020",
        "budget.neighbers: unknown key",
        "budget.neighbors: missing",
        "budget.rho: 2.5 is a float",
    ):
        assert part in message
    assert "5 fault(s)" in message


@pytest.mark.parametrize(
    "text, parts",
    [
        (
            change('Block = "1/2"', 'Block = "1/3"'),
            ["budget.levels", "sum to 5/6 (about 0.833333)"],
        ),
        (change('detailed = "2/3"', 'detailed = "1/3"'), ["budget.queries.US", "sum to 2/3"]),
        (
            change('US = "1/4"\n', ""),
            ["level 'US' of geography.levels has no share", "budget.levels"],
        ),
        (
            change('Block = "1/2"', 'Blok = "1/2"'),
            ["level 'Block' of geography.levels has no share"],
        ),
        (
            change('Block = "1/2"', 'Block = "1/4"\nCounty = "1/4"'),
            ["'County' is not a level", "budget.levels"],
        ),
        (change("[budget.queries.Block]\ntotal = 1", ""), ["no queries for level 'Block'"]),
        (
            change("[budget.queries.Block]", "[budget.queries.Tract]"),
            ["no queries for level 'Block'"],
        ),
        (
            BASE + "[budget.queries.Tract]\ntotal = 1",
            ["queries for level 'Tract', which has no share"],
        ),
        (change('US = "1/4"', "US = 0.25"), ["budget.levels.US: 0.25 is a float", '"1/4"']),
        (change('rho = "5/2"', "rho = 2.5"), ["budget.rho: 2.5 is a float, which is not exact"]),
        (change('rho = "5/2"', "rho = nan"), ["budget.rho", "this is no number"]),
        (change('rho = "5/2"', "rho = true"), ["budget.rho", "bool"]),
        (change('rho = "5/2"', 'rho = "lots"'), ["budget.rho: 'lots' is not a number"]),
        (change('rho = "5/2"', 'rho = "1/0"'), ["budget.rho", "divides by zero"]),
        (change('rho = "5/2"', "rho = 0"), ["budget.rho", "the budget is 0"]),
        (change('rho = "5/2"', 'rho = "-1"'), ["budget.rho", "the budget is -1"]),
        (change('rho = "5/2"\n', ""), ["budget", "wants rho"]),
        (change('rho = "5/2"', 'rho = "5/2"\nepsilon = 1'), ["budget", "no epsilon"]),
        (
            change('rho = "5/2"', 'rho = "5/2"\nmechanism = "geometric"'),
            ["wants epsilon, and no rho"],
        ),
        (
            change('rho = "5/2"', 'rho = "5/2"\nmechanism = "laplace"'),
            ["budget.mechanism", "geometric"],
        ),
        (change('rho = "5/2"', 'rho = "5/2"\ndelta = "1"'), ["delta is 1, not between 0 and 1"]),
        (change('rho = "5/2"', 'rho = "5/2"\ndelta = 0'), ["delta is 0, not between 0 and 1"]),
        (change('"bounded"', '"both"'), ["budget.neighbors", "bounded"]),
        (change('neighbors = "bounded"\n', ""), ["budget.neighbors: missing"]),
        (
            change('name = "pl94"', 'name = "pl95"'),
            ["schema.name", "no schema is called 'pl95'", "pl94, h1, 1940-e2e"],
        ),
        (
            change('name = "pl94"', 'name = "pl94"\ndwelling = "hhgq"'),
            ["'pl94' is a published one"],
        ),
        (
            change('hhgq = "1/3"', 'hhqg = "1/3"'),
            ["budget.queries.US", "'hhqg' is neither an attribute nor a grouping"],
        ),
        (
            change('"hispanic * cenrace"', '"cenrace * cenrace"'),
            ["budget.queries.State", "'cenrace' occurs twice"],
        ),
        (
            change('"US", "State", "Block"]', '"US", "State", "State"]'),
            ["geography.levels", "a level occurs twice"],
        ),
        (change('levels = ["US", "State", "Block"]', "levels = []"), ["geography.levels"]),
        (
            change('total = "State"', 'total = "County"'),
            ["constraints.total", "'County' is not a level", "US, State, Block"],
        ),
        (change("US = [[", "County = [["), ["estimation.passes", "'County' is not a level"]),
        (
            change('US = [["*"]]', 'US = [["total"], ["*"]]'),
            ["estimation.passes.US", "'total' is not measured at 'US'"],
        ),
        (
            change('US = [["*"]]', 'US = [["hhgq"]]'),
            ["estimation.passes.US", "in no pass: 'detailed'"],
        ),
        (
            change('US = [["*"]]', 'US = [["hhgq"], ["hhgq", "*"]]'),
            ["estimation.passes.US", "in two passes"],
        ),
        (
            change("[geography]", "[geography]\ndefine = { County = ['State'] }"),
            ["geography.define", "'County'"],
        ),
        (
            change("[constraints]", "[rounding]\nchain = ['hhqg']\n[constraints]"),
            ["'hhqg' is neither"],
        ),
        (change("[run]", "[run]\nseed = -1"), ["run.seed"]),
        (change("[run]", '[run]\nseed = "7"'), ["run.seed"]),
        (change("[run]", "[run]\nseed = true"), ["run.seed"]),
        (change("[run]", "[run]\nseed = 1.0"), ["run.seed"]),
        (change('name = "small"', 'name = ""'), ["run.name"]),
        (change('"pl94-2010"', '"table"'), ["the reader 'table' needs data.columns"]),
        (
            change("[data]", "[data]\ncolumns = {}"),
            ["the reader 'pl94-2010' takes no data.columns"],
        ),
        (
            change('relative = "1/10"', "relative = 0", BASE + UNITS),
            ["housing.budget.relative", "0, not positive"],
        ),
        (
            change('relative = "1/10"', "relative = 0.1", BASE + UNITS),
            ["housing.budget.relative: 0.1 is a float"],
        ),
        (
            change("[housing.budget]", '[housing]\nschema = "h2"\n[housing.budget]', BASE + UNITS),
            ["housing.schema"],
        ),
        (
            change("[housing.budget.levels]\nUS", "[housing.budget.levels]\nUK", BASE + UNITS),
            ["housing.budget.levels", "'US'"],
        ),
        (
            (BASE + UNITS).replace('US = "1/3"\nState', 'US = "1/6"\nState'),
            ["housing.budget.levels", "sum to 5/6"],
        ),
        (
            (BASE + UNITS).replace("US]\ndetailed = 1", "US]\nhhgq = 1"),
            ["housing.budget.queries.US", "'hhgq' is neither"],
        ),
    ],
)
def test_each_fault_is_named_where_it_is(text: str, parts: list[str]) -> None:
    message = fault(text)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    "text, parts",
    [
        (change('["house", "ship"]\nage', '["house", "house"]\nage', OWN), ["attribute 'home'"]),
        (
            change('yes = ["old", "ancient"]', 'yes = ["old"]', OWN),
            ["schema.groupings.grown", "'ancient'"],
        ),
        (
            change('yes = ["old", "ancient"]', 'yes = ["old", "ancient", "young"]', OWN),
            ["exactly one group", "'young'"],
        ),
        (
            change('yes = ["old", "ancient"]', 'yes = ["old", "ancient", "odd"]', OWN),
            ["exactly one group", "'odd'"],
        ),
        (
            change('attribute = "age"', 'attribute = "sex"', OWN),
            ["schema.groupings.grown", "no attribute 'sex'"],
        ),
        (change("[schema.groupings.grown]", "[schema.groupings.home]", OWN), ["same name"]),
        (
            change("[schema.groupings.grown]", "[schema.groupings.detailed]", OWN),
            ["'detailed' cannot name a grouping"],
        ),
        (change("\nhome = [", "\ntotal = [", OWN), ["'total' cannot name an attribute"]),
        (change('dwelling = "home"', 'dwelling = "house"', OWN), ["no attribute 'house'"]),
        (change('{ home = ["ship"], age', '{ hom = ["ship"], age', OWN), ["no attribute 'hom'"]),
        (
            change('age = ["young"] }', 'age = ["yung"] }', OWN),
            ["no level 'yung'", "young, old, ancient"],
        ),
    ],
)
def test_each_fault_of_a_schema_of_ones_own_is_named(text: str, parts: list[str]) -> None:
    message = fault(text)
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    "text, line", [("[run\n", 1), ('[run]\nname = "a\n', 2), ("[run]\nname = 1\nname = 2\n", 3)]
)
def test_a_syntax_error_is_named_with_its_line(text: str, line: int) -> None:
    message = fault(text)
    assert "not valid TOML" in message
    assert f"line {line}" in message


def test_an_empty_configuration_names_what_is_missing() -> None:
    message = fault("")
    for table in ("run", "data", "schema", "geography", "budget"):
        assert f"{table}: missing" in message


# --- overrides
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "override, get, value",
    [
        (
            "budget.rho=2.5",
            lambda s: s.persons.plan.cost,
            Fraction(5, 2),
        ),  # exact, though a float in TOML
        ("budget.rho=0.1", lambda s: s.persons.plan.cost, Fraction(1, 10)),
        ("budget.rho=1/3", lambda s: s.persons.plan.cost, Fraction(1, 3)),
        ('budget.rho="1/3"', lambda s: s.persons.plan.cost, Fraction(1, 3)),
        ("budget.rho=2", lambda s: s.persons.plan.cost, 2),
        ("budget.rho=1e-3", lambda s: s.persons.plan.cost, Fraction(1, 1000)),
        (" budget.rho = 7 ", lambda s: s.persons.plan.cost, 7),
        ("budget.delta=1e-12", lambda s: s.budget.delta, Fraction(1, 10**12)),
        ("run.seed=7", lambda s: s.run.seed, 7),
        ("run.name=two words", lambda s: s.run.name, "two words"),
        ("run.name=a=b", lambda s: s.run.name, "a=b"),
        ("run.name=2020", lambda s: s.run.name, "2020"),
        ("run.name=1940-10-10", lambda s: s.run.name, "1940-10-10"),  # a date in TOML
        ("data.path=x.zip", lambda s: s.data.path, ("x.zip",)),
        ('data.path=["x", "y"]', lambda s: s.data.path, ("x", "y")),
        ("output.csv=true", lambda s: s.output.csv, True),
        ("constraints.housing_units=false", lambda s: s.constraints.housing_units, False),
        ("budget.neighbors=unbounded", lambda s: s.persons.plan.neighbours, Neighbours.UNBOUNDED),
    ],
)
def test_overrides(override: str, get: Callable[[RunSpec], object], value: object) -> None:
    assert get(read(BASE, override)) == value


def test_the_last_override_wins_and_several_make_one_change() -> None:
    assert read(BASE, "run.seed=1", "run.seed=2").run.seed == 2
    spec = read(BASE, "budget.queries.US.hhgq=1/2", "budget.queries.US.detailed=1/2")
    assert [d.cost for d in spec.persons.plan.at("US")] == [Fraction(5, 16)] * 2
    spec = read(
        BASE, "budget.queries.State.hispanic * cenrace=1/6", "budget.queries.State.total=1/2"
    )
    assert spec.persons.plan.at("State")[1].cost == Fraction(5, 48)


@pytest.mark.parametrize(
    "override, part",
    [
        ("budget.rho", "'budget.rho' is not KEY=VALUE"),
        ("=1", "is not KEY=VALUE"),
        ("run.name.first=x", "'name' in 'run.name.first' is a value, not a table"),
        ("budget.rh=1", "budget.rh: unknown key; did you mean 'rho'?"),
        ("budget=1", "budget"),
        ("budget.levels.US=1/3", "sum to 13/12"),
        ("run.seed=soon", "run.seed"),
        ("budget.rho=", "budget.rho"),
    ],
)
def test_an_override_that_is_wrong_is_named(override: str, part: str) -> None:
    assert part in fault(BASE, override)


def test_full_information_needs_the_detailed_query_at_the_lowest_level() -> None:
    informed = "estimation.method=full-information"
    with pytest.raises(SpecError, match="full information needs the detailed query at 'Block'"):
        parse(BASE, where="run.toml", overrides=[informed])
    head, tail = BASE.split("[budget.queries.Block]\n")
    parse(
        head + "[budget.queries.Block]\n" + tail.replace("total", "detailed"),
        where="run.toml",
        overrides=[informed],
    )


def test_a_correction_needs_one_pass_over_all_cells() -> None:
    corrected = "estimation.bias=corrected"
    with pytest.raises(
        SpecError, match=r"estimation.bias: it needs one pass at 'Block', with the detailed query"
    ):
        parse(BASE, where="run.toml", overrides=[corrected])
    head, tail = BASE.split("[budget.queries.Block]\n")
    text = head + "[budget.queries.Block]\n" + tail.replace("total", "detailed")
    assert parse(text, where="run.toml", overrides=[corrected]).after.bias == "corrected"


def test_the_key_that_the_correction_replaced_says_so() -> None:
    """Releases of earlier versions state that they had no prior."""
    assert parse(BASE, where="run.toml", overrides=["estimation.prior=none"]).after.bias == "none"
    with pytest.raises(
        SpecError, match=r"prior of housing is gone: write bias = .corrected. in its place"
    ):
        parse(BASE, where="run.toml", overrides=["estimation.prior=housing"])


def test_entropy_can_be_drawn_again_unless_it_is_told_to_forget() -> None:
    assert parse(BASE, where="run.toml").run.entropy == "keyed"
    for kind in ("forgetful", "kernel"):
        assert parse(BASE, where="run.toml", overrides=[f"run.entropy={kind}"]).run.entropy == kind
    with pytest.raises(SpecError, match=r"run\.entropy"):
        parse(BASE, where="run.toml", overrides=["run.entropy=dice"])


@pytest.mark.parametrize(
    "chain,good",
    [
        (["hhgq * hispanic * cenrace", "hhgq * hispanic"], True),
        (["hhgq * cenrace"], True),
        ([], True),
        (["hhgq * hispanic", "hhgq * hispanic * cenrace"], False),
        (["hhgq * cenrace", "hhgq * hispanic"], False),
        (["cenrace"], False),
    ],
)
def test_the_rounding_chain_is_nested(chain: list[str], good: bool) -> None:
    overrides = [f"rounding.chain={chain}"]
    if good:
        assert parse(BASE, where="run.toml", overrides=overrides).persons.chain == tuple(chain)
    else:
        with pytest.raises(SpecError, match=r"rounding\.chain.*apart"):
            parse(BASE, where="run.toml", overrides=overrides)


@pytest.mark.parametrize("rho", ["1e-21", "1e10"])
def test_a_budget_that_is_a_slip_of_the_pen(rho: str) -> None:
    with pytest.raises(SpecError, match="between 1e-20 and 1e9"):
        parse(BASE, where="c", overrides=(f"budget.rho={rho}",))
