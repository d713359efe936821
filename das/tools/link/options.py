"""How much the link believes what each published file measures badly."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from das.errors import InputError


@dataclass(frozen=True)
class Trust:
    """Costs, in units of one class of age between a household and its householder.

    ``children``, ``elderly``: a child, or an old person, where a household's fields have none.
    ``partner``: a partner whom the persons' file does not call one. ``elsewhere``: a household in
    another block than published. ``crowded``: how much members per household of a block draw large
    households there. ``sweeps``: how often households of a tract change at prices
    (:mod:`das.tools.link.local_search`)."""

    children: float = 1.0
    elderly: float = 0.4
    partner: float = 0.2
    elsewhere: float = 0.3
    crowded: float = 0.6
    sweeps: int = 4

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0:
            raise InputError("a weight below zero", where="link")


#: For published files: below the block group, who is where is mostly noise.
PUBLISHED = Trust()
#: For files that are known to agree, such as those of linked records.
CONSISTENT = Trust(children=9.0, elderly=6.0, partner=6.0, elsewhere=5.0, crowded=0.0, sweeps=0)
