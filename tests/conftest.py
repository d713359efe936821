"""What all tests share: runs, the folder of official public data, and how hypothesis searches."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from functools import wraps
from pathlib import Path

import pytest
from hypothesis import settings

# The matrices of the tests are small: threads on them only fight each other for the cores. Said
# before any library that has such threads is loaded, and to every process that a test starts.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

from das.accounting import kept
from das.accounting.draws import Differing
from das.accounting.worst import WorstLoss
from das.files import atomic, kept_epsilons
from tests.commands import Commands
from tests.worlds import Worlds

# Where Python is told to write no byte code into the checkout, the hundreds of processes that tests
# start would compile all our modules, each: they share a folder of byte code instead.
if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    _BYTE_CODE = tempfile.TemporaryDirectory(prefix="das-byte-code-")
    os.environ["PYTHONPYCACHEPREFIX"] = _BYTE_CODE.name

gc.set_threshold(50_000, 20, 100)  # as `das` itself does (das/__main__.py)

ROOT = Path(__file__).resolve().parents[1]

# Times differ between machines, so no test has a deadline. In CI the same examples are tried every
# time, so more of them find nothing more; elsewhere others are, and more, each time.
CI = bool(os.environ.get("CI"))
settings.register_profile("das", deadline=None, derandomize=CI, max_examples=40 if CI else 100)
settings.load_profile("das")

# A shell that starts the tests in its background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Compiling all tests takes 15 seconds. Of two workers one begins at the end, so that each
    finds half of them compiled by the other."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")
    if int(number) % 2 and session.config.args == session.config.getini("testpaths"):
        every = (p for p in (ROOT / "tests").rglob("test_*.py") if p.parent.name != "accept")
        session.config.args = sorted(map(str, every), reverse=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The same order for all workers."""
    items.sort(key=lambda item: item.path)


def pytest_collection_finish() -> None:
    """Everything that exists when the tests are collected stays to the end, so garbage collection
    need not look at it.
    """
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of official public data: ``DAS_SHARED_DATA``, or ``../shared/data`` next to the
    checkout.
    """
    named = os.environ.get("DAS_SHARED_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no official public data at {folder}: set DAS_SHARED_DATA to their folder")
    return folder


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """Runs that many tests read, in one folder for all worker processes. Nobody changes them."""
    own = tmp_path_factory.getbasetemp()
    return Worlds((own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "worlds")


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """No machine fails here: that, and in which order, files are forced to disk is what
    tests/files/test_atomic.py watches.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(atomic, "AT_ONCE", sys.maxsize)  # and no threads are made for it
        yield


class _OfAllProcesses(kept_epsilons.KeptEpsilons):
    """Kept values, and those that another process has computed since. Of the file, which all add to,
    only the lines that are new since it was last asked are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._read = 0

    def __getitem__(self, key: str) -> WorstLoss:
        if key not in self._known and self.path.exists():
            with self.path.open("rb") as file:
                file.seek(self._read)
                lines = file.readlines()
            whole = [x for x in lines if x.endswith(b"\n")]
            self._read += sum(map(len, whole))
            for name, low, high, at in (json.loads(x.partition(b" ")[2]) for x in whole):
                self._known[name] = WorstLoss(low, high, tuple(at))
        return super().__getitem__(key)


@pytest.fixture(scope="session", autouse=True)
def _epsilons_are_found_once(worlds: Worlds) -> Iterator[None]:
    """Runs have few different budgets. All processes of a session share what one of them computed,
    releases are verified with that, too; nothing is kept from one session to the next. What is
    tested of accounting itself asks :mod:`das.accounting.profile`, which keeps nothing. That who
    verifies computes again is tested in tests/accounting/test_kept.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(kept_epsilons.FOLDER, str(worlds.folder / "epsilons"))
        known, computed = _OfAllProcesses(kept_epsilons.user_file()), kept._computed
        kept.KEEPER.set(known)

        @wraps(computed)
        def once(differing: Differing, delta: Fraction) -> WorstLoss:
            name = kept.key(differing, delta)
            if (at := known.get(name)) is None:
                at = known[name] = computed(differing, delta)
            return at

        @wraps(kept_epsilons.use)
        def use() -> None:
            kept.KEEPER.set(known)

        patch.setattr(kept, "_computed", once)
        patch.setattr(kept_epsilons, "use", use)
        yield


@pytest.fixture
def commands(
    capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> Commands:
    monkeypatch.setenv("COLUMNS", "200")
    return Commands(capfdbinary)


@pytest.fixture(scope="module", autouse=True)
def _runs_stay_as_they_are(worlds: Worlds) -> Iterator[None]:
    yield
    assert worlds.altered() == [], (
        "a test of this module, or of one that ran beside it, altered a run that others read"
    )
