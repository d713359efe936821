"""An optimized release and its measurement files alone, as the Bureau publishes them: the same
estimates, bit for bit.

Only geocodes are left of what a release knows. There is no specification, no tree, and no row of an
unmeasured unit. There is a folder for each branch of a state, and the joint total of both branches
is a constraint of each."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from das import spec as specification
from das.engine import InProcess, Silent
from das.files.run.ledger import measurements
from das.files.run.run_directory import nmf_folder
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.published.files.layout import convert
from das.release.opened import OpenedRelease, open_release
from das.release.post_processing import estimate
from das.runs import pipeline
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def release(worlds: Worlds) -> Path:
    """Three states, two with American Indian areas; no tract is measured, and hardly any group."""
    return worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand") / "release"


def as_published(release: Path, universe: str, out: Path) -> Path:
    """The folders of the levels of one universe, and nothing else."""
    for folder in nmf_folder(release, universe).glob("*.parquet"):
        if folder.is_dir():
            shutil.copytree(folder, out / folder.name)
    return out


def estimates(opened: OpenedRelease, universe: str, method: str) -> Mapping[str, Histogram]:
    text = opened.spec.dump()
    opened = opened.changed(
        specification.of_release(text, where="", overrides=[f"estimation.method={method}"])
    )
    (here,) = [u for u in opened.after.universes if u.name == universe]
    return estimate(opened, here, InProcess(), Silent()).histograms


@pytest.mark.parametrize("method", ["topdown", "full-information"])
@pytest.mark.parametrize("universe", ["persons", "housing"])
def test_the_measurements_alone_give_the_same_estimates(
    release: Path, tmp_path: Path, universe: str, method: str
) -> None:
    ours = open_release(release)
    (own,) = [u for u in ours.after.universes if u.name == universe]
    tree = ours.tree(own)
    assert tree.spine.geocodes("State").tolist() == ["034", "036", "042", "134", "136"]
    assert not tree.measured("Tract").any()
    convert(as_published(release, universe, tmp_path / "nmf"), tmp_path / "release")
    theirs = open_release(tmp_path / "release")
    one, other = (
        estimates(ours, universe, method),
        estimates(theirs, theirs.after.universes[0].name, method),
    )
    assert list(one) == list(
        other
    )  # constraints tell of all units, also of tracts, which are a county's only child each
    their_tree = theirs.tree(theirs.after.universes[0])
    for level, h in other.items():
        assert_same(tree.spine, one[level], their_tree.spine, h, level)
        if level != "US":
            assert np.array_equal(their_tree.measured(level), tree.measured(level)), level
    place = ours.spine.codes[-1][tree.place]  # in tabulation codes, too
    assert np.array_equal(theirs.spine.codes[-1][their_tree.place], place)
    assert theirs.spine.geocodes("State").tolist() == ["34", "36", "42"]


def assert_same(
    spine: Spine, one: Histogram, their_spine: Spine, other: Histogram, level: str
) -> None:
    """The same units in the same order, whatever the root is called, and the same counts."""
    if level != spine.levels[0]:
        assert np.array_equal(spine.geocodes(level), their_spine.geocodes(level))
    assert one.same_as(other), level


def test_a_run_goes_on_where_a_level_has_no_measurements(
    release: Path, worlds: Worlds, tmp_path: Path
) -> None:
    """Nothing of it was to be drawn, and nothing is missing: no level is measured again, and the
    end is the same.
    """
    run = worlds.copy(release.parent, tmp_path / "run")
    (run / "manifest.json").unlink()
    again = specification.parse(
        (run / "release" / "spec.toml").read_text(encoding="utf-8"), where="spec.toml"
    )
    pipeline.run(again, run, paths=[worlds.data("three thousand")], resume=True)
    assert (run / "manifest.json").is_file()
    assert measurements(run / "release") == measurements(release)
    assert (run / "release" / "privacy.json").read_bytes() == (
        release / "privacy.json"
    ).read_bytes()


def test_rows_are_in_folders_of_branches_and_states_and_of_measured_units_alone(
    release: Path,
) -> None:
    opened = open_release(release)
    for u in opened.after.universes:
        root, tree = nmf_folder(release, u.name), opened.tree(u)
        assert [p.name for p in (root / "Tract.parquet").iterdir()] == ["Constraint"]
        for level in tree.spine.levels:  # the whole tree is in the constraints
            rows = pq.read_table(root / f"{level}.parquet" / "Constraint", columns=["geocode"])
            codes = [""] if level == "US" else tree.spine.geocodes(level).tolist()
            assert set(rows["geocode"].to_pylist()) == set(codes)
        for level in ("State", "County", "Block_Group", "Block"):
            state = tree.spine.geocodes("State")[tree.spine.up(level, "State")]
            folders = {p.name for p in (root / f"{level}.parquet" / "DPQuery").iterdir()}
            assert folders == {f"State={s}" for s in state[tree.measured(level)]}
