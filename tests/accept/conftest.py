"""The reader's folders, what is done where official files are absent, and whose work a chain of
commands is."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.accept.reader import Absent, Done, Reader
from tests.accept.steps import CHAINS


class Acceptance:
    """All chains of commands, each begun when it is first asked for, below ``folder``. In
    ``claims``, which all workers share, each has a file."""

    def __init__(self, folder: Path, data: Path | None, claims: Path) -> None:
        self._folder, self._data, self._claims = folder, data, claims
        self._readers: dict[str, Reader] = {}

    def reader(self, chain: str) -> Reader:
        """Who types the commands of a chain, which no other worker has begun."""
        if chain not in self._readers:
            folder, claim = self._folder / chain, self._claims / f"{chain}.claimed"
            folder.mkdir(parents=True)
            assert not claim.exists(), f"the chain {chain} is another worker's"
            claim.touch()
            self._readers[chain] = Reader(folder, self._data)
        return self._readers[chain]

    def done(self, chain: str, name: str) -> Done:
        """What became of a command. Skips the test, by name, where an official file is absent; in
        CI that is a failure."""
        try:
            return self.reader(chain).done(CHAINS[chain], name)
        except Absent as file:
            if os.environ.get("CI"):
                pytest.fail(f"{file} is absent, and CI needs it: set DAS_SHARED_DATA")
            pytest.skip(f"{file} is not there: set DAS_SHARED_DATA to the official public data")


@pytest.fixture(scope="session")
def accepted(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Acceptance:
    named, folder = os.environ.get("DAS_SHARED_DATA"), tmp_path_factory.mktemp("accept")
    data = Path(named) if named else root.parent / "shared" / "data"
    several = "PYTEST_XDIST_WORKER" in os.environ
    claims = folder.parents[1] if several else folder
    return Acceptance(folder, data if data.is_dir() else None, claims)


def chain_of(nodeid: str) -> str:
    """The chain that a test is about, which its name has in brackets; or the test alone."""
    found = re.search(r"\[(\w+)(: .*)?\]$", nodeid)
    return found[1] if found else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests of a chain are one worker's, and the chains that take longest come first. (Marks of
    groups are lost between xdist 3.8 and pytest 9.2: each worker did every chain.)"""
    from xdist.scheduler import LoadScopeScheduling

    class Chains(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return chain_of(nodeid)

    config.option.loadscopereorder = False
    return Chains(config, log)
