"""Linear algebra in one thread, so that sums have one order on every machine and with any number of
workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits linear algebra to one thread, in a block or in a decorated function. It costs some
    twenty microseconds."""
    found = _found(len(sys.modules))
    with nullcontext() if found is None else found.limit(limits=1):
        yield


def stay_in_one_thread() -> None:
    """Limit linear algebra that is loaded to one thread, for the rest of this process."""
    if (found := _found(len(sys.modules))) is not None:
        found.limit(limits=1)


@lru_cache(maxsize=1)
def _found(_modules: int) -> ThreadpoolController | None:
    """The libraries with threads. The search takes ten milliseconds, so it is kept. Libraries are
    loaded with modules: as long as the number of modules is the same, there is no new one.

    An enclosed process (:mod:`das.engine.enclosed`) cannot look into its own memory. Its libraries
    were loaded with one thread, by its environment, so there is nothing to limit."""
    try:
        return ThreadpoolController()
    except PermissionError:
        return None
