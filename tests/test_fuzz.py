"""A small share of ``python -m benchmarks.fuzz``, and what it found before, each by itself."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from benchmarks.fuzz import small
from benchmarks.fuzz.__main__ import run
from benchmarks.fuzz.judge import command
from benchmarks.fuzz.worlds import OWN, PEOPLE, Case, Worlds
from das.errors import LONGEST, InputError, SpecError, UserError, bounded
from das.files.readers import table
from das.report.chart import Chart
from das.spec import parse

HUGE = "9" * 5000


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Case]:
    return Worlds(tmp_path_factory.mktemp("worlds"))


@pytest.mark.parametrize(
    "kind, cases",
    [
        ("configuration", 150),
        ("set", 150),
        ("redistricting", 25),
        ("fixed-width", 25),
        ("table", 100),
        ("release", 25),
        ("arguments", 25),
        ("zip", 25),
        ("parquet", 40),
        ("s-dhc", 10),
        ("study", 6),
        ("release-s-dhc", 10),
    ],
)
def test_altered_input_ends_right_or_is_refused(
    every: Mapping[str, Case], kind: str, cases: int
) -> None:
    found = run(kind, every[kind], 7, 0, cases, None)
    assert found["faults"] == []
    assert found["ended"].get("refused", 0) > cases // 10  # type: ignore[attr-defined]


def test_a_store_whose_connection_is_cut_has_the_release_in_the_end(
    every: Mapping[str, Case],
) -> None:
    found = run("store", every["store"], 7, 0, 2, None)
    assert (found["faults"], found["ended"]) == ([], {"right": 2})


@pytest.mark.parametrize("kind, cases", [("resealed-s-dhc", 6), ("resealed-detailed", 5)])
def test_no_altered_number_is_accepted_under_a_new_seal(
    every: Mapping[str, Case], kind: str, cases: int
) -> None:
    found = run(kind, every[kind], 7, 0, cases, None)
    assert found["faults"] == []
    assert found["ended"].get("refused", 0)  # type: ignore[attr-defined]


def test_a_fault_is_found_and_kept(tmp_path: Path) -> None:
    """The judge lets nothing pass: crashes, other exit codes, long messages."""
    from benchmarks.fuzz.judge import call

    def crash() -> None:
        raise KeyError("x")

    def long() -> None:
        error = UserError("x")
        error.args = ("x" * 3000,)
        raise error

    def failed() -> None:
        error = UserError("x")
        error.exit_code = 3  # type: ignore[misc]
        raise error

    def warned() -> None:
        warnings.warn("a glyph", UserWarning, stacklevel=1)

    ended = [call(work).ended for work in (crash, long, failed, warned, lambda: None)]
    assert ended == ["crash: KeyError", "a message of 3000 characters", "exit 3", "warns", "right"]
    found = run(
        "set",
        lambda rng, at: ((at / "c").write_text("x"), (call(crash), "asked"))[1],
        1,
        5,
        1,
        tmp_path,
    )
    assert [f["number"] for f in found["faults"]] == [5]  # type: ignore[attr-defined]
    assert sorted(p.name for p in (tmp_path / "set-1-5").iterdir()) == ["c", "case.json"]


@pytest.mark.parametrize("number", [4, 6])
def test_small_worlds_are_run_to_the_end(number: int, tmp_path: Path) -> None:
    """Of 1 and of 2 blocks, in which no block is measured by itself, as all are only children."""
    verdict, asked = small.case(Random(f"1/small/{number}"), tmp_path)
    assert verdict.ended == "right", (asked, verdict.said)


# --- configurations
# ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        f"run.seed = {HUGE}",
        "run.seed = 0x" + "f" * 5000,
        f"budget.rho = {HUGE}",
        "data.columns.geography.Village = nan",
        "budget.delta = inf",
        "x = " + "[" * 100_000,
        "run.seed = " + "1" * 400,
    ],
)
def test_numbers_that_no_configuration_has(text: str) -> None:
    key, _, value = text.partition(" = ")
    for case in ((text, ()), (OWN, (f"{key}={value}",)))[: 1 if value == "nan" else 2]:
        with pytest.raises(SpecError) as caught:
            parse(case[0], where="c", overrides=case[1])
        assert len(str(caught.value)) < 2000


def test_a_seed_of_many_digits_is_written_again() -> None:
    spec = parse(OWN, where="c", overrides=("run.seed=" + "1" * 299,))
    assert parse(spec.dump(), where="c").run.seed == spec.run.seed


@pytest.mark.parametrize("name", ["das:cell", "das:count", "das:units"])
def test_a_level_that_is_called_as_our_own_columns(name: str) -> None:
    with pytest.raises(SpecError, match=f"'{name}' begins as the columns"):
        parse(OWN.replace('"Village"', f'"{name}"').replace("Village =", f'"{name}" ='), where="c")


# --- tables
# ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data, says",
    [
        (PEOPLE.replace("region", "r" * 140_000).encode(), ""),
        (b"\x1f\x8b\x08\x00" + PEOPLE.encode(), ""),
        (b"PK\x03\x04" + PEOPLE.encode(), ""),
        (
            PEOPLE.replace("young", "y\x1b[2J", 1).encode(),
            "line 2: age has a value that is no level of it",
        ),
    ],
)
def test_texts_that_are_no_table(tmp_path: Path, data: bytes, says: str) -> None:
    (tmp_path / "people.csv").write_bytes(data)
    spec = parse(OWN, where="c")
    with pytest.raises(InputError) as caught:
        table.read([tmp_path / "people.csv"], spec.persons.schema, columns=spec.data.columns)
    assert says in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 2000


def test_a_name_of_a_column_that_is_no_text(tmp_path: Path) -> None:
    path, spec = tmp_path / "people.parquet", parse(OWN, where="c")
    lines = [line.split(",") for line in PEOPLE.splitlines()]
    whole = pa.table(dict(zip(lines[0], map(list, zip(*lines[1:], strict=True)), strict=True)))
    pq.write_table(whole, path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"village", b"vil\xffage"))
    with pytest.raises(InputError, match="not a Parquet file that can be read"):
        table.read([path], spec.persons.schema, columns=spec.data.columns)


@pytest.mark.parametrize("ending", ["\r", "\r\n"])
def test_lines_that_end_otherwise_are_the_same_lines(tmp_path: Path, ending: str) -> None:
    spec, found = parse(OWN, where="c"), []
    for name, text in (("a.csv", PEOPLE), ("b.csv", PEOPLE.replace("\n", ending))):
        (tmp_path / name).write_bytes(text.encode())
        read = table.read([tmp_path / name], spec.persons.schema, columns=spec.data.columns)
        records = read.persons.open("comparison of two files")
        found.append([x.tolist() for x in (records.block, records.cell, records.count)])
    assert found[0] == found[1]
    assert sum(found[0][2]) == 36


# --- messages
# ----------------------------------------------------------------------------------------------------


def test_messages_are_bounded_and_command_no_terminal() -> None:
    error = UserError(
        "x" * 10_000 + "\x1b[2J\u202e\nend", where="/" + "p" * 5000, remedy="r" * 5000
    )
    assert len(str(error)) <= sum(LONGEST.values()) + 50
    assert str(error).count("[...]") == 3
    assert "\\x1b[2J\\u202e\nend" in str(error)
    assert bounded("as it is", 8) == "as it is"


def test_a_command_line_of_any_length_has_a_short_answer(tmp_path: Path) -> None:
    for words in (
        ["check", "c" * 5000],
        ["x" * 5000],
        ["check", "--" + "y" * 5000],
        ["nmf", "show", str(tmp_path), "--level", "z" * 5000],
    ):
        verdict, _ = command(words)
        assert verdict.ended == "refused", verdict


# --- pages
# -------------------------------------------------------------------------------------------------------


def test_text_that_our_font_has_no_width_for_stays_text() -> None:
    chart = Chart(3, 2)
    chart.x.label = "村落 😀"
    assert "村落 😀" in chart.svg("x", "y")
