"""A cut run that stops between whichever two steps goes on to the same release; what cannot be had
again is said, and counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das import spec
from das.engine.choice import EngineChoice
from das.engine.tasks import HandedOver
from das.errors import PrivacyError, ReleaseError, UserError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, file_digest
from das.files.run.task_store import TaskStore
from das.noise import samplers as answers
from das.release import by_subtree, verify
from das.runs import pipeline
from das.runs.tasks import do
from das.truth import by_subtree as truth_by_subtree
from das.truth import prepared
from tests.end_to_end.test_cut import results
from tests.stopped import Killed, Step, left_over
from tests.worlds import ROOT, Worlds

ONE_EACH = EngineChoice(size=1)  # a task has one subtree
OTHERS = EngineChoice("array", size=1)
SEED, FORGETFUL = "run.seed=5", "run.entropy=forgetful"


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "LARGEST", 8)
        yield


def chosen(*changes: str) -> spec.RunSpec:
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    more = [
        "output.report=false",
        "geography.spine=tabulation",
        "estimation.method=full-information",
    ]
    return spec.parse(text, where="c", overrides=[*more, *changes])


def go(
    worlds: Worlds, out: Path, *changes: str, engine: EngineChoice = ONE_EACH, **how: Any
) -> Path:
    pipeline.run(chosen(*changes), out, paths=[worlds.data("one thousand")], engine=engine, **how)
    return out


def stopped(worlds: Worlds, out: Path, *changes: str, at: Step, **how: Any) -> Path:
    """The run, or more of it, until ``at``."""
    with pytest.MonkeyPatch.context() as patch:
        at.arm(patch)
        with pytest.raises(Killed):
            go(worlds, out, *changes, **how)
    return out


@pytest.fixture(scope="module")
def whole(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that nothing stopped."""
    return go(worlds, tmp_path_factory.mktemp("whole") / "run", SEED)


def evaluated(out: Path) -> dict[str, str]:
    return {p.name: file_digest(p) for p in sorted((out / "confidential" / "evaluation").iterdir())}


def check_same(out: Path, whole: Path) -> None:
    """``out`` is the release, evaluated as ``whole`` is; its manifest lists what there is."""
    assert results(out) == results(whole)
    assert evaluated(out) == evaluated(whole)
    assert left_over(out) == []
    directory = RunDirectory(out)
    assert directory.read_manifest()["outputs"] == directory.digests()
    verify.check(out / "release")


# --- what is not as it was left
# -----------------------------------------------------------------------------------


