r"""From the tables of redistricting files to records.

Tables P1 (race) and P3 (race, 18 and over) list the 63 combinations of races with their sub-totals;
P2 and P4 do so for the people who are not Hispanic. With :math:`p^k_r` the count of combination
:math:`r` in table :math:`k`, the four histograms over races are

.. math:: h_{18+,N} = p^4, \quad h_{18+,H} = p^3 - p^4, \quad h_{<18,N} = p^2 - p^4, \quad
          h_{<18,H} = (p^1 - p^2) - (p^3 - p^4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import pl94_common
from das.files.readers import pl94_common as pl94
from das.files.readers.pl94_common import (
    AGAIN,
    LEAVES,
    LEVELS,
    SF1_BLOCKS,
    WIDTHS,
    Header,
    HeaderPlaces,
)
from das.files.readers.source import Member, points
from das.model.confidential import Confidential
from das.model.names import Codes, Names, characters, encoded, merged, of_characters
from das.model.records import Blocks, Extract, Records
from das.model.redistricting import CENRACE, H1, PL94
from das.model.schema import Schema
from das.model.source import Source
from das.model.universe import HOUSING

# The geographic fields of the blocks of redistricting files, from their headers.

#: Fields that some headers leave empty.
DISTRICTS = ("CD", "SLDU", "SLDL", "VTD", "SDELM", "SDSEC", "SDUNI")
#: Fields of blocks whose codes stand in the header as they are.
RAW = {"Place": "PLACE", "AIAN": "AIANHH"} | {f: f for f in DISTRICTS}


def geography(header: Header, places: HeaderPlaces) -> dict[str, Codes]:
    """The geographic fields of the blocks. Places, American Indian areas and districts are raw
    codes, all 9 for none."""
    at = places.rows["750"]
    code = characters(encoded(places.codes["750"]))
    fields = {level.field: of_characters(code[:, : level.width]) for level in LEVELS.values()}
    fields["Tract_Group"] = of_characters(code[:, :9])
    fields["County_Subdivision"] = np.strings.add(
        fields["County"], encoded(header.fields["COUSUB"][at])
    )
    for field, raw in RAW.items():
        value = header.fields[raw][at]
        none = ((points(value) == ord(" ")) | (points(value) == ord("Z"))).all(
            axis=1
        )  # Z: none is defined
        fields[field] = np.where(none, b"9" * WIDTHS[raw], encoded(value))
    return fields


HALF = PL94.cells // 8  #: cells of one type of dwelling: voting age x Hispanic x race


class Counts(NamedTuple):
    """``number`` persons of ``cell`` live in ``block``; cells of one type of dwelling, or of
    ``PL94``."""

    block: NDArray[np.int64]
    cell: NDArray[np.int64]
    number: NDArray[np.int64]


def persons(
    values: NDArray[np.int32], places: HeaderPlaces, where: str, chunk: int = 1 << 14
) -> Counts:
    """Persons by block and (voting age, Hispanic, race), ``HALF`` = 252 cells, those > 0 in order
    of block."""
    rows, out = places.rows["750"], []
    for start in range(0, len(rows), chunk):
        at = rows[start : start + chunk]
        p1, p2, p3, p4 = (
            values[np.array(LEAVES[t])[:, None], at].T for t in ("P001", "P002", "P003", "P004")
        )
        h = np.concatenate([p2 - p4, (p1 - p2) - (p3 - p4), p4, p3 - p4], axis=1)
        if h.size and h.min() < 0:
            bad, race = (int(i[0]) for i in np.nonzero(h < 0))
            raise InputError(
                f"block {places.codes['750'][start + bad]} has fewer persons of race"
                f" {CENRACE[race % 63]} in all than in its parts (tables P1 to P4)",
                where=where,
                remedy=AGAIN,
            )
        block, cell = np.nonzero(h)
        out.append(Counts(block + start, cell, h[block, cell].astype(np.int64)))
    return Counts(*(np.concatenate(a) for a in zip(*out, strict=True)))


class StateExtract(NamedTuple):
    """One state, ready to be joined with others: ``persons`` in cells of ``PL94``; ``housing`` is
    total, occupied and vacant units, ``(3, blocks)``; ``names`` of places by field."""

    fields: Mapping[str, Codes]
    persons: Counts
    housing: NDArray[np.int64]
    names: Mapping[str, Names]


def structures(blocks: int, people: Counts, housing: NDArray[np.int64]) -> NDArray[np.int64]:
    """``(blocks, 8)``: housing units, and 1 for each type of group quarters that somebody lives
    in."""
    out = np.zeros((blocks, 8), dtype=np.int64)
    out[people.block, people.cell // HALF] = 1
    out[:, 0] = housing
    return out


def cell_map(schema: Schema) -> NDArray[np.int64]:
    """For each cell of ``PL94`` the cell of ``schema``, whose attributes are some of those of
    ``PL94``."""
    known = {a.name: a for a in PL94.attributes}
    for a in schema.attributes:
        if a.name not in known or len(a.levels) != len(known[a.name].levels):
            sizes = ", ".join(f"{k} ({len(v.levels)})" for k, v in known.items())
            raise InputError(
                f"these files do not say attribute {a.name!r} with {len(a.levels)} levels",
                where=f"schema {schema.name!r}",
                remedy=f"use attributes among {sizes}",
            )
    level = [PL94.level_of(a.name) for a in schema.attributes]
    return np.ravel_multi_index(level, schema.shape).astype(np.int64)


def extract(
    states: Sequence[StateExtract],
    schema: Schema,
    sources: tuple[Source, ...],
    assigned: Mapping[str, str] | None = None,
) -> Extract:
    """All states together, in the order of their codes. ``assigned``: attributes that no table
    says, and how they were made up; those that ``schema`` lacks are left out."""
    states = sorted(states, key=lambda s: s.fields["State"][0])
    for a, b in pairwise(states):
        if a.fields["State"][0] == b.fields["State"][0]:
            raise InputError(
                f"two files of state {a.fields['State'][0].decode()}",
                where="data.path",
                remedy="give it once",
            )
    sizes = [len(s.fields["Block"]) for s in states]
    offset = np.concatenate([[0], np.cumsum(sizes)])
    people = Counts(
        np.concatenate([s.persons.block + o for s, o in zip(states, offset, strict=False)]),
        np.concatenate([s.persons.cell for s in states]),
        np.concatenate([s.persons.number for s in states]),
    )
    housing = np.concatenate([s.housing for s in states], axis=1)
    fields = {f: np.concatenate([s.fields[f] for s in states]) for f in states[0].fields}
    undefined = [f for f in DISTRICTS if not np.strings.strip(fields[f], b"9").any()]
    fields = {f: code for f, code in fields.items() if f not in undefined}
    unit, block = np.nonzero(
        housing[[2, 1]]
    )  # vacant is cell 0 of the schema of housing units, occupied cell 1
    return Extract(
        Blocks(
            fields, structures(int(offset[-1]), people, housing[0]), merged(s.names for s in states)
        ),
        Confidential(Records(schema, people.block, cell_map(schema)[people.cell], people.number)),
        {HOUSING.name: Confidential(Records(H1, block, unit, housing[[2, 1]][unit, block]))},
        sources,
        {
            name: says
            for name, says in (assigned or {}).items()
            if name in {a.name for a in schema.attributes}
        },
    )


# Who lives in group quarters: counts by block and type, and which of the block's people they are.
#
# 2010: table P42 of Summary File 1, segment 06 (``{ss}000062010.sf1``), fields 169 to 178 of 259,
# counting the five identifiers. Its blocks are records of summary level 101 (the P.L. file lists them
# as 750). 2020: table P5 of the redistricting file, with the same ten cells.
#
# Neither table says which people of the block they are, by age, origin and race. :func:`assign`
# chooses, by a rule without chance, so that the same files always give the same records.

P42 = [f"P042{i:04d}" for i in range(1, 11)]
COLUMNS = [f"field {i}" for i in range(6, 169)] + P42 + [f"field {i}" for i in range(179, 260)]

#: Types in the order in which they choose, with whom they take: each step a class of age, and
#: nobody else where the steps end. Nursing homes hold adults only (a structural zero of the
#: schema).
ADULTS, MINORS, ANYBODY = "adults", "minors", "anybody"
CHOICE = (
    (3, (ADULTS,)),
    (1, (ADULTS, MINORS)),
    (5, (ADULTS, MINORS)),
    (6, (ADULTS, MINORS)),
    (2, (MINORS, ADULTS)),
    (4, (ANYBODY,)),
    (7, (ANYBODY,)),
)


def counts(
    member: Member, header: Header, blocks: NDArray[np.str_], population: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Persons in group quarters of each type, ``(blocks, 7)``, for the sorted P.L. ``blocks``.

    ``header`` is Summary File 1's own. Raises unless it has the same blocks with the same
    ``population``."""
    level = SF1_BLOCKS if (header.sumlev == SF1_BLOCKS).any() else "750"
    found = pl94_common.places(header, level)
    values = np.empty((len(P42), len(header.line)), dtype=np.int32)
    pl94.segment(member, header, COLUMNS, P42, fileid="SF1ST", number=6, delimiter=",", out=values)
    pl94.check_sums(values, pl94.GQ_SUMS, P42, header.line, member.name)
    if len(odd := np.setxor1d(found.codes["750"], blocks)):
        raise InputError(
            f"block {odd[0]} is in one of the P.L. header and the Summary File 1 header only",
            where=header.name,
            remedy="give the two products of the same state and census",
        )
    rows = found.rows["750"]
    if (wrong := header.pop100[rows] != population).any():
        bad = int(np.flatnonzero(wrong)[0])
        raise InputError(
            f"block {blocks[bad]} has another number of persons than in the P.L. file",
            where=f"{header.name}, line {header.line[rows[bad]] + 1}",
            remedy=AGAIN,
        )
    pl94_common.check_levels(values, found, list(pl94_common.LEVELS)[1:], P42, member.name)
    return values[:, rows][pl94.GQ_LEAVES].T.astype(np.int64)


