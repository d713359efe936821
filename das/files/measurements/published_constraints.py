"""The constraints of noisy measurement files as published: those that post-processing enforces, and
notes on the rest.

*Bounds*: those of the dwelling groups at the lowest level. *Totals* (``total``): those of the
lowest level whose totals are all known. For a state in two parts (American Indian areas, and the
rest) the production system knew the total of both together. No row of the published files
gives it, so it may come from outside (:mod:`das.files.measurements.outside_totals`). Rows named
``joint_total``, one for each unit with the total of its whole place, are used where they exist.

*Structural zeros* are the schema's, and those of the files are held against them
(:mod:`das.files.measurements.published_rules`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from das.errors import InputError, ReleaseError
from das.files import codes as texts
from das.files.measurements.published_files import (
    AGAIN,
    Ints,
    PublishedLevel,
    check_shape,
    matrix,
    read,
)
from das.files.measurements.published_rules import check_rules
from das.files.measurements.published_tree import units_of_codes
from das.model.codes import text
from das.model.constraint import Constraint, JointTotals
from das.model.limits import NO_LIMIT
from das.model.schema import Schema
from das.model.spine import Spine

_SIGNS = {"total": "=", "lb": ">=", "ub": "<="}
_SAME_SIGN = {"==": "=", "le": "<=", "ge": ">=", "eq": "="}


def constraints_of(
    schema: Schema,
    spine: Spine,
    levels: Sequence[PublishedLevel],
    notes: list[str],
    outside: Constraint | None = None,
) -> list[Constraint]:
    """Those that post-processing enforces: totals of one level, and bounds of the dwelling groups.
    ``outside``: totals that the files need not hold.
    """
    dwelling = schema.dwelling
    bounds = [] if dwelling is None else [f"{dwelling}_total_{end}" for end in ("lb", "ub")]
    notes += check_rules(schema, levels, {"total", "joint_total", *bounds})
    out = _known_total(schema, spine, levels, notes, outside)
    notes += _in_parts(spine, levels, out)
    lowest = levels[-1]
    if not lowest.names & set(bounds):
        if above := [level.name for level in levels if level.names & set(bounds)]:
            notes.append(
                f"bounds of the groups of {dwelling!r} are given at {', '.join(above)} and not at "
                f"{lowest.name}: not enforced"
            )
        return out
    low, high = (bound_of(schema, spine, lowest, name, name[-2:], str(dwelling)) for name in bounds)
    for name, bound in zip(bounds, (low, high), strict=True):
        if missing := int((bound < 0).any(axis=1).sum()):
            notes.append(
                f"{lowest.name}: {name} is not given for {missing} of {len(bound)} units, which are"
                " unbounded"
            )
    low, high = np.where(low < 0, 0, low), np.where(high < 0, NO_LIMIT, high)
    if (bad := (low > high).any(axis=1)).any():
        raise InputError(
            f"{lowest.name} {spine.code(lowest.name, int(np.argmax(bad)))}: a lower bound is above"
            " the upper one",
            where="hhgq_total_lb and hhgq_total_ub",
            remedy=AGAIN,
        )
    notes += _stricter(schema, spine, levels, [c.level for c in out], low, high)
    for name, sign, bound in zip(bounds, (">=", "<="), (low, high), strict=True):
        out.append(Constraint(name, lowest.name, str(dwelling), sign, bound))
    return out


def _stricter(
    schema: Schema,
    spine: Spine,
    levels: Sequence[PublishedLevel],
    total: Sequence[str],
    low: Ints,
    high: Ints,
) -> Iterator[str]:
    """Notes on bounds of levels above the lowest that say more than those below them. Where totals
    are known they do not: published bounds are then cut to what the total leaves, as these are by
    the total itself."""
    first = spine.index(total[0]) + 1 if total else 0
    for level in levels[first:-1]:
        home = spine.up(levels[-1].name, level.name)
        for end, lowest, way in (("lb", low, 1), ("ub", high, -1)):
            name = f"{schema.dwelling}_total_{end}"
            if name in level.names:
                sums = np.add.reduceat(
                    lowest, np.searchsorted(home, np.arange(spine.units(level.name))), axis=0
                )
                given = bound_of(schema, spine, level, name, end, str(schema.dwelling))
                if (bad := ((given - sums) * way > 0) & (given >= 0)).any():
                    yield (
                        f"{level.name}: {name} is stricter than the bounds below it for"
                        f" {int(bad.any(axis=1).sum())} of {len(bad)} units: not enforced"
                    )


def _known_total(
    schema: Schema,
    spine: Spine,
    levels: Sequence[PublishedLevel],
    notes: list[str],
    outside: Constraint | None,
) -> list[Constraint]:
    """The totals, of units or of places, at the lowest level whose totals are all known, in the
    files or ``outside`` of them. Totals of the levels above must be their sums.
    """
    known: Constraint | None = None
    counted = np.zeros(0, dtype=np.int64)  # what adds up to the totals above
    for level, name in (
        (level, name) for level in reversed(levels) for name in ("total", "joint_total")
    ):
        if outside is not None and (outside.level, outside.name) == (level.name, name):
            total = _agreed(schema, spine, level, outside)
        elif name in level.names:
            total = bound_of(schema, spine, level, name, "total", "total")[:, 0]
        else:
            continue
        if (total < 0).any():
            notes.append(
                f"{level.name}: {'the total' if name == 'total' else name} is known for "
                f"{int((total >= 0).sum())} of {len(total)} units, and treated as unknown for all"
            )
        elif known is None:
            known = Constraint(name, level.name, "total", "=", total[:, None])
            counted = total if name == "total" else _once(spine, level, total)
        else:
            _check_sums(spine, level, name, total, known.level, counted)
    return [] if known is None else [known]


def _check_sums(
    spine: Spine, level: PublishedLevel, name: str, total: Ints, below: str, counted: Ints
) -> None:
    """The totals of a level are the sums of those known ``below``."""
    sums = np.bincount(spine.up(below, level.name), weights=counted, minlength=len(total))
    if name == "joint_total":
        joint = JointTotals.of_places(spine.codes[spine.index(level.name)], total)
        sums = joint.sums(sums.astype(np.int64))[joint.part]
    if (bad := sums != total).any():
        code = spine.code(level.name, int(np.argmax(bad)))
        raise InputError(
            f"the total of {level.name} {code} is {total[bad][0]}, but those of level {below} below"
            f" it sum to {int(sums[bad][0])}",
            where="total_con",
            remedy=AGAIN,
        )


def _agreed(schema: Schema, spine: Spine, level: PublishedLevel, outside: Constraint) -> Ints:
    """Totals from outside, which must be those of the files where these have them."""
    total = outside.bound[:, 0]
    if outside.name in level.names:
        own = bound_of(schema, spine, level, outside.name, "total", "total")[:, 0]
        if (bad := (own >= 0) & (own != total)).any():
            unit = int(np.argmax(bad))
            raise InputError(
                f"the total of {level.name} {spine.code(level.name, unit)} is {own[unit]:,} in the"
                f" measurement files, and {total[unit]:,} is given",
                where="totals",
                remedy="give the totals of the same publication",
            )
    return total


def _once(spine: Spine, level: PublishedLevel, stated: Ints) -> Ints:
    """Joint totals at the first unit of each place, and nothing at the others."""
    joint = JointTotals.of_places(spine.codes[spine.index(level.name)], stated)
    out = np.zeros_like(stated)
    out[np.unique(joint.part, return_index=True)[1]] = joint.total
    return out


def _in_parts(
    spine: Spine, levels: Sequence[PublishedLevel], known: Sequence[Constraint]
) -> Iterator[str]:
    """A note on places in two parts, below the root, whose totals are not known."""
    if len(levels) == 1 or (known and spine.index(known[0].level) > 0):
        return
    codes = text(spine.codes[1]).tolist()
    if {(len(c), c[0]) for c in codes} != {(3, "0"), (3, "1")}:
        return
    if split := len(codes) - len({c[1:] for c in codes}):
        yield (
            f"{levels[1].name}: {split} {'place is' if split == 1 else 'places are'} two units each;"
            " nothing says what both hold together (--totals would), and no such totals are"
            " enforced"
        )


def bound_of(
    schema: Schema, spine: Spine, level: PublishedLevel, name: str, kind: str, query: str
) -> Ints:
    """The bounds that a constraint sets, ``(units, answers)``; -1 where it has no row."""
    spelt = schema.query(query)
    bound = np.full((spine.units(level.name), spelt.answers), -1, dtype=np.int64)
    for path, unit, got in stated_rows(schema, spine, level, name, _SIGNS[kind], query):
        if (bound[unit] >= 0).any() or len(np.unique(unit)) != len(unit):
            raise stated_twice(name, level, path)
        bound[unit] = got
    return bound


def stated_rows(
    schema: Schema, spine: Spine, level: PublishedLevel, name: str, sign: str, query: str
) -> Iterator[tuple[Path, Ints, Ints]]:
    """The rows of a constraint, one row group after the other: the file, the units, and the bounds
    ``(units, answers)``. Raises :class:`ReleaseError` for another sign, and for negative bounds."""
    spelt = schema.query(query)
    for group in level.constraints:
        table = read(
            group.path, group.number, ["geocode", "query_name", "value"], ["sign", "query_shape"]
        )
        names = texts.texts(table["query_name"])
        row = np.flatnonzero((names == f"{name}_con") | (names == name))
        if not len(row):
            continue
        if "sign" in table.column_names:
            signs = {_SAME_SIGN.get(s, s) for s in table["sign"].take(pa.array(row)).to_pylist()}
            if signs != {sign}:
                raise ReleaseError(
                    f"constraint {name!r} has the sign {sorted(signs - {sign})[0]!r}, not {sign!r}",
                    where=group.path,
                    remedy=AGAIN,
                )
        table = table.take(pa.array(row))
        unit = units_of_codes(spine, level.name, texts.codes(table["geocode"]))
        check_shape(table, 0, spelt, group.path)
        got = matrix(table["value"], spelt, group.path)
        if (got < 0).any():
            raise stated_twice(name, level, group.path)
        yield group.path, unit, got


def stated_twice(name: str, level: PublishedLevel, path: Path) -> ReleaseError:
    return ReleaseError(
        f"constraint {name!r} is there twice for a unit of {level.name}, or negative",
        where=path,
        remedy=AGAIN,
    )
