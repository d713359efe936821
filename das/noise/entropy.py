r"""Sources of random bits, and noise that is the same when it is drawn again.

Computers fail, and what failed is done again: engines repeat tasks, also finished ones, and a
worker that was thought dead goes on. Fresh noise in a repetition is a second draw and costs a
second time. *Keyed* noise, the default of a run, is a function of a run key and of what is
measured, so that a repetition is the same draw.

**Construction.** Let :math:`K` be 32 bytes of the operating system, drawn once. A chunk (some units
of one level that are measured together) with the label :math:`\ell`
(:class:`das.noise.label.ChunkLabel`) takes its bits from AES-256 in counter mode, from counter 0,
under the key

.. math:: K_\ell = \mathrm{HMAC\text{-}SHA256}_K(\texttt{key}, \ell),

and is known in the ledger by the first half of :math:`\mathrm{HMAC\text{-}SHA256}_K(\texttt{mark},
\ell)`. The label names the scheme, the universe, the level, how many times it is drawn, the first
and the last code of the units, the digest of the plan (everything that decides what is drawn, and
in which order), the version of the sampler, and the digest of the true counts. Its encoding is
injective: each field stands behind its length, and their number is fixed.

**What the adversary sees** is the release of one run: the noisy answers of all chunks, what the
ledger makes of their marks, and the name of the run key, which is such a value of an input of its
own; not :math:`K`.

*Claim.* No efficient adversary tells the release from one whose bits are all independent and
uniform, with marks that are independent and uniform too. So it has the guarantee of the plan,
computationally (HMAC-SHA256 taken for a pseudo-random function, AES-256 in counter mode for a
pseudo-random generator).

*Proof.* Fix the records. The labels of a run are then fixed, too, and differ from one another: two
chunks differ in universe, level or units. Put a uniformly random function in the place of
:math:`\mathrm{HMAC}_K`: the adversary's advantage changes by that against the pseudo-random
function. Its values at different inputs (``key`` and ``mark`` make two of each label) are
independent and uniform: each chunk has a key of its own, of which nothing else is shown, and each
key is used for one stream. Put uniform bits in the place of each stream: it changes by the number
of chunks times the advantage against the generator. What is left is the plan's mechanism with ideal
bits and marks that tell nothing. For neighbouring records the same holds, so both are as hard to
tell from each other as their ideals, plus twice that. ∎ (That the labels depend on the records is
no matter: it was for fixed records that the streams were seen to be ideal.)

*A replay costs nothing.* Bits and marks are functions of :math:`(K, \ell)`, and the numbers a
function of the bits and of the truth that is in :math:`\ell`. However often a chunk is measured, by
whomever, whatever of it was lost or seen, there is one answer: the adversary's view is that of one
draw. No assumption about failures is needed; they may well depend on what was drawn.

*Why the truth is in the label.* Two different truths under one noise differ by exactly the
difference of the truths: it would be published without noise. With its digest in the label (SHA-256
taken for free of collisions) another truth has an unrelated stream. For the same reason the *plan*
is in it (another query, another class of units, another parameter read from the same bits), and the
*version of the sampler*: two samplers that read the same bits otherwise would publish two functions
of them.

*A second, different truth is a second draw.* Its stream is unrelated, so both together cost what
two draws cost, and are counted so. That it is a second draw is itself in the label (``draw``): else
chunks in which both truths agree would have equal answers, and show, without noise, where the
truths differ. So draws that are counted apart share nothing, and a draw that is counted once is
one.

**Other sources.** ``system()`` keeps nothing: AES-256 in counter mode under a key that is fresh in
each process, renewed after a fork and after every 2^36 bytes (the birthday bound of 128-bit blocks,
2^64 blocks, is far away), and never stored or logged. ``kernel()`` asks the operating system for
every byte. Either draws anew whenever it is asked: a chunk that was lost and is measured again is a
second draw, of cost :math:`\rho \max_p a_p` where part :math:`p` was drawn :math:`a_p` times
(:mod:`das.truth.bookkeeping`). ``seeded(n)`` is keyed by a run key that follows from ``n``, which
is public: it repeats itself, and whatever is made with it is marked as not private."""

from __future__ import annotations

