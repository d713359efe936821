"""A budget by target: found once, written next to the target, and checked whenever it is read."""

from __future__ import annotations

import tomllib
from fractions import Fraction

import pytest
import tomli_w

from das.accounting import epsilon, tight
from das.errors import SpecError
from das.spec import RunSpec, budget_toml, parse
from tests.spec.test_parse import BASE, UNITS, change

EXACT = 'epsilon = 4\ndelta = "1e-8"\ncalibration = "exact"'
TARGET = change('rho = "5/2"', EXACT)
TIGHT = TARGET.replace('"exact"', '"zcdp-tight"')
DELTA = Fraction(1, 10**8)


def read(text: str, *overrides: str) -> RunSpec:
    return parse(text, where="run.toml", overrides=overrides)


def pairs(spec: RunSpec, factor: Fraction = Fraction(1)) -> list[tuple[Fraction, int]]:
    """The persons' draws, all variances times ``factor``: two answers each, as neighbors are
    bounded.
    """
    return [(d.parameter * factor, 2) for d in spec.persons.plan.measurements]


def test_the_exact_calibration_meets_the_target_and_no_more_noise_than_that() -> None:
    spec = read(TARGET)
    assert epsilon(pairs(spec), DELTA)[1] <= 4
    assert epsilon(pairs(spec, Fraction(10**8 - 1, 10**8)), DELTA)[0] > 4
    assert spec.persons.plan.cost == spec.budget.rho
    assert spec.budget.rho is not None
    assert spec.budget.rho.denominator <= 10**10


def test_the_calibration_by_conversion_meets_the_target_and_costs_more_noise() -> None:
    spec, exact = read(TIGHT), read(TARGET)
    rho = spec.persons.plan.cost
    assert tight(rho, DELTA) <= 4 < tight(rho * Fraction(10**8 + 1, 10**8), DELTA)
    assert exact.persons.plan.cost > rho * Fraction(104, 100)


def test_what_was_found_is_written_and_not_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = read(TARGET)
    text = spec.dump()

    def never(*_: object) -> Fraction:
        raise AssertionError("calibrated twice")

    monkeypatch.setattr("das.accounting.calibration.calibrate", never)
    again = read(text)
    assert again.persons.plan == spec.persons.plan
    assert (again.budget.epsilon, again.budget.calibration, again.budget.delta) == (
        4,
        "exact",
        DELTA,
    )
    assert again.digest == spec.digest


def test_a_rho_that_misses_the_target_is_refused_and_one_that_meets_it_kept() -> None:
    spec = read(TARGET)
    assert spec.budget.rho is not None
    more = spec.budget.rho * Fraction(1_000_001, 1_000_000)
    for text in (TARGET, TIGHT):
        with pytest.raises(SpecError) as caught:
            read(change("epsilon = 4", f'rho = "{more}"\nepsilon = 4', text))
        for word in ("budget.rho", "above the target", "delete rho", "run.toml"):
            assert word in str(caught.value)
    kept = read(change(EXACT, f'rho = "1/100"\n{EXACT}', TARGET))
    assert kept.persons.plan.cost == Fraction(1, 100)


def test_units_move_with_what_was_found() -> None:
    """The target is about persons."""
    spec, alone = read(TARGET + UNITS), read(TARGET)
    assert spec.persons.plan == alone.persons.plan
    assert spec.universe("housing").plan.cost == spec.persons.plan.cost / 10


@pytest.mark.parametrize(
    "overrides, rho, calibration",
    [
        (("budget.rho=1/7",), Fraction(1, 7), None),
        (("budget.epsilon=4", "budget.delta=1e-8", "budget.calibration=exact"), None, "exact"),
        (("budget.calibration=zcdp-tight",), None, "zcdp-tight"),
    ],
)
def test_what_is_set_last_decides_how_the_total_is_given(overrides, rho, calibration) -> None:  # type: ignore[no-untyped-def]
    """``--set`` on a file that has a rho, a target, or (a release's) both."""
    found = {}
    for text in (BASE, TARGET, read(TARGET).dump()):
        if text is BASE and overrides == ("budget.calibration=zcdp-tight",):
            continue
        spec = read(text, *overrides)
        assert spec.budget.calibration == calibration
        assert rho is None or spec.budget.rho == rho
        found[spec.persons.plan.cost] = spec
    assert len(found) == 1


def test_a_sweep_leaves_the_target_behind() -> None:
    spec = read(TARGET + UNITS)
    changes = ("budget.rho=9", "run.name=nine")
    one = parse(spec.dump(), where="nine", overrides=changes)
    assert one.persons.plan.cost == 9
    assert one.budget.target is None
    assert one.universe("housing").plan.cost == Fraction(9, 10)


@pytest.mark.parametrize(
    "old, new, words",
    [
        (
            EXACT,
            'epsilon = 4\ndelta = "1e-8"',
            ["wants rho, and no epsilon", 'add calibration = "exact"'],
        ),
        (EXACT, 'calibration = "exact"', ["positive epsilon"]),
        ("epsilon = 4", "epsilon = 0", ["positive epsilon"]),
        ("epsilon = 4", 'epsilon = "-1"', ["positive epsilon"]),
        ("epsilon = 4", "epsilon = 4.5", ["budget.epsilon", "float", "string"]),
        ('"1e-8"', '"1"', ["delta is 1, not between 0 and 1"]),
        ('"1e-8"', "1e-8", ["budget.delta", "float"]),
        ('"exact"', '"roughly"', ["budget.calibration", "'exact' or 'zcdp-tight'"]),
        (
            'neighbors = "bounded"',
            'neighbors = "bounded"\nmechanism = "geometric"',
            ["'discrete-gaussian'"],
        ),
    ],
)
def test_a_target_that_makes_no_sense_is_refused(old: str, new: str, words: list[str]) -> None:
    with pytest.raises(SpecError) as caught:
        read(change(old, new, TARGET))
    for word in words:
        assert word in str(caught.value)


def test_shares_that_do_not_add_up_are_told_before_anything_is_found() -> None:
    with pytest.raises(SpecError, match=r"budget\.levels: the shares sum to 5/4"):
        read(change('Block = "1/2"', 'Block = "3/4"', TARGET))


def test_tables_of_another_plan_make_that_plan() -> None:
    """What ``das plan --toml`` prints, put in place of the tables of the file."""
    for universe, text in (
        ("persons", BASE + UNITS),
        ("housing", BASE + UNITS),
        ("persons", TARGET),
    ):
        spec = read(text)
        chosen = next(u for u in spec.universes if u.name == universe).plan.scaled(Fraction(1, 3))
        printed = budget_toml(spec, universe, chosen)
        tree = tomllib.loads(spec.dump())
        for key, value in tomllib.loads(printed).items():
            if key == "budget":
                tree["budget"] = value
            else:
                tree[key]["budget"] |= value["budget"]
        again = parse(tomli_w.dumps(tree), where="new")
        plans = {u.name: u.plan for u in again.universes}
        assert plans[universe] == chosen
        others = {u.name: u.plan for u in spec.universes if u.name != universe}
        assert all(plans[name] == p for name, p in others.items())
