"""A frozen dataclass from a table of a configuration: its fields are the keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from difflib import get_close_matches
from typing import Any, TypeVar, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from das.errors import DasError, SpecError
from das.model.exact import exact

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
    Rounded(base=5)
    """
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
