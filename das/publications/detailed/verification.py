"""The measurements of the Detailed DHC, checked against the plan.

Every group of the domain must be there once, with the stated noise. Its table must have the size
that its first stage, or an earlier release, asks for."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import ALTERED
from das.errors import ReleaseError
from das.files.run import run_directory
from das.publications.detailed.files import measurements
from das.publications.detailed.model.records import UNMEASURED, GroupMeasurement
from das.publications.detailed.model.tables import LevelPlan
from das.publications.detailed.release import OpenedGroups


def check_files(opened: OpenedGroups) -> None:
    """Raises :class:`ReleaseError` at the first file that is not what it should be."""
    for plan in opened.spec.plans:
        _check_level(opened, plan)


def _check_level(opened: OpenedGroups, plan: LevelPlan) -> None:
    root = run_directory.nmf_folder(opened.folder, opened.name)
    found, regions = Counter[str](), list[bytes]()
    noise = {f"{d.query}: {d.mechanism.symbol}": str(d.parameter) for d in plan.measurements}
    for path, m in zip(measurements.paths(root, plan), opened.measured(plan), strict=True):
        if measurements.noise(path) != noise:
            raise ReleaseError("its noise is not that of the plan", where=path, remedy=ALTERED)
        if not np.array_equal(m.size, _sizes(opened, plan, m)):
            raise ReleaseError(
                "a table is not of the size that follows from what was published of its group"
                " before",
                where=path,
                remedy=ALTERED,
            )
        regions += m.regions.tolist()
        there = m.size != UNMEASURED
        only = m.only[m.iteration]
        found += Counter(
            {plan.totals: int((there & only).sum()), plan.tables: int((there & ~only).sum())}
        )
    ids = opened.regions.ids[plan.at.region].tolist()
    if sorted(regions) != ids or {c: n for c, n in found.items() if n} != {
        c: n for c, n in opened.units(plan).items() if n
    }:
        raise ReleaseError(
            f"these are not all groups of {plan.level}, each once",
            where=measurements.folder(root, plan),
            remedy=ALTERED,
        )


def _sizes(opened: OpenedGroups, plan: LevelPlan, m: GroupMeasurement) -> NDArray[np.int8]:
    """Those that the tables should have."""
    known = opened.sizes(plan, m.regions)
    return (
        np.where(m.only[m.iteration], 0, plan.size(m.first)).astype(np.int8)
        if known is None
        else known
    )
