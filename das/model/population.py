r"""Population groups: who lives somewhere (a region) and is of some race or ethnicity (an
iteration).

A person writes down up to eight codes of race, and one of ethnicity. A *characteristic iteration*
is a group that codes belong to: *Albanian alone*, *European alone or in any combination*, *Costa
Rican*. With :math:`A(c)` and :math:`C(c)` the iterations "alone" and "in combination" that the race
code c is of, and :math:`E(q)` those of the ethnicity code q, a person with race codes R is in

.. math:: \bigcap_{c \in R} A(c) \;\cup\; \bigcup_{c \in R} C(c) \;\cup\; E(q).

A *population group level* is a type of region and a level of iterations: detailed groups of tracts.
Each is measured by itself, for all its iterations in all its regions, whether anybody is there or
not: what is measured is public.

*Stability.* With r codes of race that are read, and at most :math:`h_A`, :math:`h_C`, :math:`h_E`
iterations of a kind that one code is of, a person is in as many groups of a level as

.. math:: s = \max\bigl(r h_C,\; h_A + \max_a \min(r h_C, |\textstyle\bigcup_{c \in a} C(c)|)\bigr) + h_E

at most, a ranging over the iterations "alone", and c over the codes of each. For whoever is in none
of these is in :math:`r h_C` "in combination"; and whoever is in one, a, has codes of a only, and is
in :math:`h_A` of these, and in those "in combination" that codes of a are of. Where the iterations
come in pairs, alone and in combination of the same codes, each code in one pair, that is
:math:`\max(2, r) + h_E`, which codes of r different groups attain. The source has :math:`\max(h_A,
h_C) \max(2, r) + h_E` for all tables: too little where they do not come in pairs, as a person with
two codes can then be in three groups.

Source: Haney et al. (2024), *SafeTab-P*, sections 2.3, 3.2 and 5.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.codes import characters
from das.model.frozen import Frozen

Mask = NDArray[np.bool_]

#: Types of regions, of the states and of Puerto Rico, the largest first.
REGIONS: Mapping[str, tuple[str, ...]] = {
    "us": ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"),
    "pr": ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"),
}
#: Those that have iterations of their own.
FINE = frozenset({"USA", "STATE", "PR-STATE"})
#: Those whose regions cross states.
ACROSS = frozenset({"USA", "AIANNH"})
#: Levels of iterations that are tabulated, by their numbers.
LEVELS: Mapping[int, str] = {1: "regional", 2: "detailed"}
#: Codes of race and ethnicity have four digits; 0 stands for none.
MOST_CODES, NO_CODE = 10_000, 0
#: How many codes of race a person may write down.
RACE_CODES = 8


class Kind(IntEnum):
    """What makes somebody one of an iteration: all race codes, one of them, or the ethnicity
    code.
    """

    ALONE = 0
    COMBINATION = 1
    ETHNICITY = 2


@dataclass(frozen=True, order=True)
class GroupLevel:
    """A population group level: a type of ``region``, and a ``level`` of iterations.

    >>> (
    ...     GroupLevel("PR-TRACT", 2).name,
    ...     GroupLevel("PR-TRACT", 2).key,
    ...     str(GroupLevel("PR-TRACT", 2)),
    ... )
    ('PR-TRACT detailed', '(PR-TRACT, 2)', 'level_2_pr_tract')
    """

    region: str
    level: int

    def __str__(self) -> str:
        return f"level_{self.level}_{self.region.lower().replace('-', '_')}"

    @property
    def key(self) -> str:
        return f"({self.region}, {self.level})"

    @property
    def name(self) -> str:
        return f"{self.region} {LEVELS[self.level]}"

    @property
    def fine(self) -> bool:
        return self.region in FINE

    @staticmethod
    def of_run(run: str) -> tuple[GroupLevel, ...]:
        """All of one run, ``us`` or ``pr``."""
        return tuple(GroupLevel(region, level) for level in LEVELS for region in REGIONS[run])


@dataclass(frozen=True, eq=False, repr=False)
class Iterations(Frozen):
    """The characteristic iterations, and which codes are of each.

    By iteration, ``(iterations,)``: its four digits ``code`` and its ``name``; ``level``, of which
    0 is never tabulated; ``kind``; ``detailed_only`` (of nations and states alone, and without
    tables) and ``coarse_only`` (below states alone). By pair, ``(pairs,)``: ``race_code`` is of the
    iteration ``member``."""

    code: NDArray[np.str_]
    name: NDArray[np.str_]
    level: NDArray[np.int8]
    kind: NDArray[np.int8]
    detailed_only: Mask
    coarse_only: Mask
    member: NDArray[np.int32]
    race_code: NDArray[np.int16]

    def __post_init__(self) -> None:
        if len(np.unique(self.code)) != len(self.code):
            raise InputError("two iterations have the same code", where="iterations")
        if (self.detailed_only & self.coarse_only).any():
            raise InputError(
                "an iteration is of fine regions only, and of coarse ones only", where="iterations"
            )
        if len(self.member) and not (0 <= self.member.min() <= self.member.max() < len(self.code)):
            raise InputError("a code is of an iteration that is not there", where="iterations")
        if len(self.race_code) and not (
            NO_CODE < self.race_code.min() <= self.race_code.max() < MOST_CODES
        ):
            raise InputError("a code of race or ethnicity has not four digits", where="iterations")

    def __len__(self) -> int:
        return len(self.code)

    def of(self, at: GroupLevel) -> NDArray[np.int32]:
        """The numbers of the iterations that are measured at a level, in order."""
        other = self.coarse_only if at.fine else self.detailed_only
        return np.flatnonzero((self.level == at.level) & ~other).astype(np.int32)

    @cached_property
    def tabulated(self) -> NDArray[np.int32]:
        """The numbers of those of any level."""
        return np.flatnonzero(self.level > 0).astype(np.int32)

    def codes_of(self, kind: Kind, among: NDArray[np.int32]) -> NDArray[np.int32]:
        """Which of the iterations ``among`` that are of a kind each code is of: ``(codes, h)``, as
        places in ``among``, padded with -1. h is 1 or more."""
        place = np.full(len(self), -1, dtype=np.int32)
        place[among] = np.arange(len(among), dtype=np.int32)
        kept = (place[self.member] >= 0) & (self.kind[self.member] == kind)
        many = max(1, len(among))
        code, at = np.divmod(
            np.unique(self.race_code[kept].astype(np.int64) * many + place[self.member[kept]]), many
        )
        first = np.flatnonzero(np.diff(code, prepend=-1))
        times = np.diff(np.append(first, len(code)))
        out = np.full((MOST_CODES, max(1, int(times.max(initial=0)))), -1, dtype=np.int32)
        out[code, np.arange(len(code)) - np.repeat(first, times)] = at
        return out

    def stability(self, at: GroupLevel, race_codes: int) -> int:
        """In how many groups of a level a person can be, of whom ``race_codes`` codes of race are
        read.
        """
        return self.most(self.of(at), race_codes)

    def most(self, among: NDArray[np.int32], race_codes: int, ethnic: bool = True) -> int:
        """In how many of the iterations ``among`` a person of so many codes of race can be; of
        ethnicity too, or not.
        """
        if (key := among.tobytes()) not in self._largest:  # with every plan it is asked for again
            self._largest[key] = self._largest_of(among)
        alone, combined, together, ethnicity = self._largest[key]
        many = race_codes * combined
        single = alone + min(many, together) if alone else 0
        return max(many, single) + ethnic * ethnicity

    def _largest_of(self, among: NDArray[np.int32]) -> tuple[int, int, int, int]:
        """:math:`h_A`, :math:`h_C`, the union that is the largest, and :math:`h_E`."""
        alone, combined, ethnic = (self.codes_of(kind, among) for kind in Kind)
        code, place = np.nonzero(alone >= 0)
        besides = combined[code]  # (codes "alone", h): iterations that are a person's, too
        pairs = np.unique(
            (alone[code, place].astype(np.int64)[:, None] * MOST_CODES + besides)[besides >= 0]
        )
        together = np.bincount(pairs // MOST_CODES, minlength=1).max()
        return _most(alone), _most(combined), int(together), _most(ethnic)

    @cached_property
    def _largest(self) -> dict[bytes, tuple[int, int, int, int]]:
        return {}


def _most(of: NDArray[np.int32]) -> int:
    """The largest number of iterations that one code is of."""
    return int((of >= 0).sum(axis=1).max())


def groups_of(
    iterations: Iterations, at: GroupLevel, codes: NDArray[np.int16], ethnicity: NDArray[np.int16]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The iterations that people with some codes are in, at a level: ``indptr`` ``(people + 1,)``
    and places in
    :meth:`Iterations.of`, each once, those of one after those of the other.

    ``codes`` ``(people, up to 8)``, of which 0 is none; ``ethnicity`` ``(people,)``. Costs a few
    operations a code, so ask of distinct combinations."""
    among = iterations.of(at)
    alone, combined, ethnic = (iterations.codes_of(kind, among) for kind in Kind)
    given = codes != NO_CODE
    in_all = alone[codes]  # (people, codes, h)
    first = np.argmax(given, axis=1)
    candidates = in_all[np.arange(len(codes)), first]  # who is in all is in that of the first code
    held = (in_all[:, :, None, :] == candidates[:, None, :, None]).any(axis=3) | ~given[:, :, None]
    candidates = np.where(held.all(axis=1) & given.any(axis=1)[:, None], candidates, -1)
    in_any = np.where(given[:, :, None], combined[codes], -1)
    in_any = in_any.reshape(len(codes), in_any.shape[1] * in_any.shape[2])  # of nobody, too
    found = np.sort(np.concatenate([candidates, in_any, ethnic[ethnicity]], axis=1), axis=1)
    found[:, 1:][found[:, 1:] == found[:, :-1]] = -1
    kept = found >= 0
    indptr = np.concatenate([[0], np.cumsum(kept.sum(axis=1))])
    return indptr, found[kept]


