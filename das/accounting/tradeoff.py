r"""The trade-off function of f-differential privacy: the least type II error of a test between
neighbors, at each level.

.. math:: f(\alpha) = \max_{\varepsilon \in \mathbb{R}} \; 1 - \delta(\varepsilon) - e^{\varepsilon} \alpha
                    = \max_{w > 0} G(w), \qquad w = e^{\varepsilon},

the convex dual of the profile (Dong, Roth and Su 2022, proposition 2.12). As P and Q are mirror
images, :math:`\delta(-\varepsilon) = 1 - e^{-\varepsilon}(1 - \delta(\varepsilon))`. Every epsilon
gives a lower bound. Delta is a convex function of w, so G is concave. For three points :math:`w_1 <
w_2 < w_3`, if G is certainly highest at the middle one,

.. math:: f(\alpha) \le G_2 + \max\Bigl((G_2 - G_1) \frac{w_3 - w_2}{w_2 - w_1}, (G_2 - G_3) \frac{w_2 - w_1}{w_3 - w_2}\Bigr),

by extending the chords. On a lattice G is linear between the losses, so the highest of those
between :math:`w_1` and :math:`w_3` is the maximum itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import exp, sqrt

from das.accounting.contour import UNIT
from das.accounting.document import Invariant
from das.accounting.draws import Composition, Draws, Exactly, compositions, exact
from das.accounting.profile import PrivacyProfile, log_of
from das.model.budget import Neighbours
from das.model.universe import kind_of

#: Losses listed on either side of the highest point, at most.
SIDE = 8


def tradeoff(draws: Draws | Composition, alphas: Iterable[Exactly]) -> list[tuple[float, float]]:
    """Intervals that contain f(alpha), for alphas in [0, 1]; some 1e-13 wide (absolute).

    >>> [(low, high)] = tradeoff([(Fraction(50), 10)], ["0.05"])
    >>> round(low, 6), high - low < 1e-11
    (0.884482, True)"""
    levels = [exact(a, "alpha") for a in alphas]
    if wrong := [a for a in levels if not 0 <= a <= 1]:
        raise ValueError(f"alpha is {wrong[0]}, not between 0 and 1")
    profiles = [PrivacyProfile(c) for c in compositions(draws)]
    found = [[_bounds(profile, a) for profile in profiles] for a in levels]
    return [(min(low for low, _ in at), min(high for _, high in at)) for at in found]


@dataclass(frozen=True)
class _Dual:
    """G at one alpha: bounds (low, middle, high) at an epsilon of either sign."""

    profile: PrivacyProfile
    alpha: Fraction

    def __call__(self, eps: Fraction) -> tuple[float, float, float]:
        at = self.profile.log_delta(abs(eps))
        low, middle, high = (self._value(eps, exp(x)) for x in (at.high, at.middle, at.low))
        slack = 8 * UNIT * (1 + abs(float(eps)) + abs(log_of(self.alpha))) * (self._line(eps) + 1)
        return low - slack, middle, high + slack

    def _value(self, eps: Fraction, delta: float) -> float:
        if eps >= 0:
            return 1 - delta - self._line(eps)
        return exp(float(eps)) * (float(1 - self.alpha) - delta)

    def _line(self, eps: Fraction) -> float:
        """e^eps alpha, at most e^700: beyond that the bound is far below 0 and useless anyway."""
        return exp(min(float(eps) + log_of(self.alpha), 700.0))


def _bounds(profile: PrivacyProfile, alpha: Fraction) -> tuple[float, float]:
    if alpha in (0, 1) or not profile.composition.every:
        return (float(1 - alpha),) * 2
    dual, k = _Dual(profile, alpha), 1
    first, last = _where(dual)
    top = _top(dual, float(first), float(last))
    low, _, high = dual(top)
    unit = _unit(dual, top)
    while True:
        left, right = dual(top - k * unit), dual(top + k * unit)
        if (left[2] <= low or top - k * unit <= first) and (
            right[2] <= low or top + k * unit >= last
        ):
            break
        k *= 2
    if profile.on_lattice(top) and k <= SIDE:
        return max(0.0, low), max(0.0, *(dual(top + i * unit)[2] for i in range(1 - k, k)))
    width = min(float(k * unit), 350.0)
    rise = max((high - left[0]) * exp(width), (high - right[0]) * exp(-width))
    return max(0.0, low), min(float(1 - alpha) * (1 + 4 * UNIT), high + max(0.0, rise))


def _where(dual: _Dual) -> tuple[Fraction, Fraction]:
    r"""Epsilons between which G is certainly highest.

    The slope of delta in w is :math:`-Q[L > \varepsilon]`, so that there :math:`Q[L > \varepsilon]
    \le \alpha \le Q[L \ge \varepsilon]`; and :math:`L + \rho` under Q exceeds x, or falls short of
    -x, with probability
    :math:`e^{-x^2/4\rho}` at most."""
    rho = dual.profile.composition.rho
    below, above = (
        Fraction(2 * sqrt(float(rho) * (1e-9 - log_of(a)))) for a in (1 - dual.alpha, dual.alpha)
    )
    return -rho - below, -rho + above


def _top(dual: _Dual, first: float, last: float) -> Fraction:
    """About where G is highest: by Brent's method; on a lattice, the best loss near."""
    import scipy  # slow to load

    found = scipy.optimize.minimize_scalar(
        lambda e: -dual(Fraction(e))[1],
        bounds=(first, last),
        method="bounded",
        options={"xatol": 1e-9 * (last - first)},
    )
    eps = Fraction(float(found.x))
    if not dual.profile.on_lattice(eps):
        return eps
    h, base = dual.profile.composition.step, dual.profile.composition.rho
    s = round((eps - base) / h)
    return max((base + h * i for i in (s - 1, s, s + 1)), key=lambda e: dual(e)[1])


