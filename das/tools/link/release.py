"""The link of a DHC release: persons in households, and both files of the DHC from them.

The link is a function of the published counts and of the number of the link alone: it costs no
budget, and who has the release makes the same. Tracts are linked one by one, by any number of
processes. Like :mod:`das.release.post_processing`, nothing here can see the truth."""

from __future__ import annotations

import csv
import textwrap
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from das.engine import Progress, executor, in_order
from das.errors import ReleaseError, UserError
from das.files import atomic, rows_csv
from das.files.atomic import files_below
from das.files.release import statement
from das.files.release.statement import check_unaltered
from das.files.run.run_directory import RunDirectory, file_digest, read_text
from das.model.histogram import Histogram
from das.model.not_private import WARNING, marked
from das.model.spine import Spine
from das.publications.dhc import release_files
from das.publications.dhc.agreement.counted import household_attributes, type_fields
from das.publications.dhc.agreement.identities import AgreementRow
from das.publications.dhc.agreement.tables import agreement_of_counts
from das.publications.dhc.files import fixed_counts
from das.publications.dhc.model.households import ATTRIBUTE, TENURE, TYPES, label
from das.publications.dhc.model.persons import RELATIONSHIPS, SEX
from das.publications.dhc.release import SPEC, SPINE, OpenedDhc, open_dhc
from das.publications.dhc.replicates import DhcReplicates
from das.publications.dhc.spec import LINKED_UNITS, DhcLink
from das.release.replicate_source import digest_of
from das.release.replicates import SeededNoise
from das.report.chart import WIDE, Chart, Picture
from das.report.facts import NOISY, PUBLISHED, height_of
from das.report.panel import MarkStyle
from das.report.template import render
from das.tools.link import files
from das.tools.link.averages import (
    AverageRow,
    average_rows,
    average_tables,
    units_of_blocks,
    write_tables,
)
from das.tools.link.linking import LinkedHomes, TractInput, link_tract, moved_together, parts
from das.tools.link.members import KINSHIP, kinship
from das.tools.link.population import LinkedPopulation, joined, tracts
from das.tools.link.targets import LinkTargets
from das.version import __version__

SYNTHETIC = "SYNTHETIC.txt"
FIGURES, CHANGES, AGREEMENT, AVERAGES = "link.json", "changes.csv", "agreement.csv", "averages.csv"
AVERAGE_TABLES = "averages"
PAGE = "index.html"
#: How many types of household the page has an example of.
EXAMPLES = 8
BEFORE, AFTER = "published", "linked"
#: The level whose units are linked one by one.
TRACT = LINKED_UNITS
_NOTE = (
    "Everything in this folder is synthetic: no household is a real one. Who lives with whom"
    " follows from published counts and from what is plausible. Nothing is known about who"
    " really lives together."
)
_FIELDS = ("couple", "relatives", "own", "children", "minor", "multig", "size")


@dataclass(frozen=True)
class LinkOptions:
    """``number``: that of the link, 0 for the first. ``csv``: CSV instead of Parquet. ``tables``:
    write the tables of the DHC from the link. ``replicates``: replicates of the release that are
    linked for the errors of averages. ``targets``: a release of the S-DHC, whose totals the link is moved towards."""

    number: int = 0
    csv: bool = False
    tables: bool = True
    replicates: int = 0
    targets: Path | None = None

    def __post_init__(self) -> None:
        if self.number < 0 or self.replicates < 0:
            raise UserError(
                "is below zero", where="--number, --replicates", remedy="give 0 or more"
            )

    @staticmethod
    def from_configuration(asked: DhcLink) -> LinkOptions:
        """Those of a configuration."""
        return LinkOptions(asked.number, asked.csv, asked.tables, asked.replicates)


