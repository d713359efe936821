r"""The passes of a level where nobody names any: a rule from queries and variances alone, hence
public.

Non-negativity biases sums. Suppose that nobody is in most of a unit's cells. Their estimates are
the positive parts of their noise, and sum to more than zero. This pulls a query over them away from
its own measurement by up to :math:`z\,\sigma_q^2/\sigma_d`, with :math:`z` of 2 or 3. A query that
is estimated in an earlier pass is free of this bias. The price is that it ignores its cells: they
have :math:`n_q \sigma_d^2` against :math:`\sigma_q^2`, with :math:`n_q` cells to an answer. With
:math:`g = n_q \sigma_d^2 / \sigma_q^2`, a separate pass has :math:`1 + 1/g` times the variance of
both together. So a query is *precise* if g is at least 16 (3 % of a standard error). The cells here
are those of the finest query of the level.

* The total, if precise, has the first pass at every level, unless another query's sum says at least
  a quarter as much about it.
* At the root, all other precise queries have the next pass, together. Further down, the sums over
  the children are given, and the cells where the parent has somebody. The bias is then within the
  noise, and estimating everything together gains more.
* Everything else follows in one pass.

This gives the passes that production chose for redistricting, level by level. Totals come first
except at blocks, where the total is nearly all noise, and at the nation, where nothing is
precise."""

from __future__ import annotations

from collections.abc import Mapping

from das.model.query import Query

#: How many times more precise than the sum of its cells a query must be, and the total than that of
#: any other query.
PRECISE, PRECISE_TOTAL = 16, 4


def by_rule(
    measured: Mapping[str, tuple[Query, float]], *, root: bool
) -> tuple[tuple[str, ...], ...]:
    """The passes of a level from its queries, by name, with the variance of an answer to each;
    ``root`` if it is the first of the tree."""
    precise = []
    for name, (query, variance) in measured.items():
        finer = {
            q.answers: q.answers / query.answers * v
            for q, v in measured.values()
            if _finer(q, query)
        }
        if finer and finer[max(finer)] >= PRECISE * variance:
            precise.append(
                (name, query.answers == 1 and min(finer.values()) >= PRECISE_TOTAL * variance)
            )
    first = [name for name, alone in precise if alone]
    second = [name for name, alone in precise if root and not alone]
    rest = [name for name in measured if name not in (*first, *second)]
    return tuple(tuple(names) for names in (first, second, rest) if names)


def _finer(fine: Query, coarse: Query) -> bool:
    """True if ``fine`` tells apart all that ``coarse`` does, and more."""
    return fine.answers > coarse.answers and coarse.sums(fine)
