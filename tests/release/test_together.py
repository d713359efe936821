"""Redistricting and DHC measurements of the same counties: pooled by inverse variance, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from benchmarks.dhc_layout import SmallCensus, small_spine
from das import cli
from das.errors import InputError
from das.estimate.margins_of_error import LevelMargins
from das.estimate.summed import SummedSource
from das.files.measurements import nmf, nmf_reader
from das.files.measurements.nmf_reader import NmfReader
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.publications.dhc.model import strategy
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.model.strategy import MarginOfQuery, finest
from das.publications.published.files.outside import Outside
from das.publications.published.public import estimate_from
from das.release import verify
from das.release.opened import OpenedRelease, open_release

FIXED = DHCP.query(strategy.PERSONS_FIXED)
#: Of the redistricting files. Those of 100^2 are off by 100 in every answer.
VARIANCE = {"total": 1.0, "hispanic": 1e4, "votingage": 1e4, "votingage * hispanic": 400.0}
COUNTIES = ("044100011", "044100031")


@pytest.fixture(scope="module")
def small() -> SmallCensus:
    """A state of one part with two counties."""
    return SmallCensus.simulated(small_spine({"044": 2}), np.array([300, 120]), 2, 1, races=3)


@pytest.fixture(scope="module")
def dhc(small: SmallCensus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together") / "US_DHCP_PROD"
    small.write(folder, small.measured(5))
    return folder


def redistricting(
    small: SmallCensus, root: Path, counties: tuple[str, ...] = COUNTIES, times: int = 1
) -> Path:
    """Measurements of the same persons; ``times``: their number is multiplied by it."""
    codes = (np.array([counties[0][:3]]), np.array(counties))
    spine, rng = Spine(("State", "County"), codes, small.spine.parent), np.random.default_rng(3)
    for level, histogram in small.redistricting.upward(small.spine).items():
        found = []
        for name, variance in VARIANCE.items():
            truth = times * PL94.query(name).answer(histogram.dense())
            noise = np.full(truth.shape, 100.0)
            if variance < 1e4:
                noise = np.rint(rng.normal(0, variance**0.5, truth.shape))
            values = (truth + noise).astype(np.int64)
            asked = np.full(len(values), variance)
            if level == "County" and name == "votingage":
                values[1], asked[1] = 0, np.inf  # not measured
            found.append(Measurement(level, name, 0, values, asked))
        nmf.write(root, level, PL94, spine, found, private=False)
    return root


@pytest.fixture(scope="module")
def made(small: SmallCensus, dhc: Path) -> Path:
    files = redistricting(small, dhc.parent / "US_Person_PL_PROD")
    estimate_from(files, out := dhc.parent / "out", outside=Outside(dhc=dhc))
    return out


@pytest.fixture(scope="module")
def opened(made: Path) -> OpenedRelease:
    return open_release(made / "release")


# --- which margins there are
# ------------------------------------------------------------------------------------------------


def test_margins_are_told_by_cells() -> None:
    """Cells with one answer of a query of the DHC have one of its margin; where there is none, two
    of them have different ones."""
    cell = np.random.default_rng(1).integers(0, DHCP.cells, 40_000)
    for name in ("hispanic * sex", "sex * relgq_4_groups", "gq_constr_groups * age_10_groups"):
        of = DHCP.query(name)
        for asked in ("total", "hhgq", "hhinstlevels", "votingage", "hispanic", "detailed"):
            query = PL94.query(asked)
            fine, coarse = of.at(cell), query.at(FIXED.at(cell))
            pairs = np.unique(fine * query.answers + coarse)
            margin = MarginOfQuery.between(query, of)
            assert (margin is None) == (len(pairs) > len(np.unique(fine)))
            if margin is not None:
                np.testing.assert_array_equal(margin.answer[fine], coarse)
                assert margin.terms == np.bincount(margin.answer).max()


def test_each_query_counts_for_the_finest() -> None:
    """Of those not nested, for the one with the larger gain."""
    of = DHCP.query("age_18_64_116 * relgq_4_groups")
    for wanted in ("votingage", "hhinstlevels"):
        measured = {"total": 1e9, "votingage": 1.0, "hhinstlevels": 1.0} | {wanted: 100.0}
        found = finest(measured, of, 10.0)
        assert found is not None
        assert found.query.name == wanted
    assert finest({"cenrace": 1.0}, of, 10.0) is None
    assert finest({"total": 1.0}, of, 10.0) is None  # 12 answers of ten times the variance


# --- what is pooled
# ------------------------------------------------------------------------------------------------


def raw(folder: Path, code: str, name: str) -> tuple[np.ndarray, float]:
    """The answers and the variance in the file of a county of the DHC."""
    (path,) = (folder / "County.parquet" / "DPQuery").rglob(f"County={code}/*.parquet")
    (row,) = (r for r in pq.ParquetFile(path).read().to_pylist() if r["query_name"] == name)
    return np.array(row["value"]), row["variance"]


def test_hispanic_by_hand(opened: OpenedRelease, dhc: Path) -> None:
    (u,) = opened.after.universes
    root = opened.source(u).root
    own = NmfReader(root, opened.tree(u).spine).read("County", "hispanic", 1, 2)
    by_sex, variance = raw(dhc, "04410003", "hispanic * sex_dpq")
    other = by_sex.reshape(2, 2).sum(axis=0)  # sex comes before hispanic in the schema
    v = 1 / (1 / 1e4 + 1 / (2 * variance))
    found = opened.source(u).read("County", "hispanic", 1, 2)
    np.testing.assert_allclose(found.variance, [v])
    by_hand = v * (own.values[0] / 1e4 + other / (2 * variance))
    np.testing.assert_allclose(found.values[0], by_hand)
    part = opened.source(u).part("County", 1, 2).part("County", 1, 2)
    np.testing.assert_array_equal(part.read("County", "hispanic", 1, 2).values, found.values)


def test_a_query_that_was_not_asked_has_the_margins_alone(opened: OpenedRelease, dhc: Path) -> None:
    (u,) = opened.after.universes
    found = opened.source(u).read("County", "votingage", 1, 2)
    weighted, precision = np.zeros(2), 0.0
    for name in strategy.persons().rho["County"]:
        margin = MarginOfQuery.between(PL94.query("votingage"), DHCP.query(name))
        if margin is not None and "hispanic" not in name and name != "detailed":
            values, variance = raw(dhc, "04410003", f"{name}_dpq")
            precision += 1 / (margin.terms * variance)
            weighted += margin.sums(values) / (margin.terms * variance)
    np.testing.assert_allclose(found.variance, [1 / precision])
    np.testing.assert_allclose(found.values[0], weighted / precision)


def test_estimates_are_those_of_dense_least_squares(opened: OpenedRelease) -> None:
    """Over every single measurement, own and margin, of a county."""
    (u,) = opened.after.universes
    rows = pq.read_table(opened.source(u).root / nmf_reader.NAME).to_pylist()
    reader = NmfReader(opened.source(u).root, opened.tree(u).spine)
    cells, z, weight = [], [], []
    for name in VARIANCE:
        query = PL94.query(name)
        group = PL94.query("votingage * hispanic").at(np.arange(PL94.cells))
        design = np.zeros((query.answers, 4))
        design[query.index, group] = 1
        m = reader.read("County", name, 0, 1)
        told = [(m.values[0], m.variance[0])]
        told += [
            (np.array(r["value"]), r["variance"])
            for r in rows
            if (r["geocode"], r["query_name"]) == (COUNTIES[0], f"{name}_dpq")
        ]
        for values, variance in told:
            cells.append(design)
            z.append(values)
            weight.append(np.full(len(values), 1 / variance))
    x, y, w = np.concatenate(cells), np.concatenate(z), np.concatenate(weight)
    covariance = np.linalg.inv(x.T @ (w[:, None] * x))
    columns = PL94.query("votingage * hispanic").index == np.arange(4)[:, None]
    bounds = opened.bounds(u)["County"]
    level = LevelMargins.for_level("County", PL94, opened.source(u), bounds)
    value, error = level.read(opened.source(u), columns, 0, 1)
    np.testing.assert_allclose(value[0], covariance @ (x.T @ (w * y)))
    np.testing.assert_allclose(error[0], np.sqrt(np.diag(covariance)))


def test_parts_of_a_place_add_up(opened: OpenedRelease) -> None:
    """Pooled values are floats."""
    (u,) = opened.after.universes
    source, spine = opened.source(u), opened.tree(u).spine
    every = [np.zeros(1, dtype=bool), np.ones(2, dtype=bool)]  # no state
    tree = MeasuredSpine.of_measured(spine, every, np.arange(2))
    summed, parts = SummedSource(source, tree, spine, PL94), source.read("County", "hispanic", 0, 2)
    found = summed.read("State", "hispanic", 0, 1)
    np.testing.assert_allclose(found.values[0], parts.values.sum(axis=0))
    np.testing.assert_allclose(found.variance[0], parts.variance.sum())


def test_published_counts_are_as_near_as_the_dhc(small: SmallCensus, opened: OpenedRelease) -> None:
    """The redistricting files alone are off by about 100."""
    (u,) = opened.after.universes
    query = PL94.query("hispanic")
    off = opened.published(u).answer(query) - query.answer(small.redistricting.dense())
    assert np.abs(off).max() < 6 * (2 * 32.3) ** 0.5
    assert verify.check(opened.folder)


def test_a_release_is_estimated_again_with_both(made: Path, tmp_path: Path) -> None:
    estimate_from(made / "release", tmp_path / "again")
    for path in (made / "release" / "microdata").rglob("*.parquet"):
        there = tmp_path / "again" / path.relative_to(made)
        assert there.read_bytes() == path.read_bytes()


# --- what is not
# ------------------------------------------------------------------------------------------------


def test_other_places_and_other_persons_are_refused(
    small: SmallCensus, dhc: Path, tmp_path: Path
) -> None:
    other = redistricting(small, tmp_path / "other", ("050100011", "050100031"))
    with pytest.raises(InputError, match="no unit that the redistricting files measured"):
        estimate_from(other, tmp_path / "no", outside=Outside(dhc=dhc))
    more = redistricting(small, tmp_path / "more", times=9)
    with pytest.raises(InputError, match="standard deviations apart"):
        estimate_from(more, tmp_path / "no", outside=Outside(dhc=dhc))
    assert not (tmp_path / "no").exists()


def test_units_of_one_publication_alone_are_noted(
    small: SmallCensus, dhc: Path, tmp_path: Path
) -> None:
    some = redistricting(small, tmp_path / "some", ("044100011", "044100051"))
    found = estimate_from(some, tmp_path / "out", outside=Outside(dhc=dhc))
    said = " ".join((*found.cost, *found.notes))
    assert "1 of 2 units of County are not in the redistricting files" in said
    assert "1 of 2 units of County are not in the DHC's files" in said
    opened = open_release(tmp_path / "out" / "release")
    (u,) = opened.after.universes
    assert opened.source(u).read("County", "hispanic", 0, 2).variance.tolist()[1] == 1e4


@pytest.mark.parametrize(
    "release, other, says",
    [
        ("US_DHCP_PROD", "US_DHCP_PROD", "adds the DHC's persons to redistricting persons"),
        ("US_Person_PL_PROD", "US_Person_PL_PROD", "no measurements of the DHC's persons"),
        ("out/release", "US_DHCP_PROD", "leave out --totals, --published and --with"),
    ],
)
def test_misuse_is_one_message(
    made: Path, tmp_path: Path, release: str, other: str, says: str
) -> None:
    given = ["--from", str(made.parent / release), "--with", str(made.parent / other)]
    result = CliRunner().invoke(
        cli.main, ["estimate", *given, "--out", str(tmp_path / "o"), "--quiet"]
    )
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
    assert not (tmp_path / "o").exists()
