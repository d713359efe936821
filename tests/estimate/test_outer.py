"""Outer passes: what they publish adds up and is possible, what they ask for is enough, and each
step is the least squares that it says.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from das.engine import executor
from das.errors import InfeasibleError, InputError
from das.estimate.fixed_counts import FixedCounts
from das.estimate.outer import OuterStep, RefinedFamily, refined
from das.model.histogram import Histogram
from das.model.measurement import RecordingSource, SparseMeasurement, SparseSource
from das.model.plan import OuterPass
from das.model.post_processing import SharesPrior
from das.model.schema import Schema
from das.model.spine import Spine
from das.solve import LayeredGram, children_qp
from tests.solve.oracle_qp import Problem, clarabel_qp
from tests.sparse import SparseMeasurements

Ints = NDArray[np.int64]

SCHEMA = Schema.from_attributes(
    "small",
    {"place": ["home", "prison", "jail", "hall", "ship"], "age": 12, "sex": 2},
    groupings={
        "class": (
            "place",
            {"home": ["home"], "inside": ["prison", "jail"], "outside": ["hall", "ship"]},
        ),
        "adult": ("age", {"minor": range(4), "adult": range(4, 12)}),
        "ages": (
            "age",
            {"0": [0], "1": [1], "2-3": [2, 3], "4-6": [4, 5, 6], "7-11": range(7, 12)},
        ),
    },
    impossible=[
        {"place": ["prison", "jail"], "age": ["0", "1"]},
        {"place": ["ship"], "age": ["2", "3", "11"]},
    ],
    dwelling="place",
)
FIXED_QUERY = "class * adult"
OUTER = (
    OuterPass(
        ("adult", "class * sex", "ages", "ages * place * sex"),
        ("ages * place * sex", "class * adult * sex"),
    ),
    OuterPass(("detailed",), ("detailed",)),
)
TREE = Spine.from_frame(
    {
        "County": [f"{i // 10}" for i in range(40)],
        "Tract": [f"{i // 10}{max(i % 10 - 3, 0) // 4}" for i in range(40)],
        "Block": [f"{i // 10}{max(i % 10 - 3, 0) // 4}{i}" for i in range(40)],
    },
    ["State", "County", "Tract", "Block"],
)
BLOCKS = TREE.units("Block")


def people(seed: int, size: int = 900) -> tuple[Histogram, NDArray[np.bool_]]:
    """Of the lowest units, and where somebody can live: at home everywhere, elsewhere where
    somebody does, and in some places more.
    """
    rng = np.random.default_rng(seed)
    cell = rng.choice(np.flatnonzero(SCHEMA.possible), size)
    unit = rng.integers(0, BLOCKS - 3, size)  # the last ones have nobody
    place = cell // 24
    home = (place > 0) & (rng.random(size) < 0.7)
    cell[home] %= 24
    able = rng.random((BLOCKS, 5)) < 0.1
    able[:, 0] = True
    able[unit, cell // 24] = True
    return Histogram.from_triplets(
        BLOCKS, SCHEMA.cells, unit, cell, np.ones(size, dtype=np.int64)
    ), able


def fixed_counts(truth: Histogram, able: NDArray[np.bool_] | None) -> FixedCounts:
    counts = truth.sparse(SCHEMA.query(FIXED_QUERY))
    answers = SCHEMA.query(FIXED_QUERY).answers
    return FixedCounts.from_histogram(
        SCHEMA,
        FIXED_QUERY,
        Histogram.from_triplets(
            BLOCKS, answers, counts.at // answers, counts.at % answers, counts.count
        ),
        TREE,
        able,
    )


def measured(
    truth: Histogram, seed: int, sigma: float = 2.0, unasked: bool = False
) -> SparseMeasurements:
    """Every answer, with rounded normal noise; where ``unasked``, some units were not measured by
    some queries.
    """
    rng, out = np.random.default_rng(seed), []
    for level, h in truth.upward(TREE).items():
        for name in [q for p in OUTER for q in p.queries]:
            true = h.answer(SCHEMA.query(name))
            values = true + np.rint(rng.normal(0, sigma, true.shape)).astype(np.int64)
            variance = np.full(len(true), max(sigma, 1e-3) ** 2) * rng.choice([1.0, 2.0], len(true))
            if unasked and name != "adult":
                variance[rng.random(len(true)) < 0.3] = np.inf
            there = np.flatnonzero(np.repeat(np.isfinite(variance), true.shape[1]))
            out.append(
                SparseMeasurement(
                    level,
                    name,
                    true.shape[1],
                    there.astype(np.int64),
                    values.ravel()[there],
                    variance,
                )
            )
    return SparseMeasurements.from_measurements(out)


def check(found: dict[str, Histogram], truth: Histogram, able: NDArray[np.bool_] | None) -> None:
    fixed_query = SCHEMA.query(FIXED_QUERY)
    for depth, level in enumerate(TREE.levels):
        h = found[level]
        assert SCHEMA.possible[h.cell].all()
        assert np.array_equal(h.answer(fixed_query), truth.upward(TREE)[level].answer(fixed_query))
        if depth:
            above = TREE.levels[depth - 1]
            assert h.up(TREE.parent[depth], TREE.units(above)).same_as(found[above])
    if able is not None:
        lowest = found["Block"]
        assert able[lowest.unit, lowest.cell // 24].all()


@given(st.integers(0, 10**6), st.sampled_from([0.5, 3.0, 30.0]), st.booleans(), st.booleans())
@settings(max_examples=3, deadline=None)
def test_what_is_published_adds_up_and_is_possible(
    seed: int, sigma: float, facilities: bool, unasked: bool
) -> None:
    truth, able = people(seed)
    if not facilities:
        able = None
    found = refined(
        measured(truth, seed + 1, sigma, unasked), TREE, SCHEMA, OUTER, fixed_counts(truth, able)
    )
    check(dict(found.counts), truth, able)
    for c in found.certificates.values():
        assert c.estimation.inaccurate == 0
        assert c.estimation.worst_gap <= 1e-6


@pytest.mark.parametrize("facilities", [False, True])
def test_without_noise_the_truth_comes_back(facilities: bool) -> None:
    """With facilities, too, where no place has two types of one class: then who is of which kind is
    known at the root.
    """
    truth, able = people(3)
    if facilities:
        unit, cell = truth.unit, truth.cell
        kept = np.isin(cell // 24, (0, 1, 3))
        truth = Histogram.from_triplets(
            BLOCKS, SCHEMA.cells, unit[kept], cell[kept], truth.count[kept]
        )
        able[:, [2, 4]] = False
    found = refined(
        measured(truth, 4, 0.0),
        TREE,
        SCHEMA,
        OUTER,
        fixed_counts(truth, able if facilities else None),
    ).counts
    for level, h in truth.upward(TREE).items():
        assert found[level].same_as(h)


def test_what_was_asked_is_all_that_is_needed_and_workers_change_nothing() -> None:
    truth, able = people(5, 300)
    source = measured(truth, 6)
    recorded = RecordingSource(source)
    found = refined(recorded, TREE, SCHEMA, OUTER, fixed_counts(truth, able)).counts
    revealed = SparseMeasurements.from_measurements(
        m for level in TREE.levels for m in recorded.recorded(level)
    )
    share = len(revealed.held["Block", "detailed"].at) / len(source.held["Block", "detailed"].at)
    assert 0 < share < 0.2
    with executor(2) as pool:
        again = refined(revealed, TREE, SCHEMA, OUTER, fixed_counts(truth, able), pool).counts
    for level in TREE.levels:
        assert again[level].same_as(found[level])


def test_nobody_is_asked_for_where_nobody_can_be() -> None:
    """Neither in cells that the parent does not have, nor in those of fixed counts that are 0, nor
    of only children.
    """
    truth, able = people(7, 200)
    recorded = RecordingSource(measured(truth, 8))
    found = refined(recorded, TREE, SCHEMA, OUTER, fixed_counts(truth, able)).counts
    fixed_query, alone = SCHEMA.query(FIXED_QUERY), np.diff(TREE.children("Tract")) == 1
    for m in recorded.recorded("Tract"):
        query, parent = SCHEMA.query(m.query), TREE.parent[2][m.unit]
        if m.query == "detailed":
            assert found["County"].dense()[parent, m.cell].min() > 0
            assert (
                truth.upward(TREE)["Tract"]
                .answer(fixed_query)[m.unit, fixed_query.index[m.cell]]
                .min()
                > 0
            )
        assert (found["County"].answer(query)[parent, m.cell] > 0).all()
        assert not alone[parent].any()


# --- one step
# --------------------------------------------------------------------------------------------------


def steps(
    seed: int, prior: SharesPrior | None = None, first: OuterPass = OUTER[0]
) -> tuple[OuterStep, SparseSource, list[RefinedFamily]]:
    truth, able = people(seed)
    source, fixed = measured(truth, seed + 1), fixed_counts(truth, able)
    above = by_kind(source, fixed)
    step = OuterStep(
        source,
        TREE,
        SCHEMA,
        "Tract",
        first,
        SCHEMA.query(FIXED_QUERY),
        fixed,
        above,
        fixed.counts["Tract"],
        prior=prior,
    )
    return step, source, [f for families in step.tasks() for f in families]


def by_kind(source: SparseSource, fixed: FixedCounts) -> Histogram:
    """The counties, each cell by its kind."""
    above: Histogram | None = None
    for level in ("State", "County"):
        known, last = fixed.counts[level], SCHEMA.query(FIXED_QUERY)
        for p in OUTER:
            step = OuterStep(source, TREE, SCHEMA, level, p, last, fixed, above, known)
            known = Histogram.concatenate(
                [f.solved()[0] for families in step.tasks() for f in families]
            )
            last = step.frozen
        above = known
    assert above is not None
    return above


@pytest.mark.parametrize(
    ("spread", "ahead"), [(None, ()), (2.0, ()), (None, ("detailed",))], ids=str
)
def test_a_step_is_the_least_squares_that_it_says(
    spread: float | None, ahead: tuple[str, ...]
) -> None:
    """Against the dense problem of all variables, settled ones too, by Clarabel: the same minimum,
    and the nearest integers. With a prior, too; and with the cells measured ahead."""
    one = np.ones((len(OUTER), 1))
    prior = None if spread is None else SharesPrior("State", spread * one, one, one.astype(int))
    step, source, families = steps(11, prior, replace(OUTER[0], ahead=ahead))
    tried, start = 0, 0
    for number, family in enumerate(families):
        children, variables = len(family.known), len(family.key)
        cell_of = {int(SCHEMA.query(OUTER[0].frozen).index[k]): k for k in range(SCHEMA.cells)}
        answers = family.key % step.frozen.answers
        gram, rhs = np.zeros((children, variables, variables)), np.zeros((children, variables))
        for name in OUTER[0].queries:
            query = SCHEMA.query(name)
            of = np.array([query.index[cell_of[int(a)]] for a in answers])
            for c in range(children):
                weight = 1 / source.variance("Tract", name)[start + c]
                gram[c] += weight * (of[:, None] == of[None, :])
                rhs[c] += weight * source.answers("Tract", name, np.full(variables, start + c), of)
        for c in range(children) if ahead else ():
            cell = only_cells(step, number, answers)
            one, weight = cell >= 0, 1 / source.variance("Tract", "detailed")[start + c]
            gram[c] += weight * ((cell[:, None] == cell[None, :]) & one)
            unit = np.full(one.sum(), start + c)
            rhs[c, one] += weight * source.answers("Tract", "detailed", unit, cell[one])
        start += children
        if children == 1:
            continue
        if prior is not None:
            assert family.parent is not None
            pull = pulled(family, prior)
            gram += pull[:, None, None] * np.eye(variables)
            rhs += pull[:, None] * shared_evenly(family)
        groups = (family.group[None, :] == np.arange(family.known.shape[1])[:, None]).astype(float)
        exact = family.known.astype(float)
        assert family.parent is not None
        problem = Problem(
            gram,
            rhs,
            family.parent.astype(float),
            groups,
            exact,
            exact,
            family.known[:, family.group] > 0,
            None,
            None,
        )
        best = clarabel_qp(problem)
        assert best is not None
        ours = objective(problem, estimate_of(family))
        assert ours <= objective(problem, best) + 1e-5 * (1 + abs(ours))
        tried += 1
    assert tried > 3


def only_cells(step: OuterStep, number: int, answers: Ints) -> Ints:
    """The one cell that the parent has of each answer, in whatever kind; -1 if it has several."""
    assert step.above is not None
    there = np.unique(step.above.rows(number, number + 1).cell % SCHEMA.cells)
    of = {a: there[step.frozen.index[there] == a] for a in set(answers.tolist())}
    return np.array([of[a][0] if len(of[a]) == 1 else -1 for a in answers.tolist()])


def shared_evenly(family: RefinedFamily) -> NDArray[np.float64]:
    """Each child's sums with the shares of the parent, one by one."""
    out = np.zeros((len(family.known), len(family.key)))
    for k, g in enumerate(family.group.tolist()):
        of = family.parent[family.group == g].sum()
        out[:, k] = family.known[:, g] * family.parent[k] / of
    return out


