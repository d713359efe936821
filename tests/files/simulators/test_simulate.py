"""The simulated extracts: true to the official layouts, adding up exactly, varied, and a function
of the seed.
"""

from __future__ import annotations

import csv
import gzip
import os
import tempfile
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.files.readers import ext1940, pl94_2010
from das.files.simulators import census_1940 as simulate_1940
from das.files.simulators import census_2010 as simulate_2010
from das.files.simulators import header as simulate_header
from das.files.simulators import people as simulate_people
from das.model.names import STATES
from das.model.redistricting import E2E_1940, PL94

ROOT = Path(__file__).resolve().parents[3]
SHARED = Path(os.environ.get("DAS_SHARED_DATA", ROOT.parent / "shared" / "data"))

#: Independent of the simulator: what the official layout says, first column (from 1) and last.
HEADER = {
    "FILEID": (1, 6),
    "STUSAB": (7, 8),
    "SUMLEV": (9, 11),
    "GEOCOMP": (12, 13),
    "LOGRECNO": (19, 25),
    "STATE": (28, 29),
    "COUNTY": (30, 32),
    "COUSUB": (37, 41),
    "PLACE": (46, 50),
    "TRACT": (55, 60),
    "BLKGRP": (61, 61),
    "BLOCK": (62, 65),
    "AIANHH": (77, 80),
    "CD": (154, 155),
    "SLDU": (156, 158),
    "SLDL": (159, 161),
    "AREALAND": (199, 212),
    "AREAWATR": (213, 226),
    "NAME": (227, 316),
    "POP100": (319, 327),
    "HU100": (328, 336),
    "INTPTLAT": (337, 347),
    "INTPTLON": (348, 359),
}
#: Which codes tell the units of a summary level apart.
CODES = {
    "040": ("STATE",),
    "050": ("STATE", "COUNTY"),
    "060": ("STATE", "COUNTY", "COUSUB"),
    "140": ("STATE", "COUNTY", "TRACT"),
    "150": ("STATE", "COUNTY", "TRACT", "BLKGRP"),
    "160": ("STATE", "PLACE"),
    "500": ("STATE", "CD"),
    "610": ("STATE", "SLDU"),
    "620": ("STATE", "SLDL"),
    "750": ("STATE", "COUNTY", "TRACT", "BLKGRP", "BLOCK"),
}


class Extract:
    """One state's zip, parsed line by line."""

    def __init__(
        self, path: Path, suffix: str = "pl", segments: tuple[str, ...] = ("00001", "00002")
    ) -> None:
        self.ss = path.name[:2]
        with zipfile.ZipFile(path) as z:
            self.members = {n: z.read(n) for n in z.namelist()}
        geo = self.members[f"{self.ss}geo2010.{suffix}"].decode("latin-1")
        assert geo.endswith("\n")
        self.lines = geo[:-1].split("\n")
        self.header = [{f: line[a - 1 : b] for f, (a, b) in HEADER.items()} for line in self.lines]
        self.segments = []
        for s in segments:
            text = self.members[f"{self.ss}{s}2010.{suffix}"].decode("ascii")
            self.segments.append(list(csv.reader(text.splitlines())))

    @property
    def cells(self) -> np.ndarray:
        """All values of all rows: P1, P2, P3, P4, H1."""
        return np.array(
            [[int(v) for s in rows for v in s[5:]] for rows in zip(*self.segments, strict=True)]
        )

    def rows(self, level: str) -> np.ndarray:
        return np.array([i for i, h in enumerate(self.header) if h["SUMLEV"] == level])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated")
    simulate_2010.write(out, seed=7, states=3, persons=15_000, sf1=True)
    return out


@pytest.fixture(scope="module")
def states(folder: Path) -> list[Extract]:
    found = [Extract(p) for p in sorted(folder.glob("*.pl.zip"))]
    assert len(found) == 3
    return found


def columns(table: str) -> int:
    """Where a table starts among the 291 cells."""
    return {"P1": 0, "P2": 71, "P3": 144, "P4": 215, "H1": 288}[table]


def race_identities(start: int) -> list[tuple[int, list[int]]]:
    """Totals and their parts in the 71 cells that begin at ``start``: total, one race, two or more,
    ...
    """
    out = [(0, [1, 8]), (1, list(range(2, 8))), (8, [9, 25, 46, 62, 69])]
    out += [(9, list(range(10, 25))), (25, list(range(26, 46))), (46, list(range(47, 62)))]
    out += [(62, list(range(63, 69))), (69, [70])]
    return [(start + t, [start + p for p in parts]) for t, parts in out]


# --- 2010: the format
# --------------------------------------------------------------------------------


