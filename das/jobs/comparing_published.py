"""A release held against what was published of the same places, and the files of that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from das.accounting.document import ForeignStatement
from das.engine.progress import SILENT, Progress
from das.files import rows_csv
from das.files.atomic import write_text
from das.files.readers import published_pl94
from das.files.release import statement
from das.model.published_rows import PublishedCountRow, PublishedShareRow
from das.release.coverage import COVERAGE
from das.release.published_comparison import PublishedComparison
from das.release.published_comparison import compare as compare_counts
from das.release.sources import source_of
from das.report.published_page import PublishedPage

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

    Raises as :func:`das.release.published_comparison.compare`, and :class:`InputError` for files
    that are not readable."""
    source = source_of(release, "area")
    counted = published_pl94.read(published, progress=progress)
    progress.stage("compare", None)
    found = compare_counts(source, counted, levels=levels, fields=fields, coverage=coverage)
    rows, shares, private = found.rows(), found.shares(), source.private
    said = statement.read(release)
    notes = said.says if isinstance(said, ForeignStatement) else ()
    page = PublishedPage.of(
        source.name, counted.source, coverage, rows, shares, found.elsewhere, notes
    )
    rows_csv.write_rows(out / COUNTS, PublishedCountRow, rows, private=private)
    rows_csv.write_rows(out / SHARES, PublishedShareRow, shares, private=private)
    write_text(out / PAGE, page.html(private))
    return found
