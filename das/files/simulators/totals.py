"""The public totals that a simulated nation follows: how many units each state has, and who lives
in each county.

They come with the package (``states_2020.csv``, ``counties_2020.csv``, whose first lines name their
sources). A state can be made smaller: of everything the share that is asked for, of counties the
largest ones that have two tracts each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

import numpy as np
import pandas as pd

from das.errors import InputError
from das.files.simulators.people import Floats, Ints
from das.model.names import STATES, State

#: Columns of ``counties_2020.csv``: the six races, each alone.
RACES = ["white", "black", "aian", "asian", "nhpi", "other"]
#: In a state, however small the share.
LEAST = {"tracts": 2, "block_groups": 4, "blocks": 60}
LEAST_PERSONS = 600


@dataclass(frozen=True, eq=False)
class StateTotals:
    """What a simulated state has. Arrays are ``(counties,)``, in the order of ``county``, the codes
    of the counties as numbers; ``races`` ``(counties, 6)`` persons of each race alone. ``seats``:
    districts of each kind."""

    state: State
    tracts: int
    groups: int
    blocks: int
    seats: Mapping[str, int]
    county: Ints
    persons: Ints
    adults: Ints
    hispanic: Ints
    races: Ints
    quarters: Ints
    units: Ints
    occupied: Ints


def share_out(
    total: int, weight: Floats | Ints, least: Ints | int = 0, most: Ints | int | None = None
) -> Ints:
    """``total`` things in proportion to ``weight``, by largest remainders, from ``least`` to
    ``most`` to each.

    ``total`` is between the sums of both, or ends there.

    >>> share_out(10, np.array([5.0, 3.0, 2.0, 0.0]), least=1)
    array([4, 3, 2, 1])
    """
    out = np.zeros(len(weight), dtype=np.int64) + least
    limit = (
        np.full(len(weight), np.iinfo(np.int64).max)
        if most is None
        else np.zeros(len(weight), dtype=np.int64) + most
    )
    while (left := total - int(out.sum())) > 0:
        open_ = np.where(out < limit, weight, 0.0)
        if not open_.any():
            open_ = (out < limit).astype(float)
        if not open_.any():
            break
        part = open_ / open_.sum() * left
        whole = np.minimum(np.floor(part).astype(np.int64), limit - out)
        short = left - int(whole.sum())
        next_ = np.argsort(whole - part, kind="stable")[:short]
        whole[next_] += (out + whole < limit)[next_] & (open_[next_] > 0)
        out += whole
    return out


@cache
def _tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """The packaged tables: states by postal abbreviation, counties by number."""
    here = Path(__file__).parent
    states = pd.read_csv(here / "states_2020.csv", comment="#").set_index("usps")
    return states, pd.read_csv(here / "counties_2020.csv", comment="#")


def chosen(states: Sequence[str] | None) -> list[State]:
    """The states asked for, in the order of their FIPS codes; all where none are. Raises
    :class:`InputError` for a code of none."""
    known = {s.usps: s for s in STATES if s.division}
    if wrong := [s for s in states or () if s not in known]:
        raise InputError(
            f"{wrong[0]!r} is no state",
            where="--states",
            remedy="give postal abbreviations of the 50 states and DC, as RI,TX",
        )
    return [s for usps, s in known.items() if not states or usps in states]


def totals(state: State, share: float = 1.0) -> StateTotals:
    """The totals of a state, or of the share of it that is to be simulated.

    Raises :class:`InputError` unless 0 < ``share`` <= 1.
    """
    if not 0 < share <= 1:
        raise InputError(
            f"a share of {share}", where="--share", remedy="give more than 0, and at most 1"
        )
    states, counties = _tables()
    row = states.loc[state.usps]
    tracts, groups, blocks = (max(n, round(share * int(row[name]))) for name, n in LEAST.items())
    here = counties[counties["county"] // 1000 == int(state.fips)]
    kept = np.sort(np.argsort(-here["persons"].to_numpy(), kind="stable")[: max(1, tracts // 2)])
    at = {name: here[name].to_numpy()[kept] for name in here.columns}
    whole = at["persons"]
    scale = max(LEAST_PERSONS, round(share * int(here["persons"].sum()))) / int(whole.sum())
    persons = share_out(round(scale * int(whole.sum())), whole, least=1)
    part = {
        name: np.round(count * (persons / whole)).astype(np.int64)
        for name, count in at.items()
        if name != "county"
    }
    all_units, all_occupied = (
        max(1, round(share * int(here[name].sum()))) for name in ("units", "occupied")
    )
    units = share_out(all_units, at["units"], least=1)
    occupied = share_out(all_occupied, at["occupied"], most=units)
    seats = {"CD": "districts", "SLDU": "upper", "SLDL": "lower"}
    return StateTotals(
        state,
        tracts,
        groups,
        blocks,
        {kind: ceil(share * int(row[name])) for kind, name in seats.items()},
        at["county"] % 1000,
        persons,
        part["adults"],
        part["hispanic"],
        np.stack([part[r] for r in RACES], axis=1),
        np.minimum(part["quarters"], persons - 1),
        units,
        occupied,
    )
