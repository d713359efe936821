"""Who lives in group quarters: counts by block and type, and which of the block's people they are.

2010: table P42 of Summary File 1, segment 06 (``{ss}000062010.sf1``), fields 169 to 178 of 259,
counting the five identifiers. Its blocks are records of summary level 101 (the P.L. file lists them
as 750). 2020: table P5 of the redistricting file, with the same ten cells.

Neither table says which people of the block they are, by age, origin and race. :func:`assign`
chooses, by a rule without chance, so that the same files always give the same records."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.readers import pl94_common as pl94
from das.files.readers import pl94_header
from das.files.readers.pl94_header import AGAIN, SF1_BLOCKS, Header
from das.files.readers.pl94_records import HALF, Counts
from das.files.readers.source import Member

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
    found = pl94_header.places(header, level)
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
    pl94_header.check_levels(values, found, list(pl94_header.LEVELS)[1:], P42, member.name)
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
    array([2, 1, 1, 7])
    """
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
