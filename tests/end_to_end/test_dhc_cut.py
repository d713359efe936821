"""A DHC that is cut into an upper tree and subtrees: a release like any other, whatever the
partitions and processes."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das import spec
from das.engine import Silent
from das.engine.choice import EngineChoice
from das.engine.enclosed import EnclosedProcess
from das.engine.tasks import HandedOver
from das.errors import InputError, PrivacyError, ReleaseError, UserError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.files.run.task_store import TaskStore
from das.publications.dhc.release import open_dhc
from das.publications.dhc.spec import DhcSpec
from das.publications.dhc.truth import by_subtree
from das.publications.dhc.truth import maker as making
from das.publications.dhc.truth.oracle import Oracle
from das.publications.published.public import estimate_from
from das.release import verify
from das.runs import pipeline
from das.runs.protocol import RunInput
from das.runs.tasks import do
from das.stages import Stages
from das.truth import prepared
from tests.commands import Commands
from tests.end_to_end.test_cut import results
from tests.engine import certificates
from tests.stopped import Killed, Step, left_over
from tests.worlds import ROOT, Worlds

SEED, DATA = "run.seed=1", "one thousand"
ONE_EACH = EngineChoice(size=1)  # a task has one subtree
OTHERS = EngineChoice("array", size=1)
#: Cut at the counties, one of which is one tract: what it asks of that is asked of its subtree.
COUNTIES = 16


def go(
    worlds: Worlds,
    out: Path,
    *changes: str,
    engine: EngineChoice = ONE_EACH,
    data: str = DATA,
    largest: int = COUNTIES,
    **how: Any,
) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "LARGEST", largest)
        specified = chosen(worlds, *changes, data=data)
        pipeline.run(specified, out, paths=[worlds.linked(data)], engine=engine, **how)
    return out


def chosen(worlds: Worlds, *changes: str, data: str = DATA) -> DhcSpec:
    text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
    earlier = worlds.run(*(c for c in changes if c == SEED), data=data)
    every = [f"constraints.from={earlier}", "output.report=false", *changes]
    return spec.of_kind(DhcSpec, spec.load(text, where="c", overrides=every), "c")


@pytest.fixture(scope="module")
def made(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return go(worlds, tmp_path_factory.mktemp("cut") / "run", SEED)


def check_whole(out: Path, to: Path) -> None:
    """What is published is what the whole tree gives, estimated in one piece from the same
    measurements; and it is verified."""
    assert results(estimate_from(out / "release", to).directory.root) == results(out)
    verify.check(out / "release")
    assert left_over(out) == []


def test_it_is_what_the_whole_tree_gives(made: Path, tmp_path: Path) -> None:
    opened = open_dhc(made / "release")
    tracts = np.diff(opened.spine.children("Tract"))
    assert (opened.cut.level, len(opened.cut), tracts.tolist()) == ("County", 2, [2, 1])
    check_whole(made, tmp_path / "again")


def test_a_prior_by_county_is_refused_where_counties_are_cut(
    worlds: Worlds, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="cut below, at Block_Group"):
        go(worlds, tmp_path / "run", SEED, "estimation.prior=shares", largest=8)
    assert not (tmp_path / "run").exists()


def test_of_an_only_child_the_upper_tree_asks_and_its_subtree_writes_it_down(
    worlds: Worlds, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without that, nobody could estimate from the release what the run has."""
    opened, u = open_dhc(made / "release"), open_dhc(made / "release").spec.universe("persons")
    assert 2 in opened.source(u).read("Tract", "detailed").unit
    monkeypatch.setattr(by_subtree.SubtreeOracle, "ask", lambda *_: None)
    out = go(worlds, tmp_path / "run", SEED)
    with pytest.raises(InputError, match="were not measured"):
        estimate_from(out / "release", tmp_path / "again")


def test_wherever_it_is_cut_jobs_in_any_order_make_the_same(worlds: Worlds, tmp_path: Path) -> None:
    """The main process ends at every stage and goes on when its tasks are done, one of them
    twice.
    """
    out, order, stages = tmp_path / "run", random.Random(3), list[str]()
    while not (out / "manifest.json").exists():
        try:
            go(worlds, out, SEED, engine=OTHERS, resume=bool(stages), largest=8)
        except HandedOver:
            task_store = TaskStore(out)
            left = [t for s in task_store.stages() for t in task_store.left(s)]
            stages.append(left[0].stage)
            for task in order.sample(left + left[:1], len(left) + 1):
                do(out, task.stage, task.partition)
    universes = ("persons", "units", "households")
    assert stages == [f"{s}.{u}.1" for u in universes for s in ("ask", "subtrees-dhc")]
    assert open_dhc(out / "release").cut.level == "Block_Group"
    check_whole(out, tmp_path / "again")


def test_a_cluster_makes_what_one_process_makes(
    worlds: Worlds, made: Path, tmp_path: Path, commands: Commands
) -> None:
    """By a worker that may see the truth: every task of the DHC does. That a worker is lost is
    tested in ``test_cut``: the engine does not know whose task it was."""
    pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    from tests.engine import cluster as clusters

    tls = certificates.write(tmp_path / "tls")
    with clusters.cluster(tls, plain=0) as workers:
        choice = EngineChoice("dask", scheduler=workers.scheduler_address, tls=tls, size=1)
        out = go(worlds, tmp_path / "run", SEED, engine=choice)
    assert results(out) == results(made)
    assert commands.named("account")("verify", out)[0] == 0


