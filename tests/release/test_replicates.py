"""Replicates of a release: a function of it and of a seed, noise of the plan's law, and intervals
that are what they say.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import chi2

import das
from das.engine import Silent
from das.errors import InputError, ReleaseError, UserError
from das.files.release import replicates as files
from das.files.run.run_directory import tree_digests
from das.model.constraint import count_range
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.model.measurement import Measurement
from das.release import replicates, verify
from das.release.opened import OpenedRelease, open_release
from das.release.own_replicates import OwnReplicates
from das.release.replicate_source import BY_TRUTH, PLAIN, IntervalOptions, PublicNoise
from das.release.replicates import NewNoise, SeededNoise, make
from das.release.seal import seal_intervals
from das.replicates import ReplicateErrors, interval
from das.tables import universe_tables
from tests.commands import Commands
from tests.worlds import Worlds

ASKED = IntervalOptions(3, seed=5, coverage=0.9)


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.run("run.seed=1", data="one thousand")


@pytest.fixture(scope="module")
def made(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "intervals"
    make(run / "release", out, ASKED, workers=1, resume=False, progress=Silent())
    return out


@pytest.fixture(scope="module")
def plain(run: Path, made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the same replicates, by the rule of the Bureau."""
    out = Path(shutil.copytree(made, tmp_path_factory.mktemp("plain") / "intervals"))
    again(run, out, IntervalOptions(3, 5, 0.9, PLAIN, levels=("Tract", "Block")), resume=True)
    return out


def redrawn(opened: OpenedRelease, number: int, seed: int) -> NewNoise:
    u, tree = opened.after.persons, opened.tree(opened.after.persons)
    levels = tree.of_published(opened.published(u)).upward(tree.spine)
    return NewNoise(opened.run.persons, tree, levels, SeededNoise(seed, number))


# --- noise
# -----------------------------------------------------------------------------------------------------


