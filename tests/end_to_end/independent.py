"""What a release must be, worked out from the input and the microdata by other means: plain pandas,
no code of ours.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

#: The 63 combinations of races: by number of races, then in the order of the six. CENRACE counts
#: them from 1.
RACES = [set(c) for n in range(1, 7) for c in combinations(range(6), n)]
SIZE = np.array([len(s) for s in RACES])
CELLS = [
    f"{t}{i:04d}"
    for t, n in (("P001", 71), ("P002", 73), ("P003", 71), ("P004", 73), ("H001", 3))
    for i in range(1, n + 1)
]
#: Digits of a block's code that name the unit of each level above it.
DIGITS = {"US": 0, "State": 2, "County": 5, "Tract": 11, "Block_Group": 12, "Block": 16}
SUMLEVS = {"State": "040", "County": "050", "Tract": "140", "Block_Group": "150", "Block": "750"}


def units_of(block: pd.Series, level: str) -> pd.Series:
    return block.str[: DIGITS[level]] if level != "US" else pd.Series("US", index=block.index)


def published_rows(zips: Iterable[Path], level: str = "Block") -> pd.DataFrame:
    """The published P.L. 94-171 rows of a level: one row a unit, the 291 cells as columns."""
    states = []
    for path in zips:
        ss = path.name[:2]
        with zipfile.ZipFile(path) as archive:
            header = archive.read(f"{ss}geo2010.pl").decode("latin-1").splitlines()
            segments = [
                pd.read_csv(io.BytesIO(archive.read(f"{ss}0000{n}2010.pl")), header=None).iloc[
                    :, 5:
                ]
                for n in (1, 2)
            ]
        rows = [i for i, line in enumerate(header) if line[8:13] == SUMLEVS[level] + "00"]
        code = [(line[27:32] + line[54:65])[: DIGITS[level]] for line in (header[i] for i in rows)]
        values = np.concatenate([s.to_numpy() for s in segments], axis=1)[rows]
        states.append(pd.DataFrame(values, index=pd.Index(code, name="unit"), columns=CELLS))
    return pd.concat(states).sort_index()


def persons(release: Path) -> pd.DataFrame:
    """One row a person: ``block``, and the coded columns as numbers."""
    got = pd.read_parquet(release / "microdata" / "persons").astype({"EPNUM": int})
    codes = got[["RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"]].astype(int)
    assert (got["EPNUM"] == np.arange(len(got))).all()
    assert ((codes["GQTYPE_PL"] == 0) == (codes["RTYPE"] == 3)).all()
    assert set(codes["RTYPE"]) <= {3, 5}
    return codes.assign(block=_block(got))


def _block(got: pd.DataFrame) -> pd.Series:
    """The code of the block: state, county, tract, block group, block."""
    state, county, tract, group, block = (
        got[c].astype(str) for c in ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
    )
    return state + county + tract + group + block


def housing(release: Path) -> pd.DataFrame:
    """Occupied and vacant units of each block, and facilities."""
    got = pd.read_parquet(release / "microdata" / "units").astype(str)
    got["block"] = _block(got)
    kind = got["RTYPE"] + got["HH_STATUS"]
    assert set(kind) <= {"21", "22", "40"}
    counts = pd.crosstab(got["block"], kind).reindex(columns=["21", "22", "40"], fill_value=0)
    return counts.set_axis(["occupied", "vacant", "facilities"], axis=1)


def _by_race(by_race: np.ndarray) -> list[np.ndarray]:
    """The 70 cells after the total: one race and each, two or more, then each number of races and
    its combinations.
    """
    out = [
        by_race[:, SIZE == 1].sum(axis=1),
        *by_race[:, SIZE == 1].T,
        by_race[:, SIZE > 1].sum(axis=1),
    ]
    for n in range(2, 7):
        out += [by_race[:, n == SIZE].sum(axis=1), *by_race[:, n == SIZE].T]
    return out


def tabulate(people: pd.DataFrame, units: pd.Index, level: str) -> pd.DataFrame:
    """P1 to P4 of every unit, from persons one by one."""

    def races(chosen: pd.DataFrame) -> np.ndarray:
        counts = (
            chosen.groupby([units_of(chosen["block"], level), "CENRACE"])
            .size()
            .unstack(fill_value=0)
        )
        return counts.reindex(index=units, columns=range(1, 64), fill_value=0).to_numpy()

    columns: list[np.ndarray] = []
    for some in (people, people[people["VOTING_AGE"] == 2]):
        everyone, not_hispanic = races(some), races(some[some["CENHISP"] == 1])
        total = everyone.sum(axis=1)
        columns += [total, *_by_race(everyone)]
        columns += [
            total,
            total - not_hispanic.sum(axis=1),
            not_hispanic.sum(axis=1),
            *_by_race(not_hispanic),
        ]
    return pd.DataFrame(np.stack(columns, axis=1), index=units, columns=CELLS[:288])


def group_quarters(people: pd.DataFrame, units: pd.Index, level: str) -> pd.DataFrame:
    """P5 of every unit."""
    kind = pd.crosstab(units_of(people["block"], level), people["GQTYPE_PL"]).reindex(
        units, fill_value=0
    )
    k = kind.reindex(columns=range(8), fill_value=0).to_numpy()
    columns = [
        k[:, 1:].sum(axis=1),
        k[:, 1:5].sum(axis=1),
        *k[:, 1:5].T,
        k[:, 5:].sum(axis=1),
        *k[:, 5:].T,
    ]
    return pd.DataFrame(
        np.stack(columns, axis=1), index=units, columns=[f"P005{i:04d}" for i in range(1, 11)]
    )


def tables(release: Path, level: str, names: str = "P1 P2 P3 P4") -> pd.DataFrame:
    """The published tables of a level side by side."""
    read = [
        pd.read_csv(
            release / "tables" / f"{t}_{level}.csv", dtype={"GEOCODE": str}, index_col="GEOCODE"
        ).drop(columns=["NOT PRIVATE", "NOT COUNTED"], errors="ignore")
        for t in names.split()
    ]
    return pd.concat(read, axis=1).filter(regex=r"^[PH]\d")  # not GEOID and NAME


def assert_same(got: pd.DataFrame, expected: pd.DataFrame, what: str) -> None:
    assert list(got.index) == list(expected.index), what
    assert list(got.columns) == list(expected.columns), what
    wrong = np.argwhere(got.to_numpy() != expected.to_numpy())
    assert not len(wrong), (
        f"{what}: {len(wrong)} cells, first {got.index[wrong[0][0]]} {got.columns[wrong[0][1]]}"
    )


def assert_invariants(release: Path, truth: pd.DataFrame) -> None:
    """All that is promised without noise, for an extract without Summary File 1. ``truth``: its
    block rows.
    """
    people, homes = persons(release), housing(release)
    true_states = truth.groupby(units_of(truth.index.to_series(), "State"))["P0010001"].sum()
    got_states = people.groupby(units_of(people["block"], "State")).size()
    assert got_states.to_dict() == true_states[true_states > 0].to_dict(), (
        "state totals are invariant"
    )
    assert len(people) == true_states.sum()
    assert set(people["block"]) <= set(truth.index)

    homes = homes.reindex(truth.index, fill_value=0)
    assert ((homes["occupied"] + homes["vacant"]) == truth["H0010001"]).all(), (
        "housing units are invariant"
    )
    facility = truth["P0010001"] > 20 * truth["H0010002"]  # the documented imputation, of type 7
    assert (homes["facilities"] == facility).all()

    at = truth.reindex(people["block"])
    household = (people["GQTYPE_PL"] == 0).to_numpy()
    assert (at["H0010001"].to_numpy()[household] > 0).all(), (
        "a household where there is no housing unit"
    )
    assert facility.reindex(people["block"]).to_numpy()[~household].all(), (
        "group quarters where there is none"
    )
    assert set(people["GQTYPE_PL"]) <= {0, 7}
    assert set(truth.index[facility]) <= set(people["block"][~household]), (
        "each facility holds somebody"
    )
    assert not ((people["GQTYPE_PL"] == 3) & (people["VOTING_AGE"] == 1)).any(), (
        "nobody under 18 in nursing homes"
    )


def assert_tables(release: Path, truth: pd.DataFrame) -> None:
    """Tables of every level are those of the microdata, and each parent is the sum of its
    children.
    """
    people, homes = persons(release), housing(release).reindex(truth.index, fill_value=0)
    below: pd.DataFrame | None = None
    for level in reversed(DIGITS):
        units = pd.Index(sorted(set(units_of(truth.index.to_series(), level))))
        got = tables(release, level, "P1 P2 P3 P4 P5 H1")
        h = homes.groupby(units_of(homes.index.to_series(), level)).sum()
        h1 = pd.DataFrame(
            {
                "H0010001": h["occupied"] + h["vacant"],
                "H0010002": h["occupied"],
                "H0010003": h["vacant"],
            }
        )
        p5 = group_quarters(people, units, level)
        assert_same(
            got, pd.concat([tabulate(people, units, level), p5, h1.reindex(units)], axis=1), level
        )
        if below is not None:
            codes = below.index.to_series()
            parent = codes.str[: DIGITS[level]] if DIGITS[level] else codes.map(lambda _: "US")
            assert_same(got, below.groupby(parent).sum(), f"{level}, sum of its children")
        below = got


def digests(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder."""
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def read_json(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))