def pulled(family: RefinedFamily, prior: SharesPrior) -> NDArray[np.float64]:
    """The weight of each child. With it the free cells of all children have variances that add up to
    as much as if everybody settled alone, times the spread."""
    expected, variance, degrees = shared_evenly(family), 0.0, 0.0
    for c in range(len(family.known)):
        for g in np.unique(family.group[family.free]):
            here = np.flatnonzero(family.group == g)
            if n := family.known[c, g]:
                share = expected[c, here] / n
                variance += float((n * share * (1 - share)).sum())
                degrees += len(here) - 1
    out = np.full(len(family.known), degrees / (prior.spread[0, 0] * variance))
    assert np.allclose(family.equations.weight[-1], out)
    return out


def objective(p: Problem, x: NDArray[np.float64]) -> float:
    return float(sum(0.5 * v @ g @ v - b @ v for g, b, v in zip(p.gram, p.rhs, x, strict=True)))


def estimate_of(family: RefinedFamily) -> NDArray[np.float64]:
    """Before rounding, with what is settled."""
    x = family.known[:, family.group].astype(float)
    if len(family.free):
        groups, group = np.unique(family.group[family.free], return_inverse=True)
        bounds = family.known[:, groups].astype(float)
        assert family.parent is not None
        found = children_qp(
            LayeredGram(list(family.equations.index), family.equations.weight),
            family.equations.rhs,
            family.parent[family.free].astype(float),
            groups=group,
            lower=bounds,
            upper=bounds,
            support=bounds[:, group] > 0,
        )
        x[:, family.free] = found.x
    return x


