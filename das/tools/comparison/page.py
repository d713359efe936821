"""``confidential/compare.html``: noisy measurements and published counts side by side, by query and
by size of the true count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from das.accounting.document import NAME, Account, ForeignStatement, Statement
from das.engine.tasks import SILENT, Progress
from das.errors import UserError
from das.files import rows_csv
from das.files.atomic import write_text
from das.files.messages import privacy_of
from das.files.readers import published_pl94
from das.files.release import statement
from das.files.run.ledger import measurements
from das.files.run.run_directory import RunDirectory, release_of
from das.model.areas import Areas
from das.model.error_rows import CLASSES, Comparison, DifferenceRow, TwoErrorsRow
from das.model.frozen import Frozen, NoRepr
from das.model.mechanisms import COVERAGE
from das.model.names import Codes, blank, encoded, geoids, level_words, text
from das.model.not_private import Private, weakest
from das.model.source import CountsByBlock
from das.model.universe import Universe, kind_of
from das.publications.dhc.truth.evaluation import SMALL
from das.release.area_counts import AreaColumn, Statistic, counts, statistics
from das.release.publications import source_of
from das.release.replicate_source import ReleaseSource
from das.report.chart import Chart
from das.report.facts import BETWEEN, PUBLISHED, SERIES, class_ticks, height_of
from das.report.panel import MarkStyle, Words, short
from das.report.template import render
from das.truth.assessment import true_counts
from das.truth.evaluation import differences, errors_of_two


def compare_page(
    rows: Sequence[Comparison], name: str, private: Private, titles: Mapping[str, str]
) -> str:
    """One self-contained page: for each level a panel of ratios and a panel of biases, then the
    table. ``titles`` are words for queries."""
    levels = list(dict.fromkeys(r.level for r in rows))
    panels = []
    for i, level in enumerate(levels):
        here = [r for r in rows if r.level == level and r.ratio is not None]
        if here:
            ratios = _ratios(here, level, f"r{i}", titles)
            biases = _biases(here, level, f"b{i}", titles)
            panels.append((level, Markup(ratios), Markup(biases)))
    table = [r for r in rows if r.bin == "all"]
    return render(
        "compare.html",
        confidential=True,
        name=name,
        private=private,
        panels=panels,
        rows=table,
        titles=titles,
    )


def _ratios(rows: Sequence[Comparison], level: str, name: str, titles: Mapping[str, str]) -> str:
    """MAE of the published counts over that of the measurements: a mark for each query, coarse to
    fine."""
    every = [r for r in rows if r.bin == "all"]
    words = [short(titles.get(r.query, r.query)) for r in every]
    chart = Chart(4.6, 0.95 + height_of(words, 0.14))
    chart.x.log = True
    chart.rule(1, upright=True)
    for y, r in enumerate(every):
        x = max(r.ratio or 0, 1e-4)
        if r.ratio:
            chart.plot([1, x], [y, y], MarkStyle(BETWEEN, "-", width=1.2), z=1)
        else:
            chart.say(Words("no error", x, y, 8))
        chart.plot([x], [y], MarkStyle(PUBLISHED, mark="s"))
    chart.rows(words)
    chart.ends_at("MAE published / MAE noisy (log scale)")
    chart.finish(level_words(level), 0)
    return chart.svg(name, f"Ratio of mean absolute errors by query: {level}")


def _biases(rows: Sequence[Comparison], level: str, name: str, titles: Mapping[str, str]) -> str:
    """Mean error by class of the true count, with its interval, for the coarsest and the finest
    query."""
    queries = list(dict.fromkeys(r.query for r in rows))
    queries = list(dict.fromkeys([queries[0], queries[-1]]))
    classes = [c for c in CLASSES if any(r.bin == c for r in rows)]
    chart = Chart(4.6, 2.9)
    chart.rule(0)
    for k, (query, (color, marker, _)) in enumerate(zip(queries, SERIES, strict=False)):
        at = {r.bin: r for r in rows if r.query == query}
        here = [(i + 0.12 * k, at[c]) for i, c in enumerate(classes) if c in at]
        x, y = [x for x, _ in here], [r.bias_published for _, r in here]
        low = [r.bias_published if r.bias_low is None else r.bias_low for _, r in here]
        high = [r.bias_published if r.bias_high is None else r.bias_high for _, r in here]
        title, noisy = titles.get(query, query), [r.bias_noisy or 0.0 for _, r in here]
        chart.errors(x, y, low, high, MarkStyle(color))
        chart.plot(x, y, MarkStyle(color, mark=marker, size=5), f"{title}, published")
        chart.plot(
            x, noisy, MarkStyle(color, mark=marker, face="#fff", size=5), f"{title}, noisy", z=1
        )
    chart.y.threshold, chart.y.margin = 0.1, 0.1
    class_ticks(chart, classes)
    chart.ends_at("true count")
    chart.y.label = "mean of count − true count"
    chart.finish(level_words(level), 2)
    return chart.svg(name, f"Bias by size of the true count: {level}")


# Rows of a comparison of published counts with what measurements say about the same places.


@dataclass(frozen=True)
class PublishedCountRow:
    """One count of one place: as ``published``, and the unbiased ``estimate`` from all
    measurements, its ``standard_error``, and the interval ``low`` to ``high``. ``outside`` is 1
    where the published count is not in it. A place that nothing tells has no row."""

    level: str
    code: str
    geoid: str
    name: str
    field: str
    label: str
    published: int
    estimate: float
    standard_error: float
    low: int
    high: int
    outside: int


@dataclass(frozen=True)
class PublishedShareRow:
    """One count over all places of a level, or of a kind of area.

    ``share_outside``: how many of the ``places``, in percent, have a published count that is not in
    their interval. ``exact`` of them are known exactly, and left out of what follows.
    ``difference`` is the mean absolute difference of published count and estimate. ``error`` is the
    mean standard error. ``z_square`` is the mean of squared differences in standard errors; for the
    truth itself it is 1 on average."""

    level: str
    field: str
    label: str
    places: int
    exact: int
    share_outside: float
    difference: float | None
    error: float | None
    z_square: float | None


# The page of published counts next to what the measurements say: "the count of your town, and how
# sure it is".
#
# A function of published values alone, so it is as public as they are.

#: Places that a page lists, level by level from the upper ones: those of a level that has no room
#: are in the file of all.
ROOM = 4000


@dataclass(frozen=True)
class ListedPlace:
    """One place of the list: its level, title and GEOID, and its first counts."""

    level: str
    title: str
    geoid: str
    counts: tuple[PublishedCountRow, ...]


@dataclass(frozen=True)
class PublishedPage:
    """What the page shows. ``lines`` are places with room for them, and ``left_out`` the levels
    without; ``fields`` are the counts of a line."""

    name: str
    source: str
    coverage: float
    shares: tuple[PublishedShareRow, ...]
    fields: tuple[tuple[str, str], ...]
    lines: tuple[ListedPlace, ...]
    left_out: tuple[str, ...]
    elsewhere: int
    notes: tuple[str, ...] = ()

    @staticmethod
    def from_rows(
        name: str,
        source: str,
        coverage: float,
        rows: Sequence[PublishedCountRow],
        shares: Sequence[PublishedShareRow],
        elsewhere: int,
        notes: Sequence[str],
        most: int = 3,
    ) -> PublishedPage:
        """With the first ``most`` counts of each place."""
        fields = list(dict.fromkeys((r.field, r.label) for r in rows))[:most]
        shown = [r for r in rows if (r.field, r.label) in fields]
        lines: list[ListedPlace] = []
        left_out = []
        for level, group in groupby(shown, key=attrgetter("level")):
            places = [
                ListedPlace(
                    level,
                    f"{first.name} ({first.code})" if first.name else first.code,
                    first.geoid,
                    counts,
                )
                for _, of in groupby(group, key=attrgetter("code"))
                for counts in [tuple(of)]
                for first in [counts[0]]
            ]
            if len(lines) + len(places) > ROOM:
                left_out.append(level)
            else:
                lines += places
        return PublishedPage(
            name, source, coverage, tuple(shares), tuple(fields), tuple(lines), tuple(left_out),
            elsewhere, tuple(notes),
        )  # fmt: skip

    def html(self, private: Private) -> str:
        """The page. The same values give the same page."""
        return render(
            "published.html", page=self, percent=f"{100 * self.coverage:g}", private=private
        )


# Two estimates compared, such as two methods on one noise or two runs. Where the truth is
# available, both are compared with it, for ``confidential/`` only; otherwise only their published
# counts are compared.

# Published counts held against what noisy measurements say about the same places.
#
# All measurements together give an unbiased estimate :math:`\hat t` of each count :math:`t`, its
# standard error :math:`s`, and an interval (:mod:`das.release.area_counts`). A published count is no truth: its publisher made it from the same
# measurements, with constraints and rounding. So it can be nearer to the truth than the estimate, and
# its :math:`z = (p - \hat t)/s` need not have mean square 1. A count far outside its interval is a
# place whose published count the measurements do not support.
#
# Units of the levels, and areas such as cities, are taken together as areas of blocks: one pass over
# the measurements gives all of them. Like ``das.release.post_processing``, nothing here can see the truth.

Ints = NDArray[np.int64]

#: Kinds of areas that are compared unasked, besides the levels above the block.
KINDS = ("Place",)
#: What is counted unasked, as far as both have it, in a reader's words; columns of P1 to P5 and H1.
FIELDS = {
    "P0010001": "Population",
    "P0030001": "18 years and over",
    "P0020002": "Hispanic or Latino",
    **{f"P001{n:04d}": "" for n in range(3, 9)},  # races alone
    "P0050001": "In group quarters",
    "H0010001": "Housing units",
    "H0010002": "Occupied housing units",
    "H0010003": "Vacant housing units",
}


@dataclass(frozen=True, eq=False)
class ComparedPlaces(Frozen):
    """Places of one level or kind: which ``rows`` of all places they are, their ``codes``, GEOIDs
    and names."""

    level: str
    rows: slice
    codes: Codes
    geoids: Codes
    names: NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class PublishedComparison(Frozen):
    """``columns``: what the measurements say about each count of all places; ``published``
    ``(columns, places)``. ``elsewhere``: persons (or units) published in blocks that the
    measurements do not have."""

    coverage: float
    places: tuple[ComparedPlaces, ...]
    columns: tuple[AreaColumn, ...]
    published: Ints
    elsewhere: int

    def outside(self, column: int) -> NDArray[np.bool_]:
        """Where a published count is not in its interval, ``(places,)``."""
        c, p = self.columns[column], self.published[column]
        return c.known & ((p < c.low) | (p > c.high))

    def rows(self) -> list[PublishedCountRow]:
        """A row for each count of each place."""
        return [
            self._row(p, i, j)
            for p in self.places
            for i in range(p.rows.stop - p.rows.start)
            for j in range(len(self.columns))
            if self.columns[j].known[p.rows.start + i]
        ]

    def _row(self, p: ComparedPlaces, i: int, j: int) -> PublishedCountRow:
        c, at = self.columns[j], p.rows.start + i
        return PublishedCountRow(
            p.level,
            p.codes[i].decode(),
            p.geoids[i].decode(),
            str(p.names[i]),
            c.statistic.field,
            label(c.statistic),
            int(self.published[j, at]),
            round(float(c.estimate[at]), 2) + 0.0,
            round(float(c.error[at]), 2),
            int(c.low[at]),
            int(c.high[at]),
            int(self.outside(j)[at]),
        )

    def shares(self) -> list[PublishedShareRow]:
        """A row for each count of each level or kind."""
        return [self._share(p, j) for p in self.places for j in range(len(self.columns))]

    def _share(self, p: ComparedPlaces, j: int) -> PublishedShareRow:
        c = self.columns[j]
        known, error = c.known[p.rows], c.error[p.rows]
        exact = known & (c.low == c.high)[p.rows]
        outside, free = self.outside(j)[p.rows], known & ~exact
        off = self.published[j, p.rows][free] - c.estimate[p.rows][free]
        some = bool(free.any())
        return PublishedShareRow(
            p.level,
            c.statistic.field,
            label(c.statistic),
            int(known.sum()),
            int(exact.sum()),
            round(100 * float(outside.sum() / max(known.sum(), 1)), 2),
            round(float(np.abs(off).mean()), 3) if some else None,
            round(float(error[free].mean()), 3) if some else None,
            round(float(((off / error[free]) ** 2).mean()), 3) if some else None,
        )


def label(statistic: Statistic) -> str:
    """What a count is called: many tables have a column Total."""
    return FIELDS.get(statistic.field) or statistic.label


def compare(
    source: ReleaseSource,
    published: CountsByBlock,
    *,
    levels: Sequence[str] = (),
    fields: Sequence[str] = (),
    coverage: float = COVERAGE,
) -> PublishedComparison:
    """Hold ``published`` against the measurements of a release, for places of ``levels`` (or kinds
    of areas) and columns ``fields`` of tables; without these, the usual ones.

    Raises:
        UserError: no measurements that were drawn whole, no such level or column, or none of the
            release's blocks is published."""
    if source.measured is None:
        raise UserError(
            "its answers were measured on demand, and give no estimates of areas",
            where=source.folder,
            remedy="`das intervals` has intervals of its published counts",
        )
    areas, places = _places(source, levels)
    asked = _asked(source, published, fields)
    own, elsewhere = _at_units(source, published, asked)
    found = counts(source, areas, asked, coverage)
    sums = np.stack(
        [np.bincount(areas.area, weights=o[areas.unit], minlength=len(areas)) for o in own]
    ).astype(np.int64)
    return PublishedComparison(coverage, tuple(places), found.columns, sums, elsewhere)


