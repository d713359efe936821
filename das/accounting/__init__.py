"""The joint cost of draws: rho, and (epsilon, delta) exactly or by conversion. Also calibration,
and the privacy statement."""

from das.accounting.calibration import calibrate
from das.accounting.changes import worst_pair
from das.accounting.draws import Composition
from das.accounting.profile import curve, delta, epsilon
from das.accounting.tradeoff import tradeoff
from das.accounting.zcdp import bun_steinke, implied, pure, tight

__all__ = [
    "Composition",
    "bun_steinke",
    "calibrate",
    "curve",
    "delta",
    "epsilon",
    "implied",
    "pure",
    "tight",
    "tradeoff",
    "worst_pair",
]