def link_release(
    release: Path, out: Path, options: LinkOptions, *, workers: int, progress: Progress
) -> dict[str, Any]:
    """Link a release, write everything to the new folder ``out``, and return the figures.

    Raises :class:`UserError` where the folder is taken, and :class:`ReleaseError` for a release
    that is not whole."""
    RunDirectory(out).refuse_if_taken()
    opened = open_dhc(release)
    counts = _read(opened)
    _check_unaltered(opened)
    targets = None if options.targets is None else LinkTargets.read(options.targets, opened)
    with executor(workers) as pool:
        linked = linked_counts(opened, counts, pool, progress, options)
        replicates = [
            linked_counts(opened, again, pool, progress, options)
            for again in _replicates(opened, options.replicates, pool)
        ]
    if targets is not None:
        linked, *replicates = (targets.steered(x, options.number) for x in (linked, *replicates))
    both = {BEFORE: counts, AFTER: linked.counts}
    rows = {
        name: agreement_of_counts(
            opened.spine, {u: h.upward(opened.spine) for u, h in lowest.items()}
        )
        for name, lowest in both.items()
    }
    figures = _figures(opened, linked, rows, options)
    averages = average_rows(opened.spine, linked, replicates)
    with atomic.folder(out) as draft:
        _write(draft, opened, linked, options, progress)
        if options.tables:
            _write_averages(draft / AVERAGE_TABLES, opened, linked, replicates)
        _write_rows(draft, opened, linked, rows, averages)
        atomic.write_json(draft / FIGURES, figures)
        page = _page(opened, linked, figures, rows, averages)
        atomic.write_text(draft / PAGE, page)
    return figures


def _read(opened: OpenedDhc) -> dict[str, Histogram]:
    if TRACT not in opened.spine.levels[:-1]:
        raise ReleaseError(
            f"its tree has no level {TRACT}, whose units are linked one by one",
            where=opened.folder,
            remedy="publish with tracts: geography.levels",
        )
    return release_files.read_counts(opened.folder, opened.spine)


def _check_unaltered(opened: OpenedDhc) -> None:
    """What is linked is what was published: the link bears the name of its release, and says
    whether that is private."""
    release = opened.folder
    read = [SPEC, SPINE, *(fixed_counts.name(universe) for universe in opened.fixed)]
    read += [name for name in files_below(release) if name.startswith("microdata/")]
    found = {name: file_digest(release / name) for name in read}
    check_unaltered(release, found, statement.read(release))


def _replicates(opened: OpenedDhc, many: int, pool: Executor) -> list[Mapping[str, Histogram]]:
    """Counts of replicates of the release."""
    if not many:
        return []
    source = DhcReplicates.from_release(opened)
    published = source.published()
    return [source.again(published, SeededNoise(0, i), pool) for i in range(many)]


def linked_counts(
    opened: OpenedDhc,
    counts: Mapping[str, Histogram],
    pool: Executor,
    progress: Progress,
    options: LinkOptions,
) -> LinkedPopulation:
    """The link of the counts of the lowest level, by universe."""
    spine = opened.spine
    groups, tract = places(spine)
    codes = [bytes(c) for c in spine.codes[spine.index(TRACT)]]
    todo = tracts(counts, groups, tract, codes, options.number)
    progress.stage("link", len(todo))
    done = []
    for tract_homes in in_order(pool, link_tract, todo):
        done.append(tract_homes)
        progress.advance()
    above = np.asarray(spine.parent[spine.index(TRACT)])
    return joined(_together(above, todo, done, pool, progress), counts, groups)


def _together(
    above: np.ndarray,
    todo: Sequence[TractInput],
    done: list[LinkedHomes],
    pool: Executor,
    progress: Progress,
) -> list[LinkedHomes]:
    """Linked tracts after those of each unit ``above`` them have moved together."""
    which, out = parts(above), list(done)
    progress.stage("link, tracts together", len(done))
    moved = in_order(
        pool, _moved, [([todo[i] for i in part], [done[i] for i in part]) for part in which]
    )
    for part, homes in zip(which, moved, strict=True):
        for i, changed in zip(part.tolist(), homes, strict=True):
            out[i] = changed
        progress.advance(len(part))
    return out


def _moved(given: tuple[list[TractInput], list[LinkedHomes]]) -> list[LinkedHomes]:
    return moved_together(*given)


