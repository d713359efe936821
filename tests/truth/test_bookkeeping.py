"""The spending of a measuring: whatever stops it, and wherever, the ledger has what was drawn, and
a replay is the same draw."""

from __future__ import annotations

import base64
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from fractions import Fraction
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

import das
from das import spec
from das.accounting.statement import LedgerEvents
from das.engine import Silent
from das.engine.local import LocalEngine
from das.errors import PrivacyError, ReleaseError, UserError
from das.files.run import noise_key, run_directory
from das.files.run.ledger import LedgerFile, MeasuredPart, measured_files
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.noise import entropy, samplers
from das.stages import Stages
from das.truth import by_subtree, run_noise
from das.truth import files as truth_file
from das.truth.bookkeeping import BudgetBook
from das.truth.measuring import measure_part, planned
from das.truth.preparation import Prepared, prepare
from das.truth.run_noise import noise_of, source_of
from das.truth.run_setup import ResumeState, begin
from tests.spec.test_parse import BASE, UNITS
from tests.worlds import Worlds

SPEC = spec.parse(BASE + "\n[housing]\n" + UNITS, where="c")
FORGETFUL, SEEDED = (
    spec.parse(SPEC.dump(), where="c", overrides=[x])
    for x in ("run.entropy=forgetful", "run.seed=4")
)
PERSONS = spec.parse(BASE, where="c")


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return prepare(
        SPEC,
        [Worlds(tmp_path_factory.getbasetemp() / "w").data("one thousand")],
        Stages(),
        Silent(),
    )


@pytest.fixture(autouse=True)
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No disk is waited for."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def run(prepared: Prepared, tmp_path: Path) -> RunDirectory:
    """A run that has begun without any measurement."""
    return resume_state(SPEC, prepared, tmp_path / "run")


def digests_of(prepared: Prepared) -> dict[str, dict[str, str]]:
    """What tells these true counts from any other: the digests of their files."""
    out = {}
    with TemporaryDirectory() as folder:
        for name in prepared.trees:
            path = RunDirectory(Path(folder)).truth_of(name)
            truth_file.write(path, prepared.lowest[name])
            out[name] = run_directory.file_digests(path.parent)
    return out


def resume_state(chosen: spec.RunSpec, prepared: Prepared, out: Path) -> RunDirectory:
    directory = RunDirectory(out)
    begin(chosen, prepared, directory)
    return directory


def go(
    directory: RunDirectory,
    prepared: Prepared,
    chosen: spec.RunSpec = SPEC,
    *,
    accept: bool = False,
) -> LedgerEvents:
    """Measure, where the true counts are those of ``prepared``."""
    for name, digests in digests_of(prepared).items():
        path = directory.truth_of(name)
        if run_directory.file_digests(path.parent) != digests:
            truth_file.write(path, prepared.lowest[name])
    resume_state = ResumeState.read(directory)
    return by_subtree._measured(
        chosen.on(resume_state.unit_classes),
        resume_state,
        directory,
        LocalEngine(),
        1,
        Silent(),
        accept,
    )


def unit_classes(prepared: Prepared) -> dict[str, UnitClasses]:
    return {name: UnitClasses.from_tree(tree) for name, tree in prepared.trees.items()}


def budget_book(
    directory: RunDirectory,
    prepared: Prepared,
    chosen: spec.RunSpec = SPEC,
    *,
    accept: bool = False,
) -> BudgetBook:
    return BudgetBook.start(
        chosen, planned(chosen, unit_classes(prepared)), directory, digests_of(prepared), accept
    )


def part(
    directory: RunDirectory, prepared: Prepared, level: str, universe: int = 0, number: int = 1
) -> MeasuredPart:
    u = SPEC.universes[universe]
    return measure_part(
        u,
        level,
        prepared.measured[u.name][level],
        prepared.trees[u.name],
        noise_of(SPEC, directory),
        directory.release,
        number=number,
    )