import hashlib
import hmac
import os
from functools import lru_cache
from io import BytesIO
from typing import NoReturn

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from das.errors import PrivacyError
from das.model.closed import Closed
from das.noise.label import ChunkLabel, CoordinateLabel, encoded

_RENEW = 1 << 36  # bytes under one key
_AHEAD = 4096  # bytes of a stream that are made together
_KEY_BYTES = 32
_MARK_BYTES = 16  # enough that two draws do not have one by chance


class CipherBlocks(Closed):
    """16 bytes for each pair of integers below 2^64: the pair, little-endian, under AES-256 with a
    key that is of nothing else. Each is the same whenever it is asked for."""

    def __init__(self, key: bytes) -> None:
        # The bare block cipher is right: no text is encrypted, and what it is given are numbers
        # that differ.
        self._cipher = Cipher(algorithms.AES(key), modes.ECB())

    def __call__(self, first: NDArray[np.uint64], second: int) -> NDArray[np.uint8]:
        """Those of some first numbers ``(n,)`` with one second: ``(n, 16)``."""
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
        """The source of one chunk's noise. A source that keeps nothing goes on with its own
        bits.
        """
        del label
        return self

    def blocks(self, label: CoordinateLabel) -> CipherBlocks:
        """The bits of one query's noise on request (:mod:`das.noise.coordinates`). Raises
        :class:`PrivacyError` where none is kept that they could be found again by."""
        raise PrivacyError(
            f"on-demand noise must be the same at every request, and {self.name} keeps nothing"
            " that it follows from",
            where=f"{label.chunk.universe}, {label.chunk.level}, {label.query}",
            remedy='measure with run.entropy = "keyed"',
        )

    def mark(self, label: ChunkLabel | CoordinateLabel) -> str:
        """What the ledger calls the stream of a chunk: equal where it is drawn again, different in
        any other draw. Nobody learns anything of the noise from it."""
        del label
        return os.urandom(_MARK_BYTES).hex()

    @property
    def key_mark(self) -> str | None:
        """The name of the run key, by which a ledger and a key are known to belong together; none
        where there is no key, and nothing can be drawn again."""
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
        """Of a stretch that is made at once: samplers by rejection ask for a byte or two at a
        time.
        """
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
        if self._left < 0:  # a chunk is of some megabytes
            raise OverflowError(f"more than {_RENEW} bytes for one chunk")
        return super().bytes(n)


def _derived(run_key: bytes, purpose: bytes, label: bytes) -> bytes:
    """The pseudo-random function; ``purpose`` keeps what is published apart from what is a key."""
    return hmac.digest(run_key, encoded(purpose, label), "sha256")


def _key_mark(run_key: bytes) -> str:
    return _derived(run_key, b"run key", b"")[:_MARK_BYTES].hex()


def _seeded_key(seed: int) -> bytes:
    return hashlib.sha256(f"das seeded run key {seed}".encode()).digest()


def seed_of(key_mark: str, below: int = 10_000) -> int | None:
    """The seed under ``below`` whose run key has this name: the key of the operating system has it
    with probability ``below`` / 2^128 at most."""
    return _names_of_seeds(below).get(key_mark)


@lru_cache(maxsize=1)
def _names_of_seeds(below: int) -> dict[str, int]:
    """The seed by the name of its run key: they follow from nothing else, so one process finds
    them once."""
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
    """Of chunks it is keyed; beside them it has a stream of its own."""

    def __init__(self, seed: int) -> None:
        self.name, self.private = stated("", seed)
        super().__init__(_seeded_key(seed))
        self._own = _AesCtr(hashlib.sha256(f"das seeded entropy {seed} ".encode()).digest())

    def bytes(self, n: int) -> bytes:
        return self._own.bytes(n)


def stated(kind: str, seed: int | None) -> tuple[str, bool]:
    """What a statement says of ``run.entropy`` and ``run.seed``: the name of the source, and
    whether it is private.
    """
    if seed is not None:
        return f"seed {seed} (NOT PRIVATE)", False
    return {"keyed": _Keyed.name, "forgetful": _System.name, "kernel": _Kernel.name}[kind], True


def keyed(key: bytes) -> Entropy:
    """That of a run whose key is ``key``: it has bits for chunks alone, the same whenever they are
    asked for.
    """
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
