"""What an interval from replicates rests on: a word for each row of ``intervals/``.

Replicates of a release hold what is public: invariants, and the counts of an earlier release that
this one rests on. What they hold, no replicate moves. Where that is an invariant the count is
*exact*. Where it is a published count of an earlier release it has an error that nothing here
knows: the interval would be a point, and holds the truth only if that release happens to be right.
Such a count is *not covered*, and gets no interval. All other counts of such a release have
intervals *given* those earlier counts, which hold less often than they say.

Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from das.model.query import Query
from das.model.schema import Schema
from das.replicates import ReplicateErrors
from das.tables import Table

Mask = NDArray[np.bool_]
#: By number, as rows have them; and what each means.
BASES = {
    "exact": "the count is known exactly: an invariant, or a combination that cannot be",
    "replicates": "the interval is from the replicates",
    "given earlier counts": (
        "the interval is from the replicates, which all have the counts of an earlier release: the"
        " errors of these are not in it, and it holds less often than it says"
    ),
    "not covered": (
        "there is no interval: an earlier release determines the count, which is the same in all"
        " replicates, and nothing here knows the errors of that release"
    ),
}
EXACT, REPLICATES, GIVEN, NOT_COVERED = range(len(BASES))


def bases(errors: ReplicateErrors, certain: Mask, *, rests: bool) -> NDArray[np.int8]:
    """Of counts with these errors. ``certain``: where a count is known exactly; ``rests``: the
    release rests on counts of an earlier one.
    """
    if not rests:
        return np.where(certain, EXACT, REPLICATES).astype(np.int8)
    return np.select([certain, errors.second == 0], [EXACT, NOT_COVERED], GIVEN).astype(np.int8)


def exact_columns(table: Table, schema: Schema, queries: Sequence[Query]) -> Mask:
    """Which columns are sums of exact answers to one of the ``queries``, or of impossible cells
    alone, ``(columns,)``.
    """
    possible = schema.possible
    out = np.zeros(len(table.columns), dtype=bool)
    for q in queries or (schema.query("total"),):
        pairs = np.unique(
            table.query.index[possible].astype(np.int64) * q.answers + q.index[possible]
        )
        mine, theirs = np.divmod(pairs, q.answers)
        every = np.bincount(theirs, minlength=q.answers)
        for j in range(len(out)):
            times = table.times(j)[mine]
            counted = np.bincount(theirs, weights=times > 0, minlength=q.answers)
            whole = ((counted == 0) | (counted == every)).all() and not table.repeats(j)
            out[j] |= bool(not times.any() or (queries and whole))
    return out
