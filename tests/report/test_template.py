"""Templates are compiled once, not by each process."""

from __future__ import annotations

import sys
from pathlib import Path

import jinja2
import pytest

from das.report import template

PAGE = "base.html"


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where byte code is kept: in a folder of this test."""
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    folder = Path(template.CompiledTemplates().directory)  # Python made it for our modules
    folder.mkdir(parents=True)
    return folder


def _without_compiler(monkeypatch: pytest.MonkeyPatch) -> jinja2.Environment:
    def never(*_: object, **__: object) -> str:
        raise AssertionError("a template was compiled")

    monkeypatch.setattr(jinja2.Environment, "compile", never)
    return template.environment.__wrapped__()


def test_a_second_process_does_not_compile(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template.environment.__wrapped__().get_template(PAGE)
    assert len(list(kept.iterdir())) == 1
    _without_compiler(monkeypatch).get_template(PAGE)


def test_code_of_other_options_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template.environment.__wrapped__().get_template(PAGE)
    monkeypatch.setitem(template.OPTIONS, "trim_blocks", False)
    with pytest.raises(AssertionError, match="was compiled"):
        _without_compiler(monkeypatch).get_template(PAGE)


def test_nothing_is_kept_where_python_keeps_nothing(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    template.environment.__wrapped__().get_template(PAGE)
    assert not list(kept.iterdir())


def test_a_folder_that_cannot_be_written_is_no_error(kept: Path) -> None:
    kept.rmdir()
    kept.write_text("in the way")
    template.environment.__wrapped__().get_template(PAGE)
