"""The figures that pages state are those that the code gives, as far as they are in
``docs/claims.toml`` and quickly found.
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from docs import claims, pages

PAGES = [
    "README.md",
    *(
        pages.path_of(name)
        for name in (
            "by-task",
            "configurations",
            "accounting",
            "privacy-statement",
            "strategy-results",
            "dhc",
            "measurements",
            "estimation",
            "intervals",
            "limits",
        )
    ),
]
CHEAP = [c for c in claims.claims() if c.cost == "cheap"]


def test_each_claim_stands_on_its_page_word_for_word() -> None:
    assert [(c.page, c.text) for c in claims.claims() if not c.stands()] == []


def test_pages_of_figures_have_their_claims() -> None:
    found = {c.page for c in CHEAP}
    assert [page for page in PAGES if page not in found] == []


@pytest.mark.parametrize("claim", CHEAP, ids=lambda c: f"{c.page}: {c.text[:60]}")
def test_what_is_quickly_found_again_is_what_the_page_says(claim: claims.Claim) -> None:
    assert claim.rerun() == [True] * len(claim.figures)


# --- the checker
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown, value, within, up, good",
    [
        ("13.126", 13.1259, "", False, True),
        ("13.126", 13.1254, "", False, False),  # rounds to 13.125
        ("1.5933", 1.59335358, "", False, False),
        ("1,227,744", 1_227_744, "", False, True),
        ("1,227,744", 1_227_743, "", False, False),
        ("2.5", Fraction(5, 2), "", False, True),
        ("−1.9", -1.93, "", False, True),
        ("9.6219", 9.62182, "", True, True),
        ("9.6218", 9.62182, "", True, False),  # a bound that is rounded down is none
        ("9.6220", 9.62182, "", True, False),
        ("8.3", 8.0, "1/2", False, True),
        ("8.3", 7.7, "1/2", False, False),
    ],
)
def test_a_figure_holds_to_the_digits_that_are_printed(
    shown: str, value: float, within: str, up: bool, good: bool
) -> None:
    assert claims.holds(shown, value, within, up=up) is good


ENTRY = '[[claim]]\npage = "docs/how-to/configurations.md"\nsays = "{says}"\nfound = "{found}"\ncost = "cheap"\n'


@pytest.mark.parametrize(
    "says, found, stands, good",
    [
        ("as {2.56}, for persons", "2.5562", True, True),
        ("as {2.56}, for persons", "2.5662", True, False),
        ("as {2.56}, for   persons", "[2.5562]", True, True),  # lines of a page may be broken anew
        ("as {2.57}, for persons", "2.5662", False, True),  # true, and not what the page says
        ("as {2.56}, for persons", "nobody", True, False),
        ("as {2.56}, for persons", "[2.5562, 1]", True, False),
    ],
)
def test_the_command_ends_with_1_where_a_claim_is_false(
    says: str,
    found: str,
    stands: bool,
    good: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = tmp_path / "claims.toml"
    table.write_text(ENTRY.replace("{says}", says).replace("{found}", found))
    monkeypatch.setattr(claims, "TABLE", table)
    assert claims.main(["--cheap"]) == (0 if stands and good else 1)
    line = json.loads(capsys.readouterr().out)
    assert (line["stands"], line["holds"]) == (stands, good)


def test_what_takes_long_is_recorded_and_not_rerun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "claims.toml"
    table.write_text(
        '[[claim]]\npage = "docs/how-to/configurations.md"\nsays = "32 % of rho"\ncommand = "das nothing"'
        '\ncost = "long"\n'
    )
    monkeypatch.setattr(claims, "TABLE", table)
    assert claims.main([]) == 0
    assert "holds" not in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "entry",
    [
        {"cost": "long", "found": "1", "says": "{1}"},
        {"cost": "long"},
        {"cost": "cheap", "found": "1", "says": "no figure"},
        {"cost": "cheap"},
        {"cost": "free", "found": "1", "says": "{1}"},
    ],
)
def test_entries_that_could_not_fail_are_refused(entry: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="'"):
        claims.Claim(**({"page": "README.md", "says": "{1}"} | entry))
