"""The stages, on one screen.

    spec -> records -> histograms -> measurements | -> estimates -> rounded -> microdata -> tables
                                (truth ends here) |                                   -> evaluation -> report

``prepare`` and ``measured`` see the truth; ``das.post`` cannot; evaluation sees both and writes only to
``confidential/``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das import release_report
from das import spec as specification
from das.accounting.statement import Drawn, invariants, statement
from das.assessment import Assessed, assess
from das.engine import Progress, Silent, executor
from das.errors import InputError, PrivacyError, ReleaseError, SpecError, UserError
from das.files import areas as areas_file
from das.files import microdata_reading, nmf, published_layout, run_directory, truth
from das.files import spine as spine_file
from das.files.extract import read
from das.files.ledger import LedgerFile, digest_of, digests
from das.files.run_directory import RunDirectory
from das.geography import bounds as geography
from das.geography import tabulation
from das.histogram import histograms, upward
from das.measure import measure
from das.model.areas import Areas, off_spine
from das.model.budget import Event, Ledger
from das.model.confidential import Confidential
from das.model.constraint import Constraint, Kind
from das.model.histogram import Histogram
from das.model.records import Source
from das.model.release import Release
from das.model.result import ErrorRow
from das.model.spine import Spine
from das.noise import entropy
from das.post import Certificates, Opened, estimate, open_release, publish
from das.report import html
from das.report.answers import Key, Shown
from das.report.facts import facts
from das.report.privacy import privacy_page
from das.spec import RunSpec, Universe
from das.stages import Stages

Truth = Mapping[str, Confidential[Histogram]]
#: What post-processing makes: published histograms and certificates, by universe and level.
Made = tuple[Mapping[str, Mapping[str, Histogram]], Mapping[str, Mapping[str, Certificates]]]


@dataclass(frozen=True)
class Prepared:
    """The input as histograms, with its public structure: all that measuring needs, at any budget."""

    spine: Spine
    truth: Mapping[str, Truth]
    constraints: Mapping[str, tuple[Constraint, ...]]
    sources: tuple[Source, ...]
    notes: tuple[str, ...]
    areas: tuple[Areas, ...] = ()  #: off the spine, for the evaluation


@dataclass(frozen=True)
class Outcome:
    """What a run has written, and how well it did (``rows`` by universe; empty without the truth). ``notes``: what
    of published files could not be taken over as it stands."""

    directory: RunDirectory
    rows: Mapping[str, Sequence[ErrorRow]]
    seconds: float
    notes: tuple[str, ...] = ()


def run(
    spec: RunSpec,
    out: Path,
    *,
    paths: Sequence[Path] = (),
    workers: int = 1,
    progress: Progress | None = None,
    resume: bool = False,
    accept_spent: bool = False,
) -> Outcome:
    """Everything, from input to report. ``paths`` replace ``data.path``.

    With ``resume`` a run in ``out`` that was interrupted goes on: levels that were measured are kept. A level
    whose measuring was interrupted has spent its budget; it is measured again, and both spendings stated,
    only with ``accept_spent``.
    """
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    if resume and directory.release.exists() and not directory.ledger.exists():
        raise UserError("this run was interrupted before anything was drawn: there is nothing to resume",
                        where=directory.root, remedy="delete the folder and run again")  # fmt: skip
    resume = resume and directory.ledger.exists()
    if not resume:
        directory.refuse_if_taken()
    prepared = prepare(spec, paths, stages, progress)
    if resume:
        check_same(spec, prepared, directory)
    return run_prepared(
        spec, prepared, directory, workers, stages, progress, resume=resume, accept_spent=resume and accept_spent
    )


def prepare(spec: RunSpec, paths: Sequence[Path], stages: Stages, progress: Progress) -> Prepared:
    """Read and validate the input, build the spine, count."""
    paths = list(paths) or [Path(p) for p in spec.data.path]
    if not paths:
        raise SpecError("no input is named", where="data.path", remedy="set data.path, or give --data PATH")
    with stages("read"):
        progress.stage("read", None)
        extract = read(spec.data.reader, paths, spec.persons.schema, columns=spec.data.columns)
    with stages("histograms"):
        progress.stage("histograms", None)
        spine, unit = tabulation.spine(extract.blocks, spec.geography.levels, spec.geography.define)
        records = {"persons": extract.persons}
        if spec.units is not None:
            if extract.units is None:
                raise InputError("the input has no housing units", where="units", remedy="delete the table [units]")
            records["units"] = extract.units
        counted = {name: histograms(r, unit, spine) for name, r in records.items()}
        structures = _at_units(extract.blocks.structures, unit, spine)
        constraints = {u.name: _constraints(spec, u, spine, counted[u.name], structures) for u in spec.universes}
        areas = off_spine(extract.blocks.fields, spine.levels, unit, spine.units(spine.levels[-1]))
    return Prepared(spine, counted, constraints, extract.sources, extract.notes, areas)


def run_prepared(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    workers: int,
    stages: Stages,
    progress: Progress,
    *,
    resume: bool = False,
    accept_spent: bool = False,
) -> Outcome:
    """Measure, then post-process, evaluate and report."""
    measured = measure_release(spec, prepared, directory, stages, progress, resume=resume, accept_spent=accept_spent)
    made = _post_process(directory.release, directory.release, workers, stages, progress)
    return finish(spec, prepared, directory, measured, made, stages, progress)


@dataclass(frozen=True)
class Measured:
    """What the measuring of a run leaves for its end: when it began, its randomness, and its privacy statement."""

    began: datetime
    entropy: str
    private: bool
    privacy: dict[str, Any]


def measure_release(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    stages: Stages,
    progress: Progress,
    *,
    resume: bool = False,
    accept_spent: bool = False,
) -> Measured:
    """The part of a run that sees the truth and spends the budget: noisy measurements and their statement."""
    began = datetime.now(UTC)
    noise = _entropy(spec)
    if not resume:
        directory.create()
        run_directory.write_json(directory.inputs, {"inputs": [asdict(s) for s in prepared.sources]})
        run_directory.write_text(directory.release / "spec.toml", specification.dump(spec))
        spine_file.write(directory.release / "spine.parquet", prepared.spine)
    with stages("measure"):
        events, lost = _measured(spec, prepared, directory, noise, progress, accept_spent)
    privacy = statement(
        spec.terms, Drawn(events, lost), invariants(prepared.constraints), noise.name, noise.private, prepared.notes,
        digests(directory.release, LedgerFile(directory.ledger).attempts()),
    )  # fmt: skip
    run_directory.write_json(directory.release / "privacy.json", privacy)
    run_directory.write_text(directory.release / "privacy.html", privacy_page(privacy, spec.run.name))
    return Measured(began, noise.name, noise.private, privacy)


def finish(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    measured: Measured,
    made: Made,
    stages: Stages,
    progress: Progress,
    *,
    draw: bool = True,
) -> Outcome:
    """The end of a run: what post-processing made is held against the truth, and all is written down; with ``draw``
    also the page for it."""
    released, certificates = made
    privacy = measured.privacy
    for name, levels in prepared.truth.items():
        truth.write(_truth_path(directory, name), levels[prepared.spine.levels[-1]])
    with stages("evaluate"):
        held = Assessed(prepared.spine, prepared.truth, released, prepared.areas)
        rows = assess(spec, directory, held, progress)
    if draw:
        page = facts(spec.run.name, spec.persons.schema.name, privacy, stages.done,
                     {lv: c.estimation for lv, c in certificates["persons"].items()})  # fmt: skip
        page |= {"version": version("topdown-das"), "digest": specification.digest(spec)}
        with stages("report"):
            progress.stage("report", None)
            shown = release_report.shown(open_release(directory.release), released)
            true = _true_answers(spec, shown, prepared.truth)
            run_directory.write_text(directory.report, html(rows["persons"], page, rows.get("units", ()), shown, true))
    directory.write_manifest(
        {
            "name": spec.run.name,
            "private": measured.private,
            "entropy": measured.entropy,
            "version": version("topdown-das"),
            "spec_digest": specification.digest(spec),
            "began": measured.began.isoformat(timespec="seconds"),
            "inputs": [asdict(s) for s in prepared.sources],
            "stages": stages.done,
            "certificates": _certificates(certificates),
            "outputs": directory.digests(),
        },
    )
    return Outcome(directory, rows, stages.seconds)


def estimate_from(release: Path, out: Path, *, workers: int = 1, progress: Progress | None = None) -> Outcome:
    """Everything after measurement, from the files of a release alone: of ours, or in the Bureau's layout."""
    progress, stages, directory = progress or Silent(), Stages(), RunDirectory(out)
    directory.refuse_if_taken()
    given = release
    if published_layout.is_published(release):
        progress.stage("convert", None)
        with stages("convert"):
            published_layout.convert(release, directory.release)
        release = directory.release
    elif not (release / "spec.toml").is_file():
        raise ReleaseError("this is no release: it has no spec.toml, and no folders <Level>.parquet", where=release,
                           remedy="give the folder release/ of a run, or noisy measurement files in the "
                                  "Bureau's layout")  # fmt: skip
    opened = open_release(release)
    if release == given:
        directory.create(confidential=False)
        directory.copy_from(release, "spec.toml", "privacy.json")
    privacy = run_directory.read_json(release / "privacy.json")
    run_directory.write_text(directory.release / "privacy.html", privacy_page(privacy, opened.spec.run.name))
    _, certificates = _post_process(release, directory.release, workers, stages, progress)
    source = {
        "name": opened.spec.run.name,
        "private": privacy["private"],
        "release": str(given),
        "spec_digest": specification.digest(opened.spec),
    }
    directory.write_manifest(
        source | {"version": version("topdown-das"), "stages": stages.done,
                  "certificates": _certificates(certificates), "outputs": directory.digests()},
    )  # fmt: skip
    return Outcome(directory, {}, stages.seconds, tuple(privacy.get("notes", ())))


