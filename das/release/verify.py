"""Is a release what its privacy statement says? Asked of the published files alone.

:func:`check` holds the noisy measurement files against the ledger, draw by draw, and the ledger's lines against
their sums. :func:`statement` does that, and then computes the whole statement again from ``ledger.jsonl`` and
``spec.toml``: costs, totals, every epsilon, every line on single changes, and the digests. What a reader must take on
trust is what no file can show: that the noise was drawn as stated, and from the source that is named.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from das.accounting import statement as stated
from das.errors import ReleaseError
from das.files.json_lines import Key, line_of
from das.files.measurements import nmf
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.release.statement import NAME, PAGE, own_digest
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, digests
from das.model.budget import Neighbours
from das.model.ledger import Event
from das.model.mechanism import Mechanism
from das.model.mechanisms import MECHANISMS
from das.noise import entropy
from das.release import dictionary
from das.release.seal import page, software
from das.spec import RunSpec, parse

ALTERED = "the release is altered: get it again from where it was published"
#: What is not a function of the ledger and the specification: held against something else, or believed.
_NOT_RECOMPUTED = ("what_this_means", "digests", "software")
#: Relative difference of floats that another machine may give.
CLOSE = 1e-9


def check(release: Path) -> list[dict[str, Any]]:
    """Compare the files with the ledger of ``privacy.json``, draw by draw: levels, queries, units, answers,
    variances. Returns the ledger's lines. Raises :class:`ReleaseError` at the first difference.

    Measurements of another publisher have no ledger; their files are held against the list ``measured``, which is
    returned then.
    """
    statement = privacy_statement.read(release)
    spine = spine_file.read(release / "spine.parquet")
    foreign, mechanism = "measured" in statement, MECHANISMS[statement["mechanism"]]
    lines: Sequence[Mapping[str, Any]] = statement["measured" if foreign else "ledger"]
    readers = {u: nmf.NmfReader(run_directory.nmf_folder(release, u), spine) for u in {d["universe"] for d in lines}}
    for universe, reader in readers.items():
        for level in spine.levels:
            said = {d["query"] for d in lines if (d["universe"], d["level"]) == (universe, level)}
            if foreign and not said:
                continue  # not measured
            if odd := said ^ set(reader.queries(level)):
                raise ReleaseError(f"{sorted(odd)[0]!r} is in the files or in the statement, not in both",
                                   where=f"{reader.root}, {level}", remedy=ALTERED)  # fmt: skip
    for line in lines:
        expected = _Expected.foreign(line) if foreign else _Expected.ours(line, mechanism)
        _check_line(expected, readers[line["universe"]])
    if not foreign:
        _check_sums(statement, mechanism, release / "privacy.json")
        _check_book(statement, release)
    return [dict(d) for d in lines]


@dataclass(frozen=True)
class _Expected:
    """What the files must hold of one query at one level: ``measured`` of ``units`` units, each with ``answers``
    answers and a variance from ``least`` to ``most``."""

    level: str
    query: str
    measured: int
    units: int
    answers: int
    least: float
    most: float

    @staticmethod
    def ours(line: Mapping[str, Any], mechanism: Mechanism) -> _Expected:
        v = max(mechanism.variance(Fraction(line[mechanism.symbol])), float(np.finfo(np.float32).tiny))
        return _Expected(line["level"], line["query"], line["units"], line["units"], line["answers"], v, v)

    @staticmethod
    def foreign(line: Mapping[str, Any]) -> _Expected:
        v = line["variance"]
        return _Expected(line["level"], line["query"], line["units"], line["of_units"], line["answers"], v["least"],
                         v["most"])  # fmt: skip


def statement(release: Path) -> dict[str, Any]:
    """Check everything, and return the statement. Raises :class:`ReleaseError` at the first difference, with the
    file and line of it."""
    path = release / "privacy.json"
    spec, made = drawn(release)
    check(release)
    said = privacy_statement.read(release)
    _check_constraints(release, spec, said)
    if same_software(said):
        _check_dictionary(release, spec, said.get("assigned", {}))
    source = _source(spec)
    again = stated.statement(spec.terms, made, said["outside_the_guarantee"], source.name, source.private,
                             assigned=said.get("assigned", {}))  # fmt: skip
    own_words = again.pop("what_this_means")
    if lost := [x for x in own_words if x not in said.get("what_this_means", ())]:
        raise ReleaseError(f"it does not say: {lost[0]}", where=path,
                           remedy=f"{ALTERED}; or check it with the version of das that stated it")  # fmt: skip
    recomputed = {k: v for k, v in said.items() if k not in _NOT_RECOMPUTED}
    for at, expected, found in _differences({k: again[k] for k in again if k not in _NOT_RECOMPUTED}, recomputed, ()):
        raise ReleaseError(f"{'.'.join(map(str, at))} is {found}, and computed again {expected}",
                           where=_place(path, at), remedy=ALTERED)  # fmt: skip
    _check_seal(release, said)
    if same_software(said) and page(said, spec.run.name) != run_directory.read_text(release / PAGE, "page"):
        raise ReleaseError("is not the page of this statement, written again", where=release / PAGE, remedy=ALTERED)
    return said


def same_software(said: Mapping[str, Any]) -> bool:
    """Whether the page could be written again: its bytes depend on who writes it."""
    return said["software"] == software()


def _check_seal(release: Path, said: Mapping[str, Any]) -> None:
    """Every file of the release is there, and is the one of which the statement has the digest; and there is no other:
    none that is hidden, and no link to a folder, which would bring its files along where the release is copied."""
    if links := run_directory.links(release):
        raise ReleaseError(
            "is a link, and no file of the release", where=links[0], remedy=f"take it away; or {ALTERED}"
        )
    found = digests(release) | {NAME: own_digest(said)}
    if (release / PAGE).is_file():
        found[PAGE] = run_directory.digest(release / PAGE)
    for name in sorted({*said["digests"], *found}):
        listed, here = said["digests"].get(name), found.get(name)
        if here is None:
            raise ReleaseError(f"there is no {name}, of which the statement has the digest", where=release,
                               remedy=ALTERED)  # fmt: skip
        if listed is None:
            raise ReleaseError(f"{name} is in the release, and not in its statement", where=release,
                               remedy=f"finish an interrupted run with --resume; take away what was added; or {ALTERED}")  # fmt: skip
        if listed != here:
            raise ReleaseError(f"digests.{name} is {listed}, and computed again {here}",
                               where=_place(release / NAME, ("digests", name)), remedy=ALTERED)  # fmt: skip
    if not privacy_statement.as_written(release, said):
        raise ReleaseError("says what was stated, but not in the text that das writes", where=release / NAME,
                           remedy=ALTERED)  # fmt: skip


def _place(path: Path, at: tuple[Key, ...]) -> str:
    """File and line of a value."""
    return f"{path}, line {line_of(run_directory.read_text(path, 'privacy statement'), at)}"


def drawn(release: Path) -> tuple[RunSpec, stated.Drawn]:
    """The specification of a release, and the events of its ledger: each draw of the plan once, kept, and what
    interrupted attempts drew. Raises :class:`ReleaseError` where there is no ledger, or it is not of this plan."""
    if "measured" in privacy_statement.read(release):
        raise ReleaseError("these measurements came from another publisher: there is no ledger of them", where=release,
                           remedy="`das nmf verify` checks the files; the guarantee is its publisher's to state")  # fmt: skip
    if missing := [n for n in ("ledger.jsonl", "spec.toml", "spine.parquet") if not (release / n).is_file()]:
        raise ReleaseError(f"there is no {missing[0]}", where=release,
                           remedy="name the run that has the noisy measurements")  # fmt: skip
    spec = parse(run_directory.read_text(release / "spec.toml", "specification"), where=str(release / "spec.toml"))
    spine, book = spine_file.read(release / "spine.parquet"), LedgerFile(release / "ledger.jsonl")
    events: dict[str, tuple[Event, ...]] = {u.name: () for u in spec.universes}
    lost: dict[str, tuple[Event, ...]] = {}
    for a in book.attempts():
        into = lost if a.digest is None else events
        into[a.universe] = (*into.get(a.universe, ()), *a.events)
    for u in spec.universes:
        planned = [Event.of(d, u.name, spine.units(d.level), u.schema.query(d.query).answers) for d in u.plan.draws]
        if list(events[u.name]) != planned:
            raise ReleaseError(f"the draws of {u.name} are not those of the plan in spec.toml", where=book.path,
                               remedy=ALTERED)  # fmt: skip
    return spec, stated.Drawn(events, lost)


def _source(spec: RunSpec) -> entropy.Entropy:
    if spec.run.seed is not None:
        return entropy.seeded(spec.run.seed)
    return entropy.kernel() if spec.run.entropy == "kernel" else entropy.system()


def _differences(again: Any, said: Any, at: tuple[Key, ...]) -> Iterator[tuple[tuple[Key, ...], Any, Any]]:
    """Path, computed and stated value wherever two trees differ. Floats may differ by rounding; intervals that both
    hold one number overlap."""
    if isinstance(again, dict) and isinstance(said, dict):
        for key in {**again, **said}:
            yield from _differences(again.get(key), said.get(key), (*at, key))
    elif at and at[-1] == "pld" and _is_interval(said):
        if not (0 <= said[0] <= said[1] and said[0] <= again[1] and again[0] <= said[1] <= again[1] * (1 + CLOSE)):
            yield at, again, said
    elif isinstance(again, list) and isinstance(said, list):
        for i in range(max(len(again), len(said))):
            one, other = (x[i] if i < len(x) else None for x in (again, said))
            yield from _differences(one, other, (*at, i))
    elif isinstance(again, float) and isinstance(said, int | float):
        if not abs(again - said) <= CLOSE * abs(again):
            yield at, again, said
    elif again != said or type(again) is not type(said):
        yield at, again, said


def _is_interval(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(x, int | float) for x in value)


def _check_sums(statement: Mapping[str, Any], mechanism: Mechanism, path: Path) -> None:
    """Every noise costs what its line says, and the lines add up to the totals: exactly, in fractions."""
    sensitivity = Neighbours(statement["neighbours"]).sensitivity
    currency = mechanism.currency
    sums: dict[str, Fraction] = {}
    for table in ("ledger", "spent_by_interrupted_attempts"):
        for i, d in enumerate(statement[table]):
            parameter, cost = Fraction(d[mechanism.symbol]), Fraction(d[currency])
            if mechanism.cost(parameter, sensitivity) != cost:
                raise ReleaseError(f"{d['query']!r} at {d['level']!r}: its noise does not cost {cost}",
                                   where=_place(path, (table, i, currency)), remedy=ALTERED)  # fmt: skip
            for part in (d["universe"], "total"):
                sums[part] = sums.get(part, Fraction(0)) + cost
    for universe, total in statement[currency].items():
        if Fraction(total) != sums.get(universe):
            raise ReleaseError(f"the total of {universe!r} is given as {total}, the lines add up to {sums.get(universe)}",
                               where=_place(path, (currency, universe)), remedy=ALTERED)  # fmt: skip


def _check_constraints(release: Path, spec: RunSpec, said: Mapping[str, Any]) -> None:
    """The constraints that the statement lists are those of the files."""
    spine = spine_file.read(release / "spine.parquet")
    listed = {(c["universe"], c["level"], c["constraint"], c["sign"]) for c in said["outside_the_guarantee"]}
    there = {
        (u.name, level, name, sign)
        for u in spec.universes
        for level in spine.levels
        for name, (sign, _) in nmf.NmfReader(run_directory.nmf_folder(release, u.name), spine)
        .constraints(level)
        .items()
    }
    for odd in sorted(listed ^ there):
        where = release / "privacy.json" if odd in listed else run_directory.nmf_folder(release, odd[0])
        raise ReleaseError(f"constraint {odd[2]!r} of {odd[0]} at {odd[1]!r} is {'not ' if odd in listed else ''}in the "
                           f"files, and {'' if odd in listed else 'not '}in the statement", where=where, remedy=ALTERED)  # fmt: skip


def _check_dictionary(release: Path, spec: RunSpec, assigned: dictionary.Assigned) -> None:
    """Line by line what the specification gives. Before anything is post-processed there is none."""
    path = release / dictionary.NAME
    if not path.exists():
        return
    again = dictionary.text(spec, spine_file.read(release / "spine.parquet"), assigned)
    said = run_directory.read_text(path, "data dictionary")
    for i, (one, other) in enumerate(zip_longest(said.splitlines(), again.splitlines())):
        if one != other:
            raise ReleaseError("this line is not what the specification gives", where=f"{path}, line {i + 1}",
                               remedy=ALTERED)  # fmt: skip


def _check_book(statement: Mapping[str, Any], release: Path) -> None:
    """The statement has the draws of ``ledger.jsonl``, no more and no fewer."""
    attempts = LedgerFile(release / "ledger.jsonl").attempts()
    made = Counter(
        (e.universe, e.level, e.query, str(e.cost), str(e.parameter), e.units, e.answers)
        for a in attempts
        for e in a.events
    )
    mechanism = MECHANISMS[statement["mechanism"]]
    every = [*statement["ledger"], *statement["spent_by_interrupted_attempts"]]
    said = Counter(
        tuple(d[k] for k in ("universe", "level", "query", mechanism.currency, mechanism.symbol, "units", "answers"))
        for d in every
    )
    if odd := [*(made - said), *(said - made)]:
        universe, level, query, cost, *_ = odd[0]
        raise ReleaseError(f"the draws are not those of ledger.jsonl: {query!r} at {level!r} ({universe}), at {cost}, is "
                           f"there {made[odd[0]]} times, and here {said[odd[0]]} times",
                           where=release / "privacy.json", remedy=ALTERED)  # fmt: skip


def _check_line(said: _Expected, reader: nmf.NmfReader) -> None:
    where = f"{reader.root}, {said.level}, {said.query}"
    if (units := reader.spine.units(said.level)) != said.units:
        raise ReleaseError(f"{units} units, the statement says {said.units}", where=where, remedy=ALTERED)
    measured = 0
    for start, stop in reader.spine.batches(said.level, said.answers):
        m = reader.read(said.level, said.query, start, stop)
        if m.values.shape[1] != said.answers:
            raise ReleaseError(f"{m.values.shape[1]} answers, the statement says {said.answers}", where=where,
                               remedy=ALTERED)  # fmt: skip
        there = np.isfinite(m.variance)
        measured += int(there.sum())
        odd = there & ((m.variance < said.least * (1 - 1e-5)) | (m.variance > said.most * (1 + 1e-5)))
        if odd.any():
            unit = int(np.flatnonzero(odd)[0])
            code = reader.spine.codes[reader.spine.index(said.level)][start + unit]
            raise ReleaseError(f"variance {m.variance[unit]:.6g} of {code}, the statement gives {said.least:.6g}",
                               where=where, remedy=ALTERED)  # fmt: skip
    if measured != said.measured:
        raise ReleaseError(f"{measured} units are measured, the statement says {said.measured}", where=where,
                           remedy=ALTERED)  # fmt: skip
