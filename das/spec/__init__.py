"""A configuration is data, parsed once: unknown keys refused, all errors together, a digest on
every output.
"""

from typing import TYPE_CHECKING

from das.model.post_processing import METHODS
from das.spec.budgets import budget_toml
from das.spec.parse import Spec, load, of_kind, of_release, of_tree, parse
from das.spec.published import PublishedSpec
from das.spec.run import RunSpec
from das.spec.specification import Specification

if TYPE_CHECKING:
    from das.spec.detailed import DetailedFolders, DetailedSpec
    from das.spec.dhc import DhcSpec
    from das.spec.sdhc import SdhcSpec

__all__ = [
    "METHODS",
    "DetailedFolders",
    "DetailedSpec",
    "DhcSpec",
    "PublishedSpec",
    "RunSpec",
    "SdhcSpec",
    "Spec",
    "Specification",
    "budget_toml",
    "load",
    "of_kind",
    "of_release",
    "of_tree",
    "parse",
]


def __getattr__(name: str) -> object:
    """Specifications of the publications that most runs are not of are loaded on first use."""
    if name not in ("DetailedFolders", "DetailedSpec", "DhcSpec", "SdhcSpec"):
        raise AttributeError(f"module 'das.spec' has no attribute {name!r}")
    from das.spec import detailed, dhc, sdhc

    return next(vars(m)[name] for m in (detailed, dhc, sdhc) if name in vars(m))
