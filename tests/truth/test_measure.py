"""Measurement: the right noise on the right answers, in the ledger before it is drawn, and never
twice the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import PrivacyError, SpecError
from das.model import tabulation
from das.model.budget import Allocation, Neighbours, PlannedMeasurement
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Event, Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC, MECHANISMS, Mechanism
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.noise.entropy import ChunkLabel, Entropy, kernel, keyed, seeded, system
from das.noise.samplers import SAMPLERS, VERSION
from das.truth.measure import DrawnChunk, draw, measure
from tests.oracles import chi_square_p, gaussian_pmf, laplace_pmf, tally

BLOCKS = 3000
SCHEMA = Schema(
    "s", (Attribute("sex", ("m", "f")), Attribute("age", tuple(f"{i}" for i in range(20))))
)
TREE = Spine(
    ("US", "Block"),
    (np.array(["US"]), np.char.mod("%04d", np.arange(BLOCKS))),
    (np.zeros(1, dtype=np.int64), np.zeros(BLOCKS, dtype=np.int64)),
)
HALF = Fraction(1, 2)
SHARES = Allocation(
    {"US": HALF, "Block": HALF},
    {"US": {"total": Fraction(1)}, "Block": {"detailed": Fraction(3, 4), "age": Fraction(1, 4)}},
)


def truth(schema: Schema = SCHEMA) -> Histogram:
    counts = np.random.default_rng(1).poisson(0.3, (BLOCKS, schema.cells))
    unit, cell = np.nonzero(counts)
    return Histogram.from_triplets(BLOCKS, schema.cells, unit, cell, counts[unit, cell])


TRUTH = truth()


class Forbidden(Entropy):
    """No bit may be drawn."""

    name, private = "forbidden", True

    def bytes(self, n: int) -> bytes:
        raise AssertionError("noise was drawn")


class Failing(Entropy):
    """Fails at its first use, as a machine that loses its power then; remembers what the ledger
    said.
    """

    name, private = "failing", True

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.seen = ledger, ()

    def bytes(self, n: int) -> bytes:
        self.seen = self.ledger.events
        raise OSError("no more bits")


def plan(mechanism: Mechanism = DISCRETE_GAUSSIAN, total: Fraction = HALF) -> Plan:
    return Plan.from_allocation(total, mechanism, Neighbours.BOUNDED, SHARES)


def run(
    p: Plan, entropy: Entropy, level: str = "Block", ledger: Ledger | None = None
) -> list[Measurement]:
    h = TRUTH if level == "Block" else TRUTH.up(TREE.parent[1], 1)
    ledger = ledger or Ledger(p.cost)
    return list(
        measure(
            Confidential(h),
            level,
            "persons",
            SCHEMA,
            MeasuredSpine.from_published(TREE),
            p,
            entropy,
            ledger,
        )
    )


def noise_of(measured: list[Measurement], query: str) -> NDArray[np.int64]:
    """Measured minus true, one row for each unit."""
    parts = [m for m in measured if m.query == query]
    assert [m.start for m in parts] == [0, *np.cumsum([len(m.values) for m in parts])[:-1]]
    return np.concatenate([m.values for m in parts]) - TRUTH.answer(SCHEMA.query(query))


def gaussian_p(noise: NDArray[np.int64], sigma_sq: Fraction) -> float:
    top = int(8 * float(sigma_sq) ** 0.5) + 2
    return chi_square_p(tally(noise.ravel(), top), gaussian_pmf(sigma_sq, top), noise.size)


def laplace_p(noise: NDArray[np.int64], scale: Fraction) -> float:
    top = int(25 * scale) + 5
    return chi_square_p(tally(noise.ravel(), top), laplace_pmf(scale, top), noise.size)


# --- the noise
# -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mechanism, fits", [(DISCRETE_GAUSSIAN, gaussian_p), (GEOMETRIC, laplace_p)]
)
def test_measured_minus_true_has_the_scale_of_the_plan(
    mechanism: Mechanism, fits: Callable[[NDArray[np.int64], Fraction], float]
) -> None:
    """Each query has its own scale: a test that accepts it rejects one that is 10 % off, and the
    other query's.
    """
    p = plan(mechanism)
    measured = run(p, seeded(1))
    scale = {d.query: d.parameter for d in p.at("Block")}
    assert scale["age"] == 3 * scale["detailed"]
    for query in ("detailed", "age"):
        noise = noise_of(measured, query)
        assert noise.shape == (BLOCKS, SCHEMA.query(query).answers)
        assert fits(noise, scale[query]) > 1e-3
        for factor in (Fraction(9, 10), Fraction(11, 10), 3, Fraction(1, 3)):
            assert fits(noise, scale[query] * factor) < 1e-6


def test_bounded_neighbours_have_twice_the_variance_of_unbounded() -> None:
    def sigma_sq(neighbours: Neighbours) -> dict[str, Fraction]:
        return {
            d.query: d.parameter
            for d in Plan.from_allocation(HALF, DISCRETE_GAUSSIAN, neighbours, SHARES).at("Block")
        }

    unbounded = Plan.from_allocation(HALF, DISCRETE_GAUSSIAN, Neighbours.UNBOUNDED, SHARES)
    noise = noise_of(run(unbounded, seeded(2)), "detailed")
    assert gaussian_p(noise, sigma_sq(Neighbours.UNBOUNDED)["detailed"]) > 1e-3
    assert gaussian_p(noise, sigma_sq(Neighbours.BOUNDED)["detailed"]) < 1e-100


@pytest.mark.parametrize("mechanism", list(MECHANISMS.values()))
def test_the_published_variance_is_that_of_the_noise(mechanism: Mechanism) -> None:
    p = plan(mechanism)
    for m in run(p, seeded(3)):
        d = next(d for d in p.at("Block") if d.query == m.query)
        assert m.variance.shape == (len(m.values),)
        assert (m.variance == mechanism.variance(d.parameter)).all()
        spread = (
            float((noise_of([m], m.query).astype(float) ** 2).mean())
            if len(m.values) == BLOCKS
            else None
        )
        if spread is not None:
            assert spread == pytest.approx(float(m.variance[0]), rel=0.05)


def test_noise_of_different_answers_units_and_queries_is_unrelated() -> None:
    measured = run(plan(), seeded(4))
    detailed, age = (
        noise_of(measured, "detailed").astype(float),
        noise_of(measured, "age").astype(float),
    )

    def correlated(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
        return abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) > 4.5 / np.sqrt(a.size)

    assert correlated(
        detailed, 0.2 * np.roll(detailed, 1) + detailed[::-1] + detailed
    )  # it can tell
    assert not correlated(detailed[1:], detailed[:-1])
    assert not correlated(detailed[:, 1:], detailed[:, :-1])
    assert not correlated(detailed[:, :20], age)
    assert not correlated(SCHEMA.query("age").answer(detailed), age)
    assert not correlated(TRUTH.answer(SCHEMA.query("age")).astype(float), age)


def test_two_runs_never_share_noise() -> None:
    def correlation(a: Entropy, b: Entropy) -> float:
        x, y = (noise_of(run(plan(), e), "detailed").ravel() for e in (a, b))
        return float(np.corrcoef(x, y)[0, 1])

    assert abs(correlation(system(), system())) < 5 / np.sqrt(BLOCKS * SCHEMA.cells)
    assert correlation(seeded(1), seeded(1)) == pytest.approx(1)
    assert abs(correlation(seeded(1), seeded(2))) < 5 / np.sqrt(BLOCKS * SCHEMA.cells)


@pytest.mark.parametrize("source", [system(), kernel()])
def test_a_source_that_keeps_nothing_goes_on(source: Entropy) -> None:
    """What is measured twice with it has two noises."""
    first = noise_of(run(plan(), source), "detailed")
    second = noise_of(run(plan(), source), "detailed")
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / np.sqrt(first.size)


# --- noise that is drawn again
# ---------------------------------------------------------------------------------

#: Twelve places of three towns, in several chunks: a batch holds no more than 200 values.
PLACES = Spine(
    ("US", "Town", "Place"),
    (
        np.array(["0"]),
        np.array(["a", "b", "c"]),
        np.array([f"{t}{i}" for t in "abc" for i in range(4)]),
    ),
    (np.zeros(1, int), np.zeros(3, int), np.repeat(np.arange(3), 4)),
)
PEOPLE = Histogram.from_triplets(12, SCHEMA.cells, np.arange(12), np.arange(12), np.arange(1, 13))
KEY = bytes(range(32))


def places_plan(queries: Mapping[str, int], rho: Fraction = HALF) -> Plan:
    """``queries`` with their shares."""
    shares = Allocation(
        {"Place": Fraction(1)},
        {"Place": {q: Fraction(n, sum(queries.values())) for q, n in queries.items()}},
    )
    return Plan.from_allocation(rho, DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares)


PLACES_PLAN = places_plan({"age": 1, "sex": 1})


@pytest.fixture
def chunked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[DrawnChunk]]:
    """Chunks of what is measured of the places; everything but the truth and the key can be given
    otherwise.
    """
    real = Spine.batches
    monkeypatch.setattr(
        Spine, "batches", lambda self, level, answers: real(self, level, answers, 4 * 22)
    )

    def made(
        h: Histogram = PEOPLE,
        tree: MeasuredSpine | Spine = PLACES,
        plan: Plan = PLACES_PLAN,
        key: bytes = KEY,
        schema: Schema = SCHEMA,
        universe: str = "persons",
        number: int = 1,
    ) -> list[DrawnChunk]:
        tree = MeasuredSpine.from_published(tree) if isinstance(tree, Spine) else tree
        found = draw(
            Confidential(h), tree.spine.levels[-1], universe, schema, tree, plan, keyed(key), number
        )
        return [replace(c, measurements=list(c.measurements)) for c in found]

    return made


def chunk_noise(
    chunk: DrawnChunk, h: Histogram = PEOPLE, schema: Schema = SCHEMA
) -> list[list[int]]:
    return [
        (m.values - h.rows(m.start, m.start + len(m.values)).answer(schema.query(m.query)))
        .ravel()
        .tolist()
        for m in chunk.measurements
    ]


def test_what_is_measured_again_is_the_same_chunk_by_chunk(
    chunked: Callable[..., list[DrawnChunk]],
) -> None:
    first, again = chunked(), chunked()
    assert [[m.start for m in c.measurements] for c in first] == [[0, 0], [4, 4], [8, 8]]
    assert [c.mark for c in first] == [c.mark for c in again]
    assert len({c.mark for c in first}) == 3
    for a, b in zip(first, again, strict=True):
        for m, n in zip(a.measurements, b.measurements, strict=True):
            np.testing.assert_array_equal(m.values, n.values)
    noises = [chunk_noise(c) for c in first]
    assert len({str(n) for n in noises}) == 3


def test_a_chunk_does_not_depend_on_what_else_is_measured(
    chunked: Callable[..., list[DrawnChunk]],
) -> None:
    """The towns one by one, each in a tree of its own."""
    whole = chunked()
    for i, chunk in enumerate(whole):
        alone = Spine(
            PLACES.levels,
            (PLACES.codes[0], PLACES.codes[1][i : i + 1], PLACES.codes[2][4 * i : 4 * i + 4]),
            (np.zeros(1, int), np.zeros(1, int), np.zeros(4, int)),
        )
        (one,) = chunked(PEOPLE.rows(4 * i, 4 * i + 4), alone)
        assert one.mark == chunk.mark
        assert chunk_noise(one, PEOPLE.rows(4 * i, 4 * i + 4)) == chunk_noise(chunk)


def renamed(spine: Spine, unit: int, code: str) -> Spine:
    codes = spine.geocodes("Place").copy()
    codes[unit] = code
    return Spine(spine.levels, (*spine.codes[:-1], codes), spine.parent)


ONE_MORE = Histogram.from_triplets(
    12,
    SCHEMA.cells,
    np.array([*range(12), 5]),
    np.array([*range(12), 5]),
    np.array([*range(1, 13), 1]),
)
#: The same age groups, at other ages: the query keeps its name and its number of answers.
MOVED = Schema("s", (SCHEMA.attributes[1], SCHEMA.attributes[0]))
DEARER = places_plan({"age": 1, "sex": 1}, 2 * HALF)


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ({"h": ONE_MORE}, [False, True, False]),  # one person more, in one chunk
        ({"universe": "others"}, [True] * 3),
        ({"number": 2}, [True] * 3),
        ({"key": KEY[::-1]}, [True] * 3),
        ({"plan": DEARER}, [True] * 3),
        ({"plan": places_plan({"age": 2, "sex": 1})}, [True] * 3),
        ({"plan": places_plan({"sex": 1, "age": 1})}, [True] * 3),
        ({"schema": MOVED}, [True] * 3),
        ({"tree": renamed(PLACES, 4, "b-")}, [False, True, False]),
        ({"tree": renamed(PLACES, 11, "c9")}, [False, False, True]),
    ],
)
def test_whatever_decides_the_draw_makes_another_of_it(
    chunked: Callable[..., list[DrawnChunk]], what: dict[str, Any], changed: list[bool]
) -> None:
    """Two numbers that were drawn of two things have nothing in common: not one draw of the noise
    is shared but by chance.
    """
    before, after = chunked(), chunked(**what)
    assert [a.mark != b.mark for a, b in zip(before, after, strict=True)] == changed
    for a, b, differs in zip(before, after, changed, strict=True):
        x, y = chunk_noise(a), chunk_noise(b, what.get("h", PEOPLE), what.get("schema", SCHEMA))
        assert (x != y) is differs


def test_the_classes_of_units_and_the_version_of_the_sampler_are_in_the_label(
    chunked: Callable[..., list[DrawnChunk]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Places of two classes with the same noise: swapping their classes makes another draw."""
    p = places_plan({"age": 1})
    (d,) = p.measurements
    both = Plan(
        p.neighbours,
        (replace(d, unit_class="x"), replace(d, unit_class="y")),
        tuple((("Place", c),) for c in "xy"),
    )

    class Classed(MeasuredSpine):
        mask = np.arange(12) % 2 == 0

        def classes(self, level: str) -> Mapping[str, NDArray[np.bool_]]:
            return {"x": self.mask, "y": ~self.mask}

    tree = Classed(PLACES, np.arange(12))
    one = chunked(tree=tree, plan=both)
    Classed.mask = np.arange(12) != 6
    other = chunked(tree=tree, plan=both)
    assert [a.mark != b.mark for a, b in zip(one, other, strict=True)] == [True] * 3
    monkeypatch.setattr("das.truth.measure.VERSION", "another")
    assert not {c.mark for c in chunked(tree=tree, plan=both)} & {c.mark for c in other}


