"""The page of an office's register: what was spent, by publication and year, what is left, and
epsilon of all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import nextafter

from markupsafe import Markup

from das.accounting.document import decimal
from das.accounting.statement import CURVE
from das.model.mechanisms import EPSILON, RHO
from das.model.not_private import CELL
from das.register.book import Cap, Entry, Register
from das.report.chart import Chart
from das.report.figures import PUBLISHED, height_of
from das.report.panel import INK, Look, Words, short
from das.report.template import render

#: An entry in words, by column.
RegisterRow = Mapping[str, str]


@dataclass(frozen=True)
class RegisterFacts:
    """What a reader wants to know of a register. ``relation`` says what its numbers are for, and
    ``populations`` are those that one person can be in at the highest cost. If not ``exact``,
    ``spent`` is an upper bound. ``sums`` has what each publication and year of them costs in rho, and
    ``curve`` epsilon of all of them at several deltas."""

    cap: Cap
    relation: str
    whole: bool
    spent: Fraction
    exact: bool
    left: Fraction
    populations: Sequence[str]
    rows: Sequence[RegisterRow]
    sums: Mapping[str, Fraction]
    curve: Sequence[tuple[Fraction, float]]
    head: str
    notes: Sequence[str]

    @staticmethod
    def of(register: Register, head: str, no_witness: str) -> RegisterFacts:
        """``no_witness`` is noted where the register has none."""
        cap, relation, spent = register.opening.cap, register.opening.relation, register.spent
        found, sums = register.spendings(spent.populations), Counter[str]()
        for e in register.standing.values():
            if e.population in spent.populations:
                sums[f"{e.name}, {e.when[:4]}"] += e.spending.rho  # type: ignore[assignment]
        return RegisterFacts(
            cap,
            relation.title,
            relation.whole,
            spent.cost,
            spent.exact,
            register.left,
            sorted(spent.populations),
            [_row(register, n, e) for n, e in register.entries.items()],
            {name: Fraction(rho) for name, rho in sums.items()},
            [(d, _up(Cap(EPSILON, Fraction(1), d).spent(found))) for d in CURVE] if found else [],
            head,
            [] if register.opening.witness else [no_witness],
        )

    @property
    def who(self) -> str:
        if not self.populations:
            return "by nobody"
        one = "household" if self.whole else "person"
        return f"by one {one} in {', '.join(self.populations)}"

    @property
    def at_most(self) -> str:
        """Before the number that was spent."""
        return "" if self.exact else "at most "


def _up(value: Fraction) -> float:
    """The float at a number, or the next above."""
    near = float(value)
    return near if Fraction(near) >= value else nextafter(near, float("inf"))


def _row(register: Register, n: int, e: Entry) -> RegisterRow:
    state = "spent" if e.private else f"spent; {CELL}"
    return {
        "line": str(n),
        "publication": e.title,
        "name": e.name,
        "population": e.population,
        "year": e.when[:4],
        "kind": e.kind,
        "stated": f"rho {figure_of(e.spending.stated)}, {e.spending.neighbours}",
        "counted, rho": figure_of(e.spending.rho),
        "state": f"given up: {register.void[n]}" if n in register.void else state,
    }


def figure_of(value: Fraction) -> str:
    """Exactly where that is short."""
    return str(value) if len(str(value)) <= 6 else f"{float(value):.6g}"


def register_page(facts: RegisterFacts, name: str) -> str:
    """One self-contained page."""
    return render(
        "register.html",
        name=name,
        private=True,
        facts=facts,
        spent=figure_of(facts.spent),
        left=figure_of(facts.left),
        figures=[Markup(f) for f in (_bars(facts), _curve(facts))] if facts.sums else [],
        curve=[(decimal(d), e) for d, e in facts.curve],
    )


def _bars(facts: RegisterFacts) -> str:
    """What each publication costs in rho, all together, and the cap."""
    total = sum(facts.sums.values(), Fraction(0))
    values = {**facts.sums, "all together": total}
    words = [short(w) for w in values]
    chart = Chart(4.6, 1.2 + height_of(words, 0.13))
    rows = [(0.0, float(v), y - 0.325, y + 0.325) for y, v in enumerate(values.values())]
    chart.bars(rows, Look(INK, face=PUBLISHED, width=0.6))
    for y, value in enumerate(values.values()):
        chart.say(Words(f"{float(value):.4g}", float(value), y, 4))
    most = float(total)
    if facts.cap.currency == RHO:
        most = max(most, float(facts.cap.most))
        chart.rule(float(facts.cap.most), upright=True, dash="--")
    chart.x.low, chart.x.high = 0.0, most * 1.2
    chart.rows(words)
    chart.ends_at("rho (dashed: the cap)" if facts.cap.currency == RHO else "rho")
    chart.finish("Spent, by publication and year", 0)
    return chart.svg("spent", "What each publication has cost, in rho, and the cap of the register")


def _curve(facts: RegisterFacts) -> str:
    """Epsilon against delta."""
    chart = Chart(4.6, 3.2)
    chart.x.log = True
    deltas, epsilons = zip(*((float(d), e) for d, e in facts.curve), strict=True)
    chart.plot(deltas, epsilons, Look(PUBLISHED, "-", "o", size=4))
    if facts.cap.delta is not None:
        at = float(facts.cap.delta), float(facts.cap.most)
        chart.plot((at[0],), (at[1],), Look(INK, mark="D"), "the cap")
    chart.x.ticks = [(float(d), decimal(d)) for d in [d for d, _ in facts.curve][::2]]
    chart.x.label, chart.y.label = "delta", "epsilon"
    chart.y.low = 0.0
    chart.finish(f"Epsilon of all that was spent {facts.who}", 1)
    return chart.svg("curve", "Epsilon of everything spent, against delta")
