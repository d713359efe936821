"""Noisy measurement files as the Bureau publishes them, made into a release that post-processing
can open.

``<folder>/<Level>.parquet/{DPQuery,Constraint}/State=<d><SS>/[County=.../]part-*.parquet`` and
nothing else: no specification, no spine, no privacy statement. All three are derived from the rows.

*Spine.* The levels are the folders, from the root down, as far as they are whole
(:mod:`das.publications.published.files.codes`). Their order is that of the publications or,
where a name is unknown, of their numbers of units. A unit's parent is the unit of the level above
whose geocode begins its own. A bypassed unit has no rows: it exists, unmeasured, if codes below
begin with its code. What is published has tabulation codes where the blocks have
them (:mod:`das.publications.published.files.codes`).

*Variances.* Those of the rows; infinite for a query without an answer (no row, or a variance of
NaN, infinity or 0). A unit without any answer is not measured and has no row; ``spine.parquet`` in
the folder of the measurements then says so.

*Other measurements* of the same persons, those of the DHC, are kept next to the files' own
(:mod:`das.publications.published.files.dhc`).

*Constraints.* The bounds of the dwelling groups at the lowest level, and totals. The totals are
those of the lowest level whose totals are all known, of each unit or of each place in several parts
(:mod:`das.publications.published.files.rules`).

Rows are read tolerantly, because the published partitions vary. Integers or floats can have any
width. Columns can come in any order, with or without ``plb``, ``sign``, ``query_shape`` and the
suffixes of names. Row groups can be of any size."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import FORMAT, ForeignLine, ForeignStatement, Invariant, Variance
from das.engine.tasks import SILENT, Progress
from das.errors import InputError, UserError
from das.files import atomic
from das.files.measurements import nmf
from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release import statement
from das.files.run import run_directory
from das.model.constraint import Constraint, JointTotals
from das.model.measured_spine import MeasuredSpine
from das.model.not_private import UNKNOWN, UNSTATED, WARNING, Private
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import kind_with
from das.publications.published.files.codes import ROOT, tabulation, whole_levels
from das.publications.published.files.dhc import read_persons, write_margins
from das.publications.published.files.listing import AGAIN, PublishedLevel, first, folders, scan
from das.publications.published.files.outside import NOTHING, Outside
from das.publications.published.files.rules import constraints_of
from das.publications.published.files.sums import MeasuredTotals
from das.publications.published.files.tree import LevelMeasured, measurements, noted, spine_of

#: Values of one level held at a time.
_BATCH = 1 << 24
#: Cells of a schema whose measurements are taken; redistricting persons have 2,016.
MOST_CELLS = 1 << 17
_SAYS = {
    "total": "the total",
    "joint_total": "the total, all parts together,",
    "pl94": "the redistricting counts",
    "lb": "least numbers in the dwelling groups",
    "ub": "most numbers in the dwelling groups",
}


def is_published(folder: Path) -> bool:
    """True if ``folder`` holds folders ``<Level>.parquet``, and no specification of a release of
    ours."""
    return not (folder / "spec.toml").is_file() and bool(folders(folder))


def convert(
    folder: Path,
    out: Path,
    batch: int = _BATCH,
    progress: Progress = SILENT,
    *,
    outside: Outside = NOTHING,
) -> None:
    """Write the release ``out`` from the published files under ``folder``, and from what is known
    ``outside`` of them. ``out`` must not be there yet, or be empty.

    ``out`` appears whole or not at all. What could not be taken over as it stands is listed in its
    ``privacy.json`` under ``notes``.

    Raises:
        InputError, ReleaseError: no levels, unreadable files, attributes or groupings of no schema
            that is built in, geocodes that make no tree, values that do not fit their query, totals
            that contradict each other, parts that are missing."""
    if out.exists() and any(out.iterdir()):
        raise UserError("is there already, and not empty", where=out, remedy="choose another --out")
    there = out.parent.exists()
    try:
        with ExitStack() as stack:
            try:
                draft = stack.enter_context(atomic.folder(out))
            except OSError as error:
                raise UserError(
                    f"cannot be created ({error.strerror})",
                    where=out,
                    remedy="choose another --out",
                ) from None
            _convert(folder, draft, batch, progress, outside)
    except BaseException:
        if not there and out.parent.exists() and not any(out.parent.iterdir()):
            out.parent.rmdir()
        raise


def _convert(folder: Path, draft: Path, batch: int, progress: Progress, outside: Outside) -> None:
    progress.stage("scan", None)
    _refuse_large(folder)
    schema, levels, seeded = scan(folder)
    dhc = None if outside.dhc is None else read_persons(outside.dhc, progress)
    seeded |= dhc is not None and not dhc.private  # then all that rests on both is
    private: Literal[False, "unknown"] = False if seeded else UNKNOWN
    notes = [UNSTATED] if private else []
    levels = whole_levels(levels, notes)
    spine = spine_of(levels, folder)
    constraints = _constraints(schema, spine, levels, notes, outside)
    measured = [LevelMeasured.from_published(schema, level) for level in levels]
    universe = kind_with(schema).name
    root = run_directory.nmf_folder(draft, universe)
    asked = [np.zeros(spine.units(level.name), dtype=bool) for level in levels]
    totals = _totals(spine, constraints)
    for level, what, here in zip(levels, measured, asked, strict=True):
        progress.stage(f"convert {level.name}", spine.units(level.name))
        found = noted(measurements(level, what, spine, batch, progress), here, totals)
        nmf.write(root, level.name, schema, spine, found, private=private)
        totals.check(level.name, folder)
        if not what.variances and level.name != ROOT:
            notes.append(f"nothing is measured at {level.name}")
    notes += _beginning(measured, schema, folder)
    published, tree = _trees(spine, asked, outside)
    if outside.dhc is not None and dhc is not None:
        write_margins(dhc, outside.dhc, root, tree, notes, progress, private=private)
    nmf.write_constraints(root, schema, spine, constraints, private=private)
    spine_file.write(draft / "spine.parquet", published, private=private)
    tree_file.write(root / tree_file.NAME, tree, published, private=private)
    if areas := outside.areas(published):
        areas_file.write(draft / areas_file.NAME, areas, published, private=private)
    name = folder.resolve().name or "published"
    known = any(c.name in ("total", "joint_total") for c in constraints)
    atomic.write_text(draft / "spec.toml", _spec(name, schema, measured, known, private))
    statement.write(
        draft, foreign_statement(universe, spine, measured, constraints, notes, private)
    )


def _constraints(
    schema: Schema,
    spine: Spine,
    levels: Sequence[PublishedLevel],
    notes: list[str],
    outside: Outside,
) -> tuple[Constraint, ...]:
    """Those of the files, and the totals of states from outside."""
    given = outside.totals.constraint(spine) if schema.dwelling is not None else None
    found = constraints_of(schema, spine, levels, notes, given)
    if given is not None:
        notes.append(f"totals of states are from {outside.totals.source}, and exact")
    return tuple(found)


def _refuse_large(folder: Path) -> None:
    """Raises :class:`InputError` for measurements of a schema whose cells nobody estimates one by
    one: households of the DHC, whose exact counts in the published files are not known. (Persons
    of the DHC: :mod:`das.publications.published.files.dhc`.)"""
    if (found := first(folder)) is None:
        return
    schema, file = found
    if schema.cells > MOST_CELLS:
        raise InputError(
            f"these are measurements of schema {schema.name!r}, with {schema.cells:,} cells a"
            " unit. das estimate takes them for persons of the DHC alone: which exact counts files"
            " of households hold is not known",
            where=file,
            remedy=(
                "`das nmf summary` and `das nmf show` read them; give redistricting files"
                " (US_Person_PL_PROD, US_Unit_PL_PROD) or persons of the DHC (US_DHCP_PROD) to das"
                " estimate"
            ),
        )


def _totals(spine: Spine, constraints: Sequence[Constraint]) -> MeasuredTotals:
    """A check of measured totals that knows the exact ones."""
    totals = MeasuredTotals(spine)
    for c in constraints:
        if c.name == "total":
            totals.exact(c.level, c.bound[:, 0])
        elif c.name == "joint_total":
            codes = spine.codes[spine.index(c.level)]
            totals.joint(c.level, JointTotals.of_places(codes, c.bound[:, 0]))
    return totals


def _beginning(measured: Sequence[LevelMeasured], schema: Schema, folder: Path) -> list[str]:
    """What is said of a root that is not measured. Raises :class:`InputError` where nothing else
    tells it."""
    if measured[0].variances:
        return []
    if all(q.answers < schema.cells for q in measured[-1].queries):
        raise InputError(
            f"nothing is measured at {measured[0].level}, nor the detailed query at"
            f" {measured[-1].level}: there is nothing to begin an estimate with",
            where=folder,
            remedy=AGAIN,
        )
    return [
        f"{measured[0].level} is estimated from the levels below it: the method is full-information"
    ]


def _trees(
    spine: Spine, asked: Sequence[NDArray[np.bool_]], outside: Outside
) -> tuple[Spine, MeasuredSpine]:
    """The published spine, of tabulation codes where the blocks have them, and the tree that is
    measured."""
    if (found := tabulation(spine)) is None:
        named = replace(spine, names=outside.called(spine))
        return named, MeasuredSpine.of_measured(spine, asked)
    published, place = found
    tree = MeasuredSpine.of_measured(spine, asked, place)
    return replace(published, names=outside.called(published)), tree


# --- what a release says of itself


def _spec(
    name: str, schema: Schema, measured: Sequence[LevelMeasured], known: bool, private: Private
) -> str:
    """A specification of what follows measurement; ``known`` if a level's totals are known. It has
    no budget, because the files state none."""
    levels = [m.level for m in measured]
    method = (
        "topdown" if measured[0].variances else "full-information"
    )  # topdown would have no root to begin with
    at_once = [*(levels[:1] if known else []), levels[-1]]
    lines = [
        "# Read off noisy measurement files as they were published, for what follows measurement.",
        f"run.name = {_text(name)}",
        'run.publication = "published"',
        f"schema.name = {_text(schema.name)}",
        f"geography.levels = [{', '.join(map(_text, levels))}]",
        f"estimation.method = {_text(method)}",
        "[estimation.passes]",
        'default = [["total"], ["*"]]',
        *(f'{_text(level)} = [["*"]]' for level in dict.fromkeys(at_once)),
        "[published]",
        'mechanism = "discrete-gaussian"',
        f"private = {_text(private) if isinstance(private, str) else 'false'}",
    ]
    for m in measured:
        lines.append(f"[published.variance.{_text(m.level)}]")
        lines += [
            f"{_text(q.name)} = {m.usual(q.name) if q.name in m.variances else _text('unmeasured')}"
            for q in m.queries
        ]
    return "\n".join(lines) + "\n"


def _text(value: str) -> str:
    """A basic string of TOML, whose escapes are those of JSON."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _invariant(universe: str, c: Constraint) -> Invariant:
    return Invariant.make(
        universe=universe,
        constraint=c.name,
        level=c.level,
        query=c.query,
        sign=c.sign,
        says=f"{_SAYS.get(c.name) or _SAYS[c.name[-2:]]} of every {c.level}, as published",
    )


def foreign_statement(
    universe: str,
    spine: Spine,
    measured: Sequence[LevelMeasured],
    constraints: Sequence[Constraint],
    notes: Sequence[str],
    private: Literal[False, "unknown"],
) -> ForeignStatement:
    """What can be known: no ledger and no guarantee, which the publisher states."""
    return ForeignStatement.make(
        format=FORMAT,
        private=private,
        warning=None if private else WARNING,
        entropy="as published",
        mechanism="discrete-gaussian",
        guarantee="that of the publisher of the noisy measurements",
        outside=[_invariant(universe, c) for c in constraints],
        measured=[
            ForeignLine(
                universe=universe,
                level=m.level,
                query=q.name,
                units=sum(m.variances[q.name].values()),
                of_units=spine.units(m.level),
                answers=q.answers,
                variance=Variance(
                    usual=m.usual(q.name),
                    least=min(m.variances[q.name]),
                    most=max(m.variances[q.name]),
                ),
            )
            for m in measured
            for q in m.queries
            if q.name in m.variances
        ],
        ledger=(),
        says=notes,
        digests={},
        software={},
    )