def _at_units(
    source: ReleaseSource, published: CountsByBlock, asked: Sequence[Statistic]
) -> tuple[Ints, int]:
    """The published counts of the lowest units, ``(columns, units)``, and how many of the first
    column are in other blocks."""
    level = source.spine.levels[-1]
    blocks = published.fields["Block"]
    unit = source.spine.find(level, published.fields.get(level, blocks))
    if not (here := unit >= 0).any():
        raise UserError(
            f"none of the {source.spine.units(level):,} units of level {level} is in"
            f" {published.source}",
            where="--published",
            remedy="give the redistricting files of the same states",
        )
    values = published.values[[published.columns.index(s.field) for s in asked]]
    own = np.zeros((len(asked), source.spine.units(level)), dtype=np.int64)
    for into, counted in zip(own, values, strict=True):
        np.add.at(into, unit[here], counted[here])
    return own, int(values[0][~here].sum())


def _asked(
    source: ReleaseSource, published: CountsByBlock, fields: Sequence[str]
) -> list[Statistic]:
    """The columns that are asked for, or the usual ones that both have."""
    tables = {f for _, t in source.tables for f in t.columns}
    both = tables & set(published.columns)
    if lost := [f for f in fields if f not in both]:
        raise UserError(
            f"there is no column {lost[0]!r} in both the release's tables and the published files",
            where="--statistics",
            remedy=f"there are {', '.join(sorted(both)[:12])}, ...",
        )
    wanted = fields or [f for f in FIELDS if f in both]
    found = [s for s in statistics(source, wanted) if isinstance(s, Statistic)]
    if not found:
        raise UserError(
            "the release has no table that is published", where=source.folder, remedy="name columns"
        )
    return found


