"""Whether a release of the Detailed DHC is what its privacy statement says: each way that it can
differ. That every file is held against its digest is in tests/contract/test_alteration.py."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from das.accounting.document import Statement
from das.engine import Silent
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.run.ledger import LedgerFile
from das.publications.detailed.release import open_groups
from das.release import verify
from das.runs.recomputing import check_recomputed
from tests.altered import resealed, sealed
from tests.detailed import runs

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("groups")
    parameters, data = runs.given(folder, change=runs.thresholds(2, 10**6, 10**6))
    return runs.go(parameters, data, folder / "run").directory.release


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("homes")
    return runs.go(
        *runs.given(folder, "households"), folder / "run", "households"
    ).directory.release


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def refused(release: Path, *words: str) -> None:
    with pytest.raises(UserError) as caught:
        verify.statement(release)
    for word in words:
        assert word in str(caught.value)


def alter(release: Path, change: Change) -> None:
    value = json.loads((release / "privacy.json").read_text(encoding="utf-8"))
    change(value)
    atomic.write_json(release / "privacy.json", value)


# --- as it is
# --------------------------------------------------------------------------------------------------


def test_releases_as_they_were_written(finished: Path, homes: Path, root: Path) -> None:
    schema = json.loads(
        (root / "docs" / "privacy-statement.schema.json").read_text(encoding="utf-8")
    )
    for release in (finished, homes):
        said: Statement = verify.statement(release)
        opened = open_groups(release)
        plan = opened.spec.universes[0].plan
        assert (
            said.total == plan.cost == max(opened.spec.parameters.cost(run) for run in ("us", "pr"))
        )
        assert len(said.ledger) == len(plan.measurements)
        assert {line.stability for line in said.ledger} == {p.stability for p in opened.spec.plans}
        jsonschema.validate(
            json.loads((release / "privacy.json").read_text(encoding="utf-8")), schema
        )
        assert {"spec.toml", "regions.parquet", "ledger.jsonl", "parameters/config.json"} <= set(
            said.digests
        )


def test_the_ledger_costs_what_the_plan_does(finished: Path) -> None:
    """Line by line, and group by group: units are those of the measurements."""
    opened, entries = open_groups(finished), LedgerFile(finished / "ledger.jsonl").entries
    for plan in opened.spec.plans:
        attempt = entries.last()["persons", plan.level]
        assert tuple(attempt.events) == opened.events(plan)
        drawn = {e.query: e for e in attempt.events}
        assert sum(e.cost for q, e in drawn.items() if q != "total only") == plan.cost
        assert all(e.cost == plan.cost for q, e in drawn.items() if q == "total only")
        measured = sum(len(m.size) for m in opened.measured(plan))
        of_class = {e.unit_class: e.units for e in attempt.events}
        assert sum(of_class.values()) == measured


# --- the statement
# ------------------------------------------------------------------------------------------------

#: What is believed, and has a digest alone.
WORDS = ("software", "digests")


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where every number and text of a statement is."""
    if isinstance(value, dict):
        return [leaf for k, v in value.items() for leaf in leaves(v, (*path, k))]
    if isinstance(value, list):
        return [leaf for i, v in enumerate(value) for leaf in leaves(v, (*path, i))]
    return [path]


