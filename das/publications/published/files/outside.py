"""What is known of places outside of published measurement files: totals, names, areas of blocks,
such as cities, and other measurements.

Measurement files say codes alone. The redistricting files (P.L. 94-171) of the same states say what
places are called and which blocks make them up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError
from das.files.parquet import DAMAGE
from das.model.areas import Areas, off_spine
from das.model.constraint import Constraint
from das.model.frozen import Frozen
from das.model.names import Codes, Names, blank, state_names, text
from das.model.source import CountsByBlock
from das.model.spine import Spine
from das.publications.published.files.sums import listed

# Totals of places that published measurement files do not hold, as somebody gives them.
#
# The redistricting files of 2020 have no totals below the nation, but the totals of the states are
# published, and were kept exactly. A state's measured units can be two: its American Indian areas,
# and the rest. Then its total is that of both together.

COLUMNS = ("geocode", "value")
_REMEDY = (
    "give a table (CSV or Parquet) with a column geocode, the code of a state such as 44, and a"
    " column value, its total"
)


@dataclass(frozen=True)
class OutsideTotals(Frozen):
    """``value``: totals by the code of a state (``44``) or of a measured unit (``044``);
    ``source`` says where they are from. Without any, nothing is known."""

    value: Mapping[str, int] = field(default_factory=dict)
    source: str = ""

    def __post_init__(self) -> None:
        if bad := sorted(code for code, total in self.value.items() if total < 0):
            raise InputError(f"the total of {bad[0]} is negative", where=self.source)

    def constraint(self, spine: Spine) -> Constraint | None:
        """The invariant that these totals are, at the level State: ``total`` where each unit has
        one, or ``joint_total``, the same for all units of a state. Nothing without totals. Raises
        :class:`InputError` where a unit has no total, or there is no such level."""
        if not self.value:
            return None
        if "State" not in spine.levels:
            raise InputError(
                f"totals of states are given, but the levels are {', '.join(spine.levels)}",
                where=self.source,
                remedy="give them with files that have the level State",
            )
        codes = text(spine.codes[spine.index("State")]).tolist()
        own = all(code in self.value for code in codes)
        home = codes if own else [code[1:] if len(code) == 3 else code for code in codes]
        if lost := sorted({h for h in home if h not in self.value}):
            raise InputError(
                f"no total is given for {listed(lost)}, which the measurement files have",
                where=self.source,
                remedy=_REMEDY,
            )
        alone = own or len(set(home)) == len(home)
        bound = np.array([[self.value[h]] for h in home], dtype=np.int64)
        return Constraint("total" if alone else "joint_total", "State", "total", "=", bound)


def read(path: Path) -> OutsideTotals:
    """Totals from a table with the columns ``geocode`` and ``value``, CSV or Parquet; others are
    not read. Raises :class:`InputError`."""
    table = _table(path)
    if lost := [name for name in COLUMNS if name not in table.column_names]:
        raise InputError(f"there is no column {lost[0]!r}", where=path, remedy=_REMEDY)
    try:
        codes = table["geocode"].cast(pa.string()).to_pylist()
        values = table["value"].cast(pa.int64()).to_pylist()
    except pa.ArrowException as error:
        raise InputError(
            f"a value is not a whole number ({error})", where=path, remedy=_REMEDY
        ) from None
    if None in codes or None in values or len(set(codes)) != len(codes):
        raise InputError("a total is missing, or one is there twice", where=path, remedy=_REMEDY)
    return OutsideTotals(dict(zip(codes, values, strict=True)), str(path))


def _table(path: Path) -> pa.Table:
    try:
        with path.open("rb") as file:
            if file.read(4) == b"PAR1":
                return pq.ParquetFile(path).read()
        types = pa_csv.ConvertOptions(column_types={"geocode": pa.string()})
        return pa_csv.read_csv(path, convert_options=types)
    except (*DAMAGE, OSError) as error:
        raise InputError(f"cannot be read ({error})", where=path, remedy=_REMEDY) from None


@dataclass(frozen=True, eq=False)
class Outside(Frozen):
    """``totals`` of states; ``fields``: geographic codes of some blocks, ``(blocks,)``, as
    :class:`das.model.records.Blocks` has them; ``names`` of places by field; ``dhc``: files of the
    DHC's persons (:mod:`das.publications.published.files.dhc`)."""

    totals: OutsideTotals = field(default_factory=OutsideTotals)
    fields: Mapping[str, Codes] = field(default_factory=dict)
    names: Mapping[str, Names] = field(default_factory=dict)
    dhc: Path | None = None

    @staticmethod
    def of_published(counts: CountsByBlock, totals: OutsideTotals | None = None) -> Outside:
        """What published redistricting counts say: totals of states (without ``totals``), names and
        areas."""
        known = OutsideTotals(counts.totals("State", "P0010001"), counts.source)
        return Outside(totals or known, counts.fields, counts.names)

    def called(self, spine: Spine) -> tuple[NDArray[np.str_], ...]:
        """The names of the units of a spine, by level."""
        known = state_names() | dict(self.names)
        return tuple(
            known[level].at(codes) if level in known else blank(len(codes))
            for level, codes in zip(spine.levels, spine.codes, strict=True)
        )

    def areas(self, spine: Spine) -> tuple[Areas, ...]:
        """The areas off the spine that the fields tell, of the blocks that the spine has. Without
        blocks there are none: a city need not be made up of whole counties."""
        level = spine.levels[-1]
        if level != "Block" or level not in self.fields:
            return ()
        unit = spine.find(level, self.fields[level])
        here = unit >= 0
        if not here.any():
            return ()
        fields = {name: codes[here] for name, codes in self.fields.items()}
        return off_spine(fields, spine.levels, unit[here], spine.units(level), self.names)


NOTHING = Outside()
