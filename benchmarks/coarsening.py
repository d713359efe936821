"""The least coarsening of Rhode Island's real blocks of 2010: cost, proved bound, what is shown, what
it loses, and what districts keep.

Errors are mean absolute errors a cell of the estimates of greatest entropy, over inhabited places;
next to them those of an independent program, and of one run of TopDown with the 2020 budget, both
from the notes that this was built from."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import RHODE_ISLAND, ROOT, Figures, no_data, shared_data
from das.engine.tasks import SILENT
from das.files.run.run_directory import release_of
from das.release.opened import open_release
from das.tools.protection.least.chain import Grain
from das.tools.protection.least.combining import combined
from das.tools.protection.least.staircase import Staircase
from das.tools.protection.truth.least.audit import kept_districts, value_of, without_small
from das.tools.protection.truth.least.solution import (
    CountTree,
    Effort,
    LeastAtoms,
    lower_bound,
    solved,
)
from das.tools.protection.truth.methods.coarsening import LeastCoarsening, coarsened
from das.tools.protection.truth.reconstructing import true_groups
from das.tools.protection.truth.study_input import CountedPlaces, redistricting

Ints = NDArray[np.int64]
#: By places: errors of the independent program, and of TopDown, for each count.
COUNTS = ("votingage", "eth5", "race7", "votingage * hispanic * race7")
KNOWN = {
    "Block": ((1.90, 0.93, 0.98, 0.42), (3.64, 1.88, 1.33, 0.47)),
    "Block_Group": ((2.02, 1.65, 6.00, 2.08), (11.3, 6.09, 4.53, 1.99)),
    "Tract": ((0, 0.60, 11.2, 3.63), (8.05, 2.64, 2.28, 2.08)),
    "County_Subdivision": ((0, 0.80, 18.3, 6.28), (16.5, 7.45, 5.81, 4.66)),
    "SLDL": ((14.8, 10.1, 26.4, 9.40), (31.0, 16.7, 12.4, 6.13)),
}
#: At the fourth grain, age by five groups: how many districts shall keep their tables.
LEAST_KEPT = {"SLDL": 61, "County_Subdivision": 33}
#: Counts of 1 or 2 that may follow exactly before atoms are joined, of the finest groups.
EXACT = 4


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coarsening", description=__doc__)
    parser.add_argument("--rounds", type=int, default=24, help="of reshuffling")
    parser.add_argument(
        "--noisy", type=Path, help="a run of the same state: both releases are read together"
    )
    parser.add_argument("--noisy-rounds", type=int, nargs="+", default=[40], help="of its chains")
    parser.add_argument(
        "--copies",
        type=int,
        help="instead: the whole command, in one order, on this many copies of Rhode Island (36:"
        " Texas)",
    )
    options = parser.parse_args(arguments)
    figures = Figures("coarsening")
    path = shared_data(RHODE_ISLAND)
    if path is None:
        figures.skipped("all", no_data(RHODE_ISLAND))
        return
    if options.copies:
        _large(path, options.copies, figures)
        return
    places = redistricting(path, SILENT)
    counts = places.counts.open("public data of 2010")
    lived, tree = LeastCoarsening().tree(places.schema, places.spine, counts)
    found = _solutions(tree, options.rounds, figures)
    whole = Staircase.from_counts(tree.chain, found.atom, tree.counts[-1][-1])
    _audit(tree, whole, figures)
    search, (atom, small) = Effort("search", options.rounds), without_small(tree, found)
    figures("small counts joined away", small, "counts", cost=value_of(tree, atom))
    codes = [np.unique(places.fields[k][lived], return_inverse=True) for k in LEAST_KEPT]
    each = [np.where(np.strings.find(c, b"Z") < 0, np.arange(len(c)), -1)[of] for c, of in codes]
    area = dict(zip(LEAST_KEPT, each, strict=True))
    for kinds in (*((k,) for k in LEAST_KEPT), tuple(LEAST_KEPT)):  # each alone, then together
        mine, named = [area[k] for k in kinds], " and ".join(kinds)
        atom, _ = without_small(tree, solved(tree, search, mine))
        began = process_time()
        kept = kept_districts(tree, atom, mine)
        for kind, grain in zip(kinds, kept.grain, strict=True):
            shown = [int((grain >= h).sum()) for h in range(1, len(tree.chain))]
            name, least = f"districts kept, {named}: {kind}", LEAST_KEPT[kind]
            figures(name, shown[2], "districts", at_least=least, by_grain=shown)
        cost, lost = value_of(tree, kept.atom), list(zip(kept.lines, kept.withheld, strict=True))
        seconds = process_time() - began
        figures(f"seconds: districts, {named}", seconds, "s", at_most=60, cost=cost, lost=lost)
    whole = Staircase.from_counts(tree.chain, kept.atom, tree.counts[-1][-1])
    _errors(places, lived, tree, whole, dict(zip(LEAST_KEPT, kept.grain, strict=True)), figures)
    if options.noisy:
        for rounds in options.noisy_rounds:
            _together(options.noisy, places, rounds, figures)


#: Probabilities of counts of 1 or 2: the least of each class of the table of what they are worth.
STATED = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9)


def _together(noisy: Path, places: CountedPlaces, rounds: int, figures: Figures) -> None:
    """Errors of blocks by age and five groups: from the tables, as published, and from both; and how
    often counts are what is stated of them."""
    coarse = coarsened(LeastCoarsening(), places, (), SILENT)[0]
    began = process_time()
    both = combined(open_release(release_of(noisy)), coarse, None, seed=1, rounds=rounds)
    seconds, true = process_time() - began, true_groups(noisy, both.units, both.grain)
    found = {str(e["from"]): float(str(e["mean absolute error"])) for e in both.errors(true)}
    least = min(found["exact tables"], found["noisy release"])
    for name, value in found.items():
        most = least if name == "both" else None
        figures(f"error of blocks: {name}", value, "persons", at_most=most)
    small = both.small_counts(true)
    figures("chains are apart by", both.both.apart, "persons", small_counts=small)
    figures("seconds: both releases", seconds, "s", rounds=rounds)
    told, right = both.both.small[1:, both.hidden], true[both.hidden] == np.arange(1, 3)[:, None]
    for least, most in zip(STATED, (*STATED[1:], 1.01), strict=True):
        inside = (told >= least) & (told < most)
        figures(
            f"of counts of 1 or 2 that are told with {100 * least:g} % or more, right",
            100 * float(right[inside].mean()) if inside.any() else 0.0,
            "percent",
            stated=100 * float(told[inside].mean()) if inside.any() else 0.0,
            counts=int(inside.sum()),
            rounds=rounds,
        )


def _solutions(tree: CountTree, rounds: int, figures: Figures) -> LeastAtoms:
    began = process_time()
    number = solved(tree, Effort("number"))
    figures("runs of block numbers", number.value, "bits", at_most=368_344)
    figures("seconds: runs of block numbers", process_time() - began, "s", at_most=10)
    began = process_time()
    found = solved(tree, Effort("search", rounds))
    figures("search", found.value, "bits", at_most=321_000, exact=found.exact)
    figures("seconds: search", process_time() - began, "s", at_most=60)
    began = process_time()
    bound = lower_bound(tree)
    figures("lower bound", bound, "bits", at_least=243_800, times=found.value / bound)
    figures("seconds: lower bound", process_time() - began, "s")
    return found


def _audit(tree: CountTree, whole: Staircase, figures: Figures) -> None:
    figures("atoms that do not pass", int(whole.failing(tree.rules).sum()), "atoms", at_most=0)
    last, units = len(tree.chain) - 1, np.arange(len(whole))
    lower, upper = whole.bounds(last, units)
    truth = tree.counts[-1][-1]
    figures(
        "truths outside their bounds",
        int(((truth < lower) | (truth > upper)).sum()),
        "counts",
        at_most=0,
    )
    given = whole.given_away(tree.rules.m)
    finest = int((given[:, 1] == last).sum())
    small = int(((truth > 0) & (truth < tree.rules.m)).sum())
    figures(
        "small counts that follow",
        finest,
        "counts",
        at_most=EXACT,
        of=small,
        at_all_grains=len(given),
    )


def _errors(
    places: CountedPlaces,
    lived: Ints,
    tree: CountTree,
    whole: Staircase,
    kept: Mapping[str, Ints],
    figures: Figures,
) -> None:
    """Of sums of the blocks' estimates, or none where a district's own table has the count."""
    finest, units = tree.chain.grains[-1], np.arange(len(whole))
    guess, truth = whole.estimates(len(tree.chain) - 1, units), tree.counts[-1][-1]
    for place, known in KNOWN.items():
        if place in places.spine.levels:
            area = places.spine.up("Block", place)[lived]
        else:
            area = np.unique(places.fields[place][lived], return_inverse=True)[1]
        area = np.unique(area, return_inverse=True)[1].ravel()
        for count, expected, topdown in zip(COUNTS, *known, strict=True):
            wanted = Grain.spelled(count, places.schema)
            member = _member(wanted, finest)
            error = _sums(area, guess @ member) - _sums(area, truth @ member)
            fine = [h for h, g in enumerate(tree.chain.grains) if g.refines(wanted)]
            own = kept.get(place, np.zeros(0, dtype=np.int64))
            error[: len(own)][own >= min(fine, default=len(tree.chain))] = 0
            mae = float(np.abs(error).mean())
            figures(f"error: {place}, {count}", mae, "persons", notes=expected, topdown=topdown)


def _member(coarse: Grain, finest: Grain) -> NDArray[np.float64]:
    """Which coarse group each finest one lies in, ``(finest, coarse)``."""
    out = np.zeros((len(finest), len(coarse)))
    out[finest.index, coarse.index] = 1
    return out


def _sums(area: Ints, each: NDArray[np.float64]) -> NDArray[np.float64]:
    out = np.zeros((int(area.max()) + 1, each.shape[1]))
    np.add.at(out, area, each)
    return out


# --- a large state

#: The bar for Texas, with two cores.
MINUTES = 15


def _large(path: Path, copies: int, figures: Figures) -> None:
    """What the command takes on a state of some copies, by stage, and its memory."""
    with tempfile.TemporaryDirectory(prefix="das-coarsening-") as name:
        data, out = Path(name, "ri2010.pl.zip"), Path(name, "coarse")
        blocks = write_copies(path, data, copies)
        command = ["frontier", "protect", "coarsen-least", "--data", str(data), "--out", str(out)]
        began = perf_counter()
        with tempfile.TemporaryFile("w+") as said:
            asked = [sys.executable, "-m", "benchmarks.stages", *command, "--set", "order=number"]
            child = subprocess.Popen(asked, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=said)
            _, status, used = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            seconds = perf_counter() - began
            said.seek(0)
            lines = said.read().splitlines()
        if child.returncode:
            raise RuntimeError("\n".join(lines[-5:]))
        stages = [json.loads(line) for line in lines if line.startswith("{")]
        for stage in stages:
            about = {"cpu_seconds": stage["cpu"], "memory_mb": stage["mb"]}
            figures(f"{copies} copies: {stage['stage']}", stage["seconds"], "s", **about)
        figures(
            f"{copies} copies: the whole command",
            seconds / 60,
            "minutes",
            at_most=MINUTES,
            cpu_minutes=(used.ru_utime + used.ru_stime) / 60,
            blocks=blocks,
        )
        most = max((stage["mb"] or 0.0 for stage in stages), default=0.0)
        figures(f"{copies} copies: memory", most or used.ru_maxrss / 1024, "MB")
        size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
        figures(f"{copies} copies: files", size / 1e6, "MB")


def write_copies(path: Path, to: Path, copies: int) -> int:
    """Write the redistricting file of a state of some copies of a state of few counties, each with
    counties of its own. How many blocks it has."""
    with ZipFile(path) as old, ZipFile(to, "w", ZIP_DEFLATED, compresslevel=1) as new:
        header = old.read("rigeo2010.pl").splitlines(keepends=True)
        kept = [i for i, x in enumerate(header) if x[8:13] in _BELOW]
        state = next(i for i, x in enumerate(header) if x[8:13] == b"04000")
        with new.open("rigeo2010.pl", "w") as file:
            whole, number = header[state], 1
            totals = b"".join(b"%9d" % (copies * int(whole[at : at + 9])) for at in (318, 327))
            file.write(whole[:18] + b"%07d" % number + whole[25:318] + totals + whole[336:])
            for copy in range(copies):
                for line in (header[i] for i in kept):
                    number += 1
                    county = b"%03d" % (10 * copy + int(line[29:32]))
                    file.write(line[:18] + b"%07d" % number + line[25:29] + county + line[32:])
        for name in ("ri000012010.pl", "ri000022010.pl"):
            each = [x.split(b",", 5) for x in old.read(name).splitlines(keepends=True)]
            with new.open(name, "w") as file:
                counts = (b"%d" % (copies * int(x)) for x in each[state][5].split(b","))
                begin = b",".join(each[state][:4]) + b",%07d,"
                file.write(begin % 1 + b",".join(counts) + b"\n")
                for number in range(copies * len(kept)):
                    file.write(begin % (number + 2) + each[kept[number % len(kept)]][5])
    return copies * sum(x[8:13] == b"75000" for x in header)


#: Summary level and component of counties, tracts, block groups and blocks.
_BELOW = (b"05000", b"14000", b"15000", b"75000")


if __name__ == "__main__":
    main()
