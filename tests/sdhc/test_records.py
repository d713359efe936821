"""What is wrong with a folder is refused, with the file and line of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das.errors import InputError, SpecError, UserError
from das.publications.sdhc.files import columns
from das.publications.sdhc.files.records import records
from das.publications.sdhc.model.tables import PHSAFE, TABLES, TIGHT, column
from das.publications.sdhc.page import resolved
from das.publications.sdhc.truth.counts import counts
from tests.sdhc.folders import Folder, made_up, said
from tests.sdhc.test_known_answers import packaged

COUPLE = [(40, 1, 1, 20), (38, 1, 2, 21), (9, 2, 1, 25)]
Change = Callable[[Folder], Any]


def small() -> Folder:
    """Lines 2 to 4 are a couple with a child, 5 a person alone."""
    out = Folder()
    out.household(100_000_010, "44", 1, COUPLE, 1)
    out.household(100_000_020, "44", 9, [(70, 1, 1, 20)], 3)
    out.vacant(100_000_030, "49")
    return out


def line(file: str, number: int, place: int, value: object) -> Change:
    def change(folder: Folder) -> None:
        folder.lines[f"{file}.csv"][number - 2][place] = str(value)

    return change


def again(file: str, number: int) -> Change:
    return lambda f: f.lines[f"{file}.csv"].append(f.lines[f"{file}.csv"][number - 2])


ALWAYS = {
    "persons.csv:3: QAGE is not from 0 to 115": line("persons", 3, 2, 116),
    "persons.csv:5: CENHISP is no number": line("persons", 5, 3, "x"),
    "units.csv:2: NPF is none of 0 to 97": line("units", 2, 3, 1),
    "geo.csv:4: TABBLKST is no number": line("geo", 4, 2, "4a"),
    "units.csv:5: this address is there twice": again("units", 2),
    "geo.csv:5: this address is there twice": again("geo", 3),
    "persons.csv:4: is an own child under 18, and HHT2": line("units", 2, 8, "02"),
    "persons.csv:2: HHT2 of the unit is that of a couple, and CPLT": (line("units", 2, 9, 5)),
    "persons.csv:5: lives in a household, and TEN of its unit is 0": (line("units", 3, 6, 0)),
}
STRICT = {
    "units.csv:2: has no householder": line("persons", 2, 5, 36),
    "units.csv:2: has more than one householder": line("persons", 3, 5, 20),
    "units.csv:3: FINAL_POP is not the number": line("units", 3, 2, 2),
    "units.csv:4: HHT is 0 if nobody lives there": line("units", 4, 7, 4),
    "units.csv:2: HHT2 says own children": line("persons", 4, 2, 19),
    "units.csv:2: NPF is not the number of family": line("units", 2, 3, 2),
    "persons.csv:5: is the householder, and HHRACE": line("units", 3, 5, "02"),
    "persons.csv:5: units.csv does not have this address": (line("persons", 5, 1, 100_000_099)),
    "units.csv:4: geo.csv does not have": line("units", 4, 1, 100_000_031),
    "persons.csv:5: RELSHIP does not fit RTYPE": line("persons", 5, 5, 38),
    "units.csv:3: RTYPE is another in geo.csv": line("geo", 3, 0, 4),
}


@pytest.mark.parametrize("says", [*ALWAYS, *STRICT])
def test_faults_have_their_place(tmp_path: Path, says: str) -> None:
    folder = small()
    {**ALWAYS, **STRICT}[says](folder)
    folder.write(tmp_path)
    with pytest.raises(InputError) as caught:
        records(tmp_path, (), strict=True)
    assert says in str(caught.value)
    if says in ALWAYS:
        with pytest.raises(InputError):
            records(tmp_path, (), strict=False)
    else:
        records(tmp_path, (), strict=False)  # as PHSafe reads it


def test_what_is_no_folder_of_records(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no folder"):
        records(tmp_path / "none", (), strict=True)
    small().write(tmp_path)
    (tmp_path / "geo.csv").write_text("RTYPE,MAFID\n2,100000010\n")
    with pytest.raises(InputError, match=r"geo.csv:1: has 2 columns, not the 11"):
        records(tmp_path, (), strict=True)
    (tmp_path / "geo.csv").unlink()
    with pytest.raises(InputError, match=r"geo.csv: is not there"):
        records(tmp_path, (), strict=True)
    small().write(tmp_path)
    with pytest.raises(InputError, match="has no address in the states 06"):
        records(tmp_path, ["06"], strict=True)


def test_eight_children_and_nine() -> None:
    """The program's own test of truncation: two units of 4 and 5 identical children."""
    folder = Folder()
    for mafid, n in ((100_000_001, 4), (100_000_002, 5)):
        folder.household(mafid, "44", 1, [(5, 1, 1, 25)] * n, 1)
    for tau, wanted in ((4, 8), (5, 9)):
        found = _counted(folder, dict.fromkeys([t for t in TABLES if TABLES[t].people], tau))
        for table, cell in {"PH1_num": 2, "PH2": 3, "PH3": 4, "PH4": 2, "PH6": 4, "PH7": 2}.items():
            assert found[0, column(table, "*", cell)] == wanted


