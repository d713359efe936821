r"""The numbers of the working prior (:mod:`das.model.post_processing`), estimated from the noisy measurements
themselves.

Let :math:`\hat x_c` be the least-squares estimate from a child's own measurements, on the household
cells where its parent has somebody. Let its noise in a group A of cells have the variance
:math:`\sigma_A^2`, and let :math:`\mu_A = w_c\,p_A` be the expected count. Let a child vary by
:math:`V_A = a\,\mu_A + b\,\mu_A^2`. Given that the children sum to their parent, it varies by
:math:`(1 - w_c)\,V_A` about :math:`\mu_A` (exactly, if variances are proportional to shares). With
:math:`r = \hat x_{cA} - \mu_A`

.. math:: E\,r^2 - \sigma_A^2 = (1 - w_c)(a\,\mu_A + b\,\mu_A^2).

For each query this is a linear regression over all children and groups. a and b are its weighted
least-squares estimates, not below zero, iterated until they settle. Each square has the inverse of
its variance as weight, :math:`T^{-2}` with :math:`T = (1 - w_c) V_A + \sigma_A^2`. One answer can
be a thousand standard deviations off (a barracks counted as housing). So a square counts as at most
c T, with c = 9. All squares are multiplied by :math:`1 / E \min(z^2, c)`, which makes this correct
for normal errors.

An answer of a query (a race, say) has its own numbers if they determine its variance well enough.
The standard error must be below a quarter of the variance, at the average size where the answer's
people are expected. The other answers share their numbers.

The only inputs are noisy measurements, published counts and bounds. So this is post-processing and
costs nothing, and the same release gives the same numbers. In a large level a sample of the
families is enough, one at every so-many-th place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields
from math import ceil, erf, exp, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from das.engine import in_order
from das.errors import InputError
from das.estimate.asking import Message
from das.estimate.batch import families
from das.estimate.family import Family
from das.estimate.least_squares import MANY, normal_equations
from das.estimate.prior import Households, as_kinds, in_detail
from das.model.constraint import NO_LIMIT, Bounds, LevelBounds
from das.model.histogram import Histogram
from das.model.measurement import MeasurementSource
from das.model.post_processing import Dispersion, HousingPrior, QuerySpreads
from das.model.query import DETAILED
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.solve import Partitions

Array = NDArray[np.float64]

#: About so many children are looked at, in so many parts of the level or more.
_ENOUGH, _PARTS = 1 << 15, 64
#: The largest square that counts in full, in variances; and how well an answer's variance must be
#: known for it to have its own numbers.
_MOST, _KNOWN = 9.0, 0.25
#: A child with a larger share of the housing units says nothing about the spread.
_ALL = 0.95
_ROUNDS, _SETTLED = 100, 1e-6
#: The default where nothing is known: families of three, with some spread between places.
_DEFAULT = Dispersion(3.0, 0.1)


@dataclass(frozen=True, eq=False)
class DispersionSample(Message):
    """Noisy answers, ``(n,)`` each: the number of the ``query`` (:func:`nested_queries`), which
    ``answer`` it is, its expected ``mean``, how far it is ``off``, and the variance of its
    ``noise``. ``free`` is the part of its variance that remains when the sum of all children is
    given."""

    query: NDArray[np.int8]
    answer: NDArray[np.intp]
    mean: Array
    off: Array
    noise: Array
    free: Array

    @staticmethod
    def concatenate(parts: Sequence[DispersionSample]) -> DispersionSample:
        return DispersionSample(
            *(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(DispersionSample))
        )

    @staticmethod
    def nothing() -> DispersionSample:
        return DispersionSample(
            np.zeros(0, dtype=np.int8), np.zeros(0, dtype=np.intp), *(np.zeros(0) for _ in range(4))
        )

    def __len__(self) -> int:
        return len(self.mean)

    def some(self, keep: NDArray[np.bool_]) -> DispersionSample:
        return DispersionSample(*(getattr(self, f.name)[keep] for f in fields(self)))


def nested_queries(universe: Universe, measured: Sequence[str]) -> tuple[str, ...]:
    """The queries by which households of a universe spread, coarse to fine: the total, those whose
    sums its rounding keeps or, without such, the ``measured`` ones that nest, coarse ones first,
    and the cells. The dwelling is left out of them."""
    schema = universe.schema
    names = universe.chain[::-1] or sorted(measured, key=lambda q: schema.query(q).answers)
    out, cells = (
        ["total"],
        schema.cells
        // (1 if schema.dwelling is None else len(schema.attribute(schema.dwelling).levels)),
    )
    for name in names:
        factors = [
            f
            for f in name.split(" * ")
            if f not in ("total", DETAILED) and not _of_dwelling(schema, f)
        ]
        query = " * ".join(factors) or "total"
        coarser, finer = schema.query(out[-1]), schema.query(query)
        if coarser.sums(finer) and coarser.answers < finer.answers < cells:
            out.append(query)
    return (*out, DETAILED)


def _of_dwelling(schema: Schema, factor: str) -> bool:
    grouped = {g.name: g.attribute for g in schema.recodes}
    return grouped.get(factor, factor) == schema.dwelling


def find(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    universe: Universe,
    parents: Histogram,
    pool: Executor,
) -> HousingPrior:
    """The prior of the lowest level, of whose units ``parents`` are the published parents.

    Raises:
        InputError: the detailed query is not measured there, or housing units are not known.
    """
    return prior_of(
        universe,
        source.queries(spine.levels[-1]),
        [sample(source, spine, bounds, universe, parents, pool)],
    )


def sample(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    universe: Universe,
    parents: Histogram,
    pool: Executor,
    *,
    lowest: int | None = None,
) -> DispersionSample:
    """A sample of noisy answers from the lowest level of a tree, or of a subtree of it. The whole
    tree has ``lowest`` such units, which decides how many families are skipped. Only the subtree
    decides which families are sampled. Raises as :func:`find`."""
    measured = source.queries(spine.levels[-1])
    check(universe, measured, bounds)
    queries, units = nested_queries(universe, measured), lowest or spine.units(spine.levels[-1])
    return DispersionSample.concatenate(
        list(
            in_order(
                pool,
                _sample,
                _pieces(source, spine, bounds, universe.schema, queries, parents, units),
            )
        )
    )


def prior_of(
    universe: Universe, measured: Sequence[str], samples: Sequence[DispersionSample]
) -> HousingPrior:
    """From all samples at a tree, in the order of its subtrees; ``measured`` are the queries of its
    lowest level.
    """
    seen = DispersionSample.concatenate(samples)
    queries = nested_queries(universe, measured)
    return HousingPrior(
        tuple(query_spreads(name, seen.some(seen.query == i)) for i, name in enumerate(queries))
    )


def check(universe: Universe, measured: Sequence[str], bounds: LevelBounds) -> None:
    """Raises :class:`InputError` where there is nothing to rest the prior on."""
    where = "prior = 'housing'"
    if DETAILED not in measured:
        raise InputError(
            f"the detailed query of {universe.name} is not measured at the lowest level",
            where=where,
            remedy="measure 'detailed' there, or do without a prior",
        )
    if universe.schema.dwelling is None or (bounds.limits.upper >= NO_LIMIT).any():
        raise InputError(
            "how many housing units and facilities each lowest unit has is not known of"
            f" {universe.name}",
            where=where,
            remedy="bound them by both, or do without a prior",
        )


def query_spreads(query: str, seen: DispersionSample) -> QuerySpreads:
    """The spreads of one query: its own for each answer that is known well enough, and a common one
    for the others.
    """
    own: dict[int, Dispersion] = {}
    rest = np.ones(len(seen), dtype=bool)
    answers = np.unique(seen.answer)
    for a in answers.tolist() if len(answers) > 1 else ():
        here = seen.answer == a
        if (found := _known(seen.some(here))) is not None:
            own[a] = found
            rest &= ~here
    common = _fit(seen.some(rest) if rest.any() else seen)[0]
    return QuerySpreads(query, common, own, len(seen))


def _known(seen: DispersionSample) -> Dispersion | None:
    """The spread of one answer, if it is known well enough."""
    spread, covariance = _fit(seen)
    size = float((seen.mean**2).sum() / seen.mean.sum())  # where people are expected to be
    at = np.array([size, size**2])
    variance = spread.linear * size + spread.quadratic * size**2
    return spread if float(at @ covariance @ at) ** 0.5 < _KNOWN * variance else None


def _fit(seen: DispersionSample) -> tuple[Dispersion, Array]:
    """a and b, and the covariance of their errors; the default if nothing is seen to spread."""
    x = np.stack([seen.mean, seen.mean**2], axis=1) * seen.free[:, None]
    scale = np.maximum(x.max(axis=0, initial=0.0), 1e-300)
    ab = np.array([_DEFAULT.linear, _DEFAULT.quadratic])
    for _ in range(_ROUNDS):
        total = x @ ab + seen.noise
        y = (np.minimum(seen.off**2, _MOST * total) / _WINSORISED - seen.noise) / total
        scaled = x / scale / total[:, None]
        normal, before = scaled.T @ scaled, ab
        ab = _least_squares(normal, scaled.T @ y) / scale
        if np.abs(ab - before).max() <= _SETTLED * ab.max():
            break
    if not ab.any():
        return _DEFAULT, np.full((2, 2), np.inf)
    return Dispersion(*ab.tolist()), 2.0 * np.linalg.pinv(normal) / np.outer(scale, scale)


def _least_squares(normal: Array, rhs: Array) -> Array:
    """Least squares for two unknowns, neither below zero."""
    both = np.linalg.pinv(normal) @ rhs
    if (both >= 0).all():
        return np.asarray(both)
    alone = np.maximum(rhs / np.diag(normal), 0.0)
    gain = alone * rhs
    return np.where(np.arange(2) == gain.argmax(), alone, 0.0)


def _winsorised(c: float) -> float:
    """E min(z^2, c) of a standard normal z."""
    tail, density = 1.0 - erf(sqrt(c / 2)), exp(-c / 2) / sqrt(2 * pi)
    return 1.0 - tail - 2 * sqrt(c) * density + c * tail


_WINSORISED = _winsorised(_MOST)


# --- looking


@dataclass(frozen=True, eq=False)
class _Piece:
    """Families of a slice of units, for one worker, which samples every ``step``-th. It has only
    published values.
    """

    source: MeasurementSource
    schema: Schema
    level: str
    queries: tuple[str, ...]
    parents: Histogram
    starts: NDArray[np.int64]
    bounds: Bounds
    step: int


def _pieces(
    source: MeasurementSource,
    spine: Spine,
    bounds: LevelBounds,
    schema: Schema,
    queries: tuple[str, ...],
    parents: Histogram,
    lowest: int,
) -> Iterator[_Piece]:
    level, starts = spine.levels[-1], spine.children(spine.levels[-1])
    slices = list(spine.batches(level, sum(schema.query(q).answers for q in source.queries(level))))
    every, parts = ceil(lowest / _ENOUGH), ceil(_PARTS * spine.units(level) / lowest)
    skip = max(1, min(every, len(slices) // parts))
    for start, stop in slices[::skip]:
        first, last = (int(i) for i in np.searchsorted(starts, [start, stop]))
        yield _Piece(
            source.part(level, start, stop),
            schema,
            level,
            queries,
            parents.rows(first, last),
            starts[first : last + 1],
            bounds.rows(start, stop),
            ceil(every / skip),
        )


def _sample(piece: _Piece) -> DispersionSample:
    out = [DispersionSample.nothing()]
    each = families(
        piece.source, piece.schema, piece.level, piece.parents, piece.starts, piece.bounds
    )
    for i, family in enumerate(each):
        if i % piece.step == 0 and len(family.cell):
            out += _seen(family.some(family.able), piece.queries)
    return DispersionSample.concatenate(out)


def _seen(family: Family, queries: tuple[str, ...]) -> Iterator[DispersionSample]:
    """The samples of a family, by query; none if it shows nothing."""
    lives = Households.from_family(family, queries)
    if lives is None or len(family.cell) > MANY:
        return
    measured = [
        (a.query.index[family.cell], a.values, a.variance)
        for a in map(family.answers, family.queries)
    ]
    gram, rhs = normal_equations(measured)
    assert not isinstance(gram, Partitions), "families with that many cells are skipped"
    known = in_detail(family)
    own, noise = lives.measured(as_kinds(gram, len(rhs)), rhs, known)
    use = known & (lives.share > 0) & (lives.share < _ALL)
    for i, answer in enumerate(lives.answer):
        mean, off = lives.sums(lives.mean, i)[use], lives.sums(own - lives.mean, i)[use]
        free = np.repeat(1.0 - lives.share[use], len(answer))
        number = np.full(mean.size, i, dtype=np.int8)
        yield DispersionSample(
            number,
            np.tile(answer, int(use.sum())),
            mean.ravel(),
            off.ravel(),
            noise[i][use].ravel(),
            free,
        )
