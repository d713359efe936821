"""Units measured alike: what is worked out once for all of a kind is what it would be of each by
itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from das.estimate import information as full
from das.estimate import informed
from das.estimate.batch import estimated, families
from das.estimate.information import Contrasts, alike
from das.estimate.least_squares import Asking, LeastSquares
from das.estimate.upward_pass import upward_pass
from das.fold import only
from das.model.measurement import Measurement, Measurements
from das.model.redistricting import PL94
from das.model.spine import Spine
from das.solve import Kinds
from tests.estimate.world import World, passes, random_world

QUERIES = ("total", "hhgq", "votingage", "hispanic * cenrace", "detailed")
VARIANCE = {
    "total": 4.0,
    "hhgq": 9.0,
    "votingage": 2.0,
    "hispanic * cenrace": 50.0,
    "detailed": 20.0,
}


def world(rng: np.random.Generator, facilities: float = 0.03) -> World:
    """Twelve tracts of one to five blocks each; blocks with facilities, and such without."""
    sizes = rng.integers(1, 6, 12)
    tract, block = np.zeros(12, dtype=np.int64), np.repeat(np.arange(12), sizes)
    codes = [
        np.array([f"{i:0{d}}" for i in range(n)]) for d, n in enumerate((1, 12, len(block)), 1)
    ]
    spine = Spine(("L0", "L1", "L2"), tuple(codes), (np.zeros(1, dtype=np.int64), tract, block))
    return random_world(rng, PL94, spine, size=30.0, facilities=facilities, empty=0.0)


@pytest.mark.parametrize("seed", range(4))
def test_what_a_kind_says_is_what_each_of_it_says(seed: int) -> None:
    """Precision and right-hand side by their formulas, and the message to the parents, to the last
    bit. Some units are not measured in all cells. So a kind can be settled for one unit and not for
    another, who is an only child."""
    rng = np.random.default_rng(seed)
    here = world(rng)
    units, parent = here.spine.units("L2"), here.spine.parent[2]
    lost = rng.random(units) < 0.4
    held = here.measured(rng, QUERIES, lambda _, q: VARIANCE[q]).held
    cells = held["L2", "detailed"]
    lost_cells = Measurement(
        "L2", "detailed", 0, cells.values, np.where(lost, np.inf, cells.variance)
    )
    source = Measurements({**held, ("L2", "detailed"): lost_cells})
    bounds = here.bounds()["L2"].dense()
    queries = {q: PL94.query(q) for q in QUERIES}
    contrasts = Contrasts.for_queries(PL94, queries.values())
    found = full.own(source, "L2", contrasts, queries, bounds, 0, units)
    assert len(found.precision) < units / 2
    each = found.rows(np.arange(units))
    precision, rhs = np.zeros_like(each.precision), np.zeros((units, contrasts.schema.cells))
    for name, query in queries.items():
        m = source.read("L2", name, 0, units)
        precision += (1 / m.variance)[:, None, None, None] * contrasts.query(query)
        rhs += np.where(np.isfinite(m.variance)[:, None], m.values / m.variance[:, None], 0)[
            :, query.index
        ]
    inside = np.repeat(
        full.support(contrasts, bounds), contrasts.schema.cells // contrasts.d, axis=1
    )
    np.testing.assert_allclose(each.precision, precision, rtol=1e-12)
    np.testing.assert_allclose(
        each.rhs.reshape(units, -1), rhs[:, contrasts.order] * inside, rtol=1e-12
    )
    assert lost.any()
    assert only(parent).any()
    for total in (None, here.truth["L2"].totals()):
        by_kind, one_by_one = (replace(i, total=total).settled(only(parent)) for i in (found, each))
        np.testing.assert_array_equal(
            by_kind.rows(np.arange(units)).precision, one_by_one.precision
        )
        above = [full.sum_up(contrasts, i, parent, 12) for i in (by_kind, one_by_one)]
        for name, array in above[0].to_arrays().items():
            np.testing.assert_array_equal(array, above[1].to_arrays()[name], err_msg=name)


def test_kinds_are_of_those_that_agree_in_every_bit() -> None:
    support = np.array([[1, 0], [1, 0], [1, 1], [1, 0], [1, 0]], dtype=bool)
    known = np.array([[1.0], [1.0], [1.0], [np.nextafter(1.0, 2.0)], [1.0]])
    kind, first = alike(support, known)
    assert [kind.tolist().index(k) for k in kind] == [0, 0, 2, 3, 0]
    np.testing.assert_array_equal(kind[first], np.arange(3))
    kind, first = alike(support[1:4], known[1:4])
    assert kind.tolist() == first.tolist() == [0, 1, 2]


def test_siblings_alike_have_one_matrix_and_are_estimated_as_each_by_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(3)
    here = world(rng, facilities=0.0)
    bounds = here.bounds()
    source = here.measured(rng, QUERIES, lambda _, q: VARIANCE[q])
    known = upward_pass(source, here.spine, bounds, here.universe())
    method = known.estimator(passes(here.spine, [QUERIES]))

    def tracts() -> tuple[NDArray[np.float64], list[Any]]:
        """What is estimated, and the matrices that the solver is given: those of totals, of
        marginals, of cells.
        """
        (family,) = families(
            source, PL94, "L1", here.truth["L0"], here.spine.children("L1"), bounds["L1"].dense()
        )
        part, solved, given = method.part("L1", 0, 12), LeastSquares.solve, list[Any]()

        def seen(problem: LeastSquares, gram: Any, *more: Any) -> Asking:
            given.append(gram)
            return (yield from solved(problem, gram, *more))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LeastSquares, "solve", seen)
            x = estimated([family], part)[0].x
        said = part.marginals(family)
        assert said
        assert said == part.marginals(family) == method.part("L1", 0, 12).marginals(family)
        return x, given

    x, grams = tracts()
    sizes = [len(g.matrices) for g in grams[1:] if isinstance(g, Kinds)]
    assert sizes
    assert here.structures is not None
    tract, housed = here.spine.parent[2], here.structures[:, 0] > 0
    told = zip(
        np.bincount(tract[housed], minlength=12).tolist(), np.bincount(tract) == 1, strict=True
    )
    assert max(sizes) == len({(blocks, bool(alone)) for blocks, alone in told if blocks})
    monkeypatch.setattr(
        informed, "alike", lambda support, known: (np.arange(len(known)), np.arange(len(known)))
    )
    y, grams = tracts()
    assert not any(isinstance(g, Kinds) for g in grams[1:])
    np.testing.assert_allclose(x, y, atol=1e-6)
