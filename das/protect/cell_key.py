r"""The cell-key method: small random changes that are the same wherever the same persons are
counted.

Published count = count + change, where the change is looked up in a perturbation table
(:mod:`das.protect.perturbation_table`) by the count and the cell's key
(:mod:`das.protect.cell_keys`). Zeros stay zero. Each total is changed on its own, so tables do not
add up.

*What is known of a line.* The true count lies between the least and the largest count that the
table can turn into y, within y - D and y + D. The price is minus the logarithm of the symmetric
row, :math:`-\ln p_{|v|}`: the law of all but the smallest counts. It is convex, because a
symmetric row is :math:`p_v \propto e^{b v^2}`, :math:`b \le 0`.

*What is proved.* Nothing: a fixed key is one draw for ever, and a bounded change rules out most
counts for certain.

Source: Australian Bureau of Statistics (Fraser and Wooton, 2005); Eurostat's guidelines for the
2021 censuses; Office for National Statistics, census 2021."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import SpecError
from das.protect.cell_keys import cell_keys, uniform
from das.protect.method import ProtectionMethod
from das.protect.perturbation_table import NEVER, PerturbationTable
from das.protect.published import LevelLines, ProtectedTables
from das.protect.study_records import StudyRecords
from das.protect.table_set import TableSet
from das.protect.unprotected import exact_lines


@dataclass(frozen=True)
class CellKey(ProtectionMethod):
    """``D``: the largest change; ``V``: the largest variance of a change; ``js``: counts from 1 to
    js are never printed."""

    D: int = 2
    V: float = 1.0
    js: int = 0

    name: ClassVar[str] = "cell-key"
    random: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for what, good in (
            (f"D is {self.D!r}: it must be an integer from 1 on", _whole(self.D, 1)),
            (f"js is {self.js!r}: it must be an integer from 0 to D - 1", _whole(self.js, 0)),
            (f"js is {self.js!r}: it must be less than D", self.js < self.D),
            (f"V is {self.V!r}: it must be above 0", self.V > 0),
        ):
            if not good:
                raise SpecError(what, where="method cell-key")
        _ = self.perturbations  # refuses moments that no law has

    @property
    def label(self) -> str:
        return f"cell key, D = {self.D}, V = {self.V:g}" + (f", js = {self.js}" * (self.js > 0))

    @property
    def perturbations(self) -> PerturbationTable:
        """Its perturbation table."""
        return PerturbationTable.of(self.D, self.V, self.js)

    @property
    def price(self) -> tuple[float, ...]:
        """Of the distances 0 to D. Beyond those that the symmetric row has, it rises as before."""
        last = self.perturbations.p[-1, self.D :]
        costs = (-np.log(last[last > 0] / last[0])).tolist()
        step = costs[-1] - costs[-2] if len(costs) > 1 else -np.log(NEVER)
        beyond = self.D + 1 - len(costs)
        return (*costs, *(costs[-1] + step * np.arange(1, beyond + 1)).tolist())

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        keys, perturbations = cell_keys(records, tables, key), self.perturbations
        levels = {}
        for level, exact in exact_lines(records.histogram(), records.spine, tables).items():
            change = perturbations.change(exact.value, uniform(keys[level]))
            lower, upper = _truths(perturbations, exact.value + change)
            levels[level] = LevelLines(lower, upper, exact.value + change, self.price)
        return ProtectedTables(records.spine, tables, levels)


def _whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _truths(
    of: PerturbationTable, printed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The bounds of the count behind each printed one."""
    least, most = of.truths()
    few, at = printed < len(least), np.minimum(printed, len(least) - 1)
    return (
        np.where(few, least[at], printed - of.largest),
        np.where(few, most[at], printed + of.largest),
    )
