r"""Noise on demand: of any coordinate, in any order, and the same whenever it is asked for.

A schema of a million cells has more answers than anybody can draw, keep or publish, and nearly all
are of cells that estimation never looks at. Here the noise of a level is a function of a key, whose
values are computed where they are asked for.

**Construction.** A stream (:class:`das.noise.label.CoordinateLabel`: one query, the units of a
chunk) has the key :math:`K_\ell = \mathrm{HMAC\text{-}SHA256}_K(\texttt{coordinates}, \ell)` and
the blocks :math:`B(a, b) = \mathrm{AES\text{-}256}_{K_\ell}(a, b)`, 16 bytes for each pair of
64-bit integers (:class:`das.noise.entropy.CipherBlocks`). Coordinate :math:`i`, which is answer
:math:`i \bmod A` of unit :math:`\lfloor i/A \rfloor` of the chunk, has the bits

.. math:: U_i = 0.\,\underbrace{\text{lane } i \bmod 8 \text{ of } B(\lfloor i/8 \rfloor, 0)}_{16}\,
          \underbrace{B(i, 1)_{0:8}}_{48 \text{ of } 64}\, \underbrace{B(i, 1)_{8:16}}_{64}\,
          \underbrace{B(i, 2)_{0:8}}_{64} \ldots

and the noise :math:`X_i = F^{-1}(U_i)` (:mod:`das.noise.inverse_cdf`), :math:`F` being that of its
unit's class. Few look beyond their lane. Where no table pays, a draw is made by rejection from
:math:`B(i, 1), B(i, 2), \ldots`, which depends on :math:`i` alone as well.

**Claim 1: the law is that of a full draw.** Let :math:`B` be uniformly random functions, one for
each stream. Then all :math:`X_i` are independent, each with its own :math:`F`. *Proof.* Any bit
belongs to one coordinate: lanes of one block are disjoint, :math:`(\cdot, 0)` is no :math:`(\cdot,
b)` with :math:`b \ge 1`, and :math:`(i, b)` is of :math:`i` alone. So the :math:`U_i` are
independent and uniform. ∎

**Claim 2: deferred restriction.** Let :math:`Y = Qh + X` be all answers of all levels, of fixed
records :math:`h`. Ask for sets of coordinates :math:`S_1, S_2, \ldots`, each computed from what was
answered before and from anything :math:`R` that is independent of :math:`X`: :math:`S_t = f_t(R,
S_{<t}, Y_{S_{<t}})`. The transcript :math:`T = (R, S_1, Y_{S_1}, S_2, \ldots)` has the same law
whether :math:`X` is drawn whole before the first request, or each coordinate when it is first asked
for. *Proof.* For a fixed value :math:`\tau = (r, s_1, y_1, s_2, \ldots)` both have

.. math:: P[T = \tau] = P[R = r]\; \prod_t 1[f_t(r, s_{<t}, y_{<t}) = s_t]\; \prod_{i \in \cup s_t} P[X_i = y_i - (Qh)_i]

if :math:`\tau` gives no coordinate two values, and 0 otherwise: the first factors say which
coordinates are looked at, and these are independent of one another and of :math:`R`. ∎ So whatever
is estimated from the coordinates that it needs has the law that it has after a full draw of which
the rest is thrown away.

**Claim 3: privacy.** :math:`T = g(Y, R)`: it is a function of the full draw and of something that
knows nothing of the records, so it has the guarantee of :math:`Y`, which is that of the plan. This
holds for every rule :math:`f` by which requests are made, also one that was made by an adversary.
It is charged in full, before the first answer, however little is asked: how little is itself
decided by what was answered. *What the proof needs* is that requests know of the records only what
was answered. To ask where the truth is positive publishes where it is. So whoever asks must not
reach the truth (``tests/test_architecture.py``), and where :math:`R` is itself an output about the
records, as the measurements of another universe, its cost is added to this one's.

**Claim 4: keys.** No efficient adversary, choosing requests one after the other, tells the answers
from those of uniform bits. *Proof.* As in :mod:`das.noise.entropy`: with HMAC's pseudo-random
function replaced by a random one, each stream has an independent uniform key, apart from those of
chunks and of marks, for purpose and label are encoded injectively. With AES-256 replaced by random
permutations, and these by random functions, stream by stream, the advantage grows by that against
AES, and by :math:`q^2/2^{129}` for a stream of which :math:`q` blocks are looked at. A stream has
:data:`LIMIT` coordinates at most; with tables :math:`q < 2^{33}`, so that this is below
:math:`2^{-63}`. An answer that is asked for again is the same, and tells nothing more. ∎

**Price.** What was not asked for while key and truth were there cannot be known any more; with the
key, it can: whoever has key and release has the truth."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.closed import Closed
from das.noise.entropy import CipherBlocks, Entropy
from das.noise.samplers import Sampler

#: Most coordinates of one stream, the birthday bound of its blocks being far away.
LIMIT = 1 << 32
_AT_ONCE = 1 << 15  # blocks and bits stay in cache
_LANES = 8


class CoordinateNoise(Closed):
    """Noise of one distribution at the coordinates ``0..size-1`` of one stream.

    Units of several classes share a stream, and each has its own distribution: a coordinate must be
    read with that of its unit alone."""

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
        """Of the coordinates ``positions`` ``(n,)``, in any order and as often as they are given:
        int64 ``(n,)``. An AES block for each, and one more for the few that it leaves undecided."""
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
        """Of the coordinates ``first..last-1``: an AES block for eight."""
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
    """The bits of some coordinates behind their lanes."""

    def __init__(self, blocks: CipherBlocks, position: NDArray[np.uint64]) -> None:
        self._blocks, self._position = blocks, position

    def words(self, which: NDArray[np.intp]) -> NDArray[np.uint64]:
        return self._blocks(self._position[which], 1).view("<u8")[:, 0]

    def behind(self, draw: int) -> Entropy:
        return _Tail(self._blocks, int(self._position[draw]), 8)


class _Tail(Entropy):
    """The bytes of ``B(i, 1), B(i, 2), ...`` of one coordinate, from byte ``at`` on."""

    def __init__(self, blocks: CipherBlocks, position: int, at: int) -> None:
        self._blocks, self._position, self._at = blocks, np.array([position], dtype=np.uint64), at

    def bytes(self, n: int) -> bytes:
        first, stop = self._at // 16, -(-(self._at + n) // 16)
        raw = b"".join(self._blocks(self._position, 1 + b).tobytes() for b in range(first, stop))
        start, self._at = self._at - 16 * first, self._at + n
        return raw[start : start + n]
