"""One page for those who choose a budget: what every share buys, and what it costs in privacy.

The page computes by itself, for any shares: the variances of :mod:`das.design.homogeneous`, exact
functions of the plan, and upper ends of epsilon, by the bound of :mod:`das.accounting.worst` for
every pair of paths (``das/report/choose.js``). So it is given values alone: the algebra of the
queries, the classes and paths of the units, what each change of a record touches, and plans to
begin with. All of them are public, except that it counts who is alone in a finished run."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations_with_replacement
from math import lcm
from pathlib import Path
from typing import Any

import click
import numpy as np
import tomli_w
from markupsafe import Markup
from numpy.typing import NDArray

from das.accounting.changes import listed
from das.accounting.document import decimal
from das.design.areas import CutNodes, Ints, Scatter
from das.design.homogeneous import Homogeneous
from das.design.model import Choices, Estimand, LevelQuery
from das.design.target_set import AccuracyTarget, TargetSet
from das.design.tree import Placement, Tree
from das.engine.display import Live
from das.errors import DasError, UserError
from das.files import packaged
from das.files.run.run_directory import RunDirectory, write_outside
from das.model import tabulation
from das.model.budget import ALL, Neighbours, PlannedMeasurement, UnitPath
from das.model.names import level_inside, level_words
from das.model.plan import Plan
from das.model.schema import Schema
from das.model.universe import Planned
from das.report.template import render
from das.spec import RunSpec, load, of_kind
from das.tools.areas.page import KINDS
from das.tools.planning import optimizing
from das.tools.planning.ground import TreeKnowledge, TreeSizes, of_areas, of_units, tree_sizes
from das.tools.planning.optimize import unit_numbers
from das.tools.planning.target_file import read_targets, target_set_of
from das.tools.risk.truth.exposure import alone

#: Packaged configurations that a page offers where their schema and levels are the same.
PRESETS = {"Production 2020": "pl94-2010", "Fair": "pl94-2010-fair", "Best": "pl94-2010-best"}
#: The targets of the curve, where none are named and the plan is one of redistricting data.
POLICY = "policy"
#: A page computes with matrices of this many rows at most.
MOST_ROWS = 64
#: A page is an attachment.
MOST_BYTES = 1_000_000


def write_page(
    spec: RunSpec,
    config: str,
    file: Path,
    units: str | None,
    paths: Sequence[Path],
    targets: Path | None,
    listed: Path | None,
) -> None:
    """Write the page to ``file``. Raises :class:`UserError`."""
    if units is not None and (paths or listed):
        where = "--data" if paths else "--areas"
        raise UserError("goes without --units", where=where, remedy="give --data for real blocks")
    known = None if units is None else unit_numbers(units)
    with Live(quiet=False) as shown:
        found = tree_sizes(spec, known, paths, shown)
        if listed is not None:
            found = replace(found, areas=of_areas(spec, paths, listed, shown))
    run = paths[0] if found.run and RunDirectory(paths[0]).confidential.is_dir() else None
    text = page(spec, config, found, targets, run)
    if len(text) > MOST_BYTES:
        raise UserError(
            f"the page would have {len(text):,} bytes, too many for an attachment",
            where="--areas",
            remedy="give fewer areas, or a part of the data",
        )
    over = " over the one before" if file.exists() else ""
    write_outside(file, text.encode(), confidential=run is not None)
    secret = " (confidential: it counts real persons)" if run else ""
    what = found.says + (f", with areas {found.areas[0]}" if found.areas else "")
    click.echo(f"written: {file}{over}{secret}; its tree: {what}")


def page(
    spec: RunSpec, config: str, known: TreeSizes, targets: Path | None, run: Path | None = None
) -> str:
    """The page, as HTML. With a finished ``run`` it counts who is alone in it: confidential."""
    said = data(spec, config, known, targets)
    if run is not None:
        said["alone"] = alone(run, [q["name"] for q in said["queries"]])
    text = json.dumps(said, separators=(",", ":"), ensure_ascii=False).replace("</", "<\\/")
    return render(
        "choose.html",
        private=spec.run.private,
        name=spec.run.name,
        delta=said["delta"][0],
        tree=known.says,
        median=known.median,
        records=said["records"],
        others=", ".join(u.name for u in spec.universes[1:]),
        exposed=run is not None,
        areas=said["areas"],
        data=Markup(text),
    )


def data(spec: RunSpec, config: str, known: TreeSizes, targets: Path | None) -> dict[str, Any]:
    """All that the page knows."""
    planned, levels = spec.persons, spec.geography.levels
    if planned.plan.mechanism.currency != "rho":
        raise UserError(
            f"{planned.plan.mechanism.name} noise adds up in epsilon, level by level: there is no"
            " composition to show",
            where="--page",
            remedy="see das plan without --page for its margins",
        )
    plans = {"This configuration": planned.plan} | _presets(planned, levels)
    ground = of_units(spec, planned, known.units)
    aim, target_set = _targets(targets, planned, levels)
    asked = [w.estimand.query for w in target_set.targets]
    names = dict.fromkeys(d.query for plan in plans.values() for d in plan.plain)
    queries = _in_order(planned.schema, [*names, *(q for q in asked if q not in names)])
    model = _model(planned, levels, known, queries)
    delta = spec.terms.delta
    return {
        "name": spec.run.name,
        "config": config,
        "records": planned.records,
        "tree": known.says,
        "sensitivity": planned.plan.neighbours.sensitivity,
        "delta": [decimal(delta), float(delta)],
        "levels": list(levels),
        "words": [level_inside(level) for level in levels],
        "units": list(known.units),
        "median": known.median,
        "known": model.known,
        "queries": [_query(model, q) for q in queries],
        "multiplicity": model.contrasts.multiplicity.tolist(),
        **_classes(planned.plan, levels),
        **_relations(spec, planned, queries),
        "presets": {name: _weights(plan, levels, queries) for name, plan in plans.items()},
        "curve": {"aim": aim, **_curve(planned, target_set, ground, levels, queries)},
        "areas": known.areas and _areas(known.areas, model, planned.plan, levels, queries),
        "toml": _toml(spec),
    }


# --- the algebra


def _in_order(schema: Schema, names: Sequence[str]) -> list[str]:
    """Totals, then single attributes, then those that are crossed."""

    def key(name: str) -> tuple[int, list[int]]:
        axes = [i for i, g in enumerate(schema.query(name).groupings) if not g.is_total]
        return len(axes), axes

    return sorted(names, key=key)


def _model(
    planned: Planned, levels: Sequence[str], known: TreeSizes, queries: Sequence[str]
) -> Homogeneous:
    model = Homogeneous.for_schema(
        planned.schema,
        levels,
        known.units,
        Choices.alike([(level, q) for level in levels for q in queries], ALL),
        [Estimand(level, q) for level in levels for q in queries],
        -1 if planned.exact.total is None else list(levels).index(planned.exact.total),
    )
    if (rows := int(model.dense.sum())) > MOST_ROWS:
        raise UserError(
            f"the recodes of this schema need matrices of {rows:,} rows, too many for a page",
            where="--page",
            remedy="use das plan --optimize, which shows the same figures for one plan",
        )
    return model


def _query(model: Homogeneous, name: str) -> dict[str, Any]:
    """Q'Q of a query on each contrast is ``factor`` times a matrix of ones where two rows have the
    same ``index``."""
    query = model.schema.query(name)
    axes = [g for g in query.groupings if not g.is_total]
    group = "totals" if not axes else axes[0].title if len(axes) == 1 else "crossed"
    return {
        "name": name,
        "title": query.title,
        "group": group,
        "answers": model.answers(name),
        **_gram(model, name, model.dense),
    }


def _gram(model: Homogeneous, name: str, rows: NDArray[np.bool_]) -> dict[str, Any]:
    gram = model.contrasts.query(model.schema.query(name))[:, rows][:, :, rows]
    return {"index": (gram[0] > 0).argmax(axis=1).tolist(), "factor": gram[:, 0, 0].tolist()}


# --- areas


def _areas(
    areas: tuple[str, TreeKnowledge],
    model: Homogeneous,
    plan: Plan,
    levels: Sequence[str],
    queries: Sequence[str],
) -> dict[str, Any]:
    """What :mod:`das.design.recursion` and :mod:`das.design.areas` go over."""
    kind, ground = areas
    assert ground.over is not None
    pairs = [(level, q) for level in levels for q in queries]
    found = ground.over(pairs, [Estimand(kind, q, areas=True) for q in queries])
    places = list(_held(plan, levels))
    classes = np.array([places.index(place) for place in found.measurements.places])
    distinct, listed = _Distinct(found.tree, found.areas[kind].cut, classes), ground.areas[kind]
    parts = distinct.of_areas(*distinct.nodes(), len(listed))
    return {
        "kind": KINDS.get(kind, level_words(Path(kind).stem).capitalize()),
        "says": ground.says.partition(";")[0],
        "titles": [listed.title(i) for i in range(len(listed))],
        "answers": [model.schema.query(q).answers for q in queries],
        "queries": [_gram(model, q, np.ones(model.contrasts.d, dtype=bool)) for q in queries],
        "sorts": list(distinct.sorts),
        "things": list(distinct.things),
        "pieces": list(distinct.pieces),
        "areas": [_flat(some) for some in parts],
    }


class _Numbers(dict[tuple[Any, ...], int]):
    """What is distinct, in the order in which it was met."""

    def number(self, key: tuple[Any, ...]) -> int:
        return self.setdefault(key, len(self))


@dataclass(frozen=True, eq=False)
class _Distinct:
    """A tree and what areas have of it, with what is equal once.

    ``sorts`` of nodes: their rows, their ``classes``, and whether their totals and those of all
    their children are known. ``things``, the leaves first and the root last, have a sort and what
    they consist of: things and how many of each, in turn. ``pieces`` have the thing that they are
    cut from, the things in them, and the pieces. One without either is all of its thing."""

    tree: Tree
    cut: CutNodes
    classes: NDArray[np.intp]
    sorts: _Numbers = field(default_factory=_Numbers)
    things: _Numbers = field(default_factory=_Numbers)
    pieces: _Numbers = field(default_factory=_Numbers)

    def _sort(self, some: Placement, i: int, settled: bool) -> int:
        rows = some.coordinate[some.indptr[i] : some.indptr[i + 1]].tolist()
        drawn = self.classes[some.classes[i]].tolist()
        return self.sorts.number((tuple(rows), tuple(drawn), bool(some.known[i]), settled))

    def nodes(self) -> tuple[list[int], list[int]]:
        """The thing that each kind of leaves is, and each inner node."""
        tree, kinds = self.tree, range(len(self.tree.leaves.size))
        leaf = [self.things.number((self._sort(tree.leaves, i, False), ())) for i in kinds]
        node, inside = [0] * len(tree.parent), [Counter[int]() for _ in tree.parent]
        for kind, home, count in zip(tree.kind, tree.home, tree.count.tolist(), strict=True):
            inside[home][leaf[kind]] += count
        for u in reversed(range(len(node))):
            sort = self._sort(tree.inner, u, bool(tree.settled[u]))
            node[u] = self.things.number((sort, _flat(inside[u])))
            inside[tree.parent[u]][node[u]] += 1
        return leaf, node

    def of_areas(self, leaf: Sequence[int], node: Sequence[int], areas: int) -> list[Counter[int]]:
        """The pieces of each area, and how many of each."""
        tree, cut = self.tree, self.cut
        whole, within = ([Counter[int]() for _ in cut.node] for _ in range(2))
        for source, into, times in _blocks(cut.leaves, tree.leaves.start, cut.start):
            whole[into][leaf[source]] += times
        for source, into, times in _blocks(cut.inner, tree.inner.start, cut.start):
            whole[into][node[source]] += times
        above = {low: into for low, into, _ in _blocks(cut.up, cut.start, cut.start)}
        each = [Counter[int]() for _ in range(areas)]
        for i in reversed(range(len(cut.node))):
            key = (node[cut.node[i]], _flat(whole[i]), _flat(within[i]))
            each[cut.area[i]][self.pieces.number(key)] += 1
            if i in above:
                within[above[i]][self.pieces.number(key)] += 1
        for area in cut.everywhere:
            each[area][self.pieces.number((node[0], (), ()))] += 1
        return each


def _flat(parts: Mapping[int, int]) -> tuple[int, ...]:
    return tuple(x for pair in sorted(parts.items()) for x in pair)


def _blocks(scatter: Scatter, source: Ints, target: Ints) -> Iterator[tuple[int, int, int]]:
    """Which matrix is added to which, and how often, by the places where matrices begin."""
    first = np.isin(scatter.source, source[:-1])
    of = np.searchsorted(source, scatter.source[first])
    into = np.searchsorted(target, scatter.target[first], side="right") - 1
    times = scatter.times[first].astype(int)
    return zip(of.tolist(), into.tolist(), times.tolist(), strict=True)


# --- privacy


def _classes(plan: Plan, levels: Sequence[str]) -> dict[str, Any]:
    """The classes of units and the paths of places. A class has the number of its level and those
    of the levels whose shares it holds; a path has the numbers of its classes."""
    at, held = {level: i for i, level in enumerate(levels)}, _held(plan, levels)
    number = {place: i for i, place in enumerate(held)}
    return {
        "classes": [[at[level], [at[lv] for lv in some]] for (level, _), some in held.items()],
        "paths": [[number[place] for place in path if place in number] for path in plan.paths],
    }


def _held(plan: Plan, levels: Sequence[str]) -> Mapping[LevelQuery, tuple[str, ...]]:
    """The classes of units, each with the levels whose shares it holds."""
    if {unit_class for path in plan.paths for _, unit_class in path} == {ALL}:
        return {(level, ALL): (level,) for level in levels}
    return {k: v for k, v in tabulation.classes(levels, plan.paths).items() if v}


def _relations(spec: RunSpec, planned: Planned, queries: Sequence[str]) -> dict[str, Any]:
    """Who the neighbors are. Each relation has the measurements that it touches (``mask``, level by
    level), and the number of its ``moves``. A move has the paths of the places that change."""
    terms, plan, levels = spec.terms, planned.plan, spec.geography.levels
    draws = [
        PlannedMeasurement.priced(level, q, plan.mechanism, plan.neighbours, Fraction(1))
        for level in levels
        for q in queries
    ]
    exact, split = terms.exact[planned.name], terms.split.get(planned.name, ())
    bounded = plan.neighbours is Neighbours.BOUNDED
    moves = list(combinations_with_replacement(plan.paths, plan.neighbours.sensitivity))
    record = "is replaced by any other" if bounded else "is added or removed"
    found: list[tuple[str, str, Sequence[PlannedMeasurement], Sequence[Sequence[UnitPath]]]]
    found = [("guarantee", f"one record {record}, anywhere", draws, moves)]
    if exact and bounded:
        says = "the same, between data that agree on what is published exactly"
        found.append(("agree", says, terms.free(planned.name, draws, exact), moves))
    titles = {a.name: a.title for a in planned.schema.attributes}
    theirs: Sequence[Sequence[UnitPath]]
    for kind, what, some, theirs in listed(draws, planned.schema, levels, exact, plan.paths, split):
        if kind == "attributes" and (what in titles or what == "every attribute"):
            of = titles.get(what, "every attribute")
            found.append((what, f"{of} of one record is another; its place stays", some, theirs))
        elif kind == "place" or "within" in what:
            top = level_inside(what.rsplit(" ", 1)[1])
            says = "moves to another place" if kind == "place" else "is replaced by any other"
            found.append((what, f"one record {says} in the same {top}", some, theirs))
    number = {path: i for i, path in enumerate(plan.paths)}
    lists: dict[tuple[tuple[int, ...], ...], int] = {}
    rows = []
    for name, says, some, theirs in found:
        touched = {(d.level, d.query) for d in some}
        key = tuple(tuple(number[path] for path in move) for move in theirs)
        mask = "".join(str(int((d.level, d.query) in touched)) for d in draws)
        at = lists.setdefault(key, len(lists))
        rows.append({"name": name, "says": says, "mask": mask, "moves": at})
    return {"relations": rows, "moves": list(lists)}


# --- plans


def _presets(planned: Planned, levels: Sequence[str]) -> dict[str, Plan]:
    """Packaged plans of the same schema over the same levels."""
    found = {}
    for title, name in PRESETS.items():
        text, folder = packaged.configuration(Path(name))
        other = of_kind(RunSpec, load(text, where=name, folder=folder), name)
        if (other.geography.levels, other.persons.schema) == (levels, planned.schema):
            found[title] = other.persons.plan
    return found


def _weights(plan: Plan, levels: Sequence[str], queries: Sequence[str]) -> dict[str, Any]:
    """The shares of a plan as whole numbers."""
    cost = {(d.level, d.query): d.cost for d in plan.plain}
    none = Fraction(0)
    each = [[cost.get((level, q), none) for q in queries] for level in levels]
    return {
        "rho": str(plan.cost),
        "levels": _whole([sum(row, none) for row in each]),
        "queries": [_whole(row) for row in each],
    }


def _whole(shares: Sequence[Fraction]) -> list[str]:
    """In proportion, as texts: they can have more digits than a number of JavaScript."""
    unit = Fraction(sum(shares, Fraction(0))) or Fraction(1)
    parts = [s / unit for s in shares]
    below = lcm(*(p.denominator for p in parts))
    return [str(int(p * below)) for p in parts]


def _targets(given: Path | None, planned: Planned, levels: Sequence[str]) -> tuple[str, TargetSet]:
    """What the curve is about: the targets of a file without its limits and guards, so that no
    shares are better; or all that is measured. And what they are called."""
    pairs = [(d.level, d.query) for d in planned.plan.plain]
    where = Path(POLICY) if given is None else given
    aim = where.stem
    try:
        written = read_targets(packaged.targets(where), where=str(where))
        found = target_set_of(
            written, "best", (), planned.schema, levels, pairs, str(where)
        ).targets
    except DasError:
        if given is not None:
            raise
        aim, found = "the plan", tuple(AccuracyTarget(Estimand(*pair)) for pair in pairs)
    if any(w.estimand.areas for w in found):
        raise UserError(
            "areas need real blocks, and the page knows how many units there are",
            where="--optimize",
            remedy="name targets of levels, or leave --page out",
        )
    return aim, TargetSet("best", tuple(AccuracyTarget(w.estimand, w.weight) for w in found))


def _curve(
    planned: Planned,
    target_set: TargetSet,
    ground: TreeKnowledge,
    levels: Sequence[str],
    queries: Sequence[str],
) -> dict[str, Any]:
    """The targets, and the best shares for them: ``value`` and ``bound`` are geometric means of
    variances, in parts of those of the configuration."""
    best = optimizing.optimum(planned, target_set, ground)
    return {
        "targets": [
            [levels.index(w.estimand.place), queries.index(w.estimand.query), w.weight]
            for w in target_set.targets
        ],
        "value": best.value,
        "bound": best.bound,
        "weights": _weights(best.plan, levels, queries),
    }


def _toml(spec: RunSpec) -> dict[str, Any]:
    """The configuration without the budget that the page writes. Other universes keep their cost:
    ``@i@`` stands for its share of the new total."""
    tree = spec.tree()
    budget = tree["budget"]
    for key in ("rho", "epsilon", "calibration", "levels", "queries", "made_from"):
        budget.pop(key, None)
    others = []
    for i, other in enumerate(spec.universes[1:]):
        table: Any = tree
        for key in other.kind.key("budget").split("."):
            table = table.setdefault(key, {})
        table["relative"] = f"@{i}@"
        others.append(str(other.plan.cost))
    head = {"budget": tree.pop("budget")}
    passes = tree["estimation"].pop("passes", {})
    tree["estimation"]["method"] = "full-information"  # what the margins are of
    texts = {"budget": tomli_w.dumps(head), "rest": tomli_w.dumps(tree)}
    return texts | {"others": others, "passes": passes}
