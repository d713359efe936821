"""The rule of the optimized spine: small trees written out by hand, an oracle on random places,
what is always so, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from math import isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.geography import optimized, tabulation
from das.geography.optimized import Rule, measured_spine
from das.geography.tabulation import Geocodes
from das.model.areas import Areas
from das.model.names import encoded
from das.model.records import Blocks
from tests.geography.blocks import (
    BARE,
    LEVELS,
    Row,
    by_block,
    geography,
    measured,
    oracle,
    places,
    row,
    shares,
)

SHARES = [Fraction(n, 32) for n in (1, 2, 3, 5, 8, 13)]


def groups(tree_codes: dict[str, str]) -> dict[str, list[str]]:
    """The last four digits of the blocks of each block group, by the group's code."""
    out: dict[str, list[str]] = {}
    for block, code in sorted(tree_codes.items()):
        out.setdefault(code[:-16], []).append(block[-4:])
    return dict(sorted(out.items()))


# --- worked by hand
# -----------------------------------------------------------------------------------


def test_blocks_of_one_key_are_a_group_and_groups_of_one_block_stand_last() -> None:
    """Alabama goes by places: two of them, no place, and a jail in one block of that, whose key is
    the last but one.
    """
    home = "010010001001"
    rows = [
        row(home + "001", place="20000"),
        row(home + "000", place="20000"),
        row(home + "002", place="10000"),
        row(home + "003"),
        row(home + "004", gq_types="1000000"),
        row(home + "005", housing_units=0),
        row(home + "006", housing_units=0, gq_types="0000001"),
        row(home + "007"),
    ]
    tree = measured(geography(rows))
    assert groups(by_block(tree)) == {
        "00110001111": ["1000", "1001"],
        "00110001112": ["1003", "1007"],
        "00110001113": ["1002"],
        "00110001114": ["1006"],
        "00110001115": ["1004"],
    }
    assert groups(by_block(measured(geography(rows), facilities=False))) == {
        "00110001111": ["1000", "1001"],
        "00110001112": ["1003", "1004", "1006", "1007"],
        "00110001113": ["1002"],
    }


def test_runs_are_of_the_root_of_the_tracts_blocks() -> None:
    """Of 10 blocks isqrt(10) + 1 + 1 = 5 at a time with a fan-out of 1; 4 with none; 6, 4 and 1 of
    each where the second key is a block of a place that counts among the tract's."""
    rows = [row(f"010010001001{i:03d}") for i in range(10)]
    for fanout, sizes in ((0, [4, 4, 2]), (1, [5, 5]), (2, [6, 4]), (12, [10]), (None, [10])):
        assert [
            len(g)
            for g in groups(
                by_block(measured(geography(rows), replace(BARE, fanout=fanout)))
            ).values()
        ] == sizes
    rows[3] = row("010010001001003", place="10000")
    tree = measured(geography(rows), replace(BARE, fanout=0))
    assert list(groups(by_block(tree)).values()) == [
        ["1000", "1001", "1002", "1004"],
        ["1005", "1006", "1007", "1008"],
        ["1003"],
        ["1009"],
    ]
    assert by_block(tree)["0100100010011009"].startswith("00110001114")


def test_a_reservation_is_a_branch_where_places_divide_in_any_state() -> None:
    """Rhode Island goes by county subdivisions, its reservation by places. A state designated area
    is no branch.
    """
    home = "440090513001"
    rows = [
        row(home + "000", aianhh="2415", cousub="14500"),
        row(home + "001", aianhh="2415", cousub="77000"),
        row(home + "002", aianhh="2415", place="10000", cousub="14500"),
        row(home + "003", cousub="14500"),
        row(home + "004", cousub="14500", place="10000", aianhh="9600"),
        row(home + "005", cousub="77000"),
    ]
    tree = measured(geography(rows))
    assert groups(by_block(tree)) == {
        "04410009111": ["1003", "1004"],
        "04410009112": ["1005"],
        "14410009111": ["1000", "1001"],
        "14410009112": ["1002"],
    }
    assert tree.spine.geocodes("State").tolist() == ["044", "144"]


