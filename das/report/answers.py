"""What a page can show of a release: the answers to small queries at every level, noisy and
published."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.areas import Areas
from das.model.budget import QueryNoise
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.mechanisms import Mechanism
from das.model.names import NOT_COUNTED, Codes, level_words, text
from das.model.query import Query
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import kind_of

#: Answers that a page carries at most, over all units of all levels: some seven megabytes with
#: noise and truth.
ROOM = 3_000_000
#: The largest query that is shown, and the largest where that is too much for the units of a level.
LARGEST, SMALL = 64, 10
#: The margin of a unit that was not measured, and of an answer that nothing determines.
UNMEASURED = -1

Ints = NDArray[np.int64]
AnswerKey = tuple[str, str, str]
#: At a level, of sums of cells ``(columns, cells)``: estimates and margins ``(units, columns)``.
IntervalsOf = Callable[[str, NDArray[np.bool_]], tuple[Ints, Ints]]
#: Of areas, of such sums: both ends of their intervals ``(areas, columns)``, the upper one negative
#: where there is none.
AreaEnds = Callable[[Areas, NDArray[np.bool_]], tuple[Ints, Ints]]


def resting_on(query: Query, assigned: Collection[str]) -> list[str]:
    """The ``assigned`` attributes whose levels a query tells apart."""
    return [g.attribute for g in query.groupings if g.attribute in assigned and not g.is_total]


def titled(query: Query, assigned: Collection[str]) -> str:
    """The words for a query; ``assigned`` are attributes that were made up by a rule."""
    resting = resting_on(query, assigned)
    return (
        f"{query.title} ({NOT_COUNTED}: {' and '.join(resting)} assigned)"
        if resting
        else query.title
    )


@dataclass(frozen=True, eq=False)
class PublishedUniverse:
    """One universe as a release has it.

    ``exact``: by level, the queries that are published without noise. ``intervals``: those of its
    counts at 95 %, and ``area_ends`` those of areas. ``assigned``: attributes that a rule made up; titles of queries that separate
    their levels say that these are not counts."""

    name: str
    schema: Schema
    noise: Sequence[QueryNoise]
    published: Mapping[str, Histogram]
    noisy: MeasurementSource
    exact: Mapping[str, tuple[str, ...]]
    intervals: IntervalsOf
    area_ends: AreaEnds | None = None
    assigned: Collection[str] = ()

    def title(self, query: Query) -> str:
        """The words for a query."""
        return titled(query, self.assigned)

    def is_assigned(self, query: Query) -> bool:
        """Whether a rule decided what the answers tell apart, and nobody counted it."""
        return bool(resting_on(query, self.assigned))

    def is_exact(self, query: Query, level: str) -> bool:
        """Whether the answers at ``level`` follow from what is published without noise there."""
        return any(query.sums(self.schema.query(name)) for name in self.exact.get(level, ()))


@dataclass(frozen=True, eq=False)
class Answers:
    """One query at one level: ``published`` and ``noisy`` of shape ``(units, answers)``.

    ``title`` and ``labels`` are the words for the query and for each answer. ``margin`` of shape
    ``(units,)`` is that of one noisy answer at 95 %, -1 where a unit was not measured; without any
    measurement it and ``noisy`` are ``None``. ``exact``: the published answers are invariants.
    ``middle`` and ``within`` are the interval at 95 % of each answer, from all that is known of its
    unit: the unbiased estimate, brought to where the count can be, and what the true count is off
    it at most, -1 where nothing determines it; ``None`` off the spine. It is cut at 0 and, where
    all answers of a unit add up to what is known (``limited``), at that. ``ends`` are those of the
    intervals of areas, where they are known: the upper one is negative where nothing determines the
    count. ``lower`` and ``upper`` are the ends of the intervals of the published answers from replicates, where there are any.
    ``assigned``: a reader decided by a rule what the answers tell apart; a page shows them on
    demand. Nothing in it depends on the truth."""

    universe: str
    level: str
    query: str
    title: str
    labels: tuple[str, ...]
    published: Ints
    noisy: Ints | None
    margin: Ints | None
    exact: bool
    middle: Ints | None = None
    within: Ints | None = None
    lower: Ints | None = None
    upper: Ints | None = None
    limited: bool = False
    assigned: bool = False
    ends: tuple[Ints, Ints] | None = None

    def __post_init__(self) -> None:
        units, answers = self.published.shape
        noisy_fits = self.noisy is None or self.noisy.shape == self.published.shape
        margin_fits = self.margin is None or self.margin.shape == (units,)
        if len(self.labels) != answers or not noisy_fits or not margin_fits:
            raise InputError(
                "labels, counts and noise differ in shape", where=f"{self.level}, {self.query}"
            )
        pairs = ((self.noisy, self.margin), (self.middle, self.within), (self.lower, self.upper))
        if any((one is None) != (other is None) for one, other in pairs):
            raise InputError("noise goes with its margin", where=f"{self.level}, {self.query}")
        intervals = (self.middle, self.within, self.lower, self.upper, *(self.ends or ()))
        if any(x is not None and x.shape != self.published.shape for x in intervals):
            raise InputError(
                "counts and intervals differ in shape", where=f"{self.level}, {self.query}"
            )

    def interval(self, unit: int, answer: int) -> tuple[int, int] | None:
        """Both ends of the interval from all that is known of a unit; ``None`` where there is
        none."""
        if self.ends is not None:
            low, high = (int(end[unit, answer]) for end in self.ends)
            return (low, high) if high >= 0 else None
        if self.middle is None or self.within is None or self.within[unit, answer] < 0:
            return None
        middle, within = int(self.middle[unit, answer]), int(self.within[unit, answer])
        high = middle + within
        return max(middle - within, 0), min(
            high, int(self.published[unit].sum())
        ) if self.limited else high

    @property
    def key(self) -> AnswerKey:
        return self.universe, self.level, self.query

    @property
    def records(self) -> str:
        """What is counted: persons, housing units."""
        return kind_of(self.universe).records

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Which units have a noisy value, ``(units,)``."""
        return (
            np.zeros(len(self.published), dtype=bool) if self.margin is None else self.margin >= 0
        )


