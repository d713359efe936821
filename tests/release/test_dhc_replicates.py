"""Replicates of the DHC: noise of the plan's law, of nobody's key; what is held fixed is
fixed; intervals are those of the replicates.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2

import das
from das.engine import Silent
from das.errors import DasError, InputError, UserError
from das.files.release import replicates as files
from das.files.run.run_directory import tree_digests
from das.model.histogram import Histogram
from das.model.plan import Strategy
from das.publications.dhc.release import OpenedDhc, fixed_units, open_dhc, tenures
from das.publications.dhc.replicates import DhcReplicates
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS, DhcEstimation
from das.release import replicates, verify
from das.release.opened import open_release
from das.release.own_replicates import OwnReplicates
from das.release.replicate_source import PAGE, IntervalOptions, PublicNoise
from das.release.replicates import NewNoiseOnDemand, SeededNoise, make
from tests.commands import Commands
from tests.release.test_interval_files import check_dictionary
from tests.worlds import Worlds

CHOSEN = {"tables": ("P1", "P12"), "levels": ("County",)}
ASKED = IntervalOptions(2, seed=5, coverage=0.9, **CHOSEN)


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.dhc_with_intervals()


@pytest.fixture(scope="module")
def opened(run: Path) -> OpenedDhc:
    return open_dhc(run / "release")


@pytest.fixture(scope="module")
def counts(opened: OpenedDhc) -> Mapping[str, Histogram]:
    return DhcReplicates.from_release(opened).published()


@pytest.fixture(scope="module")
def drawn(run: Path, opened: OpenedDhc) -> list[dict[str, Histogram]]:
    """The release, and its replicates, from the files."""
    codes = files.codes_of(opened.spine, "Block")
    folder = run / "release" / "intervals"
    return [
        {
            u.name: files.read(files.path_of(folder, u.kind.folder, n), codes, u.schema)
            for u in opened.spec.universes
        }
        for n in range(3)
    ]


def source(
    opened: OpenedDhc, counts: Mapping[str, Histogram], name: str, number: int = 1, seed: int = 5
) -> NewNoiseOnDemand:
    levels = counts[name].upward(opened.spine)
    noise = SeededNoise(seed, number)
    return NewNoiseOnDemand(opened.spec.universe(name), opened.spine, levels, noise)


def every(of: NewNoiseOnDemand, level: str, query: str) -> tuple[np.ndarray, np.ndarray]:
    """All coordinates of a query."""
    units, answers = of.shape(level, query)
    unit, answer = np.divmod(np.arange(units * answers), answers)
    return unit, answer


# --- noise
# -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "level", "query"),
    [
        (UNITS, "Block", "tenvacgq"),
        (HOUSEHOLDS, "State", "detailed"),
        (PERSONS, "County", "detailed"),
    ],
)
def test_noise_has_the_variance_of_the_plan(
    opened: OpenedDhc, counts: Mapping[str, Histogram], name: str, level: str, query: str
) -> None:
    """Squares are as many chi-squares, nearly; seven tenths of the scale would be seen, and so
    would noise that is not about 0.
    """
    of, u = source(opened, counts, name), opened.spec.universe(name)
    (draw,) = (d for d in u.plan.at(level) if d.query == query)
    unit, answer = every(of, level, query)
    noise = (
        of.answers(level, query, unit, answer)
        - of.counts[level].answer(u.schema.query(query)).ravel()
    )
    squares = (noise**2 / draw.variance).sum()
    low, high = chi2.ppf([1e-5, 1 - 1e-5], len(noise))
    assert low < squares < high
    assert not low < 0.49 * squares < high
    assert abs(noise.mean()) < 4.5 * np.sqrt(draw.variance / len(noise))


def test_variances_are_those_that_the_release_states(
    opened: OpenedDhc, counts: Mapping[str, Histogram]
) -> None:
    for u in opened.spec.universes:
        of, told = source(opened, counts, u.name), opened.source(u)
        for level in opened.spine.levels:
            assert sorted(of.queries(level)) == sorted(told.queries(level))
            for query in of.queries(level):
                assert of.shape(level, query) == told.shape(level, query)
                assert np.array_equal(of.variance(level, query), told.variance(level, query))


def test_an_answer_is_the_same_whoever_asks_and_in_which_order(
    opened: OpenedDhc, counts: Mapping[str, Histogram], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicates, "LIMIT", 100)  # several streams in so small a tree
    level, query = "Block", "tenvacgq"
    of = source(opened, counts, UNITS)
    unit, answer = every(of, level, query)
    assert len(unit) > 900
    whole = of.answers(level, query, unit, answer)
    some = np.random.default_rng(1).integers(0, len(unit), 3000)
    again = source(opened, counts, UNITS)
    for part in np.array_split(some, 7):
        assert np.array_equal(again.answers(level, query, unit[part], answer[part]), whole[part])


def test_streams_share_no_noise(
    opened: OpenedDhc, counts: Mapping[str, Histogram], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another seed, number, universe, level or query, or of other blocks: noise that is not
    correlated. The same stream twice would be 1, whatever the scale."""
    monkeypatch.setattr(replicates, "LIMIT", 460)  # 13 blocks of 35 answers of units
    size, found = 455, []

    def noise(of: NewNoiseOnDemand, level: str, query: str, first: int = 0) -> Any:
        unit, answer = np.divmod(np.arange(first, first + size), of.shape(level, query)[1])
        true = (
            of.counts[level]
            .sparse(of.universe.schema.query(query))
            .read(np.arange(first, first + size))
        )
        return of.answers(level, query, unit, answer) - true

    for number, seed in ((1, 5), (2, 5), (1, 6)):
        of = source(opened, counts, UNITS, number, seed)
        found += [noise(of, "Block", "tenvacgq", first) for first in (0, size)]
    for name in (PERSONS, HOUSEHOLDS):
        of = source(opened, counts, name)
        found += [
            noise(of, level, q)
            for level in opened.spine.levels
            for q in of.queries(level)
            if np.prod(of.shape(level, q)) >= size
        ]
    assert len(found) > 40
    among = np.corrcoef(np.array(found))[~np.eye(len(found), dtype=bool)]
    assert np.abs(among).max() < 6 / np.sqrt(size)


