"""A release whose files are cut: the whole of each is its upper tree and its subtrees, on the
shipped extract and its optimized spine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine
from das.files.release import spine as spine_file
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.release.opened import OpenedRelease, open_release
from tests.worlds import Worlds

LARGEST = 24


@pytest.fixture(scope="module")
def opened(worlds: Worlds) -> OpenedRelease:
    return open_release(
        worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand") / "release"
    )


@pytest.fixture(scope="module")
def subtrees(opened: OpenedRelease) -> Subtrees:
    return Subtrees.from_spine(opened.spine, opened.trees.values(), largest=LARGEST)


def test_the_spine(opened: OpenedRelease, subtrees: Subtrees, tmp_path: Path) -> None:
    path = tmp_path / "spine.parquet"
    spine_file.write(path, opened.spine, subtrees)
    assert len(subtrees) > 2
    assert pq.read_table(path).equals(pq.read_table(opened.folder / "spine.parquet"))
    assert spine_file.read(path) == opened.spine
    parts = [
        spine_file.read_upper_tree(path),
        *(spine_file.read_subtree(path, i) for i in range(1, len(subtrees) + 1)),
    ]
    for i, (part, expected) in enumerate(zip(parts, subtrees.parts(opened.spine), strict=True)):
        assert (i, part) == expected
    for level in subtrees.levels(opened.spine, 1):
        joined = np.concatenate([p.codes[p.index(level)] for p in parts[1:]])
        assert np.array_equal(joined, opened.spine.codes[opened.spine.index(level)])


def test_the_trees_that_were_measured(
    opened: OpenedRelease, subtrees: Subtrees, tmp_path: Path
) -> None:
    """A state is in two branches of an optimized spine, and a subtree in two runs of its rows."""
    for name, tree in opened.trees.items():
        path = tmp_path / name / tree_file.NAME
        tree_file.write(path, tree, opened.spine, subtrees)
        assert isinstance(tree, MeasuredSpine)
        assert not tree.alike
        assert pq.read_table(path).num_rows == sum(map(len, tree.spine.codes))
        assert tree_file.read(path, opened.spine) == tree
        said = spine.row_groups(path)
        assert said is not None
        below = len(opened.spine) - opened.spine.index(subtrees.level) - 1
        assert max(len(said.of_subtree(i)) for i in range(1, len(subtrees) + 1)) > below
        upper_tree = subtrees.upper_tree(opened.spine)
        assert tree_file.read_upper_tree(
            path, upper_tree, opened.spine.levels
        ) == subtrees.upper_tree_of(tree, opened.spine)
        starts, seen = subtrees.lowest(opened.spine), []
        for i in range(1, len(subtrees) + 1):
            part = tree_file.read_subtree(path, i, subtrees.subtree(opened.spine, i))
            assert part == subtrees.subtree_of(tree, opened.spine, i)
            seen += (part.place + starts[i - 1]).tolist()
        assert sorted(seen) == sorted(tree.place.tolist())


def test_the_areas(opened: OpenedRelease, subtrees: Subtrees, tmp_path: Path) -> None:
    kinds, path = opened.areas(), tmp_path / areas_file.NAME
    areas_file.write(path, kinds, opened.spine, subtrees)
    assert pq.read_table(path).equals(pq.read_table(opened.folder / areas_file.NAME))
    starts = subtrees.lowest(opened.spine)
    found: dict[str, set[tuple[str, int]]] = {k.kind: set() for k in kinds}
    for i in range(1, len(subtrees) + 1):
        for k in areas_file.read_subtree(path, i, subtrees.subtree(opened.spine, i)):
            found[k.kind] |= {
                (k.code(a), int(u + starts[i - 1])) for a, u in zip(k.area, k.unit, strict=True)
            }
    assert found == {
        k.kind: {(k.code(a), int(u)) for a, u in zip(k.area, k.unit, strict=True)} for k in kinds
    }