@dataclass(frozen=True, eq=False)
class LookUp:
    """The total of every level, and at the levels ``whole`` the other queries of the look-up.
    Published answers of the ``areas`` off the spine are included; their kind is their level."""

    spine: Spine
    answers: tuple[Answers, ...]
    whole: tuple[str, ...]
    areas: tuple[Areas, ...] = ()

    def at(self, level: str) -> list[Answers]:
        return [a for a in self.answers if a.level == level]

    def total(self, universe: str, level: str) -> Answers:
        return next(a for a in self.answers if a.key == (universe, level, "total"))

    @property
    def universes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(a.universe for a in self.answers))


def gather(
    spine: Spine,
    universes: Sequence[PublishedUniverse],
    room: int = ROOM,
    areas: Sequence[Areas] = (),
) -> LookUp:
    """From the root down, the richest choice of queries that there is still room for.

    All queries with at most 64 answers; else those with at most 10; else the totals. A level whose
    totals are too many keeps them for the figures, but is not among ``whole``. Kinds of areas come
    last, while there is room: intervals of their answers to small queries are made in one pass."""
    whole, asked = [], {}
    for level in spine.levels:
        units = spine.units(level)
        for most in (LARGEST, SMALL, 1):
            chosen = [(w, q) for w in universes for q in _queries(w, level, most)]
            size = units * sum(q.answers for _, q in chosen)
            if size <= room:
                room -= size
                whole.append(level)
                break
        asked[level] = chosen
    chosen = [(w, q) for w in universes for q in _queries(w, spine.levels[-1], LARGEST)]
    sizes = np.cumsum([len(a) * sum(q.answers for _, q in chosen) for a in areas])
    kinds = areas[: int((sizes <= room).sum())]
    # first, while there is nothing else in memory
    off_spine = list(_off_spine(universes, kinds, spine.levels[-1])) if kinds else []
    found = [
        answers
        for level, chosen in asked.items()
        for w in universes
        for answers in read(w, [q for u, q in chosen if u is w], level)
    ]
    return LookUp(spine, (*found, *off_spine), tuple(whole), tuple(kinds))