def test_what_is_not_measured_has_no_answer(
    opened: OpenedDhc, counts: Mapping[str, Histogram]
) -> None:
    of, one = source(opened, counts, UNITS), np.zeros(1, dtype=np.int64)
    with pytest.raises(InputError, match="not measured"):
        of.answers("Block", "nothing", one, one)
    with pytest.raises(InputError, match="no unit"):
        of.answers("State", "tenvacgq", one + 1, one)
    with pytest.raises(InputError, match="no answer"):
        of.answers("State", "tenvacgq", one, one + of.shape("State", "tenvacgq")[1])


# --- replicates
# ------------------------------------------------------------------------------------------------


def test_what_is_tied_is_tied_in_every_replicate(
    opened: OpenedDhc, drawn: list[dict[str, Histogram]]
) -> None:
    persons, units, households = (
        opened.spec.universe(name) for name in (PERSONS, UNITS, HOUSEHOLDS)
    )
    for found in drawn[1:]:
        for u in (persons, units):
            assert np.array_equal(
                found[u.name].sparse(u.schema.query(u.fixed_query)).dense(),
                opened.fixed[u.name].dense(),
            )
        by_tenure = (
            found[HOUSEHOLDS].sparse(households.schema.query(households.fixed_query)).dense()
        )
        assert np.array_equal(by_tenure, tenures(found[UNITS]).dense())
        level = np.unravel_index(found[PERSONS].cell, persons.schema.shape)[
            persons.schema.axis("relgq")
        ]
        assert opened.able[found[PERSONS].unit, level].all()


def test_replicates_are_of_the_release_and_differ(
    opened: OpenedDhc, drawn: list[dict[str, Histogram]]
) -> None:
    for name, h in DhcReplicates.from_release(opened).published().items():
        assert drawn[0][name].same_as(h)
        assert not drawn[1][name].same_as(h)
        assert not drawn[1][name].same_as(drawn[2][name])


