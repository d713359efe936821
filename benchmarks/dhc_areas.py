"""The DHC on a tree that keeps areas whole, next to the tree of tabulation, resting on the same
redistricting release: what areas gain, and what block groups of the tabulation pay.

Records are simulated over the real redistricting counts of one county (Bristol, Rhode Island), so
ratios are what counts. An area is the middle half of the blocks of a tract, which cuts block
groups. Every seed has one redistricting release, on the tree of tabulation. All trees rest on it,
except ``both``, which rests on a release on its own tree. Errors are mean absolute errors."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.common import CONFIG, Figures, no_data, shared_data
from benchmarks.dhc_best import BRISTOL, LEVELS, estimated, mae
from das.engine import executor, in_order
from das.engine.choice import EngineChoice
from das.engine.tasks import SILENT
from das.files import packaged
from das.files.readers import area_list
from das.model.areas import Areas
from das.model.histogram import Histogram
from das.model.names import text
from das.model.spine import Spine
from das.publications.dhc.release_files import tables_of
from das.publications.dhc.spec import DhcSpec
from das.publications.dhc.truth import simulated as simulator
from das.publications.dhc.truth.preparation import EarlierRelease, PreparedDhc, prepare
from das.runs import pipeline
from das.spec import load, of_kind
from das.spec import parse as parsed

LISTED = "areas.csv"
TABULATION = "tabulation"
#: By name of a tree: changes to the configuration, and whether the redistricting release has them.
TREES: dict[str, tuple[dict[str, str], bool]] = {
    TABULATION: ({"spine": "tabulation"}, False),
    "areas": ({"spine": "optimized", "targets": f'["{LISTED}"]'}, False),
    "areas, cut into runs": (
        {"spine": "optimized", "targets": f'["{LISTED}"]', "fanout": "12"},
        False,
    ),
    "areas and block groups": (
        {"spine": "optimized", "targets": f'["Block_Group", "{LISTED}"]'},
        False,
    ),
    "both": ({"spine": "optimized", "targets": f'["Block_Group", "{LISTED}"]'}, True),
}
#: Where errors are counted: levels of the tabulation, the areas, and all areas together.
AREAS, UNION = "areas", "union of areas"
PLACES = (AREAS, UNION, "Block_Group", "Tract", "Block")
#: By universe, tables, and queries with the answers that are taken.
TABLES = {"persons": ("P12", "P17"), "households": ("P19",), "units": ()}
AGES = "age_18_64_116"
QUERIES: dict[str, dict[str, tuple[str, slice]]] = {
    "persons": {
        "total": ("total", slice(None)),
        "0-17": (AGES, slice(0, 1)),
        "18-64": (AGES, slice(1, 2)),
        "65 and over": (AGES, slice(2, 3)),
        "five-year ages": ("age_5_years", slice(None)),
        "age by sex and race": ("sex * age_23_groups * race7", slice(None)),
    },
    "households": {
        "household size": ("hhsize_all", slice(None)),
        "age of householder": ("hhage", slice(None)),
    },
    "units": {"tenure and vacancy": ("tenvacgq", slice(None))},
}
#: By tree, place and count: the most that an error may be, as a part of that on the tabulation's.
BARS = {
    ("areas", AREAS, "65 and over"): 0.4,
    ("areas", AREAS, "total"): 1.0,
    ("areas", AREAS, "0-17"): 1.0,
    ("areas and block groups", AREAS, "total"): 1.0,
}
Key = tuple[str, str]
Errors = Mapping[Key, float]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dhc_areas", description=__doc__)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--config", default="dhc-2020")
    parser.add_argument("--persons", action="store_true", help="without units and households")
    parser.add_argument("--tree", choices=list(TREES), action="append", help="default: all")
    given = parser.parse_args(arguments)
    figures, data = Figures("dhc_areas"), shared_data(BRISTOL)
    if data is None:
        figures.skipped("all", no_data(BRISTOL))
        return
    trees = dict.fromkeys([TABULATION, *(given.tree or TREES)])
    with tempfile.TemporaryDirectory() as folder, executor(given.workers) as pool:
        records = Path(folder, "linked")
        simulator.simulate([data], records, seed=1)
        for seed in range(1, given.repeats + 1):
            _release(data, Path(folder), Path(folder, f"{seed}"), seed, {"spine": "tabulation"})
        universes = ("persons",) if given.persons else tuple(QUERIES)
        work = partial(_errors_on, given.config, universes, data, Path(folder))
        jobs = [(seed, tree) for seed in range(1, given.repeats + 1) for tree in trees]
        found = list(in_order(pool, work, iter(jobs), ahead=2 * given.workers))
    each = {tree: [e for (_, t), e in zip(jobs, found, strict=True) if t == tree] for tree in trees}
    _print(figures, each)


def _release(data: Path, folder: Path, out: Path, seed: int, keys: Mapping[str, str]) -> Path:
    """A redistricting release; areas are listed next to the first."""
    changes = [f"geography.{key}={value}" for key, value in keys.items()]
    spec = parsed(
        CONFIG.read_text(encoding="utf-8"),
        where=str(CONFIG),
        overrides=(*_here(changes, folder), f"run.seed={seed}", "output.report=false"),
    )
    pipeline.run(spec, out, paths=[data], engine=EngineChoice(workers=1))
    return out / "release"


def _here(changes: Sequence[str], folder: Path) -> list[str]:
    return [c.replace(LISTED, str(folder / LISTED)) for c in changes]


def _errors_on(
    config: str, universes: Sequence[str], data: Path, folder: Path, job: tuple[int, str]
) -> Errors:
    """The errors with one seed on one tree."""
    (seed, tree), release = job, folder / f"{job[0]}" / "release"
    keys, both = TREES[tree]
    chosen = [f"geography.{key}={value}" for key, value in keys.items()]
    text_of, _ = packaged.configuration(Path(config))
    base = [f"run.seed={seed}", f"geography.levels={list(LEVELS)}"]
    plain = of_kind(DhcSpec, load(text_of, where=config, overrides=base), config)
    listed = folder / LISTED
    areas = _listed(listed, EarlierRelease.read(release, plain).spine)
    if both:
        release = _release(data, folder, folder / f"{seed}-{tree}", seed, keys)
    changed = [*base, *_here(chosen, folder)]
    spec = of_kind(DhcSpec, load(text_of, where=config, overrides=changed), config)
    prepared = prepare(spec, folder / "linked", EarlierRelease.read(release, spec), SILENT)
    return dict(_errors(prepared, areas, seed, universes))


def _listed(path: Path, spine: Spine) -> Areas:
    """The middle half of each tract's blocks."""
    if not path.is_file():
        tract = spine.up("Block", "Tract")
        first = np.searchsorted(tract, tract)
        size = np.bincount(tract)[tract]
        middle = np.abs(2 * (np.arange(len(tract)) - first) + 1 - size) < size / 2
        codes = text(spine.codes[-1])[middle]
        rows = [f"{t},{c}" for t, c in zip(tract[middle].tolist(), codes.tolist(), strict=True)]
        draft = path.with_suffix(f".{id(rows)}")
        draft.write_text("\n".join(["area,block", *rows]) + "\n", encoding="utf-8")
        draft.replace(path)
    return area_list.read(path, spine)


