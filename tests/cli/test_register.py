"""``das register``: what it prints and writes, what it refuses, and the page."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path

import pytest

from das.accounting.fields import decimal
from das.accounting.statement import CURVE
from das.cli.options import load_any
from das.files import register
from das.release.publications import publication
from tests.commands import Commands, Das
from tests.contract.publications import TOY, toy_registered


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    with toy_registered():
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
        "init", file, "--cap-epsilon", "12", "--delta", "1e-10", "--neighbours", "unbounded",
        "--disjoint", "us-2010=us-2020",
    )  # fmt: skip
    assert (code, "epsilon = 12 at delta = 1e-10, unbounded" in out) == (0, True)
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
    das("init", file, "--cap-rho", "1", "--neighbours", "bounded")
    given = [config, "--data", people, "--register", file, "--quiet", "--population", "p"]
    assert run(*given, "--out", tmp_path / "a")[0] == 0
    code, _, err = run(*given, "--out", tmp_path / "b")
    assert code == 2
    assert "persons in p would cost rho = 2" in err
    assert "what to do" in err
    assert not (tmp_path / "b").exists()
    code, out, _ = das("check", file, tmp_path / "a", "--head", register.read(file).head)
    assert (code, "2 lines are right" in out, "not shown" in out) == (0, True, False)
    code, _, err = das("void", tmp_path / "a")
    assert (code, "stays spent" in err) == (2, True)


def test_what_is_seeded_is_spent_and_says_so(das: Das, tmp_path: Path) -> None:
    """A run with a seed protects nobody, and still costs: its line is marked, in every form."""
    file, page, config = tmp_path / "r.jsonl", tmp_path / "page.html", tmp_path / "seeded.toml"
    text = (Path(__file__).parents[2] / "configs" / "kazan-reiter.toml").read_text()
    config.write_text(text.replace("[run]", "[run]\nseed = 7", 1))
    assert das("init", file, "--cap-rho", "1000", "--neighbours", "unbounded")[0] == 0
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