def test_what_a_worker_takes_is_said_before_the_run(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepared, "LARGEST", COUNTIES)
    given = RunInput([worlds.linked(DATA)])
    (said,) = making.DhcMaker(chosen(worlds, SEED), given).outlook(Stages(), Silent()).says
    assert said.startswith(
        "the run is cut into 2 subtrees of up to 16 blocks: a worker takes about"
    )


# --- the wall
# ------------------------------------------------------------------------------------------------


def test_an_estimator_that_dies_stops_the_run_which_goes_on_with_the_same_answers(
    worlds: Worlds, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the upper tree, and in a task; nothing of it is in the release."""
    out, real = tmp_path / "run", EnclosedProcess.receive

    def killing(at: int) -> None:
        left = iter(range(at))

        def receive(self: EnclosedProcess) -> Any:
            if next(left, None) is None:
                os.kill(self.pid, signal.SIGKILL)
            return real(self)

        monkeypatch.setattr(EnclosedProcess, "receive", receive)

    for i, (at, where) in enumerate([(0, "sees the truth"), (3, "signal 9")]):
        killing(at)
        with pytest.raises(UserError, match=where):
            go(worlds, out, SEED, resume=i > 0)
        assert not list((out / "release").glob("nmf*/*.parquet/DPQuery/**/part-*"))
    monkeypatch.setattr(EnclosedProcess, "receive", real)
    go(worlds, out, SEED, resume=True)
    assert results(out) == results(made)
    assert left_over(out) == []


# --- what stops it
# ------------------------------------------------------------------------------------------------


def stopped(worlds: Worlds, out: Path, *changes: str, at: Step, **how: Any) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        at.arm(patch)
        with pytest.raises(Killed):
            go(worlds, out, *changes, **how)
    return out


def steps() -> Iterator[Step]:
    """In the order in which a run comes to them. Where a run that is cut does what a whole one does,
    it is stopped in tests/contract."""
    yield Step(LedgerFile, "begin", 3)
    yield Step(Oracle, "known_below", 2)
    yield Step(by_subtree._OfSubtrees, "part")
    yield Step(by_subtree, "written", 2)
    yield Step(by_subtree.DhcSubtrees, "_joined")
    yield Step(LedgerFile, "acknowledge")
    yield Step(Oracle, "known_below", 1)
    yield Step(LedgerFile, "acknowledge", 2)
    yield Step(RunDirectory, "write_manifest")


def test_stopped_at_every_step_it_is_the_same_release(
    worlds: Worlds, made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    for i, step in enumerate(steps()):
        stopped(worlds, out, SEED, at=step, resume=i > 0)
    go(worlds, out, SEED, resume=True)
    assert results(out) == results(made)
    assert left_over(out) == []
    verify.check(out / "release")
    assert (out / "release" / "ledger.jsonl").read_bytes() == (
        made / "release" / "ledger.jsonl"
    ).read_bytes()


def test_without_its_key_all_of_a_universe_is_counted_again_and_tasks_of_before_are_refused(
    worlds: Worlds, tmp_path: Path
) -> None:
    """Answers of the first attempt are of another key: none of them is gone on with."""
    with pytest.raises(HandedOver):
        go(worlds, tmp_path, engine=OTHERS)
    (task, *_) = TaskStore(tmp_path).tasks("ask.persons.1")
    do(tmp_path, task.stage, task.partition)
    (tmp_path / "confidential" / "noise.key").unlink()
    with pytest.raises(UserError, match=r"(?s)cannot be drawn again.*--accept-spent"):
        go(worlds, tmp_path, resume=True)
    with pytest.raises(HandedOver):
        go(worlds, tmp_path, engine=OTHERS, resume=True, accept_spent=True)
    levels = open_dhc(tmp_path / "release").spine.levels
    assert TaskStore(tmp_path).stages() == [task.stage, f"ask.persons.{1 + len(levels)}"]
    with pytest.raises(PrivacyError):
        do(tmp_path, task.stage, TaskStore(tmp_path).tasks(task.stage)[1].partition)
    go(worlds, tmp_path, resume=True)
    said = verify.statement(tmp_path / "release")
    plans = [u.plan.cost for u in open_dhc(tmp_path / "release").spec.universes]
    assert sum((x.cost for x in said.lost), Fraction(0)) == sum(plans, Fraction(0))
    assert said.total == 2 * sum(plans, Fraction(0))
    verify.check(tmp_path / "release")


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
    task_store, stage = TaskStore(tmp_path.resolve()), "ask.persons.1"
    (task,) = (t for t in task_store.tasks(stage) if t.subtrees[0] == 2)
    with pytest.raises(ReleaseError):
        do(tmp_path, stage, task.partition)
    assert "not those that this run began with" in task_store.fault(task).what  # type: ignore[union-attr]
    with pytest.raises(UserError, match="the true counts of persons are not those"):
        go(worlds, tmp_path, engine=OTHERS, resume=True)
