"""Intervals of the counts of a release, as `das tables --margins` and the pages have them."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.stats import binom

from das import read_areas, read_intervals
from das.cli import main
from das.errors import ReleaseError
from das.estimate.margins_of_error import UNKNOWN
from das.estimate.summed import SummedSource
from das.files.release.estimates import EstimateReader
from das.model.areas import Areas
from das.model.constraint import count_range
from das.model.mechanisms import COVERAGE
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.model.universe import Universe
from das.publications.published.public import estimate_from
from das.release import area_counts, page
from das.release.intervals import Intervals
from das.release.opened import OpenedRelease, open_release
from das.release.own_replicates import OwnReplicates
from das.release.verify import sealed
from das.tables import universe_tables
from das.truth.assessment import truth_of
from tests.worlds import Worlds


def das(*args: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(a) for a in args])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    """The redistricting configuration on a very small extract."""
    return worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand")


@pytest.fixture(scope="module")
def tabulated(worlds: Worlds) -> Path:
    """A run whose measured units are the published ones."""
    return worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand")


@pytest.fixture(scope="module")
def informed(tabulated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same measurements, with full information."""
    out = tmp_path_factory.mktemp("intervals") / "informed"
    code, said = das("estimate", "--from", tabulated, "--out", out, "--method", "full-information")
    assert code == 0, said
    return out


def printed(run: Path, *args: object) -> pd.DataFrame:
    done = CliRunner().invoke(main, [str(a) for a in ("tables", run, "--names", "field", *args)])
    assert done.exit_code == 0, done.output
    return pd.read_csv(io.StringIO(done.stdout), dtype={"GEOCODE": str, "GEOID": str})


@pytest.mark.parametrize(
    ("level", "table"), [("Block", "P1"), ("County", "P2"), ("Tract", "P4"), ("Block", "H1")]
)
def test_the_ends_stand_after_each_column_and_hold_the_truth_as_often_as_they_say(
    run: Path, level: str, table: str
) -> None:
    plain, more = (
        printed(run, "--level", level, "--table", table),
        printed(run, "--level", level, "--table", table, "--margins"),
    )
    spine, truth = truth_of(run)[0].spine, truth_of(run)[1]
    release = open_release(run / "release")
    u, t = next(
        (u, t) for u in release.spec.universes for t in universe_tables(u) if t.name == table
    )
    fields = list(t.columns)
    assert [c for c in more.columns if c[:1] in "PH"] == [
        c + x for c in fields for x in ("", " low", " high")
    ]
    assert more[list(plain)].equals(plain)
    low, high = (more[[c + x for c in fields]].to_numpy() for x in (" low", " high"))
    true = t.values(truth[u.name][level].open("for a test"))
    covered = (low <= true) & (true <= high)
    uncertain = high > low
    assert covered[~uncertain].all()
    # answers of a unit lean on each other: one is counted for each unit, another one for the next
    units, columns = np.nonzero(uncertain)
    _, first = np.unique(units, return_index=True)
    picked = (
        first
        + np.arange(len(first)) % np.bincount(units, minlength=spine.units(level))[units[first]]
    )
    assert covered[units[picked], columns[picked]].sum() >= binom.ppf(1e-4, len(picked), 0.95)


@pytest.mark.parametrize("coverage", [0.95, 0.8])
def test_areas_have_the_intervals_of_das_area(run: Path, coverage: float) -> None:
    """At the one default, and at any other coverage."""
    asked = () if coverage == COVERAGE else ("--coverage", coverage)
    table = printed(run, "--level", "Place", "--table", "P1", "--margins", *asked)
    ours = read_areas(run, kind="Place", statistics=["P1"], coverage=coverage)
    ours = ours.set_index(["area", "field"])
    for field in ("P0010001", "P0010003"):
        low = ours["estimate_low"].xs(field, level="field")[table["GEOCODE"]]
        high = ours["estimate_high"].xs(field, level="field")[table["GEOCODE"]]
        assert (low.notna()).any()
        assert table[f"{field} low"].tolist() == low.tolist()
        assert table[f"{field} high"].tolist() == high.tolist()
    one = printed(run, "--name", table["GEOCODE"][1], "--table", "P1", "--margins", *asked)
    assert one.equals(table[1:2].reset_index(drop=True))


