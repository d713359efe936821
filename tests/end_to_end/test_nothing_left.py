"""When a run is ended, everything that it started has ended before it, and what it made for its own
use is gone. (Of a run that ends by itself, `make accept` asks this after every command.)"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stopped import adopting, children, descendants
from tests.worlds import ROOT, Worlds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
DATA = "one thousand"


@pytest.fixture(autouse=True)
def orphans_are_ours() -> Iterator[None]:
    with adopting():
        yield


def arguments(worlds: Worlds, kind: str, out: Path) -> list[str]:
    words = ["--out", str(out), "--workers", "2", "--quiet"]
    words += ["--set", "output.report=false", "--set", "output.tables=false"]
    if kind == "counts":
        return ["pl94-2010", "--data", str(worlds.data(DATA)), *words]
    earlier = worlds.run("run.seed=1", data=DATA)
    return [
        *("dhc-2020", "--data", str(worlds.linked(DATA))),
        *("--set", f"constraints.from={earlier}", "--set", "run.seed=1", *words),
    ]


def in_the_midst(kind: str, pid: int) -> bool:
    """Whether workers have begun. For a DHC they are those of the process that estimates, whose
    server is stopped here: it cannot see the end by itself, as when it has no processor."""
    begun = set(descendants(pid))
    if kind == "counts":
        return bool(begun)
    children_of_it = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    of_others = begun.difference(children_of_it)
    for server in of_others:
        os.kill(server, signal.SIGSTOP)
    return bool(of_others)


@pytest.mark.parametrize(
    ("kind", "end"),
    [("counts", signal.SIGINT), ("dhc", signal.SIGTERM)],
    ids=["counts-INT", "dhc-TERM"],
)
def test_no_process_and_no_file_is_left(
    worlds: Worlds, tmp_path: Path, kind: str, end: signal.Signals
) -> None:
    """Both kinds and both signals: a run answers one as the other, whatever it publishes; that
    SIGTERM ends a run of counts is tested in tests/test_workers.py, too."""
    out, own = tmp_path / "run", tmp_path / "tmp"
    own.mkdir()
    words, before = arguments(worlds, kind, out), children()
    said = tmp_path / "said"
    with said.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "das", "run", *words],
            cwd=tmp_path,
            env=os.environ | {"TMPDIR": str(own), "PYTHONPATH": str(ROOT)},
            stderr=stderr,
        )
    began = out / ("release/privacy.json" if kind == "counts" else "release/ledger.jsonl")
    while not (began.exists() and in_the_midst(kind, process.pid)):
        assert process.poll() is None, said.read_text()
        time.sleep(0.02)
    process.send_signal(end)
    assert process.wait(timeout=200) == 128 + end, said.read_text()
    left = {pid: of for pid, of in children().items() if pid not in before}
    assert left == {}
    assert list(own.iterdir()) == []
