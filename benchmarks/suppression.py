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
from das.files.readers import pl94_2010
from das.model.histogram import Histogram
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.model.tabulation import Tabulation
from das.protect.audit import audit
from das.protect.published import WITHHELD, LevelLines
from das.protect.rules_1980 import by_the_rules, tables_1980
from das.protect.suppression import Suppression
from das.protect.table_set import LineMatrix, TableSet
from das.protect.withheld import withheld
from das.tables import published, table

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
SEX_AGE_RACE = Schema.of("county", {"sex": ["m", "f"], "age": 23, "race": list(RACES)})


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.suppression", description=__doc__)
    parser.add_argument("--blocks", type=int, default=None, help="of the county; all by default")
    given = parser.parse_args(arguments)
    figures = Figures("suppression")
    state, county = shared_data(RHODE_ISLAND), shared_data(GUERNSEY)
    if state is None:
        figures.skipped("Rhode Island", no_data(RHODE_ISLAND))
    else:
        found = rates(state)
        for name, (here, nation) in RATES.items():
            figures(name, found[name], "%", expected=here, nation=nation)
    if county is None:
        figures.skipped("Guernsey County", no_data(GUERNSEY))
    else:
        _county(figures, county.parent, given.blocks)


def rates(extract: Path) -> dict[str, float]:
    """Per cent: cells of inhabited blocks that are changed; tables of blocks with adults, and of
    inhabited blocks, that are withheld."""
    read = pl94_2010.read([extract], PL94)
    people = read.persons.open("to count what the rules of 1980 withhold")
    blocks = Histogram.of(len(read.blocks), PL94.cells, people.block, people.cell, people.count)
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


def county_lines(folder: Path) -> tuple[NDArray[np.int64], LineMatrix]:
    """The lines of the county's inhabited blocks, ``(blocks, lines)``: total, race, sex by age, and
    sex by age of each race."""
    races = []
    for letter in RACES:
        with open(folder / f"guernsey_P12{letter}.csv", newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        counts = np.array([[int(row[f"P012{letter}{j:03}"]) for j in range(1, 50)] for row in rows])
        races.append(np.stack([counts[:, 2:25], counts[:, 26:49]], axis=1))
    cells = np.stack(races, axis=-1).reshape(len(races[0]), -1)
    tables = ("total", "race", "sex * age", "sex * age * race")
    matrix = LineMatrix.of(
        tuple(
            table(Tabulation(f"G{i}", "", query, total=False), SEX_AGE_RACE)
            for i, query in enumerate(tables, 1)
        )
    )
    return (matrix.matrix @ cells[cells.sum(axis=1) > 0].T).T, matrix


def _county(figures: Figures, folder: Path, blocks: int | None) -> None:
    count, lines = county_lines(folder)
    count = count[:blocks]
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
        ranges = audit(withheld(LevelLines.exact(count), which), lines)
        known = int((ranges.width == 0)[small].sum())
        figures(f"audit, {name}", process_time() - start, "s", at_most=600)
        figures(f"known exactly, {name}", known, "lines", of=int(small.sum()))
        if which is hidden:
            figures(
                "least range of a small line", int(ranges.width[small].min()), "persons", at_least=3
            )


if __name__ == "__main__":
    main()
