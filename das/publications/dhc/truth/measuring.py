"""Measuring the DHC: noise on demand. The ledger has all of it before its first answer.

Estimation requests measurements level by level, and this module answers. A release contains exactly
these answers. So measuring and estimating alternate, in the process that has the truth and the key.
The estimates still depend on the published measurements alone: the release gives the same
estimates, number for number (``das estimate --from``).

An interrupted run that has its key draws the same noise again (:mod:`das.noise.coordinates`), for
the same requests. The answers of a universe are on disk when all its levels are estimated. One line
of the ledger acknowledges them. Requests at a level depend on the answers at other levels, and
requests for households on the estimated units. So the levels of a universe stand together, and
those of households only with those of units. If one of them must be drawn again, all are drawn and
counted again (:mod:`das.truth.bookkeeping` has the proof)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol, TypeVar

import numpy as np

from das.accounting.document import OwnStatement
from das.accounting.statement import LedgerEvents, invariants, statement
from das.errors import UserError
from das.estimate.prior import scope
from das.files import atomic
from das.files.measurements import nmf
from das.files.run.ledger import Entries, LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.measurement import RecordingSource, SparseSource
from das.model.not_private import marked
from das.model.spine import Spine
from das.noise import entropy
from das.noise.samplers import SAMPLERS
from das.publications.dhc.files import on_demand
from das.publications.dhc.model import strategy
from das.publications.dhc.release import HOMES, OpenedDhc, write_public
from das.publications.dhc.spec import UNITS, DhcSpec, DhcUniverse
from das.publications.dhc.truth.oracle import OnDemandMeasurement, Pay
from das.publications.dhc.truth.preparation import PreparedDhc, exact_units
from das.release.seal import seal
from das.truth import files as truth
from das.truth.bookkeeping import BudgetBook, StagePlan
from das.truth.measure import truth_digest
from das.truth.prepared import TrueHistograms, over, upward
from das.truth.run_noise import noise_for
from das.truth.run_setup import store, truth_digests

T = TypeVar("T")


def begin(prepared: PreparedDhc, directory: RunDirectory) -> None:
    """Make the folder of a run, with what it will measure. A failure here leaves no folder."""
    spec = prepared.spec
    _check_cut(spec, prepared.spine, prepared.subtrees)
    directory.create()
    opened = prepared.opened(directory.release)
    with directory.whole_or_nothing():
        write_public(opened, prepared.areas)
        store(prepared, prepared.lowest, directory)
        tree = prepared.trees[UNITS]
        nmf.write_constraints(
            directory.nmf(UNITS),
            spec.universe(UNITS).schema,
            tree.spine,
            list(exact(tree, prepared.lowest[UNITS])),
            private=spec.run.private,
        )
        digests = truth_known(directory, prepared.spine, prepared.subtrees, prepared.lowest)
        read = {"inputs": [asdict(s) for s in prepared.sources], "truth": digests}
        atomic.write_json(directory.inputs, marked(read, spec.run.private))


def _check_cut(spec: DhcSpec, spine: Spine, cut: Subtrees) -> None:
    """Raises :class:`UserError` if a prior of shares needs what no subtree sees."""
    if spec.estimation.prior == "none" or not len(cut):
        return
    if spine.index(cut.level) > spine.index(level := scope(spine)):
        raise UserError(
            f"the prior of shares is estimated by {level}, and this tree is so large that it is cut"
            f" below, at {cut.level}",
            where="estimation.prior",
            remedy='leave it at "none", or name more levels in geography.levels',
        )


def truth_known(
    directory: RunDirectory,
    spine: Spine,
    cut: Subtrees,
    lowest: Mapping[str, Confidential[Histogram]],
) -> dict[str, dict[str, str]]:
    """Digests that identify the true counts of each universe: one of all its counts, and one of
    each subtree's file, with which a task checks its own."""
    files = truth_digests(directory, list(lowest)) if len(cut) else {}
    whole = {name: {spine.levels[-1]: truth_digest(h)} for name, h in lowest.items()}
    return {name: known | files.get(name, {}) for name, known in whole.items()}


def exact(tree: MeasuredSpine, units: Confidential[Histogram]) -> tuple[Constraint, ...]:
    """What is published exactly: the housing units of every lowest unit of the measured tree, and
    its facilities by type. A published unit outside of the tree has neither."""
    says = "housing units, and facilities of group quarters by type, of every block"
    return (
        Constraint(
            strategy.UNITS_EXACT,
            tree.spine.levels[-1],
            strategy.UNITS_EXACT,
            "=",
            exact_units(units)[tree.place],
            says,
        ),
    )


