"""Sources of bits: seeded ones repeat, system ones never do."""

from __future__ import annotations

import copy
import hashlib
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from das.noise import entropy


def aes_ctr(key: bytes, n: int) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(n))


def test_a_seed_repeats_itself_and_is_not_private() -> None:
    a, b, other = entropy.seeded(7), entropy.seeded(7), entropy.seeded(8)
    assert a.bytes(64) == b.bytes(64) != other.bytes(64)
    assert not a.private
    assert "NOT PRIVATE" in a.name
    assert "7" in a.name


def test_a_seeded_stream_is_the_same_everywhere() -> None:
    """AES-256 in counter mode under the digest of the seed: runs with a seed repeat between versions."""
    key = hashlib.sha256(b"das seeded entropy 2010 ").digest()
    assert entropy.seeded(2010).bytes(100) == aes_ctr(key, 100)
    key = hashlib.sha256(b"das seeded entropy 2010 measure persons").digest()
    assert entropy.seeded(2010).of("measure persons").bytes(100) == aes_ctr(key, 100)


def test_each_stage_of_a_seeded_run_has_a_stream_of_its_own_whatever_was_drawn_before() -> None:
    fresh, used = entropy.seeded(1), entropy.seeded(1)
    used.bytes(1000)
    streams = {stage: fresh.of(stage).bytes(32) for stage in ("", "a", "b")}
    assert len(set(streams.values())) == 3
    assert {stage: used.of(stage).bytes(32) for stage in streams} == streams
    assert entropy.seeded(2).of("a").bytes(32) not in streams.values()
    assert not fresh.of("a").private
    assert "NOT PRIVATE" in fresh.of("a").name


@pytest.mark.parametrize("make", [entropy.system, entropy.kernel])
def test_a_private_source_stays_private_from_stage_to_stage(make) -> None:  # type: ignore[no-untyped-def]
    source = make()
    a, again = source.of("a"), source.of("a")
    assert a.private
    assert a.name == source.name
    assert a.bytes(32) != again.bytes(32)


def test_a_stream_does_not_depend_on_how_it_is_cut() -> None:
    whole, parts = entropy.seeded(1), entropy.seeded(1)
    assert whole.bytes(48) == b"".join(parts.bytes(n) for n in (1, 15, 17, 0, 15))


def test_words_are_the_bytes() -> None:
    a, b = entropy.seeded(3), entropy.seeded(3)
    np.testing.assert_array_equal(a.uint16(10), np.frombuffer(b.bytes(20), dtype=np.uint16))
    np.testing.assert_array_equal(a.uint64(10), np.frombuffer(b.bytes(80), dtype=np.uint64))


@pytest.mark.parametrize("make", [entropy.system, entropy.kernel])
def test_private_sources_never_repeat(make) -> None:  # type: ignore[no-untyped-def]
    a, b = make(), make()
    streams = [s.bytes(32) for s in (a, b, a, b)]
    assert len(set(streams)) == 4
    assert a.private
    assert "NOT" not in a.name
    assert all(len(s) == 32 for s in streams)


def test_bits_are_balanced() -> None:
    for source in (entropy.system(), entropy.kernel(), entropy.seeded(5)):
        ones = int(np.unpackbits(np.frombuffer(source.bytes(1 << 17), dtype=np.uint8)).sum())
        assert abs(ones - (1 << 19)) < 6 * 2**9.5 / 2**0.5  # six standard deviations of 2^20 coin tosses


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))])
def test_a_copy_of_a_system_source_has_another_stream(duplicate) -> None:  # type: ignore[no-untyped-def]
    source = entropy.system()
    other = duplicate(source)
    assert type(other) is type(source)
    assert other.private
    assert source.bytes(32) != other.bytes(32)


def test_a_pickle_holds_no_key() -> None:
    source = entropy.system()
    before = pickle.dumps(source)
    source.bytes(100)
    assert pickle.dumps(source) == before == pickle.dumps(entropy.system())


@pytest.mark.parametrize("duplicate", [copy.deepcopy, pickle.dumps])
def test_a_seeded_source_cannot_be_copied_by_accident(duplicate) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TypeError):
        duplicate(entropy.seeded(1))


FORK = """
import os, sys
from das.noise import entropy
source = {source}
source.bytes(5)
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, source.bytes(32))
    os._exit(0)
os.wait()
print(os.read(read, 32).hex(), source.bytes(32).hex())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")
@pytest.mark.parametrize("source, same", [("entropy.system()", False), ("entropy.seeded(1)", True)])
def test_a_forked_child_has_a_stream_of_its_own(source: str, same: bool) -> None:
    """The seeded source shows that, without a new key, child and parent would repeat each other."""
    script = textwrap.dedent(FORK.format(source=source))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    child, parent = done.stdout.split()
    assert len(child) == len(parent) == 64
    assert (child == parent) == same


def test_the_key_is_renewed_after_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [bytes([i]) * 32 for i in range(1, 5)]
    given = iter(keys)
    monkeypatch.setattr(entropy, "_RENEW", 64)
    monkeypatch.setattr(entropy.os, "urandom", lambda n: next(given)[:n])
    source = entropy.system()
    assert source.bytes(40) == aes_ctr(keys[0], 40)
    assert source.bytes(24) == aes_ctr(keys[0], 64)[40:]  # the limit is reached, not passed
    assert source.bytes(1) == aes_ctr(keys[1], 1)
    assert source.bytes(63) == aes_ctr(keys[1], 64)[1:]
    assert source.bytes(65) == aes_ctr(keys[2], 65)  # more at once than one key is for: still a new key
    assert source.bytes(8) == aes_ctr(keys[3], 8)


def test_the_limit_is_far_below_the_birthday_bound() -> None:
    assert 1 << 30 <= entropy._RENEW <= 1 << 40
