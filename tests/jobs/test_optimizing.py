"""Plans that are best for some targets: what they cost, what is said of them, and what they were
made from.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import das
from das.design.model import Estimand
from das.design.target_set import AccuracyTarget, TargetSet
from das.engine import Silent
from das.errors import UserError
from das.files.readers import pl94_2010
from das.release.opened import open_release
from das.spec import RunSpec, parse
from das.tools.planning import ground as plan_ground
from das.tools.planning import optimizing
from das.tools.planning.ground import TreeKnowledge
from das.tools.planning.optimizing import Optimum, optimum
from tests.worlds import Worlds

TABULATION = "geography.spine=tabulation"
NATION = (1, 52, 3221, 73057, 217740, 6_500_000)
POLICY = (
    [("State", q) for q in ("hispanic * cenrace", "votingage * hispanic * cenrace")]
    + [
        (lv, q)
        for lv in ("County", "Tract", "Block_Group")
        for q in (
            "total",
            "votingage",
            "hispanic * cenrace",
            "votingage * hispanic * cenrace",
            "hhgq",
        )
        if (lv, q) != ("Block_Group", "hhgq")
    ]
    + [("Block", q) for q in ("total", "votingage * hispanic * cenrace")]
)
WISHES = (
    AccuracyTarget(Estimand("County", "total")),
    AccuracyTarget(Estimand("Tract", "votingage")),
    AccuracyTarget(Estimand("Block", "total")),
)


def spec(*keys: str) -> RunSpec:
    return das.load_spec("configs/pl94-2010.toml", keys)


def over_data(worlds: Worlds, *keys: str) -> tuple[RunSpec, TreeKnowledge]:
    found = spec(*keys)
    return found, plan_ground.of_data(found, "persons", [worlds.data("three thousand")], Silent())


def check(found: Optimum, rho: Fraction) -> None:
    """The plan costs what it should to the last digit, and what is said of it is that of its
    fractions.
    """
    assert found.plan.cost == rho
    if found.target_set.objective == "least":
        assert found.value == pytest.approx(float(rho / found.now.cost))
        for row in (*found.rows, *found.guarded):
            assert row.limit is None or row.then <= row.limit * (1 + 1e-9)
    else:
        logs = [(r.weight, 2 * np.log(r.then / r.now)) for r in found.rows if r.now]
        mean = sum(w * x for w, x in logs) / sum(w for w, _ in logs)
        assert found.value == pytest.approx(float(np.exp(mean)), rel=1e-9)
    assert found.bound <= found.value + 1e-12
    assert not found.over


@pytest.mark.parametrize("spine", ["tabulation", "optimized"])
def test_a_plan_costs_exactly_its_total(
    worlds: Worlds, spine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the optimized spine, where some tracts, and whole levels of this extract, are only
    children, too.
    """
    monkeypatch.setitem(optimizing.GAPS, "tree", (5e-3, 60))
    s, ground = over_data(worlds, f"geography.spine={spine}")
    for target_set, rho in (
        (TargetSet("best", WISHES), None),
        (TargetSet("best", WISHES, guard={"Tract": 1.0}), Fraction(22, 7)),
    ):
        found = optimum(s.persons, target_set, ground, rho)
        check(found, rho or s.persons.plan.cost)
        assert all(
            np.isfinite(r.then) and r.then < 1e4 for r in (*found.rows, *found.guarded)
        )  # all cells are told apart
    least = optimum(s.persons, TargetSet("least", WISHES), ground)
    check(least, least.plan.cost)
    assert least.value <= 1


def test_what_is_kept_and_held_is_to_the_last_digit() -> None:
    s = spec()
    ground = plan_ground.of_units(s, s.persons, NATION)
    keep, hold = (
        ("Tract", "total"),
        tuple((d.level, d.query) for d in s.persons.plan.plain if d.level == "Block"),
    )
    for objective in ("best", "spare", "least"):
        found = optimum(s.persons, TargetSet(objective, WISHES, keep=(keep,), hold=hold), ground)
        check(found, found.plan.cost)
        now, then = ({(d.level, d.query): d.cost for d in p.plain} for p in (found.now, found.plan))
        assert then[keep] >= now[keep]
        assert all(then[pair] == now[pair] for pair in hold)
        if objective == "spare":
            assert all(
                then[pair] >= cost for pair, cost in now.items() if pair not in found.redundant
            )
            assert ("State", "total") in found.redundant


