"""Every file of a seeded run of any publication says that it is not private, and a file whose
writer forgot it is never sealed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from das.errors import PrivacyError
from das.files import atomic
from das.files.run.run_directory import RunDirectory
from das.model.not_private import COLUMN
from das.release import verify
from tests.contract.publications import EVERY, SEED, Published
from tests.marks import unmarked
from tests.stopped import Killed, Step
from tests.worlds import Worlds


@pytest.mark.parametrize("name", EVERY)
def test_every_file_of_a_seeded_run_says_so(name: str, worlds: Worlds, tmp_path: Path) -> None:
    published = EVERY[name](worlds, tmp_path / "given")
    whole = published.whole(worlds)
    assert unmarked(whole) == []
    with published.around():
        verify.check(whole / "release")


@pytest.fixture(params=["counts", "groups of persons", "the S-DHC", "the toy"])
def published(request: pytest.FixtureRequest, worlds: Worlds, tmp_path: Path) -> Published:
    """Those that are quick: who checks is the same for all."""
    return EVERY[request.param](worlds, tmp_path / "given")


def test_a_run_does_not_end_with_a_file_that_forgets_it(
    published: Published, tmp_path: Path
) -> None:
    """Whoever wrote it; that of a private run ends."""
    for seed in (SEED, None):
        out = tmp_path / f"run of {seed}"
        with published.around():
            with pytest.MonkeyPatch.context() as patch:
                Step(RunDirectory, "write_manifest").arm(patch)
                with pytest.raises(Killed):
                    published.go(out, seed)
            atomic.write_text(out / "confidential" / "new.csv", "a,b\n1,2\n")
            if seed is None:
                published.go(out, seed, resume=True)
                continue
            with pytest.raises(PrivacyError, match=r"new\.csv: the run was seeded, and this file"):
                published.go(out, seed, resume=True)
            assert not RunDirectory(out).manifest.exists()


def test_a_release_is_not_sealed_with_such_a_file(published: Published, tmp_path: Path) -> None:
    """The specification, which every publication writes, without its mark."""
    write: Callable[..., Any] = atomic.write_text

    def forgetful(path: Path, text: str, *rest: Any, **how: Any) -> Any:
        said = "".join(x for x in text.splitlines(keepends=True) if COLUMN not in x)
        return write(path, said if path.name == "spec.toml" else text, *rest, **how)

    out = tmp_path / "run"
    with published.around(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(atomic, "write_text", forgetful)
        with pytest.raises(PrivacyError, match=r"spec\.toml: the run was seeded"):
            published.go(out, SEED)
    assert not (out / "release" / "privacy.json").exists()
