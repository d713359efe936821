"""The DHC measured over a tree of its own, next to the published one. The redistricting release that
it rests on was measured over the tree of tabulation. The world has American Indian areas: one state
and one county are two measured units each."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from das import spec as specs
from das.engine.tasks import SILENT
from das.errors import InputError, ReleaseError
from das.files.release import measured_spine as tree_file
from das.files.release import statement
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.spine import Spine
from das.publications.dhc.release import OpenedDhc, open_dhc, tree_path, write_public
from das.publications.dhc.replicates import DhcReplicates
from das.publications.dhc.spec import PERSONS, UNITS, DhcSpec
from das.publications.dhc.truth.preparation import EarlierRelease, _check_covered, trees_of
from das.release.replicates import NewNoiseOnDemand, SeededNoise
from das.stages import Stages
from das.truth.preparation import prepare as prepare_counts
from tests.end_to_end.test_dhc_cut import SEED, check_whole, go
from tests.worlds import ROOT, Worlds

DATA = "one thousand"


@pytest.fixture(scope="module")
def wards(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every second block of a tract: the areas cut each block group."""
    blocks = open_dhc(worlds.dhc() / "release").spine.codes[-1].astype(str)
    path = tmp_path_factory.mktemp("areas") / "wards.csv"
    pd.DataFrame({"area": [b[:11] for b in blocks], "block": blocks})[::2].to_csv(path, index=False)
    return path


def keys(wards: Path) -> tuple[str, ...]:
    return "geography.spine=optimized", f'geography.targets=["Block_Group", "{wards}"]'


