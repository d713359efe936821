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
from hypothesis import given
from hypothesis import strategies as st

from das import pipeline
from das.accounting.register import Cap, Entry, Opening
from das.errors import RegisterError, UserError
from das.files import register
from das.files.register import Head
from das.files.run.ledger import Attempt, Entries, LedgerFile
from das.files.run.register_link import RegisterLink
from das.files.run.run_directory import RunDirectory
from das.jobs import registering
from das.model.budget import Neighbours
from das.model.mechanism import RHO
from das.spec import load
from das.truth import voiding
from das.truth.registering import RegisteredDraws, RegisterOptions, owed
from tests.accounting.test_register import entry
from tests.contract.publications import TOY, toy_registered
from tests.files.test_register import child
from tests.stopped import Killed, Step

COST = Fraction(1)  #: rho 1/2 of added or removed records, in a register of replaced ones
WRITES = ("write", "fsync", "replace", "unlink", "ftruncate", "mkdir", "link", "rename")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with toy_registered():
        yield


@pytest.fixture
def office(tmp_path: Path) -> RegisterOptions:
    return opened(tmp_path / "register.jsonl", tmp_path / "elsewhere" / "head")


def opened(path: Path, witness: Path | None = None, most: int = 100) -> RegisterOptions:
    cap = Cap(RHO, Fraction(most))
    place = None if witness is None else str(witness)
    register.create(path, Opening("x", cap, Neighbours.BOUNDED, "us-2020", witness=place))
    return RegisterOptions(path)


def entries(office: RegisterOptions) -> list[Entry]:
    return list(register.read(office.path).register.standing.values())


def run(out: Path, *changes: str, **how: Any) -> None:
    people = out.parent / "people.csv"
    people.write_text("region\n" + "north\n" * 30 + "south\n" * 12)
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
    assert register.read(office.path).register.spent == COST
    assert registering.check_run(office.path, tmp_path / "run") == register.read(office.path).head
    outputs = RunDirectory(tmp_path / "run").read_manifest()["outputs"]
    assert "confidential/register.json" in outputs
    assert not any("register" in p.name for p in (tmp_path / "run" / "release").rglob("*"))
    before = office.path.read_bytes()
    run(tmp_path / "run", resume=True, register=office)
    with pytest.raises(RegisterError, match="entered already, in line 2"):
        registering.add(office, tmp_path / "run")
    assert office.path.read_bytes() == before


def test_a_seeded_run_is_entered_and_marked(office: RegisterOptions, tmp_path: Path) -> None:
    for i in range(2):
        run(tmp_path / str(i), "run.seed=7", register=office)
    assert [e.private for e in entries(office)] == [False, False]
    assert register.read(office.path).register.spent == 2 * COST


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
        voiding.void(tmp_path / "run")


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
            registering.check_run(office.path, out)
    assert seen == {0, 1}
    assert write > 40


def test_killed_between_entry_and_ledger_without_a_key_it_may_enter_again(
    office: RegisterOptions, tmp_path: Path
) -> None:
    """Too much, never too little; and once its folder knows the head, not again."""
    out, keyless = tmp_path / "run", "run.entropy=forgetful"
    stopped(Step(RegisterLink, "entered"), out, keyless, register=office)
    assert len(entries(office)) == 1
    stopped(Step(LedgerFile, "begin"), out, keyless, resume=True)
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
    assert register.read(office.path).register.spent == 2 * COST
    run(out, resume=True, accept_spent=True)
    first, second = entries(office)
    assert (first.id, first.times, second.times) == (second.id, {}, {"persons:Region": 2})
    assert first.key != second.key
    assert register.read(office.path).register.spent == 2 * COST


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
    with pytest.raises(RegisterError, match="has entered with another run key"):
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
    registering.add(office, late)
    assert [e.kind for e in entries(office)] == ["run", "release"]