def other(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 + 0.01
    return "1/7" if value[:1].isdigit() else f"{value} "


def test_no_value_can_be_altered(copied: Path) -> None:
    """Of lines and of levels that are alike, one."""
    original = (copied / "privacy.json").read_text(encoding="utf-8")
    tree, tried = json.loads(original), set[tuple[Any, ...]]()
    levels = {line["level"] for line in tree["ledger"]}
    for path in leaves(tree):
        kind = tuple("*" if isinstance(p, int) or p in levels else p for p in path)
        if path[0] in WORDS or kind in tried:
            continue
        tried.add(kind)

        def change(v: dict[str, Any], path: tuple[Any, ...] = path) -> None:
            for key in path[:-1]:
                v = v[key]
            v[path[-1]] = other(v[path[-1]])

        alter(copied, change)
        refused(copied)
        (copied / "privacy.json").write_text(original, encoding="utf-8")
    assert len(tried) > 40
    verify.statement(copied)


@pytest.mark.parametrize(
    "field",
    ["ledger", "paths", "changes", "guarantee", "rho", "what_this_means", "curve", "spending"],
)
def test_no_part_can_be_left_out(copied: Path, field: str) -> None:
    def shorten(v: dict[str, Any]) -> None:
        held = v[field]["persons"] if isinstance(v[field], dict) else v[field]
        (
            held.pop()
            if isinstance(held, list)
            else v.pop(field)
            if not isinstance(held, dict)
            else held.popitem()
        )

    alter(copied, shorten)
    refused(copied)


# --- the ledger
# ------------------------------------------------------------------------------------------------


def test_every_line_of_the_ledger_is_held(copied: Path) -> None:
    """Left out, or there twice, with every seal made again: of each kind of line, of a level of
    each run, and the last.
    """
    path = copied / "ledger.jsonl"
    original = path.read_bytes()
    statement, page = (copied / "privacy.json").read_bytes(), (copied / "privacy.html").read_bytes()
    lines = original.splitlines(keepends=True)
    kinds = {
        line.partition(b":")[0]
        + line[line.find(b'"query"') :][:30]
        + line[line.find(b'"PR-') :][:4]: i
        for i, line in enumerate(lines)
    }
    assert len(kinds) > 6
    for i in kinds.values():
        for changed in ([*lines[:i], *lines[i + 1 :]], [*lines[: i + 1], *lines[i:]]):
            path.write_bytes(b"".join(changed))
            refused(copied)
            if b'"draw"' not in lines[i] and len(changed) > len(lines):
                continue  # a repeated line says nothing new, except for the digest
            try:
                sealed(copied)
            except UserError:
                pass
            else:
                refused(copied)
            (copied / "privacy.json").write_bytes(statement)
            (copied / "privacy.html").write_bytes(page)
    path.write_bytes(original)
    verify.statement(copied)


def test_every_field_of_a_draw_is_held(copied: Path) -> None:
    path = copied / "ledger.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    at = next(i for i, x in enumerate(lines) if '"draw"' in x and '"stability"' in x)
    draw = json.loads(lines[at])["draw"]
    assert {
        "stability",
        "class",
        "sigma_sq",
        "rho",
        "units",
        "answers",
        "query",
        "level",
    } <= draw.keys()
    for key in draw:
        said = dict(draw)
        said[key] = other(said[key])
        path.write_text(
            "\n".join([*lines[:at], json.dumps({"draw": said}), *lines[at + 1 :]]) + "\n",
            encoding="utf-8",
        )
        refused(copied)
    del draw["stability"]
    path.write_text(
        "\n".join([*lines[:at], json.dumps({"draw": draw}), *lines[at + 1 :]]) + "\n",
        encoding="utf-8",
    )
    refused(copied)


# --- measurements, sealed again
# ----------------------------------------------------------------------------------


def part(release: Path, level: str = "STATE-detailed") -> Path:
    return min((release / "nmf" / f"{level}.parquet").rglob("part-*.parquet"))


def test_measurements_of_another_level(copied: Path) -> None:
    """Two files that have as many groups: seals are right, and noise is not."""
    one, two = part(copied, "USA-detailed"), part(copied, "USA-regional")
    a, b = one.read_bytes(), two.read_bytes()
    one.write_bytes(b)
    two.write_bytes(a)
    resealed(copied)
    refused(copied, "nmf/USA-")


def test_noise_of_another_level_is_noticed_where_the_groups_are_the_same(copied: Path) -> None:
    path = part(copied)
    table = pq.read_table(path)
    said = table.schema.metadata or {}
    assert any(b": sigma" in k for k in said)
    pq.write_table(
        table.replace_schema_metadata({k: b"7/2" if b": " in k else v for k, v in said.items()}),
        path,
    )
    resealed(copied)
    refused(copied, "its noise is not that of the plan")


def test_a_group_that_is_missing(copied: Path) -> None:
    path = part(copied)
    table = pq.read_table(path)
    pq.write_table(
        table.slice(0, len(table) - 1).replace_schema_metadata(table.schema.metadata), path
    )
    resealed(copied)
    refused(copied, "a group is missing")


def test_a_part_that_is_missing(copied: Path) -> None:
    """With every mention of it."""
    path = part(copied)
    path.unlink()
    resealed(copied)
    refused(copied, "these are not all groups of STATE detailed")


def test_a_part_that_is_there_twice(copied: Path) -> None:
    path = part(copied)
    shutil.copy(path, path.with_name("part-00001-00001.parquet"))
    resealed(copied)
    refused(copied)


def test_a_table_of_another_size_than_its_first_stage_asks_for(copied: Path) -> None:
    """A size is a function of other published values: another size would have been chosen by
    something else.
    """
    path, opened = part(copied), open_groups(copied)
    table = pq.read_table(path)
    size, first = table["TABLE_SIZE"].to_numpy(), table["FIRST_STAGE"]
    at = int(np.flatnonzero(np.asarray(pc.is_valid(first)))[0])
    other = -(10**7) if size[at] else 10**7  # whatever the noise was
    moved = pa.array([other if i == at else v for i, v in enumerate(first.to_pylist())], pa.int64())
    pq.write_table(table.set_column(3, "FIRST_STAGE", moved), path)
    resealed(copied)
    assert opened.spec.plans
    refused(copied, "a table is not of the size that follows")


@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("VALUES", lambda c: pa.array([1.0] * len(c))),
        ("VALUES", lambda c: c.cast(pa.large_list(pa.float64()))),
        ("TABLE_SIZE", lambda c: pa.array(np.asarray(c).astype(np.int64) + 256)),
        ("TABLE_SIZE", lambda c: c.cast(pa.float64())),
        ("FIRST_STAGE", lambda c: c.cast(pa.float64())),
    ],
)
def test_a_column_that_holds_no_whole_numbers(
    copied: Path, column: str, change: Callable[[Any], Any]
) -> None:
    path = part(copied)
    table = pq.read_table(path)
    at = table.schema.get_field_index(column)
    pq.write_table(table.set_column(at, column, change(table[column].combine_chunks())), path)
    resealed(copied)
    refused(copied, "these are no measurements of")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: t.slice(0, 0), "it has no block"),
        (lambda t: t.drop_columns(["PLACE"]), "has no regions of the type PLACE"),
    ],
)
def test_a_list_of_blocks_without_rows_or_a_type(
    copied: Path, change: Callable[[Any], Any], said: str
) -> None:
    path = copied / "regions.parquet"
    table = pq.read_table(path)
    pq.write_table(change(table).replace_schema_metadata(table.schema.metadata), path)
    resealed(copied)
    refused(copied, said)


