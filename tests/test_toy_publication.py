"""Another publication, as docs/architecture.md says to add one: a specification, two halves, and
their names in two registries. Nothing else of das knows it. What it shares with all others is
tested in tests/contract/."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from das import pipeline
from das.errors import UserError
from das.release import publications, verify
from das.release.again import estimate_from
from das.spec import load
from tests.contract.publications import TOY, toy_registered
from tests.test_architecture import ROOT
from tests.toy.public import TABLE


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with toy_registered():
        yield


@pytest.fixture
def run(tmp_path: Path) -> Path:
    people = tmp_path / "people.csv"
    people.write_text("region\n" + "north\n" * 30 + "south\n" * 12)
    pipeline.run(load(TOY, where="c"), tmp_path / "run", paths=[people])
    return tmp_path / "run"


def test_it_is_run_verified_and_made_again(run: Path) -> None:
    said = verify.statement(run / "release")
    assert (said.private, str(said.total)) == (True, "1/2")
    again = estimate_from(run / "release", run.parent / "again").directory.release
    assert (again / TABLE).read_text() == (run / "release" / TABLE).read_text()
    assert pipeline.run(load(TOY, where="c"), run, resume=True).was_finished


def test_what_it_cannot_do_has_its_reason(run: Path) -> None:
    half = publications.publication_of(run / "release")
    with pytest.raises(UserError, match="it is a toy"):
        publications.require(half, "map", run)


def test_it_is_small() -> None:
    files = [*(ROOT / "tests" / "toy").glob("*.py"), Path(__file__)]
    assert len(files) <= 8
    code = [f for f in files if f != Path(__file__)]
    assert sum(len(f.read_text().splitlines()) for f in code) <= 250
