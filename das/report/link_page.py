"""``index.html`` of a link: agreement before and after, average sizes, and one household of each
common type. A function of published values alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from das.errors import InputError
from das.model.agreement_rows import AgreementRow
from das.model.not_private import Private
from das.report.template import environment


@dataclass(frozen=True)
class ShownAverage:
    """An average of the whole release, with its ``error`` from replicates, if there are any."""

    statistic: str
    group: str
    households: int
    average: float
    error: float | None


@dataclass(frozen=True)
class ShownHousehold:
    """A linked household: what its ``type`` says, how many there are ``like`` it, and its
    ``members`` in words."""

    type: str
    like: int
    tenure: str
    members: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.members:
            raise InputError("a household without persons", where=self.type)


def link_html(
    name: str,
    figures: Mapping[str, Any],
    published: Sequence[AgreementRow],
    linked: Sequence[AgreementRow],
    averages: Sequence[ShownAverage],
    examples: Sequence[ShownHousehold],
    *,
    private: Private,
) -> str:
    """The page. ``published`` and ``linked``: the identities of the lowest level, in one order. The
    same arguments give the same page."""
    return (
        environment()
        .get_template("link.html")
        .render(
            confidential=False,
            private=private,
            name=name,
            figures=figures,
            identities=list(zip(published, linked, strict=True)),
            averages=averages,
            errors=any(a.error is not None for a in averages),
            examples=examples,
        )
    )
