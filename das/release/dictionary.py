"""``dictionary.csv``: what every file of a release, each of its columns and each code in them
means.

One line for each thing, ``universe, kind, file, column, code, label``. A file with its columns and
their codes follows what they speak of: the levels of the tree, and of each universe the attributes
with their levels, the groupings with their groups, and the queries. ``file`` is a path with ``*``
where there are several of one kind. It is a function of the specification and of the codes of the
lowest level, so verification writes it again."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from das.files import csv_text
from das.files.microdata.writing import layout
from das.files.release import areas, measured_spine
from das.files.release import spine as spine_file
from das.files.release.tables import GEOCODE, GEOID, identifiers
from das.files.release.tables import NAME as PLACE
from das.model.columns import GEOCODE as PLACE_CODE
from das.model.columns import MicrodataForm
from das.model.names import NOT_COUNTED, level_words
from das.model.not_private import CELL, COLUMN, WARNING, Private, marked_rows
from das.model.post_processing import PostProcessing
from das.model.query import DETAILED
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import SAYS, RecordKind, Universe
from das.release import prior_document
from das.tables import Table, universe_tables

NAME = "dictionary.csv"
FILES = {
    "spec.toml": "the configuration, with every default written out",
    "privacy.json": "the privacy statement, for programs",
    "privacy.html": "the privacy statement, for people",
    "ledger.jsonl": "one line for every draw of noise, written before it was made, and for every part"
    " that was measured (not of another publisher's)",
    "report.html": "look up a place: its published counts, its noisy measurements, and their"
    " intervals",
    "worse-than-measured.json": "measured queries whose published counts are further off than their"
    " noise explains",
    NAME: f"this file; {csv_text.SAYS}",
    "spine.parquet": "the tree of places, root first",
    areas.NAME: "the areas off the tree that the input knew, with the units of the lowest level in"
    " each; if any",
}
PRIOR = {
    prior_document.NAME: "what was assumed about the lowest units besides their measurements, and"
    " from how many noisy answers it was estimated"
}
SPINE = (
    "level of the tree",
    "code of the unit, unique in its level",
    "code of the unit above it",
    "name of the unit, where it has one",
    "the Bureau's standard identifier, which joins to TIGER",
)
#: Of a tree that was measured and is not the published one; with the columns of that.
MEASURED = (
    "levels whose budget the unit was measured with; unmeasured: that of its parent holds its own",
    "of a unit of the lowest level, its code in spine.parquet",
)
AREAS = (
    "kind of area, such as Place",
    "code of the area",
    "name of the area, where it has one",
    "code of a unit of the lowest level in it",
)
CODE = SAYS[PLACE_CODE]
#: Added to the code, if any unit of the level has them.
PLACES = {GEOID: SPINE[4], PLACE: SPINE[3]}
#: Of the geocode of noisy measurement files.
ROOT = "; empty for a root above all places, such as the nation"
#: Columns of noisy measurement files, except those of the attributes.
NMF = {
    "geocode": f"{CODE}{ROOT}",
    "query_name": "what was asked, followed by _dpq (a measurement) or _con (a constraint)",
    "query_shape": "number of groups along each attribute, in their order; 1 where it is summed out",
    "value": "the answers, a list in C order: groups of the last attribute follow each other first",
    "variance": "variance of the noise of each answer (measurements)",
    "sign": "relation of the count to the value (constraints)",
}
#: Of what is of the units that were measured, where they are not the published ones.
MEASURED_UNITS = ", of the units that were measured"
AXES = {"*": "summed out", DETAILED: "every attribute by all its levels, in their order"}


@dataclass(frozen=True)
class DictionaryLine:
    """One line."""

    universe: str
    kind: str
    file: str
    column: str
    code: str
    label: str


#: By universe, attributes that were made up by a rule, each with a sentence: the ``assigned`` of
#: the statement.
Assigned = Mapping[str, Mapping[str, str]]


def text(
    after: PostProcessing, spine: Spine, assigned: Assigned, own_spine: Collection[str]
) -> str:
    """The file."""
    return written(entries(after, spine, assigned, own_spine), after.private)


def written(entries: Iterable[DictionaryLine], private: Private) -> str:
    """Such a file of these lines."""
    out = io.StringIO()
    rows = marked_rows(map(vars, entries), private)
    csv_text.write_rows(out, chain([tuple(rows[0])], (tuple(row.values()) for row in rows)))
    return out.getvalue()


def entries(
    after: PostProcessing, spine: Spine, assigned: Assigned, own_spine: Collection[str] = ()
) -> list[DictionaryLine]:
    """Every line of the dictionary of a release. ``own_spine``: the universes whose measured tree
    has a file of its own."""
    files = FILES if after.bias == "none" else FILES | PRIOR
    out = [*of_universe("", of_files(files), of_tree(spine), of_areas())]
    for u in after.universes:
        made_up = assigned.get(u.name, {})
        parts = [_attributes(u), _measurements(u, u.name in own_spine), _microdata(u, spine, after)]
        if after.method == "full-information" and len(spine) > 1:
            parts.append(_estimates(u, u.name in own_spine))
        if after.tables:
            parts.append(
                of_tables(universe_tables(u, made_up), u.records, spine, made_up, after.private)
            )
        out += of_universe(u.name, *parts)
    return out


LineParts = tuple[str, str, str, str, str]


def of_universe(name: str, *parts: Iterable[LineParts]) -> Iterator[DictionaryLine]:
    """Lines of a universe, or of none."""
    return (DictionaryLine(name, *line) for part in parts for line in part)


def of_files(says: Mapping[str, str]) -> Iterator[LineParts]:
    """A line for each file."""
    return (("file", file, "", "", text) for file, text in says.items())


def of_file(file: str, says: str, columns: Mapping[str, str]) -> Iterator[LineParts]:
    """A line for a file, and one for each of its columns."""
    return chain(of_files({file: says}), of_columns(file, columns))


def of_columns(file: str, says: Mapping[str, str]) -> Iterator[LineParts]:
    """A line for each column of a file."""
    return (("column", file, column, "", text) for column, text in says.items())


def of_codes(
    file: str, column: str, codes: Iterable[str], labels: Iterable[str]
) -> Iterator[LineParts]:
    """A line for each code in a column of a file."""
    return (("code", file, column, *each) for each in zip(codes, labels, strict=True))


def of_tree(spine: Spine) -> Iterator[LineParts]:
    """Lines for ``spine.parquet``: its columns, and the levels in it."""
    yield from of_columns("spine.parquet", dict(zip(spine_file.COLUMNS, SPINE, strict=True)))
    yield from of_codes("spine.parquet", "level", spine.levels, map(level_words, spine.levels))


def of_areas() -> Iterator[LineParts]:
    """Lines for the columns of ``areas.parquet``."""
    return of_columns(areas.NAME, dict(zip(areas.COLUMNS, AREAS, strict=True)))


def _attributes(universe: Universe) -> Iterator[LineParts]:
    yield from of_schema(universe.schema)
    for query in dict.fromkeys(n.query for n in universe.noise):
        yield "query", "", "", query, universe.schema.query(query).title


def of_schema(schema: Schema) -> Iterator[LineParts]:
    """Lines for attributes with their levels, and for groupings with their groups."""
    for a in schema.attributes:
        yield "attribute", "", a.name, "", a.title
        yield from (("level", "", a.name, *x) for x in zip(a.levels, a.labels, strict=True))
    for g in schema.recodes:
        yield "grouping", "", g.name, "", f"{g.title} (a coarser view of {g.attribute})"
        yield from (("group", "", g.name, *x) for x in zip(g.groups, g.labels, strict=True))


def _measurements(universe: Universe, own_spine: bool) -> Iterator[LineParts]:
    file = f"{universe.kind.file('nmf')}/*.parquet"
    says = f"noisy measurements of {universe.records}, and what is published exactly of them"
    yield from of_files({file: says})
    yield from of_answers(file, universe.schema, NMF | measured_code(universe.kind, own_spine))
    if own_spine:
        yield from of_measured_tree(universe.kind, universe.records)


def of_measured_tree(kind: RecordKind, records: str) -> Iterator[LineParts]:
    """Lines for the file of a measured tree that is not the published one: its columns."""
    tree = _tree(kind)
    says = f"the tree that {records} were measured over, whose codes the measurements have"
    columns = zip((*spine_file.COLUMNS, *measured_spine.COLUMNS), (*SPINE, *MEASURED), strict=True)
    return of_file(tree, says, dict(columns))


def _tree(kind: RecordKind) -> str:
    return f"{kind.file('nmf')}/{measured_spine.NAME}"


def measured_code(kind: RecordKind, own_spine: bool) -> dict[str, str]:
    """What the geocode of a measurement is, where measured units are not the published ones."""
    return {"geocode": f"code of the unit, as in {_tree(kind)}{ROOT}"} if own_spine else {}


def _estimates(universe: Universe, own_spine: bool) -> Iterator[LineParts]:
    file = f"{universe.kind.file('estimates')}/*.parquet"
    whose = MEASURED_UNITS if own_spine else ""
    yield from of_files(
        {file: f"unbiased estimates of {universe.records} from all measurements together{whose}"}
    )
    code = measured_code(universe.kind, own_spine)
    said = {c: NMF[c] for c in ("geocode", "query_name", "query_shape", "value")} | code
    yield from of_answers(
        file, universe.schema, said | {"standard_error": "standard error of each estimate"}
    )


def of_answers(file: str, schema: Schema, columns: Mapping[str, str]) -> Iterator[LineParts]:
    """Lines for files of answers to queries: their columns, and how attributes are grouped in
    them."""
    yield from of_columns(file, columns)
    for a in schema.attributes:
        yield "column", file, a.name, "", f"how {a.title} is grouped"
        views = {g.name: g.title for g in schema.recodes if g.attribute == a.name}
        every = AXES | {a.name: "every level by itself, in their order"} | views
        yield from of_codes(file, a.name, every, every.values())


def _microdata(universe: Universe, spine: Spine, after: PostProcessing) -> Iterator[LineParts]:
    return of_microdata(
        universe.microdata,
        universe.schema,
        universe.kind.folder,
        universe.records,
        spine,
        after.csv,
    )


def of_microdata(
    form: MicrodataForm, schema: Schema, folder: str, records: str, spine: Spine, csv: bool
) -> Iterator[LineParts]:
    """Lines for the files of microdata in a ``folder``: their columns, and the codes in these."""
    plan, says = layout(form, spine.codes[-1], ""), {**SAYS, **form.says}
    coded = {c.name: c for c in plan.columns}
    for file in (f"microdata/{folder}/*.parquet", *([f"microdata/{folder}.csv"] if csv else [])):
        yield from of_files({file: f"one row for each record of {records}"})
        for name in plan.order:
            column = coded.get(name)
            attribute = column and column.decodes
            title = schema.attribute(attribute).title if attribute else says[name]
            yield "column", file, name, "", title
            if column:
                meaning = column.meaning(schema)
                yield from of_codes(file, name, meaning, meaning.values())


def of_tables(
    tables: Iterable[Table],
    records: str,
    spine: Spine,
    made_up: Mapping[str, str],
    private: Private,
) -> Iterator[LineParts]:
    """Lines for published tables: their columns. ``made_up``: sentences on attributes that a rule
    made up."""
    places = {c for level in spine.levels for c in identifiers(spine, level)}
    for table in tables:
        file = f"tables/{table.name}_*.csv"
        says = f"{table.name}: {table.title} ({records}), one row for each unit of a level"
        named = {GEOCODE: CODE} | {c: text for c, text in PLACES.items() if c in places}
        yield from of_file(file, says, named | dict(zip(table.columns, table.labels, strict=True)))
        yield from marks(file, [made_up[a] for a in table.assigned], private)


def marks(file: str, made_up: Sequence[str], private: Private) -> Iterator[LineParts]:
    """Lines for the last columns: what was ``made_up`` by a rule, and that the noise was seeded."""
    if made_up:
        yield "column", file, NOT_COUNTED, "", " ".join(made_up)
    if not private:
        yield "column", file, COLUMN, "", WARNING
        yield "code", file, COLUMN, CELL, WARNING
