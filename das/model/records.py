"""What a reader returns: public places, and confidential records counted by place and cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.confidential import Confidential
from das.model.frozen import Frozen, NoRepr
from das.model.names import Codes, Names, encoded
from das.model.schema import Schema
from das.model.source import Source


@dataclass(frozen=True, eq=False, repr=False)
class Blocks(NoRepr, Frozen):
    """The places of the lowest level, with what is public about them.

    ``fields`` maps a geographic field (``State``, ``County``, ..., ``Block``) to the code of each
    block, bytes of shape ``(blocks,)`` (:mod:`das.model.names`; texts that are given are made so);
    codes of nested fields are complete (a county's begins with its state's). ``structures`` has
    shape ``(blocks, dwelling levels)``: housing units (vacant ones too) in column 0, group-quarters
    facilities by type in the others; ``None`` where the data do not say. ``names`` are those of
    places, by field and code, also of places without a block."""

    fields: Mapping[str, Codes]
    structures: NDArray[np.int64] | None = None
    names: Mapping[str, Names] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "fields", {name: encoded(code) for name, code in self.fields.items()}
        )
        sizes = {len(v) for v in self.fields.values()}
        if len(sizes) != 1:
            raise InputError("geographic fields of different lengths", where="blocks")
        if self.structures is not None:
            if self.structures.ndim != 2 or len(self.structures) != len(self):
                raise InputError(
                    "structures must have shape (blocks, dwelling levels)", where="blocks"
                )
            if (self.structures < 0).any():
                raise InputError("a negative count of housing units or facilities", where="blocks")

    def __len__(self) -> int:
        return len(next(iter(self.fields.values())))


@dataclass(frozen=True, eq=False, repr=False)
class Records(NoRepr, Frozen):
    """Records counted: ``count[i]`` records of cell ``cell[i]`` of ``schema`` live in block
    ``block[i]``.

    Three arrays of one length; a (block, cell) pair may occur more than once."""

    schema: Schema
    block: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not len(self.block) == len(self.cell) == len(self.count):
            raise InputError("block, cell and count differ in length", where="records")
        if len(self.cell) and not (self.cell.min() >= 0 and self.cell.max() < self.schema.cells):
            raise InputError(
                "a cell outside the schema", where=f"records of schema {self.schema.name!r}"
            )
        if len(self.block) and self.block.min() < 0:
            raise InputError("a negative block number", where="records")
        if (self.count < 0).any():
            raise InputError("a negative count", where="records")


@dataclass(frozen=True, repr=False)
class Extract(NoRepr, Frozen):
    """What a reader returns: public blocks, confidential persons and what else of records the input
    has, by universe.

    ``assigned`` names attributes of persons that the input does not say and the reader made up by a
    rule, each with a sentence: whatever tells their levels apart is no count."""

    blocks: Blocks
    persons: Confidential[Records]
    others: Mapping[str, Confidential[Records]]
    sources: tuple[Source, ...]
    assigned: Mapping[str, str] = field(default_factory=dict)
