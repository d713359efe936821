"""What all tests share: the folder of official public data, and how hypothesis searches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings
from threadpoolctl import threadpool_limits

# The matrices of the tests are small: threads on them only fight each other for the cores.
threadpool_limits(1)

ROOT = Path(__file__).resolve().parents[1]

# Times differ between machines, so no test has a deadline; in CI the same examples are tried every time.
settings.register_profile("das", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("das")


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of official public data: ``DAS_SHARED_DATA``, or ``../shared/data`` beside the checkout."""
    named = os.environ.get("DAS_SHARED_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no official public data at {folder}: set DAS_SHARED_DATA to their folder")
    return folder
