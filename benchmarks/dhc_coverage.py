"""How often intervals of the DHC contain the truth: replicates on the published redistricting counts,
and replicates on replicates of the redistricting release (``das intervals --earlier``).

Records are simulated. For every release, both releases are made with the same seed; intervals are
by the rule ``ct`` at 90 %, of every line of some tables. By level, universe and true size, for
classes of :data:`FEW` counts or more. A count that is 0 in the truth, the release and all replicates
is not counted. Where all replicates have the published count, the interval is that point."""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import CONFIG, Figures
from das import pipeline
from das.engine import executor, in_order
from das.engine.choice import EngineChoice
from das.files import packaged
from das.files.run import truth as truth_file
from das.files.run.run_directory import RunDirectory
from das.files.simulators import census_2010
from das.files.simulators import dhc_files as simulator
from das.model.histogram import Histogram
from das.release.dhc import open_dhc
from das.release.dhc_replicates import DhcReplicates
from das.release.replicates import SeededNoise
from das.replicates import ReplicateErrors, interval
from das.spec import DhcSpec, load, of_kind
from das.spec import parse as parsed

LEVELS = ("State", "County", "Tract", "Block_Group", "Block")
TABLES = ("P1", "P12", "P17", "H3", "H4", "P16", "H9", "H13")
COVERAGE, OFF, FIXED_AT_MOST = 0.9, 0.015, 0.8
#: Of a class with fewer counts nothing is said.
FEW = 200
#: Classes of true counts, from one on.
SIZES = (0, 1, 10, 100)
KINDS = ("fixed", "chain")
#: Of each kind, level, universe and class of sizes: counts, and intervals that contain the truth.
Hits = Mapping[tuple[str, ...], NDArray[np.int64]]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_coverage", description=__doc__)
    parser.add_argument("--releases", type=int, default=4)
    parser.add_argument("--replicates", type=int, default=25)
    parser.add_argument("--persons", type=int, default=7000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    hits = defaultdict[tuple[str, ...], NDArray[np.int64]](lambda: np.zeros(2, dtype=np.int64))
    with tempfile.TemporaryDirectory() as folder:
        data, records = Path(folder, "data"), Path(folder, "linked")
        census_2010.write(data, seed=1, states=1, persons=given.persons)
        simulator.simulate([data], records, seed=1)
        for seed in range(1, given.releases + 1):
            made = _releases(data, records, Path(folder, str(seed)), seed)
            for key, found in _hits(made, given.replicates, given.workers).items():
                hits[key] += found
    _print(Figures("dhc_coverage"), hits, given.releases, given.replicates)


def _releases(data: Path, records: Path, folder: Path, seed: int) -> tuple[Path, Path]:
    """A redistricting run and a run of the DHC on it."""
    earlier, out = folder / "pl94", folder / "dhc"
    plain = [f"run.seed={seed}", "output.report=false"]
    spec = parsed(
        CONFIG.read_text(encoding="utf-8"),
        where=str(CONFIG),
        overrides=[*plain, "geography.spine=tabulation"],
    )
    pipeline.run(spec, earlier, paths=[data], engine=EngineChoice(workers=1))
    text, _ = packaged.configuration(Path("dhc-2020"))
    changes = [*plain, f"constraints.from={earlier}", f"geography.levels={list(LEVELS)}"]
    dhc = of_kind(DhcSpec, load(text, where="dhc-2020", overrides=changes), "dhc-2020")
    pipeline.run(dhc, out, paths=[records], workers=1)
    return earlier, out


def _replicate(made: tuple[Path, Path], item: tuple[str, int]) -> tuple[str, dict[str, Histogram]]:
    """One replicate of either kind, of the lowest units."""
    kind, number = item
    earlier, out = made
    plain = DhcReplicates.of(open_dhc(out / "release"))
    source = plain.on(earlier / "release" if kind == "chain" else None)
    return kind, source.again(source.published(), SeededNoise(1, number))


def _hits(made: tuple[Path, Path], replicates: int, workers: int) -> Hits:
    source, run = DhcReplicates.of(open_dhc(made[1] / "release")), RunDirectory(made[1])
    drawn: dict[str, list[dict[str, Histogram]]] = {kind: [] for kind in KINDS}
    items = [(kind, n) for n in range(1, replicates + 1) for kind in KINDS]
    with executor(workers) as pool:
        for kind, found in in_order(pool, partial(_replicate, made), items, ahead=2 * workers):
            drawn[kind].append(found)
    hits = defaultdict[tuple[str, ...], NDArray[np.int64]](lambda: np.zeros(2, dtype=np.int64))
    published = source.published()
    for u, table, level in source.chosen(TABLES):
        truth = truth_file.read(run.truth_of(u.name)).open("to compare")
        exact = source.exact(u, table, level)
        lowest = [truth, published[u.name], *(d[u.name] for kind in KINDS for d in drawn[kind])]
        values = [table.values(h.upward(source.spine)[level]) for h in lowest]
        for i, kind in enumerate(KINDS):
            some = values[2 + i * replicates : 2 + (i + 1) * replicates]
            for size, counted in _counted(values[0], values[1], some, exact):
                hits[kind, level, u.name, size] += counted
    return hits


def _counted(
    truth: NDArray[np.int64],
    value: NDArray[np.int64],
    replicates: Sequence[NDArray[np.int64]],
    exact: NDArray[np.bool_],
) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """Counts and hits by class of true size, of those that are not exact."""
    made = interval(value, ReplicateErrors.over(value, replicates), COVERAGE, "ct")
    inside = (made.lower <= truth) & (truth <= made.upper)
    there = (truth > 0) | (value > 0) | np.any([r > 0 for r in replicates], axis=0)
    there &= ~exact[None, :]
    of_size = np.searchsorted(SIZES, truth, side="right") - 1
    for i, first in enumerate(SIZES):
        here = there & (of_size == i)
        last = f"-{SIZES[i + 1] - 1}" if i + 1 < len(SIZES) else " and more"
        name = str(first) if i == 0 else f"{first}{last}"
        yield name, np.array([here.sum(), (inside & here).sum()])
        yield "all", np.array([here.sum(), (inside & here).sum()])


def _print(figures: Figures, hits: Hits, releases: int, replicates: int) -> None:
    shown = {key: h for key, h in sorted(hits.items()) if h[0] >= FEW}
    for kind, bar in zip(
        KINDS, ({"at_most": FIXED_AT_MOST}, {"at_least": COVERAGE - OFF}), strict=True
    ):
        least = min(float(h[1] / h[0]) for key, h in shown.items() if key[0] == kind)
        figures(f"{kind}: the least coverage of a class", least, "share", **bar)
    for (kind, level, universe, size), (counts, inside) in shown.items():
        figures(
            f"{kind}, {level}, {universe}, true count {size}: coverage at {COVERAGE:.0%}",
            float(inside / counts),
            "share",
            counts=int(counts),
            releases=releases,
            replicates=replicates,
        )


if __name__ == "__main__":
    main()
