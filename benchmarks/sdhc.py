"""The S-DHC: intervals and standard errors over 1,000 runs of noise and least squares, what is gained
over 2020, and a million households from their files to tables.

Households are made up: their sizes are those of 2010, with a geometric tail beyond six, so that
truncation leaves out as many as in a nation. The truth of the 1,000 runs is theirs in three states,
one of them so small that many counts are zero."""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from math import hypot
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
from numpy.typing import NDArray

import das
from benchmarks.common import Figures
from benchmarks.whole_run import measured
from das.model.confidential import Confidential
from das.noise import entropy
from das.publications.sdhc.files.columns import LAYOUTS
from das.publications.sdhc.files.records import records
from das.publications.sdhc.least_squares import combined, estimated
from das.publications.sdhc.model.published import CellEstimate, published
from das.publications.sdhc.model.tables import PHSAFE, TRUNCATED, column, columns, variances
from das.publications.sdhc.spec import SdhcSpec
from das.publications.sdhc.truth.counts import counts
from das.publications.sdhc.truth.run import noisy
from das.spec import of_kind
from das.threads import one_thread

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
#: Households of the nation of 2010 by size, the last of seven and more; and how they fall off.
SIZES = (31_204_909, 38_243_143, 18_758_985, 15_625_260, 7_538_631, 3_103_187, 2_242_177)
TAIL = 0.5043
SECONDS, GIGABYTES, RUNS = 10, 2, 1000
STATES = ("44", "49", "56")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sdhc", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--households", type=int, default=1_000_000)
    parser.add_argument("--keep", type=Path, help="a folder that is kept, with what is made up")
    given = parser.parse_args(arguments)
    figures = Figures("sdhc")
    with nullcontext(given.keep) if given.keep else tempfile.TemporaryDirectory() as name:
        small, large = Path(name) / "small", Path(name) / f"households-{given.households}"
        if given.runs:
            make_up(small, 60_000, (0.6, 0.395, 0.005))
            _coverage(figures, small, given.runs)
        if given.households:
            make_up(large, given.households, (0.5, 0.3, 0.2))
            _gains(figures, large)
            _speed(figures, large, Path(name) / "run", given.households)


def configuration(name: str, *changes: str) -> SdhcSpec:
    return of_kind(SdhcSpec, das.load_spec(name, changes), name)


# --- made-up households
# --------------------------------------------------------------------------------------------------


def make_up(folder: Path, households: int, shares: Sequence[float]) -> None:
    """The three files, of households that are what their unit records say."""
    if (folder / "geo.csv").is_file():
        return
    folder.mkdir(parents=True, exist_ok=True)
    rng, n = np.random.default_rng(1), households
    size = 1 + rng.choice(7, n, p=np.array(SIZES) / sum(SIZES))
    size += np.where(size == 7, rng.geometric(1 - TAIL, n) - 1, 0)
    couple, own = (size > 1) & (rng.random(n) < 0.6), rng.random(n) < 0.5
    own &= size > np.where(couple, 2, 1)
    female = rng.random(n) < 0.5
    race = rng.choice([1, 2, 3, 4, 5, 6, 7], n, p=[0.62, 0.12, 0.01, 0.06, 0.002, 0.08, 0.108])
    hisp = 1 + (rng.random(n) < 0.19)
    mafid = 100_000_001 + 3 * np.arange(n)
    alone = size == 1
    hht = np.where(alone, np.where(female, 6, 4), np.where(couple, 1, np.where(female, 3, 2)))
    single = np.where(female, np.where(own, 6, 7), np.where(own, 10, 11))
    by_type = np.where(alone, np.where(female, 5, 9), np.where(couple, np.where(own, 1, 2), single))
    two = np.full(n, 2)
    family = np.where(alone, 0, size)
    if (family > 97).any():
        raise ValueError("a household is too large for NPF")
    units = [two, mafid, size, family, hisp, race, rng.integers(1, 5, n), hht, by_type]
    _write(folder, "units.csv", [*units, np.where(couple, 1, 5)])
    state = np.array([int(s) for s in STATES])[rng.choice(3, n, p=shares)]
    _write(folder, "geo.csv", [two, mafid, state, *np.ones((8, n), dtype=np.int64)])
    where = np.repeat(np.arange(n), size)
    number = np.arange(len(where)) - np.repeat(np.cumsum(size) - size, size)
    spouse = (number == 1) & couple[where]
    child = (number > 0) & ~spouse & own[where]
    adult = (number == 0) | spouse
    age = np.where(child, rng.integers(0, 18, len(where)), rng.integers(0, 90, len(where)))
    age = np.where(adult, 18 + age % 72, age)
    relship = np.where(number == 0, 20, np.where(spouse, 21, np.where(child, 25, 28)))
    people = [np.full(len(where), 3), mafid[where], age, hisp[where], race[where], relship]
    _write(folder, "persons.csv", people)


def _write(folder: Path, name: str, values: Sequence[NDArray[np.integer]]) -> None:
    names = list(LAYOUTS[name])
    pacsv.write_csv(pa.table(dict(zip(names, map(pa.array, values), strict=True))), folder / name)


# --- intervals
# --------------------------------------------------------------------------------------------------


