"""Every publication, by one small run each: what the contract that all keep is tested on.

Here is how each is run, where it is stopped and how its truth is altered. What is special to one
publication is tested where that is."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from das_toy import maker as toy_maker

from das import spec
from das.engine.choice import EngineChoice
from das.files.run import noise_key
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.model.ledger import Event
from das.publications.detailed.truth import maker as detailed_making
from das.publications.detailed.truth import run as group_run
from das.publications.detailed.truth import run as measure
from das.publications.dhc.truth import maker as dhc_making
from das.publications.dhc.truth import measuring
from das.publications.dhc.truth.oracle import OnDemandMeasurement
from das.publications.sdhc import public, tables
from das.publications.sdhc.truth import run as sdhc_run
from das.release import by_subtree, estimating
from das.release.outcome import Outcome
from das.runs import pipeline
from das.spec import Specification
from das.truth import by_subtree as truth_by_subtree
from das.truth import prepared
from tests.detailed import runs
from tests.plugged import toy_declared
from tests.sdhc.folders import made_up
from tests.stopped import Step
from tests.worlds import ROOT, Worlds

TOY = 'regions = ["north", "south"]\nrho = "1/2"\n[run]\nname = "toy"\npublication = "toy"\n'
#: Of the runs that are not private.
SEED = 1
#: Where the counts of a truth are.
COUNT = 2


def all_of_it(lost: Sequence[Event]) -> Fraction:
    return sum((x.cost for x in lost), Fraction(0))


def of_one_run(lost: Sequence[Event]) -> Fraction:
    """Nobody is in the run of the nation and in that of Puerto Rico; and a group has its total
    alone, or a table.
    """
    runs_of = [[x for x in lost if x.level.startswith("PR-") is pr] for pr in (True, False)]
    return max(all_of_it([x for x in run if x.query != "total only"]) for run in runs_of)


@contextmanager
def as_it_is() -> Iterator[None]:
    yield


@contextmanager
def patched(owner: Any, name: str, value: object) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, value)
        yield


@contextmanager
def in_the_ledger_before_it_is_told(chosen: Specification, out: Path) -> Iterator[None]:
    """When something of a universe is asked, each draw of its level is in the ledger."""
    answers, seen = OnDemandMeasurement.answers, set[str]()

    def watching(self: OnDemandMeasurement, level: str, *rest: Any) -> Any:
        entries = LedgerFile(out / "release" / "ledger.jsonl").entries
        drawn = {(e.universe, e.level, e.query, e.cost) for a in entries.attempts for e in a.events}
        u = next(u for u in chosen.universes if u.name == self._universe)
        assert {(u.name, level, d.query, d.cost) for d in u.plan.at(level)} <= drawn
        seen.add(u.name)
        return answers(self, level, *rest)

    with patched(OnDemandMeasurement, "answers", watching):
        yield
    assert seen == {u.name for u in chosen.universes}


@dataclass(frozen=True)
class Published:
    """One publication. ``go`` runs it into a folder, seeded or not; ``steps`` is where a run is
    stopped, in the order in which it comes to them, and ``midway`` a step before anything is
    acknowledged; ``again`` what a run that lacks its manifest alone must not do again; ``adds``
    what is added to the cost by draws that were lost; ``shared`` the same seeded run, where other
    tests have it, too."""

    name: str
    go: Callable[..., Outcome]
    steps: Callable[[], Sequence[Step]]
    midway: Callable[[], Step]
    alter: Callable[[Path], None]
    around: Callable[[], Any] = as_it_is
    watched: Callable[[Path], Any] = lambda _: as_it_is()
    again: Sequence[tuple[Any, str]] = ()
    adds: Callable[[Sequence[Event]], Fraction] = all_of_it
    shared: Callable[[], Path] | None = None

    def whole(self, worlds: Worlds) -> Path:
        """A seeded run that nothing stopped, which nobody alters."""
        if self.shared is not None:
            return self.shared()

        def make(out: Path) -> None:
            with self.around():
                self.go(out, SEED)

        return worlds.made(f"the contract of {self.name}", make)


def one_more(truth: Path) -> None:
    """One record more in some cell of a file of true counts."""
    table = pq.read_table(truth)
    counts = table["count"].to_numpy().copy()
    counts[0] += 1
    made = table.set_column(COUNT, "count", pa.array(counts))
    pq.write_table(made.replace_schema_metadata(table.schema.metadata), truth)


def alter_persons(out: Path) -> None:
    one_more(
        min(p for p in (out / "confidential" / "truth" / "persons.parquet").rglob("*.parquet"))
    )


# --- each of them
# -------------------------------------------------------------------------------------------------


def seeded(seed: int | None) -> list[str]:
    return [] if seed is None else [f"run.seed={seed}"]


def counts(worlds: Worlds, folder: Path) -> Published:
    """In one piece."""
    text = (ROOT / "configs" / "1940.toml").read_text(encoding="utf-8")

    def go(out: Path, seed: int | None, **how: Any) -> Outcome:
        chosen = spec.parse(text, where="c", overrides=["output.report=false", *seeded(seed)])
        return pipeline.run(chosen, out, paths=[worlds.data("1940")], **how)

    def steps() -> list[Step]:
        return [
            Step(truth_by_subtree, "planned"),
            Step(LedgerFile, "begin", 3),
            Step(LedgerFile, "acknowledge", 2),
            Step(LedgerFile, "close"),
            Step(noise_key, "delete"),
            Step(truth_by_subtree, "seal"),
            Step(estimating, "_described"),
            Step(truth_by_subtree, "assess_release"),
            Step(RunDirectory, "write_manifest"),
        ]

    return Published("counts", go, steps, lambda: Step(LedgerFile, "acknowledge"), alter_persons)


def subtrees(worlds: Worlds, folder: Path) -> Published:
    """A task has one subtree."""
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    more = (
        "output.report=false",
        "geography.spine=tabulation",
        "estimation.method=full-information",
        "estimation.bias=corrected",
    )

    def go(out: Path, seed: int | None, **how: Any) -> Outcome:
        chosen = spec.parse(text, where="c", overrides=[*more, *seeded(seed)])
        data, each = [worlds.data("one thousand")], EngineChoice(size=1)
        return pipeline.run(chosen, out, paths=data, engine=each, **how)

    def steps() -> list[Step]:
        """In those of tasks something is done when they come. Between these a run in one piece does
        the same, and is stopped there."""
        return [
            Step(LedgerFile, "begin", 3),
            Step(truth_by_subtree, "measure_part", 12),
            Step(LedgerFile, "acknowledge", 2),
            Step(LedgerFile, "close"),
            Step(by_subtree, "_told", 3),
            Step(by_subtree, "_estimated", 2),
            Step(by_subtree, "_publish", 3),
            Step(by_subtree.microdata, "publish_parts", 2),
            Step(by_subtree.table_columns, "join", 9),
            Step(truth_by_subtree, "tally", 3),
            Step(truth_by_subtree, "write"),
            Step(RunDirectory, "write_manifest"),
        ]

    return Published(
        "counts in subtrees",
        go,
        steps,
        lambda: Step(truth_by_subtree, "measure_part", 6),
        alter_persons,
        around=lambda: patched(prepared, "LARGEST", 8),
        again=(
            (by_subtree, "collect"),
            (by_subtree, "estimate_subtrees"),
            (truth_by_subtree, "measure"),
            (truth_by_subtree, "evaluate"),
        ),
    )


def dhc(worlds: Worlds, folder: Path) -> Published:
    text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")

    def chosen(seed: int | None) -> Specification:
        earlier = worlds.run(*seeded(seed), data="one thousand")
        changes = [f"constraints.from={earlier}", "output.report=false", *seeded(seed)]
        return spec.load(text, where="c", overrides=changes)

    def go(out: Path, seed: int | None, **how: Any) -> Outcome:
        return pipeline.run(chosen(seed), out, paths=[worlds.linked()], **how)

    def steps() -> list[Step]:
        return [
            Step(measuring, "planned"),
            Step(LedgerFile, "begin", 4),
            Step(OnDemandMeasurement, "answers", 3),
            Step(OnDemandMeasurement, "answers", 60),
            Step(measuring.on_demand, "write", 2),
            Step(LedgerFile, "acknowledge", 2),
            Step(LedgerFile, "close"),
            Step(noise_key, "delete"),
            Step(measuring, "seal"),
            Step(dhc_making, "publish"),
        ]

    return Published(
        "the DHC",
        go,
        steps,
        lambda: Step(OnDemandMeasurement, "answers", 3),
        lambda out: one_more(RunDirectory(out).truth_of("persons")),
        shared=worlds.dhc,
        watched=lambda out: in_the_ledger_before_it_is_told(chosen(SEED), out),
    )


def groups(worlds: Worlds, folder: Path, product: str = "persons") -> Published:
    """The Detailed DHC; a chunk has a few groups."""
    given = runs.given(folder / product, product)

    def go(out: Path, seed: int | None, **how: Any) -> Outcome:
        return runs.go(*given, out, product, seed=seed, **how)

    def steps() -> list[Step]:
        return [
            Step(group_run, "planned"),
            Step(LedgerFile, "begin", 4),
            Step(group_run, "measure", 9 if product == "persons" else 3),
            Step(group_run.messages, "write", 2),
            Step(LedgerFile, "acknowledge"),
            Step(group_run, "_sums"),
            Step(group_run.measurements, "write", 2),
            Step(LedgerFile, "close"),
            Step(noise_key, "delete"),
            Step(group_run, "seal"),
            Step(detailed_making, "publish"),
            Step(detailed_making, "seal"),
            Step(RunDirectory, "write_manifest"),
        ]

    def alter(out: Path) -> None:
        path = min((out / "confidential").rglob("part-01.parquet"))
        table = pq.read_table(path)
        codes = table["race0"].to_numpy().copy()
        codes[0] = 2020 if codes[0] != 2020 else 1010
        pq.write_table(table.set_column(1, "race0", pa.array(codes)), path)

    return Published(
        f"groups of {product}",
        go,
        steps,
        lambda: Step(group_run, "measure", 3),
        alter,
        around=lambda: patched(measure, "MOST_GROUPS", 12),
        adds=of_one_run,
    )


def sdhc(worlds: Worlds, folder: Path) -> Published:
    text = (ROOT / "configs" / "sdhc-2020.toml").read_text(encoding="utf-8")
    data = made_up(1, 60).write(folder)

    def go(out: Path, seed: int | None, **how: Any) -> Outcome:
        chosen = spec.load(text, where="c", overrides=seeded(seed))
        return pipeline.run(chosen, out, paths=[data], **how)

    def steps() -> list[Step]:
        return [
            Step(LedgerFile, "begin", 2),
            Step(sdhc_run, "noisy", 2),
            Step(sdhc_run.measurements, "write"),
            Step(LedgerFile, "acknowledge"),
            Step(LedgerFile, "close"),
            Step(noise_key, "delete"),
            Step(sdhc_run, "seal"),
            Step(public, "write_official"),
            Step(tables, "write"),
            Step(public, "seal"),
            Step(RunDirectory, "write_manifest"),
        ]

    def alter(out: Path) -> None:
        (path,) = (out / "confidential" / "truth").rglob("answers.json")
        said = json.loads(path.read_text())
        said["answers"][0][0] += 1
        path.write_text(json.dumps(said))

    return Published("the S-DHC", go, steps, lambda: Step(sdhc_run, "noisy"), alter)


def toy(worlds: Worlds, folder: Path) -> Published:
    folder.mkdir(parents=True, exist_ok=True)
    people = folder / "people.csv"
    people.write_text("region\n" + "north\n" * 30 + "south\n" * 12)

    def go(out: Path, seed: int | None, **how: Any) -> Outcome:
        chosen = spec.load(TOY, where="c", overrides=seeded(seed))
        return pipeline.run(chosen, out, paths=[people], **how)

    def steps() -> list[Step]:
        return [
            Step(LedgerFile, "begin"),
            Step(LedgerFile, "acknowledge"),
            Step(LedgerFile, "close"),
            Step(noise_key, "delete"),
            Step(toy_maker, "seal"),
            Step(RunDirectory, "write_manifest"),
        ]

    def alter(out: Path) -> None:
        path = out / "confidential" / "truth" / "counts.json"
        path.write_text(json.dumps({"north": 31, "south": 12}))

    return Published(
        "the toy", go, steps, lambda: Step(LedgerFile, "acknowledge"), alter, around=toy_declared
    )


#: By name: from the runs that are shared, and a folder for what it reads.
EVERY: dict[str, Callable[[Worlds, Path], Published]] = {
    "counts": counts,
    "counts in subtrees": subtrees,
    "the DHC": dhc,
    "groups of persons": groups,
    "groups of households": lambda w, f: groups(w, f, "households"),
    "the S-DHC": sdhc,
    "the toy": toy,
}
