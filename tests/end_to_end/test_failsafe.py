"""A run whose root cannot be shared out among the states: repaired, counted in manifest and report,
and valid.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from das import spec
from das.estimate import descent
from das.model.histogram import Histogram
from das.model.solution import Certificate
from das.rounding import Unrounded, round_estimates
from das.runs import pipeline
from tests.worlds import Worlds

MISPLACED = 40


def test_a_root_that_no_state_can_take_its_share_of(
    root: Path, worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forty persons of the root are in juvenile facilities, and there are no such facilities
    anywhere."""
    seen: list[Histogram] = []

    def spoilt(families: list[Unrounded]) -> list[tuple[Histogram, Certificate]]:
        every = round_estimates(families)
        if families[0].estimate.parent is not None or families[0].bounds.groups == 1:
            return every
        ((rounded, certificate),) = every
        assert families[0].bounds.upper[0, 2] == 0
        full = int(np.argmax(rounded.count))
        count = rounded.count.copy()
        count[full] -= MISPLACED
        there = rounded.cell[full] % 252 + 2 * 252
        moved = Histogram.from_triplets(
            1,
            rounded.cells,
            np.zeros(len(count) + 1, dtype=np.int64),
            np.append(rounded.cell, there),
            np.append(count, MISPLACED),
        )
        seen.append(rounded)
        return [(moved, certificate)]

    monkeypatch.setattr(descent, "round_estimates", spoilt)
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    chosen = spec.parse(
        text, where="pl94-2010", overrides=("run.seed=3", "geography.spine=tabulation")
    )
    out = tmp_path / "run"
    pipeline.run(chosen, out, paths=[worlds.data("three thousand")], workers=1)
    certificates = json.loads((out / "manifest.json").read_text())["certificates"]["persons"]
    counted = {
        level: (c["estimation"]["repaired"], c["estimation"]["moved"])
        for level, c in certificates.items()
    }
    assert counted.pop("State") == (1, MISPLACED)
    assert set(counted.values()) == {(0, 0)}
    assert len(seen) == 1
    report = " ".join((out / "confidential" / "report.html").read_text(encoding="utf-8").split())
    assert (
        "Failsafe: above State, 1 units could not be shared out among those below; 40 persons"
        " changed" in report
    )
