"""Lines of published tables by name, from a folder of ``<Table>_<Level>.csv``, ours or another
publisher's. Its first column has the codes of places (``GEOCODE``). A column for each line is named
``P0170003`` or ``P17_003N``; as a value its name is ``P17:3``."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.files.release import tables

_OURS = re.compile(r"(P|H|PCT|HCT|PCO)(\d{3})(\d{4})")
_BUREAUS = re.compile(r"(P|H|PCT|HCT|PCO)(\d+)_(\d{3})N")
#: Levels in this order, the lowest first; others follow by name.
_ORDER = ("Block", "Block_Group", "Tract", "County", "State", "US")


def levels(folder: Path, wanted: Collection[str]) -> Sequence[str]:
    """The levels at which a folder has some of the ``wanted`` tables, the lowest first."""
    if not folder.is_dir():
        return ()
    parts = [path.stem.partition("_") for path in folder.glob("*_*.csv")]
    found = {level for name, _, level in parts if name in wanted}
    return [*(level for level in _ORDER if level in found), *sorted(found - set(_ORDER))]


def lines(folder: Path, level: str, wanted: Sequence[str]) -> dict[str, NDArray[np.int64]]:
    """Each line of the ``wanted`` tables that are there, ``(places,)``, in the order of the codes.
    Raises :class:`InputError` for damaged files, and tables of different places."""
    out: dict[str, NDArray[np.int64]] = {}
    first: tuple[str, list[bytes]] | None = None
    for table in wanted:
        path = folder / f"{table}_{level}.csv"
        if not path.is_file():
            continue
        found = tables.read(path)
        order = np.argsort(found.codes, kind="stable")
        codes = found.codes[order].tolist()
        if first is not None and codes != first[1]:
            raise InputError(
                f"has other places than {first[0]}",
                where=path,
                remedy="give tables of the same places",
            )
        first = first or (path.name, codes)
        for column, values in zip(found.columns, found.values.T, strict=True):
            if name := line_name(column):
                out[name] = values[order]
    return out


def line_name(column: str) -> str | None:
    """
    >>> line_name("P0170003"), line_name("H9_008N"), line_name("NAME")
    ('P17:3', 'H9:8', None)
    """
    found = _OURS.fullmatch(column) or _BUREAUS.fullmatch(column)
    return f"{found[1]}{int(found[2])}:{int(found[3])}" if found else None
