"""What an intruder learns: from one count or several, from the levels above, from a plan, from a
run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

import click

from das import risk as intruder
from das.cli.kit.console import (
    CommandAnswer,
    answering,
    console,
    records_table,
    say_kept,
    shows_errors,
)
from das.cli.kit.options import PATH, load_counts, show_errors_option, warn
from das.errors import InputError, UserError
from das.files import packaged
from das.files.atomic import write_json
from das.files.messages import privacy_of
from das.files.run.run_directory import RunDirectory, create_private
from das.model.budget import Neighbours
from das.model.exact import exact
from das.model.not_private import PLANNED, WARNING, Private, marked, marked_rows
from das.model.plan import Plan
from das.model.spelling import product
from das.release.opened import open_release
from das.risk.hierarchy import METHODS
from das.tools.link.risk_command import link
from das.tools.protection.attack.command import combine, reconstruct
from das.tools.risk.truth import exposure
from das.tools.risk.truth.exposure import (
    ExposureRow,
    queries_by_level,
    substituted,
    summary_of_plan,
    summary_of_run,
)

# Numbers on the command line of `das risk`: exact ones, probabilities, priors of a count.


class NumberParameter(click.ParamType):
    """An exact number: 1/2, 0.099, 1e-3."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        try:
            return exact(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class PriorParameter(NumberParameter):
    """A probability that is not 0: the risk is a ratio to it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        prior = super().convert(value, param, ctx)
        if not 0 < prior <= 1:
            self.fail(
                f"{value} is no prior probability: it is above 0, and between 0 and 1", param, ctx
            )
        return prior


class UpperPriorParameter(click.ParamType):
    """The prior of the upper count: uniform, uniform:10, point:25, or weights:3,2,1."""

    name = "prior"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> intruder.UpperPrior:
        if not isinstance(value, str):
            return value
        kind, _, rest = value.partition(":")
        try:
            if kind == "uniform":
                return intruder.Uniform(int(rest) if rest else None)
            if kind == "point":
                return intruder.Point(int(rest))
            return (
                intruder.WeightedPrior([float(exact(w)) for w in rest.split(",")])
                if kind == "weights"
                else _unknown()
            )
        except InputError as error:
            self.fail(str(error), param, ctx)
        except ValueError:
            self.fail(
                f"{value!r} is none of uniform, uniform:10, point:25, weights:3,2,1", param, ctx
            )


def _unknown() -> NoReturn:
    raise ValueError


NUMBER, PRIOR, UPPER_PRIOR = (NumberParameter(), PriorParameter(), UpperPriorParameter())


PRIORS = (Fraction(1, 2), Fraction(1, 5), Fraction(1, 10), Fraction(1, 50))


class _OrPath(click.Group):
    """``das risk PATH`` is ``das risk report PATH``."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = args[0] in self.commands or args[0].startswith("-")
        return super().resolve_command(ctx, args if known else ["report", *args])


@click.group(cls=_OrPath)
def risk() -> None:
    """Show what an intruder learns. `das risk PATH` reports on a finished run, or on the plan of
    a configuration."""


risk.add_command(reconstruct)
risk.add_command(combine)
risk.add_command(link)


def _costs(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    function = answering(command)
    for option in (
        click.option(
            "--prior",
            "priors",
            type=PRIOR,
            multiple=True,
            default=PRIORS,
            help="Repeatable. Default: 1/2, 1/5, 1/10 and 1/50.",
        ),
        click.option(
            "--neighbors",
            "neighbours",
            type=click.Choice([n.value for n in Neighbours]),
            default="unbounded",
            show_default=True,
            help="Convention of the cost: sigma^2 = 1/(2 rho) (unbounded) or 1/rho (bounded).",
        ),
        click.option(
            "--epsilon",
            type=NUMBER,
            multiple=True,
            help="Cost of a two-sided geometric measurement.",
        ),
        click.option(
            "--rho",
            type=NUMBER,
            multiple=True,
            help=(
                "Cost of a discrete Gaussian measurement. Repeat it if the target is "
                "unique at several levels."
            ),
        ),
    ):
        function = option(function)
    return function


@risk.command()
@click.argument("path", type=PATH)
@click.option(
    "--public", is_flag=True, help="Use only the plan of a run; needs nothing confidential."
)
@click.option(
    "--prior",
    "priors",
    type=PRIOR,
    multiple=True,
    default=PRIORS,
    help="The intruder's prior probability; repeatable. Default: 1/2, 1/5, 1/10 and 1/50.",
)
@click.option(
    "--query",
    "queries",
    multiple=True,
    help=(
        "Measured queries. For the first, also persons unique at several levels. Default: the"
        " finest of each level."
    ),
)
@show_errors_option
@answering
def report(
    path: Path, public: bool, priors: Sequence[Fraction], queries: Sequence[str], show_errors: bool
) -> CommandAnswer:
    """The risk of a run's unique persons (confidential), or the risk from its plan alone (a
    configuration, or --public). What is confidential prints only to a terminal, or with
    --show-errors."""
    levels = [float(p) for p in priors]
    if path.is_dir() and not public:
        return _report_of_run(path, levels, queries, show_errors)
    return _report_of_plan(path, levels, queries)


def _report_of_run(
    path: Path, priors: Sequence[float], queries: Sequence[str], show_errors: bool
) -> CommandAnswer:
    (rows, notes), private = _of_run(path, priors, queries), privacy_of(path)
    directory = RunDirectory(path)
    create_private(directory.confidential)
    target = directory.confidential / "risk" / "uniques.json"
    summary, each = summary_of_run(rows), [vars(r) for r in rows]
    kept = {"summary": summary, "rows": marked_rows(each, private)}
    write_json(target, marked(kept, private))
    title = "Unique persons: the intruder's posterior of the truth (confidential)"
    shown = _answer(title, each, private, WARNING, summary, notes)

    def show() -> None:
        if shows_errors(show_errors):
            shown.show()
        else:
            warn(private)
            say_kept(target.parent, "results")
        click.echo(f"written: {target}")

    return CommandAnswer(shown.data, show)


def _report_of_plan(path: Path, priors: Sequence[float], queries: Sequence[str]) -> CommandAnswer:
    config = path / "release" / "spec.toml" if path.is_dir() else path
    if not config.is_file() and str(config) not in packaged.names():
        raise UserError(
            "is not a command of das risk, a run's folder, or a configuration",
            where=path,
            remedy="see das risk --help",
        )
    spec = open_release(config.parent).run if path.is_dir() else load_counts("risk", config, ())
    u = spec.persons
    queries = _spelt(queries, u.plan)
    by_level = queries_by_level(u.plan, u.schema, queries)
    rows = [
        o
        for o in exposure.outlook(u.plan, priors, query=_first(by_level, queries))
        if o.query in by_level[o.level]
    ]
    warning = WARNING if path.is_dir() else PLANNED
    title = "What the plan says of an intruder (public)"
    notes, each = substituted(by_level, queries), [vars(o) for o in rows]
    return _answer(title, each, spec.run.private, warning, summary_of_plan(rows), notes)


def _first(by_level: Mapping[str, Sequence[str]], queries: Sequence[str]) -> str:
    """The query of those who are unique at several levels: the first one that is asked for, else
    that of the lowest level."""
    return queries[0] if queries else list(by_level.values())[-1][0]


def _of_run(
    run: Path, priors: Sequence[float], queries: Sequence[str]
) -> tuple[list[ExposureRow], list[str]]:
    given = exposure.of_run(run)
    _, _, plan, _, schema = given
    queries = _spelt(queries, plan)
    by_level = queries_by_level(plan, schema, queries)
    rows = []
    for prior in priors:
        rows += exposure.exposure(*given, prior=prior, queries=by_level)
        rows += exposure.ladder(*given, prior=prior, query=_first(by_level, queries))
    return rows, substituted(by_level, queries)


def _spelt(queries: Sequence[str], plan: Plan) -> list[str]:
    """The measured queries that are meant."""
    known = list(dict.fromkeys(d.query for d in plan.measurements))
    try:
        return [product(q, known) for q in queries]
    except InputError as error:
        raise UserError(
            f"{error.what}: it is not measured", where="--query", remedy=error.remedy
        ) from None


@risk.command()
@click.option(
    "--x", "published", type=int, multiple=True, required=True, help="A noisy count; repeatable."
)
@click.option(
    "--known",
    type=int,
    default=0,
    show_default=True,
    help="Records in the cell besides the target's.",
)
@_costs
def posterior(
    published: Sequence[int],
    known: int,
    rho: Sequence[Fraction],
    epsilon: Sequence[Fraction],
    neighbours: str,
    priors: Sequence[Fraction],
) -> CommandAnswer:
    """The posterior, the risk and the probability of a published count (Kazan and Reiter, table
    3)."""
    cost = _one(rho, epsilon) | {"neighbours": Neighbours(neighbours)}
    rows = [
        {
            "x": x,
            "prior": float(p),
            "posterior": float(intruder.posterior(x, prior=p, known=known, **cost)),
            "risk": float(intruder.ratio(x, prior=p, known=known, **cost)),
            "probability": float(intruder.release_probability(x, known=known, **cost)),
        }
        for x in published
        for p in priors
    ]
    return _answer("Posterior that the target is there", rows)


@risk.command()
@_costs
def marginal(
    rho: Sequence[Fraction],
    epsilon: Sequence[Fraction],
    neighbours: str,
    priors: Sequence[Fraction],
) -> CommandAnswer:
    """The average posterior and risk over all possible published counts (table 4; several --rho:
    supplement, figure 1)."""
    cost = _many(rho, epsilon) | {"neighbours": Neighbours(neighbours)}
    values = [
        (float(p), float(intruder.joint_marginal_posterior(prior=float(p), **cost))) for p in priors
    ]
    rows = [{"prior": p, "marginal_posterior": m, "risk": m / p} for p, m in values]
    return _answer("Average posterior where the target is there", rows)


@risk.command()
@_costs
def decision(
    rho: Sequence[Fraction],
    epsilon: Sequence[Fraction],
    neighbours: str,
    priors: Sequence[Fraction],
) -> CommandAnswer:
    """How often 0-1 loss decides for the truth if the target is present (equation 19)."""
    cost: dict[str, Any] = _many(rho, epsilon) | {"neighbours": Neighbours(neighbours)}
    single = len([*rho, *epsilon]) == 1
    if single:
        cost = _one(rho, epsilon) | {"neighbours": Neighbours(neighbours)}
    decide = intruder.decision_probability if single else intruder.joint_decision_probability
    rows = [
        {"prior": float(p), "decision_probability": float(decide(prior=float(p), **cost))}
        for p in priors
    ]
    return _answer("Decisions for the truth", rows)


def _two_levels(command: Callable[..., CommandAnswer]) -> Callable[..., None]:
    function = answering(command)
    for option in (
        click.option("--method", type=click.Choice(METHODS), default="exact", show_default=True),
        click.option(
            "--upper",
            type=UPPER_PRIOR,
            default="uniform",
            show_default=True,
            help="Prior of the upper count: uniform, uniform:10, point:25, weights:3,2,1.",
        ),
        click.option("--prior", type=PRIOR, default="1/2", show_default=True),
        click.option(
            "--d", type=click.IntRange(1), required=True, help="Other units of the lower level."
        ),
        click.option("--rho2", type=NUMBER, required=True),
        click.option("--rho1", type=NUMBER, required=True),
    ):
        function = option(function)
    return function


@risk.command()
@click.option("--x1", type=int, required=True, help="Noisy count of the target's unit.")
@click.option("--x2", type=int, required=True, help="Noisy count one level up.")
@click.option("--y1", type=int, required=True, help="Noisy counts of the other units, added up.")
@click.option("--known", type=int, default=0, show_default=True)
@_two_levels
def hierarchical(**given: Any) -> CommandAnswer:
    """The posterior of the lower and the upper count, given two levels (tables 5 to 7). Noise
    N(0, 1/(2 rho))."""
    values, p = intruder.upper_posterior(**given)
    likely = p > 5e-6
    out = {
        "method": given["method"],
        "posterior": float(intruder.hierarchical_posterior(**given)),
        "upper": {str(v): float(q) for v, q in zip(values[likely], p[likely], strict=True)},
    }
    rows = [{"X2": int(v), "probability": float(q)} for v, q in zip(values[likely], p[likely])]

    def show() -> None:
        click.echo(
            f"P[X1 = {given['known'] + 1} | D] = {out['posterior']:.5f}  ({given['method']})"
        )
        console().print(records_table("The upper count", rows))

    return CommandAnswer(out, show)


@risk.command()
@click.option("--true-x1", type=int, default=1, show_default=True)
@click.option("--true-x2", type=int, default=1, show_default=True)
@click.option("--known", type=int, default=0, show_default=True)
@_two_levels
def changes(true_x1: int, true_x2: int, **given: Any) -> CommandAnswer:
    """How often the level above changes the intruder's decision, and which way (section 4.3.1)."""
    made = intruder.decisions(intruder.Truth(true_x1, true_x2), **given)
    rows = [{"method": given["method"]} | vars(made)]
    return _answer("Share of all that may be published", rows)


def _one(rho: Sequence[Fraction], epsilon: Sequence[Fraction]) -> dict[str, Any]:
    if len(rho) + len(epsilon) != 1:
        raise UserError("give one --rho or one --epsilon", where="das risk")
    return {"rho": float(rho[0])} if rho else {"epsilon": float(epsilon[0])}


def _many(rho: Sequence[Fraction], epsilon: Sequence[Fraction]) -> dict[str, Any]:
    if bool(rho) == bool(epsilon):
        raise UserError("give --rho or --epsilon, once for each level", where="das risk")
    return {"rho": [float(r) for r in rho]} if rho else {"epsilon": [float(e) for e in epsilon]}


def _answer(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    private: Private = True,
    warning: str = WARNING,
    before: str = "",
    after: Sequence[str] = (),
) -> CommandAnswer:
    """Rows as a table, with what it means ``before`` it, and sentences ``after``."""

    def show() -> None:
        warn(private, warning)
        if before:
            click.echo(f"{before}\n")
        console().print(records_table(title, rows))
        for sentence in after:
            click.echo(sentence)

    return CommandAnswer(marked_rows(rows, private), show)
