"""What an intruder learns from a release of the Detailed DHC."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path

import click

from das.accounting import delta, tradeoff
from das.cli.kit.console import CommandAnswer, answering, console, records_table
from das.cli.kit.options import PATH
from das.errors import UserError
from das.publications.detailed.model.tables import LevelPlan, Parameters
from das.publications.detailed.planning.command import PRODUCT, read
from das.publications.detailed.planning.losses import compositions
from das.publications.detailed.planning.margins import published, sizes

# What a release of the Detailed DHC reveals to an intruder: whether one person was counted, and
# how large a group was.
#
# *Membership.* The intruder knows all other records, the person's codes and their place, and asks
# whether the person was counted. This is a test between two neighbors. Let a test have false alarms
# in a share :math:`\alpha` of cases. The best such test finds the person in :math:`1 - f(\alpha)` of
# cases, where f is the trade-off function of the draws that differ (:func:`das.accounting.tradeoff`).
# It is the exact function for all levels and both stages together, because the intruder sees all of
# them. The size of a table reveals nothing beyond the first stage. At even odds the best guess is
# right with probability :math:`\tfrac12(1 + \delta(0))`. A person who is known to have reported one
# code of race is in two groups of a level, and is found less often.
#
# *Sizes.* The size of a table is public, too, and so is the fact that a total is not published. It
# follows from noisy counts, which are also published here. A reader of only the tables learns from it
# that the group has few people, or many. A reader cannot exclude a number n at a level of 5 % if,
# with n people, the observed outcome has a probability above 5 %. These n are an exact confidence
# interval, because larger groups have larger tables.

#: Rates of false alarms: how often an intruder names somebody who was not counted.
ALARMS = (Fraction(1, 1000), Fraction(1, 100), Fraction(1, 20))
EXCLUDED = 0.05


@dataclass(frozen=True)
class Membership:
    """What an intruder can find out about a person with ``race_codes`` codes of race (``None``: as
    many as are read), and with or without an ``ethnic`` group. ``right``: how often the best guess
    at even odds is right. ``found``: the share of such persons that is found, by rate of false
    alarms. All are upper ends of intervals."""

    run: str
    race_codes: int | None
    ethnic: bool
    right: float
    found: tuple[tuple[Fraction, float], ...]


def membership(
    parameters: Parameters,
    run: str,
    race_codes: int | None = None,
    ethnic: bool = True,
    alarms: Sequence[Fraction] = ALARMS,
) -> Membership:
    """Raises :class:`UserError` for pure differential privacy, because the exact test is not worked
    out here for its noise."""
    if parameters.mechanism.pure:
        raise UserError(
            "the exact chances of an intruder are those of discrete Gaussian noise",
            where="privacy_defn",
            remedy='"puredp" bounds them by its epsilon: 1 / (1 + exp(-epsilon)) at even odds',
        )
    every = compositions(parameters, (run,), race_codes, ethnic)
    right = max(0.5 + 0.5 * delta(c, Fraction(0))[1] for c in every)
    found = [
        max(1 - low for low, _ in at)
        for at in zip(*(tradeoff(c, alarms) for c in every), strict=True)
    ]
    return Membership(run, race_codes, ethnic, right, tuple(zip(alarms, found, strict=True)))


@dataclass(frozen=True)
class DisclosureBySize:
    """What is ``seen`` of a group at a level, and the numbers of people that it does not exclude:
    ``least`` to ``most``, or without a ``most`` if it excludes no large number."""

    level: str
    seen: str
    least: int
    most: int | None


def disclosures(plan: LevelPlan, chance: Fraction) -> tuple[DisclosureBySize, ...]:
    """The disclosure by each size of table, and by a total that is not published."""
    if not plan.first:
        return ()
    out, last, ends = [], len(plan.thresholds), [0, *plan.thresholds]
    for size in range(last + 1):
        seen = partial(_reaches, plan, size) if size else partial(published, plan, chance)
        most = (
            None
            if size == last
            else _first(partial(_reaches, plan, size + 1), 1 - EXCLUDED, ends[size]) - 1
        )
        out.append(
            DisclosureBySize(
                plan.at.name,
                f"table of size {size}" if size else "total alone",
                _first(seen, EXCLUDED, 0),
                most,
            )
        )
    if published(plan, chance, 0) < 1:
        out.insert(
            0,
            DisclosureBySize(
                plan.at.name,
                "not published",
                0,
                _first(partial(published, plan, chance), 1 - EXCLUDED, 0) - 1,
            ),
        )
    return tuple(out)


def _reaches(plan: LevelPlan, size: int, people: int) -> float:
    """The probability of a table of that size or a larger one."""
    return float(sizes(plan, people)[size:].sum())


def _first(chance: Callable[[int], float], least: float, start: int) -> int:
    """The smallest n, from ``start`` on, with a chance of at least ``least``; the chance grows with
    n."""
    if chance(start) >= least:
        return start
    low, step = start, 1
    while chance(low + step) < least:
        low, step = low + step, 2 * step
    high = low + step
    while low + 1 < high:
        middle = (low + high) // 2
        low, high = (low, middle) if chance(middle) >= least else (middle, high)
    return high


#: The persons for whom chances are stated: how many codes of race they are known to have written,
#: and whether their ethnicity is in a group.
PERSONS = {
    "one code of race": (1, False),
    "one code of race, and an ethnicity": (1, True),
    "as many codes as are read, and an ethnicity": (None, True),
}


@click.command()
@click.argument("folder", metavar="PARAMETERS", type=PATH)
@PRODUCT
@answering
def risk(folder: Path, product: str | None) -> CommandAnswer:
    """What an intruder learns about one person, and about the size of a group, from a release with
    these PARAMETERS.

    The intruder knows all other records and sees every level and both stages. Probabilities are
    exact, for the best possible test."""
    parameters = read(folder, product)
    found = [
        (who, membership(parameters, run, *of))
        for run in parameters.runs
        for who, of in PERSONS.items()
    ]
    seen = [
        s
        for run in parameters.runs
        for plan in parameters.plans(run)
        for s in disclosures(plan, parameters.chance)
    ]
    members = [{"who": who, **_row(m)} for who, m in found]
    data = {
        "product": parameters.product.name,
        "membership": members,
        "sizes": [asdict(s) for s in seen],
    }
    return CommandAnswer(data, lambda: _show(found, seen))


def _show(memberships: Sequence[tuple[str, Membership]], seen: Sequence[DisclosureBySize]) -> None:
    screen = console()
    screen.print(
        records_table(
            "Whether somebody was counted: right guesses at even odds, and who is found by false"
            " alarms",
            [{"who": who, **_shown(m)} for who, m in memberships],
        )
    )
    if seen:
        rows = [
            {
                "level": s.level,
                "seen": s.seen,
                "from": f"{s.least:,}",
                "to": "any" if s.most is None else f"{s.most:,}",
            }
            for s in seen
        ]
        screen.print(
            records_table(
                "How many people a group can have when this is published (other sizes would give"
                " it in at most one case of twenty)",
                rows,
            )
        )


def _row(m: Membership) -> dict[str, object]:
    return {
        "run": m.run,
        "right": m.right,
        "found": {str(alarm): share for alarm, share in m.found},
    }


def _shown(m: Membership) -> dict[str, str]:
    shares = {f"found, {float(alarm):.1%} false alarms": f"{share:.1%}" for alarm, share in m.found}
    return {"run": m.run, "right": f"{m.right:.1%}", **shares}
