r"""The budget book of a run. The ledger has every draw before it is made, and after an interruption
shows which parts are missing.

One process keeps the book and draws nothing itself. Tasks draw
(:func:`das.truth.measuring.measure_part`), on any machine and any number of times.

**What an interruption costs.** A stage is a level of a universe. Its parts are measured separately.
The noise of its last attempt can be drawn again if the run key exists and the truth is unchanged
since the run began. Then the missing parts are measured again and are the same draws, which costs
nothing (:mod:`das.noise.entropy`). Otherwise a part that is measured again is a second draw, and
the stage begins a second time in the ledger, with all its draws.

*What a second draw costs.* Let part :math:`p` of a stage be drawn :math:`a_p` times, at a cost of
:math:`\rho` each. A record in :math:`p` counts in :math:`a_p` draws. If a record in :math:`p`
replaces it, two answers of each query change in each of these draws: :math:`a_p\rho`. If a record
in :math:`q` replaces it, one answer changes in each draw of either part. One change costs half of
what two cost (:mod:`das.model.budget`): :math:`\rho\,(a_p + a_q)/2`. So the cost is at most
:math:`\rho \max_p a_p`. To add or remove a record costs :math:`a_p\rho`. An attempt at a stage
draws every part at most once, so the ledger has the stage at least :math:`\max_p a_p` times. Every
attempt except the last is counted as lost, in full, even if few of its parts were drawn again. (Why
at most once: engines repeat tasks by themselves. So a task that draws unrepeatable noise first
claims the part for this attempt, with a file that cannot be made twice. A second task that tries to
claim it is stopped, and the run with it.)

**Stages that are measured together.** Measurements on demand at one level depend on the answers at
the others. So an interrupted universe is measured again as a whole, and so is every universe that
rests on it. Such a stage lists the stages that it rests on (``rests_on``). Its parts *stand* only
while all of these are measured. A part that was acknowledged and no longer stands is given up: its
stage begins again, and is counted again, before it is measured.

*The ledger lacks no draw.* The noise of a stage, at any coordinates, is a function of four things:
the key, how often the stage has begun, the truth and the plan (:mod:`das.noise.entropy`,
:mod:`das.noise.coordinates`). It also depends on the software, which decides where chunks begin and
how bits become numbers. So a key counts as another key if the run was begun with another version.
Suppose noise of a stage is drawn. Then the stage was missing when the book was opened
(:meth:`BudgetBook.pay` refuses any other stage). So one of three cases held:

- it had never begun, and began;
- its last attempt had another key or another truth, or had parts that no longer stand, and the
  stage began again;
- its last attempt had this key, this truth and this plan, and no part, and the draw is the draw of
  that attempt.

In each case its last attempt has the present key and truth. (A task reads the key itself, and can
outlive the run that sent it. :func:`das.truth.run_noise.noise_for` gives it only noise of the key
that the ledger lists with the number of the attempt.) So every attempt is at most one draw, and
there are no more distinct draws than attempts.

*Nothing acknowledged is overwritten while it stands.* Files are written only for stages that are
being measured. By the same argument such a stage has no part that stands: either none was
acknowledged since the stage last began, or the ledger already said that they are given up.

*The ledger goes from one consistent state to the next.* The parts of a universe are acknowledged in
one line (:meth:`LedgerFile.acknowledge`), which is there or is not. Stages that begin again do so
one after the other. If the run stops between two of them, the others still rest on an unmeasured
stage, and they begin again when the run resumes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from das.accounting.statement import LedgerEvents
from das.errors import PrivacyError, ReleaseError, UserError
from das.files import atomic
from das.files.run import noise_key, run_directory
from das.files.run.ledger import Attempt, Entries, LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.files.run.task_store import TaskStore
from das.model.budget import costliest
from das.model.ledger import Event, Ledger
from das.noise import entropy
from das.register.entering import RunRegister, check_counted
from das.truth.run_noise import Measuring, new_source, source_of
from das.version import __version__

# Whether the ledger of an interrupted run is that of its plan, and what it lists is there.


class DueStage(Protocol):
    """What a plan draws at a stage, and in which subtrees."""

    @property
    def events(self) -> tuple[Event, ...]: ...

    @property
    def subtrees(self) -> tuple[int, ...]: ...


def check_draws(
    entries: Entries, planned: Mapping[StageKey, DueStage], directory: RunDirectory
) -> None:
    """Check that the plan has every draw in an interrupted run's ledger. Check that an attempt with
    a measured part has all draws of its stage, once."""
    for a in entries.attempts:
        due = planned.get(a.stage)
        events = due.events if due else ()
        parts = due.subtrees if due else ()
        events = events if a.measured else events[: len(a.events)]
        if (
            tuple(a.events) != events
            or a.parts != len(parts)
            or not a.measured.keys() <= set(parts)
        ):
            raise ReleaseError(
                f"what it says of {a.universe} at {a.level} is not what the plan draws there",
                where=directory.ledger,
                remedy="a ledger that was altered proves nothing: start a new run",
            )


def check_files(entries: Entries, directory: RunDirectory) -> None:
    """Check that every acknowledged file is there, as it was written."""
    for path, sha256 in entries.files().items():
        file = directory.release / path
        if not file.is_file() or run_directory.file_digest(file) != sha256:
            raise ReleaseError(
                "these measurements are not those that the ledger says were written",
                where=file,
                remedy="they were altered or lost: start a new run in another folder",
            )


#: For each universe, digests that identify its true counts: one for each named piece.
TruthDigests = Mapping[str, Mapping[str, str]]

_ANOTHER = "resume with the inputs that the run began with, or start another run in a new folder"
_AGAIN = (
    "measure again with --accept-spent (this spends the same budget again, and the privacy"
    " statement then states both spendings), or abandon the run"
)


@dataclass(frozen=True)
class StagePlan:
    """The plan of a stage: its events, the subtrees (:mod:`das.model.measured_spine`) of its parts, and
    the stages that it rests on. If one of those is measured again, so is this stage."""

    events: tuple[Event, ...]
    subtrees: tuple[int, ...]
    rests_on: tuple[StageKey, ...] = ()


class BudgetBook:
    """Records what a run spends. A run opens it before the first draw and when it resumes, and
    closes it when every part is measured."""

    def __init__(
        self, spec: Measuring, planned: Mapping[StageKey, StagePlan], directory: RunDirectory
    ) -> None:
        self._spec, self._planned, self._directory = spec, planned, directory
        self._file = LedgerFile(directory.ledger)
        self._key: str | None = None
        # the version of the software that began the run, if it is not this one
        self._other = ""
        self._begun: set[StageKey] = set()
        self._register: RunRegister | None = None
        self._named: dict[StageKey, int] = {}  # the draws that have a name in it

    @property
    def entries(self) -> Entries:
        """What the ledger says."""
        return self._file.entries

    @staticmethod
    def start(
        spec: Measuring,
        planned: Mapping[StageKey, StagePlan],
        directory: RunDirectory,
        truth: TruthDigests,
        accept_spent: bool = False,
    ) -> BudgetBook:
        """Check what an interrupted run has left, and write the planned draws to the ledger. Noise
        that can be drawn again is written all at once. Other noise is written one stage at a time
        (:meth:`begin`), so that an interruption loses only the stage that was being drawn.
        ``planned`` has every stage of every universe, in order; ``truth`` identifies the counts to
        measure.

        Raises:
            UserError: the interrupted noise cannot be drawn again, or the truth has changed since
                the run began, and ``accept_spent`` does not permit a second, counted draw.
            ReleaseError: the ledger is not that of this plan, or a file that it lists is missing or
                altered.
            PrivacyError, RegisterError: the budget, or the office's register, has no room for it.
        """
        budget_book = BudgetBook(spec, planned, directory)
        entries = budget_book._file.entries
        check_draws(entries, planned, directory)
        check_files(entries, directory)
        changed = _changed(truth, directory)
        if entries.closed:
            check_counted(directory)
            if changed:
                raise UserError(
                    f"the true counts of {' and '.join(sorted(changed))} are not those that this"
                    " run measured",
                    where=directory.root,
                    remedy=_ANOTHER,
                )
            return budget_book
        if (
            entries.attempts
            and (version := str(run_directory.read_json(directory.inputs).get("version")))
            != __version__
        ):
            budget_book._other = version
        source = source_of(spec, directory)
        budget_book._key = None if source is None else source.key_mark
        if (lost := budget_book._lost(changed)) and not accept_spent:
            budget_book._refuse(lost, changed)
        budget_book._check_budget()
        if not entries.attempts:
            _note(directory, version=__version__)
        if source is None:
            budget_book._key = new_source(directory).key_mark
        key = budget_book._key
        budget_book._register = RunRegister(spec, planned, directory, truth, key, accept_spent)
        budget_book._write(lost, changed)
        if changed:
            TaskStore(directory.root).remove()  # results of tasks that measured the earlier truth
            _note(directory, truth=truth)
        if budget_book._other:  # the draws of the other version are given up by now
            _note(directory, version=__version__)
            budget_book._other = ""
        return budget_book

    def _numbers(self, lost: Collection[Attempt], changed: set[str]) -> dict[StageKey, int]:
        """The numbers of the draws that follow. Nobody knows those without a key before they
        begin."""
        again, out = {a.stage for a in lost}, dict[StageKey, int]()
        for stage in self._planned if self._key is not None else ():
            last = self._file.entries.last().get(stage)
            anew = stage in again or (last is not None and stage[0] in changed)
            if anew or self.missing(stage):
                begins = anew or last is None or not self._replayed(last)
                out[stage] = self._file.entries.number(stage) + begins
        return out

    def _name(self, numbers: Mapping[StageKey, int]) -> None:
        """The office's register gets the names of draws, before the ledger has these."""
        if self._register is not None:
            self._register.name(numbers, self._file.entries)
            self._named |= numbers

    def _write(self, lost: Collection[Attempt], changed: set[str]) -> None:
        """Name the planned draws, and write them to the ledger. First complete the entry that the
        run was writing when it stopped. Then begin again every stage whose truth has changed. Then,
        if noise can be drawn again, begin everything that is missing."""
        self._name(self._numbers(lost, changed))
        entries = self._file.entries
        if (
            entries.attempts
            and self._replayed(torn := entries.attempts[-1])
            and torn.universe not in changed
        ):
            self._file.draw(self._planned[torn.stage].events[len(torn.events) :])
        for stage in (s for s in self._planned if s[0] in changed and s in entries.last()):
            self._begin(stage, anew=True)
        if self._key is not None:
            for stage in self._planned:
                self.begin(stage)

    def begin(self, stage: StageKey) -> None:
        """Write the draws of a stage to the ledger, before any is made. Does so once, and only if a
        part of the stage is missing."""
        last, given_up = self._file.entries.last().get(stage), self._given_up(stage)
        if (
            stage not in self._begun
            and self.missing(stage)
            and (not last or given_up or not self._replayed(last))
        ):
            self._begin(stage, anew=given_up)

    def pay(self, stage: StageKey) -> None:
        """Write all draws of a stage to the ledger; then all its noise may be drawn. Raises
        :class:`PrivacyError` if a part of the stage stands, because it was measured before."""
        if self.missing(stage) != self._planned[stage].subtrees:
            raise PrivacyError(
                f"{stage[0]} at {stage[1]} was measured before: asked again it would be drawn"
                " again",
                where=self._directory.ledger,
                remedy="estimate from what was measured",
            )
        self.begin(stage)

    def _begin(self, stage: StageKey, *, anew: bool = False) -> None:
        due, number = self._planned[stage], self._file.entries.number(stage) + 1
        if self._named.get(stage) != number:
            self._name({stage: number})
        name, _ = entropy.stated(self._spec.run.entropy, self._spec.run.seed)
        self._file.begin(
            Attempt(*stage, len(due.subtrees), self._key, anew, list(due.events)), name
        )
        self._begun.add(stage)

    def missing(self, stage: StageKey) -> tuple[int, ...]:
        """The subtrees for which a stage has no standing part."""
        standing = self._file.entries.standing(stage) if self._rests_on_whole(stage) else {}
        return tuple(i for i in self._planned[stage].subtrees if i not in standing)

    def _rests_on_whole(self, stage: StageKey, changed: Collection[str] = ()) -> bool:
        """Whether every stage that this one rests on is measured, and its truth not ``changed``."""
        entries = self._file.entries
        return all(entries.whole(s) and s[0] not in changed for s in self._planned[stage].rests_on)

    def _given_up(self, stage: StageKey, changed: Collection[str] = ()) -> bool:
        """Whether parts of a stage were acknowledged but no longer stand, because a stage that it
        rests on is measured again."""
        return bool(self._file.entries.standing(stage)) and not self._rests_on_whole(stage, changed)

    def number(self, stage: StageKey) -> int:
        """How often a stage is drawn, this time included. It is part of the label of its noise."""
        return self._file.entries.number(stage)

    def acknowledge(self, parts: Iterable[MeasuredPart]) -> None:
        """Record that these parts are measured and on disk. Stages that rest on others are
        acknowledged together, in one line. Raises :class:`PrivacyError` if one was measured before
        with another result."""
        given = list(parts)
        self._file.acknowledge(given, together=any(self._planned[p.stage].rests_on for p in given))

    def close(self) -> LedgerEvents:
        """Close the book when every part is measured, and delete the run key. Returns the draws
        behind the parts, and those that were lost.

        Raises:
            PrivacyError: a part is missing, or the cost of the draws is not the plan's.
            ReleaseError: the file of a part is not as it was acknowledged."""
        entries, universes = self._file.entries, [u.name for u in self._spec.universes]
        if lacking := [stage for stage in self._planned if self.missing(stage)]:
            raise PrivacyError(
                f"{lacking[0][0]} at {lacking[0][1]} is not measured", where=self._directory.ledger
            )
        drawn = LedgerEvents(
            _by_universe(entries.last().values(), universes), _by_universe(entries.lost())
        )
        for u in self._spec.universes:
            if (cost := costliest(drawn.events[u.name], u.plan.paths)) != u.plan.cost:
                raise PrivacyError(f"the ledger says {cost}, the plan {u.plan.cost}", where=u.name)
        for name in universes:
            atomic.clear_drafts(self._directory.nmf(name))
        if not entries.closed:
            check_files(entries, self._directory)  # a task that was lost may have gone on
            self._file.close()
        noise_key.delete(self._directory.noise_key)
        self._directory.remove_claims()
        return drawn

    def _replayed(self, attempt: Attempt) -> bool:
        """Whether measuring again gives the same noise as this attempt: it has the present key and
        the same software."""
        return self._key is not None and attempt.key == self._key and not self._other

    def _lost(self, changed: set[str]) -> list[Attempt]:
        """The stages' last attempts whose cost is lost if the run resumes."""
        last = (
            a
            for stage in self._planned
            if (a := self._file.entries.last().get(stage)) is not None and a.events
        )
        return [
            a
            for a in last
            if a.universe in changed
            or self._given_up(a.stage, changed)
            or (self.missing(a.stage) and not self._replayed(a))
        ]

    def _refuse(self, lost: list[Attempt], changed: set[str]) -> None:
        paths = {u.name: u.plan.paths for u in self._spec.universes}
        cost = sum((costliest(es, paths[u]) for u, es in _by_universe(lost).items()), Fraction(0))
        budget = f"its budget of {cost} ({float(cost):.4g}) is spent"
        where = ", ".join(f"{a.universe} at {a.level}" for a in lost)
        if changed:
            also = "".join(
                f", and {u}, which rest on them, are to be measured again, too"
                for u in dict.fromkeys(a.universe for a in lost if a.universe not in changed)
            )
            raise UserError(
                f"the true counts of {' and '.join(sorted(changed))} are not those that this run"
                f" began with, and noise was already drawn on them{also}: {budget}",
                where=self._directory.root,
                remedy=f"{_ANOTHER}; or {_AGAIN}",
            )
        if all(self._replayed(a) for a in lost):
            raise UserError(
                f"{where} must be measured again, as what this rests on is: {budget}",
                where=self._directory.ledger,
                remedy=_AGAIN,
            )
        why = "the key that it follows from is gone" if lost[0].key else "no key of it was kept"
        if self._other and lost[0].key:
            why = (
                f"it was begun with das {self._other}, and this is {__version__}, which may draw"
                " other noise: resume with that version"
            )
        raise UserError(
            f"measuring {where} was interrupted, and its noise cannot be drawn again ({why}):"
            f" {budget}",
            where=self._directory.ledger,
            remedy=_AGAIN,
        )

    def _check_budget(self) -> None:
        """Check the whole plan against the budget, before any of it is in the ledger."""
        for u in self._spec.universes:
            ledger = Ledger(u.plan.cost, paths=u.plan.paths)
            for event in (
                e for stage, due in self._planned.items() if stage[0] == u.name for e in due.events
            ):
                ledger.append(event)


def _by_universe(
    attempts: Iterable[Attempt], universes: Iterable[str] = ()
) -> dict[str, tuple[Event, ...]]:
    out: dict[str, tuple[Event, ...]] = dict.fromkeys(universes, ())
    for a in attempts:
        out[a.universe] = (*out.get(a.universe, ()), *a.events)
    return out


def _note(directory: RunDirectory, **known: object) -> None:
    """Note in ``inputs`` what the run measures, and with which version."""
    atomic.write_json(directory.inputs, {**run_directory.read_json(directory.inputs), **known})


def _changed(truth: TruthDigests, directory: RunDirectory) -> set[str]:
    """The universes whose true counts are not those that the run began with."""
    known = run_directory.read_json(directory.inputs)["truth"]
    return {u for u, digests in truth.items() if known.get(u) != dict(digests)}