def _places(source: ReleaseSource, levels: Sequence[str]) -> tuple[Areas, list[ComparedPlaces]]:
    """All places as areas of one kind, whose codes begin with their level."""
    spine = source.spine
    kinds = {level: Areas.of_level(spine, level) for level in spine.levels}
    kinds |= {a.kind: a for a in source.areas()}
    usual = [
        level
        for level in spine.levels
        if level != "Block" and (spine.units(level) > 1 or level == "State")
    ]
    wanted = list(levels) or [*usual, *(k for k in KINDS if k in kinds)]
    if lost := [level for level in wanted if level not in kinds]:
        raise UserError(
            f"there is no level or kind of area {lost[0]!r}",
            where="--level",
            remedy=f"there are {', '.join(kinds)}",
        )
    area, unit, codes, places, start = [], [], [], [], 0
    for level in wanted:
        a = kinds[level]
        area.append(a.area + start)
        unit.append(a.unit)
        codes.append(encoded([f"{level}:{code}" for code in text(a.codes).tolist()]))
        known = geoids(level, a.codes) if level in spine.levels else a.geoids
        called = a.called if a.names is not None else blank(len(a))
        places.append(ComparedPlaces(level, slice(start, start + len(a)), a.codes, known, called))
        start += len(a)
    joined = Areas("places", np.concatenate(codes), np.concatenate(area), np.concatenate(unit))
    return joined, places


