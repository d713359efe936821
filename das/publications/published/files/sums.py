r"""Whether published measurements belong to one whole tree: each level is compared with the sums of
its children.

Each query :math:`q` with :math:`a_q` answers and variance :math:`\sigma_q^2` measures a unit's
total by the sum of its answers, with variance :math:`a_q \sigma_q^2`. Together, weighted by
precision, they measure it with variance :math:`1 / \sum_q 1/(a_q \sigma_q^2)`; a total that is
published exactly has none. The noise of units is independent, so the total of a parent less those
of its children has the sum of all their variances. Beyond 6 standard deviations (2e-9 of all normal
variables) the difference is not noise: children are missing, or the parent belongs to another tree.
An estimate would spread the parent's total over the existing children. Totals that are known
exactly, of units or of several together, are compared with what was measured of the same units.

A unit that is not measured has the sum of its children, as bypassed units do; where these are not
measured either, nothing is compared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.constraint import JointTotals
from das.model.measurement import Measurement
from das.model.spine import Spine

Array = NDArray[np.float64]

#: Standard deviations that noise may explain.
MOST = 6.0
#: The states and D.C. Each has a part outside of American Indian areas.
STATES = frozenset(f"{n:02d}" for n in range(1, 57)) - {"03", "07", "14", "43", "52"}
#: Those with a part inside, in the publications of 2020, and in the demonstration data of 2010.
INSIDE = STATES - {
    "05",
    "10",
    "11",
    "17",
    "21",
    "24",
    "29",
    "33",
    "34",
    "39",
    "42",
    "44",
    "50",
    "54",
}
INSIDE_2010 = (INSIDE | {"44"}) - {"18", "47"}


class MeasuredTotals:
    """The totals of the units of each level as they are read, and a check of those read so far."""

    def __init__(self, spine: Spine) -> None:
        self.spine = spine
        self._weighted = [np.zeros(len(c)) for c in spine.codes]  #: sums of totals times precisions
        self._precision = [np.zeros(len(c)) for c in spine.codes]
        self._exact: dict[int, Array] = {}
        self._joint: dict[int, JointTotals] = {}

    def exact(self, level: str, totals: NDArray[np.int64]) -> None:
        """Note the totals of a level, published without noise."""
        self._exact[self.spine.index(level)] = totals.astype(np.float64)

    def joint(self, level: str, totals: JointTotals) -> None:
        """Note totals of several units of a level together."""
        self._joint[self.spine.index(level)] = totals

    def add(self, m: Measurement) -> None:
        """One query of a slice of units; of infinite variance where it was not asked."""
        depth, here = self.spine.index(m.level), slice(m.start, m.start + len(m.values))
        weight = 1 / (
            m.values.shape[1] * np.asarray(m.variance, dtype=np.float64)
        )  # 0 where it is infinite
        self._weighted[depth][here] += weight * m.values.sum(axis=1)
        self._precision[depth][here] += weight

    def check(self, deepest: str, folder: Path) -> None:
        """Compare all levels down to ``deepest`` with those below. Raises :class:`InputError`."""
        self._check_known(self.spine.index(deepest), folder)
        value, variance = self._own(self.spine.index(deepest))
        for depth in range(self.spine.index(deepest) - 1, -1, -1):
            parent, n = self.spine.parent[depth + 1], len(self.spine.codes[depth])
            sums, spread = (
                np.bincount(parent, weights=x, minlength=n).astype(np.float64)
                for x in (value, variance)
            )
            value, variance = self._own(depth)
            off: Array = np.abs(value - sums) / np.sqrt(
                np.maximum(variance + spread, 1e-12)
            )  # NaN where one is not known
            if (off > MOST).any():
                self._refuse(depth, int(np.nanargmax(off)), value, sums, off, folder)
            known = np.isfinite(value)
            value, variance = np.where(known, value, sums), np.where(known, variance, spread)

    def _own(self, depth: int) -> tuple[Array, Array]:
        """What was measured of the units of a level, and its variance; NaN where nothing was."""
        if depth in self._exact:
            return self._exact[depth], np.zeros(len(self._exact[depth]))
        return self._measured(depth)

    def _measured(self, depth: int) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._weighted[depth] / self._precision[depth], np.where(
                self._precision[depth] > 0, 1 / self._precision[depth], np.nan
            )

    def _check_known(self, depth: int, folder: Path) -> None:
        """The known totals of a level are near what was measured there."""
        value, variance = self._measured(depth)
        units = np.arange(len(value))
        if depth in self._joint:
            joint = self._joint[depth]
            part, known = joint.part, joint.total.astype(np.float64)
        elif depth in self._exact:
            part, known = units, self._exact[depth]
        else:
            return
        n = len(known)
        value, variance = (
            np.bincount(part, weights=x, minlength=n).astype(np.float64) for x in (value, variance)
        )
        off = np.abs(value - known) / np.sqrt(np.maximum(variance, 1e-12))
        if (off > MOST).any():
            bad = int(np.nanargmax(off))
            level, here = self.spine.levels[depth], units[part == bad]
            codes = [self.spine.code(level, int(u)) for u in here]
            raise InputError(
                f"the total of {level} {' and '.join(codes)} is given as {known[bad]:,.0f}, but"
                f" {value[bad]:,.0f} records were measured there, {off[bad]:,.0f} standard"
                " deviations away",
                where=folder,
                remedy=(
                    "give the total of the same publication, and the files of all parts of the"
                    " state"
                ),
            )

    def _refuse(
        self, depth: int, unit: int, value: Array, sums: Array, off: Array, folder: Path
    ) -> None:
        level, below = self.spine.levels[depth : depth + 2]
        code = self.spine.code(level, unit)
        more = int((off > MOST).sum()) - 1
        others = f" (so it is with {more} more units)" if more else ""
        there = [
            c.decode()
            for c in self.spine.codes[depth + 1][self.spine.parent[depth + 1] == unit].tolist()
        ]
        raise InputError(
            f"{level} {code or level!r} holds {value[unit]:,.0f} records, but the units of level"
            f" {below} below it hold {sums[unit]:,.0f} together, {off[unit]:,.0f} standard"
            f" deviations away{others}. Parts are missing: here are"
            f" {listed(there)}{missing_parts(below, there)}",
            where=folder,
            remedy=(
                "get the folders of all parts, at every level; or, of one State in one part, move"
                f" {level}.parquet away: the State is then the root of the tree"
            ),
        )


def listed(codes: list[str], most: int = 8) -> str:
    """The first of some codes, and how many more there are."""
    return ", ".join(codes[:most]) + (
        f" and {len(codes) - most:,} more" if len(codes) > most else ""
    )


def missing_parts(level: str, codes: list[str]) -> str:
    """The parts of states that a publication has and a folder has not, where its codes are those of
    one."""
    if level != "State":
        return ""
    for year, inside in (("2020", INSIDE), ("2010", INSIDE_2010)):
        known = {f"0{s}" for s in STATES} | {f"1{s}" for s in inside}
        if set(codes) < known:
            lost = sorted(
                known - set(codes), key=lambda c: (c[1:] not in {x[1:] for x in codes}, c)
            )
            return f"; the publication of {year} has {len(known)} parts, also {listed(lost)}"
    return ""
