"""The tree of geographic units, level by level, as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.errors import InputError
from das.model import frame as tables
from das.model.frame import Frame
from das.model.frozen import Frozen
from das.model.names import Codes, Names, blank, encoded, geoids, text, unprintable

# Places with a code for each level, as a tree: units in order, their parents, and the lowest unit
# of each place.

Indices = NDArray[np.int64]
#: Values that a stage holds at once, about.
BATCH = 1 << 22


def nested(
    levels: Sequence[str], codes: Sequence[Codes]
) -> tuple[tuple[Codes, ...], tuple[Indices, ...], Indices]:
    """``codes[l]``, of shape ``(places,)``, is the code of each place at level ``l``, root first;
    places may be listed in any order, and several may be in one lowest unit.

    Returns the codes and the parents of the units of each level, as :class:`das.model.spine.Spine`
    has them, and the lowest unit of each place. Raises :class:`InputError` naming the unit where a
    level does not nest in the one above."""
    for name, code in zip(levels, codes, strict=True):
        _check_codes(name, code)
    order = np.lexsort(codes[::-1])
    units: list[Codes] = []
    parents: list[Indices] = []
    above = np.zeros(len(order), dtype=np.int64)
    for name, code in zip(levels, codes, strict=True):
        here = code[order]
        new = np.ones(len(here), dtype=bool)
        new[1:] = (here[1:] != here[:-1]) | (above[1:] != above[:-1])
        first = np.flatnonzero(new)
        _check_nested(name, levels, here[first], above[first], units)
        units.append(here[first])
        parents.append(above[first])
        above = np.cumsum(new) - 1
    unit = np.empty(len(order), dtype=np.int64)
    unit[order] = above
    return tuple(units), tuple(parents), unit


def _check_codes(name: str, codes: Codes) -> None:
    """Codes stand in CSV files as they are."""
    for sign in (b",", b'"', b"\n", b"\r"):
        if (odd := np.strings.find(codes, sign) >= 0).any():
            raise InputError(
                f"code {str(text(codes[odd])[0])!r} of level {name!r} has a comma, a quote or a"
                " line break in it",
                where="geography",
                remedy="use codes without them; names can be joined to the results afterwards",
            )


def _check_nested(
    name: str,
    levels: Sequence[str],
    codes: Codes,
    parent: NDArray[np.int64],
    above: Sequence[Codes],
) -> None:
    """A code that starts twice belongs to two parents: the geography does not nest."""
    if not above and len(codes) > 1:
        raise InputError(
            f"level {name!r} has {len(codes)} units, but the first level must have one",
            where="levels of the tree",
            remedy="put a level above it (any name that is not a field, such as US, makes a root)",
        )
    unique, counts = np.unique(codes, return_counts=True)
    if len(unique) == len(codes):
        return
    code = unique[counts > 1][0]
    homes = text(above[-1][parent[codes == code][:2]])
    raise InputError(
        f"{name} {code.decode()} lies in more than one {levels[len(above) - 1]}: {homes[0]} and"
        f" {homes[1]}",
        where="geography",
        remedy=(
            f"fix the input, or make {name} of whole codes: those of the level above and its own"
            " together (in a configuration, a product under [geography.define])"
        ),
    )


@dataclass(frozen=True, eq=False, repr=False)
class Spine(Frozen):
    """One root; for each level the unit codes and, for each unit, the number of its parent.

    ``codes[l]`` has shape ``(units of level l,)`` (bytes, ``das.model.names``; text is
    converted); ``parent[l]`` the same shape with numbers of level ``l - 1`` (all zero at the
    root level). Units stand in the order of their parents, and by code within a parent, so the
    children of a unit are a slice. Codes are unique within a level. Levels are stored, never
    inferred from the length of a code. ``names[l]``, of the shape of ``codes[l]``, are the names
    of the units, empty where there are none."""

    levels: tuple[str, ...]
    codes: tuple[Codes, ...]
    parent: tuple[NDArray[np.int64], ...]
    names: tuple[NDArray[np.str_], ...] = ()

    def __post_init__(self) -> None:
        if not len(self.levels) == len(self.codes) == len(self.parent) >= 1:
            raise InputError("levels, codes and parents differ in number", where="spine")
        object.__setattr__(self, "codes", tuple(map(encoded, self.codes)))
        if len(set(self.levels)) != len(self.levels):
            raise InputError("two levels have the same name", where="spine")
        if len(self.codes[0]) != 1:
            raise InputError(
                f"level {self.levels[0]!r} has {len(self.codes[0])} units, not one root",
                where="spine",
            )
        above = 1
        for name, codes, parent in zip(self.levels, self.codes, self.parent, strict=True):
            where = f"spine, level {name!r}"
            if len(codes) != len(parent):
                raise InputError("codes and parents differ in length", where=where)
            if not _increasing(codes) and len(np.unique(codes)) != len(codes):
                raise InputError("a code occurs twice", where=where)
            step = np.diff(parent, prepend=-1, append=above)
            if ((step < 0) | (step > 1)).any() or step[0] != 1 or step[-1] != 1:
                raise InputError(
                    "units are not in the order of their parents, or a parent has no child",
                    where=where,
                )
            if ((codes[1:] < codes[:-1]) & (parent[1:] == parent[:-1])).any():
                raise InputError("siblings are not in the order of their codes", where=where)
            above = len(codes)
        self._check_names()

    def _check_names(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(blank(len(c)) for c in self.codes))
        if len(self.names) != len(self.levels):
            raise InputError("levels and names differ in number", where="spine")
        for level, codes, names in zip(self.levels, self.codes, self.names, strict=True):
            if len(names) != len(codes):
                raise InputError(
                    "codes and names differ in length", where=f"spine, level {level!r}"
                )
            if (odd := unprintable(names)).any():
                raise InputError(
                    f"the name of unit {text(codes[odd])[0]} has a control character in it",
                    where=f"spine, level {level!r}",
                )

    @staticmethod
    def from_frame(
        frame: Frame, levels: Sequence[str], names: Mapping[str, str] | None = None
    ) -> Spine:
        """Build the tree from ``frame``, a data frame or a mapping of columns with at least one row
        for each unit of the lowest level. ``levels``, root first, name columns of codes (text). If
        the first is not a column, it becomes a root above all units. ``names``: for some levels,
        the column with the names of their units.

        Raises :class:`InputError` for a column that is missing or not of codes, and for levels that
        do not nest.

        >>> places = {"County": ["b", "a", "b"], "Block": ["b2", "a1", "b1"]}
        >>> spine = Spine.from_frame(places, ["State", "County", "Block"])
        >>> spine.geocodes("Block").tolist(), spine.find("Block", places["Block"]).tolist()
        (['a1', 'b1', 'b2'], [2, 0, 1])"""
        where = "places of the spine"
        if isinstance(levels, str) or not levels:
            raise InputError(
                f"levels are {levels!r}", where=where, remedy="give a list of columns, root first"
            )
        if not (number := tables.rows(frame, where)):
            raise InputError(
                "there is no place",
                where=where,
                remedy="give a row for each unit of the lowest level",
            )
        known = tables.names(frame, where)
        root = [] if levels[0] in known else [np.full(number, encoded(levels[0]))]
        codes = root + [encoded(tables.texts(frame, level, where)) for level in levels[len(root) :]]
        units, parents, _ = nested(levels, codes)
        if odd := set(names or {}) - set(levels):
            raise InputError(
                f"names of {sorted(odd)[0]!r}, which is no level",
                where=where,
                remedy=f"the levels are {', '.join(levels)}",
            )
        called = [blank(len(u)) for u in units]
        for level, column in (names or {}).items():
            at = list(levels).index(level)
            called[at] = Names.from_pairs(codes[at], tables.texts(frame, column, where)).at(
                units[at]
            )
        return Spine(tuple(levels), units, parents, tuple(called))

    def __len__(self) -> int:
        return len(self.levels)

    def unlike(self, other: Spine) -> str:
        """The first difference between this spine's places and those of another; empty if both
        have the same places in the same tree. Names do not count."""
        if self.levels != other.levels:
            return f"its levels are {', '.join(other.levels)}, not {', '.join(self.levels)}"
        for depth, level in enumerate(self.levels):
            mine, theirs = self.codes[depth], other.codes[depth]
            if len(mine) != len(theirs):
                return f"it has {len(theirs):,} units of {level}, not {len(mine):,}"
            if not np.array_equal(mine, theirs):
                at = int((mine != theirs).argmax())
                return (
                    f"its {level} number {at} is {other.code(level, at)!r}, not"
                    f" {self.code(level, at)!r}"
                )
            if not np.array_equal(self.parent[depth], other.parent[depth]):
                at = int((self.parent[depth] != other.parent[depth]).argmax())
                return (
                    f"its {level} {self.code(level, at)!r} lies in another {self.levels[depth - 1]}"
                )
        return ""

    def __repr__(self) -> str:
        sizes = ", ".join(
            f"{level} {len(codes):,}" for level, codes in zip(self.levels, self.codes, strict=True)
        )
        return f"<Spine: {sizes}>"

    def index(self, level: str) -> int:
        """The depth of a level, 0 at the root."""
        if level not in self.levels:
            raise InputError(
                f"no level {level!r}",
                where="spine",
                remedy=f"its levels are {', '.join(self.levels)}",
            )
        return self.levels.index(level)

    def units(self, level: str) -> int:
        return len(self.codes[self.index(level)])

    @cached_property
    def _starts(self) -> tuple[NDArray[np.int64], ...]:
        sizes = [1, *(len(c) for c in self.codes[:-1])]
        return tuple(
            np.searchsorted(p, np.arange(n + 1)).astype(np.int64)
            for n, p in zip(sizes, self.parent, strict=True)
        )

    def title(self, level: str, unit: int) -> str:
        """A unit's title on pages: its name and, in parentheses, its code; only the code if it
        has no name."""
        depth = self.index(level)
        name, code = str(self.names[depth][unit]), self.code(level, unit)
        return f"{name} ({code})" if name else code

    def geocodes(self, level: str) -> NDArray[np.str_]:
        """The codes of the units of a level as texts."""
        return text(self.codes[self.index(level)])

    def code(self, level: str, unit: int) -> str:
        """The code of a unit as text."""
        return str(self.codes[self.index(level)][unit], "utf-8")

    def geoids(self, level: str) -> Codes:
        """The standard GEOID of each unit (:func:`das.model.names.geoids`)."""
        return geoids(level, self.codes[self.index(level)])

    def children(self, level: str) -> NDArray[np.int64]:
        """``starts`` of shape ``(parents + 1,)``: the children of parent ``u``, at ``level``, are
        ``starts[u]:starts[u + 1]``."""
        return self._starts[self.index(level)]

    @cached_property
    def orders(self) -> tuple[NDArray[np.int64] | None, ...]:
        """The order that sorts the codes of each level (``order_of``)."""
        return tuple(map(order_of, self.codes))

    def find(self, level: str, codes: ArrayLike) -> NDArray[np.int64]:
        """The unit number of each code at ``level``, -1 where there is no such unit."""
        depth = self.index(level)
        return sorted_places(self.codes[depth], self.orders[depth], encoded(codes))

    def up(self, level: str, to: str) -> NDArray[np.int64]:
        """For each unit of ``level`` the number of its ancestor at level ``to`` (itself if they are
        the same)."""
        low, high = self.index(level), self.index(to)
        if high > low:
            raise InputError(f"level {to!r} is below {level!r}", where="spine")
        out = np.arange(len(self.codes[low]))
        for depth in range(low, high, -1):
            out = self.parent[depth][out]
        return out

    def extent(self, level: str, unit: int) -> dict[str, tuple[int, int]]:
        """For ``level`` and each level below it, the units ``(start, stop)`` that lie in a unit of
        ``level``."""
        depth = self.index(level)
        out = {level: (unit, unit + 1)}
        for above, here in pairwise(self.levels[depth:]):
            starts = self.children(here)
            out[here] = (int(starts[out[above][0]]), int(starts[out[above][1]]))
        return out

    def subtree(self, level: str, unit: int) -> Spine:
        """A unit of ``level`` and everything below it, as a spine whose root it is."""
        if not 0 <= unit < self.units(level):
            raise InputError(f"level {level!r} has no unit number {unit}", where="spine")
        depth, ends = self.index(level), list(self.extent(level, unit).values())
        here = [slice(*e) for e in ends]
        codes = tuple(c[s] for c, s in zip(self.codes[depth:], here, strict=True))
        names = tuple(n[s] for n, s in zip(self.names[depth:], here, strict=True))
        first = [0, *(start for start, _ in ends[:-1])]  # of the units above
        parent = [p[s] - a for p, s, a in zip(self.parent[depth:], here, first, strict=True)]
        return Spine(self.levels[depth:], codes, (np.zeros(1, dtype=np.int64), *parent[1:]), names)

    def truncated(self, level: str) -> Spine:
        """The levels down to ``level``."""
        end = self.index(level) + 1
        return Spine(self.levels[:end], self.codes[:end], self.parent[:end], self.names[:end])

    def restricted(self, level: str, units: NDArray[np.int64]) -> Spine:
        """The tree of some units of ``level``, in increasing order, with their ancestors and
        descendants."""
        kept = self.kept(level, units)
        parent = [
            np.searchsorted(above, self.parent[depth][here])
            for depth, (above, here) in enumerate(pairwise(kept), 1)
        ]
        codes = tuple(c[here] for c, here in zip(self.codes, kept, strict=True))
        names = tuple(n[here] for n, here in zip(self.names, kept, strict=True))
        return Spine(self.levels, codes, (np.zeros(1, dtype=np.int64), *parent), names)

    def kept(self, level: str, units: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """For each level, the units that remain if only some of ``level`` are kept, with their
        ancestors and descendants."""
        depth, out = self.index(level), [np.asarray(units, dtype=np.int64)]
        for at in range(depth, 0, -1):
            out.insert(0, np.unique(self.parent[at][out[0]]))
        for here in self.levels[depth + 1 :]:
            starts = self.children(here)
            first, size = starts[out[-1]], np.diff(starts)[out[-1]]
            offset = np.repeat(first - np.cumsum(size) + size, size)
            out.append(offset + np.arange(len(offset)))
        return out

    @staticmethod
    def joined(parts: Sequence[Spine]) -> tuple[Spine, list[list[NDArray[np.int64]]]]:
        """Join trees that share only the root. Also returns, for each tree and level, the new
        number of each of its units. Raises :class:`InputError` where they are not such."""
        first = parts[0]
        if any(
            p.levels != first.levels or not np.array_equal(p.codes[0], first.codes[0])
            for p in parts
        ):
            raise InputError("the trees have other levels, or another root", where="spine")
        at = [[np.zeros(1, dtype=np.int64)] for _ in parts]
        codes, parents, names = [first.codes[0]], [np.zeros(1, dtype=np.int64)], [first.names[0]]
        for depth in range(1, len(first)):
            code = np.concatenate([p.codes[depth] for p in parts])
            parent = np.concatenate(
                [here[-1][p.parent[depth]] for p, here in zip(parts, at, strict=True)]
            )
            order = np.lexsort((code, parent)) if depth == 1 else np.argsort(parent, kind="stable")
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            ends = np.cumsum([len(p.codes[depth]) for p in parts])[:-1]
            for here, mine in zip(at, np.split(place, ends), strict=True):
                here.append(mine)
            codes.append(code[order])
            parents.append(parent[order])
            names.append(np.concatenate([p.names[depth] for p in parts])[order])
        return Spine(first.levels, tuple(codes), tuple(parents), tuple(names)), at

    def batches(self, level: str, answers: int, limit: int = BATCH) -> Iterator[tuple[int, int]]:
        """Slices ``(start, stop)`` of the units of ``level`` in order. None splits a family of
        siblings. Each has at most ``limit`` values at ``answers`` a unit, unless one family alone
        is larger.

        A function of the spine alone, so that every stage walks the same slices."""
        starts = self.children(level)
        begin = 0
        for family in range(len(starts) - 1):
            if starts[family] > begin and (starts[family + 1] - begin) * answers > limit:
                yield begin, int(starts[family])
                begin = int(starts[family])
        if starts[-1] > begin:
            yield begin, int(starts[-1])


def places(known: Codes, codes: Codes) -> NDArray[np.int64]:
    """The place of each code among those that are ``known``, -1 where it is none of them."""
    return sorted_places(known, order_of(known), codes)


def order_of(codes: Codes) -> NDArray[np.int64] | None:
    """What sorts some codes; ``None`` where they increase."""
    return None if _increasing(codes) else np.argsort(codes, kind="stable")


def sorted_places(known: Codes, order: NDArray[np.int64] | None, codes: Codes) -> NDArray[np.int64]:
    """:func:`places` among codes whose order is known. Consecutive codes in their order, as in
    files, take one comparison, however many they are."""
    if not len(codes):
        return np.zeros(0, dtype=np.int64)
    first = min(int(np.searchsorted(known, codes[0], sorter=order)), len(known) - 1)
    first = first if order is None else int(order[first])
    if np.array_equal(known[first : first + len(codes)], codes):
        return np.arange(first, first + len(codes))
    at = np.minimum(np.searchsorted(known, codes, sorter=order), len(known) - 1)
    at = at if order is None else order[at]
    return np.where(known[at] == codes, at, -1)


def _increasing(codes: Codes) -> bool:
    return bool((codes[1:] > codes[:-1]).all())
