"""Occupied units that persons do not contradict."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from das import spec
from das.errors import InfeasibleError, SpecError, UserError
from das.geography.invariants import known_bounds
from das.model.redistricting import H1
from das.model.spine import Spine
from das.release.opened import open_release
from das.release.post_processing import consistent_bounds
from das.truth import run_setup
from tests.worlds import ROOT, Worlds

TEXT = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
ASKED = 'constraints.occupied="consistent"'


def counts(run: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Persons in households, occupied units and housing units of each block."""
    opened = open_release(run / "release")
    persons, housing = opened.after.universes
    home = opened.published(persons).answer(persons.schema.query("hhgq"))[:, 0]
    units = opened.published(housing).dense()
    return home, units[:, 1], units.sum(axis=1)


def test_a_release_has_homes_where_people_live(worlds: Worlds) -> None:
    home, occupied, housing = counts(worlds.run("run.seed=1", ASKED, data="one thousand"))
    assert ((occupied > 0) == (home > 0)).all()
    assert (occupied <= np.minimum(home, housing)).all()
    home, before, _ = counts(worlds.run("run.seed=1", data="one thousand"))
    assert (((before > 0) != (home > 0)) | (before > home)).any()


def test_bounds_add_up() -> None:
    places = {"County": ["1", "1", "2"], "Block": ["11", "12", "21"]}
    spine = Spine.from_frame(places, ["State", "County", "Block"])
    housing = np.array([[5], [2], [9]])
    bounds = known_bounds(H1, spine, [("Block", H1.query("total"), housing)], None)
    home = np.array([3, 7, 0])
    found = consistent_bounds(bounds, spine.levels, spine.parent, home)
    for level, lower, upper in (
        ("Block", [1, 1, 0], [3, 2, 0]),
        ("County", [2, 0], [5, 0]),
        ("State", [2], [5]),
    ):
        low, high = found[level].limits.some(slice(None))
        assert low[:, 1].tolist() == lower
        assert high[:, 1].tolist() == upper
        assert found[level].total is not None
    bounds = known_bounds(H1, spine, [("Block", H1.query("total"), housing[[0, 2, 2]] * 0)], None)
    with pytest.raises(InfeasibleError, match="no housing unit"):
        consistent_bounds(bounds, spine.levels, spine.parent, home)


def test_what_is_refused() -> None:
    chosen = spec.parse(TEXT, where="c", overrides=[ASKED])
    with pytest.raises(UserError, match="cut into subtrees"):
        run_setup._check_whole(cast(Any, chosen), cast(Any, (1, 2)))
    text = (ROOT / "configs" / "1940.toml").read_text(encoding="utf-8")
    with pytest.raises(SpecError, match="needs housing units"):
        spec.parse(text, where="c", overrides=[ASKED])
