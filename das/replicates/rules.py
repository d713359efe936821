r"""Rules that make intervals of the errors of replicates.

All are :math:`q_0 - b \pm k\sqrt{\mathrm{mse}}` (:mod:`das.replicates.errors`):

======  ====================================================  =========================================================
rule    k                                                     b, the bias that is subtracted
======  ====================================================  =========================================================
``z``   the normal quantile, 1.645 at 90 %                    0
``t``   that of Student's t with 5 degrees of freedom, 2.015  0
``cz``  as ``z``                                              the estimated bias, where :math:`q_0 > 5`,
                                                              :math:`|\mathrm{bias}| \ge \mathrm{sd}/2`, and the bias is negative
                                                              or :math:`q_0 \ge 25`; otherwise 0
``ct``  as ``t``                                              as ``cz``
======  ====================================================  =========================================================

Counts are whole: the lower end is rounded down, and is not below 0, the upper one is rounded up. ``ct`` is the Bureau's rule, and the default.
Five degrees of freedom make up for replicates that scatter too little: a published block is smoother than a true one. Of what is
no count, such as a share, the bias is subtracted wherever it is half a standard deviation or more.

Source: Ashmead, Hawes, Pritts, Zhuravlev, Keller (2024), sections 3 to 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from das.errors import InputError
from das.model.frozen import Frozen
from das.replicates.errors import ReplicateErrors

Floats = NDArray[np.float64]
#: Of Student's t: chosen by trial, by the Bureau.
DEGREES = 5
#: The largest coverage: normal errors are not known any farther out.
MOST = 0.999999
#: Published values above which a bias is subtracted, and from which one above 0 is.
SMALL, LARGE = 5, 25

#: By name: the half-width in root mean squared errors at a coverage, and whether a bias is subtracted on condition.
RULES: Mapping[str, tuple[Callable[[float], float], bool]] = {
    "ct": (lambda coverage: float(stdtrit(DEGREES, (1 + coverage) / 2)), True),
    "cz": (lambda coverage: NormalDist().inv_cdf((1 + coverage) / 2), True),
    "t": (lambda coverage: float(stdtrit(DEGREES, (1 + coverage) / 2)), False),
    "z": (lambda coverage: NormalDist().inv_cdf((1 + coverage) / 2), False),
}


@dataclass(frozen=True, eq=False)
class ReplicateInterval(Frozen):
    """Ends of intervals, arrays of one shape; ``margin`` is their half-width before ends are made whole, ``subtracted`` whether the
    bias was."""

    lower: NDArray[np.int64] | Floats
    upper: NDArray[np.int64] | Floats
    margin: Floats
    subtracted: NDArray[np.bool_]

    def clipped(self, least: float, most: float) -> ReplicateInterval:
        """Of a statistic that is nowhere else."""
        return replace(self, lower=np.maximum(self.lower, least), upper=np.minimum(self.upper, most))


def check_coverage(coverage: float) -> None:
    """Raises :class:`InputError` for a coverage that is none, or that no interval of numbers has."""
    if not 0 < coverage <= MOST:
        raise InputError(f"a coverage of {coverage}", where="coverage",
                         remedy=f"give a number between 0 and 1, such as 0.9, and {MOST} at the most")  # fmt: skip


def check_rule(coverage: float, rule: str, rules: Collection[str] = RULES) -> None:
    """Raises :class:`InputError` for a rule that is none of ``rules``, or a coverage that is none."""
    if rule not in rules:
        raise InputError(f"there is no rule {rule!r}", where="rule", remedy=f"the rules are {', '.join(rules)}")
    check_coverage(coverage)


def interval(
    value: NDArray[np.int64] | Floats,
    errors: ReplicateErrors,
    coverage: float,
    rule: str = "ct",
    factor: float | None = None,
) -> ReplicateInterval:
    """Of published values, which are counts if they are integers. ``factor`` takes the place of the rule's own k.

    Raises:
        InputError: no such rule, or a coverage that is none.
    """
    check_rule(coverage, rule)
    wide, conditional = RULES[rule]
    counts = np.issubdtype(value.dtype, np.integer)
    subtracted = np.zeros(value.shape, dtype=bool)
    if conditional:
        subtracted = errors.leans()
        if counts:
            subtracted = subtracted & (value > SMALL) & ((errors.first < 0) | (value >= LARGE))
    point = value - np.where(subtracted, errors.bias, 0.0)
    margin = (wide(coverage) if factor is None else factor) * errors.rmse
    lower, upper = point - margin, point + margin
    if counts:
        return ReplicateInterval(
            np.maximum(np.floor(lower), 0).astype(np.int64), np.ceil(upper).astype(np.int64), margin, subtracted
        )
    return ReplicateInterval(lower, upper, margin, subtracted)