def test_lines_have_the_official_widths_and_count_alike(states: list[Extract]) -> None:
    for e in states:
        assert {len(line) for line in e.lines} == {500}
        assert {len(row) for row in e.segments[0]} == {149}
        assert {len(row) for row in e.segments[1]} == {152}
        number = [h["LOGRECNO"] for h in e.header]
        assert number == [f"{i:07d}" for i in range(1, len(e.lines) + 1)]
        for s, rows in enumerate(e.segments, start=1):
            assert [r[4] for r in rows] == number
            assert {tuple(r[:4]) for r in rows} == {("PLST", e.ss.upper(), "000", f"0{s}")}
        assert {h["FILEID"] + h["STUSAB"] + h["GEOCOMP"] for h in e.header} == {
            f"PLST  {e.ss.upper()}00"
        }


def test_packing_list_tells_the_sizes_and_that_nothing_is_real(states: list[Extract]) -> None:
    for e in states:
        text = e.members[f"{e.ss}2010.pl.prd.packinglist.txt"].decode("ascii")
        assert "SIMULATED" in text
        listed = [
            line.split("|")
            for line in text.splitlines()
            if line.startswith(f"{e.ss}") and line.count("|") == 4
        ]
        assert {f[0]: (int(f[2]), int(f[3])) for f in listed} == {
            name: (len(data), len(e.lines))
            for name, data in e.members.items()
            if name.endswith(".pl")
        }


def test_codes_are_real_states_and_consistent_blocks(states: list[Extract]) -> None:
    fips = {s.usps.lower(): s.fips for s in STATES}
    for e in states:
        assert {h["STATE"] for h in e.header} == {fips[e.ss]}
        for level, fields in CODES.items():
            keys = [tuple(e.header[i][f] for f in fields) for i in e.rows(level)]
            assert len(set(keys)) == len(keys) > 0, level
            assert all(
                k.strip().isdigit() and len(k.strip()) == len(k) for key in keys for k in key
            ), level
        for i in e.rows("750"):
            h = e.header[i]
            assert h["BLOCK"][0] == h["BLKGRP"]
            assert (h["TRACT"] == "990000") == (h["BLKGRP"] == "0")
            assert h["NAME"].rstrip() == f"Block {h['BLOCK']}"
        assert all(h["INTPTLAT"][0] == "+" and h["INTPTLAT"][3] == "." for h in e.header)
        assert all(h["INTPTLON"][0] == "-" and h["INTPTLON"][4] == "." for h in e.header)


@pytest.mark.skipif(
    not SHARED.exists(), reason="the official layouts are not at hand (DAS_SHARED_DATA)"
)
def test_columns_are_those_of_the_official_layouts() -> None:
    with (SHARED / "layouts" / "pl94_2010_geo_header.csv").open() as f:
        official = {
            r["field"]: (int(r["start_1based"]), int(r["width"])) for r in csv.DictReader(f)
        }
    assert {f: official[f] for f in simulate_header.FIELDS} == simulate_header.FIELDS
    assert {f: (a, a + w - 1) for f, (a, w) in official.items() if f in HEADER} == HEADER
    with (SHARED / "layouts" / "ext1940uscb_columns.csv").open() as f:
        rows = list(csv.DictReader(f))
    by_kind = {
        k: {
            r["field"]: (int(r["start_1based"]), int(r["width"])) for r in rows if r["rectype"] == k
        }
        for k in "HP"
    }
    for kind in by_kind.values():
        assert {f: at for f, at in simulate_1940._LAYOUT.items() if f in kind} == {
            f: at for f, at in kind.items() if f in simulate_1940._LAYOUT
        }
    assert simulate_1940._LAYOUT.keys() <= by_kind["H"].keys() | by_kind["P"].keys()
    text = {(r["rectype"], r["field"]) for r in rows if r["type"] == "char"}
    assert text == {("H", "RECTYPE"), ("P", "RECTYPE"), ("P", "HISTID")}
    everywhere = by_kind["P"] | by_kind["H"]
    assert {f: everywhere[f] for f in ext1940.COLUMNS} == ext1940.COLUMNS


# --- 2010: the numbers
# -------------------------------------------------------------------------------


