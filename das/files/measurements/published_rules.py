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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das.errors import InputError
from das.files.measurements.published_files import AGAIN, PublishedLevel, read
from das.files.measurements.published_sums import listed
from das.model.schema import Schema

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
