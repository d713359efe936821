"""Identities between published persons and households: true of linked records, and each violated by
the change that it is there for.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import InputError
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.publications.dhc import release_files
from das.publications.dhc.agreement.counted import AgreementCounts, type_fields
from das.publications.dhc.agreement.identities import (
    ANY,
    IDENTITIES,
    AgreementRow,
    agreement,
    differing,
)
from das.publications.dhc.agreement.tables import LINE_CHECKS, LineCheck, table_agreement
from das.publications.dhc.model.households import DHCH, TENVACGQ, TYPES
from das.publications.dhc.model.persons import DHCP
from tests import dhc_small


@pytest.fixture(scope="module")
def world() -> dict[str, Histogram]:
    return dhc_small.simulated(40)


def counts(of: Mapping[str, Histogram]) -> AgreementCounts:
    return AgreementCounts(of["persons"], of["households"], of["units"])


def violated(of: AgreementCounts) -> set[str]:
    return {r.identity for r in agreement(of, "Block") if r.violated and r.identity != ANY}


def person(relgq: str, age: int, sex: str = "female", n: int = 1) -> tuple[int, int]:
    levels = (relgq, sex, str(age), "not-hispanic", "white")
    return cell(DHCP, levels), n


def home(code: str, hhage: str, elderly: str = "none", sex: str = "female") -> tuple[int, int]:
    return cell(DHCH, (sex, hhage, "not-hispanic", "white", elderly, "rented", code)), 1


def cell(schema: Schema, levels: tuple[str, ...]) -> int:
    index = []
    for a, level in zip(schema.attributes, levels, strict=True):
        index.append(0 if level not in a.levels else a.levels.index(level))
    return int(np.ravel_multi_index(index, schema.shape))


def block(
    people: list[tuple[int, int]], homes: list[tuple[int, int]], rented: int | None = None
) -> AgreementCounts:
    """One block of these."""

    def one(cells: int, of: list[tuple[int, int]]) -> Histogram:
        at = np.array([c for c, _ in of], dtype=np.int64)
        n = np.array([n for _, n in of], dtype=np.int64)
        return Histogram.from_triplets(1, cells, np.zeros_like(at), at, n)

    units = [(2, len(homes) if rented is None else rented)]
    return AgreementCounts(
        one(DHCP.cells, people), one(DHCH.cells, homes), one(TENVACGQ.cells, units)
    )


def test_linked_records_agree_at_every_level(world: dict[str, Histogram]) -> None:
    spine = dhc_small.tree()
    for level in spine.levels:
        up = {u: h.upward(spine)[level] for u, h in world.items()}
        assert not violated(counts(up)), level
        assert not differing(counts(up)).any()


def test_moved_households_disagree(world: dict[str, Histogram]) -> None:
    h = world["households"]
    moved = Histogram.from_triplets(h.units, h.cells, (h.unit + 1) % h.units, h.cell, h.count)
    rows = {r.identity: r for r in agreement(counts(world | {"households": moved}), "Block")}
    assert {"E1", "E3", "E4", "E5", "I11"} <= {k for k, r in rows.items() if r.violated}
    assert rows[ANY].violated >= rows["E5"].violated > 0
    county = dhc_small.tree()
    up = {u: x.upward(county)["State"] for u, x in (world | {"households": moved}).items()}
    assert not violated(counts(up))  # where they moved within, nothing has changed


OLD_COUPLE = home("MO rel1 own0 ch0 minor0 mg0 size2", "75-84", "75-plus")
FAMILY = home("MO rel1 own3 ch3 minor1 mg0 size4", "35-44")
FAMILY_OF = [
    person("householder", 40),
    person("opposite-sex-spouse", 38, "male"),
    person("biological-child", 4),
    person("biological-child", 9),
]


def test_a_family_agrees() -> None:
    assert not violated(block(FAMILY_OF, [FAMILY]))


def changed(i: int, new: tuple[int, int]) -> list[tuple[int, int]]:
    return [new if j == i else p for j, p in enumerate(FAMILY_OF)]


CHANGES = {
    "E1": block(changed(0, person("householder", 50)), [FAMILY]),
    "E2": block(changed(1, person("same-sex-spouse", 38, "female")), [FAMILY]),
    "E3": block([*FAMILY_OF, person("sibling", 30)], [FAMILY]),
    "E4": block(FAMILY_OF, [FAMILY], rented=2),
    "E5": block(FAMILY_OF, [FAMILY, OLD_COUPLE]),
    "E6": block([*FAMILY_OF, person("gq-301", 80)], [FAMILY]),
    "I1": block(FAMILY_OF[:3], [FAMILY]),
    "I2": block(changed(2, person("biological-child", 8)), [FAMILY]),
    "I3": block(changed(2, person("foster-child", 8)), [FAMILY]),
    "I4": block(
        changed(1, person("opposite-sex-spouse", 16, "male")),
        [home("MO rel1 own0 ch0 minor0 mg0 size4", "35-44")],
    ),
    "I5": block(changed(1, person("opposite-sex-spouse", 66, "male")), [FAMILY]),
    "I6": block(FAMILY_OF, [home("MO rel1 own3 ch3 minor1 mg0 size4", "35-44", "60-64")]),
    "I7": block(
        [person("householder", 40), person("roommate", 30)],
        [home("N rel1 own0 ch0 minor0 mg0 size2", "35-44")],
    ),
    "I8": block(
        [person("householder", 40), person("sibling", 30)],
        [home("N rel0 own0 ch0 minor0 mg0 size2", "35-44")],
    ),
    "I9": block(FAMILY_OF[:3], [home("MO rel1 own1 ch1 minor1 mg1 size4", "35-44")]),
    "I11": block(changed(1, person("opposite-sex-spouse", 38, "female")), [FAMILY]),
}


@pytest.mark.parametrize("identity", sorted(set(IDENTITIES) - {"I10"}))
def test_each_identity_is_violated_by_its_change(identity: str) -> None:
    assert identity in violated(CHANGES[identity])


def test_an_empty_facility_disagrees() -> None:
    of = block(FAMILY_OF, [FAMILY])
    units = Histogram.from_triplets(
        1, TENVACGQ.cells, np.array([0, 0]), np.array([2, 20]), np.array([1, 1])
    )
    assert violated(AgreementCounts(of.persons, of.households, units)) == {"I10"}


def test_seven_and_more_has_no_upper_bound() -> None:
    large = home("MO rel1 own3 ch3 minor1 mg0 size7", "35-44")
    people = [*FAMILY_OF, (FAMILY_OF[3][0], 6)]
    assert not violated(block(people, [large]))
    assert "I1" in violated(block(FAMILY_OF, [large]))


def test_a_row_cannot_violate_more_than_there_is() -> None:
    with pytest.raises(InputError, match="violate"):
        AgreementRow("E1", "", "Block", 1, 2, 0.0)


# --- tables


def test_lines_of_linked_records_agree(world: dict[str, Histogram]) -> None:
    lines: dict[str, NDArray[np.int64]] = {}
    for universe, h in world.items():
        for t in release_files.tables_of(universe):
            lines |= {f"{t.name}:{i + 1}": v for i, v in enumerate(t.values(h).T)}
    rows = table_agreement(lines, "Block")
    assert len(rows) == len(LINE_CHECKS) + 1
    assert not any(r.violated for r in rows)
    assert rows[0].units == 8  # one of nine is empty
    lines["H9:2"] = lines["H9:2"] + 1
    assert {r.identity for r in table_agreement(lines, "Block") if r.violated} >= {"E1", "any"}


def test_tables_that_say_nothing_of_each_other_are_refused() -> None:
    with pytest.raises(InputError, match="no two tables"):
        table_agreement({"P1:1": np.ones(2, dtype=np.int64)}, "Block")
    with pytest.raises(InputError, match="relation"):
        LineCheck("E1", "", ("P1:1",), "~", ("H1:1",))


def test_each_type_is_within_its_own_bounds() -> None:
    """Household types never contradict themselves: their room holds what their fields say."""
    t = type_fields()
    assert (t.own_least <= t.room).all()
    assert (t.relatives_least <= t.room).all()
    assert len(t.room) == len(TYPES)
