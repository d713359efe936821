"""A run that is counted in parts, an upper tree and subtrees, and added up, is the run counted at
once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das.files.run import tallies as tallies_file
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.measurement import Measurement, Measurements
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.model.redistricting import H1
from das.model.schema import Attribute, Schema
from das.model.spine import Spine
from das.model.universe import HOUSING, PERSONS, Universe
from das.tables import universe_tables
from das.truth.assessment import Comparand, Measured, Piece, over_tree, tally
from das.truth.evaluation import Published, Tallies, Whole
from das.truth.prepared import upward

HOME = Schema(
    "home",
    (Attribute("hhgq", ("household", "college")), Attribute("votingage", ("young", "old"))),
    (),
    (),
    "hhgq",
)
UNIVERSES = (Universe(PERSONS, HOME), Universe(HOUSING, H1))
LEVELS = ("US", "A", "B", "C", "D")


@dataclass(frozen=True)
class Part:
    """Measurements of some units of a source; none at levels where none of them is measured."""

    source: Measurements
    whole: Spine
    spine: Spine

    def units(self, level: str) -> Any:
        return self.whole.find(level, self.spine.codes[self.spine.index(level)])

    def queries(self, level: str) -> tuple[str, ...]:
        held = [
            (q, self.source.held[level, q].variance[self.units(level)])
            for q in self.source.queries(level)
        ]
        return tuple(q for q, variance in held if np.isfinite(variance).any())

    def read(self, level: str, query: str, start: int, stop: int) -> Measurement:
        m, at = self.source.held[level, query], self.units(level)[start:stop]
        return Measurement(level, query, start, m.values[at], m.variance[at])

    def part(self, level: str, start: int, stop: int) -> Part:
        raise NotImplementedError


@dataclass(frozen=True)
class Estimates:
    """Of the total, off by a part of a person."""

    source: Part

    def queries(self, level: str) -> tuple[str, ...]:
        return ("total",) * (level != "D")

    def read(self, level: str, query: str, start: int, stop: int) -> tuple[Any, Any]:
        m = self.source.units(level)[start:stop, None]
        return m * 7 % 11 + m / 7, np.where(m % 3, 0.5, 0).astype(np.float32) + m % 5


@dataclass(frozen=True)
class World:
    spine: Spine
    tree: MeasuredSpine
    truth: dict[str, Histogram]
    published: dict[str, Histogram]
    source: dict[str, Measurements]
    areas: Areas

    @property
    def whole(self) -> dict[str, Whole]:
        return {
            u.name: Whole(
                Confidential(self.truth[u.name].upward(self.spine)["US"]),
                self.published[u.name].upward(self.spine)["US"],
            )
            for u in UNIVERSES
        }

    def all(self) -> Piece:
        return self.piece(LEVELS, self.spine, self.tree, 0, self.spine.units("D"))

    def piece(
        self, levels: Iterable[str], spine: Spine, tree: MeasuredSpine | None, start: int, stop: int
    ) -> Piece:
        compared = []
        for u in UNIVERSES:
            truth = upward(Confidential(self.truth[u.name].rows(start, stop)), spine)
            published = self.published[u.name].rows(start, stop).upward(spine)
            measured = None
            if tree is not None:
                measured = self.measured(u, tree.spine, *over_tree(tree, truth, published))
            compared.append(
                Comparand(u, truth, published, measured, self.whole[u.name], universe_tables(u))
            )
        return Piece(tuple(levels), compared, True, self.areas_of(range(start, stop)))

    def upper_tree(self, subtrees: Subtrees) -> Piece:
        """Its counts are sums of what lies below, which an upper tree does not have."""
        levels, compared = subtrees.levels(self.spine, 0), []
        spine = subtrees.upper_tree_of(self.tree, self.spine).spine
        for u in self.all().universes:
            m = u.measured
            assert m is not None
            above = [
                {lv: x[lv] for lv in levels}
                for x in (u.truth, u.published, m.truth, m.against.histograms)
            ]
            measured = self.measured(u.universe, spine, above[2], above[3])
            compared.append(Comparand(u.universe, above[0], above[1], measured, u.whole, u.tables))
        return Piece(levels, compared, False)

    def measured(self, u: Universe, spine: Spine, truth: Any, counts: Any) -> Measured:
        source = Part(self.source[u.name], self.tree.spine, spine)
        queries = {level: self.source[u.name].queries(level) for level in LEVELS}
        return Measured(spine, truth, Published(source, counts, queries, Estimates(source)))

    def areas_of(self, rows: range) -> list[Areas]:
        """Those that have units there."""
        here = np.isin(self.areas.unit, rows)
        kept, area = np.unique(self.areas.area[here], return_inverse=True)
        return (
            [Areas("Parish", self.areas.codes[kept], area, self.areas.unit[here] - rows.start)]
            if here.any()
            else []
        )

    def pieces(self, subtrees: Subtrees) -> Iterator[Piece]:
        yield self.upper_tree(subtrees)
        bounds = subtrees.lowest(self.spine).tolist()
        for i, (start, stop) in enumerate(pairwise(bounds), 1):
            lived_in = ((self.tree.place >= start) & (self.tree.place < stop)).any()
            tree = subtrees.subtree_of(self.tree, self.spine, i) if lived_in else None
            yield self.piece(
                subtrees.levels(self.spine, i), subtrees.subtree(self.spine, i), tree, start, stop
            )

    def rows(self, found: Tallies) -> list[dict[str, Any]]:
        out = []
        for u, counted in zip(UNIVERSES, found.universes, strict=True):
            out += [row for q in counted.queries for row in q.rows(DISCRETE_GAUSSIAN)]
            out += counted.tables.rows(universe_tables(u), [self.areas.kind], self.whole[u.name])
        return [asdict(row) for row in [*out, *found.impossible]]


def world(seed: int, own: bool) -> World:
    """Five levels with few or many families. It is measured on the published tree, where some units
    are not measured, or on a tree of its own. There only children are bypassed and some blocks with
    nobody are left out."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"{a}", f"{a}{b}", f"{a}{b}{c}", f"{a}{b}{c}{d}")
        for a in range(rng.integers(2, 4))
        for b in range(rng.integers(1, 4))
        for c in range(rng.integers(1, 4))
        for d in range(rng.integers(1, 4))
    ]
    spine = Spine.from_frame(
        dict(zip(LEVELS[1:], map(list, zip(*rows, strict=True)), strict=True)), LEVELS
    )
    blocks = spine.units("D")
    unit = np.flatnonzero(rng.random(blocks) < (0.5 if own else 1))
    mine = {lv: spine.geocodes(lv)[spine.up("D", lv)[unit]].tolist() for lv in LEVELS[1:]}
    measured = Spine.from_frame(mine, LEVELS)
    tree = (
        MeasuredSpine.bypassed(measured, spine.find("D", measured.codes[-1]))
        if own
        else MeasuredSpine.from_published(spine)
    )
    counts = [{u.name: _counts(u, blocks, unit, rng) for u in UNIVERSES} for _ in range(2)]
    source = {
        u.name: _noisy(u, tree, tree.of_published(counts[0][u.name]).upward(tree.spine), rng)
        for u in UNIVERSES
    }
    pairs = [
        (a, b) for a in range(4) for b in range(blocks) if rng.random() < 0.4 or b == a % blocks
    ]
    return World(
        spine,
        tree,
        *counts,
        source,
        Areas("Parish", np.array(["a", "bb", "c", "d"]), *np.array(pairs).T),
    )


