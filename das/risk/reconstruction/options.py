"""How an attack goes about its work."""

from __future__ import annotations

from dataclasses import dataclass

from das.errors import UserError


@dataclass(frozen=True)
class AttackOptions:
    """``seconds``: the limit of each integer program of a unit. ``gap``: the relative gap at which
    a program with prices counts as solved. ``variability``: whether to measure how far solutions
    can differ, which also proves that one is the only one. ``around``: the level whose lines are
    the prior; absent, the lowest level above the blocks that has tables, or else the next level.
    ``prior_weight``: what the prior counts for next to prices, little enough to be a tie-break.
    ``few``: with as many possible cells as this, an attack on perturbed lines tries no subset of
    them first. ``joint_seconds``: the limit of a program of a whole area, 0 for none."""

    seconds: float = 10.0
    gap: float = 1e-3
    variability: bool = True
    around: str | None = None
    prior_weight: float = 0.003
    few: int = 60
    joint_seconds: float = 30.0

    def __post_init__(self) -> None:
        for name in ("seconds", "gap", "prior_weight"):
            if not getattr(self, name) > 0:
                raise UserError(f"{name} is not above zero", where="options of an attack")
        if self.few < 0 or self.joint_seconds < 0:
            raise UserError("few or joint_seconds is below zero", where="options of an attack")