def test_shares_of_only_children_meet_at_the_top() -> None:
    """One county of one tract with two groups, the second of one block."""
    rows = [row("010010001001000"), row("010010001001001"), row("010010001001002", place="10000")]
    one, two, three, five, eight, thirteen = SHARES
    assert shares(measured(geography(rows)), SHARES) == {
        "": one + two + three + five,
        "001": 0,
        "001100011": 0,
        "0011000111": 0,
        "00110001111": eight,
        "00110001112": eight + thirteen,
        "001100011110100100010011000": thirteen,
        "001100011110100100010011001": thirteen,
        "001100011120100100010011002": 0,
    }


def test_codes_have_the_digits_of_the_nation_and_of_two_layouts() -> None:
    rows = [row("010010001001000"), row("010010002001000")]
    code = {
        layout: measured(geography(rows), replace(BARE, geocodes=Geocodes(layout))).spine.geocodes(
            "Block"
        )[1]
        for layout in ("2020", "2010")
    }
    assert code == {
        "2020": "0011000110002010100100020011000",
        "2010": "0011000100021010100100020011000",
    }


def test_a_level_between_has_numbers_in_its_parent() -> None:
    rows = [
        row("440010001001000", cousub="20000"),
        row("440010002001000", cousub="10000"),
        row("440010003001000", cousub="20000"),
    ]
    levels = ("US", "State", "County", "County_Subdivision", "Tract", "Block_Group", "Block")
    tree = measured(geography(rows), levels=levels)
    assert {k[5:11]: c[9:-16] for k, c in by_block(tree).items()} == {
        "000100": "211",
        "000200": "111",
        "000300": "221",
    }
    crossing = [*rows, row("440010001001001", cousub="10000")]
    with pytest.raises(
        InputError, match="Tract 44001000100 lies in more than one County_Subdivision"
    ):
        measured(geography(crossing), levels=levels)


def test_a_level_of_runs_and_only_children_behind_their_siblings_as_in_2022() -> None:
    """Six tracts in two primary places: five are cut into runs of isqrt(5) + 0 + 1. The place of
    one tract stands behind the other, and tract 2, of two block groups, before the others of its
    run."""
    rows = [row(f"01001000{t}001000", place="10000" if t == 6 else "20000") for t in range(1, 7)]
    rows += [row("010010002002000", place="20000")]
    levels = (
        "US",
        "State",
        "County",
        "Prim",
        "Tract_Subset_Group",
        "Tract_Subset",
        "Block_Group",
        "Block",
    )
    define = {
        "Prim": ["County", "Place"],
        "Tract_Subset_Group": ["Prim"],
        "Tract_Subset": ["Tract"],
    }
    rule = Rule(0, geocodes=Geocodes("2022", {}), entities=False, grouped=("Tract_Subset_Group",))
    tree = measured(geography(rows), rule, levels, define=define, kept_apart=["Block_Group"])
    assert {
        code[8:-16]: f"{code[-8]} {code[-4:]}" for code in tree.spine.geocodes("Block").tolist()
    } == {
        "1111": "2 1000",
        "1112": "2 2000",
        "1121": "1 1000",
        "1131": "3 1000",
        "1211": "4 1000",
        "1221": "5 1000",
        "2111": "6 1000",
    }


# --- random places
# ------------------------------------------------------------------------------------


@given(places(), st.sampled_from([0, 1, 12, None]), st.booleans(), st.booleans())
def test_the_tree_is_that_of_an_independent_program(
    rows: list[Row], fanout: int | None, facilities: bool, groups_too: bool
) -> None:
    tree = measured(
        geography(rows),
        replace(BARE, fanout=fanout),
        facilities=facilities,
        kept_apart=["Block_Group"] * groups_too,
    )
    codes, share = oracle(rows, SHARES, fanout, facilities=facilities, groups_too=groups_too)
    assert by_block(tree) == codes
    assert shares(tree, SHARES) == share


