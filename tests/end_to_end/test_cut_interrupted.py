"""A cut run that stops between whichever two steps goes on to the same release; what cannot be had again is said, and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from das import pipeline, spec
from das.engine.choice import EngineChoice
from das.files.run import noise_key
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, file_digest
from das.release import by_shard, estimating, verify
from das.truth import by_shard as truth_by_shard
from das.truth import prepared
from tests.end_to_end.test_cut import results
from tests.worlds import ROOT, Worlds

ONE_EACH = EngineChoice(size=1)  # a task has one shard
SEED = "run.seed=5"


class Killed(BaseException):
    """As if the process had been: no step of ours catches it."""


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "LARGEST", 8)
        yield


def chosen(*changes: str) -> spec.RunSpec:
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    more = ["output.report=false", "geography.spine=tabulation", "estimation.method=full-information"]
    return spec.parse(text, where="c", overrides=[*more, *changes])


def go(worlds: Worlds, out: Path, *changes: str, engine: EngineChoice = ONE_EACH, **how: Any) -> Path:
    pipeline.run(chosen(*changes), out, paths=[worlds.data("one thousand")], engine=engine, **how)
    return out


def stopped(worlds: Worlds, out: Path, *changes: str, at: Step, **how: Any) -> Path:
    """The run, or more of it, until ``at``."""
    with pytest.MonkeyPatch.context() as patch:
        at.arm(patch)
        with pytest.raises(Killed):
            go(worlds, out, *changes, **how)
    return out


class Step:
    """Where a run is stopped: before a function is called for the ``n``-th time."""

    def __init__(self, owner: Any, name: str, n: int = 1) -> None:
        self.owner, self.name, self.left = owner, name, n

    def arm(self, patch: pytest.MonkeyPatch) -> None:
        real: Callable[..., Any] = getattr(self.owner, self.name)

        def counted(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if not self.left:
                raise Killed
            return real(*args, **named)

        patch.setattr(self.owner, self.name, counted)


def steps() -> list[Step]:
    """In the order in which a run comes to them; in those of tasks something is done when they come."""
    return [
        Step(truth_by_shard, "planned"),
        Step(LedgerFile, "begin", 3),
        Step(truth_by_shard, "measure_part", 12),
        Step(LedgerFile, "acknowledge", 2),
        Step(LedgerFile, "close"),
        Step(noise_key, "delete"),
        Step(truth_by_shard, "seal"),
        Step(by_shard, "_told", 3),
        Step(by_shard, "_estimated", 2),
        Step(by_shard, "_publish", 3),
        Step(by_shard.microdata, "publish_parts", 2),
        Step(by_shard.table_columns, "join", 9),
        Step(estimating, "_described"),
        Step(truth_by_shard, "tally", 3),
        Step(truth_by_shard, "write"),
        Step(RunDirectory, "write_manifest"),
    ]


@pytest.fixture(scope="module")
def whole(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that nothing stopped."""
    return go(worlds, tmp_path_factory.mktemp("whole") / "run", SEED)


def left_over(out: Path) -> list[str]:
    """What belongs to a run that is under way."""
    names = ("work", "confidential/work", "confidential/noise.key", "confidential/claimed")
    return [n for n in names if (out / n).exists()] + [str(p) for p in out.rglob(".*")]


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


def test_stopped_at_every_step_it_is_the_same_release(worlds: Worlds, whole: Path, tmp_path: Path) -> None:
    """One run, stopped again and again; what a task has done is not done again."""
    out = tmp_path / "run"
    for i, step in enumerate(steps()):
        stopped(worlds, out, SEED, at=step, resume=i > 0)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("collect", "branch"):
            patch.setattr(by_shard, name, lambda _: pytest.fail("it was done"))
        for name in ("measure", "evaluate"):
            patch.setattr(truth_by_shard, name, lambda _: pytest.fail("it was done"))
        go(worlds, out, SEED, resume=True)
    check_same(out, whole)
    assert (out / "release" / "ledger.jsonl").read_bytes() == (whole / "release" / "ledger.jsonl").read_bytes()
