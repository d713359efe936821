"""Linear algebra by one thread: sums in one order, whatever the machine and however many workers
there are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """What is done inside, or by the function that this decorates. It costs some twenty
    microseconds.
    """
    with _found(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _found(_modules: int) -> ThreadpoolController:
    """The libraries that have threads. To look for them takes ten milliseconds, and they are loaded
    with modules: while there are as many of these as there were, none has come."""
    return ThreadpoolController()
