"""The marginals that are held between totals and everything: dense matrices, brute force over
cells, Clarabel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.estimate.batch import families
from das.estimate.descent import full_information
from das.estimate.family import Family
from das.estimate.information import Contrasts, Information, given_total, posterior
from das.estimate.informed import MOST, PRECISE, CellSums, FullInformationEstimator, precise
from das.estimate.upward_pass import upward_pass
from das.geography import bounds as geography
from das.geography.invariants import known_bounds
from das.model.constraint import Bounds
from das.model.histogram import Histogram
from das.model.measurement import Estimate, Measurement, Measurements
from das.model.schema import Attribute, Schema
from das.model.solution import Certificate
from das.model.spine import Spine
from das.rounding import Marginal
from tests.estimate.test_information import GROUPED, SCHEMAS, matrix, queries, random_operator
from tests.estimate.world import PLAIN, SMALL, World, memory, passes, random_spine, random_world
from tests.oracles import dense
from tests.rounding.one import round_estimate
from tests.solve.oracle_qp import Problem, clarabel_qp

Array = NDArray[np.float64]
ZERO = np.zeros(1, dtype=np.int64)
SPINE = Spine(
    ("R", "C", "B"),
    (
        np.array(["r"]),
        np.array(["r0", "r1", "r2"]),
        np.array([f"r{i}{j}" for i in range(3) for j in range(2)]),
    ),
    (ZERO, np.zeros(3, dtype=np.int64), np.repeat(np.arange(3), 2)),
)
#: Well-measured marginals of dwellings and of an attribute of two levels, beside cells that are
#: not.
VARIANCE = {"total": 5.0, "home": 15.0, "age": 20.0, "age * race": 400.0, "detailed": 150.0}


# --- sums of cells
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "names"),
    [
        (SMALL, ("home", "age")),
        (SMALL, ("race",)),
        (PLAIN, ("age",)),
        (PLAIN, ("total",)),
        (GROUPED, ("white", "sex")),
    ],
    ids=str,
)
@pytest.mark.parametrize("grouped", [False, True])
def test_what_is_said_of_sums_is_that_of_the_matrix(
    schema: Schema, names: tuple[str, ...], *, grouped: bool
) -> None:
    """MCM' and M mu for operators that differ on every contrast, with M written out; it tells apart
    what it is to, and no more.
    """
    rng = np.random.default_rng(len(names) + grouped)
    contrasts = Contrasts.for_queries(schema, [*queries(schema), *map(schema.query, names)])
    group = schema.query("race").index if grouped else np.zeros(schema.cells, dtype=np.intp)
    marginal = CellSums.coarsest(contrasts, [schema.query(n) for n in names], group)
    told = {
        (*(int(schema.query(n).index[k]) for n in names), int(group[k]))
        for k in range(schema.cells)
    }
    assert marginal.size == len(set(marginal.of_cell.tolist())) == len(told)
    m = (marginal.of_cell == np.arange(marginal.size)[:, None]).astype(float)
    operators = np.stack([random_operator(contrasts, rng) for _ in range(2)])
    assert np.allclose(
        marginal.covariance(operators), [m @ matrix(contrasts, o) @ m.T for o in operators]
    )
    x = rng.normal(size=(2, schema.cells))
    assert np.allclose(
        marginal.mean(x[:, contrasts.order].reshape(2, contrasts.d, *contrasts.sizes)), x @ m.T
    )


# --- which
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=list(SCHEMAS))
def test_a_margin_is_precise_where_its_cells_have_eight_times_its_variance(schema: Schema) -> None:
    """Cells of variance 1 and a marginal besides, over four powers of ten, in dense matrices."""
    contrasts = Contrasts.for_queries(schema, queries(schema))
    race, likely = schema.query("race"), np.full(contrasts.d, schema.cells / contrasts.d)
    possible = contrasts.dense_of(schema.possible).astype(bool)
    q, one = dense(schema, race), np.ones(schema.cells)
    got, expected = [], []
    for variance in 10.0 ** np.arange(-2, 2.25, 0.25):
        c = contrasts.inverse(
            contrasts.query(schema.query("detailed")) + contrasts.query(race) / variance, possible
        )[None]
        given = given_total(contrasts, c)
        whole = matrix(contrasts, c[0])
        whole -= np.outer(whole @ one, whole @ one) / (one @ whole @ one)
        assert np.allclose(matrix(contrasts, given[0]), whole)
        group = np.zeros(schema.cells, dtype=np.intp)
        got.append(bool(precise(contrasts, [race], given, likely * possible, group)))
        expected.append(bool(np.trace(whole) >= PRECISE * np.trace(q @ whole @ q.T)))
    assert got == expected
    assert set(got) == ({True, False} if schema.cells > 3 else {False})


def test_what_the_total_says_already_is_not_held() -> None:
    """Of a child with housing alone the dwellings are its total."""
    contrasts = Contrasts.for_queries(SMALL, queries(SMALL))
    support = np.zeros((1, contrasts.d), dtype=bool)
    support[0, :2] = True
    told = contrasts.query(SMALL.query("detailed")) + 100 * contrasts.query(SMALL.query("home"))
    c = given_total(contrasts, contrasts.inverse(told, support))
    group = np.zeros(SMALL.cells, dtype=np.intp)
    assert precise(contrasts, [SMALL.query("home")], c, np.full(contrasts.d, 3.0), group) == []
    both = given_total(contrasts, contrasts.inverse(told, np.ones((1, contrasts.d), dtype=bool)))
    assert (
        len(precise(contrasts, [SMALL.query("home")], both, np.full(contrasts.d, 3.0), group)) == 1
    )


def test_sums_of_what_is_held_are_not_held_again_and_the_pass_has_its_size() -> None:
    schema = Schema("many", tuple(Attribute.from_levels(n, 6) for n in "abcd"))
    names = ("a", "a * b", "c * d", "detailed")
    contrasts = Contrasts.for_queries(schema, [schema.query(n) for n in names])
    told = {"a": 1e4, "a * b": 1e2, "c * d": 10.0, "detailed": 1.0}
    c = contrasts.inverse(
        sum(w * contrasts.query(schema.query(n)) for n, w in told.items()),
        np.ones(contrasts.d, dtype=bool),
    )
    given, group = given_total(contrasts, c[None]), np.zeros(schema.cells, dtype=np.intp)
    held = precise(
        contrasts,
        [schema.query(n) for n in names],
        given,
        np.full(contrasts.d, schema.cells / contrasts.d),
        group,
    )
    assert [h.query.name for h in held] == ["a * b"]  # with "c * d" there would be 1,296 sums
    assert MOST < 6**4


# --- the passes
# ----------------------------------------------------------------------------------------------------


def unasked(source: Measurements, units: Callable[[Measurement], list[int]]) -> Measurements:
    """The same without the answers of some units."""
    held = {}
    for key, m in source.held.items():
        variance = m.variance.copy()
        variance[units(m)] = np.inf
        held[key] = m.values, variance
    return memory(held)


def patchy(seed: int, schema: Schema, share: float = 0.3, size: float = 60.0) -> World:
    """A world over ``SPINE`` where most cells of a place are empty, and the others are not."""
    rng = np.random.default_rng(seed)
    lowest = (
        rng.poisson(size, (6, schema.cells))
        * (rng.random((6, schema.cells)) < share)
        * schema.possible
    )
    structures = None
    if schema.dwelling is not None:
        group = dense(schema, schema.query(schema.dwelling))
        structures = np.minimum(lowest @ group.T, 1)
    truth = {}
    for depth in range(len(SPINE) - 1, -1, -1):
        unit, cell = np.nonzero(lowest)
        truth[SPINE.levels[depth]] = Histogram.from_triplets(
            *lowest.shape, unit, cell, lowest[unit, cell]
        )
        lowest = np.add.reduceat(lowest, SPINE.children(SPINE.levels[depth])[:-1], axis=0)
    return World(schema, SPINE, truth, structures)


@dataclass(frozen=True)
class Told:
    """A family, and what the subtrees of its children say."""

    contrasts: Contrasts
    information: Information
    method: FullInformationEstimator
    family: Family

    @staticmethod
    def of(
        world: World,
        variance: Mapping[str, float],
        total: str | None = None,
        blind: int | None = None,
    ) -> Told:
        """Child ``blind`` and those below it are asked for their cells alone."""
        source = world.measured(np.random.default_rng(5), tuple(variance), lambda _, q: variance[q])
        if blind is not None:
            source = unasked(
                source,
                lambda m: (
                    {"C": [blind], "B": [2 * blind, 2 * blind + 1]}.get(m.level, [])
                    if m.query != "detailed"
                    else []
                ),
            )
        bounds = world.bounds(total)
        known = upward_pass(source, world.spine, bounds, world.universe())
        method = replace(
            known.estimator(passes(world.spine, [["total"], ["detailed"]])), accuracy=1e-9
        )
        (family,) = families(
            source,
            world.schema,
            "C",
            world.truth["R"],
            world.spine.children("C"),
            bounds["C"].dense(),
        )
        return Told(known.contrasts, known.information["C"], method, family)

    def estimated(self) -> Array:
        return self.method.estimate(self.family)[0]

    def two_passes(self) -> Array:
        """The estimate with nothing held but the totals."""
        return replace(self.method, queries={"C": ()}).estimate(self.family)[0]

    def by_hand(self, *names: str, blind: int | None = None) -> Array:
        """The estimate with ``names`` held, but not by child ``blind``: dense matrices, every bound
        a row, Clarabel.
        """
        schema, bounds = self.family.schema, self.family.bounds
        group = (bounds.group == np.arange(bounds.groups)[:, None]).astype(float)
        rows = list(zip(group, bounds.lower.T, np.minimum(bounds.upper.T, 9999), strict=True))
        if bounds.total is not None:
            rows.append((np.ones(schema.cells), bounds.total, bounds.total))
        for held in ([("total",)] if bounds.total is None else []) + [names]:
            answers = np.vstack([dense(schema, schema.query(n)) for n in held])
            sums = np.unique(np.vstack([answers, group]), axis=1, return_inverse=True)[1].ravel()
            m = (sums == np.arange(sums.max() + 1)[:, None]).astype(float)
            y, kept = self.best(m, rows, total_alone=held == ("total",))
            first = m.argmax(axis=1)[kept]
            for row in answers:
                value, off = y @ row[first], np.full(len(y), 0.1)
                if blind is not None and held == names:
                    off[blind] = np.inf
                rows.append((row, value - off, value + off))
        return self.best(np.eye(schema.cells), rows)[0]

    def best(
        self, m: Array, rows: list[tuple[Array, Array, Array]], *, total_alone: bool = False
    ) -> tuple[Array, NDArray]:
        """Sums ``m`` of cells, those that the parent has somebody in, by what is known of them
        given the total.
        """
        c, mu = posterior(self.contrasts, replace(self.information, total=None))
        mean = mu.reshape(len(mu), -1)[:, self.contrasts.place] @ m.T
        grams = []
        for each in c:
            covariance = m @ matrix(self.contrasts, each) @ m.T
            one = np.outer(able := np.diagonal(covariance) > 0, able) / covariance.sum()
            grams.append(
                one if total_alone else np.linalg.pinv(covariance, hermitian=True) - 0.999 * one
            )
        parent = np.zeros(self.family.schema.cells)
        parent[self.family.cell] = self.family.parent
        kept = np.flatnonzero(m @ parent > 0)
        gram, first = np.stack(grams), m.argmax(axis=1)[kept]
        rhs = np.einsum("uij,uj->ui", gram, mean)[:, kept]
        row, low, high = (np.array(part, dtype=float) for part in zip(*rows, strict=True))
        p = Problem(
            gram[:, kept[:, None], kept], rhs, (m @ parent)[kept], row[:, first], low.T, high.T
        )
        x = clarabel_qp(p)
        assert x is not None
        return x, kept


CASES = {
    "dwellings": (SMALL, VARIANCE, ("home", "age")),
    "no dwellings": (PLAIN, {k: v for k, v in VARIANCE.items() if k != "home"}, ("age",)),
    "groupings": (
        GROUPED,
        {"total": 5.0, "home": 20.0, "sex": 20.0, "white": 20.0, "detailed": 150.0},
        ("home", "sex", "white"),
    ),
}


@pytest.mark.parametrize("total", [None, "C"])
@pytest.mark.parametrize(("schema", "variance", "names"), CASES.values(), ids=list(CASES))
def test_the_passes_are_those_of_dense_matrices(
    schema: Schema, variance: dict[str, float], names: tuple[str, ...], total: str | None
) -> None:
    apart = 0.0
    for seed in range(3):
        world = patchy(seed, schema)
        told = Told.of(world, variance, total)
        x, certificate = told.method.estimate(told.family)
        assert certificate.solves == (3 if total is None else 2)
        assert np.abs(x - told.by_hand(*names)).max() < 0.02
        apart = max(apart, np.abs(x - told.two_passes()).max())
    assert apart > 0.2  # it matters


def test_a_child_that_is_not_asked_does_not_hold() -> None:
    """What it knows of its cells alone says less of its marginals than they do of its siblings'."""
    world = patchy(3, Schema.from_attributes("races", {"age": 2, "race": 20}))
    told = Told.of(world, {"total": 5.0, "age": 20.0, "detailed": 150.0}, blind=1)
    x = told.estimated()
    assert np.abs(x - told.by_hand("age", blind=1)).max() < 0.02
    c = given_total(told.contrasts, posterior(told.contrasts, told.information)[0])
    (held,) = precise(
        told.contrasts,
        told.method.queries["C"],
        c,
        np.full(told.contrasts.d, 40.0),
        told.family.bounds.group,
    )
    assert held.by.tolist() == [True, False, True]


