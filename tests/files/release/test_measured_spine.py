"""The file of a tree that was measured: there and back, of our own runs and of another publisher's,
and what is none.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import ReleaseError
from das.files.release import measured_spine as tree_file
from das.files.release import spine as cut
from das.model import tabulation
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.spine import Spine
from tests.model.test_measured_spine import spines
from tests.model.test_subtrees import measured_over, trees

LEVELS = ("US", "State", "Tract", "Block")


def same(a: MeasuredSpine, b: MeasuredSpine) -> bool:
    pairs = [(a.place, b.place), *zip(a.last, b.last, strict=True)]
    return (
        not a.spine.unlike(b.spine)
        and a.shares == b.shares
        and all(np.array_equal(x, y) for x, y in pairs)
    )


@given(spine=spines(LEVELS), seed=st.integers(0, 1000), ours=st.booleans())
@settings(max_examples=20)
def test_a_tree_is_read_as_it_was_written(
    tmp_path_factory: pytest.TempPathFactory, spine: Spine, seed: int, ours: bool
) -> None:
    """A run's own has the shares of its units; of another publisher's is known which units are
    measured, any of them.
    """
    path = tmp_path_factory.mktemp("tree") / tree_file.NAME
    rng = np.random.default_rng(seed)
    measured = [rng.random(len(c)) < 0.7 for c in spine.codes]
    measured[-1][0] |= not any(
        here.any() for here in measured
    )  # somebody is: of nothing there is no tree
    tree = (
        MeasuredSpine.bypassed(spine, np.arange(len(spine.codes[-1])))
        if ours
        else MeasuredSpine.of_measured(spine, measured)
    )
    tree_file.write(path, tree, tree.spine)
    assert path.exists() == (not tree.alike)
    again = tree_file.read(path, tree.spine)
    assert same(again, tree)
    for level, here in zip(LEVELS, measured, strict=True):
        if not ours:
            assert np.array_equal(again.measured(level), here)
            assert set(again.classes(level)) <= {tabulation.MEASURED, tabulation.UNMEASURED, "all"}


@given(
    spine=trees(),
    random=st.randoms(use_true_random=False),
    largest=st.integers(4, 12),
    ours=st.booleans(),
)
@settings(max_examples=20)
def test_the_whole_is_its_upper_tree_and_its_subtrees(
    tmp_path_factory: pytest.TempPathFactory, spine: Spine, random: Random, largest: int, ours: bool
) -> None:
    """Cut in subtrees or not the rows are the same, and what is read of a subtree is the whole
    restricted to it.
    """
    folder, tree = tmp_path_factory.mktemp("tree"), measured_over(spine, random)
    if not ours:
        last = tuple(np.where(x >= d, d, -1).astype(np.int8) for d, x in enumerate(tree.last))
        tree = MeasuredSpine(tree.spine, tree.place, last, shares=False)
    path, subtrees = folder / tree_file.NAME, Subtrees.from_spine(spine, [tree], largest=largest)
    tree_file.write(path, tree, spine, subtrees)
    tree_file.write(folder / "whole.parquet", tree, spine)
    assert pd.read_parquet(path).equals(pd.read_parquet(folder / "whole.parquet"))
    whole = tree_file.read(path, spine)
    assert whole == tree_file.read(folder / "whole.parquet", spine) == tree
    if not len(subtrees):
        return
    assert tree_file.read_upper_tree(
        path, subtrees.upper_tree(spine), spine.levels
    ) == subtrees.upper_tree_of(tree, spine)
    bounds = subtrees.lowest(spine)
    for i in range(1, len(subtrees) + 1):
        if ((tree.place >= bounds[i - 1]) & (tree.place < bounds[i])).any():
            assert tree_file.read_subtree(
                path, i, subtrees.subtree(spine, i)
            ) == subtrees.subtree_of(tree, spine, i)
        else:
            with pytest.raises(ReleaseError, match=f"subtree {i} has no unit"):
                tree_file.read_subtree(path, i, subtrees.subtree(spine, i))


def test_without_a_file_the_subtrees_are_those_of_the_published_spine(tmp_path: Path) -> None:
    spine = Spine.from_frame({"A": ["a", "b"], "B": ["a1", "b1"]}, ["US", "A", "B"])
    subtrees, tree, path = (
        Subtrees("A", np.array([0, 1, 2])),
        MeasuredSpine.from_published(spine),
        tmp_path / tree_file.NAME,
    )
    tree_file.write(path, tree, spine, subtrees)
    assert not path.exists()
    upper_tree, part = subtrees.upper_tree(spine), subtrees.subtree(spine, 2)
    assert tree_file.read_upper_tree(path, upper_tree, spine.levels) == subtrees.upper_tree_of(
        tree, spine
    )
    assert tree_file.read_subtree(path, 2, part) == subtrees.subtree_of(tree, spine, 2)
    tree_file.write(path, MeasuredSpine.bypassed(spine, tree.place), spine)
    with pytest.raises(ReleaseError, match="not cut into subtrees"):
        tree_file.read_subtree(path, 2, part)


def chain() -> MeasuredSpine:
    codes = tuple(np.array([level[0] * (i + 1)]) for i, level in enumerate(LEVELS))
    spine = Spine(LEVELS, codes, (np.zeros(1, dtype=np.int64),) * 4)
    return MeasuredSpine.bypassed(spine, np.zeros(1, dtype=np.int64))


def another(column: str, values: list[str]) -> Callable[[pa.Table], pa.Table]:
    return lambda table: table.set_column(
        table.schema.get_field_index(column), column, pa.array(values)
    )


@pytest.mark.parametrize(
    "change,word",
    [
        (
            another("measured_with", ["US to Tract", "unmeasured", "unmeasured", "unmeasured"]),
            "do not add up",
        ),
        (
            another("measured_with", ["US to Block", "unmeasured", "Tract", "unmeasured"]),
            "do not add up",
        ),
        (
            another("measured_with", ["US to Blocks", "unmeasured", "unmeasured", "unmeasured"]),
            "no class 'US to Blocks'",
        ),
        (
            another("measured_with", ["Tract", "unmeasured", "unmeasured", "unmeasured"]),
            "no class 'Tract'",
        ),
        (another("place", ["", "", "", "elsewhere"]), "levels and places"),
        (lambda table: table.drop_columns(["place"]), "place"),
    ],
)
def test_a_file_that_is_no_tree_is_refused(
    tmp_path: Path, change: Callable[[pa.Table], pa.Table], word: str
) -> None:
    """A share that is moved between units of a path is one of them."""
    path, tree = tmp_path / tree_file.NAME, chain()
    tree_file.write(path, tree, tree.spine)
    pq.write_table(change(pq.read_table(path)), path)
    with pytest.raises(ReleaseError, match=word) as caught:
        tree_file.read(path, tree.spine)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("place", [None, [0], [0, 2], [-1, 0], [0, True], ["0", "1"]])
def test_a_upper_tree_that_lies_nowhere_is_refused(tmp_path: Path, place: object) -> None:
    spine = Spine.from_frame({"A": ["a", "b"], "B": ["a1", "b1"]}, ["US", "A", "B"])
    subtrees, path = Subtrees("A", np.array([0, 1, 2])), tmp_path / tree_file.NAME
    tree_file.write(path, MeasuredSpine.bypassed(spine, np.arange(2)), spine, subtrees)
    table, key = pq.read_table(path), cut.KEY.encode()
    meta = json.loads(pq.read_metadata(path).metadata[key]) | {"place": place}
    with pq.ParquetWriter(path, table.schema.with_metadata({key: json.dumps(meta)})) as writer:
        for a, b in ((0, 1), (1, 3), (3, 4), (4, 5)):
            writer.write_table(
                table.slice(a, b - a).replace_schema_metadata({key: json.dumps(meta)})
            )
    with pytest.raises(ReleaseError, match="levels and places"):
        tree_file.read_upper_tree(path, subtrees.upper_tree(spine), spine.levels)
