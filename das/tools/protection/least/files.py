"""A publication of the least coarsening as a folder, and its check by anybody from the folder alone.

* ``tables.csv``: of each unit and kept district the table of its finest grain, a line a count; one
  empty line where not even the total is printed;
* ``places.csv``: a line for each lowest unit with persons: where it lies, and its atom at each grain;
* ``atoms.csv``: the table of each atom at each grain; an atom has the code of one of its units;
* ``bounds.parquet``: of each lowest unit and group of the finest grain what can be known of the
  count, and the estimate of greatest entropy; not of groups that are certainly empty;
* ``certificate.json``: rules, grains, what follows exactly;
* ``index.html``: what is shown where, in plain words;
* ``persons``, on request: synthetic microdata with exactly the tables of units and atoms; of districts
  that cut atoms they have other ones.

All of it is a function of the tables. What else the truth tells, such as the cost, is not here."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.files import atomic, rows_csv
from das.files.microdata.reading import cells_of, read_form
from das.files.microdata.writing import write_form
from das.files.run.run_directory import read_json
from das.model.columns import MicrodataForm
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.names import BLOCK, Codes, encoded, level_inside, level_words
from das.model.redistricting import SCHEMAS
from das.model.schema import Schema
from das.model.universe import PERSONS
from das.report.template import render
from das.tools.protection.least.chain import Chain, Grain, Rules
from das.tools.protection.least.posterior import assignment
from das.tools.protection.least.staircase import UNITS, Staircase, finest_tables, summed_by

Ints = NDArray[np.int64]
CERTIFICATE = "certificate.json"


@dataclass(frozen=True, eq=False)
class ShownAreas(Frozen):
    """The units of a level, or districts of a kind. ``codes`` and ``names``, ``(areas,)``; ``area``
    of each lowest unit, ``(units,)``, or -1; ``grain`` of the finest table that is shown, -1 for none,
    and that ``table`` by area."""

    codes: tuple[str, ...]
    names: tuple[str, ...]
    area: Ints
    grain: Ints
    table: tuple[Ints, ...]


@dataclass(frozen=True, eq=False)
class LeastRelease(Frozen):
    """``areas`` by level, the lowest last, then by kind of districts; ``levels``: how many of them
    are levels. ``certificate``: what is said of it. ``persons``: synthetic ones, by lowest unit."""

    tables: Staircase
    levels: int
    areas: Mapping[str, ShownAreas]
    certificate: Mapping[str, Any]
    persons: Histogram | None = None

    @property
    def lowest(self) -> str:
        return list(self.areas)[self.levels - 1]


def write(folder: Path, release: LeastRelease) -> list[Path]:
    """All files of a publication."""
    grains = release.tables.chain.grains
    codes = np.array(release.areas[release.lowest].codes)
    first = [np.unique(a, return_index=True)[1] for a in release.tables.atom]
    head = (*release.areas, *(g.name for g in grains))
    words = {
        "table": list(_shown(release)),
        "grains": [*["None"] * release.tables.joined, *(g.title for g in grains)],
        "map": list(_tiles(release)),
        "tiles": level_inside(list(release.areas)[max(0, release.levels - 2)]),
        "colors": SHADES,
    }
    page = folder / "index.html"
    atomic.write_text(
        page, render("least.html", private=True, facts=words, said=release.certificate)
    )
    certificate = folder / CERTIFICATE
    atomic.write_json(certificate, release.certificate)
    persons: list[Path] = []
    if release.persons is not None:
        form, blocks = _form(release)[0], _microdata_codes(release)
        persons = write_form(folder / PERSONS.folder, release.persons, blocks, form)
    return [
        *persons,
        certificate,
        rows_csv.write(folder / "tables.csv", _COLUMNS, _table_lines(release)),
        rows_csv.write(folder / "places.csv", head, _place_lines(release, codes, first)),
        rows_csv.write(folder / "atoms.csv", _ATOMS, _atom_lines(release, codes, first)),
        _write_bounds(folder / "bounds.parquet", release),
        page,
    ]


_COLUMNS = ("level", "code", "name", "grain", "group", "persons")
_ATOMS = ("grain", "atom", "group", "persons")


def _table_lines(release: LeastRelease) -> Iterator[tuple[object, ...]]:
    for level, areas in release.areas.items():
        each = zip(areas.codes, areas.names, areas.grain.tolist(), areas.table, strict=True)
        for code, name, h, table in each:
            if h < 0:
                yield level, code, name, "", "", ""
                continue
            grain = release.tables.chain.grains[h]
            for label, persons in zip(grain.labels, table.tolist(), strict=True):
                yield level, code, name, grain.name, label, persons


def _place_lines(
    release: LeastRelease, codes: NDArray[np.str_], first: list[Ints]
) -> Iterator[tuple[str, ...]]:
    columns = [(np.array((*a.codes, "")), a.area) for a in release.areas.values()]
    each = zip(first, release.tables.atom, strict=True)
    columns += [(codes[at], atom) for at, atom in each]
    for units in np.array_split(np.arange(len(codes)), len(codes) // UNITS + 1):
        yield from zip(*(names[of[units]].tolist() for names, of in columns), strict=True)


def _atom_lines(
    release: LeastRelease, codes: NDArray[np.str_], first: list[Ints]
) -> Iterator[tuple[object, ...]]:
    chain = release.tables.chain
    for grain, count, at in zip(chain.grains, release.tables.count, first, strict=True):
        for code, table in zip(codes[at].tolist(), count.tolist(), strict=True):
            yield from ((grain.name, code, g, n) for g, n in zip(grain.labels, table, strict=True))


def _write_bounds(path: Path, release: LeastRelease) -> Path:
    codes, labels = release.areas[release.lowest].codes, release.tables.chain.grains[-1].labels
    known = [pa.array(codes), pa.array(labels)]
    with atomic.file(path) as draft, pq.ParquetWriter(draft, _BOUNDS) as writer:
        for unit, group, *values in _bounds(release.tables):
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(i), names).cast(pa.string())
                for i, names in zip((unit, group), known, strict=True)
            ]
            writer.write_table(pa.table([*columns, *map(pa.array, values)], schema=_BOUNDS))
    return path


_BOUNDS = pa.schema(
    [
        ("code", pa.string()),
        ("group", pa.string()),
        ("lower", pa.int64()),
        ("upper", pa.int64()),
        ("estimate", pa.float64()),
    ]
)


def _bounds(tables: Staircase) -> Iterator[tuple[Ints, Ints, Ints, Ints, NDArray[np.float64]]]:
    """Unit, group, bounds and estimate of all counts that can be more than 0, some at a time."""
    finest = len(tables.chain) - 1
    for units in np.array_split(np.arange(len(tables)), len(tables) // UNITS + 1):
        lower, upper = tables.bounds(finest, units)
        row, group = np.nonzero(upper)
        guess = tables.estimates(finest, units)[row, group].round(3)
        yield units[row], group, lower[row, group], upper[row, group], guess


# --- synthetic microdata


def synthetic_persons(tables: Staircase, schema: Schema, seed: int) -> Histogram:
    """Persons by lowest unit and cell, assigned at random so that they have these tables. Of an
    attribute that the finest grain does not tell they have the first level; of cells that it does
    not tell apart, each is as likely as another."""
    rng = np.random.default_rng(seed)
    unit, group = assignment(tables, rng)
    index, able = tables.chain.grains[-1].index, np.ones(schema.cells, dtype=bool)
    for axis, attribute in enumerate(schema.attributes):
        each = index.reshape(schema.shape)
        if (each == each.take([0], axis)).all():
            able &= schema.level_of(attribute.name) == 0
    order = np.flatnonzero(able)[np.argsort(index[able], kind="stable")]
    size = np.bincount(index[able])
    place = (
        np.cumsum(size)[group] - size[group] + (rng.random(len(group)) * size[group]).astype(int)
    )
    ones = np.ones(len(unit), dtype=np.int64)
    return Histogram.from_triplets(len(tables), schema.cells, unit, order[place], ones)


def described_persons(schema: Schema, chain: Chain) -> dict[str, object]:
    """What their reader must know, as a certificate has it: the attributes, and the group of each
    cell at the finest grain."""
    attributes = {a.name: dict(zip(a.levels, a.labels, strict=True)) for a in schema.attributes}
    group = chain.grains[-1].index.tolist()
    return {"schema": schema.name, "attributes": attributes, "group": group}


def _form(release: LeastRelease) -> tuple[MicrodataForm, Schema, Ints]:
    """The columns of persons, their cells, and the group of each."""
    said = release.certificate["persons_of"]
    known = SCHEMAS.get(said["schema"])
    schema = known or Schema.from_attributes(said["schema"], said["attributes"])
    return PERSONS.publication(schema).microdata, schema, np.array(said["group"])


def _microdata_codes(release: LeastRelease) -> Codes:
    """The codes of the lowest units; of blocks with their block group's digit, as in such files."""
    codes = np.array(release.areas[release.lowest].codes)
    if release.lowest == "Block" and (np.strings.str_len(codes) == BLOCK - 1).all():
        codes = np.array([f"{c[:12]}{c[11:]}" for c in codes.tolist()])
    return encoded(codes)


