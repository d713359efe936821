"""``das detailed check`` and ``das detailed run``."""

from __future__ import annotations

from pathlib import Path

import click

from das.cli.answer import CommandAnswer, answering
from das.cli.interruption import optional
from das.cli.options import (
    PATH,
    ResumeOptions,
    Stores,
    engine_options,
    exact_delta,
    guarded,
    json_option,
    resume_options,
    say_notes,
    store_options,
    whole_run_options,
)
from das.cli.register_options import register_options
from das.cli.running import performed, show
from das.cli.shown import say_input
from das.engine.choice import EngineChoice
from das.making import outlook_of
from das.making.work import RunInput
from das.model.adaptive import PRODUCTS
from das.spec import of_kind, of_tree
from das.spec.detailed import DetailedFolders
from das.spec.exact import DELTA
from das.truth.registering import RegisterOptions

product_option = click.option(
    "--product",
    type=click.Choice(list(PRODUCTS)),
    default="persons",
    show_default=True,
    help="Records of persons (SafeTab-P), or of households (SafeTab-H).",
)
totals_option = click.option(
    "--totals",
    type=PATH,
    metavar="FILE",
    help=(
        "For households: the published totals of persons by group. Default: "
        "pop-group-totals.txt in DATA."
    ),
)


@click.command()
@click.argument("parameters", type=PATH)
@click.argument("data", type=PATH)
@product_option
@totals_option
@answering
def check(parameters: Path, data: Path, product: str, totals: Path | None) -> CommandAnswer:
    """Check the folders PARAMETERS and DATA, report all faults at once, and say what would be
    measured.

    Faults in records are confidential: the message is for their curator.
    """
    spec = of_folders(parameters, data, product, totals)
    found = outlook_of(spec, RunInput())
    say_notes(found.notes)
    return CommandAnswer(found.data, lambda: say_input(found))


@click.command()
@click.argument("parameters", type=PATH)
@click.argument("data", type=PATH)
@product_option
@totals_option
@click.option(
    "--out", type=PATH, help="The run's folder (new or empty). Default: runs/<product>-<time>."
)
@click.option("--name", help="Name of the run and its outputs. Default: the product.")
@click.option("--seed", type=click.IntRange(0), help="Makes the run repeatable and NOT PRIVATE.")
@click.option(
    "--delta",
    metavar="D",
    default="1e-10",
    show_default=True,
    help="The privacy statement gives epsilon at this delta.",
)
@resume_options
@engine_options
@store_options
@register_options
@whole_run_options
@json_option
@guarded
def run(
    parameters: Path,
    data: Path,
    product: str,
    totals: Path | None,
    out: Path | None,
    name: str | None,
    seed: int | None,
    delta: str,
    going: ResumeOptions,
    choice: EngineChoice,
    stores: Stores,
    register: RegisterOptions | None,
    quiet: bool,
    as_json: bool,
) -> None:
    """Measure the groups of DATA by the folder PARAMETERS, and write their tables.

    This is `das run` of a configuration that names these folders (`das init --from-safetab`)."""
    exact_delta(delta)
    spec = of_folders(parameters, data, product, totals, name=name, seed=seed, delta=delta)
    again = ["detailed", "run", parameters, data, "--product", product]
    again += [*optional("--totals", totals), *optional("--name", name), *optional("--seed", seed)]
    again += ["--delta", delta] if spec.detailed.delta != DELTA else []
    outcome = performed(spec, again, out, (), going, False, choice, stores, quiet, register)
    show(spec, outcome, stores, show_errors=False, as_json=as_json)


def of_folders(
    parameters: Path,
    data: Path,
    product: str,
    totals: Path | None,
    *,
    name: str | None = None,
    seed: int | None = None,
    delta: str = "1e-10",
) -> DetailedFolders:
    """The configuration that names these folders."""
    named = {"totals": str(totals)} if totals is not None else {}
    seeded = {"seed": seed} if seed is not None else {}
    tree = {
        "run": {"name": name or product, "publication": "detailed-dhc"} | seeded,
        "data": {"path": str(data), "parameters": str(parameters)} | named,
        "detailed": {"product": product, "delta": delta},
    }
    spec = of_tree(tree, where="das detailed run")
    return of_kind(DetailedFolders, spec, "das detailed run")