def places(spine: Spine) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of block group and tract of each lowest unit; without block groups, tracts stand
    for them."""
    at = np.arange(len(spine.codes[-1]))
    found = {}
    for depth in range(len(spine) - 1, 0, -1):
        found[spine.levels[depth]] = at
        at = np.asarray(spine.parent[depth])[at]
    tract = found[TRACT]
    above = spine.levels[spine.index(TRACT) + 1]
    return (found[above] if above != spine.levels[-1] else tract), tract


def _write(
    draft: Path,
    opened: OpenedDhc,
    linked: LinkedPopulation,
    options: LinkOptions,
    progress: Progress,
) -> None:
    private, name = opened.spec.run.private, opened.spec.run.name
    warning = [] if private else [WARNING]
    atomic.write_text(draft / SYNTHETIC, "\n".join([_NOTE, *warning, ""]))
    progress.stage("files of the link", None)
    codes = opened.spine.codes[-1]
    files.write(draft, linked, codes, csv=options.csv, private=private)
    counts = {u: h.upward(opened.spine) for u, h in linked.counts.items()}
    release_files.write(
        draft,
        opened.spine,
        counts,
        name=name,
        private=private,
        csv=options.csv,
        tables=options.tables,
        progress=progress,
    )


def _write_averages(
    folder: Path, opened: OpenedDhc, linked: LinkedPopulation, replicates: list[LinkedPopulation]
) -> None:
    spine, private = opened.spine, opened.spec.run.private
    for level, unit in units_of_blocks(spine).items():
        found = average_tables(linked, replicates, unit, spine.units(level))
        write_tables(folder, spine, level, found, private=private)


def _write_rows(
    draft: Path,
    opened: OpenedDhc,
    linked: LinkedPopulation,
    rows: Mapping[str, list[AgreementRow]],
    averages: list[AverageRow],
) -> None:
    private, codes = opened.spec.run.private, opened.spine.geocodes(opened.spine.levels[-1])
    moved = np.flatnonzero(linked.occupied != linked.published_occupied)
    rows_csv.write(
        draft / CHANGES,
        ("block", "published_occupied", "linked_occupied"),
        ((codes[b], linked.published_occupied[b], linked.occupied[b]) for b in moved.tolist()),
        private=private,
    )
    header = ("files", *rows_csv.columns(AgreementRow))
    lines = [(name, *vars(r).values()) for name, found in rows.items() for r in found]
    rows_csv.write(draft / AGREEMENT, header, lines, private=private)
    rows_csv.write_rows(draft / AVERAGES, AverageRow, averages, private=private)


#: Blocks of Clatsop County, Oregon, in the Census Bureau's DHC of 2020, whose persons (P12) and
#: households (H12) disagree.
IN_2020 = 0.96


def usual(share: float) -> str:
    """Whether this share of disagreeing blocks is normal."""
    than = "as usual" if share >= IN_2020 - 0.1 else "fewer than usual"
    return (
        f"{100 * share:.0f} % disagree as published, {than}: persons and households were measured"
        f" separately. In the Bureau's DHC of 2020 it is {100 * IN_2020:.0f} % (Clatsop County)."
    )


def conclusion(facts: Mapping[str, Any]) -> str:
    """What the link changes."""
    odd, blocks = facts["blocks_that_disagree"], facts["blocks"]
    return (
        f"As published, persons and households disagree in {odd[BEFORE]:,} of {blocks:,} blocks; as"
        f" linked, in {odd[AFTER]:,}."
        f" {100 * facts['household_types_as_published']:.1f} % of households have the type that was"
        " published."
    )


def agreement_chart(
    before: Sequence[AgreementRow], after: Sequence[AgreementRow], width: float
) -> Chart:
    """How many blocks violate each identity, as published and as linked."""
    words = ["\n".join(textwrap.wrap(r.says, 34)) for r in before]
    chart = Chart(width, 0.9 + height_of(words, 0.13))
    at = list(range(len(words)))
    published, linked = [r.violated for r in before], [r.violated for r in after]
    chart.bars(
        [(0, x, y - 0.3, y + 0.3) for x, y in zip(published, at)], MarkStyle(NOISY), "published"
    )
    chart.plot(linked, at, MarkStyle(PUBLISHED, mark="s", size=5), "linked", clip=False)
    chart.x.low, chart.x.whole = 0.0, True
    chart.rows(words)
    chart.ends_at("blocks that violate it")
    chart.finish("", 2)
    return chart


def agreement_picture(out: Path, facts: Mapping[str, Any]) -> Picture:
    """The same from the files of a link, for a slide."""
    written = read_text(out / AGREEMENT, "agreement of a link", "link again")
    lines = list(csv.DictReader(written.splitlines()))
    found: dict[str, list[AgreementRow]] = {}
    for x in (x for x in lines if x["level"] == lines[0]["level"]):
        counts = int(x["units"]), int(x["violated"]), None
        row = AgreementRow(x["identity"], x["says"], x["level"], *counts)
        found.setdefault(x["files"], []).append(row)
    note = "Synthetic: no household is a real one. Blocks that violate what must hold, by identity."
    chart = agreement_chart(found[BEFORE], found[AFTER], WIDE)
    return Picture(chart, conclusion(facts), note, facts.get("private", True))


def _page(
    opened: OpenedDhc,
    linked: LinkedPopulation,
    figures: Mapping[str, Any],
    rows: Mapping[str, list[AgreementRow]],
    averages: list[AverageRow],
) -> str:
    root, lowest = opened.spine.levels[0], opened.spine.levels[-1]
    before, after = ([r for r in rows[x] if r.level == lowest] for x in (BEFORE, AFTER))
    shown, spec = [a for a in averages if a.level == root], opened.spec.run
    return render(
        "link.html",
        conclusion=conclusion(figures),
        usual=usual(figures["blocks_that_disagree"][BEFORE] / max(figures["blocks"], 1)),
        drawn=Markup(
            agreement_chart(before, after, 6.8).svg("agreement", "Blocks that violate an identity")
        ),
        private=spec.private,
        name=spec.name,
        figures=figures,
        identities=list(zip(before, after, strict=True)),
        averages=shown,
        errors=any(a.error is not None for a in shown),
        examples=examples(linked),
    )


@dataclass(frozen=True)
class ShownHousehold:
    """A linked household: what its ``type`` says, how many there are ``like`` it, and its
    ``members`` in words."""

    type: str
    like: int
    tenure: str
    members: tuple[str, ...]


def examples(linked: LinkedPopulation) -> list[ShownHousehold]:
    """The first household of each of the most common types, the most common first."""
    of = household_attributes(linked.cell)
    kind, many = np.unique(of[ATTRIBUTE], return_counts=True)
    out, people = [], linked.people
    for k, n in sorted(zip(kind.tolist(), many.tolist(), strict=True), key=lambda x: -x[1]):
        home = int(np.argmax(of[ATTRIBUTE] == k))
        who = np.flatnonzero(linked.household == home)
        members = tuple(
            f"{_RELATIONS[people.relgq[i]]}, {SEX.labels[people.sex[i]].lower()},"
            f" {people.age[i]} years"
            for i in who.tolist()
        )
        tenure = TENURE.labels[int(of[TENURE.name][home])]
        out.append(ShownHousehold(label(TYPES[k]), n, tenure, members))
        if len(out) == EXAMPLES:
            break
    return out


_RELATIONS = list(RELATIONSHIPS.values())


def _figures(
    opened: OpenedDhc,
    linked: LinkedPopulation,
    rows: Mapping[str, list[AgreementRow]],
    options: LinkOptions,
) -> dict[str, Any]:
    """What there is to say of a link, in numbers."""
    t, kind = type_fields(), household_attributes(linked.cell)[ATTRIBUTE]
    lowest = opened.spine.levels[-1]
    odd = {
        name: next(r for r in found if r.level == lowest and r.identity == "any")
        for name, found in rows.items()
    }
    as_asked = {
        f: float(np.mean(getattr(t, f)[kind] == getattr(t, f)[linked.asked])) if len(kind) else 1.0
        for f in _FIELDS
    }
    changed = np.abs(linked.occupied - linked.published_occupied).sum()
    return marked(
        {
            "synthetic": _NOTE,
            "release": digest_of(opened.folder),
            "link": options.number,
            "version": __version__,
            "persons_in_households": len(linked.people),
            "households": len(linked.cell),
            "blocks": odd[BEFORE].units,
            "blocks_that_disagree": {name: row.violated for name, row in odd.items()},
            "households_in_other_blocks": int(changed) // 2,
            "persons_in_other_blocks_or_of_other_ages": linked.moved,
            "household_types_as_published": float(np.mean(kind == linked.asked))
            if len(kind)
            else 1.0,
            "fields_as_published": as_asked,
            "kinship": _kinship(linked),
            "replicates": options.replicates,
            "targets": None if options.targets is None else digest_of(options.targets),
        },
        opened.spec.run.private,
    )


def _kinship(linked: LinkedPopulation) -> list[dict[str, str | float]]:
    """Tails of ages within households."""
    found = kinship(linked.people.linked(linked.household))
    return [{"name": name, "says": KINSHIP[name], "value": x} for name, x in found.items()]
