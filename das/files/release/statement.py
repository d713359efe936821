"""``privacy.json`` as a file. What it says is :mod:`das.accounting.document`."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from das.accounting import codec
from das.accounting.document import (
    ALTERED,
    NAME,
    SIGNATURE,
    Document,
    ForeignStatement,
    OwnStatement,
    Stated,
    Statement,
)
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.messages import check_marks
from das.files.run import run_directory
from das.model.not_private import Private


def read(release: Path) -> Document:
    """The statement of a release. Raises :class:`ReleaseError` where it is none, with the first
    fault's place."""
    path = release / NAME
    return codec.document_from_json(run_directory.read_json(path), path)


def read_ours(release: Path) -> OwnStatement:
    """The statement of a release whose noise das drew. Raises :class:`ReleaseError` for
    measurements of another publisher."""
    said = read(release)
    if isinstance(said, Statement):
        return said
    raise ReleaseError(
        "these measurements came from another publisher: there is no ledger of them",
        where=release,
        remedy="`das nmf verify` checks the files; the guarantee is its publisher's to state",
    )


def write(release: Path, statement: Stated) -> None:
    atomic.write_text(release / NAME, codec.text(statement))


def as_written(release: Path, statement: Stated) -> bool:
    """Whether the file has exactly the bytes that ``statement``, read from it, is written with. The
    statement's digest covers its content, and two texts can have the same content, as 0.1 and 0.10
    do."""
    return (release / NAME).read_bytes() == codec.text(statement).encode()


# Copies the measured part of a release into another folder, which then is a whole release by
# itself.
#
# Files of measurements are never rewritten. So they are linked where the system can, which leaves one
# copy on disk, and copied elsewhere. The ledger is copied because a run appends to it. It appears
# last: where the ledger is, everything is.

#: Besides the folders of measurements: what every reader of them needs, and the ledger, which other
#: publishers' releases lack.
_COPIED = ("spine.parquet", "areas.parquet", "ledger.jsonl")


def adopt(release: Path, into: Path, also: Sequence[str] = ()) -> None:
    """Copy spine, ledger and noisy measurement files of ``release`` into the existing folder
    ``into``; ``also`` lists other files that its measurements depend on."""
    for folder in sorted(p for p in release.glob("nmf*") if p.is_dir()):
        with atomic.folder(into / folder.name) as draft:
            for path in sorted(p for p in folder.rglob("*") if p.is_file()):
                new = draft / path.relative_to(folder)
                new.parent.mkdir(parents=True, exist_ok=True)
                atomic.link(path.resolve(), new)
    for name in (*also, *_COPIED):
        if (release / name).is_file():
            with atomic.file(into / name) as draft:
                shutil.copyfile(release / name, draft)


def check_taken(release: Path, taken: Mapping[str, str], said: Document, private: Private) -> None:
    """What was ``taken`` over of a release, SHA-256 by path, is what its statement has digests of.
    Nothing is lacking that was measured, and files say of a seed what the specification does
    (``private``). Under a new seal none of this could be seen any more. Raises
    :class:`ReleaseError`. (Measurements of another publisher are without.)"""
    if isinstance(said, ForeignStatement):
        return
    check_unaltered(release, taken, said)
    check_marks(release, private)
    for name in said.digests:
        if (name in _COPIED or name.startswith("nmf")) and name not in taken:
            raise ReleaseError(
                "is not there, and privacy.json has its digest",
                where=release / name,
                remedy=ALTERED,
            )


def check_unaltered(release: Path, read: Mapping[str, str], said: Document) -> None:
    """Files that were ``read`` of a release, SHA-256 by path, are those that its statement has
    digests of. Raises :class:`ReleaseError`."""
    for name, digest in read.items():
        if said.digests.get(name) != digest:
            raise ReleaseError(
                "does not match its digest in privacy.json", where=release / name, remedy=ALTERED
            )


# The detached signature of a release: ``privacy.json.sig``, made and checked by OpenSSH's
# ``ssh-keygen``.
#
# A digest says that a file is as it was when the digest was written; who wrote it, only a signature
# says. What is signed is ``privacy.json``, which has the digest of every other file. Format,
# namespace and checks are those of ``ssh-keygen -Y`` (PROTOCOL.sshsig of OpenSSH 8.1 and later):
# nothing of it is made here, and the program alone does to check it.

#: What a signature is for: one that was made for mail or for a commit is none of a release.
NAMESPACE = "das-release"
_PROGRAM = "ssh-keygen"
#: What is signed by a signature of its statement.
_WHOLE = {NAME: "release"}


@dataclass(frozen=True)
class ReleaseSignature:
    """Whether a release is signed; and ``by`` whom, where a list of signers was asked."""

    there: bool
    by: str | None = None

    @property
    def says(self) -> str:
        if self.by is not None:
            return f"signed: by {self.by}, whose key is in the list of signers"
        return (
            "signed: with a key whose owner was not checked (name a list of signers that you trust:"
            " --signer)"
            if self.there
            else ("not signed")
        )


