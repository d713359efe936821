"""A first configuration: from what the columns of a table were taken for, with a plain budget; or
of a folder of another program. Its text is in templates (``*.toml.j2``)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jinja2

from das.accounting.document import decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.errors import SpecError
from das.model.profile import ColumnProfile, InputProfile
from das.model.schema import Attribute
from das.spec.guess import RARE, Guess

UNKNOWN = ("unknown", "missing", "not-stated")


def draft(
    table: InputProfile, guess: Guess, name: str, *, rare: bool = False, places: str | None = None
) -> str:
    """The whole configuration, commented. ``rare``: with all levels of the table, also those that
    few rows have. ``places`` is the path of a table of all places. No number of records is in
    it."""
    columns = columns_of(guess)
    levels = [n for n, c in columns["places"].items() if c in guess.geography]
    return rendered(
        "draft.toml.j2",
        table=table,
        run=name,
        listed=places,
        levels=["All" if "Country" in columns["places"] else "Country", *levels],
        rare=rare,
        left_out=left_out(guess),
        least=RARE,
        **columns,
    )


def columns_of(guess: Guess) -> dict[str, Any]:
    """The columns with the names that the configuration gives them, for ``data.toml.j2``."""
    return {
        "found": guess,
        "places": named([*guess.geography, *guess.areas], level_name),
        "attributes": named(guess.attributes, attribute_name),
    }


def left_out(guess: Guess) -> list[str]:
    """The attributes with levels that so few rows have that they are not copied."""
    return [c.name for c in guess.attributes if len(c.common(RARE)) < len(c.values)]


def text(value: object) -> str:
    """A basic string of TOML, whose escapes are those of JSON; also a quoted key."""
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


def key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else text(name)


def list_of(values: Iterable[str]) -> str:
    return f"[{', '.join(map(text, values))}]"


def words(query: str) -> str:
    return " by ".join(query.split(" * ")).capitalize()


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
    return [*values, *([unknown(c)] if c.empty else [])]


def unknown(c: ColumnProfile) -> str:
    """A level that no value of the column is."""
    return next(u for u in (*UNKNOWN, "none-of-these") if u not in c.values)


@cache
def _templates() -> jinja2.Environment:
    out = jinja2.Environment(
        loader=jinja2.PackageLoader("das.spec", ""),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    out.globals["delta"] = decimal(DEFAULT_DELTA)
    filters = (text, key, list_of, words, listed_levels, unknown)
    out.filters |= {f.__name__: f for f in filters}
    return out


def rendered(template: str, **values: Any) -> str:
    """The configuration of a template of this folder."""
    return _templates().get_template(template).render(values)


def of_folder(name: str, data: Path, parameters: Path, product: str | None = None) -> str:
    """A configuration of the S-DHC, as PHSafe makes it of a folder; or of a ``product`` of the
    Detailed DHC."""
    return rendered("folder.toml.j2", name=name, data=data, parameters=parameters, product=product)
