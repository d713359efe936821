"""Group quarters: exact counts by type from Summary File 1, and who is placed in them."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.files.readers import pl94_records
from das.files.readers.pl94_records import Counts, apportion, assign
from das.files.simulators import census_2010 as simulate_2010
from das.model.histogram import Histogram
from das.model.names import text as as_text
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.truth.readers import read

SHARED = Path(os.environ.get("DAS_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))


# --- apportionment
# -----------------------------------------------------------------------------------


def by_largest_remainder(weights: list[int], seats: int) -> list[int]:
    """The rule, one entry at a time, in fractions."""
    if not weights or not seats:
        return [0] * len(weights)
    quota = [Fraction(seats * w, sum(weights)) for w in weights]
    out = [int(q) for q in quota]
    by_rest = sorted(range(len(weights)), key=lambda i: (-(quota[i] - out[i]), i))
    for i in by_rest[: seats - sum(out)]:
        out[i] += 1
    return out


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(1, 40), max_size=7), st.integers(0, 300)),
        min_size=1,
        max_size=6,
    )
)
def test_apportionment_is_by_largest_remainder(groups: list[tuple[list[int], int]]) -> None:
    weight = np.array([w for ws, _ in groups for w in ws], dtype=np.int64)
    group = np.repeat(np.arange(len(groups)), [len(ws) for ws, _ in groups])
    seats = np.array([s for _, s in groups], dtype=np.int64)
    got = apportion(group, weight, seats)
    expected = [x for ws, s in groups for x in by_largest_remainder(ws, min(s, sum(ws)))]
    assert got.tolist() == expected
    assert (got <= weight).all()


# --- assignment
# --------------------------------------------------------------------------------------


@st.composite
def blocks_with_quarters(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Persons ``(blocks, 252)`` and types ``(blocks, 7)`` that fit into them, nursing homes into
    the adults.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    people = rng.integers(0, 12, (5, 252)) * (rng.random((5, 252)) < 0.04)
    types = np.zeros((5, 7), dtype=np.int64)
    for b in range(5):
        left, adults = people[b].sum(), people[b, 126:].sum()
        for t in rng.permutation(7):
            limit = min(left, adults) if t == 2 else left
            if rng.random() < 0.5:
                types[b, t] = rng.integers(0, limit + 1)
                left -= types[b, t]
    return people, types


def assigned(people: np.ndarray, types: np.ndarray, housing: int = 1) -> np.ndarray:
    """``(blocks, 8, 252)``"""
    block, cell = np.nonzero(people)
    names = np.array([f"block {b}" for b in range(len(people))])
    out = assign(
        Counts(block, cell, people[block, cell]),
        types,
        np.full(len(people), housing),
        names,
        "here",
    )
    return Histogram.from_triplets(len(people), 2016, *out).dense().reshape(len(people), 8, 252)


@settings(deadline=None)
@given(blocks_with_quarters())
def test_everybody_is_placed_once_and_every_type_is_filled(
    case: tuple[np.ndarray, np.ndarray],
) -> None:
    people, types = case
    placed = assigned(people, types)
    np.testing.assert_array_equal(placed.sum(axis=1), people)
    np.testing.assert_array_equal(placed[:, 1:].sum(axis=2), types)
    minors, adults = placed[..., :126].sum(axis=2), placed[..., 126:].sum(axis=2)
    assert not minors[:, 3].any()  # nobody under 18 in a nursing home
    for b in range(len(people)):
        for kind in (
            1,
            5,
            6,
        ):  # a minor among those who take adults first: all adults are in such places
            if minors[b, kind]:
                assert not adults[b, [0, 2, 4, 7]].any()
        if adults[
            b, 2
        ]:  # an adult among juveniles: no minor is left at home or with the types that come later
            assert not minors[b, [0, 4, 7]].any()


def test_who_is_taken_is_in_proportion() -> None:
    people = np.zeros((1, 252), dtype=np.int64)
    people[0, 126], people[0, 127], people[0, 126 + 63], people[0, 0] = 60, 30, 10, 500
    types = np.array([[0, 0, 10, 0, 20, 0, 0]])
    placed = assigned(people, types)[0]
    assert placed[3, [126, 127, 189, 0]].tolist() == [6, 3, 1, 0]
    assert placed[5, [126, 127, 189, 0]].tolist() == [12, 6, 2, 0]
    assert placed[0, [126, 127, 189, 0]].tolist() == [42, 21, 7, 500]


@pytest.mark.parametrize(
    ("people", "types", "housing", "message"),
    [
        (
            {0: 5, 126: 3},
            {3: 4},
            1,
            r"block 0 has more persons in group quarters of type 3 than there are adults",
        ),
        (
            {0: 5, 126: 3},
            {1: 5, 7: 4},
            1,
            r"block 0 has more persons in group quarters of type 7 than .* people left",
        ),
        (
            {0: 5, 126: 3},
            {7: 7},
            0,
            r"block 0 has persons outside group quarters, but no housing unit",
        ),
    ],
)
def test_counts_that_do_not_fit_are_refused(
    people: dict[int, int], types: dict[int, int], housing: int, message: str
) -> None:
    h, t = np.zeros((1, 252), dtype=np.int64), np.zeros((1, 7), dtype=np.int64)
    for cell, n in people.items():
        h[0, cell] = n
    for kind, n in types.items():
        t[0, kind - 1] = n
    with pytest.raises(InputError, match=message):
        assigned(h, t, housing)


def test_a_block_that_is_all_group_quarters_needs_no_housing_unit() -> None:
    people = np.zeros((1, 252), dtype=np.int64)
    people[0, 130] = 9
    assert assigned(people, np.array([[0, 0, 0, 0, 0, 9, 0]]), housing=0)[0, 6, 130] == 9


# --- Summary File 1 beside the P.L. files
# ------------------------------------------------------------


@pytest.fixture(scope="module")
def simulated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("simulated")
    simulate_2010.write(folder, seed=5, states=2, persons=6_000, sf1=True)
    return folder


def unzipped(folder: Path, to: Path) -> Path:
    for path in folder.glob("*.zip"):
        with zipfile.ZipFile(path) as archive:
            archive.extractall(to)
    return to


def p42_by_block(folder: Path) -> dict[str, list[int]]:
    """The seven types of each block, line by line, from the published positions."""
    out = {}
    for header in folder.glob("*geo2010.sf1"):
        ss = header.name[:2]
        segment = (folder / f"{ss}000062010.sf1").read_text().splitlines()
        for geo, line in zip(header.read_text("latin-1").splitlines(), segment, strict=True):
            if geo[8:11] == "101":
                code = geo[27:29] + geo[29:32] + geo[54:60] + geo[60] + geo[61:65]
                values = [int(v) for v in line.split(",")[168:178]]
                out[code] = [values[i] for i in (2, 3, 4, 5, 7, 8, 9)]
    return out


def test_published_counts_by_type_are_met_in_every_block(simulated: Path, tmp_path: Path) -> None:
    e = read("pl94-2010", [simulated], PL94)
    expected = p42_by_block(unzipped(simulated, tmp_path))
    p = e.persons.open("comparison with what was written")
    got = np.zeros((len(e.blocks), 8), dtype=np.int64)
    np.add.at(got, (p.block, p.cell // 252), p.count)
    assert as_text(e.blocks.fields["Block"]).tolist() == sorted(expected)
    assert got[:, 1:].tolist() == [expected[c] for c in sorted(expected)]
    assert (got[:, 1:].sum(axis=0) > 0).all()  # every type occurs, or the test would show little
    assert e.blocks.structures is not None
    np.testing.assert_array_equal(e.blocks.structures[:, 1:], got[:, 1:] > 0)
    assert (e.blocks.structures[got[:, 0] > 0, 0] > 0).all()
    without = read("pl94-2010", sorted(simulated.glob("*.pl.zip")), PL94).persons.open("comparison")
    marginal = [
        Histogram.from_triplets(len(e.blocks), 252, r.block, r.cell % 252, r.count)
        for r in (p, without)
    ]
    assert marginal[0].same_as(marginal[1])


def test_only_without_sf1_are_group_quarters_assigned(simulated: Path) -> None:
    plain = read("pl94-2010", sorted(simulated.glob("*.pl.zip")), PL94)
    assert list(plain.assigned) == ["hhgq"]
    assert read("pl94-2010", [simulated], PL94).assigned == {}
    without = Schema("three", tuple(a for a in PL94.attributes if a.name != "hhgq"))
    assert read("pl94-2010", sorted(simulated.glob("*.pl.zip")), without).assigned == {}


def test_the_positions_of_p42_are_as_published() -> None:
    path = SHARED / "layouts" / "sf1_2010_segment_fields.csv.gz"
    if not path.exists():
        pytest.skip(
            "the layout is not there: set DAS_SHARED_DATA to the folder of public test data"
        )
    layout = pd.read_csv(path)
    segment = layout[layout["segment"] == 6].sort_values("position_1based")
    assert len(segment) == len(pl94_records.COLUMNS) + 5
    ours = dict(enumerate(pl94_records.COLUMNS, start=6))
    for position, name in zip(segment["position_1based"], segment["field"], strict=True):
        if name.startswith("P042"):
            assert ours[position] == name


def line_edit(name: str, sumlev: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    """Change one line of a file: that of the first record of a level which has people in group
    quarters.
    """

    def damage(folder: Path) -> None:
        ss = sorted(p.name[:2] for p in folder.glob("*geo2010.sf1"))[0]
        geo = (folder / f"{ss}geo2010.sf1").read_text("latin-1").splitlines()
        six = (folder / f"{ss}000062010.sf1").read_text().splitlines()
        at = next(
            i for i, g in enumerate(geo) if g[8:11] == sumlev and six[i].split(",")[168] != "0"
        )
        lines = {"geo": geo, "six": six}[name]
        lines[at] = change(lines[at])
        target = folder / f"{ss}{'geo' if name == 'geo' else '00006'}2010.sf1"
        target.write_text("\n".join(lines) + "\n", "latin-1")

    return damage


def cells(change: Callable[[list[int]], object]) -> Callable[[str], str]:
    def edit(line: str) -> str:
        parts = line.split(",")
        values = [int(v) for v in parts[168:178]]
        change(values)
        return ",".join([*parts[:168], *map(str, values), *parts[178:]])

    return edit


def one_more_military(v: list[int]) -> None:
    for i in (0, 6, 8):
        v[i] += 1


DAMAGE: dict[str, tuple[Callable[[Path], object], str]] = {
    "segment missing": (
        lambda f: next(f.glob("*000062010.sf1")).unlink(),
        r"000062010\.sf1 is missing",
    ),
    "header missing": (lambda f: next(f.glob("*geo2010.sf1")).unlink(), r"geo2010\.sf1 is missing"),
    "one state only": (
        lambda f: [p.unlink() for p in sorted(f.glob("*.sf1"))[:2]],
        r"is there for .*, but not for",
    ),
    "sub-total": (
        line_edit("six", "101", cells(lambda v: v.__setitem__(2, v[2] + 1))),
        r"P0420002 must be the same as the sum",
    ),
    "total": (
        line_edit("six", "101", cells(lambda v: v.__setitem__(0, v[0] + 1))),
        r"P0420001 must be the same as the sum",
    ),
    "sum of blocks": (
        line_edit("six", "101", cells(one_more_military)),
        r"the blocks of Block_Group \d+ add up to another P0420001",
    ),
    "population": (
        line_edit("geo", "101", lambda g: g[:318] + f"{int(g[318:327]) + 1:9d}" + g[327:]),
        r"another number of persons than in the P",
    ),
    "another block": (
        line_edit("geo", "101", lambda g: g[:61] + g[61] + "998" + g[65:]),
        r"block \d+ is in one of the P.L. header",
    ),
    "P.L. segment instead": (
        lambda f: [
            p.write_text(p.read_text().replace("SF1ST", "PLST")) for p in f.glob("*000062010.sf1")
        ],
        r"FILEID is 'PLST', where 'SF1ST'",
    ),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_named(simulated: Path, tmp_path: Path, name: str) -> None:
    damage, message = DAMAGE[name]
    folder = unzipped(simulated, tmp_path)
    damage(folder)
    with pytest.raises(InputError, match=message):
        read("pl94-2010", [folder], PL94)
