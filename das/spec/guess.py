"""Guesses what each column of a table is: a level of places, their names, areas, a count, or an
attribute.

A column is a level of places if it has a usual name of one. It also is if it has more values than
an attribute has and each value lies in one value of the column above. So is a column whose codes
extend those of a level. A value that is the same for all people of each place is not an attribute of the
people. It is the name of the place, or an area that cuts across places. Attributes are columns with
few values. Every other column is left out, and the guess says why."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.profile import AGES, ColumnProfile, InputProfile

#: Names of columns of places, from the top down: words of a rank may stand for one another.
RANKS = tuple(
    tuple(words.split())
    for words in (
        "country nation pais land",
        "state province region regiao provincia "
        "departamento bundesland canton prefecture governorate",
        "county district distrito kreis comarca departement zone",
        "municipality municipio commune comune comuna concelho gemeinde city town subdistrict muni",
        "tract parish freguesia ward suburb locality",
        "block_group blockgroup village aldeia section seccion sezione neighbourhood neighborhood",
        "block manzana enumdist enumeration_area ea meshblock place",
    )
)
#: Words in the names of columns of areas that cut across the tree.
ACROSS = {
    "seat",
    "constituency",
    "electorate",
    "circunscripcion",
    "wahlkreis",
    "postcode",
    "zip",
    "catchment",
}
#: Words in the names of columns that name places.
NAMES = {
    "name",
    "names",
    "nombre",
    "nom",
    "nome",
    "namn",
    "label",
    "denominacion",
    "denominazione",
    "bezeichnung",
    "libelle",
}
#: Words in the names of columns of households, which are no places.
HOUSEHOLDS = {
    *("hh", "hhid", "household", "family", "dwelling", "serialno"),
    *("hogar", "familia", "menage", "haushalt"),
}
#: Words in the names of columns that number persons, or households.
NUMBERS = {
    *("id", "ids", "uuid", "pid", "no", "nr", "num", "number", "numero", "key", "serial", "line")
}
#: Names of columns that say how many persons a line stands for.
COUNTS = ("n", "count", "counts", "persons", "people", "frequency", "freq", "number")
#: What is the same for all people of each place is the places', if they have so many rows each.
ROWS = 5
#: An attribute has at most that many values (ages can have more), and a schema that many cells.
FEW, CELLS = 60, 20_000
#: A level that fewer rows have is not copied into a configuration, unless that is asked for: a
#: configuration is published, and the level of a single person tells that this person exists.
RARE = 10
#: Rows in another place above than others of their place are errors if they are at most one in so many
#: rows of the table, of those of their place, and in one of so many places (or in one alone).
STRAY, STRAY_HERE, STRAY_PLACES = 200, 20, 20


@dataclass
class Guess:
    """What each column was taken for; ``said`` is what to check, in words."""

    geography: list[ColumnProfile] = field(default_factory=list)
    areas: list[ColumnProfile] = field(default_factory=list)
    names: dict[str, ColumnProfile] = field(
        default_factory=dict
    )  #: by the column of the places that they are names of
    within_parent: bool = False
    count: ColumnProfile | None = None
    attributes: list[ColumnProfile] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  #: column, and why it is not used
    notes: list[str] = field(default_factory=list)  #: what looks wrong in the table


def guess(
    table: InputProfile,
    geography: Sequence[str] = (),
    *,
    rare: bool = False,
    places: InputProfile | None = None,
) -> Guess:
    """``geography`` names the columns of the places, from the top down, where that is not to be
    guessed. ``rare``: levels of few rows count, too. ``places`` is a table of all of them: what it
    has is no attribute, and what it has not is neither a level nor an area nor a name.

    Raises :class:`InputError` where no column is one of places, or none an attribute."""
    if places is not None:
        table = table.at_places(places)
    by_name = {c.name: c for c in table.columns}
    if unknown := [g for g in geography if g not in by_name]:
        raise InputError(
            f"there is no column {unknown[0]!r}",
            where="--geography",
            remedy=f"the columns are {', '.join(by_name)}"[:500],
        )
    out = Guess()
    counts = (c for c in table.columns if _word(c.name) in COUNTS and c.whole)
    out.count = next((c for c in counts if c.name not in geography), None)
    rest = [c for c in table.columns if c is not out.count]
    listed = set() if places is None else {c.name for c in places.columns}
    across = [c for c in rest if _words(c) & ACROSS and c.name not in geography]
    rest = [c for c in rest if c not in across]
    likely = _likely_places(rest, table.rows)
    chosen, out.notes = _without_strays([by_name[g] for g in geography] or likely, table.path)
    rest = [chosen.get(c.name, c) for c in rest]
    _places(out, [*chosen.values()], list(by_name), asked=bool(geography))
    out.notes += _notes(table, out)
    _across(out, across)
    _of_places(
        out,
        [
            c
            for c in rest
            if c not in out.geography and c not in out.areas and c.name not in out.left
            if places is None or c.name in listed
            if not c.decimal
        ],
        table.rows if places is None else None,
    )
    used = [*out.geography, *out.areas, *out.names.values()]
    rest = [c for c in rest if c not in used]
    if places is not None:
        rest = _kept(out, rest, listed)
    _attributes(out, rest, 1 if rare else RARE)
    return out


def _kept(out: Guess, rest: list[ColumnProfile], listed: set[str]) -> list[ColumnProfile]:
    """What can be an attribute, where places are ``listed`` with these columns. Raises
    :class:`InputError` for a level that they do not have."""
    if lost := [c.name for c in out.geography if c.name not in listed]:
        raise InputError(
            f"the table of places has no column {lost[0]!r}, which looks like one of places",
            where="--places",
            remedy="add it, or name the columns of places: --geography region,village",
        )
    for c in [*out.areas, *out.names.values()]:
        if c.name not in listed:
            out.left[c.name] = "it is the same for all of a place, and not in the table of places"
    out.areas = [c for c in out.areas if c.name in listed]
    out.names = {level: c for level, c in out.names.items() if c.name in listed}
    for c in rest:
        if c.name in listed:
            out.left.setdefault(c.name, "it is of places: name it under areas or names to use it")
    return [c for c in rest if c.name not in listed]


def _word(name: str) -> str:
    """In small letters without accents, words apart by ``_``."""
    plain = unicodedata.normalize("NFKD", name.lower())
    return re.sub(
        r"[^a-z0-9]+", "_", "".join(c for c in plain if not unicodedata.combining(c))
    ).strip("_")


def _words(c: ColumnProfile) -> set[str]:
    return set(_word(c.name).split("_"))


def _rank(name: str) -> int | None:
    """Where in the tree a column of this name lies: by the whole name, or by one of its words."""
    word = _word(name)
    for i, words in enumerate(RANKS):
        if word in words:
            return i
    for i, words in reversed(list(enumerate(RANKS))):
        if set(word.split("_")) & set(words):
            return i
    return None


def _likely_places(columns: Sequence[ColumnProfile], rows: int) -> list[ColumnProfile]:
    """The columns that look like levels; never those of households, and names only where nothing
    else looks like one."""
    rest = [c for c in columns if not _words(c) & HOUSEHOLDS]
    codes = [c for c in rest if not _words(c) & NAMES]
    likely = _look_like_places(codes, rows) or _look_like_places(rest, rows)
    return _with_nested_codes(likely, [c for c in codes if len(c.values) <= rows // 2])


def _look_like_places(columns: Sequence[ColumnProfile], rows: int) -> list[ColumnProfile]:
    """From the top down: by rank, and by number of values."""
    named = [c for c in columns if _rank(c.name) is not None]
    many = [
        c
        for c in columns
        if c not in named and FEW < len(c.values) <= rows // ROWS
        if not (c.empty or c.decimal or c.ages or _words(c) & NUMBERS)
    ]
    chosen = [c for c in [*named, *many] if len(c.values) > 1]
    last = len(RANKS)
    return sorted(
        chosen, key=lambda c: (last if (r := _rank(c.name)) is None else r, len(c.values))
    )


def _with_nested_codes(
    likely: list[ColumnProfile], columns: Sequence[ColumnProfile]
) -> list[ColumnProfile]:
    """The ``likely`` columns, and those whose codes begin with theirs, or with which theirs begin:
    01, 0102, 010203 are a region, a municipality and a district, whatever the columns are called.
    """
    more = [
        c
        for c in columns
        if c not in likely and any(_begins(c, p) or _begins(p, c) for p in likely)
    ]
    return likely if not more else sorted([*likely, *more], key=lambda c: len(c.values))


def _begins(fine: ColumnProfile, coarse: ColumnProfile) -> bool:
    """Whether each code of ``fine`` is longer than one code of ``coarse`` and begins with it, in
    every row that has both."""
    if len(coarse.values) < 2 or fine.empty or coarse.empty or not fine.nests_in(coarse):
        return False
    above = coarse.by_value(fine)[:-1].tolist()
    codes = ((c, coarse.values[i]) for c, i in zip(fine.values, above, strict=True))
    return all(len(long) > len(short) and long.startswith(short) for long, short in codes)


def _places(
    out: Guess, chosen: list[ColumnProfile], columns: Sequence[str], *, asked: bool
) -> None:
    """The chain of levels; what cuts across it is an area."""
    if not chosen:
        raise InputError(
            f"no column looks like one of places; the columns are {', '.join(columns)}"[:900],
            where="--from",
            remedy="name them from the top down: --geography region,village",
        )
    if empty := [c for c in chosen if c.empty]:
        raise InputError(
            f"{empty[0].name} has no value in some rows, and every record needs a place",
            where="--from",
            remedy="give records of unknown place a place of their own",
        )
    for c in chosen:
        if any(set(v) & set(',"\r\n') for v in c.values):
            raise InputError(
                f"{c.name} has a code with a comma, a quote or a line break in it",
                where="--from",
                remedy="use codes of places, not their full names",
            )
    by_size = sorted(chosen, key=lambda c: len(c.values))
    for order in (chosen, by_size):
        if all(fine.nests_in(coarse) for coarse, fine in pairwise(order)):
            out.geography = order
            return
    if asked:
        out.geography, out.within_parent = chosen, True
        return
    _by_containment(out, chosen, _contained(by_size))


def _without_strays(
    chosen: Sequence[ColumnProfile], path: str
) -> tuple[dict[str, ColumnProfile], list[str]]:
    """The columns of places without the few rows that are in another place above than others of their
    place, and what to tell of these. The smallest places correct those above: a row is told once."""
    whole = [c for c in reversed(chosen) if not c.empty]
    columns = {c.name: c for c in sorted(whole, key=lambda c: len(c.values), reverse=True)}
    told, notes, order = set[int](), list[str](), list(columns)
    for i, above in enumerate(order):
        for fine in (columns[name] for name in order[:i]):
            coarse = columns[above]
            main = coarse.mostly(fine)
            rows = np.flatnonzero(main[fine.index] != coarse.index)
            if _are_strays(fine, rows) and len(np.unique(main)) > 1:
                kept, index = np.unique(main[fine.index], return_inverse=True)
                values = tuple(coarse.values[k] for k in kept)
                columns[above] = ColumnProfile(above, values, index.astype(np.int64).ravel())
                if new := [r for r in rows.tolist() if r not in told]:
                    notes.append(_stray_note(fine, coarse, new, path))
                    told.update(new)
    return {c.name: columns.get(c.name, c) for c in chosen}, notes


def _are_strays(fine: ColumnProfile, rows: NDArray[np.int64]) -> bool:
    """Whether so few ``rows`` look like errors: codes that repeat do so in many places and rows."""
    places, n = len(fine.values), len(fine.index)
    here, every = (np.bincount(i, minlength=places) for i in (fine.index[rows], fine.index))
    few = len(rows) * STRAY <= n and bool((here * STRAY_HERE <= every).all())
    return few and 0 < int((here > 0).sum()) <= max(1, places // STRAY_PLACES)


def _stray_note(fine: ColumnProfile, coarse: ColumnProfile, rows: Sequence[int], path: str) -> str:
    """The first place with such rows, where these are, and what was decided."""
    place = fine.index[rows[0]]
    mine = [r for r in rows if fine.index[r] == place]
    others = list(dict.fromkeys(coarse.values[coarse.index[r]] for r in mine))
    main, total = coarse.values[coarse.mostly(fine)[place]], int((fine.index == place).sum())
    called, first = ("row", 1) if path.endswith(".parquet") else ("line", 2)
    at = ", ".join(f"{r + first:,}" for r in mine[:5])
    more = len(rows) - len(mine)
    return (
        f"{fine.name} {fine.values[place]} is in {coarse.name} {main}, but {len(mine):,} of its"
        f" {total:,} rows {'is' if len(mine) == 1 else 'are'} in {' or '.join(others[:3])} ({called}"
        f" {at}{', ...' * (len(mine) > 5)}{f'; and {more:,} rows of other places' * (more > 0)}):"
        " is that an error? It was taken for one. A run refuses the table until it is corrected; or,"
        f" if codes of {fine.name} do repeat, until unique_within_parent = true is under [data.columns]"
    )


def _by_containment(out: Guess, chosen: list[ColumnProfile], chain: list[ColumnProfile]) -> None:
    """The levels where not all of the ``chosen`` columns are in the longest ``chain``: that, or,
    where codes repeat, the columns with names of places."""
    rest = [c for c in chosen if c not in chain]
    if len(chain) > 1 and not any(_repeats(c, chain[-1]) for c in rest):
        out.geography = chain
        _across(out, rest)
        return
    named = [c for c in chosen if _rank(c.name) is not None] or chosen
    lowest = named[-1]
    across = [c for c in chosen if c not in named]
    if not lowest.nests_in(*named[:-1]):
        out.within_parent = True
    else:  # codes of the lowest level are unique: what does not nest above it is across
        chain = _longest(named)
        across += [c for c in named if c not in chain]
        named = list(chain)
    out.geography = named
    _across(out, across)


def _contained(by_size: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """The longest chain of columns in which each value lies in one of the column before, whatever
    their names say; of the longest that with the smallest places."""
    return max((_longest(by_size[: i + 1]) for i in range(len(by_size))), key=_finest)


def _finest(chain: Sequence[ColumnProfile]) -> tuple[int, int]:
    return len(chain), len(chain[-1].values)


def _repeats(column: ColumnProfile, lowest: ColumnProfile) -> bool:
    """Whether a column, in no chain with the ``lowest`` places, has codes that repeat in different
    places above it: it is named as smaller places than those, and is not made of whole ones."""
    last = len(RANKS)
    ranks = [last if (r := _rank(c.name)) is None else r for c in (column, lowest)]
    return _rank(column.name) is not None and ranks[0] > ranks[1] and not lowest.nests_in(column)


def _across(out: Guess, columns: Sequence[ColumnProfile]) -> None:
    """Areas, if every place of the lowest level lies in one of each."""
    lowest = out.geography if out.within_parent else out.geography[-1:]
    for c in columns:
        whole = not c.empty and len(c.values) > 1
        if whole and _combined(lowest).nests_in(c):
            out.areas.append(c)
        elif _rank(c.name) is not None or _words(c) & ACROSS:
            out.left[c.name] = (
                "it is no level of the tree, and its areas are not made of whole places"
            )


def _of_places(out: Guess, columns: Sequence[ColumnProfile], rows: int | None) -> None:
    """Find names of places, and other columns that have one value in each place. There must be
    enough ``rows`` for each place to rule out chance. ``None``: the columns are those of a table of
    places."""
    levels = {
        c.name: _combined(out.geography[: i + 1] if out.within_parent else [c])
        for i, c in enumerate(out.geography)
    }
    lowest = _combined(out.geography)
    if rows is not None and len(np.unique(lowest.index)) * ROWS > rows:
        return
    for c in columns:
        if c.empty or len(c.values) < 2 or not lowest.nests_in(c):
            continue
        level = next(name for name, place in levels.items() if place.nests_in(c))
        named = bool(_words(c) & NAMES) or (not c.whole and c.nests_in(levels[level]))
        if named and level not in out.names:
            out.names[level] = c
        else:
            out.areas.append(c)


def _combined(columns: Sequence[ColumnProfile]) -> ColumnProfile:
    """One whose values are the combinations of theirs."""
    index = columns[0].index
    for c in columns[1:]:
        keys = (index + 1) * (len(c.values) + 1) + c.index
        index = np.unique(keys, return_inverse=True)[1].astype(np.int64).ravel()
    return ColumnProfile("", (), index)


def _notes(table: InputProfile, out: Guess) -> list[str]:
    """Numbers of persons that repeat, rows that are there twice, and values that differ only in
    blanks or capitals."""
    notes = []
    for c in table.columns:
        if c in out.geography or c is out.count or _words(c) & HOUSEHOLDS:
            continue
        several = c.index[c.index >= 0]
        twice = len(several) - len(c.values)
        if _words(c) & NUMBERS and 0 < 2 * twice <= len(several):
            some = np.flatnonzero(np.bincount(several)[c.index] > 1)
            rows = _combined(
                [ColumnProfile(o.name, o.values, o.index[some]) for o in table.columns]
            )
            same = len(some) - len(np.unique(rows.index))
            notes.append(
                f"{c.name}: {twice:,} rows repeat the value of an earlier row; {same:,} of these"
                " are the same in every column"
            )
        alike: dict[str, str] = {}
        for v in c.values if len(c.values) <= AGES else ():
            if (first := alike.setdefault(v.strip().casefold(), v)) != v:
                notes.append(
                    f"{c.name}: {first!r} and {v!r} differ only in blanks or capitals, and are two"
                    " values"
                )
                break
    return notes


def _longest(columns: Sequence[ColumnProfile]) -> list[ColumnProfile]:
    """The longest chain that ends in the last column, each nested in the one before."""
    best: dict[str, list[ColumnProfile]] = {}
    for i, fine in enumerate(columns):
        above = [best[c.name] for c in columns[:i] if fine.nests_in(c)]
        best[fine.name] = [*max(above, key=len, default=[]), fine]
    return best[columns[-1].name]


def _attributes(out: Guess, columns: Sequence[ColumnProfile], least: int) -> None:
    cells = 1
    for c in columns:
        if c.name in out.left:
            continue
        levels = len(c.values) + (c.empty > 0)
        if levels < 2:
            out.left[c.name] = "it is the same in every row"
        elif why := _no_attribute(c):
            out.left[c.name] = why
        elif len(c.common(least)) + (c.empty > 0) < 2:
            out.left[c.name] = (
                f"fewer than two of its levels are in {least} rows or more; list its levels to"
                " use it"
            )
        elif cells * levels > CELLS:
            out.left[c.name] = (
                f"with it the schema would have more than {CELLS:,} cells; list its levels to"
                " use it"
            )
        else:
            cells *= levels
            out.attributes.append(c)
    if not out.attributes:
        raise InputError(
            "no column looks like an attribute of a person: none has from 2 to 60 values in"
            f" {least} rows or more each",
            where="--from",
            remedy="group the values of a column; or, for a trial, --rare-levels",
        )


def _no_attribute(c: ColumnProfile) -> str:
    """Why a column is no attribute of a person; empty if it can be one."""
    words = _words(c)
    if words <= HOUSEHOLDS | NUMBERS:
        return "it numbers " + ("households" if words & HOUSEHOLDS else "rows or persons")
    if c.decimal and not all(v.endswith((".0", ",0")) for v in c.values):
        return "it has numbers with decimals: group them into classes to use it"
    if len(c.values) <= FEW or (c.ages and c.whole and len(c.values) <= AGES):
        return ""
    if c.ages and not c.whole:
        odd = [repr(v) for v in c.values if not (v.isdigit() and v.isascii())]
        return f"most of its values are whole numbers, but not {', '.join(odd[:3])}: correct these"
    return f"it has more than {FEW} values: group them, and list the groups, to use it"
