"""Tables of the configuration of the DHC that need no other: how it is estimated, and linked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from das.model.budget import QueryNoise
from das.model.kinds import PERSONS as PEOPLE
from das.model.post_processing import Method, PostProcessing
from das.model.schema import Schema
from das.spec.parts import Part

SharesName = Literal["none", "shares"]
_FEW = 100
#: Persons of the ages that a redistricting release tells apart; and how many times the standard
#: deviation of a plan's own queries is much more.
ADULTS, _MUCH = "votingage", 2
#: The level whose units are linked one by one.
LINKED_UNITS = "Tract"


class DhcEstimation(Part):
    """``[estimation]``."""

    method: Method = "topdown"
    """`"topdown"`: each level from its own measurements, given the level above.
    `"full-information"`: queries with at most 100 answers from the measurements of all levels.
    """

    cells: Literal["last", "first"] = "last"
    """When measurements of single cells of persons count. `"last"`: in the last pass, as in
    production. `"first"`: from the first pass that settles a cell, such as a single year of age
    under 22.
    """
    prior: SharesName = "none"
    """A prior for the persons of the lowest units: none, or that they have roughly the shares of
    the unit above (`"shares"`; see *Ages*). Its weight is estimated from published levels.
    """

    @property
    def most(self) -> int:
        """The most answers that a query can have for the upward pass to use it at all levels
        (:mod:`das.estimate.upward`).
        """
        return _FEW if self.method == "full-information" else 0


class DhcLink(Part):
    """``[link]``: a run also puts the persons of its release into households, in ``linked/`` next
    to the release. It is experimental, and costs no budget: ``das link`` of the release gives the
    same files (``docs/linked.md``). Absent: none."""

    number: int = Field(default=0, ge=0)
    """Which link: others make other choices between equals."""
    csv: bool = False
    """Write CSV files, not Parquet."""
    tables: bool = True
    """Write the tables of the DHC from the link."""
    replicates: int = Field(default=0, ge=0)
    """Replicates to link for the errors of averages. Each takes as long as the estimation."""

    @property
    def says(self) -> str:
        """What comes of it, in a sentence."""
        more = f", with errors from {self.replicates} replicates" if self.replicates else ""
        return (
            "linked/ next to the release: persons in their households, experimental, without"
            f" budget{more}; no household is a real one"
        )

    def check(self, levels: Sequence[str]) -> None:
        """Raises ``ValueError`` for a tree without the units that are linked one by one."""
        if LINKED_UNITS not in levels[:-1]:
            raise ValueError(
                f"link: {LINKED_UNITS}s are linked one by one, and geography.levels has none above"
                " its last level: name it, or leave [link] out"
            )


def kept_counts_notes(
    base: PostProcessing, schema: Schema, measured: Mapping[str, Sequence[QueryNoise]]
) -> tuple[str, ...]:
    """Where adults are kept that ``base`` has measured far less precisely than they are
    ``measured`` here, by level. Both are public: they follow from the plans alone."""
    here = {lv: _deviation(schema, noise) for lv, noise in measured.items()}
    there = {
        lv: _deviation(u.schema, [n for n in u.noise if n.level == lv])
        for u in base.universes
        if u.name == PEOPLE.name
        for lv in measured
    }
    return tuple(
        f"the number of adults in each {lv} is kept from {base.name!r}, whose plan measures it there"
        f" with a standard deviation of {deviation:.0f} persons. The queries of this plan alone would"
        f" have {here[lv]:.0f}. So {lv} ages gain less than they can: rest on a release of"
        " pl94-2010-best, or of another plan that measures adults (docs/dhc.md)"
        for lv, deviation in there.items()
        if deviation > _MUCH * here[lv]
    )


def _deviation(schema: Schema, noise: Sequence[QueryNoise]) -> float:
    """That of the number of adults of a unit, by its own queries alone. A query with k times as many
    answers gives each number as a sum of k, on average."""
    adults = schema.query(ADULTS)
    fine = [(n, q) for n in noise if adults.sums(q := schema.query(n.query))]
    precision = sum(adults.answers / (q.answers * n.variance) for n, q in fine)
    return float("inf") if not fine else float(precision**-0.5)
