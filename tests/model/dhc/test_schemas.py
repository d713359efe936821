"""The schemas of the DHC: their sizes, and what cannot occur, against the rules as sentences on
single records; against the published levels where they are at hand."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from das.model.redistricting import CENRACE, PL94, SCHEMAS
from das.model.schema import Schema
from das.publications.dhc.model import quarters
from das.publications.dhc.model.households import COUPLES, DHCH, TENVACGQ, TYPES, HouseholdType
from das.publications.dhc.model.persons import DHCP, RELATIONSHIPS, years

EVERY = [DHCP, DHCH, TENVACGQ]


def digest(value: object) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]


# --- sizes
# -------------------------------------------------------------------------------------------


def test_the_sizes_are_the_published_ones() -> None:
    assert (DHCP.shape, DHCP.cells) == ((42, 2, 116, 2, 63), 1_227_744)
    assert (DHCH.shape, DHCH.cells) == ((2, 9, 2, 7, 4, 3, 522), 1_578_528)
    assert TENVACGQ.cells == 35
    assert [a.name for a in DHCP.attributes] == ["relgq", "sex", "age", "hispanic", "cenrace"]
    assert [a.name for a in DHCH.attributes] == [
        "sex",
        "hhage",
        "hisp",
        "race",
        "elderly",
        "hhtenshort_3lev",
        "hhtype_dhch",
    ]
    assert [int(s.possible.sum()) for s in EVERY] == [905_184, 1_111_572, 35]


def test_of_persons_so_many_cells_are_of_households() -> None:
    home = DHCP.where({"gqlevels": ("household",)})
    assert int((home & DHCP.possible).sum()) == 424_116
    assert int((~home & DHCP.possible).sum()) == 481_068
    by_relgq_and_age = DHCP.possible.reshape(DHCP.shape)[:, 0, :, 0, 0]
    assert int((~by_relgq_and_age).sum()) == 1_280


def test_names_find_them_and_building_none_lists_them() -> None:
    assert SCHEMAS["dhcp"] is DHCP
    assert SCHEMAS["dhch"] is DHCH
    assert SCHEMAS["tenvacgq"] is TENVACGQ
    code = (
        "import sys; from das.model.redistricting import SCHEMAS; list(SCHEMAS), len(SCHEMAS), 'dhcp' in"
        " SCHEMAS; print([m for m in sys.modules if m.startswith('das.publications.dhc.model')])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )


@pytest.mark.parametrize("schema", EVERY, ids=lambda s: s.name)
def test_every_code_has_words_of_its_own(schema: Schema) -> None:
    for named in (*schema.attributes, *schema.recodes):
        assert named.title != named.name
        codes = named.groups if hasattr(named, "groups") else named.levels
        assert all(label[0].isupper() or label[0].isdigit() for label in named.labels), named.name
        assert named.labels != codes
        assert len(set(named.labels)) == len(codes)


def test_ages_in_words() -> None:
    said = [
        years(0, 0),
        years(1, 1),
        years(115),
        DHCP.attribute("age").labels[2],
        years(60, 61),
        years(110),
    ]
    assert said == [
        "Under 1 year",
        "1 year",
        "115 years and over",
        "2 years",
        "60 and 61 years",
        "110 years and over",
    ]


# --- what persons cannot be
# --------------------------------------------------------------------------


def may_be(relgq: str, age: int) -> bool:
    """As the production configuration says it, line by line."""
    least, most = {
        "biological-child": (0, 89),
        "adopted-child": (0, 89),
        "stepchild": (0, 89),
        "parent": (30, 115),
        "parent-in-law": (30, 115),
        "grandchild": (0, 74),
        "child-in-law": (15, 89),
        "foster-child": (0, 20),
        "gq-106": (17, 65),
        "gq-404": (17, 65),
        "gq-601": (17, 65),
        "gq-602": (17, 65),
        "gq-301": (20, 115),
        "gq-405": (3, 30),
        "gq-501": (16, 65),
        "gq-801": (16, 115),
        "gq-802": (16, 115),
        "gq-900": (16, 75),
    }.get(relgq, (0, 115))
    if (
        (relgq.startswith("gq-10") and relgq != "gq-106")
        or "householder" in relgq
        or "spouse" in relgq
        or "partner" in relgq
    ):
        least = 15
    if relgq.startswith("gq-2"):
        most = 25
    return least <= age <= most


def test_persons_are_of_ages_that_they_can_have() -> None:
    full = DHCP.possible.reshape(DHCP.shape)
    for (i, relgq), age in product(enumerate(DHCP.attribute("relgq").levels), range(116)):
        assert (full[i, :, age] == may_be(relgq, age)).all(), (relgq, age)


# --- what households cannot be
# -----------------------------------------------------------------------

AGES = ((15, 24), (25, 34), (35, 44), (45, 54), (55, 59), (60, 64), (65, 74), (75, 84), (85, 115))


def oldest_class(age: int) -> int:
    return sum(age >= first for first in (60, 65, 75))


def can_be(sex: str, hhage: int, elderly: int, t: HouseholdType) -> bool:
    """The six families of rules, in the words of their fact sheet, on one household."""
    first, _ = AGES[hhage]
    own_class = oldest_class(first)
    couple, young = t.couple != "N", hhage == 0
    others_are_young = (
        t.size == 1
        or (t.size == 2 and t.minor and hhage >= 5)  # the other, or the householder, is under 18
        or (t.size == 2 and not couple and t.children and hhage <= 4)
        or (t.size == 3 and not couple and t.own == 3)
    )
    if others_are_young and elderly != own_class:
        return False
    if t.size == 1 and t.minor and not young:
        return False
    spouse_alone = couple and (
        t.size == 2 or (t.size == 3 and t.own in (1, 2)) or (t.size == 4 and t.own == 3)
    )
    if spouse_alone and young and elderly == 3:
        return False
    if elderly < own_class:
        return False
    small = t.own in (1, 3)
    if sex == "male":
        return not (first >= 75 and small)
    return not ((first >= 75 and t.own) or (first >= 60 and small))


def test_households_are_such_as_can_be() -> None:
    full = DHCH.possible.reshape(DHCH.shape)
    told = full[:, :, 0, 0, :, 0, :]
    assert (
        full == told[:, :, None, None, :, None, :]
    ).all()  # origin, race and tenure make no difference
    expected = [
        [
            [[can_be(sex, hhage, elderly, t) for t in TYPES] for elderly in range(4)]
            for hhage in range(9)
        ]
        for sex in ("male", "female")
    ]
    np.testing.assert_array_equal(told, np.array(expected))
    assert int((~told).sum()) == 11_118


# --- the 522 types
# -----------------------------------------------------------------------------------


def test_a_type_is_a_household_that_there_can_be() -> None:
    """What holds of seven fields by their meaning; the Bureau's list has no more than it needs."""
    assert len(TYPES) == len(set(TYPES)) == 522
    for t in TYPES:
        assert t.children or not t.own  # own children are children
        assert t.children in (t.own, 3) or not t.own
        assert t.relatives or not (t.own or t.multig or t.married)
        assert t.minor or not t.children
        couple = t.couple != "N"
        assert t.size >= 1 + couple + (0, 1, 1, 2)[t.children]
        assert t.size >= 3 or not t.multig
        assert not (t.alone and couple)


