"""Random schemas, queries, histograms, spines and budgets, small enough to check by hand."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from das.model.budget import Allocation
from das.model.histogram import Histogram
from das.model.query import Grouping, Query
from das.model.schema import Attribute, Schema
from das.model.spine import Spine


@st.composite
def groupings(draw: st.DrawFn, attribute: str, levels: int) -> tuple[int, ...]:
    """Any map of the levels onto groups 0..n-1, in any order."""
    raw = draw(st.lists(st.integers(0, levels - 1), min_size=levels, max_size=levels))
    number = {g: i for i, g in enumerate(draw(st.permutations(sorted(set(raw)))))}
    return tuple(number[g] for g in raw)


@st.composite
def schemas(draw: st.DrawFn, most_attributes: int = 3, most_levels: int = 4) -> Schema:
    """One to three attributes, each with up to two groupings besides itself."""
    sizes = draw(st.lists(st.integers(1, most_levels), min_size=1, max_size=most_attributes))
    attributes = tuple(
        Attribute(f"a{i}", tuple(f"a{i}.{j}" for j in range(n))) for i, n in enumerate(sizes)
    )
    recodes = []
    for a in attributes:
        for k in range(draw(st.integers(0, 2))):
            index = draw(groupings(a.name, len(a.levels)))
            recodes.append(
                Grouping(
                    f"{a.name}_r{k}", a.name, tuple(f"g{g}" for g in range(max(index) + 1)), index
                )
            )
    return Schema("random", attributes, tuple(recodes))


@st.composite
def queries(draw: st.DrawFn, schema: Schema) -> Query:
    """Any query that the schema can spell, its factors in any order."""
    if draw(st.booleans()) and draw(st.booleans()):
        return schema.query(draw(st.sampled_from(["total", "detailed"])))
    factors = []
    for a in schema.attributes:
        names = [a.name, *(g.name for g in schema.recodes if g.attribute == a.name)]
        factors += draw(st.lists(st.sampled_from(names), max_size=1))
    return schema.query(" * ".join(draw(st.permutations(factors))) or "total")


@st.composite
def histograms(draw: st.DrawFn, units: int, cells: int) -> Histogram:
    dense = draw(
        st.lists(st.integers(0, 3), min_size=units * cells, max_size=units * cells).map(
            lambda v: np.array(v, dtype=np.int64).reshape(units, cells)
        )
    )
    unit, cell = np.nonzero(dense)
    return Histogram.from_triplets(units, cells, unit, cell, dense[unit, cell])


@st.composite
def spines(draw: st.DrawFn, most_levels: int = 4, most_children: int = 4) -> Spine:
    """A tree with a root, each code beginning with its parent's."""
    depth = draw(st.integers(1, most_levels))
    codes, parents = [np.array(["R"])], [np.zeros(1, dtype=np.int64)]
    for _ in range(depth - 1):
        sizes = draw(
            st.lists(
                st.integers(1, most_children), min_size=len(codes[-1]), max_size=len(codes[-1])
            )
        )
        parent = np.repeat(np.arange(len(sizes)), sizes)
        rank = np.concatenate([np.arange(n) for n in sizes])
        parents.append(parent.astype(np.int64))
        codes.append(np.array([f"{codes[-1][p]}{r}" for p, r in zip(parent, rank, strict=True)]))
    return Spine(tuple(f"L{i}" for i in range(depth)), tuple(codes), tuple(parents))


@st.composite
def shares(draw: st.DrawFn, names: list[str]) -> dict[str, Fraction]:
    """Positive fractions, one for each name, that sum to exactly 1."""
    weights = draw(st.lists(fractions(), min_size=len(names), max_size=len(names)))
    return {n: w / sum(weights) for n, w in zip(names, weights, strict=True)}


def fractions(most: int = 10**6) -> st.SearchStrategy[Fraction]:
    """Positive rationals."""
    return st.builds(Fraction, st.integers(1, most), st.integers(1, most))


@st.composite
def allocations(draw: st.DrawFn) -> Allocation:
    levels = [f"L{i}" for i in range(draw(st.integers(1, 4)))]
    queries = {lv: draw(shares([f"q{i}" for i in range(draw(st.integers(1, 5)))])) for lv in levels}
    return Allocation(draw(shares(levels)), queries)
