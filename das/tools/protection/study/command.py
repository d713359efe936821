"""Methods of protection compared on the same records, the same tables and the same attack; and
tables protected by one of them."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.lazy import LateCommands, OrSubcommand
from das.cli.kit.options import (
    OUT,
    PATH,
    guarded,
    picture_option,
    quiet_option,
    set_option,
    write_picture,
)
from das.engine.choice import cores
from das.engine.display import Live
from das.errors import UserError
from das.files.atomic import write_text
from das.files.readers import profile
from das.files.run.run_directory import refuse_inside_release
from das.model.names import level_words
from das.spec.guess import guess
from das.tools.protection.least import files as least_files
from das.tools.protection.least.files import LeastRelease
from das.tools.protection.study.page import ABOVE, UNIQUES, FrontierMean, shown_settings
from das.tools.protection.study.spec import LINKED_NAME, draft_of_linked, draft_of_table
from das.tools.protection.truth import study_input
from das.tools.protection.truth.frontier import run_study
from das.tools.protection.truth.study import (
    COARSEN,
    METHODS,
    coarsen_least,
    load_study,
    protect_records,
    resolved_study,
    study_of_method,
)

#: What a quick study leaves out.
QUICK = (
    "one key instead of five, and few places attacked: do not decide by it; init without --quick"
)


@click.command()
@click.option(
    "--data",
    type=PATH,
    required=True,
    help="A table of persons (CSV or Parquet), or a folder of linked persons, households and units.",
)
@click.option(
    "--geography",
    metavar="C1,C2,...",
    help="For a table: the columns of places, from the top down. Default: guessed.",
)
@click.option("--household", metavar="COLUMN", help="For a table: the column of households.")
@click.option(
    "--points", type=PATH, help="Coordinates of the lowest places (docs/explanation/frontier.md)."
)
@click.option(
    "--quick",
    is_flag=True,
    help="A first look, in minutes: one key of each method, and few places attacked.",
)
@click.option("--out", type=OUT, required=True, help="The study to write.")
@guarded
def init(
    data: Path,
    geography: str | None,
    household: str | None,
    points: Path | None,
    quick: bool,
    out: Path,
) -> None:
    """Write a complete, commented study: about nine methods with their defaults."""
    if out.exists():
        raise UserError(
            "is there already", where=out, remedy="choose another --out; nothing is overwritten"
        )
    if data.is_dir():
        if geography or household:
            where = "--geography, --household"
            raise UserError("goes with a table of persons", where=where, remedy="leave it out")
        text = draft_of_linked(out.stem, data, points, study_input.blocks(data), quick)
        said = [f"  set         {LINKED_NAME}"]
    else:
        text, said = _of_table(data, geography, household, points, out, quick)
    with Live(quiet=True) as progress:  # what is written can be read
        study = resolved_study(text, str(out))
        study_input.read(study.spec, study.schema, progress)
    try:
        write_text(out, text, 0o600)
    except OSError as error:
        raise UserError(
            f"cannot be written ({error.strerror})", where=out, remedy="choose another --out"
        ) from None
    click.echo(f"written: {out}")
    if quick:
        said.append(f"  quick       {QUICK}")
    command = ["das", "frontier", str(out), "--out", f"studies/{out.stem}"]
    for line in (*said, "next:", f"  {shlex.join(command)}"):
        click.echo(line)


def _of_table(
    data: Path,
    geography: str | None,
    household: str | None,
    points: Path | None,
    out: Path,
    quick: bool,
) -> tuple[str, list[str]]:
    seen = profile.read(data)
    if household is not None and household not in {c.name for c in seen.columns}:
        raise UserError(
            f"there is no column {household!r}",
            where="--household",
            remedy=f"the columns are {', '.join(c.name for c in seen.columns)}"[:400],
        )
    seen = seen.without(household)
    asked = [g.strip() for g in geography.split(",")] if geography else ()
    found = guess(seen, asked, rare=True)
    text = draft_of_table(seen, found, out.stem, household, points, quick)
    return text, [
        f"  places      {' > '.join(c.name for c in found.geography)}",
        f"  attributes  {', '.join(c.name for c in found.attributes)}",
        f"  households  {household or 'none: swapping exchanges single persons'}",
        *(f"  not used    {name}: {why}" for name, why in found.left.items()),
        "  The file lists values of the records: it is confidential, as the study is.",
    ]


OTHERS = {
    "init": "Write a first study for records of yours.",
    "protect": "Protect tables by one method, without a study.",
    "verify": "Check a publication of the least coarsening from its folder.",
}


@click.command(cls=OrSubcommand, late=LateCommands(dict.fromkeys(OTHERS, __name__)), lines=OTHERS)
@click.argument("study", type=PATH)
@click.option("--out", type=OUT, required=True, help="The study's folder. It is confidential.")
@click.option("--all", "everywhere", is_flag=True, help="Attack everywhere, and not in a sample.")
@click.option(
    "--also",
    type=PATH,
    help="A TOML file with [tables.<name>] of another product: attack with its tables besides.",
)
@set_option
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes of this machine. Default: as many as it has processors.",
)
@picture_option
@quiet_option
@answering
def frontier(
    study: Path,
    out: Path,
    everywhere: bool,
    also: Path | None,
    changes: tuple[str, ...],
    workers: int | None,
    picture: Path | None,
    quiet: bool,
) -> CommandAnswer:
    """Compare methods of protection: the same records, the same tables, the same attack. A study
    protects, attacks, scores, and writes results.csv, summary.csv and frontier.html. The same
    command continues an interrupted study."""
    refuse_inside_release(out)
    wanted = (*changes, 'sample.units="all"') if everywhere else changes
    resolved = load_study(study, wanted, also)
    with Live(quiet) as progress:
        made = run_study(resolved, out, workers=workers or cores(), progress=progress)
    drawn = [] if picture is None else [write_picture(picture, made.picture)]
    use, level = resolved.map_use
    lines = _lines(made.means, use, level)

    def for_a_reader() -> None:
        console().print(records_table("Protection methods (confidential)", lines))
        click.echo(made.picture.says)
        click.echo(f"written: {made.page} ({made.table.name}, {made.summary.name})")
        for name in drawn:
            click.echo(f"written: {name}")

    return CommandAnswer(lines, for_a_reader)


def _lines(means: Sequence[FrontierMean], use: str, level: str) -> list[dict[str, Any]]:
    """What the terminal shows of each setting."""
    return [
        {
            "#": s.name,
            "setting": s.words,
            "proved": s.first.guarantee,
            "random": s.first.random,
            f"error ({use}, {level})": s.value("error", level=level, use=use),
            "agreement %": s.value("agreement", "all"),
            "found %": s.value("putative", UNIQUES),
            "precision %": s.value("precision", UNIQUES),
            "above baseline": s.value(ABOVE, UNIQUES),
        }
        for s in shown_settings(means)
    ]


@click.command()
@click.argument("method", type=click.Choice(sorted([*METHODS, COARSEN])))
@click.option(
    "--data",
    type=PATH,
    help="A folder of linked persons, households and units; for coarsen-least also a state's"
    " redistricting file.",
)
@click.option(
    "--study", type=PATH, help="A study, for its records, tables and geography, instead of --data."
)
@click.option(
    "--out",
    type=OUT,
    required=True,
    help="The folder of the tables. It is confidential; of"
    " coarsen-least only its folder confidential is.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="PARAMETER=VALUE",
    help="A parameter of the method, such as rate=0.05 or base=5.",
)
@click.option("--points", type=PATH, help="With --data: coordinates of the lowest places.")
@click.option("--seed", type=click.IntRange(0), help="Makes the tables repeatable.")
@click.option(
    "--districts",
    multiple=True,
    metavar="KIND",
    help="For coarsen-least: districts whose tables are to be kept, such as SLDL. All kinds may cut"
    " atoms.",
)
@click.option(
    "--microdata",
    is_flag=True,
    help="For coarsen-least: synthetic persons, too, with the tables of units and atoms.",
)
@quiet_option
@guarded
def protect(
    method: str,
    data: Path | None,
    study: Path | None,
    out: Path,
    settings: tuple[str, ...],
    points: Path | None,
    seed: int | None,
    districts: tuple[str, ...],
    microdata: bool,
    quiet: bool,
) -> None:
    """Write the tables of records, protected by one METHOD: what is printed, a CSV file for each
    level, and the bounds that anybody can know. With --data these are the 34 tables of the
    published attack; with --study those of the study. METHOD coarsen-least writes a publication:
    exact tables of a chain of grains, the geography of their atoms, bounds, a certificate and a
    page."""
    refuse_inside_release(out)
    if method == COARSEN:
        if data is None or study or points or seed is not None:
            what = "needs --data; takes --set, --districts and --microdata, and nothing else"
            raise UserError(what, where=COARSEN)
        with Live(quiet) as progress:
            found = coarsen_least(data, settings, districts, microdata, out, progress)
        _say_coarsened(found, out)
        return
    if districts or microdata:
        where = "--districts" if districts else "--microdata"
        raise UserError("belongs to coarsen-least", where=where)
    resolved, value = study_of_method(method, settings, data=data, study=study, points=points)
    key = secrets.token_bytes(32) if seed is None else seed.to_bytes(32, "big")
    with Live(quiet) as progress:
        written = protect_records(resolved, value, key, out, progress)
    click.echo(f"{value.label}; proved: {value.guarantee.value}")
    if value.statement:
        click.echo(value.statement)
    for path in written:
        click.echo(f"written: {path}")


def _say_coarsened(release: LeastRelease, out: Path) -> None:
    for kind in release.certificate["districts"]:
        shown = [
            int((release.areas[kind].grain >= h).sum()) for h in range(1, len(release.tables.chain))
        ]
        click.echo(
            f"{level_words(kind)}: {', '.join(map(str, shown))} of {len(release.areas[kind].codes)}"
            " keep their tables, by grain"
        )
    for title in release.certificate["not_reached"]:
        click.echo(f"not reached: {title}; not even the whole passes the rules")
    kept = out / "confidential" / "solution.json"
    click.echo(f"written: {out}; cost, bound and audit, not to be published: {kept}")
    click.echo("next:")
    click.echo(f"  {shlex.join(['das', 'frontier', 'verify', str(out)])}")


@click.command()
@click.argument("folder", type=PATH)
@guarded
def verify(folder: Path) -> None:
    """Check a publication of METHOD coarsen-least from its FOLDER alone: that its tables add up and
    pass the rules, that atoms nest, and that bounds are those that follow. What cannot be checked is
    said."""
    right, left = least_files.check(folder)
    for line in right:
        click.echo(f"right: {line}")
    for line in left:
        click.echo(f"not checked: {line}")
