"""A run whose results go to stores: what is published to one, what is confidential to another, and
back with the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from das import spec
from das.engine import Silent
from das.errors import PrivacyError, StoreError, UserError
from das.files import store as store_module
from das.files.run.run_directory import RunDirectory
from das.files.run.store_sync import StoreSync, SyncRecord
from das.files.store import Store
from das.release.verify import statement
from das.runs import pipeline
from das.tools import stores as command
from das.truth import prepared
from tests.commands import Commands
from tests.s3 import S3, Line, running
from tests.worlds import ROOT, Worlds


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with running() as server:
        for name in ("release", "confidential"):
            server.bucket(name)
        yield server


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "PAUSES", ())


def run(worlds: Worlds, out: Path, *, resume: bool = False, **stores: str | None) -> Path:
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    changes = (
        "run.seed=5",
        "output.report=false",
        "geography.spine=tabulation",
        "estimation.method=topdown",
    )
    chosen = spec.parse(text, where="c", overrides=changes)
    pipeline.run(chosen, out, paths=[worlds.data("one thousand")], resume=resume, **stores)
    return out


def finished(worlds: Worlds, out: Path) -> Path:
    """One that went to no store."""
    return worlds.copy(worlds.run("run.seed=1", data="one thousand"), out)


@pytest.fixture(scope="module")
def carried(worlds: Worlds, s3: S3, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is cut into subtrees, in `release/a/run` and `confidential/a`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "LARGEST", 8)
        return run(
            worlds,
            tmp_path_factory.mktemp("carried") / "run",
            store=s3.url("release/a/run"),
            confidential_store=s3.url("confidential/a"),
        )


def files(folder: Path) -> dict[str, bytes]:
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


def test_the_store_has_the_release_byte_by_byte(carried: Path, s3: S3) -> None:
    there = s3.objects("release/a/run")
    assert there == files(carried / "release")
    assert {name.partition("/")[0] for name in there} >= {
        "nmf",
        "microdata",
        "tables",
        "privacy.json",
        "ledger.jsonl",
    }
    assert sum(name.startswith("nmf/Block.parquet/DPQuery") for name in there) >= 3


def test_nothing_confidential_is_in_the_bucket_of_the_release_and_no_key_is_anywhere(
    carried: Path, s3: S3
) -> None:
    published, confidential = s3.objects("release"), s3.objects("confidential")
    secret = files(carried / "confidential") | {
        "manifest.json": (carried / "manifest.json").read_bytes()
    }
    assert not {*map(bytes, secret.values())} & {*published.values()}
    assert all(name.startswith("a/run/") for name in published)
    assert not [n for n in published if "confidential" in n or "truth" in n or "manifest" in n]
    assert {
        n.removeprefix("a/").removeprefix("confidential/"): data for n, data in confidential.items()
    } == secret
    assert not [n for n in {**published, **confidential} if "noise.key" in n]


def test_it_comes_back_verified(carried: Path, s3: S3, tmp_path: Path, commands: Commands) -> None:
    code, _, err = commands.named("store")(
        "pull", s3.url("release/a/run"), tmp_path / "back", "--quiet"
    )
    assert (code, err) == (0, "")
    assert files(tmp_path / "back") == files(carried / "release")
    statement(tmp_path / "back")


def test_status_says_what_is_carried(carried: Path, commands: Commands) -> None:
    code, out, _ = commands.named("run status")(carried)
    assert code == 0
    count = len(files(carried / "release"))
    assert "release/a/run" in out
    assert f": {count} objects, " in out
    assert "the seal among them" in out
    stores = json.loads(commands.named("run status")(carried, "--json")[1])["stores"]
    assert [s["sealed"] for s in stores] == [False, True]


def test_what_was_altered_on_the_way_or_is_not_all_there_leaves_nothing(
    carried: Path, s3: S3, tmp_path: Path
) -> None:
    whole = s3.objects("release/a/run")
    bucket = s3.bucket("altered")
    table = next(n for n in whole if n.startswith("tables/"))
    for name, data in (whole | {table: whole[table] + b"1"}).items():
        s3.put(f"{bucket}/x/{name}", data)
    with pytest.raises(UserError, match=r"altered|computed again"):
        command.pull_release(s3.url(f"{bucket}/x"), tmp_path / "out", Silent())
    s3.put(f"{bucket}/x/{table}", whole[table])
    s3.delete(f"{bucket}/x/privacy.json")
    with pytest.raises(UserError, match=r"no privacy\.json"):
        command.pull_release(s3.url(f"{bucket}/x"), tmp_path / "out", Silent())
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("after", [120_000])
def test_a_connection_that_is_cut_costs_nothing_but_the_rest(
    carried: Path,
    worlds: Worlds,
    s3: S3,
    tmp_path: Path,
    after: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The store has whole objects alone, and no seal; --resume carries what is missing, each object
    once.
    """
    monkeypatch.setattr(prepared, "LARGEST", 8)
    bucket, line, out = s3.bucket(f"line-{after}"), Line(s3.port), tmp_path / "run"
    url = s3.url(f"{bucket}/x", line.port)
    monkeypatch.setattr(Store, "check", lambda self: line.cut_after(None))
    begin = SyncRecord.begin

    def cut(self: SyncRecord, store: Store) -> None:
        if not self.claimed:
            line.cut_after(after)
        begin(self, store)

    monkeypatch.setattr(SyncRecord, "begin", cut)
    with pytest.raises(StoreError, match="cannot be"):
        run(worlds, out, store=url)
    assert line.cuts
    release, there = files(out / "release"), s3.objects(f"{bucket}/x")
    assert there.items() < release.items()
    assert "privacy.json" not in there
    put: list[str] = []
    send = Store.put
    monkeypatch.setattr(
        Store, "put", lambda self, name, path: (put.append(name), send(self, name, path))[1]
    )
    before = set(SyncRecord(RunDirectory(out)).objects_in(url))
    run(worlds, out, resume=True, store=url)
    assert s3.objects(f"{bucket}/x") == release
    assert sorted(put) == sorted(release.keys() - before)
    assert put[-1] == "privacy.json"
    line.close()