@dataclass(frozen=True, eq=False, repr=False)
class Regions(Frozen):
    """Where blocks lie: of each type of region the sorted ids ``ids[type]``, and ``of_block[type]``
    ``(blocks,)``, which of them a block is in, or -1. ``block`` are the blocks' codes, sorted;
    ``state`` the first two digits of each."""

    block: NDArray[np.bytes_]
    ids: Mapping[str, NDArray[np.bytes_]]
    of_block: Mapping[str, NDArray[np.int32]]

    def __post_init__(self) -> None:
        if len(self.block) and not (self.block[:-1] < self.block[1:]).all():
            raise InputError("blocks are not sorted, or one is there twice", where="geography")
        for kind, of in self.of_block.items():
            if len(of) != len(self.block) or (
                len(of) and not -1 <= of.min() <= of.max() < len(self.ids[kind])
            ):
                raise InputError(
                    "a block is in a region that is not there", where=f"geography, {kind}"
                )

    @cached_property
    def state(self) -> NDArray[np.bytes_]:
        return self.block.astype("S2")

    @cached_property
    def number(self) -> NDArray[np.int64]:
        """The blocks' codes as numbers, in the same order."""
        out = np.zeros(len(self.block), dtype=np.int64)
        for digit in characters(
            self.block
        ).T:  # one after the other: a matrix of them would take 1 GB of a nation
            out = out * 10 + (digit - ord("0"))
        return out

    def find(self, number: NDArray[np.int64]) -> NDArray[np.int32]:
        """Where blocks are that are given by the numbers of their codes, or -1."""
        at = np.searchsorted(self.number, number)
        there = (
            self.number.take(at, mode="clip") == number
            if len(self.block)
            else np.zeros(len(number), dtype=bool)
        )
        return np.where(there, at, -1).astype(np.int32)

    @property
    def states(self) -> Sequence[bytes]:
        return list(self._in_state)

    @cached_property
    def _in_state(self) -> dict[bytes, slice]:
        """The blocks of each state: those of one follow each other."""
        new = np.append(True, self.state[1:] != self.state[:-1])[: len(self.block)]
        edges = [*np.flatnonzero(new).tolist(), len(self.block)]
        return {bytes(self.state[a]): slice(a, b) for a, b in pairwise(edges)}

    def here(self, run: str) -> Mask:
        """The blocks of a run."""
        return np.asarray((self.state == b"72") == (run == "pr"))

    def of_state(self, kind: str, state: bytes) -> NDArray[np.int32]:
        """The regions of a type in a state; of one that crosses states those that reach into it."""
        if (known := self._of_state.get((kind, state))) is None:
            found = np.unique(self.of_block[kind][self._in_state.get(state, slice(0))])
            self._of_state[kind, state] = known = found[found >= 0].astype(np.int32)
        return known

    @cached_property
    def _of_state(self) -> dict[tuple[str, bytes], NDArray[np.int32]]:
        return {}
