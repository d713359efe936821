"""Values that stay what they are: arrays read-only, mappings closed, equality by value.

``frozen=True`` of a dataclass closes its attributes alone: ``spine.parent[0][3] = 7`` would go
through, and ``==`` would end in NumPy's complaint that the truth of an array is ambiguous."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from functools import wraps
from types import MappingProxyType
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

K = TypeVar("K")
V = TypeVar("V")


class Frozen:
    """The base class of frozen dataclasses that hold arrays or mappings.

    After the instance's own ``__post_init__``, each array becomes a read-only view, and each
    mapping a closed one, also in tuples. Nothing is copied, so the code that made an array can
    still write to it. If declared with ``eq=False``, two instances of one class are equal if all
    their compared fields are equal, arrays value by value. They then have no hash."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if (own := cls.__dict__.get("__post_init__")) is not None:

            @wraps(own)
            def checked(self: Frozen, *given: Any) -> None:
                own(self, *given)
                _freeze(self)

            type.__setattr__(cls, "__post_init__", checked)

    def __post_init__(self) -> None:
        _freeze(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """What comes from another process is frozen, too."""
        self.__dict__.update(state)
        _freeze(self)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [f.name for f in fields(self) if f.compare]
        return all(_same(getattr(self, name), getattr(other, name)) for name in names)


class FrozenMap(dict[K, V]):
    """A mapping that cannot be changed; ``|`` gives a plain one."""

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("this mapping belongs to a value that does not change")

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Callable[[dict[K, V]], Any], tuple[dict[K, V]]]:
        return _kept, (dict(self),)


def _freeze(value: Frozen) -> None:
    for field in fields(value):
        given = getattr(value, field.name)
        if (kept := _kept(given)) is not given:
            object.__setattr__(value, field.name, kept)


def _kept(value: Any) -> Any:
    """A read-only form of the value; the value itself if it is already read-only."""
    if isinstance(value, np.ndarray) and value.flags.writeable:
        value = value.view()
        value.setflags(write=False)
    elif type(value) is tuple:
        parts = tuple(map(_kept, value))
        return value if all(a is b for a, b in zip(parts, value, strict=True)) else parts
    elif type(value) in (dict, MappingProxyType):
        return FrozenMap({k: _kept(v) for k, v in value.items()})
    return value


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        floats = all(np.asarray(x).dtype.kind in "fc" for x in (a, b))
        return bool(np.array_equal(a, b, equal_nan=floats))
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[k], b[k]) for k in a)
    return bool(a == b)


# Values that tell of the truth and are passed about in the open: errors, counts, records. They
# print as their name.
#
# :class:`das.model.confidential.Confidential` is a box that is opened for a reason; what was taken
# out, and what was computed with it, can still land in a log, a notebook or a traceback.
# ``print(das.run(...))`` must not be a page of errors.

T = TypeVar("T")


class NoRepr:
    """Prints as its name alone. A dataclass that is one is declared with ``repr=False``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: confidential>"


class NoReprRows(list[T]):
    """A list that prints as its length alone.

    >>> NoReprRows([1.5, 2.5])
    <2 rows: confidential>"""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} rows: confidential>"
