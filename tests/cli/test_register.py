"""``das register``: what it prints and writes, what it refuses, and the page."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest

from das.accounting.document import decimal
from das.accounting.sources import joint_account, relations
from das.accounting.statement import CURVE
from das.cli.kit.options import load_any
from das.register import file as register
from das.release.privacy_sources import SourceReader
from das.release.publications import publication
from tests.commands import Commands, Das
from tests.contract.publications import TOY
from tests.plugged import toy_declared


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with toy_declared():
        yield


@pytest.fixture
def das(capfdbinary: pytest.CaptureFixture[bytes]) -> Das:
    return Commands(capfdbinary).named("register")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "toy.toml"
    path.write_text(TOY)
    return path


def total(name: str) -> Fraction:
    spec = load_any(Path(name), ())
    return sum(
        (u.plan.cost for u in publication(spec.publication()).resolved(spec).universes), Fraction(0)
    )


def test_what_was_published_before_is_entered_and_shown(das: Das, tmp_path: Path) -> None:
    file, page = tmp_path / "r.jsonl", tmp_path / "page.html"
    cost = total("dhc-2020") + total("pl94-2010")
    assert das("init", file, "--cap-rho", cost, "--population", "us-2020")[0] == 0
    for name, day in (("pl94-2010", "2021-08-12"), ("dhc-2020", "2023-05-25")):
        code, out, _ = das("add", file, name, "--date", day)
        assert (code, f"head  {register.read(file).head}" in out) == (0, True)
    before = file.read_bytes()
    code, _, err = das("add", file, "sdhc-2020")
    assert (code, "the cap of this register" in err) == (2, True)
    code, _, err = das("add", file, "dhc-2020")
    assert (code, "entered already, in line 3" in err) == (2, True)
    assert file.read_bytes() == before
    code, out, _ = das("show", file, "--json", "--html", page)
    said = json.loads(out)
    assert (code, said["spent"], said["left"], said["cap"]) == (
        0,
        str(cost),
        "0",
        {"rho": str(cost)},
    )
    assert [e["year"] for e in said["entries"]] == ["2021", "2023"]
    assert [e["delta"] for e in said["epsilon"]] == [decimal(d) for d in CURVE]
    assert sorted(e["epsilon"] for e in said["epsilon"]) == [e["epsilon"] for e in said["epsilon"]]
    check_page(page, said)
    code, out, _ = das("show", file)
    assert code == 0
    assert "by one person in us-2020" in out


class Page(HTMLParser):
    """Whether every element ends, what is on the page, and whether it fetches anything."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.text = ""
        self.words: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "br", "rect", "path", "circle"}:
            self.open.append(tag)
        self.fetched += [v for k, v in attrs if k in {"src", "href"} and v]

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        self.text += data
        self.words.add(data.strip())


def check_page(path: Path, said: dict[str, object]) -> None:
    """It stands alone, has both figures, every entry and the head."""
    text = path.read_text(encoding="utf-8")
    page = Page()
    page.feed(text)
    assert (page.open, page.fetched) == ([], [])
    assert text.count("<svg") == 2
    assert {"pl94-2010, 2021", "dhc-2020, 2023", "all together"} <= page.words
    assert str(said["head"]) in page.text


def test_an_epsilon_register_and_populations(das: Das, tmp_path: Path, config: Path) -> None:
    file = tmp_path / "r.jsonl"
    code, out, _ = das(
        "init", file, "--cap-epsilon", "12", "--delta", "1e-10", "--relation", "added-or-removed",
        "--disjoint", "us-2010=us-2020",
    )  # fmt: skip
    assert (
        code,
        "epsilon = 12 at delta = 1e-10" in out and "One person added or removed" in out,
    ) == (0, True)
    other = tmp_path / "other.toml"
    other.write_text(TOY.replace('"toy"\npub', '"second"\npub'))
    third = tmp_path / "third.toml"
    third.write_text(TOY.replace('"toy"\npub', '"third"\npub'))
    spent = []
    for path, population in ((config, "us-2010"), (other, "us-2020"), (third, "us-2020")):
        assert das("add", file, path, "--population", population)[0] == 0
        spent.append(json.loads(das("show", file, "--json")[1])["spent"])
    assert spent[0] == spent[1] < spent[2]
    found = json.loads(das("show", file, "--json")[1])
    assert found["populations"] == ["us-2020"]
    code, _, err = das("add", file, "pl94-2010")
    assert (code, "nothing follows" in err) == (2, True)