# --- what is held fixed
# ----------------------------------------------------------------------------------------------


def test_kinds_are_the_sets_of_types_that_blocks_have() -> None:
    truth, able = people(13)
    fixed = fixed_counts(truth, able)
    group = np.array(SCHEMA.query(FIXED_QUERY).groupings[0].index)
    for kind in fixed.able:
        (g,) = set(group[kind])
        here = able[:, group == g]
        assert kind[group == g].all() or (here == kind[group == g]).all(axis=1).any()
    assert len({tuple(k) for k in fixed.able}) == fixed.kinds
    back = fixed.without_kinds(fixed.counts["Block"], SCHEMA.query(FIXED_QUERY).answers)
    assert np.array_equal(back.dense(), truth.answer(SCHEMA.query(FIXED_QUERY)))


def test_who_has_no_facility_may_be_in_any_of_the_class() -> None:
    truth, able = people(14)
    able[:, 1:] = False
    found = refined(measured(truth, 15), TREE, SCHEMA, OUTER, fixed_counts(truth, able)).counts
    check(found, truth, None)


def test_what_cannot_be_tied() -> None:
    truth, able = people(16)
    with pytest.raises(InputError, match="are not those of"):
        FixedCounts.from_histogram(SCHEMA, FIXED_QUERY, truth, TREE)
    with pytest.raises(InputError, match="an array"):
        fixed_counts(truth, able[:, :4])
    none = Schema.from_attributes(
        "none",
        {"place": ["home", "ship"], "age": 4},
        impossible=[{"place": ["ship"]}],
        dwelling="place",
    )
    counts = Histogram.from_triplets(
        BLOCKS, 2, np.array([0, 1]), np.array([0, 1]), np.array([5, 1])
    )
    source = SparseMeasurements.from_measurements(
        SparseMeasurement(
            level,
            "detailed",
            8,
            np.arange(8 * TREE.units(level)),
            np.zeros(8 * TREE.units(level), dtype=np.int64),
            np.ones(TREE.units(level)),
        )
        for level in TREE.levels
    )
    with pytest.raises(InfeasibleError, match="none of its cells is possible"):
        refined(
            source,
            TREE,
            none,
            (OuterPass(("detailed",), ("detailed",)),),
            FixedCounts.from_histogram(none, "place", counts, TREE),
        )


