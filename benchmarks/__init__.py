"""Measured comparisons. Each module is a command that prints one JSON line for each figure."""

#: In the order in which ``python -m benchmarks`` runs them: quick ones first.
NAMES = (
    "sampler",
    "on_request",
    "accounting",
    "children_qp",
    "large_families",
    "risk",
    "default_passes",
    "release_files",
    "rhode_island",
    "full_information",
    "margins",
    "area",
    "spines",
    "prior",
    "strategy",
    "best",
    "evaluation",
    "reconstruction",
    "frontier_attack",
    "scaling",
    "chi_square",
)
