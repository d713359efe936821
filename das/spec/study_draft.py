"""A first study of protection methods: complete, commented TOML with about nine methods. Its text is
in ``study_draft.toml.j2``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np

from das.errors import InputError
from das.model.codes import Codes
from das.model.profile import InputProfile
from das.spec.draft import columns_of, level_name, listed_levels, rendered, words
from das.spec.guess import Guess

LINKED_NAME = "sf1-2010"
#: Words in the names of attributes that neighbors know of each other.
_KNOWN = {
    *("sex", "gender", "age", "ages", "agegroup"),
    *("sexo", "edad", "idade", "geschlecht", "alter"),
}
#: The most lines of a table that crosses attributes, at the lowest level and above it.
_MOST_LINES, _MOST_ABOVE = 400, 2000
#: Counts whose errors are measured: title and query.
_USES = {
    "total": ("Total population", "total"),
    "race": ("Race in seven groups", "race7"),
    "age": ("Sex by age", "sex * age_23_groups"),
    "crossed": ("Sex by age by race", "sex * age_23_groups * race7"),
}


def draft_of_linked(name: str, folder: Path, points: Path | None, blocks: Codes) -> str:
    """The study of linked records in these blocks: the 34 tables of the published attack. Blocks
    with other codes than those of the Census Bureau have no level above them but all.

    The shares of levels are about those of persons in 2020, redistricting data and DHC together.
    The nation and the levels between state and tract are in the nearest one."""
    sizes = np.strings.str_len(blocks)
    census = bool((np.strings.isdigit(blocks) & ((sizes == 15) | (sizes == 16))).all())
    nation = len(np.unique(blocks.astype("S2"))) > 1
    levels = ["State", "County", "Tract", "Block_Group", "Block"] if census else ["All", "Block"]
    return rendered(
        "study_draft.toml.j2",
        linked=True,
        name=name,
        folder=folder,
        near=points,
        census=census,
        levels=["US"] * (census and nation) + levels,
        sample="Tract" if census else "All",
        known=("sex", "age"),
        sensitive=("hispanic", "cenrace"),
        uses=_USES,
        coarse=("hispanic * race7", "sex * age_23_groups"),
        root_share='US = "1/50", State = "29/100",' if nation else 'State = "31/100",',
    )


def draft_of_table(
    table: InputProfile, found: Guess, name: str, household: str | None, points: Path | None
) -> str:
    """The study of a table of persons, with tables of its own attributes. Its lists of levels are
    those of the records: unlike a configuration, a study is confidential."""
    if len(found.attributes) < 2:
        raise InputError(
            "a study needs two attributes: one that an intruder knows, one to find out",
            where="--data",
            remedy="group the values of another column",
        )
    columns = columns_of(found)
    sizes = {n: len(listed_levels(c, True)) for n, c in columns["attributes"].items()}
    levels = [level_name(c.name) for c in found.geography]
    root = [] if len(levels) > 1 and len(found.geography[0].values) == 1 else ["All"]
    known, sensitive = _known_and_sensitive(sizes)
    return rendered(
        "study_draft.toml.j2",
        linked=False,
        study=True,
        census=False,
        name=name,
        table=table,
        household=household,
        near=points,
        levels=[*root, *levels],
        tables=_tables(sizes, [*root, *levels]),
        known=known,
        sensitive=sensitive,
        uses=_own_uses(sizes),
        coarse=list(sizes),
        **columns,
    )


def _known_and_sensitive(sizes: dict[str, int]) -> tuple[list[str], list[str]]:
    """Sex and age are known, the others sensitive; without either of them, the last is."""
    known = [n for n in sizes if set(n.lower().replace("-", "_").split("_")) & _KNOWN]
    if not known or len(known) == len(sizes):
        known = list(sizes)[:-1]
    return known, [n for n in sizes if n not in known]


def _tables(sizes: dict[str, int], levels: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
    """Queries and their levels: all attributes and their pairs, and what crosses all."""
    lowest = levels[-2:]
    pairs = combinations(sizes, 2)
    some = [" * ".join(p) for p in pairs if prod(sizes[a] for a in p) <= _MOST_LINES]
    whole = len(sizes) > 2 and prod(sizes.values()) <= _MOST_ABOVE
    return [
        *((query, lowest) for query in ("total", *sizes, *some)),
        *([(" * ".join(sizes), lowest[:1])] if whole else []),
    ]


def _own_uses(sizes: dict[str, int]) -> dict[str, tuple[str, str]]:
    whole = " * ".join(sizes)
    each = {n: (words(n), n) for n in list(sizes)[:4] if n != "total"}
    return {"total": ("Total population", "total"), **each, "crossed": (words(whole), whole)}
