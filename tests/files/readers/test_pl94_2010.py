"""The 2010 redistricting files: exact recovery, agreement with published totals, and refusal of
damage.
"""

from __future__ import annotations

import gzip
import io
import os
import zipfile
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError, UserError
from das.files.readers import pl94_2010, pl94_common, source
from das.model.areas import off_spine
from das.model.histogram import Histogram
from das.model.names import text as as_text
from das.model.records import Extract
from das.model.redistricting import CENRACE, H1, PL94
from das.model.schema import Attribute, Schema
from das.truth.readers import read
from tests.told import Told
from tests.worlds import Worlds

SHARED = Path(os.environ.get("DAS_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))


def shared(name: str) -> Path:
    path = SHARED / name
    if not path.exists():
        pytest.skip(f"{name} is not there: set DAS_SHARED_DATA to the folder of public test data")
    return path


# --- a writer that knows nothing of the reader: one row at a time, from the published table shells
# ----

SETS = [set(c) for n in range(1, 7) for c in combinations(range(6), n)]


def race_cells(by_race: np.ndarray) -> list[int]:
    """One race with its six, two or more races, then two, three, ... races with theirs."""
    size = np.array([len(s) for s in SETS])
    out = [int(by_race[size == 1].sum()), *by_race[size == 1], int(by_race[size > 1].sum())]
    for n in range(2, 7):
        out += [int(by_race[size == n].sum()), *by_race[size == n]]
    return [int(x) for x in out]


def tables(h: np.ndarray) -> list[list[int]]:
    """P1, P2, P3 and P4 of one place; ``h`` is (voting age, Hispanic, race)."""
    out = []
    for part in (h.sum(axis=0), h[1]):
        total, hispanic = int(part.sum()), int(part[1].sum())
        out.append([total, *race_cells(part.sum(axis=0))])
        out.append([total, hispanic, total - hispanic, *race_cells(part[0])])
    return out


class State:
    """A state of 2 counties x 2 tracts x 2 block groups x 2 blocks, as text files that a test may
    damage.
    """

    def __init__(self, seed: int = 1, stusab: str = "ZZ", fips: str = "98") -> None:
        rng = np.random.default_rng(seed)
        self.stusab, self.rows = stusab, []
        self.blocks: dict[str, tuple[np.ndarray, tuple[int, int]]] = {}
        tree: dict[tuple[str, ...], list[str]] = {}
        for county in ("001", "003"):
            for tract in ("010100", "020300"):
                for group in "12":
                    for block in (f"{group}000", f"{group}007"):
                        key = (fips, county, tract, group, block)
                        h = rng.integers(0, 3, (2, 2, 63)) * (rng.random((2, 2, 63)) < 0.05)
                        units = tuple(int(x) for x in rng.integers(0, 2, 2))
                        self.blocks["".join(key)] = (h, units)
                        for depth in (1, 2, 3, 4):
                            tree.setdefault(key[:depth], []).append("".join(key))
        for depth, sumlev in ((1, "040"), (2, "050"), (3, "140"), (4, "150")):
            for key, inside in tree.items():
                if len(key) == depth:
                    self.row(sumlev, key, inside)
        for code in self.blocks:
            key = (code[:2], code[2:5], code[5:11], code[11], code[12:])
            self.row("750", key, [code], place="55555" if code[12:] == "1000" else "99999")
        self.row("160", (fips,), list(self.blocks)[:3], place="55555")  # a level that is not read

    def row(self, sumlev: str, key: tuple[str, ...], inside: list[str], place: str = "") -> None:
        h = sum(self.blocks[b][0] for b in inside)
        units = np.sum([self.blocks[b][1] for b in inside], axis=0)
        self.rows.append([sumlev, key, tables(h), [int(units.sum()), *map(int, units)], place])

    def header_line(self, number: int) -> str:
        sumlev, key, cells, units, place = self.rows[number]
        line = [" "] * 500
        state, county, tract, group, block = [*key, *[""] * (5 - len(key))]
        for at, text in (
            (1, "PLST  "),
            (7, self.stusab),
            (9, sumlev),
            (12, "00"),
            (14, "000"),
            (19, f"{number + 1:07d}"),
            (28, state),
            (30, county),
            (37, "12345" if block else ""),
            (46, place),
            (55, tract),
            (61, group),
            (62, block),
            (77, "9999"),
            (227, "Cañon Ñandú"),
            (319, f"{cells[0][0]:9d}"),
            (328, f"{units[0]:9d}"),
        ):
            line[at - 1 : at - 1 + len(text)] = text
        return "".join(line)

    def segment_line(self, segment: int, number: int) -> str:
        _, _, (p1, p2, p3, p4), units, _ = self.rows[number]
        values = [*p1, *p2] if segment == 1 else [*p3, *p4, *units]
        return ",".join(
            ["PLST", self.stusab, "000", f"{segment:02d}", f"{number + 1:07d}", *map(str, values)]
        )

    def files(self) -> dict[str, bytes]:
        ss, n = self.stusab.lower(), range(len(self.rows))
        lines = {
            f"{ss}geo2010.pl": [self.header_line(i) for i in n],
            f"{ss}000012010.pl": [self.segment_line(1, i) for i in n],
            f"{ss}000022010.pl": [self.segment_line(2, i) for i in n],
        }
        return {name: ("\n".join(text) + "\n").encode("latin-1") for name, text in lines.items()}


def put(folder: Path, files: dict[str, bytes]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def zipped(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path


def histogram(e: Extract) -> np.ndarray:
    """(blocks, 8, 2, 2, 63)."""
    p = e.persons.open("comparison with what was written")
    return (
        Histogram.from_triplets(len(e.blocks), p.schema.cells, p.block, p.cell, p.count)
        .dense()
        .reshape(-1, 8, 2, 2, 63)
    )


def homes(e: Extract) -> np.ndarray:
    """(blocks, 2): vacant and occupied."""
    u = e.others["housing"].open("comparison with what was written")
    assert u.schema == H1
    return Histogram.from_triplets(len(e.blocks), 2, u.block, u.cell, u.count).dense()


# --- what is read
# ------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_every_count_of_every_block_comes_back(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    state = State(seed)
    e = read("pl94-2010", [put(tmp_path_factory.mktemp("pl"), state.files())], PL94)
    assert as_text(e.blocks.fields["Block"]).tolist() == sorted(state.blocks)
    got, units = histogram(e), homes(e)
    for i, code in enumerate(sorted(state.blocks)):
        h, (occupied, vacant) = state.blocks[code]
        np.testing.assert_array_equal(got[i].sum(axis=0), h)
        assert units[i].tolist() == [vacant, occupied]
        assert e.blocks.structures is not None
        assert e.blocks.structures[i, 0] == occupied + vacant
        in_quarters = max(0, h.sum() - 20 * occupied)
        assert got[i].sum(axis=(1, 2, 3)).tolist() == [
            h.sum() - in_quarters,
            0,
            0,
            0,
            0,
            0,
            0,
            in_quarters,
        ]
        assert e.blocks.structures[i, 1:].tolist() == [0, 0, 0, 0, 0, 0, int(in_quarters > 0)]


def test_the_geographic_fields_are_complete_codes(tmp_path: Path) -> None:
    e = read("pl94-2010", [put(tmp_path, State().files())], PL94)
    first = {field: codes[0].decode() for field, codes in e.blocks.fields.items()}
    assert first == {
        "State": "98",
        "County": "98001",
        "Tract": "98001010100",
        "Block_Group": "980010101001",
        "Block": "9800101010011000",
        "Tract_Group": "980010101",
        "County_Subdivision": "9800112345",
        "Place": "55555",
        "AIAN": "9999",
    }
    assert e.blocks.fields["Place"][1] == b"99999"


def same(a: Extract, b: Extract) -> bool:
    return (
        all(np.array_equal(a.blocks.fields[f], b.blocks.fields[f]) for f in a.blocks.fields)
        and np.array_equal(histogram(a), histogram(b))
        and np.array_equal(homes(a), homes(b))
        and np.array_equal(a.blocks.structures, b.blocks.structures)
    )


def test_all_ways_to_hand_over_the_files_give_the_same(tmp_path: Path) -> None:
    files = State().files()
    plain = read("pl94-2010", [put(tmp_path / "a", files)], PL94)
    others = {
        "zip": [zipped(tmp_path / "zz2010.pl.zip", files)],
        "each file": [put(tmp_path / "b", files) / n for n in files],
        "gzip": [put(tmp_path / "c", {n + ".gz": gzip.compress(d) for n, d in files.items()})],
        "zip in a folder": [zipped(put(tmp_path / "d", {}) / "zz2010.pl.zip", files).parent],
        "CRLF": [put(tmp_path / "e", {n: d.replace(b"\n", b"\r\n") for n, d in files.items()})],
        "no last line end": [put(tmp_path / "f", {n: d[:-1] for n, d in files.items()})],
        "packing list beside": [
            zipped(tmp_path / "g.zip", files | {"zz2010.pl.prd.packinglist.txt": b"x"})
        ],
        "upper case": [put(tmp_path / "h", {n.upper(): d for n, d in files.items()})],
    }
    for how, paths in others.items():
        assert same(plain, read("pl94-2010", paths, PL94)), how


def test_a_header_in_many_chunks_is_the_header_in_one(tmp_path: Path) -> None:
    member = source.Member(put(tmp_path, State().files()) / "zzgeo2010.pl")
    whole, pieces = (pl94_2010.read_header(member, "PLST", "ZZ", lines=n) for n in (1000, 3))
    np.testing.assert_array_equal(whole.logrecno, pieces.logrecno)
    np.testing.assert_array_equal(whole.line, pieces.line)
    np.testing.assert_array_equal(whole.fields["BLOCK"], pieces.fields["BLOCK"])


def test_states_are_joined_in_the_order_of_their_codes(tmp_path: Path) -> None:
    one, two = State(1, "ZZ", "11"), State(2, "AA", "98")
    parts = [
        read("pl94-2010", [zipped(tmp_path / f"{s.stusab}.zip", s.files())], PL94)
        for s in (one, two)
    ]
    both = read("pl94-2010", [tmp_path], PL94)
    codes = as_text(both.blocks.fields["Block"])
    assert codes.tolist() == sorted(codes) == [*sorted(one.blocks), *sorted(two.blocks)]
    np.testing.assert_array_equal(histogram(both), np.concatenate([histogram(p) for p in parts]))
    np.testing.assert_array_equal(homes(both), np.concatenate([homes(p) for p in parts]))
    assert len(both.sources) == 2
    assert both.sources[0].size == (tmp_path / "AA.zip").stat().st_size


def test_a_schema_of_some_of_the_attributes_sums_the_others_out(tmp_path: Path) -> None:
    folder = put(tmp_path, State().files())
    small = Schema("two", (PL94.attribute("cenrace"), PL94.attribute("votingage")))
    p = read("pl94-2010", [folder], small).persons.open("comparison")
    got = (
        Histogram.from_triplets(16, small.cells, p.block, p.cell, p.count)
        .dense()
        .reshape(-1, 63, 2)
    )
    full = histogram(read("pl94-2010", [folder], PL94))
    np.testing.assert_array_equal(got, full.sum(axis=(1, 3)).transpose(0, 2, 1))


@pytest.mark.parametrize(
    "attribute", [Attribute("sex", ("m", "f")), Attribute("cenrace", ("a", "b"))]
)
def test_a_schema_that_the_files_cannot_fill_is_refused(
    tmp_path: Path, attribute: Attribute
) -> None:
    with pytest.raises(InputError, match="do not say attribute"):
        read("pl94-2010", [put(tmp_path, State().files())], Schema("x", (attribute,)))


def test_progress_is_told_state_by_state_up_to_the_last_record(tmp_path: Path) -> None:
    told = Told()
    read("pl94-2010", [put(tmp_path, State().files())], PL94, progress=told)
    header, (name, total, done) = told.stages
    assert header == ("read ZZ: header", None, 0)
    assert (name, total) == ("read ZZ", done)
    assert done > 10


def test_an_unknown_reader_is_refused() -> None:
    with pytest.raises(InputError, match="no reader 'pl94-2000'"):
        read("pl94-2000", [Path()], PL94)
    with pytest.raises(InputError, match="takes no columns"):
        read("pl94-2010", [Path()], PL94, columns={"count": "n"})


# --- the layouts and the published numbers
# -----------------------------------------------------------


def test_the_leaves_are_the_63_combinations_of_the_published_layout() -> None:
    layout = pd.read_csv(shared("layouts/cenrace63_to_pl94.csv"))
    columns = {
        "P001": "p1_total",
        "P002": "p2_nonhispanic",
        "P003": "p3_18plus_total",
        "P004": "p4_18plus_nonhispanic",
    }
    for table, column in columns.items():
        assert [pl94_common.CELLS[i] for i in pl94_common.LEAVES[table]] == layout[column].tolist()
    assert [label.count("+") + 1 for label in CENRACE] == layout["nraces"].tolist()


def test_every_table_cell_is_in_an_identity() -> None:
    used = {c for total, parts in pl94_common.IDENTITIES for c in (total, *parts)}
    assert used == set(range(len(pl94_2010.CELLS)))


def test_header_and_segments_are_as_in_the_published_layout() -> None:
    header = pd.read_csv(shared("layouts/pl94_2010_geo_header.csv"))
    by_name = (
        header.set_index(header.columns[0]) if "field" not in header else header.set_index("field")
    )
    at, width = (next(c for c in by_name.columns if c.startswith(p)) for p in ("start", "width"))
    for name, (start, size) in pl94_2010.COLUMNS.items():
        assert (by_name.loc[name, at], by_name.loc[name, width]) == (start, size), name
    segments = pd.read_csv(shared("layouts/pl94_2010_segment_fields.csv"))
    for number, cells in pl94_2010.SEGMENTS.items():
        listed = segments[segments["segment"] == number]
        assert listed["field"].tolist() == [*pl94_common.IDS, *cells]


@pytest.fixture(scope="module")
def rhode_island() -> Extract:
    return read("pl94-2010", [shared("pl94_2010/ri/ri2010.pl.zip")], PL94)


def test_rhode_island_has_its_published_size(rhode_island: Extract) -> None:
    e = rhode_island
    assert len(e.blocks) == 25_181
    assert e.persons.open("total").count.sum() == 1_052_567
    units = homes(e).sum(axis=0)
    assert units.sum() == 463_388
    assert e.blocks.structures is not None
    assert e.blocks.structures[:, 0].sum() == 463_388
    assert (e.blocks.structures[:, 7] == 1).sum() == 57 + 27  # nobody's unit, and dormitories
    sizes = {
        f: len(np.unique(e.blocks.fields[f])) for f in ("County", "Tract", "Block_Group", "Block")
    }
    assert sizes == {"County": 5, "Tract": 244, "Block_Group": 815, "Block": 25_181}
    assert e.sources[0].sha256 == "277ec30be6957ea23edaab8e731caa968c2244e37af582f9229c3fdba5f3e40e"


def test_rhode_island_adds_up_to_the_state_row_of_another_file(rhode_island: Extract) -> None:
    p = rhode_island.persons.open("comparison with published totals")
    total = (
        np.bincount(p.cell, weights=p.count, minlength=PL94.cells).reshape(8, 2, 2, 63).sum(axis=0)
    )
    cells = {}
    for name in ("2010_1.csv", "2010_2.csv"):
        table = pd.read_csv(shared(f"pl94_2010/states/{name}"), encoding="utf-8-sig", dtype=str)
        row = table[(table == "RI").any(axis=1) | (table == "Rhode Island").any(axis=1)].iloc[0]
        cells |= {c.strip(): v for c, v in row.items()}
    layout = pd.read_csv(shared("layouts/cenrace63_to_pl94.csv"))
    for column, expected in (
        ("p1_total", total.sum(axis=(0, 1))),
        ("p2_nonhispanic", total[:, 0].sum(axis=0)),
        ("p3_18plus_total", total[1].sum(axis=0)),
        ("p4_18plus_nonhispanic", total[1, 0]),
    ):
        assert [int(cells[c]) for c in layout[column]] == expected.tolist()


def test_the_bristol_subset_is_that_part_of_rhode_island(rhode_island: Extract) -> None:
    part = read("pl94-2010", [shared("pl94_2010/ri/ri2010_bristol_44001.pl.zip")], PL94)
    inside = rhode_island.blocks.fields["County"] == b"44001"
    np.testing.assert_array_equal(
        part.blocks.fields["Block"], rhode_island.blocks.fields["Block"][inside]
    )
    p = rhode_island.persons.open("comparison")
    whole = Histogram.from_triplets(25_181, PL94.cells, p.block, p.cell, p.count)
    q = part.persons.open("comparison")
    assert Histogram.from_triplets(len(part.blocks), PL94.cells, q.block, q.cell, q.count).same_as(
        whole.rows(*np.flatnonzero(inside)[[0, -1]] + np.array([0, 1]))
    )


# --- damage
# ------------------------------------------------------------------------------------------

Damage = Callable[[State], dict[str, bytes]]
GEO, ONE, TWO = "zzgeo2010.pl", "zz000012010.pl", "zz000022010.pl"


def edit(name: str, change: Callable[[list[bytes]], object]) -> Damage:
    """Files in which ``change`` was made to the list of lines of one."""

    def damage(state: State) -> dict[str, bytes]:
        files = state.files()
        lines = files[name].splitlines()
        change(lines)
        return files | {name: b"\n".join(lines) + b"\n"}

    return damage


def field(line: int, at: int, value: bytes, name: str) -> Damage:
    def change(lines: list[bytes]) -> None:
        cells = lines[line].split(b",")
        cells[at] = value
        lines[line] = b",".join(cells)

    return edit(name, change)


def columns(line: int, at: int, text: bytes) -> Damage:
    def change(lines: list[bytes]) -> None:
        lines[line] = lines[line][: at - 1] + text + lines[line][at - 1 + len(text) :]

    return edit(GEO, change)


def rows(change: Callable[[State], object]) -> Damage:
    def damage(state: State) -> dict[str, bytes]:
        change(state)
        return state.files()

    return damage


def without(name: str) -> Damage:
    return lambda s: {n: d for n, d in s.files().items() if n != name}


def all_files(change: Callable[[list[bytes]], object]) -> Damage:
    def damage(state: State) -> dict[str, bytes]:
        out = {}
        for name, data in state.files().items():
            lines = data.splitlines()
            change(lines)
            out[name] = b"\n".join(lines) + b"\n"
        return out

    return damage


def exchange_blocks(state: State) -> None:
    """The counts of two blocks of different block groups change places: only sums over the
    geography tell.
    """
    a, b = (
        next(i for i, r in enumerate(state.rows) if r[0] == "750" and "".join(r[1]) == c)
        for c in [list(state.blocks)[i] for i in (0, 5)]
    )
    state.rows[a][2:4], state.rows[b][2:4] = state.rows[b][2:4], state.rows[a][2:4]


FIRST_BLOCK = 1 + 2 + 4 + 8
CASES: dict[str, tuple[Damage, str]] = {
    "no second segment": (without(TWO), r"zz000022010\.pl is missing"),
    "no header": (without(GEO), r"zzgeo2010\.pl is missing"),
    "segment of another state": (
        lambda s: s.files() | {ONE: State(2, "YY").files()["yy000012010.pl"]},
        r"000012010.*line 1: STUSAB is 'YY'",
    ),
    "header of another state": (
        lambda s: s.files() | {GEO: State(2, "YY").files()["yygeo2010.pl"]},
        r"geo2010.*line 1: STUSAB is 'YY'",
    ),
    "the second segment twice": (
        lambda s: s.files() | {ONE: s.files()[TWO]},
        r"line 1: 152 fields .* 149 are expected",
    ),
    "wrong segment number": (
        field(3, 3, b"02", ONE),
        r"line 4: CIFSN is '02', where '01' is expected",
    ),
    "another product": (field(0, 0, b"SF1ST", ONE), r"line 1: FILEID is 'SF1ST'"),
    "header cut in a line": (
        lambda s: s.files() | {GEO: s.files()[GEO][:-100]},
        r"zzgeo2010.pl, line 32: .*401 char",
    ),
    "header cut between lines": (
        edit(GEO, lambda x: x.pop()),
        r"zz000012010.pl: has 32 records, where .* has 31",
    ),
    "segment cut in a line": (
        lambda s: s.files() | {TWO: s.files()[TWO][:-40]},
        r"line 32: 13\d fields",
    ),
    "segment cut between lines": (
        edit(TWO, lambda x: x.pop()),
        r"zz000022010.pl: has 31 records, where .* has 32",
    ),
    "segment with a line more": (
        edit(TWO, lambda x: x.append(x[-1])),
        r"has 33 records, where .* has 32",
    ),
    "a blank line": (edit(ONE, lambda x: x.insert(4, b"")), r"line 5: 0 fields"),
    "two lines exchanged": (
        edit(ONE, lambda x: x.__setitem__(slice(20, 22), [x[21], x[20]])),
        r"zz000012010.pl, line 21: is record 22",
    ),
    "a letter in a count": (field(9, 40, b"1O", ONE), r"line 10: P0010036 is not a whole number"),
    "an empty count": (field(9, 76, b"", ONE), r"line 10: P0020001 is not a whole number"),
    "a count too large": (
        field(9, 76, b"99999999999", ONE),
        r"line 10: P0020001 is not a whole number",
    ),
    "a negative count": (field(9, 40, b"-1", ONE), r"line 10: P0010036 is negative"),
    "a leaf changed": (
        field(20, 5 + 12, b"999", ONE),
        r"line 21: P0010010 must be the same as the sum of P0010011 to P0010025",
    ),
    "a leaf of P4 changed": (field(20, 5 + 71 + 72, b"999", TWO), r"line 21: P004"),
    "occupied units changed": (field(20, 150, b"999", TWO), r"line 21: H0010001 must be"),
    "population of the header": (
        columns(20, 319, b"        7"),
        r"zzgeo2010.pl, line 21: POP100 is not P0010001",
    ),
    "housing of the header": (columns(20, 328, b"    77777"), r"line 21: HU100 is not H0010001"),
    "no number in the header": (columns(20, 319, b"     1 2 "), r"line 21: POP100 is not a number"),
    "record number": (columns(20, 19, b"00000x1"), r"line 21: LOGRECNO is not a number"),
    "a letter in a block code": (
        columns(FIRST_BLOCK, 62, b"1O00"),
        r"line 16: the Block code .* is not all digits",
    ),
    "a blank tract": (
        columns(FIRST_BLOCK, 55, b"      "),
        r"line 16: the Block code .* is not all digits",
    ),
    "a block of another group": (
        columns(FIRST_BLOCK, 61, b"2"),
        r"line 16: block 1000 is not of its block group",
    ),
    "a block twice": (
        columns(FIRST_BLOCK + 1, 62, b"1000"),
        r"line 17: Block 9800101010011000 is there twice",
    ),
    "another state's block": (columns(FIRST_BLOCK, 28, b"97"), r"states 97 and 98"),
    "another county": (
        columns(FIRST_BLOCK, 30, b"005"),
        r"County 98005 has blocks, but no row of its own|Block_Group",
    ),
    "a block group without blocks": (
        lambda s: all_files(lambda x: [x.pop(FIRST_BLOCK), x.pop(FIRST_BLOCK)])(s),
        r"Block_Group 980010101001 has no blocks",
    ),
    "a block lost everywhere": (
        all_files(lambda x: x.pop(FIRST_BLOCK + 1)),
        r"the blocks of Block_Group 980010101001 add up",
    ),
    "a block group's row lost everywhere": (
        all_files(lambda x: x.pop(7)),
        r"Block_Group 980010101001 has blocks, but no row",
    ),
    "no blocks": (all_files(lambda x: x.__delitem__(slice(FIRST_BLOCK, None))), r"has no blocks"),
    "two blocks exchanged": (
        rows(exchange_blocks),
        r"the blocks of Block_Group \d+ add up to another P001",
    ),
    "a header in UTF-8": (
        lambda s: s.files() | {GEO: s.files()[GEO].decode("latin-1").encode()},
        r"line 1: the line has 50\d characters",
    ),
    "an empty segment": (lambda s: s.files() | {TWO: b""}, r"000022010"),
    "an empty header": (lambda s: s.files() | {GEO: b""}, r"geo2010"),
    "not the format at all": (
        lambda s: s.files() | {GEO: b"hello\n"},
        r"line 1: the line has 5 characters",
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("archive", [False, True], ids=["files", "zip"])
def test_damage_is_named(tmp_path: Path, name: str, archive: bool) -> None:
    damage, message = CASES[name]
    files = damage(State())
    path = zipped(tmp_path / "zz2010.pl.zip", files) if archive else put(tmp_path / "x", files)
    with pytest.raises(InputError, match=message):
        read("pl94-2010", [path], PL94)


def test_more_not_hispanic_persons_of_a_race_than_persons_are_refused(tmp_path: Path) -> None:
    """In every row, P2 moves all its people into the last race alone: sub-totals and sums over
    places hold.
    """
    state = State()
    for row in state.rows:
        for table in (1, 3):
            cells = row[2][table]
            cells[4:10] = [0, 0, 0, 0, 0, cells[3]]
    with pytest.raises(InputError, match="has fewer persons of race SOR in all than in its parts"):
        read("pl94-2010", [put(tmp_path, state.files())], PL94)


def test_one_state_twice_is_refused(tmp_path: Path) -> None:
    files = State().files()
    zipped(tmp_path / "a.zip", files)
    zipped(tmp_path / "b.zip", files)
    with pytest.raises(InputError, match="same part of the same state"):
        read("pl94-2010", [tmp_path], PL94)
    renamed = State(1, "YY").files()
    zipped(tmp_path / "b.zip", renamed)
    with pytest.raises(InputError, match="two files of state 98"):
        read("pl94-2010", [tmp_path], PL94)


def test_paths_that_hold_no_such_files_are_named(tmp_path: Path) -> None:
    for path, message in (
        (tmp_path / "none.zip", "no such file or folder"),
        (put(tmp_path / "0", {}), "holds no .*but nothing"),
        (put(tmp_path / "a", {"zzgeo2020.pl": b"x"}), "holds no .*but zzgeo2020.pl"),
        (put(tmp_path / "b", {"zz2010.pl.zip": b""}) / "zz2010.pl.zip", "the file is empty"),
        (
            put(tmp_path / "c", {"zz2010.pl.zip": b"PK but not really"}) / "zz2010.pl.zip",
            "not a complete zip",
        ),
    ):
        with pytest.raises(UserError, match=message):
            read("pl94-2010", [path], PL94)
    with pytest.raises(InputError, match="no input files"):
        read("pl94-2010", [], PL94)


def test_damaged_archives_are_named(tmp_path: Path) -> None:
    files = State().files()
    whole = zipped(tmp_path / "zz2010.pl.zip", files).read_bytes()
    (tmp_path / "zz2010.pl.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="not a complete zip archive"):
        read("pl94-2010", [tmp_path / "zz2010.pl.zip"], PL94)
    for name in files:
        stored = io.BytesIO()
        with zipfile.ZipFile(stored, "w") as archive:
            for n, d in files.items():
                archive.writestr(n, d)
        data = bytearray(stored.getvalue())
        place = data.index(files[name][-60:-1])  # a digit or blank near the member's end
        data[place] = ord("1") if data[place] != ord("1") else ord("2")
        (tmp_path / "zz2010.pl.zip").write_bytes(bytes(data))
        with pytest.raises(InputError, match=r"damaged or cut short \(Bad CRC"):
            read("pl94-2010", [tmp_path / "zz2010.pl.zip"], PL94)
    cut = {n + ".gz": gzip.compress(d) for n, d in files.items()}
    cut[ONE + ".gz"] = cut[ONE + ".gz"][:-20]
    with pytest.raises(InputError, match=r"zz000012010\.pl\.gz: damaged or cut short"):
        read("pl94-2010", [put(tmp_path / "gz", cut)], PL94)
    at = whole.rindex(b"PK\x01\x02")  # an entry of the list of files
    name = bytes([0xE6]) + whole[at + 47 :]
    flags = (int.from_bytes(whole[at + 8 : at + 10], "little") | 0x800).to_bytes(2, "little")
    odd = whole[: at + 8] + flags + whole[at + 10 : at + 46] + name  # its name is said to be UTF-8
    newer = (
        whole[: at + 6] + b"\xff\x00" + whole[at + 8 :]
    )  # and it to need version 25.5 of the format
    for bad in (odd, newer):
        (tmp_path / "zz2010.pl.zip").write_bytes(bad)
        with pytest.raises(InputError, match="not a complete zip archive"):
            read("pl94-2010", [tmp_path / "zz2010.pl.zip"], PL94)


def test_a_file_that_may_not_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = put(tmp_path / "x", State().files())

    def refuse(path: Path, mode: str) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(source, "open", refuse, raising=False)
    with pytest.raises(InputError, match=r"zzgeo2010\.pl: cannot be read \(Permission denied\)"):
        read("pl94-2010", [folder], PL94)


def test_names_of_places_come_from_the_header(tmp_path: Path) -> None:
    names = read("pl94-2010", [put(tmp_path, State().files())], PL94).blocks.names
    assert {f: len(n.codes) for f, n in names.items()} == {
        "State": 1,
        "County": 2,
        "Tract": 4,
        "Block_Group": 8,
        "Place": 1,
    }
    assert names["Place"].codes.tolist() == [b"9855555"]
    assert {x for n in names.values() for x in n.names.tolist()} == {"Cañon Ñandú"}


def test_school_districts_are_areas(worlds: Worlds, tmp_path: Path) -> None:
    """The header's columns 184, 189 and 194, five digits each: here a unified district of each
    county, and an elementary one in a part."""
    given, changed = worlds.data("one of three"), tmp_path / "nj2010.pl.zip"
    with zipfile.ZipFile(given) as old, zipfile.ZipFile(changed, "w") as new:
        for name in old.namelist():
            lines = old.read(name).decode("latin-1").splitlines(keepends=True)
            if "geo" in name:
                lines = [
                    line[:183]
                    + ("00012" if line[29:32] == "001" else "99999")
                    + "99999"
                    + f"00{line[29:32]}"
                    + line[198:]
                    for line in lines
                ]
            new.writestr(name, "".join(lines).encode("latin-1"))
    fields = read("pl94-2010", [changed], PL94).blocks.fields
    assert "SDSEC" not in fields
    county = as_text(fields["County"])
    assert len(set(county)) > 1
    assert [f"{c[:2]}00{c[2:]}" for c in county] == [
        f"{c[:2]}{s}" for c, s in zip(county, as_text(fields["SDUNI"]), strict=True)
    ]
    unit = np.arange(len(county))
    every = {a.kind: a for a in off_spine(fields, ("State", "County"), unit, len(unit))}
    assert as_text(every["SDELM"].codes).tolist() == ["3400012"]
    assert (every["SDUNI"].geoids == every["SDUNI"].codes).all()
    assert "SDUNI" not in read("pl94-2010", [given], PL94).blocks.fields
