"""The look-up of a page: numbers of many units, packed small enough to stand in one HTML file.

Each array becomes a string: zigzag (0, -1, 1, -2, ... to 0, 1, 2, 3, ...), as many bytes as the
largest number needs, all first bytes before all second ones, deflated, base64. Counts of blocks are
mostly zeros, and take a fifth of a byte each. ``lookup.js`` reads it back."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.areas import Areas
from das.model.names import Codes, text
from das.model.spine import Spine
from das.report.answers import AnswerKey, Answers, Shown

#: Characters of the look-up of a page for the public, at most.
ROOM = 425_000

Ints = NDArray[np.int64]


def data(
    shown: Shown, true: Mapping[AnswerKey, Ints] | None = None, coverage: float | None = None
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


def brief(shown: Shown, example: tuple[str, int], room: int = ROOM) -> tuple[str, list[str]]:
    """JSON for a page that has ``room`` for this many characters, and the levels that it leaves
    out.

    It has published counts and intervals, without noisy counts. ``example`` is shown first: a
    level, and one of its units.

    Queries are added as long as there is room. Totals of every place come first. Then come other
    queries from the root down, those of areas, and those of the lowest level. Within each, the
    smallest come first, and those that a rule assigned come last."""
    levels = {level: _places(shown.spine, level) | {"queries": []} for level in shown.spine.levels}
    areas = {a.kind: _area(a) | {"queries": []} for a in shown.areas}
    room -= sum(len(json.dumps(place)) for place in areas.values())
    left_out: list[str] = []
    *upper, lowest = shown.spine.levels
    rest: list[str] = [*upper, *areas, lowest]
    for level in shown.spine.levels:
        place = levels[level]
        totals = [_brief(a) for a in shown.at(level) if a.query == "total"]
        size = len(json.dumps(place | {"queries": totals}))
        if left_out or size > room:
            left_out.append(level)
            del levels[level]
            rest.remove(level)
        else:
            place["queries"] += totals
            room -= size
    for level in rest:
        place = levels.get(level) or areas[level]
        place["queries"], room = _filled(place["queries"], shown.at(level), room)
    told = {"levels": list(levels.values()), "areas": list(areas.values())}
    return _json(told | {"brief": True, "example": list(example)}), left_out


def _filled(
    has: list[dict[str, Any]], every: Sequence[Answers], room: int
) -> tuple[list[dict[str, Any]], int]:
    """The queries of a place, of all those that could be there, in their order; and what room is
    left.
    """
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
    return {"name": a.kind, "geoid": False} | _called(a.codes, a.called)


def _places(spine: Spine, level: str) -> dict[str, Any]:
    depth = spine.index(level)
    out = {
        "name": level,
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
    ([[0, 5], [2, 1]], [1, 0, 1])
    """
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
    '02 00 05 58 0a 00 00 02 00'
    """
    flat = np.ascontiguousarray(values, dtype=np.int64).ravel()
    zigzag = ((flat << 1) ^ (flat >> 63)).view(np.uint64)
    width = max(1, (int(zigzag.max(initial=0)).bit_length() + 7) // 8)
    planes = zigzag.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].T
    return _deflated(bytes([width]) + planes.tobytes(), zlib.Z_RLE)


def _deflated(raw: bytes, strategy: int = zlib.Z_DEFAULT_STRATEGY) -> str:
    """Compress. Noise has nothing to find except runs and frequencies: for it ``Z_RLE`` is ten
    times as fast and gives the same size.
    """
    packer = zlib.compressobj(6, strategy=strategy)
    return base64.b64encode(packer.compress(raw) + packer.flush()).decode("ascii")