def truth_of(run: Path) -> tuple[Opened, dict[str, Truth]]:
    """The release of a finished run, and its true histograms by universe and level: for results that stay
    confidential."""
    directory = RunDirectory(run)
    directory.read_manifest()
    opened = open_release(directory.release)
    lowest = {u.name: truth.read(_truth_path(directory, u.name)) for u in opened.spec.universes}
    return opened, {name: upward(h, opened.spine) for name, h in lowest.items()}


def evaluate_run(
    run: Path, progress: Progress | None = None, *, areas: Path | None = None
) -> dict[str, list[ErrorRow]]:
    """The errors of a finished run, computed again from its release and its confidential part. ``areas``: a list
    ``area,block`` of areas off the spine, which joins those that the run knows."""
    directory = RunDirectory(run)
    directory.read_manifest()
    opened = open_release(directory.release)
    known: dict[str, Truth] = {}
    published: dict[str, dict[str, Histogram]] = {}
    for u in opened.spec.universes:
        codes = opened.spine.codes[-1]
        known[u.name] = upward(truth.read(_truth_path(directory, u.name)), opened.spine)
        h = microdata_reading.read(directory.release / "microdata" / u.name, u.schema, codes)
        published[u.name] = {lv: x.open("published") for lv, x in upward(Confidential(h), opened.spine).items()}
    kinds = list(areas_file.read(directory.errors.parent / "areas.parquet"))
    if areas is not None:
        new = areas_file.read_csv(areas, opened.spine.levels[-1], opened.spine.codes[-1])
        kinds = [*(k for k in kinds if k.kind != new.kind), new]
    held = Assessed(opened.spine, known, published, kinds)
    return assess(opened.spec, directory, held, progress or Silent())


