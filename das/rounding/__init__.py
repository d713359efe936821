"""To integers, every constraint exact."""

from das.rounding.controlled import Marginal, descendants, repair, round_estimate

__all__ = ["Marginal", "descendants", "repair", "round_estimate"]
