"""Places of every level and kind of areas, found by what a person calls them: their name, or
their code or GEOID."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das.errors import UserError
from das.files import codes as texts
from das.files.release.tables import GEOCODE, GEOID, NAME, identifiers
from das.model.areas import Areas
from das.model.names import Codes, encoded, plain, text
from das.model.spelling import named
from das.model.spine import Spine

# The rows of a published table that a reader wants: units of a level, or areas off the spine,
# which are sums of the lowest units; by code, by GEOID or by name.


def counted(level: str) -> str:
    """The column of areas that follows their codes: the number of their units of the lowest level.

    >>> counted("Block"), counted("Block_Group"), counted("County")
    ('BLOCKS', 'BLOCK_GROUPS', 'COUNTIES')"""
    return f"{re.sub('Y$', 'IE', level.upper())}S"


@dataclass(frozen=True, eq=False)
class PlaceColumns:
    """Units or areas in the order of their rows: ``codes``, and what stands ``beside`` them, by
    column."""

    codes: Codes
    beside: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @staticmethod
    def of_level(spine: Spine, level: str) -> PlaceColumns:
        return PlaceColumns(spine.codes[spine.index(level)], identifiers(spine, level))

    @staticmethod
    def of_areas(areas: Areas, lowest: str) -> PlaceColumns:
        known = {GEOID: areas.geoids, NAME: encoded(areas.called)}
        beside: dict[str, NDArray[Any]] = {c: there for c, there in known.items() if there.any()}
        return PlaceColumns(areas.codes, beside | {counted(lowest): np.bincount(areas.area)})

    def wanted(self, prefixes: Sequence[str], names: Sequence[str]) -> NDArray[np.bool_]:
        """The rows that match both lists; an empty list matches all.

        A row matches if its code or GEOID begins with one of ``prefixes``. It matches ``names`` if
        its name contains one of them, ignoring case and accents, or its code or GEOID is one of
        them."""
        codes = [t for t in (self.codes, self.beside.get(GEOID)) if t is not None]
        out = np.full(len(self.codes), not prefixes)
        for prefix in prefixes:
            for known in codes:
                out |= np.strings.startswith(known, prefix.encode())
        if names:
            called = (
                plain(text(self.beside[NAME])) if NAME in self.beside else np.full(len(out), "")
            )
            said = [np.strings.find(called, plain(np.array([n]))[0]) >= 0 for n in names]
            said += [known == n.encode() for n in names for known in codes]
            out &= np.any(said, axis=0)
        return out

    def identified(
        self, parts: Iterator[pa.Table], wanted: NDArray[np.bool_]
    ) -> Iterator[pa.Table]:
        """The wanted rows of ``parts``, consecutive in the order of the codes, with the columns
        that identify them."""
        start = 0
        for part in parts:
            here = slice(start, start + part.num_rows)
            start += part.num_rows
            for i, (column, values) in enumerate(self.beside.items(), start=1):
                told = (
                    texts.column if column in (GEOID, NAME) else partial(pa.array, from_pandas=True)
                )
                part = part.add_column(i, column, told(values[here]))
            yield part.filter(pa.array(wanted[here]))


def added_up(parts: Iterator[pa.Table], areas: Areas, columns: Sequence[str]) -> Iterator[pa.Table]:
    """The rows of the lowest units, added up to one table of the areas."""
    order = np.argsort(areas.unit, kind="stable")
    unit, area = areas.unit[order], areas.area[order]
    sums = np.zeros((len(areas), len(columns)), dtype=np.int64)
    first = 0
    for part in parts:
        values = np.stack([part[c].to_numpy() for c in columns], axis=1)
        here = slice(*np.searchsorted(unit, [first, first + len(values)]))
        np.add.at(sums, area[here], values[unit[here] - first])
        first += len(values)
    yield pa.table(
        {GEOCODE: texts.column(areas.codes)}
        | dict(zip(columns, map(pa.array, sums.T), strict=True))
    )


#: Candidates that a message lists.
LISTED = 12
#: Whom a name means first, of places that share it: "Providence" is the city.
MEANT_FIRST = ("Place", "County_Subdivision", "County", "State")
_NONE = (
    "no place has this in its name, or as its GEOID or code",
    "type less of the name, or a GEOID; `das tables RUN --level County` lists the places of a level",
)


@dataclass(frozen=True)
class NamedPlace:
    """One row of :class:`PlaceColumns`: the ``row`` of a ``level``, or of a kind of areas."""

    level: str
    row: int
    code: str
    name: str
    geoid: str

    def says(self) -> str:
        return (
            f"{self.level} {self.name} ({self.code})" if self.name else f"{self.level} {self.code}"
        )


def every(spine: Spine, areas: Sequence[Areas]) -> dict[str, PlaceColumns]:
    """All places, by level and then by kind of areas."""
    out = {level: PlaceColumns.of_level(spine, level) for level in spine.levels}
    return out | {a.kind: PlaceColumns.of_areas(a, spine.levels[-1]) for a in areas}


def matches(
    places: Mapping[str, PlaceColumns], prefixes: Sequence[str], names: Sequence[str]
) -> list[NamedPlace]:
    """The places of :func:`every` that are wanted (:meth:`PlaceColumns.wanted`)."""
    return [
        _place(level, here, int(row))
        for level, here in places.items()
        for row in np.flatnonzero(here.wanted(prefixes, names))
    ]


def named_places(
    places: Mapping[str, PlaceColumns],
    prefixes: Sequence[str],
    names: Sequence[str],
    note: Callable[[str], None],
) -> list[NamedPlace]:
    """The one place that each of ``names`` means; all are of one level.

    A match of a whole name, code or GEOID comes first. Then comes a name without its last word
    ("Narragansett" for "Narragansett town"), then any part of a name. Of several places with this
    name the first in ``MEANT_FIRST`` is meant, and ``note`` is told the others.

    Raises:
        UserError: a name matches no place, or several of one kind or by a part of their names (the
            message lists them); or the places are of several levels."""
    found = [_meant(name, places, prefixes, note) for name in names]
    if len({p.level for p in found}) > 1:
        raise UserError(
            f"these places are of different levels: {_listed(found)}",
            where="--name",
            remedy="ask for them one by one",
        )
    return found


def _meant(
    name: str,
    places: Mapping[str, PlaceColumns],
    prefixes: Sequence[str],
    note: Callable[[str], None],
) -> NamedPlace:
    found = matches(places, prefixes, [name])
    if not found:
        raise UserError(_NONE[0], where=f"--name {name}", remedy=_NONE[1])
    wanted = str(plain(np.array([name]))[0])
    called = [str(n) for n in plain(np.array([p.name for p in found]))]
    whole = [
        p for p, n in zip(found, called, strict=True) if n == wanted or name in (p.code, p.geoid)
    ]
    short = [p for p, n in zip(found, called, strict=True) if n.rpartition(" ")[0] == wanted]
    best = whole or short or list(found)
    if (first := _meant_first(name, whole or short)) is not None:
        note(f"this is {first.says()}. Not shown: {_listed([p for p in best if p is not first])}")
        return first
    if len(best) > 1:
        raise UserError(
            f"{len(best):,} places have this name: {_listed(best)}",
            where=f"--name {name}",
            remedy=_remedy(best, places),
        )
    return best[0]


def _meant_first(name: str, best: Sequence[NamedPlace]) -> NamedPlace | None:
    """Of several places with a name, the only one of the first kind in ``MEANT_FIRST``; none if
    the name is a code."""
    if len(best) < 2 or any(name in (p.code, p.geoid) for p in best):
        return None
    kind = next((k for k in MEANT_FIRST if any(p.level == k for p in best)), "")
    first = [p for p in best if p.level == kind]
    return first[0] if len(first) == 1 else None


def _remedy(best: Sequence[NamedPlace], places: Mapping[str, PlaceColumns]) -> str:
    """How to name one of several places: by its GEOID, if no other place has it."""
    first = best[0]
    geoid = first.geoid or first.code
    if sum(geoid in (p.code, p.geoid) for p in matches(places, (), [geoid])) == 1:
        return f"name it by its GEOID, such as --name {geoid}, or give its level or kind as well"
    also = f" and its GEOID, {geoid}" if [p.level for p in best].count(first.level) > 1 else ""
    return f"give its level or kind as well, such as {first.level}{also}"


def areas_called(
    spine: Spine,
    known: Sequence[Areas],
    kind: str | None,
    names: Sequence[str],
    note: Callable[[str], None],
) -> Areas:
    """The places that ``names`` mean, units of a level too, as areas; of one ``kind`` or level,
    where it is given. Notes and raises :class:`UserError` as :func:`named_places`."""
    places = every(spine, known)
    if kind is not None:
        at = named(kind, list(places), "kind of area", "--kind")
        places = {at: places[at]}
    found = named_places(places, (), names, note)
    level = found[0].level
    by_kind = {a.kind: a for a in known}
    areas = by_kind[level] if level in by_kind else Areas.of_level(spine, level)
    return areas.some(only(places[level], found))


def none_found() -> UserError:
    return UserError(_NONE[0], where="--geocode, --name", remedy=_NONE[1])


def only(places: PlaceColumns, chosen: Sequence[NamedPlace]) -> NDArray[np.bool_]:
    """The rows of the ``chosen`` places, which are of one level."""
    out = np.zeros(len(places.codes), dtype=bool)
    out[[p.row for p in chosen]] = True
    return out


def _listed(places: Sequence[NamedPlace]) -> str:
    more = f"; and {len(places) - LISTED:,} more" if len(places) > LISTED else ""
    return "; ".join(p.says() for p in places[:LISTED]) + more


def _place(level: str, places: PlaceColumns, row: int) -> NamedPlace:
    told = (places.codes, places.beside.get(NAME), places.beside.get(GEOID))
    code, name, geoid = ("" if t is None else str(t[row], "utf-8") for t in told)
    return NamedPlace(level, row, code, name, geoid)
