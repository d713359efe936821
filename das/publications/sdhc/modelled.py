"""What the Bureau would have published of a release in the mode ``phsafe``, in the files of its
programs in R: ``estimates/PHn/estimates/PHn_[PR_]{nation,state}_trunc_normal.csv``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtri_exp

from das.files import atomic
from das.files.run import run_directory
from das.model.not_private import CELL, COLUMN
from das.publications.sdhc.files.measurements import REGION_TYPES
from das.publications.sdhc.model.published import TITLES, CellEstimate, PublishedCell, published
from das.publications.sdhc.model.tables import ITERATIONS, USA, MeasuredRegions, column
from das.publications.sdhc.page import OpenedSdhc

Array = NDArray[np.float64]
_KEY = ("GEOID", "REGION_TYPE", "ITERATION_CODE", "DATA_CELL")
_NOISY = ("COUNT_NOISY", "VARIANCE", "MOE_NOISY")
_COUNTS = (*_KEY, *_NOISY, "PRED", "PRED_LO", "PRED_HI")
_WIDE = 1.645


def write(opened: OpenedSdhc) -> dict[str, int]:
    """One file for each table and level: how many rows each table has."""
    rows: dict[str, int] = {}
    private = opened.spec.run.private
    for m in opened.measured:
        for table in TITLES:
            cells = [c for c in published() if c.table == table and _measured(m, c)]
            if not cells:
                continue
            ratio = cells[0].below is not None
            lines = list((_ratios if ratio else _counts)(m, table, cells))
            head = _head(table) if ratio else _COUNTS
            mark, more = ([], []) if private else ([CELL], [COLUMN])
            text = "\n".join(["|".join([*line, *extra]) for line, extra in
                              [(head, more), *((x, mark) for x in lines)]])  # fmt: skip
            atomic.write_text(opened.folder / _name(m, table), f"{text}\n")
            rows[table] = rows.get(table, 0) + len(lines)
    return rows


def read(opened: OpenedSdhc) -> list[CellEstimate]:
    """What :func:`write` wrote, for a comparison with the truth."""
    cells = {(c.table, c.iteration, str(c.cell)): c for c in published()}
    out = []
    for m in opened.measured:
        for table in TITLES:
            if not any(c.table == table and _measured(m, c) for c in published()):
                continue
            text = run_directory.read_text(opened.folder / _name(m, table), "estimates")
            for row in csv.DictReader(text.splitlines(), delimiter="|"):
                cell = cells[table, row["ITERATION_CODE"], row["DATA_CELL"]]
                kind = "PRED" if cell.below is None else "RATIO_PRED"
                value, low, high = (float(row[kind + end]) for end in ("", "_LO", "_HI"))
                out.append(CellEstimate(row["GEOID"], cell, value, None, low, high, value))
    return out


def _name(m: MeasuredRegions, table: str) -> str:
    where = f"{'PR_' if m.regions == ('72',) else ''}{'nation' if m.level == USA else 'state'}"
    return f"estimates/{table}/estimates/{table}_{where}_trunc_normal.csv"


def _head(table: str) -> tuple[str, ...]:
    both = [f"{name}_{end}" for end in ("NUM", "DENOM") for name in _NOISY]
    parts = () if table == "PH8" else ("PRED_NUM", "PRED_DENOM")
    return (*_KEY, *both, "RATIO_NOISY", "RATIO_PRED", *parts, "RATIO_PRED_LO", "RATIO_PRED_HI")


def _measured(m: MeasuredRegions, cell: PublishedCell) -> bool:
    every = [cell.above, *([cell.below] if cell.below else [])]
    return all(np.isfinite(m.variance[_at(*sums, cell.iteration)]).all() for sums in every)


def _at(table: str, cells: Sequence[int], iteration: str) -> list[int]:
    return [column(table, iteration, c) for c in cells]


def _noisy(m: MeasuredRegions, r: int, at: Sequence[int]) -> list[str]:
    """A sum of measurements as a file has it."""
    variance = float(m.variance[list(at)].sum())
    count = int(m.values[r, list(at)].sum())
    return [str(count), repr(variance), f"{_WIDE * variance**0.5:.6f}"]


def _key(m: MeasuredRegions, r: int, cell: PublishedCell) -> list[str]:
    return [m.regions[r], REGION_TYPES[m.level], cell.iteration, str(cell.cell)]


def _counts(m: MeasuredRegions, _: str, cells: Sequence[PublishedCell]) -> Iterator[list[str]]:
    for cell in cells:
        at = _at(*cell.above, cell.iteration)
        z, sigma = m.values[:, at].astype(float), np.sqrt(m.variance[at])
        mean = np.round(means(z, np.broadcast_to(sigma, z.shape))).sum(axis=1)
        if len(at) == 1:
            low, high = quantiles(z[:, 0], np.broadcast_to(sigma[0], z.shape[:1]))
        else:
            low, high = sum_quantiles(z, sigma)
        for r in range(len(m.regions)):
            numbers = [f"{x:.0f}" for x in (mean[r], np.floor(low[r]), np.ceil(high[r]))]
            yield [*_key(m, r, cell), *_noisy(m, r, at), *numbers]


def _ratios(m: MeasuredRegions, table: str, cells: Sequence[PublishedCell]) -> Iterator[list[str]]:
    """PH1 and PH5: both numerators together. PH8: each cell alone. All iterations and regions are
    drawn side by side."""
    numbers = sorted({c.cell for c in cells})
    for group in [[c] for c in numbers] if table == "PH8" else [numbers]:
        yield from _group(m, [c for c in cells if c.cell in group], alone=table == "PH8")


def _group(
    m: MeasuredRegions, cells: Sequence[PublishedCell], *, alone: bool
) -> Iterator[list[str]]:
    iterations = [i for i in ITERATIONS if any(c.iteration == i for c in cells)]
    one, many = cells[0], len(m.regions)
    assert one.below is not None
    split = [one.above[1]] if alone else [(2,), (3,)]
    parts = {i: [_at(one.above[0], c, i) for c in split] for i in iterations}
    below = {i: _at(*one.below, i) for i in iterations}

    def every(summed: Callable[[str, list[int]], Array]) -> tuple[Array, Array]:
        """By problem, the sums above the line and that below it."""
        above = [np.stack([summed(i, at) for at in parts[i]], axis=1) for i in iterations]
        return np.concatenate(above), np.concatenate([summed(i, below[i]) for i in iterations])

    n, d = every(lambda _, at: m.values[:, at].sum(axis=1).astype(float))
    sigma = every(lambda _, at: np.full(many, np.sqrt(m.variance[at].sum())))
    drawn_n, drawn_d = ratio_draws(n, d, *sigma, 2.0 if one.table == "PH5" else 1.0)
    for cell in cells:
        start = iterations.index(cell.iteration) * many
        inside = [p for p, at in enumerate(parts[cell.iteration]) if alone or _holds(cell, at)]
        over = drawn_n[:, start : start + many, inside].sum(axis=2)
        under = drawn_d[:, start : start + many]
        ratio = over / under
        low, high = np.quantile(ratio, QUANTILES, axis=0)
        for r in range(many):
            above = [i for p in inside for i in parts[cell.iteration][p]]
            noisy = m.values[r, above].sum() / d[start + r] if d[start + r] else np.nan
            means = [f"{x[:, r].mean():.3f}" for x in (over, under)]
            yield [
                *_key(m, r, cell), *_noisy(m, r, above), *_noisy(m, r, below[cell.iteration]),
                f"{noisy:.6f}", f"{ratio[:, r].mean():.6f}", *([] if alone else means),
                f"{low[r]:.6f}", f"{high[r]:.6f}",
            ]  # fmt: skip


def _holds(cell: PublishedCell, at: Sequence[int]) -> bool:
    return set(at) <= set(_at(*cell.above, cell.iteration))


# The Bureau's method of 2020 for noisy answers: means and quantiles of truncated normal
# distributions, for each region and iteration by itself.
#
# *Counts.* The count Y has a flat prior on :math:`Y \ge 0`, and the measurement Z is normal. The mean
# is :math:`Z + \sigma\varphi(a)/(1 - \Phi(a))`, :math:`a = -Z/\sigma`. Sums have the sums of rounded
# means, and quantiles of sums of draws. *Ratios.* Numerators and denominator have a flat prior on a
# cone, :math:`l D \le \sum N \le 10 D`, :math:`N \ge 0`, :math:`D \ge 1`. The mean of the ratio and
# its quantiles come from draws of a Gibbs sampler, many problems in parallel.
#
# It is here for comparison: it publishes a true 0 as 0.9 sigma on average, and no interval contains
# it. Draws follow from the measurements by a fixed seed, so that they can be repeated. They are not
# noise of the release: no privacy depends on them.
#
# Source: ``SDHC_Model_Based_Estimates`` (R) of the production code.


SEED = 777
QUANTILES = (0.05, 0.95)
#: The largest average that the model allows.
MOST = 10
DRAWS, CHAINS, BURN = 10_000, 200, 50


def means(z: Array, sigma: Array) -> Array:
    """The means of counts that are not negative, not rounded."""
    a = -z / sigma
    out: Array = z + sigma * np.exp(-a * a / 2 - 0.5 * np.log(2 * np.pi) - log_ndtr(-a))
    return out


def above(z: Array, sigma: Array, log_tail: Array, least: Array | float = 0.0) -> Array:
    """The value that such a count exceeds with probability exp(``log_tail``)."""
    out: Array = z - sigma * ndtri_exp(log_tail + log_ndtr((z - least) / sigma))
    return np.maximum(out, least)


def quantiles(z: Array, sigma: Array) -> tuple[Array, Array]:
    """The quantiles of single counts, exactly."""
    low, high = (above(z, sigma, np.full(z.shape, np.log1p(-q))) for q in QUANTILES)
    return low, high


def sum_quantiles(z: Array, sigma: Array) -> tuple[Array, Array]:
    """The quantiles of sums of counts along the last axis ``(..., cells)``, from draws."""
    rng = np.random.default_rng(SEED)
    total = np.zeros((DRAWS, *z.shape[:-1]))
    for c in range(z.shape[-1]):
        tail = np.log1p(-rng.random((DRAWS, *z.shape[:-1])))
        total += above(z[..., c], np.broadcast_to(sigma[..., c], z.shape[:-1]), tail)
    low, high = np.quantile(total, QUANTILES, axis=0)
    return low, high


def _between(rng: np.random.Generator, mean: Array, sigma: Array, low: Array, high: Array) -> Array:
    """A draw of the normal law between two values, in the tail that is farther from its middle."""
    flip = mean < low  # then all of it is an upper tail
    a, b = np.where(flip, mean - high, low - mean), np.where(flip, mean - low, high - mean)
    left, right = log_ndtr(a / sigma), log_ndtr(b / sigma)
    u = rng.random(mean.shape)
    part = left + np.log1p(u * np.expm1(np.clip(right - left, 0.0, 700.0)))
    far = right - left > 700  # expm1 would overflow: the left end does not matter
    part = np.where(far, right + np.log(u), part)
    x = ndtri_exp(np.minimum(part, -1e-300)) * sigma
    return np.clip(np.where(flip, mean - x, mean + x), low, high)


def ratio_draws(
    n: Array, d: Array, sigma_n: Array, sigma_d: Array, least: float
) -> tuple[Array, Array]:
    """Draws of numerators ``(draws, problems, parts)`` and denominators ``(draws, problems)``, of
    measured ``n`` ``(problems, parts)`` and ``d`` ``(problems,)`` with as many standard deviations.
    ``least`` is l."""
    rng, parts = np.random.default_rng(SEED), n.shape[1]
    mean_n = np.repeat(n[None], CHAINS, axis=0)
    mean_d = np.repeat(d[None], CHAINS, axis=0)
    now_d = np.maximum(mean_d, 1.0)
    total = np.clip(np.maximum(mean_n, 0).sum(axis=2), least * now_d, MOST * now_d)
    now_n = np.repeat(total[..., None] / parts, parts, axis=2)
    kept_n, kept_d = [], []
    for sweep in range(BURN + DRAWS // CHAINS):
        for p in range(parts):
            others = now_n.sum(axis=2) - now_n[..., p]
            low = np.maximum(0.0, least * now_d - others)
            now_n[..., p] = _between(
                rng, mean_n[..., p], sigma_n[:, p], low, np.maximum(low, MOST * now_d - others)
            )
        total = now_n.sum(axis=2)
        low = np.maximum(1.0, total / MOST)
        now_d = _between(rng, mean_d, sigma_d, low, np.maximum(low, total / least))
        if sweep >= BURN:
            kept_n.append(now_n.copy())
            kept_d.append(now_d.copy())
    return np.concatenate(kept_n), np.concatenate(kept_d)
