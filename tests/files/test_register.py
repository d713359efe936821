"""The file of a register: every altered line, every torn end, every restored backup, every kill,
and several processes at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import RegisterError, UserError
from das.model.mechanisms import RHO
from das.register import file as register
from das.register.book import Cap, Opening, Register
from das.register.file import Head
from tests.accounting.test_register import entry

COST = Fraction(1, 4)
#: Calls that change what the disk holds, or say that it does.
WRITES = ("write", "fsync", "ftruncate", "replace")


def opened(folder: Path, most: Fraction | int = 10, witness: Path | None = None) -> Path:
    path = folder / "register.jsonl"
    place = None if witness is None else str(witness)
    opening = Opening("x", Cap(RHO, Fraction(most)), "a", witness=place)
    register.create(path, opening)
    return path


def add(path: Path, id: str, cost: Fraction = COST) -> Head:
    with register.locked(path) as file:
        return file.append("spend", entry(id, cost).to_json())


def ids(path: Path) -> list[str]:
    return [e.id for e in register.read(path).register.entries.values()]


@pytest.fixture
def three(tmp_path: Path) -> Path:
    path = opened(tmp_path)
    for i in range(3):
        add(path, str(i))
    return path


def test_what_is_entered_is_there(three: Path) -> None:
    found = register.read(three)
    assert ids(three) == ["0", "1", "2"]
    assert found.register.spent.cost == 3 * COST
    assert found.head == Head.from_text(str(found.head))
    with pytest.raises(UserError, match="is there already"):
        opened(three.parent)
    with pytest.raises(RegisterError, match="no such register"):
        register.read(three.with_name("other"))


def test_a_refused_entry_changes_nothing(three: Path) -> None:
    before = three.read_bytes()
    with register.locked(three) as file:
        with pytest.raises(RegisterError, match="the cap of this register"):
            file.append("spend", entry("dear", Fraction(10)).to_json())
        with pytest.raises(RegisterError, match="cannot be entered"):
            file.append("spend", {})
    assert three.read_bytes() == before


def rewritten(line: bytes, change: Callable[[dict[str, object]], None]) -> bytes:
    """A line with another content, and its own digest computed anew."""
    value = json.loads(line)
    change(value)
    (kind,) = value.keys() - {"n", "previous", "digest"}
    return register._line(value["n"], value["previous"], kind, value[kind])[0]


def _cheaper(value: dict[str, object]) -> None:
    (kind,) = value.keys() - {"n", "previous", "digest"}
    value[kind]["population"] = "b"  # type: ignore[index]


@pytest.mark.parametrize("n", range(4))
def test_every_altered_line_is_refused(three: Path, n: int) -> None:
    lines = three.read_bytes().splitlines(keepends=True)
    line, last = lines[n], n == len(lines) - 1
    flipped = [line[:i] + bytes([line[i] ^ 1]) + line[i + 1 :] for i in range(0, len(line) - 1, 7)]
    altered = [
        *([*lines[:n], other, *lines[n + 1 :]] for other in flipped),
        [*lines[:n], line, *lines[n:]],  # twice
        [*lines[:n], b" " + line, *lines[n + 1 :]],
        [*lines[:n], line.replace(b'"n":', b'"n":9,"n":'), *lines[n + 1 :]],
        *([[*lines[:n], *lines[n + 1 :]], [*lines[:n], lines[n + 1], line, *lines[n + 2 :]],
           [*lines[:n], rewritten(line, _cheaper), *lines[n + 1 :]]] if not last else []),
    ]  # fmt: skip
    for found in altered:
        three.write_bytes(b"".join(found))
        with pytest.raises(RegisterError, match=r"line \d+ is not what was entered") as refused:
            register.read(three)
        assert refused.value.exit_code == 2
        said = int(str(refused.value).split("line ")[1].split()[0])
        assert n + 1 <= said <= n + 2, "the first line that is wrong, or that does not follow"


def test_a_last_line_that_was_forged_needs_a_head(three: Path) -> None:
    """As the module says: somebody who computes its digest is found by whoever knows the head."""
    head = register.read(three).head
    lines = three.read_bytes().splitlines(keepends=True)
    three.write_bytes(b"".join([*lines[:-1], rewritten(lines[-1], _cheaper)]))
    found = register.read(three)
    with pytest.raises(RegisterError, match="is not the one"):
        found.check_known(head, "somebody")


def test_a_line_that_passes_the_cap_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chain is right, and whoever wrote it did not look at the cap."""
    path = opened(tmp_path, most=2 * COST)
    with monkeypatch.context() as patch:
        patch.setattr(Register, "check_cap", lambda *_: None)
        for i in range(4):
            add(path, str(i))
    found = register.read(path)
    with pytest.raises(RegisterError, match="with line 4, persons in a would cost"):
        register.check_caps(found)


