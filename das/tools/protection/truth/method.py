"""A protection method: a value that turns records and a table set into protected tables."""

from __future__ import annotations

import hashlib
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError, SpecError
from das.model.confidential import Confidential
from das.model.frozen import Frozen, NoRepr
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.plugins import Plugins
from das.tools.protection.published import LevelLines, ProtectedTables, TableSet

# The records of a study: persons in their places, and who lives with whom (confidential).

#: The household of a person who is in none: somebody in group quarters.
NO_HOUSEHOLD = -1


@dataclass(frozen=True, eq=False, repr=False)
class StudyRecords(NoRepr, Frozen):
    """Persons as arrays of int64, ``(persons,)``. ``place``: the unit of the lowest level of
    ``spine``; ``cell``: of ``schema``; ``household``: its number, 0 to households - 1, or
    :data:`NO_HOUSEHOLD`; ``None`` where the input has no households. ``points``: a coordinate pair
    for each place, ``(places, 2)``, where known."""

    schema: Schema
    spine: Spine
    place: NDArray[np.int64]
    cell: NDArray[np.int64]
    household: NDArray[np.int64] | None = None
    points: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        where, places = "records of a study", self.spine.units(self.spine.levels[-1])
        if len(self.place) != len(self.cell):
            raise InputError("places and cells differ in number", where=where)
        for name, value, most in (
            ("place", self.place, places),
            ("cell", self.cell, self.schema.cells),
        ):
            if len(value) and not (value.min() >= 0 and value.max() < most):
                raise InputError(f"a {name} outside 0..{most - 1}", where=where)
        if self.household is not None:
            self._check_households(where)
        if self.points is not None and self.points.shape != (places, 2):
            raise InputError("each place needs two coordinates", where=where)

    def _check_households(self, where: str) -> None:
        assert self.household is not None
        if len(self.household) != len(self.place):
            raise InputError("persons and their households differ in number", where=where)
        inside = self.household != NO_HOUSEHOLD
        home, place = self.household[inside], self.place[inside]
        if not np.array_equal(np.unique(home), np.arange(self.households)):
            raise InputError("households are not numbered 0 to households - 1", where=where)
        order = np.argsort(home, kind="stable")
        same = home[order][1:] == home[order][:-1]
        if (place[order][1:] != place[order][:-1])[same].any():
            raise InputError("a household is in two places", where=where)

    def __len__(self) -> int:
        return len(self.place)

    @property
    def households(self) -> int:
        """The number of households; 0 where the input has none."""
        if self.household is None or not len(self.household):
            return 0
        return int(self.household.max()) + 1

    def histogram(self) -> Histogram:
        """Counts by place and cell."""
        ones = np.ones(len(self), dtype=np.int64)
        places = self.spine.units(self.spine.levels[-1])
        return Histogram.from_triplets(places, self.schema.cells, self.place, self.cell, ones)


class Guarantee(Enum):
    """What can be proved about a method. ``FORMAL``: a bound on every attack; ``CONDITIONAL``: one
    given stated invariants; ``NONE``: an attack measures itself alone."""

    FORMAL = "formal"
    CONDITIONAL = "conditional"
    NONE = "none"


@dataclass(frozen=True)
class ProtectionMethod(ABC):
    """A frozen dataclass whose fields are the parameters of the method.

    A method of your own has a ``name``, says whether it draws random numbers (``random``; a
    property where that depends on a parameter) and what is proved about it (``guarantee``), and
    implements :meth:`published`."""

    name: ClassVar[str]
    random: ClassVar[bool]
    guarantee: ClassVar[Guarantee] = Guarantee.NONE

    def protect(
        self, records: Confidential[StudyRecords], tables: TableSet, key: bytes
    ) -> ProtectedTables:
        """What is published about ``records`` in ``tables``. The only place that opens them."""
        known = records.open("to protect them by a method whose effect is to be measured")
        return self.published(known, tables, key)

    @abstractmethod
    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        """What is published. The same key, records and tables give the same answer; the same cell
        of two tables gets the same treatment."""

    @property
    def statement(self) -> str:
        """What is known of its privacy loss besides the guarantee; empty for nothing."""
        return ""

    @property
    def label(self) -> str:
        """The method and its settings, on pages."""
        return self.name


def generator(key: bytes, *purpose: str) -> np.random.Generator:
    """Random numbers of one purpose of a method, a function of the key alone.

    >>> int(generator(b"1", "swap").integers(100)), int(generator(b"1", "swap").integers(100))
    (65, 65)"""
    digest = hashlib.sha256(b"\0".join((key, *(p.encode() for p in purpose)))).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))


# No protection: every line as it is. The attack's upper end.


@dataclass(frozen=True)
class Unprotected(ProtectionMethod):
    """Exact tables of the records."""

    name: ClassVar[str] = "none"
    random: ClassVar[bool] = False

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        spine = records.spine
        return ProtectedTables(spine, tables, exact_lines(records.histogram(), spine, tables))


def exact_lines(lowest: Histogram, spine: Spine, tables: TableSet) -> dict[str, LevelLines]:
    """The exact lines of each level that has tables, from a histogram of the lowest level."""
    every = lowest.upward(spine)
    return {
        level: LevelLines.exact(tables.lines(level).counts(every[level])) for level in tables.tables
    }


# A method from a file of yours: ``path.py:Class``, the class of a :class:`ProtectionMethod`.


def own_method(spelled: str, folder: Path, where: str) -> type[ProtectionMethod]:
    """The class that ``file.py:Class`` names; the file is looked for in ``folder``, and run. Raises
    :class:`SpecError` where there is none."""
    file, _, name = spelled.rpartition(":")
    path = folder / file
    module_name = f"das_own_method_{path.stem}"
    found = spec_from_file_location(module_name, path) if path.is_file() else None
    if found is None or found.loader is None:
        raise SpecError(
            f"there is no file {path}", where=where, remedy="write file.py:Class, with its path"
        )
    module = module_from_spec(found)
    sys.modules[module_name] = module  # a dataclass looks its module up
    found.loader.exec_module(module)
    kind = getattr(module, name, None)
    if not (isinstance(kind, type) and issubclass(kind, ProtectionMethod)):
        raise SpecError(
            f"{path.name} has no method {name!r}",
            where=where,
            remedy="name a class below das.tools.protection.truth.method.ProtectionMethod",
        )
    return kind


# The methods by the names that a study gives them. A table of a study becomes a method by
# :func:`das.spec.tree.built`; a file has a method of your own (:mod:`das.tools.protection.truth.method`).

#: The methods' classes by their names, in the order of pages.
METHODS: Plugins[type[ProtectionMethod]] = Plugins(
    "das.protection_methods",
    "protection method",
    ProtectionMethod,
    (
        "none",
        "swapping",
        "permutation-swapping",
        "cell-key",
        "rounding",
        "coarsening",
        "least-coarsening",
        "suppression",
        "topdown",
    ),
    classes=True,
)