def _counts(u: Universe, blocks: int, unit: Any, rng: np.random.Generator) -> Histogram:
    shape = len(unit), u.schema.cells
    count = rng.integers(0, rng.choice([3, 20, 3000]), shape) * (rng.random(shape) < 0.6)
    place, cell = np.nonzero(count)
    return Histogram.from_triplets(blocks, u.schema.cells, unit[place], cell, count[place, cell])


def _noisy(u: Universe, tree: MeasuredSpine, counts: Any, rng: np.random.Generator) -> Measurements:
    """On a tree that is the published one not all units are measured, whatever it says."""
    found = []
    for level in LEVELS:
        for query in (
            "detailed",
            *(["total"] if level in ("A", "C") else []),
            u.schema.attributes[0].name,
        ):
            answers = counts[level].answer(u.schema.query(query))
            values = answers + np.rint(rng.normal(0, 5, answers.shape)).astype(np.int64)
            asked = rng.random(len(values)) < 0.7 if tree.alike else tree.measured(level)
            found.append(
                Measurement(
                    level,
                    query,
                    0,
                    values,
                    np.where(asked, rng.choice([2.0, 25.0], len(values)), np.inf),
                )
            )
    return Measurements.from_measurements(found)


@pytest.mark.parametrize("own", [True, False], ids=["own tree", "published tree"])
@pytest.mark.parametrize(("seed", "largest"), [(1, 6), (6, 9), (4, 6)])
def test_parts_add_up_to_the_whole(tmp_path: Path, seed: int, largest: int, own: bool) -> None:
    """Whole numbers exactly, others to the rounding of sums; by way of files, and however the parts
    are put together.
    """
    here = world(seed, own)
    subtrees = Subtrees.from_spine(here.spine, [here.tree], largest=largest)
    assert len(subtrees) > 1
    whole, parts = here.rows(Tallies.merged([tally(here.all())])), []
    for number, piece in enumerate(here.pieces(subtrees)):
        tallies_file.write(tmp_path / f"{number}.npz", tally(piece))
        parts.append(tallies_file.read(tmp_path / f"{number}.npz", Tallies))
    cut = len(parts) // 2
    for found in (
        Tallies.merged(iter(parts)),
        Tallies.merged(Tallies.merged(x) for x in (parts[:cut], parts[cut:])),
    ):
        rows = here.rows(found)
        assert len(rows) == len(whole)
        for one, other in zip(whole, rows, strict=True):
            for name, x in one.items():
                assert type(other[name]) is type(x), (one, name)
                assert other[name] == (
                    pytest.approx(x, rel=1e-12) if isinstance(x, float) else x
                ), (one, name)


def test_the_worlds_have_few_families_and_many() -> None:
    """... and pieces with few of a whole with many: the clusters of both are families."""
    piece = world(4, False)
    whole = {q.level: q.published for u in tally(piece.all()).universes for q in u.queries}
    assert whole["B"].units is not None
    assert whole["D"].units is None
    subtrees = Subtrees.from_spine(piece.spine, [piece.tree], largest=6)
    assert any(
        q.published.units
        for p in piece.pieces(subtrees)
        for u in tally(p).universes
        for q in u.queries
        if q.level == "D"
    )
