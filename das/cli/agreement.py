"""``das evaluate --agreement``: whether the persons and households of a DHC agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from das.cli.answer import CommandAnswer
from das.cli.console import console, records_table
from das.cli.options import warn
from das.files.provenance import privacy_of
from das.files.run.run_directory import release_of
from das.model.agreement_rows import AgreementRow
from das.model.not_private import marked_rows
from das.release.agreement import agreement_of


def agreement_answer(path: Path) -> CommandAnswer:
    """A table for each level, or all rows. Raises as
    :func:`das.release.agreement.agreement_of` does."""
    rows, private = agreement_of(release_of(path)), privacy_of(path)

    def show() -> None:
        warn(private)
        for level in dict.fromkeys(r.level for r in rows):
            of = [r for r in rows if r.level == level]
            title = f"{level}: persons and households of {max(r.units for r in of):,} units"
            console().print(records_table(title, [_shown(r) for r in of]))

    return CommandAnswer(marked_rows(map(vars, rows), private), show)


def _shown(row: AgreementRow) -> dict[str, Any]:
    return {
        "identity": row.identity,
        "what must hold": row.says,
        "violated in": f"{row.violated:,}",
        "share": f"{100 * row.share:.1f} %",
        "mean difference": None if row.difference is None else f"{row.difference:.2f}",
    }
