"""Sources of bits: seeded ones repeat, system ones never do."""

from __future__ import annotations

import copy
import hashlib
import pickle
import subprocess
import sys
import textwrap
from dataclasses import fields, replace

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from das.noise import entropy
from das.noise.entropy import ChunkLabel


def aes_ctr(key: bytes, n: int) -> bytes:
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor().update(bytes(n))


def test_a_seed_repeats_itself_and_is_not_private() -> None:
    a, b, other = entropy.seeded(7), entropy.seeded(7), entropy.seeded(8)
    assert a.bytes(64) == b.bytes(64) != other.bytes(64)
    assert not a.private
    assert "NOT PRIVATE" in a.name
    assert "7" in a.name


LABEL = ChunkLabel("persons", "Block", 1, b"440010001", b"440010009", b"p" * 32, "1", b"t" * 32)
KEY = bytes(range(32))
#: A label that differs in one field alone, by the field: text that moves from one field to its
#: neighbor is another label, too.
OTHERS = {
    "universe": replace(LABEL, universe="housing"),
    "level": replace(LABEL, level="Tract"),
    "draw": replace(LABEL, draw=2),
    "first": replace(LABEL, first=b"440010000"),
    "last": replace(LABEL, last=b"440010010"),
    "plan": replace(LABEL, plan=b"q" * 32),
    "sampler": replace(LABEL, sampler="2"),
    "truth": replace(LABEL, truth=b"u" * 32),
    "scheme": replace(LABEL, scheme="another"),
}
SHIFTED = [
    replace(LABEL, universe="personsB", level="lock"),
    replace(LABEL, first=LABEL.first + LABEL.last, last=b""),
    replace(LABEL, plan=b"p" * 31, sampler="p1"),
    replace(LABEL, draw=11, first=LABEL.first[1:]),
]


def hmac_sha256(key: bytes, message: bytes) -> bytes:
    """By its definition (RFC 2104)."""
    inner, outer = (bytes(b ^ pad for b in key.ljust(64, b"\0")) for pad in (0x36, 0x5C))
    return hashlib.sha256(outer + hashlib.sha256(inner + message).digest()).digest()


def written(*values: bytes) -> bytes:
    return len(values).to_bytes(8, "big") + b"".join(len(v).to_bytes(8, "big") + v for v in values)


def test_a_seeded_stream_is_the_same_everywhere() -> None:
    """AES-256 in counter mode under the digest of the seed: runs with a seed repeat between
    versions.
    """
    key = hashlib.sha256(b"das seeded entropy 2010 ").digest()
    assert entropy.seeded(2010).bytes(100) == aes_ctr(key, 100)
    run_key = hashlib.sha256(b"das seeded run key 2010").digest()
    assert entropy.seeded(2010).chunk(LABEL).bytes(100) == entropy.keyed(run_key).chunk(
        LABEL
    ).bytes(100)
    assert entropy.seeded(2010).mark(LABEL) == entropy.keyed(run_key).mark(LABEL)


def test_the_stream_of_a_chunk_is_what_its_definition_says() -> None:
    """Computed from RFC 2104 and the block cipher alone; the published mark is no part of the
    key.
    """
    label = written(
        b"persons",
        b"Block",
        b"1",
        b"440010001",
        b"440010009",
        b"p" * 32,
        b"1",
        b"t" * 32,
        b"das noise by chunk 1",
    )
    key = hmac_sha256(KEY, written(b"key", label))
    source = entropy.keyed(KEY)
    assert source.chunk(LABEL).bytes(1000) == aes_ctr(key, 1000)
    assert source.mark(LABEL) == hmac_sha256(KEY, written(b"mark", label))[:16].hex()
    assert source.key_mark == hmac_sha256(KEY, written(b"run key", b""))[:16].hex()
    assert source.mark(LABEL) not in key.hex()


