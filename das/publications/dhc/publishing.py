"""What is published of the DHC, from its estimates: microdata, tables, dictionary and
page, under a seal. Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Mapping

from das.accounting.document import Document
from das.engine import Progress
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.run.ledger import LedgerFile
from das.model.not_private import marked
from das.publications.dhc import dictionary, page, release_files
from das.publications.dhc.release import OpenedDhc
from das.publications.dhc.spec import are_costs
from das.release import prior_document
from das.release.seal import seal
from das.stages import Stages


def publish(
    opened: OpenedDhc,
    done: Mapping[str, OuterEstimates],
    privacy: Document,
    stages: Stages,
    progress: Progress,
) -> None:
    """Write it into the folder of the release, and seal it."""
    spec, out = opened.spec, opened.folder
    counts = {name: e.counts for name, e in done.items()}
    with stages("microdata and tables"):
        release_files.write(
            out,
            opened.spine,
            counts,
            name=spec.run.name,
            private=spec.run.private,
            csv=spec.output.csv,
            tables=spec.output.tables,
            progress=progress,
        )
    dictionary.write(opened)
    _write_prior(opened, done)
    if spec.output.report:
        with stages.page("report of the release", out / page.NAME):
            progress.stage("report of the release", None)
            _write_page(opened, done, privacy)
    with stages("seal"):
        seal(out, privacy, spec.run.name, LedgerFile(out / "ledger.jsonl").entries.files())


def _write_page(opened: OpenedDhc, done: Mapping[str, OuterEstimates], privacy: Document) -> None:
    spec = opened.spec
    page.write(
        opened.folder,
        spec.run.name,
        opened.spine,
        {name: e.counts for name, e in done.items()},
        {name: e.certificates for name, e in done.items()},
        privacy,
        spec.run.private,
        spec.universes,
        own_spine=opened.has_own_spine,
        shares=any(e.prior is not None for e in done.values()),
    )


def _write_prior(opened: OpenedDhc, done: Mapping[str, OuterEstimates]) -> None:
    """What was assumed of the lowest units, if anything was."""
    for u in opened.spec.universes:
        if (prior := done[u.name].prior) is not None:
            tree = opened.tree(u).spine
            said = prior_document.shares_document(prior, tree, u.strategy.outer)
            path = opened.folder / prior_document.NAME
            atomic.write_json(path, marked(said, opened.spec.run.private))


def cost(privacy: Document) -> list[str]:
    """Sentences on the cost of changes of records, in this release and together with the release
    that it is based on.
    """
    return [s for s in privacy.says if are_costs(s)]
