"""Which columns a microdata file has, and what each cell puts into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen
from das.model.schema import Schema

GEOCODE = "geocode"
SERIAL = "EPNUM"
#: The column of the name of the run.
BUILD = "SCHEMA_BUILD_ID"
#: The whole code of a place in one column, of any width.
WHOLE = ((GEOCODE, 0),)


@dataclass(frozen=True, eq=False)
class CodedColumn(Frozen):
    """A coded column: ``values`` are its codes, and ``index`` says which of them a cell has:
    ``index[k]`` of cell ``k``, or, ``by`` some attributes (:meth:`Schema.steps`), ``index[i, j,
    ...]`` of their levels.

    ``decodes`` names the attribute that the column carries: ``levels[i]`` is the level that code
    ``i`` means (-1 where a record is of no cell of the schema). A column without it follows from
    the others, and ``labels`` say what its codes mean.

    In a file of records of several schemas, whose cells follow each other, it has ``parts``: the
    first cell of each, and its own column; ``index`` is then which of ``values`` each code of the
    parts is, one part after the other."""

    name: str
    values: tuple[str, ...]
    index: NDArray[np.int64]
    decodes: str | None = None
    levels: tuple[int, ...] = ()
    labels: tuple[str, ...] = ()
    by: tuple[tuple[int, int], ...] = ()
    parts: tuple[tuple[int, CodedColumn], ...] = ()

    @staticmethod
    def of(name: str, schema: Schema, attribute: str, codes: tuple[str, ...]) -> CodedColumn:
        """With one code for each level of ``attribute``."""
        every = tuple(range(len(codes)))
        return CodedColumn(
            name, codes, np.array(every), attribute, every, by=schema.steps((attribute,))
        )

    @staticmethod
    def follows(
        name: str,
        schema: Schema,
        by: Sequence[str],
        code: NDArray[np.str_],
        says: Mapping[str, str],
    ) -> CodedColumn:
        """One that follows from the attributes ``by``: ``code[i, j, ...]`` is that of their levels,
        and ``says`` has what each code means. Raises ``KeyError`` for a code that it does not
        have."""
        known = {value: i for i, value in enumerate(says)}
        index = np.array([known[x] for x in code.ravel().tolist()], dtype=np.int64).reshape(
            code.shape
        )
        return CodedColumn(
            name, tuple(says), index, labels=tuple(says.values()), by=schema.steps(by)
        )

    @staticmethod
    def constant(name: str, value: str, label: str) -> CodedColumn:
        """With one code for all cells."""
        return CodedColumn(
            name, (value,), np.zeros(1, dtype=np.int64), labels=(label,), by=((1, 1),)
        )

    @staticmethod
    def joined(parts: Sequence[tuple[int, CodedColumn]], says: Mapping[str, str]) -> CodedColumn:
        """One of several, with the first cell of each; ``says`` has what each code means. Raises
        ``KeyError`` for a code that it does not have."""
        known = {value: i for i, value in enumerate(says)}
        index = np.array([known[x] for _, c in parts for x in c.values], dtype=np.int64)
        return CodedColumn(
            parts[0][1].name, tuple(says), index, labels=tuple(says.values()), parts=tuple(parts)
        )

    def meaning(self, schema: Schema) -> dict[str, str]:
        """What each of its codes means."""
        if self.decodes is None:
            return dict(zip(self.values, self.labels, strict=True))
        labels = schema.attribute(self.decodes).labels
        said = (labels[i] if i >= 0 else "of no cell of the schema" for i in self.levels)
        return dict(zip(self.values, said, strict=True))

    def of_cells(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which code each of some cells has, in the shape of ``cell``."""
        if self.parts:
            return self._of_parts(cell)
        if not self.by:
            return self.index[cell]
        return self.index[tuple(cell // step % levels for step, levels in self.by)]

    def _of_parts(self, cell: NDArray[np.int64]) -> NDArray[np.int64]:
        out = np.empty_like(cell)
        part = np.searchsorted([first for first, _ in self.parts], cell, side="right") - 1
        before = 0
        for i, (first, column) in enumerate(self.parts):
            here = part == i
            out[here] = self.index[before + column.of_cells(cell[here] - first)]
            before += len(column.values)
        return out


@dataclass(frozen=True, eq=False)
class MicrodataForm(Frozen):
    """The columns of a file. Its header is ``before``, the columns of the place, then ``after``.
    Each column is part of the place's code, the serial number of the record (``EPNUM``), or the
    name of the run; or it is one of ``columns`` or of ``constants``.

    ``geography`` gives the name and width of each part of a place's code, taken from its right end;
    ``sole`` says that a code has only these parts. Places with other codes have one column,
    ``geocode``. ``says`` describes columns without an attribute. With ``facilities`` each facility
    of group quarters is a record, too. It is in no cell of the schema: its cell is one past the
    last."""

    title: str
    columns: tuple[CodedColumn, ...]
    before: tuple[str, ...]
    after: tuple[str, ...]
    geography: tuple[tuple[str, int], ...] = WHOLE
    sole: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)
    says: Mapping[str, str] = field(default_factory=dict)
    facilities: bool = False


def labelled(schema: Schema, universe: str, serial: bool) -> MicrodataForm:
    """The form for any schema: ``geocode``, a serial number if wanted, and one column of labels for
    each attribute.
    """
    columns = tuple(CodedColumn.of(a.name, schema, a.name, a.levels) for a in schema.attributes)
    after = ((SERIAL,) if serial else ()) + tuple(c.name for c in columns)
    return MicrodataForm(f"microdata, {universe}, schema {schema.name}", columns, (), after)
