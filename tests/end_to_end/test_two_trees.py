"""A release that was measured over another tree than it is published on: what readers and commands
say is of the right one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import das
from das.release.intervals import Intervals
from das.release.opened import open_release
from das.tables import universe_tables
from das.tools.comparison.page import AGREE, ANY_TWO, ONE_CHANGE, compare_two
from das.truth.assessment import truth_of
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.run(
        "geography.spine=optimized",
        "run.seed=7",
        "estimation.method=full-information",
        data="three thousand",
    )


def true_totals(run: Path, level: str) -> pd.Series:
    opened, known = truth_of(run)
    counts = known["persons"][level].open("a test").totals()
    return pd.Series(counts, index=opened.spine.geocodes(level))


def test_the_noise_of_a_published_unit_is_that_of_the_files(run: Path) -> None:
    """Occupied units, which one query tells twice, their number being known: half of the variances
    that the rows of the fewest measured units have."""
    opened = open_release(run / "release")
    u = opened.after.universe("housing")
    (table,) = [t for t in universe_tables(u, {}) if t.name == "H1"]
    intervals = Intervals(opened, u)
    for level in opened.spine.levels:
        units = opened.spine.units(level)
        variance = opened.noisy(u).read(level, "detailed", 0, units).variance
        known = np.isfinite(variance)  # where the tree has no unit, there is none
        assert known.any()
        found = intervals.of_units(level, table.masks)
        varies = known & (found.least[:, 1] < found.most[:, 1])
        assert varies.any()
        error = found.error[varies, 1]
        assert error**2 == pytest.approx(variance[varies] / 2, rel=1e-6)
        assert not found.error[~known].any()
        assert not found.error[:, 0].any()


def test_intervals_are_of_published_units(run: Path) -> None:
    for level in ("County", "Tract", "Block_Group"):
        rows = das.read_intervals(run, "P1", level)
        rows = rows[rows["field"] == "P0010001"].set_index("geocode")
        true = true_totals(run, level)
        assert set(rows.index) == set(true.index)
        inside = (rows["low"] <= true[rows.index]) & (true[rows.index] <= rows["high"])
        assert inside[rows["low"].notna()].mean() > 0.85, level


def test_estimates_and_measurements_have_the_codes_of_the_measured_tree(run: Path) -> None:
    opened = open_release(run / "release")
    spine = opened.tree(opened.after.persons).spine
    assert spine.units("State") > opened.spine.units("State")  # a state in two branches
    for frame in (das.read_estimates(run, "State", "total"), das.read_nmf(run, "State", "total")):
        assert set(frame["geocode"]) <= set(spine.geocodes("State").tolist())
    assert set(das.read_estimates(run, "Tract", "total")["geocode"]) == set(
        spine.geocodes("Tract").tolist()
    )
    total = das.read_estimates(run, "State", "total").set_index("geocode")["value"]
    exact = true_totals(run, "State")
    by_state = total.groupby(total.index.str[1:]).sum()
    assert by_state[exact.index].to_numpy() == pytest.approx(exact.to_numpy(), abs=1e-6)


CONSISTENT = "guarantee_of_neighbours_that_agree"


def stated(run: Path) -> dict[str, Any]:
    return json.loads((run / "release" / "privacy.json").read_text(encoding="utf-8"))


def test_runs_over_two_trees_are_compared_on_what_they_publish(
    run: Path, worlds: Worlds, tmp_path: Path
) -> None:
    other = worlds.run("geography.spine=tabulation", "run.seed=7", data="three thousand")
    two = compare_two(worlds.copy(run, tmp_path / "a"), other)
    assert not two.one_noise
    losses = {(r.between, r.what): (r.a, r.b) for r in two.losses}
    for relation, table in ((ANY_TWO, "guarantee"), (AGREE, CONSISTENT)):
        for universe in ("persons", "housing", "total"):
            for loss, of in zip(losses[relation, universe], (run, other), strict=True):
                rows = stated(of)[table][universe]["epsilon"]
                assert loss == next(r["pld"][1] for r in rows if r["delta"] == "1e-10")
    age = "votingage (same place)"
    for loss, of in zip(losses[ONE_CHANGE, f"persons: {age}"], (run, other), strict=True):
        lines = stated(of)["changes"]["persons"]
        assert loss == next(c["pld"][1] for c in lines if c["says"] == age)
    row = next(r for r in two.rows["persons"] if (r.level, r.query) == ("Tract", "total"))
    for mae, of in ((row.mae_a, run), (row.mae_b, other)):
        table = das.read_tables(of, "P1", "Tract")
        published = table[table["field"] == "P0010001"].set_index("geocode")["value"]
        assert mae == pytest.approx((published - true_totals(of, "Tract")).abs().mean())