def test_a_run_stays_in_its_register(office: RegisterOptions, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    register.create(
        other / "r.jsonl", Opening("y", Cap(RHO, Fraction(9)), Neighbours.BOUNDED, "us-2020")
    )
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
    with pytest.raises(RegisterError, match=r"knows number 1[\s\S]*restored backup"):
        run(out, resume=True)
    with pytest.raises(RegisterError, match="restored backup"):
        registering.check_run(office.path, out)
    assert not RunDirectory(out).ledger.exists()
    run(tmp_path / "other", register=office)  # knows nothing: the line is another
    with pytest.raises(RegisterError, match="line 2 is not the one"):
        registering.check_run(office.path, out)
    office.path.write_bytes(latest)
    run(out, resume=True)


def test_with_a_witness_no_run_enters_a_restored_register(
    office: RegisterOptions, tmp_path: Path
) -> None:
    backup = office.path.read_bytes()
    run(tmp_path / "run", register=office)
    office.path.write_bytes(backup)
    with pytest.raises(RegisterError, match="its witness knows number 1"):
        run(tmp_path / "other", register=office)
    assert not (tmp_path / "other").exists()


# --- given up


def test_given_up_before_any_output(office: RegisterOptions, tmp_path: Path) -> None:
    out, copy = tmp_path / "run", tmp_path / "copy"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    shutil.copytree(out, copy)
    voiding.void(out)
    assert not RunDirectory(out).noise_key.exists()
    assert register.read(office.path).register.spent == 0
    for folder in (out, copy):
        with pytest.raises(RegisterError, match="given up"):
            run(folder, resume=True, accept_spent=True)
        assert not RunDirectory(folder).ledger.exists()
    with pytest.raises(RegisterError, match="given up already"):
        voiding.void(out)


def test_giving_up_can_be_interrupted(office: RegisterOptions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    with pytest.MonkeyPatch.context() as patch:
        Step(register.RegisterFile, "append").arm(patch)
        with pytest.raises(Killed):
            voiding.void(out)
    assert not RunDirectory(out).noise_key.exists()
    assert len(entries(office)) == 1
    with pytest.raises(RegisterError, match="given up"):
        run(out, resume=True)
    voiding.void(out)
    assert entries(office) == []


def _no_key(directory: RunDirectory) -> None:
    directory.noise_key.rename(directory.root.with_name("moved.key"))


def _other_key(directory: RunDirectory) -> None:
    directory.noise_key.write_bytes(bytes(32))


def _draft(directory: RunDirectory) -> None:
    (directory.release / ".table.csv.tmp").write_text("noise")


def _task(directory: RunDirectory) -> None:
    (directory.root / "work").mkdir()
    (directory.root / "work" / "tasks.json").write_text("{}")


@pytest.mark.parametrize(
    ("harm", "why"),
    [
        (_no_key, "its run key is gone"),
        (_other_key, "not the one that has entered"),
        (_draft, "files were written"),
        (_task, "files were written"),
    ],
)
def test_what_is_not_proved_stays_spent(
    office: RegisterOptions, tmp_path: Path, harm: Callable[[RunDirectory], None], why: str
) -> None:
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    harm(RunDirectory(out))
    before = office.path.read_bytes()
    with pytest.raises(RegisterError, match=f"stays spent: .*{why}"):
        voiding.void(out)
    assert office.path.read_bytes() == before


def test_what_was_measured_or_has_no_key_stays_spent(
    office: RegisterOptions, tmp_path: Path
) -> None:
    stopped(Step(LedgerFile, "acknowledge"), tmp_path / "measured", register=office)
    stopped(Step(LedgerFile, "begin"), tmp_path / "seeded", "run.seed=1", register=office)
    stopped(Step(LedgerFile, "begin"), tmp_path / "keyless", "run.entropy=kernel", register=office)
    for name in ("measured", "seeded", "keyless", "nowhere"):
        with pytest.raises(RegisterError, match="stays spent"):
            voiding.void(tmp_path / name)
    assert len(entries(office)) == 3


def test_who_measured_before_it_entered_stays_spent(
    office: RegisterOptions, tmp_path: Path
) -> None:
    """A file of measurements may be there that no ledger knows yet."""
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "acknowledge"), out)
    stopped(Step(LedgerFile, "acknowledge"), out, resume=True, register=office)
    with pytest.raises(RegisterError, match="stays spent: files were written"):
        voiding.void(out)


def test_who_is_at_work_is_not_given_up(office: RegisterOptions, tmp_path: Path) -> None:
    out = tmp_path / "run"
    stopped(Step(LedgerFile, "begin"), out, register=office)
    with RunDirectory(out).lock(), pytest.raises(UserError, match="at work"):
        voiding.void(out)
    assert RunDirectory(out).noise_key.exists()


# --- what is owed, by itself

STAGES = [("persons", level) for level in ("State", "County", "Tract")]


@given(
    st.lists(st.tuples(st.sampled_from(STAGES), st.booleans()), max_size=8),
    st.sampled_from(["keyed", "keyless"]),
)
def test_what_is_entered_covers_every_draw(
    losses: list[tuple[tuple[str, str], bool]], kind: str
) -> None:
    """A run that loses stages, one after the other, with its key or without: after each step it has
    entered each stage as often as its ledger draws it, and with one key never more."""
    entered: list[Entry] = []
    drawn, key, known = dict.fromkeys(STAGES, 0), "k0", Head(1, "0" * 64)
    total = dict.fromkeys(STAGES, 0)
    for i, (lost, key_lost) in enumerate([(None, False), *losses]):
        again = {lost} if lost else set()
        if key_lost:
            again, key = set(STAGES), f"k{i}"
        often = {s: max(1, n + (s in again)) for s, n in drawn.items()}
        name = key if kind == "keyed" else None
        due = owed(entered, often, drawn, again, name, known if entered else None)
        for s, n in due.items():
            total[s] += n
        if due:
            times = {":".join(s): n for s, n in often.items() if n > 1}
            entered.append(replace(entry("run", Fraction(1)), key=name, times=times))
        drawn = often
        assert total == drawn
        assert owed(entered, often, drawn, set(), name, known) == {}, "and nothing twice"


def test_no_stage_is_drawn_more_often_than_it_was_entered() -> None:
    stage = STAGES[0]
    attempt = Attempt(*stage, 1, events=[object()])  # type: ignore[list-item]
    RegisteredDraws({stage: 2}).check(stage, Entries([attempt]))
    with pytest.raises(Exception, match="more often than the register knows"):
        RegisteredDraws({stage: 1}).check(stage, Entries([attempt]))
    torn = Attempt(*stage, 1)
    RegisteredDraws({stage: 1}).check(stage, Entries([torn]))
