r"""Measuring the groups of the Detailed DHC in two stages. The first measures the size of each
group; the second measures a table that is as detailed as this size allows.

:mod:`das.model.adaptive` proves the cost; :mod:`das.noise.entropy` has the proof for the noise.
Both need these facts:

* *Every* group of the level is measured, in each of its regions, even if nobody is in it: public
  tables list the groups. (If table sizes come from an earlier release, its groups are measured,
  which are public, too.)
* The size of a table is a function of the noisy first stage, or of that release, and of nothing
  else.
* A person is in one leaf, so in one answer of a table of any size.

The groups of a batch of regions are one chunk of noise, with its own source. The source gives the
bits of all totals that are measured alone, then of the first stage, then of the second, group by
group. So the numbers are a function of truth, plan and key."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.adaptive import FIRST, ONLY, LevelPlan
from das.model.budget import PlannedMeasurement
from das.model.confidential import Confidential
from das.model.group_measurement import UNMEASURED, GroupMeasurement
from das.model.population import Iterations
from das.noise.entropy import Entropy
from das.noise.label import ChunkLabel, encoded
from das.noise.samplers import SAMPLERS, VERSION
from das.truth.groups import GroupCounts

#: Most groups of one batch.
MOST_GROUPS = 1 << 22


def batches(regions: int, iterations: int) -> Iterator[slice]:
    """The regions of each chunk; the last chunk can have fewer."""
    size = max(1, MOST_GROUPS // max(1, iterations))
    for start in range(0, regions, size):
        yield slice(start, min(start + size, regions))


def measure(
    truth: Confidential[GroupCounts],
    plan: LevelPlan,
    iterations: Iterations,
    regions: NDArray[np.bytes_],
    entropy: Entropy,
    *,
    universe: str,
    number: int = 1,
    sizes: NDArray[np.int8] | None = None,
) -> tuple[str, GroupMeasurement]:
    """Measure one chunk: the groups of some ``regions`` (their ids). Returns the name of its
    stream, and the measurement.

    ``sizes`` gives the sizes of tables if there is no first stage, -1 for a group that is not
    measured. The ledger must have the draws before this is called. ``number`` says how often the
    level is drawn (:class:`das.noise.label.ChunkLabel`).

    Raises:
        PrivacyError: the counts are not those of these regions, or table sizes are given although
            the first stage decides them.
    """
    counts, members = truth.open("to add noise to it"), iterations.of(plan.at)
    only = iterations.detailed_only[members] if plan.first else np.zeros(len(members), dtype=bool)
    if (counts.regions, counts.iterations) != (len(regions), len(only)) or (
        sizes is None
    ) is not bool(plan.first):
        raise PrivacyError("these are not the counts of these groups", where=plan.level)
    label = ChunkLabel(
        universe,
        plan.level,
        number,
        bytes(regions[0]),
        bytes(regions[-1]),
        _plan_digest(plan, iterations, regions, only, sizes),
        VERSION,
        counts.digest(),
    )
    return entropy.mark(label), _measured(counts, plan, regions, only, sizes, entropy.chunk(label))


def _measured(
    counts: GroupCounts,
    plan: LevelPlan,
    regions: NDArray[np.bytes_],
    only: NDArray[np.bool_],
    sizes: NDArray[np.int8] | None,
    entropy: Entropy,
) -> GroupMeasurement:
    totals, alone = counts.totals(), np.tile(only, len(regions))
    noisy = totals.copy()
    first = np.zeros(len(totals), dtype=np.int64)
    if plan.first:
        noisy[alone] += _noise(plan.measurement(ONLY), int(alone.sum()), entropy)
        first[~alone] = totals[~alone] + _noise(
            plan.measurement(FIRST), int((~alone).sum()), entropy
        )
        sizes = np.where(alone, 0, plan.size(first)).astype(np.int8)
    assert sizes is not None
    indptr, values = _answers(counts, plan, noisy, sizes)
    fresh = np.repeat(~alone, np.diff(indptr))
    values[fresh] += _noise(plan.measurement(plan.table.name), int(fresh.sum()), entropy)
    return GroupMeasurement(regions, only, first, sizes, indptr, values)


def _answers(
    counts: GroupCounts, plan: LevelPlan, totals: NDArray[np.int64], sizes: NDArray[np.int8]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The answers of every group to the table of its size, one after the other."""
    table = plan.table
    width = np.array([*table.answers, 0])  # the last is for size -1
    indptr = np.concatenate([[0], np.cumsum(width[sizes])])
    values = np.zeros(indptr[-1], dtype=np.int64)
    small = sizes == 0
    values[indptr[:-1][small]] = totals[small]
    large = np.flatnonzero(sizes > 0)
    leaves = counts.table(table.name, table.leaves, large)
    for size in range(1, len(table.sizes)):
        here = sizes[large] == size
        answers = np.zeros((int(here.sum()), table.answers[size]), dtype=np.int64)
        np.add.at(answers.T, table.sizes[size], leaves[here].T)
        values[indptr[large[here]][:, None] + np.arange(table.answers[size])] = answers
    return indptr, values


def _noise(draw: PlannedMeasurement, size: int, entropy: Entropy) -> NDArray[np.int64]:
    return SAMPLERS[draw.mechanism.name].sample(draw.parameter, size, entropy)


def _plan_digest(
    plan: LevelPlan,
    iterations: Iterations,
    regions: NDArray[np.bytes_],
    only: NDArray[np.bool_],
    sizes: NDArray[np.int8] | None,
) -> bytes:
    """SHA-256 of everything except the truth that decides what is drawn for some groups: regions
    and iterations, in order; which have no table, and the size of the others or how it is found;
    the queries of each size; and the noise."""
    members = iterations.of(plan.at)
    asked = [encoded(*of.tolist()) for of in plan.table.sizes]
    noise = [encoded(d.query, d.mechanism.name, str(d.parameter)) for d in plan.measurements]
    how = b"" if sizes is None else np.ascontiguousarray(sizes).tobytes()
    parts = [
        encoded(*map(bytes, regions)),
        encoded(*iterations.code[members].tolist()),
        np.packbits(only).tobytes(),
        encoded(*plan.thresholds),
        how,
        encoded(plan.table.name, *asked),
        encoded(*noise),
    ]
    return hashlib.sha256(encoded(*parts)).digest()


__all__ = ["MOST_GROUPS", "UNMEASURED", "batches", "measure"]