class MeasuringDhc(NoRepr):
    """The truth of a run that has begun, its key and its budget book. It answers the requests of
    estimation, and writes down its answers."""

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
        self._budget_book = BudgetBook.start(
            opened.spec, planned(opened), directory, digests, accept_spent
        )

    def _check_exact(self) -> None:
        """Raises :class:`UserError` if exact counts differ from those written when the run began:
        no measurement can replace them."""
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

    def missing(self, universe: DhcUniverse) -> bool:
        """Whether some part of a universe is not measured yet."""
        return any(
            self._budget_book.missing((universe.name, level)) for level in self._opened.spine.levels
        )

    def truth(self, universe: DhcUniverse) -> TrueHistograms:
        """The true counts of every level of the published spine."""
        return upward(self._lowest[universe.name], self._opened.spine)

    def source(self, universe: DhcUniverse) -> RecordingSource:
        """Answers requests at the levels of the upper tree, and remembers the answers. Without
        subtrees these are all levels. The ledger has a level in full before its first answer."""
        opened, budget_book = self._opened, self._budget_book
        self._answering[universe.name] = answering(
            opened,
            universe,
            over(opened.tree(universe), self._lowest[universe.name]),
            self._directory,
            budget_book.entries,
            lambda level: budget_book.pay((universe.name, level)),
        )
        return RecordingSource(self._answering[universe.name])

    def pay_below(self, universe: DhcUniverse) -> int:
        """Write all draws of the levels below the upper tree to the ledger. Returns the number of
        this attempt at the universe, from 1."""
        levels = self._opened.spine.levels
        for level in levels[len(self._opened.levels) :]:
            self._budget_book.pay((universe.name, level))
        return attempt_at(universe, levels, self._budget_book.entries)

    def write(
        self, universe: DhcUniverse, said: RecordingSource, below: Sequence[MeasuredPart]
    ) -> None:
        """Write and acknowledge all answers of a universe: ``said`` for the upper tree, and the
        parts ``below`` that its subtrees have written."""
        own = written(
            self._opened, universe, said, self._answering.pop(universe.name), self._directory
        )
        self._budget_book.acknowledge([*own, *below])

    def close(self) -> OwnStatement:
        """When everything is measured, write the privacy statement, seal the release, and delete
        the key."""
        spec = self._opened.spec
        drawn = self._budget_book.close()
        said = stated(spec, drawn, exact(self._opened.trees[UNITS], self._lowest[UNITS]))
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
    universe: DhcUniverse,
    known: TrueHistograms,
    directory: RunDirectory,
    budget_book: Entries,
    pay: Pay,
) -> OnDemandMeasurement:
    """Answers requests at the levels of a part, the upper tree or a subtree, with the true counts
    ``known``. ``budget_book`` says how often each level is drawn."""
    levels = opened.levels
    return OnDemandMeasurement(
        {level: known[level] for level in levels},
        universe.name,
        universe.schema,
        MeasuredSpine.from_published(opened.own(universe)),
        universe.plan,
        noise_for(
            [(universe.name, level) for level in levels], budget_book, opened.spec, directory
        ),
        pay,
        lambda level: budget_book.number((universe.name, level)),
    )


def written(
    opened: OpenedDhc,
    universe: DhcUniverse,
    said: RecordingSource,
    by: OnDemandMeasurement,
    directory: RunDirectory,
) -> list[MeasuredPart]:
    """Write the answers ``said`` of a part, level by level, and return its files."""
    root, parts, subtree = directory.nmf(universe.name), list[MeasuredPart](), opened.part or 0
    for level in opened.levels:
        files = on_demand.write(
            root,
            level,
            universe.schema,
            opened.own(universe),
            said.recorded(level),
            subtree,
            private=opened.spec.run.private,
        )
        paths = {f"{root.name}/{path}": digest for path, digest in files.items()}
        parts.append(MeasuredPart(universe.name, level, subtree, by.mark(level), paths))
    return parts


def attempt_at(universe: DhcUniverse, levels: Sequence[str], budget_book: Entries) -> int:
    """The number of the attempt at a universe: it grows whenever one of its levels begins again."""
    return sum(budget_book.number((universe.name, level)) for level in levels) - len(levels) + 1


def planned(opened: OpenedDhc) -> dict[StageKey, StagePlan]:
    """The draws of each level, and the stages that it rests on: all levels of its universe, and all
    levels of the universe that this one rests on. Raises :class:`SpecError` for noise that cannot
    be drawn."""
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
    """Estimates the universes of a release in subtrees, subtree by subtree."""

    def estimated(
        self, universe: DhcUniverse, source: RecordingSource, done: Mapping[str, T]
    ) -> tuple[T, list[MeasuredPart]]:
        """The estimates of one universe, and the parts of the measurements that its subtrees have
        written. ``source`` answers requests at the upper tree."""


def measure_and_estimate(
    opened: OpenedDhc,
    measuring: MeasuringDhc,
    estimate: Callable[[DhcUniverse, SparseSource, Mapping[str, T]], T],
    below: BelowUpperTree[T] | None = None,
) -> dict[str, T]:
    """Estimate one universe after the other, from noise on demand or from earlier measurements.
    ``estimate`` gets a universe, its source of answers, and the estimates of the universes before.
    If the release is in subtrees, ``below`` measures and estimates them."""
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