def _unit(dual: _Dual, top: Fraction) -> Fraction:
    """The first distance to look left and right: one step of the lattice, or a small part of the
    width."""
    if dual.profile.on_lattice(top):
        return dual.profile.composition.step
    return Fraction(1e-9 * sqrt(2 * float(dual.profile.composition.rho)))


# What a reader of a privacy statement must know besides its numbers.

#: Sentences for a spine on which only children are bypassed.
BYPASSED = (
    (
        "The measured tree is not that of the tables; it is in 'spine.parquet', next to each"
        " universe's measurements. It depends on public geography and on which places have"
        " structures. For persons it also depends on which types of facilities places have. So it"
        " makes these facts public, exactly."
    ),
    (
        "A unit with one child is measured with the share of both, and the child is not measured."
        " So the measurements that count a record depend on its place: each of 'paths' has the"
        " classes of units from the root to a place. Every path costs the same rho, but not the"
        " same epsilon. Each epsilon is the largest between any two places, which 'between' names."
    ),
    (
        "Under 'changes' each line holds for the places where it costs most. The Census Bureau's"
        " published statements for 2020 by attribute are for the path without only children. They"
        " are not upper bounds: elsewhere an attribute costs more."
    ),
    (
        "A place with land in both branches of the tree is two of its units. A change of 'place"
        " within one' unit of a level stays within one of these."
    ),
)


#: For neighbors that differ by one record added or removed.
_BOTH = (
    "A record that changes is one record removed and one added: each line under 'changes' in"
    " privacy.json counts both."
)
#: For a change of a record that the exact counts would show.
_PRICED = "for it, the lines under 'changes' in privacy.json price the noise, and not what"
#: Sentences for any release.
_ALWAYS = (
    (
        "Data sets that are called neighbors always agree on the lists of places"
        " (spine.parquet) and of areas across them (areas.parquet). 'neighbours_of' says what"
        " else they agree on: each guarantee holds between its own."
    ),
    (
        "The bits of the noise come from a cryptographic generator: the guarantee is"
        " computational, as with any such."
    ),
    ("This is the cost of this release alone. Other releases from the same records add their own."),
)


def meaning(
    neighbours: Neighbours,
    outside: Sequence[Invariant],
    universes: Sequence[str],
    *,
    bypassed: bool = False,
) -> list[str]:
    """Sentences for any release, then for one with these neighbors, exact counts and universes,
    persons first. ``bypassed``: whether only children are not measured."""
    out = list(_ALWAYS)
    out += BYPASSED if bypassed else ()
    if neighbours is Neighbours.UNBOUNDED:
        out.append(_BOTH)
    out += [kind_of(u).together for u in universes[1:]]
    if neighbours is Neighbours.UNBOUNDED and any(c.sign == "=" for c in outside):
        out.append(
            "No two data sets that differ by one record added or removed agree on totals that are"
            " invariant: with these, the guarantee is that of the noise, not of the release."
        )
    out += [
        f"A record of {kind_of(c.universe).records} that moves from one {c.level} to another"
        f" changes a total that is invariant: {_PRICED} the totals themselves give away."
        for c in outside
        if c.constraint in ("total", "joint_total")
    ]
    out += [
        f"A record of {kind_of(c.universe).records} that changes its {c.query}, or moves from one"
        f" {c.level} to another, changes a count that is invariant: {_PRICED} these counts"
        " themselves give away."
        for c in outside
        if c.sign == "=" and c.query != "total"
    ]
    bounded = dict.fromkeys((c.universe, c.query, c.level) for c in outside if c.sign != "=")
    out += [
        f"A record of {kind_of(universe).records} that changes its {query}, or moves from one"
        f" {level} to another, may no longer fit bounds that are published exactly: {_PRICED} the"
        " bounds give away."
        for universe, query, level in bounded
    ]
    return out
