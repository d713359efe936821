"""How many persons who are alone with their record in a block a guess has."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.model.histogram import Histogram
from das.tools.protection.attack import reconstruct
from das.tools.protection.truth import study_input
from das.tools.protection.truth.frontier import OpenStudy, opened
from das.tools.protection.truth.study import FrontierPoint, TopDown


def uniques(folder: Path) -> Iterator[dict[str, object]]:
    """A line for each point of a finished study: *found* are uniques whose record is guessed in their
    block; *claims* are records guessed once in a block, and *claims right* those of a unique person.
    *dealt* is the guess by shares: what tables of atoms make one expect, rounded by largest
    remainders."""
    of = opened(folder)
    for point in of.points.values():
        yield {"setting": point.method.label, **_of_point(of, point)}


def _of_point(of: OpenStudy, point: FrontierPoint) -> dict[str, object]:
    level, sampled = of.study.spec.sample_level, np.concatenate(of.groups)
    records = study_input.load(of.folder.records, of.study.schema)
    every, units = of.spine.kept(level, sampled)[-1], None
    if isinstance(point.method, TopDown):
        records = study_input.restricted(records, level, sampled)
    else:
        units = every
    published = point.method.protect(records, of.study.tables(""), of.key_of(point))
    found = reconstruct(published, of.study.intruder.reconstruction, units=units).histogram
    truth = of.truth.some(every).dense()
    guesses = {"": found}
    if published.expected is not None:
        guesses["dealt: "] = published.expected.histogram()
    return {
        "persons": int(truth.sum()),
        "uniques": int((truth == 1).sum()),
        **{
            f"{name}{what}": value
            for name, guess in guesses.items()
            for what, value in _compared(
                guess if units is None else guess.some(units), truth
            ).items()
        },
    }


def _compared(guess: Histogram, truth: NDArray[np.int64]) -> dict[str, object]:
    mine = guess.dense()
    claimed = mine == 1
    return {
        "agreement": round(100 * float(np.minimum(mine, truth).sum() / truth.sum()), 2),
        "found": int((mine[truth == 1] > 0).sum()),
        "claims": int(claimed.sum()),
        "claims right": int((truth[claimed] == 1).sum()),
    }
