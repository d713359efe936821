"""What is published of the DHC, from its estimates: microdata, tables, dictionary and
page, under a seal. Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module

from das.accounting.document import Document
from das.engine import Progress
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, read_json
from das.model.not_private import marked
from das.publications.dhc import page, release_files
from das.publications.dhc.files import fixed_counts
from das.publications.dhc.model import microdata
from das.publications.dhc.model.microdata import person_form
from das.publications.dhc.release import OpenedDhc
from das.publications.dhc.release_files import PUBLISHED, tables_of
from das.publications.dhc.spec import DhcLink, DhcUniverse, are_costs
from das.release import dictionary, prior_document
from das.release.dictionary import NAME, NMF, DictionaryLine, of_file, of_files, of_universe
from das.release.replicate_source import digest_of
from das.release.seal import seal
from das.stages import Stages

# ``dictionary.csv`` of a release of the DHC: what its microdata and tables, its measurements,
# their columns and codes mean.
#
# The lines are those of :mod:`das.release.dictionary`: a function of the tree and of the
# specification, not of any count.

#: Of every release, those that this has, too.
FILES = {
    name: says
    for name, says in dictionary.FILES.items()
    if name not in ("report.html", "worse-than-measured.json")
} | {"report.html": "the counts at a glance, how they were made, and what to be careful about"}
#: How a reader calls the records of each universe.
RECORDS = {
    "persons": "persons",
    "units": "housing units and facilities of group quarters",
    "households": "households",
}
#: And those of each folder of microdata, with its columns.
MICRODATA = {
    "persons": (RECORDS["persons"], person_form),
    "units": (f"{RECORDS['units']}, with the households that live there", microdata.form),
}
#: Columns of the measurements on demand, except those of the attributes.
ON_DEMAND = {name: NMF[name] for name in ("geocode", "query_name", "query_shape", "variance")} | {
    "cell": "which answers were measured on demand, a list of their numbers in C order, from 0"
    " (measurements)",
    "value": "these answers, a list as long; of a constraint all of them, in C order",
}
#: For units. Housing units and facilities are published exactly, in files of their own.
EXACT = {"sign": NMF["sign"]}
#: And of counts that were published before.
FIXED = {
    "geocode": NMF["geocode"],
    "answer": "number of the answer to the query, in C order, from 0",
    "count": "the count",
}


def text(opened: OpenedDhc) -> str:
    """The file of a release."""
    return dictionary.written(entries(opened), opened.spec.run.private)


def write(opened: OpenedDhc) -> None:
    """Write the file into the folder of the release."""
    atomic.write_text(opened.folder / NAME, text(opened))


def entries(opened: OpenedDhc) -> Iterator[DictionaryLine]:
    """The lines."""
    spine, out, private = opened.spine, opened.spec.output, opened.spec.run.private
    files = FILES if opened.spec.estimation.prior == "none" else FILES | dictionary.PRIOR
    tree, off_tree = dictionary.of_tree(spine), dictionary.of_areas()
    yield from of_universe("", of_files(files), tree, off_tree)
    for u in opened.spec.universes:
        schema, records = PUBLISHED[u.name]().schema, RECORDS[u.name]
        parts = [dictionary.of_schema(schema)]
        if u.name in MICRODATA:
            rows, form = MICRODATA[u.name]
            parts.append(dictionary.of_microdata(form(), schema, u.name, rows, spine, out.csv))
        if out.tables:
            parts.append(dictionary.of_tables(tables_of(u.name), records, spine, {}, private))
        parts.append(measurements(u, not opened.tree(u).is_published))
        yield from of_universe(u.name, *parts)


def measurements(universe: DhcUniverse, own_spine: bool = False) -> Iterator[dictionary.LineParts]:
    """Lines for the queries of a universe, for their answers measured on demand, and for what is
    held fixed."""
    for query in (q for p in universe.strategy.outer for q in p.queries):
        yield "query", "", "", query, universe.schema.query(query).title
    file, records = f"{universe.kind.file('nmf')}/*.parquet", RECORDS[universe.name]
    says = f"noisy measurements of {records}: of all that was drawn the answers that were looked at"
    yield from of_files(
        {file: says + (", and what is published exactly" if universe.exact else "")}
    )
    code = dictionary.measured_code(universe.kind, own_spine)
    columns = ON_DEMAND | (EXACT if universe.exact else {}) | code
    yield from dictionary.of_answers(file, universe.schema, columns)
    if own_spine:
        yield from dictionary.of_measured_tree(universe.kind, records)
    if universe.rests_on is None:
        says = (
            f"counts of the lowest units that {records} have exactly: answers to"
            f" {universe.fixed_query}; 0 where there is no row"
        )
        yield from of_file(fixed_counts.name(universe.name), says, FIXED)


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
    write(opened)
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
    that it is based on."""
    return [s for s in privacy.says if are_costs(s)]


# The link of a run whose configuration has ``[link]``. What links is loaded only then.


def link_run(
    directory: RunDirectory,
    asked: DhcLink | None,
    *,
    workers: int,
    stages: Stages,
    progress: Progress,
) -> None:
    """Link the release of a run as its configuration asks, if it does. A link of this release that
    is there is whole, and stays: a run that was stopped goes on behind it."""
    if asked is None:
        return
    linking = import_module("das.tools.link.release")
    done = directory.linked / linking.FIGURES
    if done.is_file() and read_json(done)["release"] == digest_of(directory.release):
        return
    with stages("link"):
        linking.link_release(
            directory.release,
            directory.linked,
            linking.LinkOptions.from_configuration(asked),
            workers=workers,
            progress=progress,
        )
