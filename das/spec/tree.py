"""The text of a configuration as tables and keys, before it is checked."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from das.errors import SpecError
from das.model.exact import LARGEST
from das.model.universe import KINDS, Universe

#: Tables of universes, and with them the universes, by the names that earlier configurations give
#: them.
RENAMED = {kind.formerly: kind.name for kind in KINDS.values() if kind.formerly}


def tree_of(text: str, where: str) -> dict[str, Any]:
    """Raises :class:`SpecError` where it is no TOML."""
    try:
        return tomllib.loads(text)
    # an integer of 5,000 digits, brackets in brackets
    except (ValueError, RecursionError) as error:
        raise SpecError(f"not valid TOML: {error}", where=where, remedy="fix that line") from None


def renamed(tree: dict[str, Any], where: str) -> Iterator[str]:
    """Give what bears an earlier name its own, in ``tree``; a sentence for each."""
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
    node = tree
    for p in parts[:-1]:
        node = node.setdefault(p, {})
        if not isinstance(node, dict):
            raise SpecError(f"{p!r} in {key!r} is a value, not a table", where="--set")
    node[parts[-1]] = _value(raw.strip())


def _value(raw: str) -> Any:
    """As TOML where that reads, else as a string. A decimal number stays a string, it is then
    exact; a date, too.
    """
    try:
        value = tomllib.loads(f"x = {raw}")["x"]
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, str | int | list | dict) else raw


def check_numbers(value: Any, where: str, path: tuple[str, ...] = ()) -> None:
    """Refuse numbers that no key can have, and that could not be written again: beyond 300 digits,
    or none at all.
    """
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            check_numbers(part, where, (*path, str(key)))
    elif (isinstance(value, int) and abs(value) > LARGEST) or (
        isinstance(value, float) and not isfinite(value)
    ):
        raise SpecError(f"{'.'.join(path)}: this is no number of at most 300 digits", where=where)


def one_total(tree: dict[str, Any], changed: set[str]) -> None:
    """A total that is set by an override replaces the other way to give it: a rho the target, a
    target the rho.
    """
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
