r"""Measurement: the last stage that sees the truth.

For each level and each query of the plan, each unit's answers :math:`Qh` are released as
:math:`Qh + Z` with independent integer noise :math:`Z` of the draw's mechanism and parameter on every answer.

*Privacy.* Queries partition the cells, so between neighbours one level's answers to one query differ in
at most ``sensitivity`` places, by 1 each (:mod:`das.model.query`): one draw costs what
:mod:`das.model.budget` says. Units of a level are disjoint, so a level costs no more than a unit;
a record that moves between units (bounded neighbours) changes one answer in each, which the same
sensitivity of 2 covers. Costs of queries and levels add up along the path of units that a record lies in, and that of
the dearest path is the ledger's total (:mod:`das.model.budget`), which never exceeds the budget; an event is in the
ledger before its first draw.

Units of a level may be measured differently: which unit is of which class is read off the tree, which is public. A unit
has the noise of its own class alone, and one whose class has no draws is not measured: it has no value, and an infinite
variance.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.budget import Draw, Plan
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Event, Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.schema import Schema
from das.noise.entropy import Entropy
from das.noise.samplers import SAMPLERS


def measure(
    truth: Confidential[Histogram],
    level: str,
    universe: str,
    schema: Schema,
    tree: MeasuredSpine,
    plan: Plan,
    entropy: Entropy,
    ledger: Ledger,
) -> Iterator[Measurement]:
    """All measurements of one level, a batch of units at a time, each query of a batch in turn.

    Raises :class:`PrivacyError` before the first draw if the ledger's budget does not cover the level, and before
    the first event if the histogram is not one of this level, or the tree has units of a class that is not the plan's:
    what was not drawn is not spent.
    """
    classes = tree.classes(level)
    known = plan.classes(level)
    if strange := [c for c in classes if known and c not in known]:
        raise PrivacyError(f"the plan has no class {strange[0]!r}, of which units of the tree are",
                           where=f"{universe}, {level}")  # fmt: skip
    draws = [d for d in plan.at(level) if d.unit_class in classes]
    queries = {d.query: schema.query(d.query) for d in draws}
    units = tree.spine.units(level)
    histogram = truth.open("to add noise to it")
    if histogram.units != units or histogram.cells != schema.cells:  # before anything is paid for
        raise PrivacyError("the histogram is not one of this level and schema", where=f"{universe}, {level}")
    for d in draws:
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    for d in draws:
        ledger.append(Event.of(d, universe, int(classes[d.unit_class].sum()), queries[d.query].answers))
    for start, stop in tree.spine.batches(level, sum(q.answers for q in queries.values()) or 1):
        rows = histogram.rows(start, stop)
        for name, query in queries.items():
            values, variance = rows.answer(query), np.full(stop - start, np.inf)
            kept = np.zeros(stop - start, dtype=bool)
            for d in (d for d in draws if d.query == name):
                here = np.flatnonzero(classes[d.unit_class][start:stop])
                values[here] += _noise(d, len(here) * query.answers, entropy).reshape(len(here), query.answers)
                variance[here], kept[here] = d.variance, True
            values[~kept] = 0  # nothing was drawn for these, and nothing is said of them
            yield Measurement(level, name, start, values, variance)


def _noise(draw: Draw, size: int, entropy: Entropy) -> NDArray[np.int64]:
    return SAMPLERS[draw.mechanism.name].sample(draw.parameter, size, entropy)
