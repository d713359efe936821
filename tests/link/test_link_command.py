"""``das link`` on a whole release."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from das.cli import main
from das.errors import UserError
from das.publications.dhc import release_files
from das.publications.dhc.agreement.tables import agreement_of_counts
from das.publications.dhc.files import linked as reader
from das.publications.dhc.release import open_dhc
from das.tools.link.command import usual
from das.tools.link.members import KINSHIP
from das.tools.link.release import LinkOptions
from tests import awkward
from tests.marks import unmarked
from tests.worlds import Worlds

FILES = {
    "SYNTHETIC.txt",
    "agreement.csv",
    "averages",
    "averages.csv",
    "changes.csv",
    "crosswalk.csv",
    "group_quarters.parquet",
    "households.parquet",
    "index.html",
    "link.json",
    "microdata",
    "persons.parquet",
    "tables",
    "units.parquet",
}


def asked(command: str, *arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(main, [command, *map(str, arguments)])
    return found.exit_code, found.output


@pytest.fixture(scope="module")
def linked(worlds: Worlds) -> tuple[Path, Path]:
    """A run, and the folder of its link."""
    return awkward.dhc(worlds), awkward.link(worlds)


def test_it_writes_files_that_agree(linked: tuple[Path, Path]) -> None:
    run, out = linked
    assert {p.name for p in out.iterdir()} == FILES
    assert unmarked(out) == []
    reader.read(out)
    spine = open_dhc(run / "release").spine
    counts = {u: h.upward(spine) for u, h in release_files.read_counts(out, spine).items()}
    assert not any(r.violated for r in agreement_of_counts(spine, counts))
    with (out / "agreement.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {r["files"] for r in rows} == {"published", "linked"}
    assert not any(int(r["violated"]) for r in rows if r["files"] == "linked")


def test_it_says_what_it_is_and_what_has_changed(linked: tuple[Path, Path]) -> None:
    _, out = linked
    said = json.loads((out / "link.json").read_text())
    assert "no household is a real one" in said["synthetic"]
    assert said["blocks_that_disagree"]["published"] > said["blocks_that_disagree"]["linked"] == 0
    with (out / "changes.csv").open() as file:
        rows = list(csv.DictReader(file))
    moved = sum(abs(int(r["published_occupied"]) - int(r["linked_occupied"])) for r in rows)
    assert moved // 2 == said["households_in_other_blocks"]
    assert [k["name"] for k in said["kinship"]] == list(KINSHIP)


def test_its_page_shows_agreement_and_examples(linked: tuple[Path, Path]) -> None:
    text = (linked[1] / "index.html").read_text()
    assert "no household is a real one" in text
    assert "householders by class are households by class" in text
    assert "Householder not living alone, " in text
    assert "household size" in text
    assert all(says in text for says in KINSHIP.values())
    assert "NOT PRIVATE" in text


def test_agreement_of_a_release(linked: tuple[Path, Path]) -> None:
    code, text = asked("evaluate", linked[0], "--agreement", "--json")
    rows = json.loads(text[text.index("[") :])
    assert code == 0
    assert any(r["violated"] for r in rows)


def test_only_what_was_published_is_linked(worlds: Worlds, tmp_path: Path) -> None:
    """The link bears the name of its release: microdata of another one are refused."""
    shutil.copytree(worlds.dhc() / "release", tmp_path / "release")
    part = tmp_path / "release" / "microdata" / "persons" / "part-00000.parquet"
    pq.write_table(pq.read_table(part), part, compression="none")
    code, text = asked("link", tmp_path / "release", "--out", tmp_path / "x", "--quiet")
    assert code == 2
    assert "part-00000.parquet: does not match its digest in privacy.json" in text
    assert not (tmp_path / "x").exists()


def test_what_link_refuses(linked: tuple[Path, Path], worlds: Worlds) -> None:
    run, out = linked
    code, text = asked("link", run, "--out", out)
    assert code == 2
    assert "not empty" in text
    code, text = asked("link", worlds.run(data="one thousand"), "--out", out / "x")
    assert code == 2
    assert "the DHC is wanted" in text
    assert not (out / "x").exists()
    with pytest.raises(UserError, match="below zero"):
        LinkOptions(number=-1)


def test_it_says_whether_the_share_of_blocks_that_disagree_is_usual() -> None:
    assert "97 % disagree as published, as usual" in usual(189 / 195)
    assert "In the Bureau's DHC of 2020 it is 96 %" in usual(189 / 195)
    assert "fewer than usual" in usual(0.5)
