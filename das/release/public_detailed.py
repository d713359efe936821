"""The Detailed DHC: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from das.accounting.document import Invariant, Line, Statement
from das.engine import Progress
from das.errors import UserError
from das.files.detailed import parameters
from das.files.detailed import totals as totals_file
from das.files.release import statement
from das.files.release.adoption import adopt, check_taken
from das.files.run.ledger import LedgerFile, digests
from das.files.run.run_directory import RunDirectory
from das.model.idle import IdleDraws
from das.model.ledger import Event
from das.release import group_page
from das.release.group_tables import publish
from das.release.groups import PARAMETERS, OpenedGroups, open_groups, write_public
from das.release.publications import Again
from das.release.replicate_source import ReleaseSource
from das.release.seal import seal
from das.release.verify import groups
from das.release.wording import Wording
from das.size import Size
from das.spec import DetailedFolders, DetailedSpec
from das.stages import Stages

_GROUPS = (
    "its counts are of population groups in regions, and of no tree: there is nothing of the kind"
)
_PLAN = "its parameters say what each level costs: `das detailed plan` shows what that buys"
_LAYOUT = "a row of its Parquet files is a group; `das detailed estimate` estimates from them"


class PublicDetailed:
    title = "the Detailed DHC"
    cannot: Mapping[str, str] = {
        "check --data": "das check reads its folders, and counts their records for their curator",
        "plan": _PLAN,
        "plan --areas": _PLAN,
        "optimise": _PLAN,
        "spine": _GROUPS,
        "area": _GROUPS,
        "estimate --set": "its tables are sums of what was measured: nothing of that can be changed",
        "tables": "its tables are in tables/, as the programs of 2020 write them",
        "tables --areas": _GROUPS,
        "tables --margins": "`das detailed estimate` gives estimates with intervals",
        "intervals": "`das detailed estimate` gives estimates with intervals",
        "sweep": "run it with other budgets in config.json, each in a folder of its own",
        "compare": "its tables are its measurements, added up: their errors are stated",
        "evaluate": "its tables are its measurements, added up: their errors are stated",
        "map": "draw its tables",
        "risk": "`das detailed risk` says what its page tells",
        "nmf": _LAYOUT,
        "look-up": "its tables have all groups",
        "arrays": "it is made from folders as SafeTab takes them",
    }
    needed: Sequence[str] = ()
    recounted = ""

    def resolved(self, spec: DetailedFolders) -> DetailedSpec:
        if not spec.data.parameters:
            raise UserError(
                "no folder of parameters is named",
                where="data.parameters",
                remedy="name one with config.json and the code tables: --set data.parameters=DIR",
            )
        return spec.on(parameters.read(Path(spec.data.parameters), spec.product))

    def outlook(self, spec: DetailedSpec) -> tuple[Sequence[Size], IdleDraws]:
        return (), ()

    def spare_of(self, release: Path) -> IdleDraws:
        return ()

    def opened(self, release: Path) -> OpenedGroups:
        return open_groups(release)

    def source(self, release: Path) -> ReleaseSource:
        raise NotImplementedError

    def planned(self, release: Path) -> tuple[DetailedSpec, Mapping[str, Sequence[Event]]]:
        opened = open_groups(release)
        return opened.spec, {
            opened.name: [e for plan in opened.spec.plans for e in opened.events(plan)]
        }

    def notes(self, spec: DetailedSpec) -> tuple[str, ...]:
        return ()

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        groups.check_files(open_groups(release))
        return said.ledger

    def check_layout(self, release: Path) -> None:
        """Its files of measurements are listed by :meth:`check_measured`."""

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        """Its tables are sums of the measurements, which are verified."""

    def again(
        self,
        release: Path,
        into: RunDirectory,
        changes: Sequence[str],
        workers: int,
        stages: Stages,
        progress: Progress,
    ) -> Again:
        opened, privacy = open_groups(release), statement.read_ours(release)
        if changes:
            raise UserError(
                f"{changes[0].partition('=')[0]} of a release of the Detailed DHC does not change",
                where="--set, --method",
                remedy=self.cannot["estimate --set"],
            )
        totals = None if opened.totals is None else release / totals_file.FILE
        adopt(release, into.release)
        write_public(into.release, opened.spec, release / PARAMETERS, opened.regions, totals)
        check_taken(release, digests(into.release), privacy)
        opened = replace(opened, folder=into.release)
        with stages("tables"):
            published = publish(opened)
        with stages.page("report", into.page):
            group_page.write(opened, privacy, published)
        with stages("seal"):
            files = LedgerFile(into.ledger).entries.files()
            seal(into.release, privacy, opened.spec.run.name, files)
        return Again(
            opened.spec.run.name,
            opened.spec.digest,
            opened.spec.run.private,
            {"rows": published.rows},
            tables=published.rows,
        )
