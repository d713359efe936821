"""Measuring the DHC: noise on demand, in the ledger in full before its first answer.

Estimation asks, level by level, and is answered here; what was answered is what a release has of
the measurements. So measuring and estimating alternate, and the process that has truth and key sees
to both. That makes no estimate depend on more than was published: the same estimates come from the
release alone (``das estimate --from``), number for number.

An interrupted run draws the same noise again where its key is (:mod:`das.noise.coordinates`), and
is asked the same again: the answers of a universe are on disk when all its levels are estimated,
and are acknowledged in one line of the ledger. What is asked of a level follows from the answers at
others, and of households from the units that were estimated. So the levels of a universe stand
together, those of households only with those of units; where one of them must be drawn again, all
are, and all are counted again (:mod:`das.truth.bookkeeping` has the proof)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar

import numpy as np

from das.accounting.document import OwnStatement
from das.accounting.statement import LedgerEvents, invariants, statement
from das.errors import UserError
from das.files import atomic
from das.files.measurements import nmf, on_demand
from das.files.run import truth
from das.files.run.ledger import Entries, LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.dhc import strategy
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.not_private import marked
from das.model.sparse_measurement import RecordingSource, SparseSource
from das.model.spine import Spine
from das.model.subtrees import Subtrees
from das.noise import entropy
from das.noise.samplers import SAMPLERS
from das.release.dhc import HOMES, OpenedDhc, write_public
from das.release.seal import seal
from das.spec import DhcSpec
from das.spec.dhc import UNITS, DhcUniverse
from das.truth.beginning import store, truth_digests
from das.truth.bookkeeping import BudgetBook, StagePlan
from das.truth.dhc import PreparedDhc, exact_units
from das.truth.histogram import upward
from das.truth.measure import truth_digest
from das.truth.on_demand import OnDemandMeasurement, Pay
from das.truth.prepared import TrueHistograms
from das.truth.run_noise import noise_for

T = TypeVar("T")


def begin(prepared: PreparedDhc, directory: RunDirectory) -> None:
    """Make the folder of a run, with what it is to measure. What stops it here leaves nothing."""
    directory.create()
    spec, spine = prepared.spec, prepared.spine
    with directory.whole_or_nothing():
        write_public(directory.release, spec, spine, prepared.fixed, prepared.subtrees)
        store(prepared, prepared.lowest, directory)
        u = spec.universe(UNITS)
        nmf.write_constraints(
            directory.nmf(UNITS),
            u.schema,
            spine,
            list(exact(spine, prepared.lowest[UNITS])),
            private=spec.run.private,
        )
        digests = truth_known(directory, spine, prepared.subtrees, prepared.lowest)
        read = {"inputs": [asdict(s) for s in prepared.sources], "truth": digests}
        atomic.write_json(directory.inputs, marked(read, spec.run.private))


def truth_known(
    directory: RunDirectory,
    spine: Spine,
    cut: Subtrees,
    lowest: Mapping[str, Confidential[Histogram]],
) -> dict[str, dict[str, str]]:
    """What tells the true counts from any other: of all of a universe, and of the file of each of
    its subtrees, by which a task knows its own."""
    files = truth_digests(directory, list(lowest)) if len(cut) else {}
    whole = {name: {spine.levels[-1]: truth_digest(h)} for name, h in lowest.items()}
    return {name: known | files.get(name, {}) for name, known in whole.items()}


def exact(spine: Spine, units: Confidential[Histogram]) -> tuple[Constraint, ...]:
    """What is published exactly: of every lowest unit the housing units and facilities by type."""
    says = "housing units, and facilities of group quarters by type, of every block"
    return (
        Constraint(
            strategy.UNITS_EXACT,
            spine.levels[-1],
            strategy.UNITS_EXACT,
            "=",
            exact_units(units),
            says,
        ),
    )


class MeasuringDhc(Closed):
    """The truth of a run that has begun, its key and its spending: what answers an estimate, and
    writes down what it has answered.
    """

    def __init__(
        self, opened: OpenedDhc, directory: RunDirectory, accept_spent: bool = False
    ) -> None:
        self._opened, self._directory = opened, directory
        self._lowest = {
            u.name: truth.read(directory.truth_of(u.name).parent) for u in opened.spec.universes
        }
        self._check_exact()
        digests = truth_known(directory, opened.spine, opened.cut, self._lowest)
        self._answering: dict[str, OnDemandMeasurement] = {}
        self._budget_book = BudgetBook.of(
            opened.spec, planned(opened), directory, digests, accept_spent
        )

    def _check_exact(self) -> None:
        """What is published exactly was written down when the run began: it cannot be measured
        again.
        """
        fixed = self._opened.fixed[UNITS].dense()
        published = np.concatenate(
            [fixed[:, :HOMES].sum(axis=1, keepdims=True), fixed[:, HOMES:]], axis=1
        )
        if not np.array_equal(exact_units(self._lowest[UNITS]), published):
            raise UserError(
                f"the housing units and facilities of {UNITS} are not those that this run publishes"
                " exactly",
                where=self._directory.truth_of(UNITS),
                remedy=(
                    "restore the file that the run began with, or start another run in a new folder"
                ),
            )

    def missing(self, u: DhcUniverse) -> bool:
        """Whether something of a universe is not measured yet."""
        return any(
            self._budget_book.missing((u.name, level)) for level in self._opened.spine.levels
        )

    def truth(self, u: DhcUniverse) -> TrueHistograms:
        return upward(self._lowest[u.name], self._opened.spine)

    def source(self, u: DhcUniverse) -> RecordingSource:
        """What answers of the levels of the upper tree, and remembers it: of all where there are no
        subtrees. A level is in the ledger, in full, before its first answer."""
        opened, budget_book = self._opened, self._budget_book
        self._answering[u.name] = answering(
            opened,
            u,
            self.truth(u),
            self._directory,
            budget_book.entries,
            lambda level: budget_book.pay((u.name, level)),
        )
        return RecordingSource(self._answering[u.name])

    def pay_below(self, u: DhcUniverse) -> int:
        """All draws of the levels below the upper tree are in the ledger. Returns which attempt at
        the universe this is, from 1."""
        levels = self._opened.spine.levels
        for level in levels[len(self._opened.levels) :]:
            self._budget_book.pay((u.name, level))
        return attempt_at(u, levels, self._budget_book.entries)

    def write(self, u: DhcUniverse, said: RecordingSource, below: Sequence[MeasuredPart]) -> None:
        """All that was answered of a universe is on disk, and acknowledged: of the upper tree what
        was ``said``, of its subtrees the parts ``below``."""
        own = written(self._opened, u, said, self._answering.pop(u.name), self._directory)
        self._budget_book.acknowledge([*own, *below])

    def close(self) -> OwnStatement:
        """Everything is measured: the statement, and a seal on what there is. The key is
        deleted.
        """
        spec = self._opened.spec
        drawn = self._budget_book.close()
        said = stated(spec, drawn, exact(self._opened.spine, self._lowest[UNITS]))
        return seal(
            self._directory.release,
            said,
            spec.run.name,
            LedgerFile(self._directory.ledger).entries.files(),
        )


def stated(spec: DhcSpec, drawn: LedgerEvents, known: tuple[Constraint, ...]) -> OwnStatement:
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    outside = [*spec.taken_over, *invariants({UNITS: known})]
    return statement(spec.terms, drawn, outside, name, private, spec.notes)


def answering(
    opened: OpenedDhc,
    u: DhcUniverse,
    known: TrueHistograms,
    directory: RunDirectory,
    budget_book: Entries,
    pay: Pay,
) -> OnDemandMeasurement:
    """What answers of the levels of a part, the upper tree or a subtree, whose true counts are
    ``known``, as often drawn as these ``budget_book`` say."""
    levels = opened.levels
    return OnDemandMeasurement(
        {level: known[level] for level in levels},
        u.name,
        u.schema,
        MeasuredSpine.of(opened.own),
        u.plan,
        noise_for([(u.name, level) for level in levels], budget_book, opened.spec, directory),
        pay,
        lambda level: budget_book.number((u.name, level)),
    )


def written(
    opened: OpenedDhc,
    u: DhcUniverse,
    said: RecordingSource,
    by: OnDemandMeasurement,
    directory: RunDirectory,
) -> list[MeasuredPart]:
    """The files of what was ``said`` of a part, level by level."""
    root, parts, subtree = directory.nmf(u.name), list[MeasuredPart](), opened.part or 0
    for level in opened.levels:
        files = on_demand.write(
            root,
            level,
            u.schema,
            opened.own,
            said.of(level),
            subtree,
            private=opened.spec.run.private,
        )
        paths = {f"{root.name}/{path}": digest for path, digest in files.items()}
        parts.append(MeasuredPart(u.name, level, subtree, by.mark(level), paths))
    return parts


def attempt_at(u: DhcUniverse, levels: Sequence[str], budget_book: Entries) -> int:
    """How often a universe has been begun, counted so that it grows with any of its levels."""
    return sum(budget_book.number((u.name, level)) for level in levels) - len(levels) + 1


def planned(opened: OpenedDhc) -> dict[StageKey, StagePlan]:
    """What each level draws, and rests on: the other levels of its universe, and all of the
    universe that this rests on. Raises
    :class:`SpecError` for noise that cannot be drawn."""
    for d in (d for u in opened.spec.universes for d in u.plan.measurements):
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    levels, subtrees = opened.spine.levels, tuple(range(1, len(opened.cut) + 1))
    return {
        (u.name, level): StagePlan(
            opened.events(u, level),
            (0,) if level in opened.levels else subtrees,
            tuple((name, lv) for name in (u.rests_on, u.name) if name for lv in levels),
        )
        for u in opened.spec.universes
        for level in levels
    }


class BelowUpperTree(Protocol[T]):
    """Who estimates the universes of a release that is cut, by its subtrees."""

    def estimated(
        self, u: DhcUniverse, source: RecordingSource, done: Mapping[str, T]
    ) -> tuple[T, list[MeasuredPart]]:
        """One universe, of whose upper tree ``source`` answers: the whole, and the parts of the
        measurements that its subtrees have written."""


def measure_and_estimate(
    opened: OpenedDhc,
    measuring: MeasuringDhc,
    estimate: Callable[[DhcUniverse, SparseSource, Mapping[str, T]], T],
    below: BelowUpperTree[T] | None = None,
) -> dict[str, T]:
    """Estimate one universe after the other: from noise that is drawn as it is asked for, or from
    what was measured before. ``estimate`` is given a universe, what answers of it, and what it has
    made of those before; a release that is cut is measured with those ``below``."""
    done: dict[str, T] = {}
    for u in opened.spec.universes:
        if not measuring.missing(u):
            done[u.name] = estimate(u, opened.source(u), done)
            continue
        source, parts = measuring.source(u), list[MeasuredPart]()
        if below is None:
            done[u.name] = estimate(u, source, done)
        else:
            done[u.name], parts = below.estimated(u, source, done)
        measuring.write(u, source, parts)
    return done
