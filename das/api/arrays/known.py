"""Public facts about every level, from two sources: those that come with the measurements, and
those that the user gives."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from das.api.arrays.noisy import Known, Noisy, expect, whole
from das.errors import InputError
from das.geography.bounds import lowest
from das.geography.invariants import KnownQuery, known_bounds
from das.model.constraint import LevelBounds, Limits, packed
from das.model.schema import Schema
from das.model.spine import Spine

REMEDY = "give counts by das.bounds(schema, spine, exact, structures), or leave the bounds out"


class KnownBounds(dict[str, LevelBounds]):
    """Bounds by level, and what they were made from, so that more can be known: ``exact`` counts
    and ``structures``."""

    exact: Known
    structures: ArrayLike | None


def bounds(
    schema: Schema,
    spine: Spine,
    exact: Mapping[tuple[str, str], ArrayLike] | None = None,
    structures: ArrayLike | None = None,
) -> dict[str, LevelBounds]:
    """Bounds on each unit of each level, from public facts.

    ``exact``: by level and query, counts that are known: integers ``(units, answers)``, or
    ``(units,)`` of totals; such as ``noisy.exact``. ``structures`` ``(lowest units, levels of the
    schema's dwelling)``: housing units in the first column, facilities by type in the others;
    nobody lives where there is none, and each facility holds somebody.

    Equal rows of a level are stored once; ``known["Block"].rows(0, 10)`` has ``lower`` and
    ``upper`` as arrays.

    Raises:
        InputError: arrays of another shape, or counts that contradict each other.
        InfeasibleError: no histogram meets all of it."""
    for given, kind in ((schema, Schema), (spine, Spine)):
        expect(given, kind, "bounds", "give a schema, and then a spine")
    for key in exact or {}:
        expect(key, tuple, "bounds, exact", 'name a level and a query, such as ("State", "total")')
    known = [
        (
            level,
            schema.query(q),
            whole(counts, spine.units(level), schema.query(q).answers, f"bounds, {level}/{q}"),
        )
        for (level, q), counts in (exact or {}).items()
    ]
    _agree(spine, known)
    limits = None if structures is None else _limits(schema, spine, structures)
    made = KnownBounds(known_bounds(schema, spine, known, limits))
    made.exact, made.structures = (
        {(level, q.name): counts for level, q, counts in known},
        structures,
    )
    return made


def _limits(schema: Schema, spine: Spine, structures: ArrayLike) -> Limits | None:
    """What each of the lowest units may hold by its structures."""
    if schema.dwelling is None:
        raise InputError(
            "structures need a schema that says who lives in one",
            where="bounds",
            remedy="name the schema's attribute of dwelling, or leave them out",
        )
    width = len(schema.attribute(schema.dwelling).levels)
    units = spine.units(spine.levels[-1])
    rows, row = packed(whole(structures, units, width, "bounds, structures"))
    found = lowest(schema, rows)
    return None if found is None else Limits(*found, row)


def _check_form(given: Mapping[str, LevelBounds], schema: Schema, spine: Spine) -> None:
    """Check that the bounds are those of the units of every level, and of the cells of the
    schema."""
    expect(given, Mapping, "bounds", "give what das.bounds returns")
    for level in spine.levels:
        if (
            not isinstance(given.get(level), LevelBounds)
            or len(given[level]) != spine.units(level)
            or len(given[level].group) != schema.cells
        ):
            raise InputError(
                f"there are none for the units of {level!r}, or for other cells",
                where="bounds",
                remedy="make them with das.bounds, of the same schema and spine",
            )


def joint_bounds(
    noisy: Noisy, spine: Spine, given: Mapping[str, LevelBounds] | None
) -> Mapping[str, LevelBounds]:
    """The bounds of every level, from the measurements' public facts and from what is ``given``.

    Raises:
        InputError: bounds of other units or cells, or bounds that contradict the measurements'
            facts.
        InfeasibleError: no histogram meets both."""
    schema = noisy.schema
    if given is None:
        return bounds(schema, spine, noisy.exact) if noisy.bounds is None else noisy.bounds
    _check_form(given, schema, spine)
    if not noisy.exact and noisy.bounds is None:
        return given
    own = bounds(schema, spine, noisy.exact)
    if (whole_own := own if noisy.bounds is None else noisy.bounds) == given:
        return given
    if (
        not isinstance(given, KnownBounds) or whole_own != own
    ):  # what they were made from is not all told
        raise InputError(
            "these cannot be put together with the bounds that the measurements have of their own",
            where="bounds",
            remedy=REMEDY,
        )
    for key in given.exact.keys() & noisy.exact.keys():
        if not np.array_equal(given.exact[key], noisy.exact[key]):
            raise InputError(
                f"the counts of {key[1]!r} at {key[0]!r} are not those that the measurements have"
                " exactly",
                where="bounds",
                remedy="leave these counts out: what the measurements have exactly is met",
            )
    return bounds(schema, spine, {**noisy.exact, **given.exact}, given.structures)


def _agree(spine: Spine, known: list[KnownQuery]) -> None:
    """Totals that are known of two levels add up."""
    totals = {level: counts[:, 0] for level, query, counts in known if query.name == "total"}
    lowest_known = max(totals, key=spine.index, default="")
    for level, counts in totals.items():
        below = np.zeros(len(counts), dtype=np.int64)
        np.add.at(below, spine.up(lowest_known, level), totals[lowest_known])
        if not np.array_equal(below, counts):
            raise InputError(
                f"the totals of {lowest_known!r} do not add up to those of {level!r}",
                where="bounds",
                remedy="give counts of one population",
            )
