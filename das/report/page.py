"""``confidential/report.html``: the errors of a run and what it knows of itself, laid out on one page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.model.kinds import kind_of
from das.model.result import ErrorRow
from das.model.schema import Schema
from das.report import across, error_figures, figures, lookup
from das.report.answers import AnswerKey, Shown
from das.report.facts import Facts, titles
from das.report.template import environment
from das.report.worst import places


def html(
    rows: Sequence[ErrorRow],
    facts: Facts,
    others: Mapping[str, Sequence[ErrorRow]] | None = None,
    shown: Shown | None = None,
    true: Mapping[AnswerKey, NDArray[np.int64]] | None = None,
    schemas: Mapping[str, Schema] | None = None,
) -> str:
    """The page. ``rows`` are the errors of persons, ``others`` those of other universes, by name. Queries are called
    as in ``schemas``, by universe, persons first, where that is given.

    With ``shown`` and the true answers for each of its keys it has distributions, the worst places and a look-up.
    It needs no network and no other file. The same arguments give the same page.
    """
    persons = [r for r in rows if r.bin == "all"]
    totals = _pairs(r for r in persons if r.query == "total")
    words = {u: titles(s, {r.query for r in (others or {}).get(u, rows)}) for u, s in (schemas or {}).items()}
    said = next(iter(words.values()), {})
    both = None if shown is None or true is None else (shown, true)
    page = environment().get_template("page.html")
    return page.render(
        confidential=True,
        private=facts["private"],
        facts=facts,
        levels=[(r.level, r.n) for r, _ in totals],
        rows=rows,
        totals=totals,
        worse=[(r, noisy) for r, noisy in _pairs(persons) if noisy is not None and r.rmse > noisy.rmse],
        detailed={r.level: r for r in persons if r.query == "detailed" and r.source == "postprocessed"},
        titles=said,
        others=[
            (kind_of(u).records, words.get(u, {}), _pairs(r for r in rs if r.bin == "all"))
            for u, rs in (others or {}).items()
        ],
        total_figure=Markup(figures.total_by_level(persons)),
        spread_figures=_all(error_figures.spread_of_totals(*both) if both else ()),
        query_figures=_all(figures.queries_by_level(persons, said)),
        trade_figures=_all(error_figures.variance_and_bias(rows, said)),
        bias_figures=_all(figures.bias_by_class(rows, said)),
        worst=places(*both) if both else {},
        across=across.errors(*both) if both else [],
        lookup=Markup(lookup.data(*both)) if both else None,
        left_out=[lv for lv in shown.spine.levels if lv not in shown.whole] if shown else [],
        release_report=shown is not None,
    )


def _all(drawn: Iterable[str]) -> list[Markup]:
    return [Markup(f) for f in drawn]


def _pairs(rows: Iterable[ErrorRow]) -> list[tuple[ErrorRow, ErrorRow | None]]:
    """Each postprocessed row with the row of the noisy measurements, if there is one."""
    by_key = {(r.level, r.query, r.source): r for r in rows}
    return [(r, by_key.get((lv, q, "nmf"))) for (lv, q, source), r in by_key.items() if source == "postprocessed"]