def test_a_greater_coverage_has_wider_intervals(run: Path) -> None:
    wide, narrow = (
        printed(run, "--level", "Tract", "--table", "P1", "--margins", "--coverage", c)
        for c in (0.95, 0.5)
    )
    assert printed(run, "--level", "Tract", "--table", "P1", "--margins").equals(wide)
    width = [(f["P0010003 high"] - f["P0010003 low"]).sum() for f in (narrow, wide)]
    assert 0 < width[0] < width[1]
    read = read_intervals(run, "P1", "Tract", coverage=0.5).set_index(["geocode", "field"])
    assert read["low"].xs("P0010003", level="field").tolist() == narrow["P0010003 low"].tolist()


def test_formats_names_and_chosen_units(run: Path) -> None:
    whole = printed(run, "--level", "Tract", "--table", "P1", "--margins")
    code = whole["GEOCODE"].iloc[-1]
    one = printed(run, "--level", "Tract", "--table", "P1", "--margins", "--geocode", code)
    assert one.equals(whole[whole["GEOCODE"] == code].reset_index(drop=True))
    said = json.loads(
        das(
            "tables",
            run,
            "--level",
            "Tract",
            "--table",
            "P1",
            "--margins",
            "--geocode",
            code,
            "--json",
        )[1]
    )
    (row,) = said["rows"]
    assert row["P0010001 Total low"] == one["P0010001 low"].iloc[0]
    page = das(
        "tables",
        run,
        "--level",
        "Tract",
        "--table",
        "P1",
        "--margins",
        "--geocode",
        code,
        "--format",
        "md",
    )[1]
    assert f"| P0010001 Total high | {one['P0010001 high'].iloc[0]:,} |" in page
    head = next(
        csv.reader(
            io.StringIO(
                das(
                    "tables",
                    run,
                    "--level",
                    "Tract",
                    "--table",
                    "P1",
                    "--margins",
                    "--names",
                    "label",
                )[1]
            )
        )
    )
    assert head.count("Total low") == 1


def test_they_are_never_wider_than_those_of_the_single_measurement(run: Path) -> None:
    release = open_release(run / "release")
    u = release.spec.persons
    intervals, source = Intervals(release, u), release.noisy(u)
    for level in release.spine.levels:
        n = release.spine.units(level)
        for name in source.queries(level):
            query = u.schema.query(name)
            if query.answers > 64:
                continue
            masks = query.index[None, :] == np.arange(query.answers)[:, None]
            _, margin = intervals.read(level, masks)
            variance = source.read(level, name, 0, n).variance
            alone = np.ceil(1.96 * np.sqrt(variance) - 0.5)
            assert (margin >= 0).all()
            assert (margin <= alone[:, None]).all(), (level, name)


def test_full_information_says_more_above_the_lowest_level(tabulated: Path, informed: Path) -> None:
    opened = [open_release(x / "release") for x in (tabulated, informed)]
    query = opened[0].spec.persons.schema.query("hispanic")
    masks = query.index[None, :] == np.arange(query.answers)[:, None]
    for level in opened[0].spine.levels:
        own, full = (Intervals(o, o.spec.persons).read(level, masks) for o in opened)
        assert (own[1] >= 0).all()
        if level == "Block":
            assert all(np.array_equal(a, b) for a, b in zip(own, full, strict=True))
        else:
            assert (full[1] <= own[1]).all()
    own, full = (Intervals(o, o.spec.persons).read("Tract", masks)[1] for o in opened)
    assert full.mean() < 0.95 * own.mean()
    known = Intervals(opened[1], opened[1].spec.persons).read(
        "State", np.ones((1, query.index.size), dtype=bool)
    )
    assert np.array_equal(
        known[0][:, 0], truth_of(tabulated)[1]["persons"]["State"].open("for a test").totals()
    )
    assert not known[1].any()