def told(directory: RunDirectory) -> dict[str, bytes]:
    """Files of measurements, but drafts."""
    found = measured_files(directory.release).items()
    return {name: path.read_bytes() for name, path in found if not path.name.startswith(".")}


def altered(prepared: Prepared, universe: str = "persons") -> Prepared:
    """One person has moved to another block: above the blocks the truth is as it was."""
    h = prepared.measured[universe]["Block"].open("for a test")
    there = h.unit + (np.arange(len(h.unit)) == 0) * (1 if h.unit[0] == 0 else -1)
    one = Histogram.from_triplets(
        h.units,
        h.cells,
        np.append(h.unit, there[0]),
        np.append(h.cell, h.cell[0]),
        np.append(h.count, 1),
    )
    one = Histogram.from_triplets(
        h.units,
        h.cells,
        np.append(one.unit, h.unit[0]),
        np.append(one.cell, h.cell[0]),
        np.append(one.count, -1),
    )
    return replace(prepared, lowest={**prepared.lowest, universe: Confidential(one)})


def lost(drawn: LedgerEvents) -> dict[str, set[str]]:
    return {u: {e.level for e in events} for u, events in drawn.lost.items() if events}


# --- replays
# -------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(
    "ignore:This process"
)  # which is multi-threaded, and forks: the child runs one thread
def test_a_kill_at_any_step_costs_nothing(prepared: Prepared, tmp_path: Path) -> None:
    """Between every two calls that change what the disk holds: before and after a file gets its
    name, a part is acknowledged, the spending are closed, the key is deleted. What was acknowledged
    stays; what follows is the same draw."""
    began, keys = resume_state(PERSONS, prepared, tmp_path / "begun"), 0
    for step in count(1):
        run = RunDirectory(Path(shutil.copytree(began.root, tmp_path / f"{step}")))
        if not killed(step, lambda at=run: go(at, prepared, PERSONS)):  # type: ignore[misc]
            break
        entries, before, key = (
            LedgerFile(run.ledger).entries,
            told(run),
            noise_key.read(run.noise_key),
        )
        assert not before or run.ledger.exists(), (
            step
        )  # no noise before its draws are in the ledger
        assert not run.ledger.exists() or key is not None or entries.closed, (
            step
        )  # no line before the key is on disk
        drawn = go(run, prepared, PERSONS)
        assert not any(drawn.lost.values()), step
        assert (
            sum((e.cost for e in drawn.events["persons"]), Fraction(0)) == PERSONS.persons.plan.cost
        ), step
        after, parts = told(run), LedgerFile(run.ledger).entries
        assert (parts.closed, set(parts.files())) == (True, set(after)), step
        assert {name: after[name] for name in before} == before, step
        assert not run.noise_key.exists(), step
        assert not list(run.root.rglob(".*.tmp")), step
        if key is not None and before:
            keys += 1
            with (
                pytest.MonkeyPatch.context() as patch
            ):  # all of it is what the key of the first attempt makes
                patch.setattr(
                    run_noise, "noise_of", lambda *_, k=key: entropy.keyed(k.open("for a test"))
                )
                u, again = PERSONS.persons, RunDirectory(tmp_path / "again")
                shutil.rmtree(again.root, ignore_errors=True)
                one = measure_part(
                    u,
                    "Block",
                    prepared.measured[u.name]["Block"],
                    prepared.trees[u.name],
                    run_noise.noise_of(SPEC, run),
                    again.release,
                )
            assert parts.standing((u.name, "Block")) == {0: one}, step
        shutil.rmtree(run.root)
    assert keys > 10
    assert step > 40


