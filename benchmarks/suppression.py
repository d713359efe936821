"""Suppression on real tables: the rates of the 1980 rules, and a county protected and audited.

Rhode Island, 2010, by block: the shares of cells printed as 0, and of tables withheld, next to the
Bureau's for the nation. Guernsey County, Ohio, 2010, by block, from its real tables of sex by 23
age groups by seven race groups with all sums: what complementary suppression adds to the counts
under 3, in how many seconds, and what an audit of every hidden line finds."""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.family_audit import FamilyLines
from das.files.readers import pl94_2010
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import published, table
from das.tools.protection.published import WITHHELD, LevelLines, ProtectedTables, TableSet, withheld
from das.tools.protection.truth.method import exact_lines
from das.tools.protection.truth.methods.complementary import audit, ranges
from das.tools.protection.truth.methods.suppression import Suppression, by_the_rules, tables_1980

GUERNSEY = Path("guernsey_oh", "guernsey", "guernsey_P12A.csv")
#: Per cent in Rhode Island, and in the nation (the technical report's tables 18 and 19).
RATES = {
    "cells of race": (8.9, 8.1),
    "cells of origin and race": (7.1, 5.8),
    "tables of adults by race": (75.9, 83.8),
    "tables of adults by origin and race": (81.4, 87.7),
    "other tables": (18.3, 38.7),
}
RACES = "ABCDEFG"
SEX_AGE_RACE = Schema.from_attributes("county", {"sex": ["m", "f"], "age": 23, "race": list(RACES)})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suppression", description=__doc__)
    parser.add_argument("--blocks", type=int, default=None, help="of the county; all by default")
    parser.add_argument(
        "--tracts", type=int, default=0, help="small lines of a tract audited with all its blocks"
    )
    given = parser.parse_args(arguments)
    figures = Figures("suppression")
    state, data = shared_data(RHODE_ISLAND), shared_data(GUERNSEY)
    if state is None:
        figures.skipped("Rhode Island", no_data(RHODE_ISLAND))
    else:
        found = rates(state)
        for name, (here, nation) in RATES.items():
            figures(name, found[name], "%", expected=here, nation=nation)
    if data is None:
        figures.skipped("Guernsey County", no_data(GUERNSEY))
    else:
        _county(figures, data.parent, given.blocks)
        if given.tracts:
            _tracts(figures, data.parent, given.tracts)


def rates(extract: Path) -> dict[str, float]:
    """Per cent: cells of inhabited blocks that are changed; tables of blocks with adults, and of
    inhabited blocks, that are withheld."""
    read = pl94_2010.read([extract], PL94)
    people = read.persons.open("to count what the rules of 1980 withhold")
    blocks = Histogram.from_triplets(
        len(read.blocks), PL94.cells, people.block, people.cell, people.count
    )
    shown = tables_1980(TableSet("redistricting", PL94, {"Block": published(PL94)}))
    lines = shown.lines("Block")
    names = [shown.tables["Block"][i].name for i in lines.table]
    exact = LevelLines.exact(lines.counts(blocks))
    out, name = by_the_rules(exact, names), np.array(names)
    inhabited = blocks.totals() > 0
    adults = blocks.answer(PL94.query("votingage"))[:, 1] > 0

    def changed(table: str) -> float:
        return float((out.value != exact.value)[inhabited][:, name == table].mean())

    def gone(table: str, of: NDArray[np.bool_]) -> float:
        return float((out.value[of][:, name == table] == WITHHELD).all(axis=1).mean())

    share = (
        changed("A1"),
        changed("A2"),
        gone("A3", adults),
        gone("A4", adults),
        gone("P5", inhabited),
    )
    return {key: 100 * x for key, x in zip(RATES, share, strict=True)}


