"""Ages within linked households, by their tails: what a median hides.

A link chooses who lives together by age. Six figures say how often that ends in households that
hardly exist: of couples (spouses and unmarried partners), and of children and parents of
householders. Each has a known value in simulated records."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from das.model.dhc.members import ADULT, HEADS, OWN, PARENTS, PARTNERS, LinkedPersons

#: Years: couples that are further apart, and generations that are closer, are rare.
FAR, CLOSE = 20, 15
#: Householders below this age are rare.
YOUNG = 16
#: What each figure says.
KINSHIP: Mapping[str, str] = {
    "couples_apart": f"couples more than {FAR} years apart, %",
    "couples_90": "difference of ages of couples, 90th percentile, years",
    "no_adult": "households with nobody of 18 or over, %",
    "young_householders": f"householders under {YOUNG}, %",
    "near_parents": f"parents and parents-in-law less than {CLOSE} years older, %",
    "near_children": f"children less than {CLOSE} years younger, %",
}


def kinship(people: LinkedPersons) -> dict[str, float]:
    """The figures of :data:`KINSHIP` for persons in households, which are numbered from 0 on. A
    figure of nobody is 0."""
    home, age = people.household, people.age
    heads = np.flatnonzero(np.isin(people.relgq, HEADS))
    of_head = np.zeros(len(heads), dtype=np.int64)
    of_head[home[heads]] = age[heads]
    older = age - of_head[home]
    oldest = np.zeros(len(heads), dtype=np.int64)
    np.maximum.at(oldest, home, age)
    couples = np.abs(older[np.isin(people.relgq, PARTNERS)])
    return {
        "couples_apart": _percent(couples > FAR),
        "couples_90": float(np.percentile(couples, 90)) if len(couples) else 0.0,
        "no_adult": _percent(oldest < ADULT),
        "young_householders": _percent(of_head < YOUNG),
        "near_parents": _percent(older[np.isin(people.relgq, PARENTS)] < CLOSE),
        "near_children": _percent(-older[np.isin(people.relgq, OWN)] < CLOSE),
    }


def _percent(which: np.ndarray) -> float:
    return 100.0 * float(which.mean()) if len(which) else 0.0
