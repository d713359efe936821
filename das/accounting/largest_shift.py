r"""Which of many changes of an answer is the worst: the one that changes a single answer by all.

Several records that change together, such as the persons of one address, can change one answer by
k, or several answers by less. Let the changes of the answers be any integer vector v with
:math:`\|v\|_1 \le k`. The noise of each answer is :math:`N_{\mathbb Z}(0, \sigma^2)`. A pair of
distributions *dominates* another if its delta is at least as large at every epsilon; then it does
so next to any independent draws, too.

**Claim.** Let :math:`k \ge 2`, :math:`\sigma^2 > 3`, :math:`s^2 = 3\sigma^2/(\sigma^2 - 3)` and

.. math:: (k^2 - 2k + 2)\,(\sigma^2 + s^2) \le k^2\,(\sigma^2 - s^2).

Then :math:`v = k e_j` dominates every v, apart from a factor of at most :math:`e^{\pm\eta}` in all
densities, with :math:`\eta < 10^{-22} k`.

*Proof.* A vector with one entry is at most k. A larger shift in one answer dominates: the ratio
:math:`p(x)/p(x - a)` falls in x, so :math:`\delta_a = \max_t F(t) - e^\varepsilon F(t - a)`, which
rises with a. With two entries or more, :math:`\|v\|_2^2 \le (k-1)^2 + 1 = k^2 - 2k + 2`. Write
:math:`\zeta(r^2) = 2 \sum_{m \ge 1} e^{-2\pi^2 r^2 m^2}`. By Poisson's formula a sum of
:math:`e^{-(x - y)^2/2r^2}` over the integers x is :math:`\sqrt{2\pi}\, r\, (1 \pm \zeta(r^2))` for
every real y.

1. *Discrete from continuous.* Draw y from :math:`N(v_j, \sigma^2 - s^2)`, then an integer x with
   probability proportional to :math:`e^{-(x - y)^2/2s^2}`. Its probability is that of
   :math:`N_{\mathbb Z}(v_j, \sigma^2)`, up to a factor of :math:`(1 \pm \zeta(s^2))^{-1} (1 \pm
   \zeta(\sigma^2))`.
2. *Continuous from discrete.* Draw x from :math:`N_{\mathbb Z}(v_j, \sigma^2)` and add :math:`N(0,
   s^2)`. The density is that of :math:`N(v_j, \sigma^2 + s^2)`, up to a factor of :math:`(1 \pm
   \zeta(r^2))(1 \pm \zeta(\sigma^2))^{-1}`, with :math:`r^2 = \sigma^2 s^2/(\sigma^2 + s^2) = 3`.

So v is post-processing of a Gaussian of :math:`\rho = \|v\|^2/2(\sigma^2 - s^2)`. By the condition
that is no more than :math:`k^2/2(\sigma^2 + s^2)`, the Gaussian that post-processing makes of
:math:`k e_j`; and of two Gaussians the larger shift dominates. At most k answers change, each with
four factors of :math:`1 \pm \zeta(3)`, and :math:`\zeta(3) < 4 \cdot 10^{-26}`. ∎

A factor of :math:`e^{\pm\eta}` in both densities moves epsilon by :math:`2\eta`, and delta by a
part :math:`\eta` of it: :data:`SLACK`, added to the upper end, is far more.

Two groups of answers that change at once (one loses what the other gains) have a vector each, and
the claim holds for each."""

from __future__ import annotations

from fractions import Fraction

#: The parameter of the proof: the r^2 of its second step.
WIDTH = 3
#: What the upper end of an epsilon is raised by, for all draws together.
SLACK = 1e-12


def is_worst(sigma_sq: Fraction, k: int) -> bool:
    """Whether the change of one answer by ``k`` dominates all that change answers by ``k`` in sum.

    >>> is_worst(Fraction(1709), 22), is_worst(Fraction(12), 2), is_worst(Fraction(5), 2)
    (True, True, False)
    """
    if k == 1:
        return True
    if sigma_sq <= WIDTH:
        return False
    s_sq = WIDTH * sigma_sq / (sigma_sq - WIDTH)
    return (k * k - 2 * k + 2) * (sigma_sq + s_sq) <= k * k * (sigma_sq - s_sq)
