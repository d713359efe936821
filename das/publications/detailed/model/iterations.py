r"""The groups of the Detailed DHC: people of one race or ethnic group (an iteration) in one place
(a region).

A person reports up to eight codes of race, and one of ethnicity. A *characteristic iteration* is a
group of codes: *Albanian alone*, *European alone or in any combination*, *Costa Rican*. Let
:math:`A(c)` and :math:`C(c)` be the iterations "alone" and "in combination" that have the race code
c. Let :math:`E(q)` be those that have the ethnicity code q. A person with race codes R is in

.. math:: \bigcap_{c \in R} A(c) \;\cup\; \bigcup_{c \in R} C(c) \;\cup\; E(q).

A *population group level* is a type of region and a level of iterations, such as detailed groups in
tracts. Each level is measured by itself, for all its iterations in all its regions, even where
nobody is: the list of measurements is public.

*Stability.* Let r codes of race be read. Let one code be in at most :math:`h_A`, :math:`h_C`,
:math:`h_E` iterations of each kind. Then a person is in at most

.. math:: s = \max\bigl(r h_C,\; h_A + \max_a \min(r h_C, |\textstyle\bigcup_{c \in a} C(c)|)\bigr) + h_E

groups of a level. Here a ranges over the iterations "alone", and c over the codes of each. *Proof.*
A person in no iteration "alone" is in at most :math:`r h_C` iterations "in combination". A person
in an iteration "alone", a, has only codes of a. They are in at most :math:`h_A` iterations "alone",
and in the iterations "in combination" that have codes of a. ∎ Suppose that iterations come in pairs
with the same codes, alone and in combination, and each code is in one pair. Then s is
:math:`\max(2, r) + h_E`, which codes of r different groups attain. The source has :math:`\max(h_A,
h_C) \max(2, r) + h_E` for all tables. That is too little if iterations do not come in pairs,
because a person with two codes can then be in three groups.

Source: Haney et al. (2024), *SafeTab-P*, sections 2.3, 3.2 and 5.2."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.names import characters

Mask = NDArray[np.bool_]

#: Types of regions, of the states and of Puerto Rico, the largest first.
REGIONS: Mapping[str, tuple[str, ...]] = {
    "us": ("USA", "STATE", "COUNTY", "TRACT", "PLACE", "AIANNH"),
    "pr": ("PR-STATE", "PR-COUNTY", "PR-TRACT", "PR-PLACE"),
}
#: Types of regions with their own iterations.
FINE = frozenset({"USA", "STATE", "PR-STATE"})
#: Types of regions that cross states.
ACROSS = frozenset({"USA", "AIANNH"})
#: Tabulated levels of iterations, by their numbers.
LEVELS: Mapping[int, str] = {1: "regional", 2: "detailed"}
#: Codes of race and ethnicity have four digits; 0 stands for none.
MOST_CODES, NO_CODE = 10_000, 0
#: The most codes of race that a person can report.
RACE_CODES = 8


class Kind(IntEnum):
    """Which codes put a person into an iteration: all race codes, one of them, or the ethnicity
    code."""

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
    ('PR-TRACT detailed', '(PR-TRACT, 2)', 'level_2_pr_tract')"""

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
        """All levels of one run, ``us`` or ``pr``."""
        return tuple(GroupLevel(region, level) for level in LEVELS for region in REGIONS[run])