# --- the stages -----------------------------------------------------------------------------------------------


def _measured(
    spec: RunSpec,
    prepared: Prepared,
    directory: RunDirectory,
    noise: entropy.Entropy,
    progress: Progress,
    accept_spent: bool,
) -> tuple[dict[str, tuple[Event, ...]], dict[str, tuple[Event, ...]]]:
    """Write the noisy measurements. Returns what was drawn for them, and what was drawn and lost before."""
    book = LedgerFile(directory.ledger)
    _check_ledger(book, spec, prepared.spine)
    kept, lost = _history(book, directory, accept_spent)
    events = {}
    for u in spec.universes:
        before = [e for (universe, _), es in kept.items() for e in es if universe == u.name]
        ledger = Ledger(u.plan.cost, book.draw, before)
        progress.stage(f"measure {u.name}", len(prepared.spine))
        for level in prepared.spine.levels:
            if (u.name, level) not in kept:
                book.begin(u.name, level)
                noisy = measure(prepared.truth[u.name][level], level, u.name, u.schema, prepared.spine, u.plan,
                                noise.of(f"{u.name}/{level}"), ledger)  # fmt: skip
                folder = nmf.write(directory.nmf(u.name), level, u.schema, prepared.spine, noisy)
                book.done(u.name, level, digest_of(folder))
            progress.advance()
        nmf.write_constraints(directory.nmf(u.name), u.schema, prepared.spine, prepared.constraints[u.name])
        if ledger.cost != u.plan.cost:
            raise PrivacyError(f"the ledger says {ledger.cost}, the plan {u.plan.cost}", where=u.name)
        events[u.name] = ledger.events
    return events, lost


