"""``das init --from-safetab``: a configuration of the Detailed DHC that every command takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from das.publications.detailed.simulation import files
from das.publications.detailed.spec import DetailedFolders
from das.spec import load
from tests.commands import Commands


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("safetab") / "groups"
    files.write(out, seed=3, states="RI", persons=600, codes=40)
    return out


def test_it_names_the_folders_and_is_run(given: Path, tmp_path: Path, commands: Commands) -> None:
    config, run = tmp_path / "groups.toml", tmp_path / "run"
    code, out, err = commands.named("init")("--from-safetab", given, "--out", config)
    assert (code, err) == (0, ""), err
    assert "persons" in out
    spec = load(config.read_text(), where="c")
    assert isinstance(spec, DetailedFolders)
    assert spec.publication() == "detailed-dhc"
    assert commands.named("check")(config)[0] == 0
    changes = ("--set", "run.seed=1")
    assert commands.named("run")(config, *changes, "--out", run, "--quiet")[0] == 0
    named = ("--data", given / "data", "--set", f"data.parameters={given / 'parameters'}")
    same = commands.named("run")(
        *("detailed-dhc", *named, *changes, "--out", tmp_path / "other", "--quiet")
    )
    assert same[0] == 0, same[2]
    tables = [
        {p.name: p.read_bytes() for p in (of / "release" / "tables").rglob("*.csv")}
        for of in (run, tmp_path / "other")
    ]
    assert tables[0] == tables[1]
    assert tables[0]


def test_a_folder_of_something_else_is_refused(tmp_path: Path, commands: Commands) -> None:
    code, _, err = commands.named("init")("--from-safetab", tmp_path)
    assert code == 2
    assert "there is no such folder" in err
    (tmp_path / "parameters").mkdir()
    (tmp_path / "data").mkdir()
    code, _, err = commands.named("init")("--from-safetab", tmp_path, "--out", tmp_path / "c.toml")
    assert code == 2
    assert "records of no product" in err
    assert not (tmp_path / "c.toml").exists()
    assert commands.named("init")()[0] == 2
