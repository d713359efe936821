"""The demographic file: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from das.accounting.document import Invariant, Line, Statement
from das.engine import Progress, executor
from das.errors import UserError
from das.files.release import statement, tied
from das.files.release.adoption import adopt, check_taken
from das.files.run.ledger import digests
from das.files.run.run_directory import RunDirectory
from das.model.idle import IdleDraws
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS
from das.release import dhc_dictionary
from das.release.dhc import SPEC, EstimatedDhc, OpenedDhc, open_dhc
from das.release.dhc_publishing import cost, publish
from das.release.dhc_replicates import DhcReplicates
from das.release.estimating import certificates_json
from das.release.publications import Again
from das.release.replicate_source import ReleaseSource
from das.release.seal import seal
from das.release.verify import dhc
from das.release.verify.layout import check_layout
from das.release.verify.published import check_published_dhc
from das.release.verify.written import check_dictionary
from das.release.wording import Wording
from das.size import Size
from das.spec import DhcSpec
from das.stages import Stages

_NEEDED = ("ledger.jsonl", "spec.toml", "spine.parquet")
_TREE = "it stands on the tree of the redistricting release that it rests on: plan and measure that"
_ON_REQUEST = (
    "of its measurements it has what was looked at: read its Parquet files, whose columns are in"
    " dictionary.csv; `das nmf verify` checks them"
)


class PublicDhc:
    title = "the demographic file (DHC)"
    cannot: Mapping[str, str] = {
        "engine": "persons, units and households are estimated one after the other, by this machine",
        "tasks": "its run is one piece of work, and has no tasks",
        "check --data": "leave --data out: das run reads it",
        "plan": "its budget is a multiple of the production budgets: budget.persons, .units, .households",
        "plan --areas": _TREE,
        "optimise": "its queries and their shares are those of production",
        "spine": _TREE,
        "area": "add up its tables, which have all blocks; `das intervals` gives their intervals",
        "estimate --set": "only what was revealed for its outer passes can be known: leave it out",
        "tables --margins": "its answers were drawn on request: `das intervals` gives intervals instead",
        "sweep": "run it at several multiples of its budget, each in a folder of its own",
        "compare": "of its measurements it has what was looked at: `das evaluate` shows its errors",
        "map": "draw its tables",
        "risk": "the models of an intruder are of redistricting counts",
        "nmf": _ON_REQUEST,
        "look-up": "its page shows the largest places; its tables have all",
        "arrays": "its schemas are too large to be drawn whole",
    }
    needed = _NEEDED
    recounted = "; microdata, tables and exact counts, which agree"

    def resolved(self, spec: DhcSpec) -> DhcSpec:
        return spec

    def outlook(self, spec: DhcSpec) -> tuple[Sequence[Size], IdleDraws]:
        return (), ()

    def spare_of(self, release: Path) -> IdleDraws:
        return ()

    def opened(self, release: Path) -> OpenedDhc:
        return open_dhc(release)

    def source(self, release: Path) -> ReleaseSource:
        return DhcReplicates.of(open_dhc(release))

    def planned(self, release: Path) -> tuple[DhcSpec, Mapping[str, Sequence[Event]]]:
        opened = open_dhc(release)
        return opened.spec, {
            u.name: [e for level in opened.spine.levels for e in opened.events(u, level)]
            for u in opened.spec.universes
        }

    def notes(self, spec: DhcSpec) -> tuple[str, ...]:
        return spec.notes

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        dhc.check_files(open_dhc(release), MECHANISMS[said.mechanism], said.ledger)
        return said.ledger

    def check_layout(self, release: Path) -> None:
        opened = open_dhc(release)
        check_layout(release, [u.name for u in opened.spec.universes], opened.spine.levels)

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        opened = open_dhc(release)
        dhc.check_counts(opened, wording.said)
        check_dictionary(release, wording, dhc_dictionary.text(opened))
        return wording.said.outside

    def check_published(self, release: Path, wording: Wording) -> None:
        check_published_dhc(open_dhc(release), wording)

    def again(
        self,
        release: Path,
        into: RunDirectory,
        changes: Sequence[str],
        workers: int,
        stages: Stages,
        progress: Progress,
    ) -> Again:
        opened, privacy = open_dhc(release), statement.read(release)
        if changes:
            raise UserError(
                f"{changes[0].partition('=')[0]} of a release of the demographic file does not"
                " change",
                where="--set, --method",
                remedy=self.cannot["estimate --set"],
            )
        adopt(release, into.release, [SPEC, *(tied.name(name) for name in opened.tied)])
        check_taken(release, digests(into.release), privacy)
        name = opened.spec.run.name
        privacy = seal(into.release, privacy, name)  # the page of the release refers to its page
        done: dict[str, EstimatedDhc] = {}
        with stages("estimate"), executor(workers) as pool:
            for u in opened.spec.universes:
                done[u.name] = opened.estimate(u, opened.source(u), done, pool, progress)
        publish(replace(opened, folder=into.release), done, privacy, stages, progress)
        certificates = certificates_json({u: e.certificates for u, e in done.items()})
        said = {"certificates": certificates}
        return Again(name, opened.spec.digest, opened.spec.run.private, said, cost=cost(privacy))
