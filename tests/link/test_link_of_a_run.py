"""``[link]`` in the configuration of the DHC: a run links its release, once, as `das link` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from das.cli import main
from das.errors import SpecError
from das.files.run.run_directory import RunDirectory, tree_digests
from das.runs import pipeline
from das.spec import load
from das.tools.link import release
from tests.stopped import Killed
from tests.worlds import ROOT, Worlds

TEXT = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")


def test_a_run_links_its_release_and_resumes_there(
    worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped when the link is whole, and goes on without linking again."""
    earlier, out = worlds.run("run.seed=1", data="one thousand"), tmp_path / "run"
    asked = [f"constraints.from={earlier}", "run.seed=1", "link.number=1"]
    spec = load(TEXT, where="c", overrides=[*asked, "output.report=false", "output.tables=false"])
    linked = release.link_release

    def stopped(*given: object, **more: object) -> None:
        linked(*given, **more)  # type: ignore[arg-type]
        raise Killed

    monkeypatch.setattr(release, "link_release", stopped)
    with pytest.raises(Killed):
        pipeline.run(spec, out, paths=[worlds.linked()])
    assert not (out / "manifest.json").exists()
    before = tree_digests(out / "linked")
    monkeypatch.setattr(release, "link_release", lambda *_, **__: pytest.fail("linked again"))
    outcome = pipeline.run(spec, out, paths=[worlds.linked()], resume=True)
    assert outcome.files["linked (experimental)"] == out / "linked"
    assert tree_digests(out / "linked") == before
    assert "linked/persons.parquet" in RunDirectory(out).read_manifest()["outputs"]
    monkeypatch.undo()
    again = tmp_path / "again"
    main(["link", str(out), "--out", str(again), "--number", "1", "--quiet"], standalone_mode=False)
    assert tree_digests(again) == before
    assert (again / "averages" / "PH5_Block.csv").is_file()
    assert not [p for p in (out / "release").rglob("*") if "linked" in p.name]


def test_what_a_configuration_says_of_its_link() -> None:
    assert load(TEXT, where="c").dump().count("link") == 0
    spec = load(TEXT, where="c", overrides=["link.replicates=3"])
    assert "[link]" in spec.dump()
    (said,) = spec.further
    assert "experimental" in said
    assert "errors from 3 replicates" in said
    with pytest.raises(SpecError, match="Tracts are linked one by one"):
        load(
            TEXT,
            where="c",
            overrides=["link.number=0", 'geography.levels=["US", "State", "County", "Block"]'],
        )
