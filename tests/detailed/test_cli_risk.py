"""``das detailed risk``, on a folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from das.model.mechanisms import GEOMETRIC
from das.publications.detailed import risk as command
from das.publications.detailed.command import detailed
from das.publications.detailed.model.tables import Parameters
from das.publications.detailed.risk import ALARMS, Membership
from tests.detailed import worlds


def risk(
    monkeypatch: pytest.MonkeyPatch, parameters: Parameters, *args: str, exit_code: int = 0
) -> str:
    monkeypatch.setattr(command, "read", lambda folder, product: parameters)
    done = CliRunner().invoke(detailed, ["risk", "folder", *args])
    assert done.exit_code == exit_code, done.output
    return done.output


def test_chances_and_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    parameters = worlds.persons(runs=("us",))
    found = json.loads(risk(monkeypatch, parameters, "--json"))
    assert [m["who"] for m in found["membership"]] == list(command.PERSONS)
    assert round(found["membership"][0]["right"], 3) == 0.771
    assert {"level": "TRACT detailed", "seen": "not published", "least": 0, "most": 30} in found[
        "sizes"
    ]
    said = risk(monkeypatch, parameters)
    assert "77.1%" in said
    assert "not published" in said


def test_nothing_is_seen_where_sizes_are_known_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables of households have one size. (Chances are not asked again: of households they take
    long.)
    """
    nobody = Membership("us", None, True, 0.5, tuple((alarm, float(alarm)) for alarm in ALARMS))
    monkeypatch.setattr(command, "membership", lambda *_: nobody)
    parameters = worlds.households(runs=("us",))
    assert (
        json.loads(risk(monkeypatch, parameters, "--product", "households", "--json"))["sizes"]
        == []
    )
    assert "group can have" not in risk(monkeypatch, parameters, "--product", "households")
    assert "group can have" in risk(monkeypatch, worlds.persons(runs=("us",)))


def test_mistakes_are_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "puredp" in risk(monkeypatch, worlds.persons(GEOMETRIC), exit_code=2)
    monkeypatch.undo()
    done = CliRunner().invoke(detailed, ["risk", str(Path("nowhere"))])
    assert done.exit_code == 2
