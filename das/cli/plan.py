"""What a data steward asks of a configuration before anything is drawn."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from das.accounting.codec import plain
from das.accounting.draws import changed
from das.accounting.guarantee import DELTAS, guarantee
from das.accounting.planning import LevelQuery, Option, least_cost, normal_cost, options
from das.cli import redundant
from das.cli.area_plan import show_areas
from das.cli.console import console
from das.cli.optimise import OptimiseOptions, show_optimum
from das.cli.options import (
    PATH,
    config_argument,
    exact_option,
    guarded,
    json_option,
    load_any,
    warn_of,
)
from das.cli.plan_margins import show_margins
from das.cli.shown import bypassed, class_of, options_table
from das.errors import SpecError, UserError
from das.model.kinds import PERSONS
from das.model.not_private import PLANNED, marked
from das.model.plan import Plan
from das.model.spelling import named
from das.model.spelling import query as spelt_query
from das.model.universe import Planned
from das.release.publications import publication, require
from das.spec import RunSpec, budget_toml, of_kind
from das.spec.redundant import redundant_by_spec

#: What ``--toml`` means without a name.
OPTIMUM = "best"
#: At which margins are stated without a request.
COVERAGES = (0.9, 0.95, 0.99)


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

    For the DHC and the Detailed DHC: what each query gets, and its margins; there is no choice."""
    given = load_any(config, changes)
    of = publication(given.publication())
    require(of, "plan", config)
    if "optimise" in of.cannot:
        requests = {
            "--margin": ("plan --margin", margins),
            "--add": ("plan --margin", added),
            "--toml": ("plan --margin", chosen),
            "--areas": ("plan --areas", listed),
            "--optimise": ("optimise", targets),
            "--data": ("optimise", paths),
        }
        show_margins(of, given, universe, coverage or COVERAGES, requests, config, as_json)
        return
    spec = of_kind(RunSpec, given, str(config))
    try:
        asked = spec.universe(universe or PERSONS.name)
    except SpecError as error:
        raise UserError(error.what, where="--universe", remedy=error.remedy) from None
    if targets is not None:
        _alone(
            "--optimise",
            {"--margin": margins, "--add": added, "--areas": listed, "--coverage": coverage},
        )
        if chosen not in (None, OPTIMUM):
            raise UserError(
                f"there is no plan {chosen!r} here",
                where="--toml",
                remedy=f"the only one is {OPTIMUM}",
            )
        show_optimum(
            spec,
            asked,
            OptimiseOptions(targets, units, paths, like, keep, rho, least, spare),
            chosen is not None,
            as_json,
        )
        return
    if only := [
        o
        for o, given in {
            "--units": units,
            "--like": like,
            "--keep": keep,
            "--rho": rho,
            "--least": least,
            "--spare": spare,
        }.items()
        if given
    ]:
        raise UserError("goes with --optimise", where=only[0], remedy="name a file of targets")
    if listed is not None:
        _alone("--areas", {"--margin": margins, "--add": added, "--toml": chosen})
        show_areas(spec, asked.name, listed, paths, as_json)
        return
    if paths:
        raise UserError(
            "goes with --areas or --optimise: margins of error need no input", where="--data"
        )
    wished = {
        place: _whole(value, text)
        for text, place, value in _requests("--margin", margins, spec, asked)
    }
    more = {
        place: exact_option(f"--add {text}", value)
        for text, place, value in _requests("--add", added, spec, asked)
    }
    if any(math.isnan(c) for c in coverage):
        raise UserError(
            "this is not a number", where="--coverage", remedy="give a share between 0 and 1"
        )
    coverages = coverage or ((0.95,) if wished or more else COVERAGES)
    choice = options(asked.plan, asked.schema, wished, more, coverages[0])
    if chosen is not None:
        click.echo(_toml(spec, asked.name, choice, chosen), nl=False)
        return
    deltas = {spec.budget.delta, *(DELTAS if len(choice) == 1 else ())}
    rows = [_described(o, asked.name, deltas, coverages) for o in choice]
    prices = [_price(choice[1].plan, place, m, coverages[0]) for place, m in wished.items()]
    if as_json:
        click.echo(
            json.dumps(
                marked(
                    {
                        "name": spec.run.name,
                        "universe": asked.name,
                        "prices": prices,
                        "options": [r | {"guarantee": plain(r["guarantee"])} for r in rows],
                    },
                    spec.run.private,
                    PLANNED,
                ),
                indent=2,
            )
        )
        return
    warn_of(spec)
    console().print(
        options_table(
            f"{spec.run.name}: {asked.records}, margins of error",
            rows,
            spec.terms.mechanism.currency,
            spec.run.private,
        )
    )
    unused = redundant.lines([(u, i) for u, i in redundant_by_spec(spec) if u is asked], config)
    for says in (*bypassed(asked.plan), *unused, *(p["says"] for p in prices)):
        click.echo(says)


