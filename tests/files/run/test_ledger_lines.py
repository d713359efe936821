"""Lines of the ledger on disk: every part of an event, under the names of its mechanism."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from das.errors import ReleaseError
from das.files.run.ledger import LedgerFile, from_json, to_json
from das.model.budget import ALL, Draw, Neighbours
from das.model.ledger import Event
from das.model.mechanism import Mechanism
from das.model.mechanisms import MECHANISMS


def event(mechanism: Mechanism, unit_class: str = ALL) -> Event:
    draw = Draw.priced("Block", "total", mechanism, Neighbours.BOUNDED, Fraction(3, 7), unit_class)
    return Event.of(draw, "persons", 5, 1)


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=str)
def test_an_event_is_read_as_it_was_written(tmp_path: Path, mechanism: Mechanism) -> None:
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.begin("persons", "Block", "somewhere")
    events = [event(mechanism), event(mechanism, "alone")]
    for e in events:
        book.draw(e)
    assert [a.events for a in book.attempts()] == [events]


def test_what_a_line_says() -> None:
    gaussian, geometric = (to_json(event(m)) for m in MECHANISMS.values())
    assert {k: gaussian[k] for k in ("mechanism", "sigma_sq", "rho")} == {
        "mechanism": "discrete-gaussian", "sigma_sq": "7/3", "rho": "3/7",
    }  # fmt: skip
    assert {k: geometric[k] for k in ("mechanism", "scale", "epsilon")} == {
        "mechanism": "geometric", "scale": "14/3", "epsilon": "3/7",
    }  # fmt: skip
    assert set(gaussian) & set(geometric) == {"universe", "level", "query", "units", "answers", "mechanism"}
    assert to_json(event(MECHANISMS["geometric"], "alone")) == geometric | {"class": "alone"}
    assert from_json(geometric) == event(MECHANISMS["geometric"])


@pytest.mark.parametrize(
    "change", [{"mechanism": "gaussian"}, {"mechanism": "geometric"}, {"sigma_sq": None}, {"rho": ""}, {"rho": "1/0"}]
)
def test_a_line_that_its_mechanism_does_not_know_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    said = to_json(event(MECHANISMS["discrete-gaussian"])) | change
    lines = [{"begin": {"universe": "persons", "level": "Block", "entropy": "x"}}, {"draw": said}]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ReleaseError, match="line 2 cannot be understood"):
        LedgerFile(tmp_path / "ledger.jsonl").attempts()
