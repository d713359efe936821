"""What is known of the Bureau's noisy measurement files of 2020: held against a folder of them.

Each answer is checked as far as the folder allows, and what it does not allow is said. Counts are
those of the 2020 census as published; a measured count must be within 5 standard deviations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.common import Figures
from das.publications.dhc.model import strategy

PERSONS, UNITS, DHC = "US_Person_PL_PROD", "US_Unit_PL_PROD", "US_DHCP_PROD"
LENGTHS = {"US": 0, "State": 3, "County": 9, "Tract": 13, "Block_Group": 15, "Block": 31}
RACES = (204_277_273, 41_104_200, 3_727_135, 19_886_049, 689_966, 27_915_715)
#: States with a part in American Indian areas, in the files of 2020.
INSIDE = [
    "01",
    "02",
    "04",
    "06",
    "08",
    "09",
    "12",
    "13",
    "15",
    "16",
    "18",
    "19",
    "20",
    "22",
    "23",
    "25",
    "26",
    "27",
    "28",
    "30",
    "31",
    "32",
    "35",
    "36",
    "37",
    "38",
    "40",
    "41",
    "45",
    "46",
    "47",
    "48",
    "49",
    "51",
    "53",
    "55",
    "56",
]
#: Variance of the noise that the published budget gives to units without a level's share more: level, query and value, of persons and
#: of housing units.
VARIANCES = {
    PERSONS: (("State", "total", 1.209), ("Tract", "total", 6.110), ("US", "cenrace", 1214.8)),
    UNITS: (
        ("State", "detailed", 2735.4),
        ("Tract", "detailed", 17.02),
        ("Block", "detailed", 110.5),
    ),
}
#: Rows read at a time from a large file.
_ROWS = 1 << 14


def answers(folder: Path, say: Figures) -> None:
    """Print a figure for each known answer: 1 where it holds, or a distance in deviations."""
    totals(folder, say)
    races(folder, say)
    dhc(folder, say)
    vermont(folder, say)
    codes(folder, say)
    blocks(folder, say)
    variances(folder, say)
    say.skipped("tract 01001020100 by PL and DHC together", "das does not join the two files yet")


def rows(
    folder: Path, level: str, kind: str, names: Sequence[str] = (), part: str = "**"
) -> Iterator[dict[str, Any]]:
    """Rows of some queries, with their suffix; nothing where a level is not there."""
    for path in sorted((folder / f"{level}.parquet" / kind).glob(f"{part}/*")):
        if not path.is_file() or path.name.startswith(("_", ".")) or path.suffix == ".crc":
            continue
        file = pq.ParquetFile(path)
        wanted = [c for c in ("geocode", "query_name", "value", "variance", "query_shape")
                  if c in file.schema_arrow.names]  # fmt: skip
        for batch in file.iter_batches(_ROWS, columns=wanted):
            if names:  # before lists of a million numbers become objects
                batch = batch.filter(pc.is_in(batch["query_name"], pa.array(names)))
            yield from batch.to_pylist()


def there(folder: Path, product: str, level: str, what: str, say: Figures) -> Path | None:
    """The product's folder, if it has the level; otherwise that is said."""
    if (folder / product / f"{level}.parquet").is_dir():
        return folder / product
    say.skipped(what, f"{product}/{level}.parquet is not here")
    return None


def totals(folder: Path, say: Figures) -> None:
    for product, known in ((PERSONS, 331_449_281), (UNITS, 140_498_736)):
        what = f"{product}: total of the nation"
        if at := there(folder, product, "US", what, say):
            found = [r["value"][0] for r in rows(at, "US", "Constraint", ["total_con"])]
            say(what, float(found == [known]), "holds", at_least=1, found=found)
    if at := there(folder, PERSONS, "US", "no measured total of the nation", say):
        found = list(rows(at, "US", "DPQuery", ["total_dpq"]))
        say("no measured total of the nation", float(not found), "holds", at_least=1)


def races(folder: Path, say: Figures) -> None:
    what = "races alone, nation"
    if at := there(folder, PERSONS, "US", what, say):
        for row in rows(at, "US", "DPQuery", ["cenrace_dpq"]):
            off = np.abs(np.array(row["value"][:6]) - RACES) / row["variance"] ** 0.5
            say(what, float(off.max()), "standard deviations", at_most=5)


