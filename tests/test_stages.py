"""A page that cannot be made stops no release."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das.cli import main
from das.errors import ReleaseError
from das.publications.counts.truth import maker
from das.release import page
from das.stages import Stages
from tests.worlds import ROOT, Worlds


def test_a_page_that_fails_is_left_out_with_a_note_that_quotes_nothing(tmp_path: Path) -> None:
    stages, path = Stages(), tmp_path / "report.html"
    path.write_text("of an earlier attempt")
    with stages.page("report", path):
        raise KeyError("17 persons")
    assert not path.exists()
    (note,) = stages.notes
    assert str(path) in note
    assert "KeyError in test_stages.py, line " in note
    assert "17" not in note.replace(str(path), "").partition("line")[0]
    assert stages.done == []
    with stages.page("report", path):
        path.write_text("whole")
    assert path.exists()
    assert [s["name"] for s in stages.done] == ["report"]


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), ReleaseError("altered"), KeyboardInterrupt()]
)
def test_what_can_be_mended_or_is_asked_for_still_stops(
    tmp_path: Path, error: BaseException
) -> None:
    with pytest.raises(type(error)), Stages().page("report", tmp_path / "x"):
        raise error


def test_a_run_whose_pages_fail_ends_whole(
    worlds: Worlds,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise KeyError("Block_Group", "detailed")

    monkeypatch.setattr(page, "write", fails)
    monkeypatch.setattr(maker, "html", fails)
    out, data = tmp_path / "run", worlds.data("19 blocks")
    config = str(ROOT / "configs" / "pl94-2010.toml")
    main.main(
        ["run", config, "--data", str(data), "--out", str(out), "--json"], standalone_mode=False
    )
    said = capsys.readouterr()
    assert said.err.count("could not be made") == 2
    assert [json.loads(said.out)[name] for name in ("page", "report")] == [None, None]
    assert not list(out.rglob("report.html"))
    assert (out / "manifest.json").is_file()
    main.main(["account", "verify", str(out)], standalone_mode=False)
