"""The text of a configuration as tables and keys, before it is checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from difflib import get_close_matches
from math import isfinite
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from das.errors import DasError, SpecError
from das.model.exact import LARGEST, exact
from das.model.universe import KINDS, Universe

#: Tables of universes, and with them the universes, by the names that earlier configurations give
#: them.
RENAMED = {kind.formerly: kind.name for kind in KINDS.values() if kind.formerly}
#: The neighbor relation, as it is written, and as it is read without a word.
NEIGHBORS, NEIGHBOURS = "neighbors", "neighbours"


def tree_of(text: str, where: str) -> dict[str, Any]:
    """Raises :class:`SpecError` where it is no TOML."""
    try:
        return tomllib.loads(text)
    # an integer of 5,000 digits, brackets in brackets
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not valid TOML: {error}", where=where, remedy="fix that line") from None


def renamed(tree: dict[str, Any], where: str) -> Iterator[str]:
    """Give what bears an earlier name its own, in ``tree``; a sentence for each, except where only
    the spelling is British."""
    budget = tree.get("budget")
    if isinstance(budget, dict) and NEIGHBOURS in budget:
        if NEIGHBORS in budget:
            raise SpecError(
                f"budget.{NEIGHBOURS} and budget.{NEIGHBORS} are one key",
                where=where,
                remedy=f"keep {NEIGHBORS}",
            )
        budget[NEIGHBORS] = budget.pop(NEIGHBOURS)
    for old, new in RENAMED.items():
        if old in tree:
            if new in tree:
                raise SpecError(
                    f"[{old}] and [{new}] are one table", where=where, remedy=f"keep [{new}]"
                )
            tree[new] = tree.pop(old)
            yield f"{where}: the table [{old}] is read as [{new}]; rename it"
        asked = tree.get("tables")
        for name, table in asked.items() if isinstance(asked, dict) else ():
            if isinstance(table, dict) and table.get("universe") == old:
                table["universe"] = new
                yield (
                    f"{where}: the universe {old!r} of tables.{name} is read as {new!r}; rename it"
                )


def override(tree: dict[str, Any], item: str) -> None:
    key, equals, raw = item.partition("=")
    if not equals or not key.strip():
        raise SpecError(
            f"{item!r} is not KEY=VALUE", where="--set", remedy="write for instance budget.rho=1/2"
        )
    first, *rest = key.strip().split(".")
    parts = [RENAMED.get(first, first), *rest]
    if parts == ["budget", NEIGHBOURS]:
        parts[1] = NEIGHBORS
    node = tree
    for p in parts[:-1]:
        node = node.setdefault(p, {})
        if not isinstance(node, dict):
            raise SpecError(f"{p!r} in {key!r} is a value, not a table", where="--set")
    node[parts[-1]] = _value(raw.strip())


def _value(raw: str) -> Any:
    """As TOML where that reads, else as a string. A decimal number stays a string, it is then
    exact; a date, too."""
    try:
        value = tomllib.loads(f"x = {raw}")["x"]
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, str | int | list | dict) else raw


def check_numbers(value: Any, where: str, path: tuple[str, ...] = ()) -> None:
    """Refuse numbers that no key can have, and that could not be written again: beyond 300 digits,
    or none at all."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            check_numbers(part, where, (*path, str(key)))
    elif (isinstance(value, int) and abs(value) > LARGEST) or (
        isinstance(value, float) and not isfinite(value)
    ):
        raise SpecError(f"{'.'.join(path)}: this is no number of at most 300 digits", where=where)


def one_total(tree: dict[str, Any], changed: set[str]) -> None:
    """A total that is set by an override replaces the other way to give it: a rho the target, a
    target the rho."""
    budget = tree.get("budget")
    if not isinstance(budget, dict) or "calibration" not in budget:
        return
    target = {"budget.epsilon", "budget.delta", "budget.calibration"} & changed
    if target and "budget.rho" not in changed:
        budget.pop("rho", None)
    if "budget.rho" in changed and not target:
        del budget["calibration"]
        budget.pop("epsilon", None)


def at(tree: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The table of that dotted name, where there is one."""
    node: Any = tree
    for name in key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def counts_tree(tree: dict[str, Any], universes: Sequence[Universe]) -> dict[str, Any]:
    """With the passes of each universe that were chosen by rule."""
    for universe in universes:
        estimation = at(tree, universe.key("estimation"))
        if estimation is not None and "default" not in estimation.get("passes", {}):
            estimation["passes"] = {
                level: [list(p) for p in found] for level, found in universe.passes.items()
            }
    return tree


# A frozen dataclass from a table of a configuration: its fields are the keys.

Value = TypeVar("Value")


def built(kind: type[Value], given: Mapping[str, Any], where: str) -> Value:
    """The value of a dataclass ``kind`` whose fields have the ``given`` values, or their defaults.

    Raises :class:`SpecError`, once, with every key that is unknown, missing, or of another type, and
    with what the value itself refuses.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Rounded:
    ...     base: int = 3
    >>> built(Rounded, {"base": 5}, "methods.mine")
    Rounded(base=5)"""
    known = {f.name: f for f in fields(kind) if f.init}  # type: ignore[arg-type]
    hints = get_type_hints(kind)
    faults = [_unknown(key, list(known)) for key in given if key not in known]
    values = {}
    for name, field in known.items():
        if name in given:
            try:
                value = _number(given[name]) if hints[name] is float else _tuples(given[name])
                values[name] = _adapter(hints[name]).validate_python(value)
            except ValidationError as error:
                faults += [
                    f"{name}: {e['msg'].removeprefix('Value error, ')}" for e in error.errors()
                ]
        elif field.default is MISSING and field.default_factory is MISSING:
            faults.append(f"{name}: missing")
    if not faults:
        try:
            return kind(**values)
        except DasError as error:
            faults.append(f"{error.what}; {error.remedy}" if error.remedy else error.what)
    raise SpecError("; ".join(faults), where=where)


def _number(value: Any) -> Any:
    """A decimal that ``--set`` kept exact, as a text, where the field is a float."""
    try:
        return float(exact(value)) if isinstance(value, str) else value
    except (ValueError, SpecError):
        return value


def _adapter(hint: Any) -> TypeAdapter[Any]:
    """Strict: "3" is not 3, and true is not 1."""
    return TypeAdapter(hint, config=ConfigDict(strict=True, arbitrary_types_allowed=True))


def _tuples(value: Any) -> Any:
    """The lists of a configuration as tuples, which a frozen value has."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _unknown(key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, n=1)
    said = f"did you mean {near[0]!r}?" if near else f"known keys: {', '.join(known) or 'none'}"
    return f"{key}: unknown key; {said}"
