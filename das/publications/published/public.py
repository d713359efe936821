"""Counts over a tree, measured by another publisher: what can be done with them, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from markupsafe import Markup

from das.accounting.document import ALTERED, ForeignLine, ForeignStatement, Invariant, Line
from das.engine import Progress, executor
from das.errors import ReleaseError, UserError
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.release import own_bytes, statement
from das.files.release.statement import adopt
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.model.measurement import SparseSource
from das.model.redistricting import SCHEMAS
from das.model.universe import PERSONS
from das.publications.counts.public import PublicCounts
from das.publications.dhc import public as on_demand_rows
from das.publications.dhc import publishing as dhc_dictionary
from das.publications.dhc import release_files
from das.publications.dhc.figures import LISTED, aged, dhc_lookup, drawn, looked_up
from das.publications.dhc.files import fixed_counts
from das.publications.dhc.model.microdata import person_form
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.page import FILES as PAGE_FILES
from das.publications.dhc.page import NAME, margins, person_headlines, profiles, shown_level, worst
from das.publications.dhc.public import PublicDhc
from das.publications.published.dhc import (
    SPEC,
    OpenedPublishedDhc,
    RecordedAnswers,
    open_published_dhc,
    write_public,
)
from das.publications.published.files import dhc as files
from das.publications.published.files import layout
from das.publications.published.files.dhc import check_redistricting
from das.publications.published.files.listing import first
from das.publications.published.files.outside import NOTHING, Outside
from das.publications.published.replicates import PersonsReplicates
from das.release import dictionary
from das.release.dictionary import DictionaryLine, of_files, of_universe
from das.release.estimating import certificates_json
from das.release.outcome import Outcome
from das.release.publications import (
    PublicHalf,
    Recomputation,
    Rerun,
    RowOptions,
    estimate_again,
    publication_of,
)
from das.release.replicate_source import ReleaseSource
from das.release.seal import Wording, seal
from das.release.verify.measured import check_queries
from das.report.facts import facts
from das.report.template import PublicFrame, place_of, public_page
from das.spec import Specification
from das.spec.published import not_measured_by_us
from das.stages import Stages
from das.version import __version__


class PublicPublished(PublicCounts):
    """``outside``: what is known of places besides measurements in the Bureau's layout."""

    def __init__(self, outside: Outside = NOTHING) -> None:
        self.outside = outside

    def again(self, rerun: Rerun) -> Recomputation:
        """Estimate from measurements in the Bureau's layout, or again from a release that was made
        of them."""
        from das.publications.published.files import layout  # no run needs it

        into = rerun.into.release
        if not layout.is_published(rerun.release):
            return super().again(rerun)
        with rerun.stages("convert"):
            layout.convert(rerun.release, into, progress=rerun.progress, outside=self.outside)
        return self.estimated(rerun, into)


# The DHC's persons in measurements of another publisher: what can be done with them, without the
# truth (:class:`das.release.publications.PublicHalf`).

_ELSEWHERE = (
    "another publisher measured, and states the budget and the guarantee: here are its files alone"
)
_COUNTIES = "its units are those of the files, and not blocks: areas do not add up from them"


