"""The link of a DHC: agreement, accuracy and time.

Counties of Rhode Island have their real redistricting counts of 2010, with persons and households
made up to match. For each county and seed, a redistricting run and a run of the DHC with production's budgets come first, with
public seeds. The link of its release is compared with the truth, table by table, next to the release
itself. Then the records themselves are linked, which agree: how many types come out as they were."""

from __future__ import annotations

import argparse
import resource
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import pyarrow.parquet as parquet

from benchmarks.common import Figures, no_data, shared_data
from benchmarks.county_runs import BRISTOL_CODE, county_runs, file_of
from das.engine import Silent, executor
from das.model.histogram import Histogram
from das.model.spine import Spine
from das.publications.dhc import release_files
from das.publications.dhc.agreement.counted import household_attributes
from das.publications.dhc.agreement.tables import agreement_of_counts
from das.publications.dhc.files import linked as reader
from das.publications.dhc.files.linked import linked_household
from das.publications.dhc.model.households import DHCH, TENURE
from das.publications.dhc.model.members import LinkedPersons
from das.publications.dhc.release import open_dhc
from das.tools.link.averages import ALL, sums, units_of_blocks
from das.tools.link.linking import link_tract
from das.tools.link.members import KINSHIP, kinship
from das.tools.link.people import HomePersons, Trust, families_of_cells, published_totals
from das.tools.link.population import LinkedPopulation, joined, tracts
from das.tools.link.release import LinkOptions, linked_counts, places

LEVELS = ("County", "Tract", "Block_Group", "Block")
#: Tables that one of the files measures so well that a link may be a quarter worse above blocks.
PRECISE = ("P17", "PCT9", "PCT14", "PCT15", "HCT2")
#: Of files that are known to agree, such as those of linked records.
CONSISTENT = Trust(children=9.0, elderly=6.0, partner=6.0, elsewhere=5.0, crowded=0.0, sweeps=0)
#: Of persons, as :class:`LinkedPersons` has them after the household.
ATTRIBUTES = ("relgq", "sex", "age", "hispanic", "cenrace")
Lowest = Mapping[str, Histogram]
Figure = Callable[..., None]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counties", nargs="+", default=[BRISTOL_CODE], help="such as 001 005")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the runs, used again if there")
    parser.add_argument("--variances", action="store_true", help="of published totals; no link")
    given = parser.parse_args()
    figures = Figures("linked")
    for county in given.counties:
        file = file_of(county)
        if (data := shared_data(file)) is None:
            figures.skipped(f"link of county {county}", no_data(file))
            continue
        for seed in given.seeds:
            with tempfile.TemporaryDirectory() as made:
                folder = (given.keep or Path(made)) / f"{county}-{seed}"
                folder.mkdir(parents=True, exist_ok=True)
                county_runs(data, county, folder, seed)
                each = partial(figures, county=county, seed=seed)
                options = LinkOptions()
                if given.variances:
                    _variances(each, folder)
                else:
                    _measure(each, folder, given.workers, options)


def _measure(figures: Figure, folder: Path, workers: int, options: LinkOptions) -> None:
    opened = open_dhc(folder / "dhc" / "release")
    published = release_files.read_counts(opened.folder, opened.spine)
    truth = _records(folder / "records", opened.spine)
    began, cpu = perf_counter(), process_time()
    with executor(workers) as pool:
        linked = linked_counts(opened, published, pool, Silent(), options)
    seconds, cpu = perf_counter() - began, process_time() - cpu
    figures(
        "linking",
        seconds,
        "s",
        cpu_seconds=cpu,
        persons=len(linked.people),
        workers=workers,
        peak_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )
    _agreement(figures, opened.spine, published, linked)
    _errors(figures, opened.spine, truth, published, linked.counts)
    _kinship(figures, folder / "records", linked)
    _averages(figures, opened.spine, truth, linked)
    _by_tenure(figures, opened.spine, folder / "records", linked)
    _recovered(figures, opened.spine, truth)


def _variances(figures: Figure, folder: Path) -> None:
    """Mean squared errors of the published totals that the link moves to, by family: those that its
    weights follow from."""
    opened = open_dhc(folder / "dhc" / "release")
    published = release_files.read_counts(opened.folder, opened.spine)
    truth = _records(folder / "records", opened.spine)
    groups, tract = places(opened.spine)
    errors = []
    for unit in (tract, groups):
        found, true = (
            published_totals(HomePersons.from_histogram(x["persons"]), x["households"], unit).wanted
            for x in (published, truth)
        )
        errors.append(found - true)
        there = found[0] + true[0] > 0
    for name, cells in families_of_cells().items():
        which = np.flatnonzero(there[cells]) + cells.start
        in_county, in_tract, in_group = (
            float((x[:, which] ** 2).mean()) for x in (errors[0][:1], errors[0][1:], errors[1][1:])
        )
        figures(
            f"variance of {name}", in_tract, "squared", of_county=in_county, of_block_group=in_group
        )


def _records(folder: Path, spine: Spine) -> dict[str, Histogram]:
    """The records, by lowest unit of the tree."""
    found = reader.read(folder)
    at = spine.find(spine.levels[-1], found.blocks)
    out = {}
    for name, universe in (
        ("persons", found.persons),
        ("households", found.households),
        ("units", found.units),
    ):
        of = universe.open("a benchmark compares made-up records")
        cells = release_files.PUBLISHED[name]().schema.cells
        there = at[of.block] >= 0
        out[name] = Histogram.from_triplets(
            len(spine.codes[-1]), cells, at[of.block[there]], of.cell[there], of.count[there]
        )
    return out