def test_noise_that_differs_between_two_attempts_stops_the_run(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever process noticed it, and however often the run is resumed."""
    with pytest.raises(HandedOver):
        go(worlds, tmp_path, engine=OTHERS)
    tasks, real = TaskStore(tmp_path).tasks("measure"), answers._noise
    for task in tasks:
        do(tmp_path, "measure", task.partition)
    monkeypatch.setattr(answers, "_noise", lambda *args: real(*args) + 1)
    with pytest.raises(PrivacyError, match="PrivacyError in a task that sees the truth"):
        do(tmp_path, "measure", tasks[1].partition)
    monkeypatch.undo()
    monkeypatch.setattr(prepared, "LARGEST", 8)
    for engine in (OTHERS, ONE_EACH):
        with pytest.raises(PrivacyError, match="two attempts of a task gave different answers"):
            go(worlds, tmp_path, engine=engine, resume=True)
    assert not (tmp_path / "release" / "privacy.json").exists()


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def test_what_is_torn_is_made_again(worlds: Worlds, whole: Path, tmp_path: Path) -> None:
    """Answers of tasks, and what tasks have told each other; of every stage, in one run."""
    out = tmp_path / "run"
    after = {
        "measure": (Step(LedgerFile, "close"), ["confidential/work/sums/00003.npz"]),
        "collect": (Step(by_subtree, "_estimated"), ["work/messages/00002.npz"]),
        "subtrees": (
            Step(by_subtree, "merge"),
            ["work/published/00001.npz", "work/tables/P1_Block/00004.csv"],
        ),
        "evaluate": (Step(truth_by_subtree, "write"), ["confidential/work/tallies/00002.npz"]),
    }
    for i, (stage, (step, paths)) in enumerate(after.items()):
        stopped(worlds, out, SEED, at=step, resume=i > 0)
        for path in paths:
            torn(out / path)
        answers = next(out.glob(f"**/work/{stage}/answers"))
        torn(sorted(answers.iterdir())[-1])
    go(worlds, out, SEED, resume=True)
    check_same(out, whole)


def test_measurements_that_are_torn_before_they_are_acknowledged_are_measured_again(
    worlds: Worlds, tmp_path: Path
) -> None:
    """The same, at no cost; one that is lost between that and the end of measuring stops the
    run.
    """
    out = stopped(worlds, tmp_path / "run", at=Step(LedgerFile, "acknowledge"))
    path = min((out / "release" / "nmf" / "Block.parquet" / "DPQuery").rglob("*.parquet"))
    before = path.read_bytes()
    torn(path)
    real = LedgerFile.acknowledge

    def tears(self: LedgerFile, parts: Any, **how: Any) -> None:
        if not self.entries.standing(("persons", "Block")):
            assert path.read_bytes() == before
            torn(path)
        real(self, parts, **how)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LedgerFile, "acknowledge", tears)
        with pytest.raises(ReleaseError, match="not those that the ledger says"):
            go(worlds, out, resume=True)
    assert not LedgerFile(out / "release" / "ledger.jsonl").entries.closed


def test_a_truth_that_is_altered_while_tasks_are_done_is_not_measured(
    worlds: Worlds, tmp_path: Path
) -> None:
    with pytest.raises(HandedOver):
        go(worlds, tmp_path, engine=OTHERS)
    path = tmp_path / "confidential" / "truth" / "persons.parquet" / "part-00002.parquet"
    table = pq.read_table(path)
    counts = table["count"].to_numpy().copy()
    counts[0] += 1
    pq.write_table(table.set_column(2, "count", pa.array(counts)), path)
    task_store = TaskStore(tmp_path.resolve())
    for task in task_store.tasks("measure"):
        if task.subtrees[0] == 2:
            with pytest.raises(ReleaseError):
                do(tmp_path, "measure", task.partition)
            assert "not those that this run began with" in task_store.fault(task).what  # type: ignore[union-attr]
    with pytest.raises(
        UserError, match="the true counts of persons are not those that this run began with"
    ):
        go(worlds, tmp_path, engine=OTHERS, resume=True)


# --- what cannot be drawn again
# ------------------------------------------------------------------------------------


def cost() -> Fraction:
    return sum((u.plan.cost for u in chosen().universes), Fraction(0))


def test_noise_that_cannot_be_drawn_again_is_refused_and_counted(
    worlds: Worlds, tmp_path: Path
) -> None:
    """A stage with a missing part is drawn again as a whole: all stages, while subtrees are
    measured. In the resumed run, it is the stage of the upper tree that was being drawn. (A run
    whose key is gone: tests/contract/test_interruption.py.)"""
    out, how, lost = tmp_path / "run", dict[str, Any](), list[tuple[tuple[str, str], Fraction]]()
    for calls, number in ((6, 12), (14, 1)):
        stopped(worlds, out, FORGETFUL, at=Step(truth_by_subtree, "measure_part", calls), **how)
        before, entries = results(out), LedgerFile(out / "release" / "ledger.jsonl").entries
        gone = {stage: last for stage, last in entries.last().items() if not entries.whole(stage)}
        assert len(gone) == number
        with pytest.raises(UserError, match=r"(?s)cannot be drawn again.*--accept-spent"):
            go(worlds, out, FORGETFUL, resume=True)
        assert results(out) == before
        lost += [
            (stage, sum((e.cost for e in last.events), Fraction(0))) for stage, last in gone.items()
        ]
        how = {"resume": True, "accept_spent": True}
    go(worlds, out, FORGETFUL, **how)
    said = verify.statement(out / "release")
    assert {(x.universe, x.level) for x in said.lost} == {stage for stage, _ in lost}
    assert sum(cost for _, cost in lost[:12]) == cost()
    assert (
        said.total
        == cost() + sum(cost for _, cost in lost)
        == cost() + sum((x.cost for x in said.lost), Fraction(0))
    )
    assert left_over(out) == []
    verify.check(out / "release")
