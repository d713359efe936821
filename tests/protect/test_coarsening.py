"""Coarsening: what is shown is exact, what is not is unknown."""

from __future__ import annotations

import numpy as np
import pytest

from das.errors import InputError, SpecError
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.published import UNBOUNDED, TableSet
from das.tools.protection.truth.method import exact_lines
from das.tools.protection.truth.methods.coarsening import Coarsening
from tests.protect.people import SCHEMA, records, tables


def test_categories_are_other_tables_not_crossed() -> None:
    people = records()
    shown = Coarsening(("total", "race * hispanic", "sex")).published(people, tables(), b"")
    block = shown.levels["Block"]
    assert block.shown.all()
    assert block.value.shape[1] == 1 + 6 + 2
    assert len(shown.tables.lines("Block")) == 9
    assert (block.value[:, 0] == people.histogram().totals()).all()
    assert (block.value[:, 1:7].sum(axis=1) == block.value[:, 7:].sum(axis=1)).all()
    assert (block.lower == block.upper).all()


def test_tables_down_to_a_level_with_the_totals_of_blocks() -> None:
    people = records()
    shown = Coarsening(level="Group").published(people, tables(), b"")
    assert list(shown.levels) == ["Tract", "Group", "Block"]
    block, group = shown.levels["Block"], shown.levels["Group"]
    assert (block.shown.sum(axis=1) == 1).all()
    assert (block.value[:, 0] == people.histogram().totals()).all()
    assert (block.upper[:, 1:] == UNBOUNDED).all()
    assert not block.lower[:, 1:].any()
    every = people.histogram().upward(people.spine)["Group"]
    assert (group.value == tables().lines("Block").counts(every)).all()


def test_small_units_show_their_total_alone() -> None:
    people = records()
    truth = exact_lines(people.histogram(), people.spine, tables())["Block"].value
    typical = int(np.median(truth[:, 0]))
    shown = Coarsening(threshold=typical).published(people, tables(), b"")
    block, few = shown.levels["Block"], truth[:, 0] < typical
    assert few.any()
    assert (block.shown[few].sum(axis=1) == 1).all()
    assert block.shown[~few].all()
    assert (block.value[block.shown] == truth[block.shown]).all()
    assert (block.lower <= truth).all()
    assert (truth <= block.upper).all()
    assert shown.tables is tables()


def test_the_three_together() -> None:
    people = records()
    method = Coarsening(("total", "race"), "Group", 120)
    shown = method.published(people, tables(), b"")
    assert [lines.value.shape[1] for lines in shown.levels.values()] == [4, 4, 4]
    assert method.label == (
        "tables of total, race; tables down to Group; totals alone under 120 persons"
    )
    assert not method.random


def test_refusals() -> None:
    with pytest.raises(SpecError, match="nothing is made coarser"):
        Coarsening()
    with pytest.raises(SpecError, match="threshold is -1"):
        Coarsening(threshold=-1)
    with pytest.raises(SpecError, match="religion"):
        Coarsening(("religion",)).published(records(), tables(), b"")
    tracts = TableSet("tracts", SCHEMA, {"Tract": tables().tables["Tract"]})
    with pytest.raises(SpecError, match="the tables end at Tract already"):
        Coarsening(level="Block").published(records(), tracts, b"")
    with pytest.raises(InputError, match="no level 'Ward'"):
        Coarsening(level="Ward").published(records(), tables(), b"")
    races = TableSet(
        "races", SCHEMA, {"Block": (table(Tabulation("R", "", "race", total=False), SCHEMA),)}
    )
    with pytest.raises(SpecError, match="is a total"):
        Coarsening(threshold=10).published(records(), races, b"")
