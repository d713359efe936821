"""A run of any publication enters its register before its ledger has a line, once, at the cost of
its plan; without room it leaves nothing; and it can be given up until its first draw has a name."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest

from das.errors import RegisterError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.model.mechanisms import RHO
from das.register import checking, file
from das.register.book import Cap, Entry, Opening
from das.register.entering import RegisterOptions
from das.register.file import RegisterFile
from das.release.publications import publication_of
from tests.contract.publications import EVERY, Published
from tests.stopped import Killed, Step
from tests.worlds import Worlds


@pytest.fixture(params=list(EVERY))
def published(request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path) -> Published:
    worlds.run(data="one thousand")  # the DHC rests on it, and it must not be stopped
    return EVERY[request.param](worlds, tmp_path / "given")


def opened(path: Path, most: int | str = 1_000_000, relation: str = "replaced") -> RegisterOptions:
    cap = Cap(RHO, Fraction(most))
    file.create(path, Opening("x", cap, "everybody", relation))
    return RegisterOptions(path)


def entries(options: RegisterOptions) -> list[Entry]:
    return list(file.read(options.path).register.standing.values())


def stop(published: Published, out: Path, step: Step, **how: object) -> None:
    with pytest.MonkeyPatch.context() as patch:
        step.arm(patch)
        with pytest.raises(Killed):
            published.go(out, None, **how)


def test_it_enters_once_before_anything_is_in_its_ledger(
    published: Published, tmp_path: Path
) -> None:
    out, options = tmp_path / "run", opened(tmp_path / "register.jsonl")
    with published.around():
        stop(published, out, Step(RegisterFile, "append", 2), register=options)
        directory = RunDirectory(out)
        assert not directory.ledger.exists()
        spec, _ = publication_of(directory.release).planned(directory.release)
        (entry,) = entries(options)
        assert entry.spending.stated == sum(
            u.plan.cost if u.plan.mechanism.currency == RHO else u.plan.cost**2 / 2
            for u in spec.universes
        )
        assert entry.private
        assert entry.spending.neighbours == spec.terms.neighbours.value
        voided = shutil.copytree(out, tmp_path / "copy")
        stop(published, out, Step(LedgerFile, "begin"), resume=True)  # not named again
        assert not directory.ledger.exists()
        assert directory.noise_key.exists()
        assert entries(options) == [entry]
        second = 1 if published.name == "the toy" else 2  # it has one stage
        stop(published, out, Step(LedgerFile, "begin", second), resume=True)
        assert entries(options) == [entry]
        checking.check_run(options.path, out)
        if directory.ledger.exists():
            assert {a.key for a in LedgerFile(directory.ledger).entries.attempts} == {entry.key}
        for folder in (out, voided):
            with pytest.raises(RegisterError, match="stays spent: it has begun"):
                checking.void(folder)
        assert entries(options) == [entry]


def test_it_can_be_given_up_before_its_first_draw(published: Published, tmp_path: Path) -> None:
    out, options = tmp_path / "run", opened(tmp_path / "register.jsonl")
    with published.around():
        stop(published, out, Step(RegisterFile, "append", 2), register=options)
        copy = shutil.copytree(out, tmp_path / "copy")
        checking.void(out)
        assert entries(options) == []
        for folder in (out, copy):
            with pytest.raises(RegisterError, match="given up"):
                published.go(folder, None, resume=True, accept_spent=True)
            assert not RunDirectory(folder).ledger.exists()


def test_a_lost_stage_is_entered_again(published: Published, tmp_path: Path) -> None:
    """By itself, for a relation that changes several records."""
    out, options = tmp_path / "run", opened(tmp_path / "register.jsonl", relation="moved")
    with published.around():
        stop(published, out, Step(LedgerFile, "acknowledge"), register=options)
        (first,) = entries(options)
        RunDirectory(out).noise_key.unlink()
        stop(published, out, Step(LedgerFile, "begin"), resume=True, accept_spent=True)
        _, second = entries(options)
        assert set(second.times.values()) == {2}
        assert 0 < second.spending.rho <= first.spending.rho


@pytest.mark.parametrize("found", ["before its input is read", "when it is to measure"])
def test_without_room_it_leaves_nothing(
    published: Published, tmp_path: Path, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, options = tmp_path / "run", opened(tmp_path / "register.jsonl", "1/1000000")
    before = options.path.read_bytes()
    if found == "when it is to measure":
        monkeypatch.setattr(RegisterOptions, "check_room", lambda *_: None)
    with published.around(), pytest.raises(RegisterError, match="the cap of this register") as no:
        published.go(out, None, register=options)
    assert no.value.exit_code == 2
    assert not out.exists()
    assert options.path.read_bytes() == before
