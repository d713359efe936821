"""The three CSV files of PHSafe as arrays: columns by position, every value an integer in its
range."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

from das.errors import InputError
from das.files.delimited import Faults, distinct, text
from das.model.names import STATES
from das.publications.sdhc.model.tables import LEFT_OUT, REGION_LEVELS, TABLES, TRUNCATED

REMEDY = "fix these records, and read the folder again"
_MAFID = (100_000_001, 899_999_999)

#: By file the columns, in order, and the values of each: a range, or some numbers.
Values = tuple[int, int] | frozenset[int]
LAYOUTS: Mapping[str, Mapping[str, Values | None]] = {
    "persons.csv": {
        "RTYPE": frozenset({3, 5}),
        "MAFID": _MAFID,
        "QAGE": (0, 115),
        "CENHISP": (1, 2),
        "CENRACE": (1, 63),
        "RELSHIP": (20, 38),
    },
    "units.csv": {
        "RTYPE": frozenset({2, 4}),
        "MAFID": _MAFID,
        "FINAL_POP": (0, 99_999),
        "NPF": frozenset({0, *range(2, 98)}),
        "HHSPAN": (0, 2),
        "HHRACE": (0, 63),
        "TEN": (0, 4),
        "HHT": (0, 7),
        "HHT2": (0, 12),
        "CPLT": (0, 5),
    },
    "geo.csv": {
        "RTYPE": frozenset({2, 4}),
        "MAFID": _MAFID,
        "TABBLKST": (1, 78),
        **dict.fromkeys(
            (
                "TABBLKCOU",
                "TABTRACTCE",
                "TABBLK",
                "TABBLKGRPCE",
                "REGIONCE",
                "DIVISIONCE",
                "PLACEFP",
                "AIANNHCE",
            )
        ),
    },
}
_WIDE = dict.fromkeys(("MAFID", "FINAL_POP", "TABBLKCOU", "PLACEFP"), pa.int32())
#: By kind of area, the column of ``geo.csv`` that says it, and how many digits it has.
AREAS: Mapping[str, tuple[str, int]] = {"county": ("TABBLKCOU", 3), "place": ("PLACEFP", 5)}


@dataclass(frozen=True, eq=False)
class CsvLines:
    """CsvLines of a file: which ``line`` each is, and the ``values`` of its columns."""

    file: str
    line: NDArray[np.int64]
    values: Mapping[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.values[name]

    def where(self, which: NDArray[Any]) -> CsvLines:
        """Some of the lines: a mask, or their places."""
        values = {name: v[which] for name, v in self.values.items()}
        return CsvLines(self.file, self.line[which], values)

    def note(self, faults: Faults, wrong: NDArray[np.bool_], what: str) -> None:
        """One fault, at the first line where something is ``wrong``. It quotes no value."""
        if len(found := np.flatnonzero(wrong)):
            more = f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
            at = int(self.line[found].min())
            faults.add(self.file, at, what + more)


def read(
    folder: Path, name: str, faults: Faults, more: Mapping[str, Values] | None = None
) -> CsvLines | None:
    """A file of a folder, with ``more`` columns. What is wrong with its form, or with a value, is a
    fault."""
    layout, path = {**LAYOUTS[name], **(more or {})}, folder / name
    kept = [column for column, values in layout.items() if values is not None]
    if not _has_columns(path, list(layout), faults):
        return None
    try:
        table = _parsed(path, list(layout), kept, threads=True)
    except pa.ArrowInvalid:
        try:
            table = _parsed(path, list(layout), kept, threads=False)
        except pa.ArrowInvalid as error:
            faults.add(name, _row(str(error)), _says(str(error), list(layout)))
            return None
    lines = CsvLines(
        name,
        np.arange(2, len(table) + 2),
        {c: table[c].combine_chunks().to_numpy(zero_copy_only=False) for c in kept},
    )
    before = len(faults)
    for column in kept:
        allowed = layout[column]
        assert allowed is not None
        lines.note(faults, _outside(lines[column], allowed), f"{column} {_range(allowed)}")
    return lines if len(faults) == before else None


def _has_columns(path: Path, names: list[str], faults: Faults) -> bool:
    try:
        with path.open(encoding="utf-8-sig") as file:
            header = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        faults.add(path.name, None, f"is not there, or cannot be read ({error})")
        return False
    if (found := len(header.split(","))) != len(names):
        faults.add(path.name, 1, f"has {found} columns, not the {len(names)} of {','.join(names)}")
        return False
    return True


def _parsed(path: Path, names: list[str], kept: list[str], *, threads: bool) -> pa.Table:
    return pacsv.read_csv(
        path,
        pacsv.ReadOptions(column_names=names, skip_rows=1, use_threads=threads),
        pacsv.ParseOptions(delimiter=","),
        pacsv.ConvertOptions(
            column_types={n: _WIDE.get(n, pa.int8()) for n in kept},
            include_columns=kept,
            null_values=[],
            check_utf8=False,
        ),
    )


def _row(error: str) -> int | None:
    """The line that Arrow names: it counts from 1, without the first line of the file."""
    found = re.search(r"Row #(\d+)", error)
    return int(found[1]) if found else None


def _says(error: str, names: list[str]) -> str:
    """What is wrong in Arrow's words, which quote the line, in ours, which do not."""
    if found := re.search(r"CSV column #(\d+): .*?invalid value", error):
        return f"{names[int(found[1])]} is no number"
    has = re.search(r"Expected \d+ columns, got (\d+)", error)
    return f"has {has[1]} fields, not {len(names)}" if has else "does not read as delimited text"


