r"""Least squares in the unit box, many right-hand sides with one matrix.

.. math:: \min_x \tfrac12\|Qx - a\|^2 = \tfrac12 x'Gx - b'x + \text{const}
   \quad\text{subject to}\quad 0 \le x \le 1,\qquad G = Q'Q,\; b = Q'a .

*Method.* Alternating directions with a copy :math:`z = x` that stays in the box (Boyd et al. 2011).
The step in :math:`x` is one product with :math:`(G + \rho I)^{-1}`, the same for all right-hand
sides and all iterations: one factorization, then :math:`2 n^2` operations an iteration and problem.
:math:`\rho` is half the curvature that independent random queries have in every direction but that
of the sum.

*Where Q leaves directions free* (fewer queries than bits), the iteration starts at the center of
the box and moves only as far as the answers ask: the answer is a minimizer near the center, as an
interior-point method's is.

*Certificate.* With :math:`g = Gx - b`, convexity bounds the distance to the optimum by

.. math:: f(x) - f^* \le \max_{0 \le y \le 1} g'(x - y) = \sum_i \max\{g_i x_i,\, -g_i (1 - x_i)\} .
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError

Array = NDArray[np.float64]

_RELAX = 1.6  # over-relaxation
_CHECK = 10  # iterations between certificates


@dataclass(frozen=True, eq=False)
class BoxSolution:
    """``x`` ``(problems, n)``, in the box exactly; ``gap`` ``(problems,)`` bounds f(x) - f* from
    above.
    """

    x: Array
    gap: Array
    iterations: int


def gaps(gram: Array, rhs: Array, x: Array) -> Array:
    """The certificate of the module at ``x``, ``(problems,)``."""
    return _gaps(x @ gram - rhs, x)


def _gaps(g: Array, x: Array) -> Array:
    return np.maximum(g * x, -g * (1 - x)).sum(axis=-1)


def solve(gram: Array, rhs: Array, *, tol: float = 1e-4, max_iterations: int = 5000) -> BoxSolution:
    """Minimize for each row of ``rhs`` ``(problems, n)`` with the one ``gram`` ``(n, n)``.

    Ends when every gap is at most ``tol`` times n (so that a bit contributes ``tol`` squared
    answers) or, where noise pulls harder than that, a hundredth of ``tol`` times the sum of the
    pulls |g|; or after ``max_iterations``: ``gap`` says what was reached.

    Raises:
        InputError: shapes that do not fit together.
    """
    n = len(gram)
    if gram.shape != (n, n) or rhs.ndim != 2 or rhs.shape[1] != n:
        raise InputError(
            f"a matrix {gram.shape} and right-hand sides {rhs.shape}", where="box least squares"
        )
    pull = rhs - gram.sum(axis=0) / 2  # of the problem in x - 1/2, between -1/2 and 1/2
    rho = max(0.5 * float(np.trace(gram)) / (2 * n), 1e-12)
    inverse = np.linalg.inv(gram + rho * np.eye(n))
    copy, dual = np.zeros_like(rhs), np.zeros_like(rhs)
    gap, iterations, near = np.full(len(rhs), np.inf), 0, False
    while iterations < max_iterations and not near:
        for _ in range(_CHECK):
            x = (pull + rho * (copy - dual)) @ inverse
            relaxed = _RELAX * x + (1 - _RELAX) * copy
            copy = np.clip(relaxed + dual, -0.5, 0.5)
            dual += relaxed - copy
        iterations += _CHECK
        g = (copy + 0.5) @ gram - rhs
        gap = _gaps(g, copy + 0.5)
        near = bool((gap <= tol * np.maximum(n, np.abs(g).sum(axis=1) / 100)).all())
    return BoxSolution(copy + 0.5, gap, iterations)
