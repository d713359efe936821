"""The page of a study of protection methods. Every number comes from its summary; the page says what
each is, and what none of them can show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, floor, log10
from types import MappingProxyType
from typing import Any

from markupsafe import Markup

from das.model.frozen import NoRepr
from das.model.names import level_words
from das.report.chart import Chart, Picture
from das.report.panel import MarkStyle, Panel, Words, plain, short, width_of
from das.report.template import figure, render

# The lines of ``results.csv`` and ``summary.csv`` of a study of protection methods.

#: The values of ``tables``: the published ones alone, or with those of another product.
PUBLISHED, WITH_ALSO = "published", "published and also"


@dataclass(frozen=True, repr=False)
class FrontierRow(NoRepr):
    """One measure of one point of the frontier: a line of ``results.csv``.

    A point is a ``curve``, its ``setting`` (from 0; ``label`` in words, ``named`` where the study
    names a published one), the ``tables`` that were attacked, and a ``repeat``. ``measure`` says what ``value`` is. ``persons`` names the group of
    persons of a score (``nonmodal unique``; with the size of their unit, and ``unique`` for units
    whose records the tables determine). ``level``, ``use`` and ``column`` are those of an error or
    of withheld lines. ``of`` is the denominator; ``se`` the standard error of the sample of places,
    empty where all were taken or one alone."""

    curve: str
    setting: int
    label: str
    named: str
    method: str
    guarantee: str
    random: str
    tables: str
    repeat: int
    measure: str
    persons: str
    level: str
    use: str
    column: str
    value: float | None
    of: float
    se: float | None


@dataclass(frozen=True, repr=False)
class FrontierMean(NoRepr):
    """A measure over the ``repeats`` of a setting: a line of ``summary.csv``. ``low`` and ``high``
    are the interval at 95 % of the mean over keys, empty with fewer than two; ``se`` is the
    standard error of the sample of places, over all repeats together."""

    curve: str
    setting: int
    label: str
    named: str
    method: str
    guarantee: str
    random: str
    tables: str
    repeats: int
    measure: str
    persons: str
    level: str
    use: str
    column: str
    value: float | None
    low: float | None
    high: float | None
    se: float | None

    @property
    def place(self) -> tuple[str, str, str, str, str]:
        """What is measured."""
        return self.measure, self.persons, self.level, self.use, self.column


# The figures of a study of protection methods: the risk-utility map, and what is withheld.

#: The color of each kind of statement, in the words of :class:`das.tools.protection.truth.method.Guarantee`.
COLORS = {"formal": "#0072B2", "conditional": "#B8860B", "none": "#8C2D04"}
_MARKS = ("o", "s", "^", "D", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":")
#: What the vertical axis shows.
ABOVE, UNIQUES = "above baseline", "nonmodal unique"
#: With fewer people who stand out, there is no conclusion.
FEWEST = 30
#: Words in titles that are names, also within a sentence.
_NAMES = {"Hispanic", "Latino"}
#: Where a label can stand: points to the right and down of its mark, and how it is anchored.
_AROUND = (
    (7, 0, "start"), (-7, 0, "end"), (0, -9, "middle"), (0, 9, "middle"),
    (6, -8, "start"), (6, 8, "start"), (-6, -8, "end"), (-6, 8, "end"),
    (14, 0, "start"), (0, -17, "middle"), (0, 17, "middle"), (-14, 0, "end"),
)  # fmt: skip


@dataclass(frozen=True)
class ShownSetting:
    """A setting of a curve: its number on the page, and its measures by what they are of."""

    number: int
    first: FrontierMean
    measures: Mapping[tuple[str, str, str, str, str], FrontierMean] = field(repr=False)
    spelt: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def name(self) -> str:
        """On the map; with a prime where another product's tables were attacked, too."""
        return f"{self.number}" + "′" * (self.first.tables != PUBLISHED)

    @property
    def words(self) -> str:
        """What it is, with queries and levels in words."""
        said, first = self.first.label, self.first
        for name, words in self.spelt.items():
            said = said.replace(name, words)
        return said + (f" ({first.named})" if first.named else "")

    def get(
        self, measure: str, persons: str = "", level: str = "", use: str = "", column: str = ""
    ) -> FrontierMean | None:
        return self.measures.get((measure, persons, level, use, column))

    def value(
        self, measure: str, persons: str = "", level: str = "", use: str = ""
    ) -> float | None:
        found = self.get(measure, persons, level, use)
        return None if found is None else found.value


