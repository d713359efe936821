"""Linear algebra in one thread, so that sums have one order on every machine and with any number of
workers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from threadpoolctl import ThreadpoolController


@contextmanager
def one_thread() -> Iterator[None]:
    """Limits linear algebra to one thread, in a block or in a decorated function. It costs some
    twenty microseconds.
    """
    with _found(len(sys.modules)).limit(limits=1):
        yield


@lru_cache(maxsize=1)
def _found(_modules: int) -> ThreadpoolController:
    """The libraries with threads. The search takes ten milliseconds, so it is kept. Libraries are
    loaded with modules: as long as the number of modules is the same, there is no new one."""
    return ThreadpoolController()
