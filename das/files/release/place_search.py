"""Places of every level and kind of areas, found by what a person calls them: their name, or
their code or GEOID."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.files.release.table_places import PlaceColumns
from das.files.release.tables import GEOID, NAME
from das.model.areas import Areas
from das.model.names import plain
from das.model.spelling import named
from das.model.spine import Spine

#: Candidates that a message lists.
LISTED = 12
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
    return out | {a.kind: PlaceColumns.of_areas(a) for a in areas}


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
    places: Mapping[str, PlaceColumns], prefixes: Sequence[str], names: Sequence[str]
) -> list[NamedPlace]:
    """The one place that each of ``names`` means; all are of one level.

    A match of a whole name, code or GEOID comes first. Then comes a name without its last word
    ("Narragansett" for "Narragansett town"), then any part of a name.

    Raises:
        UserError: a name matches no place, or several (the message lists them); or the
            places are of several levels.
    """
    found = [_meant(name, places, prefixes) for name in names]
    if len({p.level for p in found}) > 1:
        raise UserError(
            f"these places are of different levels: {_listed(found)}",
            where="--name",
            remedy="ask for them one by one",
        )
    return found


def _meant(name: str, places: Mapping[str, PlaceColumns], prefixes: Sequence[str]) -> NamedPlace:
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
    if len(best) > 1:
        raise UserError(
            f"{len(best):,} places have this name: {_listed(best)}",
            where=f"--name {name}",
            remedy=_remedy(best, places),
        )
    return best[0]


def _remedy(best: Sequence[NamedPlace], places: Mapping[str, PlaceColumns]) -> str:
    """How to name one of several places: by its GEOID, if no other place has it."""
    first = best[0]
    geoid = first.geoid or first.code
    if sum(geoid in (p.code, p.geoid) for p in matches(places, (), [geoid])) == 1:
        return f"name it by its GEOID, such as --name {geoid}, or give its level or kind as well"
    also = f" and its GEOID, {geoid}" if [p.level for p in best].count(first.level) > 1 else ""
    return f"give its level or kind as well, such as {first.level}{also}"


def areas_called(
    spine: Spine, known: Sequence[Areas], kind: str | None, names: Sequence[str]
) -> Areas:
    """The places that ``names`` mean, units of a level too, as areas; of one ``kind`` or level,
    where it is given. Raises :class:`UserError` as :func:`named_places`."""
    places = every(spine, known)
    if kind is not None:
        at = named(kind, list(places), "kind of area", "--kind")
        places = {at: places[at]}
    found = named_places(places, (), names)
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


def _listed(found: Sequence[NamedPlace]) -> str:
    more = f"; and {len(found) - LISTED:,} more" if len(found) > LISTED else ""
    return "; ".join(p.says() for p in found[:LISTED]) + more


def _place(level: str, places: PlaceColumns, row: int) -> NamedPlace:
    told = (places.codes, places.beside.get(NAME), places.beside.get(GEOID))
    code, name, geoid = ("" if t is None else str(t[row], "utf-8") for t in told)
    return NamedPlace(level, row, code, name, geoid)
