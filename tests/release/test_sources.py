"""What intervals need from a publication: it is alike for each, including an unknown one."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from das.engine import Silent
from das.errors import UserError
from das.files.release import table_export
from das.files.release import tables as table_files
from das.files.run.run_directory import tree_digests
from das.model.constraint import count_range
from das.model.histogram import Histogram
from das.model.not_private import Private
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe
from das.release import interval_writing
from das.release.publications import source_of
from das.release.replicate_source import IntervalOptions, ReleaseSource, ReplicateSource
from das.tables import Table, universe_tables
from tests.test_architecture import imports, sources
from tests.worlds import Worlds

# --- a release of each publication
# ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=["counts over a tree", "the DHC"])
def source(request: pytest.FixtureRequest, worlds: Worlds) -> ReleaseSource:
    counts = request.param == "counts over a tree"
    run = worlds.run("run.seed=1", data="one thousand") if counts else worlds.dhc()
    return source_of(run / "release")


def test_its_tables_are_those_that_are_published(source: ReleaseSource) -> None:
    there = {p.stem for p in (source.folder / "tables").glob("*.csv")}
    assert {f"{t.name}_{level}" for _, t, level in source.chosen()} == there
    assert {source.universe(t).name for _, t in source.tables} == {u.name for u in source.universes}
    found = table_export.there(source.folder, [t for _, t in source.tables], source.spine.levels)
    assert {t.name: set(levels) for t, levels in found} == {
        t.name: set(source.levels(t)) for _, t in source.tables
    }


def test_its_counts_are_those_under_its_tables(source: ReleaseSource) -> None:
    """And they are where its bounds say that counts can be."""
    counts = source.published()
    assert set(counts) == {u.name for u in source.planned()}
    checked = 0
    for u in source.universes:
        levels, bounds = counts[u.name].upward(source.spine), source.bounds(u)
        for table in [t for other, t in source.tables if other.name == u.name][:2]:
            for level in source.levels(table):
                rows = table_files.read(source.folder / "tables" / f"{table.name}_{level}.csv")
                assert np.array_equal(table.values(levels[level]), rows.values)
                if level in bounds:
                    least, most = count_range(bounds[level], table.masks, 0, len(rows.values))
                    assert ((least <= rows.values) & (rows.values <= most)).all()
                checked += 1
    assert checked > 5


def test_what_is_known_is_told_in_one_way(source: ReleaseSource) -> None:
    """By bounds, or as exact columns; and what rests on another release says so."""
    for u, table, level in source.chosen():
        bounded, exact = level in source.bounds(u), source.exact(u, table, level)
        assert bounded == (exact is None)
        assert exact is None or exact.shape == (len(table.columns),)
        if bounded:
            break  # bounds of every table are those of its universe
    assert source.keeps_earlier_counts == bool(source.beside)
    assert set(source.beside) <= set(source.says("ct"))
    assert (source.measured is None) == source.keeps_earlier_counts


#: How the names of the modules of the family begin.
BEGIN = ("area_", "interval", "own_", "published_", "repl", "sources")


def test_no_module_of_the_family_asks_which_publication_it_has() -> None:
    """Of those that make rules, intervals, and tables of them."""
    rooms = ("das.replicates", *(f"das.release.{of}" for of in BEGIN))
    commands = ("cli.intervals", "cli.tables", "tools.areas.command")
    users = {f"das.{m}" for m in ("api.reading", "api.intervals", *commands)}
    family = {m for m in sources() if m.startswith(rooms)} | users
    assert len(family) > 12
    asking = {
        m
        for m in family
        if imports(m) & {"das.publications.dhc.release", "das.publications.dhc.replicates"}
    }
    assert not asking


# --- one that nobody has heard of
# ------------------------------------------------------------------------------------------------

PEOPLE = Universe(PERSONS, PL94)
P1 = next(t for t in universe_tables(PEOPLE) if t.name == "P1")
TREE = Spine.from_frame(
    {"State": ["1", "1", "1"], "County": ["11", "11", "12"], "Block": ["111", "112", "121"]},
    ["State", "County", "Block"],
)
#: Persons of one race in the three blocks: as published, and as three replicates have them.
WHITE = [[30, 8, 5], [31, 6, 5], [29, 9, 5], [32, 7, 5]]
#: Of another race: what an earlier publication says.
BLACK = [4, 0, 2]


@dataclass(frozen=True, eq=False)
class HeldSource(ReplicateSource):
    """Down to counties, and resting on something: of some races it is said before."""

    beside = ("Told by nobody.",)
    keeps_earlier_counts = True

    def levels(self, table: Table) -> tuple[str, ...]:
        return self.spine.levels[:2]

    def exact(self, u: Universe, table: Table, level: str) -> np.ndarray:  # type: ignore[type-arg]
        return np.array(table.columns) == "P0010003"

    def described(
        self, out: Path, asked: IntervalOptions, tables: Collection[str]
    ) -> Mapping[str, str]:
        return {"note.txt": f"{asked.count} of {', '.join(tables)}"}


@dataclass(frozen=True)
class HeldMaker:
    """Adds ``more`` of another race to what it holds."""

    more: int = 0
    own: Path | None = None
    private: Private = True
    universes: tuple[Universe, ...] = (PEOPLE,)

    @property
    def identity(self) -> dict[str, Any]:
        return {"of": self.more}

    def counts(self, number: int) -> tuple[Any, dict[str, Histogram]]:
        count = np.array([WHITE[number], BLACK, [self.more] * 3])
        race, block = np.nonzero(count)
        cell = np.ravel_multi_index((0 * race, 0 * race + 1, 0 * race, race), PL94.shape)
        h = Histogram.from_triplets(
            len(TREE.codes[-1]), PL94.cells, block, cell, count[race, block]
        )
        return TREE.codes[-1], {PEOPLE.name: h}

    def source(self, out: Path, files: int) -> HeldSource:
        assert files == 4
        assert len(list(out.glob("replicates/*/*/*.parquet"))) == files
        return HeldSource(TREE, ((PEOPLE, P1),), True, out)


def made(out: Path, maker: HeldMaker, *, resume: bool = False, workers: int = 1) -> dict[str, int]:
    asked = IntervalOptions(3, 0, 0.9)
    return interval_writing.make(
        maker, out, asked, workers=workers, resume=resume, progress=Silent()
    )


def test_a_source_of_its_own_has_intervals(tmp_path: Path) -> None:
    rows = made(tmp_path / "out", HeldMaker())
    assert set(rows) == {"P1_State.parquet", "P1_County.parquet"}
    said = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert said["says"][-1] == "Told by nobody."
    assert (tmp_path / "out" / "note.txt").read_text() == "3 of P1"
    county = pd.read_parquet(tmp_path / "out" / "P1_County.parquet").set_index(
        ["GEOID", "variable"]
    )
    total, white, black = (county.xs(f"P001000{n}", level="variable") for n in (1, 3, 4))
    assert white["value"].tolist() == [38, 5]
    assert (white["basis"] == "exact").all()
    assert total["basis"].tolist() == ["given earlier counts", "not covered"]
    assert total["lower"].isna().tolist() == [False, True]
    assert total["rmse"].iloc[0] == pytest.approx(np.sqrt((1 + 0 + 1) / 3))
    assert set(black["basis"]) == {"not covered"}
    assert black["value"].tolist() == [4, 2]


def test_its_folder_goes_on_and_is_of_nothing_else(tmp_path: Path) -> None:
    made(tmp_path / "one", HeldMaker())
    made(tmp_path / "two", HeldMaker(), workers=2)
    assert tree_digests(tmp_path / "one") == tree_digests(tmp_path / "two")
    before = tree_digests(tmp_path / "one")
    with pytest.raises(UserError, match="another of: 0"):
        made(tmp_path / "one", HeldMaker(more=1), resume=True)
    assert tree_digests(tmp_path / "one") == before
    next((tmp_path / "one").glob("replicates/*/replicate=002/*.parquet")).unlink()
    made(tmp_path / "one", HeldMaker(), resume=True)
    assert tree_digests(tmp_path / "one") == before
