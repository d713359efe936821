"""Small tables of iterations, and the budgets of 2020 for them."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from das.model.mechanisms import DISCRETE_GAUSSIAN, Mechanism
from das.publications.detailed.model.iterations import GroupLevel, Iterations, Kind
from das.publications.detailed.model.tables import PRODUCTS, Parameters

#: Code, name, level, kind, detailed only, codes. Detailed: three groups of race and one of them
#: without tables, two of ethnicity. Regional: two of race and one of ethnicity, and one of race
#: without tables.
ROWS = [
    ("1002", "Albanian alone", 2, Kind.ALONE, False, (1001, 1002)),
    ("1003", "Albanian alone or in any combination", 2, Kind.COMBINATION, False, (1001, 1002)),
    ("1004", "Alsatian alone", 2, Kind.ALONE, False, (1011,)),
    ("1005", "Alsatian alone or in any combination", 2, Kind.COMBINATION, False, (1011,)),
    ("1006", "Andorran alone", 2, Kind.ALONE, True, (1021,)),
    ("1007", "Andorran alone or in any combination", 2, Kind.COMBINATION, True, (1021,)),
    ("4001", "Costa Rican", 2, Kind.ETHNICITY, False, (2001,)),
    ("4002", "Sephardic", 2, Kind.ETHNICITY, True, (2002,)),
    ("2001", "European alone", 1, Kind.ALONE, False, (1001, 1002, 1011)),
    (
        "2002",
        "European alone or in any combination",
        1,
        Kind.COMBINATION,
        False,
        (1001, 1002, 1011),
    ),
    ("2003", "Islander alone", 1, Kind.ALONE, True, (1021,)),
    ("2004", "Islander alone or in any combination", 1, Kind.COMBINATION, True, (1021,)),
    ("3001", "Central American", 1, Kind.ETHNICITY, False, (2001,)),
]

FINE_DETAILED, COARSE_DETAILED, REGIONAL = "2.134", "0.159", "0.008"
FINE_TABLES, COARSE_TABLES, REGIONAL_TABLES = (
    (471, 971, 6971),
    (971, 4971, 19971),
    (4971, 19971, 149971),
)
EVERY = (*GroupLevel.of_run("us"), *GroupLevel.of_run("pr"))


def iterations() -> Iterations:
    pairs = [(i, code) for i, row in enumerate(ROWS) for code in row[5]]
    return Iterations(
        code=np.array([r[0] for r in ROWS]),
        name=np.array([r[1] for r in ROWS]),
        level=np.array([r[2] for r in ROWS], dtype=np.int8),
        kind=np.array([r[3] for r in ROWS], dtype=np.int8),
        detailed_only=np.array([r[4] for r in ROWS]),
        coarse_only=np.zeros(len(ROWS), dtype=bool),
        member=np.array([p[0] for p in pairs], dtype=np.int32),
        race_code=np.array([p[1] for p in pairs], dtype=np.int16),
    )


def _by_level(
    fine: object, coarse: object, regional: object, without: object = None
) -> dict[GroupLevel, object]:
    out = {at: regional if at.level == 1 else fine if at.fine else coarse for at in EVERY}
    return out if without is None else out | {GroupLevel("AIANNH", 1): without}


def persons(mechanism: Mechanism = DISCRETE_GAUSSIAN, **changes: object) -> Parameters:
    """SafeTab-P in production, except for the iterations."""
    budgets = _by_level(*map(Fraction, (FINE_DETAILED, COARSE_DETAILED, REGIONAL, 0)))
    return _of(
        "persons",
        mechanism,
        {"t2": budgets},
        {"t2": _by_level(FINE_TABLES, COARSE_TABLES, REGIONAL_TABLES)},
        changes,
    )


def households(**changes: object) -> Parameters:
    """SafeTab-H in production, except for the iterations."""
    budgets = _by_level(*map(Fraction, ("1.9208", "0.142869", "0.006915", 0)))
    thresholds = {
        "t3": _by_level(FINE_TABLES, COARSE_TABLES, REGIONAL_TABLES),
        "t4": _by_level((471,), (971,), (4971,)),
    }
    return _of("households", DISCRETE_GAUSSIAN, {"t3": budgets, "t4": budgets}, thresholds, changes)


def _of(
    product: str, mechanism: Mechanism, budgets: Mapping, thresholds: Mapping, changes: Mapping
) -> Parameters:
    staged = PRODUCTS[product].staged
    given = {
        "product": PRODUCTS[product],
        "iterations": iterations(),
        "race_codes": 8,
        "mechanism": mechanism,
        "budgets": budgets,
        "first": Fraction(1, 10) if staged else Fraction(0),
        "thresholds": thresholds,
        "names": {},
        "negative": True,
        "chance": Fraction("0.9999") if staged else Fraction(0),
        "runs": ("us", "pr"),
        "states": ("01", "02", "11"),
    }
    return Parameters(**given | dict(changes))