def test_records_that_are_added_or_removed_are_half_as_costly() -> None:
    """The same rho buys twice the precision: what is said is in persons, and limits are."""
    found = []
    for neighbours in ("bounded", "unbounded"):
        s = spec(f"budget.neighbors={neighbours}")
        ground = plan_ground.of_units(s, s.persons, NATION)
        found.append(optimum(s.persons, TargetSet("best", WISHES), ground))
        draw = next(d for d in s.persons.plan.plain if (d.level, d.query) == ("US", "detailed"))
        j = ground.measurements.pairs.index(("US", "detailed"))
        rho = np.array([float(d.cost) for d in s.persons.plan.plain])
        assert ground.measurements.precision(rho)[j] == pytest.approx(1 / draw.variance)
    one, other = found
    assert other.value == pytest.approx(one.value, rel=1e-3)
    for a, b in zip(one.rows, other.rows, strict=True):
        assert b.now == pytest.approx(a.now / np.sqrt(2))
    limit = optimum(
        s.persons,
        TargetSet("best", (AccuracyTarget(Estimand("Tract", "total"), sd=1.0), *WISHES)),
        ground,
    )
    assert limit.rows[0].then <= 1.001


@pytest.mark.parametrize(
    ("units", "said"),
    [
        ((1, 2), "2 numbers, and 6 levels"),
        ((2, 2, 2, 2, 2, 2), "do not nest"),
        ((1, 5, 4, 6, 7, 8), "do not nest"),
        ((1, 2, 3, 4, 5, 10**400), "give no more than"),
    ],
)
def test_numbers_of_units_that_are_no_tree_are_refused(units: tuple[int, ...], said: str) -> None:
    s = spec()
    with pytest.raises(UserError, match=said):
        plan_ground.of_units(s, s.persons, units)


def test_a_lowest_level_without_a_query_that_tells_all_apart_is_refused() -> None:
    keys = ['budget.queries.Block={total="1/2", votingage="1/2"}', TABULATION]
    s = spec(*keys)
    with pytest.raises(UserError, match="no query tells every cell apart"):
        optimum(s.persons, TargetSet("best", WISHES), plan_ground.of_units(s, s.persons, NATION))


def test_so_is_the_level_of_units_whose_only_children_are_bypassed(worlds: Worlds) -> None:
    s, ground = over_data(
        worlds,
        'budget.queries.Block_Group={total="1/2", votingage="1/2"}',
        "geography.spine=optimized",
    )
    with pytest.raises(UserError, match="Block_Group: no query tells every cell apart"):
        optimum(s.persons, TargetSet("best", WISHES), ground)


def test_areas_are_known_by_their_kind(worlds: Worlds) -> None:
    s, ground = over_data(worlds, TABULATION)
    place = AccuracyTarget(Estimand("Place", "total", areas=True))
    found = optimum(s.persons, TargetSet("best", (place, *WISHES)), ground)
    check(found, s.persons.plan.cost)
    assert found.rows[0].then < found.rows[0].now
    with pytest.raises(UserError, match="no areas 'Plaza'"):
        optimum(
            s.persons,
            TargetSet("best", (AccuracyTarget(Estimand("Plaza", "total", areas=True)),)),
            ground,
        )
    some = AccuracyTarget(Estimand("Place", "total", areas=True, says="1 to 500 persons"))
    with pytest.raises(UserError, match="not known before they are counted"):
        optimum(s.persons, TargetSet("best", (some,)), ground)
    numbers = plan_ground.of_units(s, s.persons, NATION)
    with pytest.raises(UserError, match="areas need real blocks"):
        optimum(s.persons, TargetSet("best", (place,)), numbers)