@one_thread()
def runs_of(
    folder: Path, seeds: Iterable[int]
) -> Iterator[tuple[str, Array, list[tuple[float, CellEstimate]]]]:
    """Of each seed and level: standardized errors of the answers, and published cells with what is
    true of them."""
    spec = configuration("sdhc-2020", f"sdhc.states={list(STATES)}")
    found = records(folder, STATES, strict=True)[0].open("a benchmark")
    truth = counts(found, spec.sdhc.mode, spec.sdhc.relation, spec.tau)
    exact = {"1": truth.sum(axis=0)} | dict(zip(STATES, truth, strict=True))
    for seed in seeds:
        source = entropy.seeded(seed)
        levels = [noisy(spec, lv, Confidential(truth), source)[1] for lv in spec.levels]
        for e in estimated(levels, whole=True):
            rows = np.array([exact[r] for r in e.regions])
            cells = combined(e, published(), spec.sdhc.most.persons, e.values)
            told = [(true, c) for c in cells if (true := _true(exact[c.region], c)) is not None]
            yield e.level, (e.values - rows) / np.sqrt(np.diag(e.covariance)), told


def _coverage(figures: Figures, folder: Path, runs: int) -> None:
    """How often intervals hold the truth, and how far standard errors are from the spread."""
    held, errors = defaultdict[str, list[bool]](list), defaultdict[str, list[Array]](list)
    for level, error, cells in runs_of(folder, range(runs)):
        errors[level].append(error)
        for true, c in cells:
            inside = c.low is None or c.high is None or c.low <= true <= c.high
            held[_kind(c, true)].append(bool(inside))
            held["ratio without limits"] += [True] * (c.low is None)
    unknown = len(held.pop("ratio without limits", []))
    for kind, each in held.items():
        most = {"at_most": 0.91} if kind == "large count" else {}
        least = 0.89 if kind in ("large count", "small count") else 0.9
        more = {"not_known": unknown} if kind == "ratio" else {}
        said = {"intervals": len(each), "runs": runs} | more
        name, share = f"90 % intervals of a {kind} that hold the truth", float(np.mean(each))
        figures(name, share, "share", at_least=least, **most, **said)
    spread = [float(np.sqrt((np.concatenate(x) ** 2).mean())) for x in errors.values()]
    worst = max(abs(x - 1) for x in spread)
    figures("standard errors against the spread of estimates", worst, "", at_most=0.02, runs=runs)


def _true(answers: Ints, c: CellEstimate) -> float | None:
    def total(of: tuple[str, tuple[int, ...]]) -> int:
        return sum(int(answers[column(of[0], c.cell.iteration, n)]) for n in of[1])

    if c.cell.below is None:
        return total(c.cell.above)
    below = total(c.cell.below)
    return total(c.cell.above) / below if below else None


def _kind(c: CellEstimate, true: float) -> str:
    """A count is small where its interval may be cut at zero."""
    if c.error is None:
        return "ratio"
    return "count of zero" if true == 0 else "small count" if true < 5 * c.error else "large count"


# --- what is gained
# --------------------------------------------------------------------------------------------------


def _gains(figures: Figures, folder: Path) -> None:
    """Root mean square errors of a state of 2.3 million households, or 300,000 of a race: noise, and
    persons left out. Least squares is not counted."""
    found = records(folder, STATES, strict=True)[0].open("a benchmark")
    homes = len(found.addresses)
    specs = configuration("sdhc-2020-phsafe"), configuration("sdhc-2020")
    everybody = dict.fromkeys(TRUNCATED, len(found.residents))
    whole = counts(found, PHSAFE, "person", everybody).sum(axis=0)
    left = [
        whole - counts(found, spec.sdhc.mode, spec.sdhc.relation, spec.tau).sum(axis=0)
        for spec in specs
    ]
    for name, query, cells, scale, wanted in (
        ("PH1_num * total, 2.3 million households", "PH1_num *", 2, 2_300_000, 5771 / 7.8),
        ("PH7 * renters, 35 % of these", "PH7 *", 1, 0.35 * 2_300_000, 2023 / 141),
        ("PH1_num of a race, 300,000 households", "PH1_num A-G", 1, 300_000, 752 / 48),
        ("PH3 of a race", "PH3 A-G", 1, 0, 12 / 12.3),
    ):
        table, rmse = query.split(" ")[0], []
        for spec, lost in zip(specs, left, strict=True):
            at = list(columns(table, "*"))
            everywhere = table == "PH1_num" and query.endswith("A-G")
            of = list(columns("PH7", "*")) if everywhere else at  # all persons that it leaves out
            bias = float(lost[of].sum()) / homes * scale
            noise = variances([d for d in spec.measurements if d.level == "State"])
            sigma = float(noise[columns(*query.split(" "))[0]] * cells) ** 0.5
            rmse.append(hypot(sigma, bias))
        gain = rmse[0] / rmse[1]
        figures(name, gain, "times", at_least=0.9 * wanted, before=rmse[0], now=rmse[1])


# --- a million households
# --------------------------------------------------------------------------------------------------


def _speed(figures: Figures, data: Path, out: Path, households: int) -> None:
    run = measured(["run", "sdhc-2020", "--data", str(data)], out, workers=1)
    most = SECONDS * max(1.0, households / 1e6)
    stages, told = run.stages(), {"households": households}
    figures("whole command", run.cpu, "s of a processor", at_most=most, wall=run.seconds, **told)
    for name in ("read", "measure", "tables", "evaluate"):
        figures(f"stage {name}", stages[name], "s", **told)
    peak = run.peak_mb or run.largest_process_mb()
    figures("memory", peak / 1000, "GB", at_most=GIGABYTES, **told)


if __name__ == "__main__":
    main()