def test_an_earlier_format_is_named(three: Path) -> None:
    """It knows no names of draws: what was given up there may have been drawn."""
    three.write_bytes(three.read_bytes().replace(b"das-register/2", b"das-register/1"))
    with pytest.raises(RegisterError, match="opens no register of the format das-register/2"):
        register.read(three)


# --- restored backups


def test_a_restored_backup_is_refused(tmp_path: Path) -> None:
    path = opened(tmp_path, witness=tmp_path / "elsewhere" / "head")
    add(path, "0")
    backup = path.read_bytes()
    add(path, "1")
    path.write_bytes(backup)
    for use in (lambda: register.read(path), lambda: add(path, "2")):
        with pytest.raises(
            RegisterError, match=r"its witness knows number 3[\s\S]*restored backup"
        ):
            use()
    assert path.read_bytes() == backup


def test_another_history_is_refused(tmp_path: Path) -> None:
    path = opened(tmp_path, witness=tmp_path / "elsewhere" / "head")
    add(path, "0")
    backup, witness = path.read_bytes(), (tmp_path / "elsewhere" / "head").read_bytes()
    add(path, "1")
    later = (tmp_path / "elsewhere" / "head").read_bytes()
    path.write_bytes(backup)
    (tmp_path / "elsewhere" / "head").write_bytes(witness)
    add(path, "other")  # both restored: nothing knows better
    (tmp_path / "elsewhere" / "head").write_bytes(later)
    with pytest.raises(RegisterError, match="line 3 is not the one"):
        add(path, "2")


def test_without_its_witness_nothing_is_entered(tmp_path: Path) -> None:
    witness = tmp_path / "elsewhere" / "head"
    path = opened(tmp_path, witness=witness)
    for text in (None, "", "{}", '{"register": "y", "n": 0, "digest": ""}'):
        if text is None:
            witness.unlink()
        else:
            witness.write_text(text)
        before = path.read_bytes()
        with pytest.raises(RegisterError, match="witness"):
            add(path, "0")
        assert path.read_bytes() == before


