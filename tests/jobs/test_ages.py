"""Pictures of ages: what they show is published, and intervals are those of the replicates."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from das.cli import main
from das.errors import UserError
from das.model.universe import Universe
from das.publications.dhc.ages import PlaceChoice, age_pictures
from das.publications.dhc.figures import median_age
from das.publications.dhc.model.persons import DHCP
from das.release.publications import source_of
from das.replicates import ReplicateErrors, interval
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.dhc_with_intervals()


def test_what_is_shown_is_published_and_has_the_intervals_of_the_replicates(run: Path) -> None:
    source, found = age_pictures(run, PlaceChoice("County"))
    u = next(u for u in source.universes if u.name == "persons")
    assert isinstance(u, Universe)
    spine, up = source.spine, source.spine.up("Block", "County")

    def ages(h: object) -> np.ndarray:
        there = h.up(up, spine.units("County"))
        return there.answer(DHCP.query("sex * age")).reshape(spine.units("County"), 2, -1)

    value = ages(source.counts(u))
    order = np.argsort(-value.sum(axis=(1, 2)), kind="stable")
    drawn = np.array([ages(h) for h in source.replicates(u)])
    assert (found.replicates, found.coverage, len(drawn)) == (2, 0.9, 2)
    for kept, of in (
        (found.five, lambda a: np.stack([a[..., i : i + 5].sum(-1) for i in range(0, 85, 5)], -1)),
        (found.single, lambda a: a[..., :100]),
    ):
        n = of(value).shape[-1]
        expected = interval(of(value), ReplicateErrors.from_replicates(of(value), of(drawn)), 0.9)
        assert np.array_equal(kept.value[..., :n], of(value)[order])
        assert np.array_equal(kept.low[..., :n], np.maximum(expected.lower, 0)[order])
        assert np.array_equal(kept.high[..., :n], expected.upper[order])
    assert np.array_equal(found.five.value.sum(axis=2), value[order].sum(axis=2))
    assert np.array_equal(found.single.value.sum(axis=2), value[order].sum(axis=2))
    assert np.array_equal(found.listed.value.sum(axis=1), value[order].sum(axis=(1, 2)))
    assert found.median.value.tolist() == [median_age(a.sum(axis=0)) for a in value[order]]
    assert (found.median.low <= found.median.value + 1).all()


def test_the_command_writes_a_page(
    run: Path, worlds: Worlds, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With intervals and without; a seeded run says that it is not private."""
    out, shown = tmp_path / "p.html", ("--level", "tract", "--first", "1")
    for source, word in ((run, "2 replicates"), (worlds.dhc(), "makes them")):
        with pytest.raises(SystemExit) as end:
            main(["ages", str(source), *shown, "--out", str(out)])
        assert end.value.code == 0
        assert "NOT PRIVATE" in "".join(capsys.readouterr())
        page = out.read_text("utf-8")
        assert page.count("<svg") == 3  # two of the place, and the medians
        assert word in page
        assert "NOT PRIVATE" in page
        assert "1 more places are not shown" in page
        assert "nan" not in page


def test_what_has_no_ages_is_refused(worlds: Worlds, run: Path) -> None:
    with pytest.raises(UserError, match="single years of age"):
        age_pictures(worlds.run("run.seed=1", data="one thousand"), PlaceChoice("County"))
    with pytest.raises(UserError, match="nobody is published"):
        age_pictures(run, PlaceChoice("County", ("99999",)))
    assert source_of(run / "release").asked is not None