@pytest.fixture(scope="module")
def made(worlds: Worlds, wards: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Cut at the counties, one of which is two measured units. Each has one tract, which copies its
    counts: only the upper tree asks of it. It has the sums of small queries (full information), and
    single answers to others. Blocks have a prior of shares, whose spread is that of each measured
    county.
    """
    more = "estimation.prior=shares", "estimation.method=full-information"
    return go(worlds, tmp_path_factory.mktemp("trees") / "run", SEED, *more, *keys(wards))


@pytest.fixture(scope="module")
def opened(made: Path) -> OpenedDhc:
    return open_dhc(made / "release")


def test_cut_or_whole_it_is_one_release_which_is_verified(
    made: Path, opened: OpenedDhc, tmp_path: Path
) -> None:
    tree = opened.trees[PERSONS]
    home = tree.home_units("County", opened.spine)
    assert (opened.cut.level, len(opened.cut)) == ("County", 2)
    assert "County" in tree.split
    assert np.bincount(home).max() == 2
    assert (np.diff(home) < 0).any()  # units of a subtree are not neighbors on the tree
    check_whole(made, tmp_path / "again")
    prior = json.loads((made / "release" / "prior.json").read_text("utf-8"))
    assert {s["geocode"] for s in prior["spreads"]} == set(tree.spine.geocodes("County").tolist())


def test_its_tree_is_that_of_a_redistricting_run_with_the_same_keys(
    worlds: Worlds, wards: Path, opened: OpenedDhc
) -> None:
    """Made of what the earlier release publishes, it is what the input gives; and no area straddles
    a block group. Persons and units have trees of their own."""
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    spec = specs.parse(text, where="c", overrides=keys(wards))
    read = prepare_counts(spec, [worlds.data(DATA)], Stages(), SILENT)
    for name, counted in ((PERSONS, "persons"), (UNITS, "housing")):
        ours, theirs = opened.trees[name], read.trees[counted]
        assert [c.tolist() for c in ours.spine.codes] == [c.tolist() for c in theirs.spine.codes]
        assert np.array_equal(ours.place, theirs.place)
        assert ours.alike
        assert not theirs.alike
    inside = pd.read_csv(wards, dtype=str)["block"].to_numpy()
    tree = opened.trees[PERSONS]
    there = np.isin(opened.spine.codes[-1].astype(str), inside)[tree.place]
    group = tree.spine.up("Block", "Block_Group")
    assert set(np.bincount(group, there) / np.bincount(group)) == {0.0, 1.0}
    whole = tree.home_units("Block_Group", opened.spine)
    assert (whole >= 0).all()


def test_the_statement_costs_what_it_costs_on_the_published_tree(
    worlds: Worlds, made: Path
) -> None:
    said, plain = (statement.read_ours(run / "release") for run in (made, worlds.dhc()))
    assert [x.cost for x in said.ledger] == [x.cost for x in plain.ledger]
    assert said.total == plain.total
    note = "The measured trees are not that of the tables"
    assert [note in " ".join(s.says) for s in (said, plain)] == [True, False]
    assert open_dhc(worlds.dhc() / "release").trees[PERSONS].is_published
    assert not tree_path(worlds.dhc() / "release", PERSONS).exists()


def test_a_replicate_is_measured_over_the_tree_and_keeps_what_is_fixed(opened: OpenedDhc) -> None:
    source = DhcReplicates.from_release(opened)
    again = source.again(source.published(), SeededNoise(3, 1))
    for name in (PERSONS, UNITS):
        u = opened.spec.universe(name)
        assert np.array_equal(
            again[name].answer(u.schema.query(u.fixed_query)), opened.fixed[name].dense()
        )


# --- any tree over the same blocks
# ------------------------------------------------------------------------------------------------


def random_tree(spine: Spine, rng: np.random.Generator) -> MeasuredSpine:
    """Nested random groups of blocks in a random order. Many are only children."""
    place = rng.permutation(len(spine.codes[-1]))
    home, parents = np.arange(len(place)), list[np.ndarray]()
    for _ in spine.levels[1:-1]:
        home = np.cumsum(np.concatenate([[False], rng.random(home[-1]) < 0.6]))
        parents.insert(0, home)
        home = np.arange(home[-1] + 1)
    parents = [np.zeros(0), np.zeros(parents[0][-1] + 1), *parents][: len(spine.levels)]
    parents[0] = np.zeros(1)
    parent = tuple(p.astype(np.int64) for p in parents)
    codes = [np.array([f"{i:03d}".encode() for i in range(len(p))]) for p in parent]
    return MeasuredSpine(Spine(spine.levels, tuple(codes), parent), place, regrouped=True)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_fixed_by_block_can_be_met_on_any_tree(seed: int, opened: OpenedDhc) -> None:
    """Published counts are not the truth: here they are of other blocks, and noise is that of the
    plan. Sums along the tree are dense products; block counts are those that are fixed."""
    rng, u = np.random.default_rng(seed), opened.spec.universe(UNITS)
    tree = random_tree(opened.spine, rng)
    truth = (
        DhcReplicates.from_release(opened).published()[UNITS].some(rng.permutation(len(tree.place)))
    )
    world = OpenedDhc(
        Path(), opened.spec, opened.spine, {UNITS: tree}, opened.fixed, Subtrees.none(opened.spine)
    )
    counts = tree.of_published(truth).upward(tree.spine)
    source = NewNoiseOnDemand(u, tree.spine, counts, SeededNoise(seed, 1))
    found = world.estimate(u, source, {}).counts
    lowest = found["Block"].dense()
    assert np.array_equal(
        found["Block"].answer(u.schema.query(u.fixed_query)), opened.fixed[UNITS].dense()
    )
    for level in opened.spine.levels:
        sums = np.zeros((opened.spine.units(level), len(tree.place)), dtype=np.int64)
        sums[opened.spine.up("Block", level), np.arange(len(tree.place))] = 1
        assert np.array_equal(found[level].dense(), sums @ lowest)


# --- what is refused
# ------------------------------------------------------------------------------------------------


def test_another_tree_than_that_of_the_specification_is_refused(
    opened: OpenedDhc, tmp_path: Path
) -> None:
    whole = OpenedDhc(
        tmp_path, opened.spec, opened.spine, opened.trees, opened.fixed, Subtrees.none(opened.spine)
    )
    write_public(whole)
    open_dhc(tmp_path)
    tree, path = opened.trees[UNITS], tree_path(tmp_path, UNITS)
    tree_file.write(path, MeasuredSpine.bypassed(tree.spine, tree.place), opened.spine)
    with pytest.raises(ReleaseError, match="not measured with the share of its own level"):
        open_dhc(tmp_path)
    path.unlink()
    with pytest.raises(ReleaseError, match="the measured tree is not there"):
        open_dhc(tmp_path)


def test_a_target_that_nothing_knows_and_persons_off_the_tree_are_refused(
    worlds: Worlds, opened: OpenedDhc
) -> None:
    release = worlds.run(SEED, data=DATA) / "release"
    earlier = EarlierRelease.read(release, opened.spec)
    structures = np.ones((len(opened.spine.codes[-1]), 8), dtype=np.int64)
    changed = ['geography.targets=["Place", "Parish"]']
    spec = specs.of_kind(DhcSpec, specs.load(opened.spec.dump(), where="c", overrides=changed), "c")
    with pytest.raises(InputError, match="no geographic field 'Parish'"):
        trees_of(spec, opened.spine, earlier.areas, structures)
    tree = opened.trees[PERSONS]
    outside = np.setdiff1d(np.arange(len(opened.spine.codes[-1])), tree.place)[:1]
    there = Histogram.from_triplets(
        earlier.persons.units, earlier.persons.cells, outside, outside * 0, outside * 0 + 3
    )
    with pytest.raises(InputError, match="1 blocks were published with persons but have no"):
        _check_covered(EarlierRelease(opened.spine, there, earlier.homes, (), earlier.named), tree)
