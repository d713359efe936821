"""Exact accounting: seconds and certified widths on the 2020 allocations, next to Google's
dp-accounting, and a comparison with convolution on random compositions.

The allocations are Su, Su and Wang's (eight levels of ten queries), and the redistricting plan of
``configs/pl94-2010.toml``: 65 queries whose losses are on no lattice that could be listed.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Sequence
from fractions import Fraction
from math import inf

from benchmarks.common import CONFIG, Figures, timed
from das.accounting import Composition, calibrate, curve, delta, epsilon, worst
from das.accounting.draws import Differing, changed
from das.accounting.guarantee import combine
from das.accounting.profile import worst_epsilon
from das.accounting.sources import joint_account
from das.accounting.sources import relations as named_relations
from das.accounting.worst import WorstLoss
from das.files import packaged
from das.model.plan import Plan
from das.release.privacy_sources import SourceReader
from das.spec import parse
from tests.accounting.oracle_convolution import Convolution
from tests.oracles import as_mpf

DELTAS = ("1e-5", "1e-10", "1e-15", "1e-20", "1e-30")
SHARES = ("2", "27.4", "8.5", "13.1", "13.1", "23.8", "11.8", "0.3")
LEVELS = [(1 / (2 * Fraction("3.65") * Fraction(s) / 1000), 10) for s in SHARES]

Pairs = Sequence[tuple[Fraction, int]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--compositions", type=int, default=300, help="random ones held against convolution"
    )
    args = parser.parse_args()
    figures = Figures("accounting")
    tabulation = parse(
        CONFIG.read_text(encoding="utf-8"),
        where=str(CONFIG),
        overrides=["geography.spine=tabulation"],
    )
    plan = tabulation.persons.plan
    allocations: dict[str, tuple[list[tuple[Fraction, int]] | Composition, float]] = {
        "one level, 10 queries": (LEVELS[:1], 0.05),
        "eight levels, 80 queries": (LEVELS, 0.05),
        "redistricting, 65 queries, replace-one": (Composition.from_draws(plan), 1.0),
    }
    for name, (draws, limit) in allocations.items():
        found = curve(draws, DELTAS)
        clock = timed(lambda draws=draws: [epsilon(draws, d) for d in DELTAS], args.repeats)  # type: ignore[misc]
        width = max(high - low for low, high in found)
        figures(
            f"one epsilon: {name}", clock.cpu / len(DELTAS), "s", at_most=limit, epsilon=found[1][0]
        )
        figures(f"width of epsilon, delta 1e-5 to 1e-30: {name}", width, "", at_most=1e-10)
    clock = timed(lambda: calibrate(plan, "17.14", "1e-10"), args.repeats)
    figures("calibration of the redistricting plan to (17.14, 1e-10)", clock.cpu, "s", at_most=10)
    all_conceivable(figures, plan, args.repeats)
    census_2020(figures, args.repeats)
    beside_google(figures, args.repeats)
    against_convolution(figures, args.compositions)


def all_conceivable(figures: Figures, plan: Plan, repeats: int) -> None:
    """The worst of all pairs of places of an optimized spine, with a housing unit added: time as a
    multiple of that of one composition of as many draws."""
    spec = parse(
        CONFIG.read_text(encoding="utf-8"),
        where=str(CONFIG),
        overrides=["geography.spine=optimized"],
    )
    persons, housing = (changed(u.plan) for u in spec.universes)
    one = timed(lambda: [epsilon(plan, d) for d in DELTAS], repeats).cpu / len(DELTAS)
    for name, found in (
        ("528 pairs of places", persons),
        ("528 squared, with housing units", combine([persons, housing])),
    ):
        clock = timed(lambda found=found: [_searched(found, Fraction(d)) for d in DELTAS], repeats)  # type: ignore[misc]
        at = worst_epsilon(found, Fraction("1e-10"))
        figures(
            f"epsilon of the worst of {name}, as a multiple of one composition",
            clock.cpu / len(DELTAS) / one,
            "times",
            at_most=25,
            epsilon=at.high,
            width=at.high - at.low,
        )


def census_2020(figures: Figures, repeats: int) -> None:
    """All seven publications of the 2020 Census together, for every relation."""
    path = packaged.accounts()["census-2020"]
    relations = named_relations()
    sources = SourceReader(relations).json(path).sources
    clock = timed(lambda: joint_account(sources, relations, Fraction("1e-10")), repeats)
    found = joint_account(sources, relations, Fraction("1e-10"))
    case = found.relations[0].cases[0]
    figures(
        "one account of the seven publications of 2020, all relations",
        clock.cpu,
        "s",
        at_most=10,
        relation=found.relations[0].name,
        rho=str(case.rho),
        epsilon=[f"{end:.9f}" for end in case.epsilon.pld],
        from_rho_alone=case.epsilon.tight,
    )


def _searched(found: Differing, d: Fraction) -> WorstLoss:
    """With nothing remembered."""
    worst._parts.cache_clear()
    return worst_epsilon(found, d)


def beside_google(figures: Figures, repeats: int) -> None:
    """The 80 queries by dp-accounting's privacy loss distributions: an upper bound, on a grid of
    1e-4.
    """
    name = "one epsilon by dp-accounting: eight levels, 80 queries"
    try:
        from dp_accounting.pld.privacy_loss_distribution import (
            from_discrete_gaussian_mechanism as one,
        )
    except ImportError:
        figures.skipped(name, "dp-accounting is not installed: pip install dp-accounting")
        return

    def composed():  # type: ignore[no-untyped-def]
        parts = [
            one(float(s) ** 0.5, value_discretization_interval=1e-4).self_compose(n)
            for s, n in LEVELS
        ]
        whole = parts[0]
        for part in parts[1:]:
            whole = whole.compose(part)
        return whole

    theirs, ours = composed(), curve(LEVELS, DELTAS)
    excess = [
        theirs.get_epsilon_for_delta(float(d)) - high
        for d, (_, high) in zip(DELTAS, ours, strict=True)
    ]
    clock = timed(composed, max(1, repeats // 2))
    finite = {d: x for d, x in zip(DELTAS, excess, strict=True) if x < inf}
    figures(
        name, clock.cpu, "s", above_ours=finite, infinite=[d for d in DELTAS if d not in finite]
    )


def against_convolution(figures: Figures, count: int) -> None:
    """Random compositions: whether the interval holds the oracle's delta, and the largest relative
    error.
    """
    rng, outside, worst = random.Random(1), 0, 0.0
    for _ in range(count):
        pairs = composition(rng)
        eps = Composition.from_draws(pairs).rho * Fraction(rng.randint(0, 60), 20)
        exact = Convolution(pairs).delta(eps)
        low, high = delta(pairs, eps)
        if exact > 1e-70:
            outside += not as_mpf(Fraction(low)) <= exact <= as_mpf(Fraction(high))
            worst = max(worst, float(abs((low + high) / 2 / exact - 1)))
    figures("intervals that miss the value by convolution", outside, f"of {count}", at_most=0)
    figures("largest relative error of delta against convolution", worst, "", at_most=1e-12)


def composition(rng: random.Random) -> Pairs:
    scales = [
        Fraction(a, b)
        for a, b in [
            (1, 8),
            (1, 6),
            (1, 3),
            (1, 2),
            (1, 1),
            (4, 3),
            (2, 1),
            (3, 1),
            (6, 1),
            (12, 1),
        ]
    ]
    return [(s, rng.randint(1, 4)) for s in rng.sample(scales, rng.randint(1, 3))]


if __name__ == "__main__":
    main()