def test_two_truths_under_one_key_do_not_show_their_difference() -> None:
    """One person more in one of 3,000 blocks: the noise of one truth tells nothing of that of the
    other. (Were the truth not in the label, the difference of both would be that one person,
    without noise.)"""
    more = Histogram.from_triplets(
        BLOCKS,
        SCHEMA.cells,
        np.append(TRUTH.unit, 7),
        np.append(TRUTH.cell, 3),
        np.append(TRUTH.count, 1),
    )

    def noise(h: Histogram) -> NDArray[np.int64]:
        p = plan()
        found = measure(
            Confidential(h),
            "Block",
            "persons",
            SCHEMA,
            MeasuredSpine.from_published(TREE),
            p,
            keyed(b"k" * 32),
            Ledger(p.cost),
        )
        return next(m.values for m in found if m.query == "detailed") - h.answer(
            SCHEMA.query("detailed")
        )

    one, other = noise(TRUTH), noise(more)
    assert np.array_equal(one, noise(TRUTH))
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / np.sqrt(one.size)
    scale = plan().at("Block")[0].parameter
    assert gaussian_p(one, scale) > 1e-3
    assert (
        gaussian_p(other - one, 2 * scale) > 1e-3
    )  # that of a sum of two, wherever nobody was added


def test_what_the_samplers_make_of_given_bits_is_this_version() -> None:
    """A change of the numbers is a change of :data:`das.noise.samplers.VERSION`: else one run could
    publish two functions of the same bits."""
    label = ChunkLabel("u", "L", 1, b"a", b"b", b"", VERSION, b"")
    made = hashlib.sha256()
    for parameter in (
        Fraction(1, 3),
        Fraction(7, 2),
        Fraction(1000),
        Fraction(10**8),
        Fraction(10**8 + 1),
    ):
        for sampler in SAMPLERS.values():
            made.update(
                sampler.sample(parameter, 300, keyed(KEY).chunk(label)).astype("<i8").tobytes()
            )
    assert (VERSION, made.hexdigest()[:16]) == ("1", "1af9a2fdaad5d15d")


