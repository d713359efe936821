"""Reconstruction and re-identification against published figures (docs/explanation/reconstruction.md).

Five parts. *programs*: three integer programs of the Census Bureau's own attack, solved by HiGHS
through SciPy. *county*: the published block tables of Guernsey County, Ohio. *rounded*: the
same, each number rounded by itself, and what follows exactly all the same. *tracts*: block and
tract tables of 28 tracts of real persons, and the DHC's records of the same tracts. *swaps*:
simulated persons and households of twelve tracts of Rhode Island, exact and swapped, next to the
Bureau's agreement rates (91.9, 91.1 and 62.6 percent)."""

from __future__ import annotations

import argparse
import gzip
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from time import process_time

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from benchmarks.common import RHODE_ISLAND, Figures, no_data, shared_data
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.dhc.files import linked
from das.publications.dhc.model.persons import DHCP
from das.tools.protection import census_tables
from das.tools.protection.attack import AttackOptions, AttackStatus, Reconstruction, reconstruct
from das.tools.protection.attack.reidentification import reidentify
from das.tools.protection.census_tables import recoded
from das.tools.protection.published import ProtectedTables, TableSet
from das.tools.protection.truth.method import NO_HOUSEHOLD, StudyRecords, Unprotected, exact_lines
from das.tools.protection.truth.methods.swapping import HIGH, LOW
from das.tools.protection.truth.reconstructing import AttackSource

PARTS = ("programs", "county", "rounded", "tracts", "swaps")
#: Columns, rows, persons.
PROGRAMS = {
    "model_29183980000": (641, 226, 1),
    "model_29165030307": (8321, 1206, 11),
    "model_02198000300": (50689, 4027, 87),
}
COUNTY_TABLES = ("P8", "P9", *(f"P12{letter}" for letter in "ABCDEFG"))
SIZES = ((1, 10), (10, 50), (50, 100), (100, 250), (250, 10**6))
PREFIXES = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 16}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.frontier_attack", description=__doc__
    )
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    given = parser.parse_args(arguments)
    figures = Figures("frontier_attack")
    parts: dict[str, tuple[Path, Callable[[Figures, Path], None]]] = {
        "programs": (Path("reconstruction", "model_29183980000.lp.gz"), _programs),
        "county": (Path("guernsey_oh", "guernsey", "guernsey_P8.csv"), _county),
        "rounded": (Path("guernsey_oh", "guernsey", "guernsey_P8.csv"), _rounded),
        "tracts": (Path("dhc", "dhc_2010_28tracts.csv.gz"), _tracts),
        "swaps": (RHODE_ISLAND, _swaps),
    }
    for name in given.parts:
        path, work = parts[name]
        data = shared_data(path)
        if data is None:
            figures.skipped(name, no_data(path))
        else:
            work(figures, data)


# --- the Bureau's programs
# ----------------------------------------------------------------------------------------------


def read_lp(path: Path) -> tuple[sparse.csr_array, np.ndarray, list[str]]:
    """The matrix and right-hand sides of a program of equalities in ones, and its columns."""
    column: dict[str, int] = {"__dummy": 0}
    indices: list[int] = []
    starts, right = [0], []
    with gzip.open(path, "rt") as file:
        for line in file:
            if line.strip() == "Bounds":
                break
            name, colon, rest = line.partition(":")
            if not colon or not name.startswith("_C"):
                continue
            terms, relation, value = re.split(r" (=|<=|>=) ", rest.strip())
            if relation != "=":
                raise ValueError(f"{path}: {relation} in {name}")
            indices += [column.setdefault(t, len(column)) for t in terms.split(" + ")]
            starts.append(len(indices))
            right.append(float(value))
    shape = (len(right), len(column))
    matrix = sparse.csr_array((np.ones(len(indices)), indices, starts), shape=shape)
    return matrix, np.array(right), list(column)


def _programs(figures: Figures, first: Path) -> None:
    for name, (columns, rows, persons) in PROGRAMS.items():
        began = process_time()
        matrix, right, _ = read_lp(first.parent / f"{name}.lp.gz")
        read = process_time() - began
        if matrix.shape != (rows, columns):
            raise ValueError(f"{name}: {matrix.shape}")
        most = np.ones(columns)
        most[0] = 0
        answer: OptimizeResult = milp(
            np.zeros(columns),
            integrality=np.ones(columns),
            bounds=Bounds(0, most),
            constraints=LinearConstraint(matrix, right, right),
        )
        x = np.rint(answer.x).astype(np.int64)
        obeyed = np.array_equal(matrix.astype(np.int64) @ x, right.astype(np.int64))
        figures(
            f"{name}: persons beyond the published solution's",
            abs(int(x.sum()) - persons),
            "persons",
            at_most=0,
            persons=int(x.sum()),
            columns=columns,
            rows=rows,
            nonzeros=matrix.nnz,
            optimal=answer.status == 0,
            obeyed=bool(obeyed),
            read_seconds=read,
            cpu_seconds=process_time() - began,
        )


