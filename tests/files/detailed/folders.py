"""A small valid folder of parameters, and of data, to change in one place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from das.publications.detailed.files import config
from das.publications.detailed.files.config import budget_key
from das.publications.detailed.model.iterations import REGIONS, GroupLevel
from das.publications.detailed.model.tables import PRODUCTS, Product

PERSONS, HOUSEHOLDS = PRODUCTS["persons"], PRODUCTS["households"]
LEVELS = [at for run in REGIONS for at in GroupLevel.of_run(run)]

CODES = """\
RACE_ETH_CODE|RACE_ETH_NAME
1000|White
1010|Albanian
1020|Alsatian
2010|Costa Rican
2020|Nobody's
"""
RACE = """\
ITERATION_CODE|ITERATION_NAME|LEVEL|ALONE|DETAILED_ONLY|COARSE_ONLY
1001|White alone|0|True|Null|Null
1002|White alone, another way|0|True|Null|Null
2001|European alone|1|True|False|False
3001|Albanian alone|2|True|False|False
4001|Alsatian alone|2|True|True|False
7000|Other European alone|2|True|False|True
1130|European in any combination|1|False|False|False
1140|Albanian in any combination|2|False|False|False
1150|Alsatian in any combination|2|False|True|False
1810|Other European in any combination|2|False|False|True
"""
ETHNICITY = """\
ITERATION_CODE|ITERATION_NAME|LEVEL|DETAILED_ONLY|COARSE_ONLY
3007|Not Hispanic|0|Null|Null
3010|Central American|1|False|False
3011|Costa Rican|2|False|False
"""
MEMBERS = """\
ITERATION_CODE|RACE_ETH_CODE
1001|1000
1002|1000
2001|1010
2001|1020
3001|1010
4001|1020
7000|1020
1130|1010
1130|1020
1140|1010
1150|1020
1810|1020
3007|1000
3010|2010
3011|2010
"""
GEOGRAPHY = """\
TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|PLACEFP|AIANNHCE
02|001|000002|0001|22800|0001
01|001|000001|0002|22800|0001
01|001|000001|0001|99999|9999
01|002|000001|0001|00100|0002
06|001|000001|0001|00100|0002
72|031|050901|2040|10001|9999
"""
PEOPLE = """\
QAGE|QSEX|HOUSEHOLDER|TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|CENRACE|QRACE1|QRACE2|QRACE3|QRACE4|QRACE5|QRACE6|QRACE7|QRACE8|QSPAN
028|1|True|01|001|000001|0001|01|1000|Null|Null|Null|Null|Null|Null|Null|2010
115|2|False|02|001|000002|0001|01|1010|1020|Null|Null|Null|Null|Null|Null|1000
004|1|True|06|001|000001|0001|01|1010|Null|Null|Null|Null|Null|Null|Null|1000
005|2|True|72|031|050901|2040|01|1000|1010|1020|2010|2020|1000|1010|1020|2010
"""
HOMES = """\
TABBLKST|TABBLKCOU|TABTRACTCE|TABBLK|HHRACE|QRACE1|QRACE2|QRACE3|QRACE4|QRACE5|QRACE6|QRACE7|QRACE8|QSPAN|HOUSEHOLD_TYPE|TEN
01|001|000001|0001|63|1000|Null|Null|Null|Null|Null|Null|Null|2010|1|4
02|001|000002|0001|01|1010|1020|Null|Null|Null|Null|Null|Null|1000|5|1
72|031|050901|2040|01|1000|Null|Null|Null|Null|Null|Null|Null|2010|3|2
"""
TOTALS = """\
REGION_ID|REGION_TYPE|ITERATION_CODE|COUNT
1|USA|3010|12
1|USA|2001|-3
01|STATE|2001|7
72|PR-STATE|2001|0
"""


def configuration(product: Product) -> dict[str, Any]:
    out: dict[str, Any] = {"max_race_codes": 8}
    for table in product.tables:
        key = (
            budget_key(product, table, LEVELS[0])
            .removeprefix("privacy_budget_")
            .removesuffix(f"_{LEVELS[0]}")
        )
        out |= {budget_key(product, table, at): 0.25 for at in LEVELS}
        out[f"thresholds_{key}"] = {
            at.key: [100, 200, 300][: len(table.sizes) - 1] for at in LEVELS
        }
    if product.staged:
        out |= {"privacy_budget_p_stage_1_fraction": 0.1, "zero_suppression_chance": 0.9999}
    return out | {
        "allow_negative_counts": True,
        "run_us": True,
        "run_pr": True,
        "reader": "csv",
        "state_filter_us": ["02", "01"],
        "privacy_defn": "zcdp",
        "somebody_elses": 1.5,
    }


def texts(product: Product = PERSONS) -> dict[str, str]:
    """The files of a folder of parameters."""
    return {
        config.FILE: json.dumps(configuration(product), indent=1),
        "race-and-ethnicity-codes.txt": CODES,
        "race-characteristic-iterations.txt": RACE,
        "ethnicity-characteristic-iterations.txt": ETHNICITY,
        "race-and-ethnicity-code-to-iteration.txt": MEMBERS,
    }


def data(product: Product = PERSONS) -> dict[str, str]:
    """The files of a folder of data."""
    return {
        "GRF-C.txt": GEOGRAPHY,
        f"{product.record}-records.txt": PEOPLE if product is PERSONS else HOMES,
    }


def written(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def changed(files: Mapping[str, str], name: str, old: str, new: str) -> dict[str, str]:
    """One of them, changed in one place."""
    assert files[name].count(old) >= 1, f"{old!r} is not in {name}"
    return {**files, name: files[name].replace(old, new, 1)}


def line_of(text: str, mark: str) -> int:
    return text[: text.index(mark)].count("\n") + 1
