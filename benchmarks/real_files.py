"""Noisy measurement files that other programs wrote: our estimates beside theirs, and what is known
of the Bureau's own.

Without ``--at``: the test set of census-bluedown (12,000 persons in the Bureau's layout, with the
truth). Both methods, without and with the totals of states, and some of the parts. Errors are mean
absolute ones of published counts on the measured tree. Bars: those of ``accuracy.csv`` beside the
files plus 5 %; of full information with totals, the L1 error of BlueDown for states, counties and
tracts. Errors of blocks by size, without and with ``estimation.bias = "corrected"``. And what the DHC's measurements add (:mod:`benchmarks.together`).

With ``--at FOLDER``: the answers that are known of the Bureau's files
(:mod:`benchmarks.known_answers`)."""

from __future__ import annotations

import argparse
import csv
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.common import Figures, no_data, shared_data
from benchmarks.known_answers import answers
from benchmarks.together import together
from das.evaluate.errors import size_rows
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.names import encoded
from das.model.redistricting import PL94
from das.publications.published.files import outside as outside_totals
from das.publications.published.files.outside import NOTHING, Outside
from das.publications.published.public import estimate_from
from das.release.opened import OpenedRelease, open_release
from das.release.prior_document import expected_size_bias

Ints = NDArray[np.int64]
TRUTH = Path("nmf_bluedown", "truth_blocks.parquet")
#: Levels in the table of errors, and what they are called there.
LEVELS = {"State": "State part", "County": "County", "Tract": "Tract"}
LEVELS |= {"Block_Group": "Block_Group", "Block": "Block"}
COLUMNS = ("total", "18+", "hispanic", "GQ", "race alone (6)", "L1 of cells")
#: Where the L1 error of full information is at most BlueDown's.
STRICT = ("State", "County", "Tract")
#: Beyond the table's errors.
SLACK = 0.05
SECONDS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--at", type=Path, help="a folder with US_Person_PL_PROD and others")
    asked, say = parser.parse_args(), Figures("real_files")
    if asked.at is not None:
        answers(asked.at, say)
        return
    together(say)
    if (truth := shared_data(TRUTH)) is None:
        say.skipped("bluedown", no_data(TRUTH))
        return
    data = truth.parent
    with TemporaryDirectory() as place:
        whole(data, Path(place), say)
        sizes(data, Path(place), say)
        parts(data, Path(place), say)


def whole(data: Path, place: Path, say: Figures) -> None:
    """The errors of both methods on the whole set, and of housing units the time."""
    totals = Outside(outside_totals.read(data / "state-totals" / "US" / "state_totals.parquet"))
    known = table(data)
    for method in ("topdown", "full-information"):
        for name, outside in (("alone", NOTHING), ("with totals", totals)):
            out = place / f"{method} {name}"
            seconds, opened = estimated(data / "US_Person_PL_PROD", out, method, outside)
            say(f"{method}, {name}: time", seconds, "s", at_most=SECONDS)
            for level, found in errors(opened, data).items():
                bars, bluedown = (known[LEVELS[level], who] for who in (method, "bluedown"))
                worst = max(e / b if b else float(e > 0) + 1 for e, b in zip(found, bars))
                what = f"{method}, {name}: {level}"
                say(
                    f"{what}, worst error",
                    worst,
                    "of the table's",
                    at_most=1 + SLACK,
                    columns=COLUMNS,
                    errors=found,
                    table=bars,
                    bluedown=bluedown,
                )
                if level in STRICT and method == "full-information" and outside is totals:
                    say(f"{what}, L1", found[-1], "persons", at_most=bluedown[-1])
        seconds, _ = estimated(data / "US_Unit_PL_PROD", place / f"{method} units", method)
        say(f"{method}, units: time", seconds, "s", at_most=SECONDS)


def parts(data: Path, place: Path, say: Figures) -> None:
    """A state in two parts, with the nation and without it, and with its total."""
    totals = Outside(outside_totals.read(data / "state-totals" / "US" / "state_totals.parquet"))
    for nation in (True, False):
        some = place / f"parts {nation}"
        for path in (data / "US_Person_PL_PROD").rglob("*"):
            state = [p for p in path.parts if p.startswith("State=")]
            if path.is_file() and (state[0] in ("State=034", "State=134") if state else nation):
                there = some / path.relative_to(data)
                there.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, there)
        what = "two parts with the nation" if nation else "two parts"
        for outside in (NOTHING, totals):
            out = place / f"out {nation} {outside is totals}"
            _, opened = estimated(some / "US_Person_PL_PROD", out, "full-information", outside)
            tree, h = on_tree(opened)
            found = h["State"].answer(PL94.query("total"))[:, 0]
            if outside is totals:
                off = abs(int(found.sum()) - 4082)
                say(f"{what}: error of the sum, with totals", off, "persons", at_most=0)
            else:
                off = int(np.abs(found - [3782, 300]).max())
                say(f"{what}: largest error of a part", off, "persons", at_most=5)
            assert tree.spine.geocodes("State").tolist() == ["034", "134"]