def _errors(
    prepared: PreparedDhc, areas: Areas, seed: int, universes: Sequence[str]
) -> Iterator[tuple[Key, float]]:
    done = estimated(prepared, seed, universes)
    for u in (u for u in prepared.spec.universes if u.name in done):
        truth = prepared.lowest[u.name].open("to compare")
        pair = [_by_place(h, areas, prepared.spine) for h in (truth, done[u.name].counts["Block"])]
        tables = {t.name: t for t in tables_of(u.name)}
        for place in PLACES:
            one, other = (p[place] for p in pair)
            for name in TABLES[u.name]:
                yield (place, name), mae(*(tables[name].values(h) for h in (one, other)))
            for name, (query, some) in QUERIES[u.name].items():
                asked = u.schema.query(query)
                yield (place, name), mae(one.answer(asked)[:, some], other.answer(asked)[:, some])


def _by_place(lowest: Histogram, areas: Areas, spine: Spine) -> dict[str, Histogram]:
    levels, of_areas = lowest.upward(spine), areas.histogram(lowest)
    union = of_areas.up(np.zeros(len(areas), dtype=np.int64), 1)
    return {**levels, AREAS: of_areas, UNION: union}


def _print(figures: Figures, each: Mapping[str, Sequence[Errors]]) -> None:
    """A line for each bar, and one for each tree and place with all counts: the error on the tree
    of tabulation, here, their ratio, and the ratio by seed."""
    for tree, found in each.items():
        ratios = {key: _compared(each[TABULATION], found, key) for key in found[0]}
        for (_, place, name), most in (b for b in BARS.items() if b[0][0] == tree):
            before, after, ratio, by_seed = ratios[place, name]
            figures(
                f"{tree}: {place}: {name}, error relative to the tree of tabulation",
                ratio,
                "times",
                at_most=most,
                tabulation=before,
                here=after,
                by_seed=by_seed,
            )
        for place in PLACES:
            counts = {name: r for (where, name), r in ratios.items() if where == place}
            figures(f"{tree}: {place}, all counts", len(found), "repeats", counts=counts)


def _compared(
    before: Sequence[Errors], after: Sequence[Errors], key: Key
) -> tuple[float, float, float, list[float]]:
    one, other = (np.array([f[key] for f in found]) for found in (before, after))
    by_seed = (other / np.maximum(one, 1e-9)).round(3).tolist()
    ratio = float(other.mean() / one.mean()) if one.any() else 1.0
    return round(one.mean(), 3), round(other.mean(), 3), ratio, by_seed


if __name__ == "__main__":
    main()
