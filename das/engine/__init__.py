"""How independent work is spread: the standard ``concurrent.futures.Executor`` interface."""

from das.engine.local import InProcess, begin_loading, executor, in_order, refuse_within_import
from das.engine.tasks import Progress, Silent

__all__ = [
    "InProcess",
    "Progress",
    "Silent",
    "begin_loading",
    "executor",
    "in_order",
    "refuse_within_import",
]
