"""What is done with measurements: all that comes after them needs of a specification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from das.errors import InputError
from das.model.not_private import Private
from das.model.universe import Universe

Method = Literal["topdown", "full-information"]
METHODS: tuple[str, ...] = get_args(Method)
PriorName = Literal["none", "housing"]
OccupiedName = Literal["measured", "consistent"]
PRIORS: tuple[str, ...] = get_args(PriorName)


@dataclass(frozen=True)
class PostProcessing:
    """What post-processing needs to know. ``name`` is the run's. ``private`` says whether nobody
    else can draw its noise again. ``universes`` has persons first.

    ``method`` and ``tolerance`` are those of estimation; a later pass can move the answers of an
    earlier one by ``tolerance`` persons. ``prior`` names the working prior for the persons' lowest
    units. ``occupied`` says whether occupied housing units are kept within what published persons
    allow. ``tables``, ``csv`` and ``report`` say what is written besides the microdata. It has no
    budgets."""

    name: str
    private: Private
    universes: tuple[Universe, ...]
    method: Method = "topdown"
    tolerance: float = 0.1
    tables: bool = True
    csv: bool = False
    report: bool = True
    prior: PriorName = "none"
    occupied: OccupiedName = "measured"

    @property
    def persons(self) -> Universe:
        return self.universes[0]

    def universe(self, name: str) -> Universe:
        """By its name."""
        for u in self.universes:
            if name == u.name:
                return u
        raise InputError(
            f"there is no universe {name!r}",
            remedy=f"it has {', '.join(u.name for u in self.universes)}",
        )
