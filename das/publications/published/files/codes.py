"""Tabulation codes of published measurement files: the tree that people ask about, from the codes
of the blocks.

Below the county the published geocodes number units of the measured tree. Only a block's last 16
characters are its tabulation code: state 2, county 3, tract 6, block group 1, block 4, whose first
digit is the block group's. The tree of these codes is the published spine; the tree of the files is
what is measured (:class:`das.model.measured_spine.MeasuredSpine`). The two meet at the blocks and
nowhere else, as in every release with an optimized spine. So a tract in two branches is the sum of
its parts, and a block group is a sum of blocks. Files that end with the counties, or with the
states, have tabulation codes too, unless one of these is in two branches.

*Moved blocks.* In fifteen blocks of water the measurements of 2020 have persons whose published
counts are in another block. These blocks have the code of that other block, unless it is measured
itself. Source: README of the Bureau's least-squares estimates of the same measurements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from das.files import codes as texts
from das.model.names import BLOCK, DIGITS, Codes, characters, encoded, geoids, of_characters, text
from das.model.spine import Spine, nested
from das.publications.published.files.listing import Group, PublishedLevel, read, variance_of
from das.publications.published.files.sums import INSIDE, MOST, STATES, listed, missing_parts

Ints = NDArray[np.int64]

#: Of blocks of water with persons, the code in the measurements and that of the published counts.
MOVED = {
    "0100399000000001": "0100301080022009",
    "0607399010000002": "0607301870011280",
    "0607599020000001": "0607501790311031",
    "1207599000000008": "1207597040011101",
    "1208699000000022": "1208600800022011",
    "2502599010100031": "2502505030011006",
    "3608199010000002": "3608109160411000",
    "4100799000000010": "4100795110044030",
    "4502999010000001": "4502997080033004",
    "4505399010000002": "4505395030244009",
    "4816799010000039": "4816772390033135",
    "5300999010000035": "5300900190211025",
    "5306199000200017": "5306104010044007",
    "5502599170200003": "5502500320011000",
    "7210399001300009": "7210317040044006",
}
#: The levels that have tabulation codes, besides those with one unit.
_CODED = (*DIGITS, "Block")


def tabulation(spine: Spine) -> tuple[Spine, Ints] | None:
    """The tree of tabulation codes, and for each lowest unit of ``spine`` its unit there.

    None where there is no other tree: the codes of the lowest units tell no tabulation code, or
    two units have the same. So it is where a level has none, as groups of tracts in the DHC.

    >>> block = np.array(["0441000700491024400701070233001"])
    >>> one = np.zeros(1, dtype=np.int64)
    >>> levels = ("State", "County", "Block")
    >>> found = tabulation(Spine(levels, (["044"], ["044100071"], block), (one, one, one)))
    >>> [found[0].code(level, 0) for level in levels]
    ['44', '44007', '4400701070233001']"""
    found = coded(spine)
    return found if found is not None and len(found[0].codes[-1]) == len(found[1]) else None


def coded(spine: Spine) -> tuple[Spine, Ints] | None:
    """The same, where several of the lowest units can have one code: a county in two branches is
    the sum of its parts."""
    levels, lowest = spine.levels, _lowest(spine.levels[-1], spine.codes[-1])
    if lowest is None:
        return None
    if any(level not in _CODED and spine.units(level) > 1 for level in levels):
        return None
    digits = characters(lowest)
    codes = [
        of_characters(np.ascontiguousarray(digits[:, : DIGITS.get(level, BLOCK)]))
        if level in _CODED
        else np.full(len(digits), encoded(level))
        for level in levels
    ]
    units, parents, place = nested(levels, codes)
    return Spine(levels, units, parents), place


def _lowest(level: str, codes: Codes) -> Codes | None:
    """The tabulation codes of the lowest units: those at the end of a block's geocode, or in that
    of a county, ``<branch><state>10<county>``, or of a state; None for codes of another form."""
    p, width = characters(codes), codes.dtype.itemsize
    if level == "Block":
        if width <= BLOCK or not np.strings.str_len(geoids("Block", codes)).any():
            return None
        return _moved(of_characters(np.ascontiguousarray(p[:, -BLOCK:])))
    if level == "County" and width in (8, 9) and (p[:, 3:5] == [ord("1"), ord("0")]).all():
        kept = p[:, [1, 2, 5, 6, 7]]
    elif level == "State" and width == 3:
        kept = p[:, 1:]
    else:
        return None
    digits = (kept >= ord("0")) & (kept <= ord("9"))
    branch = (p[:, 0] == ord("0")) | (p[:, 0] == ord("1"))
    return of_characters(np.ascontiguousarray(kept)) if digits.all() and branch.all() else None


def _moved(blocks: Codes) -> Codes:
    """The codes of blocks, of moved ones that where their published counts are."""
    old, new = (encoded(list(c)) for c in (MOVED.keys(), MOVED.values()))
    at = {c: n for c, n in zip(old.tolist(), new.tolist(), strict=True) if n not in blocks}
    here = np.flatnonzero(np.isin(blocks, list(at)))
    if not len(here):
        return blocks
    out = blocks.copy()
    out[here] = [at[c] for c in blocks[here].tolist()]
    return out


# Which levels of published measurement files are whole: a level above parts that are missing is
# left out, and several roots get one above them that nothing measures.
#
# Files are published by state, and some by county, so people get some of them. A unit of a level
# above then holds more records than the units that are there. Let :math:`\hat t` be its total and
# :math:`\hat t_c` those of its children, with variances :math:`v` and :math:`v_c`
# (:mod:`das.publications.published.files.sums` says how queries measure a total). Parts are missing
# if
#
# .. math:: \hat t - \sum_c \hat t_c > 6 \sqrt{v + \sum_c v_c}.
#
# An estimate would spread the parent's total over the existing children, so such a root is left out,
# with its level and its total. This is done for the nation and for a state alone, because these are
# what files are published by. Below, a difference is damage, and is refused
# (:class:`das.publications.published.files.sums.MeasuredTotals`).
#
# *Several roots.* The roots of the forest that remains are the children of one more unit, of level
# :data:`ROOT`. It is not measured, and full information estimates it from below.

Array = NDArray[np.float64]

#: The level, and the code, of a unit above several roots: all that is in the files, together.
ROOT = "Whole"
#: Levels whose only unit is left out where parts of it are missing.
_CUT = ("US", "State")
#: Constraints whose values add up to a unit's total: the DHC has the redistricting counts exactly.
_EXACT = ("total_con", "total", "pl94_con", "pl94")


def whole_levels(levels: Sequence[PublishedLevel], notes: list[str]) -> list[PublishedLevel]:
    """The levels from the lowest one above which nothing is missing, root first; what was done is
    added to ``notes``."""
    levels = list(levels)
    while len(levels) > 1 and levels[0].name in _CUT:
        alone = len(levels[0].codes) == 1
        note = _incomplete(levels[0], levels[1]) if alone else _some_incomplete(*levels[:2])
        if note is None:
            break
        notes.append(note)
        levels = levels[1:]
    notes += _half_states(levels)
    if len(levels[0].codes) > 1:
        notes.append(
            f"there is no unit above the {len(levels[0].codes):,} of level {levels[0].name}: they"
            f" are put together as {ROOT!r}, which nothing measures"
        )
        levels.insert(0, PublishedLevel(ROOT, codes=encoded([ROOT])))
    return levels


def _incomplete(root: PublishedLevel, below: PublishedLevel) -> str | None:
    """What is said of a root that is left out; None where it stays."""
    (value, variance), (sums, spread) = _total(root), _total(below)
    distance = (value - sums) / np.sqrt(max(variance + spread, 1e-12))
    codes = text(below.codes).tolist()
    missing = missing_parts(below.name, codes)
    if not distance > MOST:  # NaN where one is not known
        return None
    if variance + spread == 0 and below.name == "State" and not missing:
        return None  # known exactly, of all parts that there are: a contradiction
    return (
        f"{root.name} is left out: it holds {value:,.0f} records, and the units of level"
        f" {below.name} that are here ({listed(codes)}) hold {sums:,.0f} together{missing}"
    )


def _some_incomplete(above: PublishedLevel, below: PublishedLevel) -> str | None:
    """What is said of several units, such as the two parts of a state, that are left out; None
    where they stay. Only exact totals tell this of some units."""
    totals, sums = _exact_totals(above), _exact_totals(below)
    width = np.strings.str_len(above.codes)
    if not (np.isfinite(totals).all() and np.isfinite(sums).all() and width.min() == width.max()):
        return None
    home = np.searchsorted(above.codes, below.codes.astype(f"S{width[0]}"))
    found = np.bincount(home, weights=sums, minlength=len(totals) + 1)[: len(totals)]
    if not (lost := totals > found).any():
        return None
    unit = int(np.argmax(lost))
    return (
        f"{above.name} is left out: {above.codes[unit].decode()} holds {totals[unit]:,.0f} records,"
        f" and its units of level {below.name} that are here hold {found[unit]:,.0f} together"
    )


def _half_states(levels: Sequence[PublishedLevel]) -> list[str]:
    """Notes on states whose part in American Indian areas, or outside of them, is missing, by the
    list of 2020."""
    states = next((level for level in levels if level.name == "State"), None)
    if states is None or len(states.codes) > len(STATES):  # a nation, of whatever year
        return []
    codes = set(text(states.codes).tolist())
    lost = sorted(
        other
        for code in codes
        if len(code) == 3 and code[1:] in INSIDE and code[0] in "01"
        for other in [f"{1 - int(code[0])}{code[1:]}"]
        if other not in codes
    )
    return (
        [
            f"State: {listed(lost)} is not here, the other part of a state: what is estimated is of the"
            " part that is here alone"
        ]
        if lost
        else []
    )


def _total(level: PublishedLevel) -> tuple[float, float]:
    """All records of a level, and the variance of that; NaN where some unit has no total."""
    exact = _exact_totals(level)
    if np.isfinite(exact).all():
        return float(exact.sum()), 0.0
    weighted, precision = np.zeros(len(level.codes)), np.zeros(len(level.codes))
    for group in level.groups:
        _add_measured(group, level.codes, weighted, precision)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(np.isfinite(exact), exact, weighted / precision)
        variance = np.where(np.isfinite(exact), 0.0, 1 / precision)
    return float(value.sum()), float(variance.sum())


def _exact_totals(level: PublishedLevel) -> Array:
    """The total of each unit, NaN where it is not published exactly."""
    exact = np.full(len(level.codes), np.nan)
    for group in level.constraints:
        _add_exact(group, level.codes, exact)
    return exact


def _add_exact(group: Group, codes: Codes, exact: Array) -> None:
    table = read(group.path, group.number, ["geocode", "query_name", "value"])
    table = table.filter(pc.is_in(table["query_name"], pa.array(_EXACT)))
    value, _, known = _sums(table)
    exact[np.searchsorted(codes, texts.codes(table["geocode"]))] = np.where(known, value, np.nan)


def _add_measured(group: Group, codes: Codes, weighted: Array, precision: Array) -> None:
    table = read(group.path, group.number, ["geocode", "query_name", "value", "variance"])
    value, width, known = _sums(table)
    variance = variance_of(table, group.path)
    weight = np.where(known & np.isfinite(variance), 1 / (np.maximum(width, 1) * variance), 0.0)
    unit = np.searchsorted(codes, texts.codes(table["geocode"]))
    weighted += np.bincount(unit, weights=weight * value, minlength=len(codes))
    precision += np.bincount(unit, weights=weight, minlength=len(codes))


def _sums(table: pa.Table) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Sum and number of the values of each row, and where they are numbers. What is wrong with
    others is said by those who read the level."""
    none = np.zeros(len(table))
    try:
        row = np.asarray(pc.list_parent_indices(table["value"].combine_chunks()))
        flat = pc.list_flatten(table["value"]).cast(pa.float64()).to_numpy()
    except pa.ArrowException:
        return none, none, np.zeros(len(table), dtype=bool)
    value = np.bincount(row, weights=flat, minlength=len(table))
    width = np.bincount(row, minlength=len(table)).astype(np.float64)
    known = np.isfinite(value) & (width > 0)
    return np.where(known, value, 0.0), width, known
