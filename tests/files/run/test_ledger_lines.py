"""Lines of the ledger on disk: every part of an event, under the names of its mechanism."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from das.errors import PrivacyError, ReleaseError
from das.files.run.ledger import Attempt, LedgerFile, MeasuredPart, from_json, to_json
from das.model.budget import ALL, Neighbours, PlannedMeasurement
from das.model.ledger import Event
from das.model.mechanisms import MECHANISMS, Mechanism


def event(mechanism: Mechanism, unit_class: str = ALL) -> Event:
    draw = PlannedMeasurement.priced(
        "Block", "total", mechanism, Neighbours.BOUNDED, Fraction(3, 7), unit_class
    )
    return Event.from_measurement(draw, "persons", 5, 1)


def part(subtree: int) -> MeasuredPart:
    return MeasuredPart(
        "persons", "Block", subtree, f"0{subtree}", {f"nmf/{subtree}": f"{subtree}" * 64}
    )


@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=str)
def test_what_was_written_is_read(tmp_path: Path, mechanism: Mechanism) -> None:
    book = LedgerFile(tmp_path / "ledger.jsonl")
    events = [event(mechanism), event(mechanism, "alone")]
    book.begin(Attempt("persons", "Block", 3, "ab", events=events[:1]), "somewhere")
    book.draw(events[1:])
    book.acknowledge([part(1), part(3)])
    for told in (book.entries, LedgerFile(book.path).entries):
        (attempt,) = told.attempts
        assert (attempt.stage, attempt.parts, attempt.key, attempt.anew) == (
            ("persons", "Block"),
            3,
            "ab",
            False,
        )
        assert attempt.events == events
        assert attempt.measured == told.standing(attempt.stage) == {1: part(1), 3: part(3)}
        assert not told.whole(attempt.stage)
        assert not told.closed
    book.acknowledge([part(2)])
    book.close()
    told = LedgerFile(book.path).entries
    assert told.closed
    assert told.whole(("persons", "Block"))
    assert told.files() == {f"nmf/{i}": f"{i}" * 64 for i in (1, 2, 3)}
    assert (told.lost(), told.number(("persons", "Block")), told.number(("persons", "US"))) == (
        [],
        1,
        0,
    )


def test_a_stage_that_begins_again_loses_its_draws_and_keeps_its_parts_unless_it_begins_anew(
    tmp_path: Path,
) -> None:
    book, stage = LedgerFile(tmp_path / "ledger.jsonl"), ("persons", "Block")
    for anew, standing in (
        (False, {1: part(1)}),
        (False, {1: part(1), 2: part(2)}),
        (True, {3: part(3)}),
    ):
        book.begin(
            Attempt(*stage, 2, anew=anew, events=[event(MECHANISMS["geometric"])]), "somewhere"
        )
        book.acknowledge([part(max(standing))])
        assert (
            book.entries.standing(stage)
            == LedgerFile(book.path).entries.standing(stage)
            == standing
        )
        assert book.entries.whole(stage) is (len(standing) == 2)
    assert [a.measured for a in book.entries.lost()] == [{1: part(1)}, {2: part(2)}]
    assert book.entries.number(stage) == 3


def test_a_part_that_is_acknowledged_twice_is_the_same_or_stops_the_run(tmp_path: Path) -> None:
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.begin(Attempt("persons", "Block", 2), "somewhere")
    book.acknowledge([part(1)])
    before = book.path.read_bytes()
    book.acknowledge([part(1)])  # a task that was repeated
    for other, what in (
        (replace(part(1), stream="ff"), "another stream"),
        (replace(part(1), files={"nmf/1": "2" * 64}), "other files"),
        (replace(part(1), files={}), "other files"),
    ):
        with pytest.raises(
            PrivacyError, match=f"persons at Block, part 1, was measured twice, and has {what}"
        ):
            book.acknowledge([part(2), other])
    assert book.path.read_bytes() == before
    told = json.loads(before.splitlines()[-1])
    told["part"]["stream"] = "ff"
    book.path.write_bytes(before + json.dumps(told).encode() + b"\n")
    with pytest.raises(ReleaseError, match=r"line 3 cannot be understood.*measured twice"):
        _ = LedgerFile(book.path).entries


@pytest.mark.parametrize(
    "line",
    [
        (
            '{"part": {"universe": "persons", "level": "Tract", "shard": 0, "stream": "", "files":'
            " {}}}"
        ),
        (
            '{"part": {"universe": "persons", "level": "Block", "shard": -1, "stream": "", "files":'
            " {}}}"
        ),
        (
            '{"part": {"universe": "persons", "level": "Block", "shard": "0", "stream": "",'
            ' "files": {}}}'
        ),
        '{"part": {"universe": "persons", "level": "Block", "shard": 0, "files": {}}}',
        (
            '{"part": {"universe": "persons", "level": "Block", "shard": 0, "stream": "", "files":'
            ' {"a": "12"}}}'
        ),
        '{"part": {"universe": "persons", "level": "Block", "shard": 0, "stream": "", "files":'
        ' {"a": "' + "z" * 64 + '"}}}',
        '{"begin": {"universe": "persons", "level": "Block", "parts": -1, "entropy": "x"}}',
        (
            '{"begin": {"universe": "persons", "level": "Block", "parts": 1, "anew": 3, "entropy":'
            ' "x"}}'
        ),
        '{"done": {}}\n{"done": {}}',
    ],
)
def test_lines_that_say_nothing_that_there_can_be(tmp_path: Path, line: str) -> None:
    book = LedgerFile(tmp_path / "ledger.jsonl")
    book.begin(Attempt("persons", "Block", 1), "somewhere")
    book.path.write_bytes(book.path.read_bytes() + line.encode() + b"\n")
    with pytest.raises(ReleaseError, match=r"line [23] cannot be understood"):
        _ = LedgerFile(book.path).entries


def test_what_a_line_says() -> None:
    gaussian, geometric = (to_json(event(m)) for m in MECHANISMS.values())
    assert {k: gaussian[k] for k in ("mechanism", "sigma_sq", "rho")} == {
        "mechanism": "discrete-gaussian",
        "sigma_sq": "7/3",
        "rho": "3/7",
    }
    assert {k: geometric[k] for k in ("mechanism", "scale", "epsilon")} == {
        "mechanism": "geometric",
        "scale": "14/3",
        "epsilon": "3/7",
    }
    assert set(gaussian) & set(geometric) == {
        "universe",
        "level",
        "query",
        "units",
        "answers",
        "mechanism",
    }
    assert to_json(event(MECHANISMS["geometric"], "alone")) == geometric | {"class": "alone"}
    assert from_json(geometric) == event(MECHANISMS["geometric"])


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "gaussian"},
        {"mechanism": "geometric"},
        {"sigma_sq": None},
        {"rho": ""},
        {"rho": "1/0"},
    ],
)
def test_a_line_that_its_mechanism_does_not_know_is_refused(
    tmp_path: Path, change: dict[str, object]
) -> None:
    said = to_json(event(MECHANISMS["discrete-gaussian"])) | change
    lines = [
        {"begin": {"universe": "persons", "level": "Block", "parts": 1, "entropy": "x"}},
        {"draw": said},
    ]
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(ReleaseError, match="line 2 cannot be understood"):
        _ = LedgerFile(tmp_path / "ledger.jsonl").entries
