"""Measuring that is killed, loses its key, finds another truth, and is resumed: a model that knows
every draw of noise.

A :class:`Publication` begins a run in a folder, and measures it. Each attempt is a process of its
own: it is killed before any of its calls that change what the disk holds, and writes down every
draw of noise, with what the ledger said then. :func:`endure` follows the advice of whatever
refuses, and holds that:

* at every draw, the ledger has its stage at least as often as noise of it was drawn;
* at every moment the measurements in the ledger are on the disk as acknowledged;
* a refusal has changed nothing, and its advice works: the spending is closed in the end;
* while the key and the truth are kept, nothing is spent twice.
"""

from __future__ import annotations

import json
import os
import shutil
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from das import spec
from das.engine import Silent
from das.engine.choice import EngineChoice
from das.errors import DasError, UserError
from das.files.run.ledger import Entries, LedgerFile, folder_digest
from das.files.run.run_directory import RunDirectory, file_digest
from das.files.run.stage_tasks import opened as opened_engine
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import SparseSource
from das.noise import entropy
from das.publications.detailed.release import open_groups
from das.publications.detailed.truth import run
from das.publications.detailed.truth import run as group_measure
from das.publications.detailed.truth.folders import GivenFolders, read_folders
from das.publications.dhc.model import strategy
from das.publications.dhc.release import open_dhc
from das.publications.dhc.spec import UNITS, DhcUniverse, Earlier
from das.publications.dhc.truth import measuring
from das.publications.dhc.truth.measuring import MeasuringDhc, measure_and_estimate
from das.publications.dhc.truth.preparation import PreparedDhc
from das.stages import Stages
from das.truth import by_subtree, prepared, run_setup
from das.truth.preparation import prepare
from das.truth.prepared import Prepared
from das.truth.run_setup import ResumeState
from tests import dhc_small
from tests.detailed import runs
from tests.detailed.runs import configured
from tests.spec.test_parse import BASE
from tests.spec.test_parse import UNITS as HOMES
from tests.worlds import ROOT, Worlds

#: Calls that change what the disk holds.
WRITES = ("fsync", "replace", "mkdir", "unlink", "link", "rename", "rmdir", "ftruncate")
FORGETFUL = "forgetful"


class Publication(Protocol):
    """One that measures in several parts. ``truths``: the files of true counts that can be altered,
    and how.
    """

    def begin(self, out: Path) -> None: ...

    def measure(self, out: Path, accept_spent: bool) -> None:
        """Until the spending are closed."""
        ...

    def alter(self, out: Path, order: Random) -> None:
        """Another truth with the same exact counts."""
        ...


@dataclass(frozen=True)
class PlannedMeasurement:
    """Noise of some units of a stage, from one stream; ``stated`` is how often the ledger had the
    stage.
    """

    universe: str
    level: str
    units: str
    query: str
    stream: str
    stated: int


@dataclass
class Told:
    """What happened in a number of runs."""

    runs: int = 0
    attempts: int = 0
    kills: int = 0
    keys_lost: int = 0
    truths_altered: int = 0
    refused: int = 0
    spent_again: int = 0
    measurements: int = 0
    killed_before: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Fate:
    """What becomes of an attempt: killed before its ``write``-th write (``None``: not at all), then
    the key is lost, or the truth is altered, or put back; and whether the next attempt accepts at
    once that something is spent."""

    write: int | None = None
    lose_key: bool = False
    alter: bool = False
    accept: bool = False


def fates(order: Random, most: int, kills: int) -> Iterator[Fate]:
    """Some attempts that are killed, at random; then no more."""
    for _ in range(kills):
        yield Fate(
            order.randint(1, most), order.random() < 0.5, order.random() < 0.2, order.random() < 0.3
        )


