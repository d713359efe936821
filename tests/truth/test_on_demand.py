"""Answers on request: true plus the noise of their coordinate, paid in full before the first, and
the same however they are asked.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.paying import paying
from das.errors import DasError, InputError, PrivacyError
from das.model import tabulation
from das.model.budget import Allocation, Neighbours
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Event, Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import RecordingSource, SparseSource, published_variance
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.model.plan import Plan
from das.model.redistricting import PL94
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.noise import entropy
from das.noise.coordinates import CoordinateNoise
from das.noise.entropy import ChunkLabel, CoordinateLabel, Entropy, keyed, seeded
from das.noise.samplers import SAMPLERS, VERSION
from das.publications.dhc.truth import oracle as on_demand
from das.publications.dhc.truth.oracle import OnDemandMeasurement
from das.truth import measure as measuring
from das.truth.measure import draw, truth_digest
from tests.oracles import chi_square_p, dense, gaussian_pmf, independent_p, tally
from tests.sparse import SparseMeasurements

Ints = NDArray[np.int64]
KEY = bytes(range(1, 33))
BLOCKS = 150
TREE = Spine(
    ("US", "Block"),
    (np.array(["US"]), np.char.mod("%04d", np.arange(BLOCKS))),
    (np.zeros(1, dtype=np.int64), np.zeros(BLOCKS, dtype=np.int64)),
)
HALF = Fraction(1, 2)
SHARES = Allocation(
    {"US": HALF, "Block": HALF},
    {
        "US": {"detailed": Fraction(1)},
        "Block": {"detailed": HALF, "hhinstlevels": HALF / 2, "votingage * hispanic": HALF / 2},
    },
)
PLAN = Plan.from_allocation(HALF, DISCRETE_GAUSSIAN, Neighbours.BOUNDED, SHARES)


def histogram(seed: int = 1, schema: Schema = PL94, units: int = BLOCKS) -> Histogram:
    rng = np.random.default_rng(seed)
    n = 12 * units
    return Histogram.from_triplets(
        units,
        schema.cells,
        rng.integers(0, units, n),
        rng.integers(0, schema.cells, n),
        np.ones(n, dtype=np.int64),
    )


TRUTH = histogram()


def levels(block: Histogram = TRUTH, tree: Spine = TREE) -> dict[str, Confidential[Histogram]]:
    return {level: Confidential(h) for level, h in block.upward(tree).items()}


def oracle(
    plan: Plan = PLAN,
    source: Entropy | None = None,
    truth: Mapping[str, Confidential[Histogram]] | None = None,
    ledger: Ledger | None = None,
    tree: MeasuredSpine | None = None,
    schema: Schema = PL94,
    universe: str = "persons",
    number: Callable[[str], int] = lambda _: 1,
) -> OnDemandMeasurement:
    ledger = Ledger(plan.cost, paths=plan.paths) if ledger is None else ledger
    tree = tree or MeasuredSpine.from_published(TREE)
    pay = paying(ledger, universe, schema, tree, plan)
    return OnDemandMeasurement(
        truth or levels(), universe, schema, tree, plan, source or keyed(KEY), pay, number
    )


def everything(source: SparseSource, level: str, query: str) -> Ints:
    units, cells = source.shape(level, query)
    u, c = np.divmod(np.arange(units * cells), cells)
    return source.answers(level, query, u, c).reshape(units, cells)


FULL = {q: everything(oracle(), "Block", q) for q in SHARES.queries["Block"]}


# --- what an answer is
# ------------------------------------------------------------------------------------------


def test_an_answer_is_the_true_one_and_the_noise_of_its_coordinate() -> None:
    """The truth by the dense matrix of the query; the noise by the label of its chunk, written
    out.
    """
    histogram_, source, queries = TRUTH.dense(), keyed(KEY), {q: PL94.query(q) for q in FULL}
    draws = [(d, np.ones(BLOCKS, dtype=bool)) for d in PLAN.at("Block")]
    chunk = ChunkLabel(
        "persons",
        "Block",
        1,
        b"0000",
        b"0149",
        measuring._plan_digest(queries, draws),
        VERSION,
        bytes.fromhex(truth_digest(Confidential(TRUTH))),
    )
    for d in PLAN.at("Block"):
        query = PL94.query(d.query)
        true = histogram_ @ dense(PL94, query).T
        blocks, size = source.blocks(CoordinateLabel(chunk, d.query)), BLOCKS * query.answers
        noise = CoordinateNoise(blocks, size, SAMPLERS[d.mechanism.name], d.parameter).dense(
            0, size
        )
        np.testing.assert_array_equal(FULL[d.query], true + noise.reshape(BLOCKS, -1))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(FULL)),
            st.lists(st.tuples(st.integers(0, BLOCKS - 1), st.integers(0, 2015)), max_size=30),
        ),
        max_size=6,
    ),
    st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_answers_do_not_depend_on_what_is_asked_together_or_before(
    requests: list[tuple[str, list[tuple[int, int]]]], anew: bool
) -> None:
    """Any requests in any order, of one oracle or of one that begins again each time, are pieces of
    the full draw, bit for bit.
    """
    asked = oracle()
    for query, pairs in requests:
        asked = oracle() if anew else asked
        units, cells = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        cells = cells % PL94.query(query).answers
        assert (
            asked.answers("Block", query, units, cells).tolist()
            == FULL[query][units, cells].tolist()
        )


def test_random_subsets_are_the_full_level() -> None:
    rng, asked = np.random.default_rng(1), oracle()
    for query, full in FULL.items():
        for kind in (np.int64, np.int32, np.uint16):
            at = rng.permutation(full.size)[: full.size // 3]
            units, cells = (x.astype(kind) for x in np.divmod(at, full.shape[1]))
            np.testing.assert_array_equal(
                asked.answers("Block", query, units, cells), full.ravel()[at]
            )


def test_narrow_numbers_of_units_do_not_overflow() -> None:
    """Places of a million answers a unit, asked for as 16 bits each."""
    schema = Schema(
        "w",
        (
            Attribute("a", tuple(map(str, range(1000)))),
            Attribute("b", tuple(map(str, range(1000)))),
        ),
    )
    truth = histogram(3, schema)
    one = Allocation(
        {"US": HALF, "Block": HALF}, {"US": {"a": Fraction(1)}, "Block": {"detailed": Fraction(1)}}
    )
    asked = oracle(
        Plan.from_allocation(HALF, DISCRETE_GAUSSIAN, Neighbours.BOUNDED, one),
        truth=levels(truth),
        schema=schema,
    )
    units, cells = np.array([149, 3, 149]), np.array([999_999, 40_000, 7])
    np.testing.assert_array_equal(
        asked.answers("Block", "detailed", units.astype(np.uint8), cells.astype(np.int32)),
        asked.answers("Block", "detailed", units, cells),
    )


@pytest.mark.parametrize("chunk", [1, 7, 150])
def test_chunks_have_streams_of_their_own(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    """With few units to a chunk: a full draw is the same as its pieces, and no chunk repeats
    another's noise.
    """
    monkeypatch.setattr(on_demand, "LIMIT", chunk * PL94.cells)
    asked = oracle()
    full = everything(asked, "Block", "detailed")
    at = np.random.default_rng(2).permutation(full.size)[:5000]
    np.testing.assert_array_equal(
        oracle().answers("Block", "detailed", *np.divmod(at, PL94.cells)), full.ravel()[at]
    )
    noise = full - TRUTH.dense()
    assert (
        independent_p(noise[:-chunk].ravel(), noise[chunk:].ravel()) > 1e-4
        if chunk < BLOCKS
        else (full == FULL["detailed"]).all()
    )
    assert len(asked._levels["Block"]._streams) == -(-BLOCKS // chunk)


# --- the law
# ----------------------------------------------------------------------------------------------------


def gaussian_p(noise: Ints, sigma_sq: Fraction) -> float:
    top = int(8 * float(sigma_sq) ** 0.5) + 2
    return chi_square_p(tally(noise.ravel(), top), gaussian_pmf(sigma_sq, top), noise.size)


def test_answers_minus_the_truth_have_the_scale_of_the_plan() -> None:
    noise = FULL["detailed"] - TRUTH.dense()
    sigma_sq = next(d.parameter for d in PLAN.at("Block") if d.query == "detailed")
    assert gaussian_p(noise, sigma_sq) > 1e-4
    for factor in (Fraction(7, 10), Fraction(13, 10)):
        assert gaussian_p(noise, sigma_sq * factor**2) < 1e-20


def test_noise_of_units_answers_queries_levels_and_runs_is_unrelated() -> None:
    noise = FULL["detailed"] - TRUTH.dense()
    pairs = {
        "units": (noise[:-1], noise[1:]),
        "answers": (noise[:, :-1], noise[:, 1:]),
        "queries": (noise[:, :8], FULL["hhinstlevels"] - TRUTH.answer(PL94.query("hhinstlevels"))),
        "levels": (noise[:1], everything(oracle(), "US", "detailed") - TRUTH.dense().sum(axis=0)),
        "runs": (noise, everything(oracle(source=seeded(1)), "Block", "detailed") - TRUTH.dense()),
    }
    for name, (a, b) in pairs.items():
        width = min(a.shape[1], b.shape[1])
        a, b = a[:, :width].ravel() // 3, b[:, :width].ravel() // 3
        assert independent_p(a, b, 1) > 1e-4, name
    a = noise.ravel() // 3
    assert (
        independent_p(a[:1200], a[:1200] + (np.arange(1200) % 2) * a[:1200], 1) < 1e-6
    )  # so few are enough to see it


def related(a: Ints, b: Ints) -> float:
    """How many answers of two noises are equal, and how many would be if they were independent."""
    values = np.union1d(a, b)
    chance = sum(float((a == v).mean() * (b == v).mean()) for v in values)
    return float((a == b).mean()) / chance


def test_another_truth_plan_draw_universe_is_another_noise() -> None:
    """In one cell of one block the truth differs: every answer has other noise, also where both
    truths agree.
    """
    other = Histogram.from_triplets(
        BLOCKS,
        PL94.cells,
        np.append(TRUTH.unit, 149),
        np.append(TRUTH.cell, 0),
        np.append(TRUTH.count, 1),
    )
    dearer = Allocation(
        SHARES.levels, SHARES.queries | {"Block": {"detailed": HALF, "hhinstlevels": HALF}}
    )
    mine = FULL["detailed"] - TRUTH.dense()
    for name, o, truth in (
        ("truth", oracle(truth=levels(other)), other),
        (
            "plan",
            oracle(Plan.from_allocation(HALF, DISCRETE_GAUSSIAN, Neighbours.BOUNDED, dearer)),
            TRUTH,
        ),
        ("draw", oracle(number=lambda _: 2), TRUTH),
        ("universe", oracle(universe="housing"), TRUTH),
    ):
        theirs = everything(o, "Block", "detailed") - truth.dense()
        assert 0.95 < related(mine, theirs) < 1.05, name
        assert o.mark("Block") != oracle().mark("Block"), name
    assert related(mine, everything(oracle(), "Block", "detailed") - TRUTH.dense()) > 5
    assert oracle().mark("Block") == oracle().mark("Block") != oracle().mark("US")


def test_it_shares_nothing_with_what_is_drawn_whole() -> None:
    tree, source = MeasuredSpine.from_published(TREE), keyed(KEY)
    chunks = list(draw(levels()["Block"], "Block", "persons", PL94, tree, PLAN, source))
    whole = [m.values for c in chunks for m in c.measurements if m.query == "detailed"]
    mine = FULL["detailed"] - TRUTH.dense()
    assert 0.95 < related(mine, np.concatenate(whole) - TRUTH.dense()) < 1.05
    assert oracle().mark("Block") not in {c.mark for c in chunks}


# --- classes of units
# ---------------------------------------------------------------------------------------------


def classed() -> tuple[MeasuredSpine, Plan, dict[str, Confidential[Histogram]], Histogram]:
    """Of three counties one has one block: its share goes up, and the block is not measured."""
    codes = (np.array(["US"]), np.array(["a", "b", "c"]), np.array(["a1", "a2", "b1", "c1", "c2"]))
    spine = Spine(
        ("US", "County", "Block"),
        codes,
        (np.zeros(1, int), np.zeros(3, int), np.array([0, 0, 1, 2, 2])),
    )
    tree, third = MeasuredSpine.bypassed(spine, np.arange(5)), Fraction(1, 3)
    shares = Allocation(
        dict.fromkeys(spine.levels, third), {lv: {"detailed": Fraction(1)} for lv in spine.levels}
    )
    every = tabulation.conceivable(spine.levels)
    classes = {
        place: tabulation.measured_levels(spine.levels, *place) for path in every for place in path
    }
    p = Plan.from_allocation(
        Fraction(1, 100), DISCRETE_GAUSSIAN, Neighbours.BOUNDED, shares, classes, every
    ).along(tree.paths)
    block = histogram(5, units=5)
    return (
        tree,
        p,
        {level: Confidential(h) for level, h in block.upward(spine).items()},
        block.up(spine.parent[2], 3),
    )


def test_each_unit_has_the_noise_of_its_own_class_and_one_without_draws_is_not_told() -> None:
    tree, p, truth, county = classed()
    ledger = Ledger(p.cost, paths=p.paths)
    asked = oracle(p, truth=truth, tree=tree, ledger=ledger)
    noise = everything(asked, "County", "detailed") - county.dense()
    own, both = (p.of_class("County", name)[0] for name in ("County", "County to Block"))
    assert own.parameter == 2 * both.parameter
    assert asked.variance("County", "detailed").tolist() == [
        own.variance,
        both.variance,
        own.variance,
    ]
    for unit, d in enumerate((own, both, own)):
        assert gaussian_p(noise[unit], d.parameter) > 1e-4
        assert gaussian_p(noise[unit], (both if d is own else own).parameter) < 1e-6
    assert np.isinf(asked.variance("Block", "detailed")).tolist() == [
        False,
        False,
        True,
        False,
        False,
    ]
    spent = ledger.events
    with pytest.raises(PrivacyError, match=r"b1 is not measured by this query"):
        asked.answers("Block", "detailed", np.array([0, 2]), np.array([5, 5]))
    assert ledger.events == spent
    asked.answers("Block", "detailed", np.array([0, 4]), np.array([5, 5]))
    everything(asked, "US", "detailed")
    assert ledger.cost == p.cost
    assert sorted((e.level, e.unit_class, e.units) for e in ledger.events) == [
        ("Block", "Block", 4),
        ("County", "County", 2),
        ("County", "County to Block", 1),
        ("US", "US", 1),
    ]


def test_geometric_noise_is_as_well_on_request() -> None:
    p = Plan.from_allocation(HALF, GEOMETRIC, Neighbours.BOUNDED, SHARES)
    noise = everything(oracle(p), "Block", "detailed") - TRUTH.dense()
    assert noise.var() == pytest.approx(
        next(d.variance for d in p.at("Block") if d.query == "detailed"), rel=0.05
    )


# --- what is paid
# -------------------------------------------------------------------------------------------------

ONE = np.zeros(1, dtype=np.int64)


class Watching(Entropy):
    """Fails when it is first asked for bits, and remembers what the ledger said then."""

    name, private, key_mark = "watching", True, "00"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger, self.seen = ledger, ()

    def blocks(self, label: CoordinateLabel) -> Any:
        self.seen = self.ledger.events
        raise OSError("no bits")


def due(level: str = "Block") -> list[tuple[str, Fraction, int]]:
    units = {"US": 1, "Block": BLOCKS}[level]
    return [(d.query, d.cost, units) for d in PLAN.at(level)]


def said(events: tuple[Event, ...]) -> list[tuple[str, Fraction, int]]:
    return [(e.query, e.cost, e.units) for e in events]


def test_a_level_is_paid_for_in_full_before_its_first_answer() -> None:
    """All its queries, at what they cost when all of them is drawn, though one number of one of
    them is asked for.
    """
    written: list[Event] = []
    ledger = Ledger(PLAN.cost, write=written.append)
    source = Watching(ledger)
    with pytest.raises(OSError, match="no bits"):
        oracle(source=source, ledger=ledger).answers("Block", "votingage * hispanic", ONE, ONE)
    assert said(source.seen) == said(tuple(written)) == due()
    assert sum(e.cost for e in source.seen) == HALF / 2


def test_a_level_is_paid_for_once_however_often_it_is_asked() -> None:
    ledger = Ledger(PLAN.cost)
    asked = oracle(ledger=ledger)
    assert (asked.queries("Block"), asked.shape("US", "detailed")) == (tuple(FULL), (1, PL94.cells))
    assert (asked.variance("Block", "detailed") > 0).all()
    assert ledger.events == ()  # what is public costs nothing
    for query in [*FULL, *FULL]:
        asked.answers("Block", query, ONE, ONE)
    assert said(ledger.events) == due()
    asked.answers("US", "detailed", ONE, ONE)
    assert said(ledger.events) == due() + due("US")
    assert ledger.cost == PLAN.cost


def test_who_does_not_know_that_it_is_the_same_draw_pays_again() -> None:
    """The ledger does not know the truth: another oracle on it may have another."""
    ledger, other = Ledger(2 * PLAN.cost), histogram(2)
    oracle(ledger=ledger).answers("Block", "detailed", ONE, ONE)
    oracle(ledger=ledger, truth=levels(other), number=lambda _: 2).answers(
        "Block", "detailed", ONE, ONE
    )
    assert said(ledger.events) == [*due(), *due()]
    poor = Ledger(PLAN.cost, spent=ledger.events[: len(due())])
    oracle(ledger=poor).answers("US", "detailed", ONE, ONE)
    with pytest.raises(PrivacyError, match="would spend"):
        oracle(ledger=poor).answers("Block", "detailed", ONE, ONE)


def test_who_keeps_the_books_pays_for_a_draw_that_is_made_again() -> None:
    told: list[str] = []
    for _ in range(2):
        again = OnDemandMeasurement(
            levels(),
            "persons",
            PL94,
            MeasuredSpine.from_published(TREE),
            PLAN,
            keyed(KEY),
            told.append,
        )
        for query, full in FULL.items():
            assert again.answers("Block", query, ONE, ONE).tolist() == full[:1, 0].tolist()
    assert told == ["Block", "Block"]


def test_a_level_that_the_budget_does_not_cover_has_no_answer() -> None:
    ledger = Ledger(PLAN.cost / 3)
    source = Watching(ledger)
    for _ in range(2):
        with pytest.raises(PrivacyError, match="would spend"):
            oracle(source=source, ledger=ledger).answers("Block", "votingage * hispanic", ONE, ONE)
    assert source.seen == ()


# --- what is refused, before anything is paid
# -----------------------------------------------------------------------

REFUSED: dict[str, tuple[tuple[str, str, Any, Any], type[DasError], str]] = {
    "no such level": (
        ("Tract", "detailed", ONE, ONE),
        PrivacyError,
        "no such level is measured here",
    ),
    "no such query": (
        ("US", "votingage * hispanic", ONE, ONE),
        InputError,
        "not measured at level 'US'",
    ),
    "no such unit": (("Block", "detailed", ONE + BLOCKS, ONE), InputError, "no unit 150 of 150"),
    "a negative unit": (("Block", "detailed", ONE - 1, ONE), InputError, "no unit -1"),
    "no such answer": (("Block", "hhinstlevels", ONE, ONE + 3), InputError, "no answer 3 of 3"),
    "a negative answer": (("Block", "detailed", ONE, ONE - 1), InputError, "no answer -1"),
    "two lengths": (
        ("Block", "detailed", ONE, np.zeros(2, dtype=np.int64)),
        InputError,
        "equally long",
    ),
    "floats": (("Block", "detailed", ONE.astype(float), ONE), InputError, "integers"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_there_is_not_is_refused(case: str) -> None:
    request, kind, message = REFUSED[case]
    ledger = Ledger(PLAN.cost)
    source = Watching(ledger)
    with pytest.raises(kind, match=message) as error:
        oracle(source=source, ledger=ledger).answers(*request)
    assert KEY.hex() not in str(error.value)
    assert (ledger.events, source.seen) == ((), ())


@pytest.mark.parametrize(
    "wrong", [histogram(units=BLOCKS - 1), histogram(schema=Schema("s", PL94.attributes[1:]))]
)
def test_a_histogram_of_something_else_is_refused(wrong: Histogram) -> None:
    ledger = Ledger(PLAN.cost)
    with pytest.raises(PrivacyError, match="not one of this level and schema"):
        oracle(truth={"Block": Confidential(wrong)}, ledger=ledger).answers(
            "Block", "detailed", ONE, ONE
        )
    with pytest.raises(PrivacyError, match="no such level"):
        oracle(truth={"Block": Confidential(TRUTH)}, ledger=ledger).answers(
            "US", "detailed", ONE, ONE
        )
    assert ledger.events == ()


@pytest.mark.parametrize("source", [entropy.system(), entropy.kernel()])
def test_a_source_that_keeps_nothing_is_refused_before_anything_is_paid(source: Entropy) -> None:
    ledger = Ledger(PLAN.cost)
    with pytest.raises(PrivacyError, match=r"keeps nothing.*\n.*keyed"):
        oracle(source=source, ledger=ledger).answers("Block", "detailed", ONE, ONE)
    assert ledger.events == ()


def test_neither_truth_nor_key_leaves_in_a_pickle_a_copy_or_a_line_of_a_log() -> None:
    asked = oracle()
    asked.answers("Block", "detailed", ONE, ONE)
    held = asked._levels["Block"]
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="in no pickle"):
            duplicate(asked)
    with pytest.raises((TypeError, PrivacyError)):
        pickle.dumps(held)
    assert (repr(asked), repr(held)) == (
        "<OnDemandMeasurement: confidential>",
        "<_OnDemandLevel: confidential>",
    )
    shown = f"{vars(asked)} {vars(held)}"
    assert KEY.hex() not in shown
    assert repr(KEY)[2:-1] not in shown
    assert str(TRUTH.cell[:5].tolist())[1:-1] not in shown


# --- what was told is kept
# ----------------------------------------------------------------------------------------


def test_what_was_recorded_answers_as_the_oracle_did_and_no_more() -> None:
    recorded, rng = RecordingSource(oracle()), np.random.default_rng(7)
    asked = {
        q: np.divmod(rng.integers(0, full.size, 300), full.shape[1]) for q, full in FULL.items()
    }
    for query, (units, cells) in asked.items():
        recorded.answers("Block", query, units[:200], cells[:200])
        recorded.answers("Block", query, units[100:], cells[100:])
    kept = SparseMeasurements.from_measurements(recorded.recorded("Block"))
    for query, (units, cells) in asked.items():
        assert (
            kept.answers("Block", query, units, cells).tolist()
            == FULL[query][units, cells].tolist()
        )
        assert len(kept.held["Block", query].at) == len(
            np.unique(units * FULL[query].shape[1] + cells)
        )
        stated = published_variance(oracle().variance("Block", query))
        assert (kept.variance("Block", query) == stated).all()
        assert (recorded.variance("Block", query) == stated).all()
