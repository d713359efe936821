"""What README and docs promise, on the files that they name: ``make accept``.

Every command is exactly what a page prints, with its defaults, its pages and its tables; what a
reader fills in for words in capitals is in ``steps.py``. Each runs once; many tests look at it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from tests.accept import checks, printed
from tests.accept.conftest import Acceptance, chain_of
from tests.accept.reader import Step
from tests.accept.steps import CHAINS, RI
from tests.end_to_end import independent as free

#: Persons and housing units that were counted, by the runs that publish them. Of the prototype, the
#: table H1 of its blocks (their headers say 17 more), and of the PPMF its rows of persons.
COUNTED = {
    ("state", "state"): (1_052_567, 463_388),
    ("state", "full"): (1_052_567, 463_388),
    ("guernsey", "best"): (38_438, 19_009),
    ("guernsey", "fair"): (38_438, 19_009),
    ("guernsey", "areas"): (38_438, 19_009),
    ("bristol", "county"): (49_875, 20_850),
    ("bristol", "seeded"): (49_875, 20_850),
    ("bristol", "pull"): (49_875, 20_850),
    ("prototype", "best"): (29_225, 11_425),
    ("bluedown", "estimate"): (12_000, 0),
    ("ppmf", "perry"): (10_588, 0),
    ("linked", "redistricting"): (49_875, 20_850),
}


def _of(chain: str) -> pytest.MarkDecorator:
    """The chain is in the name of a test: by that its tests are one worker's, in their order."""
    return pytest.mark.parametrize("chain", [chain])


STEPS = [
    pytest.param(chain, step, id=f"{chain}: {step.name}")
    for chain, steps in CHAINS.items()
    for step in steps
]


@pytest.mark.parametrize(("chain", "step"), STEPS)
def test_a_command_that_is_printed_works_and_leaves_nothing_behind(
    chain: str, step: Step, accepted: Acceptance
) -> None:
    assert printed.is_printed(step.page, step.line, step.more), f"{step.page}: {step.line!r}"
    done = accepted.done(chain, step.name)
    assert done.code == 0, str(done)
    assert "Traceback" not in done.stderr, str(done)
    assert not done.left, str(done)
    assert not step.out or done.out.exists()


@pytest.mark.parametrize(
    ("chain", "name"), [pytest.param(c, n, id=f"{c}: {n}") for c, n in COUNTED]
)
def test_a_release_has_everybody_once_at_every_level(
    chain: str, name: str, accepted: Acceptance
) -> None:
    release = accepted.done(chain, name).release
    checks.check_counts(release, *COUNTED[chain, name])
    assert (release / "report.html").stat().st_size > 10_000
    assert not list(release.rglob("*.draft*"))


@_of("state")
def test_a_whole_state_keeps_what_is_exact_and_is_close_in_little_memory(
    chain: str, accepted: Acceptance, shared_data: Path
) -> None:
    run = accepted.done("state", "state").release.parent
    truth = free.published_rows([shared_data / RI])
    assert (len(truth), truth["P0010001"].sum()) == (25_181, 1_052_567)
    free.assert_invariants(run / "release", truth)
    tract = free.tables(run / "release", "Tract", "P1")["P0010001"]
    true = truth.groupby(truth.index.str[:11])["P0010001"].sum()
    assert 1 < (tract - true).abs().mean() < 3
    manifest = json.loads((run / "manifest.json").read_text())
    assert max(s["peak_mb"] for s in manifest["stages"]) < 4096
    solved = [c["estimation"] for c in manifest["certificates"]["persons"].values()]
    assert sum(c["inaccurate"] for c in solved) <= 0.01 * sum(c["solves"] for c in solved)


@_of("bristol")
def test_every_file_of_a_seeded_release_says_so(chain: str, accepted: Acceptance) -> None:
    done = accepted.done("bristol", "intervals")
    assert not list(checks.unmarked(accepted.done("bristol", "seeded").release))
    assert checks.MARK in accepted.done("bristol", "seeded").stdout
    private = accepted.done("bristol", "county")
    assert checks.MARK not in private.stdout
    assert len(list(checks.unmarked(private.release))) > 60
    assert done.code == 0


