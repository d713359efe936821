"""What is entered in a register by hand: releases, statements and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import NoReturn

from das.accounting import codec
from das.accounting.document import Account
from das.errors import RegisterError, UserError
from das.files import packaged
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory, read_json, release_of
from das.model.not_private import Private
from das.register import file as register
from das.register.book import Entry, Register
from das.register.entering import RegisterOptions, check_counted, check_latest, now
from das.register.file import Head, RegisterLink
from das.register.publication_cost import PublicationCost
from das.release import verify
from das.release.privacy_sources import GivenSources, SourceReader
from das.release.publications import publication, publication_of
from das.spec import load


def add(options: RegisterOptions, source: Path, day: date | None = None) -> Head:
    """Enter a release, a statement of another program or a configuration: what was published before,
    or elsewhere; on a ``day``, or now."""
    opened = register.read(options.path).register  # others need not wait until it is verified
    entry = _entry(source, day.isoformat() if day else now(), options, opened)
    with register.locked(options.path) as file:
        if file.register.opening != opened.opening:
            raise RegisterError("it was replaced", where=options.path, remedy="try again")
        _refuse_twice(file.register.entries, entry, _keys(source), source)
        return file.append("spend", entry.to_json())


def _keys(source: Path) -> set[str | None]:
    """The names of the run keys of a release: a run that drew its noise may have entered."""
    if not source.is_dir():
        return set()
    return {a.key for a in LedgerFile(release_of(source) / "ledger.jsonl").entries.attempts}


def _refuse_twice(
    entries: Mapping[int, Entry], entry: Entry, keys: set[str | None], source: Path
) -> None:
    for n, e in entries.items():
        if e.id == entry.id or (e.private and e.key is not None and e.key in keys):
            raise RegisterError(
                f"is entered already, in line {n}",
                where=source,
                remedy="nothing to do; a second measurement of the same plan needs another run.name",
            )


def _entry(source: Path, when: str, options: RegisterOptions, register: Register) -> Entry:
    relation = register.opening.relation
    reader = SourceReader([relation])
    private: Private
    given: GivenSources
    if source.is_dir():
        release = release_of(source)
        given, spec = reader.release(source), verify.drawn(release)[0]
        said = verify.statement(release)
        kind, id, private = "release", codec.identity(said), spec.run.private
        name, title = spec.run.name, publication_of(release).title
    elif source.suffix == ".json":
        stated = codec.document_from_json(read_json(source), source)
        if not isinstance(stated, Account):
            raise UserError(
                "this statement has no account of what was drawn", where=source,
                remedy="ask its publisher for one; or enter a configuration that draws the same",
            )  # fmt: skip
        given = reader.json(source)
        kind, id, private = "statement", codec.identity(stated), stated.private is True
        name, title = source.stem, "a privacy statement"
    else:
        text, folder = packaged.configuration(source)
        loaded = load(text, where=str(source), folder=folder)
        known = publication(loaded.publication()).resolved(loaded)
        draws = {u.name: u.plan.measurements for u in known.universes}
        given = GivenSources(reader.drawn(known.terms, draws, known.run))
        kind, id, private = "configuration", known.digest, known.run.private
        name, title = known.run.name, loaded.title
    population, others = options.populations(register)
    cost = PublicationCost.from_sources(given.sources, relation)
    return Entry(kind, id, name, title, population, bool(private), when, cost, disjoint_from=others)


def check_run(path: Path, run: Path) -> Head:
    """The head that a run knows is in the register, and all that the run has drawn. Raises
    :class:`RegisterError`."""
    head = check_counted(RunDirectory(run), path)
    if head is None:
        raise RegisterError("this run has entered no register", where=run)
    return head


# A run that has entered a register is given up.
#
# It stays spent, unless none of its noise was drawn. The register alone shows that: it has the name of
# each draw before that is made (:mod:`das.register.entering` has the proof). Whatever became of the
# folder and its copies, none of them gets a name afterwards. Only a run that was measured before it
# entered has draws in its ledger that may have no names yet.


def void(run: Path) -> Head:
    """Take the entry of a run back that has drawn nothing; see the module. Raises
    :class:`RegisterError` where it may have."""
    directory = RunDirectory(run)
    link = RegisterLink.read(directory) if directory.root.is_dir() else None
    if link is None:
        _stays("its folder is not there, or has entered no register", run)
    with directory.lock(), register.locked(Path(link.register)) as file:
        check_latest(link, file, directory)
        found = file.register
        if found.given_up(link.run):
            raise RegisterError("this run is given up already", where=run)
        if link.run in found.begun or LedgerFile(directory.ledger).entries.attempts:
            _stays("it has begun to draw its noise, here or in a copy of this folder", run)
        if not (mine := found.entries_of(link.run)):
            raise RegisterError(
                "this run has entered nothing yet", where=run, remedy="nothing to do"
            )
        for n in mine:
            head = file.append("void", {"line": n, "why": "nothing of it was drawn"})
        link.entered(directory, head)
        return head


def _stays(why: str, run: Path) -> NoReturn:
    raise RegisterError(
        f"stays spent: {why}",
        where=run,
        remedy="resume it where it is interrupted: what was measured is not measured again",
    )
