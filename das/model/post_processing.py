"""What is done with measurements: all that comes after them needs of a specification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.not_private import Private
from das.model.query import Query
from das.model.universe import Universe

Method = Literal["topdown", "full-information"]
METHODS: tuple[str, ...] = get_args(Method)
BiasName = Literal["none", "corrected"]
OccupiedName = Literal["measured", "consistent"]
BIASES: tuple[str, ...] = get_args(BiasName)
#: Of more cells the normal matrix is not formed: it would be more than thirty megabytes, several
#: times over.
MANY = 2048


@dataclass(frozen=True)
class PostProcessing:
    """What post-processing needs to know. ``name`` is the run's. ``private`` says whether nobody
    else can draw its noise again. ``universes`` has persons first.

    ``method`` and ``tolerance`` are those of estimation; a later pass can move the answers of an
    earlier one by ``tolerance`` persons. ``bias`` says whether the persons of the lowest
    units are corrected for their size bias. ``occupied`` says whether occupied housing units are kept within what published persons
    allow. ``tables``, ``csv`` and ``report`` say what is written besides the microdata. It has no
    budgets."""

    name: str
    private: Private
    universes: tuple[Universe, ...]
    method: Method = "topdown"
    tolerance: float = 0.1
    tables: bool = True
    csv: bool = False
    report: bool = True
    bias: BiasName = "none"
    occupied: OccupiedName = "measured"

    @property
    def persons(self) -> Universe:
        return self.universes[0]

    def universe(self, name: str) -> Universe:
        """By its name."""
        for u in self.universes:
            if name == u.name:
                return u
        raise InputError(
            f"there is no universe {name!r}",
            remedy=f"it has {', '.join(u.name for u in self.universes)}",
        )


# The passes of a level where nobody names any: a rule from queries and variances alone, hence
# public.
#
# Non-negativity biases sums. Suppose that nobody is in most of a unit's cells. Their estimates are
# the positive parts of their noise, and sum to more than zero. This pulls a query over them away from
# its own measurement by up to :math:`z\,\sigma_q^2/\sigma_d`, with :math:`z` of 2 or 3. A query that
# is estimated in an earlier pass is free of this bias. The price is that it ignores its cells: they
# have :math:`n_q \sigma_d^2` against :math:`\sigma_q^2`, with :math:`n_q` cells to an answer. With
# :math:`g = n_q \sigma_d^2 / \sigma_q^2`, a separate pass has :math:`1 + 1/g` times the variance of
# both together. So a query is *precise* if g is at least 16 (3 % of a standard error). The cells here
# are those of the finest query of the level.
#
# * The total, if precise, has the first pass at every level, unless another query's sum says at least
# a quarter as much about it.
# * At the root, all other precise queries have the next pass, together. Further down, the sums over
# the children are given, and the cells where the parent has somebody. The bias is then within the
# noise, and estimating everything together gains more.
# * Everything else follows in one pass.
#
# This gives the passes that production chose for redistricting, level by level. Totals come first
# except at blocks, where the total is nearly all noise, and at the nation, where nothing is
# precise.

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


# What is assumed of the lowest units besides their measurements, in a few numbers.
#
# *Bias.* The people of a lowest unit are expected to be as those of its parent, and as many as its
# share of the parent's housing units, M, with variance :math:`a\,M + b\,M^2`. If everybody settled
# alone, a would be 1 and b 0. Families that live together raise a, and b is the square of the relative
# spread from place to place. :mod:`das.estimate.size_bias` estimates both and uses them.
#
# *Shares.* Some sums of a unit are known, such as its adults of one race. The cells of a sum are
# expected to have the parent's shares of it. If everybody settled alone, a cell with the share p of a
# sum n would have the variance :math:`n p (1 - p)`. It has a times that.
# :mod:`das.estimate.prior` estimates a and uses it.

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Dispersion:
    """Variance ``linear`` times the mean plus ``quadratic`` times its square."""

    linear: float
    quadratic: float

    def __post_init__(self) -> None:
        if (
            not (0 <= self.linear < np.inf and 0 <= self.quadratic < np.inf)
            or self.linear + self.quadratic == 0
        ):
            raise InputError(
                f"no variances come of {self.linear} and {self.quadratic}", where="dispersion"
            )

    def variance(self, mean: Array) -> Array:
        """Of counts with these expected values."""
        return self.linear * mean + self.quadratic * mean**2


@dataclass(frozen=True)
class BiasCorrection:
    """Counts of the lowest units are corrected for their size bias. ``spread``: of the people in
    households about their share of the housing units; ``None`` where housing units are not known.
    ``seen``: how many noisy answers it was estimated from."""

    spread: Dispersion | None = None
    seen: int = 0


@dataclass(frozen=True, eq=False)
class SharesPrior(Frozen):
    r"""People of a known sum are as in the parent. By pass and unit of ``level``, ``(passes,
    units)``: the ``spread`` a, the standard ``error`` of its estimate, and the number of noisy
    answers ``seen``."""

    level: str
    spread: Array
    error: Array
    seen: NDArray[np.int64]

    def __post_init__(self) -> None:
        if not (np.isfinite(self.spread) & (self.spread > 0)).all():
            raise InputError("a spread is not positive", where="prior of shares")

    def weight(self, number: int, unit: int, alone: float) -> float:
        r"""The weight of the distance of children from their shares in pass ``number``, below the
        given unit. ``alone``: the mean variance of a cell if everybody settled alone."""
        return float(1 / (self.spread[number, unit] * alone))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """For a file; without the level, which follows from the tree."""
        return {"spread": self.spread, "error": self.error, "seen": self.seen}
