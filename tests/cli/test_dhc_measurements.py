"""`das nmf summary` and `show` of measurements on demand, and of the Detailed DHC: they show the
files' content, by level and query, and answer by answer.
"""

from __future__ import annotations

import io
import json

import numpy as np
import pandas as pd
import pytest

import das
from das.publications.detailed.release import open_groups
from das.publications.dhc.release import open_dhc
from das.release.publications import RowOptions, publication_of
from tests.commands import Commands
from tests.worlds import Worlds


def test_a_summary_says_how_much_was_looked_at(worlds: Worlds, commands: Commands) -> None:
    run = worlds.dhc()
    code, out, err = commands.named("nmf")("summary", run, "--json")
    assert code == 0, err
    rows, opened = json.loads(out), open_dhc(run / "release")
    events = {
        (e.universe, e.level, e.query): (e.units, e.answers)
        for u in opened.spec.universes
        for level in opened.spine.levels
        for e in opened.events(u, level)
    }
    assert {(r["universe"], r["level"], r["query"]) for r in rows} == set(events)
    for r in rows:
        units, answers = events[r["universe"], r["level"], r["query"]]
        assert (r["units"], r["answers"], r["of"]) == (units, answers, units * answers)
        assert 0 < r["looked at"] <= r["of"]
    lowest = [r for r in rows if (r["level"], r["query"]) == ("Block", "detailed")]
    assert all(r["looked at"] < r["of"] / 100 for r in lowest if r["answers"] > 1_000_000)
    code, out, _ = commands.named("nmf")("summary", run, "--universe", "units")
    assert code == 0
    assert "looked at" in out
    assert "households" not in out


@pytest.mark.parametrize("universe", ["persons", "units", "households"])
def test_rows_of_one_unit_are_what_was_revealed(
    worlds: Worlds, commands: Commands, universe: str
) -> None:
    run = worlds.dhc()
    opened = open_dhc(run / "release")
    u, code = opened.spec.universe(universe), opened.spine.code("County", 1)
    query = opened.source(u).queries("County")[-1]
    m = opened.source(u).read("County", query)
    here = m.at // m.cells == 1
    asked = ("--level", "county", "--query", query, "--geocode", code)
    status, out, err = commands.named("nmf")("show", run, *asked, "--universe", universe)
    assert status == 0, err
    found = pd.read_csv(io.StringIO(out), dtype={"geocode": str})
    assert found["value"].tolist() == m.values[here].tolist()
    assert set(found["geocode"]) == {code}
    captions = np.array(u.schema.query(query).captions(), dtype=object)
    assert found["label"].tolist() == captions[m.at[here] % m.cells].tolist()
    folder = run / "release" / u.kind.file("nmf")
    same = das.read_nmf(folder, "County", query, code)
    assert same["value"].tolist() == found["value"].tolist()
    assert "NOT PRIVATE" in found


def test_what_is_not_there_is_said(worlds: Worlds, commands: Commands) -> None:
    run = worlds.dhc()
    for more, said in (
        (("--query", "votingage"), "no query 'votingage'"),
        (("--constraints",), "no Constraint rows"),
        (("--geocode", "99"), "no place 99"),
        (("--universe", "houses"), "no universe 'houses'"),
    ):
        code, _, err = commands.named("nmf")("show", run, "--level", "County", *more)
        assert (code, said in err) == (2, True), err


def test_what_is_exact_of_units_are_constraint_rows(worlds: Worlds, commands: Commands) -> None:
    run = worlds.dhc()
    asked = ("--level", "Block", "--universe", "units", "--constraints")
    code, out, err = commands.named("nmf")("show", run, *asked)
    assert code == 0, err
    found = pd.read_csv(io.StringIO(out), dtype={"geocode": str})
    opened = open_dhc(run / "release")
    assert found["value"].sum() == opened.fixed["units"].count.sum()
    assert set(found["sign"]) == {"="}


@pytest.mark.parametrize("product", ["persons", "households"])
def test_population_groups(worlds: Worlds, commands: Commands, product: str) -> None:
    run = worlds.groups(product)
    code, out, err = commands.named("nmf")("summary", run, "--json")
    assert code == 0, err
    opened, rows = open_groups(run / "release"), json.loads(out)
    events = {
        (e.level, e.query): e.units for plan in opened.spec.plans for e in opened.events(plan)
    }
    assert {(r["level"], r["query"]): r["groups"] for r in rows} == events
    plan = opened.spec.plans[0]
    part = next(opened.measured(plan))
    found = publication_of(run / "release").measured_rows(run, RowOptions(plan.level))
    assert found["value"].sum() == part.values.sum() + part.first.sum()
    region = found["geocode"][0]
    asked = ("--level", plan.level, "--geocode", region, "--query", plan.table.name)
    code, out, err = commands.named("nmf")("show", run, *asked)
    assert code == 0, err
    shown = pd.read_csv(io.StringIO(out), dtype=str)
    assert {"iteration name", "table size", *plan.table.columns} <= set(shown)
    for more, said in (
        (("--level", "moon"), "no level 'moon'"),
        (("--level", plan.level, "--geocode", "none"), "no region none"),
    ):
        code, _, err = commands.named("nmf")("show", run, *more)
        assert (code, said in err) == (2, True), err
