"""A method of one's own, as the page has it: its code runs, and a study can name its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from das.errors import SpecError
from das.spec.tree import built
from das.tools.protection.truth.method import METHODS, own_method
from docs import pages
from tests.protect.people import records, tables

ROOT = Path(__file__).resolve().parents[2]
TEXT = pages.text("frontier-methods")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_code_of_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile("\n".join(BLOCKS), "page", "exec", dont_inherit=True), {"__name__": "page"})
    printed = re.findall(r"print\(.*\)  # (.*)", "\n".join(BLOCKS))
    assert capsys.readouterr().out.splitlines() == printed


def test_a_study_names_its_file(tmp_path: Path) -> None:
    (tmp_path / "ranges.py").write_text(BLOCKS[0], encoding="utf-8")
    kind = own_method("ranges.py:Ranges", tmp_path, "m")
    method = built(kind, {"starts": [0, 2, 5]}, "m")
    shown = method.published(records(), tables(), b"k").levels["Block"]
    assert set(shown.lower.ravel()) == {0, 2, 5}
    assert method.label == "ranges"
    with pytest.raises(SpecError, match="did you mean 'starts'"):
        built(kind, {"starts": [0, 2, 5], "start": 3}, "m")
    for wrong, message in (
        ("rings.py:Ranges", "there is no file"),
        ("ranges.py:Rings", "has no method 'Rings'"),
        ("ranges.py:LevelLines", "has no method 'LevelLines'"),
    ):
        with pytest.raises(SpecError, match=message):
            own_method(wrong, tmp_path, "m")


def test_the_page_has_every_method_with_its_parameters() -> None:
    rows = dict(re.findall(r"^\| `([\w-]+)` \| (.*?) \|", TEXT, re.MULTILINE))
    assert list(rows) == [name for name in METHODS if name != "topdown"]  # it has pages of its own
    for name, keys in rows.items():
        fields = METHODS[name].__dataclass_fields__
        wanted = [f for f in fields if f not in ("name", "random", "guarantee")]
        assert re.findall(r"`(\w+)`", keys) == wanted, name
