"""Truth is a type: a box that does not print, compare, copy or serialize what it holds."""

from __future__ import annotations

from typing import Generic, NoReturn, TypeVar

from das.errors import PrivacyError
from das.model import core_dumps

T = TypeVar("T")


class Confidential(Generic[T]):
    """A confidential value. Only ``open`` gives access, and it requires a reason.

    The box is a seal against accidents (a log line, a pickle to a worker, a file), not against
    malice. A process that has one leaves no core dump."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        core_dumps.forbid()
        self._value = value

    def open(self, reason: str) -> T:
        """The value. ``reason`` says, at the place of use, why the truth is needed there."""
        if not reason.strip():
            raise PrivacyError("a confidential value is opened for a stated reason only")
        return self._value

    def __repr__(self) -> str:
        return "<confidential>"

    def _refuse(self, *_: object) -> NoReturn:
        raise PrivacyError("a confidential value cannot be serialized, copied, hashed or compared")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __iter__ = __bool__ = _refuse
    __eq__ = __hash__ = _refuse