def test_a_release_predicts_published_counts_and_knows_how_large_areas_are(worlds: Worlds) -> None:
    run = worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand")
    s = spec()
    ground = plan_ground.of_release(s, "persons", open_release(run / "release"))
    some = AccuracyTarget(Estimand("Place", "total", areas=True, says="1 to 500 persons"))
    found = optimum(s.persons, TargetSet("best", (some, *WISHES)), ground)
    check(found, s.persons.plan.cost)
    for row in found.rows:
        assert row.predicted is not None
        assert 0 < row.predicted[0] <= row.now * (1 + 1e-9)  # fewer cells are known better
    assert "specification" in ground.made_from[0]
    none = AccuracyTarget(
        Estimand("Place", "total", areas=True, says="900,000 to 1,000,000 persons")
    )
    with pytest.raises(UserError, match="no area of Place has 900,000 to 1,000,000 persons"):
        optimum(s.persons, TargetSet("best", (none,)), ground)


TABLE = """
[run]
name = "t"
[data]
reader = "table"
path = "people.csv"
[data.columns.geography]
State = "state"
County = "county"
Block = "block"
[data.columns]
count = "n"
housing_units = "homes"
[schema]
name = "mine"
dwelling = "home"
[schema.attributes]
home = ["household", "hall"]
sex = ["f", "m"]
[geography]
levels = ["State", "County", "Block"]
[constraints]
total = "State"
housing_units = true
group_quarters = true
[budget]
rho = "1"
neighbors = "bounded"
levels = { State = "1/3", County = "1/3", Block = "1/3" }
[budget.queries.State]
total = "1/2"
detailed = "1/2"
[budget.queries.County]
total = "1/2"
detailed = "1/2"
[budget.queries.Block]
detailed = "1"
"""


def test_a_plan_is_the_same_without_the_persons(tmp_path: Path) -> None:
    """Of an input whose facilities stay as they are: nobody lives in one."""
    made = []
    for folder, people in (("with", 3), ("without", 0)):
        (tmp_path / folder).mkdir()
        lines = [
            f"A,{b // 3},{b},household,{sex},{people * (homes > 0)},{homes}"
            for b, homes in enumerate((2, 0, 1, 3, 1, 0, 5, 1, 2))
            for sex in "fm"
        ]
        path = tmp_path / folder / "people.csv"
        path.write_text("\n".join(["state,county,block,home,sex,n,homes", *lines]) + "\n")
        s = parse(TABLE, where="t")
        ground = plan_ground.of_data(s, "persons", [path], Silent())
        found = optimum(
            s.persons,
            TargetSet(
                "best",
                (
                    AccuracyTarget(Estimand("County", "sex")),
                    AccuracyTarget(Estimand("Block", "total")),
                ),
            ),
            ground,
        )
        made.append(
            (
                [(d.level, d.query, d.cost) for d in found.plan.plain],
                found.certificate,
                ground.made_from,
            )
        )
    assert made[0] == made[1]


# --- a real state
# -------------------------------------------------------------------------------------------------

#: Of the estimates from all measurements of the production plan over Rhode Island of 2010: computed
#: independently.
QUERIES = (
    "total",
    "cenrace",
    "hispanic",
    "votingage",
    "hhinstlevels",
    "hhgq",
    "hispanic * cenrace",
    "votingage * cenrace",
    "votingage * hispanic",
    "votingage * hispanic * cenrace",
    "detailed",
)
VARIANCES = {
    "US": (
        0.0,
        35.448282,
        141.21561,
        142.70626,
        113.08188,
        113.08188,
        19.645617,
        20.231514,
        151.733,
        10.988335,
        6.7767923,
    ),
    "State": (
        0.0,
        35.448282,
        141.21561,
        142.70626,
        113.08188,
        113.08188,
        19.645617,
        20.231514,
        151.733,
        10.988335,
        6.7767923,
    ),
    "County": (
        3.5420424,
        40.207516,
        245.53445,
        272.27061,
        142.61625,
        142.61625,
        21.197999,
        25.307379,
        264.86809,
        13.274372,
        7.6087828,
    ),
    "Tract": (
        3.5861347,
        5.6879506,
        77.563426,
        225.62479,
        27.810954,
        27.810954,
        2.8836905,
        8.4490943,
        161.95107,
        4.3141048,
        4.0213698,
    ),
    "Block_Group": (
        2.4707607,
        4.7270232,
        65.798368,
        142.94195,
        11.463611,
        11.463611,
        2.3910793,
        4.5806323,
        98.501239,
        2.3161204,
        2.2741156,
    ),
    "Block": (
        1007.5997,
        36.389031,
        730.0055,
        730.24153,
        1007.4842,
        1007.4842,
        18.425109,
        18.432068,
        440.24344,
        9.3024813,
        9.3009768,
    ),
}


