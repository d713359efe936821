"""Errors against a brute-force dense computation on small random trees."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import das.truth.evaluation as accuracy
from das.errors import InputError
from das.evaluate.comparison import Headline, headline
from das.evaluate.errors import NONE, Spread
from das.model.confidential import Confidential
from das.model.error_rows import CLASSES
from das.model.histogram import Histogram, SparseAnswers
from das.model.measurement import Measurement
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.truth.evaluation import Published, tally_queries

TOY = Schema(
    "toy", (Attribute("sex", ("male", "female")), Attribute("age", ("young", "middle", "old")))
)
QUERIES = ("total", "sex", "age", "detailed")
LEVELS = ("State", "County", "Block")


class InMemory:
    """Measurements held as arrays: ``values[level, query]`` and ``variance[level, query]``."""

    def __init__(self, values, variance):
        self.values, self.variance = values, variance

    def queries(self, level):
        return tuple(q for lv, q in self.values if lv == level)

    def read(self, level, query, start, stop):
        key = level, query
        return Measurement(
            level, query, start, self.values[key][start:stop], self.variance[key][start:stop]
        )


def from_dense(table):
    unit, cell = np.nonzero(table)
    return Histogram.from_triplets(*table.shape, unit, cell, table[unit, cell])


def tree(blocks):
    counties = len(blocks)
    codes = [np.array(["s"]), np.array([f"c{i:03d}" for i in range(counties)])]
    codes.append(np.array([f"b{i:03d}" for i in range(sum(blocks))]))
    return Spine(
        LEVELS,
        tuple(codes),
        (np.zeros(1, int), np.zeros(counties, int), np.repeat(range(counties), blocks)),
    )


def levels_of(spine, dense):
    county = np.zeros((spine.units("County"), dense.shape[1]), dtype=np.int64)
    np.add.at(county, spine.parent[2], dense)
    return {"State": county.sum(axis=0, keepdims=True), "County": county, "Block": dense}


@st.composite
def worlds(draw):
    """A tree, a truth with counts of all classes, a publication, and measurements of some queries
    and units.
    """
    blocks = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    spine, n = tree(blocks), sum(blocks)
    scale = draw(st.sampled_from([2, 20, 30000]))
    truth = levels_of(spine, rng.integers(0, scale, (n, 6)) * rng.integers(0, 2, (n, 6)))
    out = levels_of(spine, rng.integers(0, scale, (n, 6)) * rng.integers(0, 2, (n, 6)))
    sigma = draw(st.sampled_from([0.4, 5, 3e6]))  # the last: wider than can be counted in an array
    values, variance = {}, {}
    for level in LEVELS:
        for name in draw(st.lists(st.sampled_from(QUERIES), unique=True, max_size=4)):
            answers = TOY.query(name).answer(truth[level])
            values[level, name] = answers + np.rint(rng.normal(0, sigma, answers.shape)).astype(
                np.int64
            )
            missing = rng.random(len(answers)) < draw(st.sampled_from([0, 0.5, 1]))
            variance[level, name] = np.where(missing, np.inf, 2.0)
    return spine, truth, out, InMemory(values, variance)


class Estimates:
    """Estimates held as arrays, of the total at every level but the lowest."""

    def __init__(self, value, error):
        self.value, self.error = value, error

    def queries(self, level):
        return tuple(q for lv, q in self.value if lv == level)

    def read(self, level, query, start, stop):
        return self.value[level, query][start:stop], self.error[level, query][start:stop]


def held(out, noisy, estimates=None):
    queries = {level: noisy.queries(level) for level in LEVELS}
    return Published(noisy, {k: from_dense(v) for k, v in out.items()}, queries, estimates)


def evaluate(truth, published, spine):
    tallies = tally_queries(truth, published, spine, TOY, spine.levels)
    return [row for tally in tallies for row in tally.rows(DISCRETE_GAUSSIAN)]


def percents(error, true):
    """As the Bureau's program says it: of the true count, or of the mean of both where the true one
    is 0.
    """
    both = np.where(true > 0, true, (true + true + error) / 2)
    return np.array(
        [
            0.0 if e == 0 else 100 * e / b * (1 if t or e > 0 else -1)
            for e, b, t in zip(error, both, true, strict=True)
        ]
    )


def brute(spine, truth, out, noisy):
    """Every row from the definitions: dense arrays, NumPy's quantiles, one class at a time."""
    rows = {}
    for level in spine.levels:
        measured = noisy.queries(level)
        for name in {"total", *measured}:
            query = TOY.query(name)
            true = query.answer(truth[level])
            sources = {"postprocessed": (query.answer(out[level]), np.ones(len(true), dtype=bool))}
            if name in measured:
                sources["nmf"] = noisy.values[level, name], np.isfinite(noisy.variance[level, name])
            for source, (values, units) in sources.items():
                error, size = (values - true)[units].ravel(), true[units].ravel()
                bounds = {
                    "all": (0, np.inf),
                    "0": (0, 0),
                    "1-9": (1, 9),
                    "10-99": (10, 99),
                    "100-999": (100, 999),
                }
                bounds |= {"1000-9999": (1000, 9999), "10000+": (10000, np.inf)}
                for bin_, (low, high) in bounds.items():
                    e = error[(size >= low) & (size <= high)]
                    t = size[(size >= low) & (size <= high)]
                    if not len(e):
                        continue
                    p50, p90, p95, p99 = np.quantile(
                        np.abs(e), [0.5, 0.9, 0.95, 0.99], method="inverted_cdf"
                    )
                    r = percents(e, t)
                    cv = (
                        100 * np.sqrt((e.astype(float) ** 2).mean()) / t.mean() if t.any() else None
                    )
                    flips = int(((t == 0) & (e > 0)).sum()), int(((t > 0) & (t + e <= 0)).sum())
                    n_persons = truth["State"].sum()
                    tvd = (
                        1 - np.abs(e).sum() / (2 * n_persons)
                        if bin_ == "all" and n_persons
                        else None
                    )
                    mean = [np.abs(e).mean(), np.sqrt((e.astype(float) ** 2).mean()), e.mean()]
                    rows[level, name, source, bin_] = (
                        (len(e), *mean, p50, p95, np.abs(e).max(), tvd),
                        (p90, p99, *flips),
                        (np.abs(r).mean(), r.mean(), cv),
                    )
    return rows


