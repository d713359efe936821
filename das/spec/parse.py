"""TOML text and overrides to a run specification, and back."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import tomli_w
from pydantic import BaseModel, ValidationError

from das.errors import SpecError
from das.spec.run import RunSpec


def parse(text: str, *, where: str, overrides: Sequence[str] = ()) -> RunSpec:
    """A checked specification from TOML ``text``. ``overrides`` are ``dotted.key=value``.

    Raises :class:`SpecError`, once, with every fault that was found and the key of each.
    """
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"not valid TOML: {error}", where=where, remedy="mend that line") from None
    for item in overrides:
        _override(tree, item)
    try:
        return RunSpec.model_validate(tree).check()
    except ValidationError as error:
        faults = "\n".join(f"  {_fault(e)}" for e in error.errors())
        raise SpecError(f"{error.error_count()} fault(s) in the configuration:\n{faults}", where=where) from None
    except SpecError as error:
        raise SpecError(str(error), where=where) from None


def dump(spec: RunSpec) -> str:
    """The resolved specification as TOML, without ``data.path``: what a rerun needs, and nothing of one machine."""
    tree = spec.model_dump(mode="json", by_alias=True, exclude={"data": {"path"}}, exclude_none=True)
    return tomli_w.dumps(tree)


def digest(spec: RunSpec) -> str:
    """SHA-256 of the resolved specification."""
    return hashlib.sha256(dump(spec).encode()).hexdigest()


def _override(tree: dict[str, Any], item: str) -> None:
    key, equals, raw = item.partition("=")
    if not equals or not key.strip():
        raise SpecError(f"{item!r} is not KEY=VALUE", where="--set", remedy="write for instance budget.rho=1/2")
    parts = key.strip().split(".")
    node = tree
    for p in parts[:-1]:
        node = node.setdefault(p, {})
        if not isinstance(node, dict):
            raise SpecError(f"{p!r} in {key!r} is a value, not a table", where="--set")
    node[parts[-1]] = _value(raw.strip())


def _value(raw: str) -> Any:
    """As TOML where that reads, else as a string. A decimal number stays a string, it is then exact; a date, too."""
    try:
        value = tomllib.loads(f"x = {raw}")["x"]
    except tomllib.TOMLDecodeError:
        return raw
    return value if isinstance(value, str | int | list | dict) else raw


def _fault(e: Any) -> str:
    path = ".".join(str(p) for p in e["loc"])
    if e["type"] == "extra_forbidden":
        near = get_close_matches(str(e["loc"][-1]), _known(e["loc"][:-1]), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; known keys: {', '.join(_known(e['loc'][:-1]))}"
        return f"{path}: unknown key{hint}"
    if e["type"] == "missing":
        return f"{path}: missing"
    return f"{path}: {e['msg'].removeprefix('Value error, ')}"


def _known(path: Sequence[Any]) -> list[str]:
    """The keys that a table of the specification may have."""
    model: Any = RunSpec
    for p in path:
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == p), None)
        args = [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((a for a in args if isinstance(a, type) and issubclass(a, BaseModel)), None)
        if model is None:
            return []
    return [f.alias or n for n, f in model.model_fields.items()]
