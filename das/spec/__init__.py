"""A configuration is data, parsed once: unknown keys refused, all errors together, a digest on every output."""

from das.model.universe import Universe
from das.spec.parse import budget_toml, digest, dump, parse
from das.spec.parts import METHODS
from das.spec.run import RunSpec

__all__ = ["METHODS", "RunSpec", "Universe", "budget_toml", "digest", "dump", "parse"]