# The epsilons of a privacy statement as one table: by relation of the neighbors, and by change.

#: How a table calls the two guarantees, and single changes.
ANY_TWO = "any two data sets"
AGREE = "data sets that agree on what is published exactly"
ONE_CHANGE = "one change of a record"


def stated_losses(said: Account) -> tuple[Fraction, dict[tuple[str, str], float]]:
    """The delta of the specification, and the upper ends of epsilon at it: by relation, then by
    universe (``total``: one record of each together) or by change."""
    changes = {u: lines for u, lines in said.changes.items() if lines}
    delta = next(iter(changes.values()))[0].delta if changes else Fraction(0)
    out: dict[tuple[str, str], float] = {}
    for relation, by in ((ANY_TWO, said.guarantee), (AGREE, said.invariant_neighbours or {})):
        stated = {universe: promise.upper(delta) for universe, promise in by.items()}
        out |= {(relation, u): epsilon for u, epsilon in stated.items() if epsilon is not None}
    for universe, lines in changes.items():
        out |= {(ONE_CHANGE, f"{universe}: {c.says}"): c.upper for c in lines}
    return delta, out


@dataclass(frozen=True)
class TwoLosses:
    """Epsilon of both at one delta, of the same relation of neighbors and the same change."""

    between: str
    what: str
    a: float
    b: float


