"""Whether a release is what its privacy statement says: each way that it can be otherwise, with its
place.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das import spec
from das.accounting.codec import own_digest
from das.accounting.document import StatedTarget
from das.accounting.invariant_neighbours import INVARIANT_NEIGHBOURS
from das.accounting.statement import statement
from das.errors import ReleaseError, UserError
from das.files import atomic
from das.files.release import statement as privacy_statement
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, digests, measured_files
from das.files.simulators import census_1940 as simulate_1940
from das.files.simulators import census_2010 as simulate_2010
from das.publications.published.files import layout
from das.release import verify
from das.release.seal import seal
from das.runs import pipeline
from das.spec import parse
from tests.altered import sealed
from tests.spec.test_parse import BASE

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def finished(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A calibrated run on simulated data, not seeded."""
    folder = tmp_path_factory.mktemp("verify")
    (data,) = simulate_1940.write(folder / "data", seed=1, states=1, persons=1000)
    text = (root / "configs" / "1940.toml").read_text(encoding="utf-8")
    chosen = spec.parse(
        text,
        where="c",
        overrides=("budget.epsilon=2", "budget.calibration=exact", "output.report=false"),
    )
    pipeline.run(chosen, folder / "run", paths=[data])
    return folder / "run" / "release"


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copied"))


def refused(release: Path, *words: str) -> str:
    with pytest.raises(UserError) as caught:
        verify.statement(release)
    message = str(caught.value)
    for word in words:
        assert word in message, message
    return message


def alter(release: Path, change: Change) -> None:
    path = release / "privacy.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    change(value)
    atomic.write_json(path, value)


def line(release: Path, text: str) -> str:
    """``line <n>``, the first that has ``text``."""
    lines = (release / "privacy.json").read_text(encoding="utf-8").split("\n")
    return f"line {next(i for i, x in enumerate(lines, 1) if text in x)}"


def test_a_release_as_it_was_written(finished: Path) -> None:
    said = verify.statement(finished)
    ten = Fraction(1, 10**10)
    assert said.target == StatedTarget(
        universe="persons", epsilon=Fraction(2), delta=ten, calibration="exact"
    )
    low, high = next(e.pld for e in said.guarantee["persons"].epsilon if e.delta == ten)
    assert 1.99999 < low <= high <= 2
    assert said.private is True
    assert {
        "spec.toml",
        "spine.parquet",
        "ledger.jsonl",
        "nmf/State.parquet/DPQuery",
        "nmf/State.parquet/Constraint",
    } <= set(said.digests)


def test_statements_of_both_kinds_are_of_the_published_schema(
    finished: Path, foreign: Path, root: Path
) -> None:
    schema = json.loads(
        (root / "docs" / "privacy-statement.schema.json").read_text(encoding="utf-8")
    )
    for release in (finished, foreign):
        jsonschema.validate(
            json.loads((release / "privacy.json").read_text(encoding="utf-8")), schema
        )


# --- numbers of the statement
# --------------------------------------------------------------------------------


