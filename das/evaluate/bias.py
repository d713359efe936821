r"""The standard error of a mean error within one run.

Errors of one run are not independent: the answers of a unit come from one solve, and siblings add up to a parent
whose own error is small, so that what one has too much another has too little. Taken one by one, the errors of
2,016 cells would promise a precision that no rerun shows. The mean over a class is a ratio of sums over clusters,
:math:`\bar e = \sum_c S_c / \sum_c n_c`, and its linearised variance

.. math:: \widehat{\mathrm{Var}}(\bar e) = \frac{m}{m - 1} \frac{\sum_c (S_c - \bar e\, n_c)^2}{(\sum_c n_c)^2},

over the :math:`m` clusters that the class occurs in (Cochran, *Sampling Techniques*, 1977, equation 6.13, as a
with-replacement sample); intervals are those of Student's t with :math:`m - 1` degrees of freedom. A cluster is a
family of siblings, or a unit where a level has fewer than :data:`FAMILIES` families. Differences between clusters
that would be there in every rerun count as well, so intervals are rather too wide than too narrow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from das.model.closed import Closed
from das.model.spine import Spine

#: With fewer families than this at a level its units are the clusters.
FAMILIES = 10
CONFIDENCE = 0.95


@dataclass(frozen=True, repr=False)
class ClusteredInterval(Closed):
    """A standard error, its clusters, and the interval at 95 %."""

    error: float
    low: float
    high: float
    clusters: int


def clusters(spine: Spine, level: str) -> NDArray[np.int64]:
    """The cluster of each unit of a level, ``(units,)``, not decreasing."""
    parent = spine.parent[spine.index(level)]
    return parent if int(parent[-1]) + 1 >= FAMILIES else np.arange(len(parent))


def interval(total: NDArray[np.float64], size: NDArray[np.float64]) -> ClusteredInterval | None:
    """From the sum of errors and the number of errors of each cluster; ``None`` with fewer than two clusters."""
    here = size > 0
    m = int(np.count_nonzero(here))
    if m < 2:
        return None
    total, size = total[here], size[here]
    n = size.sum()
    mean = total.sum() / n
    error = float(np.sqrt(m / (m - 1) * ((total - mean * size) ** 2).sum()) / n)
    reach = half_width(error, m)
    return ClusteredInterval(error, float(mean) - reach, float(mean) + reach, m)


def half_width(error: float, m: int) -> float:
    """Half the interval at 95 % around a mean of ``m`` independent values with this standard error."""
    return error * float(stdtrit(m - 1, (1 + CONFIDENCE) / 2))
