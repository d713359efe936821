"""Real counts: the official 2010 P.L. 94-171 files of a county of Rhode Island; of the whole state,
see tests/accept."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from das import spec
from das.runs import pipeline
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
neighbors = "bounded"
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
