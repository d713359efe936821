"""What the parts of a specification must agree on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from das.errors import SpecError
from das.model.columns import Columns
from das.model.query import DETAILED
from das.model.spelling import near
from das.model.universe import KINDS, Universe
from das.plugins import READERS
from das.spec.keys import CountsKeys
from das.spec.parts import TreeKeys

_FILE_NAME = re.compile(r"[^./\\\x00-\x1f][^/\\\x00-\x1f]*")
#: The last levels of an optimized spine, whose rule makes the one of the other.
LOWEST = ("Block_Group", "Block")
_TABLE = re.compile(r"[A-Za-z]\w{0,60}", re.ASCII)


def check(spec: CountsKeys) -> None:
    """Build everything that parts must agree on; raises :class:`SpecError`."""
    levels = spec.geography.levels
    _check_levels(spec)
    check_spine(spec.geography)
    _check_columns(spec)
    for u in spec.universes:
        if u.exact.total is not None and u.exact.total not in levels:
            raise SpecError(
                f"{u.exact.total!r} is not a level",
                where=u.key("constraints.total"),
                remedy=near(u.exact.total, levels, "levels"),
            )
        check_chain(u)
        _check_invariants(u, levels)
    _check_tables(spec)
    _check_letters(spec)
    if spec.estimation.method == "full-information":
        for planned in spec.universes:
            schema = planned.schema
            if not any(
                schema.query(d.query).answers == schema.cells for d in planned.plan.at(levels[-1])
            ):
                raise SpecError(
                    f"full information needs the detailed query at {levels[-1]!r} ({planned.name})",
                    where="estimation.method",
                    remedy="measure 'detailed' there, or use the method 'topdown'",
                )
    if spec.estimation.bias != "none":
        _check_bias(spec.persons, levels[-1])
    _check_occupied(spec)
    if spec.budget.target is not None:
        spec.budget.target.check(spec.persons.plan)


def _check_columns(spec: CountsKeys) -> None:
    if spec.data.columns is not None:
        Columns.from_options(spec.data.columns, spec.schema_built)
    if spec.geography.places is not None and "places" not in READERS[spec.data.reader].options:
        raise SpecError(
            f"the reader {spec.data.reader!r} has all places in its input",
            where="geography.places",
            remedy="delete the key: it goes with the reader 'table'",
        )
    for name, part in spec.own.items():
        u = spec.universe(name)
        Columns.from_options(part.data.columns, u.schema, u.key("data.columns"))


def _check_bias(persons: Universe, lowest: str) -> None:
    """The bias of one pass over all cells is known."""
    passes = persons.passes[lowest]
    if len(passes) > 1 or DETAILED not in passes[-1]:
        raise SpecError(
            f"it needs one pass at {lowest!r}, with the detailed query",
            where="estimation.bias",
            remedy=(
                f"measure 'detailed' there and set estimation.passes.{lowest} = [['*']], or leave it at"
                ' "none"'
            ),
        )


def _check_occupied(spec: CountsKeys) -> None:
    """Occupied units are kept within persons, so both must be there."""
    if spec.constraints.occupied == "consistent" and (
        spec.housing is None or spec.persons.schema.dwelling is None
    ):
        raise SpecError(
            "it needs housing units, and an attribute that says which persons live in one",
            where="constraints.occupied",
            remedy='add [housing], take a schema with a dwelling, or leave it at "measured"',
        )


def _check_levels(spec: CountsKeys) -> None:
    levels = spec.geography.levels
    if wrong := [n for n in levels if not _FILE_NAME.fullmatch(n)]:
        raise SpecError(
            f"{wrong[0]!r} cannot be part of a file name",
            where="geography.levels",
            remedy="begin with no dot, and leave out '/', '\\' and line breaks",
        )
    if len(set(levels)) != len(levels):
        raise SpecError("a level occurs twice", where="geography.levels")
    passes: list[tuple[str, Mapping[str, object]]] = [("estimation.passes", spec.estimation.passes)]
    passes += [
        (f"universes.{name}.estimation.passes", u.estimation.passes) for name, u in spec.own.items()
    ]
    for table, keys in (("geography.define", spec.geography.define), *passes):
        check_keys(keys, levels, table)


def check_spine(g: TreeKeys) -> None:
    """Keys of an optimized spine are for one, and its levels are those that it has a rule for.
    Raises :class:`SpecError`."""
    if g.spine == "tabulation":
        for key in ("targets", "fanout", "geocodes", "digits"):
            if getattr(g, key) not in (None, ()):
                raise SpecError(
                    "this is for an optimized spine",
                    where=f"geography.{key}",
                    remedy='delete it, or set geography.spine = "optimized"',
                )
        return
    if g.levels[-2:] != LOWEST or "State" not in g.levels[:-2]:
        raise SpecError(
            "an optimized spine needs a level State, and must end with Block_Group and Block",
            where="geography.levels",
            remedy='name them, or set geography.spine = "tabulation"',
        )
    numbered = g.levels[g.levels.index("State") + 1 : -1]
    if odd := [level for level in g.digits or {} if level not in numbered]:
        raise SpecError(
            f"units of {odd[0]!r} have no numbers",
            where="geography.digits",
            remedy=f"those of {', '.join(numbered)} have",
        )
    if twice := sorted({n for n in g.named if g.named.count(n) > 1}):
        raise SpecError(
            f"{twice[0]!r} stands there twice",
            where="geography.targets",
            remedy="name it once; lists of blocks have different file names",
        )


def check_keys(keys: Iterable[str], levels: Sequence[str], where: str) -> None:
    """A table by level has levels for its keys, and perhaps ``default``."""
    if extra := [k for k in keys if k not in levels and k != "default"]:
        raise SpecError(
            f"{extra[0]!r} is not a level", where=where, remedy=near(extra[0], levels, "levels")
        )


def _check_letters(spec: CountsKeys) -> None:
    """No two universes have tables of the same letters, nor those of a publication."""
    letters = [u.kind.letter for u in spec.universes]
    for u in spec.universes[1:]:
        others = [p for kind in KINDS.values() if kind.name != u.name for p in kind.publications]
        taken = {
            spec.persons.kind.letter,
            *(t.name.rstrip("0123456789") for p in others for t in p.tables),
        }
        if letters.count(u.kind.letter) > 1 or u.kind.letter in taken:
            raise SpecError(
                f"tables of another universe begin with {u.kind.letter!r}",
                where=u.key("letter"),
                remedy="give it other letters",
            )


def check_chain(universe: Universe) -> None:
    """Each query of the rounding chain is finer than the next; all of them tell dwelling groups
    apart."""
    schema = universe.schema
    try:
        queries = [schema.query(name) for name in universe.chain]
    except SpecError as error:
        raise SpecError(
            f"{error.where}: {error.what}",
            where=universe.key("rounding.chain"),
            remedy=error.remedy,
        ) from None
    if schema.dwelling is not None and queries:
        queries.append(schema.query(schema.dwelling))
    for fine, coarse in pairwise(queries):
        if not coarse.sums(fine):
            raise SpecError(
                f"{fine.name!r} does not tell the groups of {coarse.name!r} apart",
                where=universe.key("rounding.chain"),
                remedy="nest the queries, fine to coarse, each naming the dwelling attribute",
            )


def _check_invariants(universe: Universe, levels: tuple[str, ...]) -> None:
    """Counts that are exact are nested among themselves and with the rounding's sums, or no network
    rounds them."""
    where = universe.key("constraints.invariants")
    for level, name in universe.exact.queries:
        if level not in levels:
            raise SpecError(
                f"{level!r} is not a level", where=where, remedy=near(level, levels, "levels")
            )
        try:
            universe.schema.query(name)
        except SpecError as error:
            raise SpecError(error.what, where=where, remedy=error.remedy) from None
    if all(name == "total" for _, name in universe.exact.queries):
        return
    if universe.schema.dwelling is not None and (
        universe.exact.housing_units or universe.exact.group_quarters
    ):
        raise SpecError(
            "with bounds on dwellings only totals can be exact",
            where=where,
            remedy="set constraints.housing_units and constraints.group_quarters to false",
        )
    _check_nested(universe, where)


def _check_nested(universe: Universe, where: str) -> None:
    """Of two exact queries, or one and a query of the rounding, one is a sum of the other."""
    names = dict.fromkeys(name for _, name in universe.exact.counts)
    queries = [universe.schema.query(name) for name in names]
    for a in queries:
        for b in [*queries, *map(universe.schema.query, universe.chain)]:
            if not (a.sums(b) or b.sums(a)):
                chain = " (of rounding.chain)" if b.name in universe.chain else ""
                other = (
                    f"; or change {universe.key('rounding.chain')} (to [], for none)"
                    if chain
                    else ""
                )
                raise SpecError(
                    f"{a.name!r} and {b.name!r}{chain} cross: neither is a sum of the other",
                    where=where,
                    remedy=(
                        "exact queries must nest, such as total, sex and 'sex * age': only then"
                        f" can rounding keep all of them{other}"
                    ),
                )


def _check_tables(spec: CountsKeys) -> None:
    """Names that can stand in the names of files and columns, and queries and conditions of the
    schema."""
    for name, asked in spec.tables.items():
        where = f"tables.{name}"
        if not _TABLE.fullmatch(name) or name.upper() == name:
            raise SpecError(
                f"{name!r} cannot name a table: names in capitals are those of das, such as T1",
                where=where,
                remedy="use letters, digits and _, at least one of them a lowercase letter",
            )
        if sum(name.lower() == other.lower() for other in spec.tables) > 1:
            raise SpecError(f"two tables are called {name!r}", where=where, remedy="rename one")
        try:
            schema = spec.universe(asked.universe).schema
            if asked.query is not None:
                schema.query(asked.query)
            for condition in (asked.where, *(c.where for c in asked.columns)):
                if not all(mask.any() for mask in schema.box(condition)):
                    raise SpecError(
                        "no record can meet this condition", remedy="list levels that it may have"
                    )
        except SpecError as error:
            raise SpecError(error.what, where=where, remedy=error.remedy) from None
