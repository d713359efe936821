"""No message about confidential records quotes a value of them: a log is no place for records. In
each field of each reader's files, one at a time, stands a value that nobody else has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from das.errors import UserError
from das.files.readers import table
from das.publications.detailed.truth import folders
from das.publications.dhc.files import linked, persons
from das.publications.sdhc.files import records as sdhc
from tests.detailed import runs
from tests.files.readers.test_linked import frames_of, world_of
from tests.files.readers.test_persons import COLUMNS, SCHEMA
from tests.sdhc.folders import made_up

#: A text, numbers out of any range, one with a decimal point, nothing.
PLANTED = ("ZQX77317", "987654321", "-77317", "773.17", "")
#: Of a place, which messages name.
PLACES = {
    *("block", "tract", "TABBLKST", "TABBLKCOU", "TABTRACTCE", "TABBLK", "PLACEFP", "AIANNHCE"),
    *("TABBLKGRPCE", "CD", "SLDU", "SLDL"),
}


@dataclass(frozen=True)
class Given:
    """A folder of valid records, and how it is read. ``own``: texts in it that are somebody's."""

    folder: Path
    files: tuple[str, ...]
    delimiter: str
    read: Callable[[], object]
    own: tuple[str, ...] = ()


def of_sdhc(folder: Path) -> Given:
    made_up(1, 6).write(folder)
    own = tuple(f"1000000{n:02d}" for n in range(8, 50, 7))
    files = ("persons.csv", "units.csv")
    return Given(folder, files, ",", lambda: sdhc.records(folder, (), strict=True), own)


def of_linked(folder: Path) -> Given:
    frames = frames_of(folder, world_of(1, 60))
    for path in folder.iterdir():
        path.unlink()
    for name in ("persons", "households"):
        frames[name]["household"] = [f"HOME{x}" if x else x for x in frames[name]["household"]]
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False)
    files = tuple(f"{name}.csv" for name in frames)
    return Given(folder, files, ",", lambda: linked.read(folder), ("HOME",))


def of_groups(folder: Path, product: str) -> Given:
    parameters, data = runs.given(folder, product)
    files = tuple(p.name for p in data.glob("*-records.txt"))
    return Given(data, files, "|", lambda: [*_folders(parameters, data, product).records])


def _folders(parameters: Path, data: Path, product: str) -> folders.ReadFolders:
    return folders.read_folders(folders.GivenFolders.from_paths(parameters, data, product))


def of_table(folder: Path, one_by_one: bool) -> Given:
    folder.mkdir()
    path = folder / "people.csv"
    path.write_text(
        "tract,block,hh,sex,age\nA,A1,HOME1,f,old\nA,A1,HOME1,m,old\nB,B2,HOME2,f,young\n"
    )

    def read() -> object:
        if one_by_one:
            return persons.read([path], SCHEMA, columns=COLUMNS, household="hh")
        return table.read([path], SCHEMA, columns=COLUMNS)

    return Given(folder, (path.name,), ",", read, ("HOME",))


GIVEN: dict[str, Callable[[Path], Given]] = {
    "the S-DHC": of_sdhc,
    "linked records": of_linked,
    "groups of persons": lambda f: of_groups(f, "persons"),
    "groups of households": lambda f: of_groups(f, "households"),
    "a table": lambda f: of_table(f, False),
    "persons of a table": lambda f: of_table(f, True),
}


def altered(text: str, delimiter: str) -> Iterator[tuple[str, str]]:
    """The file with one field planted, in the first and the last line; with a field too many, one
    too few, a line twice; each with what was planted."""
    head, *lines = text.splitlines()
    names = head.split(delimiter)
    for n in sorted({0, len(lines) - 1}):
        fields = lines[n].split(delimiter)
        for planted in PLANTED:
            for i, name in enumerate(names):
                if name not in PLACES:
                    new = [*fields[:i], planted, *fields[i + 1 :]]
                    yield _with(head, lines, n, new, delimiter), planted
            yield _with(head, lines, n, [*fields, planted], delimiter), planted
        yield _with(head, lines, n, fields[:-1], delimiter), ""
        yield "\n".join([head, *lines, lines[n], ""]), ""


def _with(head: str, lines: list[str], n: int, fields: list[str], delimiter: str) -> str:
    return "\n".join([head, *lines[:n], delimiter.join(fields), *lines[n + 1 :], ""])


@pytest.mark.parametrize("name", GIVEN)
def test_no_message_quotes_a_value(name: str, tmp_path: Path) -> None:
    given, messages = GIVEN[name](tmp_path / "given"), 0
    given.read()
    for file in given.files:
        path = given.folder / file
        text = path.read_text(encoding="utf-8")
        whole = next(iter(text.splitlines()[1:]))
        for new, planted in altered(text, given.delimiter):
            path.write_text(new, encoding="utf-8")
            try:
                given.read()
            except UserError as error:
                messages += 1
                said = f"{error}"
                if planted:
                    assert planted not in said, said
                assert not any(x in said for x in (*given.own, whole)), said
        path.write_text(text, encoding="utf-8")
    assert messages > 15