def test_a_run_enters_and_is_refused_without_room(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, config: Path
) -> None:
    commands = Commands(capfdbinary)
    das, run = commands.named("register"), commands.named("run")
    file, people = tmp_path / "r.jsonl", tmp_path / "people.csv"
    people.write_text("region\nnorth\nsouth\nsouth\n")
    das("init", file, "--cap-rho", "1", "--relation", "replaced")
    given = [config, "--data", people, "--register", file, "--quiet", "--population", "p"]
    assert run(*given, "--out", tmp_path / "a")[0] == 0
    code, _, err = run(*given, "--out", tmp_path / "b")
    assert code == 2
    assert "persons in p would cost rho = 2" in err
    assert "what to do" in err
    assert not (tmp_path / "b").exists()
    code, out, _ = das("check", file, tmp_path / "a", "--head", register.read(file).head)
    assert (code, "3 lines are right" in out, "not shown" in out) == (0, True, False)
    code, _, err = das("void", tmp_path / "a")
    assert (code, "stays spent" in err) == (2, True)


def test_what_is_seeded_is_spent_and_says_so(das: Das, tmp_path: Path) -> None:
    """A run with a seed protects nobody, and still costs: its line is marked, in every form."""
    file, page, config = tmp_path / "r.jsonl", tmp_path / "page.html", tmp_path / "seeded.toml"
    text = (Path(__file__).parents[2] / "configs" / "kazan-reiter.toml").read_text()
    config.write_text(text.replace("[run]", "[run]\nseed = 7", 1))
    assert das("init", file, "--cap-rho", "1000", "--relation", "added-or-removed")[0] == 0
    assert das("add", file, config)[0] == 0
    assert "spent; seeded" in das("show", file, "--html", page)[1]
    assert "spent; seeded" in page.read_text()
    (entry,) = json.loads(das("show", file, "--json")[1])["entries"]
    assert entry["state"] == "spent; seeded"


