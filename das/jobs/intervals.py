"""Intervals of published counts, from a run or a release."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.engine import Progress, refuse_within_import
from das.engine.display import display
from das.files.run.ledger import INTERVALS
from das.files.run.run_directory import release_of
from das.release.area_counts import COVERAGE
from das.release.replicated import ENOUGH, AskedIntervals
from das.release.replicates import make


def intervals(
    path: Path | str,
    out: Path | str | None = None,
    *,
    replicates: int = ENOUGH,
    coverage: float = COVERAGE,
    rule: str = "ct",
    tables: Sequence[str] = (),
    levels: Sequence[str] = (),
    seed: int = 1,
    workers: int = 1,
    resume: bool = False,
    progress: bool | Progress = False,
) -> dict[str, int]:
    """An interval for every published count of a run or release: the algorithm is run again, so many times, on what was published,
    with fresh noise that is public. Writes ``intervals/`` of the release, or the folder ``out``; returns how many rows each
    table and level has. :func:`das.read_intervals` reads them; places are looked up in its ``index.html``.

    ``rule`` makes intervals of replicates (``"ct"``, the Bureau's, ``"t"``, ``"z"``, ``"cz"``); of ``tables`` and ``levels`` that
    are named, or of all. It reads the release alone, and costs no budget.

    With several ``workers`` a script calls it under ``if __name__ == "__main__":``.

    Raises:
        UserError: a folder of something else, or of intervals of another release or seed; no such table or level;
            measurements of another publisher, whose budget nobody states.
    """
    refuse_within_import()
    release = release_of(Path(path))
    asked = AskedIntervals(replicates, seed, coverage, rule, tuple(tables), tuple(levels))
    with display(progress) as shown:
        return make(
            release,
            release / INTERVALS if out is None else Path(out),
            asked,
            workers=workers,
            resume=resume,
            progress=shown,
        )
