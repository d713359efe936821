r"""Whether published persons, households and units agree: six equalities and eleven inequalities
that hold wherever persons live in households.

The *room* of a household is its persons besides householder and partner.

======  =========================================================================================
``E1``  householders by alone or not, sex, age class, origin and race are the households by these
``E2``  spouses and partners of each kind and sex are the couples with such a householder
``E3``  persons at home are the sizes added up, where no household has 7 or more
``E4``  households of each tenure are the occupied units of it
``E5``  householders, households and occupied units are as many
``E6``  nobody is in a type of group quarters that has no facility
``I1``  persons at home are at least the sizes added up
``I2``  own children under 6, and of 6 to 17: at least the households with some, at most their room
``I3``  the same for children under 18 of any relationship
``I4``  householders and partners under 18: those that household types say, two a household at most
``I5``  persons of 60, 65 and 75 and over: at least the households with some, at most their sizes
``I6``  persons of 60 and over besides householders: at least the households whose oldest is another
``I7``  relatives: at least the families without a spouse, at most the room of families
``I8``  nonrelatives: at least the room of nonfamilies, at most with what families leave
``I9``  parents, children, children-in-law and grandchildren: two for each three generations
``I10`` persons in each type of group quarters: at least its facilities
``I11`` persons of 15 and over: at least the households; couples find partners; homes are lived in
======  =========================================================================================

Each is a sum over households, so it holds in every unit of every level. They are necessary, not
sufficient: whether persons can be split into the given households is a partition of a multiset,
which is NP-hard in general. A link is the proof."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.publications.dhc.agreement.counted import (
    AgreementCounts,
    Floats,
    household_counts,
    person_counts,
    unit_counts,
)

# How well published files of persons and households agree, identity by identity.


@dataclass(frozen=True)
class AgreementRow:
    """An ``identity`` and what it says, at one ``level``: of ``units`` with persons or households,
    how many it is ``violated`` in, and the mean absolute difference over all of them."""

    identity: str
    says: str
    level: str
    units: int
    violated: int
    difference: float | None

    def __post_init__(self) -> None:
        if not 0 <= self.violated <= self.units:
            raise InputError(
                f"{self.violated} of {self.units} units violate it", where=f"{self.identity}"
            )

    @property
    def share(self) -> float:
        """Of the units, those that violate it."""
        return self.violated / self.units if self.units else 0.0


#: Units whose classes of householders are held at once.
BATCH = 1 << 12
#: Every identity, in words.
IDENTITIES: Mapping[str, str] = {
    "E1": "householders by class are households by class",
    "E2": "spouses and partners are couples",
    "E3": "household sizes add up to persons",
    "E4": "households are occupied units, by tenure",
    "E5": "householders are households and occupied units",
    "E6": "nobody in group quarters without a facility",
    "I1": "persons are at least the sizes added up",
    "I2": "own children fit the households with own children",
    "I3": "children fit the households with children",
    "I4": "householders and partners under 18",
    "I5": "persons of 60, 65, 75 and over fit the households with some",
    "I6": "the oldest who are not householders exist",
    "I7": "relatives fit the families",
    "I8": "nonrelatives fit the households",
    "I9": "three generations have their members",
    "I10": "every facility has someone",
    "I11": "enough persons of 15 and over, and of each sex",
}
ANY, ANY_WORDS = "any", "any of these"


def agreement(counts: AgreementCounts, level: str) -> list[AgreementRow]:
    """A row for each identity, and one for any of them.

    Costs a pass over the stored counts, and ``BATCH`` x 504 numbers at once."""
    parts = [
        _gaps(counts.rows(start, min(start + BATCH, counts.persons.units)))
        for start in range(0, counts.persons.units, BATCH)
    ]
    lived = counts.persons.totals() > 0
    gaps = {name: np.concatenate([p[name] for p in parts]) for name in IDENTITIES}
    odd = np.zeros(len(lived), dtype=bool)
    for gap in gaps.values():
        odd |= gap > 0
    # a household where nobody is disagrees, too
    count = lived | odd
    rows = [
        AgreementRow(
            name,
            IDENTITIES[name],
            level,
            int(count.sum()),
            int((gap > 0).sum()),
            float(gap.sum() / max(1, count.sum())),
        )
        for name, gap in gaps.items()
    ]
    return [*rows, AgreementRow(ANY, ANY_WORDS, level, int(count.sum()), int(odd.sum()), None)]


def differing(counts: AgreementCounts) -> NDArray[np.bool_]:
    """The units that violate any identity, ``(units,)``."""
    return np.asarray(np.any([g > 0 for g in _gaps(counts).values()], axis=0))


def _gaps(counts: AgreementCounts) -> dict[str, Floats]:
    """By identity how far each unit is from it, ``(units,)``: the sum of absolute differences, or
    of what bounds are missed by. 0 where it holds."""
    p = person_counts(counts.persons)
    h = household_counts(counts.households)
    u = unit_counts(counts.units)
    out: dict[str, Floats] = {}
    for name, gap in _equal(p, h, u):
        out[name] = out.get(name, 0) + gap
    for name, gap in _bounded(p, h, u):
        out[name] = out.get(name, 0) + gap
    return {name: out[name] for name in IDENTITIES}


_Counts = Mapping[str, NDArray[np.int64]]


def _equal(p: _Counts, h: _Counts, counts: _Counts) -> Iterator[tuple[str, Floats]]:
    yield "E1", _apart(p["alone"], h["alone"]) + _apart(p["others"], h["others"])
    yield "E2", _apart(p["partners"], h["partners"])
    yield "E3", np.where(h["largest"] > 0, 0.0, _apart(p["home"], h["persons at least"]))
    yield "E4", _apart(h["tenure"], counts["tenure"])
    yield "E5", _apart(p["heads"], h["all"]) + _apart(h["all"], counts["occupied"])
    yield "E6", _over(np.where(counts["quarters"] == 0, p["quarters"], 0), 0)


def _bounded(p: _Counts, h: _Counts, counts: _Counts) -> Iterator[tuple[str, Floats]]:
    yield "I1", _over(h["persons at least"], p["home"])
    yield "I2", _within(p["own"], h["own at least"], h["own at most"])
    yield "I3", _within(p["child"], h["children at least"], h["children at most"])
    yield "I4", _within(p["minor heads"], h["minor heads at least"], h["minor heads at most"])
    yield "I5", _within(p["elderly"], h["elderly"], h["elderly at most"])
    yield "I6", _over(h["older than householder"], p["elderly others"])
    yield "I7", _within(p["relatives"], h["relatives at least"], h["relatives at most"])
    yield "I8", _within(p["strangers"], h["strangers at least"], h["strangers at most"])
    yield "I9", _over(h["generations"], p["generations"])
    yield "I10", _over(counts["quarters"], p["quarters"])
    couples = h["opposite couples"]
    most = np.minimum(p["by sex"].min(axis=1), p["able"] - h["all"])
    lived = (p["home"] > 0) != (h["all"] > 0)
    yield "I11", _over(h["all"], p["able"]) + _over(couples, most) + lived


def _apart(a: NDArray[np.generic], b: NDArray[np.generic]) -> Floats:
    return _summed(np.abs(np.asarray(a, dtype=float) - b))


def _over(a: NDArray[np.generic], most: NDArray[np.generic] | int) -> Floats:
    """By how much ``a`` is larger than it can be."""
    return _summed(np.maximum(np.asarray(a, dtype=float) - most, 0))


def _within(
    a: NDArray[np.generic], least: NDArray[np.generic], most: NDArray[np.generic]
) -> Floats:
    return _over(least, a) + _over(a, most)


def _summed(gap: Floats) -> Floats:
    return gap.reshape(len(gap), -1).sum(axis=1)
