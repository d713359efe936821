"""Measurements of a release of the DHC as further observations of the S-DHC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from das.errors import DasError, ReleaseError, SpecError, UserError
from das.model.names import STATES as ALL
from das.publications.dhc.files import linked
from das.publications.dhc.model.households import DHCH
from das.publications.dhc.model.persons import DHCP
from das.publications.published.public import estimate_from
from das.publications.sdhc import from_dhc
from das.publications.sdhc.files import records as from_linked
from das.publications.sdhc.least_squares import estimated, identities
from das.publications.sdhc.model.tables import PERSON, TIGHT, TRUNCATED, answers, column, variances
from das.publications.sdhc.spec import SdhcSpec
from das.publications.sdhc.truth.counts import counts
from das.release import verify
from das.runs import pipeline
from tests.sdhc.test_estimates import Array, consistent, region
from tests.sdhc.test_known_answers import packaged
from tests.worlds import Worlds

RACES = "hisp * hhtenshort_2lev * race"
STATES = ("34", "36", "42")


def dhc_csv(spec: SdhcSpec, exact: Mapping[str, NDArray[np.int64]]) -> str:
    """As of a release whose answers to each query are these, ``(regions, answers)``."""
    lines = [",".join(from_dhc.COLUMNS)]
    for of in from_dhc.used(spec):
        for state, row in zip(spec.sdhc.states, exact.get(of.query, ()), strict=False):
            lines += [
                f"State,{state},{of.universe},{of.query},{c},{row[c]},50.0"
                for c in of.used.tolist()
            ]
    return "\n".join(lines)


def test_answers_of_the_dhc_are_those_of_the_s_dhc(worlds: Worlds) -> None:
    """Without noise, on the same records: each sum is the answer that it is said to be."""
    found, _ = from_linked.linked_records(worlds.linked(), ())
    names = found.addresses.states
    spec = packaged("sdhc-2020", f"sdhc.states={list(names)}")
    true = counts(found, TIGHT, PERSON, dict.fromkeys(TRUNCATED, 10**6))
    of = linked.tables(worlds.linked())
    state = np.strings.slice(of.codes, 0, 2)
    for sums in from_dhc.used(spec):
        homes = sums.universe == "households"
        rows, cell = (of.homes, of.cell) if homes else (of.people, of.people.rows.cell)
        schema = DHCH if homes else DHCP
        exact = np.zeros((len(names), schema.query(sums.query).answers), dtype=np.int64)
        for n, name in enumerate(names):
            here = state[rows.block] == name.encode()
            dense = np.bincount(
                cell[here], rows.rows.count[here], minlength=int(np.prod(schema.shape))
            )
            exact[n] = schema.query(sums.query).answer(dense[None])[0]
        (one,) = from_dhc.further(spec, dhc_csv(spec, {sums.query: exact}), Path("dhc.csv"))
        assert np.array_equal(one.values, true @ one.weights.T)
        assert one.values.sum() > 100


def test_estimates_are_as_good_as_they_say() -> None:
    """Of 60 nations of 51 states, with answers of the DHC that share their noise between race and
    origin; and households are known twice as well."""
    names = [s.fips for s in ALL if s.fips != "72"]
    spec = packaged("sdhc-2020", f"sdhc.states={names}")
    (races,) = [of for of in from_dhc.used(spec) if of.query == RACES]
    rng, exact = np.random.default_rng(2), consistent()
    cells = _cells(races, exact)
    v = variances([d for d in spec.measurements if d.level == "State"])
    errors = []
    for _ in range(60):
        noisy = np.rint(exact + rng.normal(0, np.sqrt(v), (51, len(v))))
        raw = np.rint(cells + rng.normal(0, np.sqrt(50.0), (51, len(cells)))).astype(np.int64)
        more = from_dhc.further(spec, dhc_csv(spec, {RACES: raw}), Path("dhc.csv"))
        states = estimated([region(v, noisy)], whole=True, more=more)[1]
        errors.append(states.values - exact)
    spread = np.concatenate(errors).std(axis=0) / np.sqrt(np.diag(states.covariance))
    assert abs(spread - 1).max() < 0.05
    assert spread.mean() == pytest.approx(1, abs=0.01)
    alone = estimated([region(v, np.tile(exact, (51, 1)))], whole=True)[1]
    for iteration, gain in (("*", 2), ("A", 3), ("H", 3), ("I", 20)):
        at = column("PH1_denom", iteration, 1)
        assert alone.covariance[at, at] > gain * states.covariance[at, at]
    assert not (identities(True) @ exact).any()


def _cells(of: from_dhc.DhcSums, exact: Array) -> Array:
    """Answers of the query with the sums that the truth has: nobody is Hispanic there."""
    out = np.zeros(len(next(iter(of.sums.values()))))
    for answer, which in of.sums.items():
        if answer.iteration in "ABCDEFG":
            first = np.flatnonzero(which & ~of.sums[replace(answer, iteration="H")])[0]
            out[first] = exact[answers().index(answer)]
    return out


def test_a_run_says_what_it_used(worlds: Worlds, tmp_path: Path) -> None:
    earlier = worlds.dhc()
    spec = packaged("sdhc-2020", "run.seed=4", f"sdhc.dhc={earlier}")
    out = pipeline.run(spec, tmp_path / "run", paths=[worlds.linked()]).directory.release
    said = verify.statement(out)
    assert any("noisy measurements of the release 'dhc-2020'" in s for s in said.says)
    again = estimate_from(out, tmp_path / "again").directory.release
    for path in (*out.rglob("*.csv"), out / "report.html"):
        assert (again / path.relative_to(out)).read_bytes() == path.read_bytes()
    levels = {line.split(",")[0] for line in (out / "dhc.csv").read_text().splitlines()[1:]}
    assert levels == {"US", "State"}
    text = (out / "dhc.csv").read_text()
    (out / "dhc.csv").write_text(text.replace(",1,", ",2,", 1))
    with pytest.raises(ReleaseError):
        verify.statement(out)
    (out / "dhc.csv").unlink()
    with pytest.raises(DasError):
        estimate_from(out, tmp_path / "third")


def test_what_cannot_be_used(worlds: Worlds, tmp_path: Path) -> None:
    earlier = worlds.dhc()
    with pytest.raises(SpecError, match="PHSafe used no other release"):
        packaged("sdhc-2020-phsafe", f"sdhc.dhc={earlier}")
    private = packaged("sdhc-2020", f"sdhc.dhc={earlier}")
    with pytest.raises(UserError, match="this release was seeded"):
        pipeline.run(private, tmp_path / "run", paths=[worlds.linked()])
    seeded = packaged("sdhc-2020", f"sdhc.dhc={earlier}", "run.seed=1", "sdhc.states=['44']")
    with pytest.raises(UserError, match="has no state 44"):
        from_dhc.taken(seeded)
    other = packaged("sdhc-2020", f"sdhc.dhc={earlier}", "run.seed=1", "sdhc.dhc_digest=00")
    with pytest.raises(UserError, match="has not the SHA-256"):
        from_dhc.named(other)
    spec = packaged("sdhc-2020", f"sdhc.states={list(STATES)}")
    text = dhc_csv(spec, {RACES: np.zeros((3, 28), dtype=np.int64)})
    for odd in (
        text.replace("State,34", "State,35"),
        text.replace("50.0", "51.0", 1),
        "LEVEL\n1",
        text[:-6],
    ):
        with pytest.raises(ReleaseError, match="no measurements of the DHC"):
            from_dhc.further(spec, odd, Path("dhc.csv"))
    household = packaged("sdhc-2020", "sdhc.relation=household")
    assert {of.universe for of in from_dhc.used(household)} == {"households"}
