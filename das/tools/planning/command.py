"""What a data steward asks of a configuration before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import cast

import click

from das.cli.kit.console import print_answer
from das.cli.kit.options import PATH, config_argument, guarded, json_option, load_any
from das.errors import SpecError, UserError
from das.model.universe import PERSONS, Planned
from das.publications.dhc.spec import DhcSpec
from das.release.publications import OptimizedHalf, publication, require
from das.spec import RunSpec, Specification, of_kind
from das.tools.areas.command import of_areas
from das.tools.planning.margins import COVERAGES, PlanRequest, refuse, show_margins, show_options
from das.tools.planning.optimize import OptimiseOptions, show_dhc_optimum, show_optimum

#: What ``--toml`` means without a name.
OPTIMUM = "best"


@click.command()
@config_argument
@click.option(
    "--coverage",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    multiple=True,
    help=(
        "How often a margin of error holds; repeatable. Default: 0.9, 0.95, 0.99, or 0.95"
        " with --margin or --add."
    ),
)
@click.option(
    "--margin",
    "margins",
    multiple=True,
    metavar="LEVEL:QUERY=M",
    help="The margin of error that a query must have, such as Tract:total=5.",
)
@click.option(
    "--add",
    "added",
    multiple=True,
    metavar="LEVEL:QUERY=COST",
    help=(
        "Add a query at a level, or add to its budget, at this rho (or epsilon), such as "
        "Tract:hispanic=1/100."
    ),
)
@click.option(
    "--universe",
    help="persons, housing, or one under [universes].  [default: persons; of the DHC all]",
)
@click.option(
    "--areas",
    "listed",
    type=PATH,
    help=(
        "Areas of blocks: a CSV file area,block or a block-assignment file of the Bureau."
        " Shows how precise each area would be on every possible spine. Reads the blocks "
        "of the input, and measures nothing."
    ),
)
@click.option(
    "--optimise",
    "targets",
    type=PATH,
    help=(
        "A TOML file of targets, the name of a packaged one, such as policy, or a list of "
        "the blocks of areas, such as wards.csv. Finds the best shares of levels and queries"
        " for them, with a certificate. The tree is that of --data, --units or --like. "
        "Records are never read."
    ),
)
@click.option(
    "--data",
    "paths",
    type=PATH,
    multiple=True,
    help="With --areas or --optimise: the input; repeatable. Default: data.path.",
)
@click.option(
    "--units",
    metavar="N,N,...",
    help="With --optimise: the numbers of units of the levels, root first, instead of an input.",
)
@click.option(
    "--like",
    type=PATH,
    help=(
        "With --optimise: take the tree of this RUN or release; predicts the errors of "
        "published counts."
    ),
)
@click.option(
    "--keep",
    "keep",
    multiple=True,
    metavar="LEVEL:QUERY",
    help="With --optimise: a query whose share must not shrink; repeatable.",
)
@click.option(
    "--rho",
    metavar="R",
    help="With --optimise: the total to allocate. Default: that of the configuration.",
)
@click.option(
    "--least",
    is_flag=True,
    help="With --optimise: find the smallest rho that meets every target, none worse than now.",
)
@click.option(
    "--spare",
    is_flag=True,
    help="With --optimise: keep every measurement, and re-spend the budget of redundant ones.",
)
@click.option(
    "--toml",
    "chosen",
    metavar="[NAME]",
    is_flag=False,
    flag_value=OPTIMUM,
    help="Print this plan, with --optimise the best one, as tables of a configuration.",
)
@json_option
@guarded
def plan(
    config: Path,
    changes: tuple[str, ...],
    coverage: tuple[float, ...],
    margins: tuple[str, ...],
    added: tuple[str, ...],
    universe: str | None,
    listed: Path | None,
    targets: Path | None,
    paths: tuple[Path, ...],
    units: str | None,
    like: Path | None,
    keep: tuple[str, ...],
    rho: str | None,
    least: bool,
    spare: bool,
    chosen: str | None,
    as_json: bool,
) -> None:
    """Show margins of error for a budget, or the budget for margins of error.

    Without options: the margin of error of every query, and epsilon at several deltas. With
    --margin or --add: alternative plans, side by side. "others-unchanged" meets the request and
    raises the total; "same-total" scales that plan to the present total; "all-scaled" keeps the
    present shares and scales everything until the margins hold.

    With --areas: the standard deviation of each area's total before anything is spent. It is given
    on the tabulation spine, on the Bureau's, with the configuration's targets, and with these areas
    as targets. Also the best shares of the levels for these areas.

    With --optimise: the best shares for given targets, the cost of each target, and a bound on
    how much better any other shares could be.

    For the S-DHC also margins after estimation, in parentheses; the alternative "estimated" meets
    the request after estimation.

    For the DHC and the Detailed DHC: what each query gets, and its margins. For the DHC also
    --optimise, from the cells of an earlier release (--like)."""
    given = load_any(config, changes)
    of = publication(given.publication())
    require(of, "plan", config)
    request = PlanRequest(margins, added, coverage, chosen)
    if targets is not None and "optimise" not in of.cannot:
        options = OptimiseOptions(targets, units, paths, like, keep, rho, least, spare)
        _optimised(given, universe, options, request, listed, as_json)
        return
    if "plan --areas" in of.cannot:
        refuse(of, _choices(request, listed, targets, paths))
        if margins or added or chosen is not None:
            show_options(of, of.resolved(given), universe, request, config, as_json)
        else:
            show_margins(of, given, universe, coverage or COVERAGES, config, as_json)
        return
    spec = of_kind(RunSpec, given, str(config))
    needs: dict[str, object] = {"--units": units, "--like": like, "--keep": keep, "--rho": rho}
    needs |= {"--least": least, "--spare": spare}
    if only := [option for option, value in needs.items() if value]:
        raise UserError("goes with --optimise", where=only[0], remedy="name a file of targets")
    if listed is not None:
        _alone("--areas", {"--margin": margins, "--add": added, "--toml": chosen})
        answer = of_areas(spec, _universe(spec, universe).name, listed, paths)
        print_answer(answer, as_json)
        return
    if paths:
        raise UserError(
            "goes with --areas or --optimise: margins of error need no input", where="--data"
        )
    show_options(of, spec, universe, request, config, as_json)


def _choices(
    request: PlanRequest, listed: Path | None, targets: Path | None, paths: tuple[Path, ...]
) -> dict[str, tuple[str, object]]:
    """Options that choose, with the feature of a publication that each needs."""
    return {
        "--margin": ("plan --margin", request.margins),
        "--add": ("plan --margin", request.added),
        "--toml": ("plan --margin", request.chosen),
        "--areas": ("plan --areas", listed),
        "--optimise": ("optimise", targets),
        "--data": ("plan --areas", paths),
    }


def _optimised(
    given: Specification,
    universe: str | None,
    options: OptimiseOptions,
    request: PlanRequest,
    listed: Path | None,
    as_json: bool,
) -> None:
    """Show the best shares; other requests for a plan are refused with them."""
    others = {"--margin": request.margins, "--add": request.added, "--areas": listed}
    _alone("--optimise", {**others, "--coverage": request.coverage})
    if request.chosen not in (None, OPTIMUM):
        raise UserError(
            f"there is no plan {request.chosen!r} here",
            where="--toml",
            remedy=f"the only one is {OPTIMUM}",
        )
    as_toml = request.chosen is not None
    of = cast(OptimizedHalf, publication(given.publication()))
    if of.optimised_from == "release":
        dhc = of_kind(DhcSpec, given, "--optimise")
        show_dhc_optimum(dhc, universe, options, as_toml, as_json)
        return
    spec = of_kind(RunSpec, given, "--optimise")
    show_optimum(spec, _universe(spec, universe), options, as_toml, as_json)


def _universe(spec: RunSpec, name: str | None) -> Planned:
    try:
        return spec.universe(name or PERSONS.name)
    except SpecError as error:
        raise UserError(error.what, where="--universe", remedy=error.remedy) from None


def _alone(option: str, others: Mapping[str, object]) -> None:
    for name, given in others.items():
        if given:
            raise UserError(f"goes without {option}", where=name)