def test_tables_add_up(states: list[Extract]) -> None:
    rules = [r for start in (0, 73, 144, 217) for r in race_identities(start)]
    rules += [(columns(t), [columns(t) + 1, columns(t) + 2]) for t in ("P2", "P4", "H1")]
    for e in states:
        v = e.cells
        assert v.shape == (len(e.lines), 291)
        for total, parts in rules:
            assert np.array_equal(v[:, total], v[:, parts].sum(axis=1)), (total, parts)
        p1, p2, p3, p4 = v[:, :71], v[:, 73:144], v[:, 144:215], v[:, 217:288]
        assert np.array_equal(v[:, 0], v[:, 71])
        assert np.array_equal(v[:, 144], v[:, 215])
        for universe, part in ((p1, p2), (p3, p4), (p1, p3), (p2, p4), (p1 - p2, p3 - p4)):
            assert (part >= 0).all()
            assert (part <= universe).all()
        assert [int(h["POP100"]) for h in e.header] == v[:, 0].tolist()
        assert [int(h["HU100"]) for h in e.header] == v[:, 288].tolist()


@pytest.mark.parametrize("level", ["040", "050", "060", "140", "150", "160", "500", "610", "620"])
def test_every_upper_row_is_the_sum_of_its_blocks(states: list[Extract], level: str) -> None:
    for e in states:
        values = e.cells
        area = np.array([[int(h["AREALAND"]), int(h["AREAWATR"])] for h in e.header])
        everything = np.concatenate([values, area], axis=1)
        total: dict[tuple[str, ...], np.ndarray] = defaultdict(lambda: np.zeros(293, dtype=int))
        for i in e.rows("750"):
            total[tuple(e.header[i][f] for f in CODES[level])] += everything[i]
        for i in e.rows(level):
            key = tuple(e.header[i][f] for f in CODES[level])
            assert np.array_equal(everything[i], total.pop(key)), key
        assert set(total) <= ({(e.header[0]["STATE"], "99999")} if level == "160" else set())


def test_the_hard_cases_occur_in_every_state(states: list[Extract]) -> None:
    empty, adults, people = 0, 0, 0
    for e in states:
        v, block = e.cells, e.rows("750")
        land = np.array([int(h["AREALAND"]) for h in e.header])
        persons, homes = v[block, 0], v[block, 288:]
        assert (persons[land[block] == 0] == 0).all()
        assert (homes[land[block] == 0] == 0).all()
        assert (land[block] == 0).any(), "water"
        assert ((persons > 0) & (homes[:, 1] == 0)).any(), "group quarters alone"
        assert ((persons == 0) & (land[block] > 0)).any(), "empty land"
        assert (homes[:, 2] > 0).any(), "vacant homes"
        assert (homes[:, 1] <= persons).all(), "an occupied home without a person"
        assert v[e.rows("040")[0], 62] > 0, "five races"
        assert v[e.rows("040")[0], 69] > 0, "six races"
        where = [(e.header[i]["PLACE"], e.header[i]["TRACT"], e.header[i]["BLKGRP"]) for i in block]
        tracts, groups = defaultdict(set), defaultdict(set)
        for place, tract, group in where:
            tracts[place].add(tract)
            groups[tract, group].add(place)
        assert max(len(t) for place, t in tracts.items() if place != "99999") > 1, (
            "a place crosses tracts"
        )
        assert max(map(len, groups.values())) > 1, "a place cuts a block group"
        houses = {(h["TRACT"], h["BLKGRP"], h["SLDL"]) for h in (e.header[i] for i in block)}
        assert len(houses) > len(groups), "a house district cuts a block group"
        empty, adults, people = (
            empty + (persons == 0).mean() / 3,
            adults + v[0, 144],
            people + v[0, 0],
        )
    assert 0.28 < empty < 0.47
    assert 0.7 < adults / people < 0.8
    aian = [{e.header[i]["AIANHH"] for i in e.rows("750")} for e in states]
    assert sum(a == {"9999"} for a in aian) == 1
    assert sum(len(a) > 1 for a in aian) == 2


def test_sizes_are_skewed_and_counties_and_blocks_segregated(tmp_path: Path) -> None:
    e = Extract(*simulate_2010.write(tmp_path, seed=3, states=1, persons=100_000))
    v = e.cells
    blocks = len(e.rows("750"))
    assert abs(blocks / (100_000 / 42) - 1) < 0.15
    for level, ratio in (("050", 1.8), ("140", 1.5), ("750", 4)):
        size = np.sort(v[e.rows(level), 0])
        assert size[-1] > ratio * size.mean(), level
    county = v[e.rows("050")]
    assert np.ptp(county[:, 72] / county[:, 0]) > 0.08, "Hispanic shares of counties"
    b = v[e.rows("750")]
    b = b[b[:, 0] > 20]
    black, share = b[:, 3] / b[:, 0], b[:, 3].sum() / b[:, 0].sum()
    assert black.var() > 3 * (share * (1 - share) / b[:, 0]).mean(), "more than chance"


