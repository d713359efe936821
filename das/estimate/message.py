"""What an upper tree and its subtrees tell each other: arrays by name, as one file holds them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Message:
    """A value whose fields are arrays. A field can be ``None``."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The arrays that are not ``None``, by their names."""
        every = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: array for name, array in every.items() if array is not None}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The value from the arrays of ``to_arrays``."""
        return cls(**arrays)
