"""A configuration is data, parsed once: unknown keys refused, all errors together, a digest on
every output.
"""

from das.model.post_processing import METHODS
from das.spec.dhc import DhcSpec
from das.spec.parse import Spec, budget_toml, digest, dump, is_dhc, of_release, parse, parse_dhc
from das.spec.published import PublishedSpec
from das.spec.run import RunSpec

__all__ = [
    "METHODS",
    "DhcSpec",
    "PublishedSpec",
    "RunSpec",
    "Spec",
    "budget_toml",
    "digest",
    "dump",
    "is_dhc",
    "of_release",
    "parse",
    "parse_dhc",
]
