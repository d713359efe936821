r"""A run enters the register of its office before anything is measured.

One place does it for every publication: where its ledger is about to be written
(:class:`das.truth.bookkeeping.BudgetBook`). First the register, then the ledger, then noise: so a
draw that was made is in both.

**What a run has entered** is, for each level of each universe, how often it is drawn (``times``).
Its ledger says how often it was, and what is to be drawn now. So a run that goes on enters what is
missing, and nothing twice:

* All noise of a run that has a key or a seed follows from it. A run whose key has entered, and whose
  ledger asks for no more than was entered, enters nothing: it repeats its draws.
* A run with another key than those that have entered draws anew. Where its ledger knows of earlier
  draws, these are lost (``--accept-spent``), and everything that the new key draws is entered. Where
  its ledger knows of none, the folder is a copy, or an old backup, of one that went on elsewhere: it
  is refused.
* Noise without a key cannot be told apart. Where the folder does not say that it has entered, the
  run enters again: too much may be counted, never too little."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from das.accounting.publication_cost import PublicationCost
from das.accounting.register import Entry
from das.accounting.statement import Terms
from das.errors import PrivacyError, RegisterError, UserError
from das.files import register
from das.files.register import Head, RegisterFile
from das.files.run.ledger import Attempt, Entries, LedgerFile, StageKey
from das.files.run.register_link import RegisterLink
from das.files.run.run_directory import RunDirectory
from das.model.ledger import Event
from das.release.publications import publication
from das.spec.parts import Run
from das.spec.specification import Specification

_COPY = "start a new run in a new folder: it enters by itself"
#: How often each level is drawn.
Often = Mapping[StageKey, int]


@dataclass(frozen=True)
class RegisterOptions:
    """The register that runs enter; the population of their records (``None``: the register's own),
    and those that have nobody in common with it."""

    path: Path
    population: str | None = None
    disjoint_from: tuple[str, ...] = ()

    def link(self, spec: Specification) -> RegisterLink:
        """What the folder of a new run says of its register."""
        opening = register.read(self.path).register.opening
        return RegisterLink(
            str(self.path.absolute()),
            opening.id,
            uuid4().hex,
            spec.title,
            self.population or opening.population,
            self.disjoint_from,
        )

    def check_room(self, specs: Sequence[Specification]) -> None:
        """Raises :class:`RegisterError` where runs of these, together, would pass the cap: before
        anything is read. What names its input later is checked later."""
        found = register.read(self.path).register
        for spec in specs:
            try:
                known = publication(spec.publication()).resolved(spec)
            except UserError:
                continue
            draws = {u.name: u.plan.measurements for u in known.universes}
            link = self.link(spec)
            entry = _entry(link, known.run, PublicationCost.of(known.terms, draws), None, {})
            found = found.after("spend", entry.to_json())
            found.check_cap(f"{link.title} {known.run.name!r}", self.path)

    def resume(self, directory: RunDirectory, spec: Specification) -> None:
        """A run goes on in this register. Raises :class:`UserError` where it is in another."""
        link, opening = RegisterLink.read(directory), register.read(self.path).register.opening
        if link is None:
            if LedgerFile(directory.ledger).entries.closed:
                raise RegisterError(
                    "this run was measured without a register",
                    where=directory.root,
                    remedy=f"das register add {self.path} {directory.root}",
                )
            self.link(spec).write(directory)
        elif link.id != opening.id or (self.population or link.population) != link.population:
            raise RegisterError(
                f"this run is in the register {link.register}, population {link.population}",
                where=directory.root,
                remedy="resume it without --register and --population",
            )
        else:
            replace(link, register=str(self.path.absolute())).write(directory)


@dataclass(frozen=True)
class RegisteredDraws:
    """How often each stage of a run may be drawn, by its register; without one any number."""

    often: Often | None = None

    def check(self, stage: StageKey, ledger: Entries) -> None:
        """Raises :class:`PrivacyError` where it would be drawn more often."""
        if self.often is not None and _drawn(stage, ledger) >= self.often[stage]:
            raise PrivacyError(
                f"{stage[0]} at {stage[1]} would be drawn more often than the register knows",
                where="ledger",
            )


def _drawn(stage: StageKey, ledger: Entries) -> int:
    return sum(a.stage == stage and bool(a.events) for a in ledger.attempts)


class PlannedStage(Protocol):
    """What a stage draws."""

    @property
    def events(self) -> tuple[Event, ...]: ...


class RegisteredRun(Protocol):
    """What a run is to measure, and what it costs."""

    @property
    def run(self) -> Run: ...

    @property
    def terms(self) -> Terms: ...


def enter(
    spec: RegisteredRun,
    planned: Mapping[StageKey, PlannedStage],
    ledger: Entries,
    lost: Collection[Attempt],
    key: str | None,
    directory: RunDirectory,
) -> RegisteredDraws:
    """Enter what a run is to draw: what is ``planned``, and again what is ``lost``. Returns, when
    that is on disk, how often each stage may be drawn in all.

    Raises:
        RegisterError: the cap would be passed; or the register or the folder is not the latest.
    """
    link = RegisterLink.read(directory)
    if link is None:
        return RegisteredDraws()
    again = {a.stage for a in lost}
    drawn = {s: _drawn(s, ledger) for s in planned}
    often = {s: max(1, n + (s in again)) for s, n in drawn.items()}
    with register.locked(Path(link.register)) as file:
        check_latest(link, file, directory)
        found = file.register.of(link.run)
        if link.giving_up or any(n in file.register.void for n in found):
            raise RegisterError(
                "this run was given up, and its key was deleted", where=directory.root, remedy=_COPY
            )
        head = file.head
        due = owed(list(found.values()), often, drawn, again, key, link.head)
        if due:
            draws: dict[str, list[Event]] = {}
            for stage, n in due.items():
                draws.setdefault(stage[0], []).extend(list(planned[stage].events) * n)
            entry = _entry(link, spec.run, PublicationCost.of(spec.terms, draws), key, often)
            head = file.append("spend", entry.to_json())
        if due or link.head is None:
            link.entered(directory, head, new=not ledger.attempts)
    return RegisteredDraws(often)


def owed(
    found: Sequence[Entry],
    often: Often,
    drawn: Often,
    again: Collection[StageKey],
    key: str | None,
    known: Head | None,
) -> dict[StageKey, int]:
    """How often each stage is to be entered; see the module. ``found`` are the entries of the run.
    ``drawn`` says how often its stages were drawn, ``often`` how often they will be in all. ``known``
    is the head that its folder knows."""
    if not found or (key is None and known is None):
        return dict(often)
    covered = {s: max(e.times.get(":".join(s), 1) for e in found) for s in often}
    due = {s: n - covered[s] for s, n in often.items()}
    if key is not None and key not in {e.key for e in found}:
        if not any(drawn.values()):
            raise RegisterError(
                "this run has entered with another run key: this folder is a copy or an old backup"
                " of one that went on, or its key was deleted",
                where=f"run {found[0].id}",
                remedy=_COPY,
            )
        due = {s: max(n, int(s in again or not drawn[s])) for s, n in due.items()}
    return {s: n for s, n in due.items() if n > 0}


def check_latest(link: RegisterLink, file: RegisterFile, directory: RunDirectory) -> None:
    """Raises :class:`RegisterError` where the file is not the register that the run has entered, or
    an older state of it.
    """
    if file.register.opening.id != link.id:
        raise RegisterError(
            "this is another register than the run has entered",
            where=link.register,
            remedy="name the right one: das run ... --resume --register FILE",
        )
    if link.head is not None:
        file.check_known(link.head, f"the run {directory.root}")


def now() -> str:
    """When something is entered."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _entry(
    link: RegisterLink, run: Run, spending: PublicationCost, key: str | None, often: Often
) -> Entry:
    return Entry(
        "run",
        link.run,
        run.name,
        link.title,
        link.population,
        run.private,
        now(),
        spending,
        key,
        {":".join(stage): n for stage, n in often.items() if n > 1},
        link.disjoint_from,
    )
