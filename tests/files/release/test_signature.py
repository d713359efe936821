"""Signatures of a release, by OpenSSH's own program, as an office would make and a reader check
them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from das.accounting.document import NAME, SIGNATURE
from das.errors import ReleaseError, UserError
from das.files.release import statement

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="no ssh-keygen")


def key(folder: Path, name: str) -> Path:
    path = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(path)], check=True
    )
    return path


def signers(folder: Path, *names: str) -> Path:
    lines = [f"{n}@example.gov {(folder / f'{n}.pub').read_text()}" for n in names]
    (folder / "allowed").write_text("".join(lines))
    return folder / "allowed"


@pytest.fixture
def release(tmp_path: Path) -> Path:
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / NAME).write_text('{"digests": {}}\n')
    return folder


def test_a_reader_knows_who_signed(release: Path, tmp_path: Path) -> None:
    office, other = key(tmp_path, "office"), key(tmp_path, "other")
    assert statement.check(release, None) == statement.ReleaseSignature(False)
    with pytest.raises(ReleaseError, match="is not signed"):
        statement.check(release, signers(tmp_path, "office"))
    assert statement.sign(release, office) == release / SIGNATURE
    assert statement.check(release, None) == statement.ReleaseSignature(True)
    assert statement.check(
        release, signers(tmp_path, "other", "office")
    ) == statement.ReleaseSignature(True, "office@example.gov")
    with pytest.raises(ReleaseError, match="signed by nobody in"):
        statement.check(release, signers(tmp_path, "other"))
    with pytest.raises(UserError, match="this release is signed"):
        statement.refuse_signed(release)
    (release / SIGNATURE).unlink()
    statement.sign(release, other)  # by the person who altered it
    with pytest.raises(ReleaseError, match="signed by nobody in"):
        statement.check(release, signers(tmp_path, "office"))


def test_the_program_alone_checks_it(release: Path, tmp_path: Path) -> None:
    """What docs tell a reader to type."""
    statement.sign(release, key(tmp_path, "office"))
    allowed = signers(tmp_path, "office")
    command = [
        "ssh-keygen",
        "-Y",
        "verify",
        "-f",
        str(allowed),
        "-I",
        "office@example.gov",
        "-n",
        "das-release",
        "-s",
        str(release / SIGNATURE),
    ]
    assert subprocess.run(command, input=(release / NAME).read_bytes(), check=False).returncode == 0
    assert subprocess.run(command, input=b"something else", check=False).returncode != 0


def test_a_statement_that_was_altered_or_a_signature_for_something_else(
    release: Path, tmp_path: Path
) -> None:
    office = key(tmp_path, "office")
    statement.sign(release, office)
    kept = (release / SIGNATURE).read_bytes()
    (release / NAME).write_text('{"digests": {"a": "b"}}\n')
    for listed in (None, signers(tmp_path, "office")):
        with pytest.raises(ReleaseError, match="this is no signature of"):
            statement.check(release, listed)
    (release / NAME).write_text('{"digests": {}}\n')
    (release / SIGNATURE).write_bytes(kept.replace(b"SIGNATURE", b"SIGNET"))
    with pytest.raises(ReleaseError, match="this is no signature of"):
        statement.check(release, None)
    mail = subprocess.run(
        ["ssh-keygen", "-Y", "sign", "-q", "-f", str(office), "-n", "email"],
        input=(release / NAME).read_bytes(),
        capture_output=True,
        check=True,
    )
    (release / SIGNATURE).write_bytes(mail.stdout)
    with pytest.raises(ReleaseError, match="this is no signature of"):
        statement.check(release, None)


def test_what_cannot_sign_leaves_nothing(
    release: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="no such key"):
        statement.sign(release, tmp_path / "none")
    (tmp_path / "text").write_text("no key")
    (tmp_path / "text").chmod(0o600)
    with pytest.raises(UserError, match="could not sign with it"):
        statement.sign(release, tmp_path / "text")
    with pytest.raises(UserError, match="no such list of signers"):
        statement.check(release, tmp_path / "none")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="no program ssh-keygen"):
        statement.sign(release, tmp_path / "text")
    assert [p.name for p in release.iterdir()] == [NAME]
