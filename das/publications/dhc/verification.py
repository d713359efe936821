"""A release of the DHC, checked against its plan and against the constraints on its counts.

In the measurements, every unit of every level must have a row for each query, with the stated
noise. In every block of the published records:

* persons have the redistricting counts that were published before;
* units match the published occupied and vacant units and the facilities;
* households of each tenure match the occupied units;
* nobody lives in a type of group quarters without a facility of that type;
* no count is in a structural zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from das.accounting.document import ALTERED, Line, Statement
from das.errors import ReleaseError
from das.files.measurements.nmf_reader import NmfReader
from das.model.histogram import Histogram
from das.model.mechanisms import Mechanism
from das.publications.dhc import release_files
from das.publications.dhc.release import Ints, OpenedDhc, tenures
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS, DhcUniverse
from das.release.seal import Wording
from das.release.verify import published
from das.release.verify.measured import check_queries


def check_files(opened: OpenedDhc, mechanism: Mechanism, lines: Sequence[Line]) -> None:
    """Raises :class:`ReleaseError` at the first line of the ledger that the measurements do not
    bear out."""
    sources = {u.name: opened.source(u) for u in opened.spec.universes}
    for name, there in sources.items():
        for level in opened.spine.levels:
            check_queries(lines, name, level, there.queries(level), there.root)
    for line in lines:
        if line.universe not in sources or line.level not in opened.spine.levels:
            raise ReleaseError(
                f"nothing is measured of {line.universe} at {line.level}",
                where=opened.folder,
                remedy=ALTERED,
            )
        source = sources[line.universe]
        where = f"{source.root}, {line.level}, {line.query}"
        units, answers = source.shape(line.level, line.query)
        variance = source.variance(line.level, line.query)
        if (units, answers) != (line.units, line.answers):
            raise ReleaseError(
                f"{units} units x {answers} answers, the statement says {line.units} x"
                f" {line.answers}",
                where=where,
                remedy=ALTERED,
            )
        least = max(mechanism.variance(line.parameter), float(np.finfo(np.float32).tiny))
        odd = ~(np.abs(variance / least - 1) <= 1e-5)
        if odd.any():
            unit = int(np.argmax(odd))
            code = opened.trees[line.universe].spine.code(line.level, unit)
            raise ReleaseError(
                f"variance {variance[unit]:.6g} of {code}, the statement gives {least:.6g}",
                where=where,
                remedy=ALTERED,
            )


def check_counts(opened: OpenedDhc, said: Statement) -> None:
    """Raises :class:`ReleaseError` at the first thing that must hold exactly and does not."""
    _check_known(opened, said)
    counts = release_files.read_counts(opened.folder, opened.spine)
    where = opened.folder / "microdata"
    exact = {**opened.fixed, HOUSEHOLDS: tenures(counts[UNITS])}
    for u in opened.spec.universes:
        h = counts[u.name]
        if not u.schema.possible[h.cell].all():
            raise ReleaseError(
                f"{u.name}: somebody is where nobody can be (a structural zero)",
                where=where,
                remedy=ALTERED,
            )
        if len(odd := _differing(u, h, exact[u.name])):
            code = opened.spine.code(opened.spine.levels[-1], int(odd[0]))
            raise ReleaseError(
                f"{u.name}: {len(odd):,} blocks have not the counts that are held fixed, as {code}",
                where=where,
                remedy=ALTERED,
            )
    persons = counts[PERSONS]
    schema = opened.spec.universe(PERSONS).schema
    level = persons.cell // int(np.prod(schema.shape[1:]))  # of relgq, the first attribute
    if len(odd := np.flatnonzero(~opened.able[persons.unit, level])):
        code = opened.spine.code(opened.spine.levels[-1], int(persons.unit[odd[0]]))
        raise ReleaseError(
            f"{len(odd):,} counts of persons in a type of group quarters that the block has no"
            f" facility of, as {code}",
            where=where,
            remedy=ALTERED,
        )


def check_published(opened: OpenedDhc, wording: Wording) -> None:
    """Check the tables of a release of the DHC against its microdata. Raises
    :class:`ReleaseError` at the first fault."""
    due = dict[str, str]()
    if opened.spec.output.tables:
        for name, lowest in release_files.read_counts(opened.folder, opened.spine).items():
            every = [
                (t, release_files.levels_of(t, opened.spine)) for t in release_files.tables_of(name)
            ]
            due |= published.check_tables(
                opened.folder,
                opened.spine,
                every,
                lowest.upward(opened.spine),
                opened.spec.run.private,
                wording,
            )
    published.check_names(opened.folder / published.TABLES, due)
    published.check_microdata_names(
        opened.folder,
        ("persons", "units"),
        opened.spec.output.csv,
        opened.spec.run.private,
        wording,
    )


def _differing(universe: DhcUniverse, h: Histogram, exact: Histogram) -> Ints:
    """The lowest units whose answers to the query that is held fixed are others."""
    query = universe.schema.query(universe.fixed_query)
    found = Histogram.from_triplets(h.units, query.answers, h.unit, query.at(h.cell), h.count)
    if found.same_as(exact):
        return np.zeros(0, dtype=np.int64)
    both = [
        set(zip(x.unit.tolist(), x.cell.tolist(), x.count.tolist(), strict=True))
        for x in (found, exact)
    ]
    return np.unique(np.array([unit for unit, _, _ in both[0] ^ both[1]]))


def _check_known(opened: OpenedDhc, said: Statement) -> None:
    """Check that the files of constraints have what is published exactly, and that these are the
    fixed counts."""
    units = opened.spec.universe(UNITS)
    root = opened.source(units).root
    listed = {(c.universe, c.level, c.constraint, c.sign) for c in said.outside}
    there = {(UNITS, level, query, "=") for level, query in opened.spec.exact[UNITS]}
    there |= {(c.universe, c.level, c.constraint, c.sign) for c in opened.spec.taken_over}
    if listed != there:
        raise ReleaseError(
            "it lists other constraints than the specification has",
            where=opened.folder,
            remedy=ALTERED,
        )
    ((level, query),) = opened.spec.exact[UNITS]
    tree = opened.tree(units)
    found = NmfReader(root, tree.spine).constraints(level)
    dense = opened.fixed[UNITS].dense()[tree.place]
    exact = np.concatenate([dense[:, :2].sum(axis=1, keepdims=True), dense[:, 2:]], axis=1)
    if set(found) != {query} or not np.array_equal(found[query][1], exact):
        raise ReleaseError(
            "the housing units and facilities that are listed are not those that are held fixed",
            where=root,
            remedy=ALTERED,
        )
