r"""Sources of random bits, and noise that is the same when it is drawn again.

Computers fail, and engines repeat the failed work. They also repeat finished tasks, and a worker
that was thought dead can go on. Fresh noise in a repetition is a second draw and costs a second
time. *Keyed* noise, the default of a run, is a function of a run key and of the measured data. A
repetition is therefore the same draw.

**Construction.** Let :math:`K` be 32 bytes from the operating system, drawn once. A chunk is some
units of one level that are measured together. The chunk with label :math:`\ell`
(:class:`das.noise.entropy.ChunkLabel`) takes its bits from AES-256 in counter mode, from counter 0,
under the key

.. math:: K_\ell = \mathrm{HMAC\text{-}SHA256}_K(\texttt{key}, \ell).

The ledger names the chunk by its mark, the first half of
:math:`\mathrm{HMAC\text{-}SHA256}_K(\texttt{mark}, \ell)`. The label contains:

- the scheme, the universe, the level, and which draw of the level this is;
- the codes of the first and the last unit;
- the digest of the plan, that is, of everything that decides what is drawn and in which order;
- the version of the sampler, and the digest of the true counts.

The encoding of a label is injective: each field follows its length, and their number is fixed.

**What the adversary sees** is the release of one run: the noisy answers of all chunks, what the
ledger derives from their marks, and the name of the run key. That name is another value of the same
function, at an input of its own. The adversary does not see :math:`K`.

*Claim.* No efficient adversary can tell the release from an ideal one, whose bits and marks are all
independent and uniform. So the release has the guarantee of the plan, computationally. The
assumptions are that HMAC-SHA256 is a pseudo-random function and AES-256 in counter mode a
pseudo-random generator.

*Proof.* Fix the records. This fixes the labels of a run, too, and they differ from one another: two
chunks differ in universe, level or units. Replace :math:`\mathrm{HMAC}_K` by a uniformly random
function: the adversary's advantage changes by the advantage against the pseudo-random function. The
values at different inputs are independent and uniform, and ``key`` and ``mark`` make two inputs of
each label. So each chunk has a key of its own, nothing else reveals that key, and it serves one
stream. Replace each stream by uniform bits: the advantage changes by the number of chunks times the
advantage against the generator. What remains is the plan's mechanism with ideal bits, and marks
that reveal nothing. The same holds for neighboring records. So the two releases are as hard to tell
apart as their ideals, plus twice that change. ∎ (The labels may depend on the records, because the
argument replaces the streams for fixed records.)

*A replay costs nothing.* Bits and marks are functions of :math:`(K, \ell)`. The numbers are a
function of the bits and of the truth, whose digest is in :math:`\ell`. So a chunk has one answer,
no matter how often it is measured, by which process, and what was lost or seen in between. The
adversary's view is that of one draw. The argument needs no assumption about failures; they may even
depend on the drawn values.

*Why the truth is in the label.* Two different truths with the same noise differ by exactly the
difference of the truths: the two releases would publish it without noise. With the digest in the
label, another truth has an unrelated stream (assuming that SHA-256 has no collisions). The *plan*
is in the label for the same reason: another query, class of units or parameter would read the same
bits. So is the *version of the sampler*: two samplers that read the same bits differently would
publish two functions of them.

*A second, different truth is a second draw.* Its stream is unrelated, so the two together cost what
two draws cost, and the ledger counts both. The label itself says that it is a second draw
(``draw``). Otherwise chunks in which both truths agree would have equal answers, and would show,
without noise, where the truths differ. So draws that are counted separately share nothing, and a
draw that is counted once is one draw.

**Other sources.** ``system()`` keeps nothing. It is AES-256 in counter mode under a key that is
fresh in each process and never stored or logged. The key is renewed after a fork and after every
2^36 bytes; the birthday bound of 128-bit blocks, 2^64 blocks, is far away. ``kernel()`` asks the
operating system for every byte. Both draw fresh bits at every request, so a lost chunk that is
measured again is a second draw. Its cost is :math:`\rho \max_p a_p`, where part :math:`p` was drawn
:math:`a_p` times (:mod:`das.truth.bookkeeping`). ``seeded(n)`` has a run key that follows from
``n``, which is public: it repeats itself, and everything made with it is marked as not private."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass, fields
from functools import lru_cache
from io import BytesIO
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.frozen import NoRepr

# Labels of chunks of noise. No two chunks have the same label, and a chunk's key is made from it
# (:mod:`das.noise.entropy` has the proof).

#: How labels are made, and in which order a chunk takes its bits: query by query, within a query
#: class by class of units, within a class unit by unit. Any change makes another scheme.
SCHEME = "das noise by chunk 1"
#: How noise on demand takes its bits: :mod:`das.noise.coordinates` says where the bits of a
#: coordinate are. Any change makes another scheme.
BY_COORDINATE = "das noise by coordinate 1"


@dataclass(frozen=True)
class ChunkLabel:
    """The label of some units of one level that are measured together.

    ``draw`` counts, from 1, how often the level is drawn: a draw that the ledger counts again
    shares nothing with the first. ``first`` and ``last`` are the codes of the first and the last
    unit. ``plan`` and ``truth`` are SHA-256 digests. ``plan`` covers everything that decides what
    is drawn and in which order; ``truth`` covers the true counts. ``sampler`` is the version of the
    code that turns bits into numbers."""

    universe: str
    level: str
    draw: int
    first: bytes
    last: bytes
    plan: bytes
    sampler: str
    truth: bytes
    scheme: str = SCHEME

    def encoded(self) -> bytes:
        """The label as bytes: different labels have different ones."""
        return encoded(*(getattr(self, f.name) for f in fields(self)))


@dataclass(frozen=True)
class CoordinateLabel:
    """The label of one query's noise on demand (:mod:`das.noise.coordinates`), for the units of a
    chunk. No chunk label has the same bytes: this one encodes three values, a chunk's nine."""

    chunk: ChunkLabel
    query: str
    scheme: str = BY_COORDINATE

    def encoded(self) -> bytes:
        """The label as bytes: different labels have different ones."""
        return encoded(self.chunk.encoded(), self.query, self.scheme)