def _off_spine(
    universes: Sequence[PublishedUniverse], kinds: Sequence[Areas], lowest: str
) -> Iterator[Answers]:
    """The answers of areas, kind by kind."""
    asked = {w.name: list(_queries(w, lowest, LARGEST)) for w in universes}
    every, starts = Areas.merged(kinds), np.cumsum([len(a) for a in kinds])[:-1]
    ends = {w.name: _area_ends(w, every, asked[w.name]) for w in universes}
    for i, kind in enumerate(kinds):
        for w in universes:
            sums = kind.histogram(w.published[lowest])
            for q in asked[w.name]:
                told = ends[w.name].get(q.name)
                own = told and (np.split(told[0], starts)[i], np.split(told[1], starts)[i])
                yield across(w, q, kind.kind, sums.answer(q), lowest, own)


def _area_ends(
    universe: PublishedUniverse, areas: Areas, queries: Sequence[Query]
) -> dict[str, tuple[Ints, Ints]]:
    """By small query, both ends of the intervals of its answers."""
    small = [q for q in queries if q.answers <= SMALL]
    if universe.area_ends is None:
        return {}
    masks = np.concatenate([q.index[None, :] == np.arange(q.answers)[:, None] for q in small])
    places = np.cumsum([q.answers for q in small])[:-1]
    low, high = (np.split(x, places, axis=1) for x in universe.area_ends(areas, masks))
    return {q.name: (x, y) for q, x, y in zip(small, low, high, strict=True)}


def _queries(universe: PublishedUniverse, level: str, most: int) -> Iterator[Query]:
    """The total, every attribute by itself, and what was measured; of the small ones, small ones
    first."""
    names = dict.fromkeys(
        ["total", *(a.name for a in universe.schema.attributes), *universe.noisy.queries(level)]
    )
    queries = [q for q in map(universe.schema.query, names) if q.answers <= most]
    seen = set()
    for q in sorted(queries, key=lambda q: q.answers):
        if q.groupings not in seen and (q.answers > 1 or q.name == "total"):
            seen.add(q.groupings)
            yield q


def read(universe: PublishedUniverse, queries: Sequence[Query], level: str) -> list[Answers]:
    """The answers to queries, of every unit of a level."""
    masks = [q.index[None, :] == np.arange(q.answers)[:, None] for q in queries]
    middle, within = universe.intervals(level, np.concatenate(masks))
    ends = np.cumsum([q.answers for q in queries])[:-1]
    sides = zip(
        queries, np.split(middle, ends, axis=1), np.split(within, ends, axis=1), strict=True
    )
    return [_read(universe, query, level, m, w) for query, m, w in sides]


def _read(
    universe: PublishedUniverse, query: Query, level: str, middle: Ints, within: Ints
) -> Answers:
    noisy, margins = None, None
    same = [
        n
        for n in universe.noisy.queries(level)
        if universe.schema.query(n).groupings == query.groupings
    ]
    if same:
        m = universe.noisy.read(level, same[0], 0, universe.published[level].units)
        noisy, margins = m.values, _margins(universe.noise, level, same[0], m.variance)
    return Answers(
        universe.name,
        level,
        query.name,
        universe.title(query),
        tuple(query.captions()),
        universe.published[level].answer(query),
        noisy,
        margins,
        universe.is_exact(query, level),
        middle,
        within,
        limited=universe.is_exact(universe.schema.query("total"), level),
        assigned=universe.is_assigned(query),
    )


def across(
    universe: PublishedUniverse,
    query: Query,
    kind: str,
    published: Ints,
    lowest: str,
    ends: tuple[Ints, Ints] | None = None,
) -> Answers:
    """The answers of areas, sums of units of the ``lowest`` level, which were not measured
    themselves."""
    exact = universe.is_exact(query, lowest)
    return Answers(
        universe.name,
        kind,
        query.name,
        universe.title(query),
        tuple(query.captions()),
        published,
        None,
        None,
        exact,
        assigned=universe.is_assigned(query),
        ends=ends,
    )


def _margins(
    noise: Sequence[QueryNoise], level: str, query: str, variance: NDArray[np.float64]
) -> Ints:
    """The margins of each unit. If all units have one variance, it is computed from the noise,
    whose parameter is exact."""
    distinct, at = np.unique(variance, return_inverse=True)
    own = next((n for n in noise if (n.level, n.query) == (level, query)), None)
    if own is None:  # of no unit
        return np.full(len(variance), UNMEASURED, dtype=np.int64)
    mechanism = own.mechanism
    one = len(distinct) == 1 and np.isclose(distinct[0], own.variance, rtol=1e-6, atol=0.0)
    found = [own.parameter] if one else [_parameter(mechanism, float(v)) for v in distinct]
    return np.array([_margin(mechanism, p) for p in found], dtype=np.int64)[at]


