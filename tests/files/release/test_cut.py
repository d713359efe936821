"""A release whose files are cut: the whole of each is its trunk and its shards, on the shipped
extract and its optimised spine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from das.files.release import areas as areas_file
from das.files.release import cut
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.model.measured_spine import MeasuredSpine
from das.model.shards import Shards
from das.release.post import Opened, open_release
from tests.worlds import Worlds

LARGEST = 24


@pytest.fixture(scope="module")
def opened(worlds: Worlds) -> Opened:
    return open_release(
        worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand") / "release"
    )


@pytest.fixture(scope="module")
def shards(opened: Opened) -> Shards:
    return Shards.of(opened.spine, opened.trees.values(), largest=LARGEST)


def test_the_spine(opened: Opened, shards: Shards, tmp_path: Path) -> None:
    path = tmp_path / "spine.parquet"
    spine_file.write(path, opened.spine, shards)
    assert len(shards) > 2
    assert pq.read_table(path).equals(pq.read_table(opened.folder / "spine.parquet"))
    assert spine_file.read(path) == opened.spine
    parts = [
        spine_file.read_trunk(path),
        *(spine_file.read_shard(path, i) for i in range(1, len(shards) + 1)),
    ]
    for i, (part, expected) in enumerate(zip(parts, shards.parts(opened.spine), strict=True)):
        assert (i, part) == expected
    for level in shards.levels(opened.spine, 1):
        joined = np.concatenate([p.codes[p.index(level)] for p in parts[1:]])
        assert np.array_equal(joined, opened.spine.codes[opened.spine.index(level)])


def test_the_trees_that_were_measured(opened: Opened, shards: Shards, tmp_path: Path) -> None:
    """A state is in two branches of an optimised spine, and a shard in two runs of its rows."""
    for name, tree in opened.trees.items():
        path = tmp_path / name / tree_file.NAME
        tree_file.write(path, tree, opened.spine, shards)
        assert isinstance(tree, MeasuredSpine)
        assert not tree.alike
        assert pq.read_table(path).num_rows == sum(map(len, tree.spine.codes))
        assert tree_file.read(path, opened.spine) == tree
        said = cut.said(path)
        assert said is not None
        below = len(opened.spine) - opened.spine.index(shards.level) - 1
        assert max(len(said.of(i)) for i in range(1, len(shards) + 1)) > below
        trunk = shards.trunk(opened.spine)
        assert tree_file.read_trunk(path, trunk, opened.spine.levels) == shards.trunk_of(
            tree, opened.spine
        )
        starts, seen = shards.lowest(opened.spine), []
        for i in range(1, len(shards) + 1):
            part = tree_file.read_shard(path, i, shards.shard(opened.spine, i))
            assert part == shards.shard_of(tree, opened.spine, i)
            seen += (part.place + starts[i - 1]).tolist()
        assert sorted(seen) == sorted(tree.place.tolist())


def test_the_areas(opened: Opened, shards: Shards, tmp_path: Path) -> None:
    kinds, path = opened.areas(), tmp_path / areas_file.NAME
    areas_file.write(path, kinds, opened.spine, shards)
    assert pq.read_table(path).equals(pq.read_table(opened.folder / areas_file.NAME))
    starts = shards.lowest(opened.spine)
    found: dict[str, set[tuple[str, int]]] = {k.kind: set() for k in kinds}
    for i in range(1, len(shards) + 1):
        for k in areas_file.read_shard(path, i, shards.shard(opened.spine, i)):
            found[k.kind] |= {
                (k.code(a), int(u + starts[i - 1])) for a, u in zip(k.area, k.unit, strict=True)
            }
    assert found == {
        k.kind: {(k.code(a), int(u)) for a, u in zip(k.area, k.unit, strict=True)} for k in kinds
    }
