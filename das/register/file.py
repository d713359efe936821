r"""The file of an office's register (:mod:`das.register.book`): JSON lines, only ever added to.

Each line has its number ``n``, from 1 on, the digest of the line before as ``previous``, what it
says, and its own ``digest``: SHA-256 of the rest. It is written in one way only, so that a changed
byte is a changed digest. The *head* is the number and the digest of the last line. A head fixes all
lines up to it.

**Several at once.** A process that adds a line holds the file (``flock``) from reading it to the
end. The system lets go when the process ends, however it ends. So every line was decided on with all
lines before it, and the cap with them. The lock holds on one machine and a local disk.

**A kill.** A line is appended by one write and forced to disk (fsync). Then the head is written to
the witness and forced to disk. Only then is the line acknowledged. So at any moment the file has the
old lines, or the new one as well, or a beginning of it without a line end. Such a beginning was never
acknowledged, and the next process that adds a line cuts it off. A whole line that was not
acknowledged stays: a run finds its own entry by its id.

**A restored backup.** An older file ends in a head that was passed. Two things know a later one: the
witness, which is a small file in another place, and the folder of each run that has entered
(:mod:`das.register.file`). A file that is restored together with its witness is not
detected, unless a run that entered later is asked. Nor is a copy of a register that has no witness:
original and copy can each grow, and each looks right. Nor is a last line that somebody changes and
whose digest they compute again, unless a head or a signature says otherwise."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from das.errors import DasError, RegisterError, ReleaseError, UserError
from das.files import atomic
from das.files.release import statement
from das.files.release.own_bytes import refuse_special
from das.files.run.run_directory import RunDirectory, read_json, refuse_inside_release
from das.register.book import FORMAT, Opening, Register

#: What a signature is for: one of a release is none of a register.
NAMESPACE = "das-register"
_FIRST = "0" * 64
_ALTERED = "a register that was altered proves nothing: put back the file as it was last"
_RESTORED = (
    "this looks like a restored backup: put back the latest register. Nothing is entered, and"
    " nothing is measured, until then"
)
_LINE = {"n", "previous", "digest"}


@dataclass(frozen=True)
class Head:
    """The number and the digest of a line."""

    n: int
    digest: str

    def __str__(self) -> str:
        return f"{self.n}:{self.digest}"

    @staticmethod
    def from_text(text: str) -> Head:
        n, colon, digest = text.partition(":")
        if not colon or not n.isdecimal() or int(n) < 1 or len(digest) != 64:
            raise UserError(
                f"{text!r} is no head of a register",
                where="--head",
                remedy="give NUMBER:DIGEST, as `das register show` prints it",
            )
        return Head(int(n), digest)


@dataclass
class RegisterFile:
    """A register that was read: what it says, and the digest of each line. ``torn``: a last line
    without its end, which nobody was told of."""

    path: Path
    register: Register
    digests: list[str] = field(default_factory=list)
    torn: bool = False
    _descriptor: int = -1

    @property
    def head(self) -> Head:
        return Head(len(self.digests), self.digests[-1])

    def check_known(self, known: Head, who: object) -> None:
        """Raises :class:`RegisterError` where the file does not have the line of a head that
        somebody knows."""
        if known.n > len(self.digests):
            raise RegisterError(
                f"its last line has the number {self.head.n}, and {who} knows number {known.n}",
                where=self.path,
                remedy=_RESTORED,
            )
        if known.n < 1 or self.digests[known.n - 1] != known.digest:
            raise RegisterError(
                f"line {known.n} is not the one that {who} knows", where=self.path,
                remedy=_RESTORED,
            )  # fmt: skip

    def append(self, kind: str, value: Any) -> Head:
        """Add a line, and return when it is on disk, here and in the witness. The file must be
        held (:func:`locked`).

        Raises:
            RegisterError: the line says nothing, or the cap would be passed."""
        try:
            after = self.register.after(kind, value)
        except (ValueError, KeyError, TypeError) as error:
            raise RegisterError(f"cannot be entered ({error})", where=self.path) from None
        if kind == "spend":
            after.check_cap(f"{value['title']} {value['name']!r}", self.path)
        data, digest = _line(len(self.digests) + 1, self.digests[-1], kind, value)
        whole = os.lseek(self._descriptor, 0, os.SEEK_END)
        if self.torn:
            whole = _whole(self.path.read_bytes())
            os.ftruncate(self._descriptor, whole)
            self.torn = False
        try:
            written = os.write(self._descriptor, data)
        except OSError:
            os.ftruncate(self._descriptor, whole)
            raise
        if written != len(data):
            os.ftruncate(self._descriptor, whole)
            raise OSError(28, "there is no room for another line", str(self.path))
        atomic.force(self.path)
        if not os.path.samestat(os.fstat(self._descriptor), self.path.stat()):
            raise RegisterError(
                "it was replaced while a line was entered", where=self.path, remedy=_RESTORED
            )
        self.register, self.digests = after, [*self.digests, digest]
        if witness := self.register.opening.witness:
            _write_witness(Path(witness), self.register.opening.id, self.head)
        return self.head


def check_caps(file: RegisterFile) -> None:
    """No entry has passed the cap: after each, with what stood then. Raises :class:`RegisterError`
    with the number of the line."""
    register: Register | None = None
    lines, before = file.path.read_bytes().split(b"\n"), [_FIRST, *file.digests[:-1]]
    for n, (line, previous) in enumerate(zip(lines, before, strict=False), 1):
        kind, value = _said(line, n, previous)
        register = Register.opened(kind, value) if register is None else register.after(kind, value)
        if kind == "spend":
            register.check_cap(f"line {n}", file.path)


def sign(file: RegisterFile, key: Path) -> Head:
    """Sign all lines so far with the key of the office: its signature is the next line."""
    text = statement.signed(_signed(file, file.head), key, NAMESPACE).decode()
    return file.append("signature", text.replace("\n", " ").strip())


def check_signatures(file: RegisterFile, signers: Path | None) -> dict[int, str | None]:
    """Who signed at which line. Raises :class:`RegisterError` for a line that is no signature of
    those before it, by one of the ``signers`` where they are named; or where these find none."""
    found: dict[int, str | None] = {}
    for n, text in file.register.signed.items():
        with tempfile.NamedTemporaryFile("w", suffix=".sig") as written:
            written.write(_unfolded(text))
            written.flush()
            data = _signed(file, Head(n - 1, file.digests[n - 2]))
            try:
                found[n] = statement.signer(
                    data, Path(written.name), NAMESPACE, "register", signers
                )
            except ReleaseError as error:
                raise RegisterError(
                    f"line {n}: {error.what}", where=file.path, remedy=_ALTERED
                ) from None
    if signers is not None and not found:
        raise RegisterError(
            "it is not signed", where=file.path, remedy="das register sign FILE --key KEY"
        )
    return found


def _signed(file: RegisterFile, head: Head) -> bytes:
    """What is signed."""
    return f"{file.register.opening.id} {head}\n".encode()


def _unfolded(text: str) -> str:
    """A signature with its lines, as ``ssh-keygen`` reads it."""
    first, last = "-----BEGIN SSH SIGNATURE-----", "-----END SSH SIGNATURE-----"
    body = text.removeprefix(first).removesuffix(last).split()
    return "\n".join([first, *body, last, ""])


def create(path: Path, opening: Opening) -> Head:
    """A new register. Raises :class:`UserError` where there is one, or where a backup of its folder
    would have the witness, too."""
    refuse_inside_release(path)
    witness = None if opening.witness is None else Path(opening.witness)
    if witness is not None and witness.resolve().parent == path.resolve().parent:
        raise UserError(
            "it is in the folder of the register: a backup would restore both",
            where=witness,
            remedy="name a file on another disk or machine (--witness)",
        )
    for file in (path, *([] if witness is None else [witness])):
        if file.exists():
            raise UserError("is there already", where=file, remedy="choose another path")
    data, digest = _line(1, _FIRST, "init", opening.to_json())
    head = Head(1, digest)
    if witness is not None:
        _write_witness(witness, opening.id, head)
    if not atomic.create(path, data):
        raise UserError("is there already", where=path, remedy="choose another path")
    return head


def read(path: Path) -> RegisterFile:
    """What a register says, line by line, and against its witness. Raises :class:`RegisterError`
    with the number of the first line that is wrong."""
    descriptor = _locked(path, os.O_RDONLY, fcntl.LOCK_SH)
    try:
        return _checked(path)
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path) -> Iterator[RegisterFile]:
    """The same for this process alone, which may add lines; it waits for others."""
    descriptor = _locked(path, os.O_RDWR | os.O_APPEND, fcntl.LOCK_EX)
    try:
        found = _checked(path)
        found._descriptor = descriptor
        yield found
    finally:
        os.close(descriptor)


def _checked(path: Path) -> RegisterFile:
    found = _parsed(path, path.read_bytes())
    if witness := found.register.opening.witness:
        found.check_known(_read_witness(Path(witness), found.register.opening.id), "its witness")
    return found


def _locked(path: Path, mode: int, lock: int) -> int:
    """The file, open and locked: the one that has the name when the lock is there."""
    while True:
        refuse_special(path)
        try:  # nor does it wait for what takes the place of the file in between
            descriptor = os.open(path, mode | os.O_NONBLOCK)
        except OSError as error:
            missing = isinstance(error, FileNotFoundError)
            raise RegisterError(
                "there is no such register" if missing else f"cannot be opened ({error.strerror})",
                where=path,
                remedy="das register init FILE makes one" if missing else "name the file itself",
            ) from None
        try:
            fcntl.flock(descriptor, lock)
            if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _line(n: int, previous: str, kind: str, value: Any) -> tuple[bytes, str]:
    """A line, and its digest."""
    said = {"n": n, "previous": previous, kind: value}
    digest = hashlib.sha256(_text(said)).hexdigest()
    return _text(said | {"digest": digest}) + b"\n", digest


def _text(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _whole(data: bytes) -> int:
    """Up to the end of the last line."""
    return data.rfind(b"\n") + 1


def _parsed(path: Path, data: bytes) -> RegisterFile:
    lines = data[: _whole(data)].split(b"\n")[:-1]
    if not lines:
        raise RegisterError("it has no line", where=path, remedy="das register init makes one")
    register: Register | None = None
    digests: list[str] = []
    for n, line in enumerate(lines, 1):
        try:
            kind, value = _said(line, n, digests[-1] if digests else _FIRST)
            register = (
                Register.opened(kind, value) if register is None else register.after(kind, value)
            )
        except (ValueError, KeyError, TypeError, ArithmeticError, AttributeError, RecursionError,
                DasError) as error:  # fmt: skip
            why = error.what if isinstance(error, DasError) else error
            raise RegisterError(
                f"line {n} is not what was entered ({why})", where=path, remedy=_ALTERED
            ) from None
        digests.append(json.loads(line)["digest"])
    assert register is not None
    return RegisterFile(path, register, digests, torn=len(data) > _whole(data))


def _said(line: bytes, n: int, previous: str) -> tuple[str, Any]:
    """The kind of a line and what it says, where its place in the chain is right."""
    value = json.loads(line)
    if n == 1 and FORMAT.encode() not in line:
        raise ValueError(f"it opens no register of the format {FORMAT}")
    if not isinstance(value, dict) or len(value) != len(_LINE) + 1 or not value.keys() > _LINE:
        raise ValueError("it has other keys than a line has")
    if value["n"] != n or type(value["n"]) is not int:
        raise ValueError(f"its number is {value['n']}, not {n}")
    if value["previous"] != previous:
        raise ValueError("it does not follow the line before")
    (kind,) = value.keys() - _LINE
    if _line(n, previous, kind, value[kind])[0] != line + b"\n":
        raise ValueError("its digest is another")
    return kind, value[kind]


def _write_witness(path: Path, id: str, head: Head) -> None:
    try:
        atomic.write_json(path, {"register": id, "n": head.n, "digest": head.digest})
    except OSError as error:
        raise UserError(
            f"the witness of the register cannot be written ({error.strerror})",
            where=path,
            remedy="make its disk available, and resume: what was entered stays entered",
        ) from None


def _read_witness(path: Path, id: str) -> Head:
    try:
        value = read_json(path)
        if value["register"] != id:
            raise RegisterError(
                "this is the witness of another register", where=path, remedy=_RESTORED
            )
        return Head(int(value["n"]), str(value["digest"]))
    except RegisterError:
        raise
    except (DasError, KeyError, ValueError, TypeError):
        raise RegisterError(
            "the witness of this register cannot be read",
            where=path,
            remedy="make its disk available: without it nobody knows whether the register is the"
            " latest",
        ) from None


# What a run knows of the register that it is entered in: ``confidential/register.json``.
#
# It is made with the folder of the run, so that no run can go on without its register. Once the run
# has entered, it has the head that it saw: the run is a witness of the register.


@dataclass(frozen=True)
class RegisterLink:
    """``register`` is the file and ``id`` its name, ``run`` the name of this run in it, and ``title``
    what it publishes. ``salt``, which is in no register, hides what names of draws are made of."""

    register: str
    id: str
    run: str
    title: str
    population: str
    salt: str
    disjoint_from: tuple[str, ...] = ()
    head: Head | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def read(directory: RunDirectory) -> RegisterLink | None:
        """None where a run has no register."""
        path = directory.register_link
        if not path.exists():
            return None
        value = read_json(path)
        try:
            head = value.pop("head")
            return RegisterLink(
                **value | {"disjoint_from": tuple(value["disjoint_from"])},
                head=None if head is None else Head(**head),
            )
        except (KeyError, TypeError, AttributeError):
            raise ReleaseError(
                "this does not say in which register the run is",
                where=path,
                remedy="put it back as it was; or start a new run",
            ) from None

    def write(self, directory: RunDirectory) -> None:
        atomic.write_json(directory.register_link, self.to_json(), 0o600)

    def entered(self, directory: RunDirectory, head: Head) -> None:
        """Written down that the register has this head."""
        replace(self, head=head).write(directory)
