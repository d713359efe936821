"""Noisy measurement files in the Bureau's layout, made from a run of ours: renamed, reordered,
drifted, spoilt.
"""

from __future__ import annotations

import json
import shutil
import tomllib
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from das import cli, spec
from das.errors import SpecError, UserError
from das.files.measurements.nmf_reader import NmfReader
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.model.schema import Schema
from das.model.spine import Spine
from das.publications.published.files.layout import convert, is_published
from das.publications.published.files.listing import check_shape
from das.release.opened import open_release
from tests.told import Told
from tests.worlds import Worlds

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
NO_NAMES: Mapping[str, str] = {}
Change = Callable[[str, str, pa.Table], pa.Table]


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    """A run of the redistricting configuration on three small states."""
    return worlds.run("run.seed=1", data="three thousand")


@pytest.fixture(scope="module")
def small(worlds: Worlds) -> Path:
    """A copy of the measurements of one state, to be spoiled."""
    return worlds.run("run.seed=1", data="one of three")


@pytest.fixture(scope="module")
def converted(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The release that is made of these measurements. Nobody changes it."""
    folder = tmp_path_factory.mktemp("converted")
    convert(published(small, folder / "nmf"), folder / "release")
    return folder / "release"


@pytest.fixture(scope="module")
def names(run: Path) -> Mapping[str, str]:
    return bureau_codes(run)


# --- the layout, from ours
# -----------------------------------------------------------------------------------------


def bureau_codes(run: Path) -> dict[str, str]:
    """Our codes in the Bureau's style, except the root's: 0, state, 1 and the county in four digits, then numbers of
    the optimized spine, and the block's own sixteen digits at the end."""
    spine = spine_file.read(run / "release" / "spine.parquet")
    new = [["0"]]
    for depth, level in enumerate(spine.levels[1:], start=1):
        starts = spine.children(level)
        here = []
        for unit, (code, parent) in enumerate(
            zip(spine.geocodes(level).tolist(), spine.parent[depth], strict=True)
        ):
            above = new[depth - 1][parent]
            number = unit - int(starts[parent]) + 1
            here.append(
                {
                    "State": f"0{code}",
                    "County": f"{above}1{code[-3:]:0>4}1",
                    "Tract": f"{above}{number:03d}",
                    "Block_Group": f"{above}{number:03d}",
                    "Block": f"{above}{code}",
                }[level]
            )
        new.append(here)
    # a block group and a tract, say, never have the same code in our spine, so one table serves all
    # levels
    return {"": new[0][0]} | {
        old: code
        for level, here in zip(spine.levels, new, strict=True)
        for old, code in zip(spine.geocodes(level).tolist(), here, strict=True)
    }


def published(
    run: Path,
    out: Path,
    names: Mapping[str, str] = NO_NAMES,
    change: Change | None = None,
    universe: str = "nmf",
) -> Path:
    """The published layout: the noisy measurement files of ``run`` alone, with other codes and
    rows.
    """
    if not names and change is None:
        return Path(shutil.copytree(run / "release" / universe, out))
    for path in sorted((run / "release" / universe).rglob("*.parquet")):
        if path.is_file():
            where = path.relative_to(run / "release" / universe)
            file = pq.ParquetFile(path)
            level, kind = where.parts[0].removesuffix(".parquet"), where.parts[1]
            state = [names.get(p[6:], p[6:]) for p in where.parts if p.startswith("State=")]
            folder = out.joinpath(*where.parts[:2], *(f"State={s}" for s in state))
            folder.mkdir(parents=True, exist_ok=True)
            groups = []
            for g in range(file.num_row_groups):
                table = file.read_row_group(g)
                table = replaced(
                    table, "geocode", [names.get(c, c) for c in table["geocode"].to_pylist()]
                )
                groups.append(change(level, kind, table) if change else table)
            with pq.ParquetWriter(folder / where.name, groups[0].schema) as writer:
                for table in groups:
                    writer.write_table(table)
    return out


def replaced(
    table: pa.Table, column: str, values: list, kind: pa.DataType | None = None
) -> pa.Table:
    at = table.schema.get_field_index(column)
    return table.set_column(at, column, pa.array(values, kind or table.schema.field(at).type))


def drift(folder: Path, seed: int) -> Path:
    """Rewrite every file as another writer might have: other types and columns, rows in any order
    and any groups.
    """
    rng = np.random.default_rng(seed)
    for path in sorted(p for p in folder.rglob("*.parquet") if p.is_file()):
        table = pq.ParquetFile(path).read()
        path.unlink()
        table = table.take(pa.array(rng.permutation(len(table))))
        low, high = (
            f(pa.compute.list_flatten(table["value"])).as_py()
            for f in (pa.compute.min, pa.compute.max)
        )
        widths = [
            t
            for t in (pa.int16(), pa.int32(), pa.int64())
            if np.iinfo(t.to_pandas_dtype()).min <= low
            and high <= np.iinfo(t.to_pandas_dtype()).max
        ]
        pick = widths[rng.integers(len(widths))]
        table = replaced(table, "value", table["value"].to_pylist(), pa.list_(pick))
        if "variance" in table.column_names and rng.random() < 0.5:
            table = replaced(table, "variance", table["variance"].to_pylist(), pa.float64())
        if "variance" in table.column_names and rng.random() < 0.5:
            table = table.append_column("sign", pa.nulls(len(table), pa.string()))
        elif "sign" in table.column_names and rng.random() < 0.5:
            table = table.drop_columns(["sign"])
        if rng.random() < 0.5:
            table = table.append_column("plb", pa.array(["1/7"] * len(table)))
        if rng.random() < 0.3:
            table = table.drop_columns(["query_shape"])
        if rng.random() < 0.5:
            bare = [
                n.removesuffix("_dpq").removesuffix("_con") for n in table["query_name"].to_pylist()
            ]
            table = replaced(table, "query_name", bare)
        if rng.random() < 0.5:
            table = replaced(table, "geocode", table["geocode"].to_pylist(), pa.large_string())
        elif rng.random() < 0.5:
            at = table.schema.get_field_index("query_name")
            table = table.set_column(at, "query_name", table["query_name"].dictionary_encode())
        table = table.select(rng.permutation(table.column_names).tolist())
        cut = int(rng.integers(1, len(table) + 1))
        for number, part in enumerate((table.slice(0, cut), table.slice(cut))):
            inner = path.parent / f"County=x{number}"
            inner.mkdir()
            target = inner / f"part-0000{number}-5d1f.c000.snappy.parquet"
            pq.write_table(part, target, row_group_size=int(rng.integers(20, 2000)))
            (inner / f".{target.name}.crc").write_bytes(b"crc")
        (path.parent / "_SUCCESS").touch()
    return folder


def without(
    level: str, *codes: str, query: str = "", kinds: tuple[str, ...] = ("DPQuery",)
) -> Change:
    """No rows of some units (of all, where none is named), or of one of their queries."""

    def change(here: str, kind: str, table: pa.Table) -> pa.Table:
        if here != level or kind not in kinds:
            return table
        rows = zip(table["geocode"].to_pylist(), table["query_name"].to_pylist(), strict=True)
        return table.filter(
            pa.array([(bool(codes) and c not in codes) or not q.startswith(query) for c, q in rows])
        )

    return change


# --- what is held against what
# ---------------------------------------------------------------------------------------


def people(run: Path) -> pa.Table:
    """The microdata without the name of the run in them."""
    return pq.read_table(run / "release" / "microdata" / "persons").drop_columns(
        ["SCHEMA_BUILD_ID"]
    )


def privacy(run: Path) -> dict:
    return json.loads((run / "release" / "privacy.json").read_text(encoding="utf-8"))


def rows_of(nmf: Path, level: str, kind: str = "DPQuery") -> dict[tuple[str, str], tuple]:
    """Every row by geocode and bare name of query: its values, and its variance (None of
    constraints).
    """
    found = {}
    for path in sorted(
        p for p in (nmf / f"{level}.parquet" / kind).rglob("*.parquet") if p.is_file()
    ):
        for row in pq.ParquetFile(path).read().to_pylist():
            name = row["query_name"].removesuffix("_dpq").removesuffix("_con")
            assert (row["geocode"], name) not in found
            found[row["geocode"], name] = (row["value"], row.get("variance"))
    return found


def assert_constraints(
    run: Path, source: Path, names: Mapping[str, str] = NO_NAMES, total: str | None = "State"
) -> None:
    """Each block's dwelling groups within the published bounds, and each published total, by
    counting records.
    """
    t = people(run).to_pydict()
    block = [
        "".join(p)
        for p in zip(
            *(t[c] for c in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")),
            strict=True,
        )
    ]
    counted: dict[str, list[int]] = {}
    for b, g in zip(block, map(int, t["GQTYPE_PL"]), strict=True):
        counted.setdefault(b, [0] * 8)[g] += 1
    bounds = rows_of(source / "release" / "nmf", "Block", "Constraint")
    blocks = {code for code, _ in bounds}
    assert set(counted) <= blocks
    for b in blocks:
        here = counted.get(b, [0] * 8)
        assert all(x >= low for x, low in zip(here, bounds[b, "hhgq_total_lb"][0], strict=True))
        assert all(x <= high for x, high in zip(here, bounds[b, "hhgq_total_ub"][0], strict=True))
    assert not any(
        g == "3" and v == "1" for g, v in zip(t["GQTYPE_PL"], t["VOTING_AGE"], strict=True)
    )
    totals = {
        c: v[0]
        for (c, _), (v, _) in rows_of(source / "release" / "nmf", "State", "Constraint").items()
    }
    if total == "State":
        assert {s: t["TABBLKST"].count(s) for s in totals} == totals
    elif total == "US":
        assert len(block) == sum(totals.values())


def measured_tree(release: Path) -> Spine:
    """The tree of the files, which has another one of tabulation codes above it."""
    published = spine_file.read(release / "spine.parquet")
    return tree_file.read(release / "nmf" / tree_file.NAME, published).spine


def estimated(folder: Path, out: Path, report: bool = False) -> Path:
    """With its page and tables only if asked for: they take longer than all the rest."""
    less = ("--set", "output.report=false", "--set", "output.tables=false")
    done = CliRunner().invoke(
        cli.main,
        [
            "estimate",
            "--from",
            str(folder),
            "--out",
            str(out),
            "--quiet",
            *(() if report else less),
        ],
    )
    assert done.exit_code == 0, done.output
    return out


# --- whole
# ------------------------------------------------------------------------------------------------------------


def test_our_own_files_alone_give_our_own_microdata(run: Path, tmp_path: Path) -> None:
    assert not is_published(run / "release")
    folder = published(run, tmp_path / "nmf")
    assert is_published(folder)
    out = estimated(folder, tmp_path / "out")
    assert people(out).equals(people(run))
    assert_constraints(out, run)
    ours, theirs = (spine_file.read(r / "release" / "spine.parquet") for r in (run, out))
    assert ours.levels == theirs.levels
    for a, b in zip((*ours.codes, *ours.parent), (*theirs.codes, *theirs.parent), strict=True):
        assert np.array_equal(a, b)
    ours, theirs = (
        spec.of_release((r / "release" / "spec.toml").read_text(), where="") for r in (run, out)
    )
    assert ours.persons.passes == theirs.persons.passes
    noise = [
        {(n.level, n.query): float(n.parameter) for n in s.persons.noise} for s in (ours, theirs)
    ]
    assert noise[1] == pytest.approx(noise[0], rel=1e-2, abs=0.05)


def test_no_budget_is_made_up_for_it(small: Path, tmp_path: Path) -> None:
    """Nobody states what another publisher spent: post-processing needs no plan, and what needs one
    says so.
    """
    out = estimated(published(small, tmp_path / "nmf"), tmp_path / "out")
    written = (out / "release" / "spec.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(written)
    assert not tree.keys() & {"budget", "data", "constraints"}
    said = {(m["level"], m["query"]): m["variance"]["usual"] for m in privacy(out)["measured"]}
    there = {
        (level, q): v
        for level, queries in tree["published"]["variance"].items()
        for q, v in queries.items()
    }
    assert there == said
    assert spec.of_release(written, where="").dump() == written
    done = CliRunner().invoke(cli.main, ["check", str(out / "release" / "spec.toml")])
    assert done.exit_code == 2
    assert "another publisher" in done.output
    opened = open_release(out / "release")
    assert opened.after.universes[0].noise
    with pytest.raises(UserError, match="budget is not known"):
        _ = opened.run


def test_a_conversion_tells_how_far_it_is(small: Path, tmp_path: Path) -> None:
    told = Told()
    convert(published(small, tmp_path / "nmf"), tmp_path / "release", progress=told)
    spine = spine_file.read(tmp_path / "release" / "spine.parquet")
    levels = [(f"convert {lv}", spine.units(lv), spine.units(lv)) for lv in spine.levels]
    assert told.stages == [("scan", None, 0), *levels]


@pytest.mark.parametrize(
    "change, word",
    [
        ("estimation.method=full-information", None),
        ("estimation.method=fullinformation", "estimation.method"),
        ("run.name=mine", "run was settled when this release was measured"),
        ("published.mechanism=geometric", "published was settled when this release was measured"),
        ("estimation.passes.Block=[['hhgq']]", "measured at 'Block', but in no pass"),
        ("estimation.passes.Ward=[['*']]", "'Ward' is not a level"),
        ("rounding.chain=['hispanic']", "does not tell the groups of 'hhgq' apart"),
        ("budget.rho=1", "budget: unknown key"),
    ],
)
def test_what_follows_measurement_can_be_changed_and_nothing_else(
    converted: Path, tmp_path: Path, change: str, word: str | None
) -> None:
    done = CliRunner().invoke(
        cli.main,
        [
            "estimate",
            "--from",
            str(converted),
            "--out",
            str(tmp_path / "out"),
            "--set",
            change,
            "--quiet",
        ],
    )
    assert done.exit_code == (0 if word is None else 2), done.output
    assert (tmp_path / "out").exists() == (word is None)
    if word is None:
        assert (tmp_path / "out" / "release" / "estimates").is_dir()
    else:
        assert word in " ".join(done.output.split())


@pytest.mark.parametrize(
    "spoilt, word",
    [
        (lambda text: text.replace('variance."Block"', 'variance."Ward"'), "published.variance"),
        (lambda text: text.replace('"discrete-gaussian"', '"uniform"'), "there is no mechanism"),
        (lambda text: text.replace('"total" =', '"totl" ='), "totl"),
        (lambda text: text.replace('"total" =', '"total" = "none" #'), "published.variance"),
    ],
)
def test_a_specification_that_does_not_fit_is_refused(
    converted: Path, tmp_path: Path, spoilt: Callable[[str], str], word: str
) -> None:
    shutil.copytree(converted, tmp_path / "release")
    path = tmp_path / "release" / "spec.toml"
    path.write_text(spoilt(path.read_text(encoding="utf-8")), encoding="utf-8")
    with pytest.raises(SpecError, match=word) as caught:
        open_release(tmp_path / "release")
    assert str(path) in str(caught.value)


def test_codes_in_the_style_of_the_bureau_give_the_same_microdata(
    run: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    """The geography of the microdata is in the last sixteen digits of the blocks' geocodes."""
    out = estimated(published(run, tmp_path / "nmf", names), tmp_path / "out")
    spine = measured_tree(out / "release")
    assert spine.geocodes("US").tolist() == ["0"]
    assert spine.codes[2][0] == b"0341000" + b"11"
    ours, theirs = (spine_file.read(r / "release" / "spine.parquet") for r in (run, out))
    assert not ours.unlike(theirs)
    assert people(out).equals(people(run))


@pytest.mark.parametrize("seed", range(2))
def test_drifted_files_hold_the_same_measurements(
    run: Path, names: Mapping[str, str], tmp_path: Path, seed: int
) -> None:
    folder = drift(published(run, tmp_path / "nmf", names), seed)
    out = estimated(folder, tmp_path / "out")
    for level in LEVELS:
        there = rows_of(out / "release" / "nmf", level)
        assert there == {
            (names[c], q): v for (c, q), v in rows_of(run / "release" / "nmf", level).items()
        }
    bounds = rows_of(out / "release" / "nmf", "Block", "Constraint")
    assert bounds == {
        (names[c], q): v
        for (c, q), v in rows_of(run / "release" / "nmf", "Block", "Constraint").items()
    }
    assert_constraints(out, run)


def test_small_batches_read_the_same(small: Path, names: Mapping[str, str], tmp_path: Path) -> None:
    folder = drift(published(small, tmp_path / "nmf", names), 5)
    convert(folder, tmp_path / "whole")
    convert(folder, tmp_path / "cut", batch=20_000)
    parts = {
        name: len(list((tmp_path / name / "nmf").rglob("part-*"))) for name in ("whole", "cut")
    }
    assert parts["cut"] > parts["whole"]
    for level in LEVELS:
        assert rows_of(tmp_path / "whole" / "nmf", level) == rows_of(
            tmp_path / "cut" / "nmf", level
        )


def test_what_the_release_says_of_itself(small: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli.main,
        [
            "estimate",
            "--from",
            str(published(small, tmp_path / "nmf")),
            "--out",
            str(tmp_path / "out"),
            "--quiet",
        ],
    )
    assert done.exit_code == 0
    assert "note" not in done.output
    said, ours = privacy(tmp_path / "out"), privacy(small)
    assert (said["private"], said["entropy"], said["ledger"]) == (
        False,
        "as published",
        [],
    )  # that run has a seed
    keys = ("universe", "level", "constraint", "query", "sign")
    outside, known = (
        [tuple(c[k] for k in keys) for c in s["outside_the_guarantee"]] for s in (said, ours)
    )
    assert sorted(outside) == sorted(c for c in known if c[0] == "persons")
    drawn = {(e["level"], e["query"]): e for e in ours["ledger"] if e["universe"] == "persons"}
    assert {(m["level"], m["query"]) for m in said["measured"]} == set(drawn)
    for m in said["measured"]:
        e = drawn[m["level"], m["query"]]
        assert (m["units"], m["of_units"], m["answers"]) == (e["units"], e["units"], e["answers"])
        assert m["variance"]["least"] == m["variance"]["usual"] == m["variance"]["most"]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["release"] == str(tmp_path / "nmf")
    assert not list((tmp_path / "out").glob(".*"))
    again = estimated(tmp_path / "out" / "release", tmp_path / "again")
    assert people(again).equals(people(tmp_path / "out"))


# --- units without measurements
# ---------------------------------------------------------------------------------------


def lost_county(level: str, kind: str, table: pa.Table) -> pa.Table:
    return without("County", "034100011", kinds=("DPQuery", "Constraint"))(level, kind, table)


def no_number(value: float) -> Change:
    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        if (level, kind) != ("County", "DPQuery"):
            return table
        spoilt = [
            value if c == "034100011" else v
            for c, v in zip(
                table["geocode"].to_pylist(), table["variance"].to_pylist(), strict=True
            )
        ]
        return replaced(table, "variance", spoilt)

    return change


def no_value(level: str, kind: str, table: pa.Table) -> pa.Table:
    """A bypassed unit: NaN instead of every answer, and an infinite variance."""
    table = no_number(np.inf)(level, kind, table)
    if (level, kind) != ("County", "DPQuery"):
        return table
    values = [
        [np.nan] * len(v) if c == "034100011" else v
        for c, v in zip(table["geocode"].to_pylist(), table["value"].to_pylist(), strict=True)
    ]
    return replaced(table, "value", values, pa.list_(pa.float64()))


@pytest.mark.parametrize(
    "change",
    [lost_county, no_number(np.nan), no_number(np.inf), no_number(0.0), no_value],
    ids=["no rows", "nan", "inf", "zero", "nan values"],
)
def test_a_bypassed_county_is_there_and_unmeasured(
    small: Path, names: Mapping[str, str], tmp_path: Path, change: Change
) -> None:
    assert names["34001"] == "034100011"
    convert(published(small, tmp_path / "nmf", names, change), tmp_path / "release")
    spine = measured_tree(tmp_path / "release")
    assert b"034100011" in spine.codes[2]
    opened = open_release(tmp_path / "release")
    reader = opened.source(opened.after.universes[0])
    assert "034100011" not in {code for code, _ in rows_of(tmp_path / "release" / "nmf", "County")}
    n = len(spine.codes[2])
    for query in reader.queries("County"):
        m = reader.read("County", query, 0, n)
        assert np.array_equal(np.isinf(m.variance), spine.codes[2] == b"034100011")
        assert not m.values[np.isinf(m.variance)].any()
    measured = [m for m in privacy(tmp_path)["measured"] if m["level"] == "County"]
    assert all(m["units"] == n - 1 and m["of_units"] == n for m in measured)
    if change is lost_county:
        assert_constraints(estimated(tmp_path / "nmf", tmp_path / "out"), small)


def test_a_query_that_only_some_units_or_none_have(small: Path, tmp_path: Path) -> None:
    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        table = without("Tract", "34001000100", query="total")(level, kind, table)
        return without("Block_Group", query="total")(level, kind, table)

    out = estimated(published(small, tmp_path / "nmf", change=change), tmp_path / "out")
    spine = spine_file.read(out / "release" / "spine.parquet")
    reader, tracts = NmfReader(out / "release" / "nmf", spine), len(spine.codes[3])
    assert "total" not in reader.queries("Block_Group")
    assert np.isinf(reader.read("Tract", "total", 0, tracts).variance).sum() == 1
    assert np.isfinite(reader.read("Tract", "hhgq", 0, tracts).variance).all()
    assert_constraints(out, small)


def test_a_level_without_measurements(small: Path, tmp_path: Path) -> None:
    out = estimated(published(small, tmp_path / "nmf", change=no_level("Tract")), tmp_path / "out")
    assert privacy(out)["notes"] == ["nothing is measured at Tract"]
    assert_constraints(out, small)


def no_level(name: str) -> Change:
    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        if level == name and kind == "DPQuery":
            return replaced(table, "variance", [None] * len(table))
        return table

    return change


@pytest.mark.parametrize("change", [without("US"), no_level("US")], ids=["no rows", "no variance"])
def test_an_unmeasured_root_is_estimated_from_below(
    small: Path, tmp_path: Path, change: Change
) -> None:
    """Going down from a histogram that nothing measures would make all the others as arbitrary as
    that.
    """
    out = estimated(published(small, tmp_path / "nmf", change=change), tmp_path / "out")
    assert "full-information" in privacy(out)["notes"][-1]
    assert_constraints(out, small)
    white = [np.mean([r == "01" for r in people(x)["CENRACE"].to_pylist()]) for x in (small, out)]
    assert white[1] == pytest.approx(white[0], abs=0.05)


# --- constraints
# --------------------------------------------------------------------------------------------------------


def national_only(level: str, kind: str, table: pa.Table) -> pa.Table:
    """As the Bureau's: no totals of states."""
    return without("State", kinds=("Constraint",))(level, kind, table)


def add_total(folder: Path, code: str, total: int, like: Path) -> None:
    row = pq.ParquetFile(like).read().slice(0, 1)
    target = folder / "US.parquet" / "Constraint" / "part-00000.parquet"
    target.parent.mkdir(parents=True)
    pq.write_table(replaced(replaced(row, "geocode", [code]), "value", [[total]]), target)


def state_total(run: Path) -> Path:
    return (
        run / "release" / "nmf" / "State.parquet" / "Constraint" / "State=34" / "part-00000.parquet"
    )


def test_the_national_total_alone(run: Path, tmp_path: Path) -> None:
    folder = published(run, tmp_path / "nmf", change=national_only)
    add_total(folder, "", 3000, state_total(run))
    out = estimated(folder, tmp_path / "out")
    assert {(c["constraint"], c["level"]) for c in privacy(out)["outside_the_guarantee"]} == {
        ("total", "US"),
        ("hhgq_total_lb", "Block"),
        ("hhgq_total_ub", "Block"),
    }
    assert_constraints(out, run, total="US")


def test_totals_of_two_levels_agree_or_are_refused(run: Path, tmp_path: Path) -> None:
    folder = published(run, tmp_path / "nmf")
    add_total(folder, "", 3000, state_total(run))
    assert_constraints(estimated(folder, tmp_path / "out"), run)
    shutil.rmtree(folder / "US.parquet" / "Constraint")
    add_total(folder, "", 3001, state_total(run))
    with pytest.raises(UserError, match="3001, but those of level State below it sum to 3000"):
        convert(folder, tmp_path / "no")


def test_totals_of_some_states_are_not_used_and_that_is_said(run: Path, tmp_path: Path) -> None:
    folder = published(run, tmp_path / "nmf", change=without("State", "34", kinds=("Constraint",)))
    done = CliRunner().invoke(
        cli.main, ["estimate", "--from", str(folder), "--out", str(tmp_path / "out"), "--quiet"]
    )
    assert done.exit_code == 0
    assert "State: the total is known for 2 of 3 units" in done.output
    assert_constraints(tmp_path / "out", run, total=None)


def test_other_constraints_are_named(small: Path, tmp_path: Path) -> None:
    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        names = {"hhgq_total_lb_con": "hhgq_xa_lb_con", "hhgq_total_ub_con": "hhgq_va_ub_con"}
        if kind == "Constraint":
            return replaced(
                table, "query_name", [names.get(n, n) for n in table["query_name"].to_pylist()]
            )
        return table

    convert(published(small, tmp_path / "nmf", change=change), tmp_path / "out")
    said = json.loads((tmp_path / "out" / "privacy.json").read_text())
    assert said["notes"] == ["Block: constraints that are not enforced: hhgq_va_ub, hhgq_xa_lb"]
    assert [c["constraint"] for c in said["outside_the_guarantee"]] == ["total"]


def test_units_without_bounds_are_unbounded_and_that_is_said(run: Path, tmp_path: Path) -> None:
    lost = without("Block", "3400100010011000", kinds=("Constraint",))
    convert(published(run, tmp_path / "nmf", change=lost), tmp_path / "out")
    said = json.loads((tmp_path / "out" / "privacy.json").read_text())
    assert said["notes"] == [
        f"Block: hhgq_total_{e} is not given for 1 of 79 units, which are unbounded"
        for e in ("lb", "ub")
    ]
    found = rows_of(tmp_path / "out" / "nmf", "Block", "Constraint")
    assert found["3400100010011000", "hhgq_total_lb"][0] == [0] * 8
    assert min(found["3400100010011000", "hhgq_total_ub"][0]) > 10**10


def state_bounds(run: Path, folder: Path, extra: int) -> None:
    """The bounds of states: the sums of those of their blocks, with lower ones of New Jersey moved
    by ``extra``.
    """
    blocks = pa.concat_tables(
        [pq.ParquetFile(p).read() for p in parts(folder, "Block", "Constraint")]
    )
    sums: dict[tuple[str, str], np.ndarray] = {}
    for code, name, value in zip(
        *(blocks[c].to_pylist() for c in ("geocode", "query_name", "value")), strict=True
    ):
        sums[code[:2], name] = sums.get((code[:2], name), np.zeros(8, dtype=int)) + value
    sums["34", "hhgq_total_lb_con"] = sums["34", "hhgq_total_lb_con"] + extra
    rows = blocks.slice(0, 1).take(pa.array([0] * len(sums)))
    for column, values in (
        ("geocode", [s for s, _ in sums]),
        ("query_name", [n for _, n in sums]),
        ("value", [v.tolist() for v in sums.values()]),
        ("sign", [">=" if "_lb" in n else "<=" for _, n in sums]),
    ):
        rows = replaced(rows, column, values)
    path = folder / "State.parquet" / "Constraint" / "part-bounds.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)


@pytest.mark.parametrize("extra,totals", [(0, False), (1, False), (1, True)])
def test_bounds_of_upper_levels_that_say_more_are_named(
    run: Path, tmp_path: Path, extra: int, totals: bool
) -> None:
    folder = published(run, tmp_path / "nmf", change=None if totals else national_only)
    state_bounds(run, folder, extra)
    convert(folder, tmp_path / "out")
    notes = json.loads((tmp_path / "out" / "privacy.json").read_text())["notes"]
    said = [
        "State: hhgq_total_lb is stricter than the bounds below it for 1 of 3 units: not enforced"
    ]
    assert notes == (said if extra and not totals else [])


# --- other trees and schemas
# ----------------------------------------------------------------------------------------------


def test_a_state_in_two_parts_is_two_units(
    run: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    """The part of a state in American Indian areas has a code of its own, and all below it with
    it.
    """
    out = estimated(in_two_parts(run, names, tmp_path / "nmf"), tmp_path / "out")
    spine = measured_tree(out / "release")
    assert spine.geocodes("State").tolist() == ["034", "036", "042", "136"]
    published = spine_file.read(out / "release" / "spine.parquet")
    assert published.geocodes("State").tolist() == ["34", "36", "42"]
    opened = open_release(out / "release")
    source = opened.source(opened.after.universes[0])
    assert np.isfinite(source.read("State", "total", 0, 4).variance).tolist() == [
        True,
        False,
        True,
        False,
    ]
    assert_constraints(out, run, total=None)


def in_two_parts(run: Path, names: Mapping[str, str], out: Path) -> Path:
    """The published layout with a county of New York in the state's other part: what was measured
    of the state is of neither.
    """
    county = next(n for o, n in names.items() if o[:2] == "36" and len(o) == 5)
    unmeasured = without("State", "036")
    split = {o: "1" + n[1:] if n.startswith(county) else n for o, n in names.items()}
    return published(run, out, split, lambda *given: unmeasured(*given[:2], national_only(*given)))


def state_totals(run: Path, folder: Path, **changed: int) -> dict[str, int]:
    """Adds rows ``joint_total`` for every unit of level State, as changed; the totals of the
    places.
    """
    like = pa.concat_tables(
        [pq.ParquetFile(p).read() for p in parts(run / "release" / "nmf", "State", "Constraint")]
    )
    total = {
        c: v[0] for c, v in zip(like["geocode"].to_pylist(), like["value"].to_pylist(), strict=True)
    }
    codes = ["034", "036", "042", "136"]
    rows = like.slice(0, 1).take(pa.array([0] * 4))
    values = [[changed.get(f"of_{c}", total[c[1:]])] for c in codes]
    for column, new in (
        ("geocode", codes),
        ("query_name", ["joint_total_con"] * 4),
        ("value", values),
    ):
        rows = replaced(rows, column, new)
    path = folder / "State.parquet" / "Constraint" / "part-joint.parquet"
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path)
    return total


def test_the_two_parts_of_a_state_hold_its_total_together(
    run: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    folder = in_two_parts(run, names, tmp_path / "nmf")
    convert(folder, tmp_path / "without")
    notes = json.loads((tmp_path / "without" / "privacy.json").read_text())["notes"]
    assert [n for n in notes if n.startswith("State: 1 place is two units each")]
    total = state_totals(run, folder)
    out = estimated(folder, tmp_path / "out")
    assert not [n for n in privacy(out)["notes"] if "two units" in n]
    assert {(c["constraint"], c["level"]) for c in privacy(out)["outside_the_guarantee"]} == {
        ("joint_total", "State"),
        ("hhgq_total_lb", "Block"),
        ("hhgq_total_ub", "Block"),
    }
    state = people(out)["TABBLKST"].to_pylist()
    assert {c: state.count(c) for c in total} == total


def test_a_nation_whose_parts_are_missing_is_left_out(
    run: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    """An estimate would spread the nation's total over the states that are there. It is the same as
    without the nation's files."""
    folder = published(run, tmp_path / "nmf", names)
    for path in [p for p in folder.rglob("State=*") if p.name != "State=034"]:
        shutil.rmtree(path)
    out = estimated(folder, tmp_path / "out")
    (said,) = [n for n in privacy(out)["notes"] if n.startswith("US is left out")]
    assert "(034) hold" in said
    shutil.rmtree(folder / "US.parquet")
    assert people(estimated(folder, tmp_path / "one")).equals(people(out))


def test_a_part_that_is_missing_far_below_is_refused(
    small: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    """A tract of several, with all below it."""
    spine = spine_file.read(small / "release" / "spine.parquet")
    several = np.flatnonzero(np.bincount(spine.parent[3]) > 1)[0]
    tract = names[spine.code("Tract", int(np.flatnonzero(spine.parent[3] == several)[0]))]

    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        return table.filter(
            pa.array([not c.startswith(tract) for c in table["geocode"].to_pylist()])
        )

    with pytest.raises(
        UserError, match=r"County .* holds .* records, but the units of level Tract below it"
    ):
        convert(published(small, tmp_path / "nmf", names, change), tmp_path / "no")


def test_parts_that_state_different_totals_are_refused(
    run: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    folder = in_two_parts(run, names, tmp_path / "nmf")
    state_totals(run, folder, of_136=1)
    with pytest.raises(UserError, match="unit 036 and another of its place state different totals"):
        convert(folder, tmp_path / "no")
    state_totals(run, folder)
    add_total(folder, "0", 3001, state_total(run))
    with pytest.raises(UserError, match="3001, but those of level State below it sum to 3000"):
        convert(folder, tmp_path / "no")


def test_a_unit_that_stands_for_its_only_child(
    small: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    """A block group of one block, coded and measured as the block, which has no rows at all."""
    spine = spine_file.read(small / "release" / "spine.parquet")
    only = int(np.flatnonzero(np.diff(spine.children("Block")) == 1)[0])
    group, block = (
        names[spine.code("Block_Group", only)],
        names[spine.code("Block", spine.children("Block")[only])],
    )

    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        table = without("Block", block, kinds=("DPQuery", "Constraint"))(level, kind, table)
        if level != "Block_Group":
            return table
        return replaced(
            table, "geocode", [block if c == group else c for c in table["geocode"].to_pylist()]
        )

    out = estimated(published(small, tmp_path / "nmf", names, change), tmp_path / "out")
    made = measured_tree(out / "release")
    assert [len(c) for c in made.codes] == [len(c) for c in spine.codes]
    assert made.geocodes("Block_Group")[made.parent[5][made.find("Block", [block])]].tolist() == [
        block
    ]


def test_unknown_levels_are_ordered_by_their_units(run: Path, small: Path, tmp_path: Path) -> None:
    folder = published(run, tmp_path / "nmf")
    for old, new in zip(LEVELS, ("Nation", "Land", "Kreis", "Zelle", "Gruppe", "Ort"), strict=True):
        (folder / f"{old}.parquet").rename(folder / f"{new}.parquet")
    convert(folder, tmp_path / "out")
    spine = spine_file.read(tmp_path / "out" / "spine.parquet")
    assert spine.levels == ("Nation", "Land", "Kreis", "Zelle", "Gruppe", "Ort")
    folder = published(small, tmp_path / "one", {"": "US"})
    (folder / "US.parquet").rename(folder / "Nation.parquet")
    with pytest.raises(UserError, match="Nation and State is the upper one cannot be told"):
        convert(folder, tmp_path / "no")


def test_a_level_may_be_left_out(small: Path, tmp_path: Path) -> None:
    folder = published(small, tmp_path / "nmf")
    shutil.rmtree(folder / "Tract.parquet")
    out = estimated(folder, tmp_path / "out")
    assert "Tract" not in spine_file.read(out / "release" / "spine.parquet").levels
    assert_constraints(out, small)


def test_housing_units_have_a_schema_of_their_own(
    small: Path, names: Mapping[str, str], tmp_path: Path
) -> None:
    folder = drift(published(small, tmp_path / "nmf", names, universe="nmf-housing"), 2)
    out = estimated(folder, tmp_path / "out", report=True)
    spec = tomllib.loads((out / "release" / "spec.toml").read_text(encoding="utf-8"))
    assert spec["schema"]["name"] == "h1"
    rows = pq.read_table(out / "release" / "microdata" / "units").to_pydict()
    wanted = {
        names[c]: v[0]
        for (c, _), (v, _) in rows_of(
            small / "release" / "nmf-housing", "Block", "Constraint"
        ).items()
    }
    blocks = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
    found = Counter("".join(code) for code in zip(*(rows[c] for c in blocks), strict=True))
    assert {c: found[c[-16:]] for c in wanted} == wanted
    assert (out / "release" / "nmf-housing").is_dir()
    assert "housing units" in (out / "release" / "report.html").read_text(encoding="utf-8")
    assert [p.name for p in (out / "release" / "tables").glob("*_Block.csv")] == ["H1_Block.csv"]


# --- what is not whole
# ----------------------------------------------------------------------------------------------------


def parts(folder: Path, level: str = "Block", kind: str = "DPQuery") -> list[Path]:
    return sorted(p for p in (folder / f"{level}.parquet" / kind).rglob("*.parquet") if p.is_file())


def rewrite(path: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    pq.write_table(change(pq.ParquetFile(path).read()), path)


def spoil(
    level: str, column: str, value: object, kind: pa.DataType | None = None, at: str = "DPQuery"
) -> object:
    """Another value of a column in the first row of the first file of a level."""

    def change(folder: Path) -> None:
        rewrite(
            parts(folder, level, at)[0],
            lambda t: replaced(t, column, [value, *t[column].to_pylist()[1:]], kind),
        )

    return change


def no_levels(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def empty_levels(folder: Path) -> None:
    for path in [p for p in folder.rglob("*.parquet") if p.is_file()]:
        path.unlink()


def cut(folder: Path) -> None:
    parts(folder)[0].write_bytes(parts(folder)[0].read_bytes()[:-100])


def torn(folder: Path) -> None:
    data = bytearray(parts(folder)[0].read_bytes())
    data[100:-20_000] = bytes(len(data) - 20_100)
    parts(folder)[0].write_bytes(data)


def text(folder: Path) -> None:
    parts(folder)[0].write_text("geocode,value\n")


def other_name(folder: Path, column: str, name: str) -> None:
    for path in (p for p in folder.rglob("*.parquet") if p.is_file()):
        rewrite(
            path, lambda t: t.rename_columns([name if c == column else c for c in t.column_names])
        )


def twice(folder: Path) -> None:
    path = parts(folder)[0]
    path.with_name("part-9.parquet").write_bytes(path.read_bytes())


def only_one_county_below(folder: Path) -> None:
    rewrite(
        parts(folder, "County")[0],
        lambda t: pa.concat_tables([t, replaced(t, "geocode", ["34999"] * len(t))]),
    )


def both_universes(folder: Path) -> None:
    rewrite(
        parts(folder, "Tract")[0],
        lambda t: t.drop_columns(["hhgq", "votingage", "hispanic"]).rename_columns(
            [
                "h1" if c == "cenrace" else c
                for c in t.column_names
                if c not in ("hhgq", "votingage", "hispanic")
            ]
        ),
    )


def no_column(name: str, kind: str = "DPQuery") -> Callable[[Path], None]:
    return lambda folder: rewrite(parts(folder, kind=kind)[0], lambda t: t.drop_columns([name]))


def empty_tracts(folder: Path) -> None:
    shutil.rmtree(folder / "Tract.parquet")
    (folder / "Tract.parquet").mkdir()


BROKEN: dict[str, tuple[object, str]] = {
    "no levels": (no_levels, "no folders <Level>.parquet"),
    "levels without files": (empty_levels, "there are no measurements"),
    "a level without rows": (empty_tracts, "has no rows"),
    "a cut file": (cut, "State=34"),
    "a torn file": (torn, "State=34"),
    "no Parquet": (text, "not a readable Parquet file"),
    "an orphan": (
        spoil("Block", "geocode", "99"),
        "Block '99' belongs to no unit of level Block_Group",
    ),
    "a unit in another": (
        spoil("Block", "geocode", "34001000100110000"),
        "begins with '3400100010011000'",
    ),
    "a unit without children": (
        only_one_county_below,
        "County '34999' has no unit of level Tract below it",
    ),
    "another schema": (lambda f: other_name(f, "votingage", "age"), "schema that is built in"),
    "two schemas": (both_universes, "schema 'h1', in other files of 'pl94'"),
    "an unknown recode": (spoil("US", "cenrace", "majorRaces"), "'majorRaces'"),
    "a recode of another attribute": (spoil("US", "cenrace", "hhinstlevels"), "hhinstlevels"),
    "a name that lies": (spoil("State", "query_name", "hhgq_dpq"), "hhgq"),
    "no name": (spoil("Block", "query_name", None), "'query_name' is not text"),
    "a code that is a number": (
        lambda f: rewrite(
            parts(f, "State")[0], lambda t: replaced(t, "geocode", [34] * len(t), pa.int64())
        ),
        "'geocode' is not text",
    ),
    "too few values": (spoil("Block", "value", []), "0 values where the query has"),
    "no values": (spoil("Block", "value", None), "None values where the query has"),
    "a hole in the values": (spoil("State", "value", [None]), "not whole numbers"),
    "half a person": (spoil("State", "value", [0.5], pa.list_(pa.float64())), "not whole numbers"),
    "values that are no lists": (
        lambda f: rewrite(
            parts(f, "US")[0], lambda t: replaced(t, "value", ["1"] * len(t), pa.string())
        ),
        "not lists",
    ),
    "another order of the axes": (spoil("US", "query_shape", [63, 2, 2, 8]), "shape"),
    "a negative variance": (spoil("Block", "variance", -1.0), "negative"),
    "variances that are no numbers": (
        lambda f: rewrite(
            parts(f)[0], lambda t: replaced(t, "variance", ["x"] * len(t), pa.string())
        ),
        "not numbers",
    ),
    "codes in another encoding": (
        lambda f: rewrite(
            parts(f, "State")[0],
            lambda t: replaced(
                t,
                "geocode",
                pa.array([b"\xff4"] * len(t), pa.binary()).view(pa.string()),
                pa.string(),
            ),
        ),
        "not text",
    ),
    "no variances": (no_column("variance"), "'variance'"),
    "no geocodes": (no_column("geocode"), "'geocode'"),
    "no values at all": (no_column("value"), "'value'"),
    "no bounds": (no_column("value", "Constraint"), "'value'"),
    "rows twice": (twice, "two measurements"),
    "another sign": (spoil("State", "sign", "<=", at="Constraint"), "sign '<='"),
    "a negative bound": (spoil("Block", "value", [-1] * 8, at="Constraint"), "negative"),
    "bounds that contradict each other": (
        spoil("Block", "value", [1 << 30] * 8, at="Constraint"),
        "above the upper",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_broken_is_told_in_one_message(small: Path, tmp_path: Path, case: str) -> None:
    change, words = BROKEN[case]
    folder = published(small, tmp_path / "nmf")
    change(folder)  # type: ignore[operator]
    done = CliRunner().invoke(
        cli.main,
        ["estimate", "--from", str(folder), "--out", str(tmp_path / "new" / "out"), "--quiet"],
    )
    assert done.exit_code == 2, done.output
    assert words in done.output
    assert done.output.startswith("das: ")
    assert done.output.count("das: ") == 1
    assert "Traceback" not in done.output
    assert not (tmp_path / "new" / "out").exists()


def test_nothing_to_begin_with(small: Path, tmp_path: Path) -> None:
    def change(level: str, kind: str, table: pa.Table) -> pa.Table:
        return without("Block", query="detailed")(level, kind, without("US")(level, kind, table))

    with pytest.raises(UserError, match="nothing to begin an estimate with"):
        convert(published(small, tmp_path / "nmf", change=change), tmp_path / "out")


def test_no_folder_at_all(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file", tmp_path / "none"):
        done = CliRunner().invoke(
            cli.main, ["estimate", "--from", str(path), "--out", str(tmp_path / "o"), "--quiet"]
        )
        assert done.exit_code == 2
        assert "this is no release" in done.output


def test_a_folder_that_is_taken_is_left_alone(run: Path, tmp_path: Path) -> None:
    folder = published(run, tmp_path / "nmf")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    done = CliRunner().invoke(
        cli.main, ["estimate", "--from", str(folder), "--out", str(tmp_path / "out")]
    )
    assert done.exit_code == 2
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["mine"]


@pytest.mark.parametrize("shape", [True, 4, [2], [3, 2, 1]])
def test_a_shape_that_is_not_the_query_s_is_refused(shape: object) -> None:
    query = Schema.from_attributes("own", {"sex": ["f", "m"], "age": ["0", "1", "2"]}).query(
        "sex * age"
    )
    for known in ([2, 3], [1, 2, 1, 3]):
        check_shape(pa.table({"query_shape": [known]}), 0, query, Path("part"))
    with pytest.raises(UserError, match="the shape of query"):
        check_shape(pa.table({"query_shape": [shape]}), 0, query, Path("part"))
