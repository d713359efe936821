"""Ages of places as pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.cli.kit.console import CommandAnswer, answering
from das.cli.kit.options import OUT, PATH, picture_option, warn, write_picture
from das.errors import UserError
from das.files import atomic
from das.files.release.place_search import PlaceColumns
from das.files.run.run_directory import release_of
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import level_inside
from das.model.not_private import Private, marked
from das.model.spelling import named
from das.model.spine import Spine
from das.model.universe import Universe
from das.publications.dhc.figures import FEMALE, MALE, median_age, steps, symmetric
from das.release.publications import publication_of, source_of
from das.release.replicate_source import IntervalOptions, ReleaseSource
from das.replicates import ReplicateErrors, interval
from das.report.chart import Chart, Picture
from das.report.panel import INK, MarkStyle, Words, short
from das.report.template import render

# Ages of places as pictures with intervals: pyramids of five years, single years, median ages.
#
# A function of published values and of the intervals that replicates give them.

AgeValues = NDArray[np.int64] | NDArray[np.float64]
#: The first years of classes of five years; the last has no end. Single years up to the last.
FIVE = (*range(0, 90, 5),)
LAST = 100
#: Classes of the table, by their first years and those of the next.
LISTED = {"under 5": (0, 5), "5-17": (5, 18), "18-64": (18, 65), "65 and over": (65, 999)}
_WHISKER = MarkStyle(INK, width=0.9)


@dataclass(frozen=True, eq=False)
class AgeCounts(Frozen):
    """Published values and the ends of their intervals, arrays of one shape; ``None``: there are
    no intervals."""

    value: AgeValues
    low: AgeValues | None = None
    high: AgeValues | None = None

    def at_unit(self, unit: int) -> AgeCounts:
        """Those of one place."""
        if self.low is None or self.high is None:
            return AgeCounts(self.value[unit])
        return AgeCounts(self.value[unit], self.low[unit], self.high[unit])

    def ends(self) -> tuple[AgeValues, AgeValues]:
        """The ends, or twice the values."""
        if self.low is None or self.high is None:
            return self.value, self.value
        return self.low, self.high


@dataclass(frozen=True, eq=False)
class AgePictures(Frozen):
    """Places of a ``level``. By sex (male first): ``five`` ``(places, 2, 18)`` and ``single``
    ``(places, 2, 101)``; ``listed`` ``(places, classes)``; ``median`` ``(places,)`` in years.
    Intervals have the ``coverage``, from ``replicates``, with what they ``say``. ``left_out``:
    places that were asked for and are not shown."""

    level: str
    names: tuple[str, ...]
    five: AgeCounts
    single: AgeCounts
    listed: AgeCounts
    median: AgeCounts
    coverage: float | None
    replicates: int
    says: tuple[str, ...]
    left_out: int


def conclusion(pictures: AgePictures) -> str:
    """What the median ages say: from the youngest place to the oldest."""
    value, (low, high) = pictures.median.value, pictures.median.ends()
    young, old = int(value.argmin()), int(value.argmax())
    if young == old:
        return f"Half of the persons in {pictures.names[old]} are younger than {value[old]:.1f}."
    said = (
        f"The median age goes from {value[young]:.1f} years in {pictures.names[young]}"
        f" to {value[old]:.1f} in {pictures.names[old]}"
    )
    if pictures.median.low is None:
        return f"{said}."
    apart = high[young] < low[old]
    return f"{said}; their intervals {'do not overlap' if apart else 'overlap'}."


def pyramid(five: AgeCounts, name: str, figure: str) -> str:
    """Classes of five years, with intervals at the ends of their bars."""
    chart, edges = Chart(4.4, 3.7), np.array([*FIVE, 90])
    middle = (np.array(FIVE) + 2.5).tolist()
    low, high = five.ends()
    for sign, sex, color, word in ((-1, 0, MALE, "men"), (1, 1, FEMALE, "women")):
        chart.area(*steps(sign * five.value[sex], edges), color, opacity=0.75)
        if five.low is not None:
            ends = (sign * low[sex]).tolist(), (sign * high[sex]).tolist()
            at = (sign * five.value[sex]).tolist()
            chart.errors(at, middle, *ends, _WHISKER, cap=2.0, across=True)
        _word(chart, word, sign, color, float(high.max(initial=1)))
    _axes(chart, float(high.max(initial=1)), 92.0, "persons in five years of age")
    return chart.svg(figure, f"Age pyramid of {name}, classes of five years")


def single_years(single: AgeCounts, name: str, figure: str) -> str:
    """Single years, with the band of their intervals."""
    chart, edges = Chart(4.4, 3.7), np.arange(LAST + 2)
    low, high = single.ends()
    most = float(high.max(initial=1))
    for sign, sex, color, word in ((-1, 0, MALE, "men"), (1, 1, FEMALE, "women")):
        chart.area(*_band(sign * low[sex], sign * high[sex], edges), color, opacity=0.3)
        chart.area(*steps(sign * single.value[sex], edges), "none", color)
        _word(chart, word, sign, color, most)
    _axes(chart, most, LAST + 3.0, "persons of each year of age")
    return chart.svg(figure, f"Age pyramid of {name}, single years")


def medians(pictures: AgePictures) -> Chart:
    """The median age of each place."""
    value, (low, high) = pictures.median.value, pictures.median.ends()
    chart = Chart(6.4, 0.9 + 0.32 * len(pictures.names))
    rows = np.arange(len(value), dtype=float).tolist()
    chart.plot(value.tolist(), rows, MarkStyle(INK, mark="o", size=5))
    there = np.isfinite(low) & np.isfinite(high)  # somebody is in all replicates
    if pictures.median.low is not None and there.any():
        at, row, one, other = (x[there].tolist() for x in (value, np.array(rows), low, high))
        chart.errors(at, row, one, other, _WHISKER, cap=2.5, across=True)
    chart.rows([short(n) for n in pictures.names], grid=True)
    chart.x.label = "median age, years"
    chart.finish("", 0)
    return chart


def ages_html(pictures: AgePictures, title: str, *, private: Private) -> str:
    """The page. The same arguments give the same page."""
    places = range(len(pictures.names))
    drawn = [
        (
            pictures.names[i],
            Markup(pyramid(pictures.five.at_unit(i), pictures.names[i], f"five{i}")),
            Markup(single_years(pictures.single.at_unit(i), pictures.names[i], f"single{i}")),
        )
        for i in places
    ]
    return render(
        "ages.html",
        private=private,
        title=title,
        pictures=pictures,
        percent="" if pictures.coverage is None else f"{100 * pictures.coverage:g}",
        conclusion=conclusion(pictures),
        medians=Markup(medians(pictures).svg("medians", "Median age by place")),
        drawn=drawn,
        classes=tuple(LISTED),
        lines=[
            (pictures.names[i], pictures.listed.at_unit(i), pictures.median.at_unit(i))
            for i in places
        ],
    )


def _word(chart: Chart, word: str, sign: int, color: str, most: float) -> None:
    anchor = "start" if sign < 0 else "end"
    chart.say(Words(word, sign * 1.02 * most, 88, anchor=anchor, bold=True, color=color))


def _axes(chart: Chart, most: float, top: float, label: str) -> None:
    chart.x.low, chart.x.high = -1.06 * most, 1.06 * most
    chart.y.low, chart.y.high = 0.0, top
    chart.rule(0, upright=True, color="#fff")
    symmetric(chart, most, lambda x: f"{abs(x):,.0f}")
    chart.y.ticks = [(float(a), str(a)) for a in range(0, int(top), 20)]
    chart.x.label, chart.y.label = label, "age"
    chart.finish("", 0)


def _band(
    low: AgeValues, high: AgeValues, edges: NDArray[np.int64]
) -> tuple[Sequence[float], Sequence[float]]:
    """Between two outlines."""
    (x, y), (back, down) = steps(low, edges), steps(high, edges)
    return [*x[1:-1], *reversed(back[1:-1])], [*y[1:-1], *reversed(down[1:-1])]


# Pictures of the ages of places, from a release and its replicates.

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

    def chosen(self, spine: Spine, persons: Ints) -> tuple[Ints, int]:
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
    shown, left_out = replace(choice, level=level).chosen(spine, ages.sum(axis=(1, 2)))
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
    errors = ReplicateErrors.from_replicates(value, np.array([statistic(d) for d in drawn]))
    made = interval(value, errors, asked.coverage).clipped(0, _MOST)
    return AgeCounts(value, made.lower, made.upper)


def write(source: ReleaseSource, pictures: AgePictures, out: Path) -> None:
    """The page."""
    title = f"Ages by {level_inside(pictures.level)}: {source.name}"
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


@click.command("ages")
@click.argument("run", type=PATH)
@click.option("--level", default="County", show_default=True, help="Such as Tract.")
@click.option("--geocode", "prefixes", multiple=True, help="Places whose code begins like this.")
@click.option("--name", "names", multiple=True, help="Places with this in their name.")
@click.option(
    "--first",
    type=click.IntRange(1),
    default=12,
    show_default=True,
    help="Most places; those with the most persons are shown.",
)
@click.option("--out", type=OUT, help="A file name in .html. Default: ages-<level>.html.")
@picture_option
@answering
def ages(
    run: Path,
    level: str,
    prefixes: tuple[str, ...],
    names: tuple[str, ...],
    first: int,
    out: Path | None,
    picture: Path | None,
) -> CommandAnswer:
    """Draw the ages of places of a RUN or release of the DHC: pyramids in classes of five years and
    in single years, and median ages. Where the release has intervals (`das intervals`), they are
    drawn."""
    source, found = age_pictures(run, PlaceChoice(level, prefixes, names, first))
    out = out or Path(f"ages-{found.level.replace(' ', '_')}.html")
    write(source, found, out)
    drawn = []
    if picture is not None:
        note = f"Published counts of the {len(found.names)} places with the most persons: {source.name}."
        main = Picture(medians(found), conclusion(found), note, source.private)
        drawn = [write_picture(picture, main)]
    said = {
        "ages": str(out),
        "places": list(found.names),
        "replicates": found.replicates,
        "left_out": found.left_out,
    }

    def show() -> None:
        warn(source.private)
        if not found.replicates:
            why = source.unfinished or "das intervals makes them"
            click.echo(f"without intervals: {why}")
        for name in (out, *drawn):
            click.echo(f"written: {name}")

    return CommandAnswer(marked(said, source.private), show)
