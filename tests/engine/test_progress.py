"""What is seen of long work where there is no terminal: little of short stages, a line a minute of
long ones.
"""

from __future__ import annotations

import pytest

from das.engine import display
from das.engine.display import Lines, Live
from das.engine.tasks import Pace


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(display, "perf_counter", lambda: now[0])
    return now


def test_a_log_has_a_line_a_minute_and_none_of_short_stages(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Live(quiet=False) as live:
        live.stage("read", None)
        clock[0] = 10.0
        live.stage("measure", 1000)
        for clock[0] in (30.0, 65.0, 75.0, 100.0, 130.0, 131.0):
            live.advance(100)
        clock[0] = 210.0
    lines = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
    assert lines == ["measure 65.0 s: 30 %, 4.62/s, 3 min left", "measure 200.0 s"]


def test_quiet_is_quiet(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with Live(quiet=True) as live:
        live.stage("measure", 10)
        clock[0] = 1000.0
        live.advance(5)
    assert capsys.readouterr().err == ""


def test_where_all_stages_are_asked_for_short_ones_are_there(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with Lines() as lines:
        lines.stage("read", None)
        clock[0] = 1.0
        lines.stage("count", None)
        clock[0] = 62.0
        lines.advance(7)
    said = [" ".join(line.split()) for line in capsys.readouterr().err.splitlines()]
    assert said == ["read 1.0 s", "count 61.0 s: 7", "count 61.0 s"]


def test_pace_of_nothing() -> None:
    assert (Pace(0, 10, 0.0).rate, Pace(0, 10, 5.0).left) == (None, None)
    assert str(Pace(0, 0, 5.0)) == "100 %"
    assert Pace(12, 10, 1.0).left == 0.0
