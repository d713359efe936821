r"""The intruder: the exact decision map next to the sampler of Kazan and Reiter, and what
post-processing leaves him.

*Map.* The 9 x 9 x 61 decisions of their figure 4 are summed exactly, and compared with their Gibbs
sampler at 1,000 draws a tile. Here that runs for all tiles at once, which is kinder to it than one
by one. ``disagree`` is the share of tiles where the sampler decides otherwise than its own
stationary distribution.

*Post-processing.* One run of the whole pipeline on a tree of many groups of 28 units. In half of
the groups the first unit holds the target, alone in his cell; the budget of the two levels is that
of the 2020 application. The intruder learns from half of the groups and meets the other half. He
knows that nobody else is in the cell, so the noisy measurements would have told him what two counts
tell (:mod:`das.risk.joint`): post-processing cannot tell him more."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Figures, timed
from das import risk
from das.files.microdata import reading as microdata_reading
from das.release.opened import open_release
from das.runs.pipeline import run
from das.spec import parse
from studies.kazan_reiter.figures import OTHERS, RHO
from studies.kazan_reiter.post_processing import learned

X1, X2, Y1 = range(-3, 6), range(-3, 6), range(-30, 31)
GIVEN: dict[str, Any] = {"rho1": RHO[0], "rho2": RHO[1], "d": OTHERS, "prior": 0.5}
COUNTRY = RHO[2]
CONFIG = """
[run]
name = "risk"
[data]
reader = "table"
path = [{path}]
columns.count = "n"
columns.geography = {{ Group = "group", Unit = "unit" }}
[schema]
name = "cell"
attributes.cell = ["target", "other"]
[geography]
levels = ["Country", "Group", "Unit"]
[budget]
rho = "{rho}"
neighbours = "unbounded"
[budget.levels]
Country = "{country}"
Group = "{group}"
Unit = "{unit}"
[budget.queries]
Country.detailed = "1"
Group.detailed = "1"
Unit.detailed = "1"
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.risk", description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--groups", type=int, default=600, help="of each kind")
    given = parser.parse_args(arguments)
    figures = Figures("risk")
    _map(figures, given.repeats)
    _post_processing(figures, given.groups)


def _map(figures: Figures, repeats: int) -> None:
    exact = timed(lambda: risk.decision_map(X1, X2, Y1, **GIVEN), repeats)
    peer = timed(lambda: _sampled(1000), 1)
    law = risk.decision_map(X1, X2, Y1, **GIVEN, method="gibbs-unconstrained")
    right = risk.decision_map(X1, X2, Y1, **GIVEN)
    drawn = _sampled(1000)
    figures("exact decision map, 4,941 data", exact.cpu, "s", at_most=1.0)
    figures(
        "ratio to the sampler",
        peer.cpu / exact.cpu,
        "times",
        at_least=100,
        sampler_seconds=peer.cpu,
        disagree=float((drawn != law).mean()),
        sampler_law_wrong=float((law != right).mean()),
    )


def _sampled(draws: int) -> np.ndarray:
    """The published sampler (equations 30 and 35) for every tile at once: the decision by the share
    of X1 = 1.
    """
    rng = np.random.default_rng(1)
    r1, r2 = float(RHO[0]), float(RHO[1])
    x1, x2, y1 = (a.ravel() for a in np.meshgrid(X1, X2, Y1, indexing="ij"))
    upper = np.arange(40)
    precision = r2 + r1 / OTHERS
    cumulative = []
    for a in (0, 1):
        center = (r2 * x2 + r1 / OTHERS * (y1 + a)) / precision
        w = np.where(upper >= a, np.exp(-precision * (upper - center[:, None]) ** 2), 0)
        cumulative.append(np.cumsum(w / w.sum(axis=1, keepdims=True), axis=1))
    now, ones = np.zeros(len(x1), dtype=bool), np.zeros(len(x1))
    for _ in range(draws):
        table = np.where(now[:, None], cumulative[1], cumulative[0])
        b = (table < rng.random(len(x1))[:, None]).sum(axis=1)
        odds = r1 * (2 * x1 - 1) - r1 / OTHERS * (2 * (y1 - b) + 1)
        now = rng.random(len(x1)) < 1 / (1 + np.exp(-odds))
        ones += now
    return (ones > draws / 2).reshape(len(X1), len(X2), len(Y1))


def _post_processing(figures: Figures, groups: int) -> None:
    total = COUNTRY + RHO[1] + RHO[0]
    shares = {"country": COUNTRY / total, "group": RHO[1] / total, "unit": RHO[0] / total}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "people.csv")
        table.write_text(_people(groups), encoding="utf-8")
        spec = parse(CONFIG.format(path=f'"{table}"', rho=total, **shares), where="benchmark")
        out = run(spec, Path(folder, "run")).directory
        opened = open_release(out.release)
        lowest = microdata_reading.read(
            out.release / "microdata" / "persons", spec.persons, opened.spine.codes[-1]
        )
    target = lowest.dense()[:, 0].reshape(2 * groups, OTHERS + 1)
    seen = np.stack([target[:, 0], target.sum(axis=1)], axis=1)
    found = learned(seen[::2], seen[1::2], 0.5)
    alone = float(risk.marginal_posterior(rho=RHO[0], prior=0.5))
    noisy = float(risk.joint_marginal_posterior(rho=RHO[:2], prior=0.5))
    figures(
        "average posterior of the truth after post-processing",
        found.marginal,
        "probability",
        at_most=noisy + 3 * found.marginal_error,
        standard_error=found.marginal_error,
        noisy_counts=noisy,
        noisy_lower_count_alone=alone,
    )
    figures(
        "right decisions after post-processing",
        found.correct,
        "share",
        at_most=risk.joint_decision_probability(rho=RHO[:2], prior=0.5) + 3 * found.correct_error,
        standard_error=found.correct_error,
        noisy_counts=risk.joint_decision_probability(rho=RHO[:2], prior=0.5),
    )


def _people(groups: int) -> str:
    """Groups of 28 units with five others each; in every second group the first unit holds the
    target.
    """
    lines = ["group,unit,cell,n"]
    for g in range(2 * groups):
        for u in range(OTHERS + 1):
            lines.append(f"{g:06d},{g:06d}{u:02d},other,5")
            if u == 0 and g % 2 == 0:
                lines.append(f"{g:06d},{g:06d}{u:02d},target,1")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
