"""The figures of the Bureau's workbook: its numbers line by line, and that every line is the count
it is called.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from das import tables
from das.publications.dhc.files import official
from das.publications.dhc.model.figures import FIGURES

LEVELS = {"040": "State", "050": "County", "140": "Tract"}
#: The Bureau's tables of each figure; those of :data:`OLDER` are in its workbook of both files,
#: those of the others in that of the DHC.
DHC = {
    "1": "tenure",
    "2": "tenure_by_age",
    "3": "tenure_by_origin",
    "4": "tenure_by_race",
    "5": "vacancy",
    "7": "household_size",
    "8": "alone_65",
    "9": "generations_by_origin",
    "10": "generations_by_race",
    "11": "type_by_own_children",
    "12": "own_children_under_6",
    "13": "couples",
    "14": "couples_by_race",
    "15": "relationship",
}
OLDER = {
    "Table 15": "sex_by_three_ages",
    "Table 16": "sex_by_five_years",
    "Table 18": "group_quarters",
    "Use Case Table 1": "over_75",
    "Use Case Table 5": "single_years",
}


class Line(NamedTuple):
    figure: str
    level: str
    section: str
    row: str
    n: int
    mae: float
    rmse: float


def _shared(shared_data: Path, name: str) -> Path:
    path = shared_data / "reference" / name
    if not path.is_file():
        pytest.skip(f"the official figures are not at hand ({path})")
    return path


def _level(geography: str) -> str | None:
    digits = "".join(c for c in geography.replace("Summary Level", "") if c.isdigit())
    return LEVELS.get(digits)


def _of_dhc(path: Path) -> Iterator[Line]:
    with path.open(newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            number, level, section = r["table"].split(".")[0], _level(r["geography"]), r["section"]
            sized = {r["row"], section} & {"All counties"}
            known = r["sheet"] == "use cases" and number in DHC and level and r["MAE"]
            if (
                not known
                or section.startswith("Counties with")
                or r["row"].startswith("Counties with")
            ):
                continue
            assert level
            assert (
                level != "County"
                or sized
                or number not in {"1", "5", "7", "8", "9", "10", "11", "12"}
            )
            each = zip(*(r[k].split(";") for k in ("N", "MAE", "RMSE")), strict=True)
            figure = "couples_by_origin" if ";" in r["MAE"] else DHC[number]
            for n, mae, rmse in each:
                yield Line(figure, level, section, r["row"], int(float(n)), float(mae), float(rmse))


def _of_both(path: Path) -> Iterator[Line]:
    with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            figure, level = OLDER.get(r["table"].split(".")[0]), _level(r["geography"])
            sized = r["size_class"] not in ("", "All counties", "All states") or r[
                "section"
            ].startswith("Counties with")
            if figure and level and "Puerto" not in r["title"] and not sized:
                yield Line(
                    figure,
                    level,
                    r["section"],
                    r["row"],
                    int(r["N"]),
                    float(r["MAE"]),
                    float(r["RMSE"]),
                )


@pytest.fixture(scope="module")
def workbook(shared_data: Path) -> list[Line]:
    of_dhc, of_both = (
        _shared(shared_data, name) for name in ("dhc_metrics.csv", "metrics_20230403_flat.csv.gz")
    )
    return [*_of_dhc(of_dhc), *_of_both(of_both)]


def test_the_numbers_are_those_of_the_workbook(workbook: list[Line]) -> None:
    found: dict[tuple[str, str], list[Line]] = {}
    for line in workbook:
        assert line.n == official.UNITS[line.level]
        found.setdefault((line.figure, line.level), []).append(line)
    # the Bureau lists Hispanic householders of four couples, then others
    for key in [k for k in found if k[0] == "couples_by_origin"]:
        found[key] = [found[key][i] for i in (0, 4, 1, 5, 2, 6, 3, 7)]
    assert {
        key: tuple((x.mae, x.rmse) for x in lines) for key, lines in found.items()
    } == official.ERRORS
    assert sum(map(len, found.values())) == 446


#: Parts of labels that have other words in the workbook.
CALLED = {
    "Owned with a mortgage or a loan": "Owned with a mortgage",
    "Rented or occupied without payment of cash rent": "Renter-occupied",
    "For migrant workers": "For migrants workers",
    "Owned": "Owner occupied",
    "Rented": "Renter occupied",
    "American Indian or Alaska Native alone": "American Indian and Alaska Native alone",
    "Native Hawaiian or Other Pacific Islander alone": (
        "Native Hawaiian and Other Pacific Islander alone"
    ),
    "Under 18 years": "0 to 17 years",
    "110 years and over": "110 to 115 years",
}
ALIKE = (
    "tenure",
    "vacancy",
    "tenure_by_age",
    "tenure_by_origin",
    "tenure_by_race",
    "household_size",
    "generations_by_origin",
    "sex_by_three_ages",
    "sex_by_five_years",
    "single_years",
    "group_quarters",
)


def plain(text: str) -> str:
    return text.lower().replace(",", "").replace("-", " ")


@pytest.mark.parametrize("figure", ALIKE)
def test_lines_are_called_as_in_the_workbook(figure: str, workbook: list[Line]) -> None:
    (mine,) = (f for f in FIGURES if f.name == figure)
    level = next(x.level for x in workbook if x.figure == figure)
    theirs = [x for x in workbook if (x.figure, x.level) == (figure, level)]
    for (label, _), line in zip(mine.tabulation.columns, theirs, strict=True):
        parts = [label] if figure in ("tenure", "vacancy") else label.split(", ")
        for part in parts:
            assert plain(CALLED.get(part, part)).removesuffix("s") in plain(
                f"{line.section} {line.row}"
            )


def test_no_line_is_there_twice() -> None:
    for f in FIGURES:
        labels = [label for label, _ in f.tabulation.columns]
        assert len(set(labels)) == len(labels)
        made = tables.table(f.tabulation, f.schema)
        assert not any(made.repeats(j) for j in range(len(made.columns)))


def test_results_that_cannot_be_are_those_of_the_workbook(shared_data: Path) -> None:
    """Every number of them, by the number of its table, whatever it is called here."""
    theirs: dict[str, list[tuple[int | None, ...]]] = {}
    with _shared(shared_data, "dhc_metrics.csv").open(newline="", encoding="utf-8") as file:
        for r in csv.DictReader(file):
            if r["sheet"] == "impossible" and r["table"] not in ("1", "2", "21"):
                numbers = (r[k] for k in ("N_2010", "count_2010", "N_protected", "count_protected"))
                theirs.setdefault(r["table"], []).append(
                    tuple(int(float(x)) if x else None for x in numbers)
                )
    mine: dict[str, list[tuple[int | None, ...]]] = {}
    for (condition, _), counts in official.IMPOSSIBLE.items():
        mine.setdefault(condition.partition("(")[2].partition(")")[0], []).append(counts)
    assert mine.pop("2") == [(None, None, 73057, 17), (None, None, 73057, 30855)]
    assert mine == theirs