def _entropy(spec: RunSpec) -> entropy.Entropy:
    """The source that the configuration asks for; a seed makes the run repeatable and not private."""
    if spec.run.seed is not None:
        return entropy.seeded(spec.run.seed)
    return entropy.kernel() if spec.run.entropy == "kernel" else entropy.system()


def _history(
    book: LedgerFile, directory: RunDirectory, accept_spent: bool
) -> tuple[dict[tuple[str, str], list[Event]], dict[str, tuple[Event, ...]]]:
    """From the ledger of an interrupted run: the stages that stand, and the draws that were lost, by universe."""
    kept: dict[tuple[str, str], list[Event]] = {}
    lost: dict[str, tuple[Event, ...]] = {}
    for attempt in book.attempts():
        folder = directory.nmf(attempt.universe) / f"{attempt.level}.parquet" / "DPQuery"
        if attempt.digest is None:
            lost[attempt.universe] = (*lost.get(attempt.universe, ()), *attempt.events)
        elif digest_of(folder) == attempt.digest:
            kept[attempt.universe, attempt.level] = attempt.events
        else:
            raise ReleaseError("these measurements are not those that the ledger says were written", where=folder,
                               remedy="they were altered or lost: start a new run in another folder")  # fmt: skip
    if any(lost.values()) and not accept_spent:
        cost = sum((e.cost for es in lost.values() for e in es), Fraction(0))
        where = ", ".join(dict.fromkeys(f"{e.universe} at {e.level}" for es in lost.values() for e in es))
        raise UserError(f"measuring {where} was interrupted: its budget of {cost} ({float(cost):.4g}) is spent",
                        where=directory.ledger,
                        remedy="measure again with --accept-spent (the privacy statement then names both "
                               "spendings), or give the run up")  # fmt: skip
    return kept, lost


def _check_ledger(book: LedgerFile, spec: RunSpec, spine: Spine) -> None:
    """Every draw in the ledger of an interrupted run is one of the plan's; a stage that was done has all, once."""
    planned = {
        (u.name, level): [
            Event(u.name, level, d.query, spine.units(level), u.schema.query(d.query).answers, u.plan.mechanism,
                  d.scale, d.cost)
            for d in u.plan.at(level)
        ]
        for u in spec.universes for level in spine.levels
    }  # fmt: skip
    done = set()
    for attempt in book.attempts():
        stage = attempt.universe, attempt.level
        due = planned.get(stage, [])
        whole = attempt.digest is not None
        if attempt.events != (due if whole else due[: len(attempt.events)]) or (whole and stage in done):
            raise ReleaseError(f"what it says of {stage[0]} at {stage[1]} is not what the plan draws there",
                               where=book.path, remedy="a ledger that was altered proves nothing: start a new run")  # fmt: skip
        if whole:
            done.add(stage)


def check_same(spec: RunSpec, prepared: Prepared, directory: RunDirectory) -> None:
    """A run goes on with its own specification and input, or not at all."""
    remedy = "resume with what the run began with, or start another in a new folder"
    if run_directory.read_text(directory.release / "spec.toml", "release specification") != specification.dump(spec):
        raise UserError(
            "the configuration is not the one that this run began with", where=directory.root, remedy=remedy
        )
    if run_directory.read_json(directory.inputs)["inputs"] != [asdict(s) for s in prepared.sources]:
        raise UserError("the input is not the one that this run began with", where=directory.root, remedy=remedy)


