"""To integers, every constraint exact."""

from das.rounding.below import descendants
from das.rounding.controlled import round_estimate
from das.rounding.failsafe import mend
from das.rounding.prices import Margin

__all__ = ["Margin", "descendants", "mend", "round_estimate"]
