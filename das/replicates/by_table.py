r"""Intervals of counts whose errors replicates show only together with those of their table.

Replicates are made from a release, so they show the bias that the algorithm has *at the release*.
Where little is measured, that bias is small just where the release has gone wrong: the release is
already what the algorithm makes of counts that it knows little about. A query that is told only as
a sum of hundreds of noisy answers is such a case, as the ages of householders are in production's
plan of the DHC. The table's total is known better. So what one count has too much, others of the
table have too little, and their replicates show some of it. Of the table as a whole replicates show
more than of each count: that is measured (``python -m benchmarks.dhc_coverage``), not proved.

**The rule.** Let J be the columns of a table that some replicate has moved, in one unit, and

.. math:: M = \frac1{|J|} \sum_{j \in J} \mathrm{mse}_j.

The interval of column j is :math:`q_0 - b \pm k\sqrt{\max(\mathrm{mse}_j, M)}`, with k and b as of
:mod:`das.replicates.rules`. No interval is narrower than that of the rule. Counts that no replicate
has moved keep no width: they are exact, impossible, or there is nothing to be seen of them.

**What holds.** Let :math:`e_j` be the error of column j, its subtracted bias included. Suppose

1. the mean of :math:`\mathrm{E}\, e_j^2` over J is M at the most. The replicates have to be right
   about one number of a table in one unit, in place of each count's own;
2. the error of a column that is drawn from J by lot has a unimodal distribution, about any mode
   (of whole numbers: once a uniform one of up to one half is added, and 1/12 to M).

Then at least the share :math:`1 - 4/(9k^2)` of the columns of J has its count in its interval, in
expectation, if :math:`k \ge \sqrt{8/3}`: .891 at 90 %, where k = 2.015, and .933 at 95 %. Without
the second condition it is :math:`1 - 1/k^2`. If M is only the part :math:`r^2` of that mean, kr
takes the place of k.

*Proof.* Draw J, and after it the release. The error has a second moment of M at the most, about 0.
By the inequality of Vysochanskij and Petunin (1980), which is of deviations of a unimodal variable
from any point, it is beyond :math:`k\sqrt M` with probability :math:`4/(9k^2)` at the most; by that
of Chebyshev with :math:`1/k^2`. That is the mean over J of the probabilities of being missed. Wider
intervals miss no more, nor do ends that are rounded outwards and cut at what can be. ∎

Where also each column's own errors are right, each has the coverage of the rule by itself.

**What no rule can hold.** Let x be a truth and x' another (or truths drawn by lot), whose counts
differ by w or more, and let :math:`\tau` be the total variation between the distributions of what
is measured. Intervals made from measurements, releases, replicates, by any rule, that are shorter
than w hold one of the two with probability :math:`(1 + \tau)/2` at the most.

*Proof.* No such interval has both counts in it. So the events that it has the one and that it has
the other are disjoint, and under one distribution their probabilities sum to 1 at the most. Under
two they sum to :math:`1 + \tau` at the most. ∎

A count that moves by w, evenly over the k answers of a query with noise of precision
:math:`\rho`, moves their mean by :math:`w\sqrt{\rho/k}` standard deviations, and :math:`\tau =
2\Phi(w\sqrt{\rho/k}/2) - 1`. So where :math:`w^2 \ll k/\rho`, coverage at every truth takes
intervals of length w. The remedy is then a query that tells the count.

Source: Vysochanskij and Petunin (1980), *Justification of the 3-sigma rule for unimodal
distributions*, Theory of Probability and Mathematical Statistics 21, 25-36.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.replicates.rules import RULES, ReplicateErrors


def factors(
    errors: ReplicateErrors, able: NDArray[np.bool_], coverage: float, rule: str
) -> NDArray[np.float64]:
    r"""How many of its own root mean squared errors each margin of a ``rule`` is, ``(units,
    columns)``: :math:`k\sqrt{\max(1, M/\mathrm{mse}_j)}`. ``able``: where a count is not certain.

    >>> errors = ReplicateErrors(2, np.array([[0, 0, 0]]), np.array([[2, 6, 0]]))
    >>> factors(errors, np.ones((1, 3), dtype=bool), 0.9, "z").round(3).tolist()
    [[2.326, 1.645, 1.645]]
    """
    moved = able & (errors.second > 0)
    square = np.where(moved, errors.second, 0).astype(np.float64)
    mean = square.sum(axis=1, keepdims=True) / np.maximum(moved.sum(axis=1, keepdims=True), 1)
    more = np.divide(mean, square, out=np.ones_like(square), where=moved)
    return RULES[rule][0](coverage, errors.replicates) * np.sqrt(np.maximum(more, 1.0))
