"""Least squares of the S-DHC against known answers and a dense system; intervals against how often
they hold the truth."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import nnls

from das.model.mechanisms import MECHANISMS
from das.publications.sdhc.files.records import records
from das.publications.sdhc.least_squares import (
    WIDE,
    RegionEstimates,
    combined,
    estimated,
    fieller,
    identities,
    non_negative,
)
from das.publications.sdhc.model.published import published
from das.publications.sdhc.model.tables import (
    CHILDREN,
    HOUSEHOLD,
    PERSON,
    STATE,
    TABLES,
    TIGHT,
    TRUNCATED,
    USA,
    MeasuredRegions,
    answers,
    columns,
    reach,
    variances,
)
from das.publications.sdhc.truth.counts import counts
from tests.sdhc.folders import PHSAFE, made_up, needs_shared
from tests.sdhc.test_known_answers import packaged

Array = NDArray[np.float64]
GAUSSIAN = MECHANISMS["discrete-gaussian"]
TAU = {t: 4 if t in CHILDREN else 6 for t in TRUNCATED}


def region(variance: Array, values: Array | None = None, level: str = STATE) -> MeasuredRegions:
    given = np.zeros((1, len(variance))) if values is None else values
    names = ("1",) if level == USA else tuple(f"{i:02d}" for i in range(len(given)))
    return MeasuredRegions(level, names, np.rint(given).astype(np.int64), variance)


@cache
def state_variances(name: str) -> Array:
    return variances([d for d in packaged(name).measurements if d.level == "State"])


# --- least squares
# --------------------------------------------------------------------------------------------------

ROWS = {
    "PH1_num * cell": ("PH1_num", "*", (2,)),
    "PH1_num * total": ("PH1_num", "*", (2, 3)),
    "PH1_num race cell": ("PH1_num", "A", (2,)),
    "PH1_num race total": ("PH1_num", "A", (2, 3)),
    "PH2 cell": ("PH2", "*", (3,)),
    "PH2 total": ("PH2", "*", TABLES["PH2"].cells),
    "PH7 * cell": ("PH7", "*", (2,)),
    "PH7 race cell": ("PH7", "B", (3,)),
    "PH3 * cell (own)": ("PH3", "*", (4,)),
    "PH3 * cell (other)": ("PH3", "*", (2,)),
    "PH3 race cell": ("PH3", "A", (2,)),
    "PH6 cell": ("PH6", "*", (3,)),
    "PH6 family total": ("PH6", "*", (3, 4, 5, 6)),
    "PH6 total": ("PH6", "*", TABLES["PH6"].cells),
    "PH4 * cell": ("PH4", "*", (2,)),
    "PH4 race cell": ("PH4", "A", (2,)),
    "PH1_denom *": ("PH1_denom", "*", (1,)),
    "PH1_denom race": ("PH1_denom", "C", (1,)),
    "PH8_denom * cell": ("PH8_denom", "*", (2,)),
    "PH8_denom race cell": ("PH8_denom", "C", (2,)),
    "PH5_denom *": ("PH5_denom", "*", (1,)),
    "PH5_denom race": ("PH5_denom", "G", (1,)),
}


def at(table: str, iteration: str, cells: Sequence[int]) -> Array:
    wanted = [n for n, a in enumerate(answers()) if (a.table, a.iteration) == (table, iteration)]
    out = np.zeros(len(answers()))
    out[[n for n in wanted if answers()[n].cell in cells]] = 1
    return out


@needs_shared
@pytest.mark.parametrize("column", ["measured", "least_squares", "tight_and_least_squares"])
def test_22_variances_of_one_state(column: str) -> None:
    """With production's noise; and with the noise of tight sensitivities at its thresholds, where
    one truncation is common to all tables, so that ``PH1_num`` for all costs 2."""
    spec = packaged("sdhc-2020-phsafe")
    found = state_variances("sdhc-2020-phsafe").copy()
    if column.startswith("tight"):
        for d in [d for d in spec.measurements if d.level == "State"]:
            table, group = d.query.split(" ")
            to = reach(table, group, spec.tau, TIGHT)
            assert to is not None
            n = 2 if d.query == "PH1_num *" else to.stability(GAUSSIAN)
            found[list(columns(table, group))] = float(GAUSSIAN.parameter(d.cost, n))
    covariance = np.diag(np.where(np.isfinite(found), found, 0.0))
    if column != "measured":
        covariance = estimated([region(found)], whole=False)[1].covariance
    with (PHSAFE / "least_squares.csv").open() as file:
        wanted = {row["answer"]: float(row[column]) for row in csv.DictReader(file)}
    assert wanted.keys() == ROWS.keys()
    got = {name: at(*of) @ covariance @ at(*of) for name, of in ROWS.items()}
    assert got == pytest.approx(wanted, abs=0.06, rel=1e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_the_same_as_one_dense_system(whole: bool) -> None:
    """Of the nation and three states at once, some queries not measured."""
    rng, n, k = np.random.default_rng(5), 3, len(answers())
    v_n, v_s = rng.uniform(1, 90, k), rng.uniform(1, 90, k)
    v_n[list(columns("PH3"))] = np.inf
    v_s[list(columns("PH2"))] = np.inf
    v_s[list(columns("PH4", "H,I"))] = v_n[list(columns("PH4", "H,I"))] = np.inf
    z_n, z_s = rng.integers(-50, 500, (1, k)), rng.integers(-50, 500, (n, k))
    nation, states = estimated(
        [region(v_n, z_n.astype(float), USA), region(v_s, z_s.astype(float))], whole
    )
    rows = identities(whole)
    a = np.block(
        [
            [rows, *[np.zeros_like(rows)] * n],
            *[
                [np.zeros_like(rows), *(rows if i == j else np.zeros_like(rows) for j in range(n))]
                for i in range(n)
            ],
            [np.eye(k), *[-np.eye(k)] * n],
        ]
    )
    basis = np.linalg.svd(a)[2][np.linalg.matrix_rank(a) :].T
    v, z = np.concatenate([v_n, *[v_s] * n]), np.concatenate([z_n, z_s]).ravel().astype(float)
    w = np.where(np.isfinite(v), 1 / v, 0.0)
    j = (basis.T * w) @ basis
    c = np.linalg.pinv(j, rcond=1e-10, hermitian=True)
    x, cov = basis @ c @ (basis.T @ (w * z)), basis @ c @ basis.T
    for i, (e, r) in enumerate([(nation, 0), *((states, r) for r in range(n))]):
        part = slice(i * k, (i + 1) * k)
        known = e.known
        assert known.sum() > k - 30
        np.testing.assert_allclose(e.values[r, known], x[part][known], atol=1e-6)
        np.testing.assert_allclose(
            e.covariance[np.ix_(known, known)], cov[part, part][np.ix_(known, known)], atol=1e-7
        )
    np.testing.assert_allclose(
        states.values.sum(axis=0)[states.known], nation.values[0, states.known], atol=1e-6
    )


@pytest.mark.parametrize("relation", [PERSON, HOUSEHOLD])
def test_the_identities_hold_of_true_answers(
    relation: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = made_up(2, 400).write(tmp_path_factory.mktemp("folder"))
    found = records(folder, (), strict=True)[0].open("a test")
    exact = counts(found, TIGHT, relation, TAU)
    assert exact[:, list(columns("excess"))].sum() > 20
    assert not (identities(relation == PERSON) @ exact.T).any()
    if relation == PERSON:
        assert (identities(False) @ exact.T).any()


# --- estimates that are not negative
# --------------------------------------------------------------------------------------------------


def test_non_negative_estimates_are_the_nearest() -> None:
    """The conditions of Karush, Kuhn and Tucker, which say so."""
    rng = np.random.default_rng(3)
    v = state_variances("sdhc-2020")
    states = estimated([region(v, rng.normal(60, np.sqrt(v), (4, len(v))))], whole=True)[1]
    fitted = non_negative(states)
    assert (states.values < -1).any()
    assert fitted.min() >= 0
    assert np.abs(identities(True) @ fitted.T).max() < 1e-3
    for z, x in zip(states.values, fitted, strict=True):
        at_zero = states.covariance[:, x < 1e-4]
        _, left = nnls(at_zero / 100, (x - z) / 100)  # x = z + C lambda, lambda >= 0 at zeros alone
        assert left < 1e-3


# --- intervals
# --------------------------------------------------------------------------------------------------


def test_intervals_hold_the_truth_nine_times_in_ten() -> None:
    """Of 1,500 states with the same truth; where it is 0, too."""
    rng, v = np.random.default_rng(8), state_variances("sdhc-2020")
    exact = consistent()
    noisy = exact + rng.normal(0, np.sqrt(v), (1500, len(v)))
    e = estimated([region(v, noisy)], whole=True)[1]
    spread = e.values.std(axis=0) / np.sqrt(np.diag(e.covariance))
    assert abs(spread - 1).max() < 0.08
    assert abs(spread.mean() - 1) < 0.01
    error = np.sqrt(np.diag(e.covariance)) * WIDE
    low, high = np.maximum(0, e.values - error), np.maximum(0, e.values + error)
    inside = ((low <= exact) & (exact <= high)).mean(axis=0)
    assert inside.mean() >= 0.895
    assert inside[exact > 900].mean() == pytest.approx(0.9, abs=0.01)
    assert inside[exact == 0].min() > 0.92
    assert not (identities(True) @ exact).any()


def consistent() -> Array:
    """Answers that the identities allow, large and 0."""
    exact = np.zeros(len(answers()))
    for a, n in _races().items():
        exact[answers().index(a)] = n
    return exact


def _races() -> dict[object, int]:
    of = {(a.table, a.iteration, a.cell): a for a in answers()}
    out: dict[object, int] = {}
    for i, n in zip("ABCDEFG", (5000, 1200, 0, 0, 0, 0, 300), strict=True):
        for table, cells in {
            "PH1_num": {2: 2 * n, 3: n}, "PH7": {2: n, 3: n, 4: n}, "PH1_denom": {1: n},
            "PH8_denom": {2: n, 3: 0}, "PH5_denom": {1: n}, "PH4": {2: n, 3: n}, "PH3": {2: n, 4: n},
        }.items():  # fmt: skip
            for c, count in cells.items():
                out[of[table, i, c]] = count
                star = of[table, "*", c]
                out[star] = out.get(star, 0) + count
    total = sum(n for a, n in out.items() if a in {of["PH7", "*", c] for c in (2, 3, 4)})
    out[of["PH2", "*", 3]] = total
    out[of["PH6", "*", 3]] = out[of["PH3", "*", 4]]
    return out


def test_fieller_holds_the_ratio_however_small_the_denominator() -> None:
    """Where the delta method does not, with 50 households and noise of 41."""
    rng, sigma, ratio = np.random.default_rng(4), 41.34, 2.6
    for households, at_least in ((50, 0.885), (100, 0.885), (1000, 0.89)):
        n, d = (rng.normal(x * households, sigma, 4000) for x in (ratio, 1))
        v = (sigma**2, 0.0, sigma**2)
        found = [fieller(x, y, v, (1, 18)) for x, y in zip(n, d, strict=True)]
        held = [f is None or f[0] <= ratio <= f[1] for f in found]
        assert np.mean(held) >= at_least
    assert fieller(130, 50, (1e9, 0, 1e9), (1, 18)) is None
    low, high = fieller(2600, 1000, (100, 90, 100), (1, 18)) or (0, 0)
    wide = fieller(2600, 1000, (100, 0, 100), (1, 18)) or (0, 0)
    assert low < 2.6 < high
    assert high - low < wide[1] - wide[0]


def test_every_published_cell_is_estimated() -> None:
    v = state_variances("sdhc-2020")
    e = estimated([region(v, consistent()[None, :])], whole=True)[1]
    found = combined(e, published(), 18, e.values)
    assert len(found) == len(published()) == 294
    assert all(c.low is None or c.high is None or c.low <= c.high for c in found)
    assert isinstance(e, RegionEstimates)
