"""The folders of a run: what may be published apart from what may not, and nothing overwritten."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from das.errors import ReleaseError, SpecError, UserError
from das.files import atomic
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from tests.worlds import Worlds


@pytest.mark.parametrize("mask", [0o022, 0o000, 0o077])
def test_the_confidential_folder_is_its_owners_alone(tmp_path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        RunDirectory(tmp_path / "a" / "run").create()
    finally:
        os.umask(before)
    assert (tmp_path / "a" / "run" / "confidential").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "a" / "run" / "release").is_dir()


def test_a_run_without_truth_has_no_confidential_folder(tmp_path: Path) -> None:
    RunDirectory(tmp_path / "run").create(confidential=False)
    assert [p.name for p in (tmp_path / "run").iterdir()] == ["release"]


def test_an_empty_folder_may_be_used_and_a_full_one_never(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    RunDirectory(tmp_path / "run").create()
    for again in (
        RunDirectory(tmp_path / "run").create,
        RunDirectory(tmp_path / "run").refuse_if_taken,
    ):
        with pytest.raises(UserError, match="not empty") as caught:
            again()
        assert caught.value.exit_code == 2
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / ".keep").touch()
    with pytest.raises(UserError, match="not empty"):
        RunDirectory(tmp_path / "hidden").create()


def test_a_file_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="--out"):
            RunDirectory(root).create()
    assert (tmp_path / "file").read_text() == "mine"


def test_digests_are_those_of_the_files(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.create()
    (directory.release / "deep").mkdir()
    (directory.release / "deep" / "b.bin").write_bytes(b"\x00\x01")
    (directory.release / "a.txt").write_text("a")
    got = directory.digests()
    for name, content in (("release/a.txt", b"a"), ("release/deep/b.bin", b"\x00\x01")):
        assert got[name] == hashlib.sha256(content).hexdigest()


def test_persons_are_in_nmf_and_others_beside_it(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    assert directory.nmf("persons") == tmp_path / "release" / "nmf"
    assert directory.nmf("housing").parent == tmp_path / "release"
    assert directory.nmf("housing") != directory.nmf("persons")


def test_a_file_is_whole_or_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "new" / "x.json"
    atomic.write_json(path, {"name": "Zürich", "n": 1})
    assert json.loads(path.read_text(encoding="utf-8")) == {"name": "Zürich", "n": 1}
    with pytest.raises(TypeError):
        atomic.write_json(path, {"n": object()})
    with pytest.raises(UnicodeEncodeError):
        atomic.write_text(path, "\ud800")
    assert run_directory.read_json(path)["n"] == 1


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b'"text"'])
def test_a_manifest_that_is_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(ReleaseError, match=r"manifest\.json") as caught:
        RunDirectory(tmp_path).read_manifest()
    assert "finished run" in str(caught.value)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"manifest\.json"):
        RunDirectory(tmp_path / "none").read_manifest()


def test_text_that_a_user_names(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no such configuration"):
        run_directory.read_text(tmp_path / "none.toml", "configuration")
    (tmp_path / "latin").write_bytes(b"\xe9t\xe9")
    with pytest.raises(SpecError, match="cannot be read"):
        run_directory.read_text(tmp_path / "latin", "configuration")
    with pytest.raises(SpecError, match="cannot be read"):
        run_directory.read_text(tmp_path, "configuration")


def test_one_process_at_a_time_holds_a_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.create()
    with (
        run.lock(),
        pytest.raises(UserError, match="another process") as caught,
        RunDirectory(run.root).lock(),
    ):
        pass
    assert caught.value.exit_code == 2
    with run.lock():  # it was let go of
        pass


@pytest.mark.parametrize("mark", ["ledger.jsonl", "privacy.json"])
def test_nothing_confidential_goes_under_a_release(tmp_path: Path, mark: str) -> None:
    release = tmp_path / "run" / "release"
    release.mkdir(parents=True)
    for name in ("spec.toml", mark):
        (release / name).touch()
    for make in (
        RunDirectory(release / "a" / "b").create,
        lambda: run_directory.create_private(release),
    ):
        with pytest.raises(UserError, match=r"in the release .* may be published"):
            make()
    assert sorted(p.name for p in release.iterdir()) == sorted(["spec.toml", mark])
    RunDirectory(tmp_path / "run" / "beside").create()


def test_json_too_deep_to_read(tmp_path: Path) -> None:
    (tmp_path / "privacy.json").write_text("[" * 100_000)
    with pytest.raises(ReleaseError, match="cannot be read"):
        run_directory.read_json(tmp_path / "privacy.json")


@pytest.mark.parametrize("publication", ["counts", "demographic"])
def test_all_that_a_run_keeps_of_the_truth_is_its_owners_alone(
    worlds: Worlds, publication: str
) -> None:
    """Each file by itself, so that a copy of the folder keeps it too."""
    run = (
        worlds.dhc()
        if publication == "demographic"
        else worlds.run("run.seed=1", data="one thousand")
    )
    found = {p: p.stat().st_mode & 0o777 for p in (run / "confidential").rglob("*")}
    assert len(found) > 5
    assert {mode for p, mode in found.items() if p.is_file()} == {0o600}
    assert {mode for p, mode in found.items() if p.is_dir()} == {0o700}
