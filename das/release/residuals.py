r"""Where published counts are worse than what was measured, from a release alone.

Let a query have the answers :math:`i = 1, \dots, n` with noise :math:`z_i \sim (0, \sigma^2)`, and let the published answers be
off by :math:`e_i`. The residuals are known: :math:`r_i = z_i - e_i`. As estimates follow their measurements, errors do not
run against the noise (:math:`\sum e_i z_i \ge 0` in expectation), so

.. math:: E\,\tfrac1n \sum r_i^2 \le \sigma^2 + \overline{e^2} .

If publishing was no worse than measuring, :math:`\overline{e^2} \le \sigma^2`, then :math:`\sum r_i^2 / \sigma^2` is at most a
noncentral chi-square of n degrees with noncentrality n: mean 2n, variance 6n. A query is listed where it exceeds the quantile of
that at which all queries of a release together raise a false alarm in one of a thousand. Then :math:`\overline{e^2}` is at least
:math:`\overline{r^2} - \sigma^2`, and that is stated. What is not listed can still be worse by less than this can show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import ncx2

from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.universe import Universe

FALSE_ALARM = 1e-3  #: of a whole release
_ROUNDING = 1 / 12  # whole numbers are off by as much


@dataclass(frozen=True)
class Misfit:
    """A query that is published worse than it was measured: its answers, the standard deviation of its noise (over
    units that differ, the root of the mean variance), and the least root mean square error that fits the residuals."""

    universe: str
    level: str
    query: str
    answers: int
    noise: float
    error_at_least: float


def misfits(
    universe: Universe, source: MeasurementSource, published: Mapping[str, Histogram], tests: int
) -> list[Misfit]:
    """The queries of ``universe`` that are listed, of ``tests`` that are looked at in all."""
    out = []
    for level, histogram in published.items():
        for name in source.queries(level):
            query = universe.schema.query(name)
            squares, variances, n = 0.0, 0.0, 0
            scaled = 0.0
            step = max(1, (1 << 22) // query.answers)
            for a in range(0, histogram.units, step):
                m = source.read(level, name, a, min(a + step, histogram.units))
                known = np.isfinite(m.variance)
                off = (m.values - histogram.rows(a, min(a + step, histogram.units)).answer(query))[known].astype(float)
                variance = np.maximum(m.variance[known], _ROUNDING)[:, None]
                squares, scaled = squares + float(np.sum(off**2)), scaled + float(np.sum(off**2 / variance))
                variances, n = variances + float(variance.sum()) * query.answers, n + off.size
            if n and scaled > ncx2.isf(FALSE_ALARM / tests, n, n):
                out.append(Misfit(universe.name, level, name, n, (variances / n) ** 0.5,
                                  (max(squares - variances, 0.0) / n) ** 0.5))  # fmt: skip
    return out
