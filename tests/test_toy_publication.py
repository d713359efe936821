"""Another publication, as docs/architecture.md says to add one: a specification, two halves, and
their names in two registries. Nothing else of das knows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from das import making, pipeline
from das.errors import ReleaseError, UserError
from das.release import publications, verify
from das.release.again import estimate_from
from das.spec import load
from das.spec.parse import SPECIFICATIONS
from tests.test_architecture import ROOT
from tests.toy.public import TABLE
from tests.toy.specification import ToySpec

TEXT = 'regions = ["north", "south"]\nrho = "1/2"\n[run]\nname = "toy"\npublication = "toy"\n'


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SPECIFICATIONS, "toy", ToySpec)
    monkeypatch.setitem(making.MAKERS, "toy", ("tests.toy.maker", "ToyMaker"))
    monkeypatch.setitem(publications._HALVES, "toy", ("tests.toy.public", "PublicToy"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    people = tmp_path / "people.csv"
    people.write_text("region\n" + "north\n" * 30 + "south\n" * 12)
    pipeline.run(load(TEXT, where="c"), tmp_path / "run", paths=[people])
    return tmp_path / "run"


def test_it_is_run_verified_and_made_again(run: Path) -> None:
    said = verify.statement(run / "release")
    assert (said.private, str(said.total)) == (True, "1/2")
    again = estimate_from(run / "release", run.parent / "again").directory.release
    assert (again / TABLE).read_text() == (run / "release" / TABLE).read_text()
    assert pipeline.run(load(TEXT, where="c"), run, resume=True).was_finished


def test_what_is_altered_is_found(run: Path) -> None:
    table = run / "release" / TABLE
    table.write_text(table.read_text().replace("north,", "north,1"))
    with pytest.raises(ReleaseError):
        verify.statement(run / "release")


def test_what_it_cannot_do_has_its_reason(run: Path) -> None:
    half = publications.publication_of(run / "release")
    with pytest.raises(UserError, match="it is a toy"):
        publications.require(half, "map", run)


def test_it_is_small() -> None:
    files = [*(ROOT / "tests" / "toy").glob("*.py"), Path(__file__)]
    assert len(files) <= 8
    code = [f for f in files if f != Path(__file__)]
    assert sum(len(f.read_text().splitlines()) for f in code) <= 250
