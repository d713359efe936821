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
from das.report import across, error_figures, figures, lookup
from das.report.answers import AnswerKey, Shown
from das.report.causes import cause, remedy
from das.report.facts import Facts, titles
from das.report.template import render
from das.report.worst import Place, places


@dataclass(frozen=True, repr=False)
class ByPlace(Closed):
    """What the page has of single places, laid out: the distributions of errors, the worst places,
    areas off the spine and the look-up. A tenth of the memory of the answers that it is made
    from."""

    spread_figures: list[Markup]
    worst: Mapping[str, list[tuple[str, list[Place]]]]
    across: list[across.Across]
    lookup: Markup
    left_out: list[str]


def by_place(shown: Shown, true: Mapping[AnswerKey, NDArray[np.int64]]) -> ByPlace:
    """From what is shown of a release and the true answers for each of its keys."""
    return ByPlace(
        _all(error_figures.spread_of_totals(shown, true)),
        places(shown, true),
        across.errors(shown, true),
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
