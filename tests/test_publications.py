"""What each publication can do, and that nobody asks which one it is."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from das.errors import UserError
from das.model.universe import FEATURES
from das.release import publications
from das.spec import RunSpec
from das.spec.parse import PUBLICATIONS
from docs import pages

ROOT = Path(__file__).parents[1]
#: Values of one publication alone: to ask whether something is one is to ask which it is.
OF_ONE = {
    "RunSpec",
    "DhcSpec",
    "DetailedSpec",
    "DetailedFolders",
    "PublishedSpec",
    "OpenedRelease",
    "OpenedDhc",
    "PublishedDhcSpec",
    "OpenedPublishedDhc",
    "OpenedGroups",
    "SdhcSpec",
    "OpenedSdhc",
}
#: Who may ask: the parser of configurations, which tells runs from other publishers' releases.
MAY_ASK = "das/spec/parse.py"
NAMES = set(PUBLICATIONS)
#: Those that are made from records.
MADE = [name for name in PUBLICATIONS if PUBLICATIONS[name].maker]


def questions(path: Path) -> Iterator[str]:
    """Where a module asks which publication it has: by a type, or by its name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("isinstance", "type"):
            named = {n.id for a in node.args[1:] for n in ast.walk(a) if isinstance(n, ast.Name)}
            if named & OF_ONE:
                yield f"{path}:{node.lineno}"
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            asked = any("publication" in ast.unparse(side) for side in sides)
            if asked and any(isinstance(s, ast.Constant) and s.value in NAMES for s in sides):
                yield f"{path}:{node.lineno}"


def test_nobody_but_the_parser_asks_which_publication_it_is() -> None:
    found = [
        where
        for path in sorted((ROOT / "das").rglob("*.py"))
        if path.relative_to(ROOT).as_posix() != MAY_ASK
        for where in questions(path)
    ]
    assert not found


@pytest.mark.parametrize(
    "code",
    [
        "isinstance(spec, RunSpec)",
        "isinstance(opened, (OpenedDhc, int))",
        "isinstance(x, OpenedGroups | None)",
        "spec.publication() == 'dhc'",
        "'dhc' != spec.run.publication",
    ],
)
def test_a_question_is_found(code: str, tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text(code)
    assert list(questions(path))


def test_every_publication_has_the_half_that_it_needs() -> None:
    """What another publisher has measured has no half that measures."""
    assert {*MADE, "published", "published-dhc"} == NAMES
    for name, kind in PUBLICATIONS.items():
        assert kind.publication() == name
        assert publications.publication(name).title in {kind.title, RunSpec.title}
        assert kind.maker is None or PUBLICATIONS.load_part(name, "maker")


@pytest.mark.parametrize("feature", FEATURES)
@pytest.mark.parametrize("name", MADE)
def test_what_a_publication_cannot_do_has_a_reason(name: str, feature: str) -> None:
    """One sentence, which the command gives and docs/reference/publications.md has; or it can."""
    half = publications.publication(name)
    listed = lacking(half.title)
    if feature not in half.cannot:
        publications.require(half, feature, "x")
        assert FEATURES[feature] not in listed
        return
    with pytest.raises(UserError) as raised:
        publications.require(half, feature, "x")
    reason = half.cannot[feature]
    assert reason in str(raised.value)
    assert listed[FEATURES[feature]] == f"{reason[:1].upper()}{reason[1:]}."


def test_there_are_no_other_features() -> None:
    whole = [line[2:] for line in pages.text("publications").splitlines() if line[:2] == "* "]
    assert sorted(w for w in whole if "**" not in w) == sorted(FEATURES.values())
    for name in MADE:
        assert set(publications.publication(name).cannot) <= set(FEATURES)


def lacking(title: str) -> dict[str, str]:
    """By feature, in words, why a publication lacks it: docs/reference/publications.md."""
    section = pages.text("publications").partition(f"## {title[:1].upper()}{title[1:]}\n")[2]
    lines = re.findall(r"^\* \*\*(.+)\.\*\* (.+)$", section.partition("\n## ")[0], re.MULTILINE)
    return {words: reason for features, reason in lines for words in features.split("; ")}