def nudge(path: tuple[Any, ...], value: Any) -> Change:
    def change(tree: dict[str, Any]) -> None:
        node: Any = tree
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "path, value, words",
    [
        (("rho", "total"), "1/2", ["'total' is given as 1/2", "line"]),
        (("ledger", 3, "rho"), "1/1000", ["does not cost 1/1000", "line"]),
        (
            ("guarantee", "persons", "epsilon", 1, "pld"),
            [1.0, 1.5],
            ["guarantee.persons.epsilon.1.pld is [1.0, 1.5]", "line"],
        ),
        (
            ("guarantee", "persons", "epsilon", 1, "pld"),
            [0.0, 99.0],
            ["guarantee.persons.epsilon.1.pld"],
        ),
        (("guarantee", "persons", "epsilon", 1, "pld"), 2.0, ["guarantee.persons.epsilon.1.pld"]),
        (("guarantee", "persons", "epsilon", 0, "zcdp-tight"), 1.0, ["zcdp-tight is 1.0"]),
        (("guarantee", "persons", "implied_epsilon"), "0.1", ["implied_epsilon"]),
        (("guarantee", "persons", "rho"), "1/9", ["guarantee.persons.rho is 1/9"]),
        (
            (INVARIANT_NEIGHBOURS, "persons", "epsilon", 1, "pld"),
            [1.0, 1.5],
            [f"{INVARIANT_NEIGHBOURS}.persons.epsilon.1.pld is [1.0, 1.5]"],
        ),
        (
            ("neighbours_of", INVARIANT_NEIGHBOURS),
            "all",
            [f"neighbours_of.{INVARIANT_NEIGHBOURS} is all"],
        ),
        (("curve", 2, "pld", 1), 0.25, ["curve.2.pld"]),
        (("changes", "persons", 1, "rho"), "0", ["changes.persons.1.rho is 0"]),
        (("changes", "persons", 1, "pld"), [0.0, 0.0], ["changes.persons.1.pld"]),
        (("spending", "persons", "levels", "County"), "0", ["spending.persons.levels.County"]),
        (("private",), False, ["private is False"]),
        (("entropy",), "dice", ["entropy is dice", "AES-256"]),
        (("neighbours",), "unbounded", ["does not cost"]),
        (("neighbours",), "cousins", ["no privacy statement", "cousins"]),
        (("mechanism",), "geometric", ["no privacy statement"]),
        (("target", "epsilon"), "1", ["target.epsilon is 1", "again 2"]),
        (("digests", "spec.toml"), "0" * 64, ["digests.privacy.json is"]),
        (("digests", "privacy.html"), "0" * 64, ["digests.privacy.html is"]),
        (("software", "das"), "0", ["digests.privacy.json is"]),
        (("what_this_means",), [], ["does not say", "called neighbors"]),
        (("extra",), 1, ["no privacy statement (extra: Extra inputs are not permitted"]),
        (("cost",), {"total": "1"}, ["no privacy statement (cost: Extra inputs are not permitted"]),
        (
            ("ledger", 3, "cost"),
            "1",
            ["no privacy statement (ledger.3.cost: Extra inputs are not permitted"],
        ),
        (
            ("format",),
            "das-privacy-statement/5",
            ["the format 'das-privacy-statement/5'", "reads 'das-privacy-statement/4'"],
        ),
        (("format",), None, ["no privacy statement (format", "before statements had formats"]),
        (("outside_the_guarantee",), [], ["total", "in the files, and not in the statement"]),
        (("ledger",), "none", ["no privacy statement"]),
    ],
)
def test_no_number_can_be_altered(
    copied: Path, path: tuple[Any, ...], value: Any, words: list[str]
) -> None:
    alter(copied, nudge(path, value))
    refused(copied, "privacy.json" if "in the files" not in words[-1] else "nmf", *words)


def test_the_line_is_that_of_the_fault(copied: Path) -> None:
    alter(copied, nudge(("changes", "persons", 2, "rho"), "17/23"))
    refused(copied, "privacy.json, " + line(copied, '"17/23"'))


def test_a_number_that_is_gone(copied: Path) -> None:
    alter(copied, lambda v: v["guarantee"]["persons"].pop("implied_epsilon"))
    refused(copied, "no privacy statement (guarantee.persons.implied_epsilon: Field required)")
    alter(
        copied, lambda v: (v.pop("ledger"), v["guarantee"]["persons"].update(implied_epsilon=0.1))
    )
    refused(copied, "no privacy statement (ledger: Field required)")


def test_rounding_of_another_machine_is_no_fault(copied: Path) -> None:
    def change(v: dict[str, Any]) -> None:
        row = v["guarantee"]["persons"]["epsilon"][1]
        row["pld"] = [row["pld"][0] * (1 - 1e-12), row["pld"][1] * (1 + 1e-12)]
        row["zcdp-tight"] *= 1 + 1e-11

    alter(copied, change)
    sealed(copied)
    assert verify.statement(copied).ledger


# --- files
# -----------------------------------------------------------------------------------------------------