def _parameter(mechanism: Mechanism, variance: float) -> Fraction | None:
    return mechanism.with_variance(variance) if np.isfinite(variance) else None


@cache
def _margin(mechanism: Mechanism, parameter: Fraction | None) -> int:
    return UNMEASURED if parameter is None else mechanism.margin(parameter)


# The look-up of a page: numbers of many units, packed small enough to stand in one HTML file.
#
# Each array becomes a string: zigzag (0, -1, 1, -2, ... to 0, 1, 2, 3, ...), as many bytes as the
# largest number needs, all first bytes before all second ones, deflated, base64. Counts of blocks are
# mostly zeros, and take a fifth of a byte each. ``lookup.js`` reads it back.

#: Characters of the look-up of a page for the public, at most.
LOOKUP_ROOM = 425_000


def data(
    shown: LookUp, true: Mapping[AnswerKey, Ints] | None = None, coverage: float | None = None
) -> str:
    """JSON for a ``<script>`` element.

    Each level has its codes, names (where there are any), parents and answers
    (``(answers, units)`` each). ``geoid``: the codes of the level have a GEOID, or are it.
    ``areas`` off the spine have the same, except parents. ``coverage`` is that of intervals from
    replicates, if there are any."""

    def with_queries(kind: str, place: dict[str, Any]) -> dict[str, Any]:
        return place | {
            "queries": [_query(a, None if true is None else true[a.key]) for a in shown.at(kind)]
        }

    levels = [with_queries(level, _places(shown.spine, level)) for level in shown.whole]
    areas = [with_queries(a.kind, _area(a)) for a in shown.areas]
    replicated = {} if coverage is None else {"coverage": f"{100 * coverage:g}%"}
    return _json({"levels": levels, "areas": areas} | replicated)


def brief(
    shown: LookUp, example: tuple[str, int], room: int = LOOKUP_ROOM
) -> tuple[str, list[str]]:
    """JSON for a page that has ``room`` for this many characters, and the levels that it leaves
    out.

    It has published counts and intervals, without noisy counts. ``example`` is shown first: a
    level, and one of its units.

    Queries are added as long as there is room. Totals of every place come first. Then come small
    queries, then large ones, those of levels and kinds with few places first, and then those of
    the lowest level. Within each, the smallest come first, and those that a rule assigned come
    last."""
    levels = {level: _places(shown.spine, level) | {"queries": []} for level in shown.spine.levels}
    areas = {a.kind: _area(a) | {"queries": []} for a in shown.areas}
    room -= sum(len(json.dumps(place)) for place in areas.values())
    left_out: list[str] = []
    for level in shown.spine.levels:
        place = levels[level]
        totals = [_brief(a) for a in shown.at(level) if a.query == "total"]
        size = len(json.dumps(place | {"queries": totals}))
        if left_out or size > room:
            left_out.append(level)
            del levels[level]
        else:
            place["queries"] += totals
            room -= size
    _fill(shown, levels | areas, room)
    told = {"levels": list(levels.values()), "areas": list(areas.values())}
    return _json(told | {"brief": True, "example": list(example)}), left_out


def _fill(shown: LookUp, places: Mapping[str, dict[str, Any]], room: int) -> None:
    """Add the other queries to ``places``, by level or kind, while there is room."""
    units = {a.level: len(a.published) for a in shown.answers}
    kinds, lowest = [a.kind for a in shown.areas], shown.spine.levels[-1]
    above = sorted((name for name in places if name != lowest), key=lambda name: units[name])
    last = [name for name in places if name == lowest]
    for names, most in ((kinds, 1), (above, SMALL), (above, LARGEST), (last, LARGEST)):
        for name in names:
            asked = [
                a
                for a in shown.at(name)
                if len(a.labels) <= most and not (a.assigned and most < LARGEST)
            ]
            places[name]["queries"], room = _filled(places[name]["queries"], asked, room)


