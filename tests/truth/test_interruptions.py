"""Where several parts make one stage, no interruption leads to noise that the ledger has not, or to
a run that cannot end.

Here are some of every kind of publication, and those of the DHC that were found by reading;
``python -m benchmarks.kills`` kills at each write."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das.accounting.statement import LedgerEvents
from das.errors import PrivacyError, UserError
from das.files.run.ledger import LedgerFile, folder_digest
from das.files.run.run_directory import RunDirectory, file_digest
from das.publications.dhc.release import open_dhc
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS
from das.publications.dhc.truth.measuring import MeasuringDhc
from das.truth.bookkeeping import BudgetBook
from tests import interruptions
from tests.interruptions import Dhc, Fate, Told, endure
from tests.stopped import Killed, Step
from tests.worlds import Worlds

NAMES = (
    "redistricting",
    "redistricting, forgetful",
    "redistricting in subtrees",
    "redistricting in subtrees, forgetful",
    "detailed groups",
    "detailed groups, forgetful",
    "dhc",
)
#: Writes of an attempt that nothing stops, about.
WRITES = {"redistricting": 74, "redistricting in subtrees": 235, "detailed groups": 400, "dhc": 180}


@pytest.mark.filterwarnings(
    "ignore:This process"
)  # which is multi-threaded, and forks: the child runs one thread
@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_killed_lost_or_altered_is_counted_and_ends(
    name: str, worlds: Worlds, tmp_path: Path
) -> None:
    every = interruptions.every(worlds, tmp_path / "given")
    assert tuple(every) == NAMES
    publication, told, writes = every[name](), Told(), WRITES[name.removesuffix(", forgetful")]
    publication.begin(tmp_path / "begun")
    for given in (
        [
            Fate(writes // 2, lose_key=True, accept=True),
            Fate(writes // 3),
            Fate(writes // 5, alter=True),
        ],
        [Fate(writes // 3, alter=True, accept=True), Fate(writes // 4, alter=True, lose_key=True)],
    ):
        endure(publication, tmp_path / "begun", tmp_path, iter(given), Random(2020), told)
    assert told.kills >= 4
    assert told.keys_lost == 2
    assert told.truths_altered >= 2
    assert told.refused >= 2
    assert told.spent_again == 2


# --- the DHC, at chosen places
# ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dhc() -> Dhc:
    return Dhc()


@pytest.fixture
def out(dhc: Dhc, tmp_path: Path) -> Path:
    dhc.begin(tmp_path / "run")
    return tmp_path / "run"


def go(dhc: Dhc, out: Path, *, accept: bool = False) -> LedgerEvents:
    """Until the spending are closed: what was drawn, and lost."""
    found: list[LedgerEvents] = []
    with pytest.MonkeyPatch.context() as patch:
        real = BudgetBook.close
        patch.setattr(BudgetBook, "close", lambda self: found.append(real(self)))
        dhc.measure(out, accept)
    return found[0]


def stopped(dhc: Dhc, out: Path, step: Step, *, accept: bool = False) -> None:
    with pytest.MonkeyPatch.context() as patch:
        step.arm(patch)
        with pytest.raises(Killed):
            dhc.measure(out, accept)


def lost(drawn: LedgerEvents) -> dict[str, Fraction]:
    """What was drawn and lost, by universe."""
    return {u: sum((e.cost for e in es), Fraction(0)) for u, es in drawn.lost.items() if es}


def cost(dhc: Dhc, *universes: str) -> dict[str, Fraction]:
    return {u: dhc.prepared.spec.universe(u).plan.cost for u in universes}


def measured(out: Path) -> dict[str, str]:
    return {
        str(p.relative_to(out)): file_digest(p)
        for p in sorted(out.glob("release/nmf*/*/Revealed/*.parquet"))
    }


def test_a_universe_whose_key_is_lost_while_it_is_written_is_counted_twice_as_a_whole(
    dhc: Dhc, out: Path
) -> None:
    """Two of five levels of persons were written, and noise of all five was drawn."""
    stopped(dhc, out, Step(interruptions.measuring.on_demand, "write", 3))
    before = measured(out)
    assert len(before) == 2
    RunDirectory(out).noise_key.unlink()
    with pytest.raises(
        UserError,
        match=r"(?s)persons at State, persons at County.*cannot be drawn again.*--accept-spent",
    ):
        dhc.measure(out, False)
    assert measured(out) == before
    assert lost(go(dhc, out, accept=True)) == cost(
        dhc, PERSONS, UNITS, HOUSEHOLDS
    )  # all were written down, and might have been drawn


def test_a_universe_is_acknowledged_in_one_line(dhc: Dhc, out: Path) -> None:
    """However the ledger is cut off, all levels of a universe stand, or none."""
    stopped(dhc, out, Step(LedgerFile, "acknowledge", 2))
    whole = RunDirectory(out).ledger.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for cut in (last + 1, len(whole) - 1):
        RunDirectory(out).ledger.write_bytes(whole[:cut])
        entries = LedgerFile(RunDirectory(out).ledger).entries
        assert not any(entries.standing(stage) for stage in entries.last())
    RunDirectory(out).ledger.write_bytes(whole)
    entries = LedgerFile(RunDirectory(out).ledger).entries
    assert {u for (u, _) in entries.last() if entries.standing((u, "State"))} == {PERSONS}
    assert all(entries.whole(stage) for stage in entries.last() if stage[0] == PERSONS)
    assert lost(go(dhc, out)) == {}


def test_a_universe_of_which_a_part_was_acknowledged_alone_is_not_asked_again_for_nothing(
    dhc: Dhc, out: Path
) -> None:
    """A ledger in which two of five levels stand, whose key is lost: drawn again are five, and five
    are counted.
    """
    stopped(dhc, out, Step(LedgerFile, "acknowledge", 2))
    ledger = RunDirectory(out).ledger
    *lines, last = ledger.read_text(encoding="utf-8").splitlines()
    parts = json.loads(last)["parts"]
    torn = [json.dumps({"part": p}) for p in parts[:2]]
    ledger.write_text("\n".join([*lines, *torn]) + "\n", encoding="utf-8")
    RunDirectory(out).noise_key.unlink()
    with pytest.raises(UserError, match="persons at State, persons at County, persons at Tract"):
        dhc.measure(out, False)
    assert lost(go(dhc, out, accept=True)) == cost(dhc, PERSONS, UNITS, HOUSEHOLDS)
    entries = LedgerFile(ledger).entries
    assert [a.anew for a in entries.attempts if a.universe == PERSONS][5:] == [
        True,
        True,
        False,
        False,
        False,
    ]


def test_a_key_that_is_lost_when_all_is_measured_costs_nothing(dhc: Dhc, out: Path) -> None:
    """Households are measured, and the spending are not closed."""
    stopped(dhc, out, Step(LedgerFile, "close"))
    before = measured(out)
    RunDirectory(out).noise_key.unlink()
    assert lost(go(dhc, out)) == {}
    assert measured(out) == before
    assert not RunDirectory(out).noise_key.exists()


def other_tenure(out: Path) -> None:
    Dhc((UNITS,)).alter(out, Random(1))


def test_units_that_are_altered_when_all_is_measured_take_the_households_with_them(
    dhc: Dhc, out: Path
) -> None:
    """Households were asked about what was estimated of the units. So they are measured again, and
    counted; persons stand.
    """
    stopped(dhc, out, Step(LedgerFile, "close"))
    other_tenure(out)
    before = folder_digest(out)
    with pytest.raises(
        UserError,
        match=(
            r"(?s)true counts of units are not those .*and households, which rest on them,"
            r" .*--accept-spent"
        ),
    ) as told:
        dhc.measure(out, False)
    assert folder_digest(out) == before
    assert str(sum(cost(dhc, UNITS, HOUSEHOLDS).values())) in str(told.value)
    persons = {path: digest for path, digest in measured(out).items() if "/nmf/" in path}
    assert lost(go(dhc, out, accept=True)) == cost(dhc, UNITS, HOUSEHOLDS)
    assert {path: digest for path, digest in measured(out).items() if "/nmf/" in path} == persons


def test_a_truth_that_is_put_back_while_its_universe_begins_anew(dhc: Dhc, out: Path) -> None:
    """The units of two levels had begun anew, and the others not."""
    stopped(dhc, out, Step(LedgerFile, "close"))
    units = RunDirectory(out).truth_of(UNITS)
    before = units.read_bytes()
    other_tenure(out)
    stopped(dhc, out, Step(LedgerFile, "begin", 3), accept=True)
    units.write_bytes(before)
    with pytest.raises(
        UserError,
        match=r"(?s)units at Tract, .*households at Block must be measured again.*--accept-spent",
    ):
        dhc.measure(out, False)
    assert lost(go(dhc, out, accept=True)) == cost(dhc, UNITS, HOUSEHOLDS)


def test_units_whose_exact_counts_are_altered_are_refused_for_good(dhc: Dhc, out: Path) -> None:
    """What is published exactly was written down when the run began. Nothing that cannot help is
    advised.
    """
    stopped(dhc, out, Step(LedgerFile, "close"))
    units = RunDirectory(out).truth_of(UNITS)
    table, before = pq.read_table(units), units.read_bytes()
    count = table["count"].to_numpy().copy()
    count[0] += 1
    pq.write_table(
        table.set_column(2, "count", pa.array(count)).replace_schema_metadata(
            table.schema.metadata
        ),
        units,
    )
    for accept in (False, True):
        with pytest.raises(UserError, match="not those that this run publishes exactly") as told:
            dhc.measure(out, accept)
        assert "--accept-spent" not in str(told.value)
    units.write_bytes(before)
    assert lost(go(dhc, out)) == {}


def test_what_was_measured_is_not_asked_again(dhc: Dhc, out: Path) -> None:
    """Before any noise is drawn: an oracle of a universe that stands answers nothing."""
    stopped(dhc, out, Step(LedgerFile, "close"))
    opened = open_dhc(RunDirectory(out).release)
    measuring, u = MeasuringDhc(opened, RunDirectory(out)), dhc.prepared.spec.universe(PERSONS)
    with pytest.raises(PrivacyError, match="persons at State was measured before"):
        interruptions.asked(u, measuring.source(u), opened.spine.levels, {})
    shutil.rmtree(out)