@_of("state")
def test_the_tables_that_are_printed_are_those_of_the_release(
    chain: str, accepted: Acceptance
) -> None:
    full = accepted.done("state", "margins at blocks")
    found = list(csv.DictReader(io.StringIO(full.stdout)))
    assert len(found) == 25_181
    count, low, high = (
        np.array([int(row[f"P0010001 Total{end}"] or -1) for row in found])
        for end in ("", " low", " high")
    )
    known = (low >= 0) & (high >= 0)
    assert count.sum() == 1_052_567
    assert (low <= high)[known].all()
    assert known.mean() > 0.99
    city = accepted.done("state", "the city of Providence")
    cities = {row["GEOID"]: row for row in csv.DictReader(io.StringIO(city.stdout))}
    assert list(cities) == ["4422960", "4459000"]  # East Providence, too
    assert (
        abs(int(cities["4459000"]["P0010001 Total"]) - 178_042) < 300
    )  # 20 standard deviations of its noise
    alone = accepted.done("state", "the city")
    (row,) = csv.DictReader(io.StringIO(alone.stdout))
    assert row == cities["4459000"]
    assert "County Providence County (44007)" in alone.stderr
    town = accepted.done("state", "the town of Narragansett")
    (row,) = csv.DictReader(io.StringIO(town.stdout))
    assert abs(int(row["P0010001 Total"]) - 15_868) < 300
    assert "Narragansett" in accepted.done("state", "reservations").stdout
    places = accepted.done("state", "where is Providence").stdout
    assert "4459000" in places
    assert "44007" in places


@_of("bristol")
def test_a_release_that_was_fetched_is_the_one_that_was_sent(
    chain: str, accepted: Acceptance
) -> None:
    sent = accepted.done("bristol", "county").release
    pulled = accepted.done("bristol", "pull").release
    names = {p.relative_to(sent) for p in sent.rglob("*") if p.is_file()}
    assert names == {p.relative_to(pulled) for p in pulled.rglob("*") if p.is_file()}
    assert all((sent / n).read_bytes() == (pulled / n).read_bytes() for n in names)


@_of("linked")
def test_everybody_of_the_dhc_is_in_its_tables_and_in_a_household(
    chain: str, accepted: Acceptance
) -> None:
    dhc = accepted.done("linked", "dhc").release
    sums = checks.check_tables(dhc)
    assert sums["P0120001"] == sums["P0010001"] == 49_875
    assert checks.rows(dhc / "microdata" / "persons") == 49_875
    link = accepted.done("linked", "link").out
    assert sum(1 for _ in link.rglob("*.parquet")) > 0
    ages = accepted.done("linked", "ages")
    assert ages.code == 0


@pytest.mark.parametrize(
    ("chain", "name"),
    [pytest.param("groups", n, id=f"groups: {n}") for n in ("persons", "households", "joined")],
)
def test_small_publications_are_whole(chain: str, name: str, accepted: Acceptance) -> None:
    release: Path = accepted.done(chain, name).release
    said = json.loads((release / "privacy.json").read_text())
    assert said["private"] is not False
    assert any((release / "tables").rglob("*"))


def test_a_chain_is_one_workers(tmp_path: Path) -> None:
    """Or each of its commands is run once for every worker."""
    Acceptance(tmp_path, tmp_path, tmp_path).reader("state")
    with pytest.raises(AssertionError, match="chain state is another worker's"):
        Acceptance(tmp_path / "other", tmp_path, tmp_path).reader("state")
    names = ["test_accept.py::test_a[state: full]", "test_accept.py::test_b[state]", "t.py::test_c"]
    assert [chain_of(n) for n in names] == ["state", "state", "t.py::test_c"]


def test_an_absent_file_is_named_and_fails_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=r"ri2010\.pl\.zip is not there"):
        Acceptance(tmp_path, None, tmp_path).done("state", "state")
    monkeypatch.setenv("CI", "true")
    again = tmp_path / "ci"
    with pytest.raises(pytest.fail.Exception, match=r"ri2010\.pl\.zip is absent"):
        Acceptance(again, tmp_path, again).done("state", "state")
