"""What the page for choosing a budget says, next to the commands: ``das plan CONFIG --page``.

Random shares, totals and missing queries are opened in a browser. The configuration that the page
gives for each goes to ``das check`` and ``das account``; variances are those of ``das plan
--optimize``, and an intruder's beliefs those of ``das risk``. Needs Playwright (the extra
``browser``) and a Chromium."""

from __future__ import annotations

import argparse
import json
import shutil
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

from benchmarks.common import CONFIG, Figures
from das.accounting.guarantee import exact_epsilon
from das.accounting.invariant_neighbours import INVARIANT_NEIGHBOURS
from das.cli import main as das
from das.design.model import Estimand
from das.model.budget import PlannedMeasurement, seen
from das.model.plan import Plan
from das.risk.joint import joint_marginal_posterior
from das.risk.one_level import decision_probability
from das.spec import RunSpec, load, of_kind
from das.tools.planning.ground import of_units
from docs.picture import BROWSERS

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
    risk: Object.fromEntries(rows("#risk li", (r) => [r.dataset.risk, Number(r.dataset.value)])),
    ladder: Number(document.getElementById("risk").dataset.ladder),
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
    low: float = np.inf
    high: float = -np.inf
    risk: float = 0.0

    @property
    def kept(self) -> bool:
        return (
            self.noise == 0
            and self.estimate <= MARGINS
            and self.low >= 0
            and self.high <= EPSILON
            and self.risk <= RISK
        )

    def add(self, read: Mapping[str, Any], units: Sequence[int]) -> None:
        """One setting as the page shows it, against its configuration."""
        spec = of_kind(RunSpec, load(read["toml"], where="the page"), "the page")
        self._margins(read, spec, units)
        self._epsilon(read, exact(spec))
        self._risk(read, spec)

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

    def _risk(self, read: Mapping[str, Any], spec: RunSpec) -> None:
        """By :mod:`das.risk`: its costs are of one count, of variance 1/2 rho."""
        u = spec.persons
        plan, prior, axis = u.plan, read["prior"], u.schema.axis(read["secret"])
        told = {
            q for q in {d.query for d in plan.measurements}
            if not u.schema.query(q).groupings[axis].is_total
        }  # fmt: skip
        paths = [[1 / (2 * float(d.parameter)) for d in seen(plan.measurements, path) if d.query in told]
                 for path in plan.paths]  # fmt: skip
        every = max(float(joint_marginal_posterior(rho=p + p, prior=prior)) for p in paths)
        lowest = [d for d in plan.plain if d.level == plan.levels[-1]]
        finest = max(lowest, key=lambda d: u.schema.query(d.query).answers)
        one = 1 / (2 * float(finest.parameter))
        alone = float(joint_marginal_posterior(rho=[one], prior=prior))
        found = float(decision_probability(rho=one, prior=0.5))
        for name, exact in (("all", every), ("alone", alone), ("decided", found)):
            self.risk = max(self.risk, abs(read["risk"][name] / exact - 1))
        ladder = [1 / (2 * float(d.parameter)) for d in rungs(plan, finest.query)]
        exact = float(joint_marginal_posterior(rho=ladder, prior=prior))
        self.risk = max(self.risk, abs(read["ladder"] / exact - 1))


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
        for read in readings(browser, file, fragments):
            met.add(read, units)
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
        page.reload()
        figures("a control answers", page.evaluate(ANSWERS), "ms", at_most=50)


if __name__ == "__main__":
    main()
