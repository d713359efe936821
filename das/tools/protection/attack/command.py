"""Attacks: everybody's record from published tables, and counts from two releases of one census."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from das.cli.kit.console import (
    CONFIDENTIAL,
    CommandAnswer,
    answering,
    console,
    records_table,
    say_kept,
    shows_errors,
)
from das.cli.kit.options import OUT, PATH, quiet_option, show_errors_option, warn
from das.engine.choice import cores
from das.engine.display import Live
from das.errors import UserError
from das.files import rows_csv
from das.files.messages import privacy_of
from das.files.run.run_directory import (
    RunDirectory,
    create_private,
    refuse_full,
    refuse_inside_release,
    release_of,
)
from das.model.not_private import Private, marked
from das.release.opened import open_release
from das.tools.protection.attack import AttackOptions
from das.tools.protection.attack.reidentification import ReidentificationScores
from das.tools.protection.least import files as least
from das.tools.protection.least.combining import COLUMNS, EXACT, CombinedCounts, combined, remaining
from das.tools.protection.truth.reconstructing import (
    AttackSource,
    attack_folder,
    is_release,
    score_rows,
    scored_release,
    true_groups,
)


@click.command()
@click.argument("folder", type=PATH)
@click.option("--out", type=OUT, help="A folder for the guess; only you can read it.")
@click.option("--truth", type=PATH, help="A folder of linked records: score the guess against it.")
@click.option(
    "--tables", metavar="P8,P9,...", default="", help="Attack these tables alone. Default: all."
)
@click.option("--rounding", default="", help="How counts are rounded: random:3, nearest:5.")
@click.option("--around", help="The level whose tables are the prior, such as Tract.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=AttackOptions.seconds,
    show_default=True,
    help="The limit of each integer program.",
)
@click.option("--no-variability", is_flag=True, help="Do not measure how far solutions can differ.")
@click.option("--workers", type=click.IntRange(1), help="Processes. Default: all processors.")
@quiet_option
@answering
def reconstruct(
    folder: Path,
    out: Path | None,
    truth: Path | None,
    workers: int | None,
    quiet: bool,
    **given: Any,
) -> CommandAnswer:
    """Reconstruct everybody's record from a folder of published tables: CSV files with a row a
    place and columns such as P0080003. An interrupted attack continues with the same command.

    FOLDER can have the tables of `das frontier protect`, too. It can be a run or a release: its published
    records are taken at face value, and compared with the truth."""
    if is_release(folder):
        if out is not None:
            remedy = "leave it out, or name a folder of tables"
            raise UserError("there is no guess to write", where="--out", remedy=remedy)
        return _scored(scored_release(folder, truth), privacy_of(folder))
    if out is None:
        raise UserError("name a folder for the guess", where="--out", remedy="such as --out guess")
    refuse_inside_release(out)
    with Live(quiet) as progress:
        result = attack_folder(
            *_asked(folder, out, **given),
            truth=truth,
            workers=workers or cores(),
            progress=progress,
        )
    summary: dict[str, Any] = result.summary()
    scores = [] if result.scores is None else list(score_rows(result.scores))
    data = {"summary": summary, "scores": plain_rows(scores)}
    return CommandAnswer(data, lambda: _print(summary, result.scores, out))


@click.command()
@click.argument("noisy", type=PATH)
@click.argument("coarse", type=PATH)
@click.option(
    "--out", type=OUT, required=True, help="A folder for the counts; only you can read it."
)
@click.option("--grain", help="The grain of the counts. Default: the finest of at most 16 groups.")
@click.option(
    "--rounds",
    type=click.IntRange(4),
    default=40,
    show_default=True,
    help="How often each of eight chains pairs the units anew: more are more exact.",
)
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True)
@click.option("--truth", is_flag=True, help="NOISY is a run: compare with its true counts.")
@show_errors_option
@quiet_option
@answering
def combine(
    noisy: Path, coarse: Path, out: Path, truth: bool, show_errors: bool, quiet: bool, **given: Any
) -> CommandAnswer:
    """Read two releases of the same census together: NOISY, a run or release of counts, and COARSE,
    exact tables of `das frontier protect coarsen-least`. The posterior of every count is written, and
    printed is what is left of the guarantee of NOISY."""
    refuse_inside_release(out)
    refuse_full(out)
    if (noisy / least.CERTIFICATE).is_file():
        noisy, coarse = coarse, noisy  # either order is plain
    if truth and not RunDirectory(noisy).has_truth():
        remedy = "give a run with its folder confidential/, or leave --truth out"
        raise UserError("has no truth to compare with", where=noisy, remedy=remedy)
    release, tables = open_release(release_of(noisy)), least.read(coarse)
    with Live(quiet) as progress:
        both = combined(release, tables, progress=progress, **given)
    true = true_groups(noisy, both.units, both.grain) if truth else None
    create_private(out)
    private = privacy_of(noisy)
    written = rows_csv.write(out / "counts.csv", COLUMNS, both.rows(), private=private)
    told = {
        "counts": int((both.coarse > 0).sum()),
        "of 1 or 2, told with more than 90 %": len(both.sure),
        "chains are apart by": both.both.apart,
    }
    left = [r.row for r in remaining(release, tables)]
    data = marked({"grain": both.grain.name, "summary": told, "left": left}, private)
    if show_errors and true is not None:
        data |= {"errors": both.errors(true), "small counts": both.small_counts(true)}

    def for_a_reader() -> None:
        warn(private)
        _table(f"Counts from both releases, by {both.grain.name}", told)
        click.echo(EXACT)
        console().print(records_table("What is left of the guarantee", left))
        if true is not None:
            _compared(both, true, show_errors)
        click.echo(f"written: {written}")

    return CommandAnswer(data, for_a_reader)


def _compared(both: CombinedCounts, true: NDArray[np.int64], show_errors: bool) -> None:
    if not shows_errors(show_errors):
        say_kept()
        return
    console().print(CONFIDENTIAL, style="bold", highlight=False)
    console().print(records_table("Compared with the truth", both.errors(true)))
    _table("What both tell of small counts", both.small_counts(true))


def _table(title: str, told: Mapping[str, Any]) -> None:
    rows = [{"what": name, "value": _shown(value)} for name, value in told.items()]
    console().print(records_table(title, rows))


def _print(summary: Mapping[str, Any], scores: ReidentificationScores | None, out: Path) -> None:
    _table("Records reconstructed from the published tables", summary)
    if scores is not None:
        _scored(scores).show()
    click.echo(f"written: {out / 'units.csv'}, {out / 'records.csv'}")


def _asked(
    folder: Path,
    out: Path,
    tables: str,
    rounding: str,
    around: str | None,
    seconds: float,
    no_variability: bool,
) -> tuple[AttackSource, Path, AttackOptions]:
    only = tuple(t.strip().upper() for t in tables.split(",") if t.strip())
    options = AttackOptions(seconds=seconds, variability=not no_variability, around=around)
    return AttackSource(folder, only, rounding), out, options


def _scored(scores: ReidentificationScores, private: Private = True) -> CommandAnswer:
    rows = list(score_rows(scores))

    def for_a_reader() -> None:
        warn(private)
        every = [
            {k: f"{v:.3f}" if isinstance(v, float) else v for k, v in row.items() if k != "size"}
            for row in rows
            if row["size"] == "all"
        ]
        console().print(records_table("Compared with the truth (confidential)", every))

    return CommandAnswer(marked({"scores": plain_rows(rows)}, private), for_a_reader)


def plain_rows(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Rows whose numbers JSON knows: none instead of nan."""
    return [{k: None if v != v else v for k, v in row.items()} for row in rows]


def _shown(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
