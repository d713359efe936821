"""What a stage of measuring leaves when it is refused before its first draw."""

from __future__ import annotations

from pathlib import Path

import pytest

from das import spec
from das.engine import Silent
from das.engine.local import LocalEngine
from das.errors import PrivacyError
from das.files.run.run_directory import RunDirectory
from das.stages import Stages
from das.truth import by_subtree, run_setup
from das.truth.preparation import prepare
from das.truth.prepared import Prepared
from das.truth.run_setup import ResumeState
from tests.spec.test_parse import BASE
from tests.told import Told
from tests.worlds import Worlds

SPEC = spec.parse(BASE, where="c", overrides=("run.seed=1",))


@pytest.fixture
def prepared(worlds: Worlds) -> Prepared:
    return prepare(SPEC, [worlds.data("one thousand")], Stages(), Silent())


def test_a_run_tells_how_far_the_reading_is(worlds: Worlds) -> None:
    """The display of a run is what its reader tells of its progress."""
    told = Told()
    prepare(SPEC, [worlds.data("one thousand")], Stages(), told)
    reading = [s for s in told.stages if s[1] is not None]
    assert reading
    assert all(name.startswith("read ") and 0 < total == done for name, total, done in reading)


@pytest.mark.parametrize("at", [0, 1])
def test_a_histogram_of_something_else_leaves_nothing(
    prepared: Prepared, at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No line that it begins, no draw, no key, no file, at the first level and at one with others
    before it.
    """
    levels = prepared.spine.levels
    truth = prepared.truth["persons"]
    other = next(
        lv for lv in levels if prepared.spine.units(lv) != prepared.spine.units(levels[at])
    )
    run = RunDirectory(tmp_path / "run")
    run_setup.begin(SPEC, prepared, run)
    wrong = {**truth, levels[at]: truth[other]}
    monkeypatch.setattr(by_subtree, "upward", lambda *_: wrong)
    with pytest.raises(PrivacyError, match="not one of this level and schema"):
        by_subtree.measure_release(SPEC, ResumeState.read(run), run, LocalEngine(), 1, Silent())
    assert not run.ledger.exists()
    assert not run.noise_key.exists()
    assert not list(run.release.glob("nmf*/*/DPQuery"))