def test_sf1_counts_the_same_persons(folder: Path, states: list[Extract]) -> None:
    for e in states:
        s = Extract(folder / f"{e.ss}2010.sf1.zip", "sf1", ("00006",))
        rows = np.array([[int(v) for v in r[5:]] for r in s.segments[0]])
        assert {len(r) for r in s.segments[0]} == {259}
        p42 = rows[:, 163:173]
        assert np.delete(rows, np.s_[163:173], axis=1).sum() == 0
        assert np.array_equal(p42[:, 0], p42[:, 1] + p42[:, 6])
        assert np.array_equal(p42[:, 1], p42[:, 2:6].sum(axis=1))
        assert np.array_equal(p42[:, 6], p42[:, 7:].sum(axis=1))
        assert [h["SUMLEV"].replace("101", "750") for h in s.header] == [
            h["SUMLEV"] for h in e.header
        ]
        assert [line[26:226] + line[318:336] for line in s.lines] == [
            line[26:226] + line[318:336] for line in e.lines
        ]
        v, block = e.cells, e.rows("750")
        alone = block[(v[block, 289] == 0) & (v[block, 0] > 0)]
        assert np.array_equal(p42[alone, 0], v[alone, 0])
        assert (p42[:, 0] <= v[:, 0] - v[:, 289]).all(), "each occupied home holds somebody"
        assert (p42[0, [2, 3, 4, 5, 7, 8, 9]] > 0).all()
        nursing = block[p42[block, 4] == v[block, 0]]
        assert np.array_equal(v[nursing, 0], v[nursing, 144]), "nobody under 18 in a nursing home"


def test_the_reader_accepts_them(folder: Path, states: list[Extract]) -> None:
    extract = pl94_2010.read(sorted(folder.glob("*.zip")), PL94)
    records = extract.persons.open("a test of the reader on simulated data")
    assert records.count.sum() == 15_000
    assert len(extract.blocks) == sum(len(e.rows("750")) for e in states)
    hhgq = np.bincount(PL94.level_of("hhgq")[records.cell], records.count)
    assert (hhgq > 0).all()


# --- 2010: a function of the seed
# ---------------------------------------------------------------------


def test_the_same_arguments_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    again = simulate_2010.write(tmp_path / "again", seed=7, states=3, persons=15_000)
    assert [p.read_bytes() for p in again] == [(folder / p.name).read_bytes() for p in again]
    other = simulate_2010.write(tmp_path / "other", seed=8, states=3, persons=15_000)
    assert [p.read_bytes() for p in other] != [p.read_bytes() for p in again]
    assert not list(tmp_path.rglob("*.part"))


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 2**40), states=st.integers(1, 6), extra=st.integers(0, 5_000))
def test_any_seed_gives_the_persons_asked_for(seed: int, states: int, extra: int) -> None:
    persons = simulate_people.MINIMUM * states + extra
    with tempfile.TemporaryDirectory() as out:
        extracts = [
            Extract(p)
            for p in simulate_2010.write(Path(out), seed=seed, states=states, persons=persons)
        ]
        (old,) = simulate_1940.write(Path(out), seed=seed, states=states, persons=persons)
        lines = gzip.decompress(old.read_bytes()).splitlines()
    assert len({e.ss for e in extracts}) == states
    assert sum(e.cells[0, 0] for e in extracts) == persons
    assert sum(line[:1] == b"P" for line in lines) == persons


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"states": 0}, "0 states"),
        ({"states": 52}, "52 states"),
        ({"states": 5, "persons": 4_999}, "at least 5000"),
        ({"seed": -1}, "seed -1"),
    ],
)
@pytest.mark.parametrize("write", [simulate_2010.write, simulate_1940.write])
def test_arguments_out_of_range_are_refused(
    write, wrong: dict, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        write(tmp_path, **({"seed": 1} | wrong))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("write", [simulate_2010.write, simulate_1940.write])
def test_a_folder_that_cannot_be_made_is_named(write, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="taken: cannot be written"):
        write(tmp_path / "taken", seed=1)


# --- the draws
# ----------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 1000),
    weights=st.lists(st.lists(st.floats(0, 9), min_size=3, max_size=3), min_size=1, max_size=5),
)
def test_draws_by_row_agree_with_one_row_at_a_time(seed: int, weights: list[list[float]]) -> None:
    table = np.array(weights) + np.array([0, 0.5, 0])
    row = np.arange(40) % len(table)
    found = simulate_people.choose_by_row(simulate_people.generator(seed), table, row)
    u = simulate_people.generator(seed).random(40)
    expected = []
    for r, x in zip(row, u, strict=True):
        edges = np.cumsum(table[r]) / table[r].sum()
        expected.append(next(i for i, edge in enumerate(edges) if x < edge))
    assert found.tolist() == expected


