r"""Intervals of counts whose bias replicates show in part, and together with those of their table.

Replicates are made from a release, so they show the bias that the algorithm has *at the release*.
Let it pull a count x toward a value a, because little is measured of it: the mean of a release is
:math:`x - (1 - g)(x - a)`, with a gain g from 0 to 1. The bias is :math:`b = -(1 - g)(x - a)`.
At a release that is off by just that, it is :math:`-(1 - g)(x + b - a) = gb`. So of a pulled count
replicates show the part g of its bias, and where the release has come near a by chance, hardly any.
Counts that only sums of hundreds of noisy answers tell are pulled most. In production's plan of the
DHC these are the ages of householders. The table's total is known better: what one count has too
much, others of the table have too little, and some of these show it.

**The rule.** Let J be the columns of a table that some replicate has moved, in one unit. Let s
replicates have the variances :math:`v_j` and the biases :math:`\hat b_j` there, and

.. math:: B = \max\Bigl(0, \frac1{|J|} \sum_{j \in J} \bigl(\hat b_j^2 - v_j/s\bigr)\Bigr), \qquad
          \tau_j^2 = \max(\mathrm{mse}_j, v_j + 3B).

The interval of column j is :math:`q_0 - b \pm k \tau_j`, with k and the subtracted b as of
:mod:`das.replicates.rules`. No interval is narrower than that of the rule. Without biases it is
that of the rule, about. Counts that no replicate has moved keep no width: they are exact,
impossible, or there is nothing to be seen of them.

**What holds.** Let :math:`e_j` be the error of column j, what is subtracted taken off, of variance
:math:`v_j` and bias :math:`b_j`. Suppose

1. the mean of :math:`b_j^2` over J is 3B at the most: a third of the squared biases is seen, which
   is a gain of 0.58 or more. The replicates need to be right about one number of a table in one
   unit, in place of the bias of each count;
2. biases are not larger where variances are smaller: over J, :math:`b_j^2` and
   :math:`1/(v_j + 3B)` are not positively correlated;
3. :math:`e_j / \tau_j`, of a column that is drawn from J by lot, has a unimodal distribution, about
   any mode.

Then at least the share :math:`1 - 4/(9k^2)` of the columns of J has its count in its interval, in
expectation, if :math:`k \ge \sqrt{8/3}`: .891 at 90 %, where k = 2.015, and .933 at 95 %. Without
the third condition it is :math:`1 - 1/k^2`.

*Proof.* With :math:`w_j = 1/(v_j + 3B)` and means over J,
:math:`\overline{\mathrm{E}\,e^2/\tau^2} \le \overline{(v + b^2)w} = 1 + \overline{(b^2 - 3B)w} \le 1
+ (\overline{b^2} - 3B)\,\overline w \le 1`, by the second condition and the first. So the second
moment of e / tau, of a column drawn by lot, is 1 at the most. The inequality of Vysochanskij and
Petunin (1980) is of deviations of a unimodal variable from any point. By it, e / tau is beyond k
with probability :math:`4/(9k^2)` at the most; by that of Chebyshev with :math:`1/k^2`. That is the
mean over J of the probabilities of being missed. Ends that are rounded outwards, and cut at what can be,
miss no more. ∎

The 3 was chosen by trial, as the Bureau chose its five degrees of freedom. The trial was on some of
the releases of ``python -m benchmarks.dhc_coverage``, which measures what comes of it.

**What no rule can hold.** Let x and x' be two truths, given or drawn by lot, whose counts differ by
w or more. Let :math:`\tau` be the total variation between the distributions of what is measured.
Take any rule, of measurements, releases, and replicates, with intervals shorter than w. It holds
one of the two truths with probability :math:`(1 + \tau)/2` at the most.

*Proof.* No such interval has both counts in it. So it cannot hold the one and the other at once, and
under one distribution these two probabilities sum to 1 at the most. Under two distributions they
sum to :math:`1 + \tau` at the most. ∎

Let a count move by w, evenly over the k answers of a query with noise of precision :math:`\rho`.
Then their mean moves by :math:`w\sqrt{\rho/k}` standard deviations, and :math:`\tau =
2\Phi(w\sqrt{\rho/k}/2) - 1`. So where :math:`w^2 \ll k/\rho`, coverage at every truth takes
intervals of length w. The remedy is then a query that tells the count.

Source: Vysochanskij and Petunin (1980), *Justification of the 3-sigma rule for unimodal
distributions*, Theory of Probability and Mathematical Statistics 21, 25-36.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.replicates.rules import ReplicateErrors, reach

#: How many times the squared biases that replicates show those of the release are taken to be.
UNSEEN = 3


def factors(
    errors: ReplicateErrors, able: NDArray[np.bool_], coverage: float
) -> NDArray[np.float64]:
    r"""How many of its own root mean squared errors each margin of the rule is, ``(units,
    columns)``: :math:`k \tau_j / \sqrt{\mathrm{mse}_j}`. ``able``: where a count is not certain.

    >>> errors = ReplicateErrors(2, np.array([[0, 12, 0]]), np.array([[2, 72, 0]]))
    >>> factors(errors, np.ones((1, 3), dtype=bool), 0.9).round(2).tolist()
    [[21.56, 3.53, 2.92]]
    """
    moved = able & (errors.second > 0)
    variance, s = errors.sd**2, errors.replicates
    square = np.where(moved, errors.bias**2 - variance / s, 0.0).sum(axis=1, keepdims=True)
    bias = np.maximum(square, 0.0) / np.maximum(moved.sum(axis=1, keepdims=True), 1)
    more = np.ones_like(variance)
    np.divide(s * (variance + UNSEEN * bias), errors.second, out=more, where=moved)
    return reach(coverage, s) * np.sqrt(np.maximum(more, 1.0))
