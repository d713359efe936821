"""TOML text and overrides to a run specification, and back."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError

from das.errors import SpecError
from das.model.budget import Plan
from das.model.exact import LARGEST
from das.model.kinds import KINDS, RecordKind
from das.model.not_private import WARNING
from das.spec.dhc import NAME as DHC
from das.spec.dhc import DhcSpec
from das.spec.published import PublishedSpec
from das.spec.run import RunSpec

Spec = RunSpec | PublishedSpec
SpecKind = TypeVar("SpecKind", RunSpec, PublishedSpec, DhcSpec)

#: What a specification says of one machine alone.
_OF_A_MACHINE: Any = {"data": {"path"}, "own": {"__all__": {"data": {"path"}}}}
#: Tables of universes, and with them the universes, by the names that earlier configurations give
#: them.
RENAMED = {kind.formerly: kind.name for kind in KINDS.values() if kind.formerly}


def parse(
    text: str,
    *,
    where: str,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> RunSpec:
    """A checked specification from TOML ``text``. ``overrides`` are ``dotted.key=value``;
    ``folder`` is what the ``data.path`` of the text is relative to, where that is not the folder of
    the command. ``note`` is called with what was read otherwise than it is written.

    Raises :class:`SpecError`, once, with every fault that was found and the key of each.
    """
    tree = _tree(text, where)
    if "published" in tree:
        raise SpecError(
            "this is the specification of measurements that another publisher made: there is"
            " nothing to measure by it",
            where=where,
            remedy="what follows measurement is das estimate --from",
        )
    if _is_dhc(tree):
        raise SpecError(
            "this is a specification of the demographic file",
            where=where,
            remedy=(
                "das run, check, status, estimate --from, account, tables, intervals, nmf verify,"
                " store push and store pull take it or its releases"
            ),
        )
    if folder is not None:
        tree["data"]["path"] = [str(folder / p) for p in tree["data"]["path"]]
    for renamed in _renamed(tree, where):
        if note is not None:
            note(renamed)
    for item in overrides:
        _override(tree, item)
    _check_numbers(tree, where)
    _one_total(tree, {item.partition("=")[0].strip() for item in overrides})
    return _checked(RunSpec, tree, lambda spec: spec.calibrate().check(), where)


def parse_dhc(text: str, *, where: str, overrides: Sequence[str] = ()) -> DhcSpec:
    """The same of the demographic file. Raises as :func:`parse` does."""
    tree = _tree(text, where)
    for item in overrides:
        _override(tree, item)
    _check_numbers(tree, where)
    return _checked(DhcSpec, tree, lambda spec: spec, where)


def is_dhc(text: str) -> bool:
    """Whether a text is a specification of the demographic file."""
    try:
        return _is_dhc(tomllib.loads(text))
    except (ValueError, RecursionError):
        return False


def _is_dhc(tree: dict[str, Any]) -> bool:
    schema = tree.get("schema")
    return isinstance(schema, dict) and schema.get("name") == DHC


def of_release(text: str, *, where: str, overrides: Sequence[str] = ()) -> Spec:
    """The specification that a release has: of a run, or of measurements that another publisher
    made.
    """
    tree = _tree(text, where)
    if "detailed" in tree:
        raise SpecError(
            "this is a release of population groups",
            where=where,
            remedy=(
                "its tables are in tables/; of measurements of persons `das detailed estimate`"
                " makes estimates with intervals"
            ),
        )
    if "published" not in tree:
        return parse(text, where=where, overrides=overrides)
    for item in overrides:
        _override(tree, item)
    _check_numbers(tree, where)
    return _checked(PublishedSpec, tree, PublishedSpec.check, where)


def _tree(text: str, where: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (
        ValueError,
        RecursionError,
    ) as error:  # an integer of 5,000 digits, brackets in brackets
        raise SpecError(f"not valid TOML: {error}", where=where, remedy="mend that line") from None


def _checked(
    kind: type[SpecKind], tree: dict[str, Any], check: Callable[[SpecKind], SpecKind], where: str
) -> SpecKind:
    try:
        return check(kind.model_validate(tree))
    except ValidationError as error:
        faults = "\n".join(f"  {_fault(e, kind)}" for e in error.errors())
        raise SpecError(
            f"{error.error_count()} fault(s) in the configuration:\n{faults}", where=where
        ) from None
    except SpecError as error:
        raise SpecError(str(error), where=where) from None


def _renamed(tree: dict[str, Any], where: str) -> Iterator[str]:
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


def dump(spec: Spec) -> str:
    """The resolved specification as TOML, without ``data.path``, and of lists of blocks with their
    file names alone: what a rerun needs, and nothing of one machine, with the passes that were
    chosen by rule. That of a seeded run begins with a comment that says so."""
    tree = spec.model_dump(mode="json", by_alias=True, exclude=_OF_A_MACHINE, exclude_none=True)
    if isinstance(spec, RunSpec) and spec.geography.lists:
        tree["geography"]["targets"] = list(spec.geography.named)
    for universe in spec.universes:
        estimation = _at(tree, universe.key("estimation"))
        if estimation is not None and "default" not in estimation.get("passes", {}):
            estimation["passes"] = {
                lv: [list(p) for p in found] for lv, found in universe.passes.items()
            }
    return ("" if spec.after.private else f"# {WARNING}\n") + tomli_w.dumps(tree)


def budget_toml(spec: RunSpec, universe: str, plan: Plan, made_from: Sequence[str] = ()) -> str:
    """The tables of ``spec`` that make ``plan`` the plan of ``universe``. Budgets of the others are
    relative to the persons': with another total of these they are written too, so that these
    universes stay as they are. ``made_from``: what the shares were made from."""
    sums: dict[str, Fraction] = {}
    for d in plan.plain:
        sums[d.level] = sums.get(d.level, Fraction(0)) + d.cost
    shares: dict[str, Any] = {
        "levels": {level: str(cost / plan.cost) for level, cost in sums.items()},
        "queries": {
            level: {d.query: str(d.cost / sums[level]) for d in plan.plain if d.level == level}
            for level in sums
        },
    }
    if made_from:
        shares["made_from"] = list(made_from)
    changed = spec.universe(universe)
    if changed is not spec.persons:
        return tomli_w.dumps(
            _nested(changed.kind, {"relative": str(plan.cost / spec.persons.plan.cost)} | shares)
        )
    b = spec.budget
    tree: dict[str, Any] = {
        "budget": (
            {
                plan.mechanism.currency: str(plan.cost),
                "neighbours": b.neighbours,
                "delta": str(b.delta),
                "mechanism": b.mechanism,
            }
            | shares
        )
    }
    for u in spec.universes[1:]:
        _merge(tree, _nested(u.kind, {"relative": str(u.plan.cost / plan.cost)}))
    return tomli_w.dumps(tree)


def _at(tree: dict[str, Any], key: str) -> dict[str, Any] | None:
    """The table of that dotted name, where there is one."""
    node: Any = tree
    for name in key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node


def _nested(kind: RecordKind, budget: dict[str, Any]) -> dict[str, Any]:
    """The budget at its place in the configuration."""
    tree: dict[str, Any] = budget
    for name in reversed(kind.key("budget").split(".")):
        tree = {name: tree}
    return tree


def _merge(into: dict[str, Any], tree: dict[str, Any]) -> None:
    for key, value in tree.items():
        if key in into:
            _merge(into[key], value)
        else:
            into[key] = value


def digest(spec: Spec) -> str:
    """SHA-256 of the resolved specification."""
    return hashlib.sha256(dump(spec).encode()).hexdigest()


def _override(tree: dict[str, Any], item: str) -> None:
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


def _check_numbers(value: Any, where: str, path: tuple[str, ...] = ()) -> None:
    """Refuse numbers that no key can have, and that could not be written again: beyond 300 digits,
    or none at all.
    """
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            _check_numbers(part, where, (*path, str(key)))
    elif (isinstance(value, int) and abs(value) > LARGEST) or (
        isinstance(value, float) and not isfinite(value)
    ):
        raise SpecError(f"{'.'.join(path)}: this is no number of at most 300 digits", where=where)


def _one_total(tree: dict[str, Any], changed: set[str]) -> None:
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


def _value(raw: str) -> Any:
    """As TOML where that reads, else as a string. A decimal number stays a string, it is then
    exact; a date, too.
    """
    try:
        value = tomllib.loads(f"x = {raw}")["x"]
    except (ValueError, RecursionError):
        return raw
    return value if isinstance(value, str | int | list | dict) else raw


def _fault(e: Any, kind: type[BaseModel]) -> str:
    path = ".".join(str(p) for p in e["loc"])
    if e["type"] == "extra_forbidden":
        near = get_close_matches(str(e["loc"][-1]), _known(e["loc"][:-1], kind), n=1)
        hint = (
            f"; did you mean {near[0]!r}?"
            if near
            else f"; known keys: {', '.join(_known(e['loc'][:-1], kind))}"
        )
        return f"{path}: unknown key{hint}"
    if e["type"] == "missing":
        return f"{path}: missing"
    what = str(e["msg"]).removeprefix("Value error, ")
    return f"{path}: {what}" if path else what


def _known(path: Sequence[Any], kind: type[BaseModel]) -> list[str]:
    """The keys that a table of the specification may have."""
    model: Any = kind
    named = False  # the next part of the path is a name that the user chose
    for p in path:
        if named:
            named = False
            continue
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == p), None)
        args = (
            [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        )
        model = next((a for a in args if isinstance(a, type) and issubclass(a, BaseModel)), None)
        if model is None:
            return []
        named = field is not None and get_origin(field.annotation) is dict
    return [f.alias or n for n, f in model.model_fields.items()]
