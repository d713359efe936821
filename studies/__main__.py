"""``python -m studies``: the figures of a paper, from our numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

from studies import curves
from studies.figure import FigureData
from studies.jason import experiments
from studies.jason import figures as jason_figures
from studies.kazan_reiter import figures as kazan_reiter_figures
from studies.kazan_reiter import tiles
from studies.kazan_reiter.tiles import Mosaic

Experiment = Callable[[int, np.random.Generator], Sequence[Any]]
#: Figure of JASON's report: how it is computed and drawn, and how many trials by default.
JASON: Mapping[str, tuple[Experiment, Callable[[Any], FigureData], int]] = {
    "4-1": (experiments.figure_4_1, jason_figures.figure_4_1, 20),
    "4-2": (experiments.figure_4_2, jason_figures.figure_4_2, 10),
    "4-4": (experiments.figure_4_4, jason_figures.figure_4_4, 100),
    "5-7": (experiments.figure_5_7, jason_figures.figure_5_7, 2),
}
KAZAN_REITER = kazan_reiter_figures.FIGURES

OUT = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder to write to.",
)
KIND = click.option(
    "--format", "kind", type=click.Choice(curves.FORMATS), default="svg", show_default=True
)


def draw(figure: FigureData | Mosaic, kind: str) -> bytes:
    """The figure as a file of that kind."""
    return tiles.draw(figure, kind) if isinstance(figure, Mosaic) else curves.draw(figure, kind)


@click.group()
def main() -> None:
    """The figures of single papers, made again with `das`."""


@main.command()
@OUT
@KIND
@click.option(
    "--only", type=click.Choice(list(KAZAN_REITER)), multiple=True, help="These figures alone."
)
def kazan_reiter(out: Path, kind: str, only: Sequence[str]) -> None:
    """The figures of Kazan and Reiter and of their supplement, from exact numbers
    (docs/explanation/risk.md).
    """
    out.mkdir(parents=True, exist_ok=True)
    for name in only or KAZAN_REITER:
        path = out / f"{name}.{kind}"
        path.write_bytes(draw(KAZAN_REITER[name](), kind))
        click.echo(path)


@main.command()
@click.option(
    "--figure", "number", type=click.Choice(list(JASON)), required=True, help="Of JASON JSR-19-2F."
)
@OUT
@KIND
@click.option(
    "--trials",
    type=click.IntRange(1),
    help="JASON: 100 (figure 5-7: 10). Default: fewer, in a minute or two.",
)
@click.option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    help="Of the simulation; nothing here is private.",
)
def jason(number: str, out: Path, kind: str, trials: int | None, seed: int) -> None:
    """The attack of Dinur and Nissim on random sums of secret bits, as JASON ran it
    (docs/explanation/reconstruction.md).
    """
    compute, picture, usual = JASON[number]
    rows = compute(trials or usual, np.random.default_rng(seed))
    out.mkdir(parents=True, exist_ok=True)
    stem = out / f"figure-{number}"
    found = pd.DataFrame([asdict(r) for r in rows])
    found.to_csv(stem.with_suffix(".csv"), index=False, lineterminator="\n")
    stem.with_suffix(f".{kind}").write_bytes(draw(picture(rows), kind))
    click.echo(found.to_string(index=False))
    if number == "4-2":
        click.echo(f"slope: {experiments.slope(rows):.3f} queries for one more bit")
    click.echo(f"written: {stem}.csv, {stem}.{kind}")


if __name__ == "__main__":
    main(prog_name="python -m studies")