def test_a_slice_is_the_same_whoever_asks_and_in_which_order(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicates, "CHUNK", 20_000)  # several chunks in so small a tree
    opened = open_release(run / "release")
    level, query = "Block", "detailed"
    units = opened.spine.units(level)
    whole = redrawn(opened, 1, 5).read(level, query, 0, units)
    other = redrawn(opened, 1, 5)
    for start, stop in ((units // 2, units), (0, units // 2 + 1), (3, 4), (units - 1, units)):
        again = other.read(level, query, start, stop)
        assert np.array_equal(again.values, whole.values[start:stop])
        assert np.array_equal(again.variance, whole.variance[start:stop])
    for number, seed in ((2, 5), (1, 6)):
        assert not np.array_equal(
            redrawn(opened, number, seed).read(level, query, 0, units).values, whole.values
        )


def test_each_chunk_of_a_replicate_is_drawn_once(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicates, "CHUNK", 3_000)
    drawn: Counter[tuple[str, int, int]] = Counter()
    whole = replicates.noisy_answers

    def counted(level: str, start: int, rows: Histogram, *rest: Any) -> Iterator[Measurement]:
        drawn[level, rows.cells, start] += 1
        return whole(level, start, rows, *rest)

    monkeypatch.setattr(replicates, "noisy_answers", counted)
    source = OwnReplicates.from_release(open_release(run / "release"))
    source.again(source.published(), SeededNoise(1, 1))
    assert sum(level == "Block" for level, _, _ in drawn) > 3
    assert set(drawn.values()) == {1}


def test_noise_has_the_variance_of_the_plan(run: Path) -> None:
    """Of all answers of the detailed query, whose squares are as many chi-squares, nearly; seven
    tenths of the scale would be seen.
    """
    opened = open_release(run / "release")
    source, u = redrawn(opened, 1, 5), opened.after.persons
    for level in ("State", "Block_Group"):
        m = source.read(level, "detailed", 0, opened.spine.units(level))
        z = (m.values - source.counts[level].answer(u.schema.query("detailed"))) / np.sqrt(
            m.variance[:, None]
        )
        low, high = chi2.ppf([1e-5, 1 - 1e-5], z.size)
        assert low < (z**2).sum() < high
        assert not low < (0.49 * z**2).sum() < high


# --- files
# -----------------------------------------------------------------------------------------------------


def test_replicates_do_not_follow_the_workers(run: Path, made: Path, tmp_path: Path) -> None:
    make(run / "release", tmp_path / "two", ASKED, workers=2, resume=False, progress=Silent())
    assert tree_digests(tmp_path / "two") == tree_digests(made)
    assert json.loads((made / "manifest.json").read_text())["digests"] == tree_digests(made)


def test_what_was_interrupted_goes_on(
    run: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one table, to what is made of all."""
    out, made_one = tmp_path / "out", OwnReplicates.again
    asked = IntervalOptions(3, 5, 0.9, tables=("P5",), levels=("State",))

    def second_fails(
        of: OwnReplicates, counts: dict[str, Histogram], noise: PublicNoise
    ) -> dict[str, Histogram]:
        if noise == SeededNoise(5, 2):
            raise KeyboardInterrupt
        return made_one(of, counts, noise)

    monkeypatch.setattr(OwnReplicates, "again", second_fails)
    with pytest.raises(KeyboardInterrupt):
        again(run, out, asked)
    monkeypatch.undo()
    with pytest.raises(UserError, match="not finished"):
        again(run, out, asked)
    with pytest.raises(UserError, match="another seed"):
        again(run, out, IntervalOptions(3, 6, 0.9), resume=True)
    again(run, out, asked, resume=True)
    (one,) = out.glob("*.parquet")
    assert one.read_bytes() == (made / one.name).read_bytes()
    assert tree_digests(out / "replicates") == tree_digests(made / "replicates")


def test_a_replicate_is_read_as_it_was_written(run: Path, made: Path) -> None:
    opened = open_release(run / "release")
    codes = files.codes_of(opened.spine, "Block")
    for u in opened.after.universes:
        first = files.read(files.path_of(made, u.kind.folder, 0), codes, u.schema)
        assert first.same_as(opened.published(u))
        with pytest.raises(ReleaseError, match="does not have"):
            files.read(files.path_of(made, u.kind.folder, 1), codes[1:], u.schema)


def test_replicates_are_one_data_set(made: Path) -> None:
    """As pandas, Arrow and DuckDB read it: any table of any area is a filter and a sum."""
    frame = pd.read_parquet(made / "replicates" / "persons")
    adults = frame[(frame["votingage"] != "under-18") & frame["GEOID"].str.startswith("44")]
    assert set(frame["replicate"].astype(int)) == {0, 1, 2, 3}
    assert (adults.groupby("replicate", observed=True)["count"].sum() > 0).all()
    assert set(frame["NOT PRIVATE"]) == {"seeded"}


# --- intervals
# -------------------------------------------------------------------------------------------------


def test_intervals_of_the_rule_of_the_bureau_are_those_of_the_replicates(
    run: Path, made: Path, plain: Path
) -> None:
    opened = open_release(run / "release")
    codes = files.codes_of(opened.spine, "Block")
    found = 0
    for u in opened.after.universes:
        drawn = [
            files.read(files.path_of(made, u.kind.folder, n), codes, u.schema).upward(opened.spine)
            for n in range(4)
        ]
        for table in universe_tables(u, opened.assigned(u.name)):
            for level in ("Tract", "Block"):
                values = np.array([table.values(h[level]) for h in drawn])
                errors = ReplicateErrors.from_replicates(values[0], values[1:])
                within = count_range(
                    opened.published_bounds(u)[level], table.masks, 0, values.shape[1]
                )
                expected = interval(values[0], errors, 0.9, within=within)
                rows = pq.read_table(plain / f"{table.name}_{level}.parquet").to_pandas()
                unit, column = np.nonzero(values.any(axis=0))
                assert rows["GEOID"].tolist() == codes_at(opened, level)[unit].tolist()
                assert rows["variable"].tolist() == [table.columns[j] for j in column]
                for name, of in (
                    ("value", values[0]),
                    ("lower", expected.lower),
                    ("upper", expected.upper),
                    ("rmse", errors.rmse),
                ):
                    assert np.array_equal(rows[name], of[unit, column])
                found += len(rows)
    assert found > 500


def codes_at(opened: OpenedRelease, level: str) -> np.ndarray:  # type: ignore[type-arg]
    return np.char.decode(files.codes_of(opened.spine, level))


def test_what_is_exact_has_no_width(made: Path) -> None:
    state, homes = (
        pq.read_table(made / f"{name}.parquet").to_pandas() for name in ("P1_State", "H1_Block")
    )
    for rows in (state[state["variable"] == "P0010001"], homes[homes["variable"] == "H0010001"]):
        assert len(rows)
        assert (rows["lower"] == rows["value"]).all()
        assert (rows["upper"] == rows["value"]).all()


def test_without_noise_there_is_no_width(worlds: Worlds, tmp_path: Path) -> None:
    run = worlds.run("run.seed=1", "budget.rho=100000000", data="one thousand")
    make(
        run / "release",
        tmp_path / "i",
        IntervalOptions(2, 1, 0.9, levels=("Block",)),
        workers=1,
        resume=False,
        progress=Silent(),
    )
    for path in (tmp_path / "i").glob("*.parquet"):
        rows = pq.read_table(path).to_pandas()
        assert (rows["upper"] == rows["lower"]).all()
        assert (rows["upper"] == rows["value"]).all()


def test_by_true_value_zeros_can_be_small_counts_which_the_rule_of_the_bureau_denies(
    run: Path, made: Path, plain: Path
) -> None:
    """Of the same replicates. What is exact, and zeros where no facility is, stay as they are."""
    assert ASKED.rule == BY_TRUTH
    wider = 0
    for table, level in (("P1", "Block"), ("P4", "Tract"), ("P5", "Block"), ("H1", "Block")):
        rule, found = (
            pd.read_parquet(folder / f"{table}_{level}.parquet").set_index(["GEOID", "variable"])
            for folder in (plain, made)
        )
        assert (found["lower"] <= found["value"]).all()
        assert (found["upper"] >= found["value"]).all()
        assert not found["bias_subtracted"].any()
        assert (found["moe"] >= (found["upper"] - found["lower"]) / 2).all()
        both = found.join(rule["upper"].rename("of the rule"), how="left").fillna(0)
        wider += int(((both["value"] == 0) & (both["upper"] > both["of the rule"])).sum())
    test_what_is_exact_has_no_width(made)
    opened = open_release(run / "release")
    persons, codes = opened.after.persons, codes_at(opened, "Block")
    bounds, quarters = (
        opened.published_bounds(persons)["Block"].dense(),
        persons.schema.level_of("hhgq"),
    )
    (p5,) = (t for t in universe_tables(persons) if t.name == "P5")
    nobody = codes[(bounds.upper[:, np.unique(bounds.group[quarters > 0])] == 0).all(axis=1)]
    assert len(nobody) > 10
    assert not pd.read_parquet(made / f"{p5.name}_Block.parquet")["GEOID"].isin(nobody).any()
    assert wider > 20


# --- what is there already
# ---------------------------------------------------------------------------------------


def again(run: Path, out: Path, asked: IntervalOptions, resume: bool = False) -> dict[str, int]:
    return make(run / "release", out, asked, workers=1, resume=resume, progress=Silent())


def test_altered_replicates_are_not_taken_for_ones_that_were_made(
    run: Path, made: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(made, tmp_path / "intervals"))
    one, two = (files.path_of(out, "persons", n) for n in (1, 2))
    shutil.copy(one, two)
    before = tree_digests(out)
    with pytest.raises(ReleaseError, match="was altered after it was made"):
        again(run, out, ASKED)
    assert tree_digests(out) == before
    two.unlink()
    again(run, out, ASKED)  # what is missing is made again
    assert tree_digests(out) == tree_digests(made)


def test_other_tables_join_those_that_are_there_of_the_same_rule(
    run: Path, made: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(made, tmp_path / "intervals"))
    some = IntervalOptions(3, 5, 0.9, tables=("P5",), levels=("State",))
    assert set(again(run, out, some)) == {"P5_State.parquet"}
    assert tree_digests(out) == tree_digests(made)
    again(run, out, IntervalOptions(3, 5, 0.8, tables=("P5",), levels=("State",)))
    assert [p.name for p in out.glob("*.parquet")] == ["P5_State.parquet"]  # of another coverage


def test_more_replicates_than_are_asked_for_all_count(
    run: Path, made: Path, tmp_path: Path
) -> None:
    out = Path(shutil.copytree(made, tmp_path / "intervals"))
    again(run, out, IntervalOptions(2, 5, 0.9, tables=("P5",), levels=("State",)))
    assert tree_digests(out) == tree_digests(made)


def test_a_release_takes_no_intervals_but_in_their_place(run: Path, tmp_path: Path) -> None:
    release = Path(shutil.copytree(run, tmp_path / "run")) / "release"
    before = tree_digests(release)
    with pytest.raises(UserError, match="is in the release"):
        make(
            release, release / "tables" / "other", ASKED, workers=1, resume=False, progress=Silent()
        )
    assert tree_digests(release) == before


@pytest.mark.parametrize("number", ["x", -1, 1, 2, 10**6, None])
def test_a_manifest_that_says_something_else_is_none(
    run: Path, made: Path, tmp_path: Path, number: object
) -> None:
    out = Path(shutil.copytree(made, tmp_path / "intervals"))
    said = json.loads((out / "manifest.json").read_text())
    (out / "manifest.json").write_text(json.dumps(said | {"replicates": number}))
    with pytest.raises(ReleaseError, match="as the number of replicates"):
        files.check(out)


@pytest.mark.parametrize("coverage", [0.0, 1.0, 0.9999999999999999, float("nan"), -1.0])
def test_a_coverage_that_no_interval_has(coverage: float) -> None:
    with pytest.raises(InputError, match="a coverage of"):
        IntervalOptions(3, 5, coverage)


# --- the command
# -------------------------------------------------------------------------------------------------


def test_the_command_writes_into_its_own_folder_alone(
    commands: Commands, worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    copy = worlds.copy(run, tmp_path / "run")
    shutil.rmtree(copy / "confidential")
    seal = copy / "release" / "privacy.json"  # which has the digest of their list
    before = {p: p.read_bytes() for p in copy.rglob("*") if p.is_file() and p != seal}
    code, out, err = commands.named("intervals")(
        copy, "--replicates", 2, "--quiet", "--level", "Tract", "--table", "P1", "--json"
    )
    assert (code, err) == (0, "")
    said = json.loads(out)
    assert (said["private"], list(said["rows"])) == (False, ["P1_Tract.parquet"])
    assert {p: p.read_bytes() for p in before} == before
    assert all(
        (copy / "release" / "intervals") in p.parents
        for p in copy.rglob("*")
        if p.is_file() and p not in (*before, seal)
    )
    opened = open_release(copy / "release")
    assert len(list(OwnReplicates.from_release(opened).replicates(opened.after.persons))) == 2
    ((_, table, level, (value, lower, upper, _)),) = OwnReplicates.from_release(opened).intervals()
    assert (table.name, level) == ("P1", "Tract")
    assert (lower <= value).mean() > 0.9
    assert (upper >= lower).all()
    assert commands.named("account")("verify", copy)[0] == 0
    code, out, err = commands.named("area")(
        copy,
        "--kind",
        "Place",
        "--statistics",
        "share:P0040002/P0040001",
        "--statistics",
        "deviation:total",
        "--simultaneous",
        "--json",
    )
    assert code == 0, err
    rows = json.loads(out)["rows"]
    assert rows[-1]["field"] == "deviation:total"
    assert all(r["lower"] <= r["upper"] for r in rows)
    assert {r["other_side"] for r in rows if r["field"].startswith("share")} <= {0.0, 0.5, 1.0}


@pytest.mark.parametrize(
    ("options", "said"), [(("--table", "P9"), "P9"), (("--level", "Ward"), "Ward")]
)
def test_what_there_is_not(
    commands: Commands, run: Path, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    code, _, err = commands.named("intervals")(run, *options, "--out", tmp_path / "out", "--quiet")
    assert code == 2
    assert said in err
    assert not (tmp_path / "out").exists()


def test_a_folder_of_something_else_is_left_alone(
    commands: Commands, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "letter").write_text("dear")
    code, _, err = commands.named("intervals")(run, "--out", tmp_path, "--quiet")
    assert code == 2
    assert "not empty" in err
    assert [p.name for p in tmp_path.iterdir()] == ["letter"]


def test_replicates_of_another_release_are_refused(
    worlds: Worlds, run: Path, made: Path, tmp_path: Path
) -> None:
    other = worlds.copy(worlds.run("run.seed=2", data="one thousand"), tmp_path / "run")
    shutil.copytree(made, other / "release" / "intervals")
    opened = open_release(other / "release")
    with pytest.raises(ReleaseError, match="another release"):
        list(OwnReplicates.from_release(opened).replicates(opened.after.persons))
    with pytest.raises(ReleaseError, match="another release"):
        list(OwnReplicates.from_release(opened).intervals())


def test_another_release_at_the_same_path_is_another(
    worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    """One process makes intervals of both, one after the other; two others those of the second."""
    there, other = tmp_path / "run", worlds.run("run.seed=2", data="one thousand")
    asked = IntervalOptions(2, 5, 0.9, tables=("P1",), levels=("County",))
    for source in (run, other):
        shutil.rmtree(there, ignore_errors=True)
        worlds.copy(source, there)
        again(there, tmp_path / source.name, asked)
    apart = tmp_path / "apart"
    make(other / "release", apart, asked, workers=2, resume=False, progress=Silent())
    assert tree_digests(tmp_path / other.name) == tree_digests(apart)
    assert tree_digests(tmp_path / run.name) != tree_digests(apart)


def test_only_what_was_measured_is_drawn_again(run: Path) -> None:
    """Of a bypassed tree, units of a class without draws say nothing."""
    opened = open_release(run / "release")
    spine = opened.spine
    tree = MeasuredSpine.bypassed(spine, np.arange(spine.units("Block")))
    u = opened.after.persons
    counts = tree.of_published(opened.published(u)).upward(spine)
    source = NewNoise(
        opened.run.persons.on(UnitClasses.from_tree(tree)), tree, counts, SeededNoise(1, 1)
    )
    for level in spine.levels:
        if source.queries(level):
            m = source.read(level, source.queries(level)[0], 0, spine.units(level))
            assert np.array_equal(np.isinf(m.variance), ~tree.measured(level))


def test_the_list_of_intervals_is_under_the_seal(
    worlds: Worlds, run: Path, made: Path, tmp_path: Path
) -> None:
    """Its words are no part of what its own digests hold."""
    release = worlds.copy(run, tmp_path / "run") / "release"
    page = (release / "privacy.html").read_bytes()
    shutil.copytree(made, release / "intervals")
    seal_intervals(release)
    said = verify.statement(release)
    assert "intervals/manifest.json" in said.digests
    assert (release / "privacy.html").read_bytes() == page
    assert list(OwnReplicates.from_release(open_release(release)).intervals())
    path = release / "intervals" / "manifest.json"
    kept = path.read_text()
    path.write_text(kept.replace('"coverage": 0.9', '"coverage": 0.99'))
    with pytest.raises(ReleaseError, match=r"digests.intervals/manifest.json is"):
        verify.statement(release)
    path.write_text(kept.replace(json.loads(kept)["release"], "0" * 64))
    seal_intervals(release)
    with pytest.raises(ReleaseError, match="intervals of another release"):
        verify.statement(release)
    (release / "privacy.json.sig").write_text("signed")
    with pytest.raises(UserError, match="this release is signed"):
        make(release, release / "intervals", ASKED, workers=1, resume=False, progress=Silent())


def test_intervals_that_were_altered_are_found(
    commands: Commands, worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    copy = worlds.copy(run, tmp_path / "run")
    there = copy / "release" / "intervals"
    again(copy, there, IntervalOptions(2, 1, 0.9, tables=("P1", "P2"), levels=("County",)))
    assert commands.named("account")("verify", copy)[0] == 0
    one, other = there / "P1_County.parquet", there / "P2_County.parquet"
    for change in (
        lambda: other.write_bytes(one.read_bytes()),
        lambda: (there / "more.txt").write_text("x"),
        other.unlink,
    ):
        before = {p: p.read_bytes() for p in there.rglob("*") if p.is_file()}
        change()
        for command in ("account", "area"):
            args = ["verify", copy] if command == "account" else [copy, "--kind", "Place"]
            code, _, err = commands.named(command)(*args)
            assert code == 2
            assert "manifest.json" in err
        for p in [p for p in there.rglob("*") if p.is_file() and p not in before]:
            p.unlink()
        for p, data in before.items():
            p.write_bytes(data)
    frame = das.read_intervals(copy, "P1", "County", method="replicates")
    assert frame["value"].equals(das.read_tables(copy, "P1", "County")["value"])
    assert (frame["lower"] <= frame["upper"]).all()
    with pytest.raises(ReleaseError, match="no intervals"):
        das.read_intervals(copy, "P1", "Tract", method="replicates")
    with pytest.raises(InputError, match="no method"):
        das.read_intervals(copy, method="both")


def test_a_page_has_what_is_computed(commands: Commands, run: Path, tmp_path: Path) -> None:
    code, _, err = commands.named("area")(
        run,
        "--kind",
        "Place",
        "--statistics",
        "share:P0040002/P0040001",
        "--statistics",
        "deviation:total",
        "--out",
        tmp_path / "p.html",
    )
    assert code == 0, err
    assert "das intervals" in err
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert "Computed from published counts" in page
    assert "deviation: Total" in page


@pytest.mark.parametrize(
    ("text", "said"),
    [("share:P0040002", "of 2 counts"), ("rank:P4", "is 73 counts"), ("deviation:P9", "no table")],
)
def test_what_cannot_be_computed(commands: Commands, run: Path, text: str, said: str) -> None:
    code, _, err = commands.named("area")(run, "--kind", "Place", "--statistics", text)
    assert code == 2
    assert said in err