@settings(max_examples=60, deadline=None)
@given(worlds(), st.sampled_from([1, 5, 1 << 19]))
def test_rows_are_those_of_the_definitions(world, chunk):
    spine, truth, out, noisy = world
    old, accuracy.CHUNK = accuracy.CHUNK, chunk
    try:
        boxed = {k: Confidential(from_dense(v)) for k, v in truth.items()}
        rows = evaluate(boxed, held(out, noisy), spine)
    finally:
        accuracy.CHUNK = old
    expected = brute(spine, truth, out, noisy)
    got = {
        (r.level, r.query, r.source, r.bin): (
            r.n,
            r.mae,
            r.rmse,
            r.bias,
            r.p50,
            r.p95,
            r.max,
            r.tvd,
        )
        for r in rows
    }
    assert len(got) == len(rows)
    assert got.keys() == expected.keys()
    more = {(r.level, r.query, r.source, r.bin): r for r in rows}
    for key, (row, whole, percent) in expected.items():
        r = more[key]
        assert (r.p90, r.p99, r.zero_to_positive, r.positive_to_zero) == whole
        assert (r.mape, r.malpe, r.cv) == pytest.approx(percent)
        assert got[key][0] == row[0]
        assert got[key][4:7] == row[4:7], key
        assert got[key][1:4] == pytest.approx(row[1:4], rel=1e-12, abs=1e-12)
        assert got[key][7] == (None if row[7] is None else pytest.approx(row[7]))


