"""Pictures of the ages of places, from a release and its replicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.files import atomic
from das.files.release.place_search import PlaceColumns
from das.files.run.run_directory import release_of
from das.model.histogram import Histogram
from das.model.names import level_words
from das.model.spelling import named
from das.model.spine import Spine
from das.model.universe import Universe
from das.publications.dhc.ages.pictures import (
    FIVE,
    LAST,
    LISTED,
    AgeCounts,
    AgePictures,
    AgeValues,
    ages_html,
)
from das.publications.dhc.lookup import median_age
from das.release.publications import publication_of
from das.release.replicate_source import IntervalOptions, ReleaseSource
from das.release.sources import source_of
from das.replicates import ReplicateErrors, interval

Ints = NDArray[np.int64]
#: No count or age is larger.
_MOST = 1 << 40
#: An attribute of age has single years if it has more levels than there are classes of age.
_YEARS = 90


@dataclass(frozen=True)
class PlaceChoice:
    """Places of a ``level``: those whose code begins with one of ``prefixes`` or that have one of
    ``names`` in their name, or all; the ``first`` with the most persons."""

    level: str
    prefixes: Sequence[str] = ()
    names: Sequence[str] = ()
    first: int = 12

    def of(self, spine: Spine, persons: Ints) -> tuple[Ints, int]:
        """The rows, and how many more were asked for. Raises :class:`UserError` where nobody
        lives."""
        columns = PlaceColumns.of_level(spine, self.level)
        wanted = np.flatnonzero(columns.wanted(self.prefixes, self.names) & (persons > 0))
        if not len(wanted):
            raise UserError(
                "nobody is published in any such place",
                where="--geocode, --name",
                remedy="ask for other places, or all",
            )
        shown = wanted[np.argsort(-persons[wanted], kind="stable")][: self.first]
        return shown, len(wanted) - len(shown)


def age_pictures(run: Path, choice: PlaceChoice) -> tuple[ReleaseSource, AgePictures]:
    """The source of a run or release, and the ages of some places.

    Raises :class:`UserError` for records without single years of age, a level that does not exist,
    or places that nobody lives in."""
    if "tables" in publication_of(release_of(run)).cannot:
        raise _none()
    source = source_of(release_of(run))
    u, spine = _universe(source), source.spine
    level = named(choice.level, spine.levels, "level", "--level")
    up, query = spine.up(spine.levels[-1], level), u.schema.query("sex * age")

    def counted(h: Histogram) -> Ints:
        return h.up(up, spine.units(level)).answer(query).reshape(spine.units(level), 2, -1)

    ages, asked = counted(source.counts(u)), source.asked
    shown, left_out = replace(choice, level=level).of(spine, ages.sum(axis=(1, 2)))
    drawn = [] if asked is None else [counted(h)[shown] for h in source.replicates(u)]
    kept = partial(_counts, ages[shown], drawn, asked)
    return source, AgePictures(
        level,
        tuple(spine.title(level, i) for i in shown.tolist()),
        kept(lambda a: np.add.reduceat(a, FIVE, axis=2)),
        kept(_single_years),
        kept(_listed),
        kept(_medians),
        None if asked is None else asked.coverage,
        len(drawn),
        () if asked is None else tuple(source.says(asked.rule)),
        left_out,
    )


def _counts(
    ages: Ints,
    drawn: Sequence[Ints],
    asked: IntervalOptions | None,
    statistic: Callable[[Ints], AgeValues],
) -> AgeCounts:
    """A statistic of the published ages, with its interval from the replicates."""
    value = statistic(ages)
    if asked is None:
        return AgeCounts(value)
    errors = ReplicateErrors.of(value, np.array([statistic(d) for d in drawn]))
    made = interval(value, errors, asked.coverage).clipped(0, _MOST)
    return AgeCounts(value, made.lower, made.upper)


def write(source: ReleaseSource, pictures: AgePictures, out: Path) -> None:
    """The page."""
    title = f"Ages by {level_words(pictures.level)}: {source.name}"
    atomic.write_text(out, ages_html(pictures, title, private=source.private))


def _universe(source: ReleaseSource) -> Universe:
    """The records that have a sex and single years of age."""
    for u in source.universes:
        sizes = {a.name: len(a.levels) for a in u.schema.attributes}
        if sizes.get("sex") == 2 and sizes.get("age", 0) > _YEARS:
            return u
    raise _none()


def _none() -> UserError:
    said = "it has no records with single years of age and sex"
    return UserError(said, where="das ages", remedy="name a release of the DHC")


def _single_years(ages: Ints) -> Ints:
    """The years to the last one shown, which has all above."""
    return np.concatenate([ages[:, :, :LAST], ages[:, :, LAST:].sum(axis=2)[:, :, None]], axis=2)


def _listed(ages: Ints) -> Ints:
    both = ages.sum(axis=1)
    return np.stack([both[:, a:b].sum(axis=1) for a, b in LISTED.values()], axis=1)


def _medians(ages: Ints) -> NDArray[np.float64]:
    """NaN where nobody is."""
    found = (median_age(a) for a in ages.sum(axis=1))
    return np.array([np.nan if m is None else m for m in found])
