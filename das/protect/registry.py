"""The methods by name, and a method from a table of a study::

    method = "cell-key"
    D = 5
    V = 2.0

Keys are the parameters of the method's class. Unknown ones are refused. ``method =
"file.py:Class"`` is a method of your own (:mod:`das.protect.own_method`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

from das.errors import SpecError
from das.protect.cell_key import CellKey
from das.protect.coarsening import Coarsening
from das.protect.method import ProtectionMethod
from das.protect.own_method import own_method
from das.protect.permutation import PermutationSwapping
from das.protect.rounding import Rounding
from das.protect.suppression import Suppression
from das.protect.swapping import Swapping
from das.protect.unprotected import Unprotected

#: In the order of pages.
_CLASSES: tuple[type[ProtectionMethod], ...] = (
    Unprotected,
    Swapping,
    PermutationSwapping,
    CellKey,
    Rounding,
    Coarsening,
    Suppression,
)
#: The methods' classes by their names.
METHODS: Mapping[str, type[ProtectionMethod]] = {m.name: m for m in _CLASSES}


def method_of(
    settings: Mapping[str, object],
    where: str = "method",
    methods: Mapping[str, type[ProtectionMethod]] = METHODS,
    folder: Path = Path(),
) -> ProtectionMethod:
    """The method that a table spells: its name as ``method``, and its parameters. Files of own
    methods are in ``folder``. Raises :class:`SpecError` for what it does not know.

    >>> method_of({"method": "rounding", "base": 5})
    Rounding(base=5, how='random')
    """
    name = settings.get("method")
    if isinstance(name, str) and name in methods:
        kind = methods[name]
    elif isinstance(name, str) and ".py:" in name:
        kind = own_method(name, folder, where)
    else:
        remedy = f"it can be {', '.join(methods)}, or file.py:Class"
        raise SpecError(f"method is {name!r}", where=where, remedy=remedy)
    where = f"{where}, {name}"
    known, types = [f.name for f in fields(kind)], get_type_hints(kind)
    given = {}
    for key, value in settings.items():
        if key == "method":
            continue
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"do you mean {near[0]}?" if near else f"its keys are {', '.join(known)}"
            raise SpecError(
                f"unknown key {key!r}", where=where, remedy=hint if known else "it has no key"
            )
        given[key] = tuple(value) if isinstance(value, list) else value
        if not _fits(given[key], types[key]):
            raise SpecError(
                f"{key} is {value!r}", where=where, remedy=f"it must be {_spoken(types[key])}"
            )
    return kind(**given)


def _fits(value: object, wanted: Any) -> bool:
    """Whether a value has the type of a parameter."""
    if isinstance(wanted, UnionType):
        return any(_fits(value, one) for one in get_args(wanted))
    if get_origin(wanted) is tuple:
        return isinstance(value, tuple) and all(_fits(v, get_args(wanted)[0]) for v in value)
    if wanted in (int, float):
        number = int if wanted is int else int | float
        return isinstance(value, number) and not isinstance(value, bool)
    return isinstance(value, wanted)


def _spoken(wanted: Any) -> str:
    """The type of a parameter in words.

    >>> _spoken(tuple[str, ...]), _spoken(float), _spoken(str | None)
    ('a list of texts', 'a number', 'a text')
    """
    if isinstance(wanted, UnionType):
        return " or ".join(_spoken(one) for one in get_args(wanted) if one is not type(None))
    if get_origin(wanted) is tuple:
        return f"a list of {_spoken(get_args(wanted)[0]).split()[-1]}s"
    return {int: "an integer", float: "a number", str: "a text", bool: "true or false"}[wanted]
