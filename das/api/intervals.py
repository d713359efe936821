"""Intervals of published counts, from a run or a release, or from replicates that somebody else
made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.engine import Progress, refuse_within_import
from das.engine.display import display
from das.errors import UserError
from das.files.readers import ppmf_persons
from das.files.run.ledger import INTERVALS
from das.files.run.run_directory import release_of
from das.model.mechanisms import COVERAGE
from das.publications.published import replicates as published_replicates
from das.release.replicate_source import BY_TRUTH, ENOUGH, IntervalOptions
from das.release.replicates import make, rule_of

#: Of the replicates' noise, where nobody says otherwise.
SEED = 1


def intervals(
    path: Path | str | None = None,
    out: Path | str | None = None,
    *,
    replicates_from: Path | str | None = None,
    replicates: int | None = None,
    coverage: float = COVERAGE,
    rule: str | None = None,
    tables: Sequence[str] = (),
    levels: Sequence[str] = (),
    seed: int | None = None,
    workers: int = 1,
    resume: bool = False,
    earlier: Path | str | None = None,
    progress: bool | Progress | None = None,
) -> dict[str, int]:
    """Make an interval for every published count of a run or release. The algorithm is run again
    ``replicates`` times (50) on the published counts, with fresh public noise from ``seed`` (1).
    Writes ``intervals/`` of the release, or the folder ``out``. Returns the number of rows of each
    table and level. ``das.read_intervals`` reads them. ``index.html`` looks up places; a release of
    the DHC has no such page.

    Or use replicates that another publisher has made: ``replicates_from`` is the folder of the
    release's microdata, number 0, and of its replicates (``das.files.readers.ppmf_persons``).
    All of them are used, or the first ``replicates``. Nothing is run, and ``out`` is required.

    ``rule`` makes intervals of replicates: ``"pratt"`` (the default) holds by true value, small or
    large; ``"ct"`` is the Bureau's, and holds by published value; ``"table"`` adds the bias that
    the whole table shows, and is the default for the DHC. ``tables`` and
    ``levels`` restrict the result. Only published files are read, and no budget is spent.

    ``earlier``: for a release of the DHC, the run or release of the redistricting counts that it
    keeps. Each replicate then rests on a replicate of that release, and the intervals cover the
    errors of both. Without it, counts that the redistricting release determines have no interval.

    With several ``workers``, call it under ``if __name__ == "__main__":``.

    Raises:
        UserError: neither a release nor replicates, or both; a folder of something else, or of
            intervals of another release or seed; no such table or level; measurements of another
            publisher, whose budget nobody states."""
    refuse_within_import()
    chosen = tuple(tables), tuple(levels)
    if replicates_from is not None:
        if path is not None:
            raise _not("a release and replicates of another are both given", "name one of them")
        if seed is not None:
            raise _not(
                "there is a seed, and no noise is drawn", "leave it out: these replicates are made"
            )
        if earlier is not None:
            raise _not("an earlier release goes with a release", "leave it out")
        if out is None:
            raise _not("nothing says where they are to be written", "name the folder --out")
        found = ppmf_persons.replicate_files(Path(replicates_from), replicates)
        asked = IntervalOptions(len(found) - 1, 0, coverage, rule or BY_TRUTH, *chosen)
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
    rule = rule or rule_of(release)
    asked = IntervalOptions(count, SEED if seed is None else seed, coverage, rule, *chosen)
    folder = release / INTERVALS if out is None else Path(out)
    with display(progress) as shown:
        return make(
            release,
            folder,
            asked,
            workers=workers,
            resume=resume,
            progress=shown,
            earlier=None if earlier is None else release_of(Path(earlier)),
        )


def _not(what: str, remedy: str) -> UserError:
    return UserError(what, where="intervals", remedy=remedy)
