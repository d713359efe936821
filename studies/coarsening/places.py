"""Persons of real places by voting age, origin and race, as tables that a study reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

from benchmarks.common import RHODE_ISLAND
from benchmarks.tracts import TRACTS
from das.engine.tasks import SILENT
from das.model.redistricting import CENRACE, PL94
from das.tools.protection.attack import AttackOptions
from das.tools.protection.truth.reconstructing import AttackSource, attack_folder
from das.tools.protection.truth.study_input import redistricting

#: The tables of a county from which everybody is reconstructed.
COUNTY_TABLES = ("P8", "P9", *(f"P12{letter}" for letter in "ABCDEFG"))
_AGE, _ORIGIN = (PL94.attribute(name).levels for name in ("votingage", "hispanic"))
_WIDTHS = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12}


def rhode_island(path: Path) -> pd.DataFrame:
    """A line for each kind of person of a block. Of inhabited blocks, so that each tract is in one
    town."""
    places = redistricting(path, SILENT)
    known = places.counts.open("public data of 2010")
    row = np.repeat(np.arange(known.units), np.diff(known.indptr))
    level = {a.name: np.array(a.levels)[PL94.level_of(a.name)[known.cell]] for a in PL94.attributes}
    levels = places.spine.levels
    codes = {lv: places.spine.codes[i][places.spine.up("Block", lv)] for i, lv in enumerate(levels)}
    codes["County_Subdivision"] = places.fields["County_Subdivision"]
    where = {lv: codes[lv][row].astype(str) for lv in codes}
    return pd.DataFrame({**where, **level, "count": known.count})


def tracts(path: Path) -> pd.DataFrame:
    """The same of 28 tracts."""
    rows = pd.read_csv(path, dtype={"block": str})
    kinds = {
        "votingage": np.array(_AGE)[(rows["age"] >= 18).astype(int)],
        "hispanic": np.array(_ORIGIN)[rows["cenhisp"] - 1],
        "cenrace": np.array(CENRACE)[rows["cenrace"].astype(int) - 1],
    }
    return _with_places(rows["block"], {**kinds, "count": rows["sf1"]})


def guernsey(folder: Path) -> pd.DataFrame:
    """The same of a folder of published block tables."""
    with TemporaryDirectory() as out:
        source = AttackSource(folder, COUNTY_TABLES)
        attack_folder(source, Path(out) / "guess", AttackOptions(around="Tract"))
        rows = pd.read_csv(Path(out) / "guess" / "records.csv", dtype={"geocode": str})
    adult = rows["age"].str.extract(r"^(\d+)", expand=False).astype(int) >= 18
    kinds = {"votingage": np.array(_AGE)[adult.astype(int)]}
    return _with_places(
        rows["geocode"], {**kinds, **{k: rows[k] for k in ("hispanic", "cenrace", "count")}}
    )


def _with_places(block: pd.Series, columns: Mapping[str, object]) -> pd.DataFrame:
    above = {level: block.str[:size] for level, size in _WIDTHS.items()}
    return pd.DataFrame({**above, "Block": block, **columns})


@dataclass(frozen=True)
class RealPlace:
    """Where the records are, how they are read, and what changes in the study for them."""

    path: Path
    read: Callable[[Path], pd.DataFrame]
    changes: Sequence[str] = ()


_LEVELS = ("State", "County", "County_Subdivision", "Tract", "Block_Group", "Block")
_TOWNS = (
    f"geography.levels={json.dumps(_LEVELS)}",
    f"data.columns.geography={{{', '.join(f'{lv} = {json.dumps(lv)}' for lv in _LEVELS)}}}",
    f"published.levels={json.dumps(_LEVELS[2:])}",
    'sample.level="County_Subdivision"',
    "sample.units=8",
    'methods.topdown.levels={State = "1544/4099", County = "447/4099", County_Subdivision = "300/4099",'
    ' Tract = "387/4099", Block_Group = "1256/4099", Block = "165/4099"}',
)
PLACES: Mapping[str, RealPlace] = {
    "rhode-island": RealPlace(RHODE_ISLAND, rhode_island, _TOWNS),
    "tracts": RealPlace(TRACTS, tracts),
    "guernsey": RealPlace(
        Path("guernsey_oh", "guernsey", "guernsey_P8.csv"), lambda p: guernsey(p.parent)
    ),
}
