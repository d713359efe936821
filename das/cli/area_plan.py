"""``das plan --areas``: how well areas would be known on each spine, on the terminal or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from das.cli.answer import CommandAnswer
from das.cli.console import console, records_table
from das.cli.options import warn_of
from das.engine import Silent
from das.jobs.area_planning import AreaPlan, AreasOnSpine, planned
from das.model.not_private import PLANNED, marked
from das.spec import RunSpec

#: Areas that the terminal lists; JSON has all.
LISTED = 200
NOTE = (
    "standard deviations of totals, before anything is measured. topdown: of the descent, before"
    " non-negativity, which makes those of areas that cut block groups several times smaller. full"
    " information: from all levels. estimate: the standard error that `das area` will state, with"
    " all that is known of structures."
)
FIGURES = ("topdown", "full_information", "estimate")


def of_areas(spec: RunSpec, universe: str, listed: Path, paths: Sequence[Path]) -> CommandAnswer:
    """How well the areas of a list would be known."""
    found = planned(spec, paths, universe, listed, Silent())
    data = marked(_said(found, spec, universe), spec.run.private, PLANNED)
    return CommandAnswer(data, lambda: _print(found, spec, universe))


def _print(found: AreaPlan, spec: RunSpec, universe: str) -> None:
    warn_of(spec)
    console().print(
        records_table(
            f"{spec.run.name}: {universe}, root mean square over {len(found.areas):,} areas of "
            f"{found.areas.kind}",
            [_root(s) for s in found.spines],
        )
    )
    shown = found.areas.codes[:LISTED]
    rows: list[dict[str, Any]] = [
        {"area": found.areas.title(i)}
        | {
            f"{s.name}, {n}": _shown(getattr(s, n)[i])
            for s in found.spines
            for n in ("topdown", "estimate")
        }
        for i in range(len(shown))
    ]
    console().print(records_table("Standard deviation of each total", rows))
    if len(shown) < len(found.areas):
        click.echo(f"and {len(found.areas) - len(shown):,} areas more: --json has all")
    if found.shares:
        shares = [
            {"level": s.level, "share now, %": 100 * s.now, "best for these areas, %": 100 * s.best}
            for s in found.shares
        ]
        console().print(
            records_table("Shares of the levels, on the spine of the configuration", shares)
        )
    click.echo(NOTE)


def _root(s: AreasOnSpine) -> dict[str, Any]:
    return {"spine": s.name, "which is": s.says} | {
        n.replace("_", " "): _shown(np.sqrt(np.mean(getattr(s, n) ** 2))) for n in FIGURES
    }


def _shown(value: float) -> float | str:
    return round(float(value), 2) if np.isfinite(value) else "–"


def _said(found: AreaPlan, spec: RunSpec, universe: str) -> dict[str, Any]:
    spines = [
        {
            "name": s.name,
            "says": s.says,
            "root_mean_square": {n: _number(np.sqrt(np.mean(getattr(s, n) ** 2))) for n in FIGURES},
            "areas": [
                {"area": found.areas.code(i)} | {n: _number(getattr(s, n)[i]) for n in FIGURES}
                for i in range(len(found.areas))
            ],
        }
        for s in found.spines
    ]
    return {
        "name": spec.run.name,
        "universe": universe,
        "kind": found.areas.kind,
        "spines": spines,
        "shares": [{"level": s.level, "now": s.now, "best": s.best} for s in found.shares],
    }


def _number(value: float) -> float | None:
    return round(float(value), 4) if np.isfinite(value) else None
