"""A run of any publication that is stopped anywhere goes on to the same release, at the same cost;
one that cannot go on says so, changes nothing, and counts twice what it draws twice."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from das.accounting import guarantee
from das.accounting.draws import Differing
from das.accounting.worst import WorstLoss
from das.errors import UserError
from das.files.run.ledger import LedgerFile, folder_digest
from das.files.run.run_directory import RunDirectory, tree_digests
from das.release import verify
from das.release.verify import drawn
from tests.contract.publications import EVERY, SEED, Published, patched
from tests.stopped import Killed, Step, left_over
from tests.worlds import Worlds


@pytest.fixture(params=list(EVERY))
def published(request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path) -> Published:
    return EVERY[request.param](worlds, tmp_path / "given")


def stop(
    published: Published, out: Path, step: Step, seed: int | None, resume: bool = False
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        step.arm(patch)
        with pytest.raises(Killed):
            published.go(out, seed, resume=resume)


def test_stopped_at_every_step_it_is_the_same_release_at_the_same_cost(
    published: Published, worlds: Worlds, tmp_path: Path
) -> None:
    """Byte by byte, its ledger and its statement among them. What was done is not done again."""
    out, whole = tmp_path / "run", published.whole(worlds)
    with published.around():
        with published.watched(out):
            for i, step in enumerate(published.steps()):
                stop(published, out, step, SEED, resume=i > 0)
            with pytest.MonkeyPatch.context() as patch:
                for owner, name in published.again:
                    patch.setattr(owner, name, lambda *_, **__: pytest.fail("it was done"))
                published.go(out, SEED, resume=True)
        assert tree_digests(out / "release") == tree_digests(whole / "release")
        assert evaluated(out) == evaluated(whole)
        entries = LedgerFile(out / "release" / "ledger.jsonl").entries
        assert entries.closed
        assert not entries.lost()
        assert left_over(out) == []
        directory = RunDirectory(out)
        assert directory.read_manifest()["outputs"] == directory.digests()
        verify.check(out / "release")
        before = folder_digest(out)
        again = published.go(out, SEED, resume=True)
        assert again.was_finished
        assert folder_digest(out) == before


def evaluated(out: Path) -> dict[str, str]:
    folder = out / "confidential" / "evaluation"
    return dict(tree_digests(folder)) if folder.exists() else {}


def not_searched(found: Differing, _: Fraction) -> WorstLoss:
    return WorstLoss(0.0, 0.0, (0,) * len(found))


@pytest.mark.parametrize("harm", ["its key is gone", "its truth is another"])
def test_what_cannot_be_drawn_again_is_refused_or_counted(
    published: Published, worlds: Worlds, tmp_path: Path, harm: str
) -> None:
    """What was drawn and is not in the release is in its statement, and adds to what it cost: to
    rho, so no epsilon of these sums is searched for."""
    out = tmp_path / "run"
    worlds.run(data="one thousand")  # the DHC rests on it, and others read its epsilon
    with published.around(), patched(guarantee, "worst_epsilon", not_searched):
        stop(published, out, published.midway(), None)
        if harm == "its key is gone":
            RunDirectory(out).noise_key.unlink()
            says = r"(?s)(cannot be drawn again|was interrupted).*--accept-spent"
        else:
            published.alter(out)
            says = "true counts of .* are not those that this run began with"
        before = folder_digest(out)
        with pytest.raises(UserError, match=says):
            published.go(out, None, resume=True)
        assert folder_digest(out) == before
        published.go(out, None, resume=True, accept_spent=True)
        said, (spec, _) = verify.statement(out / "release"), drawn(out / "release")
        cost = sum((u.plan.cost for u in spec.universes), Fraction(0))
        assert said.lost
        assert said.total == cost + published.adds(said.lost)
        if harm == "its truth is another":
            assert {x.universe for x in said.lost} == {spec.universes[0].name}
            assert published.adds(said.lost) == spec.universes[0].plan.cost
        assert LedgerFile(out / "release" / "ledger.jsonl").entries.closed
        assert left_over(out) == []