@given(places(), st.sampled_from([0, 1, 12]))
def test_what_is_always_so(rows: list[Row], fanout: int) -> None:
    """Each block with a structure is in one unit, and other blocks in none. The shares on its way
    to the root sum to 1. A group has one key and at most as many blocks as allowed."""
    blocks = geography(rows)
    tree = measured(blocks, replace(BARE, fanout=fanout), kept_apart=["Block_Group"])
    assert blocks.structures is not None
    spine, unit = tabulation.spine(blocks, LEVELS)
    assert sorted(tree.place.tolist()) == sorted(unit[blocks.structures.any(axis=1)].tolist())
    assert spine.geocodes("Block")[tree.place].tolist() == [
        c[-16:] for c in tree.spine.geocodes("Block").tolist()
    ]
    given = shares(tree, SHARES)
    for block in range(len(tree.place)):
        way = [
            tree.spine.codes[d][tree.spine.up("Block", lv)[block]].decode()
            for d, lv in enumerate(LEVELS)
        ]
        assert sum((given[code] for code in ["", *way[1:]]), Fraction(0)) == 1
    at = np.argsort(unit)[tree.place]
    tract, group = (tree.spine.up("Block", lv) for lv in ("Tract", "Block_Group"))
    for field in ("Place", "Block_Group", "AIAN"):
        code = blocks.fields[field][at]
        if field == "AIAN":
            code = np.where(optimized.branches(code, code), code, optimized.NONE)
        if field == "Place":
            strong = (blocks.fields["State"][at] == b"44") & ~optimized.branches(
                blocks.fields["AIAN"][at], code
            )
            code = np.where(strong, blocks.fields["County_Subdivision"][at], code)
        assert len(set(zip(group.tolist(), code.tolist(), strict=True))) == len(set(group.tolist()))
    size = np.bincount(group)
    assert (
        size <= [isqrt(int((tract == t).sum())) + fanout + 1 for t in tree.spine.parent[4]]
    ).all()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=4), st.integers(0, 3))
