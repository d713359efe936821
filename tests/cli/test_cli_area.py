"""`das area`: counts of any list of blocks; what is wrong with a list is said, and nothing is
written.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from das import read_areas, read_tables, tables
from das.errors import InputError
from das.estimate.upward_pass import upward_pass
from das.files.microdata import reading as microdata
from das.model.measured_spine import MeasuredSpine
from das.release.intervals import Intervals
from das.release.opened import OpenedRelease, open_release
from tests.commands import Commands, Das
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.run("run.seed=1", data="three thousand")


@pytest.fixture(scope="module")
def opened(run: Path) -> OpenedRelease:
    return open_release(run / "release")


@pytest.fixture
def das(commands: Commands) -> Das:
    return commands.named("area")


def listed(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("area,block\n" + "".join(f"{a},{b}\n" for a, b in pairs))
    return path


def by_level(opened: OpenedRelease, tree: MeasuredSpine, level: str) -> list[tuple[str, str]]:
    """The units of a level of a tree as areas."""
    codes, blocks = tree.spine.geocodes(level), opened.spine.geocodes("Block")[tree.place]
    return list(zip(codes[tree.spine.up("Block", level)].tolist(), blocks.tolist(), strict=True))


@pytest.mark.parametrize("level", ["County", "Tract"])
def test_an_area_that_is_a_unit_has_the_interval_of_its_unit(
    das: Das, opened: OpenedRelease, run: Path, tmp_path: Path, level: str
) -> None:
    """That of ``das tables --margins`` and of the page."""
    u, spine = opened.after.persons, opened.spine
    pairs = zip(spine.geocodes(level)[spine.up("Block", level)], spine.geocodes("Block"))
    blocks = listed(tmp_path / "units.csv", list(pairs))
    query = u.schema.query("hispanic")
    args = ("--statistics", "hispanic", "--json")
    code, out, _ = das(run, "--blocks", blocks, *args)
    assert code == 0
    found = pd.DataFrame(json.loads(out)["rows"])
    masks = query.index[None, :] == np.arange(query.answers)[:, None]
    known = Intervals(opened, u).of_units(level, masks)
    above = spine.levels[spine.index(level) - 1]
    siblings = np.bincount(spine.up(level, above))[spine.up(level, above)]
    some = siblings > 1  # an only child has the interval of its parent
    assert some.any()
    for i in range(query.answers):
        here = found[found["field"].eq(f"hispanic[{i}]")].set_index("area")
        here = here.loc[spine.geocodes(level)[some]]
        assert np.abs(here["estimate"] - known.estimate[some, i]).max() < 0.02
        assert np.abs(here["standard_error"] - known.error[some, i]).max() < 0.02
        assert (here["estimate_low"] == known.low[some, i]).all()


@pytest.mark.parametrize("level", ["Tract", "State"])
def test_an_area_that_is_a_unit_of_the_measured_tree_alone_has_its_full_information_estimate(
    das: Das, worlds: Worlds, tmp_path: Path, level: str
) -> None:
    """On the optimized spine its own tracts, and both parts of a state."""
    run = worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand")
    opened = open_release(run / "release")
    u = opened.after.persons
    tree = opened.tree(u)
    assert not tree.alike
    blocks = listed(tmp_path / "units.csv", by_level(opened, tree, level))
    args = ("--statistics", "total", "--statistics", "hispanic", "--statistics", "housing:total")
    code, out, _ = das(run, "--blocks", blocks, *args, "--json")
    assert code == 0
    found = pd.DataFrame(json.loads(out)["rows"])
    known = upward_pass(opened.source(u), tree.spine, opened.bounds(u), u)
    compared = 0
    for at, query, value, error in known.unbiased():
        if at == level and query.name in ("total", "hispanic"):
            for i in range(query.answers):
                field = "total" if query.answers == 1 else f"{query.name}[{i}]"
                here = found[found["field"].eq(field) & found["universe"].eq("persons")].set_index(
                    "area"
                )
                here = here.loc[tree.spine.geocodes(level)]
                assert np.abs(here["estimate"] - value[:, i]).max() < 0.02
                assert np.abs(here["standard_error"] - error[:, i]).max() < 0.02
                compared += 1
    assert compared
    housing = found[found["universe"].eq("housing")]
    assert (housing["standard_error"] == 0).all()  # housing units are exact
    assert (housing["estimate_low"] == housing["value"]).all()


def test_published_counts_are_sums_of_the_microdata_and_formats_agree(
    das: Das, run: Path, opened: OpenedRelease, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    blocks = opened.spine.geocodes("Block")
    member = rng.random((4, len(blocks))) < 0.2
    pairs = [(f"a{a}", str(blocks[b])) for a, b in np.argwhere(member)]
    path = listed(tmp_path / "mine.csv", pairs)
    u = opened.after.persons
    h = microdata.read(opened.folder / "microdata" / "persons", u, opened.spine.codes[-1])
    p4 = next(t for t in tables.universe_tables(u, opened.assigned(u.name)) if t.name == "P4")
    expected = member.astype(int) @ p4.values(h)
    code, out, err = das(run, "--blocks", path, "--statistics", "p4", "--json")
    assert code == 0
    said = json.loads(out)
    assert (said["kind"], said["coverage"], said["private"]) == ("mine", 0.95, False)
    frame = pd.DataFrame(said["rows"])
    assert frame["value"].to_numpy().reshape(4, -1).tolist() == expected.tolist()
    assert frame["field"].tolist()[:73] == list(p4.columns)
    assert frame["blocks"].unique().tolist() == member.sum(axis=1).tolist()
    assert "areas overlap" in err
    assert "in no area" in err
    for ending in ("csv", "parquet", "json"):
        code, told, _ = das(
            run, "--blocks", path, "--statistics", "P4", "--out", tmp_path / f"out.{ending}"
        )
        assert code == 0
        assert "NOT PRIVATE" in told
    read = pd.read_csv(tmp_path / "out.csv", dtype={"area": str}, keep_default_na=False)
    assert read["NOT PRIVATE"].eq("seeded").all()
    same = pd.read_parquet(tmp_path / "out.parquet")
    for other in (
        read,
        same,
        pd.DataFrame(json.loads((tmp_path / "out.json").read_text())["rows"]),
    ):
        assert np.allclose(
            other[["value", "estimate", "standard_error", "estimate_low", "estimate_high"]].astype(
                float
            ),
            frame[["value", "estimate", "standard_error", "estimate_low", "estimate_high"]].astype(
                float
            ),
        )


def test_wider_coverage_is_a_wider_interval_about_the_same_estimate(das: Das, run: Path) -> None:
    kind = ("--kind", "county subdivision", "--json")
    narrow, wide = (
        pd.DataFrame(json.loads(das(run, *kind, "--coverage", c)[1])["rows"])
        for c in ("0.5", "0.99")
    )
    assert (narrow["estimate"] == wide["estimate"]).all()
    width = wide["estimate_high"] - wide["estimate_low"]
    assert (width >= narrow["estimate_high"] - narrow["estimate_low"]).all()
    noisy = wide["standard_error"] > 1
    assert noisy.any()
    assert (width[noisy] / wide["standard_error"][noisy] > 2 * 2.575 - 1).all()
    assert (width[noisy] / wide["standard_error"][noisy] < 2 * 2.577 + 1).all()


def test_the_terminal_has_the_totals_of_every_universe(das: Das, run: Path) -> None:
    code, out, _ = das(run, "--kind", "Place")
    assert code == 0
    assert all(
        word in out for word in ("persons", "housing", "interval", "standard error", "NOT PRIVATE")
    )
    assert " from " not in out, "without replicates no interval of published counts"


BAD = {
    "unknown blocks": (
        "area,block\nx,{0}\nx,9\ny,8\n",
        (),
        "line 3: '9' is not a unit of level 'Block' (and 1 more",
    ),
    "a block twice": (
        "area,block\nx,{0}\nx,{1}\nx,{0}\n",
        (),
        "line 4: '{0}' stands under 'x' twice",
    ),
    "no area": ("area,block\n,{0}\n", (), "there is no area"),
    "an empty file": ("", (), "the file is empty"),
    "a header alone": ("area,block\n", (), "no records"),
    "a plan with two districts for a block": (
        "area,block\nx,{0}\ny,{0}\n",
        ("--plan",),
        "more) is in no area",
    ),
    "another format": ("area,block\nx,{0}\n", ("--out", "{folder}/o.xlsx"), "none of the formats"),
    "the list itself": (
        "area,block\nx,{0}\n",
        ("--out", "{folder}/list.csv"),
        "the list of blocks itself",
    ),
    "no folder": ("area,block\nx,{0}\n", ("--out", "{folder}/none/o.csv"), "no such folder"),
    "no such statistic": (
        "area,block\nx,{0}\n",
        ("--statistics", "P9"),
        "no table, column or query 'P9'",
    ),
    "no such universe": (
        "area,block\nx,{0}\n",
        ("--statistics", "dogs:total"),
        "no universe 'dogs'",
    ),
    "both": ("area,block\nx,{0}\n", ("--kind", "Place"), "give one of both"),
    "no such kind": (None, ("--kind", "Ward"), "no kind of area 'Ward'"),
    "kinds in the plural": (None, ("--kind", "Ward"), "the kinds of area are "),
    "neither": (None, (), "this release knows the kinds"),
    "coverage": ("area,block\nx,{0}\n", ("--coverage", "1"), "1"),
    "coverage that is no number": (
        "area,block\nx,{0}\n",
        ("--coverage", "nan"),
        "a coverage of nan",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=list(BAD))
def test_bad_input_is_told_and_nothing_is_written(
    das: Das,
    run: Path,
    opened: OpenedRelease,
    tmp_path: Path,
    case: tuple[str | None, tuple[str, ...], str],
) -> None:
    text, args, said = case
    blocks = opened.spine.geocodes("Block")[:2].tolist()
    given: list[object] = [a.replace("{folder}", str(tmp_path)) for a in args]
    if text is not None:
        (tmp_path / "list.csv").write_text(text.format(*blocks))
        given += ["--blocks", tmp_path / "list.csv"]
    code, out, err = das(run, *given)
    assert (code, out) == (2, "")
    assert said.format(*blocks) in err
    assert "Traceback" not in err
    assert sorted(p.name for p in tmp_path.iterdir()) == (["list.csv"] if text is not None else [])


def test_a_plan_has_each_block_in_one_district(
    das: Das, run: Path, opened: OpenedRelease, tmp_path: Path
) -> None:
    pairs = by_level(opened, MeasuredSpine.from_published(opened.spine), "County")
    whole = listed(tmp_path / "plan.csv", pairs)
    code, out, err = das(run, "--blocks", whole, "--plan", "--json")
    assert (code, err) == (0, "")
    rows = [r for r in json.loads(out)["rows"] if r["universe"] == "persons"]
    u = opened.after.persons
    h = microdata.read(opened.folder / "microdata" / "persons", u, opened.spine.codes[-1])
    assert sum(r["value"] for r in rows) == h.count.sum()
    twice = listed(tmp_path / "twice.csv", [*pairs, ("other", pairs[0][1])])
    code, _, err = das(run, "--blocks", twice, "--plan")
    assert (code, f"Block {pairs[0][1]} is in two areas" in err) == (2, True)
    short = listed(tmp_path / "short.csv", pairs[3:])
    code, _, err = das(run, "--blocks", short, "--plan")
    assert (code, f"Block {pairs[0][1]} (and 2 more) is in no area" in err) == (2, True)


def test_python_reads_the_same(das: Das, run: Path) -> None:
    frame = read_areas(run, kind="Place", statistics=["P0010001", "housing:H1"], coverage=0.8)
    said = json.loads(
        das(
            run,
            "--kind",
            "Place",
            "--statistics",
            "P0010001",
            "--statistics",
            "housing:H1",
            "--coverage",
            "0.8",
            "--json",
        )[1]
    )["rows"]
    assert frame["NOT PRIVATE"].eq("seeded").all()
    plain = frame.drop(columns="NOT PRIVATE").astype(object)
    assert plain.where(plain.notna(), None).to_dict("records") == said
    with pytest.raises(InputError, match="a list of texts"):
        read_areas(run, kind="Place", statistics="P1")


def test_a_kind_of_area_is_no_level_of_tables(run: Path) -> None:
    with pytest.raises(
        InputError, match=r"'place' is no level[\s\S]*read_areas\(run, kind='place'"
    ):
        read_tables(run, "P1", "place")


def test_a_place_by_its_name(das: Das, run: Path) -> None:
    """Of areas across the levels, and of the levels; in the terminal's rows and as those of all."""
    every = read_areas(run, kind="Place", statistics=["P0010001"])
    one = every.iloc[1]
    for asked in ((one["area"],), (one["area"], "--kind", "place")):
        code, out, err = das(run, "--name", *asked, "--statistics", "P0010001", "--json")
        assert (code, "in no area" in err) == (0, False)
        (row,) = json.loads(out)["rows"]
        assert (row["area"], row["value"]) == (one["area"], one["value"])
        assert (row["estimate_low"], row["estimate_high"]) == (
            one["estimate_low"],
            one["estimate_high"],
        )
    spine = open_release(run / "release").spine
    code, out, _ = das(run, "--name", spine.code("Tract", 3), "--json")
    (row, _) = json.loads(out)["rows"]  # persons, and housing units
    assert (code, row["area"]) == (0, spine.code("Tract", 3))
    code, out, _ = das(run, "--name", one["area"])
    (total, _) = json.loads(das(run, "--name", one["area"], "--json")[1])["rows"]
    count, low, high = (f"{total[k]:,}" for k in ("value", "estimate_low", "estimate_high"))
    assert code == 0
    assert f"has {count} persons; before noise was added, the count was between {low}" in out
    assert f" and {high} (95% confidence).”" in out
    assert "To quote" not in das(run, "--kind", "Place")[1]
    assert "To quote" not in das(run, "--name", one["area"], "--statistics", "P0010003")[1]
    code, _, err = das(run, "--name", "simulated city 1", "--kind", "Place")
    assert (code, "places have this name: Place Simulated city 1 (" in err) == (2, True)
