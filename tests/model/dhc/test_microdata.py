"""The microdata of the DHC: the fields, the code of each level against sentences on single records
and against the published codes, and records that are written and read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das.errors import InputError
from das.files.microdata.reading import read, read_frame
from das.files.microdata.writing import write
from das.model.columns import MicrodataForm
from das.model.histogram import Histogram
from das.model.names import encoded
from das.model.schema import Schema
from das.model.universe import PERSONS, Publication, RecordKind, Universe
from das.publications.dhc.model import publications
from das.publications.dhc.model.households import DHCH, TENVACGQ, TYPES, HouseholdType
from das.publications.dhc.model.microdata import household_form, person_form, unit_form
from das.publications.dhc.model.persons import DHCP

PLACE = ["TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLKGRPCE", "TABBLK"]
PERSON = [
    "SCHEMA_TYPE_CODE",
    "SCHEMA_BUILD_ID",
    *PLACE,
    "EPNUM",
    "RTYPE",
    "GQTYPE",
    "RELSHIP",
    "QSEX",
    "QAGE",
    "CENHISP",
    "CENRACE",
    "LIVE_ALONE",
]
UNIT = [
    "SCHEMA_TYPE_CODE",
    "SCHEMA_BUILD_ID",
    *PLACE,
    "RTYPE",
    "GQTYPE",
    "TEN",
    "VACS",
    "HHSIZE",
    "HHT",
    "HHT2",
    "CPLT",
    "UPART",
    "MULTG",
    "THHLDRAGE",
    "THHSPAN",
    "THHRACE",
    "PAOC",
    "TP18",
    "TP60",
    "TP65",
    "TP75",
    "PAC",
    "HHSEX",
]
BLOCKS = encoded([f"44001000100100{i}" + "0" for i in range(4)])
KIND = RecordKind("records", publications=(publications.households(), publications.units()))


def codes(form: MicrodataForm, name: str, cell: np.ndarray) -> list[str]:
    (column,) = [c for c in form.columns if c.name == name]
    return [column.values[i] for i in column.of_cells(cell).tolist()]


def test_there_are_16_fields_of_persons_and_27_of_units() -> None:
    for form, header in ((person_form(), PERSON), (household_form(), UNIT), (unit_form(), UNIT)):
        assert [*form.before, *(name for name, _ in form.geography), *form.after] == header
    assert (len(PERSON), len(UNIT)) == (16, 27)


def test_every_field_is_filled_and_explained() -> None:
    for form in (person_form(), household_form(), unit_form()):
        filled = {*(c.name for c in form.columns), *form.constants, "EPNUM", "SCHEMA_BUILD_ID"}
        assert {*form.before, *form.after} <= filled
        assert len(filled) == len(form.columns) + len(form.constants) + 2  # none twice
        for c in form.columns:
            assert c.decodes or (c.name in form.says or c.name == "RTYPE")
            assert len(c.labels) in (0, len(c.values))
            assert all(len(v) == len(c.values[0]) for v in c.values) or c.name == "QAGE"


def test_no_field_has_an_array_of_all_cells() -> None:
    arrays = [c.index for form in (person_form(), household_form()) for c in form.columns]
    assert max(a.size for a in arrays) == 2 * 522


# --- persons
# -----------------------------------------------------------------------------------------


def test_codes_of_some_persons() -> None:
    form = person_form()
    people = [
        "householder-alone",
        "householder",
        "opposite-sex-spouse",
        "other-nonrelative",
        "gq-101",
        "gq-405",
        "gq-501",
        "gq-997",
    ]
    relgq = [DHCP.attribute("relgq").levels.index(p) for p in people]
    cell = np.ravel_multi_index((relgq, 1, [34, 50, 0, 115, 20, 10, 19, 80], 1, 62), DHCP.shape)
    assert codes(form, "RELSHIP", cell) == ["20", "20", "21", "36", "37", "37", "38", "38"]
    assert codes(form, "LIVE_ALONE", cell) == ["1", "2", "2", "2", "0", "0", "0", "0"]
    assert codes(form, "GQTYPE", cell) == ["000"] * 4 + ["101", "405", "501", "997"]
    assert codes(form, "RTYPE", cell) == ["3"] * 4 + ["5"] * 4
    assert codes(form, "QAGE", cell) == ["34", "50", "0", "115", "20", "10", "19", "80"]
    assert [codes(form, n, cell)[0] for n in ("QSEX", "CENHISP", "CENRACE")] == ["2", "2", "63"]


def test_codes_of_persons_are_the_published_ones(published: dict[str, Any]) -> None:
    form, theirs = person_form(), published["attributes"]["relgq"]["mdf"]
    cell = np.arange(42) * (DHCP.cells // 42)
    for name, expected in theirs.items():
        assert codes(form, name, cell) == [str(x) for x in expected], name


# --- households
# --------------------------------------------------------------------------------------


def each() -> np.ndarray:
    """A cell of each sex and type, ``(2, 522)``."""
    return np.ravel_multi_index(
        np.ix_([0, 1], [3], [1], [2], [0], [0], range(522)), DHCH.shape
    ).reshape(2, 522)


def expected(field: str, t: HouseholdType, sex: str) -> int:
    """By what the field means."""
    alone, couple = t.size == 1, t.couple != "N"
    same = t.couple in ("MS", "CS")
    male = sex == "male"
    if field == "HHT":
        if t.couple in ("MO", "MS"):
            return 1
        return {(True, True): 2, (True, False): 3}.get(
            (bool(t.relatives), male), (4 if male else 6) + (not alone)
        )
    if field == "HHT2":
        if couple:
            return {("M", True): 1, ("M", False): 2, ("C", True): 3, ("C", False): 4}[
                (t.couple[0], t.own > 0)
            ]
        kind = [alone, t.own > 0, bool(t.relatives), True].index(True)
        return (9 if male else 5) + kind
    if field == "CPLT":
        return 0 if alone else ["MO", "MS", "CO", "CS", "N"].index(t.couple) + 1
    if field == "UPART":
        if t.couple[0] != "C":
            return 0 if alone else 5
        return {(True, True): 1, (True, False): 2, (False, True): 3, (False, False): 4}[
            (male, same)
        ]
    if field == "MULTG":
        return 0 if t.size <= 2 else 2 if t.multig else 1
    if field in ("PAOC", "PAC"):
        return {0: 4}.get(ages := t.own if field == "PAOC" else t.children, ages)
    return {"TP18": t.minor, "HHSIZE": t.size}[field]


FIELDS = ["HHT", "HHT2", "CPLT", "UPART", "MULTG", "PAOC", "PAC", "TP18", "HHSIZE"]


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_a_household_type(field: str) -> None:
    for sex, cell in zip(("male", "female"), each(), strict=True):
        found = list(map(int, codes(household_form(), field, cell)))
        assert found == [expected(field, t, sex) for t in TYPES]


@pytest.mark.parametrize("field", FIELDS)
def test_fields_of_a_household_type_are_the_published_ones(
    field: str, published: dict[str, Any]
) -> None:
    theirs = published["attributes"]["hhtype_dhch"]["mdf"]
    both = theirs.get(f"{field} (male, female)") or [[x, x] for x in theirs[field]]
    for i, cell in enumerate(each()):
        assert codes(household_form(), field, cell) == [str(x[i]) for x in both]


def test_fields_of_the_oldest() -> None:
    cell = np.ravel_multi_index((0, 0, 0, 6, range(4), 2, 3), DHCH.shape)
    found = {
        name: codes(household_form(), name, cell)
        for name in ("TP60", "TP65", "TP75", "THHRACE", "TEN", "THHLDRAGE")
    }
    assert found == {
        "TP60": [*"0111"],
        "TP65": [*"0011"],
        "TP75": [*"0001"],
        "THHRACE": ["07"] * 4,
        "TEN": ["3"] * 4,
        "THHLDRAGE": ["1"] * 4,
    }


def test_fields_of_units(published: dict[str, Any]) -> None:
    form, cell = unit_form(), np.arange(35)
    for name, theirs in published["attributes"]["tenvacgq"]["mdf"].items():
        assert codes(form, name, cell) == [str(x) for x in theirs], name


def test_other_units_carry_zeros_where_a_household_would_be() -> None:
    form, cell = unit_form(), np.array([0, 3, 4, 10, 11, 34])
    assert codes(form, "TEN", cell) == ["1", "4", "0", "0", "0", "0"]
    assert codes(form, "VACS", cell) == ["0", "0", "1", "7", "0", "0"]
    assert codes(form, "RTYPE", cell) == ["2", "2", "2", "2", "4", "4"]
    assert codes(form, "GQTYPE", cell) == ["000", "000", "000", "000", "101", "997"]
    assert (form.constants["HHT2"], form.constants["THHRACE"], form.constants["HHSIZE"]) == (
        "00",
        "00",
        "0",
    )


# --- written and read
# --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, schema, header",
    [(PERSONS, DHCP, PERSON), (KIND, DHCH, UNIT), (KIND, TENVACGQ, UNIT)],
    ids=lambda x: getattr(x, "name", ""),
)
def test_microdata_hold_the_same_records(
    kind: RecordKind, schema: Schema, header: list[str], tmp_path: Path
) -> None:
    """Every level of every attribute is told apart by the fields of a record, alone or together."""
    rng = np.random.default_rng(3)
    every = np.flatnonzero(schema.possible)
    cell = np.concatenate([rng.choice(every, 20_000), each().ravel()[: 1044 * (schema is DHCH)]])
    h = Histogram.from_triplets(
        4, schema.cells, rng.integers(0, 4, len(cell)), cell, np.ones(len(cell), dtype=np.int64)
    )
    universe = Universe(kind, schema)
    write(tmp_path / "records", h, BLOCKS, universe)
    assert list(read_frame(tmp_path / "records").columns) == header
    assert read(tmp_path / "records", universe, BLOCKS).same_as(h)


@pytest.mark.parametrize(
    "field, code, message",
    [
        (
            "LIVE_ALONE",
            "1",
            "RTYPE, GQTYPE, RELSHIP, LIVE_ALONE together are of no Relationship or group quarters",
        ),
        ("RTYPE", "5", "together are of no"),
        ("RELSHIP", "19", "RELSHIP is '19'"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(
    field: str, code: str, message: str, tmp_path: Path
) -> None:
    cell = np.ravel_multi_index((2, 1, 40, 0, 0), DHCP.shape)  # somebody's wife
    h = Histogram.from_triplets(4, DHCP.cells, np.array([1]), np.array([cell]), np.array([3]))
    (path,) = write(tmp_path / "persons", h, BLOCKS, Universe(PERSONS, DHCP))
    table = pq.read_table(path)
    changed = pa.array([code] * 3).dictionary_encode()
    changed_table = table.set_column(table.schema.get_field_index(field), field, changed)
    pq.write_table(changed_table.replace_schema_metadata(table.schema.metadata), path)
    with pytest.raises(InputError, match=message):
        read(tmp_path / "persons", Universe(PERSONS, DHCP), BLOCKS)


def test_persons_of_the_schema_are_published_so() -> None:
    known = PERSONS.publication(DHCP)
    assert isinstance(known, Publication)
    assert len(known.tables) == 34
    assert known.chain is not None
    assert [DHCP.query(q).answers for q in known.chain] == [423_360, 252_000, 6_048, 4_032]