def _outside(values: NDArray[Any], allowed: Values) -> NDArray[np.bool_]:
    if isinstance(allowed, tuple):
        low, high = allowed
        return np.asarray((values < low) | (values > high))
    return np.asarray(~np.isin(values, sorted(allowed)))


def _range(allowed: Values) -> str:
    if isinstance(allowed, tuple):
        return f"is not from {allowed[0]} to {allowed[1]}"
    low, *_, high = sorted(allowed)
    return f"is none of {low} to {high}" if len(allowed) > 2 else f"is neither {low} nor {high}"


def refuse(faults: Faults, folder: Path) -> None:
    """Raises :class:`InputError` where there is a fault."""
    faults.refuse(folder, REMEDY, InputError)


# ``config.json`` of PHSafe: budgets, thresholds and states. Numbers are taken as the decimals that
# are written, never as floats.

FILE = "config.json"
_KNOWN = frozenset(s.fips for s in STATES)
_DEFINITIONS = ("zcdp", "puredp")


def read_config(path: Path) -> dict[str, Any]:
    """The keys of ``[sdhc]`` that the file says: ``budget``, ``tau``, ``states``, ``definition``.

    Raises:
        InputError: with all faults. A budget that is infinite turns noise off, and is one."""
    faults = Faults()
    whole = text(path, faults)
    values: Any = None
    if whole is not None:
        try:
            values = json.loads(
                whole, parse_float=Decimal, parse_constant=str, object_pairs_hook=distinct
            )
        except (ValueError, RecursionError) as error:
            faults.add(path.name, getattr(error, "lineno", None), f"cannot be read: {error}")
    out: dict[str, Any] = {}
    if isinstance(values, dict):
        out = {
            "budget": _budget(values.get("privacy_budget"), path.name, faults),
            "tau": _tau(values.get("tau"), path.name, faults),
            "states": _states(values.get("state_filter"), path.name, faults),
            "definition": values.get("privacy_defn"),
        }
        if out["definition"] not in _DEFINITIONS:
            faults.add(path.name, None, f"privacy_defn is none of {', '.join(_DEFINITIONS)}")
        if values.get("reader") not in ("csv", "cef"):
            faults.add(path.name, None, 'reader is neither "csv" nor "cef"')
    elif whole is not None and not len(faults):
        faults.add(path.name, 1, "is not a JSON object")
    faults.refuse(path.parent, "repair config.json, and run again", InputError)
    return out


def _budget(given: Any, file: str, faults: Faults) -> dict[str, dict[str, Fraction]]:
    wanted = [t for t in TABLES.values() if t.name not in LEFT_OUT]
    tables = _object(given, [t.name for t in wanted], "privacy_budget", file, faults)
    out: dict[str, dict[str, Fraction]] = {}
    for t in wanted:
        keys = [f"{r}_{g}" for r in REGION_LEVELS for g in t.groups]
        where = f"privacy_budget.{t.name}"
        of = _object(tables.get(t.name, {}), keys, where, file, faults) if tables else {}
        out[t.name] = {}
        for key, value in of.items():
            cost = _number(value)
            if cost is None:
                why = ": an infinite budget turns the noise off" if value == "Infinity" else ""
                faults.add(file, None, f"{where}.{key} is {value}, not a number from 0{why}")
            else:
                out[t.name][key] = cost
    return out


def _number(value: Any) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    found = Fraction(value)
    return found if found >= 0 else None


def _tau(given: Any, file: str, faults: Faults) -> dict[str, int]:
    of = _object(given, list(TRUNCATED), "tau", file, faults)
    for table, n in of.items():
        if type(n) is not int or n < 1:
            faults.add(file, None, f"tau.{table} is {n}, not a positive whole number")
    return dict(of)


def _states(given: Any, file: str, faults: Faults) -> tuple[str, ...]:
    if not isinstance(given, list) or not given or not all(isinstance(s, str) for s in given):
        faults.add(file, None, 'state_filter is no list of states, such as ["01", "02"]')
        return ()
    if odd := [s for s in given if s not in _KNOWN]:
        faults.add(file, None, f"state_filter has {odd[0]!r}, none of the 50 states, 11 or 72")
    if len(set(given)) < len(given):
        faults.add(file, None, "state_filter has a state twice")
    if "72" in given and len(given) > 1:
        faults.add(file, None, "state_filter has 72 with others: Puerto Rico is a run of its own")
    return tuple(sorted(given))


def _object(given: Any, keys: list[str], name: str, file: str, faults: Faults) -> Mapping[str, Any]:
    """An object with these keys, and no others."""
    if not isinstance(given, dict):
        faults.add(file, None, f"has no object {name}")
        return {}
    if lost := [k for k in keys if k not in given]:
        faults.add(file, None, f"{name} has no {', '.join(lost)}")
    if odd := [k for k in given if k not in keys]:
        faults.add(file, None, f"{name} has {odd[0]!r}, which PHSafe does not know")
    return {k: given[k] for k in keys if k in given}
