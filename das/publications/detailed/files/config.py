"""``config.json``: budgets, thresholds and switches. Numbers are taken as the decimals that are
written, never as floats."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from das.errors import InputError
from das.files.delimited import Faults, distinct, text
from das.model.exact import exact
from das.model.mechanisms import MECHANISMS, Mechanism
from das.model.names import STATES
from das.publications.detailed.model.iterations import RACE_CODES, REGIONS, GroupLevel
from das.publications.detailed.model.tables import PRODUCTS, AdaptiveTable, Product

FILE = "config.json"
#: The definitions of privacy: whether the noise must be one with a delta of 0.
DEFINITIONS: Mapping[str, bool] = {"zcdp": False, "puredp": True}
#: Of the 50 states and the District of Columbia.
OF_THE_US = frozenset(s.fips for s in STATES) - {"72"}
#: Keys of runs.
RUNS: Mapping[str, str] = {run: f"run_{run}" for run in REGIONS}
#: No count reaches more.
LARGEST_THRESHOLD = 10**12
#: More protects nobody; and no stage has less of a budget.
LARGEST_BUDGET, LEAST_SHARE = 10**9, Fraction(1, 10**6)

OfLevels = dict[GroupLevel, Any]


@dataclass(frozen=True)
class Settings:
    """What a configuration says; the words are those of :class:`das.publications.detailed.model.tables.Parameters`."""

    race_codes: int
    mechanism: Mechanism
    budgets: Mapping[str, Mapping[GroupLevel, Fraction]]
    first: Fraction
    thresholds: Mapping[str, Mapping[GroupLevel, tuple[int, ...]]]
    chance: Fraction
    negative: bool
    runs: tuple[str, ...]
    states: tuple[str, ...]


def read(path: Path, product: Product, faults: Faults) -> Settings | None:
    """The settings of a product in the file, or ``None`` if it has a fault. Unknown keys are
    ignored."""
    before = len(faults)
    if (given := _given(path, product, faults)) is None:
        return None
    settings = _settings(given)
    given.tell_lost()
    return settings if len(faults) == before else None


def budget_key(product: Product, table: AdaptiveTable, at: GroupLevel) -> str:
    """
    >>> from das.publications.detailed.model.tables import HOUSEHOLD_TYPE
    >>> budget_key(PRODUCTS["households"], HOUSEHOLD_TYPE, GroupLevel("PR-STATE", 1))
    'privacy_budget_h_t3_level_1_pr_state'"""
    return f"privacy_budget_{_table_key(product, table)}_{at}"


def _table_key(product: Product, table: AdaptiveTable) -> str:
    return product.letter if len(product.tables) == 1 else f"{product.letter}_{table.name}"


@dataclass(frozen=True)
class _Said:
    """The values, the text that contains them, and the keys that were looked for in vain."""

    product: Product
    text: str
    values: Mapping[str, Any]
    faults: Faults
    lost: list[str] = field(default_factory=list)

    def refuse(self, what: str, *keys: str) -> None:
        """A fault at the line of a key, or of one within it."""
        at = 0
        for key in keys:
            found = re.compile(re.escape(json.dumps(key)) + r"\s*:").search(self.text, at)
            at = found.start() if found else at
        self.faults.add(FILE, self.text.count("\n", 0, at) + 1 if keys else None, what)

    def take(self, key: str, says: str, sound: Callable[[Any], bool], fallback: Any = None) -> Any:
        """The value of a key, if it is sound; a fault, and the fallback, if not."""
        if key not in self.values:
            self.lost.append(key)
            return fallback
        if not sound(value := self.values[key]):
            self.refuse(f"{key} is {_shown(value)}, not {says}", key)
            return fallback
        return value

    def number(self, key: str, says: str, sound: Callable[[Fraction], bool]) -> Fraction:
        found = self.take(key, says, lambda v: (n := _number(v)) is not None and sound(n))
        return _number(found) or Fraction(0)

    def switch(self, key: str) -> bool:
        return bool(self.take(key, "true or false", lambda v: isinstance(v, bool), True))

    def tell_lost(self) -> None:
        """One fault for all keys that are missing."""
        if not self.lost:
            return
        more = f" and {len(self.lost) - 3} more" if len(self.lost) > 3 else ""
        others = [p for p in PRODUCTS.values() if p.letter != self.product.letter]
        of = [
            p.name
            for p in others
            if any(k.startswith(f"privacy_budget_{p.letter}_") for k in self.values)
        ]
        hint = (
            f": these are parameters of {of[0]} (--product {of[0]}), not of {self.product.name}"
            if of
            else ""
        )
        self.refuse(f"has no {', '.join(self.lost[:3])}{more}{hint}")


def _given(path: Path, product: Product, faults: Faults) -> _Said | None:
    if (whole := text(path, faults)) is None:
        return None
    try:
        values = json.loads(
            whole,
            parse_int=_integer,
            parse_float=Decimal,
            parse_constant=str,
            object_pairs_hook=distinct,
        )
    except json.JSONDecodeError as error:
        faults.add(FILE, error.lineno, f"is not JSON: {error.msg}")
        return None
    except (ValueError, RecursionError) as error:
        faults.add(FILE, None, f"cannot be read: {error}")
        return None
    if not isinstance(values, dict):
        faults.add(FILE, 1, "is not a JSON object")
        return None
    return _Said(product, whole, values, faults)


def _stages(given: _Said) -> tuple[Fraction, Fraction]:
    """The share of the budget for the first stage, and the chance that a zero is suppressed."""
    first, chance = (
        given.number(
            f"privacy_budget_{given.product.letter}_stage_1_fraction",
            f"a number between 0 and 1, {float(LEAST_SHARE)} from either at least",
            lambda n: LEAST_SHARE <= n <= 1 - LEAST_SHARE,
        ),
        Fraction(0),
    )
    if "zero_suppression_chance" in given.values:
        chance = given.number(
            "zero_suppression_chance", "a number from 0 to below 1", lambda n: 0 <= n < 1
        )
    return first, chance


def _settings(given: _Said) -> Settings:
    product = given.product
    race_codes = given.take(
        "max_race_codes",
        f"a whole number from 1 to {RACE_CODES}",
        lambda v: _is_whole(v) and 1 <= v <= RACE_CODES,
        1,
    )
    first, chance = _stages(given) if product.staged else (Fraction(0), Fraction(0))
    runs = tuple(run for run, key in RUNS.items() if given.switch(key))
    if not runs:
        given.refuse("run_us and run_pr are both false: nothing would be made", *RUNS.values())
    budgets = {t.name: _budgets(given, t) for t in product.tables}
    _check_spent(given, budgets, runs)
    _check_reader(given)
    definition = given.take(
        "privacy_defn",
        f"one of {', '.join(DEFINITIONS)}",
        lambda v: isinstance(v, str) and v in DEFINITIONS,
        "zcdp",
    )
    return Settings(
        race_codes,
        next(m for m in MECHANISMS.values() if m.pure == DEFINITIONS[definition]),
        budgets,
        first,
        {t.name: _thresholds(given, t, runs) for t in product.tables},
        chance,
        given.switch("allow_negative_counts"),
        runs,
        _states(given) if "us" in runs else (),
    )


def _budgets(given: _Said, table: AdaptiveTable) -> OfLevels:
    keys = {
        at: budget_key(given.product, table, at) for run in REGIONS for at in GroupLevel.of_run(run)
    }
    return {
        at: given.number(
            key, f"a number from 0 to {LARGEST_BUDGET:,}", lambda n: 0 <= n <= LARGEST_BUDGET
        )
        for at, key in keys.items()
    }


def _check_spent(given: _Said, budgets: Mapping[str, OfLevels], runs: tuple[str, ...]) -> None:
    """Each run has a budget for something. Where keys are missing, that is said instead."""
    if given.lost:
        return
    for run in runs:
        if not any(of[at] for of in budgets.values() for at in GroupLevel.of_run(run)):
            given.refuse(
                f"{RUNS[run]} is true, and no budget of this run is above 0: give one, or say"
                " false",
                RUNS[run],
            )


def _check_reader(given: _Said) -> None:
    if given.values.get("reader") == "cef":
        record = given.product.record
        given.refuse(
            f'reader is "cef", whose files are not read: convert them to {record}-records.txt and'
            ' GRF-C.txt, and say "csv"',
            "reader",
        )
    else:
        given.take("reader", '"csv"', lambda v: v == "csv")


def _states(given: _Said) -> tuple[str, ...]:
    key = "state_filter_us"
    states = given.take(
        key, 'a list of states, such as ["01", "02"]', lambda v: isinstance(v, list) and bool(v), []
    )
    for state in states:
        if not isinstance(state, str) or state not in OF_THE_US:
            given.refuse(
                f"{key} has {_shown(state)}, not the two digits of one of the 50 states or the"
                " District of Columbia",
                key,
            )
        elif states.count(state) > 1:
            given.refuse(f"{key} has {state!r} more than once", key)
            break
    return tuple(sorted(s for s in states if isinstance(s, str)))


def _thresholds(given: _Said, table: AdaptiveTable, runs: tuple[str, ...]) -> OfLevels:
    """The thresholds of the levels that have them: at least all levels of the runs."""
    key, out = f"thresholds_{_table_key(given.product, table)}", {}
    by_level = given.take(
        key, "an object of lists by region and level", lambda v: isinstance(v, dict), None
    )
    if by_level is None:
        return {}
    for run in REGIONS:
        for at in GroupLevel.of_run(run):
            if at.key in by_level:
                if what := _unsound(by_level[at.key], len(table.sizes) - 1):
                    given.refuse(f"{key} {at.key} {what}", key, at.key)
                else:
                    out[at] = tuple(by_level[at.key])
            elif run in runs:
                given.refuse(f"{key} has no {at.key}", key)
    return out


def _unsound(thresholds: Any, wanted: int) -> str | None:
    """What is wrong with a list of thresholds of a table with as many sizes beyond the total."""
    if not isinstance(thresholds, list) or not all(
        _is_whole(t) and abs(t) <= LARGEST_THRESHOLD for t in thresholds
    ):
        return f"is {_shown(thresholds)}, not a list of whole numbers"
    if len(thresholds) < wanted:
        return f"has {len(thresholds)} thresholds, where {wanted} are needed"
    if len(thresholds) > wanted:
        return (
            f"has {len(thresholds)} thresholds, and the table no size for more than {wanted}:"
            " delete the last, for groups that reach it would be lost"
        )
    return f"is {thresholds}, which falls" if thresholds != sorted(thresholds) else None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _integer(digits: str) -> int | Decimal:
    """A whole number; one that no key can have, of more digits than Python turns into an integer,
    as it is written."""
    return int(digits) if len(digits) <= 100 else Decimal(digits)


def _number(value: Any) -> Fraction | None:
    """A number of the file, as it is written."""
    if not (_is_whole(value) or isinstance(value, Decimal)):
        return None
    try:
        return exact(str(value))
    except ValueError:
        return None


def _shown(value: Any) -> str:
    """A value as the file can have it."""
    return json.dumps(value, default=str)[:60] if not isinstance(value, Decimal) else str(value)


# What a folder of the Detailed DHC is of, by the names of its files.


def product_of(folder: Path) -> str:
    """Whose records a folder has, by their name. Raises :class:`InputError` where it has those of
    no product, or of several."""
    found = [p.name for p in PRODUCTS.values() if any(folder.glob(f"{p.record}-records*"))]
    if len(found) != 1:
        each = ", ".join(f"{p.record}-records.txt" for p in PRODUCTS.values())
        raise InputError(
            f"has records of {' and of '.join(found) or 'no product'}",
            where=folder,
            remedy=f"name a folder with one of {each}",
        )
    return found[0]
