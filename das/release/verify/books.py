"""The books of a release: the statement's lines against their sums and ``ledger.jsonl``, and that
against the plan.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from das.accounting import statement as stated
from das.accounting.document import ALTERED, NAME, Statement
from das.errors import ReleaseError
from das.files.parquet import is_marked, refuse_marked
from das.files.provenance import marked_files
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release import statement as privacy_statement
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile
from das.model.budget import Neighbours
from das.model.codes import text
from das.model.ledger import Event
from das.model.measured_spine import MeasuredSpine
from das.model.mechanisms import MECHANISMS
from das.noise import entropy
from das.release.dhc import is_dhc_release, open_dhc
from das.release.groups import is_groups, open_groups
from das.release.verify.place import place
from das.spec import DhcSpec, RunSpec, parse
from das.spec.detailed import DetailedSpec


def drawn(release: Path) -> tuple[RunSpec | DetailedSpec | DhcSpec, stated.Drawn]:
    """The specification of a release, and the events of its ledger: each draw of the plan once,
    kept, and what interrupted attempts drew. Raises :class:`ReleaseError` where there is no ledger,
    or it is not of this plan."""
    privacy_statement.read_ours(release)
    if is_groups(release):
        opened = open_groups(release)
        planned = {opened.name: [e for plan in opened.spec.plans for e in opened.events(plan)]}
        return opened.spec, _entered(LedgerFile(release / "ledger.jsonl"), planned)
    if missing := [
        n for n in ("ledger.jsonl", "spec.toml", "spine.parquet") if not (release / n).is_file()
    ]:
        raise ReleaseError(
            f"there is no {missing[0]}",
            where=release,
            remedy="name the run that has the noisy measurements",
        )
    if is_dhc_release(release):
        dhc = open_dhc(release)
        due = {
            u.name: [e for level in dhc.spine.levels for e in dhc.events(u, level)]
            for u in dhc.spec.universes
        }
        return dhc.spec, _entered(LedgerFile(release / "ledger.jsonl"), due)
    spec = parse(
        run_directory.read_text(release / "spec.toml", "specification"),
        where=str(release / "spec.toml"),
    )
    trees = trees_of(release, [u.name for u in spec.universes])
    _check_places(trees, release)
    spec = spec.on(trees)
    planned = {
        u.name: [
            Event.of(
                d,
                u.name,
                int(trees[u.name].classes(d.level)[d.unit_class].sum()),
                u.schema.query(d.query).answers,
            )
            for d in u.plan.draws
        ]
        for u in spec.universes
    }
    return spec, _entered(LedgerFile(release / "ledger.jsonl"), planned)


def _entered(book: LedgerFile, planned: Mapping[str, Sequence[Event]]) -> stated.Drawn:
    """What a ledger says, if it is what was ``planned``, by universe."""
    events: dict[str, tuple[Event, ...]] = dict.fromkeys(planned, ())
    lost: dict[str, tuple[Event, ...]] = {}
    entries = book.entries
    for into, attempts in ((events, entries.last().values()), (lost, entries.lost())):
        for a in attempts:
            into[a.universe] = (*into.get(a.universe, ()), *a.events)
    for universe, due in planned.items():
        if list(events[universe]) != list(due) or not set(lost.get(universe, ())) <= set(due):
            raise ReleaseError(
                f"the draws of {universe} are not those of the plan in spec.toml",
                where=book.path,
                remedy=ALTERED,
            )
    if torn := [stage for stage in entries.last() if not entries.whole(stage)]:
        raise ReleaseError(
            f"{torn[0][0]} at {torn[0][1]} has not all its parts", where=book.path, remedy=ALTERED
        )
    if not entries.closed:
        raise ReleaseError(
            "it does not say that everything was measured", where=book.path, remedy=ALTERED
        )
    return stated.Drawn(events, lost)


def trees_of(release: Path, universes: Iterable[str]) -> dict[str, MeasuredSpine]:
    """What each universe was measured over: the release's spine, or one of its own beside the
    measurements.
    """
    spine = spine_file.read(release / "spine.parquet")
    return {
        u: tree_file.read(run_directory.nmf_folder(release, u) / tree_file.NAME, spine)
        for u in universes
    }


def _check_places(trees: Mapping[str, MeasuredSpine], release: Path) -> None:
    """The code of a lowest unit of a tree of its own ends with that of the place that it is
    (:mod:`das.geography.geocodes`).
    """
    published = spine_file.read(release / "spine.parquet")
    for universe, tree in trees.items():
        place = published.codes[-1][tree.place]
        if not tree.alike and len(
            odd := np.flatnonzero(~np.strings.endswith(tree.spine.codes[-1], place))
        ):
            raise ReleaseError(
                f"{tree.spine.code(tree.spine.levels[-1], int(odd[0]))} is said to be"
                f" {text(place[odd])[0]}",
                where=run_directory.nmf_folder(release, universe) / tree_file.NAME,
                remedy=ALTERED,
            )


def check_books(release: Path, said: Statement) -> None:
    """Raises :class:`ReleaseError` at the first line that is not what it should be."""
    _check_sums(said, release / NAME)
    _check_ledger(said, release)


def check_source(release: Path, name: str, private: bool) -> None:
    """Every line of the ledger names the source of the noise that the specification has, and its
    run key is that of no small seed: a seed that was taken out of the one is still in the other."""
    path, remedy = release / "ledger.jsonl", f"publish nothing of it; {ALTERED}"
    attempts = LedgerFile(path).entries.attempts
    for a in attempts:
        if a.entropy != name:
            raise ReleaseError(
                f"{a.universe} at {a.level} was drawn from {a.entropy!r}, and the specification"
                f" says {name!r}",
                where=path,
                remedy=remedy,
            )
    for key in dict.fromkeys(a.key for a in attempts if private and a.key is not None):
        if (seed := entropy.seed_of(key)) is not None:
            raise ReleaseError(
                f"the run key {key} is that of the seed {seed}, and the specification names none",
                where=path,
                remedy=remedy,
            )


def check_marks(release: Path, private: bool) -> None:
    """The files of measurements, and of exact counts beside them, say of themselves whether they
    were seeded, as the specification does."""
    for path in marked_files(release):
        refuse_marked(path, private)
        if not private and not is_marked(path):
            raise ReleaseError(
                "the run was seeded, and this file does not say so", where=path, remedy=ALTERED
            )


def _check_sums(said: Statement, path: Path) -> None:
    """Every noise costs what its line says, and the lines of the dearest path add up to the totals:
    exactly, in fractions.
    """
    mechanism = MECHANISMS[said.mechanism]
    sensitivity = Neighbours(said.neighbours).sensitivity
    for table, lines in (("ledger", said.ledger), ("spent_by_interrupted_attempts", said.lost)):
        for i, d in enumerate(lines):
            if mechanism.cost(d.parameter, sensitivity * (d.stability or 1)) != d.cost:
                raise ReleaseError(
                    f"{d.query!r} at {d.level!r}: its noise does not cost {d.cost}",
                    where=place(path, (table, i, mechanism.currency)),
                    remedy=ALTERED,
                )
    sums = {u: _dearest(said, u, path) for u in dict.fromkeys(d.universe for d in said.every)}
    sums["total"] = sum(sums.values(), Fraction(0))
    for universe, total in said.totals.items():
        if total != sums.get(universe):
            raise ReleaseError(
                f"the total of {universe!r} is given as {total}, the lines add up to"
                f" {sums.get(universe)}",
                where=place(path, (mechanism.currency, universe)),
                remedy=ALTERED,
            )


def _dearest(said: Statement, universe: str, path: Path) -> Fraction:
    """The sum of the lines on the dearest path of a universe."""
    lines = [d for d in said.every if d.universe == universe]
    paths = said.paths_of(universe, lines)
    if stray := [d for d in lines if not any(d.place in p for p in paths)]:
        raise ReleaseError(
            f"{stray[0].query!r} of class {stray[0].unit_class!r} at {stray[0].level!r} is on none"
            " of the paths that are stated",
            where=path,
            remedy=ALTERED,
        )
    return max(sum((d.cost for d in lines if d.place in p), Fraction(0)) for p in paths)


def _check_ledger(said: Statement, release: Path) -> None:
    """The statement has the draws of ``ledger.jsonl``, no more and no fewer."""
    events = [e for a in LedgerFile(release / "ledger.jsonl").entries.attempts for e in a.events]
    made, here = (
        Counter(
            (d.universe, d.level, d.query, d.cost, d.parameter, d.units, d.answers, d.place)
            for d in lines
        )
        for lines in (events, said.every)
    )
    if odd := [*(made - here), *(here - made)]:
        universe, level, query, cost, *_ = odd[0]
        raise ReleaseError(
            f"the draws are not those of ledger.jsonl: {query!r} at {level!r} ({universe}), at"
            f" {cost}, is there {made[odd[0]]} times, and here {here[odd[0]]} times",
            where=release / NAME,
            remedy=ALTERED,
        )
