"""The cost of reading the spine of a release and its measured tree: the whole, and one subtree.

The tree has ``--blocks`` lowest units in the proportions of the nation: 34 blocks a block group, 3
of these a tract, 27 of these a county, 62 of these a state. In the measured tree each block is in
one of two branches. Each reading runs in its own process, which has read a small tree before, so
libraries and their threads are loaded. Figures are the peak of bytes above that, and seconds of the
processor.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
from collections.abc import Callable, Sequence
from multiprocessing import get_context
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.common import Figures
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.names import Codes, blank, of_characters
from das.model.spine import Spine, nested

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
CHILDREN = (62, 27, 3, 34)  #: of a state, county, tract, block group
DIGITS = (2, 3, 6, 1, 4)
SMALL = 5000
#: The largest peak for reading the whole, for the published spine and for the measured tree, and
#: seconds for a million blocks.
BYTES, SECONDS = {"published": 120, "measured": 200}, {"published": 1.0, "measured": 2.0}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.release_files", description=__doc__)
    parser.add_argument("--blocks", type=int, default=1_000_000)
    blocks = parser.parse_args(arguments).blocks
    figures = Figures("release_files")
    with tempfile.TemporaryDirectory() as name:
        for size in (SMALL, blocks):
            _alone(
                _write, Path(name, str(size)), size
            )  # this process stays small: its children begin with its peak
        subtree = len(spine_file.read_subtrees(Path(name, str(blocks), "published"))) // 2
        for what in ("published", "measured"):
            held, seconds = _alone(_read, Path(name), what, blocks)
            figures(
                f"peak memory of reading the {what} spine",
                held / blocks,
                "bytes a block",
                at_most=BYTES[what],
                blocks=blocks,
            )
            figures(
                f"reading the {what} spine",
                seconds / blocks * 1e6,
                "s per 10^6 blocks",
                at_most=SECONDS[what],
            )
            if subtree:
                held, seconds = _alone(_read, Path(name), what, blocks, subtree)
                figures(
                    f"reading one subtree of the {what} spine", seconds, "s", megabytes=held / 1e6
                )


def tree_of(blocks: int) -> Spine:
    """Codes of digits, each with those of its parent before it."""
    sizes = [blocks]
    for children in reversed(CHILDREN):
        sizes.insert(0, max(1, sizes[0] // children))
    parents = [np.sort(np.arange(n) % above) for above, n in zip([1, *sizes], sizes, strict=False)]
    codes: list[Codes] = [np.array([b"US"])]
    above = np.zeros((1, 0), dtype=np.uint8)
    for parent, digits in zip(parents, DIGITS, strict=True):
        number = np.arange(len(parent)) - np.searchsorted(parent, parent) + 1
        own = (number[:, None] // 10 ** np.arange(digits - 1, -1, -1) % 10 + ord("0")).astype(
            np.uint8
        )
        if digits == 4:
            own[:, 0] = above[parent, -1]  # the first digit of a block is that of its block group
        above = np.hstack([above[parent], own])
        codes.append(of_characters(above))
    names = [
        np.char.add(f"{level} ", c.astype(np.str_))
        for level, c in zip(LEVELS[:-1], codes, strict=False)
    ]
    return Spine(
        LEVELS,
        tuple(codes),
        (np.zeros(1, dtype=np.int64), *parents),
        (*names, blank(len(codes[-1]))),
    )


def two_branches(spine: Spine) -> MeasuredSpine:
    """Every second block group with what is above it in the one, the others in the other."""
    branch = np.arange(spine.units("Block_Group")) % 2
    group = spine.up("Block", "Block_Group")
    place = np.argsort(branch[group], kind="stable")
    codes = [np.full(len(place), b"US")]
    for level in LEVELS[1:]:
        code = spine.codes[spine.index(level)][spine.up("Block", level)[place]]
        codes.append(np.strings.add(np.where(branch[group[place]], b"1", b"0"), code))
    units, parents, _ = nested(LEVELS, codes)
    return MeasuredSpine.bypassed(Spine(LEVELS, units, parents), place)


def _write(folder: Path, blocks: int) -> tuple[int, float]:
    spine = tree_of(blocks)
    tree = two_branches(spine)
    subtrees = Subtrees.from_spine(spine, [tree])
    folder.mkdir()
    spine_file.write(folder / "published", spine, subtrees)
    tree_file.write(folder / "measured", tree, spine, subtrees)
    return _peak(), 0.0


def _read(folder: Path, what: str, blocks: int, subtree: int | None = None) -> tuple[int, float]:
    """Bytes at the peak beyond what was there, and seconds of the processor. The published spine is
    there when the measured one is read.
    """
    _opened(folder / str(SMALL), what, None)
    held = _peak()
    reading = _opened(folder / str(blocks), what, subtree, begun := [0.0])
    seconds = process_time() - begun[0]
    del reading
    return _peak() - held, seconds


def _opened(
    folder: Path, what: str, subtree: int | None, begun: list[float] | None = None
) -> Spine | MeasuredSpine:
    begun = [0.0] if begun is None else begun
    begun[0] = process_time()
    path = folder / "published"
    published = spine_file.read(path) if subtree is None else spine_file.read_subtree(path, subtree)
    if what == "published":
        return published
    begun[0] = process_time()
    path = folder / "measured"
    return (
        tree_file.read(path, published)
        if subtree is None
        else tree_file.read_subtree(path, subtree, published)
    )


def _peak() -> int:
    """Bytes: Linux says kilobytes, macOS bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
        1 if sys.platform == "darwin" else 1024
    )


def _alone(work: Callable[..., tuple[int, float]], *given: object) -> tuple[int, float]:
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(work, given)


if __name__ == "__main__":
    main()
