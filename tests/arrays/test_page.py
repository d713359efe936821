"""The code of docs/how-to/arrays.md runs as it is printed, and is as short as the page says."""

from __future__ import annotations

import re
from typing import Any

import pytest

import das
from docs import pages

PAGE = pages.text("arrays")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for block in BLOCKS:
        exec(block, found)
    return found


def statements(block: str) -> int:
    return len(
        [
            line
            for line in block.splitlines()
            if re.match(r"\w", line) and not line.startswith("import")
        ]
    )


def test_an_estimate_takes_ten_lines_and_an_estimator_of_ones_own_twenty() -> None:
    assert statements(BLOCKS[1]) <= 10
    own = next(b for b in BLOCKS if "def proportional" in b)
    assert len([line for line in own.splitlines() if line]) < 20


def test_what_the_page_makes_is_what_it_says(names: dict[str, Any]) -> None:
    result, spine = names["result"], names["spine"]
    assert len(names["records"]) == 900
    assert names["districts"]["value"].sum() == 900
    assert names["error"].shape == (3, 1)
    assert set(names["unbiased"]) >= {"value", "standard_error"}
    assert 0 < names["low"] <= names["high"] < 10
    assert names["mine"].histograms["country"].answer("total").item() == 900
    assert repr(names["truth"]) == "<Counted: confidential>"
    homes = names["known"]["village"].dense().upper
    assert (homes[:, 2] == 0).all()
    assert names["known"]["island"].total.tolist() == [500, 400]
    lived_in = names["lived_in"]
    assert (lived_in[homes == 0] == 0).all()
    assert (lived_in[names["structures"][:, 1] > 0, 1] >= 1).all()
    assert lived_in.sum() == 900
    assert names["elsewhere"].read("island", "total", spine).variance.tolist() == [25.0, 25.0]
    assert result.histograms["village"].to_frame("total")["geocode"].tolist() == names["villages"]


def test_the_page_lists_every_public_name() -> None:
    listed = set(re.findall(r"`(\w+)`", PAGE[PAGE.index("## What is public") :]))
    assert set(das.__all__) <= listed
