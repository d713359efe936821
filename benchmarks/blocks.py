"""Counts of blocks with and without their size bias, on the same noise: by size, by density, for
enclaves, for areas off the tree.

Each run measures the persons once and estimates them three times: as production does ("none"), with
``estimation.bias = "corrected"`` ("housing"), and corrected without what is known of housing
("alone"). Published counts are compared with the truth. An *enclave* of a group is a block where the
group is more than half, in a block group where it is less than a fifth.

The value of a line is a ratio to "none": below 1 is a gain. ``z`` is the mean paired difference over
its standard error, with runs and blocks taken as independent. Lines of *predicted bias* hold what the
correction says of the bias of least squares, without housing, against the actual one; these are in
persons, and made with ``--workers 1`` only.

Counts that TopDown has published have the size bias themselves. As a truth (``--twice``, or the
Bureau's files of 2020) they cannot judge a correction: it takes out their own bias, too.

Bars are those of a trial on Rhode Island that chose among twenty variants; they are shown for any
input."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, RHODE_ISLAND, Figures, no_data, shared_data
from benchmarks.published import estimated, estimating, lowest
from das import spec as specification
from das.engine import InProcess, Silent, executor
from das.estimate.batch import solve_jointly
from das.estimate.family import Family
from das.estimate.least_squares import LeastSquares
from das.estimate.passes import Passes
from das.estimate.size_bias import (
    CorrectedFamily,
    can_be_corrected,
    corrected_totals,
    estimated_totals,
    possible_cells,
)
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.post_processing import BiasCorrection
from das.model.query import Query
from das.model.solution import Certificate
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import Prepared, prepare

METHODS = ("topdown", "full-information")
SIZES = ((0, 0), (1, 9), (10, 49), (50, 99), (100, 199), (200, 499), (500, None))
#: Persons per housing unit over that of the block group.
DENSITIES = (0.0, 0.25, 0.5, 0.75, 1.33, 2.0, 4.0, np.inf)
#: Groups of people: the answers of hispanic * cenrace that they are.
GROUPS = {
    "Hispanic": range(63, 126),
    "White": [0],
    "Black": [1],
    "AIAN": [2],
    "Asian": [3],
    "NHPI": [4],
    "Other": [5],
    "two or more": range(6, 63),
}
#: Largest mean absolute error and bias of totals, and so many times that of "none".
LARGEST: Mapping[tuple[int, int | None], float] = {(1, 9): 2.4, (200, 499): 9.0, (500, None): 11.0}
LARGEST_BIAS: Mapping[tuple[int, int | None], float] = {(200, 499): 1.5, (500, None): 4.0}
ALL = 4.45
KINDS = ("none", "housing", "alone")
Floats = NDArray[np.float64]


def main(arguments: Sequence[str] | None = None, figures: Figures | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blocks", description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--method", action="append", choices=METHODS)
    parser.add_argument("--spine", choices=["optimized", "tabulation"])
    parser.add_argument("--data", type=Path, nargs="+", help="other extracts than Rhode Island")
    parser.add_argument("--config", type=Path, default=CONFIG)
    parser.add_argument(
        "--twice", action="store_true", help="the truth is what a run with seed 0 has published"
    )
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args(arguments)
    figures, data = figures or Figures("blocks"), given.data or [shared_data(RHODE_ISLAND)]
    if data[0] is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    text = given.config.read_text(encoding="utf-8")
    changes = [f"geography.spine={given.spine}"] if given.spine else []
    spec = specification.parse(text, where=str(given.config), overrides=[*changes, *given.set])
    prepared = prepare(spec, data, Stages(), Silent())
    spec = spec.on(prepared.trees)
    with executor(given.workers) as pool:
        if given.twice:
            name, first = spec.persons.name, estimated(estimating(spec), prepared, 0, pool)
            published = Confidential(lowest(prepared, name, first))
            prepared = replace(prepared, lowest={**prepared.lowest, name: published})
        blocks = Blocks(spec, prepared)
        for method in given.method or METHODS:
            runs = [
                _run(spec, prepared, seed, method, pool) for seed in range(1, given.repeats + 1)
            ]
            spreads = [spread for _, spread, _ in runs if spread is not None]
            figures(
                f"{method}: spread of households",
                float(np.mean([s.linear for s in spreads])),
                "persons",
                quadratic=float(np.mean([s.quadratic for s in spreads])),
            )
            blocks.compare(figures, method, [r[0] for r in runs], [r[2] for r in runs])


class Recorder(Passes):
    """Notes what the bias of each child is expected to be, by its number at the lowest level."""

    biases: ClassVar[dict[int, float]] = {}

    def estimates(self, families: Sequence[Family]) -> list[tuple[Floats, Certificate]]:
        if families and families[0].correction is not None:
            problems = [LeastSquares(family, self.tolerance) for family in families]
            plain = solve_jointly([self._plain(p) for p in problems], self.accuracy)
            some = [
                CorrectedFamily(p, x)
                for p, (x, _) in zip(problems, plain, strict=True)
                if can_be_corrected(p)
            ]
            cells, known = possible_cells(some)
            totals = corrected_totals(cells, estimated_totals(some, cells), known, None)
            parts = np.split(cells.bias(totals)[1], np.cumsum([f.totals for f in some])[:-1])
            for f, part in zip(some, parts, strict=True):
                units = f.family.unit.tolist()
                each = part.reshape(len(units), -1).sum(axis=1).tolist()
                self.biases.update(zip(units, each, strict=True))
        return super().estimates(families)


def _run(spec: RunSpec, prepared: Prepared, seed: int, method: str, pool: Executor):  # type: ignore[no-untyped-def]
    """The published histogram of each kind, the spread that was found, and the expected biases."""
    out, spread = {}, None
    for kind in KINDS:
        changed = estimating(spec, method=method, bias="none" if kind == "none" else "corrected")
        correction = BiasCorrection() if kind == "alone" else None
        recorded = kind == "alone" and isinstance(pool, InProcess)
        release = estimated(
            changed,
            prepared,
            seed,
            pool,
            correction=correction,
            method=Recorder if recorded else Passes,
        )
        out[kind] = lowest(prepared, spec.persons.name, release)
        if kind == "housing" and release.correction is not None:
            spread = release.correction.spread
    expected = np.full(release.histograms[release.spine.levels[-1]].units, np.nan)
    expected[list(Recorder.biases)] = list(Recorder.biases.values())
    Recorder.biases.clear()
    return out, spread, expected


class Blocks:
    """The true counts of blocks, and the sets of them that are compared."""

    def __init__(self, spec: RunSpec, prepared: Prepared) -> None:
        self.schema, self.prepared, self.universe = spec.persons.schema, prepared, spec.persons.name
        spine = prepared.spine
        self.true = prepared.truth[spec.persons.name][spine.levels[-1]].open(
            "to hold published counts against it"
        )
        self.counts = self._counted(self.true)
        self.total = self.counts["total"]
        self.home = spine.parent[-1]
        homes = prepared.truth.get("housing")
        self.units = (
            np.zeros(len(self.total))
            if homes is None
            else homes[spine.levels[-1]].open("housing units are published").totals().astype(float)
        )

    def _counted(self, h: Histogram) -> Mapping[str, Floats]:
        race = h.answer(self.schema.query("hispanic * cenrace"))
        groups = {name: race[:, list(which)].sum(axis=1) for name, which in GROUPS.items()}
        of = {"total": h.totals(), "18 and over": h.answer(self.schema.query("votingage"))[:, 1]}
        return {name: x.astype(float) for name, x in (of | groups).items()}

    def compare(
        self,
        figures: Figures,
        method: str,
        runs: Sequence[Mapping[str, Histogram]],
        expected: Sequence[Floats],
    ) -> None:
        """Print every line; ``expected``: the biases of the units of the measured tree."""
        place = self.prepared.trees[self.universe].place
        of_block = [np.zeros(len(self.total)) for _ in expected]
        for blocks, units in zip(of_block, expected, strict=True):
            blocks[place] = units
        counted = {kind: [self._counted(run[kind]) for run in runs] for kind in KINDS}
        race: Query = self.schema.query("hispanic * cenrace")
        true = self.true.answer(race)
        l1 = {
            kind: [np.abs(run[kind].answer(race) - true).sum(axis=1).astype(float) for run in runs]
            for kind in KINDS
        }

        def errors(kind: str, name: str) -> list[Floats]:
            return [c[name] - self.counts[name] for c in counted[kind]]

        def line(name: str, of: Mapping[str, Sequence[Floats]], **bars: float | None) -> None:
            if len(of["none"][0]):
                _line(figures, f"{method}: {name}", of, **bars)

        def some(name: str, keep: NDArray[np.bool_]) -> Mapping[str, Sequence[Floats]]:
            return {kind: [e[keep] for e in errors(kind, name)] for kind in KINDS}

        everything = np.ones(len(self.total), dtype=bool)
        for name in self.counts:
            largest = ALL if name == "total" else None
            line(f"{name}, all blocks", some(name, everything), largest=largest)
        line("race by origin, L1, all blocks", l1)
        for size in SIZES:
            keep, words = self._of(size), f"blocks of {size_words(*size)}"
            for name in ("total", "18 and over", "Hispanic"):
                mine = name == "total"
                line(
                    f"{name}, {words}",
                    some(name, keep),
                    largest=LARGEST.get(size) if mine else None,
                    bias=LARGEST_BIAS.get(size) if mine else None,
                    ratio=1.02,
                )
            at = {kind: [x[keep] for x in l1[kind]] for kind in KINDS}
            line(f"race by origin, L1, {words}", at, ratio=1.04)
            known = keep & np.isfinite(of_block).all(axis=0)
            if known.any():
                predicted = float(np.mean([b[known].mean() for b in of_block]))
                actual = float(np.mean([e[known].mean() for e in errors("none", "total")]))
                figures(
                    f"{method}: {words}, predicted bias off by",
                    abs(predicted - actual),
                    "persons",
                    at_most=max(0.15 * abs(actual), 0.7),
                    predicted=predicted,
                    actual=actual,
                    units=int(known.sum()),
                )
        for low, high in pairwise(DENSITIES):
            keep = (self._density() > low) & (self._density() <= high)
            line(f"total, density {low:g} to {high:g}", some("total", keep), ratio=1.06)
        enclaves = {name: self._enclaves(name) for name in GROUPS}
        pooled = {
            kind: [
                np.concatenate([e[enclaves[n]] for n, e in zip(GROUPS, each, strict=True)])
                for each in zip(*(errors(kind, n) for n in GROUPS), strict=True)
            ]
            for kind in KINDS
        }
        line("group, enclaves pooled", pooled, ratio=1.09)
        for name, keep in enclaves.items():
            line(f"{name}, enclaves", some(name, keep), ratio=1.16 if keep.sum() >= 30 else None)
            of_many = 0.7 if keep.sum() >= 15 else None
            line(f"total, enclaves of {name}", some("total", keep), ratio=of_many)
        for kind_of_area, of, many in self._areas():
            for name in ("total", "White", "Black"):
                sums = {
                    kind: [
                        np.bincount(of[0], e[of[1]], many).astype(float) for e in errors(kind, name)
                    ]
                    for kind in KINDS
                }
                line(f"{name}, {kind_of_area}", sums, ratio=_most(name, kind_of_area))

    def _of(self, size: tuple[int, int | None]) -> NDArray[np.bool_]:
        low, high = size
        keep = (self.total >= low) & (self.total <= (np.inf if high is None else high))
        return keep & (self.units > 0) if high == 0 else keep

    def _density(self) -> Floats:
        """0 where nobody lives in a unit of it, so that it is in no class."""
        people, units = (np.bincount(self.home, x)[self.home] for x in (self.total, self.units))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num((self.total / self.units) / (people / units), posinf=0.0)

    def _enclaves(self, name: str) -> NDArray[np.bool_]:
        there = self.counts[name]
        around, people = (np.bincount(self.home, x)[self.home] for x in (there, self.total))
        return (there > 0.5 * self.total) & (around < 0.2 * people)

    def _areas(self) -> Iterator[tuple[str, tuple[NDArray[np.intp], NDArray[np.intp]], int]]:
        """Kinds of areas with the area and the block of each line."""
        every = np.arange(len(self.total))
        for level in self.prepared.spine.levels[1:-1]:
            up = self.prepared.spine.up(self.prepared.spine.levels[-1], level)
            yield level, (up, every), int(up.max()) + 1
        for areas in self.prepared.areas:
            yield areas.kind, (areas.area, areas.unit), int(areas.area.max()) + 1
        yield "runs of 20 blocks", (every // 20, every), int(every[-1] // 20) + 1


def _most(name: str, kind_of_area: str) -> float | None:
    """The bar of an area's counts: published block groups are not those of the measured tree."""
    if name == "total":
        return 0.82 if kind_of_area == "Block_Group" else 1.0
    return 1.03 if (name, kind_of_area) == ("White", "Block_Group") else None


