r"""A run enters the register of its office before anything is measured.

One place does it for every publication: where its ledger is about to be written
(:class:`das.truth.bookkeeping.BudgetBook`). The order is: the entry, the names of the draws, the
ledger, noise. Each is on disk before the next.

**The name of a draw.** A stage is a level of a universe. A draw whose noise follows from a key or a
seed is a function of four things: the key, its number (how often the stage has begun), the truth and
the version of the software. Its name consists of the key's name, the number, and a digest of the
others. So the same name is the same draw in any folder, and costs nothing again. Noise without a key
is another draw each time: its name is a new one.

**Claim.** Let folders of a run be killed, copied, restored, resumed and given up in any order, all
with one register file that only grows. Then every stage costs, in what the register counts, at least
as often as it was drawn with different results.

*Proof.* All changes of the register are made under its lock, one after the other.

1. *No draw without a name.* Noise of a stage is drawn only after its ledger, in the folder of that
   process, lists the draw (:mod:`das.truth.bookkeeping`). ``BudgetBook`` writes that only after
   :meth:`RunRegister.name` has returned: then the register has the name. A process that finds the
   draw in its ledger when it starts has the ledger of one that got there.
2. *As many names as different draws.* With a key, by the above. Two results of one key and number
   would need two truths or versions, whose names differ only in the digest; that is refused, because
   equal noise on two truths shows their difference. Without a key a name is made under the lock
   for one line of one ledger, and a task draws it once (:mod:`das.truth.bookkeeping`). A copy with
   that line does not go on from it: what was interrupted without a key is lost, and has another
   name.
3. *As many payments as names.* :meth:`RunRegister.name` enters what is missing, before it adds a
   name, and :meth:`das.register.book.Register.after` refuses a name beyond what was entered.
4. *What has a name stays.* An entry is given up only while its run has no name, and afterwards its
   run gets none (:meth:`das.register.book.Register.after` refuses both). So what was given up
   was never drawn, by 1, and never will be. A run that was first measured without a register has
   draws before it has names. They get names after its entry; in between its ledger shows them, and
   it is not given up (:mod:`das.register.checking`).

A kill leaves a beginning of these steps: an entry without a name can be given up or used; a name
without a ledger is used by the same key, or is spent. ∎

The register can lack only what it was not told: a copy of the *register* grows apart from it (a
witness shows that), and a folder whose files somebody edits or deletes proves nothing. Nor does a
task that somebody starts by hand in a copy of a folder, where noise has no key.

**Spent twice by mistake.** A folder that does not know of a name in its register is a copy, an old
backup, or has lost its ledger. A new draw there is refused, unless ``accept_spent``; then it is
entered again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from das.accounting.sources import Relation
from das.accounting.statement import Terms
from das.errors import RegisterError, UserError
from das.files.run.ledger import Attempt, Entries, LedgerFile, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.budget import PlannedMeasurement
from das.model.ledger import Event
from das.register import file as register
from das.register.book import DrawNames, Entry, Register
from das.register.file import Head, RegisterFile, RegisterLink
from das.register.publication_cost import PublicationCost
from das.release.privacy_sources import SourceReader
from das.release.publications import publication
from das.spec.parts import Run
from das.spec.specification import Specification
from das.version import __version__

_COPY = "start a new run in a new folder: it enters by itself"
#: In the name of a draw that was made before its run entered.
_BEFORE = "before"


@dataclass(frozen=True)
class RegisterOptions:
    """The register that runs enter; the population of their records (``None``: the register's own),
    and those that have nobody in common with it."""

    path: Path
    population: str | None = None
    disjoint_from: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for option, name in (
            *(("--disjoint-from", n) for n in self.disjoint_from),
            *([] if self.population is None else [("--population", self.population)]),
        ):
            if not name or not name.isprintable():
                raise UserError(
                    f"{name!r} is no name", where=option, remedy="give a name such as us-2020"
                )

    def populations(self, register: Register) -> tuple[str, tuple[str, ...]]:
        """That of the records, and those disjoint from it. Raises :class:`UserError` where it would
        be disjoint from itself."""
        mine = self.population or register.opening.population
        if mine in self.disjoint_from:
            raise UserError(
                f"the population {mine!r} is not disjoint from itself",
                where="--disjoint-from",
                remedy="name another population (--population), or leave it out",
            )
        return mine, self.disjoint_from

    def link(self, spec: Specification) -> RegisterLink:
        """What the folder of a new run says of its register."""
        found = register.read(self.path).register
        mine, others = self.populations(found)
        return RegisterLink(
            str(self.path.absolute()), found.opening.id, uuid4().hex, spec.title, mine, uuid4().hex,
            others,
        )  # fmt: skip

    def check_room(self, specs: Sequence[Specification]) -> None:
        """Raises :class:`RegisterError` where runs of these, together, would pass the cap: before
        anything is read. What names its input later is checked later."""
        found = register.read(self.path).register
        for spec in specs:
            try:
                known = publication(spec.publication()).resolved(spec)
            except UserError:
                continue
            link = self.link(spec)
            draws = {u.name: u.plan.measurements for u in known.universes}
            entry = _entry(link, known, draws, found.opening.relation, None, {})
            found = found.after("spend", entry.to_json())
            found.check_cap(f"{link.title} {known.run.name!r}", self.path)

    def resume(self, directory: RunDirectory, spec: Specification) -> None:
        """A run goes on in this register. Raises :class:`UserError` where it is in another."""
        link, found = RegisterLink.read(directory), register.read(self.path).register
        if link is None:
            if LedgerFile(directory.ledger).entries.closed:
                raise RegisterError(
                    "this run was measured without a register",
                    where=directory.root,
                    remedy=f"das register add {self.path} {directory.root}",
                )
            self.link(spec).write(directory)
        elif link.id != found.opening.id or (self.population or link.population) != link.population:
            raise RegisterError(
                f"this run is in the register {link.register}, population {link.population}",
                where=directory.root,
                remedy="resume it without --register and --population",
            )
        else:
            replace(link, register=str(self.path.absolute())).write(directory)


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


@dataclass(frozen=True)
class RunRegister:
    """The register of a run that measures ``planned``, by a ``key`` where there is one; ``truth``
    identifies the counts of each universe. Without a register nothing is done."""

    spec: RegisteredRun
    planned: Mapping[StageKey, PlannedStage]
    directory: RunDirectory
    truth: Mapping[str, Mapping[str, str]]
    key: str | None
    accept_spent: bool

    def name(self, numbers: Mapping[StageKey, int], ledger: Entries) -> None:
        """These stages are about to be drawn, for the ``numbers``-th time each. Returns when the
        register has the names of these draws and of all others in the ``ledger``, and counts them
        and whatever else is planned.

        Raises:
            RegisterError: the cap would be passed; the run was given up; or the register or the
                folder is not the latest."""
        link = RegisterLink.read(self.directory)
        if link is None:
            return
        with register.locked(Path(link.register)) as file:
            check_latest(link, file, self.directory)
            _check_stands(file.register, link, self.directory)
            known = file.register.begun.get(link.run, {})
            new: dict[str, list[str]] = {}
            for stage in self.planned:
                more = self._new(stage, numbers.get(stage), ledger, known, link)
                if more:
                    new[":".join(stage)] = more
            head = file.head
            if (entry := self._owed(file.register, link, known, new)) is not None:
                head = file.append("spend", entry.to_json())
            if new:
                head = file.append("begun", {"run": link.run, "draws": new})
            if head != link.head:
                link.entered(self.directory, head)

    def _new(
        self,
        stage: StageKey,
        number: int | None,
        ledger: Entries,
        known: DrawNames,
        link: RegisterLink,
    ) -> list[str]:
        """The names that a stage lacks: of its draws before, and of draw ``number``."""
        names = known.get(":".join(stage), ())
        every = enumerate((a for a in ledger.attempts if a.stage == stage), 1)
        before = [(i, a) for i, a in every if a.events and i != number]
        mine = _names_before(before, names)
        new = [n for n in mine if n not in names]
        if number is None:
            return new
        now = uuid4().hex
        if self.key is not None:
            begins = f"{self.key}/{number}/"
            now = begins + self._digest(stage[0], link.salt)
            if others := {n for n in names if n.startswith(begins)} - {now, begins + _BEFORE}:
                raise _refused_copy(f"has drawn other data with the same noise ({others.pop()})",
                                    self.directory)  # fmt: skip
            if now in names or begins + _BEFORE in names:
                return new
        if set(names) - set(mine) and not self.accept_spent:
            raise _refused_copy(f"has drawn {stage[0]} at {stage[1]} before", self.directory)
        return [*new, now]

    def _digest(self, universe: str, salt: str) -> str:
        """Of what noise is added to, and by what."""
        said = [salt, __version__, sorted(self.truth.get(universe, {}).items())]
        return hashlib.sha256(json.dumps(said).encode()).hexdigest()

    def _owed(
        self,
        register: Register,
        link: RegisterLink,
        known: DrawNames,
        new: Mapping[str, Sequence[str]],
    ) -> Entry | None:
        """What is to be entered before these names."""
        draws: dict[str, list[Event]] = {}
        often: dict[str, int] = {}
        for (universe, level), stage in self.planned.items():
            text = f"{universe}:{level}"
            paid = register.paid(link.run, text)
            often[text] = max(1, paid, len(known.get(text, ())) + len(new.get(text, ())))
            if due := often[text] - paid:
                draws.setdefault(universe, []).extend(list(stage.events) * due)
        if not draws:
            return None
        return _entry(link, self.spec, draws, register.opening.relation, self.key, often)


def _names_before(before: Iterable[tuple[int, Attempt]], names: Sequence[str]) -> list[str]:
    """The names of the draws of a ledger: those that a register has, or new ones."""
    out: list[str] = []
    for i, a in before:
        if a.key is None:
            known = [n for n in names if "/" not in n and n not in out]
            out.append(known[0] if known else uuid4().hex)
        else:
            begins = f"{a.key}/{i}/"
            out.append(next((n for n in names if n.startswith(begins)), begins + _BEFORE))
    return out


def _refused_copy(why: str, directory: RunDirectory) -> RegisterError:
    return RegisterError(
        f"its register says that this run {why}, and this folder does not: it is a copy or an old"
        " backup of one that went on, or its run key was deleted",
        where=directory.root,
        remedy=f"{_COPY}; or measure again with --accept-spent, which is entered again",
    )


def check_latest(link: RegisterLink, file: RegisterFile, directory: RunDirectory) -> None:
    """Raises :class:`RegisterError` where the file is not the register that the run has entered, or
    an older state of it."""
    if file.register.opening.id != link.id:
        raise RegisterError(
            "this is another register than the run has entered",
            where=link.register,
            remedy="name the right one: das run ... --resume --register FILE",
        )
    if link.head is not None:
        file.check_known(link.head, f"the run {directory.root}")


def _check_stands(register: Register, link: RegisterLink, directory: RunDirectory) -> None:
    if void := [n for n in register.void if register.entries[n].id == link.run]:
        raise RegisterError(
            f"this run was given up: its entry, line {void[0]} of the register, does not count",
            where=directory.root,
            remedy=f"publish nothing that it has measured, and {_COPY}",
        )


def check_counted(directory: RunDirectory, path: Path | None = None) -> Head | None:
    """All that a run has drawn is in its register, or in that at a ``path``. Returns the head that
    it knows; none if it has no register. Raises :class:`RegisterError`."""
    link = RegisterLink.read(directory)
    if link is None:
        return None
    file = register.read(path or Path(link.register))
    check_latest(link, file, directory)
    if not file.register.entries_of(link.run):
        raise RegisterError("this run is not in the register", where=directory.root)
    _check_stands(file.register, link, directory)
    names = file.register.begun.get(link.run, {})
    ledger = LedgerFile(directory.ledger).entries
    for stage in ledger.last():
        every = enumerate((a for a in ledger.attempts if a.stage == stage), 1)
        mine = _names_before(
            [(i, a) for i, a in every if a.events], have := names.get(":".join(stage), ())
        )
        if set(mine) - set(have):
            raise RegisterError(
                f"its ledger has a draw of {stage[0]} at {stage[1]} that is not in the register",
                where=directory.root,
                remedy="resume the run; or, where it is finished, enter its release"
                " (das register add)",
            )
    return link.head


def now() -> str:
    """When something is entered."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _entry(
    link: RegisterLink,
    spec: RegisteredRun,
    draws: Mapping[str, Sequence[PlannedMeasurement]],
    relation: Relation,
    key: str | None,
    often: Mapping[str, int],
) -> Entry:
    sources = SourceReader([relation]).drawn(spec.terms, draws, spec.run)
    return Entry(
        "run",
        link.run,
        spec.run.name,
        link.title,
        link.population,
        spec.run.private,
        now(),
        PublicationCost.from_sources(sources, relation),
        key,
        {stage: n for stage, n in often.items() if n > 1},
        link.disjoint_from,
    )
