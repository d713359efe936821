"""Statements of other programs, in a small JSON format of ours: ``das-sources/1``.

A file has a ``name``, sentences that a reader must know (``says``) and ``sources``. Each source is
one publication of records of one unit: its rho, under which neighbors, by which draws if that is
known, and where the figures are from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction
from math import isqrt
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, model_validator

from das.accounting.codec import fault, published_schema
from das.accounting.draws import Composition, Differing, only
from das.accounting.fields import Many, Positive, Section, Some
from das.accounting.relations import ADDED, REPLACED, Relation, Unit
from das.accounting.sources import PrivacySource, RecordLoss
from das.errors import SpecError

FORMAT = "das-sources/1"
AtLeastOne = Annotated[int, Field(ge=1, le=10**9)]


class StatedDraws(Section):
    """Discrete Gaussian noise of one variance that one record is in: ``answers`` answers differ by
    ``by`` each where one record is added or removed. Of ``person-and-household`` an answer may
    differ by less, if others with this noise do, too: by ``by`` in sum."""

    sigma_sq: Positive
    answers: AtLeastOne
    by: AtLeastOne = 1


class StatedMultiples(Section):
    """For ``person-and-household``: what changes of an address cost, as multiples of ``rho``. One
    person replaced; one who has moved (two addresses); a household replaced. 4 is one change twice
    as large; 2 is two changes of different answers."""

    replaced: AtLeastOne
    moved: AtLeastOne
    household: AtLeastOne


class StatedSource(Section):
    """One publication, or the part of it about records of one unit. ``rho`` is what it states,
    between its ``neighbours``: one record added or removed (unbounded), or replaced (bounded).
    Without ``draws`` rho alone is known."""

    name: Annotated[str, Field(min_length=1)]
    publication: str
    unit: Literal["person", "household", "housing-unit", "person-and-household", "record"]
    neighbours: Literal["bounded", "unbounded"]
    rho: Positive
    draws: Some[StatedDraws] | None = None
    multiples: StatedMultiples | None = None
    origin: str = Field(alias="from")

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        address = self.unit == Unit.ADDRESS.value
        if address and self.neighbours == "bounded":
            raise ValueError("a person-and-household is stated as unbounded: added or removed")
        if self.multiples is not None and not address:
            raise ValueError("multiples are for person-and-household")
        draws = self.draws or ()
        if not address and any(d.by > 1 for d in draws):
            raise ValueError("by is for person-and-household: one record changes an answer by 1")
        cost = self.times * sum(d.answers * d.by**2 / (2 * d.sigma_sq) for d in draws)
        if draws and cost != self.rho:
            raise ValueError(f"its draws cost rho = {cost}, and it states {self.rho}")
        return self

    @property
    def times(self) -> int:
        """How many answers of each draw differ between its neighbors."""
        return 2 if self.neighbours == "bounded" else 1

    def source(self, relations: Iterable[Relation]) -> PrivacySource:
        one = self.rho / self.times
        losses: dict[str, RecordLoss] = {
            verb: RecordLoss(times * one, self._found(times))
            for verb, times in ((ADDED, 1), (REPLACED, 2))
        }
        if self.unit == Unit.ADDRESS.value:
            given = {} if self.multiples is None else dict(self.multiples)
            for relation in relations:
                times = relation.of_addresses(**given)
                losses[relation.name] = RecordLoss(times * one, self._of_addresses(times))
        return PrivacySource(
            self.name,
            self.publication,
            Unit(self.unit),
            self.neighbours,
            self.rho,
            losses,
            self.origin,
        )

    def _of_addresses(self, times: int) -> Differing | None:
        """As one change that is larger, or as several."""
        found, root = self._found(1), isqrt(times)
        if found is None:
            return None
        return tuple(m.alike(root) if root**2 == times else m.times(times) for m in found)

    def _found(self, times: int) -> Differing | None:
        if self.draws is None:
            return None
        ones: Counter[Fraction] = Counter()
        for d in self.draws:
            if d.by == 1:
                ones[1 / d.sigma_sq] += times * d.answers
        shifted = ((1 / d.sigma_sq, d.by, times * d.answers) for d in self.draws if d.by > 1)
        return (only(Composition(()) + Composition(tuple(ones.items()), tuple(shifted))),)


class SourceList(Section):
    """The file."""

    format: Literal["das-sources/1"]
    name: Annotated[str, Field(min_length=1)]
    says: Many[str] = ()
    sources: Some[StatedSource]

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = [s.name for s in self.sources]
        if twice := [n for i, n in enumerate(names) if n in names[:i]]:
            raise ValueError(f"two sources are called {twice[0]!r}")
        return self


def of(value: Mapping[str, Any], where: object) -> SourceList:
    """The list that a JSON object is. Raises :class:`SpecError` with the place of its first
    fault.
    """
    try:
        return SourceList.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise SpecError(
            f"this is no list of sources ({fault(error)})",
            where=where,
            remedy="`das account schema --sources` prints its JSON Schema; docs/accounting.md has"
            " an example",
        ) from None


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of such a file."""
    return published_schema(SourceList, FORMAT, "Statements of privacy for das account")