def test_it_is_signed(das: Das, tmp_path: Path, config: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen")
    file, key, signers = tmp_path / "r.jsonl", tmp_path / "office", tmp_path / "signers"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signers.write_text(f"office@example.gov {key.with_suffix('.pub').read_text()}")
    das("init", file, "--cap-rho", "9")
    code, _, err = das("check", file, "--signer", signers)
    assert (code, "it is not signed" in err) == (2, True)
    assert das("sign", file, "--key", key)[0] == 0
    das("add", file, config)
    code, out, _ = das("check", file, "--signer", signers)
    assert (code, "signed up to line 1, by office@example.gov" in out) == (0, True)


def test_check_names_the_line_that_is_wrong(das: Das, tmp_path: Path, config: Path) -> None:
    file = tmp_path / "r.jsonl"
    das("init", file, "--cap-rho", "9")
    das("add", file, config)
    code, out, _ = das("check", file)
    assert (code, "not shown: that this is the latest" in out) == (0, True)
    code, _, err = das("check", file, "--head", f"5:{'0' * 64}")
    assert (code, "restored backup" in err) == (2, True)
    assert das("check", file, "--head", "5")[0] == 2
    text = file.read_text()
    file.write_text(
        text.replace('"population":"everybody","private"', '"population":"nobody","private"')
    )
    code, _, err = das("check", file)
    assert (code, "line 2 is not what was entered" in err) == (2, True)
    file.write_text(text[:-3])
    code, out, _ = das("check", file)
    assert (code, "a last line without its end is ignored" in out) == (0, True)


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--cap-rho", "1", "--cap-epsilon", "1", "--delta", "1e-9"),
        ("--cap-epsilon", "1"),
        ("--cap-rho", "1", "--delta", "1e-9"),
        ("--cap-rho", "0"),
        ("--cap-rho", "0.5.5"),
        ("--cap-epsilon", "1", "--delta", "1"),
        ("--cap-rho", "1", "--disjoint", "a=a"),
        ("--cap-rho", "1", "--disjoint", "a"),
    ],
)
def test_no_register_is_made_of_this(das: Das, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, _, err = das("init", tmp_path / "r.jsonl", *arguments)
    assert (code, err.startswith("das: ")) == (2, True)
    assert not (tmp_path / "r.jsonl").exists()


# --- the relation of the cap


def spent(das: Das, file: Path, relation: str, *sources: str) -> float:
    given = ("--cap-epsilon", "200", "--delta", "1e-10", "--relation", relation)
    assert das("init", file, *given)[0] == 0
    for source in sources:
        assert das("add", file, source)[0] == 0
    return float(json.loads(das("show", file, "--json")[1])["spent"])


def test_the_cap_is_of_the_relation_that_it_names(das: Das, tmp_path: Path) -> None:
    """Each as the joint account says it, at the most; and dearer where more changes."""
    sources, delta = ("kazan-reiter", "sdhc-2020"), Fraction(1, 10**10)
    before = 0.0
    for relation in relations():
        found = spent(das, tmp_path / f"{relation.name}.jsonl", relation.name, *sources)
        reader = SourceReader([relation])
        given = [s for name in sources
                 for s in reader.specification(load_any(Path(name), ()), name).sources]  # fmt: skip
        (stated,) = joint_account(given, [relation], delta).relations
        most = max(case.epsilon.pld[1] for case in stated.cases)
        assert most - 1e-6 <= found <= most + 1e-6
        if relation.name != "household":  # against one person who moves: neither is the larger
            assert found > before
        before = found
        code, out, _ = das("show", tmp_path / f"{relation.name}.jsonl")
        assert (code, relation.title in " ".join(out.split())) == (0, True)
        assert f"by one {'household' if relation.whole else 'person'} in everybody" in out


def test_a_cap_of_households_has_its_persons(das: Das, tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    das("init", file, "--cap-rho", "1", "--relation", "household", "--persons", "5")
    assert "at most 5 persons" in das("show", file)[1]


# --- what would wait, or is no name


@pytest.fixture
def no_wait() -> Iterator[None]:
    """Whoever waits is stopped."""

    def waited(*_: object) -> None:
        raise AssertionError("it waits")

    signal.signal(signal.SIGALRM, waited)
    signal.alarm(60)
    yield
    signal.alarm(0)


@pytest.mark.usefixtures("no_wait")
@pytest.mark.parametrize("kind", ["pipe", "link to a pipe", "device"])
def test_what_would_wait_is_refused(
    capfdbinary: pytest.CaptureFixture[bytes], tmp_path: Path, config: Path, kind: str
) -> None:
    """As a register, a configuration, a statement and a witness; before anything is opened."""
    commands = Commands(capfdbinary)
    odd = Path("/dev/tty") if kind == "device" else tmp_path / "odd.json"
    if kind == "pipe":
        os.mkfifo(odd)
    elif kind == "link to a pipe":
        os.mkfifo(tmp_path / "pipe")
        odd.symlink_to(tmp_path / "pipe")
    if not odd.exists():
        pytest.skip("there is no such device here")
    file, far = tmp_path / "r.jsonl", tmp_path / "far"
    far.mkdir()
    das = commands.named("register")
    das("init", file, "--cap-rho", "9", "--witness", far / "head")
    people = tmp_path / "people.csv"
    people.write_text("region\nnorth\n")
    run = ("--data", people, "--quiet", "--out", tmp_path / "out")
    what = "device" if kind == "device" else "named pipe"
    for name, given in (
        ("register", ("show", odd)),
        ("register", ("check", odd)),
        ("register", ("add", odd, config)),
        ("register", ("add", file, odd)),
        ("run", (config, *run, "--register", odd)),
        ("run", (odd, *run)),
        ("check", (odd,)),
        ("account", (odd, "pl94-2010")),
        ("account", ("verify", odd)),
        ("estimate", ("--from", odd, "--out", tmp_path / "out")),
    ):
        code, _, err = commands.named(name)(*given)
        assert (code, f"is a {what}" in err) == (2, True), (name, given, err)
    (far / "head").unlink()
    (far / "head").symlink_to(odd)
    code, _, err = das("show", file)
    assert (code, "witness" in err) == (2, True)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        (("--population", "us\n2020"), "--population"),
        (("--population", ""), "--population"),
        (("--population", "p", "--disjoint-from", "p"), "--disjoint-from"),
        (("--disjoint-from", "everybody"), "--disjoint-from"),
        (("--disjoint-from", "\x1b[2J"), "--disjoint-from"),
        (("--set", 'run.name="a\\nb"'), "run.name"),
    ],
)
def test_what_is_no_name_is_refused(
    capfdbinary: pytest.CaptureFixture[bytes],
    tmp_path: Path,
    config: Path,
    given: tuple[str, ...],
    where: str,
) -> None:
    commands = Commands(capfdbinary)
    das, run = commands.named("register"), commands.named("run")
    file, people = tmp_path / "r.jsonl", tmp_path / "people.csv"
    people.write_text("region\nnorth\n")
    das("init", file, "--cap-rho", "9")
    before = file.read_bytes()
    calls = [(run, (config, "--data", people, "--register", file, "--out", tmp_path / "out"))]
    if where.startswith("--"):
        calls.append((das, ("add", file, config)))
    for command, first in calls:
        code, _, err = command(*first, *given)
        assert (code, where in err, "Traceback" in err) == (2, True, False), err
    assert file.read_bytes() == before
    assert not (tmp_path / "out").exists()


