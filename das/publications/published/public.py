"""Counts over a tree, measured by another publisher: what can be done with them, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from das.accounting.document import ALTERED, ForeignLine, ForeignStatement, Invariant, Line
from das.engine import executor
from das.errors import ReleaseError, UserError
from das.files.release import statement
from das.files.release.statement import adopt
from das.files.run import run_directory
from das.model.measurement import SparseSource
from das.model.universe import PERSONS
from das.publications.counts.public import PublicCounts
from das.publications.dhc import public as on_demand_rows
from das.publications.dhc.files import fixed_counts
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
from das.publications.published.files.outside import NOTHING, Outside
from das.publications.published.publishing import publish
from das.publications.published.replicates import PersonsReplicates
from das.release.estimating import certificates_json
from das.release.publications import PublicHalf, Recomputation, Rerun, RowOptions
from das.release.replicate_source import ReleaseSource
from das.release.seal import Wording
from das.release.verify.measured import check_queries
from das.spec import Specification


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
        **dict.fromkeys(("plan", "plan --margin", "plan --areas", "optimise", "spine"), _ELSEWHERE),
        "sealed": f"{_ELSEWHERE}; `das nmf verify` checks the files",
        "recompute": f"{_ELSEWHERE}; `das estimate --from` the release makes the counts again",
        **dict.fromkeys(("area", "tables --areas"), _COUNTIES),
        **{f: PublicDhc.cannot[f] for f in ("estimate --set", "risk", "arrays")},
    }
    needed: Sequence[str] = (SPEC, "spine.parquet")

    def __init__(self, outside: Outside = NOTHING) -> None:
        self.outside = outside

    def resolved(self, spec: Specification) -> NoReturn:
        raise _measured_elsewhere("a configuration")

    def opened(self, release: Path) -> OpenedPublishedDhc:
        return open_published_dhc(release)

    def source(self, release: Path) -> ReleaseSource:
        return PersonsReplicates.from_release(open_published_dhc(release))

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        return on_demand_rows.summary(*_asked(path, asked))

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return on_demand_rows.rows(*_asked(path, asked))

    def planned(self, release: Path) -> NoReturn:
        raise _measured_elsewhere(release)

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
        raise _measured_elsewhere(release)

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        raise _measured_elsewhere(release)

    def check_published(self, release: Path, wording: Wording) -> None:
        raise _measured_elsewhere(release)

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


def _measured_elsewhere(where: object) -> UserError:
    return UserError(
        "these measurements came from another publisher: their budget is not known",
        where=where,
        remedy="give a release that das run made",
    )


def _asked(path: Path, asked: RowOptions) -> tuple[OpenedPublishedDhc, RowOptions]:
    return open_published_dhc(run_directory.release_above(path) or path), asked
