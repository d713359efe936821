"""``das plan --optimise`` for the DHC: shares of one universe, from the cells of a release."""

from __future__ import annotations

import click

from das.accounting.pairs import pair_limits
from das.cli.optimise import OptimiseOptions, made_from, show, toml_of
from das.cli.options import exact_option
from das.engine.display import Live
from das.errors import UserError
from das.files import packaged
from das.files.run.run_directory import release_of
from das.jobs import large_ground, optimising
from das.jobs.epsilon_guards import guarded_losses
from das.model.kinds import PERSONS
from das.model.spelling import named
from das.release.dhc import open_dhc
from das.release.dhc_files import tables_of
from das.spec.dhc import DhcSpec
from das.spec.dhc_budget import all_of_production, dhc_budget_toml
from das.spec.targets import new_measurements, read_targets, target_set_of


def show_dhc_optimum(
    spec: DhcSpec, universe: str | None, asked: OptimiseOptions, as_toml: bool, as_json: bool
) -> None:
    """Levels without a target keep their shares. Raises :class:`UserError` for what does not fit
    the DHC."""
    if asked.like is None:
        raise UserError(
            "the DHC is planned from the cells of an earlier release",
            where="--optimise",
            remedy="name a release of the DHC with --like",
        )
    where, levels = str(asked.targets), spec.geography.levels
    names = [u.name for u in spec.universes]
    own = spec.universe(named(universe or PERSONS.name, names, "universe", "--universe"))
    written = read_targets(packaged.targets(asked.targets), where=where)
    if written.area:
        raise UserError("areas are no target of the DHC", where=f"{where}, area")
    u = large_ground.with_new(own, new_measurements(written, own.schema, levels, where))
    pairs = [(d.level, d.query) for d in u.plan.plain]
    tables = [t.name for t in tables_of(u.name)]
    target_set = target_set_of(
        written, asked.objective, asked.keep, u.schema, levels, pairs, where, tables
    )
    rho = own.plan.cost if asked.rho is None else exact_option("--rho", asked.rho)
    losses = guarded_losses(written.epsilon.each, spec, u.name, where, u.plan)
    most = all_of_production(spec, u.name)
    limits = pair_limits(u.schema, pairs, *most) if written.epsilon.pairs else {}
    at = list(dict.fromkeys(t.estimand.place for t in target_set.targets))
    with Live(quiet=as_json or as_toml) as shown:
        ground = large_ground.of_units(u, open_dhc(release_of(asked.like)), at)
        held = large_ground.holding(target_set, u)
        best = optimising.optimum(u, held, ground, rho, shown, losses, limits)
        found = large_ground.at_levels(best, at)
    if as_toml:
        made = made_from(found, asked.targets.name)
        tables_toml = dhc_budget_toml(spec, u.name, found.plan, made)
        click.echo(toml_of(found, asked.targets.name, tables_toml), nl=False)
    else:
        show(found, spec, u.name, u.kind.records, as_json)
