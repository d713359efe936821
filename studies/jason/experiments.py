"""The experiments of JASON on the attack of Dinur and Nissim: figures 4-1, 4-2 (and 4-3), 4-4 and
5-7 of JSR-19-2F.

Each trial draws a secret and queries anew, as theirs do. Within a trial the queries of a larger
number include those of a smaller one: the law of each point is theirs, and the queries are asked
once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.errors import InputError
from studies.jason.bits import (
    NOISELESS,
    Attack,
    Noise,
    determined,
    laplace,
    of_the_listing,
    of_the_text,
    predicted,
)

#: Figure 5-7: appendix B, listing 5.
EPSILONS = (0.01, 0.02, 0.03, 0.04, 0.05, 0.1, 0.2, 0.25, 0.3, 0.4, 0.5, 1.0)
MULTIPLES = (1, 5, 10, 20)
#: All bits count as recovered where the mean fraction is within this of 1 (listing 1, line 133).
WHOLE = 1e-3


@dataclass(frozen=True)
class Point:
    """Fractions of bits recovered over the trials: mean, deciles, extremes. ``theory`` is the
    fraction predicted or, without noise, the probability that all bits are determined. ``epsilon``
    is that of one query, ``total`` that of all by simple composition."""

    bits: int
    queries: int
    noise: str
    epsilon: float | None
    total: float | None
    trials: int
    mean: float
    p10: float
    p50: float
    p90: float
    least: float
    most: float
    theory: float | None


@dataclass(frozen=True)
class Needed:
    """How many queries recover all bits: the least number whose mean fraction is 1 to within 0.1%.
    ``theory``: the least number that determines them with probability 1/2."""

    bits: int
    queries: int
    per_bit: float
    trials: int
    theory: int


Noises = Callable[[int], Sequence[Noise]]


def curve(
    bits: int, queries: Sequence[int], noises: Noises, trials: int, rng: np.random.Generator
) -> list[Point]:
    """The fraction recovered of ``bits`` bits after each number of ``queries``, under each
    noise.
    """
    if bits < 2 or trials < 1 or not queries or min(queries) < 1:
        raise InputError(
            f"{bits} bits, {trials} trials, queries {list(queries)[:3]}...",
            where="reconstruction",
            remedy="at least 2 bits, 1 trial and 1 query",
        )
    steps, kinds = sorted(set(queries)), tuple(noises(bits))
    found = np.empty((trials, len(steps), len(kinds)))
    for trial in found:
        attack = Attack(rng.integers(0, 2, bits), kinds)
        for at, m in enumerate(steps):
            attack.ask(rng, m - attack.queries)
            trial[at] = attack.recovered()
    return [
        _point(bits, m, k, found[:, i, j]) for j, k in enumerate(kinds) for i, m in enumerate(steps)
    ]


def figure_4_1(trials: int, rng: np.random.Generator, *, bits: int = 1000) -> list[Point]:
    """Without noise: 1000 bits, up to 0.7 queries a bit."""
    steps = sorted(
        {max(1, round(bits * x)) for x in np.linspace(0.05, 0.7, 14)}
        | {round(bits * 0.475), round(bits * 0.525)}
    )
    return curve(bits, steps, lambda _: (NOISELESS,), trials, rng)


def figure_4_2(
    trials: int, rng: np.random.Generator, *, sizes: Sequence[int] = tuple(range(100, 1001, 100))
) -> list[Needed]:
    """Without noise: queries that recover all bits, by number of bits. Found by bisection, since
    the mean grows.
    """
    out = []
    for bits in sizes:
        low, high = 0, bits  # n queries determine n bits
        while high - low > 1:
            middle = (low + high) // 2
            whole = curve(bits, [middle], lambda _: (NOISELESS,), trials, rng)[0].mean > 1 - WHOLE
            low, high = (low, middle) if whole else (middle, high)
        out.append(Needed(bits, high, high / bits, trials, (bits + 2) // 2))
    return out


def slope(needed: Sequence[Needed]) -> float:
    """Of the straight line through the queries needed, by least squares: queries for one more
    bit.
    """
    return float(np.polyfit([p.bits for p in needed], [p.queries for p in needed], 1)[0])


def figure_4_4(
    trials: int,
    rng: np.random.Generator,
    *,
    sizes: Sequence[int] = (10, 40, 100),
    most: int = 10_000,
) -> list[Point]:
    """Normal noise, by the text and by the listing, which differ: 10, 40 and 100 bits, up to 10,000
    queries.
    """
    steps = [int(m) for m in np.unique(np.geomspace(10, most, 25).round())]
    return [
        p
        for n in sizes
        for p in curve(n, steps, lambda b: (of_the_text(b), of_the_listing(b)), trials, rng)
    ]


def figure_5_7(
    trials: int,
    rng: np.random.Generator,
    *,
    bits: int = 4000,
    epsilons: Sequence[float] = EPSILONS,
    multiples: Sequence[int] = MULTIPLES,
) -> list[Point]:
    """Laplace noise: 4000 bits, ``epsilon`` for each query, numbers of queries as multiples of the
    bits.
    """
    return curve(
        bits, [bits * k for k in multiples], lambda _: [laplace(e) for e in epsilons], trials, rng
    )


def _point(bits: int, queries: int, noise: Noise, found: NDArray[np.float64]) -> Point:
    p10, p50, p90 = (float(v) for v in np.quantile(found, (0.1, 0.5, 0.9)))
    theory = (
        determined(bits, queries)
        if noise.kind == "none"
        else predicted(bits, queries, noise.deviation)
    )
    total = noise.epsilon * queries if noise.epsilon is not None else None
    return Point(
        bits,
        queries,
        noise.name,
        noise.epsilon,
        total,
        len(found),
        float(found.mean()),
        p10,
        p50,
        p90,
        float(found.min()),
        float(found.max()),
        theory,
    )
