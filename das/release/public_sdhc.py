"""The S-DHC: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from das.accounting.document import ALTERED, Invariant, Line, OwnStatement, Statement
from das.engine import Progress
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.release import statement
from das.files.release.adoption import adopt, check_taken
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, digests
from das.files.run.run_directory import RunDirectory
from das.model.ledger import Event
from das.model.redundant import RedundantMeasurements
from das.model.sdhc.sensitivity import PHSAFE
from das.release import sdhc_dictionary, sdhc_modelled, sdhc_page, sdhc_rows, sdhc_tables
from das.release.measured_rows import RowOptions
from das.release.publications import Recomputation
from das.release.sdhc import OpenedSdhc, official, open_sdhc, resolved, write_official
from das.release.seal import seal
from das.release.verify.written import check_dictionary
from das.release.wording import Wording
from das.size import Size
from das.spec import SdhcSpec
from das.stages import Stages

_REGIONS = "it counts the nation and its states, not a tree: no area adds up from them"
_TABLES = "its tables are in tables/, each with its intervals: read those"
_PLAN = "its budgets are those of [sdhc.budget]: change them with --set, and see `das plan`"


class PublicSdhc:
    title = "the S-DHC"
    cannot: Mapping[str, str] = {
        "engine": "a nation has 13,000 answers: there is nothing to share out",
        "tasks": "its run is one piece: there are no tasks",
        "plan --margin": _PLAN,
        "plan --areas": _REGIONS,
        "optimise": _PLAN,
        "spine": _REGIONS,
        "area": _REGIONS,
        "estimate --set": "its estimates have no choices: nothing of that can be changed",
        "tables": _TABLES,
        "tables --areas": _REGIONS,
        "tables --margins": _TABLES,
        "intervals": _TABLES,
        "sweep": "`das plan` states its errors before a run: compare plans with --set",
        "compare": "the page of the release states the errors of measurements and estimates",
        "evaluate": "a run compares itself with the truth: confidential/evaluation/errors.csv",
        "map": "join a table to boundaries of states by REGION_ID",
        "risk": "its answers are sums over a state: `das plan` says what each has of noise",
        "nmf verify": "`das account verify` holds every measurement against the plan",
        "look-up": "its page shows the nation and every state",
        "arrays": "it is made from a folder as PHSafe takes it: write such, and `das run`",
    }
    needed: Sequence[str] = ()
    recounted = ""

    def resolved(self, spec: SdhcSpec) -> SdhcSpec:
        return resolved(spec)

    def outlook(self, spec: SdhcSpec) -> tuple[Sequence[Size], RedundantMeasurements]:
        return (), ()

    def spare_of(self, release: Path) -> RedundantMeasurements:
        return ()

    def opened(self, release: Path) -> OpenedSdhc:
        return open_sdhc(release)

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        return sdhc_rows.summary(_of(path, asked))

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return sdhc_rows.rows(_of(path, asked), asked)

    def planned(self, release: Path) -> tuple[SdhcSpec, Mapping[str, Sequence[Event]]]:
        opened = open_sdhc(release)
        return opened.spec, {opened.spec.name: opened.events}

    def notes(self, spec: SdhcSpec) -> tuple[str, ...]:
        return ()

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        open_sdhc(release).measured  # noqa: B018  refuses what is not of the plan
        return said.ledger

    def check_layout(self, release: Path) -> None:
        """Its files of measurements are listed in the ledger."""

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        opened = open_sdhc(release)
        check_dictionary(release, wording, sdhc_dictionary.text(opened))
        for name, text in official(opened).items():
            if run_directory.read_text(release / name, "measurements") != text:
                raise ReleaseError(
                    "is not what the measurements give", where=release / name, remedy=ALTERED
                )

    def again(
        self,
        release: Path,
        into: RunDirectory,
        changes: Sequence[str],
        workers: int,
        stages: Stages,
        progress: Progress,
    ) -> Recomputation:
        opened, privacy = open_sdhc(release), statement.read_ours(release)
        if changes:
            raise UserError(
                f"{changes[0].partition('=')[0]} of a release of the S-DHC does not change",
                where="--set, --method",
                remedy=self.cannot["estimate --set"],
            )
        opened.measured  # noqa: B018  what is not of the plan is refused before anything is written
        adopt(release, into.release)
        atomic.write_text(into.release / "spec.toml", opened.spec.dump())
        check_taken(release, digests(into.release), privacy)
        rows = publish(into, privacy, stages, progress)
        run = opened.spec.run
        return Recomputation(run.name, opened.spec.digest, run.private, {"rows": rows}, tables=rows)


def _of(path: Path, asked: RowOptions) -> OpenedSdhc:
    """The release. A universe that is asked for must be its own."""
    opened = open_sdhc(run_directory.release_above(path) or path)
    asked.among([opened.spec.name])
    return opened


def publish(
    directory: RunDirectory, privacy: OwnStatement, stages: Stages, progress: Progress
) -> dict[str, int]:
    """Everything after measurement, from the folder of a release: how many rows each table has."""
    opened = open_sdhc(directory.release)
    with stages("tables"):
        progress.stage("tables", None)
        measured = write_official(opened)
        if opened.spec.sdhc.mode == PHSAFE:
            rows = sdhc_modelled.write(opened)
            found = sdhc_modelled.read(opened)
        else:
            found = sdhc_tables.estimates(opened)
            rows = sdhc_tables.write(opened, found)
        sdhc_dictionary.write(opened)
    with stages.page("report", directory.page):
        sdhc_page.write(opened, privacy, found, rows, measured)
    with stages("seal"):
        files = LedgerFile(directory.ledger).entries.files()
        seal(directory.release, privacy, opened.spec.run.name, files)
    return rows
