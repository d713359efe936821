"""The structural zeros of published measurement files, held against those of the schema.

A rule is a row of ``Constraint`` for each unit: sign ``=``, value 0, and in the columns of the
attributes which of their levels never occur together. ``nurse_nva_0_con`` says that nobody under 18
lives in a nursing facility; ``relgq0_lt15_con`` that no householder living alone is under 15.
Post-processing takes these zeros from the schema, so the files must have the same: with other rules
their publisher counted other people. Files without any rule say nothing about them, and are read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import codes as texts
from das.model.constraint import NO_LIMIT, Constraint, JointTotals
from das.model.names import text
from das.model.schema import Schema
from das.model.spine import Spine
from das.publications.published.files.listing import (
    AGAIN,
    Ints,
    PublishedLevel,
    check_shape,
    matrix,
    read,
)
from das.publications.published.files.sums import listed
from das.publications.published.files.tree import units_of_codes

Mask = NDArray[np.bool_]

#: Words of the files for groups of levels, by attribute.
_WORDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("hhgq", "gqNursingTotal"): ("nursing",),
    ("votingage", "nonvoting"): ("under-18",),
}
#: The level of an attribute, by its number; ages that never occur, below and above.
_NUMBER = re.compile(r"relgq(\d+)")
_AGES = re.compile(r"age_(?:(?:lessthan|lt)_?(\d+))?_?(?:(?:greaterthan|gt)_?(\d+))?")


@dataclass(frozen=True)
class StatedRule:
    """The ``name`` of a rule in the files, and what its columns say of the attributes."""

    name: str
    labels: tuple[str, ...]


def check_rules(schema: Schema, levels: Sequence[PublishedLevel], known: set[str]) -> list[str]:
    """Hold the rules of each level against the schema's structural zeros; ``known`` are the names
    of constraints that are none. Returns notes on constraints that nobody knows.

    Raises :class:`InputError` for a rule that is not the schema's, and for rules that are missing
    at a level that has others."""
    notes = []
    for level in levels:
        rules = {StatedRule(name, labels) for name, labels in level.spelt if name not in known}
        boxes = {rule: box for rule in rules if (box := _box(schema, rule.labels)) is not None}
        if strange := sorted({rule.name for rule in rules - boxes.keys()}):
            notes.append(f"{level.name}: constraints that are not enforced: {', '.join(strange)}")
        if boxes:
            _check_zero(level, {rule.name for rule in boxes})
            _compare(schema, level, boxes)
    return notes


def _compare(
    schema: Schema, level: PublishedLevel, boxes: Mapping[StatedRule, tuple[Mask, ...]]
) -> None:
    """The cells of the rules are the schema's structural zeros."""
    told = sorted(
        schema.restricted | {i for b in boxes.values() for i, m in enumerate(b) if not m.all()}
    )
    shape = tuple(schema.shape[i] for i in told)
    never = _union(shape, told, [schema.box(rule) for rule in schema.impossible])
    stated = _union(shape, told, list(boxes.values()))
    if (other := stated & ~never).any():
        names = sorted(
            rule.name for rule, box in boxes.items() if (_union(shape, told, [box]) & ~never).any()
        )
        raise InputError(
            f"{level.name}: by {listed(names)} combinations cannot occur that schema"
            f" {schema.name!r} counts ({int(other.sum()):,} of them)",
            where="constraints",
            remedy="these files are of another publication than those that das knows",
        )
    if (lost := never & ~stated).any():
        at = [int(i[0]) for i in np.nonzero(lost)]
        cell = " x ".join(schema.attributes[i].levels[k] for i, k in zip(told, at, strict=True))
        raise InputError(
            f"{level.name}: no rule of the files says that {cell} cannot occur, but schema"
            f" {schema.name!r} does ({int(lost.sum()):,} such combinations)",
            where="constraints",
            remedy=AGAIN,
        )


def _union(shape: tuple[int, ...], told: Sequence[int], boxes: Sequence[tuple[Mask, ...]]) -> Mask:
    """The cells of some boxes, by the attributes ``told`` alone."""
    out = np.zeros(shape, dtype=bool)
    for box in boxes:
        out[np.ix_(*(box[i] for i in told))] = True
    return out


def _box(schema: Schema, labels: Sequence[str]) -> tuple[Mask, ...] | None:
    """The levels of each attribute that never occur together; None for other words."""
    found = tuple(_levels(schema, i, label) for i, label in enumerate(labels))
    if any(mask is None for mask in found) or all(mask.all() for mask in found if mask is not None):
        return None
    return tuple(mask for mask in found if mask is not None)


def _levels(schema: Schema, axis: int, label: str) -> Mask | None:
    """The levels of an attribute that a word of the files stands for."""
    attribute = schema.attributes[axis]
    n = len(attribute.levels)
    if label == "*":
        return np.ones(n, dtype=bool)
    if words := _WORDS.get((attribute.name, label)):
        return np.isin(attribute.levels, words)
    if attribute.name == "relgq" and (number := _NUMBER.fullmatch(label)) and int(number[1]) < n:
        return np.arange(n) == int(number[1])
    if attribute.name == "age" and (ends := _AGES.fullmatch(label)) and any(ends.groups()):
        least, most = (int(end) if end else None for end in ends.groups())
        ages = np.arange(n)
        return (ages < (0 if least is None else least)) | (ages > (n if most is None else most))
    return None


def _check_zero(level: PublishedLevel, names: set[str]) -> None:
    """The rows of the rules are equations with 0."""
    for group in level.constraints:
        table = read(group.path, group.number, ["query_name", "value"], ["sign"])
        wanted = pa.array([*names, *(f"{name}_con" for name in names)])
        table = table.filter(pc.is_in(table["query_name"], wanted))
        for what, odd in _odd(table):
            raise InputError(
                f"{level.name}: {what} {odd!r}, where nobody can be", where=group.path, remedy=AGAIN
            )


def _odd(table: pa.Table) -> Iterator[tuple[str, object]]:
    """What is no equation with 0."""
    values = pc.unique(pc.list_flatten(table["value"])).to_pylist()
    yield from (("a value is", v) for v in values if v != 0)
    if "sign" in table.column_names:
        signs = pc.unique(table["sign"]).to_pylist()
        yield from (("a sign is", s) for s in signs if s not in ("=", "==", "eq"))


# The constraints of noisy measurement files as published: those that post-processing enforces, and
# notes on the rest.
#
# *Bounds*: those of the dwelling groups at the lowest level. *Totals* (``total``): those of the
# lowest level whose totals are all known. For a state in two parts (American Indian areas, and the
# rest) the production system knew the total of both together. No row of the published files
# gives it, so it may come from outside (:mod:`das.publications.published.files.outside`). Rows named
# ``joint_total``, one for each unit with the total of its whole place, are used where they exist.
#
# *Structural zeros* are the schema's, and those of the files are held against them
# (:mod:`das.publications.published.files.rules`).

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
    ``outside``: totals that the files need not hold."""
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
    files or ``outside`` of them. Totals of the levels above must be their sums."""
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