def test_rhode_island_is_what_was_computed_independently(
    shared_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As computed with a facility only where no unit is occupied."""
    monkeypatch.setattr(pl94_2010, "MOST_AT_HOME", 10**6)
    path = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    if not path.is_file():
        pytest.skip(f"no {path}")
    s = spec(TABULATION)
    ground = plan_ground.of_data(s, "persons", [path], Silent())
    rho = np.array([float(d.cost) for d in s.persons.plan.plain])
    asked = [Estimand(lv, q) for lv in VARIANCES for q in QUERIES]
    f = ground.model(asked).variances(ground.measurements.precision(rho))
    assert f == pytest.approx(np.ravel(list(VARIANCES.values())), rel=1e-6)
    monkeypatch.setitem(optimizing.GAPS, "tree", (1e-2, 400))
    found = optimum(
        s.persons, TargetSet("least", tuple(AccuracyTarget(Estimand(*w)) for w in POLICY)), ground
    )
    check(found, found.plan.cost)
    assert found.value == pytest.approx(0.6458, rel=1e-2)
    assert found.bound <= 0.645777 + 1e-6
    assert found.bound >= 0.645777 * 0.99
    assert ("State", "total") in found.redundant


# --- what the search reaches, and what it says on the way
# -------------------------------------------------------------


class Heard:
    """Progress that remembers."""

    def __init__(self) -> None:
        self.stages: list[str] = []
        self.done = 0

    def stage(self, name: str, total: int | None) -> None:
        del total
        self.stages.append(name)

    def advance(self, n: int = 1) -> None:
        self.done += n


def test_prices_of_the_least_total_are_those_of_a_gap_that_is_reached() -> None:
    """Not the multipliers that a search begins with: what costs something is at its limit."""
    s = spec(TABULATION)
    heard = Heard()
    target_set = TargetSet(
        "least", tuple(AccuracyTarget(Estimand(*w)) for w in POLICY), guard={"everything": 1.0}
    )
    found = optimum(
        s.persons, target_set, plan_ground.of_units(s, s.persons, NATION), progress=heard
    )
    rows = (*found.rows, *found.guarded)
    assert found.value - found.bound <= 1e-3 * found.value
    assert sum(r.price for r in rows) == pytest.approx(1)
    assert max(r.price for r in rows) > 0.1
    assert all(
        r.then >= r.limit * (1 - 5e-3) for r in rows if r.limit is not None and r.price > 5e-3
    )
    assert heard.stages[0] == "closed form"
    assert "search, gap below 0.001" in heard.stages
    assert heard.done > found.steps


@pytest.mark.parametrize("guard", [1.5, 5.0])
def test_guards_above_one_with_blocks_free_are_solved_to_the_gap(guard: float) -> None:
    s = spec(TABULATION)
    targets = tuple(AccuracyTarget(Estimand(*w)) for w in POLICY)
    found = optimum(
        s.persons,
        TargetSet("best", targets, guard={"everything": guard}),
        plan_ground.of_units(s, s.persons, NATION),
    )
    check(found, s.persons.plan.cost)
    assert found.value <= found.bound * (1 + 1e-3)