def test_a_chunk_is_drawn_again_the_same_whatever_was_drawn_before() -> None:
    source, again = entropy.keyed(KEY), entropy.keyed(KEY)
    source.chunk(OTHERS["level"]).bytes(1000)
    used = source.chunk(LABEL)
    first = used.bytes(64)
    assert used.bytes(64) != first
    assert source.chunk(LABEL).bytes(64) == first == again.chunk(LABEL).bytes(64)
    assert source.mark(LABEL) == again.mark(LABEL)
    assert source.private
    assert source.chunk(LABEL).private


def test_every_field_of_a_label_makes_another_stream_and_another_mark() -> None:
    assert OTHERS.keys() == {f.name for f in fields(ChunkLabel)}
    for source in (entropy.keyed(KEY), entropy.seeded(1)):
        labels = [LABEL, *OTHERS.values(), *SHIFTED]
        assert len({x.encoded() for x in labels}) == len(labels)
        assert len({source.chunk(x).bytes(32) for x in labels}) == len(labels)
        assert len({source.mark(x) for x in labels}) == len(labels)


def test_another_run_key_is_another_stream_mark_and_name() -> None:
    keys = [KEY, KEY[::-1], bytes(32)]
    sources = [*map(entropy.keyed, keys), entropy.seeded(1), entropy.seeded(2)]
    assert len({s.chunk(LABEL).bytes(32) for s in sources}) == len(sources)
    assert len({s.mark(LABEL) for s in sources}) == len(sources)
    assert len({s.key_mark for s in sources}) == len(sources)


def test_a_run_key_does_not_leave_its_source() -> None:
    source = entropy.keyed(KEY)
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError):
            duplicate(source)
    with pytest.raises(TypeError, match="for chunks alone"):
        source.bytes(1)
    assert not any(
        x in repr(source) + str(source) + source.name for x in (KEY.hex(), repr(KEY)[2:-1])
    )
    for wrong in (b"", KEY[:16], KEY[:31], KEY + b"x"):
        with pytest.raises(ValueError, match=r"^a run key has 32 bytes$"):
            entropy.keyed(wrong)


@pytest.mark.parametrize("make", [entropy.system, entropy.kernel])
def test_a_forgetful_source_draws_anew_whatever_it_is_asked_for(make) -> None:  # type: ignore[no-untyped-def]
    source = make()
    a, again = source.chunk(LABEL), source.chunk(LABEL)
    assert a.private
    assert a.name == source.name
    assert a.bytes(32) != again.bytes(32)
    assert source.mark(LABEL) != source.mark(LABEL)
    assert source.key_mark is None


def test_what_a_statement_says_of_each_source() -> None:
    sources = {
        "keyed": entropy.keyed(KEY),
        "forgetful": entropy.system(),
        "kernel": entropy.kernel(),
    }
    for kind, source in sources.items():
        assert entropy.stated(kind, None) == (source.name, source.private) == (source.name, True)
        assert entropy.stated(kind, 3) == (entropy.seeded(3).name, False)
    assert len({s.name for s in sources.values()}) == 3


def test_one_chunk_has_not_more_than_a_key_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entropy, "_RENEW", 64)
    stream = entropy.keyed(KEY).chunk(LABEL)
    assert len(stream.bytes(64)) == 64
    with pytest.raises(OverflowError):
        stream.bytes(1)


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
    for source in (
        entropy.system(),
        entropy.kernel(),
        entropy.seeded(5),
        entropy.keyed(KEY).chunk(LABEL),
    ):
        ones = int(np.unpackbits(np.frombuffer(source.bytes(1 << 17), dtype=np.uint8)).sum())
        assert (
            abs(ones - (1 << 19)) < 6 * 2**9.5 / 2**0.5
        )  # six standard deviations of 2^20 coin tosses


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
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
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
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
    assert source.bytes(65) == aes_ctr(
        keys[2], 65
    )  # more at once than one key is for: still a new key
    assert source.bytes(8) == aes_ctr(keys[3], 8)


def test_the_limit_is_far_below_the_birthday_bound() -> None:
    assert 1 << 30 <= entropy._RENEW <= 1 << 40