def test_without_a_precise_margin_there_are_two_passes() -> None:
    world = patchy(1, SMALL)
    told = Told.of(world, {**VARIANCE, "home": 900.0, "age": 900.0})
    x, certificate = told.method.estimate(told.family)
    assert certificate.solves == 2
    assert np.array_equal(x, told.two_passes())


# --- the whole descent
# -----------------------------------------------------------------------------------------------


@settings(max_examples=5)
@given(st.integers(0, 2**32), st.sampled_from([SMALL, PLAIN]), st.booleans())
def test_it_ends_in_a_release_whatever_is_known(seed: int, schema: Schema, joint: bool) -> None:
    """Totals, joint totals or none; dwellings; units that are not measured: ``Release`` checks all
    that is exact.
    """
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, 4)
    world = random_world(
        rng, schema, spine, size=rng.choice([1.0, 30.0]), facilities=0.4, empty=0.2
    )
    level = str(rng.choice(spine.levels[1:]))
    parent = spine.parent[spine.index(level)]
    part = np.unique(parent * 9 + rng.integers(0, 2, len(parent)), return_inverse=True)[1]
    bounds = world.bounds(level, part if joint else None) if rng.random() < 0.7 else world.bounds()
    variance = {n: v for n, v in VARIANCE.items() if n != "home" or schema is SMALL}
    source = world.measured(rng, tuple(variance), lambda _, q: variance[q])
    source = unasked(
        source,
        lambda m: [
            u for u in range(len(m.variance)) if m.level != spine.levels[-1] and rng.random() < 0.2
        ],
    )
    own = passes(spine, [["total"], [n for n in variance if n != "total"]])
    release = full_information(source, spine, bounds, world.universe(), own)
    worst = Certificate()
    for c in release.certificates.values():
        worst = worst.merge(c.estimation)
    assert worst.worst_residual <= 1e-3 or worst.inaccurate


