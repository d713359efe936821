"""Releases altered with care: every digest, page and ledger line is made anew, and still it is
noticed, or said that it cannot be.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das import tables
from das.accounting.document import Invariant, Statement
from das.accounting.statement import statement
from das.engine import Silent
from das.errors import ReleaseError, UserError
from das.files.microdata import reading, writing
from das.files.release import statement as privacy_statement
from das.files.release import tables as table_files
from das.files.run.run_directory import file_digest
from das.model.histogram import Histogram
from das.model.not_private import COLUMN
from das.noise import entropy
from das.release import dictionary, verify
from das.release.opened import open_release
from das.release.seal import seal
from das.runs.recomputing import check_recomputed
from das.spec import RunSpec
from das.spec.notes import notes
from tests.altered import resealed, sealed
from tests.worlds import Worlds

SEEDED = ("run.seed=1", "output.csv=true")


@pytest.fixture(scope="module")
def finished(worlds: Worlds) -> Path:
    return worlds.run(*SEEDED, data="one thousand") / "release"


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def refused(release: Path, *words: str, other_version: bool = False) -> str:
    with pytest.raises(UserError) as caught:
        verify.statement(release, other_version=other_version)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    return message


def edit(path: Path, old: str, new: str, count: int = -1) -> None:
    text = path.read_text(encoding="utf-8")
    assert old in text, (path, old)
    path.write_text(text.replace(old, new, count), encoding="utf-8")


def restated(release: Path, outside: Sequence[Invariant] | None = None) -> None:
    """The statement, page and seal that das itself would write for what is there now."""
    said = privacy_statement.read_ours(release)
    spec, drawn = verify.drawn(release)
    assert isinstance(spec, RunSpec)
    name, private = entropy.stated(spec.run.entropy, spec.run.seed)
    listed = said.outside if outside is None else outside
    seal(
        release,
        statement(spec.terms, drawn, listed, name, private, notes(spec), assigned=said.assigned),
        spec.run.name,
    )


def resaid(release: Path, **fields: object) -> None:
    """The same statement with other fields, sealed."""
    said = privacy_statement.read_ours(release)
    seal(release, type(said).make(**{**dict(said), **fields}), "pl94-2010")


def test_a_release_as_it_was_written(finished: Path) -> None:
    found = verify.verified(finished)
    assert not found.left
    assert not found.said.private


# --- a seed that was taken out
# -----------------------------------------------------------------------------------


def unseeded(release: Path) -> None:
    edit(release / "spec.toml", "seed = 1\n", "")
    restated(release)


def unmarked(release: Path) -> None:
    """Without the marks of the files, and with their digests in the ledger."""
    ledger = (release / "ledger.jsonl").read_text(encoding="utf-8")
    for path in release.glob("nmf*/*.parquet/**/*.parquet"):
        before, table = file_digest(path), pq.read_table(path)
        kept = {k: v for k, v in (table.schema.metadata or {}).items() if k != COLUMN.encode()}
        assert kept != table.schema.metadata
        groups = pq.ParquetFile(path).metadata
        rows = [groups.row_group(i).num_rows for i in range(groups.num_row_groups)]
        table = table.replace_schema_metadata(kept)
        with pq.ParquetWriter(path, table.schema) as writer:
            for start, n in zip(np.cumsum([0, *rows[:-1]]).tolist(), rows, strict=True):
                writer.write_table(table.slice(start, n))
        ledger = ledger.replace(before, file_digest(path))
    (release / "ledger.jsonl").write_text(ledger, encoding="utf-8")


def test_a_seeded_run_laundered_to_private(copied: Path) -> None:
    """One trace after the other is removed, and the next one tells."""
    unmarked(copied)
    unseeded(copied)
    refused(
        copied,
        "ledger.jsonl",
        "was drawn from 'seed 1 (NOT PRIVATE)'",
        "AES-256-CTR",
        "publish nothing of it",
    )


def test_a_seeded_run_laundered_in_its_ledger_too(copied: Path) -> None:
    edit(copied / "ledger.jsonl", entropy.stated("keyed", 1)[0], entropy.stated("keyed", None)[0])
    unseeded(copied)
    refused(copied, "ledger.jsonl", "is that of the seed 1, and the specification names none")
    key = entropy.seeded(1).key_mark
    assert key is not None
    edit(copied / "ledger.jsonl", key, "0" * len(key))
    restated(copied)
    refused(copied, "says that it is of a seeded run, and the specification does not")


def test_a_file_of_a_seeded_run_that_does_not_say_so(copied: Path) -> None:
    unmarked(copied)
    sealed(copied)
    refused(copied, "the run was seeded, and this file does not say so")


# --- what is exact
# -----------------------------------------------------------------------------------------------


TAKEN = ('total = "State"\n', "")
ADDED = ('total = "State"\n', 'total = "County"\n')


@pytest.mark.parametrize("change", [TAKEN, ADDED], ids=["taken", "added"])
def test_an_invariant_of_the_specification_alone(
    finished: Path, copied: Path, change: tuple[str, str]
) -> None:
    """Everything in the statement follows from everything else, except the list of exact counts."""
    edit(copied / "spec.toml", *change)
    restated(copied)
    refused(copied, "outside_the_guarantee")
    # listed as well: then the files of constraints have another
    spec = verify.drawn(copied)[0]
    assert isinstance(spec, RunSpec)
    said = privacy_statement.read_ours(finished).outside
    lines = []
    for c in said:
        if (c.universe, c.constraint) != ("persons", "total"):
            lines.append(c)
        elif change is ADDED:
            lines.append(
                c.model_copy(update={"level": "County", "says": c.says.replace("State", "County")})
            )
    restated(copied, lines)
    refused(copied, "constraint 'total' of persons at")


def test_the_words_of_what_is_exact(copied: Path) -> None:
    said = privacy_statement.read_ours(copied)
    resaid(
        copied,
        outside=[said.outside[0].model_copy(update={"says": "nothing much"}), *said.outside[1:]],
    )
    refused(copied, "outside_the_guarantee.0.says is nothing much")


def test_what_was_assigned_is_said_in_the_words_of_the_reader(copied: Path) -> None:
    said = privacy_statement.read_ours(copied)
    assert set(said.assigned) == {"persons"}  # two thousand and ten, without SF1
    resaid(copied, assigned={"persons": {"hhgq": "hhgq was counted, by hand."}})
    refused(copied, "assigned.persons.hhgq")


# --- words and versions
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("says", "words"),
    [
        (
            lambda s: [*s, "No one can learn anything of anybody."],
            "it says what does not follow from the release: No one",
        ),
        (lambda s: s[1:], "it does not say: Data sets that are called neighbors"),
        (lambda s: [s[0], *s], "in another place"),
    ],
)
def test_sentences_are_those_that_follow(
    copied: Path, says: Callable[[Sequence[str]], Sequence[str]], words: str
) -> None:
    resaid(copied, says=says(privacy_statement.read_ours(copied).says))
    refused(copied, "privacy.json", words)


def other_software(release: Path, **versions: str) -> None:
    """The statement names another version; digests are right."""
    from das.accounting.codec import own_digest
    from das.accounting.document import NAME, PAGE

    said = privacy_statement.read(release)
    made: Mapping[str, str] = {**said.software, **versions}
    digests = {
        **said.digests,
        PAGE: file_digest(release / PAGE),
        dictionary.NAME: file_digest(release / dictionary.NAME),
    }
    said = said.sealed(digests, made)
    privacy_statement.write(release, said.sealed({**digests, NAME: own_digest(said)}, made))


def test_a_version_that_writes_the_same_changes_nothing(copied: Path) -> None:
    other_software(copied, das="0.0.7", jinja2="3.0")
    found = verify.verified(copied)
    assert not found.left
    assert not found.ours


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [("privacy.html", "ledger", "books"), ("dictionary.csv", "Household", "Castle")],
)
def test_another_version_turns_off_no_check_unless_asked(
    copied: Path, name: str, old: str, new: str
) -> None:
    edit(copied / name, old, new)
    other_software(copied)
    refused(
        copied, name, "get it again", other_version=True
    )  # the version that is named is the one at work
    other_software(copied, das="0.0.7")
    message = refused(copied, name, "das 0.0.7", "--other-version")
    assert "get it again" not in message
    assert verify.verified(copied, other_version=True).left[0] == name


def test_no_version_writes_other_numbers(copied: Path) -> None:
    resaid(copied, entropy="dice")
    other_software(copied, das="0.0.7")
    refused(copied, "entropy is dice", "get it again", other_version=True)


# --- what was asked
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["query_shape", "hhgq"])
def test_a_row_that_says_it_answers_something_else(copied: Path, column: str) -> None:
    """Our reader takes what was asked from the specification. Other programs read it in the row."""
    path = min((copied / "nmf" / "County.parquet" / "DPQuery").rglob("*.parquet"))
    file = pq.ParquetFile(path)
    with pq.ParquetWriter(path.with_name("other"), file.schema_arrow) as writer:
        for group in range(file.num_row_groups):
            table = file.read_row_group(group)
            rows, i = table[column].to_pylist(), table.schema.get_field_index(column)
            rows[-1] = [x + 1 for x in rows[-1]] if column == "query_shape" else "institutional"
            other = pa.array(rows, table.schema.field(i).type)
            writer.write_table(table.set_column(i, table.schema.field(i), other))
    path.with_name("other").replace(path)
    resealed(copied)
    refused(copied, str(path), f"{column} is not that of")


# --- counts
# ------------------------------------------------------------------------------------------------------


def test_a_table_that_says_something_else_than_the_microdata(copied: Path) -> None:
    path = copied / "tables" / "P1_County.csv"
    lines = path.read_text(encoding="utf-8").splitlines()
    row = lines[1].split(",")
    lines[1] = ",".join([*row[:-2], str(int(row[-2]) + 1), row[-1]])  # the last column is the mark
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sealed(copied)
    refused(copied, "P1_County.csv", "not the counts of the microdata")


def test_a_table_in_another_text(copied: Path) -> None:
    edit(copied / "tables" / "P1_County.csv", "\n", "\r\n")
    sealed(copied)
    refused(copied, "P1_County.csv", "another text")


@pytest.mark.parametrize(
    "name", ["tables/T9_State.csv", "microdata/dogs.csv", "microdata/dogs/part-00000.txt"]
)
def test_a_file_that_nobody_asked_for(copied: Path, name: str) -> None:
    (copied / name).parent.mkdir(exist_ok=True)
    (copied / name).write_text("GEOCODE,total\n", encoding="utf-8")
    sealed(copied)
    refused(copied, "no specification asks for this file")


def test_a_table_or_text_that_is_missing(copied: Path) -> None:
    (copied / "tables" / "P1_County.csv").rename(copied.parent / "kept.csv")
    sealed(copied)
    refused(copied, "P1_County.csv", "is not there, and the specification asks for it")
    (copied.parent / "kept.csv").rename(copied / "tables" / "P1_County.csv")
    edit(copied / "microdata" / "units.csv", "|", "|", 1)
    with (copied / "microdata" / "units.csv").open("a", encoding="utf-8") as file:
        file.write("1|2|3\n")
    sealed(copied)
    refused(copied, "units.csv", "not the records of the Parquet files")


def other_counts(release: Path, change: Callable[[Histogram], Histogram]) -> None:
    """Other persons, with their tables and text, consistently."""
    opened = open_release(release)
    u, spine, codes = opened.after.persons, opened.spine, opened.spine.codes[-1]
    folder = release / "microdata" / "persons"
    h = change(reading.read(folder, u, codes))
    shutil.rmtree(folder)
    writing.write(folder, h, codes, u, build=opened.after.name, csv=True, private=False)
    for level, counts in h.upward(spine).items():
        table_files.write(
            release / "tables",
            level,
            spine.codes[spine.index(level)],
            tables.universe_tables(u, opened.assigned(u.name)),
            counts,
            beside=table_files.identifiers(spine, level),
            private=False,
        )
    sealed(release)


def one_more(h: Histogram) -> Histogram:
    return Histogram.from_triplets(
        h.units, h.cells, h.unit, h.cell, np.concatenate([h.count[:1] + 1, h.count[1:]])
    )


def elsewhere(h: Histogram) -> Histogram:
    """A person moves into a block where nobody is, for nobody can live there."""
    empty = int(np.flatnonzero(h.totals() == 0)[0])
    count = np.concatenate([h.count[:1] - 1, h.count[1:], [1]])
    return Histogram.from_triplets(
        h.units, h.cells, np.append(h.unit, empty), np.append(h.cell, h.cell[0]), count
    )


def another_race(h: Histogram) -> Histogram:
    """Of one person, who stays where they are: nothing that is exact knows of it."""
    count = np.concatenate([h.count[:1] - 1, h.count[1:], [1]])
    return Histogram.from_triplets(
        h.units, h.cells, np.append(h.unit, h.unit[0]), np.append(h.cell, h.cell[0] ^ 1), count
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [(one_more, "'total' of State"), (elsewhere, "has other people than its dwellings can hold")],
)
def test_counts_that_break_what_is_exact(
    copied: Path, change: Callable[[Histogram], Histogram], words: str
) -> None:
    other_counts(copied, change)
    refused(copied, words, "published exactly")


def test_consistent_counts_that_do_not_follow_from_the_measurements(
    finished: Path, copied: Path
) -> None:
    """No digest shows it, nor anything that is exact: estimating again does."""
    other_counts(copied, another_race)
    found = verify.verified(copied)
    with pytest.raises(ReleaseError, match="is not what these measurements give, estimated again"):
        check_recomputed(copied, found, progress=Silent())
    check_recomputed(finished, verify.verified(finished), progress=Silent())


def test_a_file_that_estimating_again_does_not_make(copied: Path) -> None:
    (copied / "notes.txt").write_text("trust me", encoding="utf-8")
    (copied / "worse-than-measured.json").unlink()
    sealed(copied)
    with pytest.raises(ReleaseError, match=r"notes.txt: is not made from these measurements"):
        check_recomputed(copied, verify.verified(copied), progress=Silent())


def test_the_statement_is_returned(finished: Path) -> None:
    assert isinstance(verify.statement(finished), Statement)
    assert json.loads((finished / "privacy.json").read_text())["private"] is False