def post_processed(release: Path, workers: int) -> tuple[Made, Stages]:
    """Everything after measurement of one run, as one piece of work for another process."""
    stages = Stages()
    return _post_process(release, release, workers, stages, Silent()), stages


def _post_process(
    release: Path, out: Path, workers: int, stages: Stages, progress: Progress
) -> tuple[dict[str, Mapping[str, Histogram]], dict[str, dict[str, Certificates]]]:
    opened: Opened = open_release(release)
    results: dict[str, Release] = {}
    certificates: dict[str, dict[str, Certificates]] = {}
    with executor(workers) as pool, stages("estimate and round"):
        for u in opened.spec.universes:
            results[u.name], certificates[u.name] = estimate(opened, u, pool, progress, out)
    with stages("microdata and tables"):
        for u in opened.spec.universes:
            publish(opened, u, results[u.name], out, progress)
    published = {name: r.histograms for name, r in results.items()}
    with stages("report of the release"):
        progress.stage("report of the release", None)
        release_report.write(opened, release_report.shown(opened, published), out)
    return published, certificates


# --- their parts ----------------------------------------------------------------------------------------------


def _at_units(structures: NDArray[np.int64] | None, unit: NDArray[np.int64], spine: Spine) -> NDArray[np.int64] | None:
    """Structures of the lowest units, which may be larger than blocks."""
    if structures is None:
        return None
    out = np.zeros((spine.units(spine.levels[-1]), structures.shape[1]), dtype=np.int64)
    np.add.at(out, unit, structures)
    return out


def _constraints(
    spec: RunSpec, u: Universe, spine: Spine, truth_by_level: Truth, structures: NDArray[np.int64] | None
) -> tuple[Constraint, ...]:
    """What is published exactly. These are the only values of the truth that leave without noise."""
    lowest = spine.levels[-1]
    if u.name == "units":
        return (_total(truth_by_level, lowest, "housing units", f"the number of housing units of every {lowest}"),)
    out = []
    wanted = spec.constraints
    low_high = geography.lowest(
        u.schema, structures, housing_units=wanted.housing_units, group_quarters=wanted.group_quarters
    )
    if low_high is not None:
        dwelling = str(u.schema.dwelling)
        low = f"the number of group-quarters facilities of each type in every {lowest}, each holding somebody"
        high = f"the number of housing units and of facilities in every {lowest} (times 99,999 persons at most)"
        for name, sign, bound, says in (("lb", ">=", low_high[0], low), ("ub", "<=", low_high[1], high)):
            out.append(Constraint(f"{dwelling}_total_{name}", lowest, dwelling, sign, Kind.INVARIANT, bound, says))
    if wanted.total is not None:
        out.append(_total(truth_by_level, wanted.total, "persons", f"the number of persons of every {wanted.total}"))
    return tuple(out)


def _total(truth_by_level: Truth, level: str, what: str, says: str) -> Constraint:
    totals = truth_by_level[level].open(f"totals of {what} at this level are invariant").totals()
    return Constraint("total", level, "total", "=", Kind.INVARIANT, totals[:, None], f"{says}, exactly")


def _true_answers(spec: RunSpec, shown: Shown, known: Mapping[str, Truth]) -> dict[Key, NDArray[np.int64]]:
    """The truth beside everything that the report shows of the release."""
    schemas = {u.name: u.schema for u in spec.universes}
    return {
        a.key: known[a.universe][a.level]
        .open("for the report in confidential/")
        .answer(schemas[a.universe].query(a.query))
        for a in shown.answers
    }


def _truth_path(directory: RunDirectory, universe: str) -> Path:
    return directory.confidential / "truth" / f"{universe}.parquet"


def _certificates(certificates: Mapping[str, Mapping[str, Certificates]]) -> dict[str, dict[str, dict[str, object]]]:
    return {u: {lv: asdict(c) for lv, c in levels.items()} for u, levels in certificates.items()}


def scaled(spec: RunSpec, budget: Fraction, name: str) -> RunSpec:
    """The same specification with another name and budget for persons; that of housing units moves along."""
    currency = spec.persons.plan.mechanism.currency
    changes = (f"budget.{currency}={budget}", f"run.name={name}")
    return specification.parse(specification.dump(spec), where=name, overrides=changes)
