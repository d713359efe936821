r"""Swapping: pairs of households exchange their places.

1. Each household is *chosen* with a chance whose mean is ``rate``: the same for all, or, with
   ``rare``, higher for a household with a rare member (:mod:`das.protect.rarity`).
2. A chosen household has a *key*: its persons in each group of ``match`` and their number. That
   number is altered by -1, 0 or 1 with the probabilities ``size_noise``.
3. It also has a *place of search* of the first of the ``levels``: its own with probability
   ``reach[0]``. Else its group's places are permuted at random within the units of ``levels[1]``
   (probability ``reach[1]``), or of ``levels[2]``, and so on.
4. The chosen ones with the same key and place of search are paired at random. Those without a
   partner are paired within the unit of the next level above, and so on up. The last stay.

With ``partner = "nearest"`` half as many are chosen. Each takes one of the five nearest
households with its key elsewhere, by coordinates (:mod:`das.protect.nearest_partner`).

*Invariants.* All tables of areas that hold both partners; without noise, the persons of each place;
with ``match = ["votingage"]``, its adults and minors. Two partners in one place change nothing.

*What is proved.* Nothing of this version. :mod:`das.protect.permutation` has a statement.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), section 2.3 and appendix C. Its two experiments are :data:`LOW`
and :data:`HIGH`. (Their code draws noise and reach from the same numbers; here they are
independent, as the text has it.)"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.protect.method import ProtectionMethod, generator
from das.protect.nearest_partner import nearest_pairs
from das.protect.published import ProtectedTables
from das.protect.rarity import chances
from das.protect.study_records import StudyRecords
from das.protect.swap_units import KINDS, SwapUnits, pairs
from das.protect.table_set import TableSet
from das.protect.unprotected import exact_lines

PARTNERS = ("random", "nearest")


@dataclass(frozen=True)
class Swapping(ProtectionMethod):
    """The parameters that the module names. ``levels``: where partners are looked for, the smallest
    first; without any, all levels above the lowest. ``unit``: ``household`` or ``person``."""

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
        for what, good in (
            (f"rate is {self.rate!r}: it must be from 0 to 1", 0 <= self.rate <= 1),
            (f"unit is {self.unit!r}: it can be {', '.join(KINDS)}", self.unit in KINDS),
            (
                f"partner is {self.partner!r}: it can be {', '.join(PARTNERS)}",
                self.partner in PARTNERS,
            ),
            ("size_noise must be three probabilities", _law(self.size_noise, 3)),
            ("reach must be probabilities, one a level", _law(self.reach, len(self.reach))),
            (
                "reach has more entries than levels",
                not self.levels or len(self.reach) <= len(self.levels),
            ),
            (
                "match and size_noise together: noise would undo the match",
                not self.match or self.size_noise[1] == 1,
            ),
            (
                "a nearest partner has no reach, and no noise",
                self.partner == "random" or (len(self.reach) == 1 and self.size_noise[1] == 1),
            ),
        ):
            if not good:
                raise SpecError(what, where="method swapping")

    @property
    def label(self) -> str:
        what = "households" if self.unit == KINDS[0] else "persons (no households known)"
        parts = [f"{self.rate:.3g} of {what} swapped", ", ".join(("size", *self.match))]
        parts += [f"rare {' x '.join(self.rare)} first"] * bool(self.rare)
        parts += ["nearest partner"] * (self.partner == "nearest")
        return "; ".join(parts)

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        swapped = self.swapped(records, key).histogram()
        levels = exact_lines(swapped, records.spine, tables)
        return ProtectedTables(records.spine, tables, levels)

    def swapped(self, records: StudyRecords, key: bytes) -> StudyRecords:
        """The records after swapping."""
        units, rng = SwapUnits.of(records, self.unit, self.match), generator(key, "swapping")
        chance = chances(records, units, self.rate, self.rare)
        if self.partner == "nearest":
            pair = self._nearest(records, units, chance, rng)
        else:
            chosen = np.flatnonzero(rng.random(len(units)) < chance)
            pair = self._pairs(records, units, chosen, rng)
        place = units.place.copy()
        place[pair] = place[pair[:, ::-1]]
        return units.moved(records, place)

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
        seekers = np.flatnonzero(rng.random(len(units)) < chance / 2)
        keys = np.stack([units.size, units.profile])
        key = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
        return nearest_pairs(rng.permutation(seekers), key, units.place, records.points, rng)

    def _pairs(
        self,
        records: StudyRecords,
        units: SwapUnits,
        chosen: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """The pairs of units that exchange places, ``(pairs, 2)``."""
        spine = records.spine
        levels = self.levels or spine.levels[-2::-1]
        if not levels or len(self.reach) > len(levels):
            raise SpecError("reach has more entries than levels", where="method swapping")
        size = units.size[chosen] + rng.choice([-1, 0, 1], size=len(chosen), p=self.size_noise)
        search = self._search(records, units.place[chosen], levels, rng)
        left, out = np.arange(len(chosen)), []
        for level in levels:
            area = spine.up(levels[0], level)[search[left]]
            keys = np.stack([area, size[left], units.profile[chosen[left]]])
            group = np.unique(keys, axis=1, return_inverse=True)[1].ravel()
            out.append(left[pairs(group, rng)])
            left = np.setdiff1d(left, out[-1])
        return chosen[np.concatenate(out)]

    def _search(
        self,
        records: StudyRecords,
        place: NDArray[np.int64],
        levels: tuple[str, ...],
        rng: np.random.Generator,
    ) -> NDArray[np.int64]:
        """The unit of ``levels[0]`` where each chosen household looks for its partner."""
        spine = records.spine
        out = spine.up(spine.levels[-1], levels[0])[place]
        group = rng.choice(len(self.reach), size=len(place), p=self.reach)
        for k in range(1, len(self.reach)):
            mine = np.flatnonzero(group == k)
            within = spine.up(levels[0], levels[k])[out[mine]]
            there = mine[np.lexsort((rng.random(len(mine)), within))]
            here = mine[np.argsort(within, kind="stable")]
            out[here] = out[there]
        return out


def _law(p: tuple[Any, ...], length: int) -> bool:
    good = len(p) == length > 0 and all(isinstance(x, int | float) and x >= 0 for x in p)
    return good and abs(sum(p) - 1) < 1e-9


#: The two experiments, for a tree with levels of these names.
_AREAS = ("Tract", "County", "State")
LOW = Swapping(rate=0.05, levels=_AREAS)
HIGH = Swapping(rate=0.5, size_noise=(0.25, 0.5, 0.25), levels=_AREAS, reach=(0.3, 0.4, 0.3))
