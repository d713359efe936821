r"""Noise on demand: computed for any coordinate, in any order, and the same at every request.

A schema with a million cells has more answers than anybody can draw, keep or publish. Estimation
never looks at most of them. Here a level's noise is a function of a key, and its values are
computed only on request.

**Construction.** A stream (:class:`das.noise.entropy.CoordinateLabel`) covers one query and the units
of one chunk. Its key is :math:`K_\ell = \mathrm{HMAC\text{-}SHA256}_K(\texttt{coordinates},
\ell)`. Its blocks are :math:`B(a, b) = \mathrm{AES\text{-}256}_{K_\ell}(a, b)`, 16 bytes for each
pair of 64-bit integers (:class:`das.noise.entropy.CipherBlocks`). Coordinate :math:`i`, which is
answer :math:`i \bmod A` of unit :math:`\lfloor i/A \rfloor` of the chunk, has the bits

.. math:: U_i = 0.\,\underbrace{\text{lane } i \bmod 8 \text{ of } B(\lfloor i/8 \rfloor, 0)}_{16}\,
          \underbrace{B(i, 1)_{0:8}}_{48 \text{ of } 64}\, \underbrace{B(i, 1)_{8:16}}_{64}\,
          \underbrace{B(i, 2)_{0:8}}_{64} \ldots

and the noise :math:`X_i = F^{-1}(U_i)` (:mod:`das.noise.rejection`), where :math:`F` is the
distribution of its unit's class. Few coordinates need bits beyond their lane. Where a table does
not pay, rejection draws from :math:`B(i, 1), B(i, 2), \ldots`, which also depend on :math:`i`
alone.

**Claim 1: the distribution is that of a full draw.** Let :math:`B` be uniformly random functions,
one for each stream. Then all :math:`X_i` are independent, each with its own :math:`F`. *Proof.*
Every bit belongs to one coordinate: lanes of one block are disjoint, no :math:`(\cdot, 0)` equals
an :math:`(\cdot, b)` with :math:`b \ge 1`, and only coordinate :math:`i` uses :math:`(i, b)`. So
the :math:`U_i` are independent and uniform. ∎

**Claim 2: deferred restriction.** Fix the records :math:`h` and let :math:`Y = Qh + X` be all
answers of all levels. Request sets of coordinates :math:`S_1, S_2, \ldots`. Each set is computed
from the earlier answers and from any :math:`R` that is independent of :math:`X`: :math:`S_t =
f_t(R, S_{<t}, Y_{S_{<t}})`. Either draw all of :math:`X` before the first request, or draw each
coordinate at its first request. The transcript :math:`T = (R, S_1, Y_{S_1}, S_2, \ldots)` has the
same distribution both ways. *Proof.* For a fixed value :math:`\tau = (r, s_1, y_1, s_2, \ldots)`
both have

.. math:: P[T = \tau] = P[R = r]\; \prod_t 1[f_t(r, s_{<t}, y_{<t}) = s_t]\; \prod_{i \in \cup s_t} P[X_i = y_i - (Qh)_i]

if :math:`\tau` gives no coordinate two values, and 0 otherwise: the indicators fix which
coordinates are read, and their noise is independent of one another and of :math:`R`. ∎ So an
estimate computed from requested coordinates has the same distribution as after a full draw whose
other values are thrown away.

**Claim 3: privacy.** :math:`T = g(Y, R)` is a function of the full draw and of something
independent of the records. So it has the guarantee of :math:`Y`, which is the plan's. This holds
for every request rule :math:`f`, even an adversary's. The plan charges the full cost before the
first answer, even if few answers are requested: the number of requests depends on earlier answers.
*What the proof needs*: requests depend on the records only through earlier answers. A request for
the cells where the truth is positive would publish where it is positive. So the code that makes
requests must not reach the truth (``tests/test_architecture.py``). If :math:`R` is itself an output
about the records, such as another universe's measurements, its cost is added to this one's.

**Claim 4: keys.** No efficient adversary, even with adaptive requests, can tell the answers from
answers made of uniform bits. *Proof.* As in :mod:`das.noise.entropy`, replace HMAC's pseudo-random
function by a random one. Each stream then has an independent uniform key. It is also independent of
the keys of chunks and of marks, because purpose and label are encoded injectively. Then, stream by
stream, replace AES-256 by a random permutation, and that by a random function. The advantage grows
by the advantage against AES, and by :math:`q^2/2^{129}` for a stream with :math:`q` blocks read. A
stream has at most :data:`LIMIT` coordinates; with tables :math:`q < 2^{33}`, so this term is below
:math:`2^{-63}`. A repeated request gets the same answer and reveals nothing more. ∎

**Price.** A value that was not requested while the key and the truth existed is lost. Anyone who
has both the key and the release can compute the noise, and so has the truth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import NoRepr
from das.noise.entropy import CipherBlocks, Entropy
from das.noise.samplers import Sampler

#: A stream has at most this many coordinates, far below the birthday bound of its blocks.
LIMIT = 1 << 32
_AT_ONCE = 1 << 15  # blocks and bits stay in cache
_LANES = 8


class CoordinateNoise(NoRepr):
    """Noise with one distribution at the coordinates ``0..size-1`` of one stream.

    Units of several classes share a stream, and each class has its own distribution. Read a
    coordinate only with the distribution of its unit's class."""

    def __init__(
        self, blocks: CipherBlocks, size: int, sampler: Sampler, parameter: Fraction
    ) -> None:
        if not 0 <= size <= LIMIT:
            raise InputError(
                f"{size} coordinates of one stream, more than {LIMIT}",
                where="noise on demand",
                remedy="give each chunk fewer units",
            )
        sampler.refuse(parameter)
        self._blocks, self._size, self._sampler, self._parameter = blocks, size, sampler, parameter

    def at(self, positions: NDArray[np.integer]) -> NDArray[np.int64]:
        """Noise at the coordinates ``positions`` ``(n,)``, in the given order, repeats included:
        int64 ``(n,)``. It takes one AES block each, and one more for the few still undecided."""
        self._check(positions)
        out = np.empty(len(positions), dtype=np.int64)
        for start in range(0, len(out), _AT_ONCE):
            i = positions[start : start + _AT_ONCE].astype(np.uint64)
            lanes = self._blocks(i >> np.uint64(3), 0).view("<u2")
            lane = np.arange(0, lanes.size, _LANES, dtype=np.uint64) + (i & np.uint64(7))
            self._decide(
                np.take(lanes.ravel(), lane.astype(np.intp)), i, out[start : start + _AT_ONCE]
            )
        return out

    def dense(self, first: int, last: int) -> NDArray[np.int64]:
        """Noise at the coordinates ``first..last-1``; one AES block serves eight of them."""
        if not 0 <= first <= last <= self._size:
            raise InputError(
                f"coordinates {first} to {last} of a stream of {self._size}",
                where="noise on demand",
            )
        out = np.empty(last - first, dtype=np.int64)
        for start in range(first, last, _LANES * _AT_ONCE):
            stop = min(start + _LANES * _AT_ONCE, last)
            skipped = start % _LANES
            lanes = self._blocks(
                np.arange(start // _LANES, -(-stop // _LANES), dtype=np.uint64), 0
            ).view("<u2")
            i = np.arange(start, stop, dtype=np.uint64)
            self._decide(
                lanes.ravel()[skipped : skipped + len(i)], i, out[start - first : stop - first]
            )
        return out

    def _decide(
        self, prefix: NDArray[np.uint16], position: NDArray[np.uint64], out: NDArray[np.int64]
    ) -> None:
        behind = _Behind(self._blocks, position)
        if (table := self._sampler.inverse(self._parameter)) is not None:
            table.invert(prefix, behind, out)
        else:
            out[:] = [
                self._sampler.one(self._parameter, _Tail(self._blocks, p, 0))
                for p in position.tolist()
            ]

    def _check(self, positions: NDArray[np.integer]) -> None:
        if positions.ndim != 1 or positions.dtype.kind not in "iu":
            raise InputError("positions are a list of integers", where="noise on demand")
        if len(positions) and not (int(positions.min()) >= 0 and int(positions.max()) < self._size):
            raise InputError(f"a coordinate outside 0..{self._size - 1}", where="noise on demand")


class _Behind:
    """The bits of some coordinates after their lanes."""

    def __init__(self, blocks: CipherBlocks, position: NDArray[np.uint64]) -> None:
        self._blocks, self._position = blocks, position

    def words(self, which: NDArray[np.intp]) -> NDArray[np.uint64]:
        return self._blocks(self._position[which], 1).view("<u8")[:, 0]

    def behind(self, draw: int) -> Entropy:
        return _Tail(self._blocks, int(self._position[draw]), 8)


class _Tail(Entropy):
    """The bytes of ``B(i, 1), B(i, 2), ...`` for one coordinate ``i``, from byte ``at`` on."""

    def __init__(self, blocks: CipherBlocks, position: int, at: int) -> None:
        self._blocks, self._position, self._at = blocks, np.array([position], dtype=np.uint64), at

    def bytes(self, n: int) -> bytes:
        first, stop = self._at // 16, -(-(self._at + n) // 16)
        raw = b"".join(self._blocks(self._position, 1 + b).tobytes() for b in range(first, stop))
        start, self._at = self._at - 16 * first, self._at + n
        return raw[start : start + n]
