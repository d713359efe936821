"""A run of the DHC: what must hold, holds in its files; what it publishes follows from
them; what stops it costs nothing.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from fractions import Fraction
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import das
from das.engine import Silent
from das.errors import InputError, ReleaseError, SpecError, UserError
from das.files.parquet import refuse_marked
from das.files.release import statement
from das.files.run.run_directory import RunDirectory, tree_digests
from das.publications.dhc.model import quarters
from das.publications.dhc.release import open_dhc
from das.publications.dhc.spec import DhcSpec
from das.publications.dhc.truth.preparation import EarlierRelease, prepare
from das.publications.published.public import estimate_from
from das.release import verify
from das.release.seal import seal
from das.runs import pipeline
from das.spec import load
from tests import awkward
from tests.commands import Commands
from tests.release.test_dictionary import check_complete
from tests.worlds import ROOT, Worlds

TEXT = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


@pytest.fixture
def run(worlds: Worlds) -> Path:
    return worlds.dhc()


def chosen(worlds: Worlds, *changes: str) -> DhcSpec:
    seeded = [c for c in changes if c.startswith("run.seed")]
    earlier = worlds.run(*seeded, data="one thousand")
    return load(
        TEXT, where="c", overrides=[f"constraints.from={earlier}", "output.report=false", *changes]
    )


def read(folder: Path) -> pd.DataFrame:
    frame = pa.concat_tables(
        [pq.read_table(p) for p in sorted(folder.glob("part-*.parquet"))]
    ).to_pandas()
    place = [c for c in frame if c.startswith("TAB")]
    frame["block"] = (
        frame[["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"]]
        .astype(str)
        .agg("".join, axis=1)
        if place
        else ""
    )
    return frame.astype({c: str for c in frame if str(frame[c].dtype) == "category"})


# --- what must hold
# ----------------------------------------------------------------------------------------------


def test_persons_have_the_redistricting_counts_of_every_block(worlds: Worlds, run: Path) -> None:
    before, after = (
        read(f / "release" / "microdata" / "persons")
        for f in (worlds.run("run.seed=1", data="one thousand"), run)
    )
    major = {
        t.code: str(
            1
            + [
                "correctional",
                "juvenile",
                "nursing",
                "other-institutional",
                "college",
                "military",
                "other-noninstitutional",
            ].index(t.hhgq)
        )
        for t in quarters.TYPES
    } | {"000": "0"}
    after["GQTYPE_PL"] = after["GQTYPE"].map(major)
    after["VOTING_AGE"] = np.where(after["QAGE"].astype(int) >= 18, "2", "1")
    by = ["block", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"]
    assert Counter(map(tuple, before[by].to_numpy().tolist())) == Counter(
        map(tuple, after[by].to_numpy().tolist())
    )


def test_units_and_households_are_the_published_ones_and_the_facilities_the_true_ones(
    worlds: Worlds, run: Path
) -> None:
    units = read(run / "release" / "microdata" / "units")
    before = read(worlds.run("run.seed=1", data="one thousand") / "release" / "microdata" / "units")
    homes = before[before["RTYPE"] == "2"]
    assert Counter(homes[homes["HH_STATUS"] == "1"]["block"]) == Counter(
        units[units["TEN"] != "0"]["block"]
    )
    assert Counter(homes[homes["HH_STATUS"] == "2"]["block"]) == Counter(
        units[units["VACS"] != "0"]["block"]
    )
    assert (units[units["TEN"] != "0"]["HHSIZE"] != "0").all()  # every occupied unit is a household
    true = pd.read_parquet(worlds.linked() / "units.parquet")
    true = true[true["tenvacgq"].astype(str).str.startswith("gq-")]
    facilities = Counter(
        {
            (b, t[3:]): int(n)
            for b, t, n in zip(
                true["block"].astype(str), true["tenvacgq"].astype(str), true["count"], strict=True
            )
        }
    )
    found = units[units["RTYPE"] == "4"]
    assert Counter(zip(found["block"], found["GQTYPE"], strict=True)) == facilities
    persons = read(run / "release" / "microdata" / "persons")
    away = persons[persons["GQTYPE"] != "000"]
    assert set(zip(away["block"], away["GQTYPE"], strict=True)) <= set(facilities)


def test_what_is_published_above_are_sums_of_what_is_published_below(run: Path) -> None:
    persons, tables = read(run / "release" / "microdata" / "persons"), run / "release" / "tables"
    state = pd.read_csv(tables / "P12_State.csv", dtype={"GEOCODE": str})
    assert int(state["P0120001"].iloc[0]) == len(persons)
    assert int(state["P0120002"].iloc[0]) == (persons["QSEX"] == "1").sum()


def test_the_dictionary_has_all_that_is_there(run: Path) -> None:
    check_complete(run / "release")


def test_it_is_verified_and_follows_from_the_release_alone(run: Path, tmp_path: Path) -> None:
    said = verify.statement(run / "release")
    assert said.total == sum(u.plan.cost for u in open_dhc(run / "release").spec.universes)


def test_a_prior_of_shares_follows_from_the_release_alone_and_changes_blocks_only(
    worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    """The release says what was assumed. Levels above the blocks are what they are without it."""
    assumed = worlds.dhc("output.report=true", "estimation.prior=shares")
    estimate_from(assumed / "release", tmp_path / "again")
    assert tree_digests(tmp_path / "again" / "release") == tree_digests(assumed / "release")
    said = json.loads((assumed / "release" / "prior.json").read_text("utf-8"))
    codes = open_dhc(run / "release").spine.geocodes("County").tolist()
    assert [s["geocode"] for s in said["spreads"]] == [c for c in codes for _ in range(2)]
    assert min(s["spread"] for s in said["spreads"]) >= 1
    assert max(s["seen"] for s in said["spreads"]) > 0
    check_complete(assumed / "release")
    page = (assumed / "release" / "report.html").read_text("utf-8")
    assert "assumed to resemble the unit above" in page
    assert "prior.json" in page
    for level, same in (("Block_Group", True), ("Block", False)):
        tables = [
            (f / "release" / "tables" / f"P12_{level}.csv").read_bytes() for f in (run, assumed)
        ]
        assert (tables[0] == tables[1]) == same


def test_the_page_names_files_that_there_are(worlds: Worlds) -> None:
    run = awkward.dhc(worlds)
    page = (run / "release" / "report.html").read_text("utf-8")
    named = {
        *re.findall(r'href="([^"#:]+)"', page),
        *re.findall(r"<code>([a-z]+\.[a-z]+)</code>", page),
    }
    assert named == {"privacy.html", "dictionary.csv", "spec.toml", "spine.parquet"}
    assert all((run / "release" / name).is_file() for name in named)
    assert "<dt>Levels</dt><dd>US (1), State (" in page


def test_noise_has_the_scale_of_the_plan(run: Path) -> None:
    """What was measured on demand less what was true: of each universe all together, in standard
    deviations. A scale off by a tenth is found."""
    from das.truth import files as truth

    opened = open_dhc(run / "release")
    for u in opened.spec.universes:
        true = truth.read(RunDirectory(run).truth_of(u.name)).open("a test").upward(opened.spine)
        squares, number = 0.0, 0
        for level in opened.spine.levels:
            for d in u.plan.at(level):
                m = opened.source(u).read(level, d.query)
                sparse = true[level].sparse(u.schema.query(d.query))
                noise = m.values - sparse.read(m.at)
                squares += float((noise.astype(float) ** 2).sum() * float(d.cost))
                number += len(noise)
        spread = np.sqrt(2 / number)
        assert abs(squares / number - 1) < 5 * spread + 1e-3
        assert number < 2000 or abs(1.21 - 1) > 5 * spread + 1e-3  # so it would be found


# --- what it goes on with
# ----------------------------------------------------------------------------------------


def test_a_finished_run_is_left_alone(worlds: Worlds, run: Path, tmp_path: Path) -> None:
    """That one which was stopped is the same: tests/contract/test_interruption.py."""
    out = worlds.copy(run, tmp_path / "run")
    assert pipeline.run(chosen(worlds, "run.seed=1"), out, resume=True).was_finished
    with pytest.raises(UserError, match="not the one that this run began with"):
        pipeline.run(chosen(worlds, "run.seed=1", "budget.persons=2"), out, resume=True)


def test_text_in_another_encoding_is_the_same_input(worlds: Worlds, tmp_path: Path) -> None:
    for path in worlds.linked().glob("*.parquet"):
        pd.read_parquet(path).convert_dtypes().to_csv(
            tmp_path / f"{path.stem}.csv", index=False, encoding="utf-16"
        )
    plain, other = (
        chosen(worlds, "run.seed=1"),
        chosen(worlds, "run.seed=1", "data.encoding=utf-16"),
    )
    earlier = EarlierRelease.read(worlds.run("run.seed=1", data="one thousand") / "release", plain)
    one, two = (
        prepare(plain, worlds.linked(), earlier, Silent()),
        prepare(other, tmp_path, earlier, Silent()),
    )
    for name, h in one.lowest.items():
        assert h.open("a test").same_as(two.lowest[name].open("a test"))


# --- what does not fit
# -------------------------------------------------------------------------------------------


def changed(worlds: Worlds, to: Path, table: str, change: Any) -> Path:
    shutil.copytree(worlds.linked(), to)
    frame = pd.read_parquet(to / f"{table}.parquet")
    frame = frame.astype({c: str for c in frame if str(frame[c].dtype) == "category"})
    change(frame).to_parquet(to / f"{table}.parquet")
    return to


def _one_more_unit(frame: pd.DataFrame) -> pd.DataFrame:
    at = frame.index[frame["tenvacgq"] == "other-vacant"][0]
    frame.loc[at, "count"] += 1
    return frame


def test_records_of_other_housing_units_are_refused(worlds: Worlds, tmp_path: Path) -> None:
    data = changed(worlds, tmp_path / "linked", "units", _one_more_unit)
    with pytest.raises(InputError, match="1 blocks have other housing units than were published"):
        pipeline.run(chosen(worlds), tmp_path / "run", paths=[data])
    assert not (tmp_path / "run").exists()


def _one_more_block(frame: pd.DataFrame) -> pd.DataFrame:
    row = frame.iloc[:1].assign(block="990019999991000", tenvacgq="other-vacant", count=1)
    return pd.concat([frame, row])


def test_records_of_other_blocks_are_refused(worlds: Worlds, tmp_path: Path) -> None:
    data = changed(worlds, tmp_path / "linked", "units", _one_more_block)
    with pytest.raises(
        InputError, match="1 blocks are not in the earlier release, such as 990019999991000"
    ):
        pipeline.run(chosen(worlds), tmp_path / "run", paths=[data])


def test_an_earlier_release_of_other_records_is_refused(worlds: Worlds, tmp_path: Path) -> None:
    spec = load(
        TEXT, where="c", overrides=[f"constraints.from={worlds.run(config='1940', data='1940')}"]
    )
    with pytest.raises(
        (UserError, SpecError), match=r"must name a redistricting release|the earlier release has"
    ):
        pipeline.run(spec, tmp_path / "run", paths=[worlds.linked()])
    with pytest.raises(UserError, match="this is a specification of the DHC"):
        pipeline.run(
            load(TEXT, where="c", overrides=[f"constraints.from={worlds.dhc()}"]),
            tmp_path / "run",
            paths=[worlds.linked()],
        )
    with pytest.raises(UserError, match="no redistricting release is named"):
        pipeline.run(load(TEXT, where="c"), tmp_path / "run", paths=[worlds.linked()])
    with pytest.raises(UserError, match="0 folders of records"):
        pipeline.run(chosen(worlds), tmp_path / "run")
    with pytest.raises(UserError, match="nothing to resume"):
        pipeline.run(chosen(worlds), tmp_path / "run", resume=True)


def test_a_private_release_does_not_rest_on_a_seeded_one(worlds: Worlds, tmp_path: Path) -> None:
    earlier = worlds.run("run.seed=1", data="one thousand")
    with pytest.raises(UserError, match="was seeded"):
        pipeline.run(
            load(TEXT, where="c", overrides=[f"constraints.from={earlier}"]),
            tmp_path / "run",
            paths=[worlds.linked()],
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ([f"constraints.digest={'0' * 64}"], "not the SHA-256 that constraints.digest names"),
        (['geography.levels=["Block_Group", "Block"]'], "begin above, such as with US"),
    ],
)
def test_another_earlier_release_or_tree_is_refused(
    worlds: Worlds, tmp_path: Path, changes: list[str], says: str
) -> None:
    with pytest.raises(UserError, match=says):
        pipeline.run(
            chosen(worlds, "run.seed=1", *changes), tmp_path / "run", paths=[worlds.linked()]
        )
    assert not (tmp_path / "run").exists()


def test_counts_that_were_not_published_so_are_refused(worlds: Worlds, tmp_path: Path) -> None:
    """An earlier release in which somebody else is than was published: perhaps the truth."""
    earlier = worlds.copy(worlds.run("run.seed=1", data="one thousand"), tmp_path / "earlier")
    _moved(earlier / "release")
    with pytest.raises(ReleaseError, match=r"computed again"):
        pipeline.run(
            chosen(worlds, "run.seed=1", f"constraints.from={earlier}"),
            tmp_path / "run",
            paths=[worlds.linked()],
        )
    assert not (tmp_path / "run").exists()


def _moved(release: Path) -> None:
    """Somebody of another age group: under a new seal, as if nothing had been."""
    path = next((release / "microdata" / "persons").glob("part-*.parquet"))
    table = pq.read_table(path)
    column = table["CENHISP"].to_pylist()
    column[0] = "2" if column[0] == "1" else "1"
    at = table.column_names.index("CENHISP")
    pq.write_table(table.set_column(at, "CENHISP", pa.array(column).dictionary_encode()), path)


def _tied(release: Path) -> None:
    path = release / "tied-persons.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(1), path)


def _noise(release: Path) -> None:
    path = next(release.glob("nmf/Block.parquet/Revealed/*.parquet"))
    table = pq.read_table(path)
    variance = table["variance"].to_numpy().copy() * 2
    pq.write_table(
        table.set_column(table.column_names.index("variance"), "variance", pa.array(variance)), path
    )


def _table(release: Path) -> None:
    path = release / "tables" / "H1_Block.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    row = lines[1].split(",")
    lines[1] = ",".join([*row[:-2], str(int(row[-2]) + 1), row[-1]])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _more_tables(release: Path) -> None:
    (release / "tables" / "P99_State.csv").write_text(
        "GEOCODE,P990001,NOT PRIVATE\n", encoding="utf-8"
    )


def _unseeded(release: Path) -> None:
    path = release / "spec.toml"
    path.write_text(path.read_text(encoding="utf-8").replace("seed = 1\n", ""), encoding="utf-8")


@pytest.mark.parametrize("alter", [_moved, _tied, _noise, _table, _more_tables, _unseeded])
def test_what_is_altered_is_found_under_a_new_seal(
    worlds: Worlds, run: Path, tmp_path: Path, alter: Any
) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    alter(release)
    seal(release, statement.read_ours(release), "dhc-2020")
    with pytest.raises(ReleaseError):
        verify.statement(release)


def test_fixed_counts_and_answers_say_that_they_were_seeded(run: Path) -> None:
    files = [
        *run.glob("release/nmf*/*.parquet/*/**/*.parquet"),
        *run.glob("release/tied-*.parquet"),
    ]
    places = [str(p.relative_to(run)) for p in files]
    assert all(
        any(kind in place for place in places)
        for kind in ("/Revealed/", "/Constraint/", "release/tied-")
    )
    assert all(pq.read_schema(p).metadata[b"NOT PRIVATE"] for p in files)
    for path in run.glob("release/tied-*.parquet"):
        with pytest.raises(ReleaseError, match="says that it is of a seeded run"):
            refuse_marked(path, True)


def _more(release: Path) -> None:
    """One more query of blocks, which is in no ledger."""
    path = next(release.glob("nmf/Block.parquet/Revealed/*.parquet"))
    table = pq.read_table(path)
    at = table.column_names.index("query_name")
    other = table.slice(0, 1).set_column(
        at, "query_name", pa.array(["sex_dpq"]).cast(table.schema.field(at).type)
    )
    with pq.ParquetWriter(path, table.schema) as writer:
        for name in pc.unique(table["query_name"]):
            writer.write_table(table.filter(pc.equal(table["query_name"], name)))
        writer.write_table(other)


def test_measurements_that_nobody_paid_for_are_found(
    worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    verify.check(release)
    _more(release)
    with pytest.raises(
        ReleaseError, match=r"'sex' is in the files or in privacy\.json, not in both"
    ):
        verify.check(release)


def test_what_is_said_of_other_records_is_found(worlds: Worlds, run: Path, tmp_path: Path) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    path = release / "privacy.json"
    said = json.loads(path.read_text(encoding="utf-8"))
    said["ledger"].append(said["ledger"][0] | {"universe": "pets"})
    path.write_text(json.dumps(said), encoding="utf-8")
    with pytest.raises(ReleaseError):
        verify.check(release)


def test_a_statement_that_is_silent_on_what_it_rests_on_is_found(
    worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    said = statement.read_ours(release)
    silent = said.model_copy(
        update={"says": tuple(s for s in said.says if "adds to this" not in s)}
    )
    seal(release, silent, "dhc-2020")
    with pytest.raises(ReleaseError, match="it does not say: The redistricting counts"):
        verify.statement(release)


def test_what_comes_in_exactly_and_what_both_releases_cost_is_stated(
    worlds: Worlds, run: Path
) -> None:
    """The State population is exact, for it was in the redistricting release; the costs of both are
    added up.
    """
    before = statement.read_ours(worlds.run("run.seed=1", data="one thousand") / "release")
    said = statement.read_ours(run / "release")
    assert [(c.universe, c.level, c.query, c.sign) for c in said.outside] == [
        ("persons", "State", "total", "="),
        ("units", "Block", "gqlevels", "="),
    ]
    assert said.invariant_neighbours is not None
    spent = {u: before.totals.get(u, Fraction(0)) for u in ("persons", "housing")}
    both = (
        said.totals["persons"]
        + spent["persons"]
        + 4 * (said.totals["units"] + said.totals["households"] + spent["housing"])
    )
    (sentence,) = [x for x in said.says if x.startswith("One person moved")]
    told = float(sentence.rsplit("at most rho = ", 1)[1].split(" ")[0])
    assert 0 <= told - float(both) < 2e-6


def test_an_exact_figure_that_is_not_listed_is_found(
    worlds: Worlds, run: Path, tmp_path: Path
) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    said = statement.read_ours(release)
    seal(release, said.model_copy(update={"outside": said.outside[1:]}), "dhc-2020")
    with pytest.raises(ReleaseError, match="it lists other constraints than the specification has"):
        verify.statement(release)


@pytest.mark.parametrize("lost", ["ledger.jsonl", "nmf-units/Block.parquet/Constraint"])
def test_a_release_that_lacks_something_is_not_estimated_again(
    worlds: Worlds, run: Path, tmp_path: Path, lost: str
) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    remove(release / lost)
    with pytest.raises(ReleaseError, match=r"is not there, and privacy\.json has its digest"):
        estimate_from(release, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_beside_its_measurements_is_nothing(worlds: Worlds, run: Path, tmp_path: Path) -> None:
    release = worlds.copy(run, tmp_path / "copy") / "release"
    (release / "nmf" / "notes.txt").write_text("x")
    with pytest.raises(ReleaseError, match=r"notes\.txt is not of a level"):
        verify.statement(release)


# --- the commands
# ------------------------------------------------------------------------------------------------


def test_the_commands_take_it_as_any_other(run: Path, tmp_path: Path, commands: Commands) -> None:
    call = commands.named
    assert call("account")("verify", run)[0] == 0
    assert call("estimate")("--from", run, "--out", tmp_path / "again", "--quiet")[0] == 0
    code, out, _ = call("check")("dhc-2020", "--json")
    assert code == 0
    of_persons = [
        Fraction(line["rho"]) for line in json.loads(out)["plan"] if line["universe"] == "persons"
    ]
    assert sum(of_persons) == open_dhc(run / "release").spec.universe("persons").plan.cost
    assert "persons" in call("check")("dhc-2020")[1]
    assert call("account")("show", "dhc-2020")[0] == 0


def test_its_tables_are_printed_and_read_as_any(
    run: Path, tmp_path: Path, commands: Commands
) -> None:
    tables, listed = (
        commands.named("tables"),
        json.loads(commands.named("tables")(run, "--json")[1]),
    )
    assert {t["table"] for t in listed} >= {"P1", "P12", "H4", "PCT12", "HCT1"}
    levels = next(t["levels"] for t in listed if t["table"] == "P12")
    assert "Block" in levels
    assert "SLDL" in levels  # an area that the earlier release knows
    said = pd.read_csv(StringIO(tables(run, "--table", "p12", "--level", "county")[1]))
    frame = das.read_tables(run, "P12", "County")
    assert said["P0120001 Total"].tolist() == frame[frame["field"] == "P0120001"]["value"].tolist()
    blocks = das.read_tables(run, "P1", "Block")
    (tmp_path / "mine.csv").write_text(
        "area,block\n" + "".join(f"{i % 2},{b}\n" for i, b in enumerate(blocks["geocode"]))
    )
    halves = pd.read_csv(
        StringIO(tables(run, "--table", "P1", "--areas", tmp_path / "mine.csv")[1])
    )
    assert halves["P0010001 Total"].tolist() == [int(blocks["value"][i::2].sum()) for i in (0, 1)]
    assert tables(run, "--table", "P12", "--level", "County", "--margins")[0] == 2


def test_it_is_evaluated_again_from_its_files(
    run: Path, tmp_path: Path, worlds: Worlds, commands: Commands
) -> None:
    folder = worlds.copy(run, tmp_path / "run") / "confidential" / "evaluation"
    before = {p.name: p.read_bytes() for p in folder.glob("*.csv")}
    for name in before:
        (folder / name).unlink()
    code, out, err = commands.named("evaluate")(tmp_path / "run", "--show-errors")
    assert (code, err) == (0, "")
    assert "our error / its" in out
    assert before
    assert {p.name: p.read_bytes() for p in folder.glob("*.csv")} == before


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["run", "dhc-2020", "--set", "budget.rho=1"], "unknown key"),
        (["plan", "dhc-2020", "--margin", "State:total=5"], "budget.persons"),
        (["plan", "dhc-2020", "--optimize", "policy"], "name a release of the DHC with --like"),
        (["plan", "dhc-2020", "--universe", "houses"], "no universe 'houses'"),
        (["check", "dhc-2020", "--data", "x"], "constraints.from"),
        (["evaluate", "RUN", "--areas", "x"], "no areas are evaluated"),
        (["estimate", "--from", "RUN", "--method", "topdown", "--out", "NEW"], "does not change"),
    ],
)
def test_what_it_has_not_is_said(
    arguments: list[str], says: str, run: Path, tmp_path: Path, commands: Commands
) -> None:
    put = {"RUN": run, "NEW": tmp_path / "new"}
    code, _, err = commands.named(arguments[0])(*(put.get(a, a) for a in arguments[1:]))
    assert code == 2
    assert says in err
    assert "Traceback" not in err
