"""What a data steward asks of a configuration before anything is drawn."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click
from rich.table import Table

from das.accounting.codec import plain
from das.accounting.guarantee import DELTAS
from das.accounting.planning import (
    LevelQuery,
    Option,
    margin_cost,
    normal_cost,
    options,
    recommended,
)
from das.accounting.statement import promises
from das.cli.kit import redundant
from das.cli.kit.console import CommandAnswer, console, print_answer
from das.cli.kit.options import (
    PATH,
    config_argument,
    exact_option,
    guarded,
    json_option,
    load_any,
    warn,
)
from das.cli.kit.terminal_tables import (
    bypassed,
    margin_cells,
    measurement_line,
    options_table,
    promises_of,
)
from das.errors import SpecError, UserError
from das.files import kept_epsilons, packaged
from das.files.atomic import write_text
from das.model.mechanisms import COVERAGE
from das.model.not_private import PLANNED, marked
from das.model.plan import Plan
from das.model.spelling import named
from das.model.universe import PERSONS, Planned
from das.release.publications import (
    OptimizedHalf,
    PlanChoices,
    PlanningHalf,
    PublicHalf,
    publication,
    require,
)
from das.spec import RunSpec, Specification, of_kind
from das.spec.parse import with_tables
from das.spec.parts import Run

if TYPE_CHECKING:
    from das.tools.planning.optimize import OptimizeOptions

# What the budget of a configuration buys, where nothing of it is chosen: the margin of error of
# every query of every level, and what that costs.


def refuse(publication: PublicHalf, requests: Mapping[str, tuple[str, object]]) -> None:
    """``requests`` are options that choose, with the feature that each needs: where the publication
    does not have it, they are refused with its reason."""
    for option, (feature, asked) in requests.items():
        if asked:
            require(publication, feature, option)


def show_margins(
    publication: PublicHalf,
    given: Specification,
    universe: str | None,
    coverages: Sequence[float],
    config: Path,
    as_json: bool,
) -> None:
    """Show the margins of every universe, or of one; also after estimation, where they are known."""
    spec = publication.resolved(given)
    names = [u.name for u in spec.universes]
    wanted = names if universe is None else [named(universe, names, "universe", "--universe")]
    plans = {u.name: u.plan for u in spec.universes}
    errors: Mapping[LevelQuery, float] = {}
    notes: Sequence[str] = ()
    if "plan --margin" not in publication.cannot:
        choice = cast(PlanningHalf, publication).choices(spec, universe)
        errors = choice.repricing.errors(choice.repricing.plan)
        notes = choice.notes(choice.repricing.plan)
    promise = promises(spec.terms, {name: plan.measurements for name, plan in plans.items()})
    private = spec.run.private
    rows = [_row(name, plans[name], errors, coverages) for name in wanted]
    said = {"name": spec.run.name, "universes": rows, "notes": list(notes), **plain(promise)}
    reason = publication.cannot.get("optimize")

    def for_a_reader() -> None:
        warn(private, PLANNED)
        for name in wanted:
            console().print(_table(spec.run.name, name, plans[name], errors, coverages))
        neighbours = next(iter(plans.values())).neighbours.value
        for note in notes:
            click.echo(note)
        for line in promises_of(promise, neighbours, private):
            console().print(line, highlight=False)
        if reason:
            click.echo(f"no optimizer: {reason}")
        click.echo(f"das check {config} prints the exact noise of every query")

    print_answer(CommandAnswer(marked(said, private, PLANNED), for_a_reader), as_json)


def _row(
    name: str, plan: Plan, errors: Mapping[LevelQuery, float], coverages: Sequence[float]
) -> dict[str, Any]:
    """A plan as data."""
    currency = plan.mechanism.currency
    lines = [
        measurement_line(d, plan, errors, coverages) | {"share": float(d.cost / plan.cost)}
        for d in plan.measurements
    ]
    return {"universe": name, currency: str(plan.cost), "plan": lines}


def _table(
    title: str,
    name: str,
    plan: Plan,
    errors: Mapping[LevelQuery, float],
    coverages: Sequence[float],
) -> Table:
    """A line for each level and query, and before them what the level gets."""
    currency = plan.mechanism.currency
    says = f"{title}: {name}, {currency} = {float(plan.cost):.6g}, margins of error"
    says += ", measured (and after estimation)" if errors else ""
    table = Table(title=says, title_justify="left")
    for column in ("level", "query"):
        table.add_column(column, no_wrap=True)
    for column in (currency, "share", *(f"{100 * c:g} %" for c in coverages)):
        table.add_column(column, justify="right")
    levels: dict[str, Fraction] = {}
    for d in plan.plain:
        levels[d.level] = levels.get(d.level, Fraction(0)) + d.cost
    for level, cost in levels.items():
        here = [d for d in plan.plain if d.level == level]
        if len(here) > 1:
            table.add_row(level, "all", f"{float(cost):.4g}", _share(cost, plan))
        for d in here:
            margins = margin_cells(measurement_line(d, plan, errors, coverages)).values()
            table.add_row(level, d.query, f"{float(d.cost):.4g}", _share(d.cost, plan), *margins)
        table.add_section()
    return table


def _share(cost: Fraction, plan: Plan) -> str:
    return f"{100 * float(cost / plan.cost):.2g} %"


# A plan and its alternatives, side by side: what margins of error cost, and other queries.

#: At which margins are stated without a request.
COVERAGES = (0.9, COVERAGE, 0.99)


@dataclass(frozen=True)
class PlanRequest:
    """What is asked of a plan: margins of error, queries to add, the coverages; the name of the
    alternative that is printed as tables of a configuration, or written with the rest of it to
    ``out``; and the ``changes`` of the configuration."""

    margins: tuple[str, ...]
    added: tuple[str, ...]
    coverage: tuple[float, ...]
    chosen: str | None
    changes: tuple[str, ...] = ()
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.out is not None and (self.chosen is None or not (self.margins or self.added)):
            raise UserError(
                "this is for one plan of several",
                where="--out",
                remedy="name it with --toml, next to --margin or --add",
            )


def show_options(
    publication: PublicHalf,
    spec: Any,
    universe: str | None,
    request: PlanRequest,
    config: Path,
    as_json: bool,
) -> None:
    """``publication`` has ``plan --margin``; ``spec`` is resolved."""
    asked = cast(PlanningHalf, publication).choices(spec, universe)
    wished = {
        place: _whole(value, text)
        for text, place, value in _requests("--margin", request.margins, asked)
    }
    more = {
        place: exact_option(f"--add {text}", value)
        for text, place, value in _requests("--add", request.added, asked)
    }
    if any(math.isnan(c) for c in request.coverage):
        raise UserError(
            "this is not a number", where="--coverage", remedy="give a share between 0 and 1"
        )
    coverages = request.coverage or ((COVERAGE,) if wished or more else COVERAGES)
    choice = options(asked.repricing, wished, more, coverages[0])
    if request.chosen is not None:
        _give(asked.toml(_chosen(choice, request.chosen)), request, config)
        return
    deltas = {asked.delta, *(DELTAS if len(choice) == 1 else ())}
    rows = [_described(o, asked, deltas, coverages) for o in choice]
    prices = [_price(choice[1].plan, place, m, coverages[0]) for place, m in wished.items()]
    every = [r | {"guarantee": plain(r["guarantee"])} for r in rows]
    said = {"name": spec.run.name, "universe": asked.name, "prices": prices, "options": every}
    advice: list[str] = []
    if wished or more:
        said["recommended"], advice = recommended(
            choice, wished, coverages[0], lambda name: _command(config, request, universe, name)
        )
    data = marked(said, spec.run.private, PLANNED)
    answer = CommandAnswer(data, lambda: _print(spec.run, asked, rows, [*prices], config, advice))
    print_answer(answer, as_json)


def _give(tables: str, request: PlanRequest, config: Path) -> None:
    """Print the tables of a plan, or write the configuration that they make."""
    if request.out is None:
        click.echo(tables, nl=False)
        return
    text, folder = packaged.configuration(config)
    write_text(request.out, with_tables(text, str(config), request.changes, folder, tables))
    click.echo(f"{request.out}: {config} with this plan; das run {request.out}")


def _print(
    run: Run,
    asked: PlanChoices,
    rows: Sequence[dict[str, Any]],
    prices: Sequence[dict[str, Any]],
    config: Path,
    advice: Sequence[str],
) -> None:
    warn(run.private, PLANNED)
    currency = asked.repricing.plan.mechanism.currency
    estimated = ", measured (and after estimation)" if "estimated" in rows[0]["plan"][0] else ""
    title = f"{run.name}: {asked.title}, margins of error{estimated}"
    console().print(options_table(title, rows, currency, run.private))
    unused = redundant.lines(asked.redundant, config)
    for says in (*bypassed(asked.repricing.plan), *unused, *(p["says"] for p in prices), *advice):
        click.echo(says)


def _command(config: Path, request: PlanRequest, universe: str | None, name: str) -> str:
    """The command that writes a configuration with the plan of this name."""
    given = [("--set", c) for c in request.changes]
    given += [("--margin", m) for m in request.margins] + [("--add", a) for a in request.added]
    given += [("--coverage", f"{c:g}") for c in request.coverage]
    given += [("--universe", universe)] if universe else []
    given += [("--toml", name), ("--out", "planned.toml")]
    return shlex.join(["das", "plan", str(config), *(word for pair in given for word in pair)])


def _requests(
    option: str, texts: Sequence[str], asked: PlanChoices
) -> list[tuple[str, LevelQuery, str]]:
    """The text of each request, the level and query that it names, and its value."""
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
        known = named(level.strip(), asked.levels, "level", where)
        at = (known, asked.spelt(known, query.strip(), where))
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
    draw = next(d for d in plan.plain if (d.level, d.query) == place)
    cost, currency = margin_cost(draw, plan, most, coverage), plan.mechanism.currency
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
        out["rho_normal"] = normal_cost(plan.neighbours, most, coverage) * draw.stability
        says += f" (by the normal bound of SafeTab-P, section 6.1: {out['rho_normal']:.6g})"
    return out | {"says": says}


def _described(
    option: Option, asked: PlanChoices, deltas: set[Fraction], coverages: Sequence[float]
) -> dict[str, Any]:
    """A plan as data: its cost, its guarantee, and the margins of each measurement at each
    coverage; with its ``class`` a measurement that only units above only children have."""
    plan = option.plan
    errors = asked.repricing.errors(plan)
    lines = [measurement_line(d, plan, errors, coverages) for d in plan.measurements]
    return {
        "name": option.name,
        "says": option.says,
        plan.mechanism.currency: str(plan.cost),
        "guarantee": asked.guarantee(plan, deltas),
        "coverages": [str(c) for c in coverages],
        "notes": list(asked.notes(plan)),
        "plan": lines,
    }


def _chosen(choice: Sequence[Option], name: str) -> Plan:
    found = {o.name: o.plan for o in choice}
    if name not in found:
        raise UserError(
            f"there is no plan {name!r} here",
            where="--toml",
            remedy=f"choose from {', '.join(found)}",
        )
    return found[name]


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
        "of the input, and measures nothing. With --page also a kind of the input, such as SLDL."
    ),
)
@click.option(
    "--optimize",
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
    help="With --areas or --optimize: the input; repeatable. Default: data.path.",
)
@click.option(
    "--units",
    metavar="N,N,...",
    help="With --optimize: the numbers of units of the levels, root first, instead of an input.",
)
@click.option(
    "--like",
    type=PATH,
    help=(
        "With --optimize: take the tree of this RUN or release; predicts the errors of "
        "published counts."
    ),
)
@click.option(
    "--keep",
    "keep",
    multiple=True,
    metavar="LEVEL:QUERY",
    help="With --optimize: a query whose share must not shrink; repeatable.",
)
@click.option(
    "--rho",
    metavar="R",
    help="With --optimize: the total to allocate. Default: that of the configuration.",
)
@click.option(
    "--least",
    is_flag=True,
    help="With --optimize: find the smallest rho that meets every target, none worse than now.",
)
@click.option(
    "--spare",
    is_flag=True,
    help="With --optimize: keep every measurement, and re-spend the budget of redundant ones.",
)
@click.option(
    "--toml",
    "chosen",
    metavar="[NAME]",
    is_flag=False,
    flag_value=OPTIMUM,
    help="Print this plan, with --optimize the best one, as tables of a configuration.",
)
@click.option(
    "--page",
    "page_file",
    type=PATH,
    metavar="FILE",
    help=(
        "Write a page on which people choose: it shows what any shares buy and cost, in a browser"
        " and without a network. Its tree is that of --data (an input, or a finished run or"
        " release) or --units; its curve is about the targets of --optimize."
    ),
)
@click.option(
    "--out",
    type=PATH,
    help="With --margin or --add, and --toml NAME: write a whole configuration with that plan.",
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
    page_file: Path | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show margins of error for a budget, or the budget for margins of error.

    Without options: the margin of error of every query, and epsilon at several deltas. With
    --margin or --add: alternative plans, side by side, and the one that we would take.
    "others-unchanged" meets the request and
    raises the total; "same-total" scales that plan to the present total; "all-scaled" keeps the
    present shares and scales everything until the margins hold.

    With --areas: the standard deviation of each area's total before anything is spent. It is given
    on the tabulation spine, on the Bureau's, with the configuration's targets, and with these areas
    as targets. Also the best shares of the levels for these areas.

    With --optimize: the best shares for given targets, the cost of each target, and a bound on
    how much better any other shares could be.

    With --page: one file for a meeting, with controls for the total and every share.

    For the S-DHC also margins after estimation, in parentheses; the alternative "estimated" meets
    the request after estimation.

    For the DHC and the Detailed DHC: what each query gets, and its margins. For the DHC also
    --optimize, from the cells of an earlier release (--like)."""
    kept_epsilons.use()
    given = load_any(config, changes)
    of = publication(given.publication())
    require(of, "plan", config)
    request = PlanRequest(margins, added, coverage, chosen, changes, out)
    needs = {"--like": like, "--keep": keep, "--rho": rho, "--least": least, "--spare": spare}
    if page_file is not None:
        _alone("--page", {**needs, **_asked(request), "--json": as_json})
        require(of, "plan --page", "--page")
        _write_page(given, config.name, universe, page_file, units, paths, targets, listed)
        return
    if targets is not None and "optimize" not in of.cannot:
        from das.tools.planning.optimize import OptimizeOptions  # slow to load

        options = OptimizeOptions(targets, units, paths, like, keep, rho, least, spare)
        _optimized(given, universe, options, request, listed, as_json)
        return
    if "plan --areas" in of.cannot:
        refuse(of, _choices(request, listed, targets, paths))
        if margins or added or chosen is not None:
            show_options(of, of.resolved(given), universe, request, config, as_json)
        else:
            show_margins(of, given, universe, coverage or COVERAGES, config, as_json)
        return
    spec = of_kind(RunSpec, given, str(config))
    if only := [option for option, value in {"--units": units, **needs}.items() if value]:
        raise UserError("goes with --optimize", where=only[0], remedy="name a file of targets")
    if listed is not None:
        _alone("--areas", {"--margin": margins, "--add": added, "--toml": chosen})
        from das.tools.areas.command import of_areas  # slow to load

        answer = of_areas(spec, _universe(spec, universe).name, listed, paths)
        print_answer(answer, as_json)
        return
    if paths:
        raise UserError(
            "goes with --areas or --optimize: margins of error need no input", where="--data"
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
        "--optimize": ("optimize", targets),
        "--data": ("plan --areas", paths),
    }


