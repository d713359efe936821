"""Sources of a joint account (:mod:`das.accounting.sources`): releases, configurations, and
statements in JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import isqrt
from pathlib import Path
from typing import Any

from das.accounting import codec
from das.accounting.document import NAME, Line, Statement
from das.accounting.draws import Differing, record
from das.accounting.guarantee import cost
from das.accounting.sources import (
    ADDED,
    REPLACED,
    SOURCES_FORMAT,
    PrivacySource,
    RecordLoss,
    Relation,
    Unit,
    source_list_from_json,
    unit_of,
)
from das.accounting.statement import Terms
from das.errors import SpecError, UserError
from das.files.run.run_directory import read_text, release_of
from das.model.budget import Neighbours, PlannedMeasurement
from das.model.mechanisms import MECHANISMS, Mechanism
from das.model.not_private import Private
from das.release.publications import Specified, publication, publication_of
from das.spec.parts import Run
from das.spec.specification import Specification

#: What replaces one record, among the changes of :class:`Terms`.
_ANYTHING = ("record", "anything")


@dataclass(frozen=True)
class GivenSources:
    """``says``: what a reader must know of them besides."""

    sources: tuple[PrivacySource, ...]
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class _SourceName:
    """What a source is called, what is published, where its figures are from; and whether its noise
    is private."""

    name: str
    publication: str
    origin: str
    private: Private

    def for_universe(self, universe: str, only: bool) -> _SourceName:
        return self if only else replace(self, name=f"{self.name}: {universe}")


class SourceReader:
    """Reads sources for some relations."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._relations = relations

    def specification(self, spec: Specification, name: str) -> GivenSources:
        """A source for each universe of a configuration, called ``name``."""
        half = publication(spec.publication())
        resolved: Specified = half.resolved(spec)
        draws = {u.name: u.plan.measurements for u in resolved.universes}
        called = _SourceName(name, half.title, f"the configuration {name}", spec.run.private)
        return self._of_terms(resolved.terms, draws, called)

    def drawn(
        self, terms: Terms, draws: Mapping[str, Sequence[PlannedMeasurement]], run: Run
    ) -> tuple[PrivacySource, ...]:
        """A source for each universe of a run, of some of its draws; none of one without any."""
        called = _SourceName(run.name, "", f"the run {run.name}", run.private)
        return self._of_terms(terms, {u: ds for u, ds in draws.items() if ds}, called).sources

    def release(self, path: Path) -> GivenSources:
        """A source for each universe of a release, or of a run's. Its measurement files are held
        against its ledger first. Raises :class:`ReleaseError`."""
        from das.release import verify as verification  # what reads a configuration does without

        release = release_of(path)
        verification.check(release)
        spec, drawn = verification.drawn(release)
        title, run = publication_of(release).title, spec.run
        called = _SourceName(run.name, title, f"the ledger of {path}", run.private)
        return self._of_terms(spec.terms, drawn.every, called)

    def json(self, path: Path) -> GivenSources:
        """Those of a JSON file: a list of sources, or a privacy statement. That of a release is the
        release, if its other files are there. Raises :class:`SpecError`."""
        if path.name == NAME and (path.parent / "spec.toml").is_file():
            return self.release(path.parent)
        try:
            value = json.loads(read_text(path, "statement"))
        except (ValueError, RecursionError) as error:
            raise SpecError(f"this is no JSON: {error}", where=path, remedy=_FORMATS) from None
        stated = value.get("format") if isinstance(value, dict) else None
        if stated == SOURCES_FORMAT:
            found = source_list_from_json(value, path)
            return GivenSources(tuple(s.source(self._relations) for s in found.sources), found.says)
        if str(stated).startswith("das-privacy-statement/"):
            return GivenSources(self._of_statement(codec.document_from_json(value, path), path))
        raise SpecError(
            f"its format is {stated!r}, which das account does not read",
            where=path,
            remedy=_FORMATS,
        )

    # --- of draws

    def _of_terms(
        self, terms: Terms, draws: Mapping[str, Sequence[PlannedMeasurement]], called: _SourceName
    ) -> GivenSources:
        return GivenSources(
            tuple(
                self._universe(terms, u, ds, called.for_universe(u, len(draws) == 1))
                for u, ds in draws.items()
            )
        )

    def _universe(
        self, terms: Terms, universe: str, draws: Sequence[PlannedMeasurement], called: _SourceName
    ) -> PrivacySource:
        found: dict[str, RecordLoss] = {
            verb: _loss(_neighboring(terms, universe, draws, neighbours), terms)
            for verb, neighbours in _NEIGHBOURS.items()
        }
        own = _loss(terms.differing({universe: draws})[universe], terms)
        free, same = terms.free(universe, draws, terms.exact.get(universe, ())), None
        if len(free) < len(draws):
            same = _loss(_neighboring(terms, universe, free, Neighbours.BOUNDED), terms)
        if terms.address is not None:
            found |= {r.name: _loss(terms.address(draws, r), terms) for r in self._relations}
        return PrivacySource(
            called.name,
            called.publication,
            unit_of(universe) if terms.address is None else Unit.ADDRESS,
            terms.neighbours.value,
            own.rho,
            found,
            called.origin,
            same,
            called.private,
        )

    # --- of a statement without its release

    def _of_statement(self, said: Any, path: Path) -> tuple[PrivacySource, ...]:
        """By its ledger, where every unit of a level is measured alike and a record is in one; else
        by its totals alone."""
        if not isinstance(said, Statement):
            raise UserError(
                "this statement has no account: its noise came from another publisher",
                where=path,
                remedy=f"say what that publisher states in a list of sources ({SOURCES_FORMAT})",
            )
        universes = [u for u in said.totals if u != "total"]
        title = "a privacy statement without its release"
        called = _SourceName(str(path), title, f"the ledger of {path}", said.private)
        return tuple(
            self._stated(said, u, called.for_universe(u, len(universes) == 1)) for u in universes
        )

    def _stated(self, said: Statement, universe: str, called: _SourceName) -> PrivacySource:
        lines = [line for line in said.every if line.universe == universe]
        mechanism = MECHANISMS[said.mechanism]
        address = said.neighbours_of.any.startswith(_OF_AN_ADDRESS)
        plain = all(line.unit_class is line.stability is None for line in lines)
        known = plain and not address and not mechanism.pure
        own = Neighbours(said.neighbours)
        losses: dict[str, RecordLoss] = {}
        for verb, neighbours in _NEIGHBOURS.items():
            total = said.totals[universe] * Fraction(neighbours.sensitivity, own.sensitivity)
            found = None
            if known:
                draws = [_draw(line, mechanism) for line in lines]
                found = record(draws, neighbours)
            losses[verb] = _rho(total, mechanism, found)
        if address:
            one = said.totals[universe]
            for r in self._relations:
                losses[r.name] = _rho(_times(one, r, mechanism), mechanism)
        return PrivacySource(
            called.name,
            called.publication,
            Unit.ADDRESS if address else unit_of(universe),
            said.neighbours,
            _rho(said.totals[universe], mechanism).rho,
            losses,
            called.origin,
            private=said.private,
        )


