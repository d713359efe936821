"""Real counts: the official 2010 P.L. 94-171 files of Rhode Island."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

from das import pipeline, spec
from tests.end_to_end import independent as free

COUNTY = """
[run]
name = "bristol"
seed = 1
[data]
reader = "pl94-2010"
[schema]
name = "pl94"
[geography]
levels = ["County", "Tract", "Block_Group", "Block"]
[constraints]
total = "County"
[estimation.passes]
default = [["total"], ["*"]]
[budget]
rho = "{rho}"
neighbours = "bounded"
[budget.levels]
County = "1/4"
Tract = "1/4"
Block_Group = "1/4"
Block = "1/4"
{queries}
[housing]
[housing.budget]
relative = "1/30"
[housing.budget.levels]
County = "1/4"
Tract = "1/4"
Block_Group = "1/4"
Block = "1/4"
{units}
"""


def county(rho: str) -> str:
    levels = ("County", "Tract", "Block_Group", "Block")
    shares = 'total = "1/4"\nhhgq = "1/8"\n"hispanic * cenrace" = "3/8"\ndetailed = "1/4"\n'
    return COUNTY.format(
        rho=rho,
        queries="".join(f"[budget.queries.{lv}]\n{shares}" for lv in levels),
        units="".join(f'[housing.budget.queries.{lv}]\ndetailed = "1"\n' for lv in levels),
    )


def test_a_county_without_its_state(shared_data: Path, tmp_path: Path) -> None:
    """Four levels, the county the root. Its zip has no state row, which the reader is not asked
    for.
    """
    path = shared_data / "pl94_2010" / "ri" / "ri2010_bristol_44001.pl.zip"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    chosen = spec.parse(county("1"), where="bristol", overrides=("output.report=false",))
    pipeline.run(chosen, tmp_path / "run", paths=[path])
    release = tmp_path / "run" / "release"
    truth = free.published_rows([path])
    assert (len(truth), truth["P0010001"].sum(), truth["H0010001"].sum()) == (1_092, 49_875, 20_850)
    free.assert_invariants(release, truth)
    people = free.persons(release)
    for level in ("County", "Tract", "Block_Group", "Block"):
        units = pd.Index(sorted(set(free.units_of(truth.index.to_series(), level))))
        free.assert_same(free.tables(release, level), free.tabulate(people, units, level), level)


@pytest.mark.skipif(
    os.environ.get("DAS_QUICK") == "1", reason="DAS_QUICK=1: half a minute left out"
)
def test_the_whole_state_with_the_production_allocation(
    root: Path, shared_data: Path, tmp_path: Path
) -> None:
    path = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    if not path.exists():
        pytest.skip(f"{path.name} is not there")
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    changes = ("run.seed=1", "geography.spine=tabulation", "output.report=false")
    outcome = pipeline.run(
        spec.parse(text, where="pl94-2010", overrides=changes),
        tmp_path / "run",
        paths=[path],
        workers=2,
    )
    release = tmp_path / "run" / "release"
    truth = free.published_rows([path])
    assert (len(truth), truth["P0010001"].sum()) == (25_181, 1_052_567)
    free.assert_invariants(release, truth)
    tract = free.tables(release, "Tract", "P1")["P0010001"]
    true = truth.groupby(truth.index.str[:11])["P0010001"].sum()
    assert 1 < (tract - true).abs().mean() < 3
    mine = {(r.level, r.query, r.source, r.bin): r for r in outcome.rows["persons"]}
    assert mine["Tract", "total", "postprocessed", "all"].mae == pytest.approx(
        (tract - true).abs().mean()
    )
    people = free.persons(release)
    for level in ("County", "Tract"):
        units = pd.Index(sorted(set(free.units_of(truth.index.to_series(), level))))
        free.assert_same(free.tables(release, level), free.tabulate(people, units, level), level)
    manifest = free.read_json(tmp_path / "run" / "manifest.json")
    assert sum(s["seconds"] for s in manifest["stages"]) < 300
    assert max(s["peak_mb"] for s in manifest["stages"]) < 4096
    levels = manifest["certificates"]["persons"].values()
    assert sum(c["estimation"]["inaccurate"] for c in levels) <= 0.01 * sum(
        c["estimation"]["solves"] for c in levels
    )