def test_types_come_in_the_published_order() -> None:
    assert list(dict.fromkeys(t.couple for t in TYPES)) == list(COUPLES)
    assert Counter(t.couple for t in TYPES) == {"MO": 86, "MS": 86, "CO": 110, "CS": 110, "N": 130}
    assert (TYPES[392].code, TYPES[393].code) == (
        "N rel0 own0 ch0 minor0 mg0 size1",
        "N rel0 own0 ch0 minor1 mg0 size1",
    )
    assert digest([tuple(t) for t in TYPES]) == "1b8e779296388c98"


def test_types_are_the_published_rows(published: dict[str, Any]) -> None:
    fields = published["attributes"]["hhtype_dhch"]["fields"]
    couples = [tuple(COUPLES)[i] for i in fields["couple"]]
    rest = (fields[name] for name in HouseholdType._fields[1:])
    assert [tuple(t) for t in TYPES] == list(zip(couples, *rest, strict=True))


# --- groupings
# ---------------------------------------------------------------------------------------

#: Groups, and the digest of their levels.
GROUPINGS: dict[str, dict[str, tuple[int, str]]] = {
    "dhcp": {
        "relgq_4_groups": (4, "79fd354608a9ea4f"),
        "gq_constr_groups": (6, "180b812384cd3144"),
        "popSehsdTargetsRelship": (19, "520f2f92533daa82"),
        "relship_and_eight_level_GQ": (25, "7f8ca190ef49a985"),
        "gqlevels": (25, "10321e6e1cca4ff6"),
        "hhgq8lev": (8, "a2330754a4dda9ab"),
        "hhinstlevels": (3, "1104ca93be5939cd"),
        "votingage": (2, "340c08dd2556ca91"),
        "age_18_64_116": (3, "6bf2d40698e22a45"),
        "age_10_groups": (10, "e4dd6653ef576541"),
        "age_38_groups": (38, "5835401f4afde37c"),
        "age_40_groups": (40, "bf30f9894deab294"),
        "age_23_groups": (23, "3a437a3228e7b616"),
        "age_5_years": (23, "e433c6c084978409"),
        "race7": (7, "86a4d3814158b7b3"),
        "numraces": (6, "05de85f9a67ad514"),
    },
    "dhch": {
        "hhtenshort_2lev": (2, "d56be32b3d595da4"),
        "hhover65": (2, "152b78bdc56c759c"),
        "hhageH18": (3, "1b72dac08e01fffc"),
        "presence60": (2, "c1ba7f4ed0a4bf2a"),
        "presence65": (2, "d5d883d42de109e8"),
        "presence75": (2, "e4ffb38a7e6643d8"),
        "coupled_hh_type": (5, "4038bfffd56b52d8"),
        "relatives": (2, "249cba01ed61809e"),
        "own_children": (4, "456ecc5f33745851"),
        "children": (4, "d9466b72efc84f1b"),
        "minor": (2, "f00d88bab1aeadb5"),
        "multig": (2, "4262638698c5e478"),
        "hhsize_all": (7, "e5adbf48373376fc"),
        "partner_type_detailed_own_child_status": (12, "e8fa7f611efd4a63"),
        "partner_type_own_child_status": (6, "12f508e510775dea"),
        "DetailedCoupleTypeMultGenDetOwnChildSize": (183, "93c186c6daac757e"),
        "DetailedCoupleTypeMultGenOwnChildSize": (99, "a1bc66202e7edf4d"),
        "DetailedCoupleTypeDetOwnChildSize": (104, "66761b735c46dd35"),
        "family_nonfamily_size": (13, "9add930927bc4374"),
        "p16": (4, "954d674787be6d11"),
    },
    "tenvacgq": {
        "tenure_3lev": (4, "887690fb19804881"),
        "occupancy_gqlevels": (26, "dc762686c4b4e1f5"),  # ours: what is known exactly of units
        "unit_class": (3, "5a71be2d970e370f"),
        "gqlevels": (25, "54178e9711b3f50c"),
        "hhgq8lev": (8, "1d3f4e84d72b28be"),
        "hhinstlevels": (3, "479d350c3b197b41"),
    },
}


