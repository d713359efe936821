"""``config.json`` of PHSafe: budgets, thresholds and states. Numbers are taken as the decimals that
are written, never as floats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from das.errors import InputError
from das.files.detailed.delimited import text
from das.files.detailed.faults import Faults
from das.model.sdhc.tables import LEFT_OUT, REGION_LEVELS, TABLES, TRUNCATED
from das.model.states import STATES

FILE = "config.json"
_KNOWN = frozenset(s.fips for s in STATES)
_DEFINITIONS = ("zcdp", "puredp")


def read(path: Path) -> dict[str, Any]:
    """The keys of ``[sdhc]`` that the file says: ``budget``, ``tau``, ``states``, ``definition``.

    Raises:
        InputError: with all faults. A budget that is infinite turns noise off, and is one.
    """
    faults = Faults()
    whole = text(path, faults)
    values: Any = None
    if whole is not None:
        try:
            values = json.loads(
                whole, parse_float=Decimal, parse_constant=str, object_pairs_hook=_once
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


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Refuse two values of one name: another reader could use the other one."""
    names = [name for name, _ in pairs]
    if twice := [n for n in names if names.count(n) > 1]:
        raise ValueError(f"the key {twice[0]!r} is there twice")
    return dict(pairs)


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
