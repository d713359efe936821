"""``python -m studies``: the figures of a paper, from our numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import numpy as np
import pandas as pd

import das
from benchmarks import blocks
from benchmarks.common import CONFIG, RHODE_ISLAND, no_data, shared_data
from benchmarks.tracts import TRACTS
from das.tools.protection.truth.frontier import run_study
from das.tools.protection.truth.study import load_study
from studies import curves
from studies.coarsening.places import PLACES
from studies.coarsening.uniques import uniques
from studies.figure import FigureData
from studies.jason import experiments
from studies.jason import figures as jason_figures
from studies.kazan_reiter import figures as kazan_reiter_figures
from studies.kazan_reiter import tiles
from studies.kazan_reiter.tiles import Mosaic
from studies.size_bias import cell_step, four_blocks, tables

#: The study of protection methods, with its records in ``people.csv``.
STUDY = Path(__file__).parent / "coarsening" / "study.toml"
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


@main.command()
@OUT
@KIND
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True),
    multiple=True,
    help="Extract of another state than Rhode Island.",
)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="As of `das run`.")
@click.option("--runs", type=click.IntRange(1), default=3, show_default=True)
@click.option("--draws", type=click.IntRange(1), default=200_000, help="Of four blocks.")
@click.option("--method", "methods", type=click.Choice(blocks.METHODS), multiple=True)
def size_bias(
    out: Path,
    kind: str,
    data: Sequence[Path],
    changes: Sequence[str],
    runs: int,
    draws: int,
    methods: Sequence[str],
) -> None:
    """Why large blocks lose people: the tables and the figure of docs/explanation/size-bias.md."""
    methods = methods or blocks.METHODS
    given = [part for path in data[:1] for part in ("--data", *map(str, data))]
    given += ["--workers", "1", *(part for c in changes for part in ("--set", c))]
    once, twice = tables.Lines("blocks"), tables.Lines("blocks")
    chosen = [part for m in methods for part in ("--method", m)]
    blocks.main([*given, *chosen, "--repeats", str(runs)], once)
    if "all" in once.kept:
        raise click.ClickException(f"{once.kept['all']['skipped']}; name an extract with --data")
    blocks.main([*given, "--method", methods[0], "--repeats", "1", "--twice"], twice)
    of = {method: once.of(method) for method in methods}
    made = tables.tables(of)
    made["published counts as the truth"] = tables.sizes(twice.of(methods[0]))
    drawn = four_blocks.compared(draws, np.random.default_rng(0))
    made["four blocks"] = tables.of_four(drawn)
    usual = shared_data(RHODE_ISLAND)
    extract = list(data) if data or usual is None else [usual]
    spec = das.load_spec(CONFIG, [*changes, "estimation.bias=corrected"])
    with TemporaryDirectory() as folder:
        das.run(spec, Path(folder) / "run", paths=extract)
        made["intervals"] = tables.intervals(Path(folder) / "run")
    out.mkdir(parents=True, exist_ok=True)
    found = {"lines": once.kept, "twice": twice.kept, "four blocks": [asdict(d) for d in drawn]}
    (out / "size-bias.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "size-bias.md").write_text(
        "\n".join(line for name, table in made.items() for line in tables.markdown(name, table))
    )
    (out / f"size-bias.{kind}").write_bytes(draw(tables.figure(of[methods[0]]), kind))
    click.echo((out / "size-bias.md").read_text())


@main.command()
@OUT
@click.option("--place", type=click.Choice(list(PLACES)), default="rhode-island", show_default=True)
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Of the study.")
@click.option("--workers", type=click.IntRange(1), default=1, show_default=True)
def coarsening(out: Path, place: str, changes: Sequence[str], workers: int) -> None:
    """The least coarsening on the risk-utility map, next to TopDown (docs/how-to/coarsening.md)."""
    real = PLACES[place]
    if (data := shared_data(real.path)) is None:
        raise click.ClickException(no_data(real.path))
    out.mkdir(parents=True, exist_ok=True)
    people = out / "people.csv"
    real.read(data).to_csv(people, index=False)
    given = [f"data.path={json.dumps(str(people))}", *real.changes, *changes]
    run_study(load_study(STUDY, given), out / "study", workers=workers)
    found = pd.DataFrame(list(uniques(out / "study")))
    found.to_csv(out / "uniques.csv", index=False, lineterminator="\n")
    click.echo(found.to_string(index=False))


@main.command("cell-step")
@click.option("--every", type=click.IntRange(1), default=3, help="One of so many block groups.")
def ages_of_blocks(every: int) -> None:
    """Whether the correction of the size bias would help ages by block (docs/explanation/size-bias.md)."""
    if (data := shared_data(TRACTS)) is None:
        raise click.ClickException(no_data(TRACTS))
    for kind, row in cell_step.errors(data, every, np.random.default_rng(1)).items():
        click.echo(f"{kind}: {', '.join(f'{name} {x:.3f}' for name, x in row.items())}")


if __name__ == "__main__":
    main(prog_name="python -m studies")
