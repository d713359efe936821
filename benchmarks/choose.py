"""What the page for choosing a budget says, next to the commands: ``das plan CONFIG --page``.

Random shares, totals and missing queries are opened in a browser. The configuration that the page
gives for each goes to ``das check`` and ``das account``; variances are those of ``das plan
--optimize``, and an intruder's beliefs those of ``das risk``. Needs Playwright (the extra
``browser``) and a Chromium."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from statistics import NormalDist
from time import perf_counter
from typing import Any

import numpy as np
from scipy.special import expit

from benchmarks.common import CONFIG, ROOT, Figures
from das.accounting.guarantee import exact_epsilon
from das.accounting.invariant_neighbours import INVARIANT_NEIGHBOURS
from das.cli import main as das
from das.design.model import Estimand
from das.engine import Silent
from das.model.budget import PlannedMeasurement, seen
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.plan import Plan
from das.risk import hierarchical_posterior
from das.risk.joint import joint_marginal_posterior
from das.risk.one_level import decision_probability
from das.risk.recursion import NEAR, Noise, evidence, log_odds
from das.spec import RunSpec, load, of_kind
from das.tools.areas.page import planned
from das.tools.planning.ground import of_areas, of_units
from das.truth.preparation import PublicTree
from docs.picture import BROWSERS

#: The input whose blocks the areas are of.
SIMULATED = ROOT / "data" / "pl94_2010"
UNITS = (1, 52, 3221, 73057, 217740, 6_500_000)
Z = NormalDist().inv_cdf(0.975)
#: What a page must keep: margins, epsilon above the exact one, and risk, relatively.
MARGINS, EPSILON, RISK = 1e-6, 0.01, 0.005
#: Settings that one tab of the browser shows.
TAB = 20
#: What is read off the page.
READ = """() => {
  const rows = (selector, keep) => [...document.querySelectorAll(selector)].map(keep);
  return {
    margins: rows("tr[data-query]", (r) => [r.dataset.level, r.dataset.query,
      r.querySelector("[data-noise]").dataset.noise, r.querySelector("[data-estimate]").dataset.estimate]),
    epsilon: Number(document.getElementById("epsilon").dataset.epsilon),
    relations: Object.fromEntries(rows("#relations tr", (r) => [r.dataset.relation, Number(r.dataset.epsilon)])),
    areas: document.getElementById("area") && [...document.getElementById("area").options].map((option) => {
      const chosen = document.getElementById("area");
      chosen.value = option.value;
      chosen.dispatchEvent(new Event("change"));
      return rows("tr[data-area-query]", (r) => Number(r.querySelector("td").dataset.margin));
    }).slice(1),
    risk: Object.fromEntries(rows("#risk li", (r) => [r.dataset.risk, Number(r.dataset.value)])),
    worst: Object.fromEntries(rows("#risk li", (r) => [r.dataset.risk, Number(r.dataset.worst)])),
    prior: Number(document.getElementById("prior").value),
    secret: document.getElementById("secret").value,
    toml: document.getElementById("toml").value,
  };
}"""


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser. Raises ``ImportError`` without Playwright, and its error without a Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = next(filter(None, map(shutil.which, BROWSERS)), playwright.chromium.executable_path)
        browser = playwright.chromium.launch(
            executable_path=found,
            args=["--disable-dev-shm-usage"],  # small where there are containers
        )
        yield browser
        browser.close()


def command(*args: object) -> str:
    """What a command prints."""
    out = StringIO()
    with redirect_stdout(out), suppress(SystemExit):
        das([*map(str, args)])
    return out.getvalue()


def settings(levels: int, queries: int, finest: int, number: int, seed: int = 0) -> Iterator[str]:
    """Fragments of the page's address: a total of 0.02 to 40, and shares that differ up to a
    thousandfold, a third of the queries left out. ``finest`` is always measured."""
    rng = np.random.default_rng(seed)
    for _ in range(number):
        rho = f"{float(np.exp(rng.uniform(np.log(0.02), np.log(40)))):.4g}"
        some = [_weights(rng, levels)]
        for _ in range(levels):
            weights = _weights(rng, queries)
            weights[rng.random(queries) < 1 / 3] = 0
            weights[finest] = max(weights[finest], 1)
            some.append(weights)
        yield "_".join([rho, *(".".join(map(str, w)) for w in some)])


def _weights(rng: np.random.Generator, n: int) -> Any:
    return np.exp(rng.uniform(np.log(1), np.log(1000), n)).astype(int)


def exact(spec: RunSpec) -> dict[str, Sequence[float]]:
    """The exact epsilon of each relation of a page, as an interval."""
    terms, u = spec.terms, spec.persons
    drawn = u.plan.measurements
    agree = terms.free(u.name, drawn, terms.exact[u.name])
    found = {"guarantee": drawn, "agree": agree}
    parts = {name: terms.differing({u.name: some})[u.name] for name, some in found.items()}
    parts |= {c.what: c.differing for c in terms.changes(u.name, drawn)}
    return {name: exact_epsilon(part, terms.delta) for name, part in parts.items()}


def found_delta(account: Mapping[str, Any]) -> str:
    return str(account["changes"]["persons"][0]["delta"])


@dataclass
class Differences:
    """The largest that were met, relative but of noise, whose margins are whole numbers:
    ``low`` and ``high`` are of epsilon, from the lower and the upper end of the exact one."""

    noise: int = 0
    estimate: float = 0.0
    areas: float = 0.0
    low: float = np.inf
    high: float = -np.inf
    risk: float = 0.0
    worst_low: float = np.inf

    @property
    def kept(self) -> bool:
        return (
            self.noise == 0
            and self.estimate <= MARGINS
            and self.areas <= MARGINS
            and self.low >= 0
            and self.high <= EPSILON
            and self.risk <= RISK
            and self.worst_low >= -1e-6
        )

    def add(self, read: Mapping[str, Any], units: Sequence[int]) -> None:
        """One setting as the page shows it, against its configuration."""
        spec = of_kind(RunSpec, load(read["toml"], where="the page"), "the page")
        self._margins(read, spec, units)
        self._epsilon(read, exact(spec))
        self._risk(read, spec, units)

    def of_areas(self, read: Mapping[str, Any], data: Sequence[Path], listed: Path) -> None:
        """Margins of areas, against :mod:`das.design` by query, and those of totals against ``das
        plan --areas``."""
        spec = of_kind(RunSpec, load(read["toml"], where="the page"), "the page")
        kind, ground = of_areas(spec, data, listed, Silent())
        queries = list(dict.fromkeys(m[1] for m in read["margins"]))
        asked = [
            Estimand(kind, q, areas=True, some=(i,))
            for i in range(len(read["areas"]))
            for q in queries
        ]
        model = ground.model(asked)
        costs = {(d.level, d.query): float(d.cost) for d in spec.persons.plan.plain}
        rho = np.array([costs[pair] for pair in model.measurements.pairs])
        f = model.variances(model.measurements.precision(rho))
        exactly = Z * np.sqrt(f).reshape(len(read["areas"]), len(queries))
        said = np.array(read["areas"])
        self.areas = max(self.areas, _off(exactly, said))
        spines = planned(spec, data, "persons", listed, Silent()).spines
        own = "tabulation" if spec.geography.spine == "tabulation" else "production"
        estimate = next(s.estimate for s in spines if s.name == own)
        totals, exactly = said[:, queries.index("total")], Z * estimate
        narrow = min(d.parameter for d in spec.persons.plan.measurements) < 1
        # discrete noise as narrow as that varies less than the plan has it
        self.areas = max(
            self.areas, _off(exactly, np.minimum(totals, exactly) if narrow else totals)
        )

    def by_command(self, read: Mapping[str, Any], folder: Path) -> None:
        """The same from what ``das check`` and ``das account`` print."""
        path = folder / "chosen.toml"
        path.write_text(read["toml"], "utf-8")
        checked, account = (json.loads(command(c, path, "--json")) for c in ("check", "account"))
        noise = {
            (d["level"], d["query"]): d["margin_95"]
            for d in checked["plan"]
            if d["universe"] == "persons" and "class" not in d
        }
        for level, query, own, _ in read["margins"]:
            self.noise = max(self.noise, abs(int(own or 0) - noise.get((level, query), 0)))
        found = {c["what"]: c["pld"] for c in account["changes"]["persons"]}
        for name, key in (("guarantee", "guarantee"), ("agree", INVARIANT_NEIGHBOURS)):
            for e in checked.get(key, {}).get("persons", {}).get("epsilon", ()):
                if e["delta"] == found_delta(account):
                    found |= dict.fromkeys([name], e["pld"])
        self._epsilon(read, found)

    def _margins(self, read: Mapping[str, Any], spec: RunSpec, units: Sequence[int]) -> None:
        estimands = [Estimand(level, query) for level, query, *_ in read["margins"]]
        plain = {(d.level, d.query): d for d in spec.persons.plan.plain}
        model = of_units(spec, spec.persons, units).model(estimands)
        costs = np.array([float(plain[pair].cost) for pair in model.measurements.pairs])
        f = model.variances(model.measurements.precision(costs))
        for (level, query, own, together), variance in zip(read["margins"], f, strict=True):
            d = plain.get((level, query))
            self.noise = max(self.noise, abs(int(own or 0) - (d.margin() if d else 0)))
            exactly = Z * float(np.sqrt(variance))
            off = float(together or 0) - exactly
            self.estimate = max(self.estimate, abs(off) / exactly if exactly else abs(off))

    def _epsilon(self, read: Mapping[str, Any], exactly: Mapping[str, Sequence[float]]) -> None:
        for name, said in [*read["relations"].items(), ("guarantee", read["epsilon"])]:
            low, high = exactly[name]
            if not high:
                self.high = max(self.high, said)
                continue
            self.low, self.high = min(self.low, said / low - 1), max(self.high, said / high - 1)

    def _risk(self, read: Mapping[str, Any], spec: RunSpec, units: Sequence[int]) -> None:
        """By :mod:`das.risk`: its costs are of one count, of variance 1/2 rho."""
        u = spec.persons
        plan, prior, axis = u.plan, read["prior"], u.schema.axis(read["secret"])
        told = {
            q for q in {d.query for d in plan.measurements}
            if not u.schema.query(q).groupings[axis].is_total
        }  # fmt: skip
        paths = [
            [1 / (2 * float(d.parameter)) for d in seen(plan.measurements, path) if d.query in told]
            for path in plan.paths
        ]
        every = max(float(joint_marginal_posterior(rho=p + p, prior=prior)) for p in paths)
        lowest = [d for d in plan.plain if d.level == plan.levels[-1]]
        finest = max(lowest, key=lambda d: u.schema.query(d.query).answers)
        one = 1 / (2 * float(finest.parameter))
        alone = float(joint_marginal_posterior(rho=[one], prior=prior))
        found = float(decision_probability(rho=one, prior=0.5))
        delta = float(spec.terms.delta)
        odds, chance = lone(one)
        ladder = rungs(plan, finest.query)
        known = {
            "all": every,
            "alone": alone,
            "decided": found,
            "ladder": float(
                joint_marginal_posterior(
                    rho=[1 / (2 * float(d.parameter)) for d in ladder], prior=prior
                )
            ),
        }
        worst = {"alone": exceeded(odds, chance, prior, delta)}
        if len(ladder) > 1:
            above = 1 / (2 * float(ladder[1].parameter))
            others = max(1, units[-1] // units[plan.levels.index(ladder[1].level)] - 1)
            known["hierarchy"], worst["hierarchy"] = two_levels(one, above, others, prior, delta)
        for name, exact in known.items():
            self.risk = max(self.risk, abs(read["risk"][name] / exact - 1))
        for name, exact in worst.items():
            self.worst_low = min(self.worst_low, read["worst"][name] / exact - 1)
            self.risk = max(self.risk, abs(read["worst"][name] / exact - 1))


def _off(exactly: Any, said: Any) -> float:
    """The largest difference, relative; what is below a thousandth of a person is nothing."""
    exactly = np.where(exactly < 1e-3, 0.0, exactly)
    return float((np.abs(said - exactly) / np.where(exactly > 0, exactly, 1.0)).max())


def lone(rho: float) -> tuple[Any, Any]:
    """The log-odds that one count adds for the truth, and how likely they are."""
    z, chance = Noise(DISCRETE_GAUSSIAN, rho).pmf(NEAR)
    return evidence(1 + z, DISCRETE_GAUSSIAN, rho), chance


def exceeded(odds: Any, chance: Any, prior: float, delta: float) -> float:
    """The belief that is exceeded with the probability delta at most."""
    order = np.argsort(-odds)
    beyond = np.cumsum(chance[order]) > delta
    return float(expit(log_odds(prior) + odds[order][beyond.argmax()]))


#: Wider noise is not given to :func:`das.risk.hierarchical_posterior`: its window is.
WIDE = 5e-3
#: Noise of a lower rate is too wide to sum, and says nothing that two digits would show.
LEAST = 4e-11
#: More pairs of values than this are thinned out.
MANY = 4_000_000


def two_levels(
    rho1: float, rho2: float, others: int, prior: float, delta: float
) -> tuple[float, float]:
    """What :func:`das.risk.hierarchical_posterior` is on average, where the unit above has many, and
    what it exceeds with the probability delta at most."""
    (odds, chance), rest = lone(rho1), max(rho1 / others, LEAST)
    if min(rest, rho2) >= WIDE:
        z2, p2 = Noise(DISCRETE_GAUSSIAN, rho2).pmf(NEAR)
        y, py = Noise(DISCRETE_GAUSSIAN, rest).pmf(NEAR)
        many, step = 10 * len(z2), max(1, 2**20 // len(z2) ** 2)
        given = [
            hierarchical_posterior(
                0,
                (many + z2)[:, None],
                (many - 1 + some)[None, :],
                rho1=rho1,
                rho2=rho2,
                d=others,
                prior=0.5,
            )
            for some in np.split(y, range(step, len(y), step))
        ]
        more = (log_odds(np.concatenate(given, axis=1)) + rho1).ravel()
        likely = np.multiply.outer(p2, py).ravel()
        average = None
    elif rest + rho2 <= 0.25:  # the sum of two narrow lattices is one
        own = max(1 / (1 / rho2 + 1 / rest), LEAST)
        more, likely = lone(own)
        average = None
        if own > WIDE / 100:
            average = float(joint_marginal_posterior(rho=[rho1, own], prior=prior))
    else:
        likely = np.convolve(lone(rho2)[1], lone(rest)[1])
        more, likely, average = np.log(likely[:-1] / likely[1:]), likely[:-1], None
    if len(odds) * len(more) > MANY:
        (odds, chance), (more, likely) = _few(odds, chance), _few(more, likely)
    if average is None:
        average = float(
            sum(
                c * (likely @ expit(log_odds(prior) + o + more))
                for o, c in zip(odds, chance, strict=True)
            )
        )
    order = np.argsort(more)
    more, beyond = more[order], np.append(np.cumsum(likely[order][::-1])[::-1], 0.0)
    low, high = odds.min() + more.min(), odds.max() + more.max()
    while high - low > 1e-7 * (1 + abs(high)):
        middle = (low + high) / 2
        at = np.searchsorted(more, middle - odds, side="right")
        low, high = (middle, high) if chance @ beyond[at] > delta else (low, middle)
    return average, float(expit(log_odds(prior) + high))


def _few(odds: Any, chance: Any) -> tuple[Any, Any]:
    """At most some 1,500 values: of several, the least, with what they have together."""
    order = np.argsort(odds)[chance[np.argsort(odds)] > 1e-18]
    start = np.arange(0, len(order), -(-len(order) // 1500))
    return odds[order][start], np.add.reduceat(chance[order], start)


def rungs(plan: Plan, query: str) -> Sequence[PlannedMeasurement]:
    """The measurements of who is unique in ``query`` in all units above, from the lowest level up,
    as far as ``das risk`` follows them: to a level that is measured without it."""
    found: list[PlannedMeasurement] = []
    for level in reversed(plan.levels):
        drawn = [d for d in plan.plain if d.level == level]
        asked = [d for d in drawn if d.query == query]
        if drawn and not asked:
            break
        found += asked
    return found


def opened(page: Any, file: Path, fragment: str) -> dict[str, Any]:
    """The page at a setting, once all its figures are there."""
    page.goto("about:blank")
    page.goto(f"{file.as_uri()}#{fragment}")
    page.wait_for_function("(f) => document.body.dataset.settled === f", arg=fragment)
    return dict(page.evaluate(READ))


def readings(browser: Any, file: Path, fragments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """What the page shows at each setting. A tab keeps what it was told before, so each serves
    some settings alone."""
    for start in range(0, len(fragments), TAB):
        page = browser.new_page()
        for fragment in fragments[start : start + TAB]:
            yield opened(page, file, fragment)
        page.close()


def drawn_areas(spec: RunSpec, data: Sequence[Path], file: Path, seed: int = 0) -> None:
    """A list of blocks: runs of them that cut the tree, some here and there, and all of them."""
    spine, rng = PublicTree.read(spec, data, Silent()).spine, np.random.default_rng(seed)
    blocks = spine.codes[-1]
    each = [rng.random(len(blocks)) < 0.3, np.ones(len(blocks), dtype=bool)]
    for _ in range(8):
        start, length = rng.integers(len(blocks)), rng.integers(1, len(blocks) // 2)
        each.append((np.arange(len(blocks)) - start) % len(blocks) < length)
    rows = [f"{i},{b.decode()}" for i, inside in enumerate(each) for b in blocks[inside]]
    file.write_text("area,block\n" + "\n".join(rows), "utf-8")


#: How long a control takes to answer: the median over moves of the first share.
ANSWERS = """() => {
  const range = document.querySelector("#levels input[type=range]"), times = [];
  for (let i = 0; i < 30; i++) {
    range.value = 200 + 10 * i;
    const begin = performance.now();
    range.dispatchEvent(new Event("input"));
    times.push(performance.now() - begin);
  }
  return times.sort((a, b) => a - b)[15];
}"""


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=200)
    parser.add_argument("--config", default=str(CONFIG))
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--data", type=Path, action="append", default=[])
    parser.add_argument("--areas", type=Path, help="with --data: a list of blocks, or a kind")
    parser.add_argument("--units", default=",".join(map(str, UNITS)))
    asked = parser.parse_args(argv)
    figures = Figures("choose")
    changes = [word for change in asked.set for word in ("--set", change)]
    units = [int(n) for n in asked.units.split(",")]
    with tempfile.TemporaryDirectory() as name, chromium() as browser:
        file, folder = Path(name, "page.html"), Path(name)
        begin = perf_counter()
        command("plan", asked.config, "--page", file, "--units", asked.units, *changes)
        figures("page made", perf_counter() - begin, "s", at_most=5, bytes=file.stat().st_size)
        page, met = browser.new_page(), Differences()
        page.goto(file.as_uri())
        given = json.loads(page.text_content("#choose-data"))
        levels, queries = len(given["levels"]), [q["name"] for q in given["queries"]]
        finest = queries.index("detailed")
        fragments = [*settings(levels, len(queries), finest, asked.settings)]
        for i, read in enumerate(readings(browser, file, fragments)):
            met.add(read, units)
            if i % TAB == TAB - 1:
                print(f"{i + 1} settings: {met}", file=sys.stderr, flush=True)
        met.by_command(read, folder)
        figures(
            "noise margins, largest difference",
            met.noise,
            "persons",
            at_most=0,
            settings=asked.settings,
        )
        figures("margins after estimation", met.estimate, "relative", at_most=MARGINS)
        figures("epsilon above its lower end, least", met.low, "relative", at_least=0)
        figures("epsilon above its upper end, most", met.high, "relative", at_most=EPSILON)
        figures("risk", met.risk, "relative", at_most=RISK)
        figures("risk at worst, least", met.worst_low, "relative", at_least=-1e-6)
        page.reload()
        figures("a control answers", page.evaluate(ANSWERS), "ms", at_most=50)
        spec = of_kind(RunSpec, load(read["toml"], where="the page"), "the page")
        listed, data = asked.areas or folder / "areas.csv", asked.data or [SIMULATED]
        if asked.areas is None:
            drawn_areas(spec, data, listed)
        begin = perf_counter()
        given = [word for path in data for word in ("--data", path)]
        command("plan", asked.config, "--page", file, "--areas", listed, *given, *changes)
        size = file.stat().st_size
        figures("page with areas made", perf_counter() - begin, "s", at_most=5, bytes=size)
        for read in readings(browser, file, fragments[: asked.settings // 10]):
            met.of_areas(read, data, listed)
        figures("margins of areas", met.areas, "relative", at_most=MARGINS)
        page.goto(file.as_uri())
        figures("a control answers next to areas", page.evaluate(ANSWERS), "ms", at_most=50)


if __name__ == "__main__":
    main()