def test_corrected_totals_of_blocks_have_narrow_intervals(run: Path, tmp_path: Path) -> None:
    """About the published count, from ten persons on; they hold the truth as often as they say. All
    others are those of the measurements, which are the same."""
    estimate_from(run / "release", tmp_path / "it", changes=["estimation.bias=corrected"])
    before, after = (read_intervals(path, "P1", "Block") for path in (run, tmp_path / "it"))
    total = (after["field"] == "P0010001").to_numpy()
    ends = ["low", "high"]
    assert before.loc[~total, ends].equals(after.loc[~total, ends])
    opened, known = truth_of(run)
    true = known["persons"]["Block"].open("a test").totals()
    first, then, many = before[total], after[total], (after[total]["value"] >= 10).to_numpy()
    free = many & (first["low"] < first["high"]).to_numpy()
    assert free.sum() > 20
    assert first.loc[~many, ends].equals(then.loc[~many, ends])
    wide, narrow = ((x["high"] - x["low"])[free] for x in (first, then))
    assert narrow.mean() < 0.7 * wide.mean()
    middle = (then["low"] + then["high"])[free] / 2
    assert (np.abs(middle - then["value"][free]) < 0.5).mean() > 0.5  # the others end at 0
    held = (then["low"] <= true) & (true <= then["high"])
    assert held[free].sum() >= binom.ppf(1e-4, int(free.sum()), 0.95)
    assert opened.spine.units("Block") == len(then)


