"""How well published files of persons and households agree, identity by identity."""

from __future__ import annotations

from dataclasses import dataclass

from das.errors import InputError


@dataclass(frozen=True)
class AgreementRow:
    """An ``identity`` and what it says, at one ``level``: of ``units`` with persons or households,
    how many it is ``violated`` in, and the mean absolute difference over all of them."""

    identity: str
    says: str
    level: str
    units: int
    violated: int
    difference: float | None

    def __post_init__(self) -> None:
        if not 0 <= self.violated <= self.units:
            raise InputError(
                f"{self.violated} of {self.units} units violate it", where=f"{self.identity}"
            )

    @property
    def share(self) -> float:
        """Of the units, those that violate it."""
        return self.violated / self.units if self.units else 0.0
