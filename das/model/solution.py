"""What a solver answers: never ``None``, always with a certificate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das.model.frozen import Frozen


class Status(Enum):
    OPTIMAL = "optimal"  #: within the requested tolerance
    INACCURATE = "inaccurate"  #: feasible within the tolerance; the gap is larger than requested
    WIDENED = (
        "widened"  #: rounding: some value is not the floor or ceiling; with these none is feasible
    )


@dataclass(frozen=True, eq=False)
class Solution(Frozen):
    """``x`` of shape ``(children, cells)``; ``gap`` the relative duality gap; ``residual`` the
    largest violation of a constraint, in persons."""

    x: NDArray[np.generic]
    status: Status
    gap: float
    residual: float
    iterations: int
    seconds: float


@dataclass(frozen=True)
class Certificate:
    """The worst over many solves, for the manifest."""

    solves: int = 0
    inaccurate: int = 0
    widened: int = 0
    worst_gap: float = 0.0
    worst_residual: float = 0.0
    iterations: int = 0
    # : parents that could not be shared out and were changed before their children were estimated,
    repaired: int = 0
    # : and the persons in them who changed their dwelling group (the failsafe: see
    # docs/explanation/estimation.md)
    moved: int = 0

    def add(self, s: Solution) -> Certificate:
        return self.merge(
            Certificate(
                1,
                int(s.status is Status.INACCURATE),
                int(s.status is Status.WIDENED),
                float(s.gap),
                float(s.residual),
                s.iterations,
            )
        )

    def merge(self, other: Certificate) -> Certificate:
        return Certificate(
            self.solves + other.solves,
            self.inaccurate + other.inaccurate,
            self.widened + other.widened,
            max(self.worst_gap, other.worst_gap),
            max(self.worst_residual, other.worst_residual),
            self.iterations + other.iterations,
            self.repaired + other.repaired,
            self.moved + other.moved,
        )


@dataclass(frozen=True)
class Certificates:
    """The worst certificates of one level."""

    estimation: Certificate = Certificate()
    rounding: Certificate = Certificate()

    def merge(self, other: Certificates) -> Certificates:
        return Certificates(
            self.estimation.merge(other.estimation), self.rounding.merge(other.rounding)
        )

    @staticmethod
    def from_dicts(given: Mapping[str, Mapping[str, Any]]) -> Certificates:
        """From what :func:`dataclasses.asdict` makes of one."""
        return Certificates(*(Certificate(**given[part]) for part in ("estimation", "rounding")))
