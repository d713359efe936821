"""The simulated nation: public totals followed, every record the sum of its blocks, blocks like
real ones, a function of seed.
"""

from __future__ import annotations

import csv
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.files.readers import pl94_2020
from das.files.simulators import census_2020
from das.files.simulators import header as totals
from das.files.simulators.nation_people import draw_people, draw_state
from das.files.simulators.people import generator
from das.geography import optimized
from das.model.names import STATES
from das.model.records import Extract
from das.model.redistricting import PL94
from tests.commands import Commands

SHARED = Path(
    os.environ.get("DAS_SHARED_DATA", Path(__file__).resolve().parents[4] / "shared" / "data")
)
NATION = [s for s in STATES if s.division]
#: Independent of the simulator: positions (from 1) of header fields in the official layout.
AT = {
    "SUMLEV": 3,
    "LOGRECNO": 8,
    "GEOID": 9,
    "STATE": 13,
    "COUNTY": 15,
    "COUSUB": 18,
    "PLACE": 30,
    "TRACT": 33,
    "BLKGRP": 34,
    "BLOCK": 35,
    "CD": 63,
    "SLDU": 68,
    "SLDL": 73,
    "VTD": 78,
    "AREALAND": 85,
    "AREAWATR": 86,
    "POP100": 91,
    "HU100": 92,
}
#: Which codes tell the units of a summary level apart.
CODES = {
    "040": ["STATE"],
    "050": ["COUNTY"],
    "060": ["COUNTY", "COUSUB"],
    "140": ["COUNTY", "TRACT"],
    "150": ["COUNTY", "TRACT", "BLKGRP"],
    "160": ["PLACE"],
    "500": ["CD"],
    "610": ["SLDU"],
    "620": ["SLDL"],
    "700": ["COUNTY", "VTD"],
}


def text(path: Path, part: str) -> list[list[str]]:
    with zipfile.ZipFile(path) as archive:
        raw = archive.read(f"{path.name[:2]}{part}2020.pl").decode("latin-1")
    return list(csv.reader(io.StringIO(raw), delimiter="|", quoting=csv.QUOTE_NONE))


