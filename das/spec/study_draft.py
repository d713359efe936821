"""A first study of protection methods: complete, commented TOML with about nine methods."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from math import prod
from pathlib import Path

import numpy as np

from das.errors import InputError
from das.model.codes import Codes
from das.model.profile import ColumnProfile, InputProfile
from das.spec.draft import attribute_name, data_lines, key, level_name, listed_levels, named, text
from das.spec.guess import Guess

LINKED_NAME = "sf1-2010"
#: Words in the names of attributes that neighbors know of each other.
_KNOWN = {
    "sex",
    "gender",
    "age",
    "ages",
    "agegroup",
    "sexo",
    "edad",
    "idade",
    "geschlecht",
    "alter",
}
#: The most lines of a table that crosses attributes, at the lowest level and above it.
_MOST_LINES, _MOST_ABOVE = 400, 2000

_PERSONS = 'unit = "person"     # the records have no households'
_RATES = ("{ rate = 0.05 }", "{ rate = 0.2 }", "{ rate = 0.5 }")
#: For linked records: the two experiments of the Census Bureau, and one between them.
_SWAPS = (
    '{ rate = 0.05, levels = ["Tract"], label = "2010, low" }',
    '{ rate = 0.2, levels = ["Tract", "County", "State"] }',
    '{ rate = 0.5, size_noise = [0.25, 0.5, 0.25], levels = ["Tract", "County", "State"], '
    'reach = [0.3, 0.4, 0.3], label = "2010, high" }',
)
#: Shares of levels: about those of persons in 2020, redistricting data and DHC together (rho 7.52),
#: with the nation and the levels between state and tract in the nearest one. Those of queries are
#: ours.
_SHARES_OF_QUERIES = (
    'queries = { total = "1/5", "votingage * hispanic * cenrace" = "1/5", "sex * age" = "3/10",'
    ' detailed = "3/10" }'
)
_PLAN = f"""\
# Shares of the budget: levels about as in 2020, where rho was 7.52 for persons; queries are ours.
levels = {{ ROOT County = "1/10", Tract = "41/100", Block_Group = "33/200", Block = "3/200" }}
{_SHARES_OF_QUERIES}"""
#: The levels above blocks with codes of the Census Bureau, of 15 digits or with that of the block
#: group twice, and the first characters that each has.
_CENSUS = {"State": 2, "County": 5, "Tract": 11, "Block_Group": 12}
#: The shares of the levels down to the state: one state, or several below the nation.
_ROOT = {False: 'State = "31/100",', True: 'US = "1/50", State = "29/100",'}
_COARSE = ("hispanic * race7", "sex * age_23_groups")


def draft_of_linked(name: str, folder: Path, points: Path | None, blocks: Codes) -> str:
    """The study of linked records in these blocks: the 34 tables of the published attack. Blocks
    with other codes than those of the Census Bureau have no level above them but all."""
    sizes = np.strings.str_len(blocks)
    census = bool((np.strings.isdigit(blocks) & ((sizes == 15) | (sizes == 16))).all())
    root = ["US"] if len(np.unique(blocks.astype("S2"))) > 1 else []
    levels = [*root, *_CENSUS, "Block"] if census else ["All", "Block"]
    around = "Tract" if census else levels[0]
    plan = _PLAN.replace("ROOT", _ROOT[bool(root)])
    return _joined(
        [
            *_head(name),
            *_linked_data(folder, points, levels),
            "",
            "[published]",
            f"set = {text(LINKED_NAME)}     # or pl94, dhc-persons, own (with [tables])",
            f"levels = {_list([around, 'Block'])}",
            *_sample(around, 4),
            *_attack(("sex", "age"), ("hispanic", "cenrace")),
            *_uses(
                {
                    "total": ("Total population", "total"),
                    "race": ("Race in seven groups", "race7"),
                    "age": ("Sex by age", "sex * age_23_groups"),
                    "crossed": ("Sex by age by race", "sex * age_23_groups * race7"),
                }
            ),
            "",
            "[map]     # the error across the risk-utility map",
            'use = "age"',
            'level = "Block"     # a level, or "areas": runs of 15 consecutive blocks',
            *_methods(
                _SWAPS if census else _RATES,
                _COARSE,
                plan if census else _SHARES_OF_QUERIES,
                near=points is not None,
            ),
            *_of_linked(census),
        ]
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
    columns = named(found.attributes, attribute_name)
    sizes = {n: len(listed_levels(c, True)) for n, c in columns.items()}
    levels = [level_name(c.name) for c in found.geography]
    root = [] if len(levels) > 1 and len(found.geography[0].values) == 1 else ["All"]
    unit = _PERSONS if household is None else ""
    return _joined(
        [
            *_head(name),
            *_table_data(table, found, household, points),
            "",
            "[geography]",
            f"levels = {_list([*root, *levels])}     # the first one is the root",
            *_schema(columns),
            *_tables(sizes, [*root, *levels]),
            *_sample(None, 30),
            *_attack(*_known_and_sensitive(sizes)),
            *_uses(_own_uses(sizes)),
            "",
            "[map]     # the error across the risk-utility map",
            'use = "crossed"',
            f'level = {text(levels[-1])}     # a level, or "areas": runs of 15 lowest places',
            *_methods(_RATES, list(sizes), unit=unit, near=points is not None),
        ]
    )


def _known_and_sensitive(sizes: dict[str, int]) -> tuple[list[str], list[str]]:
    """Sex and age are known, the others sensitive; without either of them, the last is."""
    known = [n for n in sizes if set(n.lower().replace("-", "_").split("_")) & _KNOWN]
    if not known or len(known) == len(sizes):
        known = list(sizes)[:-1]
    return known, [n for n in sizes if n not in known]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"


def _list(values: Sequence[str]) -> str:
    return f"[{', '.join(map(text, values))}]"


def _head(name: str) -> Iterator[str]:
    yield "# A study of protection methods (docs/frontier.md): das frontier THIS_FILE --out DIR"
    yield from ("", "[study]", f"name = {text(name)}")
    yield "repeats = 5     # keys of each random method"
    yield "# seed = 1     # repeatable keys; absent: from the operating system"


# --- data


def _linked_data(folder: Path, points: Path | None, levels: list[str]) -> Iterator[str]:
    yield from ("", "[data]", 'reader = "linked"', f"path = {text(str(folder))}")
    yield _points(points)
    yield from ("", "[geography]", f"levels = {_list(levels)}     # the first is the root")
    if "State" in levels:
        yield "# How many characters of a block's code are that of each level:"
        sizes = (f"{lv} = {n}" for lv, n in _CENSUS.items())
        yield f"prefixes = {{ {', '.join(sizes)} }}"


def _points(points: Path | None) -> str:
    if points is not None:
        return f"points = {text(str(points))}     # coordinates of the lowest places"
    return '# points = "points.csv"     # code, x, y of the lowest places, for near partners'


def _table_data(
    table: InputProfile, found: Guess, household: str | None, points: Path | None
) -> Iterator[str]:
    first = True
    for line in data_lines(table, found):
        if line == "[data.columns]" and first:
            first = False
            yield (
                f"household = {text(household)}"
                if household is not None
                else '# household = "hh"     # the column of households; without, persons are swapped'
            )
            yield from (_points(points), "", line)
        else:
            yield line


def _schema(columns: dict[str, ColumnProfile]) -> Iterator[str]:
    yield from ("", "[schema]", 'name = "own"', "", "[schema.attributes]")
    yield from (f"{key(n)} = {_list(listed_levels(c, True))}" for n, c in columns.items())


# --- tables, sample, attack, uses


def _tables(sizes: dict[str, int], levels: Sequence[str]) -> Iterator[str]:
    above, lowest = levels[-2:]
    yield from ("", "# The tables that every method protects: all attributes, and their pairs.")
    queries = ["total", *sizes]
    for pair in combinations(sizes, 2):
        if prod(sizes[a] for a in pair) <= _MOST_LINES:
            queries.append(" * ".join(pair))
    for i, query in enumerate(queries):
        yield from (f"[tables.T{i}]", f"title = {text(_words(query))}")
        yield from (f"query = {text(query)}", f"levels = {_list([above, lowest])}", "")
    whole = " * ".join(sizes)
    if len(sizes) > 2 and prod(sizes.values()) <= _MOST_ABOVE:
        yield from (f"[tables.T{len(queries)}]", f"title = {text(_words(whole))}")
        yield from (f"query = {text(whole)}", f"levels = {_list([above])}", "")
    yield from ("[published]", 'set = "own"', f"levels = {_list([above, lowest])}")


def _words(query: str) -> str:
    return " by ".join(query.split(" * ")).capitalize()


def _sample(level: str | None, units: int) -> Iterator[str]:
    yield from ("", "[sample]     # where the attack is made; --all: everywhere")
    if level is not None:
        yield f"level = {text(level)}"
    yield from (
        f"units = {units}     # more of them: smaller sampling errors, more time",
        "seed = 1",
    )


def _attack(known: Sequence[str], sensitive: Sequence[str]) -> Iterator[str]:
    yield from (
        "",
        "[attack]",
        f"known = {_list(known)}     # what an intruder knows about everybody",
        f"sensitive = {_list(sensitive)}     # and wants to know",
        "",
        "[attack.options]",
        "seconds = 3.0     # limit of each program of a unit",
        "joint_seconds = 0.0     # limit of a program of all units of an area together; 0: none",
    )


def _own_uses(sizes: dict[str, int]) -> dict[str, tuple[str, str]]:
    whole = " * ".join(sizes)
    each = {n: (_words(n), n) for n in list(sizes)[:4] if n != "total"}
    return {"total": ("Total population", "total"), **each, "crossed": (_words(whole), whole)}


def _uses(uses: dict[str, tuple[str, str]]) -> Iterator[str]:
    yield from ("", "# Counts whose errors are measured.")
    for name, (title, query) in uses.items():
        yield from (f"[uses.{key(name)}]", f"title = {text(title)}")
        yield from (f"query = {text(query)}", "")


# --- methods


def _methods(
    swaps: Sequence[str],
    categories: Sequence[str],
    plan: str = "",
    *,
    unit: str = "",
    near: bool = False,
) -> Iterator[str]:
    """Settings of one method are a curve; a ``label`` names a published one."""
    yield from ("", "# Each table is a curve: a method, and its settings.")
    yield from _method("none", "No protection", "none", ["{}"])
    yield from _method("swapping", "Swapping", "swapping", swaps, unit)
    if near:
        nearest = ["{ rate = 0.05 }", "{ rate = 0.2 }"]
        shared = "\n".join(['partner = "nearest"', *[unit] * bool(unit)])
        yield from _method("near", "Swapping with a near partner", "swapping", nearest, shared)
    chances = ["{ p = 0.05 }", "{ p = 0.5 }"]
    yield from _method("permutation", "Permutation swapping", "permutation-swapping", chances, unit)
    keys = ["{ D = 2, V = 1.0 }", "{ D = 5, V = 2.0, js = 2 }"]
    yield from _method("cell-key", "Cell key", "cell-key", keys)
    bases = ["{ base = 3 }", "{ base = 5 }", "{ base = 10 }"]
    yield from _method("rounding", "Random rounding", "rounding", bases, 'how = "random"')
    yield from _method(
        "nearest", "Rounding to the nearest", "rounding", ["{ base = 5 }"], 'how = "nearest"'
    )
    coarse = ["{ threshold = 50 }", "{ threshold = 100 }"]
    yield from _method("threshold", "Totals alone where few live", "coarsening", coarse)
    given = f"categories = {_list(categories)}     # these tables, and no others"
    yield from _method("categories", "Coarser categories", "coarsening", ["{}"], given)
    hidden = ["{ threshold = 3 }"]
    yield from _method("suppression", "Suppression", "suppression", hidden, 'rule = "primary"')
    budgets = ['{ rho = "1" }', '{ rho = "7.52" }', '{ rho = "25" }']
    yield from _method("topdown", "TopDown", "topdown", budgets, plan)


def _method(
    curve: str, title: str, method: str, settings: Sequence[str], shared: str = ""
) -> Iterator[str]:
    yield from ("", f"[methods.{key(curve)}]", f"title = {text(title)}")
    yield f"method = {text(method)}"
    if shared:
        yield shared
    if list(settings) != ["{}"]:
        yield from ("settings = [", *(f"    {s}," for s in settings), "]")


def _of_linked(census: bool) -> Iterator[str]:
    """What the tables of the published attack allow besides."""
    yield from _method(
        "rules-1980", "Suppression as in 1980", "suppression", ["{}"], 'rule = "1980"'
    )
    if census:
        yield from _method(
            "groups",
            "Tables down to the block group",
            "coarsening",
            ["{}"],
            'level = "Block_Group"',
        )
