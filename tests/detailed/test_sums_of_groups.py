"""Which groups are sums of others, and which regions are one: from public tables alone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from das.publications.detailed.estimation.published import Sum, bundles, hosts, same, sums
from das.publications.detailed.model.iterations import Iterations, Kind, Regions
from tests.detailed.worlds import iterations


def of(rows: list[tuple[int, Kind, bool, tuple[int, ...]]]) -> Iterations:
    """Level, kind, detailed only, codes."""
    pairs = [(i, c) for i, row in enumerate(rows) for c in row[3]]
    n = len(rows)
    return Iterations(
        code=np.array([f"{1000 + i}" for i in range(n)]),
        name=np.array(["x"] * n),
        level=np.array([r[0] for r in rows], dtype=np.int8),
        kind=np.array([r[1] for r in rows], dtype=np.int8),
        detailed_only=np.array([r[2] for r in rows]),
        coarse_only=np.zeros(n, dtype=bool),
        member=np.array([p[0] for p in pairs], dtype=np.int32),
        race_code=np.array([p[1] for p in pairs], dtype=np.int16),
    )


def test_a_regional_group_of_ethnicity_is_the_sum_of_those_that_share_out_its_codes() -> None:
    e = Kind.ETHNICITY
    given = of(
        [(1, e, False, (1, 2, 3)), (2, e, False, (1, 2)), (2, e, False, (3,)), (2, e, True, (9,))]
    )
    assert sums(given) == (Sum(0, (1, 2)),)


def test_codes_that_are_left_or_there_twice_make_no_sum() -> None:
    e = Kind.ETHNICITY
    assert sums(of([(1, e, False, (1, 2, 3)), (2, e, False, (1, 2))])) == ()
    assert sums(of([(1, e, False, (1, 2)), (2, e, False, (1, 2)), (2, e, False, (2,))])) == ()
    assert sums(of([(1, e, False, (1,)), (2, e, False, (1, 2))])) == ()


def test_a_group_with_a_total_alone_makes_a_sum_where_the_others_do_not() -> None:
    e = Kind.ETHNICITY
    assert sums(of([(1, e, False, (1, 2)), (2, e, False, (1,)), (2, e, True, (2,))])) == (
        Sum(0, (1, 2)),
    )
    with_all = of(
        [(1, e, False, (1, 2)), (2, e, False, (1,)), (2, e, False, (2,)), (2, e, True, (2,))]
    )
    assert sums(with_all) == (Sum(0, (1, 2)),)


def test_race_makes_no_sums() -> None:
    """Somebody of two codes is in the regional group alone, and in no detailed one alone."""
    for kind in (Kind.ALONE, Kind.COMBINATION):
        assert (
            sums(of([(1, kind, False, (1, 2)), (2, kind, False, (1,)), (2, kind, False, (2,))]))
            == ()
        )


def test_names_make_no_sums() -> None:
    given = iterations()
    found = sums(given)
    assert [(given.name[s.whole], [given.name[p] for p in s.parts]) for s in found] == [
        ("Central American", ["Costa Rican"])
    ]
    assert sums(replace(given, name=given.name[::-1])) == found


def test_sums_that_share_a_group_are_one_bundle() -> None:
    assert bundles([Sum(0, (1, 2)), Sum(5, (6,)), Sum(7, (2, 8))]) == [[5, 6], [0, 1, 2, 7, 8]]


def regions() -> Regions:
    """Place 0 is tract 0, place 1 is part of tract 1, place 2 is tracts 2 and 3, which area 1 is,
    too; area 0 is place 1.
    """
    block = np.array([f"0100{i}" for i in range(8)], dtype="S")
    kinds = {
        "TRACT": [0, 0, 1, 1, 2, 2, 3, 4],
        "PLACE": [0, 0, 1, -1, 2, 2, 2, -1],
        "AIANNH": [-1, -1, 0, -1, 1, 1, 1, -1],
        "COUNTY": [0, 0, 0, 0, 1, 1, 1, 2],
    }
    ids = {k: np.array([f"{i}" for i in range(max(v) + 1)], dtype="S") for k, v in kinds.items()}
    return Regions(block, ids, {k: np.array(v, dtype=np.int32) for k, v in kinds.items()})


def test_regions_of_the_same_blocks_are_found() -> None:
    given = regions()
    assert same(given, "PLACE", "TRACT").tolist() == [0, -1, -1]
    assert same(given, "PLACE", "COUNTY").tolist() == [-1, -1, 1]
    assert same(given, "AIANNH", "PLACE").tolist() == [1, 2]
    assert same(given, "COUNTY", "TRACT").tolist() == [-1, -1, 4]


def test_the_lowest_name_is_the_host_and_no_guest_is() -> None:
    kind, number = hosts(regions(), ("TRACT", "COUNTY", "PLACE", "AIANNH"), ("PLACE", "AIANNH"))[
        "PLACE"
    ]
    assert (kind.tolist(), number.tolist()) == ([0, -1, 1], [0, -1, 1])
    kind, number = hosts(regions(), ("TRACT", "COUNTY", "PLACE", "AIANNH"), ("PLACE", "AIANNH"))[
        "AIANNH"
    ]
    assert (kind.tolist(), number.tolist()) == ([2, 1], [1, 1])