def assign(
    people: Counts,
    types: NDArray[np.int64],
    housing_units: NDArray[np.int64],
    blocks: NDArray[np.str_],
    where: str,
) -> Counts:
    """Place everybody: ``types[b, t - 1]`` persons of block ``b`` in group quarters of type ``t``,
    the rest in households. ``people`` come in the ``HALF`` cells without type, sorted by block; the
    result in ``PL94``.

    Types choose in the order of ``CHOICE``. Within a class of age, persons are taken in proportion
    to their cells, by largest remainder, ties to the lower cell. Raises where a type cannot be
    filled, or where persons are left in a block without housing units."""
    left = people.number.copy()
    adult = people.cell >= HALF // 2
    classes = {ADULTS: adult, MINORS: ~adult, ANYBODY: np.ones_like(adult)}
    parts = []
    for kind, steps in CHOICE:
        need = types[:, kind - 1].copy()
        taken = np.zeros_like(left)
        for step in steps if need.any() else ():
            at = np.flatnonzero(classes[step] & (left > 0) & (need[people.block] > 0))
            got = apportion(people.block[at], left[at], need)
            left[at] -= got
            taken[at] += got
            np.subtract.at(need, people.block[at], got)
        if need.any():
            block = int(np.flatnonzero(need)[0])
            what = "adults" if steps == (ADULTS,) else "people"
            raise InputError(
                f"block {blocks[block]} has more persons in group quarters of type {kind} than"
                f" there are {what} left in it",
                where=where,
                remedy=(
                    "the tables of population and group quarters do not fit together; fetch the"
                    " files again"
                ),
            )
        some = np.flatnonzero(taken)
        parts.append(Counts(people.block[some], people.cell[some] + kind * HALF, taken[some]))
    home = np.flatnonzero(left)
    if (lost := housing_units[people.block[home]] == 0).any():
        block = people.block[home[np.flatnonzero(lost)[0]]]
        raise InputError(
            f"block {blocks[block]} has persons outside group quarters, but no housing unit",
            where=where,
            remedy=(
                "the tables of group quarters and housing do not fit together; fetch the files"
                " again"
            ),
        )
    parts.append(Counts(people.block[home], people.cell[home], left[home]))
    return Counts(*(np.concatenate(a) for a in zip(*parts, strict=True)))


def apportion(
    group: NDArray[np.int64], weight: NDArray[np.int64], seats: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Share ``seats[g]`` (at most all) out among the entries of each group, by largest remainder.

    ``group`` is sorted, ``weight`` positive; an entry never gets more than its weight.

    >>> apportion(np.array([0, 0, 0, 4]), np.array([5, 3, 2, 7]), np.array([4, 0, 0, 0, 9]))
    array([2, 1, 1, 7])"""
    total = np.zeros(len(seats), dtype=np.int64)
    np.add.at(total, group, weight)
    seats = np.minimum(seats, total)
    share, remainder = np.divmod(seats[group] * weight, total[group])
    short = seats.copy()
    np.subtract.at(short, group, share)
    order = np.lexsort((-remainder, group))
    rank = np.arange(len(group)) - np.searchsorted(group, group)
    share[order] += rank < short[group]
    return share
