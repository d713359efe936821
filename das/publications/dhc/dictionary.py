"""``dictionary.csv`` of a release of the DHC: what its microdata and tables, its measurements,
their columns and codes mean.

The lines are those of :mod:`das.release.dictionary`: a function of the tree and of the
specification, not of any count."""

from __future__ import annotations

from collections.abc import Iterator

from das.files import atomic
from das.publications.dhc.files import fixed_counts
from das.publications.dhc.model import microdata
from das.publications.dhc.model.microdata import person_form
from das.publications.dhc.release import OpenedDhc
from das.publications.dhc.release_files import PUBLISHED, tables_of
from das.publications.dhc.spec import DhcUniverse
from das.release import dictionary
from das.release.dictionary import NAME, NMF, DictionaryLine, of_file, of_files, of_universe

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


def measurements(u: DhcUniverse, own_spine: bool = False) -> Iterator[dictionary.LineParts]:
    """Lines for the queries of a universe, for their answers measured on demand, and for what is
    held fixed."""
    for query in (q for p in u.strategy.outer for q in p.queries):
        yield "query", "", "", query, u.schema.query(query).title
    file, records = f"{u.kind.file('nmf')}/*.parquet", RECORDS[u.name]
    says = f"noisy measurements of {records}: of all that was drawn the answers that were looked at"
    yield from of_files({file: says + (", and what is published exactly" if u.exact else "")})
    code = dictionary.measured_code(u.kind, own_spine)
    columns = ON_DEMAND | (EXACT if u.exact else {}) | code
    yield from dictionary.of_answers(file, u.schema, columns)
    if own_spine:
        yield from dictionary.of_measured_tree(u.kind, records)
    if u.rests_on is None:
        says = (
            f"counts of the lowest units that {records} have exactly: answers to"
            f" {u.fixed_query}; 0 where there is no row"
        )
        yield from of_file(fixed_counts.name(u.name), says, FIXED)
