"""What a run says about itself, in the form of the report pages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NotRequired, TypedDict

from das.accounting.document import Document, ForeignStatement, GaussianStatement
from das.accounting.guarantee import QuotedLoss, of_invariant_neighbours, quoted
from das.model.not_private import Private
from das.model.schema import Schema
from das.model.solution import Certificate

#: Methods of the privacy statement, and how the pages call them.
METHODS = {"pld": "exact, upper end", "tight": "from ρ, tight", "simple": "from ρ, simple"}


class Stage(TypedDict):
    """A stage of the run; ``peak_mb`` is the most memory that the process had held by its end."""

    name: str
    seconds: float
    peak_mb: NotRequired[float]


class Facts(TypedDict):
    """What a page says besides the numbers. ``rho`` (discrete Gaussian) or ``pure_epsilon``
    (geometric) is the budget, exact fractions as text; ``guarantee`` is that of another publisher,
    in words."""

    name: str
    schema: str
    private: Private
    own_spine: bool  #: the units that were measured are not the published ones
    shares: NotRequired[bool]  #: the lowest units were assumed to have their parents' shares
    neighbours: NotRequired[str]
    mechanism: NotRequired[str]
    rho: NotRequired[str]
    pure_epsilon: NotRequired[str]
    guarantee: NotRequired[str]
    quoted: NotRequired[QuotedLoss]  #: the one privacy loss to quote
    agree: NotRequired[float]  #: the same between data sets that agree on what is published exactly
    invariants: NotRequired[Sequence[str]]
    stages: NotRequired[Sequence[Stage]]
    certificates: NotRequired[Mapping[str, Certificate]]
    version: NotRequired[str]
    digest: NotRequired[str]


@dataclass(frozen=True)
class ListedMeasurement:
    """One draw as the page lists it.

    ``title`` is the query in words; ``share`` is its share of its universe's budget; ``margin`` is
    at 95 %. ``deviation``: the standard deviation of one answer from all measurements together,
    where it is known. ``nothing``: no estimate would be worse without this draw."""

    universe: str
    level: str
    query: str
    title: str
    units: int
    answers: int
    share: float
    margin: int
    deviation: float | None = None
    nothing: bool = False


def facts(
    name: str,
    schema: Schema,
    privacy: Document,
    stages: Sequence[Mapping[str, Any]] = (),
    certificates: Mapping[str, Certificate] | None = None,
    *,
    own_spine: bool = False,
) -> Facts:
    """From the privacy statement and, for the confidential page, the stages and the certificates by
    level. ``own_spine``: what was measured are other units than those that are published."""
    out: Facts = {
        "name": name,
        "schema": f"{schema.name} ({', '.join(a.title for a in schema.attributes)})",
        "private": privacy.private,
        "mechanism": privacy.mechanism,
        "own_spine": own_spine,
        "invariants": [
            c.says or f"{c.constraint} of {c.universe}, {c.level}" for c in privacy.outside
        ],
    }
    if stages:
        out["stages"] = [
            Stage(name=s["name"], seconds=s["seconds"], peak_mb=s["peak_mb"]) for s in stages
        ]
    if certificates:
        out["certificates"] = certificates
    _promise(out, privacy)
    return out


def group_facts(name: str, what: str, privacy: Document) -> Facts:
    """The facts of a release of the Detailed DHC; ``what`` says in words what is measured."""
    out: Facts = {
        "name": name,
        "schema": what,
        "private": privacy.private,
        "mechanism": privacy.mechanism,
        "own_spine": False,
        "invariants": [],
    }
    _promise(out, privacy)
    return out


def _promise(out: Facts, privacy: Document) -> None:
    """The guarantee: that of all universes together, or another publisher's, in that publisher's
    words.
    """
    if isinstance(privacy, ForeignStatement):
        out["guarantee"] = privacy.guarantee
        return
    out["neighbours"] = privacy.neighbours
    out["quoted"] = quoted(
        privacy, privacy.neighbours, privacy.target.delta if privacy.target else None
    )
    agree = of_invariant_neighbours(privacy, out["quoted"])
    if agree is not None and agree < out["quoted"].epsilon:
        out["agree"] = agree
    if isinstance(privacy, GaussianStatement):
        out["rho"] = decimal(privacy.total)
    else:
        out["pure_epsilon"] = str(list(privacy.guarantee.values())[-1].cost)


def decimal(value: Fraction) -> str:
    """A budget as a reader meets it: five digits, rounded up. The exact fraction is in the privacy
    statement.

    >>> (
    ...     decimal(Fraction(46066969010197, 17508174012729)),
    ...     decimal(Fraction(2)),
    ...     decimal(Fraction(1, 10**6)),
    ... )
    ('2.6312', '2', '0.000001')
    """
    places = 0
    while value and value * 10**places < 10_000 and (value * 10**places).denominator > 1:
        places += 1
    digits = f"{-(-value.numerator * 10**places // value.denominator):0{places + 1}d}"
    return f"{digits[:-places]}.{digits[-places:]}" if places else digits


def titles(schema: Schema, queries: Iterable[str]) -> dict[str, str]:
    """Words for queries."""
    return {q: schema.query(q).title for q in queries}
