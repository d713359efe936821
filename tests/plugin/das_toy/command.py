"""A toy command."""

from __future__ import annotations

from pathlib import Path

import click

from das import load_spec
from das.cli.kit.options import guarded
from das_toy.specification import ToySpec


class ReadingCommand(click.Command):
    """Its section of ``das --help``."""

    section = "Read"


@click.command(cls=ReadingCommand)
@click.argument("config", type=click.Path(path_type=Path))
@guarded
def toy(config: Path) -> None:
    """List the regions of a toy publication."""
    spec = load_spec(config)
    assert isinstance(spec, ToySpec)
    click.echo(", ".join(spec.regions))
