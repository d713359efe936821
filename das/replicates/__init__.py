"""What replicates of a release say of its errors: intervals of counts, and of what is computed from several counts."""

from das.replicates.rules import RULES, Interval, interval
from das.replicates.spread import Spread

__all__ = ["RULES", "Interval", "Spread", "interval"]