@dataclass(frozen=True, eq=False, repr=False)
class Iterations(Frozen):
    """The characteristic iterations, and the codes of each.

    By iteration, ``(iterations,)``: ``code``, four digits; ``name``; ``level``, where 0 is never
    tabulated; ``kind``; ``detailed_only`` (only for nations and states, and without tables) and
    ``coarse_only`` (only below states). By pair, ``(pairs,)``: the iteration ``member`` has the
    code ``race_code``."""

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

    def measured_at(self, at: GroupLevel) -> NDArray[np.int32]:
        """The numbers of the iterations that are measured at a level, in order."""
        other = self.coarse_only if at.fine else self.detailed_only
        return np.flatnonzero((self.level == at.level) & ~other).astype(np.int32)

    @cached_property
    def tabulated(self) -> NDArray[np.int32]:
        """The numbers of the iterations that are tabulated at any level."""
        return np.flatnonzero(self.level > 0).astype(np.int32)

    def codes_of(self, kind: Kind, among: NDArray[np.int32]) -> NDArray[np.int32]:
        """The iterations of a kind that have each code: ``(codes, h)``, as places in ``among``,
        padded with -1. h is 1 or more."""
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
        """The most groups of a level that a person can be in, if ``race_codes`` codes of race are
        read."""
        return self.most(self.measured_at(at), race_codes)

    def most(self, among: NDArray[np.int32], race_codes: int, ethnic: bool = True) -> int:
        """The most iterations of ``among`` that a person with ``race_codes`` codes of race can be
        in; ``ethnic`` says whether iterations of ethnicity count, too."""
        if (key := among.tobytes()) not in self._largest:  # every plan needs it again
            self._largest[key] = self._largest_of(among)
        alone, combined, together, ethnicity = self._largest[key]
        many = race_codes * combined
        single = alone + min(many, together) if alone else 0
        return max(many, single) + ethnic * ethnicity

    def _largest_of(self, among: NDArray[np.int32]) -> tuple[int, int, int, int]:
        """:math:`h_A`, :math:`h_C`, the size of the largest union, and :math:`h_E`."""
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


def _most(by_code: NDArray[np.int32]) -> int:
    """The largest number of iterations with one code."""
    return int((by_code >= 0).sum(axis=1).max())


def groups_of(
    iterations: Iterations, at: GroupLevel, codes: NDArray[np.int16], ethnicity: NDArray[np.int16]
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The iterations, at a level, of people with some codes. Returns ``indptr`` ``(people + 1,)``
    and places in :meth:`Iterations.measured_at`, person by person, each place once.

    ``codes`` ``(people, up to 8)``, where 0 means none; ``ethnicity`` ``(people,)``. It takes a few
    operations for each code, so give it distinct combinations."""
    among = iterations.measured_at(at)
    alone, combined, ethnic = (iterations.codes_of(kind, among) for kind in Kind)
    given = codes != NO_CODE
    in_all = alone[codes]  # (people, codes, h)
    first = np.argmax(given, axis=1)
    candidates = in_all[np.arange(len(codes)), first]  # an iteration of all codes has the first
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
    """The regions of blocks. For each type of region, ``ids[type]`` has the sorted ids, and
    ``of_block[type]`` ``(blocks,)`` the region of each block, or -1. ``block`` has the blocks'
    codes, sorted; ``state`` has the first two digits of each."""

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
        ).T:  # one digit after the other: a matrix would take 1 GB for a nation
            out = out * 10 + (digit - ord("0"))
        return out

    def find(self, number: NDArray[np.int64]) -> NDArray[np.int32]:
        """The places of blocks, given by the numbers of their codes; -1 if there is no block."""
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
        """The blocks of each state, which are consecutive."""
        new = np.append(True, self.state[1:] != self.state[:-1])[: len(self.block)]
        edges = [*np.flatnonzero(new).tolist(), len(self.block)]
        return {bytes(self.state[a]): slice(a, b) for a, b in pairwise(edges)}

    def here(self, run: str) -> Mask:
        """The blocks of a run."""
        return np.asarray((self.state == b"72") == (run == "pr"))

    def of_state(self, kind: str, state: bytes) -> NDArray[np.int32]:
        """The regions of a type that have blocks in a state, even if they cross states."""
        if (known := self._of_state.get((kind, state))) is None:
            found = np.unique(self.of_block[kind][self._in_state.get(state, slice(0))])
            self._of_state[kind, state] = known = found[found >= 0].astype(np.int32)
        return known

    @cached_property
    def _of_state(self) -> dict[tuple[str, bytes], NDArray[np.int32]]:
        return {}