def contents(path: Path) -> list[bytes]:
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Arizona, D.C. and Colorado: one with reservations, one without a lower house, one that is
    like Rhode Island.
    """
    out = tmp_path_factory.mktemp("nation")
    census_2020.write(out, seed=5, share=0.02, states=["DC", "AZ"])
    census_2020.write(out / "co", seed=5, share=0.05, states=["CO"])
    return out


@pytest.fixture(scope="module")
def extract(folder: Path) -> Extract:
    return pl94_2020.read([folder / "az2020.pl.zip", folder / "dc2020.pl.zip"], PL94)


# --- the files
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("usps", ["AZ", "DC"])
def test_every_record_is_the_sum_of_its_blocks(folder: Path, usps: str) -> None:
    path = folder / f"{usps.lower()}2020.pl.zip"
    geo = text(path, "geo")
    assert {len(row) for row in geo} == {97}
    header = pd.DataFrame({name: [row[i - 1] for row in geo] for name, i in AT.items()})
    segments = [text(path, part) for part in ("00001", "00002", "00003")]
    assert [{len(row) for row in rows} for rows in segments] == [{149}, {152}, {15}]
    for number, rows in enumerate(segments, start=1):
        assert {tuple(row[:4]) for row in rows} == {("PLST", usps, "000", f"0{number}")}
        assert (
            [row[4] for row in rows]
            == header["LOGRECNO"].tolist()
            == [str(i + 1) for i in range(len(geo))]
        )
    cells = np.array(
        [[int(v) for v in a[5:] + b[5:] + c[5:]] for a, b, c in zip(*segments, strict=True)]
    )
    assert (cells >= 0).all()
    assert np.array_equal(cells[:, 0], header["POP100"].astype(int))
    assert np.array_equal(cells[:, 288], header["HU100"].astype(int))
    assert header["GEOID"].is_unique
    areas = header[["AREALAND", "AREAWATR"]].astype(int).to_numpy()
    everything = pd.DataFrame(np.concatenate([cells, areas], axis=1))
    blocks = header["SUMLEV"] == "750"
    assert header.loc[blocks, "BLOCK"].str[0].eq(header.loc[blocks, "BLKGRP"]).all()
    for level, codes in CODES.items():
        rows = header["SUMLEV"] == level
        if level == "620" and usps == "DC":
            assert not rows.any()
            assert set(header.loc[blocks, "SLDL"]) == {"ZZZ"}
            continue
        of_blocks = everything[blocks].groupby([header.loc[blocks, c] for c in codes]).sum()
        if level == "160":
            of_blocks = of_blocks.drop(index="99999", errors="ignore")
        own = everything[rows].set_index(
            pd.MultiIndex.from_frame(header.loc[rows, codes])
            if len(codes) > 1
            else pd.Index(header.loc[rows, codes[0]])
        )
        assert own.index.is_unique
        pd.testing.assert_frame_equal(own.sort_index(), of_blocks.sort_index())


def test_the_reader_finds_as_many_of_everything_as_there_are_to_be(extract: Extract) -> None:
    records = extract.persons.open("a test of the reader on simulated data")
    state = extract.blocks.fields["State"]
    for s in ("AZ", "DC"):
        of = totals.totals(next(x for x in NATION if x.usps == s), 0.02)
        here = state == of.state.fips.encode()
        fields = {name: len(np.unique(code[here])) for name, code in extract.blocks.fields.items()}
        assert fields["Block"] == here.sum() == of.blocks
        assert (fields["Block_Group"], fields["Tract"], fields["County"]) == (
            of.groups,
            of.tracts,
            len(of.county),
        )
        assert records.count[here[records.block]].sum() == of.persons.sum()
        county, at = np.unique(extract.blocks.fields["County"][here], return_inverse=True)
        persons = np.bincount(
            records.block[here[records.block]], records.count[here[records.block]], len(here)
        )[here]
        assert np.array_equal(np.bincount(at, persons).astype(int), of.persons)
        assert [int(c[2:]) for c in county] == of.county.tolist()
        assert extract.blocks.structures[here, 0].sum() == of.units.sum()
    assert (np.bincount(PL94.level_of("hhgq")[records.cell], records.count, 8) > 0).all()
    within = optimized.branches(extract.blocks.fields["AIAN"], extract.blocks.fields["Block"])
    assert 0.01 < within.mean() < 0.9
    race = PL94.level_of("cenrace")[records.cell]
    inside = within[records.block]
    share = [
        records.count[at & (race == 2)].sum() / records.count[at].sum() for at in (inside, ~inside)
    ]
    assert share[0] > 4 * share[1]


def test_blocks_are_like_those_of_rhode_island(folder: Path) -> None:
    """Positive cells a unit, empty blocks and sizes, within a fifth of the real ones (2010, group
    quarters not by type).
    """
    extract = pl94_2020.read([folder / "co"], PL94)
    records = extract.persons.open("a test of the reader on simulated data")
    persons = np.bincount(records.block, records.count, len(extract.blocks))
    found = {
        "populated": (persons > 0).mean(),
        "cells a populated block": len(records.block) / (persons > 0).sum(),
    }
    for level in ("Block", "Block_Group", "Tract"):
        units, at = np.unique(extract.blocks.fields[level], return_inverse=True)
        found[level] = len(np.unique(at[records.block] * PL94.cells + records.cell)) / len(units)
    real = {
        "populated": 0.701,
        "cells a populated block": 5.45,
        "Block": 3.82,
        "Block_Group": 28.6,
        "Tract": 46.4,
    }
    assert {name: value for name, value in found.items() if abs(value / real[name] - 1) > 0.2} == {}
    quarters = extract.blocks.structures[:, 1:].any(axis=1).mean()
    assert 0.005 < quarters < 0.06
    full = np.sort(persons[persons > 0])
    assert full[-len(full) // 100] > 5 * full.mean(), "a heavy tail"


# --- the totals
# ---------------------------------------------------------------------------------------


def test_the_nation_has_the_published_totals() -> None:
    all_ = [totals.totals(state) for state in NATION]
    assert len(all_) == 51
    assert sum(of.tracts for of in all_) == 84_414
    assert sum(of.groups for of in all_) == 239_780
    assert sum(of.blocks for of in all_) == 8_132_968
    assert sum(len(of.county) for of in all_) == 3_143
    assert sum(int(of.persons.sum()) for of in all_) == 331_449_281
    assert sum(int(of.units.sum()) for of in all_) == 140_498_736
    by = {of.state.usps: of for of in all_}
    assert len(by["TX"].county) == 254
    assert sum(of.seats["CD"] for of in all_) == 436
    assert by["CA"].county[18] == 37
    assert 2_350 < totals.share_out(by["CA"].tracts, by["CA"].persons, least=1)[18] < 2_500
    for of in all_:
        assert (of.races.sum(axis=1) <= of.persons).all()
        assert (of.occupied <= of.units).all()
        assert (of.quarters < of.persons).all()


def test_state_totals_are_the_official_ones() -> None:
    if not (path := SHARED / "pl94_2020/states/2020_P1.csv").exists():
        pytest.skip(f"official state counts are not at {path}")
    official = pd.read_csv(path).set_index("STUSAB")["P0010001"]
    assert {s.usps: int(totals.totals(s).persons.sum()) for s in NATION} == official.drop(
        "PR"
    ).to_dict()


@pytest.mark.parametrize("share", [0.001, 0.1])
def test_a_share_is_a_share_of_every_state(share: float) -> None:
    least = {
        "tracts": totals.LEAST["tracts"],
        "groups": totals.LEAST["block_groups"],
        "blocks": totals.LEAST["blocks"],
    }
    for state in NATION:
        whole, part = totals.totals(state), totals.totals(state, share)
        for name, bound in least.items():
            assert getattr(part, name) == max(bound, round(share * getattr(whole, name)))
        assert int(part.persons.sum()) == max(
            totals.LEAST_PERSONS, round(share * int(whole.persons.sum()))
        )
        assert 1 <= len(part.county) <= part.tracts


@pytest.mark.parametrize("usps", ["AK", "HI", "OK", "NE", "WV"])
def test_places_and_people_of_small_shares_are_sound(usps: str) -> None:
    state = next(s for s in NATION if s.usps == usps)
    for share in (0.001, 0.01):
        of = totals.totals(state, share)
        at = draw_state(generator(3), of)
        assert len(at) == of.blocks
        assert (np.bincount(at.group) > 0).all()
        assert int(at.tract[-1]) + 1 == of.tracts
        assert int(at.group[-1]) + 1 == of.groups
        assert (
            len(np.unique(np.stack([at.county, at.tract_code, at.block_code]), axis=1).T)
            == of.blocks
        )
        codes = np.char.zfill(at.aian_code.astype(str), 4).astype("S4")
        optimized.branches(codes, codes)  # are codes of areas
        people = draw_people((3,), at, of)
        assert np.array_equal(np.bincount(at.county, people.quarters.sum(axis=0)), of.persons)
        assert np.array_equal(
            np.bincount(people.block, people.number, len(at)), people.quarters.sum(axis=0)
        )
        assert np.array_equal(people.quarters[1:].sum(), of.quarters.sum())
        assert people.homes.sum() == of.units.sum()
        assert np.array_equal(people.homes[0] > 0, people.quarters[0] > 0)
        assert (people.homes[0] <= people.quarters[0]).all()
        assert (people.quarters[:, at.water] == 0).all()


@given(
    total=st.integers(0, 300),
    rows=st.lists(
        st.tuples(st.floats(0, 50), st.integers(0, 9), st.integers(0, 40)), min_size=1, max_size=8
    ),
)
def test_what_is_shared_out_keeps_total_and_limits(
    total: int, rows: list[tuple[float, int, int]]
) -> None:
    weight, least, more = (np.array(column) for column in zip(*rows, strict=True))
    out = totals.share_out(total, weight, least=least, most=least + more)
    assert (least <= out).all()
    assert (out <= least + more).all()
    assert out.sum() == np.clip(total, least.sum(), (least + more).sum())
    if weight.sum() > 0:
        free = totals.share_out(total, weight)
        assert np.abs(free - total * weight / weight.sum()).max() < 1 + 1e-6


# --- making them
# --------------------------------------------------------------------------------------


def test_a_state_depends_on_seed_and_share_alone_and_is_kept(tmp_path: Path) -> None:
    two = census_2020.write(tmp_path / "two", seed=1, share=0.001, states=["VT", "DE"])
    assert [p.name for p in two] == ["de2020.pl.zip", "vt2020.pl.zip"]
    (one,) = census_2020.write(tmp_path / "one", seed=1, share=0.001, states=["VT"])
    assert one.read_bytes() == two[1].read_bytes()
    (other,) = census_2020.write(tmp_path / "other", seed=2, share=0.001, states=["VT"])
    assert contents(other) != contents(one)
    before = [p.stat().st_mtime_ns for p in two]
    more = census_2020.write(tmp_path / "two", seed=1, share=0.001, states=["VT", "DE", "DC"])
    assert [p.stat().st_mtime_ns for p in two] == before
    assert [p.name for p in more] == ["de2020.pl.zip", "dc2020.pl.zip", "vt2020.pl.zip"]
    for others in ({"seed": 2, "share": 0.001}, {"seed": 1, "share": 0.002}):
        with pytest.raises(InputError, match=r"is another file \(SIMULATED"):
            census_2020.write(tmp_path / "two", states=["VT"], **others)
    assert [p.stat().st_mtime_ns for p in two] == before


def test_a_file_that_is_not_finished_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(census_2020, "delimited", full)
    with pytest.raises(InputError, match="No space left"):
        census_2020.write(tmp_path, seed=1, share=0.001, states=["VT"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"share": 0.0}, "share of 0.0"),
        ({"share": 1.5}, "share of 1.5"),
        ({"share": float("nan")}, "share of nan"),
        ({"states": ["PR"]}, "'PR' is no state"),
        ({"seed": -1}, "seed -1"),
    ],
)
def test_arguments_out_of_range_are_refused(wrong: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        census_2020.write(tmp_path / "out", **({"seed": 1, "share": 0.001} | wrong))
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_states_asked_for(tmp_path: Path, commands: Commands) -> None:
    def run(*arguments: str) -> tuple[int, str, str]:
        return commands.named("data")("simulate", *arguments, "--out", tmp_path, "--seed", "1")

    code, out, _ = run("nation", "--share", "0.001", "--states", "wy,DC")
    assert (code, out.split()) == (
        0,
        [str(tmp_path / "dc2020.pl.zip"), str(tmp_path / "wy2020.pl.zip")],
    )
    for wrong, message in (
        (("nation", "--persons", "5000"), "--persons: is of 2010, 1940, detailed, not of nation"),
        (("nation", "--sf1"), "--sf1: is of 2010, not of nation"),
        (("2010", "--share", "0.5"), "--share: is of nation, detailed, not of 2010"),
        (("2010", "--states", "RI"), "'RI' is no number of states"),
    ):
        code, _, err = run(*wrong)
        assert code == 2
        assert message in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["dc2020.pl.zip", "wy2020.pl.zip"]