def _filled(
    has: list[dict[str, Any]], every: Sequence[Answers], room: int
) -> tuple[list[dict[str, Any]], int]:
    """The queries of a place, of all those that could be there, in their order; and what room is
    left."""
    there = {(q["records"], q["name"]): q for q in has}
    for a in sorted(every, key=lambda a: (a.assigned, len(a.labels))):
        if (a.records, a.query) in there:
            continue
        query = _brief(a)
        size = len(json.dumps(query))
        if size > room:
            break
        there[a.records, a.query] = query
        room -= size
    return [there[key] for a in every if (key := (a.records, a.query)) in there], room


def _brief(a: Answers) -> dict[str, Any]:
    return _query(replace(a, noisy=None, margin=None), None)


def _json(data: dict[str, Any]) -> str:
    return json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")


def _area(a: Areas) -> dict[str, Any]:
    return {"name": a.kind, "words": level_words(a.kind), "geoid": False} | _called(
        a.codes, a.called
    )


def _places(spine: Spine, level: str) -> dict[str, Any]:
    depth = spine.index(level)
    out = {
        "name": level,
        "words": level_words(level),
        "parent": pack(spine.parent[depth]),
        "geoid": bool(spine.geoids(level)[0]),
    }
    return out | _called(spine.codes[depth], spine.names[depth])


def _called(codes: Codes, names: NDArray[np.str_]) -> dict[str, Any]:
    return {"codes": _texts(text(codes))} | ({"names": _texts(names)} if names.any() else {})


def _texts(values: NDArray[np.str_]) -> str:
    return _deflated(json.dumps(values.tolist()).encode())


def _query(a: Answers, true: Ints | None) -> dict[str, Any]:
    out: dict[str, Any] = {
        "records": a.records,
        "name": a.query,
        "title": a.title,
        "labels": a.labels,
        "exact": a.exact,
    }
    if a.assigned:
        out["assigned"] = True
    out["published"] = pack(a.published.T)
    if a.noisy is not None:
        out |= {"noisy": pack(a.noisy.T), "measured": pack(a.measured.astype(np.int64))}
    if a.middle is not None and a.within is not None:  # margins are those of a few kinds of units
        within, kind = distinct_rows(a.within)
        out |= {
            "off": pack((a.middle - a.published).T),
            "within": pack(within),
            "kind": pack(kind.ravel()),
            "limited": a.limited,
        }
    if a.ends is not None:
        out |= {"from": pack(a.ends[0].T), "to": pack(a.ends[1].T)}
    if a.lower is not None and a.upper is not None:
        out |= {"below": pack((a.published - a.lower).T), "above": pack((a.upper - a.published).T)}
    if true is not None:
        out["true"] = pack(true.T)
    return out


def distinct_rows(values: Ints) -> tuple[Ints, Ints]:
    """The rows that occur, in order, and which of them each is, as ``np.unique`` has them, which
    sorts all rows: here those that have one sum with random weights are compared with each other.

    >>> rows, which = distinct_rows(np.array([[2, 1], [0, 5], [2, 1]]))
    >>> rows.tolist(), which.tolist()
    ([[0, 5], [2, 1]], [1, 0, 1])"""
    weight = np.random.default_rng(0).integers(1 << 62, size=values.shape[1]) * 2 + 1
    _, first, which = np.unique(values @ weight, return_index=True, return_inverse=True)
    some, order = np.unique(values[first], axis=0, return_inverse=True)
    if (values != values[first][which]).any():  # two rows with one sum
        some, which = np.unique(values, axis=0, return_inverse=True)
        return some, which.ravel()
    return some, order.ravel()[which]


def pack(values: Ints) -> str:
    """Any integers, in C order.

    >>> zlib.decompress(base64.b64decode(pack(np.array([[0, -3], [300, 5]])))).hex(
    ...     " "
    ... )  # width; low bytes; high bytes
    '02 00 05 58 0a 00 00 02 00'"""
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    zigzag = ((flat << 1) ^ (flat >> 63)).view(np.uint64)
    width = max(1, (int(zigzag.max(initial=0)).bit_length() + 7) // 8)
    planes = zigzag.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T
    return _deflated(bytes([width]) + planes.tobytes(), zlib.Z_RLE)


def _deflated(raw: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Compress. Noise has nothing to find except runs and frequencies: for it ``Z_RLE`` is ten
    times as fast and gives the same size."""
    packer = zlib.compressobj(6, strategy=strategy)
    return base64.b64encode(packer.compress(raw) + packer.flush()).decode("ascii")
