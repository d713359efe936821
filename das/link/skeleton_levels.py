r"""The skeleton of a whole tree, from the root down to the units above blocks.

What blocks can hold goes up first: sums over blocks of :math:`\min(o_b, s_b(\cdot))`
(:class:`SkeletonTies`). Then each level's units are estimated family by family
(:mod:`das.link.skeleton_family`), so that children add up to their parent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from das.errors import InputError
from das.link.fields import Ints
from das.link.skeleton_cells import SKELETON, WIDTH, homes, householders
from das.link.skeleton_family import Holders, SkeletonFamily
from das.link.skeleton_measured import SkeletonEvidence, dense, evidence
from das.model.dhc.households import DHCH, TENURE
from das.model.dhc.persons import DHCP
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine

#: The variance of published tenures: nearly exact.
_TENURE_VARIANCE = 0.25
#: The most pairs of a unit and a class that one flow has.
_MOST_PAIRS = 1 << 18


@dataclass(frozen=True, eq=False)
class SkeletonTies(Frozen):
    """What the skeleton keeps. ``occupied``: units of each block, ``(blocks,)``. ``able``: persons
    at home of 15 and over by class, ``(blocks, 252)``. ``tenure``: households by tenure of the units
    above blocks, ``(groups, 3)``, as many as occupied units. ``spine``: the tree."""

    spine: Spine
    occupied: Ints
    able: Histogram
    tenure: Ints

    def __post_init__(self) -> None:
        groups, blocks = (len(codes) for codes in self.spine.codes[-2:])
        if not (blocks == len(self.occupied) == self.able.units and groups == len(self.tenure)):
            raise InputError("counts of different blocks", where="skeleton")
        if (self.tenure.sum(axis=1) != self.occupied_units[self.spine.levels[-2]]).any():
            raise InputError("tenures do not add up to occupied units", where="skeleton")

    @cached_property
    def most(self) -> Mapping[str, Histogram]:
        """The most householders by class, by level."""
        each = np.minimum(self.able.count, self.occupied[self.able.unit])
        most = Histogram.of(self.able.units, WIDTH, self.able.unit, self.able.cell, each)
        return most.upward(self.spine)

    @cached_property
    def occupied_units(self) -> Mapping[str, Ints]:
        """By level."""
        return _upward(self.spine, self.occupied, self.spine.levels[-1])

    @cached_property
    def tenures(self) -> Mapping[str, Ints]:
        """Households by tenure, by level above blocks."""
        return _upward(self.spine, self.tenure, self.spine.levels[-2])


@dataclass(frozen=True, eq=False)
class PublishedFile(Frozen):
    """One file: its ``schema``, its published counts by level, and ``variances`` of measured
    answers, by level and query."""

    schema: Schema
    counts: Mapping[str, Histogram]
    variances: Mapping[str, Mapping[str, float]]

    def evidence(self, level: str, above: str) -> list[SkeletonEvidence]:
        return evidence(self.schema, self.variances[level], self.counts[above])

    def skeleton(self, level: str) -> Histogram:
        """Householders that it publishes."""
        counted = {DHCP.name: householders, DHCH.name: homes}[self.schema.name]
        return counted(self.counts[level])


def families(
    files: Sequence[PublishedFile], ties: SkeletonTies, level: str, parents: Histogram | None
) -> Iterator[SkeletonFamily]:
    """The problems of a level, in order. ``parents``: the skeleton of the level above, ``None`` for
    the root."""
    spine, tenure = ties.spine, ties.tenures[level]
    above = spine.levels[max(0, spine.index(level) - 1)]
    known = [(e, f.skeleton(level)) for f in files for e in f.evidence(level, above)]
    starts = np.array([0, 1]) if parents is None else spine.children(level)
    for number, (a, b) in enumerate(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True)):
        rows = {id(h): dense(h.rows(a, b)) for _, h in known}
        value = [np.asarray(e.query.answer(rows[id(h)]), dtype=float) for e, h in known]
        yield SkeletonFamily(
            None if parents is None else parents.rows(number, number + 1).dense()[0, :],
            (*(e for e, _ in known), _tenure()),
            (*value, tenure[a:b].astype(float)),
            tenure[a:b],
            _holders(ties, level, a, b),
        )


def _holders(ties: SkeletonTies, level: str, start: int, stop: int) -> Holders:
    """The lowest units below the children ``start`` to ``stop`` that one flow can have, or the
    children."""
    spine, at, span = ties.spine, np.arange(stop - start), (start, stop)
    best = level, at, span
    for below in spine.levels[spine.index(level) + 1 :]:
        first = spine.children(below)
        at = np.repeat(at, np.diff(first[span[0] : span[1] + 1]))
        span = int(first[span[0]]), int(first[span[1]])
        pairs = ties.most[below].indptr[[*span]]
        if pairs[1] - pairs[0] > _MOST_PAIRS:
            break
        best = below, at, span
    name, child, (a, b) = best
    return Holders(child, ties.occupied_units[name][a:b], ties.most[name].rows(a, b).dense())


def _upward(spine: Spine, counts: Ints, level: str) -> dict[str, Ints]:
    """Counts of the units of a level, ``(units, ...)``, and their sums at all levels above."""
    out, depth = {level: counts}, spine.index(level)
    for below in range(depth, 0, -1):
        starts = spine.children(spine.levels[below])[:-1]
        counts = np.add.reduceat(counts, starts, axis=0)
        out[spine.levels[below - 1]] = counts
    return out


def _tenure() -> SkeletonEvidence:
    return SkeletonEvidence(SKELETON.query(TENURE.name), _TENURE_VARIANCE)
