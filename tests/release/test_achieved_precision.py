"""What the budget of a release buys: as its own estimates have it, of any tree and any universe."""

from __future__ import annotations

import numpy as np
import pytest

from das.files.release.estimates import EstimateReader, folder_of
from das.model.universe import Universe
from das.release import precision as asked
from das.release.opened import OpenedRelease, open_release
from das.release.precision import achieved_precision
from tests.worlds import Worlds

INFORMED = "estimation.method=full-information"


@pytest.fixture(scope="module", params=["tabulation", "optimized", "optimized, 19 blocks"])
def release(request: pytest.FixtureRequest, worlds: Worlds) -> OpenedRelease:
    spine, _, data = request.param.partition(", ")
    seed = ["run.seed=7"] if spine == "optimized" else []
    run = worlds.run(f"geography.spine={spine}", *seed, INFORMED, data=data or "three thousand")
    return open_release(run / "release")


def units(release: OpenedRelease, u: Universe, level: str) -> int:
    """Those in which somebody may be: totals of some of them are exact, and have no error."""
    spine = release.tree(u).spine
    limits = release.bounds(u)[spine.levels[-1]].limits
    return len(np.unique(spine.up(spine.levels[-1], level)[limits.upper[limits.row].any(axis=1)]))


def test_deviations_are_the_errors_of_the_estimates(release: OpenedRelease) -> None:
    """Those of full information, whose code has the measurements as well: the root mean square of
    their standard errors over the answers that somebody can give."""
    for u in release.after.universes:
        found, tree, compared = achieved_precision(release, u), release.tree(u), 0
        assert set(found) == {(n.level, n.query) for n in u.noise}
        estimates = EstimateReader(folder_of(release.folder, u.name), tree.spine)
        for (level, query), b in found.items():
            if query in estimates.queries(level):
                error = estimates.read(level, query, 0, tree.spine.units(level))[1].astype(float)
                told = units(release, u, level) if query == "total" else np.count_nonzero(error)
                assert b.deviation**2 * told == pytest.approx((error**2).sum(), rel=1e-4, abs=1e-9)
                compared += 1
        assert compared


def test_the_total_of_states_buys_nothing_where_it_is_exact_and_states_are_units(
    release: OpenedRelease,
) -> None:
    persons = achieved_precision(release, release.after.persons)
    spare = {pair for pair, b in persons.items() if b.nothing}
    known = {pair for pair, b in persons.items() if b.deviation == 0}
    assert (
        spare
        == known
        == ({("State", "total")} if release.tree(release.after.persons).alike else set())
    )


def test_a_page_does_not_wait_for_what_takes_long(
    release: OpenedRelease, monkeypatch: pytest.MonkeyPatch
) -> None:
    persons = release.after.persons
    above = sum(release.tree(persons).spine.units(level) for level in release.spine.levels[:-1])
    work = above * 4 * 16**3  # four contrasts of 16 x 16
    for name, most in (("UNITS", above), ("WORK", work - 1)):
        with monkeypatch.context() as context:
            context.setattr(asked, name, most)
            assert achieved_precision(release, persons) == {}
    monkeypatch.setattr(asked, "WORK", work)
    assert achieved_precision(release, persons)


def test_nothing_is_said_where_cells_are_not_told_apart(release: OpenedRelease) -> None:
    """Their variances would be without bound."""
    persons = release.after.persons
    coarse = tuple(n for n in persons.noise if n.level != "Block" or n.query == "total")
    assert achieved_precision(release, Universe(persons.kind, persons.schema, noise=coarse)) == {}
    plain = Universe(persons.kind, persons.schema, noise=persons.noise)
    if release.tree(persons).alike:  # without a plan, as of another publisher's measurements
        assert achieved_precision(release, plain) == achieved_precision(release, persons)
