"""A run that is cut into subtrees and stops when its subtrees are measured, before any of it is
acknowledged: what going on costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das import spec
from das.errors import UserError
from das.files.run.ledger import LedgerFile, measured_files
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.release import verify
from das.runs import pipeline
from das.truth import by_subtree, prepared
from das.truth import files as truth
from tests.worlds import ROOT, Worlds


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def chosen() -> spec.RunSpec:
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    changes = ("geography.spine=tabulation", "output.report=false", "output.tables=false")
    return spec.parse(text, where="c", overrides=changes)


@pytest.fixture
def stopped(chosen: spec.RunSpec, worlds: Worlds, tmp_path: Path) -> Iterator[RunDirectory]:
    def stop(*_: Any) -> None:
        raise Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepared, "LARGEST", 8)
        with patch.context() as inner:
            inner.setattr(by_subtree.BudgetBook, "acknowledge", stop)
            with pytest.raises(Stopped):
                pipeline.run(chosen, tmp_path / "run", paths=[worlds.data("one thousand")])
        run = RunDirectory(tmp_path / "run")
        assert len(list(run.truth_of("persons").parent.iterdir())) >= 3
        assert run.noise_key.exists()
        yield run


def files(run: RunDirectory) -> dict[str, bytes]:
    return {name: path.read_bytes() for name, path in measured_files(run.release).items()}


def test_another_truth_in_a_subtree_is_refused_or_all_of_it_is_measured_anew(
    chosen: spec.RunSpec, stopped: RunDirectory
) -> None:
    path, before = stopped.truth_of("persons", 2), files(stopped)
    h = truth.read(path).open("for a test")
    one = Histogram.from_triplets(
        h.units, h.cells, np.append(h.unit, 0), np.append(h.cell, 2015), np.append(h.count, 1)
    )
    truth.write(path, Confidential(one))
    with pytest.raises(UserError, match="true counts of persons are not those"):
        pipeline.run(chosen, stopped.root, resume=True)
    assert files(stopped) == before
    pipeline.run(chosen, stopped.root, resume=True, accept_spent=True)
    said, after = verify.statement(stopped.release), files(stopped)
    assert {x.universe for x in said.lost} == {"persons"}
    assert said.total == sum((u.plan.cost for u in chosen.universes), chosen.persons.plan.cost)
    assert not [name for name in before if name.startswith("nmf/") and after[name] == before[name]]
    assert all(after[name] == before[name] for name in before if name.startswith("nmf-housing/"))
    entries = LedgerFile(stopped.ledger).entries
    assert {entries.number(stage) for stage in entries.last() if stage[0] == "persons"} == {2}