def _check_persons(folder: Path, release: LeastRelease) -> None:
    form, schema, group = _form(release)
    tables, finest = release.tables, len(release.tables.chain) - 1
    found = read_form(
        folder / PERSONS.folder,
        form,
        _microdata_codes(release),
        schema.cells,
        lambda batch, where: cells_of(batch, form.columns, schema, where),
        f"schema {schema.name!r}",
    )
    count = np.zeros((len(tables), len(tables.chain.grains[-1])), dtype=np.int64)
    np.add.at(count, (found.unit, group[found.cell]), found.count)
    for h, (atom, table) in enumerate(zip(tables.atom, tables.count, strict=True)):
        if not np.array_equal(summed_by(atom, tables.chain.coarser(count, finest, h)), table):
            raise InputError("persons do not agree with the tables", where=folder / PERSONS.folder)


# --- the page

#: Colors of grains, the coarsest first: ColorBrewer's Blues.
SHADES = ("#f7fbff", "#deebf7", "#c6dbef", "#9ecae1", "#6baed6", "#4292c6", "#2171b5", "#08519c")


def _tiles(release: LeastRelease) -> Iterator[tuple[str, list[tuple[str, int]], list[int]]]:
    """A picture for each unit two levels above those next to the lowest, or for the whole: its
    name; of each unit next to the lowest the name and the finest grain; and how many have each."""
    levels = list(release.areas.values())[: release.levels]
    tiles, within, above = (levels[max(0, release.levels - back)] for back in (2, 3, 4))
    finest = tiles.grain + release.tables.joined  # the page counts from none on
    first = np.unique(tiles.area, return_index=True)[1]
    around = np.array(within.names)[within.area[first]].tolist()
    words = [", ".join(dict.fromkeys((a, n))) for a, n in zip(around, tiles.names, strict=True)]
    for number, name in enumerate(above.names):
        here = np.flatnonzero(above.area[first] == number).tolist()
        shown = [(words[t].strip(", ") or tiles.codes[t], int(finest[t])) for t in here]
        size = len(release.tables.chain) + release.tables.joined
        numbers = np.bincount(finest[here], minlength=size).tolist()
        yield name or above.codes[number], shown, numbers


