"""What ``das run`` prints of a run of the DHC."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from das.cli import dhc_run
from das.files.run.run_directory import RunDirectory
from das.model.not_private import WITHOUT

SENTENCE = "Replacing one record of persons costs rho = 1 (epsilon 9.61)."


@pytest.mark.parametrize("private", [True, False])
def test_a_cost_is_labelled_where_the_run_was_seeded(
    private: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = SimpleNamespace(
        directory=RunDirectory(tmp_path),
        spec=SimpleNamespace(run=SimpleNamespace(private=private)),
        notes=(),
        beside=(),
        was_finished=False,
        seconds=1.0,
        cost=(SENTENCE,),
    )
    dhc_run._say(outcome, as_json=False)  # type: ignore[arg-type]
    before, _, after = capsys.readouterr().out.partition("what a change costs")
    assert SENTENCE in after
    assert SENTENCE not in before
    assert (WITHOUT in after.partition(SENTENCE)[0]) is not private
    assert ("NOT PRIVATE" in before) is not private