def test_an_opening_with_control_characters_is_refused(das: Das, tmp_path: Path) -> None:
    for given in (("--population", "a\tb"), ("--disjoint", "a\n=b")):
        code, _, err = das("init", tmp_path / "r.jsonl", "--cap-rho", "1", *given)
        assert (code, given[0] in err) == (2, True)
    assert not (tmp_path / "r.jsonl").exists()


# --- what is said


def test_lines_have_one_numbering(das: Das, tmp_path: Path, config: Path) -> None:
    """The line of the file, its own number, what `show` lists, and what errors and heads say."""
    file = tmp_path / "r.jsonl"
    das("init", file, "--cap-rho", "9")
    head = das("add", file, config)[1].split("head")[1].split()[0]
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["n"] for line in lines] == [1, 2]
    assert head == f"2:{lines[-1]['digest']}"
    (shown,) = json.loads(das("show", file, "--json")[1])["entries"]
    assert shown["line"] == "2"
    assert "in line 2" in das("add", file, config)[2]
    assert "knows number 3" in das("check", file, "--head", f"3:{'0' * 64}")[2]


def test_it_is_said_that_a_copy_without_a_witness_cannot_be_detected(
    das: Das, tmp_path: Path
) -> None:
    said = "without a witness (init --witness), a copy that goes on by itself cannot be detected"
    bare, witnessed = tmp_path / "r.jsonl", tmp_path / "w.jsonl"
    out = das("init", bare, "--cap-rho", "9")[1]
    assert said in out
    das("init", witnessed, "--cap-rho", "9", "--witness", tmp_path / "far" / "head")
    for command in ("show", "check"):
        for file, is_said in ((bare, True), (witnessed, False)):
            assert (said in " ".join(das(command, file)[1].split())) is is_said
    page = tmp_path / "page.html"
    assert json.loads(das("show", bare, "--json", "--html", page)[1])["notes"] == [said]
    assert said in page.read_text()
