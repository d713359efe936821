"""What the Bureau would have published of a release in the mode ``phsafe``, in the files of its
programs in R: ``estimates/PHn/estimates/PHn_[PR_]{nation,state}_trunc_normal.csv``."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from das.files import atomic
from das.files.run import run_directory
from das.model.not_private import CELL, COLUMN
from das.publications.sdhc import truncated_normal as model
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
        mean = np.round(model.means(z, np.broadcast_to(sigma, z.shape))).sum(axis=1)
        if len(at) == 1:
            low, high = model.quantiles(z[:, 0], np.broadcast_to(sigma[0], z.shape[:1]))
        else:
            low, high = model.sum_quantiles(z, sigma)
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
    drawn_n, drawn_d = model.ratio_draws(n, d, *sigma, 2.0 if one.table == "PH5" else 1.0)
    for cell in cells:
        start = iterations.index(cell.iteration) * many
        inside = [p for p, at in enumerate(parts[cell.iteration]) if alone or _holds(cell, at)]
        over = drawn_n[:, start : start + many, inside].sum(axis=2)
        under = drawn_d[:, start : start + many]
        ratio = over / under
        low, high = np.quantile(ratio, model.QUANTILES, axis=0)
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