def county(folder: Path) -> tuple[Spine, TableSet, Histogram]:
    """The county's inhabited blocks in their tracts, its tables of both (total, race, sex by age,
    sex by age of each race), and the persons of each block."""
    races = []
    for letter in RACES:
        with open(folder / f"guernsey_P12{letter}.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        counts = np.array([[int(row[f"P012{letter}{j:03}"]) for j in range(1, 50)] for row in rows])
        races.append(np.stack([counts[:, 2:25], counts[:, 26:49]], axis=1))
    cells = np.stack(races, axis=-1).reshape(len(races[0]), -1)
    living = cells.sum(axis=1) > 0
    tract, block = (np.array([row[k] for row in rows])[living] for k in ("TRACT", "BLOCK"))
    codes = np.char.add(tract, block)
    spine = Spine.from_frame({"Tract": tract, "Block": codes}, ["County", "Tract", "Block"])
    unit, cell = np.nonzero(cells[living])
    place = spine.find("Block", codes)[unit]
    people = Histogram.from_triplets(
        len(codes), SEX_AGE_RACE.cells, place, cell, cells[living][unit, cell]
    )
    tables = tuple(
        table(Tabulation(f"G{i}", "", query, total=False), SEX_AGE_RACE)
        for i, query in enumerate(("total", "race", "sex * age", "sex * age * race"), 1)
    )
    return spine, TableSet("county", SEX_AGE_RACE, {"Tract": tables, "Block": tables}), people


def _county(figures: Figures, folder: Path, blocks: int | None) -> None:
    """Its blocks, each by itself."""
    _, tables, people = county(folder)
    lines = tables.lines("Block")
    count = lines.counts(people)[:blocks]
    method, start = Suppression("complementary"), process_time()
    none = np.zeros(count.shape[1], dtype=bool)
    hidden = np.array([method.hidden_in(t, lines, none) for t in count])
    seconds, start = process_time() - start, process_time()
    small = (count > 0) & (count < method.threshold)
    figures("positive lines", int((count > 0).sum()), "lines", blocks=len(count))
    figures("hidden as small", int(small.sum()), "lines")
    figures("hidden besides", int((hidden & ~small).sum()), "lines", at_least=1)
    figures("protection", seconds, "s", at_most=600)
    for name, which in (("small lines hidden alone", small), ("all", hidden)):
        start = process_time()
        found = audit(withheld(LevelLines.exact(count), which), lines)
        known = int((found.width == 0)[small].sum())
        figures(f"audit, {name}", process_time() - start, "s", at_most=600)
        figures(f"known exactly, {name}", known, "lines", of=int(small.sum()))
        if which is hidden:
            figures(
                "least range of a small line", int(found.width[small].min()), "persons", at_least=3
            )


def _tracts(figures: Figures, folder: Path, sampled: int) -> None:
    """Its tracts and blocks together: what all equations between them say about some of the small
    lines of blocks."""
    spine, tables, people = county(folder)
    exact, start = exact_lines(people, spine, tables), process_time()
    method = Suppression("complementary")
    counts = {level: x.value for level, x in exact.items()}
    hidden = method.hidden(counts, spine, tables)
    figures("protection of tracts and blocks", process_time() - start, "s", at_most=1200)
    levels = {level: withheld(x, hidden[level]) for level, x in exact.items()}
    shown, rng = ProtectedTables(spine, tables, levels), np.random.default_rng(1)
    start, width = process_time(), []
    for tract in range(spine.units("Tract")):
        family = FamilyLines.of(shown, "Tract", tract, "Block")
        count = counts["Block"][family.parts]
        small = np.unique(family.row[(count > 0) & (count < method.threshold)])
        asked = rng.choice(small, size=min(sampled, len(small)), replace=False)
        low, high = ranges(family.lines, asked)
        width.append((high - low)[asked])
    every = np.concatenate(width)
    figures("audit of families", process_time() - start, "s", lines=len(every))
    figures("known exactly in their families", int((every == 0).sum()), "lines", of=len(every))
    figures("range under 3 in their families", int((every < 3).sum()), "lines", of=len(every))


if __name__ == "__main__":
    main()
