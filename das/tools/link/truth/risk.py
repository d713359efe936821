"""An attack on the linked population of a release: what its records say about true persons and
households (:mod:`das.tools.link.risk_records`).

A run does not keep who lives with whom, so the true records are read again from their folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory, read_json
from das.publications.dhc.release import open_dhc
from das.release.replicate_source import digest_of
from das.tools.link.release import FIGURES
from das.tools.link.risk_records import attacks
from das.tools.protection.truth.reconstructing import score_rows
from das.tools.protection.truth.study_input import housed_people


def attack_link(run: Path, linked: Path | None, truth: Path) -> Iterator[Mapping[str, object]]:
    """The scores, as rows: of each attack on the records of the own block and of another. ``run``:
    a run or release of the DHC. ``linked``: its link; absent, that of the run.

    Raises:
        UserError: no link, or that of another release.
        InputError: true records that contradict each other, or live elsewhere.
    """
    release = run_directory.release_of(run)
    folder = linked or RunDirectory(run).linked
    if not (folder / FIGURES).is_file():
        raise UserError(
            "there is no link of the release here",
            where=folder,
            remedy=f"das link {run} --out DIR, then --linked DIR",
        )
    if read_json(folder / FIGURES)["release"] != digest_of(release):
        raise UserError(
            "this is the link of another release", where=folder, remedy=f"name that of {run}"
        )
    spine = open_dhc(release).spine
    found, true = (
        housed_people(path, spine).open("to score linked records; the result stays confidential")
        for path in (folder, truth)
    )
    for (records, read), scores in attacks(found, true, spine).items():
        for row in score_rows(scores):
            yield {"records": records, "read": read, **row}