def test_the_method_is_that_of_the_release(
    opened: OpenedDhc, counts: Mapping[str, Histogram], drawn: list[dict[str, Histogram]]
) -> None:
    informed = opened.spec.model_copy(
        update={"estimation": DhcEstimation(method="full-information")}
    )
    of = DhcReplicates.from_release(dataclasses.replace(opened, spec=informed))
    found = of.again(counts, SeededNoise(5, 2))
    assert not found[PERSONS].same_as(drawn[2][PERSONS])
    fixed_query = opened.spec.universe(PERSONS).schema.query(
        opened.spec.universe(PERSONS).fixed_query
    )
    assert np.array_equal(found[PERSONS].sparse(fixed_query).dense(), opened.fixed[PERSONS].dense())


def test_the_files_follow_from_the_seed_and_not_from_the_workers(run: Path, tmp_path: Path) -> None:
    make(run / "release", tmp_path / "two", ASKED, workers=2, resume=False, progress=Silent())
    assert tree_digests(tmp_path / "two") == tree_digests(run / "release" / "intervals")


def test_what_was_interrupted_goes_on(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, made_one = tmp_path / "out", DhcReplicates.again

    def second_fails(
        of: DhcReplicates, counts: Mapping[str, Histogram], noise: PublicNoise
    ) -> dict[str, Histogram]:
        if noise == SeededNoise(5, 2):
            raise KeyboardInterrupt
        return made_one(of, counts, noise)

    monkeypatch.setattr(DhcReplicates, "again", second_fails)
    with pytest.raises(KeyboardInterrupt):
        make(run / "release", out, ASKED, workers=1, resume=False, progress=Silent())
    monkeypatch.undo()
    with pytest.raises(UserError, match="not finished"):
        make(run / "release", out, ASKED, workers=1, resume=False, progress=Silent())
    first = files.path_of(out, "persons", 1)
    before = first.stat().st_mtime_ns
    make(run / "release", out, ASKED, workers=1, resume=True, progress=Silent())
    assert first.stat().st_mtime_ns == before
    assert tree_digests(out) == tree_digests(run / "release" / "intervals")


# --- on replicates of the redistricting release
# ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def below(worlds: Worlds) -> Path:
    """The release that the DHC rests on."""
    return worlds.run("run.seed=1", data="one thousand") / "release"


@pytest.fixture(scope="module")
def chained(run: Path, below: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run with intervals of persons and units that cover the earlier errors, too."""
    out = tmp_path_factory.mktemp("chained") / "run"
    shutil.copytree(run, out, ignore=shutil.ignore_patterns("intervals"))
    folder = out / "release" / "intervals"
    asked = IntervalOptions(2, 5, 0.9, tables=("P12", "H3"), levels=("County",))
    quiet = {"workers": 1, "resume": False, "progress": Silent()}
    make(out / "release", folder, asked, earlier=below, **quiet)
    return out


def test_a_replicate_rests_on_the_replicate_of_the_earlier_release(
    chained: Path, below: Path, opened: OpenedDhc
) -> None:
    """Of the same seed and number: of persons in every cell, of units vacant and occupied."""
    earlier = OwnReplicates.from_release(open_release(below))
    made = earlier.again(earlier.published(), SeededNoise(5, 2))
    codes = files.codes_of(opened.spine, "Block")
    for name, fixed in (
        (PERSONS, made["persons"]),
        (UNITS, fixed_units(made["housing"], opened.facilities)),
    ):
        u = opened.spec.universe(name)
        path = files.path_of(chained / "release" / "intervals", u.kind.folder, 2)
        found = files.read(path, codes, u.schema).sparse(u.schema.query(u.fixed_query)).dense()
        assert np.array_equal(found, fixed.dense())
        assert not np.array_equal(found, opened.fixed[name].dense())


def test_on_counts_without_noise_it_is_the_replicate_of_fixed_counts(
    opened: OpenedDhc,
    counts: Mapping[str, Histogram],
    below: Path,
    drawn: list[dict[str, Histogram]],
) -> None:
    class Exact(OwnReplicates):
        def again(self, counts: Any, noise: Any, pool: Any = None) -> Any:
            return counts

    exact = Exact(**vars(OwnReplicates.from_release(open_release(below))))
    of = dataclasses.replace(DhcReplicates.from_release(opened), earlier=exact, decided=True)
    for name, h in of.again(counts, SeededNoise(5, 2)).items():
        assert h.same_as(drawn[2][name])


def test_with_a_million_times_the_rho_of_both_no_count_has_a_width(
    opened: OpenedDhc, counts: Mapping[str, Histogram], below: Path
) -> None:
    """No noise is left, so the release fits every answer and is found again."""
    many = 10**6

    class Loud(OwnReplicates):
        def planned(self) -> Any:
            louder = ((u, u.plan.scaled(u.plan.cost * many)) for u in super().planned())
            return [dataclasses.replace(u, plan=plan, own=()) for u, plan in louder]

    class LoudDhc(DhcReplicates):
        def planned(self) -> Any:
            return [dataclasses.replace(u, strategy=loud(u.strategy)) for u in super().planned()]

    def loud(of: Strategy) -> Strategy:
        rho = {lv: {q: r * many for q, r in each.items()} for lv, each in of.rho.items()}
        return dataclasses.replace(of, rho=rho)

    earlier = Loud(**vars(OwnReplicates.from_release(open_release(below))))
    of = LoudDhc(**vars(dataclasses.replace(DhcReplicates.from_release(opened), earlier=earlier)))
    of = dataclasses.replace(of, decided=True)
    for name, h in of.again(counts, SeededNoise(5, 1)).items():
        assert h.same_as(counts[name]), name


def test_then_every_count_has_a_width_or_is_certain_and_it_is_said(chained: Path) -> None:
    rows = das.read_intervals(chained, "P12", "County", method="replicates")
    assert set(rows["basis"]) <= {"exact", "replicates", ""}
    total = rows[rows["field"] == "P0120001"]
    assert (total["upper"] > total["lower"]).all()
    units = das.read_intervals(chained, "H3", "County", method="replicates")
    assert (units["upper"] > units["lower"]).groupby(units["field"]).any().tolist() == [
        False,  # housing units are exact
        True,
        True,
    ]
    assert set(units["basis"]) == {"exact", "replicates"}
    manifest = json.loads((chained / "release" / "intervals" / "manifest.json").read_text())
    assert "the same seed and number" in " ".join(manifest["says"])
    assert not any("not covered" in line for line in manifest["says"])
    assert not DhcReplicates.from_release(open_dhc(chained / "release")).keeps_earlier_counts
    verify.statement(chained / "release")


def test_the_two_kinds_are_not_mixed_and_another_release_is_refused(
    commands: Commands, chained: Path, below: Path, worlds: Worlds
) -> None:
    call, few = commands.named("intervals"), ("--replicates", 2, "--seed", 5, "--table", "P1")
    code, _, err = call(chained, *few)
    assert code == 2
    assert "another earlier" in err
    other = worlds.run("run.seed=2", data="one thousand")
    code, _, err = call(worlds.dhc(), *few, "--earlier", other)
    assert code == 2
    assert "is not the release" in err
    code, _, err = call(other, *few, "--earlier", below)
    assert code == 2
    assert "rest on no earlier release" in err


# --- intervals
# -------------------------------------------------------------------------------------------------


def test_intervals_are_those_of_the_replicates(run: Path) -> None:
    """Men of each county, counted in the files of the replicates, and the rule by hand."""
    rows = das.read_intervals(run, "P12", "County", method="replicates")
    tables = das.read_tables(run, "P12", "County")
    assert rows["value"].tolist() == tables["value"].tolist()
    assert rows["field"].tolist() == tables["field"].tolist()
    persons = pd.read_parquet(run / "release" / "intervals" / "replicates" / "persons")
    men = persons[persons["sex"] == "male"]
    county = men["GEOID"].astype(str).str[:5]
    number = men["replicate"].astype(int)
    counted = men.groupby([county, number], observed=True)["count"].sum().unstack()
    rows = rows[rows["field"] == "P0120002"].set_index("geocode")
    rmse = np.sqrt(((counted[[1, 2]].sub(counted[0], axis=0)) ** 2).mean(axis=1))
    assert rmse.max() > 0
    assert (rows["value"] == counted[0]).all()
    bias = counted[[1, 2]].sub(counted[0], axis=0).mean(axis=1)
    spread = counted[[1, 2]].std(axis=1)
    kept = (bias.abs() < spread / 2) | (
        (bias > 0) & (counted[0] < 25)
    )  # the bias is not subtracted
    assert (rows["lower"] == np.floor(counted[0] - 2.919986 * rmse + 1e-9).clip(lower=0))[
        kept
    ].all()
    assert (rows["upper"] >= rows["value"])[kept].all()


def test_what_was_published_before_has_no_width_and_it_is_said(run: Path) -> None:
    rows = das.read_intervals(run, "P12", "County", method="replicates")
    total = rows[rows["field"] == "P0120001"]
    assert total[["lower", "upper"]].isna().all(axis=None)
    assert set(total["basis"]) == {"not covered"}
    others = rows[rows["upper"] > rows["lower"]]
    assert set(others["basis"]) == {"given earlier counts"}
    none = rows["basis"] == "not covered"
    assert (rows.loc[~none, "upper"] >= rows.loc[~none, "lower"]).all()
    assert (rows.loc[rows["basis"] == "", "value"] == 0).all()
    says = json.loads((run / "release" / "intervals" / "manifest.json").read_text())["says"]
    assert any("published before" in line and "not covered" in line for line in says)


def test_it_is_verified_with_them_and_not_where_they_were_altered(
    run: Path, tmp_path: Path
) -> None:
    verify.statement(run / "release")
    shutil.copytree(run / "release", tmp_path / "release")
    file = tmp_path / "release" / "intervals" / "P12_County.parquet"
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(DasError, match=r"manifest\.json"):
        verify.statement(tmp_path / "release")


def test_the_dictionary_has_every_file_and_every_column_and_no_other(run: Path) -> None:
    folder = run / "release" / "intervals"
    check_dictionary(folder, {"P1", "P12"})
    assert not (folder / PAGE).exists()


def test_tables_are_chosen_at_the_levels_that_they_are_published_for(
    opened: OpenedDhc, run: Path
) -> None:
    of = DhcReplicates.from_release(opened)
    there = {p.stem for p in (run / "release" / "tables").glob("*.csv")}
    assert {f"{t.name}_{level}" for _, t, level in of.chosen()} == there
    assert [level for _, _, level in of.chosen(["PCT12"], ["County", "Block"])] == ["County"]
    with pytest.raises(UserError, match="PCT12 is not published for the level Block"):
        of.chosen(["PCT12"], ["Block"])


# --- the command
# -----------------------------------------------------------------------------------------------


def test_the_command_adds_them_to_a_release(
    commands: Commands, run: Path, worlds: Worlds, tmp_path: Path
) -> None:
    call, run = commands.named("intervals"), worlds.copy(run, tmp_path / "run")
    code, out, _ = call(
        run,
        "--replicates",
        2,
        "--seed",
        5,
        "--table",
        "H4",
        "--level",
        "Tract",
        "--rule",
        "pratt",
        "--json",
    )
    assert code == 0
    said = json.loads(out)
    assert list(said["rows"]) == ["H4_Tract.parquet"]
    assert "page" not in said
    by_truth = das.read_intervals(run, "H4", method="replicates")
    few = ("--replicates", 2, "--seed", 5, "--table", "H4", "--level", "Tract", "--table", "P12")
    code, out, _ = call(run, *few, "--rule", "ct")
    assert code == 0
    assert "published before" in out
    narrow = das.read_intervals(run, "H4", method="replicates")
    assert call(run, *few)[0] == 0  # by its own rule
    of_table = das.read_intervals(run, "H4", method="replicates")
    assert (of_table["lower"] <= narrow["lower"]).all()
    assert (of_table["upper"] >= narrow["upper"]).all()
    for made in (by_truth, of_table):
        assert (made["lower"] <= made["value"]).all()
        assert (made["upper"] >= made["value"]).all()
    manifest = json.loads((run / "release" / "intervals" / "manifest.json").read_text())
    assert manifest["rule"] == "table"
    assert commands.named("account")("verify", run)[0] == 0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--table", "PCT12", "--level", "Block"), "its levels are"),
        (("--table", "P99"), "there is no 'P99'"),
        (("--level", "Place"), "there is no 'Place'"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    commands: Commands, worlds: Worlds, options: tuple[str, ...], says: str
) -> None:
    run = worlds.dhc()
    code, _, err = commands.named("intervals")(run, *options)
    assert code == 2
    assert says in err
    assert not (run / "release" / "intervals").exists()
