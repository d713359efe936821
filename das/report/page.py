"""``confidential/report.html``: the errors of a run and its description, on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.model.closed import Closed
from das.model.error_rows import ErrorRow
from das.model.kinds import kind_of
from das.model.schema import Schema
from das.model.spine import Spine
from das.report import error_figures, figures, lookup
from das.report.answers import AnswerKey, Answers, Shown
from das.report.causes import cause, remedy
from das.report.facts import Facts, titles
from das.report.template import render

#: Places listed in one table.
LISTED = 8


@dataclass(frozen=True, repr=False)
class Place(Closed):
    """One count of one unit, whose name comes before its code in ``title``; ``noisy`` is ``None``
    where it was not measured."""

    code: str
    title: str
    what: str
    true: int
    noisy: int | None
    published: int

    @property
    def error(self) -> int:
        return self.published - self.true


def places(
    shown: Shown, true: Mapping[AnswerKey, NDArray[np.int64]]
) -> dict[str, list[tuple[str, list[Place]]]]:
    """By level, lowest first, the tables of the units whose published counts are furthest from the
    truth, with their captions. Levels without an error have none."""
    out = {}
    for level in reversed(shown.spine.levels):
        totals = [a for a in shown.at(level) if a.query == "total"]
        others = [a for a in shown.at(level) if a.query != "total"]
        found = [
            (caption, _worst(chosen, true, shown.spine))
            for caption, chosen in (("Totals", totals), ("Any other count", others))
        ]
        if tables := [(caption, rows) for caption, rows in found if rows]:
            out[level] = tables
    return out


def _worst(
    chosen: Sequence[Answers], true: Mapping[AnswerKey, NDArray[np.int64]], spine: Spine
) -> list[Place]:
    """The largest errors, the worst one of each unit; ties in the order of the queries and
    units.
    """
    found = []
    for a in chosen:
        error = np.abs(a.published - true[a.key])
        for at in np.argsort(-error, axis=None, kind="stable")[:LISTED]:
            unit, i = divmod(int(at), error.shape[1])
            if error[unit, i]:
                noisy = int(a.noisy[unit, i]) if a.noisy is not None and a.measured[unit] else None
                what = (
                    a.records if a.query == "total" else f"{a.labels[i]} ({a.title}, {a.records})"
                )
                found.append(
                    Place(
                        spine.code(a.level, unit),
                        spine.title(a.level, unit),
                        what,
                        int(true[a.key][unit, i]),
                        noisy,
                        int(a.published[unit, i]),
                    )
                )
    found.sort(key=lambda p: -abs(p.error))
    by_unit = {p.code: p for p in reversed(found)}
    return [p for p in found if by_unit[p.code] is p][:LISTED]


@dataclass(frozen=True, repr=False)
class OffSpineErrors(Closed):
    """Errors of the total over all areas of a kind, and the area where it is largest."""

    kind: str
    records: str
    n: int
    mae: float
    p50: int
    p95: int
    max: int
    bias: float
    worst: str


def off_spine_errors(
    shown: Shown, true: Mapping[AnswerKey, NDArray[np.int64]]
) -> list[OffSpineErrors]:
    """A row for each kind of areas and universe."""
    out = []
    for areas in shown.areas:
        for universe in shown.universes:
            a = shown.total(universe, areas.kind)
            error = (a.published - true[a.key])[:, 0]
            size = np.abs(error)
            half, most = (int(np.quantile(size, q, method="inverted_cdf")) for q in (0.5, 0.95))
            largest = int(size.argmax())
            out.append(
                OffSpineErrors(
                    areas.kind,
                    a.records,
                    len(error),
                    float(size.mean()),
                    half,
                    most,
                    int(size[largest]),
                    float(error.mean()),
                    areas.title(largest),
                )
            )
    return out


@dataclass(frozen=True, repr=False)
class ByPlace(Closed):
    """What the page has of single places, laid out: the distributions of errors, the worst places,
    areas off the spine and the look-up. A tenth of the memory of the answers that it is made
    from."""

    spread_figures: list[Markup]
    worst: Mapping[str, list[tuple[str, list[Place]]]]
    across: list[OffSpineErrors]
    lookup: Markup
    left_out: list[str]


def by_place(shown: Shown, true: Mapping[AnswerKey, NDArray[np.int64]]) -> ByPlace:
    """From what is shown of a release and the true answers for each of its keys."""
    return ByPlace(
        _all(error_figures.spread_of_totals(shown, true)),
        places(shown, true),
        off_spine_errors(shown, true),
        Markup(lookup.data(shown, true)),
        [lv for lv in shown.spine.levels if lv not in shown.whole],
    )


def html(
    rows: Sequence[ErrorRow],
    facts: Facts,
    others: Mapping[str, Sequence[ErrorRow]] | None = None,
    of_places: ByPlace | None = None,
    schemas: Mapping[str, Schema] | None = None,
    settled: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The page. ``rows`` are the errors of persons, ``others`` those of other universes, by name.
    ``schemas``, if given, names the queries, by universe, persons first; ``settled`` is as in
    :class:`das.release.outcome.Outcome`.

    It needs neither network nor other files. The same arguments give the same page.
    """
    persons = [r for r in rows if r.bin == "all"]
    totals = _pairs(r for r in persons if r.query == "total")
    words = {
        u: titles(s, {r.query for r in (others or {}).get(u, rows)})
        for u, s in (schemas or {}).items()
    }
    said = next(iter(words.values()), {})
    return render(
        "page.html",
        confidential=True,
        private=facts["private"],
        facts=facts,
        levels=[(r.level, r.n) for r, _ in totals],
        rows=rows,
        totals=totals,
        worse=[
            (r, noisy, cause(r.level, settled.get(r.level)), remedy(settled.get(r.level)))
            for r, noisy in _pairs(persons)
            if noisy is not None and r.rmse > noisy.rmse
        ],
        detailed={
            r.level: r for r in persons if r.query == "detailed" and r.source == "postprocessed"
        },
        titles=said,
        others=[
            (kind_of(u).records, words.get(u, {}), _pairs(r for r in rs if r.bin == "all"))
            for u, rs in (others or {}).items()
        ],
        total_figure=Markup(figures.total_by_level(persons)),
        spread_figures=of_places.spread_figures if of_places else [],
        query_figures=_all(figures.queries_by_level(persons, said)),
        trade_figures=_all(error_figures.variance_and_bias(rows, said)),
        bias_figures=_all(figures.bias_by_class(rows, said)),
        worst=of_places.worst if of_places else {},
        across=of_places.across if of_places else [],
        lookup=of_places.lookup if of_places else None,
        left_out=of_places.left_out if of_places else [],
        release_report=of_places is not None,
        privacy_page=of_places is not None,
    )


def _all(drawn: Iterable[str]) -> list[Markup]:
    return [Markup(f) for f in drawn]


def _pairs(rows: Iterable[ErrorRow]) -> list[tuple[ErrorRow, ErrorRow | None]]:
    """Each postprocessed row with the row of the noisy measurements, if there is one."""
    by_key = {(r.level, r.query, r.source): r for r in rows}
    return [
        (r, by_key.get((lv, q, "nmf")))
        for (lv, q, source), r in by_key.items()
        if source == "postprocessed"
    ]