@pytest.mark.parametrize("schema", EVERY, ids=lambda s: s.name)
def test_groupings_are_those_that_were_compared(schema: Schema) -> None:
    assert {g.name: (len(g.groups), digest(g.index)) for g in schema.recodes} == GROUPINGS[
        schema.name
    ]


#: Groupings that have another name here, or that are here without counterpart.
ALIAS = {
    "hhinstlevels": "institutional",
    "age_23_groups": "p12",
    "age_5_years": "metrics_five_year",
}
FIELDS = {"relatives": "relatives", "own_children": "own", "children": "children", "minor": "minor"}


@pytest.mark.parametrize("schema", EVERY, ids=lambda s: s.name)
def test_groupings_are_the_published_ones(schema: Schema, published: dict[str, Any]) -> None:
    for g in schema.recodes:
        of = published["attributes"][g.attribute]
        if g.name in FIELDS:
            theirs = of["fields"][FIELDS[g.name]]
        elif g.attribute == "tenvacgq":
            theirs = {
                "tenure_3lev": [3 if i < 0 else i for i in of["recodes"]["tenure_3lev"]["groups"]],
                "unit_class": of["recodes"]["unit_class"]["groups"],
                "occupancy_gqlevels": [
                    min(i, 2) + j
                    for i, j in zip(
                        of["recodes"]["unit_class"]["groups"], [0] * 11 + [*range(24)], strict=True
                    )
                ],
                "gqlevels": of["recodes"]["hhgq_vector"]["groups"],
                "hhgq8lev": [i + 1 for i in of["recodes"]["hhgqSpineTypes"]["groups"]],
                "hhinstlevels": [
                    (0, 1, 1, 1, 1, 2, 2, 2)[i + 1]
                    for i in of["recodes"]["hhgqSpineTypes"]["groups"]
                ],
            }[g.name]
        else:
            theirs = of["recodes"][ALIAS.get(g.name, g.name)]["groups"]
        assert list(g.index) == theirs, g.name


