"""Areas off the spine: kept with a run's evaluation, or given as a list of blocks."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das.errors import InputError, ReleaseError
from das.model.areas import Areas


def write(path: Path, kinds: Sequence[Areas]) -> None:
    """One row for each unit of each area: ``kind``, ``area`` (its name), ``unit`` (a number of the lowest level)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.tmp")
    table = pa.table(
        {
            "kind": pa.array([k.kind for k in kinds for _ in k.unit], pa.string()).dictionary_encode(),
            "area": pa.array(np.concatenate([k.names[k.area] for k in kinds]) if kinds else [], pa.string()),
            "unit": pa.array(np.concatenate([k.unit for k in kinds]) if kinds else [], pa.int64()),
        }
    )
    pq.write_table(table, draft, compression="zstd")
    draft.replace(path)


def read(path: Path) -> tuple[Areas, ...]:
    """The areas that were kept; none where the run has no such file."""
    if not path.exists():
        return ()
    try:
        table = pq.read_table(path)
        kind, name = (np.array(table[c].to_pylist(), dtype=str) for c in ("kind", "area"))
        unit = table["unit"].to_numpy().astype(np.int64)
    except (OSError, pa.ArrowException, KeyError, ValueError) as error:
        raise ReleaseError(f"the areas cannot be read ({error})", where=path,
                           remedy="delete the file, and give the areas by --areas") from None  # fmt: skip
    return tuple(_areas(str(k), name[kind == k], unit[kind == k]) for k in dict.fromkeys(kind.tolist()))


def _areas(kind: str, name: NDArray[np.str_], unit: NDArray[np.int64]) -> Areas:
    names, area = np.unique(name, return_inverse=True)
    return Areas(kind, names, area.astype(np.int64), unit)


def read_csv(path: Path, level: str, codes: NDArray[np.str_]) -> Areas:
    """A list ``area,block`` with a header, in any order; ``codes`` are those of the lowest units. The kind is the
    name of the file without its ending.

    Raises:
        InputError: no such file, another header, a line that is not two fields, a code that is no lowest unit, or a
            unit that stands under one area twice, with its line.
    """
    at = {code: i for i, code in enumerate(codes.tolist())}
    name: list[str] = []
    unit: list[int] = []
    seen: set[tuple[str, str]] = set()
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv.reader(file)
            if [c.strip().lower() for c in next(lines, [])] != ["area", "block"]:
                raise InputError("the first line is not 'area,block'", where=path, remedy="write that header")
            for line in lines:
                where = f"{path}, line {lines.line_num}"
                if len(line) != 2 or not line[0].strip():
                    raise InputError("a line must be an area and a block", where=where)
                area, code = line[0].strip(), line[1].strip()
                if code not in at:
                    raise InputError(f"{code!r} is not a unit of level {level!r}", where=where,
                                     remedy="use the codes of the release's spine.parquet")  # fmt: skip
                if (area, code) in seen:
                    raise InputError(f"{code!r} stands under {area!r} twice", where=where, remedy="list it once")
                seen.add((area, code))
                name.append(area)
                unit.append(at[code])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"not readable as a list of areas ({error})", where=path,
                         remedy="give a CSV file in UTF-8 with the header area,block") from None  # fmt: skip
    if not name:
        raise InputError("no area is listed", where=path)
    return _areas(path.stem, np.array(name), np.array(unit, dtype=np.int64))