def dhc(folder: Path, say: Figures) -> None:
    """Of the DHC's persons: counts of the nation, and of a small county; variances; codes."""
    what = "sexes, ages and relationships, nation, DHC"
    if at := there(folder, DHC, "US", what, say):
        _nation(at, say)
    what = "Essex County, Vermont, DHC"
    if at := there(folder, DHC, "County", what, say):
        found = [r for r in rows(at, "County", "DPQuery", ["hispanic * sex_dpq"], "State=050/**")
                 if r["geocode"] == "05010009"]  # fmt: skip
        for row in found:
            off = abs(sum(row["value"]) - 5_920) / (4 * row["variance"]) ** 0.5
            say(what, float(off), "standard deviations", at_most=5)
        if not found:
            say.skipped(what, "county 05010009 is not here")
    rho = strategy.persons().rho
    for level, length in (("US", 0), ("State", 3), ("County", 8)):
        what = f"DHC: codes and variances, {level}"
        if at := there(folder, DHC, level, what, say):
            row = next(rows(at, level, "DPQuery", ["hispanic * sex_dpq"]))
            say(f"{what}: length", float(len(row["geocode"])), "characters", at_most=length)
            due = float(1 / rho[level]["hispanic * sex"])  # more where an only child has its share
            say(f"{what}: variance", abs(row["variance"] / due - 1), "relative", at_most=0.001)


def _nation(at: Path, say: Figures) -> None:
    """In thousands, where the published count is known no better."""
    for row in rows(at, "US", "DPQuery", ["hispanic * sex_dpq"]):
        found = np.array(row["value"]).reshape(2, 2).sum(axis=1)
        off = np.abs(found - [162_685_811, 168_763_470]) / (2 * row["variance"]) ** 0.5
        say("sexes, nation, DHC", float(off.max()), "standard deviations", at_most=5)
    for row in rows(at, "US", "DPQuery", ["age_18_64_116 * sex_dpq"]):
        found = np.array(row["value"]).reshape(2, 3).sum(axis=0)[[0, 2]]
        off = np.abs(found - [73_106_000, 55_792_000]).max()
        say("ages, nation, DHC", float(off), "persons", at_most=50_000)
    for row in rows(at, "US", "DPQuery", ["sex * relgq_4_groups_dpq"]):
        found = np.array(row["value"]).reshape(4, 2).sum(axis=1)
        off = np.abs([found[2] + found[3] - 8_239_000, found[0] - 126_817_000])
        say(
            "group quarters and householders, nation, DHC",
            float(off.max()),
            "persons",
            at_most=1_000,
        )
    for row in rows(at, "US", "Constraint", ["pl94_con"]):
        say("redistricting counts, nation, DHC", float(sum(row["value"]) == 331_449_281), "holds",
            at_least=1)  # fmt: skip


def vermont(folder: Path, say: Figures) -> None:
    what = "Vermont: counties"
    if at := there(folder, PERSONS, "County", what, say):
        found = sorted({r["geocode"] for r in rows(at, "County", "Constraint", part="State=050")})
        if not found:
            say.skipped(what, "part 050 is not here")
            return
        names = [c[1:3] + c[5:8] for c in found]
        right = len(names) == 14 and names[0] == "50001"
        say(what, float(right), "holds", at_least=1, found=len(names))
    what = "Vermont: tracts"
    if at := there(folder, PERSONS, "Tract", what, say):
        alone = not (at / "Tract.parquet" / "Constraint" / "State=150").is_dir()
        blocks = {
            r["geocode"] for r in rows(at, "Block", "Constraint", ["nurse_nva_0_con"], "State=050")
        }
        if not blocks:
            say.skipped(what, "part 050 is not here, or has no blocks")
            return
        pairs = {(b[:-18], b[-16:-5]) for b in blocks}
        one = len({t for t, _ in pairs}) == len(pairs) == len({g for _, g in pairs})
        right = alone and one and all(g.startswith("50") for _, g in pairs)
        say(what, float(right), "holds", at_least=1, found=len(pairs))


def codes(folder: Path, say: Figures) -> None:
    for level, length in LENGTHS.items():
        what = f"length of geocodes, {level}"
        if at := there(folder, PERSONS, level, what, say):
            row = next(rows(at, level, "Constraint"))
            say(what, float(len(row["geocode"]) == length), "holds", at_least=1)


def blocks(folder: Path, say: Figures) -> None:
    what = "blocks with persons in constraints"
    if at := there(folder, PERSONS, "Block", what, say):
        parts = {p.name[6:] for p in (at / "Block.parquet" / "Constraint").glob("State=*")}
        known = {f"1{s}" for s in INSIDE}
        if len(parts) < 88:
            say.skipped(what, f"{len(parts)} of 88 parts are here")
            return
        inside = {p for p in parts if p.startswith("1")}
        say("parts inside American Indian areas", float(inside == known), "holds", at_least=1)
        n = sum(
            pq.ParquetFile(p).metadata.num_rows
            for p in (at / "Block.parquet" / "Constraint").glob("**/*.parquet")
            if p.is_file()
        )
        say(what, float(n == 3 * 5_892_698), "holds", at_least=1, found=n // 3)


def variances(folder: Path, say: Figures) -> None:
    for product, known in VARIANCES.items():
        for level, query, variance in known:
            what = f"{product}: variance of {query}, {level}"
            if at := there(folder, product, level, what, say):
                found = [r["variance"] for r in rows(at, level, "DPQuery", [f"{query}_dpq"])]
                if found:
                    near = min(set(found), key=lambda v: abs(v - variance))
                    say(what, abs(near / variance - 1), "relative", at_most=0.001, found=near)
