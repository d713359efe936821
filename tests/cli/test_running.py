"""What ``das run`` prints of a run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from das.cli import running
from das.cli.options import Stores
from das.files.run.run_directory import RunDirectory
from das.model.not_private import WITHOUT
from das.release.outcome import Outcome

SENTENCE = "Replacing one record of persons costs rho = 1 (epsilon 9.61)."


@pytest.mark.parametrize("private", [True, False])
def test_a_cost_is_labelled_where_the_run_was_seeded(
    private: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = Outcome(RunDirectory(tmp_path), 1.0, cost=(SENTENCE,))
    spec = SimpleNamespace(run=SimpleNamespace(private=private), publication=lambda: "dhc")
    running.show(spec, outcome, Stores(), show_errors=False, as_json=False)  # type: ignore[arg-type]
    before, _, after = capsys.readouterr().out.partition("what a change costs")
    assert SENTENCE in after
    assert SENTENCE not in before
    assert (WITHOUT in after.partition(SENTENCE)[0]) is not private
    assert ("NOT PRIVATE" in before) is not private
