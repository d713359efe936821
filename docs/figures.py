"""Where the figures of the pages come from: what expressions in ``docs/claims.toml`` may name."""

from __future__ import annotations

import csv
import json
import tempfile
import tomllib
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from math import log, log10, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import tomli_w
from click.testing import CliRunner

import das
from das import accounting
from das.accounting.codec import plain
from das.accounting.planning import least_cost
from das.accounting.statement import account
from das.cli import main
from das.estimate import least_squares
from das.model import measured_spine as subtrees
from das.model import post_processing as passes
from das.model.budget import Neighbours
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.names import STATES
from das.model.redistricting import PL94
from das.noise import discrete_gaussian, discrete_laplace
from das.publications.dhc.model import strategy as dhc
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.truth import evaluation as assessed
from das.publications.sdhc.from_dhc import summed, used
from das.publications.sdhc.least_squares import estimated
from das.publications.sdhc.model.tables import MeasuredRegions, answers, column, variances
from das.publications.sdhc.spec import LEVELS
from das.spec import parse
from das.tools.protection.truth.methods.swapping import conditional_epsilon

__all__ = [
    "DHCH",
    "DHCP",
    "PL94",
    "RHODE_ISLAND",
    "TENVACGQ",
    "Fraction",
    "accounting",
    "assessed",
    "change",
    "conditional_epsilon",
    "curve",
    "dhc",
    "discrete_gaussian",
    "discrete_laplace",
    "epsilon",
    "groups",
    "joint",
    "least",
    "least_squares",
    "log",
    "log10",
    "measured",
    "nation",
    "normal",
    "on_path",
    "passes",
    "plan",
    "sd",
    "sdhc",
    "share",
    "sqrt",
    "student",
    "su_su_wang",
    "subtrees",
    "together",
    "whole",
]

ROOT = Path(__file__).resolve().parents[1]
#: Units of the levels of the state in 2010, and whose production budget they have.
RHODE_ISLAND = {"State": 1, "County": 5, "Tract_Subset": 244, "Block_Group": 815, "Block": 25_181}
Out = Mapping[str, Any]  #: JSON of a command


def epsilon(
    out: Out, of: str = "total", delta: str = "1e-10", *, agree: bool = False, by: str = "pld"
) -> float:
    """Of what ``das account`` or ``das check`` prints: the stated epsilon of a universe, or of all;
    the upper end of an interval.
    """
    part = out["guarantee_of_neighbours_that_agree" if agree else "guarantee"][of]["epsilon"]
    (row,) = [row for row in part if row["delta"] == delta]
    return float(row[by][1] if by == "pld" else row[by])


def change(out: Out, says: str, of: str = "persons", *, by: str = "pld") -> list[float]:
    """Rho and epsilon of a single change, by how the account names it."""
    (row,) = [row for row in out["changes"][of] if row["says"] == says]
    return [float(Fraction(row["rho"])), row["pld"][1] if by == "pld" else row[by]]


def joint(out: Out, name: str, *, alike: bool = False) -> list[float]:
    """Of a joint account, for a named relation: rho, epsilon by its upper end, and by the tight and
    the simple conversion."""
    (relation,) = [row for row in out["relations"] if row["name"] == name]
    (case,) = [c for c in relation["cases"] if c["alike"] is alike and not c["same_invariants"]]
    e = case["epsilon"]
    return [float(Fraction(case["rho"])), e["pld"][1], e["tight"], e["simple"]]


@cache
def plan(*changes: str, config: str = "pl94-2010") -> Any:
    """The plan of the persons of a packaged configuration, over the spine of tabulation unless it
    is said otherwise.
    """
    return das.load_spec(
        ROOT / "configs" / f"{config}.toml", ["geography.spine=tabulation", *changes]
    ).persons.plan


@cache
def whole(config: str) -> Out:
    """What ``das account`` prints of a packaged configuration over the spine of tabulation, where
    States are whole units and nobody is an only child."""
    text = (ROOT / "configs" / f"{config}.toml").read_text(encoding="utf-8")
    tree = tomllib.loads(text)
    levels = tree["geography"]["levels"]
    tree["geography"] = {"levels": levels, "spine": "tabulation"}
    spec = parse(tomli_w.dumps(tree), where=config)
    draws = {u.name: u.plan.measurements for u in spec.universes}
    return plain(account(spec.terms, draws))


def sd(level: str, query: str) -> float:
    """Standard deviation of the noise of one draw of ``pl94-2010``."""
    return sqrt(next(d.parameter for d in plan().at(level) if d.query == query))


#: Of Su, Su and Wang, in tenths of a percent of 3.65; ten queries a level.
SU_SU_WANG = {
    "US": "2",
    "State": "27.4",
    "County": "8.5",
    "PEPG": "13.1",
    "TSG": "13.1",
    "TS": "23.8",
    "OBG": "11.8",
    "Block": "0.3",
}


def su_su_wang(*levels: str) -> list[tuple[Fraction, int]]:
    """Its draws of these levels, or of all: pairs of a variance and how many answers differ by
    1.
    """
    return [
        (1000 / (2 * Fraction("3.65") * Fraction(SU_SU_WANG[level])), 10)
        for level in levels or SU_SU_WANG
    ]


