"""The DHC's persons in the Bureau's layout: estimated as the run that wrote them, or refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import das
from benchmarks.dhc_layout import FIXED, SmallCensus, budgeted, small_spine
from das.engine.tasks import Silent
from das.errors import InputError, ReleaseError, UserError
from das.estimate.outer import refined
from das.estimate.pooled import Upward
from das.model.measurement import RecordingSource
from das.model.names import Names
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release_files import read_persons
from das.publications.published.dhc import open_published_dhc
from das.publications.published.files import dhc
from das.publications.published.files.codes import ROOT
from das.publications.published.files.outside import Outside
from das.publications.published.public import estimate_from
from das.publications.published.separate_trees import filled
from das.release import verify
from das.release.publications import publication_of, require, source_of
from das.release.replicates import SeededNoise

NAME = "US_DHCP_PROD"


def census(states: dict[str, int], people: list[int]) -> SmallCensus:
    return SmallCensus.simulated(small_spine(states), np.array(people), 2, 1, races=3)


@pytest.fixture(scope="module")
def small() -> SmallCensus:
    """A state of one part with two counties."""
    return census({"044": 2}, [300, 120])


@pytest.fixture(scope="module")
def files(small: SmallCensus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("small") / NAME
    small.write(folder, RecordingSource(small.measured(5)))
    return folder


@pytest.fixture(scope="module")
def made(files: Path) -> Path:
    estimate_from(files, out := files.parent / "out")
    return out


def test_the_estimate_is_that_of_the_run_that_wrote_the_files(
    small: SmallCensus, made: Path
) -> None:
    """Count for count. The files have all answers; the run looked at some, and at the same."""
    source = RecordingSource(small.measured(5))
    of = budgeted(small.spine)
    done = refined(Upward(source, small.spine), small.spine, DHCP, of.outer, small.fixed)
    lowest = filled(done.counts["County"], small.facilities).counts
    opened = open_published_dhc(made / "release")
    assert read_persons(opened.folder, opened.spine).same_as(lowest)
    kept = opened.source(opened.universe)
    for level in small.spine.levels:
        for m in source.recorded(level):
            found = kept.read(level, m.query)
            np.testing.assert_array_equal(found.at, m.at)
            np.testing.assert_array_equal(found.values, m.values)
            assert len(m.at) < 0.2 * m.cells * len(m.variance) or m.cells < 1000


def test_what_is_exact_is_met_in_every_unit(small: SmallCensus, made: Path) -> None:
    opened = open_published_dhc(made / "release")
    h = read_persons(opened.folder, opened.spine)
    assert DHCP.possible[h.cell].all()
    for level, here in h.upward(opened.spine).items():
        exact = small.redistricting.upward(small.spine)[level]
        np.testing.assert_array_equal(here.answer(FIXED), exact.dense())
    lived = h.answer(DHCP.query("gqlevels"))[:, 1:]
    assert ((lived > 0) == (small.facilities > 0)).all()
    assert (lived >= small.facilities).all()


def test_it_is_a_release_that_every_command_reads(small: SmallCensus, made: Path) -> None:
    release = made / "release"
    total = pd.read_csv(release / "tables" / "P12_County.csv", dtype={"GEOID": str})
    assert total["GEOID"].tolist() == ["44001", "44003"]
    assert total["P0120001"].tolist() == small.persons.totals().tolist()
    assert (release / "tables" / "PCT12_County.csv").is_file()
    assert "Every county" in (release / "report.html").read_text(encoding="utf-8")
    assert len(verify.check(release)) == 20
    rows = das.read_nmf(made, "County", "sex * hispanic", "04410003")
    assert rows["value"].sum() == pytest.approx(120, abs=6 * rows["variance"].sum() ** 0.5)
    bounds = das.read_nmf(made, "County", kind="Constraint")
    assert set(bounds["query"]) == {"hhgq_total_lb", "hhgq_total_ub"}
    half = publication_of(release)
    for feature in ("area", "plan", "sealed"):
        with pytest.raises(UserError):
            require(half, feature, release)
    with pytest.raises(UserError, match="came from another publisher"):
        half.planned(release)


def test_a_release_is_estimated_again_from_itself(made: Path) -> None:
    estimate_from(made / "release", out := made.parent / "again")
    for name in ("tables", "microdata/persons"):
        for path in sorted((made / "release" / name).iterdir()):
            assert (out / "release" / name / path.name).read_bytes() == path.read_bytes()
    with pytest.raises(UserError, match="does not change"):
        estimate_from(made / "release", made.parent / "no", changes=["estimation.method=topdown"])
    assert not (made.parent / "no").exists()


def test_a_replicate_has_new_noise_and_the_same_exact_counts(
    small: SmallCensus, made: Path
) -> None:
    source = source_of(made / "release")
    counts = source.published()
    one, other = (source.again(counts, SeededNoise(7, n))["persons"] for n in (1, 2))
    assert not one.same_as(other)
    for h in (one, other):
        np.testing.assert_array_equal(h.answer(FIXED), small.redistricting.dense())


def test_no_interval_says_that_a_redistricting_count_has_no_error(made: Path) -> None:
    """The total of a county is a published count: held fixed, and not covered."""
    source = source_of(made / "release")
    for u, table in source.tables:
        if table.name == "P12":
            assert not source.exact(u, table, "County").any()


class _Stopped(Silent):
    """Ctrl-C at the first stage whose name begins so."""

    def __init__(self, at: str) -> None:
        self.at = at

    def stage(self, name: str, units: int | None) -> None:
        if name.startswith(self.at):
            raise KeyboardInterrupt


@pytest.mark.parametrize("at", ["check State", "estimate dhcp: State, pass 1", "tables"])
def test_an_interruption_leaves_nothing(files: Path, tmp_path: Path, at: str) -> None:
    if at == "tables":
        files = files.parent / "out" / "release"  # whose answers are read faster
    with pytest.raises(KeyboardInterrupt):
        estimate_from(files, tmp_path / "out", progress=_Stopped(at))
    assert not (tmp_path / "out").exists()


# --- some of the files
# ------------------------------------------------------------------------------------------------


@pytest.fixture
def some(files: Path, tmp_path: Path) -> Path:
    """A copy of the files, the large ones linked."""
    out = tmp_path / NAME
    for path in (p for p in files.rglob("*") if p.is_file()):
        new = out / path.relative_to(files)
        new.parent.mkdir(parents=True, exist_ok=True)
        if "Constraint" in path.parts:
            shutil.copyfile(path, new)
        else:
            new.symlink_to(path)
    return out


Rows = list[dict[str, Any]]


def altered(folder: Path, level: str, change: Callable[[Rows], Rows], every: bool = False) -> None:
    """Change the rows of the first constraint file of a level, or of all."""
    paths = sorted((folder / f"{level}.parquet" / "Constraint").rglob("*.parquet"))
    for path in paths if every else paths[:1]:
        table = pq.read_table(path)
        rows = change(table.to_pylist())
        pq.write_table(pa.Table.from_pylist(rows, table.schema), path)


def removed(folder: Path, code: str) -> None:
    for path in folder.rglob(f"*={code}"):
        shutil.rmtree(path)


def test_a_state_without_some_of_its_counties_is_left_out(some: Path) -> None:
    """An estimate would give the persons of the missing county to the one that is there."""
    removed(some, "04410003")
    told = dhc.read(some)
    assert told.spine.levels == ("County",)
    assert told.counts.totals().tolist() == [300]
    assert told.published.geocodes("County").tolist() == ["44001"]
    assert any("State is left out: it holds 420 records" in note for note in told.notes)


def test_two_counties_alone_have_an_unmeasured_unit_above_them(some: Path) -> None:
    shutil.rmtree(some / "State.parquet")
    told = dhc.read(some)
    assert told.spine.levels == (ROOT, "County")
    assert any("nothing measures" in note for note in told.notes)


def _row(name: str, **columns: Any) -> Callable[[Rows], Rows]:
    """Other values in the columns of a constraint; without any, its row is left out."""

    def change(rows: Rows) -> Rows:
        assert any(r["query_name"] == name for r in rows)
        out = []
        for row in rows:
            if row["query_name"] != name:
                out.append(row)
            elif columns:
                new = {c: v(row[c]) if callable(v) else v for c, v in columns.items()}
                out.append(row | new)
        return out

    return change


def _moved(value: list[int]) -> list[int]:
    """One person in another cell."""
    first = next(i for i, n in enumerate(value) if n)
    return [n - (i == first) + (i == first + 1) for i, n in enumerate(value)]


@pytest.mark.parametrize(
    "level, change, says",
    [
        ("County", _row("pl94_con"), "is not given for 1 of 2 units of County"),
        ("County", _row("pl94_con", sign=">="), "has the sign '>='"),
        ("County", _row("pl94_con", age="age_38_groups"), "shape of query|counts by"),
        ("State", _row("pl94_con", value=_moved), "'044'.*are not the sums of those below"),
        (
            "County",
            _row("hhgq_total_ub_con", value=lambda v: [0] * len(v)),
            "outside of the bounds that its facilities set",
        ),
        ("County", _row("relgq0_lessthan15_con", age="age_lt16"), "combinations cannot occur"),
        ("County", _row("relgq0_lessthan15_con", value=[1]), "a value is 1"),
    ],
)
def test_what_contradicts_itself_or_the_schema_is_refused(
    some: Path, level: str, change: Callable[[Rows], Rows], says: str
) -> None:
    altered(some, level, change)
    with pytest.raises((InputError, ReleaseError), match=says):
        dhc.read(some)


def test_measurements_of_other_people_are_refused(some: Path) -> None:
    """Exact counts of one census, and measurements of another one, 3 times as large."""
    tripled = _row("pl94_con", value=lambda v: [3 * n for n in v])
    for level in ("State", "County"):
        altered(some, level, tripled, every=True)
    with pytest.raises(InputError, match="1,260 persons by its redistricting counts"):
        dhc.read(some)


def test_bounds_that_are_not_given_are_noted(some: Path) -> None:
    def without(rows: Rows) -> Rows:
        return [r for r in rows if not r["query_name"].startswith("hhgq")]

    altered(some, "County", without, every=True)
    told = dhc.read(some)
    assert any("bounds by type of group quarters are not given" in note for note in told.notes)
    assert (told.upper == -1).all()


# --- counties in two branches
# ------------------------------------------------------------------------------------------------


def test_a_county_in_two_branches_is_the_sum_of_its_parts(tmp_path: Path) -> None:
    """Two parts of a state without a nation: trees of their own, each as if it were alone."""
    whole = census({"004": 1, "104": 1}, [150, 90])
    source = RecordingSource(whole.measured(3))
    whole.write(tmp_path / NAME, source)
    shutil.rmtree(tmp_path / NAME / "US.parquet")
    called = Names(np.array([b"04001"]), np.array(["Apache County"]))
    named = Outside(names={"County": called})
    estimate_from(tmp_path / NAME, out := tmp_path / "out", outside=named)
    opened = open_published_dhc(out / "release")
    assert opened.spine.levels == (ROOT, "State", "County")
    assert opened.spine.geocodes("County").tolist() == ["04001"]
    assert opened.spine.names[2].tolist() == ["Apache County"]
    assert opened.tree.geocodes("County").tolist() == ["00410001", "10410001"]
    found = read_persons(opened.folder, opened.spine)
    np.testing.assert_array_equal(found.answer(FIXED)[0], whole.redistricting.dense().sum(axis=0))
    for number, tree in enumerate(opened.trees):
        assert len(opened.of_tree(number).read("State", "detailed").at)
        assert tree.lowest == slice(number, number + 1)
    with pytest.raises(UserError, match="sums of two that were measured"):
        source_of(out / "release").planned()
    assert len(verify.check(out / "release")) == 20