def test_batches_cover_a_level_that_does_not_fit_one() -> None:
    """3,000 blocks of the full redistricting histogram: six million answers in batches of four."""
    h = truth(PL94)
    states = Spine(
        ("US", "Tract", "Block"),
        (TREE.codes[0], np.char.mod("%02d", np.arange(30)), TREE.codes[1]),
        (TREE.parent[0], np.zeros(30, dtype=np.int64), np.arange(BLOCKS, dtype=np.int64) // 100),
    )
    shares = Allocation(
        {lv: Fraction(1, 3) for lv in states.levels},
        {lv: {"detailed": HALF, "total": HALF} for lv in states.levels},
    )
    p = Plan.from_allocation(Fraction(1, 4), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares)
    sigma_sq = p.at("Block")[0].parameter
    seen: dict[str, list[tuple[int, int]]] = {"detailed": [], "total": []}
    total, square, answers = 0, 0.0, 0
    for m in measure(
        Confidential(h),
        "Block",
        "persons",
        PL94,
        MeasuredSpine.from_published(states),
        p,
        seeded(6),
        Ledger(p.cost),
    ):
        stop = m.start + len(m.values)
        seen[m.query].append((m.start, stop))
        noise = m.values - h.rows(m.start, stop).answer(PL94.query(m.query))
        total, square, answers = (
            total + int(noise.sum()),
            square + float((noise.astype(float) ** 2).sum()),
            answers + noise.size,
        )
    for spans in seen.values():
        assert len(spans) > 1
        assert spans[0][0] == 0
        assert spans[-1][1] == BLOCKS
        assert all(a[1] == b[0] and a[1] % 100 == 0 for a, b in pairwise(spans))
    assert answers == BLOCKS * 2017
    assert (
        abs(square / answers / float(sigma_sq) - 1) < 0.004
    )  # 6 million: 0.06 % is one standard deviation
    assert abs(total) < 5 * np.sqrt(answers * float(sigma_sq))


# --- the ledger
# ----------------------------------------------------------------------------------------------


def test_the_ledger_says_what_was_measured() -> None:
    p = plan()
    ledger = Ledger(p.cost)
    run(p, seeded(1), "US", ledger)
    run(p, seeded(1), "Block", ledger)
    assert ledger.cost == p.cost
    told = [
        (e.universe, e.level, e.query, e.units, e.answers, e.mechanism, e.parameter, e.cost)
        for e in ledger.events
    ]
    answers = {"total": 1, "detailed": 40, "age": 20}
    assert told == [
        (
            "persons",
            d.level,
            d.query,
            {"US": 1, "Block": BLOCKS}[d.level],
            answers[d.query],
            p.mechanism,
            d.parameter,
            d.cost,
        )
        for d in p.measurements
    ]


def test_every_draw_of_a_level_is_in_the_ledger_before_the_first_bit_is_asked_for() -> None:
    p = plan()
    ledger = Ledger(p.cost)
    source = Failing(ledger)
    with pytest.raises(OSError, match="no more bits"):
        run(p, source, ledger=ledger)
    assert [e.query for e in source.seen] == ["detailed", "age"]
    assert ledger.cost == p.cost / 2  # spent, though nothing came of it


def test_a_ledger_that_cannot_be_written_stops_the_draw() -> None:
    def full(_: object) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        run(plan(), Forbidden(), ledger=Ledger(HALF, write=full))


@pytest.mark.parametrize("budget", [Fraction(0), Fraction(1, 10), HALF / 2 - Fraction(1, 10**30)])
def test_nothing_is_drawn_beyond_the_budget(budget: Fraction) -> None:
    ledger = Ledger(budget)
    with pytest.raises(PrivacyError, match="of a budget of"):
        run(plan(), Forbidden(), ledger=ledger)
    assert ledger.cost <= budget


@pytest.mark.parametrize("mechanism", MECHANISMS.values())
def test_noise_that_cannot_be_drawn_is_refused_before_it_is_paid_for(mechanism: Mechanism) -> None:
    dear = plan(mechanism, Fraction(1, 2**110))
    ledger = Ledger(dear.cost)
    with pytest.raises(SpecError, match="beyond"):
        run(dear, Forbidden(), "US", ledger)
    assert ledger.events == ()


def test_nothing_is_measured_twice() -> None:
    p = plan()
    ledger = Ledger(p.cost)
    run(p, seeded(1), "US", ledger)
    run(p, seeded(1), "Block", ledger)
    for level in ("US", "Block"):
        with pytest.raises(PrivacyError):
            run(p, Forbidden(), level, ledger)
    assert ledger.cost == p.cost


def test_nothing_happens_before_the_first_measurement_is_asked_for() -> None:
    ledger = Ledger(HALF)
    waiting = measure(
        Confidential(TRUTH),
        "Block",
        "persons",
        SCHEMA,
        MeasuredSpine.from_published(TREE),
        plan(),
        Forbidden(),
        ledger,
    )
    assert ledger.events == ()
    with pytest.raises(AssertionError, match="noise was drawn"):
        next(waiting)
    assert len(ledger.events) == 2


@pytest.mark.parametrize(
    "wrong",
    [TRUTH.rows(0, BLOCKS - 1), TRUTH.up(TREE.parent[1], 1), truth(PL94)],
    ids=["a unit short", "another level", "another schema"],
)
def test_a_histogram_of_something_else_is_refused_before_any_draw_and_costs_nothing(
    wrong: Histogram,
) -> None:
    written: list[Event] = []
    ledger = Ledger(HALF, write=written.append)
    with pytest.raises(PrivacyError, match="not one of this level and schema"):
        list(
            measure(
                Confidential(wrong),
                "Block",
                "persons",
                SCHEMA,
                MeasuredSpine.from_published(TREE),
                plan(),
                Forbidden(),
                ledger,
            )
        )
    assert (ledger.events, written) == ((), [])


def test_units_of_a_class_that_the_plan_does_not_have_are_refused_before_any_draw() -> None:
    own = PlannedMeasurement.priced(
        "Block", "age", DISCRETE_GAUSSIAN, Neighbours.BOUNDED, HALF, "other"
    )
    ledger = Ledger(HALF, paths=((("Block", "other"),),))
    with pytest.raises(PrivacyError, match="no class 'all'"):
        run(Plan(Neighbours.BOUNDED, (own,), ((("Block", "other"),),)), Forbidden(), ledger=ledger)
    assert ledger.events == ()


def test_each_unit_has_the_noise_of_its_own_class_and_one_without_draws_says_nothing() -> None:
    """Of three counties one has one block: its share goes up, and the block's value is nobody's
    count.
    """
    codes = (np.array(["US"]), np.array(["a", "b", "c"]), np.array(["a1", "a2", "b1", "c1", "c2"]))
    spine = Spine(
        ("US", "County", "Block"),
        codes,
        (np.zeros(1, int), np.zeros(3, int), np.array([0, 0, 1, 2, 2])),
    )
    tree = MeasuredSpine.bypassed(spine, np.arange(5))
    third = Fraction(1, 3)
    shares = Allocation(
        dict.fromkeys(spine.levels, third), {lv: {"total": Fraction(1)} for lv in spine.levels}
    )
    levels = spine.levels
    every = tabulation.conceivable(levels)
    classes = {
        place: tabulation.measured_levels(levels, *place) for path in every for place in path
    }
    p = Plan.from_allocation(
        Fraction(3), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares, classes, every
    ).along(tree.paths)
    assert p.paths == (
        (("US", "US"), ("County", "County"), ("Block", "Block")),
        (("US", "US"), ("County", "County to Block"), ("Block", "unmeasured")),
    )
    ledger = Ledger(p.cost, paths=p.paths)
    lowest = Histogram.from_triplets(
        5, SCHEMA.cells, np.arange(5), np.zeros(5, int), np.full(5, 1000)
    )
    h = {
        "US": lowest.up(np.zeros(5, int), 1),
        "County": lowest.up(spine.parent[2], 3),
        "Block": lowest,
    }
    found = {
        lv: list(measure(Confidential(h[lv]), lv, "persons", SCHEMA, tree, p, seeded(3), ledger))
        for lv in levels
    }
    assert ledger.cost == p.cost == 3
    assert [(e.level, e.unit_class, e.units) for e in ledger.events] == [
        ("US", "US", 1),
        ("County", "County", 2),
        ("County", "County to Block", 1),
        ("Block", "Block", 4),
    ]
    own = p.of_class("County", "County")[0].variance
    np.testing.assert_allclose(
        found["County"][0].variance, [own, p.of_class("County", "County to Block")[0].variance, own]
    )
    block = found["Block"][0]
    assert np.isinf(block.variance).tolist() == [False, False, True, False, False]
    assert block.values[2, 0] == 0
    assert abs(block.values[[0, 1, 3, 4], 0] - 1000).max() < 10


def test_a_level_without_draws_is_not_measured() -> None:
    p = plan()
    only = Plan(p.neighbours, p.at("US"))
    assert run(only, Forbidden(), "Block") == []
