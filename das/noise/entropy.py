"""Sources of random bits.

``system()`` is the source of every private run: AES-256 in counter mode under a key from the operating
system, which is a pseudo-random generator at memory speed; the guarantee of a release made with it is
computational differential privacy, as with any cryptographic generator (the kernel's own included).
The key is fresh in each process, renewed after a fork and after every 2^36 bytes (the birthday bound of
128-bit blocks, 2^64 blocks, is far away), and never stored or logged.

``seeded(n)`` repeats itself, and whatever is made with it is marked as not private.
"""

from __future__ import annotations

import hashlib
import os

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

_RENEW = 1 << 36  # bytes under one key


class Entropy:
    """A stream of uniform bytes. ``private`` says whether a release may be called private."""

    name: str
    private: bool

    def bytes(self, n: int) -> bytes:
        """``n`` independent uniform bytes."""
        raise NotImplementedError

    def of(self, stage: str) -> Entropy:
        """The source for one stage of a run. A seeded run draws each stage from a stream of its own, so that
        it repeats itself whatever was done before; a private source has nothing to repeat."""
        del stage
        return self

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

    def bytes(self, n: int) -> bytes:
        return self._stream.update(bytes(n))


class _System(_AesCtr):
    name, private = "AES-256-CTR keyed by the operating system", True

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._start(os.urandom(32))
        self._left, self._pid = _RENEW, os.getpid()

    def bytes(self, n: int) -> bytes:
        if n > self._left or os.getpid() != self._pid:  # a forked child must not repeat its parent's stream
            self._renew()
        self._left -= n
        return super().bytes(n)

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return (_System, ())  # a copy in another process has its own key


class _Kernel(Entropy):
    name, private = "operating system", True

    def bytes(self, n: int) -> bytes:
        return os.urandom(n)


class _Seeded(_AesCtr):
    private = False

    def __init__(self, seed: int, stage: str) -> None:
        self.name = f"seed {seed} (NOT PRIVATE)"
        self._seed = seed
        super().__init__(hashlib.sha256(f"das seeded entropy {seed} {stage}".encode()).digest())

    def of(self, stage: str) -> Entropy:
        return _Seeded(self._seed, stage)


def system() -> Entropy:
    """The default: AES-256-CTR keyed from the operating system."""
    return _System()


def kernel() -> Entropy:
    """The operating system's own generator, for every byte. Slower."""
    return _Kernel()


def seeded(n: int) -> Entropy:
    """Repeatable, for tests: never private."""
    return _Seeded(n, "")
