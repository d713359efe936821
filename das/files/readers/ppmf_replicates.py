"""A folder of published microdata and its replicates: which file is which.

Approximate Monte Carlo comes as a release, number 0, and its replicates, 1 to N: files, or folders
of files, side by side. Their names are alike except for a number in them. **The number of each is
the last one in its name that differs between names**:

=============================================  ==========================
``PPMF20_0_PER.csv.gz``, ``PPMF20_1_PER...``   0, 1: 20 is in every name
``ppmf0.csv``, ``ppmf1.zip``                   0, 1: endings do not count
``2010-dhc-replicate-00/``, ``...-01/``        0, 1
=============================================  ==========================

Files of housing units are ignored, as are names that begin with ``.`` or ``_``, files that are not
text, and folders without text files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from das.errors import InputError
from das.files.readers import ppmf_persons
from das.files.readers.source import Member

Series = Mapping[str, Sequence[Member]]  #: by name of the entry
_ENDINGS = (".csv", ".txt", ".psv", ".gz", ".zip")
_EXPECTED = (
    "0 is the published microdata, 1, 2, ... are its replicates: names of files or folders must"
    " differ only in that number (ppmf0.csv, ppmf1.csv, ...), in a folder of their own"
)


def replicate_files(folder: Path, most: int | None = None) -> tuple[tuple[Member, ...], ...]:
    """The persons' files of the release and of its replicates, of all or of the first ``most``, by
    number. The columns of each are there.

    Raises:
        InputError: no such folder; names that are not alike; a number that is missing, or there
            twice; another file; fewer replicates than ``most``.
    """
    if not folder.is_dir():
        raise InputError("no such folder", where=folder, remedy=_EXPECTED)
    alike: dict[tuple[str, ...], dict[str, list[Member]]] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "_")) or not (
            path.is_dir() or path.suffix.lower() in _ENDINGS
        ):
            continue
        files = [m for m in ppmf_persons.tables(path) if _is_of_persons(m)]
        if files:
            alike.setdefault(tuple(re.split(r"\d+", _stem(path.name))), {})[path.name] = files
    if len(alike) != 1:
        firsts = [next(iter(series)) for series in alike.values()]
        what = (
            f"names that are not alike: {', '.join(firsts[:4])}"
            if firsts
            else "no persons' file of microdata"
        )
        raise InputError(f"has {what}", where=folder, remedy=_EXPECTED)
    every = _in_order(folder, next(iter(alike.values())))
    if most is not None and most >= len(every):
        raise InputError(
            f"has {len(every) - 1} replicates, not {most}",
            where=folder,
            remedy="ask for fewer, or for all",
        )
    return every if most is None else every[: most + 1]


def _in_order(folder: Path, series: Series) -> tuple[tuple[Member, ...], ...]:
    """Those of a series, by their numbers."""
    numbers = {name: [int(n) for n in re.findall(r"\d+", _stem(name))] for name in series}
    differ = [i for i, of in enumerate(zip(*numbers.values(), strict=True)) if len(set(of)) > 1]
    if not differ:
        raise InputError(
            f"has nothing that differs by a number: {', '.join(list(series)[:4])}",
            where=folder,
            remedy=_EXPECTED,
        )
    names: dict[int, str] = {}
    for name, found in numbers.items():
        if (other := names.setdefault(found[differ[-1]], name)) != name:
            raise InputError(
                f"{other} and {name} are both number {found[differ[-1]]}",
                where=folder,
                remedy=_EXPECTED,
            )
    lost = next((n for n in range(max(names)) if n not in names), None)
    if lost is not None or len(names) < 3:
        what = "which is one replicate alone" if lost is None else f"but no number {lost}"
        raise InputError(
            f"has numbers {_spans(sorted(names))} ({names[min(names)]}, ...), {what}",
            where=folder,
            remedy=_EXPECTED,
        )
    return tuple(tuple(series[names[n]]) for n in sorted(names))


def _is_of_persons(member: Member) -> bool:
    """Whether it is of persons, and not of housing units. Raises :class:`InputError` for what is
    neither.
    """
    head = ppmf_persons.header(member)
    return not head.of_units and bool(head.columns())


def _stem(name: str) -> str:
    """A name without its endings, in small letters."""
    stem = name.lower()
    while stem.endswith(_ENDINGS):
        stem = stem.rpartition(".")[0]
    return stem


def _spans(numbers: Sequence[int]) -> str:
    """
    >>> _spans([0, 1, 2, 5])
    '0 to 2, 5'
    """
    spans: list[list[int]] = []
    for n in numbers:
        if spans and spans[-1][1] == n - 1:
            spans[-1][1] = n
        else:
            spans.append([n, n])
    return ", ".join(f"{a} to {b}" if a < b else str(a) for a, b in spans)
