"""What a study measures in a group of sampled places: the scores of the attack, the errors of uses,
what is withheld. It opens the records; everything it returns stays in the study's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.files import messages
from das.model.frozen import Closed, Frozen
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.tools.protection.attack import AttackStatus, Reconstruction, reconstruct
from das.tools.protection.attack.reidentification import ReidentificationScore, reidentify
from das.tools.protection.errors import LineTally, UsesAtLevels, UseTally, line_tallies, use_tallies
from das.tools.protection.published import LevelLines, ProtectedTables
from das.tools.protection.table_set import TableSet
from das.tools.protection.truth.study import IntruderOptions

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
#: The numbers of a score that add up, in order.
COUNTED = ("persons", "agree", "putative", "confirmed", "modal", "proportional", "leave_one_out")


@dataclass(frozen=True, eq=False, repr=False)
class GroupScores(Closed, Frozen):
    """Of some sampled places (*clusters*): their numbers at the sampled level, ``(clusters,)``.
    ``keys``: the group of persons, the size of their unit, and ``unique`` for those in units whose
    records the tables determine; ``scores``: the numbers of :data:`COUNTED`, ``(clusters, keys,
    7)``. ``status``: lowest units with persons by :class:`AttackStatus`, ``(clusters, statuses)``.
    ``varied``: the sum over persons of the variability, in percent, and the persons that it was
    measured for, ``(clusters, 2)``; ``seconds`` of the attack, ``(clusters,)``."""

    clusters: Ints
    keys: tuple[str, ...]
    scores: Floats
    status: Ints
    varied: Floats
    seconds: Floats
    uses: tuple[UseTally, ...]
    lines: tuple[LineTally, ...]


def key_of(group: str, size: str = "all", unique: bool = False) -> str:
    """The key of a score.

    >>> key_of("nonmodal unique"), key_of("all", "1-9", True)
    ('nonmodal unique', 'all; 1-9; unique')
    """
    return "; ".join([group, *[size] * (size != "all"), *["unique"] * unique])


# --- the parts of protected tables


def part(published: ProtectedTables, level: str, units: Ints) -> dict[str, NDArray[Any]]:
    """Some units of ``level`` and all below them, as arrays for a file; of levels above, only the
    ancestors."""
    spine = published.spine
    kept = dict(zip(spine.levels, spine.kept(level, units), strict=True))
    out: dict[str, NDArray[Any]] = {}
    for name, lines in published.levels.items():
        some = lines.some(kept[name])
        arrays = {"lower": some.lower, "upper": some.upper, "value": some.value}
        out |= messages.named(name, {k: v.astype(np.int32) for k, v in arrays.items()})
        out[f"{name}:price"] = np.array(lines.price)
    if published.records is not None:
        mine = published.records.some(kept[spine.levels[-1]])
        out |= messages.named("records", mine.to_arrays())
    return out


def part_of(
    arrays: Mapping[str, NDArray[Any]], spine: Spine, level: str, units: Ints, tables: TableSet
) -> ProtectedTables:
    """The inverse of :func:`part`; ``spine`` is the whole tree."""
    levels = {}
    for name in tables.tables:
        of = messages.parted(arrays, name)
        if of:
            lower, upper, value = (of[k].astype(np.int64) for k in ("lower", "upper", "value"))
            levels[name] = LevelLines(lower, upper, value, tuple(of["price"].tolist()))
    records = messages.parted(arrays, "records")
    return ProtectedTables(
        spine.restricted(level, units),
        tables,
        levels,
        Histogram.of_arrays(records) if records else None,
    )


# --- scores


def measured(
    published: ProtectedTables,
    truth: Histogram,
    level: str,
    clusters: Ints,
    uses: UsesAtLevels,
    intruder: IntruderOptions,
) -> GroupScores:
    """Attack protected tables of some units of ``level``, and compare what is found with the truth;
    ``truth`` is of the lowest units below them."""
    found = reconstruct(published, intruder.reconstruction)
    spine = published.spine
    extents = [spine.extent(level, i)[spine.levels[-1]] for i in range(len(clusters))]
    scored = [_scores(found, truth, published, level, i, intruder) for i in range(len(clusters))]
    persons = truth.totals()
    return GroupScores(
        clusters,
        tuple(_keys(scored[0])),
        np.array([[[getattr(s, n) for n in COUNTED] for s in each] for each in scored], float),
        np.array([_statuses(found.status[a:b], persons[a:b]) for a, b in extents]),
        np.array([_varied(found, persons, a, b) for a, b in extents]),
        np.array([float(found.seconds[a:b].sum()) for a, b in extents]),
        use_tallies(uses, published, found.histogram, truth, level),
        line_tallies(uses, published, truth, level),
    )


def _keys(scores: tuple[ReidentificationScore, ...]) -> list[str]:
    return [key_of(s.group, s.size, s.among) for s in scores]


def _scores(
    found: Reconstruction,
    truth: Histogram,
    published: ProtectedTables,
    level: str,
    unit: int,
    intruder: IntruderOptions,
) -> tuple[ReidentificationScore, ...]:
    """Those of one unit of ``level``."""
    spine = published.spine
    start, stop = spine.extent(level, unit)[spine.levels[-1]]
    return reidentify(
        found.histogram.rows(start, stop),
        truth.rows(start, stop),
        spine.subtree(level, unit),
        published.tables.schema,
        known=intruder.known,
        sensitive=intruder.sensitive,
        among=found.unique[start:stop],
    ).scores


def _statuses(status: NDArray[np.int8], persons: Ints) -> Ints:
    return np.bincount(status[persons > 0], minlength=len(AttackStatus)).astype(np.int64)


def _varied(found: Reconstruction, persons: Ints, start: int, stop: int) -> Floats:
    known = ~np.isnan(found.variability[start:stop])
    weight = persons[start:stop][known]
    return np.array([float((found.variability[start:stop][known] * weight).sum()), weight.sum()])
