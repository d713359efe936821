"""Would the correction of the size bias help ages of blocks, whose totals the DHC holds fixed?

Adults of one race and origin in the blocks of real block groups, by sex and age. Their number in each
block is fixed, and so is every cell of the block group. Cells of blocks have the noise of the DHC. Least
squares without negative counts is compared with its estimate less the expected bias of each cell, solved
again, and with the prior of shares."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtr

from das.solve import children_qp

Floats = NDArray[np.float64]
#: Of the noise of a cell of a block; and the spread of shares that the 28 tracts have.
DEVIATION, SPREAD = 30.0, 4.81
AGES = {"65 and over": (65, 200), "25 to 44": (25, 45)}


def families(data: Path, every: int) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """White adults, not Hispanic, of every so-many-th block group: counts ``(blocks, cells)``, and
    the age of each cell."""
    frame = pd.read_csv(data, dtype={"block": str}).query(
        "age >= 18 and cenrace == 1 and cenhisp == 1 and sf1 > 0"
    )
    frame = frame.assign(cell=frame["age"].clip(upper=115) * 2 + frame["sex"] - 1)
    for _, group in list(frame.groupby(frame["block"].str[:12]))[::every]:
        counts = group.pivot_table("sf1", "block", "cell", aggfunc="sum", fill_value=0)
        if min(counts.shape) > 1:
            yield counts.to_numpy(float), counts.columns.to_numpy() // 2


def expected_bias(people: Floats, cells: Floats) -> tuple[Floats, Floats]:
    """The expected bias of each cell ``(blocks, cells)`` if both sums are fixed, and its mean."""
    mean = np.outer(people, cells / cells.sum())
    of_cell, of_block = np.zeros(len(cells)), np.zeros((len(people), 1))

    def clipped() -> tuple[Floats, Floats]:
        u = mean - of_cell - of_block
        positive = ndtr(u / DEVIATION)
        density = DEVIATION * np.exp(-0.5 * (u / DEVIATION) ** 2) / np.sqrt(2 * np.pi)
        return u * positive + density, positive

    for _ in range(60):
        held, slope = clipped()
        of_cell += (held.sum(axis=0) - cells) / slope.sum(axis=0)
        held, slope = clipped()
        of_block += (held.sum(axis=1, keepdims=True) - people[:, None]) / slope.sum(
            axis=1, keepdims=True
        )
    return clipped()[0] - mean, mean


def errors(data: Path, every: int, rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Mean absolute errors by age, and of cells the sum over a block."""
    found: dict[str, dict[str, list[Floats]]] = {}
    for true, age in families(data, every):
        people, cells = true.sum(axis=1), true.sum(axis=0)
        bias, mean = expected_bias(people, cells)
        alone = (mean * (1 - cells / cells.sum())).sum() / (len(people) * (len(cells) - 1))
        noisy, weight = true + rng.normal(0, DEVIATION, true.shape), DEVIATION**2 / (SPREAD * alone)

        def solved(target: Floats, cells: Floats = cells, people: Floats = people) -> Floats:
            fixed, group = people[:, None], np.zeros(len(cells), dtype=np.int64)
            solution = children_qp(
                np.eye(len(cells)),
                target,
                cells,
                groups=group,
                lower=fixed,
                upper=fixed,
                tol=1e-3,
                max_iterations=3000,
            )
            return np.asarray(solution.x, dtype=np.float64)

        plain = solved(noisy)
        kinds = {
            "least squares": plain,
            "less the expected bias": solved(plain - bias),
            "prior of shares": solved((noisy + weight * mean) / (1 + weight)),
        }
        for kind, x in kinds.items():
            off, row = x - true, found.setdefault(kind, {})
            for name, (low, high) in AGES.items():
                some = off[:, (age >= low) & (age < high)]
                row.setdefault(name, []).append(np.abs(some.sum(axis=1)))
            row.setdefault("all cells", []).append(np.abs(off).sum(axis=1))
    return {
        kind: {name: float(np.concatenate(each).mean()) for name, each in row.items()}
        for kind, row in found.items()
    }
