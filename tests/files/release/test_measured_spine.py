"""The file of a tree that was measured: there and back, of our own runs and of another publisher's, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import ReleaseError
from das.files.release import measured_spine as tree_file
from das.model import chains
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine
from tests.model.test_measured_spine import spines

LEVELS = ("US", "State", "Tract", "Block")


def same(a: MeasuredSpine, b: MeasuredSpine) -> bool:
    pairs = [(a.place, b.place), *zip(a.last, b.last, strict=True)]
    return not a.spine.unlike(b.spine) and a.shares == b.shares and all(np.array_equal(x, y) for x, y in pairs)


@given(spine=spines(LEVELS), seed=st.integers(0, 1000), ours=st.booleans())
@settings(max_examples=20)
def test_a_tree_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, spine: Spine, seed: int, ours: bool
) -> None:
    """A run's own has the shares of its units; of another publisher's is known which units are measured, any of them."""
    path = tmp_path_factory.mktemp("tree") / tree_file.NAME
    rng = np.random.default_rng(seed)
    measured = [rng.random(len(c)) < 0.7 for c in spine.codes]
    tree = (MeasuredSpine.bypassed(spine, np.arange(len(spine.codes[-1]))) if ours
            else MeasuredSpine.of_measured(spine, measured))  # fmt: skip
    tree_file.write(path, tree, tree.spine)
    assert path.exists() == (not tree.alike)
    again = tree_file.read(path, tree.spine)
    assert same(again, tree)
    for level, here in zip(LEVELS, measured, strict=True):
        if not ours:
            assert np.array_equal(again.measured(level), here)
            assert set(again.classes(level)) <= {chains.MEASURED, chains.UNMEASURED, "all"}


def chain() -> MeasuredSpine:
    codes = tuple(np.array([level[0] * (i + 1)]) for i, level in enumerate(LEVELS))
    spine = Spine(LEVELS, codes, (np.zeros(1, dtype=np.int64),) * 4)
    return MeasuredSpine.bypassed(spine, np.zeros(1, dtype=np.int64))


def another(column: str, values: list[str]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(table.schema.get_field_index(column), column, pa.array(values))


@pytest.mark.parametrize("change,word", [
    (another("measured_with", ["US to Tract", "unmeasured", "unmeasured", "unmeasured"]), "do not add up"),
    (another("measured_with", ["US to Block", "unmeasured", "Tract", "unmeasured"]), "do not add up"),
    (another("measured_with", ["US to Blocks", "unmeasured", "unmeasured", "unmeasured"]), "no class 'US to Blocks'"),
    (another("measured_with", ["Tract", "unmeasured", "unmeasured", "unmeasured"]), "no class 'Tract'"),
    (another("place", ["", "", "", "elsewhere"]), "levels and places"),
    (lambda table: table.drop_columns(["place"]), "place"),
])  # fmt: skip
def test_a_file_that_is_no_tree_is_refused(tmp_path: Path, change: Callable[[pa.Table], pa.Table], word: str) -> None:
    """A share that is moved between units of a path is one of them."""
    path, tree = tmp_path / tree_file.NAME, chain()
    tree_file.write(path, tree, tree.spine)
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(ReleaseError, match=word) as caught:
        tree_file.read(path, tree.spine)
    assert str(path) in str(caught.value)