def curve(draws: Any, *deltas: str) -> list[float]:
    """The upper end of epsilon at each delta."""
    return [high for _, high in accounting.curve(draws, list(deltas))]


def measured(strategy: Any, units: Mapping[str, int]) -> int:
    """How many numbers it measures of so many units of each level."""
    return sum(
        n * sum(strategy.schema.query(q).answers for q in strategy.rho[level])
        for level, n in units.items()
    )


def share(level: str, query: str | None = None) -> float:
    """What part of the rho of ``pl94-2010`` a level takes, or one of its draws."""
    some = [d.cost for d in plan().at(level) if query in (None, d.query)]
    return float(sum(some, Fraction(0)) / plan().cost)


def together(*sds: float) -> float:
    """The standard deviation of what is measured several times, all taken together."""
    return 1 / sqrt(sum(1 / s**2 for s in sds))


def on_path(attribute: str, *classes: str) -> float:
    """Epsilon, from rho alone, of a change of an attribute at a place whose path has these classes
    of bypassed units and no others.
    """
    whole = das.load_spec(ROOT / "configs" / "pl94-2010.toml").persons.plan
    (path,) = [
        p
        for p in whole.paths
        if {c for level, c in p if c not in (level, "unmeasured")} == set(classes)
    ]
    at = [a.name for a in PL94.attributes].index(attribute)
    costs = [
        d.cost
        for d in whole.along([path]).measurements
        if not PL94.query(d.query).groupings[at].is_total
    ]
    return accounting.tight(sum(costs, Fraction(0)), Fraction("1e-10"))


def least(margin: int, coverage: float) -> float:
    """Rho of the cheapest draw that keeps a margin of error, bounded neighbors."""
    return float(least_cost(DISCRETE_GAUSSIAN, Neighbours.BOUNDED, margin, coverage))


def sdhc(table: str, iteration: str, *cells: int, config: str = "sdhc-2020") -> float:
    """Standard error of a sum of cells of a state: of measurements in 2020 (``sdhc-2020-phsafe``),
    after least squares, or of that with a release of the DHC (``with the DHC``).
    """
    covariance = _sdhc_covariance(config)
    at = [column(table, iteration, c) for c in cells]
    return sqrt(covariance[np.ix_(at, at)].sum())


@cache
def _sdhc_covariance(config: str) -> Any:
    name = "sdhc-2020" if config == "with the DHC" else config
    states = [s.fips for s in STATES if s.fips != "72"]
    spec = das.load_spec(ROOT / "configs" / f"{name}.toml", [f"sdhc.states={states}"])
    regions = {"usa": 1, "state": len(states)}
    levels = [
        MeasuredRegions(
            level,
            spec.regions(level),
            np.zeros((n, len(answers())), dtype=np.int64),
            variances(spec.events(level)),
        )
        for level, n in regions.items()
    ]
    if name != "sdhc-2020":
        return np.diag(np.where(np.isfinite(levels[1].variance), levels[1].variance, 0))
    of = {"households": dhc.households(), "persons": dhc.persons()}
    more = [
        summed(
            lv, q, np.zeros((n, len(q.used))), 1 / float(of[q.universe].rho[LEVELS[lv]][q.query])
        )
        for lv, n in regions.items()
        for q in used(spec)
    ]
    return estimated(levels, True, more if config == "with the DHC" else ())[1].covariance


def nation(what: str) -> int:
    """A sum over the states or counties of 2020, as the simulated nation has them; of ``counties``
    their number.
    """
    total = 0
    for name in ("states_2020.csv", "counties_2020.csv"):
        lines = (
            (ROOT / "das" / "files" / "simulators" / name).read_text(encoding="utf-8").splitlines()
        )
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
        if what == "counties":
            total = len(rows)
        elif what in rows[0]:
            total = sum(int(row[what]) for row in rows)
    return total


def normal(p: float) -> float:
    """A quantile."""
    return NormalDist().inv_cdf(p)


def student(p: float, degrees: int) -> float:
    """The same of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, p))


@cache
def _groups(product: str) -> Any:
    """The plan of simulated detailed groups, which have the budgets of 2020."""
    with tempfile.TemporaryDirectory() as folder:
        made = [
            [
                "data",
                "simulate",
                "detailed",
                "--out",
                folder,
                "--seed",
                "1",
                "--persons",
                "1800",
                "--product",
                product,
                "--quiet",
            ],
            ["detailed", "plan", f"{folder}/parameters", "--product", product, "--json"],
        ]
        done = [CliRunner().invoke(main, words) for words in made]
    return json.loads(done[-1].stdout)["options"]["now"]["losses"]


def groups(product: str, line: int) -> list[float]:
    """Of detailed groups: rho, epsilon exactly, and epsilon by the simple conversion of rho, of one
    line of their losses.
    """
    loss = _groups(product)[line]
    return [
        float(Fraction(loss["cost"])),
        loss["epsilon"][1],
        accounting.bun_steinke(Fraction(loss["cost"]), Fraction("1e-10")),
    ]
