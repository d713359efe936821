"""Linked tables: what was simulated and written is read, in every form; each contradiction is
refused, with its number and first place.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from das.errors import InputError, PrivacyError
from das.files.simulators.people import generator
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.names import text
from das.model.records import Records
from das.model.redistricting import PL94
from das.model.schema import Schema
from das.publications.dhc.files import linked
from das.publications.dhc.files.linked import TABLES, LinkedExtract
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.simulation.records import SimulatedDhc, simulate
from das.publications.dhc.truth import simulated

#: Out of order, and two without anybody; one of them has a vacant unit.
CODES = ["30", "10", "20", "50", "40"]
SCHEMAS = {"persons": DHCP, "households": DHCH, "units": TENVACGQ}
Frames = dict[str, pd.DataFrame]


def world_of(seed: int, persons: int = 200) -> SimulatedDhc:
    rng = np.random.default_rng(seed)
    block, cell = rng.integers(0, 3, persons), rng.integers(0, 252, persons)
    cell[: persons // 8] = 5 * 252 + 126  # in college
    cell[persons // 8 : persons // 4] = 3 * 252 + 126 + rng.integers(0, 126)  # in a nursing home
    counted = Histogram.from_triplets(5, PL94.cells, block, cell, np.ones(persons, dtype=np.int64))
    units = np.array([persons, persons, persons, 0, 1])
    return simulate(generator(seed), counted, units, units // 10)


def frames_of(folder: Path, world: SimulatedDhc) -> Frames:
    """As a user has them: numbers of households are texts, empty in group quarters."""
    out = {}
    for name, path in zip(TABLES, simulated.write(folder, world, CODES), strict=True):
        rows = pq.read_table(path).to_pylist()
        texts = [
            {k: "" if v is None else v if k == "count" else str(v) for k, v in row.items()}
            for row in rows
        ]
        out[name] = pd.DataFrame(texts, columns=pq.read_schema(path).names, dtype=object)
    return out


@pytest.fixture(scope="module")
def world() -> SimulatedDhc:
    return world_of(1)


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory, world: SimulatedDhc) -> Frames:
    return frames_of(tmp_path_factory.mktemp("world"), world)


def put(folder: Path, frames: Frames, suffix: str = ".csv") -> Path:
    folder.mkdir(exist_ok=True)
    for name, frame in frames.items():
        path = folder / f"{name}{suffix}"
        frame.to_parquet(path) if suffix == ".parquet" else frame.to_csv(path, index=False)
    return folder


def records(extract: LinkedExtract, name: str) -> Records:
    box: Confidential[Records] = getattr(extract, name)
    return box.open("a test")


def said(extract: LinkedExtract, name: str) -> Counter[tuple[str, ...]]:
    """Counts by the codes of the block and of the levels, without those that are 0."""
    found = records(extract, name)
    codes, levels = text(extract.blocks), np.unravel_index(found.cell, found.schema.shape)
    out: Counter[tuple[str, ...]] = Counter()
    for i, (b, n) in enumerate(zip(found.block, found.count, strict=True)):
        out[
            (
                str(codes[b]),
                *(a.levels[x[i]] for a, x in zip(found.schema.attributes, levels, strict=True)),
            )
        ] += int(n)
    return +out


def told(frame: pd.DataFrame, schema: Schema) -> Counter[tuple[str, ...]]:
    """The same of a table, line by line."""
    out: Counter[tuple[str, ...]] = Counter()
    for row in frame.to_dict("records"):
        out[(row["block"], *(row[a.name] for a in schema.attributes))] += int(row.get("count", 1))
    return +out


# --- what is read
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [None, ".parquet", ".csv", ".csv.gz"])
def test_what_was_written_is_read(
    tmp_path: Path, world: SimulatedDhc, frames: Frames, suffix: str | None
) -> None:
    folder = put(tmp_path, frames, suffix) if suffix else tmp_path
    if suffix is None:
        simulated.write(folder, world, CODES)
    extract = linked.read(folder)
    assert text(extract.blocks).tolist() == sorted(CODES)
    number = np.argsort(np.argsort(CODES))
    for name, counted in (
        ("persons", world.persons()),
        ("households", world.households()),
        ("units", world.units()),
    ):
        found, schema = records(extract, name), SCHEMAS[name]
        assert found.schema is schema
        wanted = counted.up(number, len(CODES))
        assert Histogram.from_triplets(
            len(CODES), schema.cells, found.block, found.cell, found.count
        ).same_as(wanted), name
    assert [s.name for s in extract.sources] == [f"{name}{suffix or '.parquet'}" for name in TABLES]
    for source in extract.sources:
        data = (folder / source.name).read_bytes()
        assert (source.size, source.sha256) == (len(data), hashlib.sha256(data).hexdigest())


def test_what_is_read_does_not_show(tmp_path: Path, frames: Frames) -> None:
    extract = linked.read(put(tmp_path, frames))
    assert repr(extract) == "<LinkedExtract: confidential>"
    for name in TABLES:
        with pytest.raises(PrivacyError):
            list(getattr(extract, name))
    assert len(extract.notes) == 1


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(1, 60),
    suffix=st.sampled_from([".csv", ".parquet"]),
    kept=st.sets(st.sampled_from([a.name for a in DHCH.attributes if a.name != "hhtenshort_3lev"])),
)
def test_order_names_and_columns_that_follow_do_not_matter(
    tmp_path_factory: pytest.TempPathFactory, seed: int, size: int, suffix: str, kept: set[str]
) -> None:
    folder = tmp_path_factory.mktemp("any")
    frames = frames_of(folder / "parquet", world_of(seed, 4 + size))
    rng = np.random.default_rng(seed)
    shuffled = {name: frame.sample(frac=1, random_state=rng) for name, frame in frames.items()}
    shuffled["households"] = shuffled["households"][
        ["household", "hhtenshort_3lev", *sorted(kept), "block"]
    ]
    for name in ("persons", "households"):
        column = shuffled[name]["household"]
        shuffled[name] = shuffled[name].assign(household=[f"Č-{h}" if h else "" for h in column])
    extract = linked.read(put(folder / "own", shuffled, suffix))
    for name, schema in SCHEMAS.items():
        assert said(extract, name) == told(frames[name], schema)


def test_counts_stand_for_persons_in_group_quarters_alone(tmp_path: Path, frames: Frames) -> None:
    persons = frames["persons"]
    away = persons["household"] == ""
    together = (
        persons[away]
        .groupby(list(persons), as_index=False)
        .size()
        .rename(columns={"size": "count"})
    )
    assert together["count"].max() > 1
    nobody = together.iloc[:1].assign(count=0, block="50")  # where nothing is
    mixed = frames | {"persons": pd.concat([nobody, persons[~away].assign(count=1), together])}
    assert said(linked.read(put(tmp_path, mixed)), "persons") == told(persons, DHCP)
    mixed["persons"] = persons.assign(count=[2 if h else 1 for h in persons["household"]])
    with pytest.raises(
        InputError,
        match=rf"{(~away).sum()} of 200 rows are in a household and do not stand for one person",
    ):
        linked.read(put(tmp_path, mixed))


def test_nobody_in_households_is_an_empty_table(tmp_path: Path, frames: Frames) -> None:
    away = {
        "persons": frames["persons"][frames["persons"]["household"] == ""],
        "households": frames["households"].iloc[:0],
        "units": frames["units"][
            ~frames["units"]["tenvacgq"].isin(["mortgage", "clear", "rented", "no-cash-rent"])
        ],
    }
    extract = linked.read(put(tmp_path, away, ".parquet"))
    assert said(extract, "persons") == told(away["persons"], DHCP)
    assert not said(extract, "households")


def test_numbers_of_households_may_be_numbers_with_gaps(tmp_path: Path, frames: Frames) -> None:
    """As a data frame writes them that has nothing in group quarters."""
    numbers = {
        name: frame.assign(household=pd.to_numeric(frame["household"]))
        for name, frame in frames.items()
        if name != "units"
    }
    assert numbers["persons"]["household"].dtype == float
    extract = linked.read(put(tmp_path, frames | numbers, ".parquet"))
    assert said(extract, "households") == told(frames["households"], DHCH)


# --- what is refused
# ---------------------------------------------------------------------------------------------


def pick(frame: pd.DataFrame, which: Callable[[pd.Series], bool], n: int = 0) -> int:
    """The line of the first row that is so, but ``n``."""
    return int(np.flatnonzero([which(row) for _, row in frame.iterrows()])[n])


def sizes(frames: Frames) -> Counter[str]:
    return Counter(frames["persons"]["household"])


def change(frames: Frames, table: str, row: int, **values: str | int) -> Frames:
    frame = frames[table].copy()
    for name, value in values.items():
        frame.loc[frame.index[row], name] = value
    return frames | {table: frame}


def without(frames: Frames, table: str, which: pd.Series) -> Frames:
    return frames | {table: frames[table][~which]}


def place(table: str, row: int) -> str:
    return rf"{table}\.csv, line {row + 2}: "


Fault = Callable[[Frames], tuple[Frames, str]]


def unknown_code(f: Frames) -> tuple[Frames, str]:
    return (
        change(f, "persons", 7, relgq="uncle"),
        place("persons", 7) + "relgq has a value that is no level of it",
    )


def missing_value(f: Frames) -> tuple[Frames, str]:
    return (
        change(f, "persons", 7, age=""),
        place("persons", 7) + "values are missing: age in 1 of 200 rows",
    )


def unlisted_block(f: Frames) -> tuple[Frames, str]:
    said = (
        place("persons", 3)
        + r"1 of 200 rows are in blocks that units\.csv does not list; the first: block '77'"
    )
    return change(f, "persons", 3, block="77"), said


def unlisted_block_of_a_household(f: Frames) -> tuple[Frames, str]:
    return (
        change(f, "households", 3, block="77"),
        place("households", 3) + "1 of .* does not list; the first: block '77'",
    )


def zero_of_persons(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["relgq"] == "gq-301")
    said = (
        place("persons", row)
        + "1 of 200 rows are of combinations that cannot occur in schema 'dhcp'; the first: block "
    )
    return change(f, "persons", row, age="19"), said


def zero_of_households(f: Frames) -> tuple[Frames, str]:
    """A householder of 80 with a child of 3: a man of 75 and over has no own child under 6."""
    size = sizes(f)
    row = pick(
        f["persons"], lambda p: p["relgq"] == "biological-child" and size[p["household"]] == 2
    )
    home = f["persons"]["household"].iloc[row]
    head = pick(f["persons"], lambda p: p["household"] == home and p["relgq"] == "householder")
    f = change(change(f, "persons", row, age="3"), "persons", head, age="80", sex="male")
    of = pick(f["households"], lambda h: h["household"] == home)
    return (
        f,
        place("households", of)
        + "1 of .* are of combinations that cannot occur in schema 'dhch'; the first: block '",
    )


def no_household(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["household"] != "")
    return (
        change(f, "persons", row, household=""),
        place("persons", row) + "1 of 200 rows have a relationship .* no household",
    )


def household_in_quarters(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["household"] == "")
    return (
        change(f, "persons", row, household="0"),
        place("persons", row) + "1 of 200 rows are in group quarters and in a household",
    )


def unknown_household(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["household"] != "")
    return (
        change(f, "persons", row, household="x9"),
        place("persons", row) + "1 of .* does not list; the first: a person in block '..'",
    )


def household_of_nobody(f: Frames) -> tuple[Frames, str]:
    new = f["households"].iloc[[4]].assign(household="x9")
    last = len(f["households"])
    f = f | {"households": pd.concat([f["households"], new])}
    return (
        f,
        place("households", last)
        + rf"1 of {last + 1} rows are households for which persons\.csv has nobody; the first:"
        r" a household in block '..'",
    )


def household_twice(f: Frames) -> tuple[Frames, str]:
    last = len(f["households"])
    f = f | {"households": pd.concat([f["households"], f["households"].iloc[[4]]])}
    return (
        f,
        place("households", last)
        + "1 of .* are of a household that stands before; the first: a household in block '..'",
    )


def nameless_household(f: Frames) -> tuple[Frames, str]:
    return (
        change(f, "households", 4, household=""),
        place("households", 4) + "1 of .* name no household",
    )


def several_to_a_line(f: Frames) -> tuple[Frames, str]:
    f = f | {
        "households": f["households"].assign(count=[1] * 4 + [2] + [1] * (len(f["households"]) - 5))
    }
    return f, place("households", 4) + "1 of .* do not stand for one household"


def elsewhere(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["household"] != "" and p["block"] == "30")
    said = (
        place("persons", row)
        + "1 of 200 rows are in another block than their household; the first: .* in block '20',"
        " whose household is in block '30'"
    )
    return change(f, "persons", row, block="20"), said


def no_householder(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["relgq"] == "householder")
    home = f["persons"]["household"].iloc[row]
    f = change(f, "persons", row, relgq="roommate")
    return (
        f,
        place("households", int(home))
        + "1 of .* without a householder, or with several; the first: a household in block '..'",
    )


def two_householders(f: Frames) -> tuple[Frames, str]:
    row = pick(
        f["persons"], lambda p: p["household"] != "" and not p["relgq"].startswith("householder")
    )
    home = f["persons"]["household"].iloc[row]
    f = change(f, "persons", row, relgq="householder", age="50")
    return (
        f,
        place("households", int(home))
        + "1 of .* without a householder, or with several; the first: a household in block '..'",
    )


def two_spouses(f: Frames) -> tuple[Frames, str]:
    couples = set(f["persons"]["household"][f["persons"]["relgq"] == "opposite-sex-spouse"])
    row = pick(
        f["persons"],
        lambda p: (
            p["household"] in couples and p["relgq"] not in ("householder", "opposite-sex-spouse")
        ),
    )
    home = f["persons"]["household"].iloc[row]
    f = change(f, "persons", row, relgq="same-sex-partner", age="50")
    return (
        f,
        place("households", int(home))
        + "1 of .* are households with several spouses or partners of the householder",
    )


def alone_with_others(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["relgq"] == "householder")
    return (
        change(f, "persons", row, relgq="householder-alone"),
        place("persons", row) + "1 of 200 rows are householders said to live alone",
    )


def not_alone_without_others(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["relgq"] == "householder-alone")
    return (
        change(f, "persons", row, relgq="householder"),
        place("persons", row) + "1 of 200 rows are householders said to live alone",
    )


def spouse_of_the_same_sex(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["relgq"] == "opposite-sex-spouse")
    other = {"male": "female", "female": "male"}[f["persons"]["sex"].iloc[row]]
    return (
        change(f, "persons", row, sex=other),
        place("persons", row) + "1 of 200 rows are spouses or partners of another sex",
    )


def opposite_said_to_be_the_same(f: Frames) -> tuple[Frames, str]:
    row = pick(f["persons"], lambda p: p["relgq"] == "opposite-sex-spouse")
    return (
        change(f, "persons", row, relgq="same-sex-spouse"),
        place("persons", row) + "1 of 200 rows are spouses or partners of another sex",
    )


def wrong_type(f: Frames) -> tuple[Frames, str]:
    row = pick(f["households"], lambda h: h["hhtype_dhch"] == "N rel0 own0 ch0 minor0 mg0 size1")
    said = (
        place("households", row)
        + "1 of .* not what their members make them; the first: a household in block '..', its hhtype_dhch"
    )
    return change(f, "households", row, hhtype_dhch="N rel0 own0 ch0 minor0 mg0 size2"), said + "\n"


def wrong_race(f: Frames) -> tuple[Frames, str]:
    rows = [2, 9]
    now = f["households"]["race"]
    for row in rows:
        f = change(f, "households", row, race="White" if now.iloc[row] != "White" else "Black")
    return (
        f,
        place("households", 2)
        + f"2 of {len(now)} rows .* not what their members make them; the first: a household in block '..', its"
        " race",
    )


def no_type(f: Frames) -> tuple[Frames, str]:
    """A householder of 16 with a parent and a grown child: three generations, and nobody under 18
    but the householder.
    """
    home = next(h for h, n in sizes(f).items() if h and n >= 3)
    ages = {"householder": "16", "parent": "40", "biological-child": "30"}
    others = iter(["parent", "biological-child", *["roommate"] * 20])
    for row in np.flatnonzero(f["persons"]["household"] == home):
        relgq = f["persons"]["relgq"].iloc[row]
        relgq = relgq if relgq == "householder" else next(others)
        f = change(f, "persons", int(row), relgq=relgq, age=ages.get(relgq, "30"))
    return (
        f,
        place("households", int(home))
        + "1 of .* are households of members whom no type of household has",
    )


def other_tenure(f: Frames) -> tuple[Frames, str]:
    row = pick(f["households"], lambda h: h["hhtenshort_3lev"] == "rented")
    f = change(f, "households", row, hhtenshort_3lev="clear")
    block = f["households"]["block"].iloc[row]
    said = (
        r"households\.csv and units\.csv: 1 of 5 blocks have other numbers of households than of"
        rf" units of a tenure; the first: block '{block}'"
    )
    return f, said


def fewer_units(f: Frames) -> tuple[Frames, str]:
    row = pick(f["units"], lambda u: u["tenvacgq"] == "mortgage")
    f = change(f, "units", row, count=int(f["units"]["count"].iloc[row]) - 1)
    return f, r"households\.csv and units\.csv: 1 of 5 blocks .* of a tenure; the first"


def no_facility(f: Frames) -> tuple[Frames, str]:
    row = pick(f["units"], lambda u: u["tenvacgq"] == "gq-501")
    block = f["units"]["block"].iloc[row]
    n = int(((f["persons"]["relgq"] == "gq-501") & (f["persons"]["block"] == block)).sum())
    said = (
        rf"{n} of 200 rows are in a type of group quarters for which units\.csv has no facility in"
        rf" their block; the first: block '{block}'"
    )
    return change(f, "units", row, count=0), said


def facility_of_nobody(f: Frames) -> tuple[Frames, str]:
    f = f | {
        "units": pd.concat(
            [f["units"], pd.DataFrame([{"block": "50", "tenvacgq": "gq-405", "count": 1}])]
        )
    }
    return (
        f,
        (
            r"units\.csv: 1 of 5 blocks have more facilities of a type than persons in it; the"
            r" first: block '50'"
        ),
    )


def more_than_can_be(f: Frames) -> tuple[Frames, str]:
    return change(f, "units", 2, count=2**62), place("units", 2) + "count is too large"


def negative(f: Frames) -> tuple[Frames, str]:
    return change(f, "units", 2, count=-1), place("units", 2) + "count is negative"


FAULTS: list[Fault] = [
    unknown_code,
    missing_value,
    unlisted_block,
    unlisted_block_of_a_household,
    zero_of_persons,
    zero_of_households,
    no_household,
    household_in_quarters,
    unknown_household,
    household_of_nobody,
    household_twice,
    nameless_household,
    several_to_a_line,
    elsewhere,
    no_type,
    no_householder,
    two_householders,
    two_spouses,
    alone_with_others,
    not_alone_without_others,
    spouse_of_the_same_sex,
    opposite_said_to_be_the_same,
    wrong_type,
    wrong_race,
    other_tenure,
    fewer_units,
    no_facility,
    facility_of_nobody,
    more_than_can_be,
    negative,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.__name__)
def test_a_contradiction_is_refused(tmp_path: Path, frames: Frames, fault: Fault) -> None:
    changed, said = fault(frames)
    with pytest.raises(InputError, match=said) as caught:
        linked.read(put(tmp_path, changed))
    assert caught.value.remedy
    assert len(str(caught.value)) < 1000


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_is_not_refused_is_what_the_files_say(
    tmp_path_factory: pytest.TempPathFactory, frames: Frames, data: st.DataObject
) -> None:
    """One value is another; whatever is accepted is counted as it stands there, and the tables
    agree in it.
    """
    table = data.draw(st.sampled_from(TABLES))
    column = data.draw(st.sampled_from(list(frames[table])))
    row = data.draw(st.integers(0, len(frames[table]) - 1))
    value = data.draw(st.sampled_from(sorted(set(frames[table][column]))))
    assume(value != frames[table][column].iloc[row])
    changed = change(frames, table, row, **{column: value})
    try:
        extract = linked.read(put(tmp_path_factory.mktemp("one"), changed, ".parquet"))
    except InputError:
        return
    for name, schema in SCHEMAS.items():
        assert said(extract, name) == told(changed[name], schema)
    tenure = {
        "mortgage": "mortgage",
        "clear": "clear",
        "rented": "rented",
        "no-cash-rent": "rented",
    }
    units: Counter[tuple[str, str]] = Counter()
    for (block, kind), n in said(extract, "units").items():
        if kind in tenure:
            units[block, tenure[kind]] += n
    assert units == Counter(
        zip(changed["households"]["block"], changed["households"]["hhtenshort_3lev"], strict=True)
    )


# --- files
# -------------------------------------------------------------------------------------------------------


def test_each_table_is_there_once(tmp_path: Path, frames: Frames) -> None:
    with pytest.raises(InputError, match="nowhere: is no folder"):
        linked.read(tmp_path / "nowhere")
    folder = put(tmp_path / "own", frames)
    put(folder, {"units": frames["units"]}, ".parquet")
    with pytest.raises(InputError, match=r"own: holds units\.parquet and units\.csv"):
        linked.read(folder)
    for path in folder.glob("units.*"):
        path.unlink()
    with pytest.raises(InputError, match="own: holds no table of units"):
        linked.read(folder)


@pytest.mark.parametrize(("table", "given"), [(a, b) for a, b in product(TABLES, TABLES) if a != b])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables_that_are_swapped(
    tmp_path: Path, frames: Frames, table: str, given: str, suffix: str
) -> None:
    with pytest.raises(
        InputError,
        match=(
            rf"{table}\{suffix}: has no column .*\n.*its columns are 'block'|'household'.*is it"
            r" another table"
        ),
    ):
        linked.read(put(tmp_path, frames | {table: frames[given]}, suffix))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".csv.gz"])
def test_files_that_are_cut_short_or_empty(
    tmp_path: Path, frames: Frames, table: str, suffix: str
) -> None:
    path = put(tmp_path, frames, suffix) / f"{table}{suffix}"
    whole = path.read_bytes()
    path.write_bytes(
        whole[: len(whole) * 2 // 3].rstrip(b"\r\n0123456789")
        if suffix == ".csv"
        else whole[: len(whole) // 2]
    )
    with pytest.raises(InputError, match=rf"{table}\{suffix}"):
        linked.read(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match="the file is empty"):
        linked.read(tmp_path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_table_of_units_lists_blocks(tmp_path: Path, frames: Frames, suffix: str) -> None:
    with pytest.raises(InputError, match=rf"units\{suffix}: has no records"):
        linked.read(put(tmp_path, frames | {"units": frames["units"].iloc[:0]}, suffix))


def test_texts_of_another_encoding(tmp_path: Path, frames: Frames) -> None:
    persons = frames["persons"].assign(
        household=[f"ä{h}" if h else "" for h in frames["persons"]["household"]]
    )
    homes = frames["households"].assign(
        household=[f"ä{h}" for h in frames["households"]["household"]]
    )
    folder = put(tmp_path, frames)
    for name, frame in (("persons", persons), ("households", homes)):
        frame.to_csv(folder / f"{name}.csv", index=False, encoding="latin-1")
    with pytest.raises(InputError, match=r"households\.csv, line 2: is not utf-8: the bytes e4"):
        linked.read(folder)
    assert said(linked.read(folder, encoding="latin-1"), "persons") == told(frames["persons"], DHCP)


def test_columns_of_another_type(tmp_path: Path, frames: Frames) -> None:
    folder = put(tmp_path, frames, ".parquet")
    pq.write_table(
        pa.table(
            {c: [[1]] for c in ("block", "household", "relgq", "sex", "age", "hispanic", "cenrace")}
        ),
        folder / "persons.parquet",
    )
    with pytest.raises(
        InputError, match=r"persons\.parquet: is not a Parquet file that can be read"
    ):
        linked.read(folder)


def test_bytes_that_are_no_text(tmp_path: Path, frames: Frames) -> None:
    """Parquet says of a column that it is UTF-8, and no writer is held to it."""
    folder = put(tmp_path, frames, ".parquet")
    rented = [b"\xabed" if v == "rented" else v.encode() for v in frames["units"]["tenvacgq"]]
    table = pq.read_table(folder / "units.parquet")
    wrong = pa.array(rented, pa.binary()).view(pa.string())
    pq.write_table(
        table.set_column(table.column_names.index("tenvacgq"), "tenvacgq", wrong),
        folder / "units.parquet",
    )
    with pytest.raises(
        InputError, match=r"units\.parquet: is not a Parquet file that can be read: .*UTF8"
    ):
        linked.read(folder)


@pytest.mark.parametrize(
    "line",
    ["30," + "x" * (1 << 23) + ",householder,male,30,not-hispanic,White", "30,1,householder"],
)
def test_a_line_that_is_none(tmp_path: Path, frames: Frames, line: str) -> None:
    path = put(tmp_path, frames) / "persons.csv"
    path.write_text(path.read_text() + line + "\n")
    with pytest.raises(InputError, match=r"persons\.csv, line 202: ") as caught:
        linked.read(tmp_path)
    assert len(str(caught.value)) < 1000


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    table=st.sampled_from(TABLES),
    suffix=st.sampled_from([".csv", ".parquet"]),
    at=st.floats(0, 1, exclude_max=True),
    gone=st.integers(0, 40),
    put_in=st.binary(max_size=8),
)
def test_altered_bytes_are_refused_or_read(
    tmp_path_factory: pytest.TempPathFactory,
    frames: Frames,
    table: str,
    suffix: str,
    at: float,
    gone: int,
    put_in: bytes,
) -> None:
    """Nothing but :class:`InputError` ends the reading, with a message of bounded length that names
    a file.
    """
    folder = put(tmp_path_factory.mktemp("bytes"), frames, suffix)
    whole = (folder / f"{table}{suffix}").read_bytes()
    first = int(at * len(whole))
    (folder / f"{table}{suffix}").write_bytes(whole[:first] + put_in + whole[first + gone :])
    try:
        linked.read(folder)
    except InputError as error:
        assert len(str(error)) < 2000  # noqa: PT017
        assert any(name in str(error) for name in TABLES)  # noqa: PT017
