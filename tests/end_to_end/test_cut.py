"""A run that is cut into an upper tree and subtrees: a release like any other, whatever the
partitions and processes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pandas.testing import assert_frame_equal

import das
from das import spec
from das.engine import Silent
from das.engine.choice import EngineChoice
from das.engine.tasks import HandedOver
from das.files.run.run_directory import file_digest
from das.files.run.task_store import TaskStore
from das.model.confidential import Confidential
from das.model.records import Extract, Records
from das.publications.published.public import estimate_from
from das.release import estimating
from das.release.opened import open_release
from das.runs import pipeline
from das.runs.tasks import do
from das.stages import Stages
from das.truth import files, preparation, prepared, readers
from das.truth.assessment import evaluate_run
from tests.commands import Commands
from tests.engine import certificates
from tests.worlds import ROOT, Worlds

LARGEST = 24
#: This many persons of one kind live in a block of one state: the count is unique, wherever it
#: appears.
CANARY = 100_003
#: Both methods and both trees; that any method gives the same on any tree is in
#: tests/estimate/test_subtrees.py.
CHANGES = {
    "topdown": ("geography.spine=tabulation", "estimation.method=topdown"),
    "informed": ("geography.spine=optimized", "estimation.method=full-information"),
}


def run(
    worlds: Worlds,
    out: Path,
    *changes: str,
    engine: EngineChoice | None = None,
    data: str = "two thousand",
    resume: bool = False,
) -> Path:
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    chosen = spec.parse(text, where="c", overrides=["run.seed=5", "output.report=false", *changes])
    pipeline.run(chosen, out, paths=[worlds.data(data)], engine=engine, resume=resume)
    return out


@pytest.fixture(scope="module")
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "LARGEST", LARGEST)
        patch.setattr(preparation, "read", read_with_canary)
        yield


def read_with_canary(reader: str, paths: Sequence[Path], *args: Any, **how: Any) -> Extract:
    extract = readers.read(reader, paths, *args, **how)
    if "nj" not in paths[0].name or extract.blocks.structures is None:
        return extract
    held, block = (
        extract.persons.open("to plant a canary"),
        extract.blocks.structures[:, 0].argmax(),
    )
    planted = [
        np.append(a, x) for a, x in ((held.block, block), (held.cell, 7), (held.count, CANARY))
    ]
    return replace(extract, persons=Confidential(Records(held.schema, *planted)))


@pytest.fixture(scope="module", params=list(CHANGES))
def made(
    request: pytest.FixtureRequest,
    worlds: Worlds,
    small: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    return run(worlds, tmp_path_factory.mktemp(request.param) / "run", *CHANGES[request.param])


def results(out: Path) -> dict[str, str]:
    """Digests of everything that a run has measured and published, except times."""
    release = out / "release"
    skipped = {"manifest.json", "privacy.json", "privacy.html", "report.html"}
    return {
        str(p.relative_to(release)): file_digest(p)
        for p in sorted(release.rglob("*"))
        if p.is_file() and p.name not in skipped
    }


def test_it_is_cut_and_nothing_of_the_work_is_left(made: Path) -> None:
    names = {
        p.name.split("-")[1]
        for p in (made / "release" / "nmf" / "Block.parquet" / "DPQuery").rglob("*.parquet")
    }
    assert len(names) >= 3
    assert not (made / "work").exists()
    assert not (made / "confidential" / "work").exists()
    assert not list(made.rglob("*.tmp"))


def test_what_is_published_is_what_the_whole_tree_gives(made: Path, tmp_path: Path) -> None:
    """From the same measurements, estimated in one piece."""
    opened = open_release(made / "release")
    (tmp_path / "release").mkdir()
    for name in ("privacy.json", "ledger.jsonl", "spine.parquet", "areas.parquet", "spec.toml"):
        if (made / "release" / name).exists():
            (tmp_path / "release" / name).write_bytes((made / "release" / name).read_bytes())
    for folder in ("nmf", "nmf-housing"):
        (tmp_path / "release" / folder).symlink_to(made / "release" / folder)
    opened = replace(opened, folder=tmp_path / "release")
    estimating._whole(opened, EngineChoice(), Stages(), Silent())
    for path in sorted((tmp_path / "release" / "tables").glob("*.csv")):
        assert path.read_text() == (made / "release" / "tables" / path.name).read_text(), path.name
    for kind in ("persons", "units"):
        a, b = (das.read_microdata(f / "release" / "microdata" / kind) for f in (tmp_path, made))
        assert (a.dtypes.map(str) == b.dtypes.map(str)).all()
        assert_frame_equal(
            a.astype("str"), b.astype("str")
        )  # the categories of a column are those of its file
    a, b = (
        json.loads((f / "release" / "worse-than-measured.json").read_text())
        for f in (tmp_path, made)
    )
    assert a == b


def test_its_errors_are_those_of_the_whole(made: Path, tmp_path: Path) -> None:
    folder = made / "confidential" / "evaluation"
    kept = {p.name: p.read_text().splitlines() for p in folder.glob("*.csv")}
    evaluate_run(made)
    for name, lines in kept.items():
        again = (folder / name).read_text().splitlines()
        assert len(again) == len(lines), name
        for a, b in zip(sorted(lines), sorted(again), strict=True):
            for x, y in zip(a.split(","), b.split(","), strict=True):
                try:
                    assert float(x) == pytest.approx(float(y), rel=1e-9), (a, b)
                except ValueError:
                    assert x == y, (a, b)


def test_any_partitions_and_workers_give_the_same(
    made: Path, request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path
) -> None:
    changes = CHANGES[made.parent.name.rstrip("0123456789")]
    if "full-information" not in changes[1]:
        pytest.skip("once is enough: the one that has most messages")
    again = run(worlds, tmp_path / "again", *changes, engine=EngineChoice(workers=2, size=24))
    assert results(again) == results(made)


def test_it_is_verified_and_estimated_again(made: Path, tmp_path: Path) -> None:
    outcome = estimate_from(made / "release", tmp_path / "again")
    assert results(outcome.directory.root) == results(made)


@pytest.fixture
def plain(made: Path) -> Path:
    if not made.parent.name.startswith("topdown"):
        pytest.skip("once is enough")
    return made


def test_jobs_in_any_order_make_the_same(plain: Path, worlds: Worlds, tmp_path: Path) -> None:
    """The main process ends at every stage and goes on when its tasks are done, one of them
    twice.
    """
    out, order = tmp_path / "run", random.Random(3)
    stages: list[str] = []
    while not (out / "manifest.json").exists():
        try:
            run(
                worlds,
                out,
                *CHANGES["topdown"],
                engine=EngineChoice("array", size=48),
                resume=bool(stages),
            )
        except HandedOver:
            task_store = TaskStore(out)
            left = [t for s in task_store.stages() for t in task_store.left(s)]
            stages.append(left[0].stage)
            for task in order.sample(left + left[:1], len(left) + 1):
                do(out, task.stage, task.partition)
    assert stages == ["measure", "collect", "subtrees", "evaluate"]
    assert results(out) == results(plain)


def test_a_cluster_that_loses_a_worker_makes_the_same_and_is_told_nothing_of_the_truth(
    plain: Path,
    worlds: Worlds,
    tmp_path: Path,
    commands: Commands,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is measured again is the same draw: the ledger has it once, and its digests are those of
    the files.

    Counts of the truth are in no message of the cluster, no log, no folder of its workers; where
    one is put there, it is found."""
    pytest.importorskip("distributed", reason="the extra [dask] is not installed")
    from tests.engine import cluster as clusters

    monkeypatch.setenv("DASK_LOGGING__DISTRIBUTED", "info")
    tls = certificates.write(tmp_path / "tls")
    with clusters.cluster(tls) as workers, clusters.recorded() as frames:
        with clusters.killing(workers, 1) as killed:
            choice = EngineChoice("dask", scheduler=workers.scheduler_address, tls=tls, size=48)
            out = run(worlds, tmp_path / "run", *CHANGES["topdown"], engine=choice)
        quiet = clusters.places(workers, choice, frames, capfdbinary)
        clusters.betray(
            choice,
            files.read(out / "confidential" / "truth" / "persons.parquet")
            .open("to betray it")
            .count,
        )
        loud = clusters.places(workers, choice, frames, capfdbinary)
    for stage in (b"measure", b"collect", b"subtrees", b"evaluate"):
        assert b"das-%s-0000" % stage in quiet["traffic"]
    assert "Registered to" in quiet["logs"].decode()
    assert {name for name, told in quiet.items() if clusters.tells(told, CANARY)} == set()
    assert {name for name, told in loud.items() if clusters.tells(told, CANARY)} == {
        "traffic",
        "logs",
        "folders",
    }
    assert killed
    assert results(out) == results(plain)
    draws, once = (
        sorted(
            x
            for x in (f / "release" / "ledger.jsonl").read_text().splitlines()
            if x.startswith('{"draw"')
        )
        for f in (out, plain)
    )
    assert draws
    assert draws == once
    code, _, err = commands.named("account")("verify", out)
    assert (code, err) == (0, "")
