"""Reconstruction: of a data set of bits from sums, and of everybody's record from the published tables of a run."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import click
import numpy as np

from das import tables
from das.cli.console import console, records_table
from das.cli.options import PATH, guarded, json_option, warn
from das.errors import ReleaseError, UserError
from das.files.release import tables as published_tables
from das.files.run.run_directory import (
    RunDirectory,
    create_private,
    is_private,
    refuse_inside_release,
    write_json,
    write_text,
)
from das.model.budget import Mechanism
from das.model.figure import FigureData
from das.model.not_private import marked, marked_rows
from das.noise import discrete_gaussian, discrete_laplace
from das.release.post import Opened
from das.report.risk import FORMATS, draw
from das.risk import attack_figures, jason
from das.risk.guarantee import most_often_right
from das.risk.score import Report, Score, score
from das.risk.table_attack import Tables, guess, read
from das.truth.assessment import truth_of

Experiment = Callable[[int, np.random.Generator], Sequence[Any]]
#: Figure of JASON's report: how it is computed and drawn, and how many trials by default.
EXPERIMENTS: Mapping[str, tuple[Experiment, Callable[[Any], FigureData], int]] = {
    "4-1": (jason.figure_4_1, attack_figures.figure_4_1, 20),
    "4-2": (jason.figure_4_2, attack_figures.figure_4_2, 10),
    "4-4": (jason.figure_4_4, attack_figures.figure_4_4, 100),
    "5-7": (jason.figure_5_7, attack_figures.figure_5_7, 2),
}


@click.command()
@click.option("--figure", "number", type=click.Choice(list(EXPERIMENTS)), required=True, help="Of JASON JSR-19-2F.")
@click.option("--out", type=PATH, required=True, help="Folder for the figure and its numbers.")
@click.option(
    "--trials", type=click.IntRange(1), help="JASON: 100 (figure 5-7: 10). Default: fewer, in a minute or two."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of the simulation; nothing here is private.")
@click.option("--format", "kind", type=click.Choice(FORMATS), default="svg", show_default=True)
@json_option
@guarded
def reconstruct(number: str, out: Path, trials: int | None, seed: int, kind: str, as_json: bool) -> None:
    """The attack of Dinur and Nissim on random sums of secret bits, as JASON ran it: one of their figures again."""
    compute, picture, usual = EXPERIMENTS[number]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot be created ({error.strerror})", where=out, remedy="choose another --out") from None
    rows = compute(trials or usual, np.random.default_rng(seed))
    stem = out / f"figure-{number}"
    write_text(stem.with_suffix(".csv"), _csv(rows))
    stem.with_suffix(f".{kind}").write_bytes(draw(picture(rows), kind))
    found = [asdict(r) for r in rows]
    if as_json:
        click.echo(json.dumps({"figure": number, "seed": seed, "points": found}))
        return
    console().print(records_table(f"Figure {number}", found))
    if number == "4-2":
        click.echo(f"slope: {jason.slope(rows):.3f} queries for one more bit")
    click.echo(f"written: {stem}.csv, {stem}.{kind}")


@click.command()
@click.argument("runs", type=PATH, nargs=-1, required=True)
@click.option("--figure", type=PATH, help="Draw all runs into this file: .svg, .pdf or .png (confidential).")
@json_option
@guarded
def attack(runs: Sequence[Path], figure: Path | None, as_json: bool) -> None:
    """Reconstruct everybody's record from the published tables of finished runs, and hold it against the truth."""
    kind = figure.suffix.lstrip(".") if figure is not None else "svg"
    if kind not in FORMATS:
        raise UserError(f"no figure of kind {kind!r}", where=figure, remedy="end it in .svg, .pdf or .png")
    if figure is not None:
        refuse_inside_release(figure)
    reports, private = [], {run: is_private(run) for run in runs}
    for run in runs:
        reports.append(attacked(run))
        confidential = RunDirectory(run).confidential
        create_private(confidential)
        write_json(confidential / "risk" / "attack.json", marked(asdict(reports[-1]), private[run]))
    if figure is not None:
        try:
            figure.write_bytes(draw(attack_figures.figure_attack(reports), kind))
            figure.chmod(0o600)
        except OSError as error:
            raise UserError(
                f"cannot be written ({error.strerror})", where=figure, remedy="choose another --figure"
            ) from None
    if as_json:
        every = zip(runs, reports, strict=True)
        click.echo(json.dumps([row for run, r in every for row in marked_rows([asdict(r)], private[run])]))
        return
    warn(all(private.values()))
    console().print(records_table("Records recovered from the published tables (confidential)",
                                  [line for r in reports for line in _lines(r)]))  # fmt: skip
    for run in runs:
        click.echo(f"written: {RunDirectory(run).confidential / 'risk' / 'attack.json'}")


