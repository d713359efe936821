"""What a data steward asks about the Detailed DHC before anything is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import isfinite
from pathlib import Path
from typing import Any

import click

from das.accounting.document import decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.options import PATH, exact_delta, exact_option
from das.errors import UserError
from das.files.run.run_directory import release_of
from das.model.mechanisms import COVERAGE
from das.model.spelling import key, near
from das.publications.detailed.model.iterations import LEVELS, GroupLevel
from das.publications.detailed.model.tables import FIRST, ONLY, PRODUCTS, LevelPlan, Parameters
from das.publications.detailed.planning.losses import GroupLoss, loss, losses
from das.publications.detailed.planning.margins import (
    LevelOutlook,
    outlooks,
    planned,
    published_at_all,
    sizes,
)
from das.report.privacy import bound

PRODUCT = click.option(
    "--product",
    type=click.Choice(list(PRODUCTS)),
    help="Which statistics. Default: those of a run, or persons.",
)
#: No margin and no group is larger; and no margin holds more seldom.
MOST, LEAST = 10**9, 0.01
#: What differs, by how many runs it concerns.
CHANGES = {1: "a record added or removed", 2: "a record replaced by another"}


def read(folder: Path, product: str | None) -> Parameters:
    """The parameters in the folder itself, or in a run or release that was made with it, which says
    whose records it counts."""
    from das.publications.detailed.files import parameters
    from das.publications.detailed.release import open_groups

    made_with = (release := release_of(folder)) / "parameters"
    if product is None and made_with.is_dir():
        return open_groups(release).spec.parameters
    return parameters.read(
        made_with if made_with.is_dir() else folder, PRODUCTS[product or "persons"]
    )


@click.command()
@click.argument("folder", metavar="PARAMETERS", type=PATH)
@PRODUCT
@click.option(
    "--margin",
    "margins",
    multiple=True,
    metavar="LEVEL=M",
    help=(
        "The margin of error that cells must have, such as 'USA detailed=3', or "
        "detailed=11 for all regions. If repeated, the smaller margin counts."
    ),
)
@click.option(
    "--error",
    metavar="E",
    help="Find the thresholds at which each table has this mean relative error, such as 0.02.",
)
@click.option(
    "--coverage",
    type=click.FloatRange(LEAST, 1, max_open=True),
    default=COVERAGE,
    show_default=True,
    help="How often a margin of error holds.",
)
@click.option(
    "--population",
    "people",
    type=click.IntRange(0, MOST),
    multiple=True,
    metavar="N",
    help=(
        "Show the result for a group of this many people: which table it has, and whether"
        " it is published; repeatable."
    ),
)
@click.option(
    "--delta", metavar="D", help=f"State epsilon at this delta. Default: {decimal(DEFAULT_DELTA)}."
)
@answering
def plan(
    folder: Path,
    product: str | None,
    margins: tuple[str, ...],
    error: str | None,
    coverage: float,
    people: tuple[int, ...],
    delta: str | None,
) -> CommandAnswer:
    """Show the margins of error, thresholds and privacy loss of the Detailed DHC, or the budgets
    for margins of error.

    Margins of error are from the exact distribution of the noise, epsilon from the exact
    composition. Reads no record."""
    at = DEFAULT_DELTA if delta is None else exact_delta(delta)
    now = read(folder, product)
    wished = _margins(now, margins)
    if not LEAST <= coverage < 1:  # such as nan
        raise UserError(
            f"{coverage} is not between {LEAST} and 1",
            where="--coverage",
            remedy="give such as 0.95",
        )
    most = None if error is None else exact_option("--error", error)
    if most is not None and most <= 0:
        raise UserError(f"{error} is not above 0", where="--error")
    options = {"now": now}
    if wished or most is not None:
        options["as-wished"] = planned(now, wished, coverage, most)
    last = list(options.values())[-1]
    sized = [_sized(p, last, n) for run in last.runs for p in last.plans(run) for n in people]
    rows = {name: _described(o, coverage, at) for name, o in options.items()}
    product = now.product.name
    said = {"product": product, "coverage": coverage, "delta": str(at), "options": rows}

    def show() -> None:
        for name, option in options.items():
            _show(option, rows[name], name if len(options) > 1 else product, coverage, at)
        if sized:
            console().print(records_table(SIZED, _merged(sized)))

    return CommandAnswer(said | ({"population": sized} if sized else {}), show)


SIZED = (
    "How groups come out, as probabilities: the size of the table (0: the total only), and"
    " whether they are published"
)


def _margins(parameters: Parameters, texts: Sequence[str]) -> dict[GroupLevel, int]:
    """The margin of each level that one is wished for; the name of one level counts more than that
    of several."""
    tabulated = {at for by in parameters.budgets.values() for at, cost in by.items() if cost}
    known = {at for by in parameters.thresholds.values() for at in by}
    names = {key(at.name): (2, [at]) for at in sorted(known)}
    names |= {
        key(at.region): (1, [o for o in sorted(tabulated) if o.region == at.region])
        for at in sorted(known)
    }
    names |= {
        key(word): (0, [o for o in sorted(tabulated) if o.level == n]) for n, word in LEVELS.items()
    }
    out: dict[GroupLevel, tuple[int, int]] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        if (
            not equals
            or not value.strip().isdecimal()
            or len(value.strip()) > len(str(MOST))
            or not int(value) <= MOST
        ):
            raise UserError(
                f"{text[:60]!r} is not LEVEL=M, with a whole number M up to {MOST:,}",
                where="--margin",
                remedy="write such as 'USA detailed=3'",
            )
        if key(name) not in names:
            raise UserError(
                f"there is no level {name!r}",
                where="--margin",
                remedy=near(name, [*LEVELS.values(), *(at.name for at in sorted(known))], "levels"),
            )
        rank, places = names[key(name)]
        for place in places:
            if out.get(place, (-1,))[0] == rank:
                raise UserError(f"{place.name} is there twice", where="--margin")
            if out.get(place, (-1,))[0] < rank:
                out[place] = (rank, int(value))
    return {place: most for place, (_, most) in out.items()}


def _described(parameters: Parameters, coverage: float, at: Fraction) -> dict[str, Any]:
    """A plan as data."""
    few = [loss(parameters, (run,), at, race_codes=1, ethnic=False) for run in parameters.runs]
    return {
        "levels": {
            run: [_level(o) for o in outlooks(parameters, run, coverage)] for run in parameters.runs
        },
        "losses": [_loss(found, parameters) for found in losses(parameters, at)],
        "one_race_code_and_no_ethnicity": [_loss(found, parameters) for found in few],
    }


def _level(outlook: LevelOutlook) -> dict[str, Any]:
    p = outlook.plan
    return {
        "level": p.at.name,
        "table": p.table.name,
        p.mechanism.currency: str(p.cost),
        "stability": p.stability,
        "noise": {
            query: {
                s.noise.mechanism.symbol: str(s.noise.parameter),
                "margin": s.margin,
                "held": s.held,
                "convention": s.convention,
                "convention_held": s.convention_held,
            }
            for query, s in outlook.stages.items()
        },
        "suppression": outlook.suppression,
        "tables": [
            {
                "cells": t.cells,
                "threshold": t.threshold,
                "error": t.error if isfinite(t.error) else None,
                "chance": t.chance,
                "surely": t.surely,
            }
            for t in outlook.tables
        ],
    }


def _loss(loss: GroupLoss, parameters: Parameters) -> dict[str, Any]:
    return {
        "runs": list(loss.places),
        "change": CHANGES[len(loss.places)],
        "cost": str(loss.cost),
        "currency": parameters.mechanism.currency,
        "epsilon": list(loss.epsilon),
        "tight": loss.tight,
    }


def _sized(p: LevelPlan, parameters: Parameters, people: int) -> dict[str, Any]:
    most = max(len(table.answers) for table in parameters.product.tables)
    each = sizes(p, people).tolist()
    return {
        "level": p.at.name,
        "table": p.table.name,
        "people": people,
        **{f"size {i}": each[i] if i < len(each) else 0.0 for i in range(most)},
        "published": published_at_all(p, parameters.chance, people),
    }


def _show(
    parameters: Parameters, rows: Mapping[str, Any], name: str, coverage: float, at: Fraction
) -> None:
    currency = parameters.mechanism.currency
    for run in parameters.runs:
        cost = parameters.cost(run)
        title = (
            f"{name}, {run}: {currency} = {cost} ({float(cost):.6g}), margins at {100 * coverage:g}"
            " % (standard deviations)"
        )
        console().print(
            records_table(
                title, _merged([_line(o, currency) for o in outlooks(parameters, run, coverage)])
            )
        )
    for which, before in (
        ("losses", ""),
        (
            "one_race_code_and_no_ethnicity",
            "of one code of race, and of no ethnicity that counts, ",
        ),
    ):
        for row in rows[which]:
            runs = " and ".join(dict.fromkeys(row["runs"]))
            known = (
                f"epsilon = {bound(row['epsilon'])} exactly at delta = {decimal(at)} (from rho"
                f" alone: {bound(row['tight'])})"
            )
            says = known if currency == "rho" else "delta = 0"
            click.echo(
                f"{runs}, {before}{row['change']}: {currency} = {float(Fraction(row['cost'])):.6g},"
                f" {says}"
            )


def _line(o: LevelOutlook, currency: str) -> dict[str, str]:
    noise = {
        query: f"±{s.margin:,} ({s.noise.variance**0.5:,.4g})" for query, s in o.stages.items()
    }
    return {
        "level": o.plan.at.name,
        "table": o.plan.table.name,
        currency: f"{float(o.plan.cost):.6g}",
        "groups": str(o.plan.stability),
        ONLY: noise.get(ONLY, "–"),
        FIRST: noise.get(FIRST, "–"),
        "cells": noise[o.plan.table.name],
        "held": f"{100 * o.stages[o.plan.table.name].held:.1f} %",
        "published above": "–" if o.suppression is None else f"{o.suppression:,}",
        "tables from (mean relative error)": ", ".join(
            f"{t.threshold:,} ({100 * t.error:.1f} %)" if isfinite(t.error) else f"{t.threshold:,}"
            for t in o.tables
        ),
    }


def _merged(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of levels of the same iterations that say the same, as one."""
    regions: dict[tuple[Any, ...], list[str]] = {}
    for row in rows:
        region, level = row["level"].rsplit(" ", 1)
        rest = (
            (k, round(v, 9) if isinstance(v, float) else v) for k, v in row.items() if k != "level"
        )
        regions.setdefault((level, *rest), []).append(region)
    return [
        {"level": f"{', '.join(found)} {level}", **dict(rest)}
        for (level, *rest), found in regions.items()
    ]
