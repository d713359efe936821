"""An input of several states is read a state at a time, and is the same as read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from das.engine import Silent
from das.errors import InputError
from das.files.simulators import census_2010
from das.publications.counts.truth.maker import sizes_of
from das.spec import parse
from das.stages import Stages
from das.truth import preparation, prepared
from das.truth.prepared import Prepared, joined
from tests.worlds import ROOT

TEXT = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("states")
    census_2010.write(folder, seed=5, states=3, persons=4000)
    return folder


def both(states: Path, monkeypatch: pytest.MonkeyPatch, *changes: str) -> tuple[Prepared, Prepared]:
    spec = parse(TEXT, where="c", overrides=changes)
    apart = preparation.prepare(spec, [states], Stages(), Silent(), threads=3)
    monkeypatch.setattr(preparation, "_apart", lambda _, paths: [list(paths)])
    return apart, preparation.prepare(spec, [states], Stages(), Silent())


@pytest.mark.parametrize(
    "changes",
    [
        ("geography.spine=tabulation",),
        ("geography.spine=optimized",),
        (
            "geography.spine=optimized",
            "geography.targets=['SLDL','Tract']",
            "geography.fanout=none",
        ),
    ],
)
def test_states_read_apart_and_at_once_are_the_same(
    states: Path, monkeypatch: pytest.MonkeyPatch, changes: tuple[str, ...]
) -> None:
    apart, whole = both(states, monkeypatch, *changes)
    assert apart.spine == whole.spine
    assert [list(n) for n in apart.spine.names] == [list(n) for n in whole.spine.names]
    assert apart.sources == whole.sources
    assert apart.assigned == whole.assigned
    for u in whole.trees:
        assert apart.trees[u] == whole.trees[u], u
        for levels in (apart.truth, apart.measured):
            other = whole.truth if levels is apart.truth else whole.measured
            assert all(
                levels[u][lv].open("test").same_as(other[u][lv].open("test"))
                for lv in whole.spine.levels
            )
        for a, b in zip(apart.constraints[u], whole.constraints[u], strict=True):
            assert (a.name, a.level, a.query, a.sign, a.says) == (
                b.name,
                b.level,
                b.query,
                b.sign,
                b.says,
            )
            assert np.array_equal(a.bound, b.bound)
    assert {a.kind for a in apart.areas} == {a.kind for a in whole.areas}
    for a in whole.areas:
        other = next(x for x in apart.areas if x.kind == a.kind)
        assert other.codes.tolist() == a.codes.tolist()
        assert list(other.called) == list(a.called)
        assert set(zip(other.area.tolist(), other.unit.tolist(), strict=True)) == set(
            zip(a.area.tolist(), a.unit.tolist(), strict=True)
        )


def test_of_counts_that_are_not_put_together_any_units_can_be_asked_for(
    states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of several states at once: a subtree may be two small ones."""
    monkeypatch.setattr(prepared, "LARGEST", 0)
    apart, whole = both(states, monkeypatch, "geography.spine=optimized")
    assert apart.in_parts is not None
    assert not apart.lowest
    assert whole.in_parts is None
    n, rng, levels = len(whole.spine.codes[-1]), np.random.default_rng(1), whole.spine.levels
    for u, tree in whole.trees.items():
        h = whole.lowest[u].open("test")
        for a, b in [
            (0, n),
            (0, 1),
            (n - 1, n),
            *np.sort(rng.choice(n, (20, 2), replace=False), axis=1).tolist(),
        ]:
            assert apart.rows(u, a, b).open("test").same_as(h.rows(a, b))
        put = apart.whole()
        for levels, other in ((put.truth[u], whole.truth[u]), (put.measured[u], whole.measured[u])):
            assert all(
                levels[lv].open("test").same_as(other[lv].open("test")) for lv in whole.spine.levels
            )
        for share in (0.0, 0.01, 0.5, 1.0):
            kept = [np.flatnonzero(rng.random(len(codes)) < share) for codes in tree.spine.codes]
            for c, d in zip(
                apart.stated_of(u, kept, levels), whole.stated_of(u, kept, levels), strict=True
            ):
                assert (c.name, c.level) == (d.name, d.level)
                assert np.array_equal(c.bound, d.bound)


def test_what_a_cut_run_takes_is_told_from_its_largest_part(
    states: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part adds about a second, which the least takes."""
    monkeypatch.setattr(prepared, "LARGEST", 50)
    apart, whole = both(states, monkeypatch)
    assert len(apart.subtrees) > 1
    monkeypatch.setattr(prepared, "LARGEST", 1 << 17)
    spec = parse(TEXT, where="c")
    for of_parts, at_once in zip(sizes_of(spec, apart), sizes_of(spec, whole), strict=True):
        assert of_parts.memory < 1.1 * at_once.memory
        assert at_once.seconds / 2 < of_parts.seconds < 2 * at_once.seconds + len(apart.subtrees)


def test_a_place_in_two_parts_is_refused(states: Path) -> None:
    spec = parse(TEXT, where="c")
    one = preparation.prepare(spec, [sorted(states.glob("*.zip"))[0]], Stages(), Silent())
    with pytest.raises(InputError, match="a code occurs twice"):
        joined([one, one])


def test_a_target_that_no_state_has_is_refused(states: Path) -> None:
    spec = parse(TEXT, where="c", overrides=["geography.spine=optimized", "geography.targets=Ward"])
    with pytest.raises(InputError, match="no geographic field 'Ward'"):
        preparation.prepare(spec, [states], Stages(), Silent())