def _line(
    figures: Figures,
    name: str,
    of: Mapping[str, Sequence[Floats]],
    *,
    largest: float | None = None,
    bias: float | None = None,
    ratio: float | None = None,
) -> None:
    mae = {kind: float(np.mean([np.abs(e).mean() for e in of[kind]])) for kind in KINDS}
    lean = {kind: float(np.mean([e.mean() for e in of[kind]])) for kind in KINDS}
    paired = np.concatenate(
        [np.abs(a) - np.abs(b) for a, b in zip(of["housing"], of["none"], strict=True)]
    )
    spread = paired.std(ddof=1) / len(paired) ** 0.5 if len(paired) > 1 else 0.0
    bars = {
        f"{what}_met": bool(value <= bar)
        for what, value, bar in (
            ("mae", mae["housing"], largest),
            ("bias", abs(lean["housing"]), bias),
        )
        if bar is not None
    }
    if mae["none"] == 0:
        return
    figures(
        name,
        mae["housing"] / mae["none"],
        "ratio of mean absolute errors",
        at_most=ratio,
        **mae,
        **{f"bias_{kind}": lean[kind] for kind in KINDS},
        **bars,
        z=float(paired.mean() / spread) if spread else 0.0,
        units=len(of["none"][0]),
        runs=len(of["none"]),
    )


def size_words(low: int, high: int | None) -> str:
    return f"{low} and more" if high is None else f"{low}" if low == high else f"{low} to {high}"


if __name__ == "__main__":
    main()