def _shown(release: LeastRelease) -> Iterator[tuple[str, int, list[tuple[int, float]]]]:
    """By level: its words, how many areas, and by grain how many show it, with the share of all
    persons who live in them."""
    persons = release.tables.estimates(0, np.arange(len(release.tables)))
    for level, areas in release.areas.items():
        shown = []
        for h in range(-release.tables.joined, len(release.tables.chain)):
            inside = (areas.area >= 0) & (areas.grain >= h)[areas.area]
            share = float(persons[inside].sum() / persons.sum())
            shown.append((int((areas.grain >= h).sum()), 100 * share))
        yield level_words(level), len(areas.codes), shown


# --- the check


def check(folder: Path) -> tuple[list[str], list[str]]:
    """What is right in a publication, and what nobody can check from its folder, in words. Raises
    :class:`InputError` for what is not as it should be."""
    release = read(folder)
    tables, rules = release.tables, Rules(**release.certificate["rules"])
    if (failing := tables.failing(rules)).any():
        least = rules.totals if failing[0] else rules.k
        what = f"{failing.sum()} atoms have fewer than {least} persons, or a count under {rules.m}"
        raise InputError(what, where=folder / "atoms.csv")
    cut = 0
    with _whole(folder / "tables.csv") as path:
        for number, (level, areas) in enumerate(release.areas.items()):
            if number < release.levels:
                _check_level(path, tables, level, areas)
            else:
                cut += _check_districts(path, tables, rules, level, areas)
    if len(known := tables.given_away(rules.m)):
        raise InputError(f"{len(known)} small hidden counts follow exactly", where=folder)
    with _whole(folder / "bounds.parquet") as path:
        _check_bounds(path, release)
    drawn = "persons_of" in release.certificate
    if drawn:
        _check_persons(folder, release)
    return [
        *["persons have exactly the tables of units and atoms"] * drawn,
        f"{sum(map(len, tables.count[1:])):,} tables of atoms nest, and add up over"
        f" {len(tables.chain)} grains",
        f"each has {rules.k} persons or more, and no count of 1 to {rules.m - 1}"
        + f"; each total is {rules.totals} or more" * (rules.totals > 0),
        "tables of units are sums of atoms; those of districts pass the rules, have the sums that"
        " atoms have, and lie within bounds",
        "no small hidden count follows exactly from the tables of atoms",
        "bounds and estimates are those that follow from the tables",
    ], [
        f"{cut} tables of districts that cut atoms: others may have the same sums and bounds; what"
        " follows from them about parts of atoms",
        "whether the counts are true, and the names of places",
    ][cut == 0 :]


