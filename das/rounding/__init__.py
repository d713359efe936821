"""To integers, every constraint exact."""

from das.rounding.below import descendants
from das.rounding.controlled import round_estimate
from das.rounding.failsafe import repair
from das.rounding.prices import Marginal

__all__ = ["Marginal", "descendants", "repair", "round_estimate"]
