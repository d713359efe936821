"""Runs in a register: killed before any write, resumed, copied, given up, with another key or a
restored register. The toy publication does; that every publication enters in the same way is in
tests/contract/test_register.py."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das.errors import RegisterError, UserError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.model.mechanisms import RHO
from das.register import checking, file
from das.register.book import Cap, Entry, Opening
from das.register.entering import RegisterOptions
from das.register.file import RegisterFile, RegisterLink
from das.runs import pipeline
from das.spec import load
from tests.contract.publications import TOY
from tests.files.test_register import child
from tests.plugged import toy_declared
from tests.stopped import Killed, Step

COST = Fraction(1)  #: rho 1/2 of added or removed records, in a register of replaced ones
WRITES = ("write", "fsync", "replace", "unlink", "ftruncate", "mkdir", "link", "rename")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with toy_declared():
        yield


@pytest.fixture
def office(tmp_path: Path) -> RegisterOptions:
    return opened(tmp_path / "register.jsonl", tmp_path / "elsewhere" / "head")


def opened(path: Path, witness: Path | None = None, most: int = 100) -> RegisterOptions:
    cap = Cap(RHO, Fraction(most))
    place = None if witness is None else str(witness)
    file.create(path, Opening("x", cap, "us-2020", witness=place))
    return RegisterOptions(path)


def entries(office: RegisterOptions) -> list[Entry]:
    return list(file.read(office.path).register.standing.values())


def run(out: Path, *changes: str, south: int = 12, **how: Any) -> None:
    people = out.parent / "people.csv"
    people.write_text("region\n" + "north\n" * 30 + "south\n" * south)
    pipeline.run(load(TOY, where="c", overrides=changes), out, paths=[people], **how)


def stopped(step: Step, out: Path, *changes: str, **how: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        step.arm(patch)
        with pytest.raises(Killed):
            run(out, *changes, **how)


def test_a_run_is_entered_once_and_knows_the_head(office: RegisterOptions, tmp_path: Path) -> None:
    run(tmp_path / "run", register=office)
    (found,) = entries(office)
    assert (found.population, found.private, found.title) == (
        "us-2020",
        True,
        "the toy publication",
    )
    assert file.read(office.path).register.spent.cost == COST
    assert checking.check_run(office.path, tmp_path / "run") == file.read(office.path).head
    outputs = RunDirectory(tmp_path / "run").read_manifest()["outputs"]
    assert "confidential/register.json" in outputs
    assert not any("register" in p.name for p in (tmp_path / "run" / "release").rglob("*"))
    before = office.path.read_bytes()
    run(tmp_path / "run", resume=True, register=office)
    with pytest.raises(RegisterError, match="entered already, in line 2"):
        checking.add(office, tmp_path / "run")
    assert office.path.read_bytes() == before


def test_a_seeded_run_is_entered_and_marked(office: RegisterOptions, tmp_path: Path) -> None:
    for i in range(2):
        run(tmp_path / str(i), "run.seed=7", register=office)
    assert [e.private for e in entries(office)] == [False, False]
    assert file.read(office.path).register.spent.cost == 2 * COST


def test_a_failed_run_stays_spent(
    office: RegisterOptions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise UserError("the disk is full")

    monkeypatch.setattr(LedgerFile, "close", fails)
    with pytest.raises(UserError, match="disk"):
        run(tmp_path / "run", register=office)
    assert len(entries(office)) == 1
    with pytest.raises(RegisterError, match="stays spent"):
        checking.void(tmp_path / "run")


# --- kills


def test_killed_before_any_write_it_is_entered_once(tmp_path: Path) -> None:
    """Every fifth of them (benchmarks/register.py takes more); then it is resumed, or begun again
    where there is nothing."""
    seen, write, done = set[int](), -4, False
    while not done:
        write += 5
        folder = tmp_path / str(write)
        folder.mkdir()
        office, out = (
            opened(folder / "register.jsonl", folder / "elsewhere" / "head"),
            folder / "run",
        )

        def killed(office: RegisterOptions = office, out: Path = out, at: int = write) -> None:
            count = iter(range(1, 10_000))

            def counted(call: Callable[..., object]) -> Callable[..., object]:
                def counting(*args: object, **named: object) -> object:
                    if next(count) == at:
                        os.kill(os.getpid(), signal.SIGKILL)
                    return call(*args, **named)

                return counting

            for name in WRITES:
                setattr(os, name, counted(getattr(os, name)))
            run(out, register=office)

        code = child(killed)
        assert code in (0, -signal.SIGKILL)
        done, left = code == 0, len(entries(office))
        seen.add(left)
        directory = RunDirectory(out)
        assert left or not directory.ledger.exists(), "noise, and no entry"
        if not directory.can_go_on():
            assert not left
            shutil.rmtree(out, ignore_errors=True)
        run(out, resume=directory.can_go_on())  # its folder knows the register
        assert len(entries(office)) == (1 if left or directory.register_link.exists() else 0)
        if directory.register_link.exists():
            checking.check_run(office.path, out)
    assert seen == {0, 1}
    assert write > 40


def test_killed_between_name_and_ledger_without_a_key_it_is_entered_again(
    office: RegisterOptions, tmp_path: Path
) -> None:
    """Nobody knows whether a copy has drawn it: too much, never too little."""
    out, keyless = tmp_path / "run", "run.entropy=forgetful"
    stopped(Step(RegisterFile, "append", 2), out, keyless, register=office)
    stopped(Step(LedgerFile, "begin"), out, keyless, resume=True)
    assert len(entries(office)) == 1
    with pytest.raises(RegisterError, match="has drawn persons at Region before"):
        run(out, keyless, resume=True)
    run(out, keyless, resume=True, accept_spent=True)
    assert len(entries(office)) == 2
    run(out, keyless, resume=True)
    assert len(entries(office)) == 2


# --- a second draw


def test_a_lost_key_is_paid_for_again(office: RegisterOptions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "acknowledge"), out, register=office)
    RunDirectory(out).noise_key.unlink()
    before = office.path.read_bytes()
    with pytest.raises(UserError, match="--accept-spent"):
        run(out, resume=True)
    assert office.path.read_bytes() == before
    stopped(Step(LedgerFile, "begin"), out, resume=True, accept_spent=True)
    assert file.read(office.path).register.spent.cost == 2 * COST
    run(out, resume=True, accept_spent=True)
    first, second = entries(office)
    assert (first.id, first.times, second.times) == (second.id, {}, {"persons:Region": 2})
    assert first.key != second.key
    assert file.read(office.path).register.spent.cost == 2 * COST


def test_a_second_draw_that_there_is_no_room_for_is_refused(tmp_path: Path) -> None:
    office, out = opened(tmp_path / "register.jsonl", most=1), tmp_path / "run"
    stopped(Step(LedgerFile, "acknowledge"), out, register=office)
    RunDirectory(out).noise_key.unlink()
    ledger, before = RunDirectory(out).ledger.read_bytes(), office.path.read_bytes()
    with pytest.raises(RegisterError, match="cap"):
        run(out, resume=True, accept_spent=True)
    assert RunDirectory(out).ledger.read_bytes() == ledger
    assert office.path.read_bytes() == before


def test_a_copy_of_a_folder_with_another_key_is_refused(
    office: RegisterOptions, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stopped(Step(pipeline.TaskStore, "remove"), out, register=office)
    shutil.rmtree(out)
    stopped(Step(LedgerFile, "begin"), out, register=office)
    copy = tmp_path / "copy"
    shutil.copytree(out, copy)
    RunDirectory(copy).noise_key.unlink()
    run(out, resume=True)
    with pytest.raises(RegisterError, match="a copy or an old backup of one that went on"):
        run(copy, resume=True)
    assert not RunDirectory(copy).ledger.exists()


def test_a_run_without_a_register_can_enter_one(office: RegisterOptions, tmp_path: Path) -> None:
    out, late = tmp_path / "run", tmp_path / "late"
    stopped(Step(LedgerFile, "acknowledge"), out)
    run(out, resume=True, register=office)
    assert len(entries(office)) == 1
    stopped(Step(RunDirectory, "write_manifest"), late)
    with pytest.raises(RegisterError, match="measured without a register"):
        run(late, resume=True, register=office)
    run(late, resume=True)
    checking.add(office, late)
    assert [e.kind for e in entries(office)] == ["run", "release"]


def test_a_run_stays_in_its_register(office: RegisterOptions, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    file.create(other / "r.jsonl", Opening("y", Cap(RHO, Fraction(9)), "us-2020"))
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "acknowledge"), out, register=office)
    with pytest.raises(RegisterError, match="this run is in the register"):
        run(out, resume=True, register=RegisterOptions(other / "r.jsonl"))
    with pytest.raises(RegisterError, match="this run is in the register"):
        run(out, resume=True, register=replace(office, population="us-2010"))
    moved = office.path.rename(other / "moved.jsonl")
    with pytest.raises(RegisterError, match="no such register"):
        run(out, resume=True)
    run(out, resume=True, register=RegisterOptions(moved))
    assert len(entries(RegisterOptions(moved))) == 1


# --- restored backups


def test_a_run_knows_that_the_register_was_restored(tmp_path: Path) -> None:
    """Without any witness but itself."""
    office, out = opened(tmp_path / "register.jsonl"), tmp_path / "run"
    backup = office.path.read_bytes()
    stopped(Step(LedgerFile, "begin"), out, register=office)
    latest = office.path.read_bytes()
    office.path.write_bytes(backup)
    with pytest.raises(RegisterError, match=r"knows number 3[\s\S]*restored backup"):
        run(out, resume=True)
    with pytest.raises(RegisterError, match="restored backup"):
        checking.check_run(office.path, out)
    assert not RunDirectory(out).ledger.exists()
    run(tmp_path / "other", register=office)  # knows nothing: the line is another
    with pytest.raises(RegisterError, match="line 3 is not the one"):
        checking.check_run(office.path, out)
    office.path.write_bytes(latest)
    run(out, resume=True)


def test_with_a_witness_no_run_enters_a_restored_register(
    office: RegisterOptions, tmp_path: Path
) -> None:
    backup = office.path.read_bytes()
    run(tmp_path / "run", register=office)
    office.path.write_bytes(backup)
    with pytest.raises(RegisterError, match="its witness knows number 3"):
        run(tmp_path / "other", register=office)
    assert not (tmp_path / "other").exists()


# --- given up


def entered(out: Path, office: RegisterOptions, *changes: str) -> None:
    """Stopped between its entry and the name of its first draw."""
    stopped(Step(RegisterFile, "append", 2), out, *changes, register=office)


def test_given_up_before_its_first_draw(office: RegisterOptions, tmp_path: Path) -> None:
    out, copy = tmp_path / "run", tmp_path / "copy"
    entered(out, office)
    shutil.copytree(out, copy)
    assert file.read(office.path).register.spent.cost == COST
    checking.void(out)
    assert file.read(office.path).register.spent.cost == 0
    for folder in (out, copy):
        with pytest.raises(RegisterError, match="given up: its entry, line 2 of the register"):
            run(folder, resume=True, accept_spent=True)
        assert not RunDirectory(folder).ledger.exists()
        with pytest.raises(RegisterError, match="given up already"):
            checking.void(folder)
    with pytest.raises(RegisterError, match="given up"):
        checking.check_run(office.path, copy)


def test_a_copy_that_went_on_is_not_taken_back(tmp_path: Path) -> None:
    """The attack: two releases under a cap that has room for one."""
    office, out, copy = opened(tmp_path / "r.jsonl", most=1), tmp_path / "run", tmp_path / "copy"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    shutil.copytree(out, copy)
    run(copy, resume=True)
    with pytest.raises(RegisterError, match="stays spent: it has begun"):
        checking.void(out)
    with pytest.raises(RegisterError, match="cap"):
        run(tmp_path / "third", register=office)
    checking.check_run(office.path, copy)


def test_check_looks_at_what_was_given_up(tmp_path: Path) -> None:
    """Also where somebody has made the lines of two registers by hand: one of a copy that went on."""
    office, out = opened(tmp_path / "r.jsonl"), tmp_path / "run"
    entered(out, office)
    before = office.path.read_bytes()
    shutil.copytree(out, tmp_path / "copy")
    run(out, resume=True)
    office.path.write_bytes(before)
    checking.void(tmp_path / "copy")
    link = RegisterLink.read(RunDirectory(out))
    assert link is not None
    replace(link, head=None).write(RunDirectory(out))
    with pytest.raises(RegisterError, match="given up"):
        checking.check_run(office.path, out)
    (out / "manifest.json").unlink()
    with pytest.raises(RegisterError, match="given up"):
        run(out, resume=True)


def test_giving_up_can_be_interrupted(office: RegisterOptions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    entered(out, office)
    with pytest.MonkeyPatch.context() as patch:
        Step(file.RegisterFile, "append").arm(patch)
        with pytest.raises(Killed):
            checking.void(out)
    assert len(entries(office)) == 1
    checking.void(out)
    assert entries(office) == []


@pytest.mark.parametrize("entropy", ["run.seed=1", "run.entropy=kernel", "run.entropy=keyed"])
def test_what_has_begun_stays_spent(office: RegisterOptions, tmp_path: Path, entropy: str) -> None:
    """Before its ledger has a line, and when a draw is made; whatever its noise follows from."""
    for i, step in enumerate((Step(LedgerFile, "begin"), Step(LedgerFile, "acknowledge"))):
        out = tmp_path / str(i)
        stopped(step, out, entropy, register=office)
        before = office.path.read_bytes()
        with pytest.raises(RegisterError, match="stays spent: it has begun"):
            checking.void(out)
        assert office.path.read_bytes() == before
    with pytest.raises(RegisterError, match="stays spent: its folder is not there"):
        checking.void(tmp_path / "nowhere")


def test_what_was_measured_before_it_entered_stays_spent(
    office: RegisterOptions, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "acknowledge"), out)
    stopped(Step(RegisterFile, "append", 2), out, resume=True, register=office)
    assert len(entries(office)) == 1
    with pytest.raises(RegisterError, match="stays spent"):
        checking.void(out)
    run(out, resume=True)
    assert len(entries(office)) == 1


def test_what_is_at_work_is_not_given_up(office: RegisterOptions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    entered(out, office)
    with RunDirectory(out).lock(), pytest.raises(UserError, match="at work"):
        checking.void(out)
    run(out, resume=True)


# --- copies that draw


def test_a_copy_without_a_key_that_draws_again_is_refused_or_counted(
    office: RegisterOptions, tmp_path: Path
) -> None:
    out, copy, keyless = tmp_path / "run", tmp_path / "copy", "run.entropy=kernel"
    entered(out, office, keyless)
    shutil.copytree(out, copy)
    run(copy, keyless, resume=True)
    with pytest.raises(RegisterError, match="a copy or an old backup"):
        run(out, keyless, resume=True)
    assert len(entries(office)) == 1
    run(out, keyless, resume=True, accept_spent=True)
    assert file.read(office.path).register.spent.cost == 2 * COST


def test_a_copy_with_the_same_key_draws_the_same_and_costs_nothing(
    office: RegisterOptions, tmp_path: Path
) -> None:
    out, copy = tmp_path / "run", tmp_path / "copy"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    shutil.copytree(out, copy)
    run(copy, resume=True)
    run(out, resume=True)
    assert len(entries(office)) == 1
    first, second = (LedgerFile(RunDirectory(o).ledger).entries.files() for o in (out, copy))
    assert first == second


def test_equal_noise_on_other_data_is_refused(office: RegisterOptions, tmp_path: Path) -> None:
    """Its difference from the first would be the difference of the data."""
    out, copy = tmp_path / "run", tmp_path / "copy"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    shutil.copytree(out, copy)
    run(out, resume=True)
    truth = RunDirectory(copy).confidential / "truth" / "counts.json"
    truth.write_text(truth.read_text().replace("12", "13"))
    with pytest.raises(RegisterError, match="other data with the same noise"):
        run(copy, resume=True, accept_spent=True)
    assert not RunDirectory(copy).ledger.exists()


def test_two_copies_that_measure_other_data_are_both_counted(
    office: RegisterOptions, tmp_path: Path
) -> None:
    """Three draws of one stage: of what the run began with, and of two other truths."""
    out, copy = tmp_path / "run", tmp_path / "copy"
    stopped(Step(LedgerFile, "acknowledge"), out, register=office)
    shutil.copytree(out, copy)
    run(out, resume=True)
    for folder, others in ((copy, "13"), (tmp_path / "third", "14")):
        if folder is not copy:
            shutil.copytree(tmp_path / "kept", folder)
        else:
            shutil.copytree(copy, tmp_path / "kept")
        truth = RunDirectory(folder).confidential / "truth" / "counts.json"
        truth.write_text(truth.read_text().replace("12", others))
        with pytest.raises(UserError, match="--accept-spent"):
            run(folder, resume=True)
        if folder is copy:
            run(folder, resume=True, accept_spent=True)
    assert file.read(office.path).register.spent.cost == 2 * COST
    with pytest.raises(RegisterError, match="other data with the same noise"):
        run(folder, resume=True, accept_spent=True)