def sign(release: Path, key: Path) -> Path:
    """Sign a release with a key, as :func:`signed`."""
    atomic.write_bytes(release / SIGNATURE, signed((release / NAME).read_bytes(), key, NAMESPACE))
    check(release, None)
    return release / SIGNATURE


def signed(data: bytes, key: Path, namespace: str) -> bytes:
    """The signature of ``data`` with the private key in a file. Or the file has the public key, and
    ``ssh-agent`` the private one.

    Raises:
        UserError: no such key, or one that ``ssh-keygen`` cannot use."""
    if not key.is_file():
        raise UserError(
            "there is no such key",
            where=key,
            remedy="name an SSH key; ssh-keygen -t ed25519 makes one",
        )
    done = _run("-Y", "sign", "-q", "-f", str(key), "-n", namespace, data=data, terminal=True)
    if done.returncode or not done.stdout.startswith(b"-----BEGIN SSH SIGNATURE-----"):
        raise UserError(
            f"ssh-keygen could not sign with it ({_last(done.stderr)})",
            where=key,
            remedy=(
                "give a private key whose passphrase you know, or the public half of one in"
                " ssh-agent"
            ),
        )
    return done.stdout


def refuse_signed(
    release: Path,
    remedy: str = f"write elsewhere with --out; or delete {SIGNATURE}, and sign the release"
    f" again afterwards",
) -> None:
    """Raises :class:`UserError` for a release that is signed: what changes it would break the
    signature."""
    if (release / SIGNATURE).exists():
        raise UserError("this release is signed already", where=release / SIGNATURE, remedy=remedy)


def check(release: Path, signers: Path | None) -> ReleaseSignature:
    """Check the signature of a release. One that exists must be for this statement, no matter who
    signed it; with a list of ``signers`` one of them must have signed.

    Raises:
        ReleaseError: the signature is not valid; or it is missing, and signers are named.
        UserError: no such list."""
    _refuse_lacking(signers)
    path = release / SIGNATURE
    if not path.is_file():
        if signers is None:
            return ReleaseSignature(False)
        raise ReleaseError(
            "this release is not signed",
            where=path,
            remedy="ask its publisher; or leave out --signer",
        )
    by = signer((release / NAME).read_bytes(), path, NAMESPACE, NAME, signers)
    return ReleaseSignature(True, by)


def signer(data: bytes, path: Path, namespace: str, what: str, signers: Path | None) -> str | None:
    """Who made a signature of ``data``, by a list of ``signers``; ``None`` without one.

    Raises:
        ReleaseError: it is no signature of that, or by nobody in the list.
        UserError: no such list."""
    _refuse_lacking(signers)
    whole = _WHOLE.get(what, what)
    of = ("-n", namespace, "-s", str(path))
    if (done := _run("-Y", "check-novalidate", "-q", *of, data=data)).returncode:
        raise ReleaseError(
            f"this is no signature of {what} ({_last(done.stderr) or _last(done.stdout)})",
            where=path,
            remedy=f"get the {whole} again from where it was published",
        )
    if signers is None:
        return None
    found = _run("-Y", "find-principals", "-f", str(signers), "-s", str(path), data=b"")
    for who in found.stdout.decode(errors="replace").split("\n") if not found.returncode else ():
        verify = ("-Y", "verify", "-q", "-f", str(signers), "-I", who, *of)
        if who and not _run(*verify, data=data).returncode:
            return who
    raise ReleaseError(
        f"it is signed by nobody in {signers}",
        where=path,
        remedy=f"get the list of signers from the office itself; else do not trust this {whole}",
    )


def _refuse_lacking(signers: Path | None) -> None:
    if signers is not None and not signers.is_file():
        raise UserError(
            "there is no such list of signers",
            where=signers,
            remedy=(
                'write one: a line "office@example.gov ssh-ed25519 AAAA..." (man ssh-keygen,'
                " ALLOWED SIGNERS)"
            ),
        )


def _run(*args: str, data: bytes, terminal: bool = False) -> subprocess.CompletedProcess[bytes]:
    """``terminal``: the program may ask for a passphrase there, which it opens by itself."""
    try:
        return subprocess.run(
            [_PROGRAM, *args],
            input=data,
            capture_output=True,
            check=False,
            start_new_session=not terminal,
        )
    except FileNotFoundError:
        raise UserError(
            "there is no program ssh-keygen, which signs and checks signatures",
            where=SIGNATURE,
            remedy="install OpenSSH 8.1 or later",
        ) from None


def _last(text: bytes) -> str:
    lines = [line for line in text.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else ""
