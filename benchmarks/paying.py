"""Measuring on demand without a run: each level is paid for from a ledger."""

from __future__ import annotations

from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.plan import Plan
from das.model.schema import Schema
from das.publications.dhc.truth.oracle import Pay
from das.truth.measure import events


def paying(ledger: Ledger, universe: str, schema: Schema, tree: MeasuredSpine, plan: Plan) -> Pay:
    """Returns a function that charges every draw of a level of a whole tree, at full cost, at every
    call. So a second oracle pays again, even for the same draw. Only the budget book of a run
    (:mod:`das.truth.bookkeeping`) knows that truth, plan and key are the same. Raises
    :class:`PrivacyError` as :func:`das.truth.measure.measure` does."""

    def pay(level: str) -> None:
        units = {c: int(here.sum()) for c, here in tree.classes(level).items()}
        for event in events(level, universe, schema, units, plan):
            ledger.append(event)

    return pay
