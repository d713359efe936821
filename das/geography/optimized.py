r"""The optimized spine: block groups of blocks that are in the same areas, and two branches of
every state.

The rule is exactly that of the production runs of 2020:

* The blocks are those with a housing unit or a facility of group quarters, where the data say
  which.
* Each state is split into two branches: the blocks in American Indian, Alaska Native and Native
  Hawaiian areas, and all others. All its units are split in the same
  way, down to the tracts, or to the level above the block groups.
* A block's *key* is its off-spine entity, its area and its facilities. The entity is the county
  subdivision in states where these govern, outside of the areas; elsewhere it is the place. The
  facilities are the types of group quarters (for persons; not for housing units). Targets, which
  are any other public areas, come after these in the key.
* Take the blocks of one key in a tract of n blocks, in the order of their codes. They are cut into
  runs of :math:`\lfloor\sqrt n\rfloor + f + 1`, or are not cut. Each run is a block group. Runs of
  two blocks or more come first, by key, and those of one block last.

No other data enter, and no records: the tree reveals which blocks have structures and which types
of facilities, where these are invariants.

All steps work on arrays over the blocks, in one sort."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.geography.tabulation import Geocodes
from das.model.areas import Areas
from das.model.measured_spine import FANOUT, MeasuredSpine
from das.model.names import Codes, characters, of_characters, text
from das.model.records import Blocks
from das.model.spine import Spine

# Units cut into runs, which are the units of a level above them, and the order that these stand
# in.

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def changes(column: NDArray[np.generic]) -> Flags:
    """Where a value differs from the one before it, ``(n,)``; the first does not."""
    out = np.zeros(len(column), dtype=bool)
    out[1:] = column[1:] != column[:-1]
    return out


def parents(above: Ints, here: Ints) -> Ints:
    """For each of the units that begin ``here`` the one of those that begin ``above`` that it is
    in."""
    return np.searchsorted(above, here, side="right") - 1


def spread(starts: Ints, number: int) -> Ints:
    """For each of that many lowest units the one that it is in, of those that begin at
    ``starts``."""
    return np.repeat(np.arange(len(starts)), np.diff(starts, append=number))


def begin_runs(first: Flags, home: Ints, fanout: int | None, *, even: bool = False) -> Flags:
    r"""Where runs of units begin, ``(units,)``.

    ``first`` marks where units of another kind begin; ``home`` is the parent of each. In a parent
    of n units, those of a kind are cut into runs of :math:`s = \lfloor\sqrt n\rfloor + f + 1`, the
    remainder last. Without a fan-out f they are not cut.

    ``even``: if c units of a kind would leave a remainder of two or more, they are cut into
    :math:`\lceil c/s\rceil` runs. Their lengths differ by at most one, the shorter first."""
    if fanout is None:
        return first
    at, kind = np.arange(len(first)), np.cumsum(first) - 1
    place = at - np.flatnonzero(first)[kind]
    size = (np.sqrt(np.bincount(home)).astype(np.int64) + fanout + 1)[home]
    if not even:
        return first | (place % size == 0)
    count = np.bincount(kind)[kind]
    number = np.where((count <= size) | (count % size <= 1), 0, -(-count // size))
    short = count // np.maximum(number, 1)
    of_short = short * (
        number - count % np.maximum(number, 1)
    )  # units that are in the shorter runs
    in_even = np.where(place < of_short, place % short == 0, (place - of_short) % (short + 1) == 0)
    return first | np.where(number == 0, place % size == 0, in_even)


def behind(starts: Sequence[Ints], depths: Sequence[int]) -> tuple[list[Ints], Ints]:
    """``starts[d]`` is where units at depth d begin among the lowest, which are the last of them.
    At each of the ``depths`` units with one child move behind their siblings, and keep their order
    among themselves. Returns where units begin then, and the lowest units in their new order."""
    at = starts[-1]
    keys = [spread(starts[depths[0] - 1], len(at))]
    for depth in depths:
        unit = spread(starts[depth], len(at))
        only = np.bincount(parents(starts[depth], starts[depth + 1])) == 1
        keys += [only[unit], unit]
    order = np.lexsort((at, *reversed(keys)))
    moved = [
        np.flatnonzero((at == 0) | changes(spread(s, len(at))[order]))
        for s in starts[depths[0] : -1]
    ]
    return [*starts[: depths[0]], *moved, at], order


def tree(starts: Sequence[Ints]) -> tuple[Ints, ...]:
    """The parent of each unit of each level, from where units begin among the lowest."""
    return (
        np.zeros(1, dtype=np.int64),
        *(parents(above, here) for above, here in pairwise(starts)),
    )


# Which American Indian, Alaska Native and Native Hawaiian areas have a branch of the optimized
# spine of their own.
#
# By the census code of the area (AIANNHCE), as in the production runs of 2020
# (``AIANNHCE_ranges.csv``): legal areas and the statistical areas of Oklahoma and Alaska do, tribal
# designated and state designated statistical areas do not.

#: First and last code of each category, and whether its areas are in the branch.
CATEGORIES = (
    (b"0001", b"4799", True),  # federally recognized reservation or trust land
    (b"4800", b"4989", True),  # joint use
    (b"5000", b"5499", True),  # Hawaiian home land
    (b"5500", b"5899", True),  # Oklahoma tribal statistical area
    (b"5900", b"5999", True),  # joint use of these
    (b"6000", b"7999", True),  # Alaska native village statistical area
    (b"8000", b"8999", False),  # tribal designated statistical area
    (b"9000", b"9499", True),  # state-recognized reservation
    (b"9500", b"9998", False),  # state designated tribal statistical area
    (b"9999", b"9999", False),  # none
)
NONE = b"9999"


def branches(codes: Codes, blocks: Codes) -> NDArray[np.bool_]:
    """Whether each block is in an area of the branch. ``codes`` are those of the areas, blank or
    all nines where there is none; ``blocks`` those of the blocks.

    Raises :class:`InputError` for a code without a category, with the block: no code is from 4990
    to 4999."""
    found, at = np.unique(codes, return_inverse=True)
    given = np.where(np.strings.strip(found) == b"", NONE, found)
    low, high = (np.array([c[i] for c in CATEGORIES]) for i in (0, 1))
    category = np.maximum(np.searchsorted(low, given, side="right") - 1, 0)
    digits = characters(given)
    sound = (
        (low[category] <= given)
        & (given <= high[category])
        & (np.strings.str_len(given) == len(NONE))
    )
    sound &= ((digits == 0) | ((digits >= ord("0")) & (digits <= ord("9")))).all(axis=1)
    if not sound.all():
        block = int(np.flatnonzero(~sound[at])[0])
        odd, home = text(codes[block : block + 1])[0], text(blocks[block : block + 1])[0]
        more = int((~sound[at]).sum()) - 1
        others = f" (and {more:,} more blocks have such a code)" if more else ""
        raise InputError(
            f"block {home} lies in American Indian area {str(odd)!r}, which is no code of"
            f" one{others}",
            where="geography.spine",
            remedy=(
                "areas have four digits, 0001 to 4989 or 5000 to 9998, and blocks outside of them"
                " 9999"
            ),
        )
    return np.array([c[2] for c in CATEGORIES])[category][at]


# Areas that block groups of an optimized spine keep apart: codes of each block, by the names of
# the areas.


def target_codes(
    names: Sequence[str],
    blocks: Blocks,
    spine: Spine,
    unit: NDArray[np.int64],
    lists: Mapping[str, Areas],
) -> dict[str, Codes]:
    """The code of each block ``(blocks,)`` by target: that of a level of the tabulation ``spine``,
    a geographic field of the input, or one of the ``lists`` of blocks. ``unit`` ``(blocks,)`` is
    the lowest unit of each block on ``spine``.

    Raises :class:`InputError` for a name that is none of these."""
    out = {}
    for name in names:
        if name in lists:
            out[name] = listed(lists[name], spine.units(spine.levels[-1]))[unit]
        elif name in spine.levels:
            out[name] = spine.codes[spine.index(name)][spine.up(spine.levels[-1], name)[unit]]
        elif name in blocks.fields:
            out[name] = blocks.fields[name]
        else:
            raise unknown(name, dict.fromkeys([*spine.levels[1:-1], *blocks.fields]))
    return out


def unknown(name: str, known: Iterable[str]) -> InputError:
    """That no field of the input has the name of a target."""
    return InputError(
        f"the input has no geographic field {name!r}",
        where="geography.targets",
        remedy=f"name some of {', '.join(known)}, or the file of a list of blocks",
    )


def listed(areas: Areas, units: int) -> Codes:
    """A code for the areas that contain each lowest unit: two units have the same code if they are
    in the same areas. Codes of several areas are joined by the unit separator of ASCII; the code is
    empty where there is no area.

    >>> listed(Areas("Ward", ["a", "b"], np.array([1, 0, 0]), np.array([0, 0, 1])), 3).tolist()
    [b'a\\x1fb', b'a', b'']"""
    order = np.lexsort((areas.codes[areas.area], areas.unit))
    unit, code = areas.unit[order], areas.codes[areas.area[order]]
    rank = np.arange(len(unit)) - np.searchsorted(unit, unit)
    out = np.zeros(units, dtype="S1")
    for turn in range(int(rank.max()) + 1):
        here = rank == turn
        sign = b"\x1f" if turn else b""
        more = np.zeros(units, dtype=f"S{code.dtype.itemsize + len(sign)}")
        more[unit[here]] = np.strings.add(sign, code[here])
        out = np.strings.add(out, more)
    return out


#: States, by their codes, whose county subdivisions govern: outside of American Indian areas these
#: are the off-spine entities, not places.
STRONG_MCD = tuple(b"09 23 25 26 27 33 34 36 42 44 50 55".split())


@dataclass(frozen=True, eq=False)
class Rule:
    """How a tree is made.

    ``fanout`` is f above, ``None`` where blocks of one key are not cut into runs; ``even``: runs
    have about equal lengths (:func:`begin_runs`). ``targets`` are codes of each block
    ``(blocks,)`` by name. ``structures``, ``facilities``: whether it is published exactly which
    blocks have housing units or facilities, and which types of facilities. The tree does not depend
    on anything else.

    The runs of 2022 for the DHC differ in two ways. No off-spine ``entities`` are in the key. A
    level (``grouped``) is made of runs of the units below it, in the order of their codes. With
    such levels, units with one child come after their siblings at every level below the
    counties."""

    fanout: int | None = FANOUT
    targets: Mapping[str, Codes] = field(default_factory=dict)
    geocodes: Geocodes = field(default_factory=Geocodes)
    structures: bool = True
    facilities: bool = True
    even: bool = False
    entities: bool = True
    grouped: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.fanout is not None and self.fanout < 0:
            raise InputError(
                f"a fan-out of {self.fanout}",
                where="geography.fanout",
                remedy='give a whole number from 0 on, or "none"',
            )


def measured_spine(
    blocks: Blocks, spine: Spine, unit: Ints, rule: Rule, *, facilities: bool
) -> MeasuredSpine:
    """The optimized spine of the blocks. ``spine`` is their tabulation spine, whose levels it has;
    ``unit`` ``(blocks,)`` is the lowest unit of each block on it. ``facilities``: whether types of
    group quarters distinguish blocks, as they do for persons.

    Raises :class:`InputError` if the level of states is missing, or is the root of two branches. It
    also does so for lowest units that are not blocks, codes of areas that do not exist, and an
    input without a structure."""
    _check(spine, unit)
    kept, state = _universe(blocks, rule), spine.index("State")
    unit = unit[kept]
    code = spine.codes[-1][unit]
    area = _field(blocks, "AIAN", NONE)[kept]
    branch = branches(area, code)
    upper_tree = [spine.up(spine.levels[-1], level)[unit] for level in spine.levels[:-2]]
    key = [np.where(branch, area, NONE)]
    if rule.entities:
        key.insert(0, _entity(blocks, kept, spine.codes[state][upper_tree[state]], branch))
    if facilities and rule.facilities and blocks.structures is not None:
        key.append(of_characters(np.packbits(blocks.structures[kept, 1:] > 0, axis=1)))
    key += [codes[kept] for codes in rule.targets.values()]
    above = [upper_tree[state - 1]] if state else []
    order = np.lexsort((code, *reversed(key), upper_tree[-1], branch, *above))

    starts = _starts(
        spine.levels, [c[order] for c in upper_tree], branch[order], [c[order] for c in key], rule
    )
    if len(starts[0]) > 1:
        raise InputError(
            f"{spine.levels[0]} {spine.code(spine.levels[0], 0)} has blocks in American Indian"
            " areas and others: on an optimized spine these are two units",
            where="geography.levels",
            remedy="put a level above it, such as US",
        )
    last = len(spine) - 2
    starts, moved = behind(starts, range(state + 2, last + 1) if rule.grouped else [last])
    order, parent = order[moved], tree(starts)
    own = [spine.codes[d][upper_tree[d][order[starts[d]]]] for d in range(min(state + 2, last))]
    codes = rule.geocodes.unit_codes(
        spine.levels, own, code[order], parent, branch[order[starts[state]]]
    )
    return MeasuredSpine.bypassed(Spine(spine.levels, codes, parent), unit[order])


def _starts(
    levels: Sequence[str],
    upper_tree: Sequence[Ints],
    branch: NDArray[np.bool_],
    key: Sequence[Codes],
    rule: Rule,
) -> list[Ints]:
    """Where the units of each level begin among the blocks, which stand in order. ``upper_tree`` is
    the unit of each block at the levels above the block groups."""
    first, starts = np.arange(len(branch)) == 0, []
    for level, column in zip(levels, upper_tree, strict=False):
        if level not in rule.grouped:
            first = first | changes(column) | (changes(branch) if level == "State" else False)
        starts.append(np.flatnonzero(first))
    for depth in [d for d, level in enumerate(levels) if level in rule.grouped]:
        home = parents(starts[depth - 1], starts[depth + 1])
        begin = begin_runs(
            (home == 0) & (starts[depth + 1] == 0) | changes(home),
            home,
            rule.fanout,
            even=rule.even,
        )
        starts[depth] = starts[depth + 1][begin]
    for codes in key:
        first = first | changes(codes)
    groups = begin_runs(first, spread(starts[-1], len(first)), rule.fanout, even=rule.even)
    return [*starts, np.flatnonzero(groups), np.arange(len(first))]


def _check(spine: Spine, unit: Ints) -> None:
    where = "geography.levels"
    if "State" not in spine.levels[:-2]:
        raise InputError(
            "an optimized spine has a level State, and two levels or more below it",
            where=where,
            remedy='name them, or set geography.spine = "tabulation"',
        )
    if len(unit) != spine.units(spine.levels[-1]):
        raise InputError(
            f"units of {spine.levels[-1]!r} are not the blocks of the input",
            where=where,
            remedy="the lowest level of an optimized spine is that of the blocks",
        )


def _universe(blocks: Blocks, rule: Rule) -> Ints:
    """The blocks on the spine."""
    if blocks.structures is None or not rule.structures:
        return np.arange(len(blocks))
    kept = np.flatnonzero(blocks.structures.any(axis=1))
    if not len(kept):
        raise InputError(
            "no block has a housing unit or a facility",
            where="geography.spine",
            remedy='fix the input, or set geography.spine = "tabulation"',
        )
    return kept


def _field(blocks: Blocks, name: str, none: bytes) -> Codes:
    """A geographic field of the blocks; where the input has no such field, no block is in such an
    area."""
    return blocks.fields[name] if name in blocks.fields else np.full(len(blocks), none)


def _entity(blocks: Blocks, kept: Ints, state: Codes, branch: NDArray[np.bool_]) -> Codes:
    """The off-spine entity of each block that is kept, unique within its state."""
    place = _field(blocks, "Place", b"99999")[kept]
    division = _field(blocks, "County_Subdivision", b"99999")[kept]
    return np.where(np.isin(state, STRONG_MCD) & ~branch, division, place)