def encoded(*values: bytes | str | int) -> bytes:
    """The number of values, then each value after its length. Two different lists with the same
    types never have the same bytes.

    >>> encoded("ab", "c") == encoded("a", "bc")
    False"""
    raw = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    return len(raw).to_bytes(8, "big") + b"".join(len(x).to_bytes(8, "big") + x for x in raw)


_RENEW = 1 << 36  # bytes under one key
_AHEAD = 4096  # bytes of a stream that are made together
_KEY_BYTES = 32
_MARK_BYTES = 16  # long enough that two draws do not share a mark by chance


class CipherBlocks(NoRepr):
    """16 bytes for each pair of integers below 2^64: the pair, little-endian, encrypted by AES-256
    under a key that serves nothing else. A pair gives the same bytes at every request."""

    def __init__(self, key: bytes) -> None:
        # The bare block cipher is right here: it encrypts no text, only numbers that differ.
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())

    def __call__(self, first: NDArray[np.uint64], second: int) -> NDArray[np.uint8]:
        """The blocks of the pairs (``first[i]``, ``second``), for ``first`` ``(n,)``:
        ``(n, 16)``."""
        pairs = np.empty((len(first), 2), dtype="<u8")
        pairs[:, 0], pairs[:, 1] = first, second
        raw = self._cipher.encryptor().update(pairs.tobytes())
        return np.frombuffer(raw, dtype=np.uint8).reshape(-1, 16)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is in no pickle, and in no task")


class Entropy:
    """A stream of uniform bytes. ``private`` says whether a release may be called private."""

    name: str
    private: bool

    def bytes(self, n: int) -> bytes:
        """``n`` independent uniform bytes."""
        raise NotImplementedError

    def chunk(self, label: ChunkLabel) -> Entropy:
        """The source of one chunk's noise. A source without a key returns itself and goes on with
        its own bits."""
        del label
        return self

    def blocks(self, label: CoordinateLabel) -> CipherBlocks:
        """The bits of one query's noise on demand (:mod:`das.noise.coordinates`). Raises
        :class:`PrivacyError` if this source has no key from which to compute them again."""
        raise PrivacyError(
            f"on-demand noise must be the same at every request, and {self.name} keeps nothing"
            " that it follows from",
            where=f"{label.chunk.universe}, {label.chunk.level}, {label.query}",
            remedy='measure with run.entropy = "keyed"',
        )

    def mark(self, label: ChunkLabel | CoordinateLabel) -> str:
        """The ledger's name for the stream of a chunk. A replay of the same draw has the same mark;
        any other draw has a different one. A mark reveals nothing about the noise."""
        del label
        return os.urandom(_MARK_BYTES).hex()

    @property
    def key_mark(self) -> str | None:
        """The name of the run key, which shows that a ledger and a key belong together. ``None`` if
        there is no key, so that nothing can be drawn again."""
        return None

    def uint16(self, n: int) -> NDArray[np.uint16]:
        return np.frombuffer(self.bytes(2 * n), dtype=np.uint16)

    def uint64(self, n: int) -> NDArray[np.uint64]:
        return np.frombuffer(self.bytes(8 * n), dtype=np.uint64)