def killed(step: int, work: Callable[[], object]) -> bool:
    """Whether ``work``, in a process of its own, is killed at its ``step``-th call that changes
    what the disk holds.
    """
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, 9)
        return code == 9
    calls = count(1)

    def trapped(real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if next(calls) == step:
                os._exit(9)  # nothing more runs: no handler, no flush
            return real(*args, **options)

        return call

    try:
        for name in ("fsync", "replace", "mkdir", "unlink"):
            setattr(os, name, trapped(getattr(os, name)))
        work()
        os._exit(0)
    finally:
        os._exit(1)


def test_a_line_that_was_cut_off_within_the_draws_is_written_anew(
    prepared: Prepared, run: RunDirectory
) -> None:
    """At any place of the lines that are written before the first draw: the same ledger comes of
    it, with one draw of everything."""
    budget_book(run, prepared)
    whole = run.ledger.read_bytes()
    ends = [i for i, b in enumerate(whole) if b == 10]
    for cut in sorted({*ends, *(e + 1 for e in ends), *(e - 30 for e in ends)} - {len(whole)}):
        run.ledger.write_bytes(whole[:cut])
        budget_book(run, prepared)
        assert run.ledger.read_bytes() == whole, cut
    assert not any(go(run, prepared).lost.values())


def test_a_part_that_is_measured_twice_is_one_draw(prepared: Prepared, run: RunDirectory) -> None:
    """Two workers that know nothing of each other, one of them slow: the files are the same, and
    one line is written.
    """
    open_books = budget_book(run, prepared)
    one = part(run, prepared, "Block")
    files = told(run)
    assert part(run, prepared, "Block") == one
    assert told(run) == files
    open_books.acknowledge([one])
    ledger = run.ledger.read_bytes()
    open_books.acknowledge([MeasuredPart(**asdict(one))])  # as it comes back from another process
    assert run.ledger.read_bytes() == ledger
    assert open_books.missing(("persons", "Block")) == ()


def test_a_sampler_that_is_not_the_same_each_time_stops_the_run(
    prepared: Prepared, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_books, real, calls = budget_book(run, prepared), samplers._noise, count()
    open_books.acknowledge([part(run, prepared, "Block")])
    monkeypatch.setattr(samplers, "_noise", lambda *a: real(*a) + (next(calls) == 0))
    with pytest.raises(
        PrivacyError, match="persons at Block, part 0, was measured twice, and has other files"
    ):
        open_books.acknowledge([part(run, prepared, "Block")])


def test_a_truth_that_differs_where_it_is_measured_stops_the_run(
    prepared: Prepared, run: RunDirectory
) -> None:
    """A worker that reads another truth than the one that the run began with: its stream has
    another name.
    """
    open_books = budget_book(run, prepared)
    open_books.acknowledge([part(run, prepared, "Block")])
    with pytest.raises(PrivacyError, match="has another stream"):
        open_books.acknowledge([part(run, altered(prepared), "Block")])


def test_a_seeded_run_is_resumed_for_nothing_and_has_no_key(
    prepared: Prepared, tmp_path: Path
) -> None:
    run = resume_state(SEEDED, prepared, tmp_path / "run")
    open_books = budget_book(run, prepared, SEEDED)
    assert not run.noise_key.exists()
    u = SEEDED.universes[0]
    open_books.acknowledge(
        [
            measure_part(
                u,
                "US",
                prepared.measured[u.name]["US"],
                prepared.trees[u.name],
                noise_of(SEEDED, run),
                run.release,
            )
        ]
    )
    assert not any(go(run, prepared, SEEDED).lost.values())
    whole = resume_state(SEEDED, prepared, tmp_path / "whole")
    go(whole, prepared, SEEDED)
    assert told(whole) == told(run)
    assert whole.ledger.read_bytes() == run.ledger.read_bytes()


# --- subtrees
# ----------------------------------------------------------------------------------------------------


def test_subtrees_are_measured_in_any_order_and_are_one_level(
    prepared: Prepared, tmp_path: Path
) -> None:
    """The blocks in two subtrees, each a tree of its own, by the first worker that comes; what is
    missing is known."""
    spine, u = prepared.spine, SEEDED.universes[0]
    half = spine.units("Block") // 2
    cut = {1: (0, half), 2: (half, spine.units("Block"))}
    lists = {i: np.arange(a, b) for i, (a, b) in cut.items()}
    of = {
        i: MeasuredSpine.from_published(spine.restricted("Block", units))
        for i, units in lists.items()
    }
    truth = prepared.measured[u.name]["Block"].open("for a test")
    stage, found = (u.name, "Block"), []
    for order in ((1, 2), (2, 1, 2)):
        run = resume_state(SEEDED, prepared, tmp_path / str(order))
        due = planned(
            SEEDED, unit_classes(prepared), lambda level: (1, 2) if level == "Block" else (0,)
        )
        open_books = BudgetBook.start(SEEDED, due, run, digests_of(prepared))
        for i in order:
            assert i in open_books.missing(stage) or i == order[0]
            rows = Confidential(truth.rows(*cut[i]))
            open_books.acknowledge(
                [
                    measure_part(
                        u, "Block", rows, of[i], noise_of(SEEDED, run), run.release, subtree=i
                    )
                ]
            )
        assert open_books.missing(stage) == ()
        for other in SEEDED.universes:
            for level in spine.levels:
                for i in open_books.missing((other.name, level)):
                    if level == "Block":
                        rows = Confidential(
                            prepared.measured[other.name][level].open("for a test").rows(*cut[i])
                        )
                    tree, h = (
                        (of[i], rows)
                        if level == "Block"
                        else (prepared.trees[other.name], prepared.measured[other.name][level])
                    )
                    open_books.acknowledge(
                        [
                            measure_part(
                                other, level, h, tree, noise_of(SEEDED, run), run.release, subtree=i
                            )
                        ]
                    )
        assert open_books.close().events[u.name] == tuple(
            e for s, p in due.items() if s[0] == u.name for e in p.events
        )
        found.append(told(run))
        names = {Path(name).name for name in told(run) if "Block" in name}
        assert {name[:10] for name in names} == {"part-00001", "part-00002"}
    assert found[0] == found[1]


def test_books_are_not_closed_before_every_part_is_there(
    prepared: Prepared, run: RunDirectory
) -> None:
    open_books = budget_book(run, prepared)
    open_books.acknowledge([part(run, prepared, "US")])
    with pytest.raises(PrivacyError, match="persons at State is not measured"):
        open_books.close()
    assert run.noise_key.exists()


# --- what is drawn again
# ---------------------------------------------------------------------------------------


def half_way(run: RunDirectory, prepared: Prepared, chosen: spec.RunSpec = SPEC) -> BudgetBook:
    """The persons of two levels are measured, those of the third were being so."""
    open_books, u = budget_book(run, prepared, chosen), chosen.universes[0]
    for level in ("US", "State", "Block"):
        open_books.begin((u.name, level))
        found = measure_part(
            u,
            level,
            prepared.measured[u.name][level],
            prepared.trees[u.name],
            noise_of(chosen, run),
            run.release,
        )
        if level != "Block":
            open_books.acknowledge([found])
    return open_books


def test_another_truth_is_refused_or_counted_as_a_second_draw_of_all_that_was_begun(
    prepared: Prepared, run: RunDirectory
) -> None:
    """For the universe with another truth: its measurements do not stand, and no stream is used
    again.
    """
    half_way(run, prepared)
    first, other = LedgerFile(run.ledger).entries, altered(prepared)
    before = run_directory.read_json(run.inputs), run.ledger.read_bytes(), told(run)
    with pytest.raises(
        UserError, match="true counts of persons are not those that this run began with"
    ) as caught:
        go(run, other)
    assert f"budget of {SPEC.persons.plan.cost} " in str(caught.value)
    assert "--accept-spent" in str(caught.value)
    assert (run_directory.read_json(run.inputs), run.ledger.read_bytes(), told(run)) == before
    drawn = go(run, other, accept=True)
    assert lost(drawn) == {"persons": {"US", "State", "Block"}}
    assert drawn.lost["persons"] == drawn.events["persons"]
    last = LedgerFile(run.ledger).entries
    for level in ("US", "State", "Block"):
        stage = ("persons", level)
        assert last.number(stage) == 2
        assert last.last()[stage].anew
        assert (
            level == "Block" or last.standing(stage)[0].stream != first.standing(stage)[0].stream
        )  # of an equal truth
    assert last.number(("housing", "Block")) == 1
    with pytest.raises(UserError, match="are not those that this run measured"):
        go(
            run, prepared
        )  # the first truth again, when everything is measured: nothing more is drawn


def test_another_truth_and_a_kill_before_it_is_written_down_never_mixes_two_truths(
    prepared: Prepared, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger has the second draw, the digests are still those of the first truth: it is drawn a
    third time.
    """
    half_way(run, prepared)
    with monkeypatch.context() as patch:
        patch.setattr(
            "das.truth.bookkeeping.atomic.write_json",
            lambda *_: (_ for _ in ()).throw(OSError("full")),
        )
        with pytest.raises(OSError, match="full"):
            go(run, altered(prepared), accept=True)
    with pytest.raises(UserError, match="true counts of persons"):
        go(run, altered(prepared))
    drawn = go(run, altered(prepared), accept=True)
    assert [e.level for e in drawn.lost["persons"]].count("Block") == 2 * len(
        SPEC.persons.plan.at("Block")
    )


@pytest.mark.parametrize("gone", ["deleted", "another", "torn"])
def test_without_the_key_what_is_missing_is_drawn_a_second_time(
    prepared: Prepared, run: RunDirectory, gone: str
) -> None:
    """A key that is not the one that the ledger names is none, whatever put it there."""
    half_way(run, prepared)
    kept, key = told(run), run.noise_key.read_bytes()
    run.noise_key.unlink()
    if gone != "deleted":
        run.noise_key.write_bytes(os.urandom(32) if gone == "another" else key[:31])
    with pytest.raises(UserError, match="the key that it follows from is gone"):
        go(run, prepared)
    drawn = go(run, prepared, accept=True)
    assert lost(drawn) == {"persons": {"Block"}, "housing": {"US", "State", "Block"}}
    after = told(run)
    assert (
        [name for name in kept if after[name] != kept[name]]
        == [name for name in kept if "Block" in name]
        != []
    )
    assert not run.noise_key.exists()


def test_a_second_draw_is_asked_for_once(prepared: Prepared, run: RunDirectory) -> None:
    """What was accepted before, and is stopped again, goes on with its own key."""
    half_way(run, prepared)
    run.noise_key.unlink()
    budget_book(run, prepared, accept=True)
    assert lost(go(run, prepared)) == {"persons": {"Block"}, "housing": {"US", "State", "Block"}}


def test_a_source_that_forgets_loses_the_stage_that_was_being_drawn(
    prepared: Prepared, tmp_path: Path
) -> None:
    run = resume_state(FORGETFUL, prepared, tmp_path / "run")
    half_way(run, prepared, FORGETFUL)
    assert not run.noise_key.exists()
    assert [a.key for a in LedgerFile(run.ledger).entries.attempts] == [None] * 3
    cost = sum((d.cost for d in SPEC.persons.plan.at("Block")), Fraction(0))
    with pytest.raises(
        UserError,
        match=rf"persons at Block was interrupted.*no key of it was kept.*budget of {cost} ",
    ):
        go(run, prepared, FORGETFUL)
    kept = {name: data for name, data in told(run).items() if "Block" not in name}
    assert lost(go(run, prepared, FORGETFUL, accept=True)) == {"persons": {"Block"}}
    assert kept.items() <= told(run).items()


def test_noise_that_is_forgotten_is_drawn_once_in_an_attempt_whoever_repeats_the_task(
    prepared: Prepared, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another process, too: not a bit is drawn a second time. What is counted as a second
    attempt draws again.
    """
    run = resume_state(FORGETFUL, prepared, tmp_path / "run")
    open_books, u = budget_book(run, prepared, FORGETFUL), FORGETFUL.universes[0]
    open_books.begin((u.name, "US"))

    def drawn() -> MeasuredPart:
        truth, tree = prepared.measured[u.name]["US"], prepared.trees[u.name]
        return measure_part(u, "US", truth, tree, noise_of(FORGETFUL, run), run.release)

    first, files = drawn(), told(run)
    with monkeypatch.context() as patch:
        patch.setattr(samplers, "_noise", lambda *_: pytest.fail("noise was drawn"))
        with pytest.raises(
            PrivacyError,
            match=r"(?s)persons at US, part 0: a lost task may have drawn it.*--accept-spent",
        ):
            drawn()
    assert told(run) == files
    assert lost(go(run, prepared, FORGETFUL, accept=True)) == {"persons": {"US"}}
    assert LedgerFile(run.ledger).entries.standing((u.name, "US"))[0].stream != first.stream
    assert not (run.confidential / "claimed").exists()


@pytest.mark.parametrize("change", ["altered", "removed"])
def test_a_part_that_is_not_as_it_was_acknowledged_is_not_gone_on_with(
    prepared: Prepared, run: RunDirectory, change: str
) -> None:
    half_way(run, prepared)
    path = next(p for name, p in measured_files(run.release).items() if "State.parquet" in name)
    if change == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(ReleaseError, match=r"State\.parquet.*not those that the ledger says"):
        go(run, prepared)


def test_a_ledger_of_other_subtrees_is_refused(prepared: Prepared, run: RunDirectory) -> None:
    half_way(run, prepared)
    due = planned(SPEC, unit_classes(prepared), lambda level: (0, 1))
    with pytest.raises(ReleaseError, match="not what the plan draws"):
        BudgetBook.start(SPEC, due, run, digests_of(prepared))


def test_a_plan_beyond_the_budget_is_refused_before_a_key_or_a_line(
    prepared: Prepared, run: RunDirectory
) -> None:
    due = planned(SPEC, unit_classes(prepared))
    stage = ("persons", "Block")
    due[stage] = replace(due[stage], events=(*due[stage].events, *due[stage].events))
    with pytest.raises(PrivacyError, match="of a budget of"):
        BudgetBook.start(SPEC, due, run, digests_of(prepared))
    assert not run.ledger.exists()
    assert not run.noise_key.exists()


# --- the key
# ---------------------------------------------------------------------------------------------------


def test_the_key_is_its_owner_s_alone_and_on_disk_before_the_first_line(
    prepared: Prepared, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda d: forced.append(os.readlink(f"/proc/self/fd/{d}")))
    budget_book(run, prepared)
    names = [os.path.relpath(path, run.root) for path in forced]
    names = names[names.index("confidential/.noise.key.tmp") :]
    assert (
        "release/ledger.jsonl"
        not in [os.path.relpath(path, run.root) for path in forced][: -len(names)]
    )
    assert names[:4] == ["confidential/.noise.key.tmp", "confidential", ".", "release/ledger.jsonl"]
    assert run.noise_key.stat().st_mode & 0o777 == 0o600
    forced.clear()
    go(run, prepared)
    assert forced[-1] == str(run.confidential)
    assert not run.noise_key.exists()


def test_the_key_is_nowhere_else_and_nowhere_at_the_end(
    prepared: Prepared,
    run: RunDirectory,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """A known key, looked for in every form: in all files of the run, what is printed, errors and
    their tracebacks.
    """
    key = bytes(range(100, 132))
    forms = [
        key,
        key.hex().encode(),
        key.hex().upper().encode(),
        base64.b64encode(key),
        base64.urlsafe_b64encode(key),
        repr(key)[2:-1].encode(),
        str(list(key)).encode(),
    ]
    monkeypatch.setattr(noise_key.os, "urandom", lambda n: key[:n])

    def found(but: Mapping[Path, object] = {}) -> list[Path]:
        every = (p for p in run.root.rglob("*") if p.is_file() and p not in but)
        return [p for p in every if any(form in p.read_bytes() for form in forms)]

    open_books = half_way(run, prepared)
    assert found() == [run.noise_key]
    source = source_of(SPEC, run)
    assert source is not None
    held = noise_key.read(run.noise_key)
    told_of = [
        repr(source),
        repr(held),
        str(held),
        repr(vars(open_books)),
        source.name,
        str(source.key_mark),
    ]
    with pytest.raises(PrivacyError) as caught:
        open_books.close()
    told_of += [str(caught.value), repr(caught.value)]
    go(run, prepared)
    assert found() == []
    out, err = capfd.readouterr()
    assert not [
        text for text in [*told_of, out, err] if any(form in text.encode() for form in forms)
    ]


def test_a_key_that_cannot_be_read_is_not_taken_for_a_lost_one(
    prepared: Prepared, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    half_way(run, prepared)
    run.noise_key.unlink()
    run.noise_key.mkdir()
    with pytest.raises(PrivacyError, match="run key cannot be read"):
        go(run, prepared, accept=True)


def test_nobody_measures_without_the_key(prepared: Prepared, run: RunDirectory) -> None:
    with pytest.raises(PrivacyError, match="there is no run key"):
        noise_of(SPEC, run)


def test_a_task_that_outlives_its_run_draws_nothing_with_a_later_key(
    prepared: Prepared, run: RunDirectory
) -> None:
    """It read in the ledger how often a level is drawn, then the key was lost and another made:
    with the old number under the new key it would make a third draw, and the ledger has two."""
    half_way(run, prepared)
    late, of = LedgerFile(run.ledger).entries, [("persons", "Block")]
    assert run_noise.noise_for(of, late, SPEC, run).key_mark == late.last()[of[0]].key
    run.noise_key.unlink()
    budget_book(run, prepared, accept=True)
    now = LedgerFile(run.ledger).entries
    assert (late.number(of[0]), now.number(of[0])) == (1, 2)
    with pytest.raises(
        PrivacyError, match="the run key is not the one that persons at Block is measured by"
    ):
        run_noise.noise_for(of, late, SPEC, run)
    assert run_noise.noise_for(of, now, SPEC, run).key_mark == now.last()[of[0]].key


@pytest.mark.parametrize("entropy", ["forgetful", "seeded"])
def test_other_sources_serve_the_attempts_that_are_theirs(
    entropy: str, prepared: Prepared, tmp_path: Path
) -> None:
    chosen = SEEDED if entropy == "seeded" else FORGETFUL
    run, of = resume_state(chosen, prepared, tmp_path / "run"), [("persons", "US")]
    open_books = budget_book(run, prepared, chosen)
    if entropy == "forgetful":
        with pytest.raises(PrivacyError, match="is measured by"):  # not written down yet
            run_noise.noise_for(of, open_books.entries, chosen, run)
    open_books.begin(of[0])
    assert run_noise.noise_for(of, open_books.entries, chosen, run).private is (
        entropy == "forgetful"
    )


def test_another_version_of_the_software_is_counted_as_a_second_draw(
    prepared: Prepared, run: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may cut a level into other chunks, or make other numbers of the same bits: the noise would
    be another, under one line of the ledger.
    """
    half_way(run, prepared)
    before, version = LedgerFile(run.ledger).entries, "das.truth.bookkeeping.__version__"
    assert run_directory.read_json(run.inputs)["version"] == das.__version__
    with monkeypatch.context() as later:
        later.setattr(version, "99")
        with pytest.raises(UserError, match=f"begun with das {das.__version__}, and this is 99"):
            budget_book(run, prepared)
        assert LedgerFile(run.ledger).entries == before
        budget_book(run, prepared, accept=True)
        now = LedgerFile(run.ledger).entries
        assert [now.number(("persons", level)) for level in ("US", "State", "Block")] == [1, 1, 2]
        assert run_directory.read_json(run.inputs)["version"] == "99"
        budget_book(run, prepared)  # and goes on by itself
        assert LedgerFile(run.ledger).entries == now
    with pytest.raises(UserError, match=f"begun with das 99, and this is {das.__version__}"):
        go(run, prepared)
    assert lost(go(run, prepared, accept=True))["persons"] == {"Block"}
    assert run_directory.read_json(run.inputs)["version"] == das.__version__
