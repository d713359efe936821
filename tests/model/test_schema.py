"""Schemas: each check tripped, structural zeros, and the published schemas as the Bureau has
them.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import SpecError
from das.model.query import Grouping
from das.model.redistricting import CENRACE, E2E_1940, H1, PL94, SCHEMAS
from das.model.schema import RESERVED, Attribute, Schema
from tests.strategies import schemas

SEX = Attribute("sex", ("m", "f"))
AGE = Attribute("age", ("young", "old", "ancient"))


@pytest.mark.parametrize("levels", [(), ("a", "a")])
def test_an_attribute_needs_different_levels(levels: tuple[str, ...]) -> None:
    with pytest.raises(SpecError, match="attribute 'x'"):
        Attribute("x", levels)


@pytest.mark.parametrize("name", ["", "a * b", "*", "total", "detailed"])
def test_an_attribute_cannot_have_the_name_of_a_query(name: str) -> None:
    with pytest.raises(SpecError, match="cannot name an attribute"):
        Attribute(name, ("a",))


@pytest.mark.parametrize("name", ["a * b", "total", "detailed"])
def test_a_grouping_cannot_have_the_name_of_a_query(name: str) -> None:
    with pytest.raises(SpecError, match="cannot name a grouping"):
        Schema("s", (SEX,), (Grouping(name, "sex", ("x",), (0, 0)),))


@pytest.mark.parametrize(
    "build, message",
    [
        (lambda: Schema("s", ()), "at least one attribute"),
        (lambda: Schema("s", (SEX, SEX)), "same name"),
        (lambda: Schema("s", (SEX,), (Grouping("sex", "sex", ("x",), (0, 0)),)), "same name"),
        (lambda: Schema("s", (SEX,), (Grouping("g", "sex", ("x",), (0, 0, 0)),)), "does not cover"),
        (
            lambda: Schema("s", (SEX,), (Grouping("g", "age", ("x",), (0, 0)),)),
            "no attribute 'age'",
        ),
        (lambda: Schema("s", (SEX,), dwelling="home"), "no attribute 'home'"),
        (
            lambda: Schema("s", (SEX,), impossible=({"age": ("old",)},)),
            "no attribute 'age', and no grouping",
        ),
        (lambda: Schema("s", (SEX,), impossible=({"sex": ("x",)},)), "'sex' has no level 'x'"),
    ],
)
def test_each_fault_of_a_schema_is_named(build: Callable[[], Schema], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        build()
    assert "schema 's'" in str(caught.value)


@pytest.mark.parametrize(
    "name, message",
    [
        ("sexx", "'sexx' is neither an attribute nor a grouping"),
        ("sex * income", "'income' is neither"),
        ("sex*age", "neither"),
        ("sex * sex", "attribute 'sex' occurs twice"),
        ("age * old_or_not", "attribute 'age' occurs twice"),
        ("sex * total", "'total' is neither"),
        ("", "neither"),
    ],
)
def test_a_query_that_cannot_be_spelt_is_refused(name: str, message: str) -> None:
    schema = Schema("s", (SEX, AGE), (Grouping("old_or_not", "age", ("no", "yes"), (0, 1, 1)),))
    with pytest.raises(SpecError, match=message) as caught:
        schema.query(name)
    assert f"query {name!r}" in str(caught.value)


@given(schemas())
def test_cells_are_in_c_order(schema: Schema) -> None:
    levels = np.array(list(product(*(range(n) for n in schema.shape))))
    assert schema.cells == len(levels)
    for i, a in enumerate(schema.attributes):
        assert schema.axis(a.name) == i
        assert schema.attribute(a.name) is a
        np.testing.assert_array_equal(schema.level_of(a.name), levels[:, i])


@given(schemas(), st.data())
def test_structural_zeros_are_exactly_the_cells_of_some_rule(
    schema: Schema, data: st.DataObject
) -> None:
    some = st.dictionaries(
        st.sampled_from([a.name for a in schema.attributes]),
        st.integers(0, 15),
        min_size=1,
        max_size=2,
    )
    rules = []
    for raw in data.draw(st.lists(some, max_size=3)):
        rules.append(
            {
                n: tuple(x for i, x in enumerate(schema.attribute(n).levels) if bits >> i & 1)
                for n, bits in raw.items()
            }
        )
    built = Schema("s", schema.attributes, impossible=tuple(rules))
    for cell, labels in enumerate(product(*(a.levels for a in schema.attributes))):
        of = dict(zip((a.name for a in schema.attributes), labels, strict=True))
        ruled_out = any(all(of[n] in levels for n, levels in rule.items()) for rule in rules)
        assert built.possible[cell] == (not ruled_out)
    assert not built.possible.flags.writeable


def test_the_redistricting_schema_is_the_published_one() -> None:
    assert PL94.shape == (8, 2, 2, 63)
    assert PL94.cells == 2016
    assert [a.name for a in PL94.attributes] == ["hhgq", "votingage", "hispanic", "cenrace"]
    # Nobody under 18 in nursing homes, and nothing else is impossible.
    zero = np.flatnonzero(~PL94.possible)
    assert len(zero) == 2 * 63
    assert set(PL94.level_of("hhgq")[zero]) == {3}
    assert set(PL94.level_of("votingage")[zero]) == {0}
    assert PL94.query("hhinstlevels").answer(np.eye(8, dtype=int).repeat(252, axis=1)).tolist() == [
        [252, 0, 0],
        *[[0, 252, 0]] * 4,
        *[[0, 0, 252]] * 3,
    ]


def test_the_order_of_races_is_the_published_one() -> None:
    sizes = [len(c.split("+")) for c in CENRACE]
    assert len(set(CENRACE)) == 63
    assert [sizes.count(n) for n in range(1, 7)] == [6, 15, 20, 15, 6, 1]
    assert sizes == sorted(sizes)
    assert CENRACE[:8] == (
        "White",
        "Black",
        "AIAN",
        "Asian",
        "NHPI",
        "SOR",
        "White+Black",
        "White+AIAN",
    )
    assert CENRACE[21] == "White+Black+AIAN"
    assert CENRACE[62] == "White+Black+AIAN+Asian+NHPI+SOR"


def test_the_other_published_schemas() -> None:
    assert H1.attributes[0].levels == ("vacant", "occupied")
    assert E2E_1940.shape == (8, 2, 2, 6)
    assert E2E_1940.possible.all()
    assert set(SCHEMAS) == {"pl94", "h1", "1940-e2e", "dhcp", "dhch", "tenvacgq"}
    assert all(SCHEMAS[n].name == n for n in SCHEMAS)


@pytest.mark.parametrize("name", RESERVED)
def test_an_attribute_cannot_overwrite_a_column_of_the_published_files(name: str) -> None:
    with pytest.raises(SpecError, match=f"'{name}' cannot name an attribute: it is a column"):
        Attribute(name, ("a", "b"))


def test_labels_are_for_readers_and_change_nothing_else() -> None:
    plain = Attribute("sex", ("m", "f"))
    said = plain.labeled("Sex", {"f": "Female"}, "here")
    assert (plain.title, plain.labels) == ("sex", ("m", "f"))
    assert (said.title, said.labels) == ("Sex", ("m", "Female"))
    assert said == plain
    assert hash(said) == hash(plain)
    with pytest.raises(SpecError, match="no level 'x' to label"):
        plain.labeled(None, {"x": "X"}, "here")
    with pytest.raises(SpecError, match="label of its own"):
        plain.labeled(None, {"f": "m"}, "here")


@pytest.mark.parametrize("schema", [PL94, H1, E2E_1940], ids=lambda s: s.name)
def test_every_code_of_a_published_schema_has_words(schema: Schema) -> None:
    for named in (*schema.attributes, *schema.recodes):
        assert named.title != named.name
        assert all(label[0].isupper() or label[0].isdigit() for label in named.labels)
        query = schema.query(named.name)
        assert query.title == named.title
        assert tuple(query.captions()) == named.labels


def test_more_cells_than_any_histogram_has_are_refused_before_they_are_laid_out() -> None:
    digits = tuple(map(str, range(1000)))
    for n in (4, 7, 300):  # 10^21 is beyond 64 bits, 10^900 beyond floats
        with pytest.raises(SpecError, match=rf"some 10\^{3 * n} cells"):
            Schema("wide", tuple(Attribute(f"a{i}", digits) for i in range(n)))
