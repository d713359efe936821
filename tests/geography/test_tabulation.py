"""Blocks to a spine: random nested geographies, products of fields, and what does not nest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import DasError, InputError, SpecError
from das.geography.tabulation import spine
from das.model.names import Names, text
from das.model.records import Blocks

FIELDS = ("State", "County", "Tract", "Block")


@st.composite
def nested(draw: st.DrawFn) -> Blocks:
    """Blocks in any order whose codes nest: each begins with that of the unit above, at any
    length.
    """
    rows = []
    for s in range(draw(st.integers(1, 3))):
        for c in range(draw(st.integers(1, 3))):
            for t in range(draw(st.integers(1, 2))):
                for b in range(draw(st.integers(1, 3))):
                    rows.append(
                        (
                            f"{s}",
                            f"{s}{c * 7:02d}",
                            f"{s}{c * 7:02d}{t}",
                            f"{s}{c * 7:02d}{t}{9 - b}",
                        )
                    )
    rows = draw(st.permutations(rows))
    return Blocks({name: np.array([r[i] for r in rows]) for i, name in enumerate(FIELDS)})


def fields(**columns: str) -> Blocks:
    return Blocks({name: np.array(text.split()) for name, text in columns.items()})


@given(nested(), st.booleans(), st.sets(st.sampled_from(FIELDS), min_size=1))
def test_every_block_is_in_its_unit_at_every_level(
    blocks: Blocks, rooted: bool, chosen: set[str]
) -> None:
    levels = ["US", *(f for f in FIELDS if f in chosen)]
    if not rooted and len(np.unique(blocks.fields[levels[1]])) == 1:
        levels = levels[1:]
    tree, unit = spine(blocks, levels)
    assert tree.levels == tuple(levels)
    assert unit.shape == (len(blocks),)
    lowest = levels[-1]
    assert set(unit) == set(range(tree.units(lowest)))
    for level in levels:
        depth = tree.index(level)
        codes = tree.codes[depth]
        if level == "US":
            assert codes.tolist() == [b"US"]
            continue
        np.testing.assert_array_equal(codes[tree.up(lowest, level)[unit]], blocks.fields[level])
        assert set(codes) == set(blocks.fields[level])
        assert codes.tolist() == sorted(codes.tolist())  # these codes begin with their parents'


@given(nested(), st.randoms(use_true_random=False))
def test_the_spine_does_not_depend_on_the_order_of_the_blocks(blocks: Blocks, random) -> None:  # type: ignore[no-untyped-def]
    order = list(range(len(blocks)))
    random.shuffle(order)
    other = Blocks({k: v[order] for k, v in blocks.fields.items()})
    (a, unit), (b, moved) = spine(blocks, ["US", *FIELDS]), spine(other, ["US", *FIELDS])
    for x, y in zip((*a.codes, *a.parent), (*b.codes, *b.parent), strict=True):
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(unit[order], moved)


@given(nested(), st.data())
def test_a_unit_in_two_parents_is_named_with_both(blocks: Blocks, data: st.DataObject) -> None:
    low = data.draw(st.sampled_from(FIELDS[1:]))
    high = FIELDS[FIELDS.index(low) - 1]
    codes = {k: v.copy() for k, v in blocks.fields.items()}
    homes = np.unique(codes[high])
    if len(homes) < 2:
        return
    a, b = homes[:2]
    stolen = codes[low][codes[high] == a][0]
    at = np.flatnonzero(codes[high] == b)[0]
    codes[low][codes[low] == codes[low][at]] = stolen
    with pytest.raises(InputError) as caught:
        spine(Blocks(codes), ["US", *FIELDS[: FIELDS.index(low) + 1]])
    message = str(caught.value)
    assert (
        f"{low} {stolen.decode()} lies in more than one {high}: {a.decode()} and {b.decode()}"
        in message
    )
    assert "[geography.define]" in message


# --- products of fields
# --------------------------------------------------------------------------------------

PLACES = fields(
    State="1 1 1 1 1 1",
    County="11 11 11 12 12 12",
    Place="p p q p q q",
    Tract="t1 t2 t1 t3 t3 t4",
    Block="a b c d e f",
)


def test_a_product_is_where_all_its_fields_agree() -> None:
    tree, unit = spine(PLACES, ["State", "County", "Prim", "Block"], {"Prim": ["County", "Place"]})
    assert text(tree.codes[2]).tolist() == ["11-p", "11-q", "12-p", "12-q"]
    assert tree.parent[2].tolist() == [0, 0, 1, 1]
    assert text(tree.codes[3][unit]).tolist() == list("abcdef")


def test_products_of_products_and_of_a_field_of_the_same_name() -> None:
    define = {"Prim": ["County", "Place"], "Part": ["Prim", "Tract"], "Block": ["Part", "Block"]}
    tree, unit = spine(PLACES, ["State", "Prim", "Part", "Block"], define)
    assert text(tree.codes[2]).tolist() == [
        "11-p-t1",
        "11-p-t2",
        "11-q-t1",
        "12-p-t3",
        "12-q-t3",
        "12-q-t4",
    ]
    assert text(tree.codes[3][unit]).tolist() == [
        "11-p-t1-a",
        "11-p-t2-b",
        "11-q-t1-c",
        "12-p-t3-d",
        "12-q-t3-e",
        "12-q-t4-f",
    ]


def test_a_product_mends_what_does_not_nest() -> None:
    with pytest.raises(InputError, match="Place p lies in more than one County: 11 and 12"):
        spine(PLACES, ["State", "County", "Place"])
    tree, _ = spine(PLACES, ["State", "County", "Place"], {"Place": ["County", "Place"]})
    assert tree.units("Place") == 4


def test_several_blocks_may_be_one_unit() -> None:
    tree, unit = spine(PLACES, ["State", "Tract"])
    assert text(tree.codes[1]).tolist() == ["t1", "t2", "t3", "t4"]
    assert unit.tolist() == [0, 1, 0, 2, 2, 3]


# --- what is refused
# -----------------------------------------------------------------------------------------


def test_no_blocks() -> None:
    with pytest.raises(InputError, match="no block"):
        spine(Blocks({"State": np.array([], dtype=str)}), ["State"])


def test_a_first_level_of_several_units_is_explained() -> None:
    with pytest.raises(
        InputError, match="level 'County' has 2 units, but the first level must have one"
    ) as caught:
        spine(PLACES, ["County", "Block"])
    assert "put a level above it" in str(caught.value.remedy)


@pytest.mark.parametrize(
    "levels, define, where",
    [
        (["State", "Cuonty"], {}, "geography.levels"),
        (["State", "Prim"], {"Prim": ["County", "Town"]}, "geography.define"),
        (["State", "Prim"], {"Prim": ["Prim", "County"]}, "geography.define"),
        (["State", "A"], {"A": ["B"], "B": ["A"]}, "geography.define"),
        (
            ["State", "A"],
            {"A": ["B", "County"], "B": ["C"], "C": ["A", "Place"]},
            "geography.define",
        ),
        (["State", "A"], {"A": []}, "geography.define"),
    ],
)
def test_levels_that_cannot_be_made_are_refused_in_words(
    levels: list[str], define: Mapping[str, list[str]], where: str
) -> None:
    with pytest.raises(SpecError) as caught:
        spine(PLACES, levels, define)
    assert where in str(caught.value)
    assert isinstance(caught.value, DasError)


def test_units_have_the_names_of_their_codes() -> None:
    blocks = fields(State="44 44", Place="59000 99999", Block="44b 44a")
    named = {
        "State": Names.from_pairs(np.array(["44"]), np.array(["Rhode Island"])),
        "Place": Names.from_pairs(np.array(["4459000"]), np.array(["Providence city"])),
    }
    tree, _ = spine(
        replace(blocks, names=named),
        ["US", "State", "Place", "Block"],
        {"Place": ["State", "Place"]},
    )
    assert [n.tolist() for n in tree.names] == [
        [""],
        ["Rhode Island"],
        ["Providence city", ""],
        ["", ""],
    ]