# --- a county
# -----------------------------------------------------------------------------------------------------------


def _county(figures: Figures, first: Path) -> None:
    began = process_time()
    published, _ = AttackSource(first.parent, COUNTY_TABLES).read()
    read = process_time() - began
    found = reconstruct(published, AttackOptions(around="Tract"))
    persons = found.histogram.totals()
    inhabited, unique = persons > 0, found.unique & (persons > 0)
    sizes = [(persons >= a) & (persons < b) for a, b in SIZES]
    figures(
        "Guernsey County: unique blocks",
        int(unique.sum()),
        "blocks",
        at_least=2017,
        blocks=int(inhabited.sum()),
        persons=int(persons.sum()),
        by_size=[float(unique[size].sum() / size.sum()) for size in sizes],
        read_seconds=read,
        cpu_seconds=process_time() - began,
    )
    figures(
        "Guernsey County: persons in unique blocks",
        int(persons[unique].sum()),
        "persons",
        at_least=31590,
    )
    figures(
        "Guernsey County: persons whose race group is certain",
        round(100 * _certain(found, published) / int(persons.sum()), 2),
        "percent",
        at_least=85.19,
    )


def _certain(found: Reconstruction, published: ProtectedTables) -> int:
    """Persons of the race groups, block by block, where sex and age or origin and race has only one
    value: what two margins determine."""
    h, schema = found.histogram, published.tables.schema
    sex, age, origin, race = np.unravel_index(h.cell, schema.shape)
    group = h.unit * 7 + np.minimum(race, 6)
    first, second = sex * 200 + age, origin * 63 + race
    out = np.zeros(int(group.max()) + 1, dtype=bool)
    for margin in (first, second):
        pairs = np.unique(group * 1000 + margin) // 1000
        out |= np.bincount(pairs, minlength=len(out)) == 1
    return int(h.count[out[group]].sum())


# --- rounding undone
# ----------------------------------------------------------------------------------------------------


def _rounded(figures: Figures, first: Path) -> None:
    """Base 3 and 5 at random, with the total of each block rounded, or exact."""
    truth, _ = AttackSource(first.parent, COUNTY_TABLES).read()
    true = truth.levels["Block"].value
    inhabited = np.asarray(true.any(axis=1))[:, None]
    for base in (5, 3):
        for total in ("rounded", "exact"):
            rng, began = np.random.default_rng(1), process_time()
            with tempfile.TemporaryDirectory() as folder:
                for name in COUNTY_TABLES:
                    path = first.parent / f"guernsey_{name}.csv"
                    rows = pd.read_csv(path, dtype=str)
                    for field in rows:
                        if census_tables.field_of(field) is None:
                            continue
                        down, rest = np.divmod(rows[field].astype(int), base)
                        if field != "P0080001" or total == "rounded":
                            rows[field] = base * (down + (rng.random(len(rows)) < rest / base))
                    rows.to_csv(Path(folder) / path.name, index=False)
                found, _ = AttackSource(Path(folder), COUNTY_TABLES, f"random:{base}").read()
            lines = found.levels["Block"]
            drawn = (lines.value % base == 0).all(axis=0)
            exact = inhabited & (lines.lower == lines.upper) & drawn
            small = inhabited & (true > 0) & (true < base) & drawn
            figures(
                f"Guernsey County, base {base}, total {total}: counts above 0 that follow exactly",
                int((exact & (true > 0)).sum()),
                "counts",
                of=int((inhabited & (true > 0) & drawn).sum()),
                wrong=int((lines.lower[exact] != true[exact]).sum()),
                zeros=int((exact & (true == 0)).sum()),
                small=int((exact & small).sum()),
                of_small=int(small.sum()),
                cpu_seconds=process_time() - began,
            )


# --- 28 tracts
# ----------------------------------------------------------------------------------------------------------


def _tree(blocks: Sequence[str]) -> Spine:
    places = {level: [b[:size] for b in blocks] for level, size in PREFIXES.items()}
    return Spine.from_frame(places, ["US", *PREFIXES])


