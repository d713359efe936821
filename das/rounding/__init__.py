"""To integers, every constraint exact."""

from das.rounding.controlled import Marginal, descendants, round_estimate
from das.rounding.failsafe import repair

__all__ = ["Marginal", "descendants", "repair", "round_estimate"]