def small_world():
    spine = tree([2, 1])
    truth = levels_of(
        spine, np.array([[0, 5, 0, 0, 0, 20], [3, 0, 0, 0, 0, 0], [0, 0, 0, 0, 100, 0]])
    )
    out = levels_of(spine, np.array([[1, 4, 0, 0, 0, 20], [3, 0, 0, 0, 1, 0], [0, 0, 0, 0, 90, 9]]))
    noisy = InMemory(
        {("Block", "detailed"): truth["Block"] + np.array([[2], [-2], [4]])},
        {("Block", "detailed"): np.ones(3)},
    )
    return spine, truth, out, noisy


def run(spine, truth, out, noisy):
    boxed = {k: Confidential(from_dense(v)) for k, v in truth.items()}
    return evaluate(boxed, held(out, noisy), spine)


def test_numbers_by_hand():
    rows = {(r.level, r.query, r.source, r.bin): r for r in run(*small_world())}
    detailed = rows[
        "Block", "detailed", "postprocessed", "all"
    ]  # errors 1 -1 | 1 | -10 9, and thirteen zeros
    assert (detailed.n, detailed.mae, detailed.bias) == (18, 22 / 18, 0)
    assert (detailed.p50, detailed.p95, detailed.max) == (0, 10, 10)
    assert detailed.rmse == pytest.approx(np.sqrt(184 / 18))
    assert detailed.tvd == pytest.approx(1 - 22 / 256)
    zero = rows["Block", "detailed", "postprocessed", "0"]
    assert (zero.n, zero.bias, zero.tvd) == (14, 11 / 14, None)
    noisy = rows["Block", "detailed", "nmf", "all"]
    assert (noisy.mae, noisy.bias, noisy.p50, noisy.max) == (8 / 3, 4 / 3, 2, 4)
    assert ("Block", "total", "nmf", "all") not in rows
    assert [r.bin for r in rows.values() if r.level == "State" and r.query == "total"] == [
        "all",
        "100-999",
    ]


def test_estimates_have_rows_of_their_own_and_the_coverage_of_their_intervals():
    """True totals 25, 3, 100: errors 1/2, -5, 0. The first two are uncertain, the first inside its
    interval.
    """
    spine, truth, out, noisy = small_world()
    value = {("Block", "total"): np.array([[25.5], [-2.0], [100.0]], dtype=np.float32)}
    error = {("Block", "total"): np.array([[0.31], [3.0], [0.01]], dtype=np.float32)}
    boxed = {k: Confidential(from_dense(v)) for k, v in truth.items()}
    rows = evaluate(boxed, held(out, noisy, Estimates(value, error)), spine)
    mine = {r.bin: r for r in rows if r.source == "estimates"}
    row = mine["all"]
    assert (row.level, row.query, row.n, row.coverage) == ("Block", "total", 3, 0.5)
    assert (row.mae, row.bias, row.max) == pytest.approx((5.5 / 3, -4.5 / 3, 5.0))
    assert row.tvd == pytest.approx(1 - 5.5 / 256)
    assert row.mape is row.zero_to_positive is None  # of counts, which estimates are not
    assert {r.coverage for r in rows if r.source != "estimates"} == {None}
    assert [(b, r.bias) for b, r in mine.items() if b != "all"] == [
        ("1-9", -5.0),
        ("10-99", 0.5),
        ("100-999", 0.0),
    ]


def test_what_noise_must_give_stands_beside_what_it_gave():
    """Two variances at one level: the theory is that of a random unit."""
    spine, truth, out, noisy = small_world()
    noisy.variance["Block", "detailed"] = np.array([1e8, 4e8, np.inf])
    rows = {
        (r.source, r.bin): r
        for r in run(spine, truth, out, noisy)
        if (r.level, r.query) == ("Block", "detailed")
    }
    row = rows["nmf", "all"]
    assert row.n == 12
    assert row.expected_mae == pytest.approx(15000 * np.sqrt(2 / np.pi))
    assert row.expected_rmse == pytest.approx(np.sqrt(2.5e8))
    spread = np.sqrt((2.5e8 - row.expected_mae**2) / 12)
    assert row.mae_z == pytest.approx((row.mae - row.expected_mae) / spread)
    assert rows["postprocessed", "all"].expected_mae is None