def test_a_finished_run_is_carried_later_and_again_for_nothing(
    worlds: Worlds, tmp_path: Path, commands: Commands
) -> None:
    """To a folder of this machine; also what somebody has deleted there."""
    out, push = finished(worlds, tmp_path / "run"), commands.named("store")
    url, own = f"file://{tmp_path}/there", tmp_path / "own"
    own.mkdir(0o755)
    code, _, err = push("push", out, url, f"--confidential-store=file://{own}", "--quiet")
    assert code == 2
    assert "others can read this folder" in err
    assert not list(own.iterdir())
    own.rmdir()
    assert push("push", out, url, f"--confidential-store=file://{own}", "--quiet")[0] == 0
    assert files(tmp_path / "there") == files(out / "release")
    assert {p.stat().st_mode & 0o777 for p in own.rglob("*") if p.is_file()} == {0o600}
    assert {p.stat().st_mode & 0o777 for p in (own, *own.rglob("*")) if p.is_dir()} == {0o700}
    when = {p: p.stat().st_mtime_ns for p in (tmp_path / "there").rglob("*.csv")}
    (tmp_path / "there" / "spec.toml").unlink()
    assert push("push", out, url, "--quiet")[0] == 0
    assert files(tmp_path / "there") == files(out / "release")
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "there").rglob("*.csv")} == when
    other = worlds.run(data="one thousand")
    code, _, err = push("push", worlds.copy(other, tmp_path / "other"), url, "--quiet")
    assert code == 2
    assert "there is something else" in err


@pytest.mark.parametrize(
    "given, said",
    [
        ({"store": "ftp://x"}, "this is no store"),
        ({"store": "s3://nowhere/x"}, "nothing can be written there"),
        (
            {"store": "s3://release/new", "confidential_store": "s3://release/new"},
            "confidential files would be in the release's store",
        ),
        (
            {"store": "s3://release/new", "confidential_store": "s3://release/new/in"},
            "confidential files would be in the release's store",
        ),
        ({"store": "s3://release/a/run"}, "there is something else"),
        ({"confidential_store": "RUN/release/x"}, "lies in the folder of the run"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(
    carried: Path, s3: S3, tmp_path: Path, commands: Commands, given: dict[str, str], said: str
) -> None:
    before = s3.objects("release")
    options = [
        f"--{name.replace('_', '-')}={s3.url(u[5:]) if u.startswith('s3') else u.replace('RUN', f'file://{tmp_path}/run')}"
        for name, u in given.items()
    ]
    code, _, err = commands.named("run")(
        ROOT / "configs" / "pl94-2010.toml",
        "--out",
        tmp_path / "run",
        "--data",
        tmp_path / "none",
        *options,
    )
    assert code == 2
    assert said in err
    assert not (tmp_path / "run").exists()
    assert s3.objects("release") == before


def test_a_noise_key_is_never_carried(tmp_path: Path, worlds: Worlds) -> None:
    out = finished(worlds, tmp_path / "run")
    directory = RunDirectory(out)
    directory.noise_key.write_bytes(b"K" * 32)
    with StoreSync.for_stores(directory, f"file://{tmp_path}/a", f"file://{tmp_path}/b") as sync:
        sync.finish(Silent())
        (directory.release / "noise.key").symlink_to(directory.noise_key)
        with pytest.raises(PrivacyError, match="never copied"):
            sync.released()
        (directory.release / "noise.key").rename(directory.release / "other")
        with pytest.raises(PrivacyError, match="does not belong to the store"):
            sync.released()
    assert b"K" * 32 not in {**files(tmp_path / "a"), **files(tmp_path / "b")}.values()
