"""The skeleton of a DHC release: the householders that both of its files measured, estimated
together from published counts and the plan's variances, level by level.

Nothing here can see the truth. The skeleton is a function of what is published, and costs no
budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from das.engine import Progress, in_order
from das.link.linking import TractInput, tract_ties
from das.link.skeleton_family import SkeletonFamily
from das.link.skeleton_levels import PublishedFile, SkeletonTies, families
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.plan import Plan
from das.model.spine import Spine
from das.spec import DhcSpec


@dataclass(frozen=True, eq=False)
class JointSkeleton(Frozen):
    """The skeleton of each level above blocks, ``counts``. ``families``: how many were estimated,
    ``free`` of their parent's cells, and ``inaccurate``."""

    counts: Mapping[str, Histogram]
    families: int
    free: int
    inaccurate: int


def joint_skeleton(
    spine: Spine,
    spec: DhcSpec,
    counts: Mapping[str, Histogram],
    todo: Sequence[TractInput],
    pool: Executor,
    progress: Progress,
) -> JointSkeleton:
    """The skeleton of a release. ``counts``: published ones of blocks, by universe; ``todo``: the
    tracts to link."""
    files = [
        PublishedFile(u.schema, counts[u.name].upward(spine), _variances(u.plan, spine))
        for u in spec.universes
        if u.housed or u.rests_on
    ]
    parts = list(in_order(pool, tract_ties, todo))
    ties = SkeletonTies(
        spine,
        np.concatenate([p.occupied for p in parts]),
        Histogram.concatenate([p.able for p in parts]),
        np.concatenate([p.tenure for p in parts]),
    )
    out, solved = dict[str, Histogram](), []
    for level in spine.levels[:-1]:
        above = spine.levels[max(0, spine.index(level) - 1)]
        progress.stage(f"householders: {level}", spine.units(level))
        here = []
        for part in in_order(
            pool, SkeletonFamily.solved, families(files, ties, level, out.get(above))
        ):
            here.append(part)
            progress.advance(part.counts.units)
        out[level] = Histogram.concatenate([p.counts for p in here])
        solved += here
    return JointSkeleton(
        out, len(solved), sum(p.free for p in solved), sum(p.certificate.inaccurate for p in solved)
    )


def _variances(plan: Plan, spine: Spine) -> dict[str, dict[str, float]]:
    return {lv: {d.query: d.variance for d in plan.at(lv)} for lv in spine.levels}
