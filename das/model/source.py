"""Where something was read from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.names import Codes, Names, merged


@dataclass(frozen=True)
class Source:
    """An input file as it was read: name, size in bytes and SHA-256."""

    name: str
    size: int
    sha256: str


# Files of a release, as a page lists them.


@dataclass(frozen=True)
class ListedFile:
    """A file of the release, or a folder with a slash at its end: ``path`` from the page, ``size`` in
    bytes."""

    path: str
    size: int
    says: str = ""

    @property
    def linked(self) -> bool:
        """A server need not list a folder."""
        return not self.path.endswith("/")


@dataclass(frozen=True)
class TableFiles:
    """One published table: its name and title, and its file at each level."""

    name: str
    title: str
    files: Sequence[tuple[str, ListedFile]]


# Counts that somebody published, block by block, with where the blocks are.

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class CountsByBlock(Frozen):
    """``values`` ``(columns, blocks)``: the published count of each of the ``columns``
    (``P0010001``) in each block. ``fields``: the code of each block in geographic fields, among
    them ``Block``, in increasing order. ``names`` are those of places, by field. ``source`` says
    what was read."""

    columns: tuple[str, ...]
    values: NDArray[np.int32]
    fields: Mapping[str, Codes]
    names: Mapping[str, Names]
    source: str

    def __post_init__(self) -> None:
        blocks = self.fields["Block"]
        if self.values.shape != (len(self.columns), len(blocks)):
            raise InputError("columns, blocks and counts differ in number", where=self.source)
        if (blocks[1:] <= blocks[:-1]).any():
            raise InputError("a block is there twice, or blocks are not sorted", where=self.source)

    @staticmethod
    def joined(parts: Sequence[CountsByBlock]) -> CountsByBlock:
        """Those of several states, whose blocks follow each other."""
        parts = sorted(parts, key=lambda p: p.fields["Block"][0])
        fields = [f for f in parts[0].fields if all(f in p.fields for p in parts)]
        return CountsByBlock(
            parts[0].columns,
            np.concatenate([p.values for p in parts], axis=1),
            {f: np.concatenate([p.fields[f] for p in parts]) for f in fields},
            merged(p.names for p in parts),
            ", ".join(p.source for p in parts),
        )

    def totals(self, level: str, column: str) -> dict[str, int]:
        """The sum of a column by the code of a field."""
        codes, at = np.unique(self.fields[level], return_inverse=True)
        sums = np.bincount(at, weights=self.values[self.columns.index(column)])
        return {c.decode(): int(n) for c, n in zip(codes.tolist(), sums.tolist(), strict=True)}
