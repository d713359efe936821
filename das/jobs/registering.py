"""What is entered in a register by hand: releases, statements and configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

from das.accounting import codec
from das.accounting.document import Account
from das.accounting.publication_cost import PublicationCost
from das.accounting.register import Entry
from das.errors import RegisterError, UserError
from das.files import packaged, register
from das.files.register import Head
from das.files.run.ledger import LedgerFile
from das.files.run.register_link import RegisterLink
from das.files.run.run_directory import RunDirectory, read_json, release_of
from das.release import verify
from das.release.publications import publication, publication_of
from das.spec import load
from das.truth.registering import RegisterOptions, check_latest, now


def add(options: RegisterOptions, source: Path, day: date | None = None) -> Head:
    """Enter a release, a statement of another program or a configuration: what was published before,
    or elsewhere; on a ``day``, or now."""
    with register.locked(options.path) as file:
        entry = replace(
            _entry(source, day.isoformat() if day else now()),
            population=options.population or file.register.opening.population,
            disjoint_from=options.disjoint_from,
        )
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
                f"is entered already, in line {n + 1}",
                where=source,
                remedy="nothing to do; a second measurement of the same plan needs another run.name",
            )


def _entry(source: Path, when: str) -> Entry:
    """What a source costs; its population is to be named."""
    if source.is_dir():
        release = release_of(source)
        verify.check(release)
        spec, drawn = verify.drawn(release)
        return Entry(
            "release",
            codec.identity(verify.statement(release)),
            spec.run.name,
            publication_of(release).title,
            "-",
            spec.run.private,
            when,
            PublicationCost.of(spec.terms, drawn.every),
        )
    if source.suffix == ".json":
        said = codec.of(read_json(source), source)
        if not isinstance(said, Account):
            raise UserError(
                "this statement has no account of what was drawn", where=source,
                remedy="ask its publisher for one; or enter a configuration that draws the same",
            )  # fmt: skip
        return Entry("statement", codec.identity(said), source.stem, "a privacy statement", "-",
                     said.private is True, when, PublicationCost.stated(said))  # fmt: skip
    text, folder = packaged.configuration(source)
    given = load(text, where=str(source), folder=folder)
    known = publication(given.publication()).resolved(given)
    draws = {u.name: u.plan.measurements for u in known.universes}
    return Entry("configuration", known.digest, known.run.name, given.title, "-",
                 known.run.private, when, PublicationCost.of(known.terms, draws))  # fmt: skip


def check_run(path: Path, run: Path) -> Head:
    """The head that a run knows is in the register, and the run with it. Raises
    :class:`RegisterError`."""
    directory = RunDirectory(run)
    link = RegisterLink.read(directory)
    if link is None or link.head is None:
        raise RegisterError("this run has entered no register", where=run)
    file = register.read(path)
    check_latest(link, file, directory)
    if not file.register.of(link.run):
        raise RegisterError("this run is not in the register", where=run)
    return link.head