@pytest.mark.parametrize("query", ["age", "race", "age * race"])
def test_beside_exact_counts(query: str) -> None:
    """The groups of the bounds are then those of any query, here across what is held."""
    rng = np.random.default_rng(8)
    world = random_world(rng, PLAIN, SPINE, size=30.0, empty=0.0)
    counts = [("B", PLAIN.query(query), world.truth["B"].answer(PLAIN.query(query)))]
    bounds = known_bounds(PLAIN, SPINE, counts, None)
    source = world.measured(
        rng, ("age", "race", "detailed"), lambda _, q: 30.0 if q == "detailed" else 1.0
    )
    own = passes(SPINE, [["age", "race", "detailed"]])
    release = full_information(source, SPINE, bounds, world.universe(chain=False), own)
    for level in SPINE.levels:
        got, true = (h[level].answer(PLAIN.query(query)) for h in (release.histograms, world.truth))
        assert np.array_equal(got, true)


# --- rounding
# ------------------------------------------------------------------------------------------------------


def test_rounding_keeps_what_is_held_beside_a_chain() -> None:
    """Halves of 60 races in a chain of races: without prices all of an age may be rounded alike."""
    rng = np.random.default_rng(6)
    schema = Schema.from_attributes("races", {"age": 2, "race": 60})
    age, race = schema.query("age"), schema.query("race")
    cell = np.arange(schema.cells)
    x = rng.uniform(0, 3, (4, schema.cells))
    x[:, 60:] = np.ceil(x[:, :60]) + 1.0 - x[:, :60] * 0.5
    x = np.vstack([x, np.ceil(x.sum(axis=0)) - x.sum(axis=0)])
    bounds = geography.bounds(schema, random_spine(rng, 1, 1), None, None, None)["L0"].dense()
    bounds = Bounds(
        bounds.group,
        *(np.repeat(b, 5, axis=0) for b in (bounds.lower, bounds.upper)),
        None,
        bounds.possible,
    )
    e = Estimate(0, cell, np.rint(x.sum(axis=0)).astype(np.int64), x, Certificate())
    off = {}
    for name, marginals in (("kept", [Marginal(age, 2.0)]), ("not", [])):
        rounded, _ = round_estimate(e, bounds, [race], marginals=marginals)
        off[name] = np.abs(rounded.answer(age) - age.answer(x)).max()
        assert np.abs(rounded.answer(race) - race.answer(x)).max() < 1.5
    assert off["kept"] < 1.5
    assert off["not"] > 2 * off["kept"]
