"""What replicates of a release say of its errors: intervals of counts, and of what is computed from
several counts.
"""

from das.replicates.rules import (
    BASES,
    NOT_COVERED,
    RULES,
    ReplicateErrors,
    ReplicateInterval,
    bases,
    check_coverage,
    check_rule,
    interval,
)

__all__ = [
    "BASES",
    "NOT_COVERED",
    "RULES",
    "ReplicateErrors",
    "ReplicateInterval",
    "bases",
    "check_coverage",
    "check_rule",
    "interval",
]
