"""Privacy-protected microdata: every header variant, the two codings of voting age, and refusal of
others.
"""

from __future__ import annotations

import gzip
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das.errors import InputError
from das.files.readers import ppmf_persons
from das.model.names import text as as_text
from das.model.records import Extract
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.truth.readers import read

SHARED = Path(os.environ.get("DAS_SHARED_DATA", Path(__file__).parents[4] / "shared" / "data"))
Person = tuple[str, int, int, int, int]  # block, dwelling, adult, Hispanic, race

GEO = ("TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK")
OLD_GEO = ("TABBLKST", "TABBLKCOU", "TABTRACT", "TABBLKGRP", "TABBLK")
SHORT = ("000", "101", "203", "301", "404", "501", "602", "904")


def row(p: Person) -> dict[str, str]:
    block, dwelling, adult, hispanic, race = p
    geo = (block[:2], block[2:5], block[5:11], block[11], block[12:])
    return {
        **dict(zip(GEO, geo, strict=True)),
        **dict(zip(OLD_GEO, geo, strict=True)),
        "VINTAGE": "x",
        "SCHEMA_TYPE_CODE": "MPD",
        "SCHEMA_BUILD_ID": "1.1.0",
        "EPNUM": "999999999",
        "RTYPE": "5" if dwelling else "3",
        "GQTYPE_PL": str(dwelling),
        "GQTYPE": SHORT[dwelling],
        "VOTING_AGE": str(1 + adult),
        "VOTINGAGE": str(adult),
        "QAGE": str(17 + adult),
        "QSEX": "1",
        "CENHISP": str(1 + hispanic),
        "CENRACE": f"{race + 1:02d}",
        "RELSHIP": "99",
        "LIVE_ALONE": "9",
    }


#: The releases of formats.md: delimiter, metadata lines, columns.
RELEASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "2019-10-29": (
        "|",
        "#a|b\n# more, of it\n",
        (
            "SCHEMA_TYPE_CODE",
            "SCHEMA_BUILD_ID",
            *GEO,
            "EPNUM",
            "RTYPE",
            "GQTYPE",
            "RELSHIP",
            "QSEX",
            "QAGE",
            "CENHISP",
            "CENRACE",
            "LIVE_ALONE",
        ),
    ),
    "2020-05-27": (
        ",",
        "",
        ("VINTAGE", *GEO, "RTYPE", "GQTYPE", "QSEX", "QAGE", "CENHISP", "CENRACE"),
    ),
    "2020-09-17": (
        ",",
        "",
        ("VINTAGE", *GEO, "RTYPE", "GQTYPE", "VOTINGAGE", "CENHISP", "CENRACE"),
    ),
    "2021-06-08": (
        ",",
        "",
        ("VINTAGE", *OLD_GEO, "RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE"),
    ),
    "production": (
        "|",
        "# x\n",
        (
            "SCHEMA_TYPE_CODE",
            "SCHEMA_BUILD_ID",
            *GEO,
            "EPNUM",
            "RTYPE",
            "GQTYPE_PL",
            "VOTING_AGE",
            "CENHISP",
            "CENRACE",
        ),
    ),
    "2024-08": (
        ",",
        "",
        (
            "EPNUM",
            "RTYPE",
            "GQTYPE",
            "RELSHIP",
            "QSEX",
            "QAGE",
            "CENHISP",
            "CENRACE",
            "GQTYPE_PL",
            "VOTING_AGE",
            "TABBLKST",
            "TABBLKCOU",
            "TABTRACTCE",
            "TABBLK",
            "TABBLKGRPCE",
        ),
    ),
}


def text(people: list[Person], release: str) -> str:
    delimiter, head, columns = RELEASES[release]
    lines = [delimiter.join(columns), *(delimiter.join(row(p)[c] for c in columns) for p in people)]
    return head + "\n".join(lines) + "\n"


def counted(e: Extract) -> Counter[Person]:
    p = e.persons.open("comparison with what was written")
    codes = as_text(e.blocks.fields["Block"])
    levels = np.unravel_index(p.cell, p.schema.shape)
    out: Counter[Person] = Counter()
    for b, h, v, s, r, n in zip(p.block, *levels, p.count, strict=True):
        out[(str(codes[b]), int(h), int(v), int(s), int(r))] += int(n)
    return out


