"""What a release assumes besides its measurements, in its file ``prior.json`` and on its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.engine.tasks import Task
from das.estimate import size_bias
from das.files import atomic, messages
from das.files.release import spine as spine_file
from das.files.run import run_directory
from das.model.plan import OuterPass
from das.model.post_processing import BiasCorrection, Dispersion, SharesPrior
from das.model.query import DETAILED
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.opened import OpenedRelease

# What the parts of a release tell each other while they are at work, and the tasks of a stage.

Messages = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class WorkFiles:
    """Where the parts of one release are: its folder, and the working folder through which parts
    exchange results."""

    root: Path

    @property
    def release(self) -> Path:
        return self.root / "release"

    @property
    def work(self) -> Path:
        return self.root / "work"

    def messages(self, subtree: int) -> Path:
        """The file of what a subtree knows about its units of the upper tree."""
        return self.work / "messages" / f"{subtree:05d}.npz"

    def leaves(self, subtree: int) -> Path:
        """With full information: the file of what a subtree's lowest units say about those above
        them, by universe."""
        return self.work / "leaves" / f"{subtree:05d}.npz"

    def upper_tree(self) -> Path:
        """What is published of the upper tree's lowest units, and known of them."""
        return self.work / "upper_tree.npz"

    def columns(self) -> Path:
        return self.work / "columns.json"

    def correction(self) -> Path:
        return self.work / "correction.json"

    def seen(self, subtree: int) -> Path:
        return self.work / "seen" / f"{subtree:05d}.npz"

    def published(self, subtree: int) -> Path:
        """What is published of a subtree's lowest units, by universe."""
        return self.work / "published" / f"{subtree:05d}.npz"

    def sums(self, subtree: int) -> Path:
        """The file of the subtree's sums for its units of the upper tree."""
        return self.work / "sums" / f"{subtree:05d}.npz"

    def microdata(self, universe: Universe, subtree: int) -> Path:
        return self.work / "microdata" / universe.kind.folder / f"{subtree:05d}"

    def rows(self, table: str, level: str, subtree: int) -> Path:
        """Lines of a published table."""
        return self.work / "tables" / f"{table}_{level}" / f"{subtree:05d}.csv"


def stage_tasks(work: WorkFiles, size: int, stage: str) -> list[Task]:
    """A stage of the run. Its partitions are consecutive subtrees that have at most ``size`` lowest
    units together (a larger subtree is alone). A release without subtrees has no partition."""
    weights = spine_file.read_sizes(work.release / "spine.parquet")
    if not weights:
        return []
    out, first, held = [], 1, 0
    for subtree, weight in enumerate(weights, 1):
        if held and held + weight > size:
            out.append(_task(work, stage, first, subtree - 1, held))
            first, held = subtree, 0
        held += weight
    return [*out, _task(work, stage, first, len(weights), held)]


def _task(work: WorkFiles, stage: str, first: int, last: int, weight: int) -> Task:
    return Task(work.root, stage, f"{first:05d}-{last:05d}", (first, last), weight)


def subtrees_of(task: Task) -> range:
    return range(task.subtrees[0], task.subtrees[1] + 1)


NAME = "prior.json"  #: in a release that assumes something: see :mod:`das.model.post_processing`
SAYS = (
    "the persons of the lowest units were corrected for their size bias: it is the one that least squares"
    " without negative counts would have if the persons of each unit had the shares of the unit above"
)
HOUSING_SAYS = (
    ". Persons in households were assumed to be near m, the unit's share of the housing units. Their"
    " variance is linear m + quadratic m^2. Both numbers were estimated from the noisy measurements. This"
    " moved no total by more than 3/4 of its standard deviation"
)


SHARES_SAYS = (
    "the persons of the lowest units were assumed to have roughly the shares of the unit above, within"
    " each count that was fixed before. A cell of m expected persons has the share p of its count, and was"
    " assumed to have the variance spread * m (1 - p). The spread was estimated from the noisy"
    " measurements one level above"
)


def document(correction: BiasCorrection) -> Mapping[str, Any]:
    """The file of a correction: without a spread, if housing was not known."""
    if correction.spread is None:
        return {"says": SAYS}
    return {"says": SAYS + HOUSING_SAYS, "seen": correction.seen, **asdict(correction.spread)}


def expected_size_bias(opened: OpenedRelease) -> NDArray[np.float64]:
    """For each lowest published unit what least squares is expected to be off by, and the standard
    error of a corrected total, ``(2, units)`` (:func:`das.estimate.size_bias.expected_bias`)."""
    persons, after = opened.after.persons, opened.after
    tree, counts = opened.tree(persons), opened.published(persons)
    level, none = tree.spine.levels[-1], np.full((2, counts.units), np.nan)
    if len(tree.spine) < 2 or DETAILED not in opened.source(persons).queries(level):
        return none
    lowest = counts if tree.is_published else tree.of_published(counts)
    above = lowest.upward(tree.spine)[tree.spine.levels[-2]]
    found = size_bias.expected_bias(
        opened.source(persons),
        tree.spine,
        opened.bounds(persons)[level],
        persons.schema,
        (lowest, above),
        corrected=after.bias != "none",
    )
    if tree.is_published:
        return found
    none[:, tree.place] = found
    return none


def shares_document(
    prior: SharesPrior, spine: Spine, outer: Sequence[OuterPass]
) -> Mapping[str, Any]:
    """The file of a prior of shares: the spread of each unit that has its own, by pass. With each,
    the standard error of its estimate and the number of noisy answers behind it."""
    codes = spine.geocodes(prior.level).tolist()
    return {
        "says": SHARES_SAYS,
        "level": prior.level,
        "spreads": [
            {
                "geocode": code,
                "splits": outer_pass.frozen,
                "spread": float(prior.spread[number, unit]),
                "standard_error": float(prior.error[number, unit]),
                "seen": int(prior.seen[number, unit]),
            }
            for unit, code in enumerate(codes)
            for number, outer_pass in enumerate(outer)
        ],
    }


# The correction of a release that is cut: estimated from samples of all subtrees, and kept for their
# estimation (:mod:`das.release.by_subtree`).


def find_correction(work: WorkFiles, opened: OpenedRelease) -> BiasCorrection:
    """From what all subtrees have seen."""
    seen = [
        size_bias.DispersionSample.of_arrays(messages.read(work.seen(i)))
        for i in range(1, len(opened.cut) + 1)
    ]
    correction = size_bias.correction_from(seen)
    atomic.write_json(work.correction(), asdict(correction))
    return correction


def stored_correction(
    work: WorkFiles, opened: OpenedRelease, universe: Universe
) -> BiasCorrection | None:
    """What :func:`find_correction` has written, for the universe that is corrected."""
    if opened.after.bias == "none" or universe != opened.after.persons:
        return None
    stored = run_directory.read_json(work.correction())
    spread = None if stored["spread"] is None else Dispersion(**stored["spread"])
    return BiasCorrection(spread, stored["seen"])
