"""The publications that this system follows, as data: how the records of a schema are rounded,
tabulated and listed.

Sources: the 2010 P.L. 94-171 technical documentation, segments 1 and 2 (order and labels of tables
P1 to P4 and H1), that of 2020, segment 3 (P5); the redistricting microdata detail file of the 2020
production system, persons and units; the 1940 file of the 2018 end-to-end test. The rounding chains
are the Bureau's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das.model.columns import BUILD, GEOCODE, SERIAL, CodedColumn, MicrodataForm
from das.model.redistricting import CENRACE, E2E_1940, H1, PL94
from das.model.schema import Schema
from das.model.tabulation import LabelledWhere, Tabulation, Where


@dataclass(frozen=True, eq=False)
class Publication:
    """How the records of ``schema`` are published. ``chain``: nested queries, fine to coarse, whose
    sums rounding keeps, ``None`` where those of the measured queries are kept in its stead;
    ``tables``: none, where it has those of any schema."""

    schema: Schema
    microdata: MicrodataForm
    chain: tuple[str, ...] | None = None
    tables: tuple[Tabulation, ...] = ()


# --- tables
# ------------------------------------------------------------------------------------------

_NUMBER = {2: "two races", 3: "three races", 4: "four races", 5: "five races", 6: "six races"}
ADULTS: Where = {"votingage": ("18-and-over",)}
_QUARTERS = PL94.attribute("hhgq")


def _redistricting() -> tuple[Tabulation, ...]:
    for_adults = " for the population 18 years and over"
    origin = "Hispanic or Latino, and not Hispanic or Latino by race"
    return (
        Tabulation("P1", "Race", columns=by_race({})),
        Tabulation("P2", origin, columns=by_origin_and_race({})),
        Tabulation("P3", "Race" + for_adults, columns=by_race(ADULTS)),
        Tabulation("P4", origin + for_adults, columns=by_origin_and_race(ADULTS)),
        Tabulation(
            "P5", "Group quarters population by major group quarters type", columns=_by_quarters()
        ),
    )


def by_race(of: Where) -> tuple[LabelledWhere, ...]:
    """The total and the 63 combinations of races, of those who meet a condition: 71 columns."""
    return ("Total", of), *_races(of)


def by_origin_and_race(of: Where) -> tuple[LabelledWhere, ...]:
    """The total, the two origins, and the races of those not of Hispanic origin: 73 columns."""
    hispanic, other = ({**of, "hispanic": (level,)} for level in ("hispanic", "not-hispanic"))
    return (
        ("Total", of),
        ("Hispanic or Latino", hispanic),
        ("Not Hispanic or Latino", other),
        *_races(other),
    )


def _races(of: Where) -> list[LabelledWhere]:
    """One race and each; two or more; two races and each pair; ...; six races: 70 columns."""
    label = dict(zip(CENRACE, PL94.attribute("cenrace").labels, strict=True))
    by_number = {n: tuple(c for c in CENRACE if c.count("+") + 1 == n) for n in range(1, 7)}
    columns: list[LabelledWhere] = []
    for n, races in by_number.items():
        if n == 1:
            columns.append(("Population of one race", {**of, "cenrace": races}))
        if n == 2:
            more = tuple(c for c in CENRACE if c not in by_number[1])
            columns.append(("Population of two or more races", {**of, "cenrace": more}))
        if n >= 2:
            columns.append((f"Population of {_NUMBER[n]}", {**of, "cenrace": races}))
        columns += [(label[c], {**of, "cenrace": (c,)}) for c in races]
    return columns


def _by_quarters() -> tuple[LabelledWhere, ...]:
    kinds = _QUARTERS.levels
    each = [(label, {"hhgq": (kind,)}) for kind, label in zip(kinds, _QUARTERS.labels, strict=True)]
    inside = "Institutionalized population", {"hhgq": kinds[1:5]}
    outside = "Noninstitutionalized population", {"hhgq": kinds[5:]}
    return ("Total", {"hhgq": kinds[1:]}), inside, *each[1:5], outside, *each[5:]


_OCCUPANCY = (
    Tabulation(
        "H1",
        "Occupancy status",
        columns=(
            ("Total", {}),
            ("Occupied", {"h1": ("occupied",)}),
            ("Vacant", {"h1": ("vacant",)}),
        ),
    ),
)

# --- microdata
# ---------------------------------------------------------------------------------------

TABULATION = (
    ("TABBLKST", 2),
    ("TABBLKCOU", 3),
    ("TABTRACTCE", 6),
    ("TABBLKGRPCE", 1),
    ("TABBLK", 4),
)
_ENUMERATION = (("STATE", 2), ("COUNTY", 4), ("ENUMDIST", 4))
HEAD = ("SCHEMA_TYPE_CODE", BUILD)
#: The codes of RTYPE of persons.
WHERE_LIVING = {"3": "person in a housing unit", "5": "person in group quarters"}
#: The values of columns without an attribute.
SAYS = {
    GEOCODE: "code of the unit, as in spine.parquet",
    SERIAL: "number of the person, from 0; it means nothing else",
    "SCHEMA_TYPE_CODE": "kind of file",
    BUILD: "name of the run",
    "TABBLKST": "state (FIPS)",
    "TABBLKCOU": "county (FIPS)",
    "TABTRACTCE": "census tract",
    "TABBLKGRPCE": "block group",
    "TABBLK": "block",
    "STATE": "state",
    "COUNTY": "county",
    "ENUMDIST": "enumeration district",
    "RTYPE": "kind of record",
    "EUID": "unit of the person: there are no unit records",
    "QREL": "relationship: not measured",
    "QSEX": "sex: not measured",
    "QSPANX": "Hispanic origin, in detail: not measured",
    "CIT": "citizenship: not measured",
    **{f"QRACE{i}": "race, in detail: not measured" for i in range(1, 9)},
}


def _where_living(schema: Schema) -> CodedColumn:
    code = np.where(np.arange(len(schema.attribute("hhgq").levels)) > 0, "5", "3")
    return CodedColumn.follows("RTYPE", schema, ("hhgq",), code, WHERE_LIVING)


def _redistricting_persons() -> MicrodataForm:
    columns = (
        _where_living(PL94),
        CodedColumn.of("GQTYPE_PL", PL94, "hhgq", tuple(map(str, range(8)))),
        CodedColumn.of("VOTING_AGE", PL94, "votingage", ("1", "2")),
        CodedColumn.of("CENHISP", PL94, "hispanic", ("1", "2")),
        CodedColumn.of("CENRACE", PL94, "cenrace", tuple(f"{i:02d}" for i in range(1, 64))),
    )
    after = (SERIAL, *(c.name for c in columns))
    return MicrodataForm(
        "redistricting microdata detail file, persons",
        columns,
        HEAD,
        after,
        TABULATION,
        constants={"SCHEMA_TYPE_CODE": "MPD"},
    )


def _redistricting_units() -> MicrodataForm:
    # cells: 0 vacant, 1 occupied; 2 a group-quarters facility, whose type the file does not tell
    columns = (
        CodedColumn(
            "RTYPE",
            ("2", "4"),
            np.array([0, 0, 1]),
            labels=("housing unit", "group-quarters facility"),
        ),
        CodedColumn("HH_STATUS", ("0", "1", "2"), np.array([2, 1, 0]), "h1", (-1, 1, 0)),
    )
    after = tuple(c.name for c in columns)
    return MicrodataForm(
        "redistricting microdata detail file, units",
        columns,
        HEAD,
        after,
        TABULATION,
        constants={"SCHEMA_TYPE_CODE": "MUD"},
        facilities=True,
    )


def _e2e_1940_persons() -> MicrodataForm:
    """The 23 PER columns, then ``GQTYPE`` of the UNIT file (000 in a household, else 100 x type +
    1).

    In the 1940 files a person's type of group quarters is in the unit record that EUID names. This
    file has no unit records. So EUID is 0 and the type is in the person's row: the file keeps the
    whole histogram. Attributes that are not measured have the missing codes of the 1940 file (QREL
    99, QSEX 9, QSPANX 9999, ...)."""
    s = E2E_1940
    columns = (
        _where_living(s),
        CodedColumn.of("QAGE", s, "votingage", ("17", "18")),
        CodedColumn.of("CENHISP", s, "hispanic", ("1", "2")),
        CodedColumn.of("CENRACE", s, "race", tuple(map(str, range(1, 7)))),
        CodedColumn.of("GQTYPE", s, "hhgq", ("000", *(f"{i}01" for i in range(1, 8)))),
    )
    races = tuple(f"QRACE{i}" for i in range(1, 9))
    constants = {
        "SCHEMA_TYPE_CODE": "MPD1940",
        BUILD: "3.1.4",
        "EUID": "0",
        "QREL": "99",
        "QSEX": "9",
    }
    constants |= {"QSPANX": "9999", **dict.fromkeys(races, "9999"), "CIT": "9"}
    after = (
        *("EUID", SERIAL, "RTYPE", "QREL", "QSEX", "QAGE", "CENHISP", "CENRACE", "QSPANX"),
        *(*races, "CIT", "GQTYPE"),
    )
    return MicrodataForm(
        "1940 microdata detail file, persons", columns, HEAD, after, _ENUMERATION, True, constants
    )


# --- the publications
# --------------------------------------------------------------------------------

REDISTRICTING_PERSONS = Publication(
    PL94,
    _redistricting_persons(),
    ("hhgq * hispanic * cenrace", "hhgq * hispanic"),
    _redistricting(),
)
REDISTRICTING_UNITS = Publication(H1, _redistricting_units(), (), _OCCUPANCY)
E2E_1940_PERSONS = Publication(
    E2E_1940, _e2e_1940_persons(), ("hhgq * hispanic * race", "hhgq * hispanic")
)


# The features of publications, by name, in words. A publication's public half says which it has,
# with a reason for each that it lacks (docs/publications.md).

#: Features by name, in the words of a message.
FEATURES = {
    "engine": "a run by Dask or by array jobs (--engine)",
    "store": "copying a run's files to a store (--store)",
    "tasks": "`das status`, `das tasks` and `das task`",
    "resume": "resuming an interrupted run",
    "sealed": "a seal, and `das account verify`",
    "recompute": "`das account verify --recompute`",
    "check": "`das check`, the plan of a configuration",
    "check --data": "the size of a run on given data (das check --data)",
    "plan": "`das plan`, margins of error and what they cost",
    "plan --margin": "other plans to choose from (das plan --margin, --add, --toml)",
    "plan --areas": "how well areas will be known (das plan --areas)",
    "optimise": "`das plan --optimise`",
    "spine": "an optimized spine",
    "area": "`das area`",
    "estimate": "`das estimate --from`",
    "estimate --set": "another way to estimate (das estimate --set)",
    "tables": "`das tables`",
    "tables --areas": "tables of areas (das tables --areas)",
    "tables --margins": "tables with margins of error (das tables --margins)",
    "intervals": "`das intervals`",
    "sweep": "`das sweep`",
    "compare": "`das compare`",
    "evaluate": "`das evaluate`, again",
    "map": "`das map`",
    "risk": "`das risk` on a run",
    "nmf": "`das nmf summary` and `das nmf show`",
    "nmf verify": "`das nmf verify`",
    "look-up": "a page that looks up every place",
    "arrays": "arrays in, arrays out (das.measure, das.topdown)",
}