def _alone(option: str, others: Mapping[str, object]) -> None:
    for name, given in others.items():
        if given:
            raise UserError(f"goes without {option}", where=name)


def _requests(
    option: str, texts: Sequence[str], spec: RunSpec, universe: Planned
) -> list[tuple[str, LevelQuery, str]]:
    """The text of each request, the level and query that it names, and its value."""
    levels, plan = spec.geography.levels, universe.plan
    out: list[tuple[str, LevelQuery, str]] = []
    for text in texts:
        place, equals, value = text.rpartition("=")
        level, colon, query = place.partition(":")
        if not (equals and colon and level.strip() and query.strip()):
            raise UserError(
                f"{text!r} is not LEVEL:QUERY=VALUE",
                where=option,
                remedy="write for instance Tract:total=5",
            )
        where = f"{option} {text}"
        known = named(level.strip(), levels, "level", where)
        at = (
            known,
            spelt_query(query.strip(), universe.schema, [d.query for d in plan.at(known)], where),
        )
        if at in {p for _, p, _ in out}:
            raise UserError(f"{place!r} is there twice", where=option)
        out.append((text, at, value.strip()))
    return out


def _whole(value: str, text: str) -> int:
    if not value.isdecimal():
        raise UserError(
            f"a margin of error is a whole number, 0 or more; {value!r} is not",
            where=f"--margin {text}",
        )
    return int(value)


def _price(plan: Plan, place: LevelQuery, most: int, coverage: float) -> dict[str, Any]:
    """What a margin of error costs, and what it would by the convention of SafeTab-P."""
    cost = least_cost(plan.mechanism, plan.neighbours, most, coverage)
    currency = plan.mechanism.currency
    says = (
        f"{place[0]}:{place[1]} within {most} at {100 * coverage:g} %: {currency} ="
        f" {float(cost):.6g}"
    )
    out = {
        "level": place[0],
        "query": place[1],
        "margin": most,
        "coverage": coverage,
        currency: str(cost),
    }
    if currency == "rho" and most > 0:
        out["rho_normal"] = normal_cost(plan.neighbours, most, coverage)
        says += f" (by the normal bound of SafeTab-P, section 6.1: {out['rho_normal']:.6g})"
    return out | {"says": says}


def _described(
    option: Option, universe: str, deltas: set[Fraction], coverages: Sequence[float]
) -> dict[str, Any]:
    """A plan as data: its cost, its guarantee, and the margins of each measurement at each
    coverage; with its ``class`` a measurement that only units above only children have."""
    plan = option.plan
    lines = [
        {
            "level": d.level,
            "query": d.query,
            d.mechanism.currency: str(d.cost),
            d.mechanism.symbol: str(d.parameter),
            "margins": {str(c): d.margin(c) for c in coverages},
        }
        | class_of(d, plan)
        for d in plan.measurements
    ]
    promise = guarantee(plan.mechanism.currency, changed(plan), deltas, [universe])
    return {
        "name": option.name,
        "says": option.says,
        plan.mechanism.currency: str(plan.cost),
        "guarantee": promise,
        "coverages": [str(c) for c in coverages],
        "plan": lines,
    }


def _toml(spec: RunSpec, universe: str, choice: Sequence[Option], name: str) -> str:
    found = {o.name: o.plan for o in choice}
    if name not in found:
        raise UserError(
            f"there is no plan {name!r} here",
            where="--toml",
            remedy=f"choose from {', '.join(found)}",
        )
    return budget_toml(spec, universe, found[name])