def attacked(run: Path) -> Report:
    """Attack one finished run. The intruder has its published tables, its spine and its plan."""
    opened, known = truth_of(run)
    u, level = opened.spec.persons, opened.spine.levels[-1]
    published, noise = published_by(opened), variance(opened)
    truth = known[u.name][level].open("to score an attack on the published tables; the result stays confidential")
    scores = {v: score(truth, guess(published, opened.spine, v)) for v in (noise, 0.0, None)}
    base = scores[None]
    allowed = most_often_right(base.agreement, float(u.plan.cost), u.plan.mechanism, u.plan.neighbours)
    return Report(opened.spec.run.name, str(u.plan.cost), u.plan.mechanism.currency, float(u.plan.cost), noise,
                  scores[noise], scores[0.0], base, allowed)  # fmt: skip


def published_by(opened: Opened) -> Tables:
    """What the published tables of the lowest level say."""
    schema, level, folder = opened.spec.persons.schema, opened.spine.levels[-1], opened.folder / "tables"
    values, members = [], []
    for table in tables.published(schema):
        path = folder / f"{table.name}_{level}.csv"
        rows = published_tables.read(path)
        if rows.columns != table.columns or not np.array_equal(rows.codes, opened.spine.codes[-1]):
            raise ReleaseError("other columns or other units than the release has", where=path)
        values.append(rows.values)
        inside = np.zeros((len(table.columns), table.cells), dtype=bool)
        inside[np.repeat(np.arange(len(table.columns)), np.diff(table.indptr)), table.cell] = True
        members.append(inside)
    return read(np.concatenate(members), np.concatenate(values, axis=1), schema)


def variance(opened: Opened) -> float:
    """The noise in a count of traits of the lowest level, from the public plan: measurements at least as fine as
    ``detailed`` without dwellings, taken together; the finest one, where there is none."""
    u, level = opened.spec.persons, opened.spine.levels[-1]
    of = discrete_gaussian.variance if u.plan.mechanism is Mechanism.DISCRETE_GAUSSIAN else discrete_laplace.variance
    answers = {d.query: u.schema.query(d.query).answers for d in u.plan.at(level)}
    if not answers:
        raise UserError(f"nothing is measured at {level}", where=opened.folder, remedy="attack a run that measures it")
    traits = " * ".join(a.name for a in u.schema.attributes if a.name != u.schema.dwelling)
    fine = min(u.schema.query(traits).answers, max(answers.values()))
    return 1 / sum(1 / of(d.scale) for d in u.plan.at(level) if answers[d.query] >= fine)


def _lines(r: Report) -> list[dict[str, Any]]:
    kinds: Sequence[tuple[str, Score]] = (("attack", r.attack), ("face value", r.face_value), ("baseline", r.baseline))
    return [
        {"run": r.run, r.currency: f"{r.cost:.4g}", "intruder": name, "agreement": s.agreement, "expected": s.expected,
         "allowed": r.allowed if name == "attack" else "", "surest 10%": s.precision[2], "surest 50%": s.precision[4],
         "uniques": s.uniques, "found": s.uniques_found, "claims": s.claims, "right": s.claims_right}
        for name, s in kinds
    ]  # fmt: skip


def _csv(rows: Sequence[Any]) -> str:
    out = io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([f.name for f in fields(rows[0])])
    lines.writerows([getattr(r, f.name) for f in fields(r)] for r in rows)
    return out.getvalue()
