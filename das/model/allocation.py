"""Shares of a budget, exactly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from das.errors import SpecError
from das.model.exact import exact
from das.model.frozen import Frozen

#: An exact number, and shares by name; a list of names has equal shares.
Exactly = Fraction | int | str
Shares = Mapping[str, Exactly] | Sequence[str]


@dataclass(frozen=True)
class Allocation(Frozen):
    """Shares of a budget: each level's share of the total, and each query's share of its level."""

    levels: Mapping[str, Fraction]
    queries: Mapping[str, Mapping[str, Fraction]]

    def __post_init__(self) -> None:
        _shares("budget.levels", self.levels)
        if missing := [lv for lv in self.levels if lv not in self.queries]:
            raise SpecError(
                f"no queries for level {missing[0]!r}",
                where="budget.queries",
                remedy=f"add a table [budget.queries.{missing[0]}]",
            )
        if extra := [lv for lv in self.queries if lv not in self.levels]:
            raise SpecError(
                f"queries for level {extra[0]!r}, which has no share",
                where=f"budget.queries.{extra[0]}",
                remedy=f"add {extra[0]} to [budget.levels], or delete the table",
            )
        for level, shares in self.queries.items():
            _shares(f"budget.queries.{level}", shares)

    @staticmethod
    def of(levels: Shares, queries: Shares | Mapping[str, Shares]) -> Allocation:
        """From exact numbers as people write them. ``queries`` hold at every level, or are given by
        level.
        """
        of_level = _exact_shares(levels, "levels")
        given = _by_level(queries)
        of_query = {
            level: _exact_shares(
                queries if given is None else given.get(level, ()), f"queries of {level}"
            )
            for level in of_level
        }
        _shares("plan, shares of levels", of_level)
        for level, shares in of_query.items():
            _shares(f"plan, shares of queries at {level}", shares)
        if given and (odd := set(given) - set(of_level)):
            raise SpecError(
                f"queries for {sorted(odd)[0]!r}, which has no share",
                where="plan",
                remedy="add it to levels",
            )
        return Allocation(of_level, of_query)


def _shares(where: str, shares: Mapping[str, Fraction]) -> None:
    for key, value in shares.items():
        if not isinstance(value, Fraction):
            raise SpecError(
                f"{key!r} is a {type(value).__name__}, not an exact fraction", where=where
            )
        if value <= 0:
            raise SpecError(f"the share of {key!r} is {value}, not positive", where=where)
    if (total := sum(shares.values(), Fraction(0))) != 1:
        raise SpecError(
            f"the shares sum to {total} (about {float(total):.6g}), not to exactly 1",
            where=where,
            remedy='shares are exact fractions such as "104/4099"; fix the one that is wrong',
        )


def _by_level(queries: Shares | Mapping[str, Shares]) -> Mapping[str, Shares] | None:
    """What is given by level, if all of it is."""
    if not isinstance(queries, Mapping):
        return None
    given = {level: q for level, q in queries.items() if isinstance(q, Mapping | list | tuple)}
    return given if len(given) == len(queries) else None


def _exact_shares(shares: Mapping[str, object] | Sequence[str], what: str) -> dict[str, Fraction]:
    if isinstance(shares, str) or not shares:
        raise SpecError(
            f"{what} are {shares!r}", where="plan", remedy="list them, or give each its share"
        )
    if isinstance(shares, Mapping):
        return {name: number(share, f"{what}, {name!r}") for name, share in shares.items()}
    return {name: Fraction(1, len(shares)) for name in shares}


def number(value: object, what: str) -> Fraction:
    """An exact number of a plan. Raises :class:`SpecError`."""
    try:
        return exact(value)
    except ValueError as error:
        raise SpecError(str(error), where=f"plan, {what}") from None
