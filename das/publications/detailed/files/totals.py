"""``pop-group-totals.txt``: totals of groups of persons that were published, in the layout of table
t1."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.files import atomic
from das.files.delimited import Faults
from das.model.names import Codes
from das.publications.detailed.files.columns import Field, Reading, choice, whole, written
from das.publications.detailed.files.geography import ID_WIDTHS
from das.publications.detailed.model.iterations import REGIONS, Iterations
from das.publications.detailed.model.records import GroupTotals
from das.publications.detailed.model.tables import Parameters

FILE = "pop-group-totals.txt"
TYPES = tuple(region for of_run in REGIONS.values() for region in of_run)
WIDTHS = np.array([ID_WIDTHS[region.removeprefix("PR-")] for region in TYPES])
#: Ids are numbers below it; above it stands how many digits they have.
ID_LIMIT = 10 ** int(WIDTHS.max())
#: No count has more digits. As numbers of a column they are moved up by it: none is negative.
COUNT_DIGITS = 12
SHIFT = 10**COUNT_DIGITS
REMEDY = "give the table t1 that was made with the same iterations, as it was published"


def totals(path: Path, parameters: Parameters) -> GroupTotals:
    """The totals of all groups in regions of the types of each run; ``path`` is a file, or the
    folder of a table in parts (``*.csv``). An id that has not as many digits as those of its type
    is none that a geography has, and is passed over.

    Raises:
        InputError: with all faults, or as many as the message has room for: a group that is there
            twice, a region of no type, an iteration that is not tabulated among them."""
    faults, fields = Faults(), _fields(parameters.iterations)
    paths = files(path)
    parts = [np.zeros((5, 0), dtype=np.int64)]
    with ExitStack() as stack:
        readings = [stack.enter_context(Reading(p, fields, faults)) for p in paths]
        for part, file in enumerate(readings):
            for lines in file.batches():
                given, kind, iteration, count = lines.values.values()
                region = kind * ID_LIMIT + given % ID_LIMIT  # in the order of types, then of ids
                every = np.stack(
                    [region, iteration, count - SHIFT, lines.record, np.full(len(lines), part)]
                )
                parts.append(every[:, given // ID_LIMIT == WIDTHS[kind]])
        region, iteration, count, record, where = np.concatenate(parts, axis=1)
        order = np.lexsort([record, where, iteration, region])
        region, iteration = region[order], iteration[order]
        again = order[1:][(region[1:] == region[:-1]) & (iteration[1:] == iteration[:-1])]
        for part, file in enumerate(readings):
            file.note(
                "again",
                "is a group that is there already",
                np.sort(record[again[where[again] == part]]),
            )
    if not len(record) and not len(faults):
        faults.add(path.name, None, "has no groups")
    faults.refuse(path.parent, REMEDY)
    types = [t for run in parameters.runs for t in REGIONS[run]]
    return _by_type(region, iteration.astype(np.int32), count[order], types)


def files(path: Path) -> list[Path]:
    """The files of a table: ``path`` is its one file, or the folder of its parts."""
    return sorted(path.glob("*.csv")) if path.is_dir() else [path]


def copy(path: Path, into: Path) -> None:
    """The table as one file: the names of its columns, and the rows of all parts."""
    head, rows = b"", list[bytes]()
    for file in files(path):
        first, _, rest = file.read_bytes().partition(b"\n")
        head = head or first
        rows += [rest if not rest or rest.endswith(b"\n") else rest + b"\n"]
    atomic.write_bytes(into, head + b"\n" + b"".join(rows))


def _by_type(
    region: NDArray[np.int64],
    iteration: NDArray[np.int32],
    count: NDArray[np.int64],
    types: list[str],
) -> GroupTotals:
    of = {
        t: slice(
            *np.searchsorted(region, [TYPES.index(t) * ID_LIMIT, (TYPES.index(t) + 1) * ID_LIMIT])
        )
        for t in types
    }
    return GroupTotals(
        {
            t: written(region[rows] % ID_LIMIT, int(WIDTHS[TYPES.index(t)]))
            for t, rows in of.items()
        },
        {t: iteration[rows] for t, rows in of.items()},
        {t: count[rows] for t, rows in of.items()},
    )


def _fields(iterations: Iterations) -> list[Field]:
    """Columns in their order. An id is its number and how many digits it has, an iteration its
    number among the iterations."""
    number_of = np.full(10**4, -2, dtype=np.int64)
    number_of[iterations.code[iterations.tabulated].astype(np.int64)] = iterations.tabulated

    def identity(values: Codes) -> NDArray[np.int64]:
        n = whole(values, int(WIDTHS.max()))
        return np.where(n >= 0, n + np.strings.str_len(values) * ID_LIMIT, -1)

    def iteration(values: Codes) -> NDArray[np.int64]:
        n = np.where(np.strings.str_len(values) == 4, whole(values, 4), -1)
        return np.where(n >= 0, number_of[n], -1)

    def moved(values: Codes) -> NDArray[np.int64]:
        minus = np.strings.startswith(values, b"-")
        n = whole(np.where(minus, np.strings.replace(values, b"-", b"", 1), values), COUNT_DIGITS)
        return np.where(n >= 0, SHIFT + np.where(minus, -n, n), -1)

    return [
        Field("REGION_ID", identity, (f"not 1 to {WIDTHS.max()} digits",)),
        choice("REGION_TYPE", TYPES, kind=np.int64),
        Field(
            "ITERATION_CODE", iteration, ("not four digits", "not an iteration that is tabulated")
        ),
        Field("COUNT", moved, (f"not a whole number of at most {COUNT_DIGITS} digits",)),
    ]