def test_only_batches_with_a_wanted_unit_are_read(run: Path) -> None:
    release = open_release(run / "release")
    intervals = Intervals(release, replace(release.spec.persons))
    n, total = (
        release.spine.units("Block"),
        np.ones((1, release.spec.persons.schema.cells), dtype=bool),
    )
    whole = intervals.read("Block", total)
    none = intervals.read("Block", total, wanted=np.zeros(n, dtype=bool))
    part = intervals.read("Block", total, n // 3, n // 2)
    assert (none[1] == UNKNOWN).all()
    assert np.array_equal(part[0], whole[0][n // 3 : n // 2])


# --- what is certain
# -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["tabulated", "informed"])
def test_what_is_certain_is_its_own_interval_and_nothing_is_below_zero_or_above_a_known_total(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Blocks without housing units have no vacant ones, whatever was measured; places without
    facilities nobody in them.
    """
    release = open_release(request.getfixturevalue(kind) / "release")
    certain, cut = 0, 0
    for u in release.after.universes:
        intervals, bounds = Intervals(release, u), release.published_bounds(u)
        for level in ("State", "Tract", "Block"):
            for table in universe_tables(u, release.assigned(u.name)):
                least, most = count_range(bounds[level], table.masks, 0, release.spine.units(level))
                told = intervals.of_units(level, table.masks)
                low, high = told.low, told.high
                known = high >= 0
                exact = least == most
                assert known[exact].all()
                assert (low[exact] == least[exact]).all()
                assert (high[exact] == least[exact]).all()
                assert (low[known] >= 0).all()
                assert (low[known] <= high[known]).all()
                if (total := intervals.most(level)) is not None:
                    assert (high <= total[:, None]).all()
                certain += int(exact.sum())
                cut += int((known & ~exact & (low == 0)).sum())
    assert min(certain, cut) > 50


def test_intervals_of_areas_keep_to_what_can_be(tabulated: Path) -> None:
    """Of areas of two blocks, which are no units."""
    release = open_release(tabulated / "release")
    n = release.spine.units("Block")
    first, second = np.arange(n), np.roll(np.arange(n), 7)
    areas = Areas(
        "ward", np.arange(n).astype("S"), np.tile(first, 2), np.concatenate([first, second])
    )
    source = OwnReplicates.from_release(release)
    asked = area_counts.statistics(source, ["P2", "housing:H1", "hhgq"])
    found = area_counts.counts(source, areas, asked)
    bounds = {u.name: release.published_bounds(u)["Block"] for u in release.after.universes}
    certain = 0
    for c in found.columns:
        ends = count_range(bounds[c.statistic.universe.name], c.statistic.cells[None], 0, n)
        least, most = (x[first, 0] + x[second, 0] for x in ends)
        exact = least == most
        assert (c.low[c.known] >= least[c.known]).all()
        assert (c.high[c.known] <= most[c.known]).all()
        assert (c.low <= c.high)[c.known].all()
        assert (c.low[exact] == least[exact]).all()
        assert (c.high[exact] == least[exact]).all()
        certain += int(exact.sum())
    assert certain > 50


@pytest.mark.parametrize("kind", ["run", "tabulated", "informed"])
def test_one_count_has_one_interval(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Tracts as a list of areas: `das area`, `das tables` of the list and `das tables` of the level
    say the same. So do the two of areas that are no units."""
    run = request.getfixturevalue(kind)
    spine = open_release(run / "release").spine
    blocks = spine.geocodes("Block").tolist()
    home = spine.up("Block", "Tract")
    lists = {
        "tracts": [(spine.code("Tract", u), block) for u, block in zip(home, blocks, strict=True)],
        "wards": [(f"{i % 3}", block) for i, block in enumerate(blocks)],
    }
    for name, rows in lists.items():
        listed = tmp_path / f"{name}.csv"
        listed.write_text("area,block\n" + "".join(f"{a},{b}\n" for a, b in rows))
        asked = ("--table", "P5", "--margins", "--noise")
        table = printed(run, "--areas", listed, *asked).set_index("GEOCODE")
        if name == "tracts":
            of_level = printed(run, "--level", "Tract", *asked).set_index("GEOCODE")
            same = table.columns.intersection(of_level.columns)
            parent = spine.parent[spine.index("Tract")]
            alone = [
                spine.code("Tract", u) for u in np.flatnonzero(np.bincount(parent)[parent] == 1)
            ]
            assert len(alone) < len(of_level)  # an only child is its county
            pd.testing.assert_frame_equal(
                table[same].drop(index=alone), of_level[same].drop(index=alone), check_like=True
            )
        one = read_areas(run, listed, statistics=["P5"])
        for column, known in (("low", "estimate_low"), ("high", "estimate_high")):
            wide = one.pivot(index="area", columns="field", values=known)
            ours = table[[f"{field} {column}" for field in wide.columns]].loc[wide.index]
            assert np.array_equal(ours.to_numpy(float), wide.to_numpy(float), equal_nan=True)
        errors = one.pivot(index="area", columns="field", values="standard_error")
        ours = table[[f"{field} SE" for field in errors.columns]].loc[errors.index]
        assert np.array_equal(ours.to_numpy(float), errors.to_numpy(float), equal_nan=True)


def test_the_page_has_the_intervals_of_das_area(run: Path) -> None:
    release = open_release(run / "release")
    source = OwnReplicates.from_release(release)
    published = {u.name: release.published(u).upward(release.spine) for u in source.universes}
    shown = page.shown(release, published)
    asked = area_counts.statistics(source, ["total", "votingage", "housing:total"])
    for kind in shown.areas:
        by_query = {(a.universe, a.query): a for a in shown.at(kind.kind)}
        for c in area_counts.counts(source, kind, asked).columns:
            query, _, answer = c.statistic.field.rstrip("]").partition("[")
            ends = by_query[c.statistic.universe.name, query].ends
            assert ends is not None
            assert np.array_equal(ends[0][:, int(answer or 0)], c.low)
            assert np.array_equal(ends[1][:, int(answer or 0)], c.high)
            assert c.known.all()
    assert "Place" in [kind.kind for kind in shown.areas]


def test_units_in_the_order_of_the_tree_are_told_as_in_their_own(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a published unit that is a sum of measured ones: of whatever units it is asked among, and
    each of them once."""
    release = open_release(run / "release")
    persons = release.spec.persons
    source, spine = release.noisy(persons), release.spine
    assert isinstance(source, SummedSource)
    for level in spine.levels[-3:]:
        every = source.read(level, "total", 0, spine.units(level))
        pieces = list(source.batches(level, 1 << 18))
        assert len(pieces) > 1
        assert sorted(np.concatenate(pieces).tolist()) == list(range(spine.units(level)))
        for units in (*pieces, np.array([3, 0, 2, 0])):
            some = source.some(level, "total", units)
            assert np.array_equal(some.values, every.values[units])
            assert np.array_equal(some.variance, every.variance[units])
    columns = np.stack([PL94.query("hispanic").index == i for i in range(2)])
    lowest, made = spine.levels[-1], []
    for limit in (1 << 22, 1 << 16):  # all at once, and by pieces in the order of the tree
        monkeypatch.setattr(Spine.batches, "__defaults__", (limit,))
        made.append(Intervals(release, persons).read(lowest, columns))
    assert len(list(spine.batches(lowest, PL94.cells))) > 1
    for one, other in zip(*made, strict=True):
        assert np.array_equal(one, other)


def test_estimates_of_measured_units_do_not_stand_in_the_way_of_published_ones(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several batches of a tree that is not the published one, with ``estimates/``: these are of
    the units that were measured, and intervals are the same as from one batch."""
    out = tmp_path / "out"
    code, said = das("estimate", "--from", run, "--out", out, "--method", "full-information")
    assert code == 0, said
    release = open_release(out / "release")
    persons, spine = release.spec.persons, release.spine
    assert isinstance(release.noisy(persons), SummedSource)
    columns = np.stack([PL94.query("hispanic").index == i for i in range(2)])
    lowest = spine.levels[-1]
    whole = Intervals(release, persons).read(lowest, columns)
    monkeypatch.setattr(Spine.batches, "__defaults__", (1 << 16,))
    assert len(list(spine.batches(lowest, PL94.cells))) > 1
    pieces = Intervals(release, persons).read(lowest, columns)
    assert all(np.array_equal(a, b) for a, b in zip(whole, pieces, strict=True))
    for level in spine.levels[:-1]:  # what was added up on the way is what is read again
        many = Intervals(release, persons)
        many.read(lowest, columns)
        one, other = many.read(level, columns), Intervals(release, persons).read(level, columns)
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    reader, tree = release.estimates(persons), release.tree(persons).spine
    assert tree.units("Block_Group") != spine.units("Block_Group")
    value, error = reader.read("Block_Group", "total", 0, tree.units("Block_Group"))
    assert value.shape == error.shape == (tree.units("Block_Group"), 1)


def test_a_defect_of_das_is_not_said_to_be_one_of_the_files(
    informed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To get a release again helps where a file of it was damaged, and there alone."""
    copied = tmp_path / "release"
    shutil.copytree(informed / "release", copied)
    asked = ("tables", copied, "--level", "State", "--table", "P2", "--margins")
    assert das(*asked)[0] == 0

    def of_another_tree(release: OpenedRelease, universe: Universe) -> EstimateReader:
        spine = release.tree(universe).spine
        other = replace(spine, codes=tuple(np.char.add(b"9", c) for c in spine.codes))
        return EstimateReader(release.folder / "estimates", other)

    with monkeypatch.context() as patched:
        patched.setattr(OpenedRelease, "estimates", of_another_tree)
        code, said = das(*asked)
        assert (code, "a defect of das" in said, "get it again" in said) == (3, True, False), said[
            -999:
        ]
        (copied / "privacy.json").rename(tmp_path / "privacy.json")  # a run before its seal
        with pytest.raises(ReleaseError) as caught:
            Intervals(open_release(copied), open_release(copied).spec.persons).read(
                "State", np.ones((1, PL94.cells), dtype=bool)
            )
        assert sealed.fault_of(caught.value).exit_code == 3
        (tmp_path / "privacy.json").rename(copied / "privacy.json")
    (part,) = (copied / "estimates" / "State.parquet").iterdir()
    part.write_bytes(part.read_bytes()[:-9])
    code, said = das(*asked)
    assert (code, "a defect of das" in said, "get it again" in said) == (2, False, True), said[
        -999:
    ]
    (copied / "privacy.json").unlink()
    part = next(p for p in (copied / "nmf" / "State.parquet").rglob("*") if p.is_file())
    part.write_bytes(part.read_bytes()[:-9])
    assert sealed.fault_of(caught.value) is caught.value
