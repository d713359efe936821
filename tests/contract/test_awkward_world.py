"""Every feature of counts over a tree, in one run of the awkward world; each looked at from its
files alone."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import das
from das.publications.published.public import estimate_from
from das.release import verify
from das.release.opened import open_release
from das.truth.assessment import truth_of
from tests import awkward
from tests.awkward import BATCH, LEVELS, small_batches
from tests.commands import Commands
from tests.marks import unmarked
from tests.worlds import Worlds


@pytest.fixture(scope="module", autouse=True)
def _small_batches() -> Iterator[None]:
    with small_batches():
        yield


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return awkward.counts(worlds)


def test_the_world_is_as_awkward_as_it_says(run: Path) -> None:
    opened, known = truth_of(run)
    spine, tree = opened.spine, opened.tree(opened.after.persons).spine
    assert tree.units("State") > spine.units("State")
    assert (np.bincount(spine.up("Tract", "County")) == 1).any()
    assert any(code.startswith(b"0") for code in spine.codes[1].tolist())
    cells = opened.after.persons.schema.cells
    assert (
        len([*spine.batches("Block", cells)]) > 3 > 1 < len([*spine.batches("Block_Group", cells)])
    )
    assert all(b - a <= BATCH // cells for a, b in spine.batches("Block_Group", cells))
    counts = known["persons"]["Block"].open("a test of the world").dense()
    total, group = counts.sum(axis=1), spine.up("Block", "Block_Group")
    assert (total == 0).any()
    inside = counts.reshape(len(total), 8, -1)[:, 0].sum(axis=1)
    persons, homes = np.bincount(group, total), np.bincount(group, inside)
    assert ((persons > 0) & (homes == 0)).any()
    for level in ("County", "Tract", "Block_Group"):
        names = spine.names[spine.index(level)]
        assert len(set(names.tolist())) < len(names)
    cut = next(k for k in opened.areas() if k.kind == "Place")
    places = np.full(len(total), -1)
    places[cut.unit] = cut.area
    pairs = np.unique(np.stack([group, places]), axis=1)
    assert pairs.shape[1] > spine.units("Block_Group")


def test_its_release_is_verified_with_everything_estimated_again(
    run: Path, commands: Commands
) -> None:
    """Which includes that it adds up, keeps every invariant, and every mark."""
    code, _, said = commands.named("account")("verify", run, "--recompute")
    assert code == 0, said
    assert unmarked(run) == []


def test_it_is_estimated_again_in_the_other_way(run: Path, tmp_path: Path) -> None:
    changes = ["estimation.method=topdown", "estimation.bias=corrected", "output.report=false"]
    made = estimate_from(run / "release", tmp_path / "again", changes=changes)
    again = open_release(made.directory.release)
    verify.check(again.folder)
    true = truth_of(run)[1]["persons"]["State"].open("a test of totals").totals()
    up, found = again.spine.up("Block", "State"), again.published(again.after.persons).totals()
    assert np.bincount(up, found).tolist() == true.tolist()


@pytest.mark.parametrize("table", ["P1", "P5", "H1"])
def test_margins_hold_the_truth_at_every_level(
    run: Path, commands: Commands, tmp_path: Path, table: str
) -> None:
    tables = commands.named("tables")
    opened, known = truth_of(run)
    universe = "housing" if table == "H1" else "persons"
    for level in LEVELS:
        out = tmp_path / f"{level}.csv"
        code, _, said = tables(run, "--level", level, "--table", table, "--margins", "--names",
                               "field", "--out", out, "--quiet")  # fmt: skip
        assert code == 0, said
        rows = list(csv.DictReader(out.read_text().splitlines()))
        assert len(rows) == opened.spine.units(level)
        if table not in ("P1", "H1"):
            continue
        total = next(c for c in rows[0] if c.endswith("0001"))
        low, high = f"{total} low", f"{total} high"
        true = known[universe][level].open("a test of intervals").totals()
        of = dict(zip(opened.spine.geocodes(level).tolist(), true.tolist(), strict=True))
        inside = [float(r[low] or 0) <= of[r["GEOCODE"]] <= float(r[high] or "inf") for r in rows]
        assert len(rows) < 25 or np.mean(inside) > 0.85, level


def test_every_kind_of_area_has_its_counts(run: Path, commands: Commands, tmp_path: Path) -> None:
    area = commands.named("area")
    opened = open_release(run / "release")
    for kind in (k.kind for k in opened.areas()):
        code, out, said = area(run, "--kind", kind, "--json")
        assert code == 0, said
        assert len(json.loads(out)) >= 1
    blocks = tmp_path / "mine.csv"
    codes = [c.decode() for c in opened.spine.codes[-1].tolist()]
    lines = [f"A{i % 3},{code}" for i, code in enumerate(codes)]
    blocks.write_text("\n".join(["area,block", *lines, ""]))
    code, out, said = area(run, "--blocks", blocks, "--statistics", "P5", "--json")
    assert code == 0, said
    assert all(f'"A{i}"' in out for i in range(3))


#: Besides: each ends well, and says that the run was seeded.
COMMANDS: dict[str, list[str]] = {
    "intervals": ["--replicates", "2", "--level", "County", "--level", "Block", "--quiet"],
    "evaluate": [],
    "compare": [],
    "risk report": [],
    "nmf summary": [],
    "nmf verify": [],
    "nmf show": ["--level", "Block_Group", "--query", "total"],
    "account verify": [],
    "tables": ["--name", "05001", "--level", "County", "--table", "P1"],
}


def test_every_command_works(run: Path, worlds: Worlds, commands: Commands, tmp_path: Path) -> None:
    copy = worlds.copy(run, tmp_path / "run")
    for command, args in COMMANDS.items():
        name, *more = command.split()
        code, out, said = commands.named(name)(*more, copy, *args)
        assert code == 0, said
        assert "NOT PRIVATE" in out + said, command
    assert unmarked(copy) == []
    code, _, said = commands.named("store")("push", copy, f"file://{tmp_path}/store", "--quiet")
    assert code == 0, said


def test_a_name_that_two_places_have_is_refused_with_both(run: Path, commands: Commands) -> None:
    code, _, said = commands.named("tables")(run, "--name", "Simulated County 1", "--table", "P1")
    assert code == 2
    assert "2 places have this name" in said
    assert "05001" in said
    assert "27001" in said


def test_readers_have_a_row_for_each_unit(run: Path) -> None:
    opened = open_release(run / "release")
    for level in LEVELS:
        units = opened.spine.units(level)
        assert das.read_tables(run, "P1", level)["geocode"].nunique() == units
    assert len(das.read_microdata(run)) == opened.published(opened.after.persons).totals().sum()


def test_a_finished_run_stays_as_it_is(run: Path, worlds: Worlds) -> None:
    assert awkward.counts(worlds, run) == run