def _check_level(path: Path, tables: Staircase, level: str, areas: ShownAreas) -> None:
    own = tables.own(areas.area)
    sums = finest_tables(areas.grain, areas.area, tables.tables)
    for u, h in enumerate(areas.grain.tolist()):
        if own[u] < h or not np.array_equal(areas.table[u], sums[u]):
            grain = tables.chain.grains[h].name
            said = f"the table of {level_words(level)} {areas.codes[u]} by {grain}"
            raise InputError(f"{said} is no sum of atoms", where=path)


def _check_districts(
    path: Path, tables: Staircase, rules: Rules, kind: str, areas: ShownAreas
) -> int:
    """Tables pass the rules; where districts and atoms divide the same units, sums are the same; and
    each count lies within the bounds of the parts of atoms that it counts. How many cut atoms."""
    own = tables.own(areas.area)
    for h, grain in enumerate(tables.chain.grains):
        counts = np.zeros((len(own), len(grain)), dtype=np.int64)
        for u in np.flatnonzero(areas.grain >= h).tolist():
            counts[u] = tables.chain.coarser(areas.table[u][None], int(areas.grain[u]), h)[0]
        lower, upper = tables.bounds_of_areas(h, areas.area)
        shown, beyond = areas.grain >= h, ((counts < lower) | (counts > upper)).any(axis=1)
        other = tables.at_odds(h, areas.area, shown, counts)
        for what, wrong in (
            ("has other sums than the atoms of the same places", other),
            ("does not pass the rules", ~rules.passing(counts, grain) & (h > 0)),
            ("divides places whose total is one", own < 0),
            ("has counts beyond the bounds of its places", beyond),
        ):
            for u in np.flatnonzero(wrong & shown).tolist():
                said = f"the table of {level_words(kind)} {areas.codes[u]} by {grain.name} {what}"
                raise InputError(said, where=path)
    return int((areas.grain > own).sum())


def _check_bounds(path: Path, release: LeastRelease) -> None:
    names = {
        "code": pa.array(release.areas[release.lowest].codes),
        "group": pa.array(release.tables.chain.grains[-1].labels),
    }
    with pq.ParquetFile(path) as file:
        batches, found = file.iter_batches(), _BOUNDS.empty_table()
        for part in _bounds(release.tables):
            while len(found) < len(part[0]) and (more := next(batches, None)) is not None:
                found = pa.concat_tables([found, pa.Table.from_batches([more])])
            rows, found = found.slice(0, len(part[0])), found.slice(len(part[0]))
            number = [pc.index_in(rows[n], value_set=v).fill_null(-1) for n, v in names.items()]
            stated = [*number, *(rows[name] for name in ("lower", "upper", "estimate"))]
            if not all(np.array_equal(x, y) for x, y in zip(stated, part, strict=True)):
                raise InputError("bounds are not those that follow from the tables", where=path)
        if len(found) or next(batches, None) is not None:
            raise InputError("there are bounds of other counts", where=path)