class PublicPublishedDhc(PublicHalf):
    """``outside``: the names of places, which measurement files do not hold."""

    title = "the DHC's persons, measured by another publisher"
    cannot: Mapping[str, str] = {
        **dict.fromkeys(
            ("plan", "plan --margin", "plan --areas", "plan --page", "optimize", "spine"),
            _ELSEWHERE,
        ),
        "sealed": f"{_ELSEWHERE}; `das nmf verify` checks the files",
        "recompute": f"{_ELSEWHERE}; `das estimate --from` the release makes the counts again",
        **dict.fromkeys(("area", "tables --areas"), _COUNTIES),
        **{f: PublicDhc.cannot[f] for f in ("estimate --set", "risk", "arrays")},
    }
    needed: Sequence[str] = (SPEC, "spine.parquet")

    def __init__(self, outside: Outside = NOTHING) -> None:
        self.outside = outside

    def resolved(self, spec: Specification) -> NoReturn:
        raise not_measured_by_us("a configuration")

    def opened(self, release: Path) -> OpenedPublishedDhc:
        return open_published_dhc(release)

    def source(self, release: Path) -> ReleaseSource:
        return PersonsReplicates.from_release(open_published_dhc(release))

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        return on_demand_rows.summary(*_asked(path, asked))

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return on_demand_rows.rows(*_asked(path, asked))

    def planned(self, release: Path) -> NoReturn:
        raise not_measured_by_us(release)

    def check_measured(self, release: Path, said: Any) -> Sequence[Line | ForeignLine]:
        """The answers that were looked at are of the queries, units and variances that are
        stated."""
        opened = open_published_dhc(release)
        source = opened.source(opened.universe)
        lines = said.measured if isinstance(said, ForeignStatement) else ()
        for level in opened.tree.levels:
            check_queries(lines, PERSONS.name, level, source.queries(level), source.root)
        for line in lines:
            variance = source.variance(line.level, line.query)
            there = np.isfinite(variance)
            least, most = line.variance.least * (1 - 1e-5), line.variance.most * (1 + 1e-5)
            shape = int(there.sum()), source.shape(line.level, line.query)[1]
            outside = (variance[there] < least) | (variance[there] > most)
            if shape != (line.units, line.answers) or outside.any():
                raise ReleaseError(
                    f"{shape[0]} units with {shape[1]} answers, or their variances, are not those of"
                    " the statement",
                    where=f"{source.root}, {line.level}, {line.query}",
                    remedy=ALTERED,
                )
        return lines

    def check_layout(self, release: Path) -> None:
        raise not_measured_by_us(release)

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        raise not_measured_by_us(release)

    def check_published(self, release: Path, wording: Wording) -> None:
        raise not_measured_by_us(release)

    def again(self, rerun: Rerun) -> Recomputation:
        """Estimate from published files, or again from a release that was made of them."""
        opened, source, keep = self._begun(rerun)
        with rerun.stages("estimate"), executor(rerun.workers) as pool:
            done, notes = opened.estimate(source, pool, rerun.progress)
            keep()
        said = publish(opened, done, notes, rerun.stages, rerun.progress)
        certificates = certificates_json({PERSONS.name: done.certificates})
        return Recomputation(
            opened.spec.run.name,
            opened.spec.digest,
            opened.spec.private,
            {"certificates": certificates},
            (*said.says, *notes),
        )

    def _begun(
        self, rerun: Rerun
    ) -> tuple[OpenedPublishedDhc, Callable[[int], SparseSource], Callable[[], None]]:
        """The new release as far as it is before it is estimated; the source of each of its
        trees; and what keeps what they were asked."""
        release, out = rerun.release, rerun.into.release
        if not layout.is_published(release):
            with rerun.stages("take over"):
                adopt(release, out, [SPEC, fixed_counts.name(PERSONS.name)])
                statement.write(out, statement.read(release))
            opened = open_published_dhc(out)
            return opened, opened.of_tree, _nothing
        with rerun.stages("read"):
            told = files.read(release, rerun.progress)
            write_public(out, release.resolve().name or "published", told, self.outside)
        opened = open_published_dhc(out)
        recorded = RecordedAnswers(opened, told.answers())
        return opened, recorded.source, recorded.keep


def _nothing() -> None:
    """A release has its answers already."""


def _asked(path: Path, asked: RowOptions) -> tuple[OpenedPublishedDhc, RowOptions]:
    return open_published_dhc(run_directory.release_above(path) or path), asked


# What is published of the DHC's persons alone, from estimates: microdata, tables, dictionary and
# page, under a seal. Nothing here can see the truth.

#: Of every release, the files that this has, too.
FILES = {name: says for name, says in dhc_dictionary.FILES.items() if name != "ledger.jsonl"}


def publish(
    opened: OpenedPublishedDhc,
    done: OuterEstimates,
    notes: tuple[str, ...],
    stages: Stages,
    progress: Progress,
) -> ForeignStatement:
    """Write it into the folder of the release, and seal it with its statement, which is
    returned."""
    spec, out = opened.spec, opened.folder
    counts = {PERSONS.name: done.counts}
    with stages("microdata and tables"):
        release_files.write(
            out,
            opened.spine,
            counts,
            name=spec.run.name,
            private=spec.private,
            csv=spec.output.csv,
            tables=spec.output.tables,
            progress=progress,
        )
    lines = dictionary.written(entries(opened), spec.private)
    atomic.write_text(out / dictionary.NAME, lines)
    said = statement.read(out)
    if not isinstance(said, ForeignStatement):
        raise ReleaseError("its statement is not that of another publisher", where=out)
    if spec.output.report:
        with stages.page("report of the release", out / NAME):
            progress.stage("report of the release", None)
            write_page(opened, done, said, notes)
    with stages("seal"):
        return seal(out, said, spec.run.name)


