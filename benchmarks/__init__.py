"""Measured comparisons. Each module is a command that prints one JSON line for each figure."""

#: In the order in which ``python -m benchmarks`` runs them: quick ones first.
NAMES = ("sampler", "children_qp", "rhode_island", "full_information", "scaling", "chi_square")