def test_a_witness_beside_the_register_is_none(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a backup would restore both"):
        opened(tmp_path, witness=tmp_path / "head")
    assert not list(tmp_path.iterdir())


# --- torn lines and kills


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(1, 10_000))
def test_a_torn_last_line_was_never_entered(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = opened(tmp_path_factory.mktemp("torn"))
    add(path, "0")
    whole = path.read_bytes()
    add(path, "1")
    line = path.read_bytes()[len(whole) :]
    path.write_bytes(whole + line[: cut % len(line)])
    assert ids(path) == ["0"]
    add(path, "2")
    assert ids(path) == ["0", "2"]
    assert path.read_bytes().count(b"\n") == 3


def test_a_torn_line_that_was_entered_is_refused(tmp_path: Path) -> None:
    path = opened(tmp_path, witness=tmp_path / "elsewhere" / "head")
    add(path, "0")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(RegisterError, match="its witness knows number 2"):
        add(path, "1")


def child(work: Callable[[], object]) -> int:
    """The work in a process of its own; how it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def killed_before(write: int, work: Callable[[], object]) -> None:
    """Killed before the ``write``-th of its calls; half of what it writes then is on the disk."""
    count = iter(range(1, 1_000))

    def counted(name: str) -> Callable[..., object]:
        call = getattr(os, name)

        def counting(*args: object) -> object:
            if next(count) == write:
                if name == "write":
                    call(args[0], args[1][: len(args[1]) // 2])  # type: ignore[index,arg-type]
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*args)

        return counting

    for name in WRITES:
        setattr(os, name, counted(name))
    work()


def test_a_kill_before_any_write_leaves_the_old_register_or_the_new_one(tmp_path: Path) -> None:
    seen, write = set[int](), 0
    while True:
        write += 1
        folder = tmp_path / str(write)
        folder.mkdir()
        path = opened(folder, witness=folder / "elsewhere" / "head")
        add(path, "0")
        code = child(lambda p=path, w=write: killed_before(w, lambda: add(p, "1")))  # type: ignore[misc]
        assert code in (0, -signal.SIGKILL)
        left = ids(path)
        assert left in (["0"], ["0", "1"])
        seen.add(len(left))
        if code == 0:
            assert left == ["0", "1"]
            break
        if left == ["0"]:
            add(path, "1")
        add(path, "2")
        assert ids(path) == ["0", "1", "2"]
        register.check_caps(register.read(path))
    assert seen == {1, 2}
    assert write > 4


def test_several_processes_enter_once_each_until_the_cap(tmp_path: Path) -> None:
    """Four ask for six each, and there is room for ten."""
    path = opened(tmp_path, most=10 * COST, witness=tmp_path / "elsewhere" / "head")

    def work(who: int) -> None:
        for i in range(6):
            try:
                add(path, f"{who}-{i}")
            except RegisterError:
                os._exit(10 + i)

    pids = []
    for who in range(4):
        pid = os.fork()
        if pid == 0:
            try:
                work(who)
            except BaseException:
                os._exit(1)
            os._exit(16)
        pids.append(pid)
    entered = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) - 10 for pid in pids]
    assert sum(entered) == 10
    assert sorted(ids(path)) == sorted(f"{w}-{i}" for w, n in enumerate(entered) for i in range(n))
    found = register.read(path)
    assert (found.register.left, len(found.digests)) == (0, 11)


# --- signatures


@pytest.fixture
def key(tmp_path: Path) -> Path:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen")
    path = tmp_path / "office"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def test_a_signature_is_of_the_lines_before_it(three: Path, key: Path, tmp_path: Path) -> None:
    signers = tmp_path / "signers"
    signers.write_text(f"office@example.gov {key.with_suffix('.pub').read_text()}")
    with pytest.raises(RegisterError, match="it is not signed"):
        register.check_signatures(register.read(three), signers)
    with register.locked(three) as file:
        register.sign(file, key)
    add(three, "after")
    found = register.read(three)
    assert register.check_signatures(found, None) == {5: None}
    assert register.check_signatures(found, signers) == {5: "office@example.gov"}
    signers.write_text("office@example.gov ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMnobody\n")
    with pytest.raises(RegisterError, match="line 5: it is signed by nobody"):
        register.check_signatures(found, signers)


def test_a_history_that_was_rewritten_breaks_the_signature(three: Path, key: Path) -> None:
    with register.locked(three) as file:
        register.sign(file, key)
    signature = register.read(three).register.signed[5]
    other = three.with_name("other.jsonl")
    lines = three.read_bytes().splitlines(keepends=True)
    other.write_bytes(lines[0])
    for i in range(3):
        add(other, f"forged {i}")
    with register.locked(other) as file:
        file.append("signature", signature)
    with pytest.raises(RegisterError, match="line 5: this is no signature of"):
        register.check_signatures(register.read(other), None)
