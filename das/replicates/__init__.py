"""What replicates of a release say of its errors: intervals of counts, and of what is computed from
several counts."""

from das.replicates.by_truth import (
    BASES,
    NOT_COVERED,
    ReplicateErrors,
    ReplicateInterval,
    bases,
    check_coverage,
    interval,
)

__all__ = [
    "BASES",
    "NOT_COVERED",
    "ReplicateErrors",
    "ReplicateInterval",
    "bases",
    "check_coverage",
    "interval",
]
