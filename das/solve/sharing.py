r"""Which persons must change their group so that a parent can be shared out: the smallest number.

A parent holds :math:`y_g` persons of group g. Descendants d take at least :math:`l_{dg}` and at
most :math:`h_{dg}` of each, and :math:`t_d` of all, exactly. Let :math:`m_{gk}` be the persons who
change from group g to k. We want the least :math:`\sum_{g \ne k} m_{gk}` such that the groups
:math:`y'_k = \sum_g m_{gk}` can be shared out. It is a minimum-cost flow: from g to k (cost 1 where
they differ), from k to d within the bounds, and from d to a sink that takes :math:`t_d`. The flow
is integral, since its capacities are. The cost is half of the least :math:`\sum_g |y'_g - y_g|`,
because each person who moves leaves one group and enters another."""

from __future__ import annotations

import numpy as np

from das.solve.flow import Flow, Ints


def least_moves(held: Ints, lower: Ints, upper: Ints, total: Ints) -> Ints | None:
    """Persons who change from group to group, ``(groups, groups)`` with a diagonal of zeros.

    ``held`` ``(groups,)``; ``lower``, ``upper`` ``(descendants, groups)``; ``total``
    ``(descendants,)``. All zero if and only if ``held`` can be shared out as it is; ``None`` where
    no change of groups lets it: the totals have another sum, or a descendant's bounds leave no way
    to its total."""
    n, groups = lower.shape
    if held.sum() != total.sum() or (lower > np.minimum(upper, total[:, None])).any():
        return None
    flow = Flow()
    g, k = np.divmod(np.arange(groups * groups), groups)
    flow.add(g, groups + k, held[g], g != k)
    d, k = np.divmod(np.arange(n * groups), groups)
    high = np.minimum(upper, total[:, None])
    flow.bounded(groups + k, 2 * groups + d, lower.ravel(), high.ravel())
    first, sink = 2 * groups, 2 * groups + n
    flow.some(first + np.arange(n), np.full(n, sink), total, np.zeros(n))
    flows = flow.solve(np.concatenate([held, np.zeros(groups + n, dtype=np.int64)]), sink)
    if flows is None:
        return None
    moves = flows[: groups * groups].reshape(groups, groups)
    return moves - np.diag(np.diag(moves))
