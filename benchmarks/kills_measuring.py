"""Kills of every publication while it measures, before each of its writes.

It is the model of :mod:`tests.interruptions`, which knows every draw of noise. After each kill a
run is resumed with its key, without it, and with another truth. Advice in messages is followed to
the end."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.common import Figures
from tests.interruptions import Fate, Publication, Told, attempt, endure, every, fates
from tests.worlds import Worlds

#: What happens after a kill, before the run is resumed.
AFTER = (
    Fate(),
    Fate(lose_key=True),
    Fate(alter=True),
    Fate(lose_key=True, alter=True, accept=True),
)
#: Attempts of one run that are killed in a random sequence.
KILLS = 5


def while_measuring(
    folder: Path, figures: Figures, step: int, sequences: int, only: str, seed: int
) -> None:
    """Every publication is killed before each ``step``-th write, in each of the ways of
    :data:`AFTER`; then in random ``sequences``.
    """
    for name, make in every(Worlds(folder / "worlds"), folder / "given").items():
        if not name.startswith(only):
            continue
        publication, began, told, here = make(), monotonic(), Told(), folder / name
        publication.begin(here / "begun")
        writes = _writes(publication, here)
        for write in range(1, writes + 1, step) if step else ():
            for after in AFTER:
                fate = Fate(write, after.lose_key, after.alter, after.accept)
                endure(publication, here / "begun", here, iter([fate]), random.Random(write), told)
        for i in range(sequences):
            order = random.Random(seed * 1_000_003 + i)
            endure(
                publication,
                here / "begun",
                here,
                fates(order, writes, order.randint(1, KILLS)),
                order,
                told,
            )
        figures(
            f"measuring killed, {name}",
            told.kills,
            "kills",
            **_said(told),
            writes=writes,
            seconds=monotonic() - began,
        )
        shutil.rmtree(here)


def _writes(publication: Publication, here: Path) -> int:
    """How often an attempt that nothing stops changes what the disk holds."""
    below, above = 0, 64
    while _ends(publication, here, above):
        below, above = above, 2 * above
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if _ends(publication, here, middle) else (below, middle)
    return below


def _ends(publication: Publication, here: Path, write: int) -> bool:
    """Whether one is killed before a write of this number."""
    run = here / "run"
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(here / "begun", run)
    ended, said = attempt(publication, run, here / "counting.jsonl", write, False)
    if ended not in ("killed", "closed"):
        raise RuntimeError(said)
    return ended == "killed"


def _said(told: Told) -> dict[str, Any]:
    return {
        k: dict(v) if isinstance(v, Counter) else v for k, v in vars(told).items() if k != "kills"
    }
