"""What is published of the DHC's persons alone, from estimates: microdata, tables, dictionary and
page, under a seal. Nothing here can see the truth."""

from __future__ import annotations

from collections.abc import Iterator

from das.accounting.document import ForeignStatement
from das.engine import Progress
from das.errors import ReleaseError
from das.estimate.outer import OuterEstimates
from das.files import atomic
from das.files.release import statement
from das.model.universe import PERSONS
from das.publications.dhc import publishing as dhc_dictionary
from das.publications.dhc import release_files
from das.publications.dhc.model.microdata import person_form
from das.publications.published import page
from das.publications.published.dhc import OpenedPublishedDhc
from das.release import dictionary
from das.release.dictionary import DictionaryLine, of_files, of_universe
from das.release.seal import seal
from das.stages import Stages

#: Of every release, the files that this has, too.
FILES = {name: says for name, says in dhc_dictionary.FILES.items() if name != "ledger.jsonl"}


def publish(
    opened: OpenedPublishedDhc,
    done: OuterEstimates,
    notes: tuple[str, ...],
    stages: Stages,
    progress: Progress,
) -> ForeignStatement:
    """Write it into the folder of the release, and seal it with its statement, which is
    returned."""
    spec, out = opened.spec, opened.folder
    counts = {PERSONS.name: done.counts}
    with stages("microdata and tables"):
        release_files.write(
            out,
            opened.spine,
            counts,
            name=spec.run.name,
            private=spec.private,
            csv=spec.output.csv,
            tables=spec.output.tables,
            progress=progress,
        )
    lines = dictionary.written(entries(opened), spec.private)
    atomic.write_text(out / dictionary.NAME, lines)
    said = statement.read(out)
    if not isinstance(said, ForeignStatement):
        raise ReleaseError("its statement is not that of another publisher", where=out)
    if spec.output.report:
        with stages.page("report of the release", out / page.NAME):
            progress.stage("report of the release", None)
            page.write(opened, done, said, notes)
    with stages("seal"):
        return seal(out, said, spec.run.name)


def entries(opened: OpenedPublishedDhc) -> Iterator[DictionaryLine]:
    """The lines of the dictionary."""
    spec, u, spine = opened.spec, opened.universe, opened.spine
    yield from of_universe("", of_files(FILES), dictionary.of_tree(spine))
    parts = [
        dictionary.of_schema(u.schema),
        dictionary.of_microdata(person_form(), u.schema, u.name, u.records, spine, spec.output.csv),
        dhc_dictionary.measurements(u),
    ]
    if spec.output.tables:
        tables = release_files.tables_of(u.name)
        parts.append(dictionary.of_tables(tables, u.records, spine, {}, spec.private))
    yield from of_universe(u.name, *parts)
