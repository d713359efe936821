"""Published counts against what measurements say: the truth is inside as often as it should be, and
other counts are not."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from das import cli
from das.errors import InputError, UserError
from das.files.readers import published_pl94
from das.model.source import CountsByBlock
from das.model.spine import Spine
from das.publications.published.files.outside import Outside
from das.release.publications import source_of
from das.tools.comparison.page import FIELDS, PublishedComparison, compare
from tests.files.readers.test_pl94_2020 import State, put
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    """What is measured of three small states."""
    return worlds.run("run.seed=1", data="three thousand")


@pytest.fixture(scope="module")
def published(worlds: Worlds) -> CountsByBlock:
    """The redistricting files that the run was made from: they are the truth."""
    return published_pl94.read([worlds.data("three thousand")])


@pytest.fixture(scope="module")
def found(run: Path, published: CountsByBlock) -> PublishedComparison:
    return compare(source_of(run / "release"), published, coverage=0.9)


def test_published_files_are_read_as_they_are(published: CountsByBlock, worlds: Worlds) -> None:
    assert published.values.sum(axis=1)[0] == 3000
    assert {"P0010001", "P0040073", "H0010003"} <= set(published.columns)
    assert sorted(published.totals("State", "P0010001")) == ["34", "36", "42"]
    assert sum(published.totals("County", "H0010001").values()) == published.values[288].sum()
    (one,) = published_pl94.read([worlds.data("one of three")]).totals("State", "P0010001")
    assert one == "34"
    with pytest.raises(InputError, match="twice"):
        CountsByBlock.joined([published, published])
    with pytest.raises(InputError, match="differ in number"):
        replace(published, columns=("P0010001",))


def test_files_of_2020_have_group_quarters(tmp_path: Path) -> None:
    state = State(7)
    counts = published_pl94.read([put(tmp_path / "zz", state.files())])
    at = counts.columns.index("P0050001")
    assert counts.values[at].sum() == sum(int(h[1:].sum()) for h in state.people.values())
    (tmp_path / "zz" / "zz000032020.pl").unlink()
    with pytest.raises(InputError, match="part 00003 of state ZZ is missing"):
        published_pl94.read([tmp_path / "zz"])
    with pytest.raises(InputError, match="of 2010"):
        published_pl94.read([tmp_path])


def test_the_truth_is_inside_as_often_as_it_should_be(found: PublishedComparison) -> None:
    shares = found.shares()
    assert {s.level for s in shares} == {"State", "County", "Tract", "Block_Group", "Place"}
    assert {s.field for s in shares} <= set(FIELDS)
    exact = {(s.level, s.field): s.exact for s in shares}
    assert exact["State", "P0010001"] == 3
    assert exact["Tract", "H0010001"] > 3
    free = [s for s in shares if s.z_square is not None]
    places = np.array([s.places - s.exact for s in free])
    z = float(np.average([s.z_square or 0 for s in free], weights=places))
    assert 0.85 < z < 1.15
    outside = sum(s.share_outside * s.places for s in free) / places.sum()
    assert 2 < outside < 13  # fewer than 10: small counts are moved into the public range


def test_counts_that_are_not_the_truth_are_outside(run: Path, published: CountsByBlock) -> None:
    """Five times the persons: everywhere, and by as much as they are too many."""
    wrong = replace(published, values=published.values * 5)
    off = compare(source_of(run / "release"), wrong, levels=["County"], fields=["P0010001"])
    assert [s.share_outside for s in off.shares()] == [100.0]
    for row in off.rows():
        assert row.outside == 1
        assert row.published > row.high
        assert abs(row.published / 5 - row.estimate) < 4 * row.standard_error


def test_a_row_is_what_is_published_of_a_place(
    found: PublishedComparison, published: CountsByBlock
) -> None:
    totals = published.totals("Tract", "P0030001")
    rows = [r for r in found.rows() if (r.level, r.field) == ("Tract", "P0030001")]
    assert {r.code: r.published for r in rows} == totals
    assert all(r.geoid == r.code and r.label == "18 years and over" for r in rows)
    assert all((r.low <= r.published <= r.high) == (not r.outside) for r in rows)
    assert found.elsewhere == 0


def test_what_is_not_there_is_refused(run: Path, published: CountsByBlock, tmp_path: Path) -> None:
    source = source_of(run / "release")
    with pytest.raises(UserError, match="no level or kind of area 'Ward'"):
        compare(source, published, levels=["Ward"])
    with pytest.raises(UserError, match="no column 'P0050001' in both"):
        compare(source, published, fields=["P0050001"])
    other = published_pl94.read([put(tmp_path / "zz", State(7).files())])
    with pytest.raises(UserError, match=r"none of the \d+ units of level Block"):
        compare(source, other)


def test_the_command_writes_counts_shares_and_a_page(
    run: Path, worlds: Worlds, tmp_path: Path
) -> None:
    out, files = tmp_path / "out", str(worlds.data("three thousand"))
    args = ["compare", str(run), "--published", files, "--coverage", "0.9", "--level", "County"]
    done = CliRunner().invoke(cli.main, [*args, "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "NOT PRIVATE" in done.output
    with (out / "published.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {r["level"] for r in rows} == {"County"}
    page = (out / "index.html").read_text(encoding="utf-8")
    assert page.count("<tr data-says=") == 6
    assert "(34001)" in page
    for wrong in (["--truth", str(run)], [str(run)]):
        done = CliRunner().invoke(cli.main, [*args, *wrong, "--out", str(tmp_path / "no")])
        assert done.exit_code == 2
        assert "is for one release" in done.output
    done = CliRunner().invoke(cli.main, ["compare", str(run), "--level", "County"])
    assert done.exit_code == 2
    assert "goes with --published" in done.output


def test_names_and_areas_are_from_published_files(published: CountsByBlock) -> None:
    """Of the blocks that are measured; a block elsewhere is in no area."""
    blocks = published.fields["Block"][:20]
    spine = Spine(
        ("US", "Block"), (np.array(["US"]), blocks), (np.zeros(1, int), np.zeros(20, int))
    )
    outside = Outside.of_published(published)
    assert outside.totals.value == published.totals("State", "P0010001")
    kinds = {a.kind: a for a in outside.areas(spine)}
    assert {"Place", "SLDL"} <= set(kinds)
    assert kinds["SLDL"].unit.tolist() == list(range(20))
    county = Spine(
        ("State", "County"),
        (np.array(["34"]), np.array(["34001"])),
        (np.zeros(1, int), np.zeros(1, int)),
    )
    assert outside.areas(county) == ()
    elsewhere = Spine(
        ("US", "Block"), (np.array(["US"]), np.array(["x"])), (np.zeros(1, int), np.zeros(1, int))
    )
    assert outside.areas(elsewhere) == ()
