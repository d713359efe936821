"""To integers, every constraint exact."""

from das.rounding.controlled import round_estimate

__all__ = ["round_estimate"]
