"""Least squares up and down a tree, held against dense least squares of everything at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from das.publications.detailed.estimation import layers as joint
from das.publications.detailed.estimation.forest import Above, Forest, Outline
from das.publications.detailed.estimation.layers import Belief, KnownTotals, coarser, met
from das.publications.detailed.estimation.published import wholes
from das.publications.detailed.model.tables import SEX_BY_AGE, AdaptiveTable

Floats = NDArray[np.float64]


@dataclass(eq=False)
class PublishedEstimates:
    """Regions of a layer with made-up measurements."""

    node_size: NDArray[np.int8]
    beliefs: dict[tuple[int, int], Belief]

    @property
    def table(self) -> AdaptiveTable:
        return SEX_BY_AGE

    @property
    def measured(self) -> NDArray[np.bool_]:
        return (self.node_size >= 0).all(axis=0)

    @property
    def several(self) -> NDArray[np.bool_]:
        return np.zeros(self.node_size.shape, dtype=bool)

    @property
    def total(self) -> KnownTotals:
        out = np.zeros((3, *self.node_size.shape))
        out[1] = np.inf
        for (r, c), b in self.beliefs.items():
            out[:, r, c] = b.mean.sum(), b.work.sum(), b.true.sum()
        return KnownTotals(*out)

    def state(self, row: int, column: int) -> Belief:
        return self.beliefs[row, column]

    def __len__(self) -> int:
        return len(self.node_size)


def made(rng: np.random.Generator, sizes: NDArray[np.int8]) -> PublishedEstimates:
    """Working variances of totals are below those of the sum of the cells, and true ones between
    the two.
    """
    beliefs = {}
    for (r, c), size in np.ndenumerate(sizes):
        if size >= 0:
            k, v2 = SEX_BY_AGE.answers[size], rng.uniform(1, 9)
            work = k * v2 * rng.uniform(0.2, 0.9)
            cells = rng.normal(20, 5, k)
            beliefs[r, c] = joint.of_group(
                cells, v2, cells.sum() + rng.normal(), work, rng.uniform(work, k * v2)
            )
    return PublishedEstimates(sizes, beliefs)


SUMS, BUNDLES = ((0, (1, 2)),), ((0, 1, 2),)
#: One column of each kind: a sum of two others; no tables; some tables everywhere; a column that
#: the lowest layer has not.
COLUMNS = 7


def forest(
    rng: np.random.Generator, bundled: bool
) -> tuple[list[PublishedEstimates], list[NDArray[np.int64]], Forest]:
    parents = [np.array([0, 0, 0]), np.array([0, 0, 1, 2, 2])]
    layers = []
    for n in (1, 3, 5):
        sizes = rng.integers(0, 3, (n, COLUMNS)).astype(np.int8)
        sizes[:, 3] = 0
        sizes[:, 4] = rng.integers(1, 3, n)
        sizes[:, 5] = 1
        if n == 5:
            sizes[:, 6] = -1
        layers.append(made(rng, sizes))
    return (
        layers,
        parents,
        Forest(layers, parents, SUMS if bundled else (), BUNDLES if bundled else ()),
    )


def dense(
    layers: list[PublishedEstimates], parents: list[NDArray[np.int64]], bundled: bool
) -> dict[tuple[int, int, int], tuple[Floats, Floats, Floats]]:
    """All cells of all regions at once: estimates, and covariances."""
    places, start, beliefs = {}, 0, []
    for at, layer in enumerate(layers):
        for (r, c), b in layer.beliefs.items():
            places[at, r, c] = slice(start, start + len(b))
            start += len(b)
            beliefs.append(b)
    every, forms = joint.beside(beliefs), []
    for at, parent in enumerate(parents):
        for row in range(len(layers[at])):
            children = np.flatnonzero(parent == row)
            for c in range(COLUMNS):
                sizes = [
                    layers[at].node_size[row, c],
                    *(layers[at + 1].node_size[m, c] for m in children),
                ]
                if (least := int(min(sizes))) >= 0:
                    form = np.zeros((SEX_BY_AGE.answers[least], start))
                    form[:, places[at, row, c]] = coarser(SEX_BY_AGE, int(sizes[0]), least)
                    for m, size in zip(children, sizes[1:], strict=True):
                        form[:, places[at + 1, m, c]] = -coarser(SEX_BY_AGE, int(size), least)
                    forms.append(form)
    for at, layer in enumerate(layers if bundled else []):
        for row in range(len(layer)):
            form = np.zeros((1, start))
            for c, sign in ((0, -1), (1, 1), (2, 1)):
                form[0, places[at, row, c]] = sign
            forms.append(form)
    b = np.concatenate(forms)
    gain = every.work @ b.T @ np.linalg.pinv(b @ every.work @ b.T, hermitian=True, rcond=1e-11)
    left = np.eye(start) - gain @ b
    mean, work, true = left @ every.mean, left @ every.work, left @ every.true @ left.T
    return {key: (mean[p], work[p, p], true[p, p]) for key, p in places.items()}


@pytest.mark.parametrize("bundled", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_tree_is_least_squares_of_everything(seed: int, bundled: bool) -> None:
    layers, parents, found = forest(np.random.default_rng(seed), bundled)
    found.fall()
    oracle = dense(layers, parents, bundled)
    for (at, r, c), (mean, work, true) in oracle.items():
        final = found.final[at]
        got = [x[r, c] for x in (final.value, final.work, final.true)]
        assert got == pytest.approx([mean.sum(), work.sum(), true.sum()], rel=1e-8, abs=1e-8)
    joints = {(at, r, c): s for at in range(3) for r, c, s in found.joints(at)}
    assert joints
    for (at, r, c), state in joints.items():
        mean, work, true = oracle[at, r, c]
        np.testing.assert_allclose(state.mean, mean, atol=1e-8)
        np.testing.assert_allclose(state.work, work, atol=1e-8)
        np.testing.assert_allclose(state.true, true, atol=1e-8)


@pytest.mark.parametrize("bundled", [False, True])
def test_a_tree_that_is_cut_is_the_same(bundled: bool) -> None:
    """What a nation makes of its states goes down to each: the tree of each state by itself."""
    layers, parents, whole = forest(np.random.default_rng(9), bundled)
    whole.fall()
    sums, bundles = (SUMS, BUNDLES) if bundled else ((), ())
    below = []
    for row in range(3):
        children = np.flatnonzero(parents[1] == row)
        cut = [cut_out(layers[1], [row]), cut_out(layers[2], children.tolist())]
        below.append(Forest(cut, [np.zeros(len(children), dtype=np.int64)], sums, bundles))
    asked = [
        *bundles,
        *((c,) for c in np.flatnonzero(whole.family[0][0] > 0).tolist() if not bundled or c > 2),
    ]
    said = [f.above(asked) for f in below]
    known = KnownTotals(
        *(np.concatenate([getattr(a.known, k) for a in said]) for k in ("value", "work", "true"))
    )
    states = {(r, b): s for r, a in enumerate(said) for (_, b), s in a.states.items()}
    outline = Outline(layers[1].measured, layers[1].node_size, SEX_BY_AGE, Above(known, states))
    nation = Forest([layers[0], outline], parents[:1], sums, bundles)
    nation.fall()
    for row, state in enumerate(below):
        top = Above(
            nation.final[1].rows(np.array([row])),
            {(0, b): s for (r, b), s in nation.fallen(1) if r == row},
        )
        state.fall(top)
        children = np.flatnonzero(parents[1] == row)
        for at, rows in ((0, [row]), (1, children)):
            for k in ("value", "work", "true"):
                there = np.isfinite(getattr(whole.final[at + 1], k)[rows])
                a, b = (
                    getattr(state.final[at], k)[there],
                    getattr(whole.final[at + 1], k)[rows][there],
                )
                np.testing.assert_allclose(a, b, atol=1e-8)


def cut_out(layer: PublishedEstimates, rows: list[int]) -> PublishedEstimates:
    beliefs = {(rows.index(r), c): b for (r, c), b in layer.beliefs.items() if r in rows}
    return PublishedEstimates(layer.node_size[rows], beliefs)


@pytest.mark.parametrize("bundled", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_whole_numbers_add_up(seed: int, bundled: bool) -> None:
    layers, parents, found = forest(np.random.default_rng(seed), bundled)
    found.fall()
    out = wholes(found)
    for at, parent in enumerate(parents):
        for row in range(len(layers[at])):
            children = np.flatnonzero(parent == row)
            for c in range(COLUMNS - 1):
                assert out.totals[at][row, c] == out.totals[at + 1][children, c].sum()
                if (size := int(found.family[at][row, c])) > 0:
                    own, *others = (
                        coarser(SEX_BY_AGE, int(layers[a].node_size[m, c]), size)
                        @ out.tables[a, m, c]
                        for a, m in [(at, row), *((at + 1, m) for m in children)]
                    )
                    assert (own == sum(others)).all()
    assert all((x >= 0).all() for x in [*out.totals, *out.tables.values()])
    assert all(cells.sum() == out.totals[at][r, c] for (at, r, c), cells in out.tables.items())
    if bundled:
        assert all((t[:, 0] == t[:, 1] + t[:, 2]).all() for t in out.totals)


def test_what_nothing_is_known_of_adds_nothing() -> None:
    some = KnownTotals(np.array([3.0]), np.array([2.0]), np.array([2.5]))
    for both in (met(some, KnownTotals.nothing((1,))), met(KnownTotals.nothing((1,)), some)):
        assert (both.value[0], both.work[0], both.true[0]) == (3.0, 2.0, 2.5)
