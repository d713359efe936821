"""What `das compare --published` prints."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from das.cli.answer import CommandAnswer
from das.cli.console import console, records_table
from das.cli.options import warn
from das.engine.display import Live
from das.files.provenance import privacy_of
from das.files.run.run_directory import release_of
from das.jobs.comparing_published import COUNTS, PAGE, SHARES, compare_published
from das.model.not_private import Private, marked
from das.model.published_rows import PublishedShareRow
from das.release.published_comparison import PublishedComparison


def published_answer(
    run: Path,
    published: Sequence[Path],
    out: Path | None,
    levels: Sequence[str],
    fields: Sequence[str],
    coverage: float,
) -> CommandAnswer:
    """Compare, and print a line for each level and count."""
    release = release_of(run)
    folder = out or (run if run != release else release.parent) / "published"
    with Live(False) as progress:
        found = compare_published(
            release,
            published,
            folder,
            levels=levels,
            fields=fields,
            coverage=coverage,
            progress=progress,
        )
    private = privacy_of(release)
    data = {"coverage": coverage, "shares": [vars(r) for r in found.shares()]}
    return CommandAnswer(marked(data, private), lambda: _print(found, folder, coverage, private))


def _print(found: PublishedComparison, folder: Path, coverage: float, private: Private) -> None:
    warn(private)
    title = f"Published counts and their intervals at {100 * coverage:g} %"
    console().print(records_table(title, [_line(r) for r in found.shares()]))
    if found.elsewhere:
        click.echo(
            f"das: note: {found.elsewhere:,} are published in blocks that were not measured",
            err=True,
        )
    for name in (COUNTS, SHARES, PAGE):
        click.echo(f"written: {folder / name}")


def _line(r: PublishedShareRow) -> dict[str, Any]:
    return {
        "level": r.level,
        "count": f"{r.label} ({r.field})",
        "places": f"{r.places:,}",
        "exact": f"{r.exact:,}",
        "outside": f"{r.share_outside:.1f} %",
        "difference": _number(r.difference),
        "standard error": _number(r.error),
        "mean z²": _number(r.z_square, 2),
    }


def _number(value: float | None, digits: int = 1) -> str:
    return "–" if value is None else f"{value:,.{digits}f}"
