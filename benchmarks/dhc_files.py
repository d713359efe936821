"""The DHC's persons in the Bureau's layout: a state to its counties, from files to tables, beside
the sparse run that wrote them.

Rhode Island has its real redistricting counts of 2010, with persons made up to match (without the
data: made-up counties). All ten queries are drawn in full for the state and each county, 1.9
million answers a unit, with the budgets of production, and written as the Bureau does. A process of
its own then does what ``das estimate --from`` does. Its counts must be those of the run that looked
at the same measurements on demand."""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from benchmarks.common import RHODE_ISLAND, Figures, shared_data
from benchmarks.dhc_layout import SmallCensus, budgeted, small_spine
from das.estimate.outer import refined
from das.estimate.pooled import Upward
from das.model.histogram import Histogram
from das.model.measurement import RecordingSource
from das.model.names import encoded, text
from das.model.spine import Spine
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release_files import read_persons
from das.publications.dhc.truth import simulated
from das.publications.published.dhc import open_published_dhc
from das.publications.published.files import dhc
from das.publications.published.separate_trees import filled

#: Minutes and gigabytes from files to a release; seconds of a processor to decode a county.
MINUTES, GIGABYTES, SECONDS = 10, 4, 5


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_files", description=__doc__)
    parser.add_argument("--counties", type=int, help="made-up counties instead of Rhode Island")
    parser.add_argument("--people", type=int, default=200_000, help="in the made-up counties")
    parser.add_argument(
        "--keep", type=Path, help="a folder for the files; else one that is deleted"
    )
    given = parser.parse_args(arguments)
    data = shared_data(RHODE_ISLAND) if given.counties is None else None
    if data is not None:
        name, census = "Rhode Island", rhode_island(data)
    else:
        counties = given.counties or 5
        name, census = f"{counties} made-up counties", made_up(counties, given.people)
    say = Figures("dhc_files")
    with tempfile.TemporaryDirectory(dir=given.keep) as place:
        measure(name, census, Path(place), say)


def rhode_island(data: Path) -> SmallCensus:
    """Its persons and facilities, by county."""
    world, blocks, _ = simulated.made_up([data], seed=1)
    code = [f"0{c[:2]}10{c[2:5]}" for c in text(encoded(blocks)).tolist()]
    counties, home = np.unique(code, return_inverse=True)
    zero = np.zeros(len(counties), dtype=np.int64)
    spine = Spine(("State", "County"), (np.array(["044"]), counties), (zero[:1], zero))
    facilities = np.zeros((len(counties), world.facilities.shape[1]), dtype=np.int64)
    np.add.at(facilities, home, world.facilities)
    return SmallCensus(spine, world.persons().up(home.astype(np.int64), len(counties)), facilities)


def made_up(counties: int, people: int) -> SmallCensus:
    """Counties of different sizes."""
    share = np.random.default_rng(1).lognormal(0, 1, counties)
    each = np.maximum(200, people * share / share.sum()).astype(np.int64)
    return SmallCensus.simulated(small_spine({"044": counties}), each, 200, 1)


def measure(name: str, census: SmallCensus, place: Path, say: Figures) -> None:
    """Write, estimate and compare."""
    files, out, spine = place / "US_DHCP_PROD", place / "out", census.spine
    counties = spine.units("County")
    began = perf_counter()
    census.write(files, RecordingSource(census.measured(5)))
    size = sum(p.stat().st_size for p in files.rglob("*.parquet")) / 1e6
    say(
        f"{name}, files",
        size / (1 + counties),
        "MB a unit",
        persons=int(census.persons.count.sum()),
        counties=counties,
        seconds=perf_counter() - began,
    )
    decode(name, files, counties, say)
    began = perf_counter()
    command = ["-m", "das", "estimate", "--from", str(files), "--out", str(out), "--quiet"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *command], check=True, env=os.environ, stdout=sys.stderr)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    minutes = (perf_counter() - began) / 60
    spent = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60
    say(f"{name}, das estimate", minutes, "min", at_most=MINUTES, processor_minutes=spent)
    say(f"{name}, memory", after.ru_maxrss / 1e6, "GB", at_most=GIGABYTES)
    began = process_time()
    source = RecordingSource(census.measured(5))
    done = refined(Upward(source, spine), spine, DHCP, budgeted(spine).outer, census.fixed)
    seconds = process_time() - began
    opened = open_published_dhc(out / "release")
    found = read_persons(opened.folder, opened.spine)
    expected = filled(done.counts["County"], census.facilities)
    say(
        f"{name}, counts of the sparse run",
        float(found.same_as(expected.counts)),
        "equal",
        at_least=1,
        seconds=seconds,
        moved=expected.moved,
        empty=expected.empty,
        truth=errors(census, found),
    )


def decode(name: str, files: Path, counties: int, say: Figures) -> None:
    """Of each county answers of all ten queries, far apart, so that all 1.9 million are decoded."""
    began = process_time()
    told = dhc.read(files)
    checked = process_time() - began
    answers, began = told.answers(), process_time()
    for query in answers.queries("County"):
        n = DHCP.query(query).answers
        at = np.tile(np.unique(np.linspace(0, n - 1, 50_000).astype(np.int64)), counties)
        unit = np.repeat(np.arange(counties), len(at) // counties)
        answers.answers("County", query, unit, at)
    each = (process_time() - began) / counties
    say(
        f"{name}, ten queries of a county",
        each,
        "processor seconds",
        at_most=SECONDS,
        all_checks=checked,
    )


def errors(census: SmallCensus, found: Histogram) -> dict[str, float]:
    """Mean absolute errors of counties, for a look: of age in 38 groups by sex."""
    query = DHCP.query("age_38_groups * sex")
    off = found.answer(query) - census.persons.answer(query)
    return {"age_38_groups * sex": float(np.abs(off).mean())}


if __name__ == "__main__":
    main()