def sizes(data: Path, place: Path, say: Figures) -> None:
    """Errors of totals of measured blocks by size, without and with the correction of the bias."""
    for method in ("topdown", "full-information"):
        found = {}
        for bias in ("none", "corrected"):
            out = place / f"{method} {bias}"
            _, opened = estimated(data / "US_Person_PL_PROD", out, method, bias=bias)
            tree, ours = on_tree(opened)
            true = tree.of_published(truth_of(opened, data)).totals()
            predicted = np.full((2, len(true)), np.nan)
            if bias == "corrected":
                predicted = expected_size_bias(opened)[:, tree.place]
            rows = size_rows("Block", ours["Block"].totals(), true, predicted)
            found[bias] = {r.size: r for r in rows}
        for size, after in found["corrected"].items():
            before = found["none"][size]
            say(
                f"{method}: blocks of {size}",
                after.mae / before.mae,
                "ratio of mean absolute errors",
                **{
                    f"{n}_{k}": getattr(r, k)
                    for n, r in (("none", before), ("corrected", after))
                    for k in ("n", "mae", "bias")
                },
                predicted=after.predicted,
                coverage=after.coverage,
                intervals=after.intervals,
                width=after.width,
            )


def estimated(
    folder: Path, out: Path, method: str, outside: Outside = NOTHING, bias: str = "none"
) -> tuple[float, OpenedRelease]:
    """Everything after measurement, without a page, and its seconds on the wall."""
    began = perf_counter()
    changes = [f"estimation.method={method}", f"estimation.bias={bias}", "output.report=false"]
    estimate_from(folder, out, changes=changes, outside=outside)
    return perf_counter() - began, open_release(out / "release")


def on_tree(opened: OpenedRelease) -> tuple[MeasuredSpine, Mapping[str, Histogram]]:
    """The measured tree, and the published counts of its units."""
    (u,) = opened.after.universes
    tree = opened.tree(u)
    return tree, tree.of_published(opened.published(u)).upward(tree.spine)


def truth_of(opened: OpenedRelease, data: Path) -> Histogram:
    """The true counts of published blocks."""
    rows = pq.read_table(data / TRUTH.name)
    place = opened.spine.find("Block", encoded(rows["block"].to_pylist()))
    cell, count = (rows[c].to_numpy().astype(np.int64) for c in ("cell", "count"))
    return Histogram.from_triplets(len(opened.spine.codes[-1]), PL94.cells, place, cell, count)


def errors(opened: OpenedRelease, data: Path) -> dict[str, list[float]]:
    """Mean absolute errors of each of the columns, by level; of the last the sum over cells."""
    tree, ours = on_tree(opened)
    true = truth_of(opened, data)
    truth, detailed = tree.of_published(true).upward(tree.spine), PL94.query("detailed")
    out = {}
    for level in LEVELS:
        a, b = (h[level].answer(detailed).reshape(-1, 8, 2, 2, 63) for h in (ours, truth))
        off = [np.abs(x - y) for x, y in zip(counted(a), counted(b), strict=True)]
        out[level] = [*(float(x.mean()) for x in off[:-1]), float(off[-1].sum(axis=1).mean())]
    return out


def counted(x: Ints) -> Iterator[Ints]:
    """The columns of the table, ``(units, counts)`` each."""
    n = len(x)
    yield x.sum(axis=(1, 2, 3, 4))[:, None]
    yield x[:, :, 1].sum(axis=(1, 2, 3))[:, None]
    yield x[:, :, :, 1].sum(axis=(1, 2, 3))[:, None]
    yield x[:, 1:].sum(axis=(1, 2, 3, 4))[:, None]
    yield x[..., :6].sum(axis=(1, 2, 3))
    yield x.reshape(n, -1)


def table(data: Path) -> dict[tuple[str, str], list[float]]:
    """The errors in the table beside the files, of the noise of these files."""
    with (data / "accuracy.csv").open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["seed"] == "1234"]
    return {(r["level"], r["who"]): [float(r[c]) for c in COLUMNS] for r in rows}


if __name__ == "__main__":
    main()
