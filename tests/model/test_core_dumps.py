"""A process that holds the truth or the noise key leaves no copy of its memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from das.engine import executor
from das.model import core_dumps

#: What the system says, asked without our code: the limit of core files, and PR_GET_DUMPABLE
#: (linux/prctl.h).
ASK = """
import ctypes, resource, sys
def said():
    return resource.getrlimit(resource.RLIMIT_CORE)[0], ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == "linux" else 0
resource.setrlimit(resource.RLIMIT_CORE, (hard := resource.getrlimit(resource.RLIMIT_CORE)[1], hard))
before = said()
"""
HOLDS = {
    "a box": "from das.model.confidential import Confidential\nConfidential(1)",
    "a key": (
        "from pathlib import Path\nfrom das.files.run import"
        " noise_key\nnoise_key.create(Path('k/confidential/noise.key'))"
    ),
    "a command": "import click\nfrom das.cli.kit.options import guarded\nguarded(lambda: None)()",
}


@pytest.mark.parametrize("held", HOLDS)
def test_a_process_that_holds_the_truth_is_not_dumped(held: str, tmp_path: Path) -> None:
    """From its first moment on: a file is not written, and no program of the system is given its
    memory.
    """
    done = subprocess.run(
        [sys.executable, "-c", f"{ASK}\n{HOLDS[held]}\nprint(*before, *said())"],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    soft, dumpable, *after = map(int, done.stdout.split())
    assert after == [0, 0]
    if sys.platform == "linux":
        assert dumpable == 1  # another process was: it is not the machine that forbids it
    if soft == 0:
        pytest.skip("this machine has no core files at all; the rest was checked")


def test_workers_are_not_dumped() -> None:
    with executor(2) as pool:
        assert pool.submit(core_dumps.forbidden).result()
