"""Exact epsilons that are kept: they take a second of each run, and depend on a plan alone.

A value is kept under the SHA-256 of all that decides it: the draws on every path, the changes, by
how much answers differ, and delta, as exact numbers. Names of paths decide nothing. A process keeps
values in memory; commands and runs keep them in files (:mod:`das.files.kept_epsilons`).

What is kept is not believed where it matters: ``das account verify`` computes every value of a
release, and a register what it holds against its cap (:func:`recomputed`)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from fractions import Fraction
from functools import lru_cache

from das.accounting import profile
from das.accounting.draws import Differing
from das.accounting.worst import WorstLoss

#: Where values are kept, by key; nowhere if there is none.
KEEPER: ContextVar[MutableMapping[str, WorstLoss] | None] = ContextVar("keeper", default=None)


@contextmanager
def recomputed() -> Iterator[None]:
    """Values within are computed, as if none were kept."""
    token = KEEPER.set(None)
    try:
        yield
    finally:
        KEEPER.reset(token)


def worst_epsilon(differing: Differing, delta: Fraction) -> WorstLoss:
    """The value of :func:`das.accounting.profile.worst_epsilon`, computed if it is not kept."""
    if (keeper := KEEPER.get()) is None:
        return _computed(differing, delta)
    name = key(differing, delta)
    if (known := keeper.get(name)) is None:
        known = keeper[name] = _computed(differing, delta)
    return known


def key(differing: Differing, delta: Fraction) -> str:
    """The SHA-256 of what decides a value."""
    decides = json.dumps([[part.digest for part in differing], str(delta)])
    return hashlib.sha256(decides.encode("ascii")).hexdigest()


@lru_cache(maxsize=1024)
def _computed(differing: Differing, delta: Fraction) -> WorstLoss:
    return profile.worst_epsilon(differing, delta)
