"""A browser for the tests of pages that compute."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.picture import BROWSERS


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="no Playwright: install the extra `browser`"
    )
    with sync_api.sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        if not Path(found).is_file():
            pytest.skip(f"no browser: none of {', '.join(BROWSERS)}, nor Playwright's own")
        chromium = playwright.chromium.launch(executable_path=found)
        yield chromium
        chromium.close()
