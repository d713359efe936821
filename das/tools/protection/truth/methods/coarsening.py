r"""Coarsening: fewer and coarser tables, each of them exact; fixed, or the least that passes rules.

Fixed in three ways, together or alone:

* ``categories``: other tables instead of those of the set: products of attributes and groupings,
  such as ``"cenrace7 * hispanic"``. What is in two of them is not crossed.
* ``level``: tables down to this level only. Units below show their total alone.
* ``threshold``: units of fewer persons show their total alone.

What is shown is exact, what is not shown is unknown. Nothing is random.

*What is proved.* Nothing. Exact coarsened tables compose badly: the tables of the next product are
more equations about the same records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.engine import Progress
from das.errors import InputError, SpecError
from das.model.histogram import Histogram
from das.model.names import Codes, blank, text
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.least.chain import Chain, Rules
from das.tools.protection.least.files import (
    LeastRelease,
    ShownAreas,
    described,
    described_persons,
    synthetic_persons,
)
from das.tools.protection.least.staircase import AreaSums, Staircase, finest_tables
from das.tools.protection.published import (
    WITHHELD,
    ExpectedGroups,
    LevelLines,
    LineMatrix,
    ProtectedTables,
    TableSet,
    withheld,
)
from das.tools.protection.truth.least.audit import kept_districts, value_of, without_small
from das.tools.protection.truth.least.solution import (
    ORDERS,
    CountTree,
    Effort,
    LeastAtoms,
    lower_bound,
    solved,
)
from das.tools.protection.truth.method import ProtectionMethod, StudyRecords, exact_lines
from das.tools.protection.truth.study_input import CountedPlaces

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Coarsening(ProtectionMethod):
    """At least one of ``categories``, ``level`` and ``threshold``, as the module says."""

    categories: tuple[str, ...] = ()
    level: str | None = None
    threshold: int = 0

    name: ClassVar[str] = "coarsening"
    random: ClassVar[bool] = False

    def __post_init__(self) -> None:
        where = "method coarsening"
        if not self.categories and self.level is None and not self.threshold:
            what = "nothing is made coarser: give categories, a level or a threshold"
            raise SpecError(what, where=where)
        if isinstance(self.categories, str):
            raise SpecError("categories is a text: it must be a list of texts", where=where)
        if not isinstance(self.threshold, int) or self.threshold < 0:
            raise SpecError(f"threshold is {self.threshold!r}: no integer from 0 on", where=where)

    @property
    def label(self) -> str:
        parts = []
        if self.categories:
            parts.append("tables of " + ", ".join(self.categories))
        if self.level is not None:
            parts.append(f"tables down to {self.level}")
        if self.threshold:
            parts.append(f"totals alone under {self.threshold} persons")
        return "; ".join(parts)

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        spine, shown = records.spine, self.table_set(tables, records.spine)
        levels = exact_lines(records.histogram(), spine, shown)
        for level, lines in levels.items():
            units = np.zeros(spine.units(level), dtype=bool)
            if self.level is not None and spine.index(level) > spine.index(self.level):
                units[:] = True
            if units.all() or self.threshold:
                total = total_line(shown, level)
                units |= lines.value[:, total] < self.threshold
                hidden = np.repeat(units[:, None], lines.value.shape[1], axis=1)
                hidden[:, total] = False
                levels[level] = withheld(lines, hidden)
        return ProtectedTables(spine, shown, levels)

    def table_set(self, tables: TableSet, spine: Spine) -> TableSet:
        """The tables that are shown: those of the categories, and at ``level`` those of the lowest
        level, too."""
        out = dict(tables.tables)
        if self.categories:
            made = tuple(table(t, tables.schema) for t in coarser(self.categories, tables.schema))
            out = dict.fromkeys(out, made)
        if self.level is not None and self.level not in out:
            lowest = max(out, key=spine.index)
            if spine.index(self.level) > spine.index(lowest):
                raise SpecError(
                    f"the tables end at {lowest} already, above {self.level}",
                    where="method coarsening",
                    remedy=f"name {lowest} or a level above it",
                )
            out[self.level] = out[lowest]
        if not self.categories and out.keys() == tables.tables.keys():
            return tables
        ordered = {level: out[level] for level in spine.levels if level in out}
        return TableSet(f"{tables.name}, coarser", tables.schema, ordered)


def coarser(categories: tuple[str, ...], schema: Schema) -> tuple[Tabulation, ...]:
    """The table of each query, without its total."""
    for query in categories:
        schema.query(query)  # refuses what it does not know
    return tuple(
        Tabulation(f"C{i}", "", query, total=False) for i, query in enumerate(categories, 1)
    )


def total_line(tables: TableSet, level: str) -> int:
    """The line of a level that counts every record. Raises :class:`SpecError` where none does."""
    lines: LineMatrix = tables.lines(level)
    every = np.flatnonzero(lines.matrix.sum(axis=1) == tables.schema.cells)
    if not len(every):
        raise SpecError(
            f"no line of level {level!r} is a total, and some units show only that",
            where=f"table set {tables.name!r}",
            remedy='add a table with query = "total"',
        )
    return int(every[0])


# The least coarsening: what is published is found, so that it passes given rules and loses least.
#
# *What is proved.* The rules, for whatever addition and subtraction of these tables give; and sharp
# bounds of all hidden counts. Not more: no epsilon, nothing about likely guesses, nor about the next
# product.


@dataclass(frozen=True)
class LeastCoarsening(ProtectionMethod):
    """``chain``: grains from the total to the finest (:mod:`das.tools.protection.least.chain`);
    ``k``, ``m``, ``other``, ``totals``: the rules; ``order``: ``number``, ``best`` or ``search``, with
    ``rounds`` of reshuffling and their ``seed``; ``users``: the weight of levels' users, 1 where
    nothing is said."""

    chain: tuple[str, ...] = ()
    k: int = 100
    m: int = 3
    other: int = 0
    totals: int = 0
    order: str = "search"
    rounds: int = 24
    seed: int = 1
    users: Mapping[str, float] = field(default_factory=dict)

    name: ClassVar[str] = "least-coarsening"
    random: ClassVar[bool] = False

    def __post_init__(self) -> None:
        where = "method least-coarsening"
        _ = self.rules
        if not 2 <= self.m <= self.k:
            what = f"k is {self.k}, and m is {self.m}: m must be 2 or more, and k not below m"
            raise SpecError(what, where=where)
        if self.totals and not 2 <= self.totals <= self.k:
            what = f"totals is {self.totals}: it must be 0, for all, or from 2 to k, {self.k}"
            raise SpecError(what, where=where)
        if self.order not in ORDERS:
            raise SpecError(f"order is {self.order!r}: none of {', '.join(ORDERS)}", where=where)
        if not isinstance(self.rounds, int) or self.rounds < 0:
            raise SpecError(f"rounds is {self.rounds!r}: it must be 0 or more", where=where)
        if any(not isinstance(w, int | float) or w < 0 for w in self.users.values()):
            raise SpecError("a weight of users is negative, or no number", where=where)

    @property
    def rules(self) -> Rules:
        return Rules(self.k, self.m, self.other, self.totals)

    @property
    def label(self) -> str:
        more = f", {self.other} others or more" if self.other else ""
        more += f", no total under {self.totals}" if self.totals else ""
        return f"least coarsening: atoms of {self.k} persons, no count under {self.m}{more}"

    def tree(self, schema: Schema, spine: Spine, counts: Histogram) -> tuple[Ints, CountTree]:
        """The lowest units with persons, and their tree."""
        lived = np.flatnonzero(counts.totals())
        if not len(lived):
            raise InputError("there are no persons", where="records")
        if unknown := set(self.users) - set(spine.levels):
            raise SpecError(
                f"there is no level {min(unknown)!r}",
                where="users",
                remedy=f"the levels are {', '.join(spine.levels)}",
            )
        chain, some = Chain.spelled(self.chain, schema), counts.some(lived)
        finest = chain.grains[-1]
        each = Histogram.from_triplets(
            len(lived), len(finest), some.unit, finest.index[some.cell], some.count
        )
        parent = spine.restricted(spine.levels[-1], lived).parent
        users = [float(self.users.get(level, 1)) for level in spine.levels]
        return lived, CountTree.from_counts(chain, self.rules, parent, each, users)

    def solved(self, tree: CountTree, kinds: Sequence[Ints] = ()) -> LeastAtoms:
        """The atoms of the least coarsening, for kinds of districts."""
        return solved(tree, Effort(self.order, self.rounds, self.seed), kinds)

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        """What is known exactly is shown; of other lines the bounds that follow. An attack also has
        what the tables of atoms make it expect."""
        spine = records.spine
        lived, tree = self.tree(records.schema, spine, records.histogram())
        atom, _ = without_small(tree, self.solved(tree))
        whole = Staircase.from_counts(tree.chain, atom, tree.counts[-1].finest)
        levels = {}
        for level in tables.tables:
            names, area = np.unique(spine.up(spine.levels[-1], level)[lived], return_inverse=True)
            low, high = line_bounds(whole.of_areas(area.ravel()), tables.lines(level))
            lower = np.zeros((spine.units(level), low.shape[1]), dtype=np.int64)
            upper = np.zeros_like(lower)
            lower[names], upper[names] = low, high
            levels[level] = LevelLines(lower, upper, np.where(lower == upper, lower, WITHHELD))
        finest = tree.chain.grains[-1]
        count = np.zeros((spine.units(spine.levels[-1]), len(finest)))
        count[lived] = whole.estimates(len(tree.chain) - 1, np.arange(len(lived)))
        return ProtectedTables(spine, tables, levels, expected=ExpectedGroups(finest.index, count))


#: What the rules do not protect, in a certificate and on its page.
NOT_PROTECTED = (
    "There is no formal guarantee: epsilon is infinite. The rules hold against addition and"
    " subtraction, and not against inference.",
    "Likely guesses: who knows the atom's table guesses its most frequent group.",
    "Facts about all: an atom in which everybody is of one group says so.",
    "The choice: it is the least, so each finer publication has failed the rules. That narrows some"
    " hidden counts.",
    "Insiders: a household that knows itself subtracts itself.",
    "The next product: other grains, other atoms or other boundaries add equations.",
)


def coarsened(
    method: LeastCoarsening,
    counted: CountedPlaces,
    kinds: Sequence[str],
    progress: Progress,
    persons: bool = False,
) -> tuple[LeastRelease, dict[str, Any]]:
    """The publication of the least coarsening; and what is confidential about it: the cost, its
    bound, and what the audit found. ``kinds`` of districts besides the levels may cut atoms, which
    are joined for their sake, or not. ``persons``: with synthetic microdata."""
    known = counted.counts.open("to find the least coarsening that passes the rules")
    progress.stage("find the atoms", None)
    lived, tree = method.tree(counted.schema, counted.spine, known)
    each = {kind: _districts(counted, kind, lived) for kind in kinds}
    least = method.solved(tree, [area for _, area in each.values()])
    atom, small = without_small(tree, least)
    districts, atom, audit = _kept(counted, tree, atom, each)
    spine = counted.spine.restricted(counted.spine.levels[-1], lived)
    tables = Staircase.from_counts(tree.chain, atom, tree.counts[-1].finest)
    areas = {level: _level(tables, spine, level) for level in spine.levels}
    said = _certificate(method, tables, least, kinds) | {"levels": list(spine.levels)}
    asked = Chain.spelled(method.chain, counted.schema).grains
    said["not_reached"] = [grain.title for grain in asked[len(tree.chain) :]]
    drawn = None
    if persons:
        progress.stage("draw persons", None)
        drawn = synthetic_persons(tables, counted.schema, method.seed)
        said["persons_of"] = described_persons(counted.schema, tree.chain)
    progress.stage("bound the cost", None)
    bound, value = lower_bound(tree), value_of(tree, atom)
    solution = {
        "cost_bits": round(value, 1),
        "before_audit_bits": round(least.value, 1),
        "lower_bound_bits": round(bound, 1),
        "times_the_bound": round(value / bound, 3) if bound else None,
        "audit": {"small_counts_joined": small, **audit},
    }
    every = {**areas, **districts}
    return LeastRelease(tables, len(spine.levels), every, said, drawn), solution


def _kept(
    counted: CountedPlaces,
    tree: CountTree,
    atom: tuple[Ints, ...],
    each: Mapping[str, tuple[Codes, Ints]],
) -> tuple[dict[str, ShownAreas], tuple[Ints, ...], dict[str, Any]]:
    """Districts by kind, the atoms that were joined for them, and what was found."""
    if not each:
        return {}, atom, {}
    kept, districts = kept_districts(tree, atom, [area for _, area in each.values()]), {}
    for (kind, (codes, area)), grain in zip(each.items(), kept.grain, strict=True):
        names = counted.names.get(kind)
        words = blank(len(codes)) if names is None else names.at(codes)
        districts[kind] = _shown(codes, words, area, grain, tree.counts[-1].summed)
    return districts, kept.atom, {"lines": kept.lines, "withheld": kept.withheld}


def _certificate(
    method: LeastCoarsening, tables: Staircase, least: LeastAtoms, kinds: Sequence[str]
) -> dict[str, Any]:
    return {
        "method": method.name,
        "rules": asdict(method.rules),
        "search": {"order": method.order, "rounds": method.rounds, "seed": method.seed},
        "persons": int(tables.count[0].sum()),
        "families": least.families,
        "families_exact": least.exact,
        "follow_exactly": len(tables.given_away(method.m)),
        "not_protected": NOT_PROTECTED,
        "districts": list(kinds),
        "chain": described(tables.chain),
    }


def _districts(counted: CountedPlaces, kind: str, lived: Ints) -> tuple[Codes, Ints]:
    """The codes of districts, and the number of each unit's; -1 for an empty code, or one of nines
    or Zs alone, which mean none."""
    if kind not in counted.fields:
        raise SpecError(
            f"the records have no {kind!r}",
            where="--districts",
            remedy=f"they have {', '.join(counted.fields) or 'none'}; levels have tables anyway",
        )
    names, area = np.unique(counted.fields[kind][lived], return_inverse=True)
    none = np.array([not c.strip(b" 9Z") for c in names.tolist()])
    if none.all():
        raise SpecError("no place is in one", where=f"districts, {kind}", remedy="leave it out")
    number = np.where(none, -1, np.cumsum(~none) - 1)
    return names[~none], number[area.ravel()]


def _level(tables: Staircase, spine: Spine, level: str) -> ShownAreas:
    area = spine.up(spine.levels[-1], level)
    grain, codes = tables.own(area), spine.geoids(level)
    named = codes if (codes != b"").all() else spine.codes[spine.index(level)]
    return _shown(named, spine.names[spine.index(level)], area, grain, tables.tables)


def _shown(
    codes: Codes, names: NDArray[np.str_], area: Ints, grain: Ints, sums: AreaSums
) -> ShownAreas:
    table = finest_tables(grain, area, sums)
    return ShownAreas(tuple(text(codes).tolist()), tuple(names.tolist()), area, grain, table)


def line_bounds(units: Staircase, lines: LineMatrix) -> tuple[Ints, Ints]:
    """The bounds of lines, ``(units, lines)`` each: sharp where a line is a group of a grain, and
    valid where it is a sum of groups, or cuts some."""
    matrix, (fewest, total) = lines.matrix.astype(float), units.bounds(0, np.arange(len(units)))
    low = np.zeros((len(units), len(lines)), dtype=np.int64)
    high = np.repeat(total, len(lines), axis=1)
    todo = np.ones(len(lines), dtype=bool)
    for h, grain in enumerate(units.chain.grains):
        size = np.bincount(grain.index, minlength=len(grain))
        member = sparse.csr_array(
            (np.ones(len(grain.index)), (np.arange(len(grain.index)), grain.index))
        )
        held = np.asarray((matrix @ member).todense()) / size
        whole = todo & ((held == 0) | (held == 1)).all(axis=1)
        rows = todo if h == len(units.chain) - 1 else whole
        inner, outer = (held[rows] == 1).T.astype(float), (held[rows] > 0).T.astype(float)
        lower, upper = (b.astype(float) for b in units.bounds(h, np.arange(len(units))))
        least = np.maximum(lower @ inner, fewest - upper @ (1 - inner))
        most = np.minimum(upper @ outer, total - lower @ (1 - outer))
        low[:, rows] = np.rint(np.maximum(least, 0)).astype(np.int64)
        high[:, rows] = np.rint(most).astype(np.int64)
        todo &= ~whole
    return low, np.minimum(high, total)
