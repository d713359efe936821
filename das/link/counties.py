r"""Tracts of a county move together, towards the totals of the county.

Each tract is near its own totals once it is linked. What tracts are off adds up in the county,
whose totals are published with far less error than that. So the distance :math:`J` of
:mod:`das.link.totals` gets one more unit, the county. Tracts move one after another, and each sees
how far the county is off after the moves of all others. So no deviation is made up for twice.

*Firm* families have the weight that they have in a tract, and are met in the end: what a turn
leaves over is asked for again in the next, as the multipliers of an augmented Lagrangian are. So
it does not matter that what is plausible, such as couples of similar age, has a price as well.
Other families contradict firm ones, above all sizes of households, which cannot add up to the
persons. They weigh less by the number of tracts, because their errors add up. Were they asked for
again and again, precise totals would give way to them.

Where blocks of a tract cannot hold what is published of it, other tracts make up for that in firm
families. So the county is right, and each of them a little off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from das.link.fields import Ints
from das.link.linking import LinkedHomes, TractInput, linked_tract, settled
from das.link.people import HomePersons
from das.link.steering import steered
from das.link.totals import Totals, above_weights, is_firm, published_totals
from das.model.histogram import Histogram

#: Sweeps over all tracts.
TURNS = 6
#: The most tracts that move together.
MOST = 80


def parts(above: Ints) -> list[Ints]:
    """The tracts that move together, as numbers: those of one unit, at most :data:`MOST`.
    ``above``: the unit above each tract."""
    return [
        part
        for unit in np.unique(above)
        for here in (np.flatnonzero(above == unit),)
        for part in np.array_split(here, -(-len(here) // MOST))
    ]


def moved_together(given: Sequence[TractInput], homes: Sequence[LinkedHomes]) -> list[LinkedHomes]:
    """Linked tracts, moved towards the totals of all of them."""
    lived_in = [i for i, h in enumerate(homes) if len(h.cell)]
    out, tracts = list(homes), [linked_tract(given[i], homes[i]) for i in lived_in]
    if not tracts or not given[0].trust.sweeps:
        return out
    held = np.sum([t.added_up for t in tracts], axis=0)
    totals = _totals([given[i] for i in lived_in]).with_large(held[None])
    over, weight = held - totals.wanted[0], above_weights(totals.weight[0], len(tracts))
    rngs = [
        np.random.default_rng([*np.frombuffer(given[i].seed, dtype=np.uint32), 1]) for i in lived_in
    ]
    pull = np.zeros_like(over)
    for _ in range(TURNS):
        over = over + pull
        for tract, rng in zip(tracts, rngs, strict=True):
            tract.set_above(over, weight)
            steered(tract, rng, 1)
            over = tract.over[0, :-1]
        over = over - pull
        pull += np.where(is_firm(), over, 0.0)
    for i, tract in zip(lived_in, tracts, strict=True):
        out[i] = settled(homes[i], tract)
    return out


def _totals(given: Sequence[TractInput]) -> Totals:
    """What the files say of some tracts as a whole."""
    persons, households = (
        Histogram.concatenate([getattr(g, name) for g in given])
        for name in ("persons", "households")
    )
    return published_totals(
        HomePersons.of(persons), households, np.zeros(persons.units, dtype=np.int64)
    )