def shown_settings(
    means: Sequence[FrontierMean], spelt: Mapping[str, str] = MappingProxyType({})
) -> list[ShownSetting]:
    """The settings in their order. One has the same number with and without other tables. Names in
    their labels are ``spelt`` in words."""
    numbers: dict[tuple[str, int], int] = {}
    found: dict[tuple[str, int, str], dict[tuple[str, str, str, str, str], FrontierMean]] = {}
    for m in means:
        numbers.setdefault((m.curve, m.setting), len(numbers) + 1)
        found.setdefault((m.curve, m.setting, m.tables), {})[m.place] = m
    return [
        ShownSetting(numbers[curve, setting], next(iter(each.values())), each, spelt)
        for (curve, setting, _), each in found.items()
    ]


def risk_utility_map(settings: Sequence[ShownSetting], use: str, level: str, said: str) -> Chart:
    """Error of a use across, confirmed nonmodal uniques above the baseline upwards."""
    chart = Chart(8.6, 5.4)
    drawn = [
        (s, x, y)
        for s in settings
        if (x := s.value("error", level=level, use=use)) is not None
        and (y := s.get(ABOVE, UNIQUES)) is not None
        and y.value is not None
    ]
    _axes(chart, [x for _, x, _ in drawn], [float(y.value or 0) for _, _, y in drawn])
    _baselines(chart, settings)
    at: list[tuple[ShownSetting, float, float]] = []
    for i, curve in enumerate(dict.fromkeys(s.first.curve for s in settings)):
        mine = [(s, x, y) for s, x, y in drawn if s.first.curve == curve]
        for own in (True, False):
            some = [
                (s, x, float(y.value or 0), y)
                for s, x, y in mine
                if (s.first.tables == PUBLISHED) == own
            ]
            if some:
                _curve(chart, some, i, curve if own else "")
                at += [(s, x, y) for s, x, y, _ in some]
    chart.x.label = said
    chart.y.label = "confirmed above baseline, % of nonmodal uniques"
    chart.finish("", 3)
    _labels(chart, at)
    return chart


def _axes(chart: Chart, xs: Sequence[float], ys: Sequence[float]) -> None:
    """Errors on a logarithmic scale, with zero at its left where there is one. Intervals over few
    keys are wide; they may reach beyond the axis."""
    positive = [x for x in xs if x > 0] or [1.0]
    ends = min(positive), max(positive)
    powers = range(floor(log10(ends[0])), ceil(log10(ends[1])) + 1)
    ticks = [n * 10.0**k for k in powers for n in ((1, 2, 5) if len(powers) < 4 else (1,))]
    shown = [v for v in ticks if 0.7 * ends[0] <= v <= 1.4 * ends[1]]
    if len(positive) < len(xs):
        chart.x.threshold = 0.7 * ends[0]
        chart.x.low = -0.15 * chart.x.threshold
        shown.insert(0, 0.0)
    else:
        chart.x.log = True
        chart.x.low = 0.8 * ends[0]
    chart.x.high = 1.35 * ends[1]
    chart.x.ticks = list(plain(shown))
    low, high = min([*ys, -2.0]), max([*ys, 2.0])
    chart.y.low, chart.y.high = low - 0.12 * (high - low), high + 0.08 * (high - low)


