"""What an intruder learns from published counts.

One count: :mod:`das.risk.one_level`. The same bit in several counts: :mod:`das.risk.joint`. The
levels above: :mod:`das.risk.hierarchy`, on the exact sums of :mod:`das.risk.recursion`. The unique
persons of a run: :mod:`das.tools.risk.truth.exposure`."""

from das.risk.decisions import Decisions, Truth, decision_map, decisions
from das.risk.hierarchy import hierarchical_posterior, levels_posterior, upper_posterior
from das.risk.joint import joint_decision_probability, joint_marginal_posterior, joint_posterior
from das.risk.one_level import (
    decision_probability,
    marginal_posterior,
    marginal_ratio,
    posterior,
    ratio,
    release_probability,
)
from das.risk.recursion import Point, Uniform, UpperPrior, WeightedPrior

__all__ = [
    "Decisions",
    "Point",
    "Truth",
    "Uniform",
    "UpperPrior",
    "WeightedPrior",
    "decision_map",
    "decision_probability",
    "decisions",
    "hierarchical_posterior",
    "joint_decision_probability",
    "joint_marginal_posterior",
    "joint_posterior",
    "levels_posterior",
    "marginal_posterior",
    "marginal_ratio",
    "posterior",
    "ratio",
    "release_probability",
    "upper_posterior",
]