class _AesCtr(Entropy):
    def __init__(self, key: bytes) -> None:
        self._start(key)

    def _start(self, key: bytes) -> None:
        # A zero nonce is right: no key is ever used for two streams.
        self._stream = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
        self._ahead = BytesIO()

    def bytes(self, n: int) -> bytes:
        """Reads from a buffer that is filled ahead, because samplers by rejection ask for a byte or
        two at a time."""
        got = self._ahead.read(n)
        if (more := n - len(got)) > 0:
            made = self._stream.update(bytes(max(more, _AHEAD)))
            self._ahead = BytesIO(made[more:])
            got += made[:more]
        return got


class _System(_AesCtr):
    name, private = "AES-256-CTR keyed by the operating system", True

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._start(os.urandom(32))
        self._left, self._pid = _RENEW, os.getpid()

    def bytes(self, n: int) -> bytes:
        if (
            n > self._left or os.getpid() != self._pid
        ):  # a forked child must not repeat its parent's stream
            self._renew()
        self._left -= n
        return super().bytes(n)

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return (_System, ())  # a copy in another process has its own key


class _Kernel(Entropy):
    name, private = "operating system", True

    def bytes(self, n: int) -> bytes:
        return os.urandom(n)


class _ChunkStream(_AesCtr):
    """The stream of one chunk."""

    def __init__(self, key: bytes, source: Entropy) -> None:
        self.name, self.private, self._left = source.name, source.private, _RENEW
        super().__init__(key)

    def bytes(self, n: int) -> bytes:
        self._left -= n
        if self._left < 0:  # a chunk takes some megabytes
            raise OverflowError(f"more than {_RENEW} bytes for one chunk")
        return super().bytes(n)


def _derived(run_key: bytes, purpose: bytes, label: bytes) -> bytes:
    """The pseudo-random function; ``purpose`` separates published values from keys."""
    return hmac.digest(run_key, encoded(purpose, label), "sha256")


def _key_mark(run_key: bytes) -> str:
    return _derived(run_key, b"run key", b"")[:_MARK_BYTES].hex()


def _seeded_key(seed: int) -> bytes:
    return hashlib.sha256(f"das seeded run key {seed}".encode()).digest()


def seed_of(key_mark: str, below: int = 10_000) -> int | None:
    """The seed under ``below`` whose run key has this name. A key from the operating system matches
    one of them with probability ``below`` / 2^128 at most."""
    return _names_of_seeds(below).get(key_mark)


@lru_cache(maxsize=1)
def _names_of_seeds(below: int) -> dict[str, int]:
    """Seeds by the names of their run keys. The names follow from the seeds alone, so one process
    computes them once."""
    return {_key_mark(_seeded_key(n)): n for n in reversed(range(below))}


class _Keyed(Entropy):
    name, private = (
        "AES-256-CTR, for each chunk keyed by HMAC-SHA256 under a run key of the operating system",
        True,
    )

    def __init__(self, key: bytes) -> None:
        if len(key) != _KEY_BYTES:
            raise ValueError(f"a run key has {_KEY_BYTES} bytes")
        self._key = key

    def bytes(self, n: int) -> bytes:
        raise TypeError("a keyed source has bits for chunks alone: ask it for that of a label")

    def chunk(self, label: ChunkLabel) -> Entropy:
        return _ChunkStream(_derived(self._key, b"key", label.encoded()), self)

    def blocks(self, label: CoordinateLabel) -> CipherBlocks:
        return CipherBlocks(_derived(self._key, b"coordinates", label.encoded()))

    def mark(self, label: ChunkLabel | CoordinateLabel) -> str:
        return _derived(self._key, b"mark", label.encoded())[:_MARK_BYTES].hex()

    @property
    def key_mark(self) -> str:
        return _key_mark(self._key)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a run key is in no pickle, and in no task")


class _Seeded(_Keyed):
    """Keyed for chunks; also has a stream of its own for everything else."""

    def __init__(self, seed: int) -> None:
        self.name, self.private = stated("", seed)
        super().__init__(_seeded_key(seed))
        self._own = _AesCtr(hashlib.sha256(f"das seeded entropy {seed} ".encode()).digest())

    def bytes(self, n: int) -> bytes:
        return self._own.bytes(n)


def stated(kind: str, seed: int | None) -> tuple[str, bool]:
    """What a privacy statement says about ``run.entropy`` and ``run.seed``: the name of the source,
    and whether it is private."""
    if seed is not None:
        return f"seed {seed} (NOT PRIVATE)", False
    return {"keyed": _Keyed.name, "forgetful": _System.name, "kernel": _Kernel.name}[kind], True


def keyed(key: bytes) -> Entropy:
    """The source of a run with the key ``key``. It has bits only for chunks, the same at every
    request."""
    return _Keyed(key)


def system() -> Entropy:
    """AES-256-CTR keyed from the operating system, afresh in every process."""
    return _System()


def kernel() -> Entropy:
    """The operating system's own generator, for every byte. Slower."""
    return _Kernel()


def seeded(n: int) -> Entropy:
    """Repeatable, for tests: never private."""
    return _Seeded(n)