places = st.sampled_from(["0100100010111000", "0100100010222099", "7215399990000001"])
people = st.tuples(
    places, st.integers(0, 7), st.integers(0, 1), st.integers(0, 1), st.integers(0, 62)
).filter(lambda p: not (p[1] == 3 and p[2] == 0))


@settings(deadline=None)
@given(persons=st.lists(people, min_size=1, max_size=40), release=st.sampled_from(sorted(RELEASES)))
def test_every_release_gives_back_its_persons(
    tmp_path_factory: pytest.TempPathFactory, persons: list[Person], release: str
) -> None:
    path = tmp_path_factory.mktemp("ppmf") / "p.csv"
    path.write_text(text(persons, release))
    e = read("ppmf", [path], PL94)
    assert counted(e) == Counter(persons)
    assert e.others == {}
    assert as_text(e.blocks.fields["Block"]).tolist() == sorted({p[0] for p in persons})
    assert e.blocks.structures is not None
    for i, code in enumerate(as_text(e.blocks.fields["Block"])):
        there = {p[1] for p in persons if p[0] == code}
        assert e.blocks.structures[i].tolist() == [int(h in there) for h in range(8)]


SOME: list[Person] = [
    ("0110568680011000", 0, 1, 0, 0),
    ("0110568680011000", 0, 0, 1, 5),
    ("0110568680011000", 0, 1, 0, 0),
    ("0110568700044042", 5, 1, 0, 62),
    ("4400100010000001", 3, 1, 1, 20),
]


def test_geographic_fields_are_complete_codes(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text(SOME, "2021-06-08"))
    e = read("ppmf", [tmp_path], PL94)
    assert {field: codes[1].decode() for field, codes in e.blocks.fields.items()} == {
        "State": "01",
        "County": "01105",
        "Tract": "01105687000",
        "Block_Group": "011056870004",
        "Block": "0110568700044042",
        "Tract_Group": "011056870",
    }


def test_lost_leading_zeros_compression_and_parts_do_no_harm(tmp_path: Path) -> None:
    whole = text(SOME, "2021-06-08")
    (tmp_path / "a.csv").write_text(whole)
    expected = counted(read("ppmf", [tmp_path / "a.csv"], PL94))
    lines = whole.splitlines()
    bare = "\n".join(
        [lines[0], *(",".join(c.lstrip("0") or "0" for c in line.split(",")) for line in lines[1:])]
    )
    (tmp_path / "b.csv").write_text(bare)
    (tmp_path / "c.csv.gz").write_bytes(gzip.compress(whole.encode()))
    (tmp_path / "d.csv").write_text(
        '"' + '","'.join(lines[0].split(",")) + '"\n' + "\n".join(lines[1:])
    )
    for name in ("b.csv", "c.csv.gz", "d.csv"):
        assert counted(read("ppmf", [tmp_path / name], PL94)) == expected, name
    (tmp_path / "parts").mkdir()
    for i, part in enumerate((lines[1:3], lines[3:])):
        (tmp_path / "parts" / f"{i}.csv").write_text("\n".join([lines[0], *part]) + "\n")
    assert counted(read("ppmf", [tmp_path / "parts"], PL94)) == expected


def test_a_smaller_schema_sums_out(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text(SOME, "2021-06-08"))
    small = Schema("s", (PL94.attribute("votingage"),))
    p = read("ppmf", [tmp_path], small).persons.open("comparison")
    assert np.bincount(p.cell, p.count).tolist() == [1, 4]


@settings(deadline=None)
@given(
    batches=st.lists(st.lists(st.integers(0, 30), max_size=30), max_size=12),
    limit=st.integers(1, 50),
)
def test_counting_in_batches_is_counting_at_once(batches: list[list[int]], limit: int) -> None:
    tally = ppmf_persons.KeyCounts(limit)
    for batch in batches:
        tally.add(np.array(batch, dtype=np.int64))
    keys, count = tally.result()
    assert dict(zip(keys.tolist(), count.tolist(), strict=True)) == Counter(
        x for b in batches for x in b
    )
    assert (np.diff(keys) > 0).all()


