"""What replicates of a release say of its errors: intervals of counts, and of what is computed from
several counts.
"""

from das.replicates.rules import (
    RULES,
    ReplicateErrors,
    ReplicateInterval,
    check_coverage,
    check_rule,
    interval,
)

__all__ = [
    "RULES",
    "ReplicateErrors",
    "ReplicateInterval",
    "check_coverage",
    "check_rule",
    "interval",
]
