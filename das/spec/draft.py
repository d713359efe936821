"""A first configuration from what the columns of a table were taken for, with a plain budget."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import tomli_w

from das.errors import SpecError
from das.model.attribute import Attribute
from das.model.profile import ColumnProfile, InputProfile
from das.spec.guess import RARE, Guess

UNKNOWN = ("unknown", "missing", "not-stated")


def draft(
    table: InputProfile, found: Guess, name: str, *, rare: bool = False, places: str | None = None
) -> str:
    """The whole configuration, commented. ``rare``: with all levels of the table, also those that
    few rows have. ``places`` is the path of a table of all places. No number of records is in
    it."""
    return (
        "\n".join(
            [
                *_head(table, name),
                *data_lines(table, found),
                *_schema(found, rare),
                *_measured(found, places),
            ]
        )
        + "\n"
    )


def left_out(found: Guess) -> list[str]:
    """The attributes with levels that so few rows have that they are not copied."""
    return [c.name for c in found.attributes if len(c.common(RARE)) < len(c.values)]


def text(value: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON; also a quoted key."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def named(columns: Sequence[ColumnProfile], name: Callable[[str], str]) -> dict[str, ColumnProfile]:
    """Columns by the names that the configuration gives them, each another."""
    out: dict[str, ColumnProfile] = {}
    for c in columns:
        first = new = name(c.name)
        number = 2
        while new in out:
            new, number = f"{first}_{number}", number + 1
        out[new] = c
    return out


def level_name(name: str) -> str:
    """The name of a level, which stands in names of files."""
    return re.sub(r"[^\w-]+", "_", name).strip("_").title() or "Level"


def attribute_name(name: str) -> str:
    """A name that an attribute may have."""
    clean = re.sub(r"[^\w-]+", "_", name).strip("_") or "attribute"
    try:
        return Attribute(clean, ("a", "b")).name
    except SpecError:
        return f"{clean}_"


def listed_levels(c: ColumnProfile, rare: bool) -> list[str]:
    kept = c.values if rare else c.common(RARE)
    values = sorted(kept, key=int) if c.whole else list(kept)
    return [*values, *([_unknown(c)] if c.empty else [])]


def _unknown(c: ColumnProfile) -> str:
    return next(u for u in (*UNKNOWN, "none-of-these") if u not in c.values)


def _head(table: InputProfile, name: str) -> Iterator[str]:
    yield (
        f"# Drafted from {table.path.replace(chr(10), ' ')}. Check every line before you rely"
        " on it."
    )
    yield (
        "# `das check` prints what it costs and how exact it is; docs/own-data.md explains each"
        " part."
    )
    yield ""
    yield "[run]"
    yield f"name = {text(name)}"
    yield "# seed = 7      # makes a run repeatable AND NOT PRIVATE: for trying out only"


def data_lines(table: InputProfile, found: Guess) -> Iterator[str]:
    yield from ("", "[data]", 'reader = "table"', f"path = [{text(table.path)}]")
    if table.encoding != "utf-8":
        yield f"encoding = {text(table.encoding)}"
    if found.left:
        yield "# Columns that are not used:"
        yield from (f"#   {' '.join(n.split())}: {why}" for n, why in found.left.items())
    yield from ("", "[data.columns]")
    if found.count is not None:
        yield f"count = {text(found.count.name)}     # how many persons a line stands for"
    if found.within_parent:
        yield (
            "unique_within_parent = true     # codes repeat between places of the level above: they"
            " are put together"
        )
    yield from ("", "[data.columns.geography]     # level = column, from the top down")
    places = named([*found.geography, *found.areas], level_name)
    yield from (f"{key(n)} = {text(c.name)}" for n, c in places.items() if c in found.geography)
    if found.areas:
        yield from (
            "",
            "[data.columns.areas]     # areas of whole places that cut across the levels",
        )
        yield from (f"{key(n)} = {text(c.name)}" for n, c in places.items() if c in found.areas)
    if found.names:
        yield from ("", "[data.columns.names]     # level = column with the names of its places")
        yield from (
            f"{key(n)} = {text(found.names[c.name].name)}"
            for n, c in places.items()
            if c.name in found.names
        )
    attributes = named(found.attributes, attribute_name)
    if other := {n: c for n, c in attributes.items() if n != c.name}:
        yield from ("", "[data.columns.attributes]     # attribute = column")
        yield from (f"{key(n)} = {text(c.name)}" for n, c in other.items())
    if empty := {n: c for n, c in attributes.items() if c.empty}:
        yield from ("", "[data.columns.missing]     # the level of records without a value")
        yield from (f"{key(n)} = {text(_unknown(c))}" for n, c in empty.items())


def _schema(found: Guess, rare: bool) -> Iterator[str]:
    yield from ("", "[schema]", 'name = "own"', "", "[schema.attributes]")
    yield (
        "# The levels were READ OFF THE DATA. That a level is in this list tells that somebody has"
        " it, and so does one that"
    )
    yield (
        "# is not: this is outside the guarantee. Replace each list by one that is public and was"
        " fixed in advance, such"
    )
    yield "# as the answers that the form allowed, also those that nobody gave."
    if not rare and left_out(found):
        yield (
            f"# Levels that fewer than {RARE} rows have are NOT in these lists, for this file is"
            " published: add them from the"
        )
        yield (
            "# questionnaire, or records with them are refused. (For a trial: das init"
            " --rare-levels copies all.)"
        )
    for n, c in named(found.attributes, attribute_name).items():
        some = (
            "     # some are left out" if not rare and len(c.common(RARE)) < len(c.values) else ""
        )
        yield f"{key(n)} = [{', '.join(map(text, listed_levels(c, rare)))}]{some}"


def _measured(found: Guess, listed: str | None) -> Iterator[str]:
    places = named([*found.geography, *found.areas], level_name)
    levels = [
        "All" if "Country" in places else "Country",
        *(n for n, c in places.items() if c in found.geography),
    ]
    yield from (
        "",
        "[geography]",
        f"levels = [{', '.join(map(text, levels))}]     # the first one is the root",
        '# places = "places.csv"     # a table of all places, also of those where nobody lives'
        if listed is None
        else f"places = {text(listed)}     # all places, also those where nobody lives",
    )
    yield from (
        "",
        "# [constraints]",
        f"# total = {text(levels[1])}     # publishes these totals exactly, outside the guarantee",
    )
    yield from (
        "",
        "[budget]",
        'rho = "1"               # the whole privacy-loss budget; `das check` gives epsilon',
    )
    yield (
        'neighbours = "bounded"  # one record replaced by another; or "unbounded": added or removed'
    )
    yield 'delta = "1e-10"'
    yield from ("", "[budget.levels]         # shares, exact: they sum to 1")
    yield from (f'{key(lv)} = "1/{len(levels)}"' for lv in levels)
    names = list(named(found.attributes, attribute_name))
    for lv in levels:
        yield from ("", f"[budget.queries.{key(lv)}]")
        if len(names) == 1:
            yield from ('total = "1/2"', 'detailed = "1/2"')
            continue
        yield 'total = "1/4"'
        yield from (f'{key(n)} = "1/{4 * len(names)}"' for n in names)
        yield 'detailed = "1/2"'


def of_phsafe(name: str, folder: Path, parameters: Path) -> str:
    """A configuration of the S-DHC, as PHSafe makes it of a folder."""
    lines = [
        '# The S-DHC (docs/sdhc.md), as PHSafe makes it. Better at the same budget: mode = "tight".',
        "",
        tomli_w.dumps({"run": {"name": name, "publication": "sdhc"}}),
        "# Paths as seen from where the command is run.",
        tomli_w.dumps({"data": {"path": str(folder), "parameters": str(parameters)}}),
        tomli_w.dumps({"sdhc": {"mode": "phsafe"}}),
    ]
    return "\n".join(lines)


def of_folders(name: str, product: str, parameters: Path, data: Path) -> str:
    """A configuration of the Detailed DHC, whose folders are these."""
    lines = [
        "# The Detailed DHC (docs/detailed.md).",
        "",
        tomli_w.dumps({"run": {"name": name, "publication": "detailed-dhc"}}),
        "# Paths as seen from where the command is run.",
        tomli_w.dumps({"data": {"path": str(data), "parameters": str(parameters)}}),
        "# The privacy statement gives epsilon at this delta.",
        tomli_w.dumps({"detailed": {"product": product, "delta": "1e-10"}}),
    ]
    return "\n".join(lines)