def _curve(
    chart: Chart,
    some: Sequence[tuple[ShownSetting, float, float, FrontierMean]],
    i: int,
    label: str,
) -> None:
    """Points in the order of the settings, with intervals over keys. Hollow with other tables."""
    first = some[0][0].first
    color, mark = COLORS[first.guarantee], _MARKS[i % len(_MARKS)]
    own = first.tables == PUBLISHED
    line = _LINES[i % len(_LINES)] if len(some) > 1 else ""
    look = MarkStyle(color, line, mark, face=None if own else "#fff", size=7, width=1.1)
    xs, ys = [x for _, x, _, _ in some], [y for _, _, y, _ in some]
    held = [(x, y, m) for _, x, y, m in some if m.low is not None and m.high is not None]
    if held:
        chart.errors(
            [x for x, _, _ in held],
            [y for _, y, _ in held],
            [float(m.low or 0) for _, _, m in held],
            [float(m.high or 0) for _, _, m in held],
            MarkStyle(color, width=0.9),
            cap=2,
        )
    chart.plot(xs, ys, look, label)


def _baselines(chart: Chart, settings: Sequence[ShownSetting]) -> None:
    """Leave-one-out is zero; the two others stand by what they confirm of the uniques that are
    found without protection, less that."""
    chart.rule(0.0, dash="-", width=1.2, z=0)
    chart.say(Words("leave-one-out baseline", 0, 0, 4, 6, "start", 0.35, 7.5, of_x=True))
    if not settings:
        return
    first = settings[0]
    found = first.value("putative", UNIQUES)
    loo = first.value("precision, leave-one-out", UNIQUES)
    for name, said in (("proportional", "a draw from the shares"), ("modal", "the mode")):
        here = first.value(f"precision, {name}", UNIQUES)
        low, high = float(chart.y.low or 0), float(chart.y.high or 0)
        if here is None or loo is None or found is None:
            continue
        if low < (y := (here - loo) * found / 100) < high:
            chart.rule(y, dash=":", width=0.9, z=0)
            chart.say(Words(said, 0, y, 4, -6 if y > 0 else 7, "start", 0.35, 7.5, of_x=True))


def _labels(chart: Chart, at: Sequence[tuple[ShownSetting, float, float]]) -> None:
    """The number of each setting next to its mark, and the words of a named one, where nothing
    else is."""
    panel = chart.panel()
    taken = [_box(panel, x, y, 0, 0, "middle", "o") for _, x, y in at]
    for s, x, y in at:
        said = f"{s.name} {s.first.named}" if s.first.named else s.name
        boxes = {where: _box(panel, x, y, *where, said) for where in _AROUND}
        dx, dy, anchor = min(_AROUND, key=lambda where: _over(boxes[where], taken))
        taken.append(boxes[dx, dy, anchor])
        chart.say(Words(said, x, y, dx, dy, anchor, 0.35, 8.5, bold=True))


LabelBox = tuple[float, float, float, float]


def _box(
    panel: Panel, x: float, y: float, dx: float, dy: float, anchor: str, text: str
) -> LabelBox:
    wide = width_of(text, 8.5, bold=True)
    left = panel.x(x) + dx - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * wide
    middle = panel.y(y) + dy
    return left, left + wide, middle - 4.5, middle + 4.5


def _over(box: LabelBox, taken: Sequence[LabelBox]) -> float:
    """The area that a box shares with others."""
    a, b, c, d = box
    return sum(
        max(0.0, min(b, q) - max(a, p)) * max(0.0, min(d, s) - max(c, r)) for p, q, r, s in taken
    )


def withheld_figure(settings: Sequence[ShownSetting], level: str) -> str:
    """For each setting that withholds something, the share of lines of the lowest level that is
    not shown, of those whose count is not zero."""
    rows = [
        (s, value)
        for s in settings
        if (value := s.value("positive lines withheld", level=level))
        and s.first.tables == PUBLISHED
    ]
    if not rows:
        return ""
    chart = Chart(8.6, 0.8 + 0.34 * len(rows))
    for i, (s, value) in enumerate(rows):
        color = COLORS[s.first.guarantee]
        chart.bars([(0.0, value, i - 0.3, i + 0.3)], MarkStyle(color))
        chart.say(Words(f"{value:.0f} %", value, i, 5, 0))
    chart.x.low, chart.x.high = 0.0, 112.0
    chart.x.ticks = [(v, f"{v:.0f} %") for v in (0.0, 25.0, 50.0, 75.0, 100.0)]
    chart.rows([short(f"{s.number} {s.words}") for s, _ in rows])
    chart.ends_at("lines withheld, of those that count somebody")
    chart.finish("")
    return chart.svg("withheld", "Share of published lines withheld, by setting")


