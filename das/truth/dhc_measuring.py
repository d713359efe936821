"""Measuring the demographic file: noise on request, in the ledger in full before its first answer.

Estimation asks, level by level, and is answered here; what was answered is what a release has of the measurements. So measuring and
estimating alternate, and the process that has truth and key sees to both. That makes no estimate depend on more than was published: the
same estimates come from the release alone (``das estimate --from``), number for number.

An interrupted run draws the same noise again where its key is (:mod:`das.noise.coordinates`), and is asked the same again: the answers of a
universe are on disk when all its levels are estimated.
"""

from __future__ import annotations

from dataclasses import asdict

from das.accounting.document import OwnStatement
from das.accounting.statement import Drawn, invariants, statement
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
from das.model.sparse_measurement import Recorded
from das.model.spine import Spine
from das.noise import entropy
from das.noise.samplers import SAMPLERS
from das.release.dhc import OpenedDhc, write_public
from das.release.seal import seal
from das.spec import DhcSpec
from das.spec.dhc import UNITS, DhcUniverse
from das.truth.bookkeeping import Books, StagePlan
from das.truth.dhc import PreparedDhc, exact_units
from das.truth.histogram import upward
from das.truth.measure import truth_digest
from das.truth.measuring import noise_of
from das.truth.prepared import TrueHistograms
from das.truth.revealing import Revealing


def begin(prepared: PreparedDhc, directory: RunDirectory) -> None:
    """Make the folder of a run, with what it is to measure. What stops it here leaves nothing."""
    directory.create()
    spec, spine = prepared.spec, prepared.spine
    with directory.whole_or_nothing():
        write_public(directory.release, spec, spine, prepared.tied)
        for name, counts in prepared.lowest.items():
            truth.write(directory.truth_of(name), counts)
        u = spec.universe(UNITS)
        nmf.write_constraints(directory.nmf(UNITS), u.schema, spine, list(exact(spine, prepared.lowest[UNITS])))
        digests = {name: {spine.levels[-1]: truth_digest(h)} for name, h in prepared.lowest.items()}
        read = {"inputs": [asdict(s) for s in prepared.sources], "truth": digests}
        atomic.write_json(directory.inputs, marked(read, spec.run.private))


def exact(spine: Spine, units: Confidential[Histogram]) -> tuple[Constraint, ...]:
    """What is published exactly: of every lowest unit the housing units and facilities by type."""
    says = "housing units, and facilities of group quarters by type, of every block"
    return (Constraint(strategy.UNITS_EXACT, spine.levels[-1], strategy.UNITS_EXACT, "=", exact_units(units), says),)


class MeasuringDhc(Closed):
    """The truth of a run that has begun, its key and its books: what answers an estimate, and writes down what it has answered."""

    def __init__(self, opened: OpenedDhc, directory: RunDirectory, accept_spent: bool = False) -> None:
        self._opened, self._directory = opened, directory
        self._lowest = {u.name: truth.read(directory.truth_of(u.name)) for u in opened.spec.universes}
        digests = {name: {opened.spine.levels[-1]: truth_digest(h)} for name, h in self._lowest.items()}
        self._answering: dict[str, Revealing] = {}
        self._books = Books.of(opened.spec, planned(opened), directory, digests, accept_spent)

    def missing(self, u: DhcUniverse) -> bool:
        """Whether something of a universe is not measured yet."""
        return any(self._books.missing((u.name, level)) for level in self._opened.spine.levels)

    def truth(self, u: DhcUniverse) -> TrueHistograms:
        return upward(self._lowest[u.name], self._opened.spine)

    def source(self, u: DhcUniverse) -> Recorded:
        """What answers, and remembers it. A level is in the ledger, in full, before its first answer."""
        spine, books = self._opened.spine, self._books
        self._answering[u.name] = Revealing(
            self.truth(u), u.name, u.schema, MeasuredSpine.of(spine), u.plan, noise_of(self._opened.spec, self._directory),
            lambda level: books.begin((u.name, level)), lambda level: books.number((u.name, level)),
        )  # fmt: skip
        return Recorded(self._answering[u.name])

    def write(self, u: DhcUniverse, said: Recorded) -> None:
        """All that was answered of a universe is on disk, and acknowledged."""
        root = self._directory.nmf(u.name)
        for level in self._opened.spine.levels:
            files = revealed.write(root, level, u.schema, self._opened.spine, said.of(level))
            paths = {f"{root.name}/{path}": digest for path, digest in files.items()}
            self._books.acknowledge([MeasuredPart(u.name, level, 0, self._answering[u.name].mark(level), paths)])
        del self._answering[u.name]

    def close(self) -> OwnStatement:
        """Everything is measured: the statement, and a seal on what there is. The key is deleted."""
        spec = self._opened.spec
        drawn = self._books.close()
        said = stated(spec, drawn, exact(self._opened.spine, self._lowest[UNITS]))
        return seal(self._directory.release, said, spec.run.name, LedgerFile(self._directory.ledger).entries.files())


def stated(spec: DhcSpec, drawn: Drawn, known: tuple[Constraint, ...]) -> OwnStatement:
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    return statement(spec.terms, drawn, invariants({UNITS: known}), name, private, spec.notes)


def planned(opened: OpenedDhc) -> dict[StageKey, StagePlan]:
    """What each level draws. Raises :class:`SpecError` for noise that cannot be drawn."""
    for d in (d for u in opened.spec.universes for d in u.plan.draws):
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    return {
        (u.name, level): StagePlan(opened.events(u, level), (0,))
        for u in opened.spec.universes
        for level in opened.spine.levels
    }