def test_headline_pairs_sources_in_the_order_of_levels():
    rows = run(*small_world())
    assert headline(rows) == (
        Headline("State", 1, None, 0.0),
        Headline("County", 2, None, 1.0),
        Headline("Block", 3, None, 2 / 3),
    )
    spine, truth, out, noisy = small_world()
    noisy.values["County", "total"] = TOY.query("total").answer(truth["County"]) + 3
    noisy.variance["County", "total"] = np.ones(2)
    assert headline(run(spine, truth, out, noisy))[1] == Headline("County", 2, 3.0, 1.0)


def test_rows_come_root_first_and_total_first():
    rows = run(*small_world())
    assert list(dict.fromkeys(r.level for r in rows)) == list(LEVELS)
    at_block = list(dict.fromkeys((r.query, r.source) for r in rows if r.level == "Block"))
    assert at_block == [
        ("total", "postprocessed"),
        ("detailed", "nmf"),
        ("detailed", "postprocessed"),
    ]
    assert rows[0].bin == "all"
    assert {r.bin for r in rows} <= {"all", *CLASSES}


def test_no_dense_level_is_made(monkeypatch):
    """Nothing of units x answers is held: what is answered at once, sparse, is a chunk of units."""
    largest = []
    good = Histogram.sparse
    monkeypatch.setattr(
        Histogram, "sparse", lambda h, q: largest.append(h.units * q.answers) or good(h, q)
    )
    monkeypatch.setattr(SparseAnswers, "dense", lambda _: pytest.fail("a dense array"))
    monkeypatch.setattr(accuracy, "CHUNK", 60)
    spine = tree([4] * 25)
    dense = np.random.default_rng(0).integers(0, 3, (100, 6))
    run(spine, levels_of(spine, dense), levels_of(spine, dense), InMemory({}, {}))
    assert 6 <= max(largest) <= 60


def test_an_empty_world_has_no_total_variation_distance():
    spine = tree([1])
    nobody = levels_of(spine, np.zeros((1, 6), dtype=np.int64))
    rows = run(spine, nobody, nobody, InMemory({}, {}))
    assert [(r.bin, r.n, r.mae, r.tvd) for r in rows if r.level == "Block"] == [
        ("all", 1, 0, None),
        ("0", 1, 0, None),
    ]


def test_refusals():
    spine, truth, out, noisy = small_world()
    with pytest.raises(InputError, match="level 'Block' has no true or no published"):
        run(spine, truth, {k: out[k] for k in ("State", "County")}, noisy)
    with pytest.raises(InputError, match="do not fit its units"):
        run(spine, truth, {**out, "Block": out["Block"][:2]}, noisy)


# --- spreads
# -----------------------------------------------------------------------------------------

errors = st.lists(st.one_of(st.integers(-5, 5), st.integers(-(10**9), 10**9)), max_size=30)


@given(errors, errors)
def test_spreads_add_and_subtract(a, b):
    x, y, both = (Spread.from_errors(np.array(e, dtype=np.int64)) for e in (a, b, a + b))
    for one, other in ((x.merge(y), both), (both.without(y), x)):
        assert np.array_equal(one.value, other.value)
        assert np.array_equal(one.count, other.count)
    assert dict(zip(both.value.tolist(), both.count.tolist(), strict=True)) == {
        e: (a + b).count(e) for e in a + b
    }


@given(errors.filter(len), st.lists(st.fractions(Fraction(1, 100), 1), max_size=3))
def test_quantiles_are_the_smallest_errors_that_cover(e, ps):
    size = sorted(abs(x) for x in e)
    assert Spread.from_errors(np.array(e, dtype=np.int64)).quantiles(ps) == [
        next(x for x in size if Fraction(sum(y <= x for y in size), len(size)) >= p) for p in ps
    ]


def test_no_errors():
    assert NONE.n == 0
    assert Spread.from_errors(np.zeros((0, 3), dtype=np.int64)).n == 0
