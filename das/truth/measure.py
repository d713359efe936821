r"""Measurement: the last stage that sees the truth.

For each level and each query of the plan, each unit's answers :math:`Qh` are released as
:math:`Qh + Z` with independent integer noise :math:`Z` of the draw's mechanism and parameter on every answer.

*Privacy.* Queries partition the cells, so between neighbours one level's answers to one query differ in
at most ``sensitivity`` places, by 1 each (:mod:`das.model.query`): one draw costs what
:mod:`das.model.budget` says. Units of a level are disjoint, so a level costs no more than a unit;
a record that moves between units (bounded neighbours) changes one answer in each, which the same
sensitivity of 2 covers. Costs of queries and levels add up to the ledger's total, which never exceeds
the budget; an event is in the ledger before its first draw.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.budget import ALL, Draw, Plan
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Event, Ledger
from das.model.measurement import Measurement
from das.model.schema import Schema
from das.model.spine import Spine
from das.noise.entropy import Entropy
from das.noise.samplers import SAMPLERS


def measure(
    truth: Confidential[Histogram],
    level: str,
    universe: str,
    schema: Schema,
    spine: Spine,
    plan: Plan,
    entropy: Entropy,
    ledger: Ledger,
) -> Iterator[Measurement]:
    """All measurements of one level, a batch of units at a time, each query of a batch in turn.

    Raises :class:`PrivacyError` before the first draw if the ledger's budget does not cover the level, and before
    the first event if the histogram is not one of this level, or units of it are to be measured differently: what was
    not drawn is not spent.
    """
    if set(plan.classes(level)) - {ALL}:
        raise PrivacyError("its units have several classes, and nothing says which unit is of which",
                           where=f"{universe}, {level}")  # fmt: skip
    draws = plan.at(level)
    queries = {d.query: schema.query(d.query) for d in draws}
    units = spine.units(level)
    histogram = truth.open("to add noise to it")
    if histogram.units != units or histogram.cells != schema.cells:  # before anything is paid for
        raise PrivacyError("the histogram is not one of this level and schema", where=f"{universe}, {level}")
    for d in draws:
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    for d in draws:
        ledger.append(Event.of(d, universe, units, queries[d.query].answers))
    for start, stop in spine.batches(level, sum(q.answers for q in queries.values())):
        rows = histogram.rows(start, stop)
        for d in draws:
            answers = rows.answer(queries[d.query])
            noise = _noise(d, answers.size, entropy).reshape(answers.shape)
            yield Measurement(level, d.query, start, answers + noise, np.full(stop - start, d.variance))


def _noise(draw: Draw, size: int, entropy: Entropy) -> NDArray[np.int64]:
    return SAMPLERS[draw.mechanism.name].sample(draw.parameter, size, entropy)
