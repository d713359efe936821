"""The skeleton, estimated from both files: what it keeps, and what it finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from das.errors import InfeasibleError, InputError
from das.link.counted import person_counts
from das.link.householders import class_of_persons, living_alone
from das.link.linking import TractInput, link_tract, tract_ties
from das.link.people import HomePersons
from das.link.population import joined, tracts
from das.link.skeleton import SplitProblem
from das.link.skeleton_cells import SKELETON, TENURES, WIDTH, class_of, homes, householders
from das.link.skeleton_family import Holders, SkeletonFamily, exchanged
from das.link.skeleton_levels import PublishedFile, SkeletonTies, families
from das.link.skeleton_measured import SkeletonEvidence, dense, evidence, sum_of
from das.link.trust import Trust
from das.model.dhc.households import DHCH
from das.model.dhc.members import HEADS
from das.model.dhc.persons import DHCP
from das.model.histogram import Histogram
from das.model.schema import Schema
from tests import dhc_small
from tests import linked_worlds as worlds

_PERSONS = (
    "popSehsdTargetsRelship",
    "hispanic * sex * age_40_groups * relship_and_eight_level_GQ * cenrace",
    "age_18_64_116 * sex",
)
_HOUSEHOLDS = ("hisp * hhtenshort_2lev * race", "detailed")
_PLACES = dhc_small.tree()


def prepared(of: worlds.Counts) -> tuple[list[PublishedFile], SkeletonTies]:
    def file(schema: Schema, name: str, queries: Sequence[str]) -> PublishedFile:
        variances = {level: dict.fromkeys(queries, 2.0) for level in _PLACES.levels}
        return PublishedFile(schema, of[name].upward(_PLACES), variances)

    parts = [tract_ties(t) for t in to_link(of)]
    ties = SkeletonTies(
        _PLACES,
        np.concatenate([p.occupied for p in parts]),
        Histogram.concatenate([p.able for p in parts]),
        np.concatenate([p.tenure for p in parts]),
    )
    return [file(DHCP, "persons", _PERSONS), file(DHCH, "households", _HOUSEHOLDS)], ties


def to_link(of: worlds.Counts, skeleton: Histogram | None = None) -> list[TractInput]:
    groups = np.asarray(_PLACES.parent[-1])
    tract = np.asarray(_PLACES.parent[-2])[groups]
    codes = [bytes(c) for c in _PLACES.codes[-3]]
    return tracts(of, groups, tract, codes, skeleton=skeleton)


def found(of: worlds.Counts) -> dict[str, Histogram]:
    files, ties = prepared(of)
    out: dict[str, Histogram] = {}
    for depth, level in enumerate(_PLACES.levels[:-1]):
        above = out.get(_PLACES.levels[depth - 1]) if depth else None
        solved = [f.solved() for f in families(files, ties, level, above)]
        assert not any(s.free or s.certificate.inaccurate for s in solved)
        out[level] = Histogram.concatenate([s.counts for s in solved])
    return out


@pytest.fixture(scope="module")
def apart() -> tuple[worlds.Counts, dict[str, Histogram]]:
    of = worlds.disagreeing()
    return of, found(of)


def test_files_that_agree_have_their_own_skeleton() -> None:
    of = worlds.agreeing()
    skeleton = found(of)
    for level in _PLACES.levels[:-1]:
        truth = homes(of["households"].upward(_PLACES)[level])
        assert np.array_equal(skeleton[level].dense(), truth.dense())
        heads = householders(of["persons"].upward(_PLACES)[level])
        assert np.array_equal(
            truth.dense().reshape(len(truth.dense()), -1, 3).sum(2), heads.dense()
        )


def test_children_add_up_and_fit_their_blocks(
    apart: tuple[worlds.Counts, dict[str, Histogram]],
) -> None:
    of, skeleton = apart
    _, ties = prepared(of)
    for depth, level in enumerate(_PLACES.levels[1:-1], 1):
        up = skeleton[level].up(_PLACES.parent[depth], _PLACES.units(_PLACES.levels[depth - 1]))
        assert up == skeleton[_PLACES.levels[depth - 1]]
        tenure = skeleton[level].dense().reshape(-1, WIDTH * 2, 3).sum(1)
        assert np.array_equal(tenure, ties.tenures[level])
    blocks = np.asarray(_PLACES.parent[-1])
    able, sums = ties.able.dense(), np.zeros((len(skeleton[level].dense()), WIDTH), dtype=np.int64)
    np.add.at(sums.T, class_of(np.arange(SKELETON.cells)), skeleton[level].dense().T)
    for group, classes in enumerate(sums):
        here = blocks == group
        split = SplitProblem(classes, ties.occupied[here], able[here]).split()
        assert np.array_equal(split.sum(axis=0), classes)


def test_a_link_has_the_householders_of_the_skeleton(
    apart: tuple[worlds.Counts, dict[str, Histogram]],
) -> None:
    """All of them, before prices weigh them against everything else."""
    of, skeleton = apart
    groups = np.asarray(_PLACES.parent[-1])
    todo = [replace(t, trust=Trust(sweeps=0)) for t in to_link(of, skeleton["Block_Group"])]
    linked = joined([link_tract(t) for t in todo], of, groups)
    kept = SKELETON.query("sex * hhage * hisp * race")
    up = homes(linked.counts["households"]).upward(_PLACES)["Block_Group"]
    assert np.array_equal(up.answer(kept), skeleton["Block_Group"].answer(kept))
    heads = person_counts(linked.counts["persons"])["heads"]
    assert np.array_equal(heads, linked.occupied)


@pytest.mark.parametrize(("schema", "queries"), [(DHCP, _PERSONS[:2]), (DHCH, _HOUSEHOLDS)])
def test_what_a_query_tells_is_a_sum_of_its_answers(schema: Schema, queries: Sequence[str]) -> None:
    """Every measured answer is in one answer of the skeleton, and no finer query has that."""
    of = worlds.agreeing()["persons" if schema is DHCP else "households"]
    counted = dense((householders if schema is DHCP else homes)(of))
    cell = of.cell
    if schema is DHCP:
        cell = cell[np.isin(np.unravel_index(cell, DHCP.shape)[0], HEADS)]
    for name, known in zip(queries, evidence(schema, dict.fromkeys(queries, 1.0), of), strict=True):
        asked = schema.query(name)
        one = Histogram.of(1, schema.cells, np.zeros_like(cell), cell, np.ones_like(cell))
        answers = asked.at(one.cell)
        skeleton = [
            int(np.argmax(known.query.answer(dense(_counted(schema, int(c))))[0])) for c in one.cell
        ]
        pairs = set(zip(answers.tolist(), skeleton, strict=True))
        assert len(pairs) == len(np.unique(answers))
        assert known.query.answer(counted).sum() == counted.sum()
        assert known.variance >= 1


def _counted(schema: Schema, cell: int) -> Histogram:
    one = Histogram.of(1, schema.cells, np.array([0]), np.array([cell]), np.array([1]))
    return householders(one) if schema is DHCP else homes(one)


def test_queries_that_count_others_say_nothing() -> None:
    there = worlds.agreeing()["persons"]
    assert [e.query.shape for e in evidence(DHCP, dict.fromkeys(_PERSONS, 1.0), there)] == [
        (2, 1, 1, 1, 1, 1),
        (2, 2, 9, 2, 7, 1),
    ]
    assert sum_of(DHCH, DHCH.query("hisp * hhtenshort_2lev * race"), {}) is not None
    with pytest.raises(InputError, match="positive"):
        SkeletonEvidence(SKELETON.query("total"), 0.0)


def family(
    classes: Sequence[int], occupied: Sequence[int], able: list[list[int]]
) -> SkeletonFamily:
    """A parent with householders of the first classes of one tenure, whose only child has blocks."""
    parent = np.zeros(SKELETON.cells, dtype=np.int64)
    parent[WIDTH * TENURES + TENURES * np.arange(len(classes))] = classes
    most = np.zeros((len(occupied), WIDTH), dtype=np.int64)
    most[:, : len(classes)] = able
    known = (SkeletonEvidence(SKELETON.query("detailed"), 1.0),)
    holders = Holders(np.zeros(len(occupied), dtype=np.int64), np.array(occupied), most)
    tenure = np.array([[sum(occupied), 0, 0]])
    return SkeletonFamily(parent, known, (parent[None, :].astype(float),), tenure, holders)


def by_class(counts: Histogram) -> list[int]:
    return np.bincount(class_of(counts.cell), counts.count, 2).astype(int).tolist()


def test_a_parent_whose_classes_do_not_fit_is_left() -> None:
    """C3: A 1, B 2 is impossible, A 2, B 1 is not; and one that nothing can make possible."""
    able = [[2, 0], [0, 2]]
    one = family([1, 2], [2, 1], able).solved()
    assert one.free
    assert by_class(one.counts) == [2, 1]
    other = family([2, 1], [2, 1], able).solved()
    assert not other.free
    assert by_class(other.counts) == [2, 1]
    with pytest.raises(InfeasibleError):
        family([2, 1], [2, 1], [[2, 0], [0, 0]]).solved()


def test_tenures_are_exchanged_until_they_hold() -> None:
    """And where classes and tenures leave no exchange, as in C1, a difference stays."""
    n, x = np.zeros((2, SKELETON.cells), dtype=np.int64), np.zeros((2, SKELETON.cells))
    n[0, [0, 5]], n[1, [2, 3]] = (3, 1), (2, 2)
    x[:] = n
    before = n.copy()
    exchanged(n, x, np.array([[2, 0, 2], [3, 0, 1]]), alone=False)
    kinds = n.reshape(2, -1, 3)
    assert kinds.sum(axis=1).tolist() == [[2, 0, 2], [3, 0, 1]]
    assert np.array_equal(n.sum(axis=0), before.sum(axis=0))
    assert np.array_equal(kinds.sum(axis=2), before.reshape(2, -1, 3).sum(axis=2))
    stuck = np.zeros((2, SKELETON.cells), dtype=np.int64)
    stuck[0, 0], stuck[1, 5] = 1, 1  # an owner of class 1; a renter of class 2
    exchanged(stuck, stuck.astype(float), np.array([[0, 0, 1], [1, 0, 0]]), alone=False)
    assert stuck[0, 0] == stuck[1, 5] == 1
    single = np.zeros((1, SKELETON.cells), dtype=np.int64)
    single[0, 0] = 3
    exchanged(single, single.astype(float), np.array([[1, 1, 1]]), alone=True)
    assert single[0, :3].tolist() == [1, 1, 1]


def test_who_lives_alone_follows_the_skeleton() -> None:
    rng = np.random.default_rng(3)
    many = 60
    block, relgq = np.sort(rng.integers(0, 4, many)), rng.choice([0, 1, 6], many)
    zero = np.zeros(many, dtype=np.int64)
    people = HomePersons(block, relgq, rng.integers(0, 2, many), zero + 40, zero, zero)
    head = np.flatnonzero(relgq < 2)
    cls = class_of_persons(people)[head]
    alone, tenure = rng.integers(0, 2, len(head)), rng.integers(0, 3, len(head))
    skeleton = np.zeros(SKELETON.cells, dtype=np.int64)
    np.add.at(skeleton, (alone * WIDTH + cls) * TENURES + tenure, 1)
    now = living_alone(people, np.bincount(block[head], minlength=4), skeleton)
    assert np.array_equal(now.relgq >= 2, relgq >= 2)
    both = np.bincount((now.relgq[head] == HEADS[1]) * WIDTH + cls, minlength=2 * WIDTH)
    wanted = skeleton.reshape(-1, TENURES)
    assert np.array_equal(both, wanted.sum(axis=1))


def test_what_skeletons_refuse() -> None:
    of = worlds.agreeing(20)
    _, ties = prepared(of)
    with pytest.raises(InputError, match="different blocks"):
        SkeletonTies(_PLACES, ties.occupied[1:], ties.able, ties.tenure)
    with pytest.raises(InputError, match="add up"):
        SkeletonTies(_PLACES, ties.occupied, ties.able, ties.tenure + 1)
    with pytest.raises(InputError, match="units differ"):
        Holders(ties.occupied[:1], ties.occupied[:2], ties.able.dense()[:2])