#: The "level" of areas of consecutive lowest places.
_AREAS = "areas"


@dataclass(frozen=True)
class StudyFacts:
    """What a page says about a study: its ``tables`` and ``lines`` by level, the ``sampled`` units of
    ``level`` of a ``population``, with ``persons`` in ``units`` of the ``lowest`` level, of
    ``everybody``; how many of them are ``exposed``: they stand out. ``inhabited`` has the number of
    attacked units by level; ``uses`` are in words, and one at a level is across the map."""

    name: str
    level: str
    lowest: str
    sampled: int
    population: int
    persons: int
    units: int
    everybody: int
    exposed: int
    inhabited: Mapping[str, int]
    households: bool
    tables: str
    lines: Mapping[str, int]
    also: tuple[str, ...]
    known: tuple[str, ...]
    sensitive: tuple[str, ...]
    uses: Mapping[str, str]
    use: str
    use_level: str
    seeded: bool
    spelt: Mapping[str, str] = field(default_factory=dict)


def frontier_page(means: Sequence[FrontierMean], facts: StudyFacts) -> tuple[str, Picture]:
    """One self-contained page, and the map alone."""
    settings = shown_settings(means, facts.spelt)
    use = inside(facts.uses[facts.use])
    across = f"mean absolute error: {use}, by {_place(facts.use_level)}"
    levels = [_place(lv) for lv in _levels(settings, facts.use)]
    drawn = risk_utility_map(settings, facts.use, facts.use_level, across)
    headline = _headline(settings, facts)
    page = render(
        "frontier.html",
        confidential=True,
        private=True,  # nothing here is for release: the page is confidential
        facts=facts,
        settings=settings,
        map=Markup(
            drawn.svg("frontier", "Risk-utility map: risk above the baseline against error")
        ),
        withheld=Markup(withheld_figure(settings, facts.lowest)),
        rows=[_row(s, facts) for s in settings],
        errors=[_errors(s, facts) for s in settings if s.first.tables == PUBLISHED],
        error_uses=[(name, title, levels) for name, title in facts.uses.items()],
        biases=_biases(settings, facts),
        colors=COLORS,
        use=use,
        place=_place(facts.use_level),
        lowest=_place(facts.lowest),
        level=_place(facts.level),
        alone=[_place(lv) for lv, n in facts.inhabited.items() if n == 1],
        conclusion=headline,
    )
    note = (
        f"Lower is safer, further left is more accurate. {facts.name}: {facts.persons:,} persons"
        f" attacked. Blue: a bound on every attack is proved; brown: nothing is; gold: a bound given"
        " invariants."
    )
    return page, Picture(drawn, headline, note, private=True, confidential=True)


def inside(title: str) -> str:
    """A title within a sentence.

    >>> inside("Hispanic origin by Race")
    'Hispanic origin by race'"""
    return " ".join(w if w in _NAMES else w.lower() for w in title.split())


def _place(level: str) -> str:
    """A level in words.

    >>> _place("areas"), _place("Block_Group")
    ('area', 'block group')"""
    return "area" if level == _AREAS else level_words(level).lower()


def _levels(settings: Sequence[ShownSetting], use: str) -> list[str]:
    """The levels at which a use is measured, from the top down."""
    found = [p[2] for p in settings[0].measures if p[0] == "error" and p[3] == use]
    return list(dict.fromkeys([*(lv for lv in reversed(found) if lv != _AREAS), _AREAS]))


