"""A link that is moved towards totals of the S-DHC: what moves, what stays, where it ends."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError, ReleaseError, UserError
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.dhc.agreement.counted import Ints, household_attributes
from das.publications.dhc.files import linked as reader
from das.publications.dhc.model.households import ATTRIBUTE, TENURE
from das.publications.dhc.release import open_dhc
from das.runs import pipeline
from das.tools.link.files import write
from das.tools.link.population import LinkedPopulation
from das.tools.link.targets import LinkTargets, SizeTargets, steered_to
from tests import dhc_small
from tests import linked_worlds as worlds_small
from tests.commands import Commands
from tests.sdhc.test_known_answers import packaged
from tests.worlds import Worlds

STATE = np.zeros(9, dtype=np.int64)
ONE = np.ones((7, 2))


def totals(linked: LinkedPopulation) -> tuple[np.ndarray, np.ndarray]:
    """Persons by tenure, and by race of the householder and age."""
    of = household_attributes(linked.cell)
    adult = (linked.people.age >= 18).astype(int)
    tenure = np.bincount(of[TENURE.name][linked.household], minlength=3).astype(float)
    race = np.zeros((7, 2))
    np.add.at(race, (of["race"][linked.household], adult), 1)
    return tenure, race


@pytest.fixture(scope="module")
def linked() -> LinkedPopulation:
    return worlds_small.linked(worlds_small.disagreeing(each=400))


@pytest.fixture(scope="module")
def targets(linked: LinkedPopulation) -> SizeTargets:
    """One in fifty persons of renters, and of the largest race, are elsewhere."""
    tenure, race = totals(linked)
    move = np.round(0.02 * tenure[2])
    tenure += np.array([move, 0, -move])
    first, second = np.argsort(-race.sum(axis=1))[:2]
    move = np.round(0.02 * race[first])
    race[first] -= move
    race[second] += move
    return SizeTargets(tenure, race, np.full(3, 2.0), np.full((7, 2), 4.0), 100)


@pytest.fixture(scope="module")
def moved(linked: LinkedPopulation, targets: SizeTargets) -> LinkedPopulation:
    return steered_to(linked, STATE, [targets], 0)


def test_totals_are_within_their_errors(
    linked: LinkedPopulation, moved: LinkedPopulation, targets: SizeTargets
) -> None:
    before, after = totals(linked), totals(moved)
    assert (np.abs(after[0] - targets.tenure) <= targets.tenure_error).all()
    apart = [np.abs(x[1] - targets.race).sum() for x in (before, after)]
    assert apart[1] < apart[0] / 2
    again = steered_to(linked, STATE, [targets], 0)
    assert np.array_equal(again.cell, moved.cell)
    vague = replace(targets, tenure_error=np.full(3, 1e6), race_error=np.full((7, 2), 1e6))
    for nothing in (None, vague):  # the link knows better
        same = steered_to(linked, STATE, [nothing], 0)
        assert np.array_equal(same.cell, linked.cell)


def test_blocks_keep_what_files_count(
    linked: LinkedPopulation, moved: LinkedPopulation, tmp_path: Path
) -> None:
    """Persons, units, tenures, householders, types and sizes of each block; and a reader finds no
    contradiction: types still follow from members."""
    a, b = linked.counts, moved.counts
    assert a["persons"].same_as(b["persons"])
    assert a["units"].same_as(b["units"])
    assert not a["households"].same_as(b["households"])
    of, to = (household_attributes(x.cell) for x in (linked, moved))
    head = ("sex", "hhage", "hisp", "race")
    for names in (head, (*head[:3], TENURE.name), (ATTRIBUTE, "elderly")):
        assert np.array_equal(
            counted(linked, [of[n] for n in names]), counted(moved, [to[n] for n in names])
        ), names
    assert np.array_equal(linked.size, moved.size)
    write(tmp_path, moved, dhc_small.tree().codes[-1], csv=False, private=True)
    found = reader.read(tmp_path)
    r = found.households.open("a test compares it")
    again = Histogram.from_triplets(9, b["households"].cells, r.block, r.cell, r.count)
    assert again.same_as(b["households"])


def counted(linked: LinkedPopulation, columns: list[Ints]) -> np.ndarray:
    """Households of each block by some attributes, in order."""
    rows = np.stack([linked.block, *columns], axis=1)
    return rows[np.lexsort(rows.T[::-1])]


def test_householders_who_change_are_of_like_age(
    linked: LinkedPopulation, moved: LinkedPopulation
) -> None:
    changed = linked.people.cenrace != moved.people.cenrace
    assert changed.any()
    assert np.abs(linked.people.age - moved.people.age).max() <= 4
    assert np.array_equal(linked.people.relgq, moved.people.relgq)


def test_targets_that_are_not_whole_are_refused() -> None:
    with pytest.raises(InputError, match="not all totals"):
        SizeTargets(np.ones(2), ONE, np.ones(3), ONE, 18)
    with pytest.raises(InputError, match="nobody is counted"):
        SizeTargets(np.ones(3), ONE, np.ones(3), ONE, 0)
    with pytest.raises(InputError, match="not above zero"):
        SizeTargets(np.ones(3), ONE, np.zeros(3), ONE, 18)


def test_a_release_that_is_not_of_the_sdhc_is_refused(
    worlds: Worlds, commands: Commands, tmp_path: Path
) -> None:
    run = worlds.dhc()
    code, _, err = commands.named("link")(run, "--out", tmp_path / "x", "--targets", run)
    assert (code, "S-DHC is wanted" in err) == (2, True)
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def sdhc(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the S-DHC on the records of the DHC's run."""
    out = tmp_path_factory.mktemp("sdhc") / "run"
    pipeline.run(packaged("sdhc-2020", "run.seed=1"), out, paths=[worlds.linked()])
    return out


def test_what_does_not_fit_is_refused(sdhc: Path, worlds: Worlds) -> None:
    opened, release = open_dhc(worlds.dhc() / "release"), sdhc / "release"
    found = LinkTargets.read(release, opened)
    assert {t is None for t in found.targets} == {False}
    few = worlds_small.linked(worlds_small.disagreeing())
    other = replace(found, state=np.zeros(9, dtype=np.int64))
    with pytest.raises(UserError, match="persons in households of State"):
        other.steered(few, 0)
    spec = opened.spec.model_copy(update={"run": opened.spec.run.model_copy(update={"seed": None})})
    with pytest.raises(UserError, match="was seeded"):
        LinkTargets.read(release, replace(opened, spec=spec))
    elsewhere = Spine.from_frame({"State": ["78"], "Block": ["781"]}, ("State", "Block"))
    with pytest.raises(UserError, match="the tree has 78"):
        LinkTargets.read(release, replace(opened, spine=elsewhere))


def test_altered_targets_are_refused(sdhc: Path, worlds: Worlds, tmp_path: Path) -> None:
    copy = shutil.copytree(sdhc / "release", tmp_path / "copy")
    table = next(copy.glob("tables/*.csv"))
    table.write_bytes(table.read_bytes()[:-1])
    with pytest.raises(ReleaseError, match=table.name):
        LinkTargets.read(copy, open_dhc(worlds.dhc() / "release"))
