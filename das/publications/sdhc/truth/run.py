"""The part of an S-DHC run that sees the truth: records become true answers, then noisy ones.

A region has only 204 true answers, so a run keeps these and no records. A level of regions is one
stage of the ledger, in one part."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import OwnStatement
from das.accounting.statement import statement
from das.errors import PrivacyError, UserError
from das.files import atomic
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, MeasuredPart
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.ledger import Event
from das.model.not_private import marked
from das.model.source import Source
from das.noise import entropy
from das.noise.entropy import ChunkLabel, Entropy, encoded
from das.noise.samplers import SAMPLERS, VERSION
from das.publications.sdhc import from_dhc as sdhc_from_dhc
from das.publications.sdhc.files import measurements
from das.publications.sdhc.files.records import records
from das.publications.sdhc.model.tables import (
    AREA,
    PERSON,
    PHSAFE,
    TRUNCATED,
    USA,
    Addresses,
    MeasuredRegions,
    SdhcRecords,
    columns,
    variances,
)
from das.publications.sdhc.spec import LEVELS, SdhcSpec
from das.publications.sdhc.truth.counts import counts
from das.release.seal import seal
from das.spec import load, of_kind
from das.truth.bookkeeping import BudgetBook, StagePlan
from das.truth.run_noise import noise_for

Ints = NDArray[np.int64]


def begin(spec: SdhcSpec, folder: Path, directory: RunDirectory) -> SdhcSpec:
    """Read the records, and make the folder of a run with what it will measure. Returns the
    specification with the states found in the records."""
    part = spec.sdhc
    found, sources = _read(spec, folder)
    people = found.open("to count them")
    spec = _named(spec, people.addresses)
    spec, from_dhc = sdhc_from_dhc.taken(spec) if part.dhc else (spec, None)
    truth = counts(people, part.mode, part.relation, spec.tau)
    whole = counts(people, PHSAFE, PERSON, dict.fromkeys(TRUNCATED, len(people.residents) + 1))
    for d in spec.measurements:
        SAMPLERS[d.mechanism.name].refuse(d.parameter)
    directory.create()
    with directory.whole_or_nothing():
        atomic.write_text(directory.release / "spec.toml", spec.dump())
        if from_dhc is not None:
            atomic.write_text(directory.release / sdhc_from_dhc.NAME, from_dhc)
        kept = {"states": spec.sdhc.states, "answers": truth.tolist(), "whole": whole.tolist()}
        if AREA in spec.levels:
            kept |= _of_areas(spec, people)
        atomic.write_json(_truth(directory, spec), kept, 0o600)
        inputs = [asdict(s) for s in sources]
        atomic.write_json(
            directory.inputs,
            marked({"inputs": inputs, "truth": _digests(directory, spec)}, spec.run.private),
        )
    return spec


def _read(spec: SdhcSpec, folder: Path) -> tuple[Confidential[SdhcRecords], tuple[Source, ...]]:
    part = spec.sdhc
    kind = part.areas.kind if AREA in spec.levels else None
    return records(folder, part.states, strict=part.mode != PHSAFE, area=kind)


def _named(spec: SdhcSpec, addresses: Addresses) -> SdhcSpec:
    """The specification with the states and areas of the public list of addresses."""
    areas = spec.sdhc.areas
    given: dict[str, Any] = {"states": addresses.states}
    if AREA in spec.levels:
        if lost := [c for c in areas.codes if c not in addresses.areas]:
            raise UserError(
                f"no address is in the {areas.kind} {lost[0]}",
                where="sdhc.areas.codes",
                remedy="name areas of the input",
            )
        codes = areas.codes or addresses.areas
        if not codes:
            raise UserError(
                f"no address is in any {areas.kind}",
                where="sdhc.budget",
                remedy="leave the budgets of areas out",
            )
        given["areas"] = {"kind": areas.kind, "codes": codes}
    return spec.amended_by(given)


def _of_areas(spec: SdhcSpec, people: SdhcRecords) -> dict[str, Any]:
    """What a run keeps of them, as of states."""
    part, here = spec.sdhc, people.by_area(spec.sdhc.areas.codes)
    everybody = dict.fromkeys(TRUNCATED, len(people.residents) + 1)
    return {
        "areas": counts(here, part.mode, part.relation, spec.tau).tolist(),
        "whole areas": counts(here, PHSAFE, PERSON, everybody).tolist(),
    }


def numbers(spec: SdhcSpec, folder: Path) -> dict[str, Any]:
    """What a curator wants to know of a folder before a run; confidential."""
    part = spec.sdhc
    people = _read(spec, folder)[0].open("to count them")
    _named(spec, people.addresses)
    total = list(columns("PH7", "*"))
    kept = counts(people, part.mode, part.relation, spec.tau)[:, total].sum()
    whole = counts(people, PHSAFE, PERSON, dict.fromkeys(TRUNCATED, len(people.residents) + 1))
    return {
        "persons": len(people.residents),
        "addresses": len(people.addresses),
        "states": list(people.addresses.states),
        "left out": int(whole[:, total].sum() - kept),
    }


def check_same(spec: SdhcSpec, directory: RunDirectory) -> None:
    """Raises :class:`UserError` if the run began with another configuration."""
    began = run_directory.read_text(directory.release / "spec.toml", "specification")
    there = of_kind(SdhcSpec, load(began, where="spec.toml"), "spec.toml").sdhc
    asked, named = spec.sdhc, dict[str, Any](states=there.states)
    named |= sdhc_from_dhc.named(spec) if asked.dhc else {}
    if not asked.areas.codes:
        named["areas"] = {"kind": asked.areas.kind, "codes": there.areas.codes}
    if spec.amended_by(named).dump() != began or (
        asked.states and not {*asked.states} >= {*there.states}
    ):
        raise UserError(
            "the run began with another configuration",
            where=directory.root,
            remedy="resume with the one that it began with, or start another run in a new folder",
        )


def measure(spec: SdhcSpec, directory: RunDirectory, accept_spent: bool) -> OwnStatement:
    """Noisy measurements and their privacy statement. Levels that were already measured stand."""
    due = {(spec.name, LEVELS[r]): StagePlan(spec.events(r), (0,)) for r in spec.levels}
    budget_book = BudgetBook.start(spec, due, directory, _digests(directory, spec), accept_spent)
    truth = {r: Confidential(true_answers(spec, directory, r)) for r in spec.levels}
    for level in spec.levels:
        stage = (spec.name, LEVELS[level])
        budget_book.begin(stage)
        if not budget_book.missing(stage):
            continue
        source = noise_for([stage], budget_book.entries, spec, directory)
        number = budget_book.number(stage)
        if source.key_mark is None and not directory.claim(*stage, 0, number):
            raise PrivacyError(
                "it may have been drawn, and its noise cannot be drawn again",
                where=f"{stage[1]} of the S-DHC",
                remedy="continue with --resume --accept-spent, which charges it a second time",
            )
        mark, found = noisy(spec, level, truth[level], source, number)
        path = measurements.path(directory.nmf(spec.name), level)
        measurements.write(path, found, spec.run.private)
        name = path.relative_to(directory.release).as_posix()
        digest = {name: run_directory.file_digest(path)}
        budget_book.acknowledge([MeasuredPart(*stage, 0, mark, digest)])
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    said = statement(spec.terms, budget_book.close(), (), name, private)
    return seal(
        directory.release, said, spec.run.name, LedgerFile(directory.ledger).entries.files()
    )


def noisy(
    spec: SdhcSpec, level: str, truth: Confidential[Ints], source: Entropy, number: int = 1
) -> tuple[str, MeasuredRegions]:
    """The noisy answers of a level, after the name of the stream of their noise. The ledger must
    have the draws before this is called.

    Each draw adds independent noise to all of its answers, whatever their values. The plan and the
    list of states decide which answers exist."""
    regions, events = spec.regions(level), spec.events(level)
    exact = truth.open("to add noise to it")
    values = exact.sum(axis=0, keepdims=True) if level == USA else exact.copy()
    if len(values) != len(regions):
        raise PrivacyError("these are not the answers of these regions", where=level)
    ends = regions[0].encode(), regions[-1].encode()
    plan = encoded(spec.digest, *(f"{e.query} {e.parameter}" for e in events))
    label = ChunkLabel(spec.name, LEVELS[level], number, *ends, plan, VERSION, values.tobytes())
    noise = source.chunk(label)
    for event in events:
        at = list(columns(*event.query.split(" ")))
        values[:, at] += _noise(event, (len(regions), len(at)), noise)
    variance = variances(events)
    values[:, ~np.isfinite(variance)] = 0  # not measured: true answers must not leave this function
    return source.mark(label), MeasuredRegions(level, regions, values, variance)


def _noise(event: Event, shape: tuple[int, int], noise: Entropy) -> Ints:
    sampler = SAMPLERS[event.mechanism.name]
    return sampler.sample(event.parameter, shape[0] * shape[1], noise).reshape(shape)


def true_answers(spec: SdhcSpec, directory: RunDirectory, level: str) -> Ints:
    """The true answers by state, or by area. A run keeps nothing else of its records."""
    return _kept(spec, directory, "areas" if level == AREA else "answers")


def everybody(spec: SdhcSpec, directory: RunDirectory, level: str) -> Ints:
    """The true answers without truncation: a run is compared with them and never measures them."""
    return _kept(spec, directory, "whole areas" if level == AREA else "whole")


def _kept(spec: SdhcSpec, directory: RunDirectory, name: str) -> Ints:
    return np.array(run_directory.read_json(_truth(directory, spec))[name], dtype=np.int64)


def _truth(directory: RunDirectory, spec: SdhcSpec) -> Path:
    return directory.truth_of(spec.name).with_name("answers.json")


def _digests(directory: RunDirectory, spec: SdhcSpec) -> dict[str, dict[str, str]]:
    path = _truth(directory, spec)
    return {spec.name: {path.name: run_directory.file_digest(path)}}
