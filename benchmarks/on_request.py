r"""Noise on demand and its files, in a schema of the size of the DHC's.

There are three figures. One is coordinates per second of one core, anywhere and in order, next to a
stretch of them. One is answers per second of the oracle that adds the truth, block by block. The
last is the bytes of a number on demand in the files. Requests are those of top-down estimation. A
block needs all cells of its block group, or those of them in a class that the block itself has.
Persons are those of 28 tracts (2010), with made-up relationships."""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import Figures, no_data, shared_data, timed
from benchmarks.paying import paying
from das.model.budget import Neighbours
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.ledger import Ledger
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import RecordingSource
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.noise import discrete_gaussian, entropy
from das.noise.coordinates import LIMIT, CoordinateNoise
from das.noise.entropy import ChunkLabel, CoordinateLabel
from das.publications.dhc.files import on_demand
from das.publications.dhc.truth.oracle import OnDemandMeasurement

TRACTS = Path("dhc", "dhc_2010_28tracts.csv.gz")
VARIANCES = (
    Fraction(1, 8),
    Fraction(136_89, 100),
    Fraction(912_04, 100),
)  # 11.7^2 and 30.2^2: cells of the nation, of blocks
LABEL = CoordinateLabel(ChunkLabel("persons", "Block", 1, b"", b"", b"", "", b""), "detailed")
SCHEMA = Schema(
    "demographic",
    tuple(
        Attribute(name, tuple(map(str, range(n))))
        for name, n in (("relgq", 42), ("sex", 2), ("age", 116), ("hispanic", 2), ("cenrace", 63))
    ),
)
FASTEST, BYTES = 1e7, 2.0
Ints = NDArray[np.int64]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.on_request", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args(arguments)
    figures = Figures("on_request")
    for sigma_sq in VARIANCES:
        _coordinates(figures, sigma_sq, given.repeats)
    if (path := shared_data(TRACTS)) is None:
        figures.skipped("answers and files", no_data(TRACTS))
    else:
        _blocks(figures, path, given.repeats)


def _coordinates(figures: Figures, sigma_sq: Fraction, repeats: int) -> None:
    noise = CoordinateNoise(entropy.seeded(1).blocks(LABEL), LIMIT, discrete_gaussian, sigma_sq)
    anywhere = np.random.default_rng(1).integers(0, LIMIT, 4_000_000)
    for name, work, n in (
        ("anywhere", partial(noise.at, anywhere), len(anywhere)),
        ("in order", partial(noise.at, np.sort(anywhere)), len(anywhere)),
        ("a stretch", partial(noise.dense, 5, 20_000_005), 20_000_000),
    ):
        figures(
            f"coordinates per second, {name}, sigma^2 = {float(sigma_sq):g}",
            n / timed(work, repeats).cpu,
            "coordinates/s/core",
            at_least=FASTEST,
        )


def _blocks(figures: Figures, path: Path, repeats: int) -> None:
    spine, truth = _tracts(path)
    plan = Plan.priced(
        DISCRETE_GAUSSIAN, Neighbours.BOUNDED, [("Block", "detailed", 1 / VARIANCES[-1])]
    )
    groups = truth.up(spine.parent[2], spine.units("Group"))
    for name, (units, cells) in {
        "all cells of the group": _support(spine, groups),
        "own classes": _own(spine, groups, truth),
    }.items():
        tree = MeasuredSpine.from_published(spine)
        pay = paying(Ledger(plan.cost), "persons", SCHEMA, tree, plan)
        source = OnDemandMeasurement(
            {"Block": Confidential(truth)}, "persons", SCHEMA, tree, plan, entropy.seeded(1), pay
        )
        recorded = RecordingSource(source)
        recorded.answers("Block", "detailed", units, cells)
        t = timed(partial(source.answers, "Block", "detailed", units, cells), repeats)
        figures(
            f"answers per second, {name}",
            len(units) / t.cpu,
            "answers/s/core",
            at_least=FASTEST,
            answers=len(units),
        )
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            t = timed(
                partial(
                    on_demand.write, root, "Block", SCHEMA, spine, list(recorded.recorded("Block"))
                ),
                1,
            )
            size = sum(f.stat().st_size for f in root.rglob("*.parquet"))
            reading = timed(
                partial(on_demand.OnDemandReader(root, spine).read, "Block", "detailed"), 1
            )
        figures(
            f"bytes of a revealed number, {name}",
            size / len(units),
            "bytes",
            at_most=BYTES,
            numbers=len(units),
            units=spine.units("Block"),
            seconds_write=t.seconds,
            seconds_read=reading.seconds,
        )


def _tracts(path: Path) -> tuple[Spine, Histogram]:
    """Blocks and their groups, and who lives there."""
    with gzip.open(path, "rt") as lines:
        rows = [r for r in csv.DictReader(lines) if r["sf1"] != "0"]
    block = np.array([r["block"] for r in rows])
    columns = ("sex", "age", "cenhisp", "cenrace", "sf1")
    sex, age, hispanic, race, count = (np.array([int(r[c]) for r in rows]) for c in columns)
    home, index = np.unique(block, return_inverse=True)
    group, parent = np.unique(home.astype("U12"), return_inverse=True)
    where, who = (
        np.repeat(index, count),
        [np.repeat(x, count) for x in (sex - 1, age, hispanic - 1, race - 1)],
    )
    rng = np.random.default_rng(1)
    young = np.array([6, 6, 6, 6, 6, 7, 8, 11, 14])[rng.integers(0, 9, len(where))]
    grown = np.array([0, 1, 1, 1, 2, 2, 2, 3, 6, 9, 10, 15])[rng.integers(0, 12, len(where))]
    cell = np.ravel_multi_index((np.where(who[1] < 18, young, grown), *who), (42, 2, 116, 2, 63))
    above = np.zeros(1, dtype=np.int64), np.zeros(len(group), dtype=np.int64)
    spine = Spine(("Tracts", "Group", "Block"), (np.array(["0"]), group, home), (*above, parent))
    return spine, Histogram.from_triplets(
        len(home), SCHEMA.cells, where, cell, np.ones(len(where), dtype=np.int64)
    )


def _support(spine: Spine, groups: Histogram) -> tuple[Ints, Ints]:
    asked = groups.some(spine.parent[2])
    return asked.unit, asked.cell


def _own(spine: Spine, groups: Histogram, blocks: Histogram) -> tuple[Ints, Ints]:
    """Of these the ones whose class, five years of age together, somebody of the block is of."""
    units, cells = _support(spine, groups)

    def classes(unit: Ints, cell: Ints) -> Ints:
        return (unit * SCHEMA.cells + cell // (126 * 5) * 126 + cell % 126).astype(np.int64)

    here = np.isin(classes(units, cells), classes(blocks.unit, blocks.cell))
    return units[here], cells[here]


if __name__ == "__main__":
    main()
