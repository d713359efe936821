"""Published tables of a run, with the labels of their columns."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from das.cli.options import PATH, guarded, json_option, warn
from das.console import Live, console, records_table
from das.errors import UserError
from das.files import table_export
from das.files.run_directory import release_of
from das.model.not_private import marked_rows
from das.post import Opened, open_release
from das.tables import Table
from das.tables import of as tables_of


@click.command()
@click.argument("run", type=PATH)
@click.option("--level", help="Such as County.")
@click.option("--table", "name", help="Such as P2.")
@click.option("--geocode", "prefixes", multiple=True, metavar="PREFIX", help="Units whose code begins so; repeatable.")
@click.option(
    "--format", "form", type=click.Choice(table_export.FORMATS), help="Default: that of --out's name, or csv."
)
@click.option("--names", type=click.Choice(table_export.NAMES), default="both", show_default=True,
              help="Columns as 'P0020001 Total', P0020001, or 'Total'.")  # fmt: skip
@click.option("--out", type=PATH, help="A file. Default: standard output.")
@click.option("--quiet", is_flag=True, help="No progress display.")
@json_option
@guarded
def tables(
    run: Path, level: str | None, name: str | None, prefixes: tuple[str, ...], form: str | None, names: str,
    out: Path | None, quiet: bool, as_json: bool,
) -> None:  # fmt: skip
    """Print a published table of a RUN or release; without --level and --table, list what there is."""
    release = open_release(release_of(run))
    every = [t for u in release.spec.universes for t in tables_of(u)]
    if level is None and name is None:
        _list(release, every, release.spec.run.private, as_json)
        return
    if level is None or name is None:
        raise UserError("a table is named by both", where="--level, --table", remedy="`das tables RUN` lists them")
    form = "json" if as_json else form or _suffix(out) or "csv"
    if form == "parquet" and out is None:
        raise UserError("Parquet is no text", where="--format parquet", remedy="give a file with --out")
    table = table_export.choose(release.folder, every, release.spine.levels, name, level)
    private = release.spec.run.private
    with Live(quiet or out is None) as progress:
        progress.stage(f"{table.name}, {level}", table_export.size(release.folder, table, level))
        parts = table_export.rows(release.folder, table, level, prefixes, progress.advance)
        with _opened(out) as file:
            n = table_export.write(parts, table, level, form, names, file, private=private)
    if out is not None:
        warn(private)
        click.echo(f"written: {out} ({n:,} units)")


def _list(release: Opened, every: Sequence[Table], private: bool, as_json: bool) -> None:
    found = table_export.there(release.folder, every, release.spine.levels)
    rows: list[dict[str, Any]] = [
        {"table": t.name, "title": t.title, "columns": len(t.columns), "levels": levels} for t, levels in found
    ]
    if as_json:
        click.echo(json.dumps(marked_rows(rows, private)))
        return
    warn(private)
    if not rows:
        click.echo("this release has no published tables (output.tables was false)")
    else:
        console().print(records_table("Published tables", [r | {"levels": ", ".join(r["levels"])} for r in rows]))


def _suffix(out: Path | None) -> str | None:
    """The format that the name of the file tells. A name that tells of another is refused."""
    suffix = out.suffix.removeprefix(".") if out else ""
    if suffix and suffix not in table_export.FORMATS:
        raise UserError(f"'.{suffix}' is none of the formats {', '.join(table_export.FORMATS)}", where=out,
                        remedy="end the name in one of them, or give --format")  # fmt: skip
    return suffix or None


@contextmanager
def _opened(out: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that appears whole or not at all."""
    if out is None:
        try:
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
        except BrokenPipeError:  # the reader, such as head, has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    draft = out.with_name(f".{out.name}.tmp")
    try:
        with draft.open("wb") as file:
            yield file
        draft.replace(out)
    except OSError as error:
        raise UserError(f"cannot be written ({error.strerror})", where=out, remedy="choose another --out") from None
    finally:
        draft.unlink(missing_ok=True)