def _counted(folder: Folder, tau: dict[str, int]) -> np.ndarray[Any, Any]:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        found = records(folder.write(Path(name)), (), strict=False)[0].open("a test")
    return counts(found, PHSAFE, "person", tau)


def test_the_order_of_lines_means_nothing(tmp_path: Path) -> None:
    folder, rng = made_up(4, 200), np.random.default_rng(1)
    tau = {t.name: 3 for t in TABLES.values() if t.people}
    found = []
    for _ in range(2):
        for rows in folder.lines.values():
            rng.shuffle(rows)  # type: ignore[arg-type]
        read = records(folder.write(tmp_path), (), strict=True)[0].open("a test")
        found.append(counts(read, TIGHT, "person", tau))
    assert np.array_equal(*found)


# --- configurations
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda c: c["privacy_budget"]["PH2"].update({"usa_*": float("inf")}), "infinite budget"),
        (lambda c: c["privacy_budget"]["PH2"].update({"usa_*": -1}), "PH2.usa_\\* is -1"),
        (lambda c: c["privacy_budget"].pop("PH7"), "privacy_budget has no PH7"),
        (lambda c: c["privacy_budget"]["PH6"].update({"usa_A-G": 1}), "does not know"),
        (lambda c: c["tau"].update({"PH3": 0}), "tau.PH3 is 0"),
        (lambda c: c["tau"].update({"PH3": 2.5}), "tau.PH3 is 2.5"),
        (lambda c: c.update({"state_filter": ["44", "72"]}), "72 with others"),
        (lambda c: c.update({"state_filter": ["44", "44"]}), "twice"),
        (lambda c: c.update({"state_filter": ["99"]}), "none of the 50 states"),
        (lambda c: c.update({"privacy_defn": "dp"}), "privacy_defn"),
    ],
)
def test_faults_of_config_json(tmp_path: Path, change: Callable[[Any], Any], says: str) -> None:
    given = said()
    change(given)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(given))
    with pytest.raises(InputError, match=says):
        columns.read_config(path)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("sdhc.states=['44', '72']", "Puerto Rico"),
        ("sdhc.budget.PH9.usa_A-G=1", "no table 'PH9'"),
        ("sdhc.budget.PH2.usa_A-G=1", "no query 'usa_A-G'"),
        ("sdhc.budget.PH7.usa_A-G=-1", "give 0 or more"),
        ("sdhc.most.persons=0", "greater than 0"),
        ("sdhc.delta=2", "delta is 2, not between 0 and 1"),
    ],
)
def test_faults_of_a_configuration(change: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        packaged("sdhc-2020", change)


def test_phsafe_protects_persons(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="PHSafe protects a person"):
        packaged("sdhc-2020-phsafe", "sdhc.relation=household")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(said()))
    with pytest.raises(UserError, match="PHSafe protects a person"):
        resolved(
            packaged("sdhc-2020", f"data.parameters={path}").amended_by(
                {"mode": PHSAFE, "relation": "household"}
            )
        )