@dataclass(frozen=True, repr=False)
class Two(NoRepr):
    """Rows by universe: errors of both where there is a ``truth`` (the run that holds it; then they
    are ``written`` there), else differences. ``one_noise``: both are estimates of the same
    measurements. ``losses``: what both privacy statements say, where das drew the noise."""

    names: tuple[str, str]
    rows: Mapping[str, Sequence[TwoErrorsRow] | Sequence[DifferenceRow]]
    one_noise: bool
    private: Private
    truth: Path | None
    written: tuple[Path, ...]
    losses: tuple[TwoLosses, ...] = ()


def compare_two(a: Path, b: Path, truth: Path | None = None) -> Two:
    """Compare the published counts of ``a`` and ``b``, runs or releases with the same published
    spine and schema. Their measured spines may differ. The truth is that of the run ``truth``, else
    of ``a`` or ``b`` if one of them has a confidential part.

    Raises:
        UserError: they do not count the same persons' attributes over the same tree."""
    one, other = (source_of(release_of(p), "compare") for p in (a, b))
    theirs = {v.name: v for v in other.universes}
    shared = [u for u in one.universes if u.name in theirs]
    _check_same_world(one, other, a, b)
    names, private = (_name(a), _name(b)), weakest([privacy_of(a), privacy_of(b)])
    noise = [measurements(x.folder) for x in (one, other)]
    truth = truth or next((p for p in (a, b) if RunDirectory(p).has_truth()), None)
    known = None
    if truth is not None:
        _check_same_world(one, source_of(RunDirectory(truth).release, "compare"), a, truth)
        known = true_counts(truth, [u.name for u in shared], one.spine)
        private = weakest([private, privacy_of(truth)])
    rows: dict[str, Sequence[TwoErrorsRow] | Sequence[DifferenceRow]] = {}
    for u in shared:
        x, y = (s.counts(v).upward(s.spine) for s, v in ((one, u), (other, theirs[u.name])))
        asked = _queries(one, other, u, theirs[u.name])
        if known is None:
            rows[u.name] = list(differences(x, y, one.spine, u.schema, asked))
        else:
            rows[u.name] = list(errors_of_two(known[u.name], x, y, one.spine, u.schema, asked))
    written = _write(truth, names, rows, private) if truth is not None else ()
    losses = _losses(one.folder, other.folder)
    return Two(names, rows, noise[0] == noise[1], private, truth, written, losses)


