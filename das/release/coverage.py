"""How often an interval holds the true count: the one default, and what it means in standard
errors."""

from __future__ import annotations

from statistics import NormalDist

#: What intervals hold, where nobody says otherwise.
COVERAGE = 0.95
#: The margin of error of a normal estimate at 95 %, in standard errors. ``Universe.wide`` can be
#: slightly larger.
_NORMAL = NormalDist().inv_cdf(0.975)


def wide(coverage: float, at_95: float) -> float:
    """Standard errors that an interval of ``coverage`` has to either side: of a normal estimate, or
    as many more as noise of a longer tail has at 95 %, where it has ``at_95``
    (:attr:`das.model.universe.Universe.wide`).

    >>> round(wide(0.9, 1.96), 3), wide(0.95, 2.5)
    (1.645, 2.5)
    """
    return max(_NORMAL, at_95) * (NormalDist().inv_cdf((1 + coverage) / 2) / _NORMAL)