def _optimized(
    given: Specification,
    universe: str | None,
    options: OptimizeOptions,
    request: PlanRequest,
    listed: Path | None,
    as_json: bool,
) -> None:
    """Show the best shares; other requests for a plan are refused with them."""
    from das.tools.planning.optimize import show_dhc_optimum, show_optimum  # slow to load

    others = {"--margin": request.margins, "--add": request.added, "--areas": listed}
    _alone("--optimize", {**others, "--coverage": request.coverage})
    if request.chosen not in (None, OPTIMUM):
        raise UserError(
            f"there is no plan {request.chosen!r} here",
            where="--toml",
            remedy=f"the only one is {OPTIMUM}",
        )
    as_toml = request.chosen is not None
    of = cast(OptimizedHalf, publication(given.publication()))
    if of.optimized_from == "release":
        from das.publications.dhc.spec import DhcSpec

        dhc = of_kind(DhcSpec, given, "--optimize")
        show_dhc_optimum(dhc, universe, options, as_toml, as_json)
        return
    spec = of_kind(RunSpec, given, "--optimize")
    show_optimum(spec, _universe(spec, universe), options, as_toml, as_json)


def _asked(request: PlanRequest) -> dict[str, object]:
    """The options of :class:`PlanRequest`."""
    asked = {"--margin": request.margins, "--add": request.added, "--coverage": request.coverage}
    return {**asked, "--toml": request.chosen}


def _write_page(
    given: Specification,
    config: str,
    universe: str | None,
    file: Path,
    units: str | None,
    paths: Sequence[Path],
    targets: Path | None,
    listed: Path | None,
) -> None:
    from das.tools.planning.page import write_page  # slow to load

    spec = of_kind(RunSpec, given, "--page")
    if _universe(spec, universe) is not spec.persons:
        raise UserError(
            "the page is about persons", where="--universe", remedy="leave it out with --page"
        )
    write_page(spec, config, file, units, paths, targets, listed)


def _universe(spec: RunSpec, name: str | None) -> Planned:
    try:
        return spec.universe(name or PERSONS.name)
    except SpecError as error:
        raise UserError(error.what, where="--universe", remedy=error.remedy) from None


def _alone(option: str, others: Mapping[str, object]) -> None:
    for name, given in others.items():
        if given:
            raise UserError(f"goes without {option}", where=name)
