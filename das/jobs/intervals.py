"""Intervals of published counts, from a run or a release, or from replicates that somebody else
made.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.engine import Progress, refuse_within_import
from das.engine.display import display
from das.errors import UserError
from das.files.readers import ppmf_replicates
from das.files.run.ledger import INTERVALS
from das.files.run.run_directory import release_of
from das.release import published_replicates
from das.release.area_counts import COVERAGE
from das.release.replicate_source import ENOUGH, AskedIntervals
from das.release.replicates import make

#: Of the replicates' noise, where nobody says otherwise.
SEED = 1


def intervals(
    path: Path | str | None = None,
    out: Path | str | None = None,
    *,
    replicates_from: Path | str | None = None,
    replicates: int | None = None,
    coverage: float = COVERAGE,
    rule: str = "ct",
    tables: Sequence[str] = (),
    levels: Sequence[str] = (),
    seed: int | None = None,
    workers: int = 1,
    resume: bool = False,
    progress: bool | Progress = False,
) -> dict[str, int]:
    """An interval for every published count of a run or release: the algorithm is run again, so
    many times (50), on what was published, with fresh noise that is public, of a ``seed`` (1).
    Writes ``intervals/`` of the release, or the folder ``out``; returns how many rows each table
    and level has. :func:`das.read_intervals` reads them; places are looked up in its
    ``index.html``, of which a release of the demographic file has none.

    Or of counts that somebody else published with replicates: ``replicates_from`` is the folder of
    the microdata of the release, number 0, and of its replicates
    (:mod:`das.files.readers.ppmf_replicates`), all of which are used, or the first ``replicates``;
    nothing is run, and ``out`` is named.

    ``rule`` makes intervals of replicates (``"ct"``, the Bureau's, ``"t"``, ``"z"``, ``"cz"``;
    ``"pratt"`` holds small counts nearly as often by true value); of ``tables`` and ``levels`` that
    are named, or of all. It reads what is published alone, and costs no budget.

    With several ``workers`` a script calls it under ``if __name__ == "__main__":``.

    Raises:
        UserError: neither a release nor replicates, or both; a folder of something else, or of
            intervals of another release or seed; no such table or level; measurements of another
            publisher, whose budget nobody states.
    """
    refuse_within_import()
    chosen = tuple(tables), tuple(levels)
    if replicates_from is not None:
        if path is not None:
            raise _not("a release and replicates of another are both given", "name one of them")
        if seed is not None:
            raise _not(
                "there is a seed, and no noise is drawn", "leave it out: these replicates are made"
            )
        if out is None:
            raise _not("nothing says where they are to be written", "name the folder --out")
        found = ppmf_replicates.found(Path(replicates_from), replicates)
        asked = AskedIntervals(len(found) - 1, 0, coverage, rule, *chosen)
        with display(progress) as shown:
            return published_replicates.make(
                found, Path(out), asked, workers=workers, resume=resume, progress=shown
            )
    if path is None:
        raise _not(
            "there is no release",
            "name a RUN or release, or a folder of published replicates: --replicates-from",
        )
    release = release_of(Path(path))
    count = ENOUGH if replicates is None else replicates
    asked = AskedIntervals(count, SEED if seed is None else seed, coverage, rule, *chosen)
    folder = release / INTERVALS if out is None else Path(out)
    with display(progress) as shown:
        return make(release, folder, asked, workers=workers, resume=resume, progress=shown)


def _not(what: str, remedy: str) -> UserError:
    return UserError(what, where="intervals", remedy=remedy)
