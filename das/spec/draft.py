"""A first configuration from what a table looks like: which columns are places, which attributes, and a plain budget.

Places are columns with the names that places have, or with more values than an attribute has, of which each lies in
one of the column above; attributes are columns of few values. Everything else is named in a comment and left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from das.errors import InputError, SpecError
from das.model.profile import Column, Profile
from das.model.schema import Attribute

#: Names of columns of places, from the top down: words of a rank may stand for one another.
RANKS = (
    ("country", "nation", "pais", "land"),
    ("state", "province", "region", "provincia", "departamento", "bundesland", "canton", "prefecture", "governorate"),
    ("county", "district", "distrito", "kreis", "zone"),
    ("municipality", "municipio", "commune", "comune", "comuna", "gemeinde", "city", "town", "subdistrict", "muni"),
    ("tract", "parish", "ward", "suburb", "locality"),
    ("block_group", "blockgroup", "village", "section", "neighbourhood", "neighborhood"),
    ("block", "enumdist", "enumeration_area", "ea", "meshblock", "place"),
)
#: Words in the names of columns of areas that cut across the tree.
ACROSS = {"seat", "constituency", "electorate", "circunscripcion", "wahlkreis", "postcode", "zip", "catchment"}
#: Names of columns that say how many persons a line stands for.
COUNTS = ("n", "count", "counts", "persons", "people", "frequency", "freq", "number")
#: An attribute has at most so many values (whole numbers such as ages may have more), and a schema so many cells.
FEW, AGES, CELLS = 60, 130, 20_000
UNKNOWN = ("unknown", "missing", "not-stated")


@dataclass
class Guess:
    """What each column was taken for; ``said`` is what to check, in words."""

    geography: list[Column] = field(default_factory=list)
    areas: list[Column] = field(default_factory=list)
    within_parent: bool = False
    count: Column | None = None
    attributes: list[Column] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  #: column, and why it is not used


def guess(table: Profile, geography: Sequence[str] = ()) -> Guess:
    """``geography`` names the columns of the places, from the top down, where that is not to be guessed.

    Raises :class:`InputError` where no column is one of places, or none an attribute.
    """
    by_name = {c.name: c for c in table.columns}
    if unknown := [g for g in geography if g not in by_name]:
        raise InputError(f"there is no column {unknown[0]!r}", where="--geography",
                         remedy=f"the columns are {', '.join(by_name)}"[:500])  # fmt: skip
    out = Guess()
    out.count = next(
        (c for c in table.columns if _word(c.name) in COUNTS and c.whole and c.name not in geography), None
    )
    rest = [c for c in table.columns if c is not out.count]
    across = [c for c in rest if set(_word(c.name).split("_")) & ACROSS and c.name not in geography]
    rest = [c for c in rest if c not in across]
    _places(out, [by_name[g] for g in geography] or _look_like_places(rest, table.rows), asked=bool(geography))
    _across(out, across)
    rest = [c for c in rest if c not in out.geography and c not in out.areas]
    _attributes(out, rest)
    return out


def draft(table: Profile, found: Guess, name: str) -> str:
    """The whole configuration, commented."""
    return "\n".join([*_head(table, name), *_data(table, found), *_schema(found), *_measured(found)]) + "\n"


# --- guessing ------------------------------------------------------------------------------------------------


def _word(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")


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


def _look_like_places(columns: Sequence[Column], rows: int) -> list[Column]:
    """From the top down: by rank, and by number of values."""
    named = [c for c in columns if _rank(c.name) is not None]
    many = [c for c in columns if c not in named and FEW < len(c.values) <= rows // 2 and not _ages(c)]
    chosen = [c for c in [*named, *many] if len(c.values) > 1]
    last = len(RANKS)
    return sorted(chosen, key=lambda c: (last if (r := _rank(c.name)) is None else r, len(c.values)))


def _places(out: Guess, chosen: list[Column], *, asked: bool) -> None:
    """The chain of levels; what cuts across it is an area."""
    if not chosen:
        raise InputError("no column looks like one of places", where="--from",
                         remedy="name them from the top down: --geography region,village")  # fmt: skip
    if empty := [c for c in chosen if c.empty]:
        raise InputError(f"{empty[0].name} has no value in {empty[0].empty:,} rows, and every record needs a place",
                         where="--from", remedy="give records of unknown place a place of their own")  # fmt: skip
    for c in chosen:
        if odd := [v for v in c.values if set(v) & set(',"\r\n')]:
            raise InputError(f"{c.name} has the code {odd[0]!r}, with a comma, a quote or a line break in it",
                             where="--from", remedy="use codes of places, not their full names")  # fmt: skip
    by_size = sorted(chosen, key=lambda c: len(c.values))
    for order in (chosen, by_size):
        if all(fine.nests_in(coarse) for coarse, fine in pairwise(order)):
            out.geography = order
            return
    if asked:
        out.geography, out.within_parent = chosen, True
        return
    named = [c for c in chosen if _rank(c.name) is not None] or chosen
    lowest = named[-1]
    across = [c for c in chosen if c not in named]
    if not lowest.nests_in(*named[:-1]):
        out.within_parent = True
    else:  # codes of the lowest level are unique: what does not nest above it is across
        chain = _longest(named)
        across += [c for c in named if c not in chain]
        named = chain
    out.geography = named
    _across(out, across)


def _across(out: Guess, columns: Sequence[Column]) -> None:
    """Areas, if every place of the lowest level lies in one of each."""
    lowest = out.geography if out.within_parent else out.geography[-1:]
    for c in columns:
        whole = not c.empty and len(c.values) > 1
        if whole and _combined(lowest).nests_in(c):
            out.areas.append(c)
        else:
            out.left[c.name] = "it is no level of the tree, and its areas are not made of whole places"


def _combined(columns: Sequence[Column]) -> Column:
    """One whose values are the combinations of theirs."""
    index = np.unique(np.stack([c.index for c in columns]), axis=1, return_inverse=True)[1]
    return Column("", (), np.asarray(index, dtype=np.int64).ravel())


def _longest(columns: Sequence[Column]) -> list[Column]:
    """The longest chain that ends in the last column, each nested in the one before."""
    best: dict[str, list[Column]] = {}
    for i, fine in enumerate(columns):
        above = [best[c.name] for c in columns[:i] if fine.nests_in(c)]
        best[fine.name] = [*max(above, key=len, default=[]), fine]
    return best[columns[-1].name]


def _attributes(out: Guess, columns: Sequence[Column]) -> None:
    cells = 1
    for c in columns:
        if c.name in out.left:
            continue
        levels = len(c.values) + (c.empty > 0)
        if levels < 2:
            out.left[c.name] = "it is the same in every row"
        elif len(c.values) > FEW and not _ages(c):
            out.left[c.name] = f"it has {len(c.values):,} values: group them, and list the groups, to use it"
        elif cells * levels > CELLS:
            out.left[c.name] = f"with it the schema would have {cells * levels:,} cells; list its levels to use it"
        else:
            cells *= levels
            out.attributes.append(c)
    if not out.attributes:
        raise InputError("no column looks like an attribute of a person: none has from 2 to 60 values", where="--from",
                         remedy="group the values of a column")  # fmt: skip


def _ages(c: Column) -> bool:
    return c.whole and len(c.values) <= AGES and int(max(c.values, key=int)) < 200


# --- writing -------------------------------------------------------------------------------------------------


def _text(value: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON; also a quoted key."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _text(name)


def _named(columns: Sequence[Column], name: Callable[[str], str]) -> dict[str, Column]:
    """Columns by the names that the configuration gives them, each another."""
    out: dict[str, Column] = {}
    for c in columns:
        first = new = name(c.name)
        number = 2
        while new in out:
            new, number = f"{first}_{number}", number + 1
        out[new] = c
    return out


def _level(name: str) -> str:
    """The name of a level, which stands in names of files."""
    return re.sub(r"[^\w-]+", "_", name).strip("_").title() or "Level"


def _attribute(name: str) -> str:
    """A name that an attribute may have."""
    clean = re.sub(r"[^\w-]+", "_", name).strip("_") or "attribute"
    try:
        return Attribute(clean, ("a", "b")).name
    except SpecError:
        return f"{clean}_"


def _levels(c: Column) -> list[str]:
    values = sorted(c.values, key=int) if c.whole else list(c.values)
    return [*values, *([_unknown(c)] if c.empty else [])]


def _unknown(c: Column) -> str:
    return next(u for u in (*UNKNOWN, "none-of-these") if u not in c.values)


def _head(table: Profile, name: str) -> Iterator[str]:
    yield f"# Drafted from {table.path.replace(chr(10), ' ')}: {table.rows:,} rows. Check every line before you rely on it."
    yield "# `das check` prints what it costs and how exact it is; docs/own-data.md explains each part."
    yield ""
    yield "[run]"
    yield f"name = {_text(name)}"
    yield "# seed = 7      # makes a run repeatable AND NOT PRIVATE: for trying out only"


def _data(table: Profile, found: Guess) -> Iterator[str]:
    yield from ("", "[data]", 'reader = "table"', f"path = [{_text(table.path)}]")
    if table.encoding != "utf-8":
        yield f"encoding = {_text(table.encoding)}"
    if found.left:
        yield "# Columns that are not used:"
        yield from (f"#   {' '.join(n.split())}: {why}" for n, why in found.left.items())
    yield from ("", "[data.columns]")
    if found.count is not None:
        yield f"count = {_text(found.count.name)}     # how many persons a line stands for"
    if found.within_parent:
        yield "unique_within_parent = true     # codes repeat between places of the level above: they are put together"
    yield from ("", "[data.columns.geography]     # level = column, from the top down")
    places = _named([*found.geography, *found.areas], _level)
    yield from (f"{_key(n)} = {_text(c.name)}" for n, c in places.items() if c in found.geography)
    if found.areas:
        yield from ("", "[data.columns.areas]     # areas of whole places that cut across the levels")
        yield from (f"{_key(n)} = {_text(c.name)}" for n, c in places.items() if c in found.areas)
    attributes = _named(found.attributes, _attribute)
    if other := {n: c for n, c in attributes.items() if n != c.name}:
        yield from ("", "[data.columns.attributes]     # attribute = column")
        yield from (f"{_key(n)} = {_text(c.name)}" for n, c in other.items())
    if empty := {n: c for n, c in attributes.items() if c.empty}:
        yield from ("", "[data.columns.missing]     # the level of records without a value")
        yield from (f"{_key(n)} = {_text(_unknown(c))}" for n, c in empty.items())


def _schema(found: Guess) -> Iterator[str]:
    yield from ("", "[schema]", 'name = "own"', "", "[schema.attributes]")
    yield "# The levels were READ OFF THE DATA. That a level is in this list tells that somebody has it, and so does one that"
    yield "# is not: this is outside the guarantee. Replace each list by one that is public and was fixed in advance, such"
    yield "# as the answers that the form allowed, also those that nobody gave."
    attributes = _named(found.attributes, _attribute)
    yield from (f"{_key(n)} = [{', '.join(map(_text, _levels(c)))}]" for n, c in attributes.items())


def _measured(found: Guess) -> Iterator[str]:
    places = _named([*found.geography, *found.areas], _level)
    levels = ["All" if "Country" in places else "Country", *(n for n, c in places.items() if c in found.geography)]
    yield from ("", "[geography]", f"levels = [{', '.join(map(_text, levels))}]     # the first one is the root")
    yield from (
        "",
        "# [constraints]",
        f"# total = {_text(levels[1])}     # publishes these totals exactly, outside the guarantee",
    )
    yield from ("", "[budget]", 'rho = "1"               # the whole privacy-loss budget; `das check` gives epsilon')
    yield 'neighbours = "bounded"  # one record replaced by another; or "unbounded": added or removed'
    yield 'delta = "1e-10"'
    yield from ("", "[budget.levels]         # shares, exact: they sum to 1")
    yield from (f'{_key(lv)} = "1/{len(levels)}"' for lv in levels)
    names = list(_named(found.attributes, _attribute))
    for lv in levels:
        yield from ("", f"[budget.queries.{_key(lv)}]")
        if len(names) == 1:
            yield from ('total = "1/2"', 'detailed = "1/2"')
            continue
        yield 'total = "1/4"'
        yield from (f'{_key(n)} = "1/{4 * len(names)}"' for n in names)
        yield 'detailed = "1/2"'
