"""Other people's software, each in an environment of its own outside the repository, made when
first wanted.

Environments live under ``$XDG_CACHE_HOME/topdown-das/peers`` (``~/.cache`` by default). The scripts
of this package run in them, not in ours: they import only the peer, NumPy and SciPy, read one file
and print JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"), "1"
)


class PeerUnavailable(Exception):
    """A peer that cannot be had here; says why."""


def environment(name: str, packages: Sequence[str]) -> Path:
    """The Python of peer ``name``, with ``packages`` installed. Raises :class:`PeerUnavailable`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = cache / "topdown-das" / "peers" / name
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = folder / ".installed"
    if (
        stamp.is_file()
        and stamp.read_text(encoding="utf-8") == " ".join(packages)
        and python.exists()
    ):
        return python
    _quietly([sys.executable, "-m", "venv", "--clear", str(folder)], name)
    _quietly(
        [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages],
        name,
    )
    stamp.write_text(" ".join(packages), encoding="utf-8")
    return python


def _quietly(command: list[str], name: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PeerUnavailable(f"{name} cannot be installed ({error})") from None
    if done.returncode:
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        raise PeerUnavailable(f"{name} cannot be installed ({last})")


def ask(python: Path, script: str, *arguments: str, timeout: float = 1800) -> Any:
    """What ``script`` of this package prints, run by a peer's Python on one thread."""
    command = [str(python), str(Path(__file__).with_name(script)), *arguments]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
            env=os.environ | _ONE_THREAD,
        )
    except subprocess.TimeoutExpired:
        raise PeerUnavailable(f"{script} did not finish in {timeout:g} s") from None
    if done.returncode:
        raise PeerUnavailable(
            f"{script} failed: {(done.stderr.strip() or 'no message').splitlines()[-1]}"
        )
    return json.loads(done.stdout)