def _agreement(figures: Figure, spine: Spine, published: Lowest, linked: LinkedPopulation) -> None:
    for name, counts in (("published", published), ("linked", linked.counts)):
        rows = agreement_of_counts(spine, {u: h.upward(spine) for u, h in counts.items()})
        odd = next(r for r in rows if r.level == spine.levels[-1] and r.identity == "any")
        most = {"at_most": 0.0} if name == "linked" else {}
        figures(f"blocks that disagree, {name}", odd.violated, "blocks", blocks=odd.units, **most)
    changed = int(np.abs(linked.occupied - linked.published_occupied).sum()) // 2
    share = changed / len(linked.cell)
    figures("households moved to another block", share, "share", at_most=0.01, moved=changed)


def _errors(
    figures: Figure, spine: Spine, truth: Lowest, published: Lowest, linked: Lowest
) -> None:
    """Mean absolute errors of tables: linked over published."""
    for name in ("persons", "households"):
        of = [x[name].upward(spine) for x in (truth, published, linked)]
        for level in LEVELS:
            error = {}
            for t in release_files.tables_of(name):
                if level in release_files.levels_of(t, spine):
                    a, b, c = (t.values(h[level]) for h in of)
                    error[t.name] = float(np.abs(b - a).mean()), float(np.abs(c - a).mean())
            before, after = np.mean(list(error.values()), axis=0)
            ratio = {k: c / b if b else 1.0 for k, (b, c) in error.items()}
            figures(
                f"error of tables of {name}, {level}",
                after / before,
                "ratio",
                published=before,
                linked=after,
                tables_within_2_percent=float(np.mean([x <= 1.02 for x in ratio.values()])),
                above={k: [*map(short, error[k]), short(x)] for k, x in ratio.items() if x > 1.02},
                **({"at_most": 1.0} if name == "households" else {}),
            )
            if level in LEVELS[:2]:
                for table in set(PRECISE) & set(ratio):
                    figures(f"error of {table}, {level}", ratio[table], "ratio", at_most=1.25)


def short(x: float) -> float:
    return float(f"{x:.3g}")


def _kinship(figures: Figure, records: Path, linked: LinkedPopulation) -> None:
    """Tails of ages within households, at most 1.5 times those of the records, or half a per
    cent."""
    found = reader.tables(records)
    rows = found.people.rows
    home, levels = linked_household(rows, found.homes.rows), rows.levels()
    inside = np.flatnonzero(home >= 0)
    true = kinship(LinkedPersons(*(x[inside] for x in (home, *(levels[n] for n in ATTRIBUTES)))))
    for name, value in kinship(linked.people.linked(linked.household)).items():
        least = 0.0 if name == "couples_90" else 0.5
        figures(
            KINSHIP[name],
            value,
            "",
            at_most=max(1.5 * true[name], least),
            records=short(true[name]),
        )


def _averages(figures: Figure, spine: Spine, truth: Lowest, linked: LinkedPopulation) -> None:
    """Average household size against the truth's persons over households."""
    home = release_files.PUBLISHED["persons"]().schema.query("hhgq8lev")
    for level, most in (("County", 0.03), ("Tract", 0.08)):
        unit = units_of_blocks(spine)[level]
        found = sums(linked, unit, spine.units(level)).average(("household size", ALL))
        persons = truth["persons"].upward(spine)[level].answer(home)[:, 0]
        households = truth["households"].upward(spine)[level].totals()
        apart = np.abs(found - persons / households)
        figures(
            f"error of average household size, {level}",
            float(np.nanmean(apart)),
            "persons",
            at_most=most,
        )


def _by_tenure(figures: Figure, spine: Spine, records: Path, linked: LinkedPopulation) -> None:
    """Average household size of each tenure, against that of the records."""
    homes = parquet.read_table(records / "households.parquet").to_pandas()
    people = parquet.read_table(records / "persons.parquet").to_pandas()
    size = people[people["household"].notna()].groupby("household").size()
    codes = homes["block"].astype(str).str.encode("ascii").to_numpy(dtype="S")
    block = spine.find(spine.levels[-1], codes)
    tenure = TENURE.levels
    true = homes[TENURE.name].astype(str).map({x: i for i, x in enumerate(tenure)}).to_numpy()
    many = homes["household"].map(size).to_numpy()
    held = household_attributes(linked.cell)[TENURE.name]
    for level, most in (("County", 0.03), ("Tract", 0.08)):
        unit = units_of_blocks(spine)[level]
        width = spine.units(level) * len(tenure)
        a, b = (
            np.bincount(at, weights=n, minlength=width)
            / np.maximum(1, np.bincount(at, minlength=width))
            for at, n in (
                (unit[block] * len(tenure) + true, many),
                (unit[linked.block] * len(tenure) + held, linked.size),
            )
        )
        apart = np.abs(a - b).reshape(-1, len(tenure)).mean(axis=0)
        figures(
            f"error of average household size by tenure, {level}",
            float(apart.max()),
            "persons",
            at_most=most,
            by_tenure=[short(x) for x in apart.tolist()],
        )


def _recovered(figures: Figure, spine: Spine, truth: dict[str, Histogram]) -> None:
    """Records that agree, linked again without their links."""
    groups, tract = places(spine)
    codes = [bytes(c) for c in spine.codes[spine.index("Tract")]]
    todo = tracts(truth, groups, tract, codes, trust=CONSISTENT)
    linked = joined([link_tract(t) for t in todo], truth, groups)
    kind = np.unravel_index(linked.cell, DHCH.shape)[-1]
    figures(
        "types of consistent files as asked",
        float(np.mean(kind == linked.asked)),
        "share",
        at_least=0.98,
    )


if __name__ == "__main__":
    main()
