"""The Detailed DHC: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from das.accounting.document import Invariant, Line, Statement
from das.errors import UserError
from das.files.release import statement
from das.files.release.statement import adopt, check_taken
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, digests
from das.model.ledger import Event
from das.publications.detailed import release as verification
from das.publications.detailed import rows, tables
from das.publications.detailed.files import parameters
from das.publications.detailed.files import totals as totals_file
from das.publications.detailed.release import PARAMETERS, OpenedGroups, open_groups, write_public
from das.publications.detailed.spec import DetailedFolders, DetailedSpec
from das.publications.detailed.tables import publish
from das.release.publications import PublicHalf, Recomputation, Rerun, RowOptions
from das.release.seal import Wording, seal

_GROUPS = "it counts race and ethnic groups in regions, not on a tree: no area adds up from them"
_ERRORS = (
    "its tables are sums of its measurements, and nothing is estimated: `das plan` and the page of"
    " the release state their errors"
)
_PLAN = (
    "`das detailed plan PARAMETERS` finds budgets for margins of error, and thresholds: write them"
    " into config.json"
)


class PublicDetailed(PublicHalf):
    title = "the Detailed DHC"
    cannot: Mapping[str, str] = {
        "plan --margin": _PLAN,
        "plan --areas": _GROUPS,
        "optimise": _PLAN,
        "spine": _GROUPS,
        "area": _GROUPS,
        "estimate --set": "its tables are sums of what was measured: nothing of that can be changed",
        "tables": (
            "its tables are in tables/ as the programs of 2020 write them, and each as Parquet: read"
            " those"
        ),
        "tables --areas": _GROUPS,
        "tables --margins": "`das detailed estimate` gives estimates with intervals",
        "intervals": "`das detailed estimate` gives estimates with intervals",
        "sweep": (
            "its errors are those of its noise, which `das plan` states before a run: compare the"
            " plans of several folders of parameters (das detailed plan)"
        ),
        "compare": _ERRORS,
        "evaluate": _ERRORS,
        "map": (
            "a count of it is one of a group in a region: join table t1 (REGION_ID, ITERATION_CODE)"
            " to boundaries by REGION_ID"
        ),
        "risk": (
            "`das detailed risk RUN` says what an intruder learns of one person, and of the size of"
            " a group"
        ),
        "look-up": (
            "its groups are too many for a page: `das nmf show RUN --level LEVEL --geocode REGION`"
            " lists those of a region"
        ),
        "arrays": (
            "it is made from folders as SafeTab takes them, whose code tables decide what is"
            " measured: write such, and `das run`"
        ),
    }

    def resolved(self, spec: DetailedFolders) -> DetailedSpec:
        if not spec.data.parameters:
            raise UserError(
                "no folder of parameters is named",
                where="data.parameters",
                remedy="name one with config.json and the code tables: --set data.parameters=DIR",
            )
        return spec.on(parameters.read(Path(spec.data.parameters), spec.product))

    def opened(self, release: Path) -> OpenedGroups:
        return open_groups(release)

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        opened = _of(path, asked)
        return rows.summary(opened)

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        return rows.rows(_of(path, asked), asked)

    def planned(self, release: Path) -> tuple[DetailedSpec, Mapping[str, Sequence[Event]]]:
        opened = open_groups(release)
        return opened.spec, {
            opened.name: [e for plan in opened.spec.plans for e in opened.events(plan)]
        }

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        verification.check_files(open_groups(release))
        return said.ledger

    def check_layout(self, release: Path) -> None:
        """Its files of measurements are listed by :meth:`check_measured`."""

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        """Its tables are sums of the measurements, which are verified."""

    def again(self, rerun: Rerun) -> Recomputation:
        release, into = rerun.release, rerun.into.release
        opened, privacy = open_groups(release), statement.read_ours(release)
        totals = None if opened.totals is None else release / totals_file.FILE
        adopt(release, into)
        write_public(into, opened.spec, release / PARAMETERS, opened.regions, totals)
        check_taken(release, digests(into), privacy, opened.spec.run.private)
        opened = replace(opened, folder=into)
        with rerun.stages("tables"):
            published = publish(opened)
        with rerun.stages.page("report", rerun.into.page):
            tables.write(opened, privacy, published)
        with rerun.stages("seal"):
            files = LedgerFile(rerun.into.ledger).entries.files()
            seal(into, privacy, opened.spec.run.name, files)
        return Recomputation(
            opened.spec.run.name,
            opened.spec.digest,
            opened.spec.run.private,
            {"rows": published.rows},
            tables=published.rows,
        )


def _of(path: Path, asked: RowOptions) -> OpenedGroups:
    """The release. A universe that is asked for must be its own."""
    opened = open_groups(run_directory.release_above(path) or path)
    asked.among([opened.name])
    return opened
