"""The reader's folders, and what is done where official files are absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.accept.reader import Absent, Done, Reader
from tests.accept.steps import CHAINS


class Acceptance:
    """All chains of commands, each begun when it is first asked for."""

    def __init__(self, folder: Path, data: Path | None) -> None:
        self._folder, self._data = folder, data
        self._readers: dict[str, Reader] = {}

    def done(self, chain: str, name: str) -> Done:
        """What became of a command. Skips the test, by name, where an official file is absent; in
        CI that is a failure."""
        if chain not in self._readers:
            folder = self._folder / chain
            folder.mkdir(parents=True)
            self._readers[chain] = Reader(folder, self._data)
        try:
            return self._readers[chain].done(CHAINS[chain], name)
        except Absent as file:
            if os.environ.get("CI"):
                pytest.fail(f"{file} is absent, and CI needs it: set DAS_SHARED_DATA")
            pytest.skip(f"{file} is not there: set DAS_SHARED_DATA to the official public data")


@pytest.fixture(scope="session")
def accepted(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Acceptance:
    named = os.environ.get("DAS_SHARED_DATA")
    data = Path(named) if named else root.parent / "shared" / "data"
    return Acceptance(tmp_path_factory.mktemp("accept"), data if data.is_dir() else None)
