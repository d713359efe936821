"""Small releases of the Detailed DHC: folders, runs, and their tables as rows."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from das.engine.choice import EngineChoice
from das.publications.detailed.files import config
from das.publications.detailed.model.tables import PRODUCTS
from das.publications.detailed.spec import DetailedFolders
from das.release.outcome import Outcome
from das.runs import pipeline
from tests.files.detailed import folders

#: Budgets at which noise is 0.
QUIET = 1_000_000
#: The smallest that a release can be: persons, households, folders of both.
Config = Callable[[dict[str, Any]], object]


def given(
    folder: Path, product: str = "persons", change: Config | None = None, **keys: object
) -> tuple[Path, Path]:
    """Folders of parameters and data, of two states and Puerto Rico: ``keys`` of the configuration
    are changed, or ``change`` does.
    """
    said = folders.configuration(PRODUCTS[product]) | keys
    if change is not None:
        change(said)
    parameters = folders.written(
        folder / "parameters", folders.texts(PRODUCTS[product]) | {config.FILE: json.dumps(said)}
    )
    data = folders.written(folder / "data", folders.data(PRODUCTS[product]))
    if product == "households":
        folders.written(data, {"pop-group-totals.txt": folders.TOTALS})
    return parameters, data


def quiet(said: dict[str, Any]) -> None:
    """No noise, and nothing left out."""
    for key in said:
        if key.startswith("privacy_budget_") and "fraction" not in key and said[key]:
            said[key] = QUIET
    if "zero_suppression_chance" in said:
        said["zero_suppression_chance"] = 0


def all_quiet(said: dict[str, Any]) -> None:
    """Every level, too."""
    quiet(said | {})
    for key in said:
        if key.startswith("privacy_budget_") and "fraction" not in key:
            said[key] = QUIET
    quiet(said)


def thresholds(*at: int) -> Config:
    """The same at every level, as many as a table needs."""

    def change(said: dict[str, Any]) -> None:
        for key in (k for k in said if k.startswith("thresholds_")):
            said[key] = {level: list(at[: len(old)]) for level, old in said[key].items()}

    return change


def changed(folder: Path, *changes: Config) -> Path:
    """A folder of parameters whose configuration is changed."""
    path = folder / config.FILE
    said = json.loads(path.read_text(encoding="utf-8"))
    for change in changes:
        change(said)
    path.write_text(json.dumps(said), encoding="utf-8")
    return folder


def copied(source: Path, target: Path, *changes: Config) -> Path:
    """A copy of a folder of parameters, changed."""
    shutil.copytree(source, target)
    return changed(target, *changes) if changes else target


def go(
    parameters: Path,
    data: Path,
    out: Path,
    product: str = "persons",
    *,
    seed: int | None = None,
    entropy: str = "keyed",
    workers: int = 1,
    delta: Fraction = Fraction(1, 10**10),
    **how: Any,
) -> Outcome:
    run = {"name": product, "seed": seed, "entropy": entropy}
    return run_groups(
        parameters,
        data,
        product,
        out,
        run=run,
        delta=delta,
        engine=EngineChoice(workers=workers),
        **how,
    )


def configured(
    product: str = "persons",
    parameters: Path | None = None,
    data: Path | None = None,
    totals: Path | None = None,
    *,
    run: Mapping[str, Any] | None = None,
    delta: Fraction = Fraction(1, 10**10),
) -> DetailedFolders:
    """The configuration that names these folders."""
    named = {"parameters": parameters, "path": data, "totals": totals}
    return DetailedFolders.model_validate(
        {
            "run": {"name": product} | dict(run or {}),
            "data": {name: str(path) for name, path in named.items() if path is not None},
            "detailed": {"product": product, "delta": str(delta)},
        }
    )


def named(
    parameters: object, data: object, product: str = "persons", totals: object = None
) -> list[str]:
    """The options of `das run` and `das check` of `detailed-dhc` that name these folders."""
    changes = {"data.parameters": parameters, "detailed.product": product}
    changes |= {} if totals is None else {"data.totals": totals}
    of = [part for key, value in changes.items() for part in ("--set", f"{key}={value}")]
    return ["--data", str(data), *of]


def run_groups(
    parameters: Path,
    data: Path,
    product: str,
    out: Path,
    *,
    run: Mapping[str, Any] | None = None,
    delta: Fraction = Fraction(1, 10**10),
    totals: Path | None = None,
    **how: Any,
) -> Outcome:
    """A run of these folders."""
    return pipeline.run(
        configured(product, parameters, data, totals, run=run, delta=delta), out, **how
    )


def rows(release: Path, table: str) -> list[dict[str, str]]:
    """Those of all runs, without what says that they are not private."""
    out: list[dict[str, str]] = []
    for path in sorted((release / "tables" / table).glob("part-*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            out += csv.DictReader(file, delimiter="|")
    return [{k: v for k, v in row.items() if k != "NOT PRIVATE"} for row in out]


def contents(root: Path, *parts: str) -> Mapping[str, bytes]:
    """Every file below some folders of a run, by its path."""
    return {
        p.relative_to(root).as_posix(): p.read_bytes()
        for part in parts
        for p in sorted((root / part).rglob("*"))
        if p.is_file()
    }
