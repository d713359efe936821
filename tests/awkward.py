"""One small world in which much meets that small worlds keep apart: two states of four branches, a
block group with facilities alone, areas that cut it, names that repeat, empty
blocks, a county of one tract, codes with leading zeros; and levels of several batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das import spec
from das.cli import main
from das.files.simulators import census_2010
from das.model.spine import Spine
from das.publications.dhc.truth import simulated as dhc_files
from das.runs import pipeline
from tests.worlds import ROOT, Worlds

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
#: The most values of a batch here: 16 units of the full histogram.
BATCH = 1 << 15
#: Where a row of a block has its housing units, occupied and vacant.
_UNITS, _OCCUPIED, _VACANT = 288, 289, 290


def extract(worlds: Worlds) -> Path:
    """Redistricting files of Arkansas (05) and Minnesota, with 2,000 persons in 170 blocks."""
    return _made(worlds, "extract", _write)


def _write(folder: Path) -> None:
    real = census_2010._simulate

    def simulated(*given: Any) -> tuple[Any, Any]:
        """Nobody occupies a unit of the block group with the fewest persons."""
        at, values = real(*given)
        persons = np.bincount(at.group, values[:, 0])
        alone = at.group == np.argmin(np.where(persons > 0, persons, np.inf))
        values[alone, _VACANT] += values[alone, _OCCUPIED]
        values[alone, _OCCUPIED] = 0
        return at, values

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(census_2010, "_simulate", simulated)
        census_2010.write(folder, seed=4, states=2, persons=2000, per_block=12)


@contextmanager
def small_batches() -> Iterator[None]:
    """Levels of this world are read, estimated and written in several batches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Spine.batches, "__defaults__", (BATCH,))
        yield


def counts(worlds: Worlds, out: Path | None = None) -> Path:
    """Persons and housing units from all measurements of an optimized tree, with its page.
    ``out``: this run, once it is there, is asked for again."""
    return _run(worlds, "pl94-2010-best", extract(worlds), out, "output.csv=true")


def linked(worlds: Worlds) -> Path:
    """Records of persons and households, linked, with the counts of the extract."""
    data = extract(worlds)
    return _made(worlds, "records", lambda folder: dhc_files.simulate([data], folder, seed=1))


def dhc(worlds: Worlds) -> Path:
    """The DHC over these counts, each universe measured over a tree of its own."""
    more = (f"constraints.from={counts(worlds)}", "geography.spine=optimized")
    return _run(worlds, "dhc-best", linked(worlds), None, *more)


def sdhc(worlds: Worlds) -> Path:
    """The S-DHC of the same records, and averages of their counties."""
    more = [f"sdhc.budget.{t}.area_*=1" for t in ("PH1_num", "PH1_denom")]
    return _run(worlds, "sdhc-2020", linked(worlds), None, *more)


def link(worlds: Worlds) -> Path:
    """The link of this DHC, moved towards the totals of that S-DHC."""
    given = ["link", str(dhc(worlds)), "--targets", str(sdhc(worlds)), "--quiet", "--out"]
    return _made(worlds, "link", lambda out: main([*given, str(out)], standalone_mode=False))


def intervals(worlds: Worlds) -> Path:
    """This DHC with intervals from two replicates, which cover errors of the counts, too."""
    asked = ["--replicates", "2", "--level", "County", "--level", "Tract", "--quiet"]
    asked += ["--earlier", str(counts(worlds))]

    def make(folder: Path) -> None:
        main(["intervals", str(worlds.copy(dhc(worlds), folder)), *asked], standalone_mode=False)

    return _made(worlds, "intervals", make)


def _run(worlds: Worlds, config: str, data: Path, out: Path | None, *changes: str) -> Path:
    text = (ROOT / "configs" / f"{config}.toml").read_text(encoding="utf-8")
    chosen = spec.load(text, where="c", overrides=["run.seed=1", *changes])
    if out is not None:
        assert pipeline.run(chosen, out, paths=[data], resume=True).was_finished
        return out
    return _made(worlds, config, lambda folder: pipeline.run(chosen, folder, paths=[data]))


def _made(worlds: Worlds, name: str, make: Callable[[Path], object]) -> Path:
    with small_batches():
        return worlds.made(f"the awkward {name}", make)
