"""``das risk combine``: a run of counts over a tree, and exact tables of the same people."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from das.accounting import zcdp
from das.engine import Silent
from das.model.histogram import Histogram
from das.release.opened import open_release
from das.tools.protection.least import files
from das.tools.protection.least.combining import combined, remaining
from das.tools.protection.least.files import LeastRelease
from das.tools.protection.truth.methods.coarsening import LeastCoarsening, coarsened
from das.tools.protection.truth.study_input import CountedPlaces
from das.truth.assessment import truth_of
from tests.commands import Commands
from tests.worlds import Worlds

GRAINS = ["total", "votingage", "votingage * hispanic"]


def exact(run: Path) -> tuple[LeastRelease, Histogram]:
    """The least coarsening of everybody in a run; and the true counts of the lowest level."""
    opened, truth = truth_of(run)
    universe, spine = opened.after.universes[0], opened.spine
    known = truth[universe.name][spine.levels[-1]]
    counted = CountedPlaces(universe.schema, spine, known, {}, {})
    method = LeastCoarsening(tuple(GRAINS), k=20, m=2, order="number")
    return coarsened(method, counted, (), Silent())[0], known.open("a made-up world")


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.run("run.seed=1", data="three thousand")


def test_both_are_nearer_than_the_noisy_release_and_keep_what_is_exact(run: Path) -> None:
    coarse, known = exact(run)
    found = combined(open_release(run / "release"), coarse, None, seed=1, rounds=100)
    true = found.grain.counts(known.some(found.units))
    assert found.grain.name == GRAINS[-1]
    error = {row["from"]: row["mean absolute error"] for row in found.errors(true)}
    assert error["both"] < 0.5 * error["noisy release"]
    np.testing.assert_allclose(found.both.mean.sum(axis=1), true.sum(axis=1))


def test_what_is_left_is_twice_a_move(run: Path) -> None:
    stated = json.loads((run / "release" / "privacy.json").read_text())
    moves = {c["what"]: c for c in stated["changes"]["persons"] if c["kind"] == "place"}
    (delta,) = {Fraction(m["delta"]) for m in moves.values()}
    every = remaining(open_release(run / "release"), exact(run)[0])
    left = [r for r in every if r.change.startswith("two persons")]
    assert sorted(2 * Fraction(m["rho"]) for m in moves.values()) == [r.cost for r in left]
    for r in left:
        assert r.cost is not None
        assert r.epsilon == zcdp.no_more(r.cost, delta)
    assert [r.change for r in every if r.change.startswith("place") and r.cost is None] == [
        f"{what} (same attributes)" for what in moves
    ]


def test_attributes_that_no_grain_shows_keep_their_bound(run: Path) -> None:
    """By every pair of cells that differ in these attributes alone."""
    opened, (coarse, _) = open_release(run / "release"), exact(run)
    schema, grain = opened.after.universes[0].schema, coarse.tables.chain.grains[-1]
    levels = np.stack(np.unravel_index(np.arange(schema.cells), schema.shape))
    said = {r.change: r for r in remaining(opened, coarse)}
    for i, attribute in enumerate(schema.attributes):
        rest = np.delete(levels, i, axis=0)
        _, alike = np.unique(rest, axis=1, return_inverse=True)
        groups = [np.unique(grain.index[alike.ravel() == a]) for a in range(alike.max() + 1)]
        hidden = all(len(g) == 1 for g in groups)
        assert (said[f"{attribute.name} (same place)"].cost is not None) == hidden, attribute.name
    assert said["anything"].cost is None


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    out = tmp_path / "coarse"
    out.mkdir()
    files.write(out, exact(run)[0])
    return out


def test_the_command_writes_every_count(
    run: Path, folder: Path, tmp_path: Path, commands: Commands
) -> None:
    out = tmp_path / "both"
    told = ("--out", out, "--rounds", 8, "--truth")
    code, said, err = commands.named("risk combine")(run, folder, *told)
    assert (code, err) == (0, ""), err
    assert "Exact tables have no epsilon" in said
    assert "mean absolute error" not in said  # what is confidential goes to no pipe
    with (out / "counts.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["NOT PRIVATE"] for r in rows} == {"seeded"}
    assert {r["code"] for r in rows} == codes_of(folder)
    by_group: dict[str, float] = {}
    for r in rows:
        by_group[r["group"]] = by_group.get(r["group"], 0.0) + float(r["from_both"])
    _, true = exact(run)
    assert sum(by_group.values()) == pytest.approx(true.totals().sum(), abs=1)
    assert out.stat().st_mode & 0o777 == 0o700
    code, _, err = commands.named("risk combine")(folder, run, *told)  # in the other order
    assert (code, "is there already, and not empty" in err) == (2, True)
    again = ("--out", tmp_path / "again", *told[2:])
    assert commands.named("risk combine")(folder, run, *again)[0] == 0
    assert (tmp_path / "again" / "counts.csv").read_bytes() == (out / "counts.csv").read_bytes()


def codes_of(folder: Path) -> set[str]:
    with (folder / "places.csv").open() as file:
        return {row["Block"] for row in csv.DictReader(file)}


def test_what_does_not_belong_together_is_refused(
    run: Path, folder: Path, tmp_path: Path, commands: Commands, worlds: Worlds
) -> None:
    combine = commands.named("risk combine")
    for noisy, coarse, more, says in (
        (run, run, (), "no publication of the least coarsening"),
        (run, folder, ("--grain", "cenrace"), "no grain 'cenrace'"),
        (worlds.run("run.seed=1"), folder, (), "the noisy release has none"),
        (run / "release", folder, ("--truth",), "no truth to compare with"),
    ):
        code, _, err = combine(noisy, coarse, "--out", tmp_path / "out", *more)
        assert code == 2
        assert says in err
        assert not (tmp_path / "out").exists()


def test_the_account_says_what_keeps_a_guarantee(
    run: Path, folder: Path, commands: Commands, worlds: Worlds
) -> None:
    account = commands.named("account")
    code, _, err = account(worlds.run("run.seed=1"), folder)
    assert (code, "the noisy release has none" in err) == (2, True)
    code, said, _ = account(folder, run)
    assert code == 0
    assert "two persons' places, within one" in said
    assert "no bound" in said
    for given in ((folder,), (run, folder, folder), (run, folder, "--delta", "1e-5")):
        code, _, err = account(*given)
        assert code == 2
        assert "das account NOISY COARSE" in err
