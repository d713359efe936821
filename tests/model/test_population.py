"""Who is in which population group: the map against sets in Python, official cases, and how many
groups a person can be in.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.publications.detailed.model.iterations import (
    RACE_CODES,
    REGIONS,
    GroupLevel,
    Iterations,
    Kind,
    Regions,
    groups_of,
)

CODES = list(range(1000, 1006))
ETHNICITIES = [2000, 2001]
FINE, COARSE = GroupLevel("STATE", 1), GroupLevel("TRACT", 1)


def made(lines: Sequence[tuple[int, Kind, bool, bool, Sequence[int]]]) -> Iterations:
    """Iterations of (level, kind, detailed only, coarse only, codes)."""
    member = [i for i, line in enumerate(lines) for _ in line[4]]
    return Iterations(
        np.array([f"{i:04d}" for i in range(len(lines))], dtype=np.str_),
        np.array([f"Iteration {i}" for i in range(len(lines))], dtype=np.str_),
        np.array([line[0] for line in lines], dtype=np.int8),
        np.array([line[1] for line in lines], dtype=np.int8),
        np.array([line[2] for line in lines], dtype=bool),
        np.array([line[3] for line in lines], dtype=bool),
        np.array(member, dtype=np.int32),
        np.array([code for line in lines for code in line[4]], dtype=np.int16),
    )


@st.composite
def tables(draw: st.DrawFn) -> Iterations:
    """Any tables at all: codes in several iterations of a kind, iterations in no pairs, of no
    code.
    """
    lines = []
    for _ in range(draw(st.integers(1, 9))):
        kind = draw(st.sampled_from(Kind))
        only = draw(st.sampled_from([(False, False), (False, False), (True, False), (False, True)]))
        among = ETHNICITIES + CODES[:1] if kind is Kind.ETHNICITY else CODES
        lines.append(
            (
                draw(st.sampled_from([1, 1, 1, 2, 0])),
                kind,
                *only,
                sorted(draw(st.sets(st.sampled_from(among)))),
            )
        )
    return made(lines)


def of_kind(iterations: Iterations, at: GroupLevel, kind: Kind, code: int) -> set[str]:
    """The iterations of a level and kind that a code is of, from the tables as they stand."""
    other = (
        iterations.coarse_only
        if at.region in ("USA", "STATE", "PR-STATE")
        else iterations.detailed_only
    )
    return {
        str(iterations.code[m])
        for m, c in zip(iterations.member, iterations.race_code, strict=True)
        if c == code
        and iterations.kind[m] == kind
        and iterations.level[m] == at.level
        and not other[m]
    }


def by_sets(
    iterations: Iterations, at: GroupLevel, races: Sequence[int], ethnicity: int
) -> set[str]:
    """The formula of the module, word by word."""
    given = [c for c in races if c]
    alone = [of_kind(iterations, at, Kind.ALONE, c) for c in given]
    combined = [of_kind(iterations, at, Kind.COMBINATION, c) for c in given]
    return (
        (set.intersection(*alone) if alone else set())
        | set().union(*combined)
        | of_kind(iterations, at, Kind.ETHNICITY, ethnicity)
    )


def by_arrays(
    iterations: Iterations, at: GroupLevel, codes: np.ndarray, ethnicity: np.ndarray
) -> list[set[str]]:
    indptr, found = groups_of(iterations, at, codes, ethnicity)
    assert (len(indptr), indptr[0], indptr[-1]) == (len(codes) + 1, 0, len(found))
    names = iterations.code[iterations.measured_at(at)]
    groups = [found[a:b].tolist() for a, b in pairwise(indptr)]
    assert all(len(set(g)) == len(g) for g in groups), "each once"
    return [{str(names[i]) for i in g} for g in groups]


@given(
    tables(),
    st.lists(
        st.tuples(
            st.lists(st.sampled_from([0, *CODES]), min_size=3, max_size=3),
            st.sampled_from([0, 2000, 2001, 1000]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([FINE, COARSE, GroupLevel("PR-STATE", 2), GroupLevel("AIANNH", 2)]),
)
def test_groups_are_those_of_the_formula(
    iterations: Iterations, people: list[tuple[list[int], int]], at: GroupLevel
) -> None:
    codes = np.array([c for c, _ in people], dtype=np.int16)
    ethnicity = np.array([e for _, e in people], dtype=np.int16)
    assert by_arrays(iterations, at, codes, ethnicity) == [
        by_sets(iterations, at, c, e) for c, e in people
    ]


def most(iterations: Iterations, at: GroupLevel, read: int) -> int:
    """In how many groups somebody is, of all who could write down that many codes."""
    races = [c for n in range(1, read + 1) for c in combinations_with_replacement(CODES, n)]
    return max(len(by_sets(iterations, at, c, 0)) for c in races) + max(
        len(of_kind(iterations, at, Kind.ETHNICITY, e)) for e in (*ETHNICITIES, CODES[0])
    )


@given(tables(), st.integers(1, 3))
def test_nobody_is_in_more_groups_than_the_stability_says(
    iterations: Iterations, read: int
) -> None:
    for at in (FINE, COARSE):
        assert most(iterations, at, read) <= iterations.stability(at, read)


@given(
    st.lists(st.sets(st.sampled_from(CODES), min_size=1), min_size=1, max_size=4), st.integers(1, 4)
)
def test_where_iterations_come_in_pairs_it_is_attained_by_codes_of_different_groups(
    groups: list[set[int]], read: int
) -> None:
    """Each code in one pair, as in all tables that are known: max(2, r) + 1, if there are as many
    groups.
    """
    apart = [sorted(g - set().union(*groups[:i])) for i, g in enumerate(groups)]
    apart = [g for g in apart if g]
    pairs = [(1, kind, False, False, g) for g in apart for kind in (Kind.ALONE, Kind.COMBINATION)]
    iterations = made([*pairs, (1, Kind.ETHNICITY, False, False, ETHNICITIES)])
    assert iterations.stability(FINE, read) == max(2, read) + 1
    assert most(iterations, FINE, read) == max(2, min(read, len(apart))) + 1


def test_one_iteration_alone_over_two_in_combination() -> None:
    """With two codes somebody is in three groups of race: max(h_A, h_C) max(2, r) would be two."""
    iterations = made(
        [
            (1, Kind.ALONE, False, False, CODES[:2]),
            (1, Kind.COMBINATION, False, False, CODES[:1]),
            (1, Kind.COMBINATION, False, False, CODES[1:2]),
        ]
    )
    assert most(iterations, FINE, 2) == iterations.stability(FINE, 2) == 3


def test_whoever_is_of_none_is_in_no_group() -> None:
    iterations = made([(0, Kind.ALONE, False, False, CODES), (1, Kind.ALONE, True, False, CODES)])
    assert by_arrays(
        iterations, COARSE, np.array([[1000, 0]], dtype=np.int16), np.array([0], dtype=np.int16)
    ) == [set()]
    assert iterations.stability(COARSE, 8) == 0
    assert iterations.stability(FINE, 8) == 1  # alone, and nothing in combination


def test_the_levels_of_a_run() -> None:
    for run, number in (("us", 12), ("pr", 8)):
        levels = GroupLevel.of_run(run)
        assert len(set(levels)) == number
        assert {at.region for at in levels} == set(REGIONS[run])
    assert [at.fine for at in GroupLevel.of_run("pr")] == [True, False, False, False] * 2


def test_iterations_of_a_level_are_those_of_its_granularity() -> None:
    iterations = made(
        [(1, Kind.ALONE, d, c, CODES) for d, c in ((False, False), (True, False), (False, True))]
        + [(0, Kind.ALONE, False, False, CODES), (2, Kind.ALONE, False, False, CODES)]
    )
    assert iterations.measured_at(FINE).tolist() == [0, 1]
    assert iterations.measured_at(COARSE).tolist() == [0, 2]
    assert iterations.tabulated.tolist() == [0, 1, 2, 4]


@pytest.mark.parametrize(
    "change, says",
    [
        ({"code": np.array(["0000", "0000"])}, "same code"),
        (
            {"coarse_only": np.array([True, False]), "detailed_only": np.array([True, False])},
            "fine regions only",
        ),
        (
            {
                "member": np.array([2], dtype=np.int32),
                "race_code": np.array([1000], dtype=np.int16),
            },
            "not there",
        ),
        (
            {"member": np.array([0], dtype=np.int32), "race_code": np.array([0], dtype=np.int16)},
            "four digits",
        ),
    ],
)
def test_iterations_check_themselves(change: dict[str, np.ndarray], says: str) -> None:
    sound = made([(1, Kind.ALONE, False, False, CODES[:1]), (1, Kind.ALONE, False, False, [])])
    given = {name: getattr(sound, name) for name in Iterations.__dataclass_fields__} | change
    with pytest.raises(InputError, match=says):
        Iterations(**given)


def regions(**change: object) -> Regions:
    block = np.array([b"010010000010001", b"010010000010002", b"720010000010001"])
    given: dict[str, object] = {
        "block": block,
        "ids": {"STATE": np.array([b"01"]), "PR-STATE": np.array([b"72"])},
        "of_block": {
            "STATE": np.array([0, 0, -1], dtype=np.int32),
            "PR-STATE": np.array([-1, -1, 0], dtype=np.int32),
        },
    }
    return Regions(**(given | change))  # type: ignore[arg-type]


def test_blocks_are_found_by_their_numbers() -> None:
    r = regions()
    assert r.number.tolist() == [10010000010001, 10010000010002, 720010000010001]
    asked = np.array([720010000010001, 10010000010001, 0, 10010000010003, 999999999999999])
    assert r.find(asked).tolist() == [2, 0, -1, -1, -1]
    assert r.here("pr").tolist() == [False, False, True]
    assert (r.states, r.of_state("STATE", b"01").tolist(), r.of_state("STATE", b"72").tolist()) == (
        [b"01", b"72"],
        [0],
        [],
    )
    none = regions(block=np.zeros(0, dtype="S15"), of_block={})
    assert none.find(asked).tolist() == [-1] * 5


def test_regions_check_themselves() -> None:
    with pytest.raises(InputError, match="not sorted"):
        regions(block=np.array([b"2", b"1", b"3"]))
    with pytest.raises(InputError, match="there twice"):
        regions(block=np.array([b"1", b"1", b"3"]))
    for of in ([0, 0], [0, 0, 1], [0, 0, -2]):
        with pytest.raises(InputError, match="not there"):
            regions(of_block={"STATE": np.array(of, dtype=np.int32)})


# --- official cases
# ---------------------------------------------------------------------------------------------


def table(path: Path) -> list[list[str]]:
    return [line.split("|") for line in path.read_text(encoding="utf-8-sig").split()][1:]


def named(folder: Path) -> Iterations:
    """The tables of a folder, read in a plain way."""
    lines: list[tuple[str, str, Kind, bool, bool]] = []
    for file, race in (("race", True), ("ethnicity", False)):
        text = (folder / f"{file}-characteristic-iterations.txt").read_text(encoding="utf-8-sig")
        for code, _, level, *alone, detailed, coarse in (
            x.split("|") for x in text.splitlines()[1:] if x.strip()
        ):
            kind = (
                (Kind.ALONE if alone[0] == "True" else Kind.COMBINATION) if race else Kind.ETHNICITY
            )
            lines.append((code, level, kind, detailed == "True", coarse.strip() == "True"))
    pairs = table(folder / "race-and-ethnicity-code-to-iteration.txt")
    plain = made(
        [
            (int(level), kind, detailed, coarse, [int(c) for i, c in pairs if i == code])
            for code, level, kind, detailed, coarse in lines
        ]
    )
    given = {name: getattr(plain, name) for name in Iterations.__dataclass_fields__}
    return Iterations(**given | {"code": np.array([line[0] for line in lines])})


@pytest.mark.parametrize(
    "column, region", [(2, "USA"), (2, "PR-STATE"), (3, "TRACT"), (3, "PR-PLACE")]
)
def test_the_twelve_official_cases(shared_data: Path, column: int, region: str) -> None:
    folder = shared_data / "safetab" / "cases"
    if not folder.is_dir():
        pytest.skip(f"no cases at {folder}")
    iterations, cases = named(folder), table(folder / "race_eth_codes_to_iterations_testcases.txt")
    assert len(cases) == 12
    codes = np.zeros((len(cases), RACE_CODES), dtype=np.int16)
    for i, case in enumerate(cases):
        races = [int(c) for c in case[0].split(",")]
        codes[i, : len(races)] = races
    ethnicity = np.array([int(case[1]) for case in cases], dtype=np.int16)
    found: list[set[str]] = [set() for _ in cases]
    for level in (1, 2):
        for groups, more in zip(
            found, by_arrays(iterations, GroupLevel(region, level), codes, ethnicity), strict=True
        ):
            groups |= more
    assert found == [set(case[column].split(",")) for case in cases]
    shuffled = codes[:, ::-1]
    assert by_arrays(iterations, GroupLevel(region, 2), shuffled, ethnicity) == by_arrays(
        iterations, GroupLevel(region, 2), codes, ethnicity
    )
