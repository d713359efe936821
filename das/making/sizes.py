"""What a run of counts takes of a machine, when its input is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from das.size import Held, Size, sizes
from das.spec import RunSpec
from das.truth.histogram import over
from das.truth.prepared import Prepared, TrueHistograms


def sizes_of(spec: RunSpec, prepared: Prepared) -> list[Size]:
    """The memory and time that a run on this input takes. If the tree is cut, the memory is that of
    the upper tree or of the largest subtree, whichever is larger. The largest subtree stands for
    all others, and also tells how many cells are occupied in the upper tree."""
    if not len(prepared.subtrees):
        whole = prepared.whole()
        return sizes(
            spec, {name: tree.spine for name, tree in whole.trees.items()}, _held(whole.measured)
        )
    subtrees, spine = prepared.subtrees, prepared.spine
    blocks = np.diff(subtrees.lowest(spine))
    largest = int(blocks.argmax())
    a, b = subtrees.lowest(spine)[[largest, largest + 1]]
    counts = {name: prepared.rows(name, int(a), int(b)) for name in prepared.trees}
    trees = {
        name: subtrees.subtree_of(tree, spine, largest + 1) for name, tree in prepared.trees.items()
    }
    held = _held({name: over(tree, counts[name]) for name, tree in trees.items()})
    above = {name: tree.spine.truncated(subtrees.level) for name, tree in prepared.trees.items()}
    as_there = {
        name: {level: np.full(t.units(level), held[name][level].max()) for level in t.levels}
        for name, t in above.items()
    }
    upper_tree = sizes(spec, above, as_there, subtrees.levels(spine, 0))
    subtree = sizes(
        spec, {name: tree.spine for name, tree in trees.items()}, held, subtrees.levels(spine, 1)
    )
    return [
        replace(
            max(t, s, key=lambda size: size.memory),
            seconds=t.seconds + s.seconds * float(blocks.sum() / (b - a)),
        )
        for t, s in zip(upper_tree, subtree, strict=True)
    ]


def _held(counts: Mapping[str, TrueHistograms]) -> dict[str, Held]:
    """How many cells each unit has somebody in, by universe and level."""
    return {
        name: {
            level: np.diff(
                h.open("how many cells have somebody, for the memory that they take").indptr
            )
            for level, h in levels.items()
        }
        for name, levels in counts.items()
    }
