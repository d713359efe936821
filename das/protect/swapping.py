r"""Swapping: pairs of households exchange their places.

Each household is chosen with a chance whose mean is ``rate``: the same for all, or, with ``rare``,
higher for a household with a rare member (:mod:`das.protect.rarity`). The chosen ones are paired
(:mod:`das.protect.pairing`): partners have the same number of persons, and as many in each group of
the attributes ``match``. With ``partner = "nearest"`` half as many are chosen, and each finds a
partner among all households nearby (:mod:`das.protect.nearest_partner`).

*Invariants.* All tables of areas that hold both partners. Without noise in sizes, the persons of
each place; with ``match = ["votingage"]``, its adults and minors. Two partners in one place change
nothing.

*What is proved.* Nothing of this version. :mod:`das.protect.permutation` has a statement.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), section 2.3 and appendix C. Its two experiments are
:data:`LOW` and :data:`HIGH`. (Their code draws noise and reach from the same numbers; here they are
independent, as the text has it.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.protect.method import ProtectionMethod, generator
from das.protect.nearest_partner import nearest_pairs
from das.protect.pairing import paired
from das.protect.published import ProtectedTables
from das.protect.rarity import chances
from das.protect.study_records import StudyRecords
from das.protect.swap_units import KINDS, SwapUnits
from das.protect.table_set import TableSet
from das.protect.unprotected import exact_lines

PARTNERS = ("random", "nearest")


@dataclass(frozen=True)
class Swapping(ProtectionMethod):
    """``rate``: the share of households that are chosen; ``match``: attributes or groupings whose
    counts partners share; ``rare``: attributes by which a person is rare; ``partner``: ``random`` or
    ``nearest``; ``unit``: ``household`` or ``person``.

    ``levels``: where partners are looked for, the smallest first; without any, all levels above the
    lowest. ``size_noise`` and ``reach``: as :mod:`das.protect.pairing` has them."""

    rate: float = 0.05
    match: tuple[str, ...] = ()
    size_noise: tuple[float, float, float] = (0.0, 1.0, 0.0)
    levels: tuple[str, ...] = ()
    reach: tuple[float, ...] = (1.0,)
    rare: tuple[str, ...] = ()
    partner: str = "random"
    unit: str = "household"

    name: ClassVar[str] = "swapping"
    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        exact, near = self.size_noise[1:2] == (1,), self.partner == PARTNERS[1]
        partners, kinds = ", ".join(PARTNERS), ", ".join(KINDS)
        many = len(self.reach) > len(self.levels) > 0
        for what, good in (
            (f"rate is {self.rate!r}: it must be from 0 to 1", 0 <= self.rate <= 1),
            (f"unit is {self.unit!r}: it can be {kinds}", self.unit in KINDS),
            (f"partner is {self.partner!r}: it can be {partners}", self.partner in PARTNERS),
            ("size_noise must be three probabilities", _law(self.size_noise, 3)),
            ("reach must be probabilities, one a level", _law(self.reach, len(self.reach))),
            ("reach has more entries than levels", not many),
            ("match and size_noise together: noise would undo the match", exact or not self.match),
            ("a nearest partner has no reach, no levels and no noise", not near or self._plain),
        ):
            if not good:
                raise SpecError(what, where="method swapping")

    @property
    def _plain(self) -> bool:
        return self.size_noise[1] == 1 and len(self.reach) == 1 and not self.levels

    @property
    def label(self) -> str:
        what = "households" if self.unit == KINDS[0] else "persons (no households known)"
        noise = " give or take 1" * (self.size_noise[1] < 1)
        parts = [f"{100 * self.rate:.3g} % of {what} swapped, same size{noise}", *self.match]
        parts += ["far"] * (len(self.reach) > 1) + ["nearest"] * (self.partner == PARTNERS[1])
        return ", ".join(parts + [f"rare by {' x '.join(self.rare)}"] * bool(self.rare))

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        swapped = self.swapped(records, key).histogram()
        levels = exact_lines(swapped, records.spine, tables)
        return ProtectedTables(records.spine, tables, levels)

    def swapped(self, records: StudyRecords, key: bytes) -> StudyRecords:
        """The records after swapping."""
        units, rng = SwapUnits.of(records, self.unit, self.match), generator(key, "swapping")
        chance = chances(records, units, self.rate, self.rare)
        if self.partner == PARTNERS[1]:
            pair = self._nearest(records, units, chance, rng)
        else:
            pair = self._random(records, units, chance, rng)
        place = units.place.copy()
        place[pair] = place[pair[:, ::-1]]
        return units.moved(records, place)

    def _random(
        self,
        records: StudyRecords,
        units: SwapUnits,
        chance: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        chosen = np.flatnonzero(rng.random(len(units)) < chance)
        levels = self.levels or records.spine.levels[-2::-1]
        if len(self.reach) > len(levels):
            raise SpecError("reach has more entries than levels", where="method swapping")
        return paired(units, chosen, records.spine, levels, self.reach, self.size_noise, rng)

    def _nearest(
        self,
        records: StudyRecords,
        units: SwapUnits,
        chance: NDArray[np.float64],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """As many look for a partner as make ``rate`` of the units move; in random order."""
        if records.points is None:
            raise InputError(
                "the places have no coordinates",
                where="method swapping",
                remedy='swap with partner = "random"',
            )
        seekers = rng.permutation(np.flatnonzero(rng.random(len(units)) < chance / 2))
        keys = np.stack([units.size, units.profile])
        key = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        return nearest_pairs(seekers, key, units.place, records.points, rng)


def _law(p: tuple[Any, ...], length: int) -> bool:
    good = len(p) == length > 0 and all(isinstance(x, int | float) and x >= 0 for x in p)
    return good and abs(sum(p) - 1) < 1e-9


#: The two experiments, for a tree with levels of these names.
_AREAS = ("Tract", "County", "State")
LOW = Swapping(rate=0.05, levels=_AREAS)
HIGH = Swapping(rate=0.5, size_noise=(0.25, 0.5, 0.25), levels=_AREAS, reach=(0.3, 0.4, 0.3))
