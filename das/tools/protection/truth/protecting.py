"""The tables of records, protected by one method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from das.engine import Progress
from das.errors import UserError
from das.files.run.run_directory import create_private, refuse_full
from das.spec.tree import built, override
from das.tools.protection.study import files
from das.tools.protection.study.spec import draft_of_linked
from das.tools.protection.truth import study_input
from das.tools.protection.truth.method import ProtectionMethod
from das.tools.protection.truth.study import METHODS, ResolvedStudy, load_study, resolved_study


def study_of_method(
    method: str,
    settings: Sequence[str],
    *,
    data: Path | None,
    study: Path | None,
    points: Path | None = None,
) -> tuple[ResolvedStudy, ProtectionMethod]:
    """The records and tables, of a study or of linked ``data``; and the method with ``settings``
    such as ``rate=0.05``. Raises :class:`UserError` for both of them, or neither."""
    if (data is None) == (study is None):
        raise UserError("name the records: one of the two", where="--data, --study")
    if study is not None:
        if points is not None:
            raise UserError("belongs to --data", where="--points", remedy="write data.points")
        resolved = load_study(study)
    else:
        assert data is not None
        if data.is_file():
            raise UserError(
                "is a file, not a folder of linked records",
                where=f"--data {data}",
                remedy=f"for a table of persons: das frontier init --data {data.name} --out"
                " study.toml, then --study study.toml",
            )
        resolved = resolved_study(
            draft_of_linked("linked", data, points, study_input.blocks(data)), "--data"
        )
    given: dict[str, Any] = {}
    for item in settings:
        override(given, item)
    return resolved, built(METHODS[method], given, f"--set, {method}")


def protect_records(
    resolved: ResolvedStudy, method: ProtectionMethod, key: bytes, out: Path, progress: Progress
) -> list[Path]:
    """Write what is published to the folder ``out``; its files."""
    if out.exists():
        refuse_full(out)
    records = study_input.read(resolved.spec, resolved.schema, progress)
    progress.stage("protect", None)
    published = method.protect(records, resolved.published, key)
    progress.stage("write the tables", None)
    create_private(out)
    return files.write_protected(out, published)
