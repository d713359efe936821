"""Who is swapped more often: households with a rare member.

A household is as rare as its rarest member: the number of persons of its place with the same
attributes. Among those as rare, the household in the smaller place comes first. By this order the
rarest 0.5 %, the next 19.5 %, 30 % and 50 % of the households have the weights 1, 0.6, 0.3 and 0.1.

Source: M. Ballesteros, C. Dwork, G. King, C. Olson, M. Raghavan, Evaluating the impacts of swapping
on the US decennial census (2025), arXiv 2502.01320, for the classes and their weights. There the
rarest households are visited first until enough have moved; here each has a chance of its own."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from das.protect.study_records import StudyRecords
from das.protect.swap_units import SwapUnits

#: Shares of households by rarity, the rarest first, and the weight of each.
CLASSES = ((0.005, 1.0), (0.195, 0.6), (0.3, 0.3), (0.5, 0.1))


def chances(
    records: StudyRecords, units: SwapUnits, rate: float, rare: tuple[str, ...]
) -> NDArray[np.float64]:
    """The chance of each unit to be chosen, ``(units,)``: its weight times a number, at most 1, on
    average ``rate``; without attributes by which a person is ``rare``, the same for all."""
    if not rare or not len(units) or rate in (0, 1):
        return np.full(len(units), rate)
    order = np.argsort(rarity(records, units, rare), kind="stable")
    ends = np.cumsum([share for share, _ in CLASSES])[:-1] * len(units)
    weight = np.empty(len(units))
    weight[order] = np.array([w for _, w in CLASSES])[
        np.searchsorted(ends, np.arange(len(units)), side="right")
    ]
    scale = brentq(lambda c: np.minimum(1, c * weight).mean() - rate, 0, 1 / weight.min())
    out: NDArray[np.float64] = np.minimum(1, scale * weight)
    return out


def rarity(records: StudyRecords, units: SwapUnits, rare: tuple[str, ...]) -> NDArray[np.float64]:
    """The rarer, the less, ``(units,)``: how many persons of the place are like the unit's rarest
    member in the attributes ``rare``; and as a fraction below 1 how large the place is."""
    query = records.schema.query(" * ".join(rare))
    kind = records.place * query.answers + query.at(records.cell)
    _, at, many = np.unique(kind, return_inverse=True, return_counts=True)
    inside = units.unit >= 0
    fewest = np.full(len(units), np.inf)
    np.minimum.at(fewest, units.unit[inside], many[at[inside]])
    persons = np.bincount(records.place)
    out: NDArray[np.float64] = fewest + persons[units.place] / (persons.max() + 1.0)
    return out