def endure(
    publication: Publication,
    resume_state: Path,
    folder: Path,
    given: Iterator[Fate],
    order: Random,
    told: Told,
) -> None:
    """One run, from what has ``resume_state``, until its spending are closed. Raises
    ``AssertionError`` for what must not be."""
    out, log = folder / "run", folder / "drawn.jsonl"
    shutil.rmtree(out, ignore_errors=True)
    log.unlink(missing_ok=True)
    shutil.copytree(resume_state, out)
    directory, original = RunDirectory(out), folder / "original"
    accept = accepted = harmed = False
    shutil.rmtree(original, ignore_errors=True)
    shutil.copytree(out / "confidential" / "truth", original)
    told.runs += 1
    while True:
        fate = next(given, Fate())
        accepted |= accept
        before = folder_digest(out)
        ended, said = attempt(publication, out, log, fate.write, accept)
        told.attempts += 1
        entries = check(directory, log)
        if ended == "closed":
            break
        if ended == "refused":
            assert "--accept-spent" in said, said
            assert not accept, f"what was advised is refused: {said}"
            assert folder_digest(out) == before, "whoever refuses changes nothing"
            told.refused, accept = told.refused + 1, True
            continue
        assert ended == "killed", said
        told.kills += 1
        told.killed_before[said] += 1
        accept = fate.accept
        if fate.lose_key:
            harmed |= bool(entries.attempts)
            directory.noise_key.unlink(missing_ok=True)
            told.keys_lost += 1
        if fate.alter and not entries.closed:
            harmed = True
            told.truths_altered += 1
            if folder_digest(out / "confidential" / "truth") == folder_digest(original):
                publication.alter(out, order)
            else:
                shutil.rmtree(out / "confidential" / "truth")
                shutil.copytree(original, out / "confidential" / "truth")
    assert entries.closed
    assert not directory.noise_key.exists()
    drawn = measurements(log)
    keyed = all(a.key for a in entries.attempts)
    assert entries.lost() == [] or harmed or not keyed, (
        "nothing was lost, and something is spent twice"
    )
    assert not entries.lost() or accepted, "something is spent twice, and nobody was asked"
    told.spent_again += bool(entries.lost())
    told.measurements += len(drawn)


def check(directory: RunDirectory, log: Path) -> Entries:
    """The books hold, now."""
    entries = LedgerFile(directory.ledger).entries
    streams: defaultdict[tuple[str, ...], set[str]] = defaultdict(set)
    for d in measurements(log):
        drawn = streams[d.universe, d.level, d.units, d.query]
        drawn.add(d.stream)
        assert len(drawn) <= d.stated, f"{d} is draw {len(drawn)}, and the ledger has {d.stated}"
    for path, sha256 in entries.files().items():
        assert file_digest(directory.release / path) == sha256, f"{path} was overwritten"
    return entries


def measurements(log: Path) -> list[PlannedMeasurement]:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return [PlannedMeasurement(*json.loads(line)) for line in lines]


def attempt(
    publication: Publication, out: Path, log: Path, write: int | None, accept: bool
) -> tuple[str, str]:
    """In a process of its own: how it ended, and what was said, or what it was about to do."""
    said = log.with_name("said.txt")
    said.unlink(missing_ok=True)
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        text = said.read_text(encoding="utf-8") if said.exists() else ""
        return {0: "closed", 2: "refused", 9: "killed"}.get(code, "failed"), text
    try:
        watched(out, log)
        trapped(write, said)
        publication.measure(out, accept)
        os._exit(0)
    except UserError as error:
        said.write_text(str(error), encoding="utf-8")
        os._exit(2)
    except BaseException as error:
        says = str(error) if isinstance(error, DasError) else ""
        said.write_text(says + traceback.format_exc(), encoding="utf-8")
        os._exit(1)
    finally:
        os._exit(1)


