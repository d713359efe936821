"""A picture of the public page of a release, as a reader sees it: ``python -m docs.picture RELEASE``.

Needs Playwright (the extra ``browser``) and a Chromium: one of the machine, or Playwright's own. The
README shows the picture of Rhode Island, made from the run that it prints."""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path

PICTURE = Path(__file__).with_name("public-page.png")
#: The largest picture that the repository keeps, in bytes.
LARGEST = 200_000
BROWSERS = (
    "chromium",
    "chromium-browser",
    "chromium-headless-shell",
    "google-chrome",
    "google-chrome-stable",
    "microsoft-edge",
)


def take(release: Path, place: str, out: Path, *, width: int, height: int) -> None:
    """Writes the upper ``width`` times ``height`` pixels of the page, with ``place`` looked up:
    a name, code or GEOID that only one place has.

    Raises :class:`ValueError` if the picture is larger than ``LARGEST``."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        browser = playwright.chromium.launch(executable_path=found)
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto((release / "report.html").resolve().as_uri())
        page.fill("#lookup-code", place)
        page.press("#lookup-code", "Enter")
        page.wait_for_selector(f"#lookup-result h3:has-text({json.dumps(place)})")
        page.mouse.move(0, 0)
        page.screenshot(path=out)
        browser.close()
    if (size := out.stat().st_size) > LARGEST:
        raise ValueError(
            f"{out} has {size:,} bytes, and {LARGEST:,} is the most: choose less of it"
        )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m docs.picture", description=__doc__)
    parser.add_argument("release", type=Path, help="the folder with report.html")
    parser.add_argument("--place", default="Providence city")
    parser.add_argument("--out", type=Path, default=PICTURE)
    parser.add_argument(
        "--size", type=int, nargs=2, default=(960, 720), metavar=("WIDTH", "HEIGHT")
    )
    asked = parser.parse_args()
    width, height = asked.size
    take(asked.release, asked.place, asked.out, width=width, height=height)
    print(f"written: {asked.out}")


if __name__ == "__main__":
    main()
