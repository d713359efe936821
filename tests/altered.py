"""Releases as somebody leaves them who alters with care."""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

from das.files.release import statement
from das.files.run.run_directory import file_digest
from das.release import seal as sealing
from das.spec import load


def sealed(release: Path) -> None:
    """Every digest and the page are those of what is there."""
    said = load((release / "spec.toml").read_text(encoding="utf-8"), where="c")
    with mock.patch.object(sealing, "check_marked"):  # which binds nobody else
        sealing.seal(release, statement.read(release), said.run.name)


def resealed(release: Path) -> None:
    """As somebody would who alters digests, too: of what was drawn, the ledger's among them."""
    lines = []
    for line in (release / "ledger.jsonl").read_text(encoding="utf-8").splitlines():
        said = json.loads(line)
        if "part" in said:
            said["part"]["files"] = {
                f: file_digest(release / f)
                for f in said["part"]["files"]
                if (release / f).is_file()
            }
        lines.append(json.dumps(said))
    (release / "ledger.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sealed(release)