def test_cells_that_count_ahead_are_not_used_again() -> None:
    """Where a pass has settled a cell, the last one has nothing to ask of it. More is asked in the
    first pass, and without noise the truth comes back."""
    truth, _ = people(19, 600)
    ahead = (replace(OUTER[0], ahead=("detailed",)), OUTER[1])
    source, fixed = measured(truth, 20, 0.0), fixed_counts(truth, None)
    recorded, plain = RecordingSource(source), RecordingSource(source)
    found = refined(recorded, TREE, SCHEMA, ahead, fixed).counts
    refined(plain, TREE, SCHEMA, OUTER, fixed)
    for level, h in truth.upward(TREE).items():
        assert found[level].same_as(h)
    asked = [
        sum(len(m.at) for m in r.recorded("Block") if m.query == "detailed")
        for r in (recorded, plain)
    ]
    assert asked[0] > asked[1]
    known, last, above = fixed.counts["Tract"], SCHEMA.query(FIXED_QUERY), by_kind(source, fixed)
    used = []
    for number, p in enumerate(ahead):
        step = OuterStep(source, TREE, SCHEMA, "Tract", p, last, fixed, above, known, number)
        families = [f for families in step.tasks() for f in families]
        used.append([set(f.key[f.free].tolist()) for f in families])
        if number == 0:
            single = [
                {
                    int(k)
                    for k, i in zip(f.key[f.free], f.equations.index[-1], strict=True)
                    if i >= 0
                }
                if len(f.free)
                else set()
                for f in families
            ]
            assert sum(map(len, single))
        known = Histogram.concatenate([f.solved()[0] for f in families])
        last = step.frozen
    first = SCHEMA.query(OUTER[0].frozen)
    for before, after in zip(single, used[1], strict=True):
        assert not before & {first.index[k % SCHEMA.cells] for k in after}


def test_noise_that_is_less_gives_errors_that_are_less() -> None:
    truth, able = people(17, 3000)
    errors = []
    for sigma in (1.0, 10.0):
        found = refined(
            measured(truth, 18, sigma), TREE, SCHEMA, OUTER, fixed_counts(truth, able)
        ).counts
        errors.append(np.abs(found["Tract"].dense() - truth.upward(TREE)["Tract"].dense()).mean())
    assert errors[0] < 0.5 * errors[1]
