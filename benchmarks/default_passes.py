"""Passes by rule next to everything at once and to totals first, on the same noise.

For each world and each choice of passes, it gives the largest ratio of a query's error after
post-processing to its noise. That is over all measured queries and levels, each a mean over the
runs. The noise is the larger of the expected and the drawn noise: a national total has one draw a
run, which can be an outlier. The worlds are of two kinds. Some are made-up populations over two
custom schemas, of 108 and 12,960 cells, with margins measured as precisely as the cells or less.
The others are the configurations of 2020 and 1940 without their passes."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

from benchmarks.common import ROOT, Figures
from das import spec as specification
from das.engine import Silent
from das.model.universe import Planned
from das.runs.pipeline import run_prepared
from das.spec import RunSpec
from das.stages import Stages
from das.truth.preparation import prepare

LEVELS = ("Country", "Region", "District", "Village")
SMALL = {"sex": 2, "age": 9, "religion": 6}
LARGE = {"sex": 2, "age": 18, "race": 6, "occupation": 12, "education": 5}
MARGINS = {
    108: ("total", "sex * religion", "age"),
    12960: ("total", "sex * race", "age", "occupation"),
}

#: The rule keeps every measured query within this factor of its expected noise (a few runs have
#: some spread).
MOST = 1.35
Rule = Callable[[Planned, str], Sequence[Sequence[str]] | None]


def _at_once(universe: Planned, level: str) -> list[list[str]]:
    return [[d.query for d in universe.plan.at(level)]]


def _totals_first(universe: Planned, level: str) -> list[list[str]]:
    rest = [d.query for d in universe.plan.at(level) if d.query != "total"]
    return [["total"], rest] if len(rest) < len(universe.plan.at(level)) else [rest]


RULES: Mapping[str, Rule] = {
    "by rule": lambda u, level: None,
    "at once": _at_once,
    "totals first": _totals_first,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.default_passes", description=__doc__
    )
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args(arguments)
    figures = Figures("default_passes")
    with tempfile.TemporaryDirectory() as folder:
        for name, text, paths in _worlds(Path(folder)):
            for method in ("topdown", "full-information"):
                if method == "full-information" and "12,960" in name:
                    figures.skipped(
                        f"{name}, {method}", "its matrices of 12,960 x 12,960 take 8 GB"
                    )
                    continue
                # passes are those of top-down estimation alone
                for rule in RULES if method == "topdown" else ["by rule"]:
                    _measure(figures, name, text, paths, method, rule, given.repeats)


def _measure(
    figures: Figures,
    name: str,
    text: str,
    paths: Sequence[Path],
    method: str,
    rule: str,
    repeats: int,
) -> None:
    base = specification.parse(text, where=name, overrides=["run.seed=1"])
    prepared = prepare(base, paths, Stages(), Silent())
    chosen = {lv: RULES[rule](base.persons, lv) for lv in base.geography.levels}
    passes = [
        f"estimation.passes.{lv}={json.dumps(p)}" for lv, p in chosen.items() if p is not None
    ]
    errors: dict[str, dict[tuple[str, str], list[float]]] = {"postprocessed": {}, "nmf": {}}
    seconds = []
    for seed in range(1, repeats + 1):
        quiet = [
            "output.report=false",
            "output.tables=false",
            f"run.seed={seed}",
            f"estimation.method={method}",
        ]
        spec = specification.parse(text, where=name, overrides=[*passes, *quiet])
        with tempfile.TemporaryDirectory() as folder:
            began = perf_counter()
            done = run_prepared(spec, prepared, Path(folder) / "run")
            seconds.append(perf_counter() - began)
        for row in done.rows["persons"]:
            if row.bin == "all" and row.source in errors:
                errors[row.source].setdefault((row.level, row.query), []).append(row.mae)
    published, drawn = (
        {k: float(np.mean(v)) for k, v in errors[source].items()}
        for source in ("postprocessed", "nmf")
    )
    ratio = {key: published[key] / max(noise, drawn[key]) for key, noise in _expected(base).items()}
    worst = max(ratio, key=lambda key: ratio[key])
    figures(
        f"{name}, {method}, {rule}",
        ratio[worst],
        "published error / noise",
        at_most=MOST if rule == "by rule" else None,
        worst=list(worst),
        mean=float(np.mean(list(ratio.values()))),
        seconds=float(np.mean(seconds)),
    )


def _expected(spec: RunSpec) -> dict[tuple[str, str], float]:
    """The mean absolute error of each measurement: sigma times sqrt(2 / pi)."""
    plan = spec.persons.plan
    return {(d.level, d.query): float((2 / np.pi * d.variance) ** 0.5) for d in plan.measurements}


def _worlds(folder: Path) -> list[tuple[str, str, list[Path]]]:
    out = []
    for sizes, persons in ((SMALL, 20_000), (LARGE, 40_000)):
        cells = int(np.prod(list(sizes.values())))
        path = folder / f"{cells}.csv"
        people(persons, sizes).to_csv(path, index=False)
        margins = MARGINS[cells]
        for kind, detailed in (("as the cells", 1), ("less than the cells", 10)):
            whole = len(margins) + detailed
            shares = {**dict.fromkeys(margins, f"1/{whole}"), "detailed": f"{detailed}/{whole}"}
            out.append(
                (
                    f"{cells:,} cells, margins as precise {kind}",
                    configuration(sizes, shares),
                    [path],
                )
            )
    for name, data in (("pl94-2010", "pl94_2010"), ("1940", "ext1940")):
        text = (ROOT / "configs" / f"{name}.toml").read_text(encoding="utf-8")
        out.append((f"{name} without its passes", _without_passes(text), [ROOT / "data" / data]))
    return out


def _without_passes(text: str) -> str:
    head, _, tail = text.partition("[estimation.passes]")
    _, bracket, rest = tail.partition("\n[")
    return head + bracket + rest


def people(persons: int, sizes: Mapping[str, int], seed: int = 1) -> pd.DataFrame:
    """A made-up population: skewed, dependent attributes, villages of very different size."""
    random = np.random.default_rng(seed)
    villages = [
        (f"{a}", f"{a}{b}", f"{a}{b}{c:02d}") for a in range(2) for b in range(3) for c in range(8)
    ]
    share = random.lognormal(0, 1, len(villages))
    home = random.choice(len(villages), persons, p=share / share.sum())
    latent = random.normal(size=persons) + random.normal(0, 0.5, len(villages))[home]
    columns: dict[str, object] = {
        level.lower(): [villages[v][i] for v in home] for i, level in enumerate(LEVELS[1:])
    }
    for i, (name, levels) in enumerate(sizes.items()):
        rare = -1.2 * np.log(np.arange(1, levels + 1)) if levels > 2 else np.zeros(levels)
        tilt = np.linspace(-1, 1, levels) * (0.6 if i % 2 else -0.6)
        score = rare + latent[:, None] * tilt + random.gumbel(size=(persons, levels))
        columns[name] = [f"{name[0]}{j}" for j in score.argmax(axis=1)]
    return pd.DataFrame(columns)


def configuration(sizes: Mapping[str, int], shares: Mapping[str, str]) -> str:
    """Of a table with these attributes, each level measured alike."""
    lines = ['run.name = "own"', 'data.reader = "table"', "[data.columns.geography]"]
    lines += [f'{level} = "{level.lower()}"' for level in LEVELS[1:]]
    lines += ['[schema]\nname = "own"\n[schema.attributes]']
    lines += [
        f"{name} = {json.dumps([f'{name[0]}{j}' for j in range(n)])}" for name, n in sizes.items()
    ]
    lines += [
        f"[geography]\nlevels = {json.dumps(LEVELS)}",
        '[budget]\nrho = "1"\nneighbours = "bounded"',
    ]
    lines += ["[budget.levels]", *(f'{level} = "1/{len(LEVELS)}"' for level in LEVELS)]
    for level in LEVELS:
        lines += [
            f"[budget.queries.{level}]",
            *(f'"{query}" = "{share}"' for query, share in shares.items()),
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