def entries(opened: OpenedPublishedDhc) -> Iterator[DictionaryLine]:
    """The lines of the dictionary."""
    spec, u, spine = opened.spec, opened.universe, opened.spine
    yield from of_universe("", of_files(FILES), dictionary.of_tree(spine))
    parts = [
        dictionary.of_schema(u.schema),
        dictionary.of_microdata(person_form(), u.schema, u.name, u.records, spine, spec.output.csv),
        dhc_dictionary.measurements(u),
    ]
    if spec.output.tables:
        tables = release_files.tables_of(u.name)
        parts.append(dictionary.of_tables(tables, u.records, spine, {}, spec.private))
    yield from of_universe(u.name, *parts)


# ``release/report.html`` of the DHC's persons alone, from published counts: ages of every place, a
# look-up, and how large the noise is. Nothing here can see the truth.

_WHAT = "Demographic and Housing Characteristics (DHC), persons"


def write_page(
    opened: OpenedPublishedDhc,
    done: OuterEstimates,
    privacy: ForeignStatement,
    notes: tuple[str, ...],
) -> None:
    """Write the page into the folder of the release. ``notes``: what was done that a reader should
    know, besides what the statement says."""
    spine, spec, out = opened.spine, opened.spec, opened.folder
    shown = shown_level(spine)
    look_up = dhc_lookup(
        spine, {lv: list(person_headlines(done.counts[lv])) for lv in looked_up(spine)}, shown
    )
    places = profiles(spine, {"persons": done.counts})
    listed = aged(places.first(LISTED))
    name = spec.run.name
    page = public_page(
        "persons.html",
        facts(name, DHCP, privacy, own_spine=False),
        PublicFrame(
            place_of(spine, name), _WHAT, name, __version__, (), own_bytes.listed(out, PAGE_FILES)
        ),
        levels=[(level, spine.units(level)) for level in spine.levels],
        privacy_page=True,
        noise=list(margins(opened.universe)),
        notes=[*privacy.says, *notes],
        measured=spec.measured,
        worst=worst(done.certificates.values()),
        lookup=Markup(look_up[0]),
        left_out=look_up[1],
        listed=listed,
        root=listed[0],
        **drawn(places),
    )
    atomic.write_text(out / NAME, page)


# Everything after measurement, from the files of a release alone: `das estimate --from`.
#
# Like ``das.release.post_processing``, nothing here can see the truth.


def estimate_from(
    release: Path,
    out: Path,
    *,
    changes: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
    outside: Outside = NOTHING,
) -> Outcome:
    """Estimate again from a release of ours, or from measurements in the Bureau's layout, as
    :func:`das.release.publications.estimate_again`. ``outside``: totals, names and areas that
    measurements in the Bureau's layout do not hold."""
    RunDirectory(out).refuse_if_taken()
    if not layout.is_published(release) and not (release / "spec.toml").is_file():
        raise ReleaseError(
            "this is no release: it has no spec.toml, and no folders <Level>.parquet",
            where=release,
            remedy="give the folder release/ of a run, or noisy measurement files in the Bureau's"
            " layout",
        )
    half = _half(release, outside)
    return estimate_again(release, out, half, changes=changes, workers=workers, progress=progress)


def _half(release: Path, outside: Outside) -> PublicHalf:
    """The public half for a release, or for files in the Bureau's layout by their schema; what is
    known outside of it is for files without our own."""
    if layout.is_published(release):
        found = first(release)
        if outside.dhc is not None and found is not None:
            check_redistricting(found[0].name, release)
        if found is not None and found[0].name == SCHEMAS["dhcp"].name:
            return PublicPublishedDhc(outside)
        return PublicPublished(outside)
    if outside != NOTHING:
        raise UserError(
            "totals, names or other measurements are given, but this is a release, which has its"
            " own",
            where=release,
            remedy="leave out --totals, --published and --with",
        )
    return publication_of(release)