def _row(s: ShownSetting, facts: StudyFacts) -> dict[str, Any]:
    """A line of the main table."""
    return {
        "setting": s,
        "error": s.get("error", level=facts.use_level, use=facts.use),
        "agreement": s.value("agreement", "all"),
        "putative": s.value("putative", UNIQUES),
        "precision": s.value("precision", UNIQUES),
        "baseline": s.value("precision, leave-one-out", UNIQUES),
        "confirmed": s.value("confirmed", UNIQUES),
        "above": s.get(ABOVE, UNIQUES),
        "determined": s.value("units determined"),
        "certain": s.value("precision", f"{UNIQUES}; unique"),
        "withheld": s.value("positive lines withheld", level=facts.lowest),
        "late": s.value("units without a guess"),
    }


def _errors(s: ShownSetting, facts: StudyFacts) -> dict[str, Any]:
    """A line of the table of errors: every use at every level; and what part is a guess."""
    cells = []
    for use in facts.uses:
        for level in _levels([s], use):
            cells.append(
                (s.value("error", level=level, use=use), s.value("withheld", level=level, use=use))
            )
    return {"setting": s, "cells": cells}


def _biases(settings: Sequence[ShownSetting], facts: StudyFacts) -> list[dict[str, Any]]:
    """For each use with few columns: the bias of each column at the sampled level, in percent."""
    out = []
    for use, title in facts.uses.items():
        columns = list(
            dict.fromkeys(
                p[4]
                for p in settings[0].measures
                if (p[0], p[2], p[3]) == ("bias, percent", facts.level, use)
            )
        )
        if len(columns) > 1:
            rows = []
            for s in (s for s in settings if s.first.tables == PUBLISHED):
                found = [s.get("bias, percent", "", facts.level, use, c) for c in columns]
                rows.append((s, [None if m is None else m.value for m in found]))
            out.append({"title": title, "columns": columns, "rows": rows})
    return out


def _headline(settings: Sequence[ShownSetting], facts: StudyFacts) -> str:
    """What a director reads first: what is learned at most, and the setting with the least error
    among those that leave the attack at or below the baseline. Of few people it concludes nothing."""
    if said := _too_few(facts):
        return said
    own = [s for s in settings if s.first.tables == PUBLISHED]
    exposed = max(own, key=lambda s: s.value("confirmed", UNIQUES) or 0.0)
    safe = []
    for s in own:
        above = s.get(ABOVE, UNIQUES)
        error = s.value("error", level=facts.use_level, use=facts.use)
        if above is not None and above.value is not None and error is not None:
            top = above.high if above.high is not None else above.value
            if top <= 0:
                safe.append((error, s))
    said = ""
    if (confirmed := exposed.value("confirmed", UNIQUES)) is not None:
        said = (
            f"At most, an attacker learns the {' and '.join(facts.sensitive)} of {figure(confirmed)} %"
            f" of the {facts.exposed:,} people who stand out ({exposed.name}, {exposed.words}). "
        )
    if not safe:
        return f"{said}No setting here leaves this attack at its baseline."
    error, best = min(safe, key=lambda pair: pair[0])
    return (
        f"{said}Of the settings that leave this attack no better than its baseline, {best.name}"
        f" ({best.words}) has the smallest error: {figure(error)} for {inside(facts.uses[facts.use])},"
        f" by {_place(facts.use_level)}."
    )


def _too_few(facts: StudyFacts) -> str:
    """Why nothing is concluded; empty if something is."""
    n, whole = facts.exposed, facts.sampled == facts.population
    remedy = "" if whole else " Take more places (sample.units) or --all."
    if n < FEWEST:
        who = {0: "Nobody stands out", 1: "Only 1 person stands out"}
        return f"{who.get(n, f'Only {n} people stand out')} here: chance decides.{remedy}"
    if not whole and facts.inhabited[facts.use_level] == 1:
        return f"The errors are of 1 {_place(facts.use_level)} alone: chance decides.{remedy}"
    return ""