#: What happens to one record between these neighbors.
_NEIGHBOURS = {ADDED: Neighbours.UNBOUNDED, REPLACED: Neighbours.BOUNDED}
_FORMATS = f"give a privacy.json, or a list of sources with the format {SOURCES_FORMAT!r}"
#: How a statement of the S-DHC says who its neighbors are.
_OF_AN_ADDRESS = (
    "Between any data sets with one record of a person added or removed, and the unit record",
    "Between any data sets with all records of one address",
)


def _times(one: Fraction, relation: Relation, mechanism: Mechanism) -> Fraction:
    """Of the stated cost of an address: epsilon by the root of what rho is multiplied by."""
    times = relation.of_addresses()
    return one * (isqrt(times) if mechanism.pure else times)


def _neighboring(
    terms: Terms, universe: str, draws: Sequence[PlannedMeasurement], neighbours: Neighbours
) -> Differing:
    """What one record changes that is added or removed, or replaced: where its publication says so
    itself, as it says."""
    if neighbours is terms.neighbours:
        return terms.differing({universe: draws})[universe]
    if neighbours is Neighbours.BOUNDED and universe in terms.changed:
        for change in terms.changed[universe](draws):
            if (change.kind, change.what) == _ANYTHING:
                return change.differing
    return record(draws, neighbours, terms.paths_of(universe, draws))


def _loss(differing: Differing, terms: Terms) -> RecordLoss:
    return _rho(cost(terms.mechanism.currency, differing), terms.mechanism, differing)


def _rho(total: Fraction, mechanism: Mechanism, differing: Differing | None = None) -> RecordLoss:
    """Of pure noise that costs epsilon, epsilon^2/2."""
    if mechanism.pure:
        return RecordLoss(total**2 / 2, pure=total)
    return RecordLoss(total, differing)


def _draw(line: Line, mechanism: Mechanism) -> PlannedMeasurement:
    return PlannedMeasurement(line.level, line.query, mechanism, line.parameter, line.cost)
