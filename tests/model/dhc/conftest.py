"""Published values of the DHC, where they are at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


def _read(shared_data: Path, name: str) -> Any:
    path = shared_data.parent / "facts" / name
    if not path.is_file():
        pytest.skip(f"published values are not at hand ({path})")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def published(shared_data: Path) -> dict[str, Any]:
    """Levels, recodes, structural zeros, microdata codes and tables."""
    found: dict[str, Any] = _read(shared_data, "dhc_levels.json")
    return found


@pytest.fixture(scope="session")
def allocations(shared_data: Path) -> dict[str, Any]:
    """Budgets and passes, by the name of the run."""
    return {a["id"]: a for a in _read(shared_data, "allocations.json")["zcdp_allocations"]}