def test_spread_leaves_no_category_out() -> None:
    counts = simulate_people.spread(simulate_people.generator(1), 30, np.array([0.0, 1.0, 3.0]))
    assert counts[0] == 1
    assert counts.sum() == 30
    assert counts[2] > counts[1]


# --- 1940
# ---------------------------------------------------------------------------------------------


def test_1940_lines_are_true_to_the_layout(tmp_path: Path) -> None:
    (path,) = simulate_1940.write(tmp_path, seed=5, states=2, persons=6_000)
    text = gzip.decompress(path.read_bytes()).decode("ascii")
    homes: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line[0] == "H":
            homes.append((line, []))
        else:
            homes[-1][1].append(line)
    assert {len(h) for h, _ in homes} == {159}
    assert {len(p) for _, persons in homes for p in persons} == {273}
    assert sum(len(persons) for _, persons in homes) == 6_000
    assert [int(h[7:15]) for h, _ in homes] == list(range(1, len(homes) + 1))
    by_state = defaultdict(Counter)
    for h, persons in homes:
        assert int(h[15:17]) == len(persons) == int(h[29:33])
        assert [int(p[15:19]) for p in persons] == list(range(1, len(persons) + 1))
        assert {p[7:15] for p in persons} <= {h[7:15]}
        gq, kind = h[93], h[94]
        assert (gq == "0") == (not persons)
        assert (gq in "34") == (kind != "0")
        assert kind in "02346789"
        by_state[h[53:55]][f"type {kind}"] += 1
        by_state[h[53:55]]["vacant"] += gq == "0"
        for p in persons:
            assert p[72] in "12"
            assert 0 <= int(p[73:76]) < 100
            assert p[88] in "01234"
            assert len(p[234:270].split("-")) == 5
            by_state[h[53:55]][f"race {p[84]}"] += 1
            by_state[h[53:55]]["hispanic"] += p[88] != "0"
    assert len(by_state) == 2
    for seen in by_state.values():
        wanted = (
            {f"type {k}" for k in "02346789"}
            | {f"race {r}" for r in "123456"}
            | {"vacant", "hispanic"}
        )
        assert {k for k in seen if seen[k]} == wanted


def test_1940_reader_accepts_it_and_finds_a_district_of_group_quarters_alone(
    tmp_path: Path,
) -> None:
    simulate_1940.write(tmp_path, seed=5, states=2, persons=6_000)
    extract = ext1940.read([tmp_path], E2E_1940)
    homes = extract.blocks.structures
    assert ((homes[:, 0] == 0) & (homes[:, 1:].sum(axis=1) > 0)).any()
    assert extract.persons.open("a test of the reader on simulated data").count.sum() == 6_000


# --- the files that ship
# ------------------------------------------------------------------------------


def test_shipped_extracts_come_from_their_seeds(tmp_path: Path) -> None:
    made = simulate_2010.write(tmp_path / "pl94_2010", seed=2010) + simulate_1940.write(
        tmp_path / "ext1940", seed=1940
    )
    shipped = [
        p for p in sorted((ROOT / "data").rglob("*")) if p.is_file() and p.suffix in (".zip", ".gz")
    ]
    assert sorted(p.relative_to(tmp_path) for p in made) == [
        p.relative_to(ROOT / "data") for p in shipped
    ]
    for path in made:
        assert contents(path) == contents(ROOT / "data" / path.relative_to(tmp_path)), path.name


def contents(path: Path) -> dict[str, bytes]:
    """What is inside, which does not depend on the version of zlib."""
    if path.suffix == ".gz":
        return {"": gzip.decompress(path.read_bytes())}
    with zipfile.ZipFile(path) as z:
        return {name: z.read(name) for name in z.namelist()}


def test_shipped_extracts_are_small_and_described() -> None:
    files = [p for p in (ROOT / "data").rglob("*") if p.is_file()]
    assert sum(p.stat().st_size for p in files) < 3_000_000
    about = (ROOT / "data" / "README.md").read_text()
    for command in (
        "simulate 2010 --out data/pl94_2010 --seed 2010",
        "simulate 1940 --out data/ext1940 --seed 1940",
    ):
        assert command in about
    blocks = pl94_2010.read([ROOT / "data" / "pl94_2010"], PL94).blocks
    assert f"12,000 persons, {len(blocks)} blocks" in about
    districts = ext1940.read([ROOT / "data" / "ext1940"], E2E_1940).blocks
    assert f"12,000 persons in 3 states, {len(districts)} enumeration districts" in about