def read(folder: Path) -> LeastRelease:
    """A publication from its files. Raises :class:`InputError` where these are damaged, or tables
    do not nest and add up."""
    if not (folder / CERTIFICATE).is_file():
        raise InputError(
            "is no publication of the least coarsening",
            where=folder,
            remedy="das frontier protect coarsen-least writes one",
        )
    with _whole(folder / CERTIFICATE) as path:
        said = read_json(path)
        chain, _ = _chain(said["chain"]), Rules(**said["rules"])
        names, lowest = [*said["levels"], *said["districts"]], said["levels"][-1]
    atom, every = list[Ints](), list[dict[str, int]]()
    with _whole(folder / "places.csv") as path:
        places = _rows(path)
        for grain in chain.grains:
            codes, of = np.unique([row[grain.name] for row in places], return_inverse=True)
            atom.append(of.ravel().astype(np.int64))
            every.append({code: i for i, code in enumerate(codes.tolist())})
    with _whole(folder / "tables.csv") as path:
        shown = _rows(path)
        areas = {name: _areas(name, places, shown, chain) for name in names}
        if len(shown) != sum(max(len(t), 1) for a in areas.values() for t in a.table):
            raise ValueError("lines of other levels")
    with _whole(folder / "places.csv"):
        if (np.sort(areas[lowest].area) != np.arange(len(areas[lowest].codes))).any():
            raise ValueError("no line for some place, or two")
    with _whole(folder / "atoms.csv") as path:
        count = _atoms(_rows(path), every, chain)
    return LeastRelease(
        Staircase(chain, tuple(atom), tuple(count)), len(said["levels"]), areas, said
    )


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """What reading a file or a folder of a publication raises becomes one message."""
    try:
        yield path
    except (LookupError, ValueError, TypeError, AttributeError, OSError, csv.Error, ReleaseError):
        what = "is damaged, cut short or of another publication" if path.exists() else "is missing"
        raise InputError(what, where=path, remedy="take the folder as it was published") from None


def described(chain: Chain) -> list[dict[str, object]]:
    """A chain as a certificate has it: its grains, their groups, and the groups of the grain before
    that these lie in."""
    within = [[0] * len(chain.grains[0]), *(a.tolist() for a in chain.above)]
    return [
        {"grain": g.name, "title": g.title, "groups": list(g.labels), "within": w}
        | {"classes": g.classes.tolist()}
        for g, w in zip(chain.grains, within, strict=True)
    ]


def _chain(said: list[dict[str, Any]]) -> Chain:
    """The same over the groups of the finest grain."""
    index, out = np.arange(len(said[-1]["groups"])), list[Grain]()
    for grain in reversed(said):
        words = tuple(grain["groups"])
        classes = np.array(grain["classes"])
        out.insert(0, Grain(grain["grain"], index, words, classes, grain["title"]))
        index = np.array(grain["within"])[index]
    return Chain(tuple(out))


def _areas(
    level: str, places: list[dict[str, str]], shown: list[dict[str, str]], chain: Chain
) -> ShownAreas:
    labels = {"": ("",)} | {g.name: g.labels for g in chain.grains}
    number = {name: h for h, name in enumerate(labels, -1)}
    rows: dict[str, list[dict[str, str]]] = {}
    for row in shown:
        if row["level"] == level:
            rows.setdefault(row["code"], []).append(row)
    unit, grain = {code: u for u, code in enumerate(rows)}, [r[0]["grain"] for r in rows.values()]
    for name, lines in zip(grain, rows.values(), strict=True):
        said = [(row["grain"], row["group"]) for row in lines]
        if said != [(name, label) for label in labels[name]]:
            raise ValueError("a table with other lines than the groups of its grain")
    return ShownAreas(
        tuple(rows),
        tuple(r[0]["name"] for r in rows.values()),
        np.array([unit[p[level]] if p[level] else -1 for p in places]),
        np.array([number[name] for name in grain]),
        tuple(np.array([int(n["persons"]) for n in r if n["grain"]], int) for r in rows.values()),
    )


def _atoms(rows: list[dict[str, str]], codes: list[dict[str, int]], chain: Chain) -> list[Ints]:
    """The tables of atoms at each grain."""
    number = {g.name: h for h, g in enumerate(chain.grains)}
    group = [{label: i for i, label in enumerate(g.labels)} for g in chain.grains]
    out = [np.full((len(c), len(g)), -1) for c, g in zip(codes, group, strict=True)]
    for row in rows:
        h = number[row["grain"]]
        out[h][codes[h][row["atom"]], group[h][row["group"]]] = int(row["persons"])
    if any((table < 0).any() for table in out):
        raise ValueError("no line for some count, or one below 0")
    return out


def _rows(path: Path) -> list[dict[str, str]]:
    """The lines of a file; each ends where the header does."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file, strict=True))
    if not rows or any(None in row or None in row.values() for row in rows):
        raise ValueError("a line that is too long or too short")
    return rows
