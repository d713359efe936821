"""A configuration is data, parsed once: unknown keys refused, all errors together, a digest on
every output."""

from das.model.post_processing import METHODS
from das.spec.notes import budget_toml
from das.spec.parse import Spec, load, of_kind, of_release, of_tree, parse
from das.spec.published import PublishedSpec
from das.spec.run import RunSpec
from das.spec.specification import Specification

__all__ = [
    "METHODS",
    "PublishedSpec",
    "RunSpec",
    "Spec",
    "Specification",
    "budget_toml",
    "load",
    "of_kind",
    "of_release",
    "of_tree",
    "parse",
]
