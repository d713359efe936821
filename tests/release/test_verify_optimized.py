"""A release of the optimized spine: verified from its files, and every way that a share could be
moved is noticed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from das.errors import UserError
from das.files import atomic
from das.files.measurements import nmf
from das.files.release import measured_spine, spine, statement
from das.files.run.ledger import LedgerFile
from das.model.measured_spine import MeasuredSpine
from das.release import verify
from das.report.privacy import privacy_page
from das.runs import pipeline
from das.spec import parse
from tests.altered import sealed
from tests.worlds import ROOT, Worlds

KEYS = ("geography.spine=optimized", "run.seed=3")


@pytest.fixture(scope="module")
def finished(worlds: Worlds) -> Path:
    return worlds.run(*KEYS, data="one state") / "release"


@pytest.fixture
def copied(finished: Path, worlds: Worlds, tmp_path: Path) -> Path:
    return worlds.copy(finished, tmp_path / "release")


def tree_of(release: Path) -> MeasuredSpine:
    return measured_spine.read(
        release / "nmf" / "spine.parquet", spine.read(release / "spine.parquet")
    )


def refused(release: Path, *words: str) -> None:
    with pytest.raises(UserError) as caught:
        verify.statement(release)
    for word in words:
        assert word in str(caught.value), caught.value


def rows_changed(release: Path, level: str, change: Callable[[pa.Table], pa.Table]) -> None:
    """Every row group of the measurements of a level, each of one query, with something else in
    it.
    """
    for path in sorted((release / "nmf" / f"{level}.parquet" / "DPQuery").rglob("*.parquet")):
        file = pq.ParquetFile(path)
        groups = [change(file.read_row_group(g)) for g in range(file.num_row_groups)]
        with pq.ParquetWriter(path, file.schema_arrow) as writer:
            for group in groups:
                writer.write_table(group.cast(file.schema_arrow))


def classes_changed(release: Path, new: dict[str, str]) -> None:
    """The classes of some units, by geocode, in the file of the tree."""
    path = release / "nmf" / "spine.parquet"
    table = pq.read_table(path)
    codes, old = table["geocode"].to_pylist(), table["measured_with"].to_pylist()
    held = pa.array([new.get(code, was) for code, was in zip(codes, old, strict=True)], pa.string())
    pq.write_table(
        table.set_column(table.column_names.index("measured_with"), "measured_with", held), path
    )


def units(tree: MeasuredSpine, level: str, unit_class: str) -> list[str]:
    codes = tree.spine.geocodes(level)
    return [
        str(code)
        for code, there in zip(codes, tree.classes(level)[unit_class], strict=True)
        if there
    ]


def test_a_release_of_the_optimized_spine_is_proved(finished: Path) -> None:
    said, tree = verify.statement(finished), tree_of(finished)
    for d in (d for d in said.ledger if d.universe == "persons"):
        assert d.unit_class is not None
        assert d.units == len(units(tree, d.level, d.unit_class))
    assert said.paths is not None
    paths = said.paths["persons"]
    assert paths[0].name == "plain"
    assert {tuple(p.classes.items()): p.places for p in paths} == dict(tree.places_on)
    assert sum((p.share for p in paths if p.share is not None), Fraction(0)) == 1
    for path in tree.paths:
        assert (
            sum(
                (d.cost for d in said.ledger if d.universe == "persons" and d.place in path),
                Fraction(0),
            )
            == said.totals["persons"]
        )
    assert sum(said.spending["persons"].levels.values()) == said.totals["persons"]
    assert sum(d.cost for d in said.ledger) > said.total  # lines do not add up over classes
    row = said.guarantee["persons"].epsilon[1]
    assert row.between is not None
    assert set(row.between["persons"]) <= {p.name for p in paths}
    words = " ".join(said.says)
    assert "which places have structures" in words
    assert "not upper bounds" in words


def test_the_exact_total_of_a_state_in_two_units_leaves_their_draws_in(finished: Path) -> None:
    """With the totals of whole states known, those of its two branches are not: 13.1260 on the
    tabulation spine.
    """
    said, tree = statement.read_ours(finished), tree_of(finished)
    assert tree.spine.units("State") == 2
    assert "State" in tree.split
    assert {c.constraint for c in said.outside if c.level == "State"} >= {"joint_total"}
    assert said.invariant_neighbours is not None
    assert said.invariant_neighbours["persons"].epsilon == said.guarantee["persons"].epsilon


def test_a_unit_with_another_units_variance_is_noticed(copied: Path) -> None:
    tree = tree_of(copied)
    (code, *_), (other, *_) = (
        units(tree, "Tract", "Tract"),
        units(tree, "Tract", "Tract to Block_Group"),
    )

    def swapped(table: pa.Table) -> pa.Table:
        at = dict(zip(table["geocode"].to_pylist(), table["variance"].to_pylist(), strict=True))
        moved = at | {code: at[other], other: at[code]}
        held = pa.array([moved[c] for c in table["geocode"].to_pylist()], pa.float32())
        return table.set_column(table.column_names.index("variance"), "variance", held)

    rows_changed(copied, "Tract", swapped)
    sealed(copied)
    refused(copied, "variance", code, "the statement gives")


def test_values_that_are_not_those_of_the_ledger_are_noticed_with_every_digest_of_the_statement_right(
    copied: Path,
) -> None:
    def shifted(table: pa.Table) -> pa.Table:
        held = table["value"].to_pylist()
        held[0][0] += 1
        return table.set_column(
            table.column_names.index("value"), "value", pa.array(held, table["value"].type)
        )

    rows_changed(copied, "Tract", shifted)
    sealed(copied)
    refused(copied, "Tract.parquet/DPQuery", "part-00000-00000.parquet", "in ledger.jsonl")


def test_a_unit_that_is_said_to_be_another_place_is_noticed(copied: Path) -> None:
    path = copied / "nmf" / "spine.parquet"
    table = pq.read_table(path)
    places = table["place"].to_pylist()
    places[-2:] = places[:-3:-1]
    swapped = table.set_column(
        table.column_names.index("place"), "place", pa.array(places, pa.string())
    )
    pq.write_table(swapped, path)
    sealed(copied)
    refused(copied, "nmf/spine.parquet", f"is said to be {places[-2]}")


def test_a_share_that_is_moved_in_the_tree_and_in_the_variances_is_noticed(copied: Path) -> None:
    """A block group takes its share back from an only child's chain: the shares of the path still
    sum to 1, but the ledger has other numbers of units."""
    tree = tree_of(copied)
    group = units(tree, "Block_Group", "Block_Group to Block")[0]
    depth = tree.spine.index("Block")
    (child,) = (
        tree.spine.parent[depth] == tree.spine.geocodes("Block_Group").tolist().index(group)
    ).nonzero()[0]
    classes_changed(
        copied, {group: "Block_Group", str(tree.spine.geocodes("Block")[child]): "Block"}
    )
    assert len(units(tree_of(copied), "Block_Group", "Block_Group")) > len(
        units(tree, "Block_Group", "Block_Group")
    )
    plain = units(tree, "Block_Group", "Block_Group")[0]

    def moved(table: pa.Table) -> pa.Table:
        at = dict(zip(table["geocode"].to_pylist(), table["variance"].to_pylist(), strict=True))
        held = pa.array(
            [(at | {group: at[plain]})[c] for c in table["geocode"].to_pylist()], pa.float32()
        )
        return table.set_column(table.column_names.index("variance"), "variance", held)

    rows_changed(copied, "Block_Group", moved)
    sealed(copied)
    refused(copied, "are not those of the plan")


def test_a_share_that_is_moved_to_another_unit_does_not_add_up(copied: Path) -> None:
    tree = tree_of(copied)
    (code, *_), (other, *_) = (
        units(tree, "Tract", "Tract"),
        units(tree, "Tract", "Tract to Block_Group"),
    )
    classes_changed(copied, {code: "Tract to Block_Group", other: "Tract"})
    refused(copied, "shares do not add up to 1 on every path")


def test_rows_of_a_unit_that_is_not_measured_are_noticed_and_missing_rows_of_one_that_is(
    copied: Path, finished: Path
) -> None:
    tree = tree_of(copied)
    bypassed, measured = units(tree, "Block", "unmeasured")[0], units(tree, "Block", "Block")[0]

    def doubled(table: pa.Table) -> pa.Table:
        row = table.filter(pc.equal(table["geocode"], measured))
        row = row.set_column(
            table.column_names.index("geocode"),
            "geocode",
            pa.array([bypassed] * len(row), pa.string()),
        )
        return pa.concat_tables([table, row])

    rows_changed(copied, "Block", doubled)
    refused(copied, bypassed, "which is not measured")
    rows_changed(copied, "Block", lambda t: t.filter(pc.not_equal(t["geocode"], bypassed)))
    rows_changed(copied, "Block", lambda t: t.filter(pc.not_equal(t["geocode"], measured)))
    refused(copied, "no measurement", measured)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda v: v["ledger"][-1].update({"class": "Block_Group"}), ["Block_Group"]),
        (lambda v: v["ledger"][-1].pop("class"), []),
        (lambda v: v["paths"]["persons"][0].update(places=1), ["paths.persons.0.places is 1"]),
        (lambda v: v["paths"]["persons"].pop(), ["on none of the paths"]),
        (
            lambda v: v["guarantee"]["persons"]["epsilon"][1]["between"]["persons"].__setitem__(
                1, "State to Tract"
            ),
            ["between", "State to Tract"],
        ),
        (lambda v: v.pop("paths"), []),
    ],
)
def test_each_fault_of_what_the_statement_says_of_classes_is_noticed(
    copied: Path, change: Callable[[dict], object], words: list[str]
) -> None:
    value = json.loads((copied / "privacy.json").read_text(encoding="utf-8"))
    change(value)
    atomic.write_json(copied / "privacy.json", value)
    refused(copied, *words)


def test_the_page_tells_of_paths_and_classes(finished: Path) -> None:
    said = statement.read_ours(finished)
    page = privacy_page(said, "pl94-2010")
    assert "What a record is seen in" in page
    assert "County to Tract" in page or "county to tract" in page
    assert "largest between" in page


def test_an_interrupted_run_states_what_was_lost_along_paths(
    worlds: Worlds, tmp_path: Path
) -> None:
    """Measuring tracts breaks off. The lost draws have several classes, and a record is in one of
    them.
    """
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    keys = (
        "geography.spine=optimized",
        "run.entropy=forgetful",
        "output.report=false",
        "output.tables=false",
    )
    chosen = parse(text, where="c", overrides=keys)
    run, data = tmp_path / "run", [worlds.data("one state")]
    write = nmf.write

    def failing(folder: Path, level: str, *rest: object, **more: object) -> dict[str, str]:
        if level == "Tract":
            assert list(rest[2])  # type: ignore[call-overload]  # drawn, and then lost
            raise OSError("the disk is full")
        return write(folder, level, *rest, **more)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nmf, "write", failing)
        with pytest.raises(OSError, match="disk is full"):
            pipeline.run(chosen, run, paths=data)
    with pytest.raises(UserError, match="persons at Tract") as caught:
        pipeline.run(chosen, run, paths=data, resume=True)
    *_, tract = LedgerFile(run / "release" / "ledger.jsonl").entries.attempts
    assert (tract.level, tract.key) == ("Tract", None)
    lost = tract.events
    assert {e.unit_class for e in lost} == {"Tract", "Tract to Block_Group"}
    cost = sum((e.cost for e in lost if e.unit_class == "Tract to Block_Group"), Fraction(0))
    assert f"its budget of {cost} " in str(caught.value)
    pipeline.run(chosen, run, paths=data, resume=True, accept_spent=True)
    said = verify.statement(run / "release")
    assert said.totals["persons"] == chosen.persons.plan.cost + cost
    assert len(said.lost) == len(lost)


def test_constraints_above_the_blocks_are_the_sums_of_theirs(copied: Path) -> None:
    for path in sorted((copied / "nmf" / "Tract.parquet" / "Constraint").rglob("*.parquet")):
        table = pq.read_table(path)
        more = pa.array(
            [[v + 1 for v in row] for row in table["value"].to_pylist()], table["value"].type
        )
        pq.write_table(table.set_column(table.column_names.index("value"), "value", more), path)
    sealed(copied)
    refused(copied, "hhgq_total_lb", "'Tract' is not the sum of those below it")


@pytest.mark.parametrize("where", ["spine.parquet", "nmf/spine.parquet"])
def test_a_column_that_nobody_reads_is_noticed(copied: Path, where: str) -> None:
    """It could carry what is true."""
    table = pq.read_table(copied / where)
    pq.write_table(table.append_column("count", pa.array(range(table.num_rows))), copied / where)
    sealed(copied)
    refused(copied, where, "'count'")


def test_a_folder_beside_the_levels_is_noticed(copied: Path) -> None:
    (copied / "nmf" / "Ward.parquet").mkdir()
    pq.write_table(pa.table({"count": [1]}), copied / "nmf" / "Ward.parquet" / "part.parquet")
    sealed(copied)
    refused(copied, "Ward.parquet is not of a level")