def _tracts(figures: Figures, path: Path) -> None:
    rows = pd.read_csv(path, dtype={"block": str})
    schema, spine = census_tables.sf1_schema(), _tree(sorted(set(rows["block"])))
    unit = spine.find("Block", rows["block"].to_numpy())
    age = np.searchsorted(census_tables.BINS, rows["age"], side="right") - 1
    at = (rows["sex"] - 1, age, rows["cenhisp"] - 1, rows["cenrace"].astype(int) - 1)
    cell = np.ravel_multi_index(tuple(np.asarray(x) for x in at), schema.shape)
    truth, dhc = (
        Histogram.from_triplets(
            spine.units("Block"), schema.cells, unit, cell, rows[name].to_numpy()
        )
        for name in ("sf1", "dhc")
    )
    both = census_tables.table_set(("Tract", "Block"))
    block = TableSet("block", both.schema, {"Block": both.tables["Block"]})
    for name, tables, least in (("block tables", block, 99.51), ("tract tables too", both, 100)):
        began = process_time()
        published = ProtectedTables(spine, tables, exact_lines(truth, spine, tables))
        found = reconstruct(published, AttackOptions(around="Tract"))
        persons = truth.totals()
        scores = reidentify(found.histogram, truth, spine, schema, among=found.unique)
        unique = found.unique & (persons > 0)
        figures(
            f"28 tracts, {name}: unique blocks",
            round(100 * float(unique.sum() / (persons > 0).sum()), 2),
            "percent",
            at_least=least,
            persons_percent=100 * float(persons[unique].sum() / persons.sum()),
            mean_variability=found.mean_variability,
            agreement=100 * scores.agreement,
            precision_on_uniques_in_unique_blocks=100
            * scores.score("nonmodal unique", among=True).precision,
            slowest_block=float(found.seconds.max()),
            cpu_seconds_a_block=(process_time() - began) / int((persons > 0).sum()),
        )
    scores = reidentify(dhc, truth, spine, schema)
    unique_persons = scores.score("nonmodal unique")
    figures(
        "28 tracts, records of the DHC: agreement off 21.6",
        abs(100 * scores.agreement - 21.6),
        "points",
        at_most=0.05,
        agreement=100 * scores.agreement,
        nonmodal_uniques=unique_persons.persons,
        putative=100 * unique_persons.putative_rate,
        precision=100 * unique_persons.precision,
        leave_one_out=100 * unique_persons.baseline("leave_one_out"),
    )


# --- swaps
# --------------------------------------------------------------------------------------------------------------


def _swaps(figures: Figures, extract: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "das", "data", "simulate", "dhc", "--seed", "1"]
        command += ["--blocks", str(extract), "--out", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        records = _records(Path(folder))
    tables = TableSet(
        "block",
        census_tables.sf1_schema(),
        {"Block": census_tables.table_set(("Block",)).tables["Block"]},
    )
    truth = records.histogram()
    methods = ((Unprotected(), 91.9), (LOW, 91.1), (HIGH, 62.6))
    for (method, target), name in zip(methods, ("none", "5 %", "50 %"), strict=True):
        published = method.published(records, tables, b"1")
        began = process_time()
        found = reconstruct(published, AttackOptions(around="Tract"))
        seconds = process_time() - began
        scores = reidentify(
            found.histogram, truth, records.spine, records.schema, among=found.unique
        )
        unique = scores.score("nonmodal unique")
        figures(
            f"12 tracts of Rhode Island, swapping {name}: agreement off the Bureau's {target}",
            abs(100 * scores.agreement - target),
            "points",
            at_most=5,
            agreement=100 * scores.agreement,
            persons=len(records),
            nonmodal_uniques=unique.persons,
            putative=100 * unique.putative_rate,
            precision=100 * unique.precision,
            precision_in_unique_blocks=100 * scores.score("nonmodal unique", among=True).precision,
            unique_blocks=100 * float(found.unique[truth.totals() > 0].mean()),
            unsolved=found.count(AttackStatus.TIME_OUT) + found.count(AttackStatus.INFEASIBLE),
            cpu_seconds_a_block=seconds / int((truth.totals() > 0).sum()),
        )


def _records(folder: Path) -> StudyRecords:
    """The persons and households of every twentieth tract."""
    found = linked.tables(folder)
    rows = found.people.rows
    codes = [c.decode() for c in found.codes.tolist()]
    tracts = sorted({c[:11] for c in codes})[::20]
    spine = _tree([c for c in codes if c[:11] in tracts])
    unit = spine.find("Block", found.codes)[found.people.block]
    each = np.repeat(np.arange(len(unit)), rows.count)
    each = each[unit[each] >= 0]
    home = np.full(len(each), NO_HOUSEHOLD, dtype=np.int64)
    inside = ~rows.household.empty[each]
    home[inside] = np.unique(rows.household.index[each][inside], return_inverse=True)[1].ravel()
    cell = recoded(rows.cell[each], DHCP, census_tables.sf1_schema())
    return StudyRecords(census_tables.sf1_schema(), spine, unit[each], cell, home)


if __name__ == "__main__":
    main()
