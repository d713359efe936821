"""Measuring the demographic file: noise on request, in the ledger in full before its first answer.

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

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TypeVar

import numpy as np

from das.accounting.document import OwnStatement
from das.accounting.statement import Drawn, invariants, statement
from das.errors import UserError
from das.files import atomic
from das.files.measurements import nmf, revealed
from das.files.run import truth
from das.files.run.ledger import LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.closed import Closed
from das.model.confidential import Confidential
from das.model.constraint import Constraint
from das.model.dhc import strategy
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.not_private import marked
from das.model.sparse_measurement import Recorded, SparseSource
from das.model.spine import Spine
from das.noise import entropy
from das.noise.samplers import SAMPLERS
from das.release.dhc import HOMES, OpenedDhc, write_public
from das.release.seal import seal
from das.spec import DhcSpec
from das.spec.dhc import UNITS, DhcUniverse
from das.truth.bookkeeping import Books, StagePlan
from das.truth.dhc import PreparedDhc, exact_units
from das.truth.histogram import upward
from das.truth.measure import truth_digest
from das.truth.measuring import noise_for
from das.truth.prepared import TrueHistograms
from das.truth.revealing import Revealing

T = TypeVar("T")


def begin(prepared: PreparedDhc, directory: RunDirectory) -> None:
    """Make the folder of a run, with what it is to measure. What stops it here leaves nothing."""
    directory.create()
    spec, spine = prepared.spec, prepared.spine
    with directory.whole_or_nothing():
        write_public(directory.release, spec, spine, prepared.tied)
        for name, counts in prepared.lowest.items():
            truth.write(directory.truth_of(name), counts)
        u = spec.universe(UNITS)
        nmf.write_constraints(
            directory.nmf(UNITS),
            u.schema,
            spine,
            list(exact(spine, prepared.lowest[UNITS])),
            private=spec.run.private,
        )
        digests = {name: {spine.levels[-1]: truth_digest(h)} for name, h in prepared.lowest.items()}
        read = {"inputs": [asdict(s) for s in prepared.sources], "truth": digests}
        atomic.write_json(directory.inputs, marked(read, spec.run.private))


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
    """The truth of a run that has begun, its key and its books: what answers an estimate, and
    writes down what it has answered.
    """

    def __init__(
        self, opened: OpenedDhc, directory: RunDirectory, accept_spent: bool = False
    ) -> None:
        self._opened, self._directory = opened, directory
        self._lowest = {
            u.name: truth.read(directory.truth_of(u.name)) for u in opened.spec.universes
        }
        self._check_exact()
        digests = {
            name: {opened.spine.levels[-1]: truth_digest(h)} for name, h in self._lowest.items()
        }
        self._answering: dict[str, Revealing] = {}
        self._books = Books.of(opened.spec, planned(opened), directory, digests, accept_spent)

    def _check_exact(self) -> None:
        """What is published exactly was written down when the run began: it cannot be measured
        again.
        """
        tied = self._opened.tied[UNITS].dense()
        published = np.concatenate(
            [tied[:, :HOMES].sum(axis=1, keepdims=True), tied[:, HOMES:]], axis=1
        )
        if not np.array_equal(exact_units(self._lowest[UNITS]), published):
            raise UserError(
                f"the housing units and facilities of {UNITS} are not those that this run publishes"
                " exactly",
                where=self._directory.truth_of(UNITS),
                remedy=(
                    "put back the file that the run began with, or start another in a new folder"
                ),
            )

    def missing(self, u: DhcUniverse) -> bool:
        """Whether something of a universe is not measured yet."""
        return any(self._books.missing((u.name, level)) for level in self._opened.spine.levels)

    def truth(self, u: DhcUniverse) -> TrueHistograms:
        return upward(self._lowest[u.name], self._opened.spine)

    def source(self, u: DhcUniverse) -> Recorded:
        """What answers, and remembers it. A level is in the ledger, in full, before its first
        answer.
        """
        spine, books = self._opened.spine, self._books
        noise = noise_for(
            [(u.name, level) for level in spine.levels],
            books.entries,
            self._opened.spec,
            self._directory,
        )
        self._answering[u.name] = Revealing(
            self.truth(u),
            u.name,
            u.schema,
            MeasuredSpine.of(spine),
            u.plan,
            noise,
            lambda level: books.pay((u.name, level)),
            lambda level: books.number((u.name, level)),
        )
        return Recorded(self._answering[u.name])

    def write(self, u: DhcUniverse, said: Recorded) -> None:
        """All that was answered of a universe is on disk, and acknowledged."""
        root, answering, parts = (
            self._directory.nmf(u.name),
            self._answering.pop(u.name),
            list[MeasuredPart](),
        )
        for level in self._opened.spine.levels:
            files = revealed.write(
                root,
                level,
                u.schema,
                self._opened.spine,
                said.of(level),
                private=self._opened.spec.run.private,
            )
            paths = {f"{root.name}/{path}": digest for path, digest in files.items()}
            parts.append(MeasuredPart(u.name, level, 0, answering.mark(level), paths))
        self._books.acknowledge(parts)

    def close(self) -> OwnStatement:
        """Everything is measured: the statement, and a seal on what there is. The key is
        deleted.
        """
        spec = self._opened.spec
        drawn = self._books.close()
        said = stated(spec, drawn, exact(self._opened.spine, self._lowest[UNITS]))
        return seal(
            self._directory.release,
            said,
            spec.run.name,
            LedgerFile(self._directory.ledger).entries.files(),
        )


def stated(spec: DhcSpec, drawn: Drawn, known: tuple[Constraint, ...]) -> OwnStatement:
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    outside = [*spec.taken_over, *invariants({UNITS: known})]
    return statement(spec.terms, drawn, outside, name, private, spec.notes)


def planned(opened: OpenedDhc) -> dict[StageKey, StagePlan]:
    """What each level draws, and rests on: the other levels of its universe, and all of the
    universe that this rests on. Raises
    :class:`SpecError` for noise that cannot be drawn."""
    for d in (d for u in opened.spec.universes for d in u.plan.draws):
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    levels = opened.spine.levels
    return {
        (u.name, level): StagePlan(
            opened.events(u, level),
            (0,),
            tuple((name, lv) for name in (u.rests, u.name) if name for lv in levels),
        )
        for u in opened.spec.universes
        for level in levels
    }


def measure_and_estimate(
    opened: OpenedDhc,
    measuring: MeasuringDhc,
    estimate: Callable[[DhcUniverse, SparseSource, Mapping[str, T]], T],
) -> dict[str, T]:
    """Estimate one universe after the other: from noise that is drawn as it is asked for, or from
    what was measured before. ``estimate`` is given a universe, what answers of it, and what it has
    made of those before."""
    done: dict[str, T] = {}
    for u in opened.spec.universes:
        if measuring.missing(u):
            source = measuring.source(u)
            done[u.name] = estimate(u, source, done)
            measuring.write(u, source)
        else:
            done[u.name] = estimate(u, opened.source(u), done)
    return done
