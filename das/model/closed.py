"""Values that tell of the truth and are passed about in the open: errors, counts, records. They
print as their name.

:class:`das.model.confidential.Confidential` is a box that is opened for a reason; what was taken
out, and what was computed with it, can still land in a log, a notebook or a traceback.
``print(das.run(...))`` must not be a page of errors."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


class Closed:
    """Prints as its name alone. A dataclass that is one is declared with ``repr=False``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: confidential>"


class ClosedRows(list[T]):
    """A list that prints as its length alone.

    >>> ClosedRows([1.5, 2.5])
    <2 rows: confidential>
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{len(self)} rows: confidential>"