def test_another_file_than_the_one_that_was_stated(copied: Path) -> None:
    """A comment changes no number, and still the file is not the one that the statement is
    about.
    """
    path = copied / "spec.toml"
    path.write_text("# mine\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    refused(copied, "digests.spec.toml", line(copied, '"spec.toml"'))


def test_a_ledger_with_a_draw_that_the_statement_hides(copied: Path) -> None:
    path = copied / "ledger.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:2], *lines]) + "\n", encoding="utf-8")
    refused(copied, "'detailed' at 'National'", "there 2 times, and here 1 times")


def test_a_ledger_of_another_plan(copied: Path) -> None:
    text = (copied / "spec.toml").read_text(encoding="utf-8")
    other = parse(text, where="c", overrides=("budget.rho=1/100",))
    (copied / "spec.toml").write_text(other.dump(), encoding="utf-8")
    refused(copied, "the draws of persons are not those of the plan", "ledger.jsonl")


def test_a_rho_above_the_target(copied: Path) -> None:
    """Everything agrees with everything, except for the target."""
    text = (
        (copied / "spec.toml")
        .read_text(encoding="utf-8")
        .replace("epsilon = 2\n", 'epsilon = "19/10"\n')
    )
    (copied / "spec.toml").write_text(text, encoding="utf-8")
    refused(copied, "spec.toml", "above the target of 19/10")


def test_a_torn_ledger_names_its_line(copied: Path) -> None:
    path = copied / "ledger.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[4] = lines[4][:-3]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    refused(copied, "ledger.jsonl", "line 5")


@pytest.mark.parametrize("name", ["ledger.jsonl", "spec.toml", "spine.parquet", "privacy.json"])
def test_a_file_that_is_missing(copied: Path, name: str) -> None:
    (copied / name).unlink()
    refused(copied, name)


def test_what_was_lost_is_counted_and_verified(finished: Path, copied: Path) -> None:
    """An attempt in the ledger that was not finished, and a statement that owns up to it."""
    path = copied / "ledger.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines[:2], *lines]) + "\n", encoding="utf-8")
    chosen, drawn = verify.drawn(copied)
    assert [len(es) for es in drawn.lost.values()] == [1]
    said = privacy_statement.read(copied)
    new = statement(chosen.terms, drawn, said.outside, said.entropy, True)
    seal(copied, new, chosen.run.name)
    assert verify.statement(copied).total > chosen.persons.plan.cost


def test_digests_of_the_ledger_are_those_of_the_files(finished: Path) -> None:
    told = LedgerFile(finished / "ledger.jsonl").entries.files()
    assert set(told) == set(measured_files(finished)) != set()
    assert digests(finished) == digests(finished, told)
    path = next(iter(told))
    assert digests(finished) != digests(finished, {**told, path: "0" * 64})  # it is not read again


# --- measurements of another publisher
# ---------------------------------------------------------------------------


def test_an_altered_or_missing_data_dictionary_is_noticed(copied: Path) -> None:
    path = copied / "dictionary.csv"
    text = path.read_text(encoding="utf-8")
    at = text[: text.index("Correctional")].count("\n") + 1
    path.write_text(text.replace("Correctional", "Juvenile", 1), encoding="utf-8")
    refused(copied, "dictionary.csv", f"line {at}", "not what the specification gives")
    path.write_text(text + text.splitlines()[-1] + "\n", encoding="utf-8")
    refused(copied, "dictionary.csv", "not what the specification gives")
    path.unlink()
    refused(copied, "there is no dictionary.csv, although the statement has its digest")


@pytest.fixture(scope="module")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A release made from noisy measurement files alone."""
    folder = tmp_path_factory.mktemp("foreign")
    simulate_2010.write(folder / "data", seed=1, states=1, persons=1000)
    pipeline.run(
        spec.parse(BASE, where="c", overrides=("run.seed=1", "output.report=false")),
        folder / "run",
        paths=[folder / "data"],
    )
    layout.convert(folder / "run" / "release" / "nmf", folder / "release")
    return folder / "release"


def test_files_without_a_ledger_are_held_against_what_was_read(
    foreign: Path, tmp_path: Path
) -> None:
    lines = verify.check(foreign)
    assert len(lines) == 6
    copied = Path(shutil.copytree(foreign, tmp_path / "copied"))
    alter(copied, nudge(("measured", 2, "units"), 5))
    with pytest.raises(ReleaseError, match="are measured, the statement says 5"):
        verify.check(copied)
    alter(copied, nudge(("measured", 2, "units"), lines[2].units))
    alter(copied, nudge(("measured", 4, "variance", "most"), lines[4].variance.most * 0.99))
    with pytest.raises(ReleaseError, match="variance"):
        verify.check(copied)
    alter(copied, lambda v: v["measured"].pop(3))
    with pytest.raises(ReleaseError, match="not in both"):
        verify.check(copied)


def test_there_is_no_statement_of_a_foreign_ledger(foreign: Path) -> None:
    refused(foreign, "another publisher", "das nmf verify")


@pytest.mark.parametrize(
    ("key", "value"), [("sigma_sq", "123/7"), ("units", 999), ("answers", 999)]
)
def test_the_files_alone_are_held_against_the_ledger_as_it_stands(
    copied: Path, key: str, value: Any
) -> None:
    """``check`` too must see a draw of ``ledger.jsonl`` altered in any of its parts, not in its
    cost alone.
    """
    path = copied / "ledger.jsonl"
    lines = path.read_text().splitlines()
    at = next(i for i, x in enumerate(lines) if "draw" in json.loads(x))
    draw = json.loads(lines[at])
    draw["draw"][key] = value
    path.write_text("\n".join([*lines[:at], json.dumps(draw), *lines[at + 1 :]]) + "\n")
    with pytest.raises(ReleaseError, match=r"the draws are not those of ledger\.jsonl"):
        verify.check(copied)


def entries(release: Path) -> list[dict[str, Any]]:
    return [
        json.loads(x) for x in (release / "ledger.jsonl").read_text(encoding="utf-8").splitlines()
    ]


def a_part(told: list[dict[str, Any]]) -> int:
    return next(i for i, x in enumerate(told) if x.get("part", {}).get("files"))


def other_digest(part: dict[str, Any]) -> None:
    part["files"] = dict.fromkeys(part["files"], "0" * 64)


def other_file(part: dict[str, Any]) -> None:
    part["files"] = {"../confidential/report.html": "0" * 64}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda told: told.pop(a_part(told)), ["has not all its parts"]),
        (lambda told: told.pop(), ["does not say that everything was measured"]),
        (lambda told: told[0]["begin"].update(parts=2), ["has not all its parts"]),
        (
            lambda told: other_digest(told[a_part(told)]["part"]),
            ["the digest is ", "and in ledger.jsonl 0000"],
        ),
        (lambda told: other_file(told[a_part(told)]["part"]), ["of no file"]),
        (
            lambda told: told[a_part(told)]["part"]["files"].popitem(),
            ["and in ledger.jsonl there is none"],
        ),
        (
            lambda told: told.insert(
                a_part(told) + 1, {"part": told[a_part(told)]["part"] | {"stream": "00"}}
            ),
            ["another stream"],
        ),
        (lambda told: told.append(told[0]), ["an entry after the last"]),
    ],
)
def test_every_fault_of_the_parts_in_the_ledger_is_noticed(
    copied: Path, change: Callable[[list[dict[str, Any]]], object], words: list[str]
) -> None:
    """With every digest of the statement right."""
    told = entries(copied)
    change(told)
    (copied / "ledger.jsonl").write_text(
        "".join(json.dumps(x) + "\n" for x in told), encoding="utf-8"
    )
    sealed(copied)
    refused(copied, *words)


def test_the_ledger_of_a_release_names_streams_and_keeps_no_key(finished: Path) -> None:
    told = entries(finished)
    begun = [x["begin"] for x in told if "begin" in x]
    assert len({x["key"] for x in begun}) == 1
    assert "HMAC-SHA256 under a run key" in begun[0]["entropy"]
    assert len({x["part"]["stream"] for x in told if "part" in x}) == len(begun)
    first = next(i for i, x in enumerate(told) if "part" in x)
    assert all(
        "begin" in x or "draw" in x for x in told[:first]
    )  # every draw before the first noise
    assert [list(x) for x in told[first:]] == [*[["part"]] * len(begun), ["done"]]
    assert not list(finished.parent.rglob("*.key"))


@pytest.mark.parametrize(
    "line_", ["3", "null", '"x"', "[" * 100_000, '{"draw": {"sigma_sq": "1/0"}}']
)
def test_a_ledger_line_of_another_kind(copied: Path, line_: str) -> None:
    (copied / "ledger.jsonl").write_text(line_ + "\n")
    with pytest.raises(ReleaseError, match="line 1 cannot be understood"):
        verify.check(copied)


# --- whatever else a release says
# --------------------------------------------------------------------------------


def test_what_is_held_against_its_digest_is_all_that_is_published(finished: Path) -> None:
    """That each file is: tests/contract/test_alteration.py."""
    names = {str(p.relative_to(finished)) for p in finished.rglob("*") if p.is_file()}
    assert {"tables/T0_State.csv", "microdata/persons/part-00000.parquet", "privacy.html"} <= names


def test_the_message_names_the_file(copied: Path) -> None:
    (copied / "privacy.html").unlink()
    refused(copied, "there is no privacy.html, although the statement has its digest")
    (copied / "privacy.html").write_text("<p>nothing is lost</p>", encoding="utf-8")
    refused(copied, "digests.privacy.html is", line(copied, '"privacy.html"'))


@pytest.mark.parametrize("name", ["tables/T9_State.csv", ".truth.parquet", "tables/.T9_State.csv"])
def test_a_file_that_was_added(copied: Path, name: str) -> None:
    (copied / name).write_text("geocode,total\n", encoding="utf-8")
    refused(copied, f"{name} is in the release, but not in its statement", "--resume")


def test_a_run_that_stopped_after_measuring_says_so(copied: Path, tmp_path: Path) -> None:
    """As a page that fails leaves it: what was estimated is there, and its seal is of the
    measurements alone."""
    for derived in ("microdata", "tables"):
        (copied / derived).rename(tmp_path / derived)
    seal(copied, privacy_statement.read_ours(copied), "early")
    for derived in ("microdata", "tables"):
        (tmp_path / derived).rename(copied / derived)
    said = refused(copied, "has measured, and has not ended", "--resume", "das run status")
    assert "get it again" not in said


def test_a_link_brings_no_folder_along(copied: Path, tmp_path: Path) -> None:
    (tmp_path / "confidential").mkdir()
    (copied / "more").symlink_to(tmp_path / "confidential", target_is_directory=True)
    refused(copied, "more: is a link, and no file of the release")


@pytest.mark.parametrize(
    ("add", "words"),
    [
        (lambda at, _: os.mkfifo(at), "is a named pipe"),
        (lambda at, _: at.mkdir(), "is an empty folder"),
        (lambda at, other: at.symlink_to(other), "is a link"),
        (lambda at, _: at.symlink_to("nowhere"), "is a link"),
    ],
    ids=["pipe", "empty folder", "link to a file", "link to nothing"],
)
@pytest.mark.parametrize(
    "name", ["more", "nmf/State.parquet/DPQuery/part-99999-00000.parquet", "intervals"]
)
def test_what_is_no_file_is_refused_and_nobody_waits(
    finished: Path, copied: Path, add: Callable[[Path, Path], object], words: str, name: str
) -> None:
    """A pipe that somebody opened for reading would be waited at forever."""
    add(copied / name, finished / "spec.toml")
    refused(copied, f"{name}: {words}", "take it away")
    with pytest.raises(ReleaseError, match=words):
        verify.check(copied)


@pytest.mark.parametrize("name", ["privacy.json", "ledger.jsonl", "tables/T0_State.csv"])
def test_a_file_in_whose_place_is_a_link_to_the_same_bytes(
    finished: Path, copied: Path, name: str
) -> None:
    (copied / name).unlink()
    (copied / name).symlink_to(finished / name)
    refused(copied, f"{name}: is a link")


def test_a_folder_that_cannot_be_read(copied: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads every folder")
    (copied / "tables").chmod(0)
    try:
        refused(copied, "tables: cannot be read")
    finally:
        (copied / "tables").chmod(0o755)


def test_a_statement_without_its_second_guarantee(copied: Path) -> None:
    """The fault is told, and not the whole statement with it."""
    alter(copied, lambda p: p.pop(INVARIANT_NEIGHBOURS, None) or p.pop("guarantee"))
    message = refused(copied, "this is no privacy statement (")
    assert "mechanism" not in message
    assert "(:" not in message
    assert len(message) < 300


def resealed(release: Path, software: Mapping[str, str]) -> None:
    """The statement with digests of the page as it is, and of itself."""
    said = privacy_statement.read(release)
    said = said.sealed(
        {**said.digests, "privacy.html": run_directory.file_digest(release / "privacy.html")},
        software,
    )
    privacy_statement.write(
        release, said.sealed({**said.digests, "privacy.json": own_digest(said)}, software)
    )


def test_a_page_that_says_something_else_with_its_digest(copied: Path) -> None:
    """The digests were altered too: the page is written again from the statement."""
    path, said = copied / "privacy.html", privacy_statement.read(copied)
    path.write_text(path.read_text(encoding="utf-8").replace("ledger", "books"), encoding="utf-8")
    resealed(copied, said.software)
    refused(copied, "privacy.html", "is not the page of this statement")
    # another version may have written it otherwise: who says so is told that it was not checked
    resealed(copied, {**said.software, "jinja2": "3.0"})
    refused(copied, "privacy.html", "jinja2 3.0", "--other-version")
    assert verify.verified(copied, other_version=True).left == ["privacy.html"]


@pytest.mark.parametrize(
    "name", ["spine.parquet", "nmf/State.parquet/DPQuery", "nmf/Enumdist.parquet/DPQuery"]
)
def test_rows_that_are_there_twice(copied: Path, name: str) -> None:
    path = copied / name
    path = path if path.is_file() else next(path.rglob("*.parquet"))
    table = pq.read_table(path)
    pq.write_table(pa.concat_tables([table, table.slice(0, 1)]), path)
    refused(copied)
    sealed(copied)
    refused(copied)


@pytest.mark.parametrize("pick", [lambda lines: lines, lambda lines: lines[-3:]])
def test_ledger_lines_that_are_there_twice(
    copied: Path, pick: Callable[[list[str]], list[str]]
) -> None:
    path = copied / "ledger.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("\n".join([*lines, *pick(lines)]) + "\n", encoding="utf-8")
    refused(copied, "ledger.jsonl")
    sealed(copied)
    refused(copied, "ledger.jsonl")


def test_an_attempt_that_drew_nothing_is_none_of_the_statement_s(copied: Path) -> None:
    path = copied / "ledger.jsonl"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.splitlines()[0] + "\n" + text, encoding="utf-8")
    refused(copied, "ledger.jsonl")
    sealed(copied)
    assert verify.statement(copied).lost == ()


def test_a_figure_in_its_last_digit(copied: Path) -> None:
    """Within what another machine may round otherwise, and still not as it was written."""

    def change(v: dict[str, Any]) -> None:
        v["guarantee"]["persons"]["epsilon"][1]["zcdp-tight"] += 1e-13

    alter(copied, change)
    refused(copied, "digests.privacy.json")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(b'": true', b'":  true', 1),
        lambda text: re.sub(rb"(\d\.\d+)(?=,?\n)", rb"\g<1>0", text, count=1),
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text + b" ",
    ],
)
def test_the_same_statement_in_another_text(copied: Path, change: Callable[[bytes], bytes]) -> None:
    path = copied / "privacy.json"
    text = path.read_bytes()
    path.write_bytes(change(text))
    assert path.read_bytes() != text
    assert json.loads(path.read_bytes()) == json.loads(text)
    refused(copied, "privacy.json", "not the exact text that das writes")


@pytest.mark.parametrize(
    "text, says",
    [
        ('{"private": true, "private": false}', "'private' is there twice"),
        ('{"private": true, "private": true}', "'private' is there twice"),
        ('{"private": NaN}', "NaN is no number"),
        ('{"rho": {"total": "1/0"}}', "no privacy statement"),
        ("[" * 100_000, "cannot be read"),
        ('{"rho": ' + "1" * 5000 + "}", "cannot be read"),
    ],
)
def test_texts_that_are_no_statement(copied: Path, text: str, says: str) -> None:
    (copied / "privacy.json").write_text(text, encoding="utf-8")
    assert len(refused(copied, says)) < 2000


@pytest.mark.parametrize(
    "value", ["1/0", "0", "-1/2", "0.5", "1e-999999999", "9" * 5000, 0.25, None, ["1"]]
)
def test_odd_fractions(copied: Path, value: Any) -> None:
    alter(copied, nudge(("ledger", 0, "sigma_sq"), value))
    assert len(refused(copied, "no privacy statement (ledger.0.sigma_sq")) < 2000


def test_a_lost_draw_that_is_none_of_the_plan(copied: Path) -> None:
    """What an interrupted attempt drew is spent; of a level that there is not, nothing could be
    counted.
    """
    path = copied / "ledger.jsonl"
    lines = path.read_text().splitlines()
    draw = next(x["draw"] for x in map(json.loads, lines) if "draw" in x) | {"level": "Nowhere"}
    begin = {"universe": draw["universe"], "level": "Nowhere", "parts": 0, "entropy": "somewhere"}
    path.write_text(
        "\n".join([json.dumps({"begin": begin}), json.dumps({"draw": draw}), *lines]) + "\n"
    )
    refused(copied, "are not those of the plan")