def test_real_rows_of_perry_county() -> None:
    path = SHARED / "ppmf" / "ppmf_20210428_eps12-2_P_01105_perry_al.csv.gz"
    if not path.exists():
        pytest.skip("the rows are not there: set DAS_SHARED_DATA to the folder of public test data")
    e = read("ppmf", [path], PL94)
    p = e.persons.open("comparison with published counts")
    assert p.count.sum() == 10_588
    assert np.bincount(p.cell // 252, p.count, 8).tolist() == [9880, 15, 0, 124, 0, 569, 0, 0]
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()[1:]
    oracle: Counter[Person] = Counter()
    for line in lines:
        _, s, c, t, g, b, _, h, v, x, r = line.split(",")
        oracle[(s + c + t + g + b, int(h), int(v) - 1, int(x) - 1, int(r) - 1)] += 1
    assert counted(e) == oracle


# --- refusals
# ----------------------------------------------------------------------------------------


def with_column(
    name: str, value: str, line: int = 2, release: str = "2021-06-08"
) -> Callable[[], str]:
    def build() -> str:
        lines = text(SOME, release).splitlines()
        head = 1 + sum(x.startswith("#") for x in lines)
        cells = lines[head - 1 + line].split(RELEASES[release][0])
        cells[RELEASES[release][2].index(name)] = value
        lines[head - 1 + line] = RELEASES[release][0].join(cells)
        return "\n".join(lines) + "\n"

    return build


REFUSED: dict[str, tuple[Callable[[], str], str]] = {
    "VOTING_AGE 0": (
        with_column("VOTING_AGE", "0"),
        r"p.csv, line 3: VOTING_AGE is 0, which is no code",
    ),
    "VOTINGAGE 2": (
        with_column("VOTINGAGE", "2", release="2020-09-17"),
        r"line 3: VOTINGAGE is 2, which is no code",
    ),
    "after metadata": (with_column("VOTING_AGE", "3", 1, "production"), r"line 3: VOTING_AGE is 3"),
    "Hispanic": (with_column("CENHISP", "0"), r"line 3: CENHISP is 0"),
    "race": (with_column("CENRACE", "64"), r"line 3: CENRACE is 64"),
    "dwelling": (with_column("GQTYPE_PL", "8"), r"line 3: GQTYPE_PL is 8"),
    "long dwelling": (with_column("GQTYPE", "50", release="2020-09-17"), r"line 3: GQTYPE is 50"),
    "dwelling and record type": (
        with_column("RTYPE", "5"),
        r"line 3: RTYPE is 5, which .* contradicts",
    ),
    "block and block group": (
        with_column("TABBLKGRP", "2"),
        r"line 3: TABBLK is 1000, which .* contradicts",
    ),
    "state": (with_column("TABBLKST", "0"), r"line 3: TABBLKST is 0"),
    "letters": (with_column("TABTRACT", "68A800"), r"line 3: TABTRACT is not a whole number"),
    "empty": (with_column("CENRACE", ""), r"line 3: CENRACE is not a whole number"),
    "cut": (
        lambda: text(SOME, "2021-06-08")[:-8],
        r"line 6: 8 fields separated by ',', where 11 are expected",
    ),
    "no race": (
        lambda: text(SOME, "2021-06-08").replace("CENRACE", "RACE"),
        r"line 1: has no column CENRACE",
    ),
    "units": (
        lambda: "VINTAGE,TABBLKST,TABBLKCOU,TABTRACT,TABBLKGRP,TABBLK,RTYPE,HH_STATUS\n",
        r"has no column GQTYPE_PL",
    ),
    "twice": (
        lambda: text(SOME, "2021-06-08").replace("VINTAGE", "TABBLK", 1),
        r"two columns have the same name",
    ),
    "names only": (lambda: text([], "2021-06-08"), r"no (records|persons)"),
    "metadata only": (lambda: "# nothing\n", r"has no line with the names"),
    "minor in a nursing home": (
        lambda: text([*SOME, ("0110568680011000", 3, 0, 0, 0)], "2021-06-08"),
        (
            r"Block 0110568680011000, .*: 1 of the records have combinations that cannot occur .*; this"
            r" is the place of the first"
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_contradicts_the_format_is_refused(tmp_path: Path, name: str) -> None:
    build, message = REFUSED[name]
    (tmp_path / "p.csv").write_text(build())
    with pytest.raises(InputError, match=message):
        read("ppmf", [tmp_path / "p.csv"], PL94)


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no input files"):
        read("ppmf", [tmp_path], PL94)
