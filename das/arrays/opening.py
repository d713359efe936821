"""A release that was published, as the values that estimation takes."""

from __future__ import annotations

from pathlib import Path

from das.arrays.noisy import Noisy
from das.model.kinds import PERSONS
from das.model.level_bounds import LevelBounds
from das.model.spine import Spine
from das.model.universe import Planned
from das.reading import opened


def read_noisy(
    path: Path | str, *, universe: str = PERSONS.name
) -> tuple[Noisy, Spine, dict[str, LevelBounds]]:
    """The measurements of a run or a release, the measured spine, and its bounds: the arguments
    of ``das.topdown``, to estimate again or in another way. The values stay in their files until
    they are needed. The measurements carry the release's exact counts, bounds and ledger, and
    meet them even without the third value."""
    release = opened(path)
    of = release.after.universe(universe)
    plan = of.plan if isinstance(of, Planned) else None
    known, spine = release.bounds(of), release.tree(of).spine
    noisy = Noisy(
        of.schema,
        release.source(of),
        release.exact(of),
        plan,
        release.events(of),
        release.after.private,
        spine,
        known,
    )
    return noisy, spine, known