def _losses(one: Path, other: Path) -> tuple[TwoLosses, ...]:
    """What both statements state at the same delta; nothing where das drew the noise of one only."""
    if not all((folder / NAME).exists() for folder in (one, other)):
        return ()
    a, b = statement.read(one), statement.read(other)
    if not isinstance(a, Statement) or not isinstance(b, Statement):
        return ()
    (delta, first), (same, second) = stated_losses(a), stated_losses(b)
    if delta != same:
        return ()
    return tuple(TwoLosses(*key, first[key], second[key]) for key in first if key in second)


def _queries(
    one: ReleaseSource, other: ReleaseSource, universe: Universe, same: Universe
) -> dict[str, list[str]]:
    """By level what was measured of a universe in one or the other; of measurements on request the
    queries whose answers can be held."""
    most = SMALL if one.measured is None else universe.schema.cells
    first, second = one.queries(universe), other.queries(same)
    return {
        level: [
            q for q in (*first[level], *second[level]) if universe.schema.query(q).answers <= most
        ]
        for level in one.spine.levels
    }


def _name(path: Path) -> str:
    """The name of the run, for a run or its folder ``release/``."""
    path = path.resolve()
    return path.parent.name if path.name == "release" else path.name


def _write(
    truth: Path, names: tuple[str, str], rows: Mapping[str, Sequence[object]], private: Private
) -> tuple[Path, ...]:
    """One table for each universe, in the folder with the other errors of the run that holds the
    truth."""
    folder = RunDirectory(truth).errors.parent
    out = []
    for universe, found in rows.items():
        stem = kind_of(universe).file("-".join(("compare", *names)))
        out.append(
            rows_csv.write_rows(folder / f"{stem}.csv", TwoErrorsRow, found, private=private)
        )
    return tuple(out)


def _check_same_world(one: ReleaseSource, other: ReleaseSource, a: Path, b: Path) -> None:
    """They count the same attributes, of a universe that both have, over the same tree."""
    same = one.spine.levels == other.spine.levels
    if not (same and all(map(np.array_equal, one.spine.codes, other.spine.codes))):
        raise UserError(
            f"its places are not those of {a}",
            where=b,
            remedy="compare estimates over the same tree",
        )
    schemas, theirs = ({u.name: u.schema for u in x.universes} for x in (one, other))
    shared = schemas.keys() & theirs.keys()
    if not shared or any(schemas[u] != theirs[u] for u in shared):
        raise UserError(
            f"its attributes are not those of {a}",
            where=b,
            remedy="compare estimates of the same schema",
        )


# A release held against what was published of the same places, and the files of that.

COUNTS, SHARES, PAGE = "published.csv", "shares.csv", "index.html"


def compare_published(
    release: Path,
    published: Sequence[Path],
    out: Path,
    *,
    levels: Sequence[str] = (),
    fields: Sequence[str] = (),
    coverage: float = COVERAGE,
    progress: Progress = SILENT,
) -> PublishedComparison:
    """Hold the redistricting files ``published`` against the measurements of a release. Writes
    every count, the shares outside, and a page, in the folder ``out``.

    Raises as :func:`das.tools.comparison.page.compare`, and :class:`InputError` for files
    that are not readable."""
    source = source_of(release, "area")
    counted = published_pl94.read(published, progress=progress)
    progress.stage("compare", None)
    found = compare(source, counted, levels=levels, fields=fields, coverage=coverage)
    rows, shares, private = found.rows(), found.shares(), source.private
    said = statement.read(release)
    notes = said.says if isinstance(said, ForeignStatement) else ()
    page = PublishedPage.from_rows(
        source.name, counted.source, coverage, rows, shares, found.elsewhere, notes
    )
    rows_csv.write_rows(out / COUNTS, PublishedCountRow, rows, private=private)
    rows_csv.write_rows(out / SHARES, PublishedShareRow, shares, private=private)
    write_text(out / PAGE, page.html(private))
    return found