def test_zeros_are_the_published_ones(published: dict[str, Any]) -> None:
    ages = published["zeros"]["persons"]["possible_ages_by_relgq"]
    of_persons = DHCP.possible.reshape(DHCP.shape)[:, 0, :, 0, 0]
    assert [
        [int(np.flatnonzero(row)[0]), int(np.flatnonzero(row)[-1])] for row in of_persons
    ] == ages
    zeros = published["zeros"]["households"]
    expected = np.ones((2, 9, 4, 522), dtype=bool)
    for rule in zeros["rules"]:
        types = zeros["hhtype_sets"][rule["hhtype"]] if "hhtype" in rule else range(522)
        box = (
            rule.get("sex", (0, 1)),
            rule.get("hhage", range(9)),
            rule.get("elderly", range(4)),
            types,
        )
        expected[np.ix_(*box)] = False
    np.testing.assert_array_equal(DHCH.possible.reshape(DHCH.shape)[:, :, 0, 0, :, 0, :], expected)


# --- as the redistricting schema has it
# --------------------------------------------------------------


def test_persons_fall_into_the_cells_of_the_redistricting_schema() -> None:
    """Every cell that can occur lies in one that can occur there, and each of these has one."""
    to = DHCP.query("hhgq8lev * votingage * hispanic * cenrace")
    assert to.shape == (8, 1, 2, 2, 63)
    reached = np.zeros(PL94.cells, dtype=bool)
    reached[to.index[DHCP.possible]] = True
    np.testing.assert_array_equal(reached, PL94.possible)
    assert DHCP.attribute("cenrace").levels == CENRACE
    hhgq8, hhgq = next(g for g in DHCP.recodes if g.name == "hhgq8lev"), PL94.attribute("hhgq")
    assert (hhgq8.groups, hhgq8.labels) == (hhgq.levels, hhgq.labels)


def test_types_of_group_quarters_stand_in_both_schemas_in_one_order() -> None:
    assert len(quarters.TYPES) == 24
    assert (
        DHCP.attribute("relgq").levels[len(RELATIONSHIPS) :]
        == TENVACGQ.attribute("tenvacgq").levels[11:]
        == quarters.LEVELS
    )
    assert [t.code for t in quarters.TYPES] == sorted(t.code for t in quarters.TYPES)
