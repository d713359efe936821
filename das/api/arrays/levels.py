"""What there is of each level, and a message where there is none."""

from __future__ import annotations

from typing import NoReturn, TypeVar

from das.errors import InputError
from das.model import spelling
from das.model.schema import Schema

T = TypeVar("T")


class ByLevel(dict[str, T]):
    """By level, root first. Raises :class:`InputError` for one that is not there."""

    def __missing__(self, level: object) -> NoReturn:
        known = (
            f"there are {', '.join(self)}"
            if self
            else "there is none: das.full_information gives estimates"
        )
        raise InputError(f"nothing of level {level!r}", where="levels", remedy=known)


def query(wanted: object, schema: Schema, known: tuple[str, ...] = (), where: str = "query") -> str:
    """The one of the queries ``known``, or else any of the schema, that is meant. Raises
    :class:`InputError`."""
    if not isinstance(wanted, str):
        raise InputError(
            f"this is a {type(wanted).__name__}, and no query",
            where=where,
            remedy='give the name of one, such as "total"',
        )
    return (
        spelling.product(wanted, known, where)
        if known
        else spelling.query(wanted, schema, where=where)
    )