def trapped(write: int | None, said: Path) -> None:
    """From now on this process ends before its ``write``-th write: nothing more runs, no handler,
    no flush.
    """
    calls = count(1)

    def trap(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            if write is not None and next(calls) == write:
                said.write_text(name, encoding="utf-8")
                os._exit(9)
            return None if name == "fsync" else real(*args, **options)  # no disk is waited for

        return call

    for name in WRITES:
        setattr(os, name, trap(name, getattr(os, name)))


def watched(out: Path, log: Path) -> None:
    """From now on this process writes down what it draws, before it does."""
    ledger, file = RunDirectory(out).ledger, os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    known: dict[tuple[int, int], Entries] = {}

    def entries() -> Entries:
        stat = ledger.stat()
        at = stat.st_mtime_ns, stat.st_size
        if at not in known:
            known[at] = LedgerFile(ledger).entries
        return known[at]

    def note(chunk: Any, query: str, stream: str) -> None:
        units = f"{chunk.first.decode()}-{chunk.last.decode()}"
        line = [
            chunk.universe,
            chunk.level,
            units,
            query,
            stream,
            entries().number((chunk.universe, chunk.level)),
        ]
        os.write(file, (json.dumps(line) + "\n").encode())

    of_keyed, of_system, blocks, fresh = (
        entropy._Keyed.chunk,
        entropy._System.chunk,
        entropy._Keyed.blocks,
        count(),
    )

    def keyed(self: Any, label: Any) -> Any:
        note(label, "", self.mark(label))
        return of_keyed(self, label)

    def forgetful(self: Any, label: Any) -> Any:
        note(label, "", f"{os.getpid()} {next(fresh)}")
        return of_system(self, label)

    def on_request(self: Any, label: Any) -> Any:
        note(label.chunk, label.query, self.mark(label))
        return blocks(self, label)

    for owner, name, other in (
        (entropy._Keyed, "chunk", keyed),
        (entropy._System, "chunk", forgetful),
        (entropy._Keyed, "blocks", on_request),
    ):
        setattr(owner, name, other)


def altered(path: Path, order: Random) -> None:
    """One record more in some cell of a file of true counts."""
    table = pq.read_table(path)
    counts = table["count"].to_numpy().copy()
    counts[order.randrange(len(counts))] += 1
    pq.write_table(
        table.set_column(2, "count", pa.array(counts)).replace_schema_metadata(
            table.schema.metadata
        ),
        path,
    )


# --- what is published
# -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Redistricting:
    """A small run, which is measured whole, level by level."""

    worlds: Worlds
    entropy: str = "keyed"

    @cached_property
    def spec(self) -> spec.RunSpec:
        return spec.parse(
            f"{BASE}\n[housing]\n{HOMES}", where="c", overrides=[f"run.entropy={self.entropy}"]
        )

    @cached_property
    def prepared(self) -> Prepared:
        return prepare(self.spec, [self.worlds.data("one thousand")], Stages(), Silent())

    def begin(self, out: Path) -> None:
        run_setup.begin(self.spec, self.prepared, RunDirectory(out))

    def measure(self, out: Path, accept_spent: bool) -> None:
        directory = RunDirectory(out)
        resume_state = ResumeState.read(directory)
        with opened_engine(EngineChoice()) as engine:
            by_subtree._measured(
                self.spec.on(resume_state.unit_classes),
                resume_state,
                directory,
                engine,
                1,
                Silent(),
                accept_spent,
            )

    def alter(self, out: Path, order: Random) -> None:
        path = order.choice(sorted((out / "confidential" / "truth").rglob("part-*.parquet")))
        altered(path, order)


@dataclass(frozen=True)
class Cut:
    """A run that is cut into subtrees: tasks from files to files."""

    worlds: Worlds
    entropy: str = "keyed"
    largest: int = 24

    @cached_property
    def spec(self) -> spec.RunSpec:
        text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
        return spec.parse(
            text, where="c", overrides=["geography.spine=tabulation", f"run.entropy={self.entropy}"]
        )

    def begin(self, out: Path) -> None:
        with _set(prepared, "LARGEST", self.largest):
            made = prepare(self.spec, [self.worlds.data("one thousand")], Stages(), Silent())
            run_setup.begin(self.spec, made, RunDirectory(out))

    def measure(self, out: Path, accept_spent: bool) -> None:
        prepared.LARGEST = self.largest  # in a process of its own
        directory, choice = RunDirectory(out), EngineChoice(size=1)
        resume_state = ResumeState.read(directory)
        with opened_engine(choice) as engine:
            by_subtree._measured(
                self.spec.on(resume_state.unit_classes),
                resume_state,
                directory,
                engine,
                1,
                Silent(),
                accept_spent,
            )

    def alter(self, out: Path, order: Random) -> None:
        altered(
            order.choice(sorted((out / "confidential" / "truth").rglob("part-*.parquet"))), order
        )


@dataclass(frozen=True)
class Detailed:
    """The Detailed DHC, state by state."""

    given: tuple[Path, Path]
    entropy: str = "keyed"

    def begin(self, out: Path) -> None:
        given = GivenFolders.from_paths(*self.given, "persons", None)
        read = read_folders(given)
        spec = configured(run={"entropy": self.entropy}).on(read.parameters)
        run.begin(spec, read, RunDirectory(out))

    def measure(self, out: Path, accept_spent: bool) -> None:
        group_measure.MOST_GROUPS = 12  # in a process of its own: a chunk has a few groups
        directory = RunDirectory(out)
        with opened_engine(EngineChoice()) as engine:
            run._measured_of_run(
                open_groups(directory.release), directory, engine, Silent(), accept_spent
            )

    def alter(self, out: Path, order: Random) -> None:
        path = order.choice(
            [
                p
                for p in sorted((out / "confidential").rglob("part-*.parquet"))
                if pq.read_metadata(p).num_rows
            ]
        )
        table = pq.read_table(path)
        codes = table["race0"].to_numpy().copy()
        codes[0] = 2020 if codes[0] != 2020 else 1010
        pq.write_table(table.set_column(1, "race0", pa.array(codes)), path)


@dataclass(frozen=True)
class Dhc:
    """Answers on request. Instead of an estimate there is who asks as one does: of each level what
    follows from the answers before, of households also from those of units."""

    universes: tuple[str, ...] = ("persons", UNITS, "households")

    @cached_property
    def prepared(self) -> PreparedDhc:
        levels = '", "'.join(dhc_small.LEVELS)
        text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
        chosen = spec.load(text, where="c", overrides=[f'geography.levels=["{levels}"]'])
        chosen = chosen.after(Earlier.model_validate({"from": "earlier", "digest": "0" * 64}))
        lowest = dhc_small.simulated(12)
        fixed = {
            u.name: _answers(u, lowest[u.name]) for u in chosen.universes if u.rests_on is None
        }
        spine, true = dhc_small.tree(), {k: Confidential(h) for k, h in lowest.items()}
        trees = {name: MeasuredSpine.from_published(spine) for name in lowest}
        return PreparedDhc(chosen, spine, trees, fixed, true, (), ())

    def begin(self, out: Path) -> None:
        measuring.begin(self.prepared, RunDirectory(out))

    def measure(self, out: Path, accept_spent: bool) -> None:
        opened, directory = open_dhc(RunDirectory(out).release), RunDirectory(out)
        made = MeasuringDhc(opened, directory, accept_spent)
        measure_and_estimate(
            opened, made, lambda u, source, done: asked(u, source, opened.spine.levels, done)
        )
        made._budget_book.close()

    def alter(self, out: Path, order: Random) -> None:
        path = RunDirectory(out).truth_of(order.choice(self.universes))
        if UNITS not in path.parent.name:
            altered(path, order)
            return
        table = pq.read_table(path)  # units of another tenure: what is exact is as it was
        cell = table["cell"].to_numpy().copy()
        at = order.choice(np.flatnonzero(cell < 3).tolist())
        cell[at] = 3
        unit, count_ = table["unit"].to_numpy(), table["count"].to_numpy()
        h = Histogram.from_triplets(
            len(dhc_small.PLACES), strategy.units().schema.cells, unit, cell, count_
        )
        new = pa.table({"unit": h.unit, "cell": h.cell, "count": h.count})
        pq.write_table(new.replace_schema_metadata(table.schema.metadata), path)


def asked(
    u: DhcUniverse, source: SparseSource, levels: tuple[str, ...], done: Mapping[str, int]
) -> int:
    """A few answers to each query of each level: which, follows from all answers before."""
    heard = done[u.rests_on] if u.rests_on else 0
    for level in levels:
        for query in source.queries(level):
            order = np.random.default_rng(abs(heard) % (1 << 32))
            units, answers = source.shape(level, query)
            where = order.integers(0, units, 3), order.integers(0, answers, 3)
            heard = heard * 31 + int(source.answers(level, query, *where).sum())
            heard %= 1 << 61
    return heard


def _answers(u: DhcUniverse, h: Histogram) -> Histogram:
    query = u.schema.query(u.fixed_query)
    return Histogram.from_triplets(h.units, query.answers, h.unit, query.at(h.cell), h.count)


@contextmanager
def _set(owner: Any, name: str, value: object) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def every(worlds: Worlds, folder: Path) -> dict[str, Callable[[], Publication]]:
    """All that there are, by name."""
    given = runs.given(folder)
    return {
        "redistricting": lambda: Redistricting(worlds),
        "redistricting, forgetful": lambda: Redistricting(worlds, FORGETFUL),
        "redistricting in subtrees": lambda: Cut(worlds),
        "redistricting in subtrees, forgetful": lambda: Cut(worlds, FORGETFUL),
        "detailed groups": lambda: Detailed(given),
        "detailed groups, forgetful": lambda: Detailed(given, FORGETFUL),
        "dhc": Dhc,
    }