def test_totals_of_households_decide_their_sizes(homes: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(homes, tmp_path / "copied"))
    path = copied / "pop-group-totals.txt"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("|12\n", "|1200\n"), encoding="utf-8")
    assert path.read_text(encoding="utf-8") != text
    refused(copied)
    sealed(copied)
    refused(copied, "a table is not of the size that follows")


# --- parameters, sealed again
# -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"privacy_budget_p_level_2_usa": 0.25', '"privacy_budget_p_level_2_usa": 0.2'),
        ('"privacy_budget_p_stage_1_fraction": 0.1', '"privacy_budget_p_stage_1_fraction": 0.2'),
        ('"max_race_codes": 8', '"max_race_codes": 7'),
        (": [2,", ": [-99999,"),  # of every level, for some noisy count of some group is below 2
        ('"run_pr": true', '"run_pr": false'),
        ('"privacy_defn": "zcdp"', '"privacy_defn": "puredp"'),
    ],
)
def test_other_parameters_are_another_plan(copied: Path, old: str, new: str) -> None:
    path = copied / "parameters" / "config.json"
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    refused(copied)
    resealed(copied)
    refused(copied)


def test_fewer_iterations_are_another_plan(copied: Path) -> None:
    path = copied / "parameters" / "race-and-ethnicity-code-to-iteration.txt"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("3011|2010\n", "").replace("3010|2010\n", ""), encoding="utf-8")
    resealed(copied)
    refused(copied)


def test_another_delta(copied: Path) -> None:
    path = copied / "spec.toml"
    text = path.read_text(encoding="utf-8")
    assert "1/10000000000" in text
    path.write_text(text.replace("1/10000000000", "1/1000"), encoding="utf-8")
    resealed(copied)
    refused(copied)


def test_regions_that_are_renamed(copied: Path) -> None:
    table = pq.read_table(copied / "regions.parquet")
    said = {
        k: v.replace(b"01001000001", b"01001000009")
        for k, v in (table.schema.metadata or {}).items()
    }
    assert said != table.schema.metadata
    pq.write_table(table.replace_schema_metadata(said), copied / "regions.parquet")
    resealed(copied)
    refused(copied)


def test_tables_that_do_not_follow_from_the_measurements(finished: Path, copied: Path) -> None:
    """A sum of noisy cells that was altered, under a new seal: adding up again shows it."""
    check_recomputed(finished, verify.verified(finished), progress=Silent())
    path = next(
        p
        for p in sorted((copied / "tables").rglob("*"))
        if p.is_file() and p.suffix != ".parquet" and p.stat().st_size > 200
    )
    text = path.read_bytes()
    at = max(i for i, c in enumerate(text) if chr(c).isdigit())
    path.write_bytes(text[:at] + (b"1" if text[at : at + 1] != b"1" else b"2") + text[at + 1 :])
    sealed(copied)
    with pytest.raises(ReleaseError, match="is not what these measurements give"):
        check_recomputed(copied, verify.verified(copied), progress=Silent())