def test_even_runs_differ_by_one_and_are_no_longer(kinds: list[int], fanout: int) -> None:
    """As many as runs of the full length would be, the shorter first; where these leave a rest of
    one, they are these.
    """
    first = np.concatenate([np.arange(n) == 0 for n in kinds])
    size = isqrt(sum(kinds)) + fanout + 1
    starts = np.flatnonzero(
        optimized.begin_runs(first, np.zeros(len(first), dtype=np.int64), fanout, even=True)
    )
    lengths = np.diff(starts, append=len(first)).tolist()
    for count in kinds:
        number = -(-count // size)
        here, lengths = lengths[:number], lengths[number:]
        assert sum(here) == count
        full = [size] * (count // size) + [count % size] * (count % size > 0)
        assert here == (
            full
            if count % size <= 1
            else sorted(count // number + (i < count % number) for i in range(number))
        )


# --- what the input lacks
# -----------------------------------------------------------------------------


def without(blocks: Blocks, *fields: str) -> Blocks:
    return Blocks({k: v for k, v in blocks.fields.items() if k not in fields}, blocks.structures)


def test_an_input_without_areas_has_one_key_and_one_branch() -> None:
    rows = [row(f"010010001001{i:03d}", place=f"{i}0000", aianhh="0010") for i in range(3)]
    tree = measured(without(geography(rows), "Place", "AIAN", "County_Subdivision"))
    assert groups(by_block(tree)) == {"00110001111": ["1000", "1001", "1002"]}


def test_what_is_not_published_exactly_does_not_shape_the_tree() -> None:
    rows = [
        row("010010001001000"),
        row("010010001001001", housing_units=0),
        row("010010001001002", gq_types="1000000"),
    ]
    everything = {"00110001111": ["1000", "1001", "1002"]}
    said = geography(rows)
    assert (
        groups(by_block(measured(said, replace(BARE, structures=False, facilities=False))))
        == everything
    )
    assert groups(by_block(measured(Blocks(said.fields)))) == everything
    assert list(groups(by_block(measured(said, replace(BARE, structures=False)))).values()) == [
        ["1000", "1001"],
        ["1002"],
    ]
    assert list(groups(by_block(measured(said, replace(BARE, facilities=False)))).values()) == [
        ["1000", "1002"]
    ]


# --- targets
# ------------------------------------------------------------------------------------------


def test_targets_are_fields_levels_and_lists() -> None:
    rows = [row(f"01001000100{1 + i // 2}{i:03d}", place=f"{1 + i % 2}0000") for i in range(4)]
    blocks = geography(rows)
    spine, unit = tabulation.spine(blocks, LEVELS)
    overlapping = Areas("Wards", encoded(["b", "a"]), np.array([0, 1, 1]), np.array([3, 1, 3]))
    found = optimized.target_codes(
        ["Block_Group", "Place", "Tract", "wards.csv"],
        blocks,
        spine,
        unit,
        {"wards.csv": overlapping},
    )
    assert list(found) == ["Block_Group", "Place", "Tract", "wards.csv"]
    assert found["Block_Group"].tolist() == [
        b"010010001001",
        b"010010001001",
        b"010010001002",
        b"010010001002",
    ]
    assert found["Place"].tolist() == [b"10000", b"20000", b"10000", b"20000"]
    assert found["Tract"].tolist() == [b"01001000100"] * 4
    assert found["wards.csv"].tolist() == [b"", b"a", b"", b"a\x1fb"]
    tree = measured_spine(
        blocks, spine, unit, replace(BARE, targets={"w": found["wards.csv"]}), facilities=True
    )
    assert list(groups(by_block(tree)).values()) == [["1000", "2002"], ["1001"], ["2003"]]


def test_an_area_whose_code_has_a_plus_is_not_two_areas() -> None:
    areas = Areas("wards", ["a", "a+b", "b"], np.array([1, 0, 2]), np.array([0, 1, 1]))
    alone, both = optimized.listed(areas, 2)
    assert alone != both


def test_a_target_that_is_no_field_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError) as refused:
        measured(geography([row("010010001001000")]), kept_apart=["SLDL"])
    assert "no geographic field 'SLDL'" in str(refused.value)
    assert "geography.targets" in str(refused.value)
    assert "State, County, Tract, Block_Group, Block, County_Subdivision, Place, AIAN" in str(
        refused.value
    )


# --- what is refused
# ----------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["4990", "4999", "0000", "99", "24150", "R415", "10 4"])
def test_a_code_of_an_area_that_does_not_exist(code: str) -> None:
    rows = [
        row("010010001001000"),
        row("010010001001001", aianhh=code),
        row("010010001001002", aianhh=code),
    ]
    with pytest.raises(InputError) as refused:
        measured(geography(rows))
    assert f"block 0100100010011001 lies in American Indian area {code!r}" in str(refused.value)
    assert "1 more blocks" in str(refused.value)
    assert "geography.spine" in str(refused.value)


@pytest.mark.parametrize(
    ("code", "branch"),
    [
        ("0001", True),
        ("4799", True),
        ("4989", True),
        ("5000", True),
        ("5899", True),
        ("5999", True),
        ("7999", True),
        ("8000", False),
        ("8999", False),
        ("9000", True),
        ("9499", True),
        ("9500", False),
        ("9998", False),
        ("9999", False),
        ("", False),
        ("    ", False),
    ],
)
def test_categories_of_areas(code: str, branch: bool) -> None:
    assert optimized.branches(encoded([code]), encoded(["1"])).tolist() == [branch]


@pytest.mark.parametrize(
    ("levels", "says"),
    [
        (("US", "County", "Tract", "Block_Group", "Block"), "has a level State"),
        (("US", "State", "Block"), "has a level State, and two levels or more below it"),
        (
            ("State", "County", "Tract", "Block_Group", "Block"),
            "State 44 has blocks in American Indian areas and others",
        ),
        (
            ("US", "State", "County", "Tract", "Block_Group"),
            "units of 'Block_Group' are not the blocks of the input",
        ),
    ],
)
def test_levels_that_the_rule_does_not_know(levels: Sequence[str], says: str) -> None:
    rows = [row("440010001001000"), row("440010001001001", aianhh="2415")]
    with pytest.raises(InputError, match=says):
        measured(geography(rows), levels=levels)


def test_an_input_without_a_structure_and_a_fan_out_below_none() -> None:
    with pytest.raises(InputError, match="no block has a housing unit or a facility"):
        measured(geography([row("440010001001000", housing_units=0)]))
    with pytest.raises(InputError, match="a fan-out of -1"):
        Rule(fanout=-1)


def test_states_of_codes_of_several_lengths() -> None:
    fields = {
        "State": ["A", "BC"],
        "County": ["A1", "BC1"],
        "Block_Group": ["A11", "BC11"],
        "Block": ["A111", "BC111"],
    }
    with pytest.raises(InputError, match="codes of states have different lengths"):
        measured(Blocks({k: np.array(v) for k, v in fields.items()}), levels=("US", *fields))


def test_codes_of_ones_own_have_numbers_where_they_do_not_begin_with_their_states() -> None:
    """Counties that begin with their state have their own digits, others numbers."""
    fields = {
        "State": ["AB"] * 3,
        "County": ["x", "y", "y"],
        "Block_Group": ["p", "q", "r"],
        "Block": ["1", "3", "2"],
    }
    tree = measured(Blocks({k: np.array(v) for k, v in fields.items()}), levels=("US", *fields))
    assert tree.spine.geocodes("Block").tolist() == ["0AB111", "0AB212", "0AB213"]
