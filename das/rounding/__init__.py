"""To integers, every constraint exact."""

from das.rounding.controlled import Marginal, Unrounded, descendants, repair, round_estimates

__all__ = ["Marginal", "Unrounded", "descendants", "repair", "round_estimates"]
