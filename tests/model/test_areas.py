"""Areas off the spine: who is in, who is in none, and what is no list of areas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.model.areas import Areas, off_spine
from das.model.histogram import Histogram
from das.model.names import Names, encoded
from das.model.spine import Spine


def test_a_field_of_the_blocks():
    """Blocks 0, 1 make unit 0, and so on. Unit 1 lies in two towns, unit 2 in none."""
    code = encoded(["00123", "00123", "00123", "00456", "99999", "99999", "00456", "00456"])
    areas = Areas.of_field("Town", code, np.array([0, 0, 1, 1, 2, 2, 3, 3]), 4)
    assert areas is not None
    assert areas.codes.tolist() == [b"00123", b"00456"]
    assert list(zip(areas.area.tolist(), areas.unit.tolist(), strict=True)) == [(0, 0), (1, 3)]
    for nowhere in ("9999", "    ", ""):
        assert Areas.of_field("Town", encoded([nowhere] * 2), np.array([0, 1]), 2) is None


def test_every_field_that_is_no_level():
    fields = {
        "State": encoded(["44", "44", "09"]),
        "Block": encoded(["b1", "b2", "b3"]),
        "Place": encoded(["00100", "99999", "00100"]),
        "AIAN": encoded(["9999", "1234", "1234"]),
    }
    found = {a.kind: a for a in off_spine(fields, ("State", "Block"), np.arange(3), 3)}
    assert set(found) == {"Place", "AIAN"}
    assert found["Place"].codes.tolist() == [b"0900100", b"4400100"]  # one code, two places
    assert found["AIAN"].codes.tolist() == [b"1234"]  # across a border


def test_their_names_and_sums():
    fields = {
        "State": encoded(["44", "44"]),
        "Place": encoded(["59000", "99999"]),
        "SLDU": encoded(["1 ", "2 "]),
    }
    names = {"Place": Names.from_pairs(np.array(["4459000"]), np.array(["Providence city"]))}
    place, district = off_spine(fields, ("State",), np.arange(2), 2, names)
    assert (place.called.tolist(), district.called.tolist()) == (["Providence city"], ["", ""])
    assert district.codes.tolist() == [b"441", b"442"]


def test_histograms_of_areas_are_sums_of_their_units():
    rng = np.random.default_rng(5)
    dense = rng.poisson(0.5, (7, 4))
    h = Histogram.from_triplets(7, 4, *(i.ravel() for i in np.indices(dense.shape)), dense.ravel())
    inside = rng.random((3, 7)) < 0.6  # areas that overlap
    inside[:, 0] = True
    area, unit = np.nonzero(inside)
    order = rng.permutation(len(area))
    areas = Areas("Ward", np.array(["a", "b", "c"]), area[order], unit[order])
    assert np.array_equal(areas.histogram(h).dense(), inside.astype(int) @ dense)


@given(st.integers(0, 10_000))
def test_which_unit_an_area_is(seed: int) -> None:
    """Against sets of lowest units, of trees with only children and of areas that are often
    units."""
    rng = np.random.default_rng(seed)
    levels, parents, number = ("Country", "Town", "Quarter", "Block"), [], int(rng.integers(2, 9))
    codes = [np.arange(number).astype("S")]
    for _ in range(2):
        starts = np.append(True, rng.random(number - 1) < 0.5)
        parents.insert(0, np.cumsum(starts) - 1)
        number = int(starts.sum())
        codes.insert(0, np.arange(number).astype("S"))
    root = (np.zeros(1, int), np.zeros(number, int))
    spine = Spine(levels, (np.array([b"0"]), *codes), (*root, *parents))
    within = [
        [set(np.flatnonzero(spine.up("Block", level) == u)) for u in range(spine.units(level))]
        for level in levels
    ]
    some = [within[d][rng.integers(len(within[d]))] for d in rng.integers(0, 4, 4)]
    some += [set(np.flatnonzero(rng.random(len(codes[-1])) < 0.7)) | {0} for _ in range(3)]
    pairs = np.array([(i, b) for i, blocks in enumerate(some) for b in sorted(blocks)])
    for kind in ("Ward", "Quarter"):
        areas = Areas(kind, np.arange(len(some)).astype("S"), pairs[:, 0], pairs[:, 1])
        order = [0, 1, 2, 3] if kind == "Ward" else [2, 0, 1, 3]
        wanted = [
            next(((d, within[d].index(blocks)) for d in order if blocks in within[d]), (-1, -1))
            for blocks in some
        ]
        assert list(zip(*(x.tolist() for x in areas.whole_units(spine)), strict=True)) == wanted


@pytest.mark.parametrize(
    ("codes", "area", "unit", "message"),
    [
        (["a", "b"], [0, 0], [0, 1], "has no unit"),
        ([], [], [], "has no unit"),
        (["a", "a"], [0, 1], [0, 1], "same code"),
        (["a"], [0, 0], [3, 3], "twice"),
        (["a"], [0], [-1], "no unit"),
        (["a"], [0, 0], [3], "differ in number"),
    ],
)
def test_refusals(codes, area, unit, message):
    with pytest.raises(InputError, match=message):
        Areas(
            "Town",
            np.array(codes, dtype=str),
            np.array(area, dtype=np.int64),
            np.array(unit, dtype=np.int64),
        )
