r"""The spending of a measuring: what is drawn is in the ledger before, and what is missing after an
interruption is known.

One process keeps them, and draws nothing itself: tasks do
(:func:`das.truth.measuring.measure_part`), wherever they run and however often.

**What an interruption costs.** A stage is a level of a universe, made of parts that are measured
apart. Where the noise of its last attempt can be drawn again (the run key is there, and the truth
is the one that the run began with), the parts that are missing are measured again, and are the same
draws: that costs nothing (:mod:`das.noise.entropy`). Otherwise what is measured again is drawn
again, and the stage begins a second time in the ledger, with all its draws.

*What that costs.* Let part :math:`p` of a stage be drawn :math:`a_p` times, at a cost of
:math:`\rho` each. A record in :math:`p` is seen :math:`a_p` times. If it is replaced by one in
:math:`p`, two answers of each query change in each of these draws: :math:`a_p\rho`. If by one in
:math:`q`, one answer changes in each draw of either part, which costs half of what two do
(:mod:`das.model.budget`): :math:`\rho\,(a_p + a_q)/2`. So no more than :math:`\rho \max_p a_p`;
added or removed, it costs :math:`a_p\rho`. Every part is drawn once at most in every attempt at its
stage, so the ledger has the stage :math:`\max_p a_p` times at least: each attempt but the last is
counted as lost, whole, however many of its parts were drawn again. (Once at most: engines repeat
tasks by themselves. So whoever draws noise that cannot be drawn again claims the part first, for
this attempt, with a file that nobody can make twice; the second who would is stopped, and the run
with it.)

**Stages that are asked together.** What is asked on request of one level follows from the answers
at the others, so that an interrupted universe is asked again as a whole, and so is every universe
that rests on it. Such a stage names the stages that it ``rests_on`` on. Its parts *stand* only
while all of these are measured; a part that was acknowledged and does not stand any more is given
up: its stage begins anew, and is counted again, before anything is asked.

*No draw is missing in the ledger.* Noise of a stage is a function of the key, of how often the
stage has begun, of the truth and of the plan, at whichever coordinates (:mod:`das.noise.entropy`,
:mod:`das.noise.coordinates`); and of the software, which says where chunks begin and how bits
become numbers. So a key counts as another one where the run was begun with another version. Suppose
noise of a stage is drawn. Then it was missing when the spending were opened (:meth:`BudgetBook.pay`
refuses any other), so that one of three things held: it had never begun, and began; its last
attempt was of another key or another truth, or had parts that do not stand, and it began once more;
or its last attempt was of this key, this truth and this plan, without a part, and the draw is that
of this attempt. In each case its last attempt has the present key and truth. (Whoever draws reads
the key by itself, and may outlive the run that sent it: :func:`das.truth.run_noise.noise_for` gives
it noise of the key that stands in the ledger next to the number of the attempt, and of no other.)
So every attempt is one draw at most, and distinct draws are no more than attempts.

*Nothing that is acknowledged is overwritten while it stands.* Files are written of stages that are
measured, and a stage that is measured has, by the same argument, no part that stands: either none
was acknowledged since it last began, or the ledger said before that they are given up.

*The ledger goes from one consistent state to the next.* The parts of a universe are acknowledged in
one line (:meth:`LedgerFile.acknowledge`), which is there or is not. Stages that begin anew do so
one after the other; cut off between two of them, the rest still rest on a stage that is not
measured, and begin anew when the run goes on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from das.accounting.statement import LedgerEvents
from das.errors import PrivacyError, ReleaseError, UserError
from das.files import atomic
from das.files.run import noise_key, run_directory
from das.files.run.ledger import Attempt, Entries, LedgerFile, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.files.run.task_store import TaskStore
from das.model.budget import dearest
from das.model.ledger import Event, Ledger
from das.noise import entropy
from das.truth.registering import RegisteredDraws, enter
from das.truth.run_noise import Measuring, new_source, source_of
from das.version import __version__

#: By universe, what tells its true counts from any other: digests of pieces of them, by names.
TruthDigests = Mapping[str, Mapping[str, str]]

_ANOTHER = "resume with the inputs that the run began with, or start another run in a new folder"
_AGAIN = (
    "measure again with --accept-spent (this spends the same budget again, and the privacy"
    " statement then states both spendings), or abandon the run"
)


@dataclass(frozen=True)
class StagePlan:
    """What a stage is to be: its draws, the subtrees (:mod:`das.model.subtrees`) that its parts are
    of, and the stages that it ``rests_on`` on: where one of them is measured again, so is this."""

    events: tuple[Event, ...]
    subtrees: tuple[int, ...]
    rests_on: tuple[StageKey, ...] = ()


class BudgetBook:
    """Opened before the first draw of a run, or when it goes on; closed when every part is
    measured.
    """

    def __init__(
        self, spec: Measuring, planned: Mapping[StageKey, StagePlan], directory: RunDirectory
    ) -> None:
        self._spec, self._planned, self._directory = spec, planned, directory
        self._file = LedgerFile(directory.ledger)
        self._key: str | None = None
        # : the version of the software that the run was begun with, where it is another
        self._other = ""
        self._begun: set[StageKey] = set()
        self._entered: RegisteredDraws | None = None  #: in the register, where the run has one

    @property
    def entries(self) -> Entries:
        """What the ledger says."""
        return self._file.entries

    @staticmethod
    def of(
        spec: Measuring,
        planned: Mapping[StageKey, StagePlan],
        directory: RunDirectory,
        truth: TruthDigests,
        accept_spent: bool = False,
    ) -> BudgetBook:
        """Check what an interrupted run has left, and write down what is to be drawn: of noise that
        can be drawn again everything at once; of other noise a stage at a time (:meth:`begin`), so
        that no more of it is lost than was being drawn. ``planned`` has every stage of every
        universe, in order; ``truth`` what is to be measured.

        Raises:
            UserError: what was interrupted cannot be drawn again, or the truth is another than the
                one that the run began with, and ``accept_spent`` does not say that a second draw is
                to be made, and counted.
            ReleaseError: the ledger is not of this plan, or what it says was measured is not there.
            PrivacyError: the budget does not cover what is planned.
            RegisterError: the register of the office does not.
        """
        budget_book = BudgetBook(spec, planned, directory)
        entries = budget_book._file.entries
        _check_draws(entries, planned, directory)
        _check_files(entries, directory)
        changed = _changed(truth, directory)
        if entries.closed:
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
        events, again = {s: due.events for s, due in planned.items()}, {a.stage for a in lost}
        budget_book._entered = enter(spec, events, entries, again, budget_book._key, directory)
        budget_book._write(changed)
        if changed:
            TaskStore(directory.root).remove()  # what tasks have measured of the truth before
            _note(directory, truth=truth)
        if budget_book._other:  # what it had drawn is given up by now
            _note(directory, version=__version__)
            budget_book._other = ""
        return budget_book

    def _write(self, changed: set[str]) -> None:
        """What is to be drawn: first the rest of what was being written down when the run stopped,
        then what is of another truth, then, if it can be drawn again, everything that is
        missing."""
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
        """Write down what a stage draws, before any of it is drawn; once, and if something is
        missing of it.
        """
        last, given_up = self._file.entries.last().get(stage), self._given_up(stage)
        if (
            stage not in self._begun
            and self.missing(stage)
            and (not last or given_up or not self._replayed(last))
        ):
            self._begin(stage, anew=given_up)

    def pay(self, stage: StageKey) -> None:
        """All draws of a stage are written down, and none of it stands: its noise may be drawn, all
        of it. Raises
        :class:`PrivacyError` where it was measured before."""
        if self.missing(stage) != self._planned[stage].subtrees:
            raise PrivacyError(
                f"{stage[0]} at {stage[1]} was measured before: asked again it would be drawn"
                " again",
                where=self._directory.ledger,
                remedy="estimate from what was measured",
            )
        self.begin(stage)

    def _begin(self, stage: StageKey, *, anew: bool = False) -> None:
        due = self._planned[stage]
        if self._entered is not None:
            self._entered.check(stage, self._file.entries)
        name, _ = entropy.stated(self._spec.run.entropy, self._spec.run.seed)
        self._file.begin(
            Attempt(*stage, len(due.subtrees), self._key, anew, list(due.events)), name
        )
        self._begun.add(stage)

    def missing(self, stage: StageKey) -> tuple[int, ...]:
        """The subtrees of which a stage has no part that stands."""
        standing = self._file.entries.standing(stage) if self._rests_on_whole(stage) else {}
        return tuple(i for i in self._planned[stage].subtrees if i not in standing)

    def _rests_on_whole(self, stage: StageKey, changed: Collection[str] = ()) -> bool:
        """Whether all that a stage rests on is measured, of a truth that is not ``changed``."""
        entries = self._file.entries
        return all(entries.whole(s) and s[0] not in changed for s in self._planned[stage].rests_on)

    def _given_up(self, stage: StageKey, changed: Collection[str] = ()) -> bool:
        """Whether parts of a stage were acknowledged that do not stand: what it rests on is
        measured again.
        """
        return bool(self._file.entries.standing(stage)) and not self._rests_on_whole(stage, changed)

    def number(self, stage: StageKey) -> int:
        """How often a stage is drawn, the present time included: part of the label of its noise."""
        return self._file.entries.number(stage)

    def acknowledge(self, parts: Iterable[MeasuredPart]) -> None:
        """These are measured, and on disk; stages that rest on each other all at once. Raises
        :class:`PrivacyError` where one was measured before with another result."""
        given = list(parts)
        self._file.acknowledge(given, together=any(self._planned[p.stage].rests_on for p in given))

    def close(self) -> LedgerEvents:
        """Every part is there: what was drawn for them, and what was drawn and lost. The run key is
        deleted.

        Raises:
            PrivacyError: a part is missing, or the cost of what was drawn is not the plan's.
            ReleaseError: one is not there as it was acknowledged.
        """
        entries, universes = self._file.entries, [u.name for u in self._spec.universes]
        if lacking := [stage for stage in self._planned if self.missing(stage)]:
            raise PrivacyError(
                f"{lacking[0][0]} at {lacking[0][1]} is not measured", where=self._directory.ledger
            )
        drawn = LedgerEvents(
            _by_universe(entries.last().values(), universes), _by_universe(entries.lost())
        )
        for u in self._spec.universes:
            if (cost := dearest(drawn.events[u.name], u.plan.paths)) != u.plan.cost:
                raise PrivacyError(f"the ledger says {cost}, the plan {u.plan.cost}", where=u.name)
        for name in universes:
            atomic.clear_drafts(self._directory.nmf(name))
        if not entries.closed:
            _check_files(entries, self._directory)  # a task that was lost may have gone on
            self._file.close()
        noise_key.delete(self._directory.noise_key)
        self._directory.remove_claims()
        return drawn

    def _replayed(self, attempt: Attempt) -> bool:
        """Whether the noise of an attempt is drawn again: it follows from the key that there is, by
        the same software.
        """
        return self._key is not None and attempt.key == self._key and not self._other

    def _lost(self, changed: set[str]) -> list[Attempt]:
        """The last attempts that are spent for nothing when the run goes on."""
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
        cost = sum((dearest(es, paths[u]) for u, es in _by_universe(lost).items()), Fraction(0))
        budget = f"its budget of {cost} ({float(cost):.4g}) is spent"
        where = ", ".join(f"{a.universe} at {a.level}" for a in lost)
        if changed:
            also = "".join(
                f", and {u}, which rest on them, are to be measured again, too"
                for u in dict.fromkeys(a.universe for a in lost if a.universe not in changed)
            )
            raise UserError(
                f"the true counts of {' and '.join(sorted(changed))} are not those that this run"
                f" began with, of which noise was drawn{also}: {budget}",
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
        """The whole plan, before any of it is written down."""
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
    """Of what the run measures, and by what."""
    atomic.write_json(directory.inputs, {**run_directory.read_json(directory.inputs), **known})


def _changed(truth: TruthDigests, directory: RunDirectory) -> set[str]:
    """The universes whose true counts are not those that the run began with."""
    known = run_directory.read_json(directory.inputs)["truth"]
    return {u for u, digests in truth.items() if known.get(u) != dict(digests)}


def _check_draws(
    entries: Entries, planned: Mapping[StageKey, StagePlan], directory: RunDirectory
) -> None:
    """Every draw in the ledger of an interrupted run is one of the plan's; a stage of which a part
    is measured has all, once.
    """
    for a in entries.attempts:
        due = planned.get(a.stage, StagePlan((), ()))
        events = due.events if a.measured else due.events[: len(a.events)]
        if (
            tuple(a.events) != events
            or a.parts != len(due.subtrees)
            or not a.measured.keys() <= set(due.subtrees)
        ):
            raise ReleaseError(
                f"what it says of {a.universe} at {a.level} is not what the plan draws there",
                where=directory.ledger,
                remedy="a ledger that was altered proves nothing: start a new run",
            )


def _check_files(entries: Entries, directory: RunDirectory) -> None:
    """What is acknowledged is there, as it was written."""
    for path, sha256 in entries.files().items():
        file = directory.release / path
        if not file.is_file() or run_directory.file_digest(file) != sha256:
            raise ReleaseError(
                "these measurements are not those that the ledger says were written",
                where=file,
                remedy="they were altered or lost: start a new run in another folder",
            )
