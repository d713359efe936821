"""The documentation says what the code does: keys, commands, and links."""

from __future__ import annotations

import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import das
from das.cli import main
from das.errors import SpecError
from das.publications.detailed.spec import DetailedFolders
from das.publications.dhc.spec import DhcSpec
from das.spec import RunSpec, parse
from das.tools.planning.target_file import AreaTarget, LevelTarget, TargetsFile, read_targets
from docs import docstrings, pages, picture, reference

ROOT = Path(__file__).resolve().parents[1]
PAGES = pages.pages()
EVERY = [ROOT / "README.md", *PAGES]
ABOUT = sorted(ROOT.glob("[A-Z]*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def test_formulas_have_no_escaped_punctuation() -> None:
    """Where a repository shows Markdown, a backslash before punctuation is taken away before the
    formula is set: the thin space of LaTeX is printed as a comma there, and a set of braces
    vanishes."""
    for page in EVERY:
        text = re.sub(
            r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
        )
        formulas = re.findall(r"\$\$.+?\$\$|\$[^$\n]+\$", re.sub(r"`[^`\n]*`", "", text), re.DOTALL)
        assert [f for f in formulas if re.search(r"\\[^\w\s]", f)] == [], page.name


# --- the reference of the configuration
# -----------------------------------------------------------------------


def keys(schema: dict[str, Any], node: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every dotted key of a JSON schema: an account of the models that is not ours."""
    refs = re.findall(
        r"#/\$defs/(\w+)",
        str([node.get(k) for k in ("$ref", "anyOf", "allOf", "additionalProperties", "items")]),
    )
    for part in (refs and [schema["$defs"][refs[0]]]) or [node]:
        for key, inner in part.get("properties", {}).items():
            yield f"{path}{key}"
            yield from keys(
                schema, inner, f"{path}{key}.{'<name>.' if 'additionalProperties' in inner else ''}"
            )


def rows(part: int = 0) -> dict[str, str]:
    """Key and text of every row of the reference, what stands for a name removed from the end; of
    the second ``part`` those of the DHC, of the third those of the Detailed DHC."""
    text = re.split("(?m)^# ", reference.configuration())[part]
    lines = re.findall(r"^\| `([^`]+)` \|.*\| ([^|]*) \|$", text, re.MULTILINE)
    said = {re.sub(r"(\.<(?!name>)\w+>)+$", "", key): text for key, text in lines}
    for path, first in re.findall(r"^## `\[(.*)\]`\n\nAs `\[(.*)\]`\.$", text, re.MULTILINE):
        here = [k for k in said if re.fullmatch(re.escape(first) + r"\.[^.]+", k)]
        said |= {k.replace(first, path, 1): said[k] for k in here}
    return said


def test_the_reference_pages_are_what_the_code_says() -> None:
    for path, text in reference.pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"{path.name} is not current: run `make reference`"
        )


def test_every_public_name_is_in_the_reference() -> None:
    text = reference.api()
    assert [n for n in das.__all__ if f"### `das.{n}`" not in text] == ["__version__"]


def test_a_docstring_becomes_markdown() -> None:
    said = docstrings.markdown(
        "See :func:`das.x` and :math:`a_b`.\n\n.. math:: a\n   + b\n\n>>> 1 + 1\n2\n\nAs ``x``"
    )
    assert (
        said == "See `das.x` and $a_b$.\n\n$$\na\n+ b\n$$\n\n```python\n>>> 1 + 1\n2\n```\n\nAs `x`"
    )


def test_every_key_of_the_configuration_is_explained() -> None:
    schema = RunSpec.model_json_schema(by_alias=True)
    found = set(keys(schema, schema))
    assert {
        "budget.rho",
        "housing.budget.relative",
        "schema.groupings.<name>.attribute",
        "geography.define",
    } <= found
    tables = {k for k in found if any(other.startswith(f"{k}.") for other in found)}
    said = rows()
    assert found - tables == set(said)
    assert not [key for key, text in said.items() if len(text) < 10]


def test_so_is_every_key_of_the_demographic_file() -> None:
    schema, said = DhcSpec.model_json_schema(by_alias=True), rows(1)
    found = set(keys(schema, schema))
    tables = {k for k in found if any(other.startswith(f"{k}.") for other in found)}
    assert {"budget.persons", "constraints.from", "estimation.method"} <= set(said)
    assert {key for key in found - tables if not key.startswith("output.")} == set(said)
    assert not [key for key, text in said.items() if len(text) < 10]


def test_so_is_every_key_of_the_detailed_dhc() -> None:
    schema, said = DetailedFolders.model_json_schema(by_alias=True), rows(2)
    found = set(keys(schema, schema))
    tables = {k for k in found if any(other.startswith(f"{k}.") for other in found)}
    assert {"data.parameters", "detailed.product", "run.publication"} <= set(said)
    assert found - tables == set(said)
    assert not [key for key, text in said.items() if len(text) < 10]


def test_a_key_without_a_note_is_noticed() -> None:
    """What stands under a field is found, and only that."""
    assert reference.notes(RunSpec) == {}
    assert (
        "not private"
        in reference.notes(
            type(parse((ROOT / "configs" / "1940.toml").read_text(), where="test").run)
        )["seed"]
    )


def test_the_file_of_targets_that_is_printed_has_every_key_and_is_read() -> None:
    text = pages.text("strategy")
    block = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)[0]
    found = read_targets(block, where="docs")
    assert (len(found.target), len(found.area), found.objective) == (4, 2, "best")
    names = re.findall(r"^\[*([\w.]+)", block, re.MULTILINE)
    written = {part for name in names for part in name.split(".")}
    assert found.epsilon.each
    assert {
        *TargetsFile.model_fields,
        *LevelTarget.model_fields,
        *AreaTarget.model_fields,
    } <= written


# --- commands
# --------------------------------------------------------------------------------------------------


def spoken(text: str) -> list[list[str]]:
    """The ``das`` commands in code blocks and in inline code, as lists of words; of a pipe the
    first part.
    """
    code = re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) + re.findall(r"`([^`\n]+)`", text)
    lines = [
        line.strip().removeprefix(".venv/bin/") for block in code for line in block.split("\n")
    ]
    commands = [re.split(r" \|\|? ", line)[0] for line in lines if re.match(r"das [a-z]", line)]
    return [shlex.split(command, comments=True) for command in commands]


def test_every_command_is_in_the_reference() -> None:
    sections = dict(
        re.findall(
            r"^## `([^`]+)`\n(.*?)(?=^## |\Z)", reference.commands(), re.MULTILINE | re.DOTALL
        )
    )
    assert {"das run", "das risk reconstruct", "das data list"} <= set(sections)
    for name, command in reference.walk(main, "das"):
        for option in (o for p in command.params for o in p.opts if o.startswith("--")):
            assert f"`{option}`" in sections[name]


@pytest.mark.parametrize("page", EVERY, ids=lambda p: p.name)
def test_commands_that_are_written_exist_with_their_options(page: Path) -> None:
    for words in spoken(page.read_text(encoding="utf-8")):
        given = [word.strip("[],") for word in words[1:]]
        value = ["X"] if given[-1].startswith("--") else []  # an option named without its value
        done = CliRunner().invoke(main, [*given, *value, "--help"])
        assert done.exit_code == 0, (words, done.output)


def test_a_command_that_does_not_take_the_dhc_names_the_page_that_says_which_do() -> None:
    text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
    with pytest.raises(
        SpecError, match=r"docs/reference/publications\.md lists the commands that take it"
    ) as refused:
        parse(text, where="dhc-2020")
    (named,) = re.findall(r"docs/[\w/-]+\.md", str(refused.value))
    page = (ROOT / named).read_text(encoding="utf-8")
    section = page.partition("\n## The DHC\n")[2].partition("\n## ")[0]
    reasons = re.findall(r"^\* \*\*.+\.\*\* (.+)\.$", section, re.MULTILINE)
    assert len(reasons) == section.count("\n* ") > 3


def test_make_targets_that_are_written_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in [*ABOUT, *PAGES]:
        blocks = re.findall(
            r"^make ([\w-]+)|`make ([\w-]+)", page.read_text(encoding="utf-8"), re.MULTILINE
        )
        assert {a or b for a, b in blocks} <= targets, page.name


# --- links
# -----------------------------------------------------------------------------------------------------


def anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("page", [*ABOUT, *PAGES], ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        name, _, part = target.partition("#")
        file = page.parent / name if name else page
        assert file.exists(), target
        if part:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert part in map(anchor, headings), target


def test_the_index_leads_to_every_page_and_notebook() -> None:
    listed = set(
        re.findall(
            r"^([\w./-]+)$", (ROOT / "docs" / "index.md").read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    there = {p.relative_to(ROOT / "docs").with_suffix("").as_posix() for p in PAGES} | {
        f"../notebooks/{p.stem}" for p in (ROOT / "notebooks").glob("*.ipynb")
    }
    assert listed == there - {"index"}


def test_the_readme_is_of_one_screen() -> None:
    """At most 800 words, and one picture that loads at once."""
    text = EVERY[0].read_text(encoding="utf-8")
    assert len(text.split()) <= 800
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", text)
    assert [(ROOT / name).stat().st_size < picture.LARGEST for name in pictures] == [True]


def test_the_citation_and_the_changelog_are_of_this_version() -> None:
    assert f"\nversion: {das.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    newest = re.findall(r"^## (\d\S+),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[0]
    assert newest == das.__version__


def test_pages_that_code_and_configurations_name_are_there_with_their_sections(root: Path) -> None:
    files = [
        f
        for d in ("das", "configs", "benchmarks", "tests", "studies")
        for f in (root / d).rglob("*")
    ]
    named = {
        found
        for f in files
        if f.suffix in {".py", ".toml", ".j2"}
        for found in re.findall(
            r'(docs/[\w/-]+\.md)`*(?:, "([^"\n]+)"| \(([A-Z][^)\n]+)\))?',
            f.read_text(encoding="utf-8"),
        )
    }
    assert len(named) > 20
    assert not [page for page, *_ in named if not (root / page).is_file()]
    assert not [
        (page, title)
        for page, quoted, in_brackets in named
        if (title := quoted or in_brackets)
        and not re.search(
            rf"^#+ {re.escape(title)}$|\*\*{re.escape(title)}\.",
            (root / page).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    ]


def test_what_the_architecture_names_is_there(root: Path) -> None:
    """Files, folders and modules, and the names that stand in them."""
    text = pages.text("architecture")
    paths = set(re.findall(r"`((?:das|tests|studies|docs)/[\w./]*)`", text))
    assert len(paths) > 20
    assert not [p for p in paths if not (root / p).exists()]
    there = {".".join(f.relative_to(root).with_suffix("").parts) for f in (root / "das").rglob("*")}
    public = {f"das.{name}" for name in das.__all__}
    groups = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"].keys()
    named = set(re.findall(r"`(das(?:\.[a-z]\w*)+)`", text)) - public - groups
    assert not {
        n for n in named if n not in there and n.rpartition(".")[0] not in there
    }  # a module, or a name in one
    for names, path in re.findall(r"`([A-Za-z_.]+)` in `((?:das|studies)/[\w./]+\.py)`", text):
        code = (root / path).read_text(encoding="utf-8")
        assert all(re.search(rf"\b{name}\b", code) for name in names.split(".")), (names, path)


# --- sizes
# -----------------------------------------------------------------------------------------------------


def test_the_pages_have_at_most_so_many_words() -> None:
    """Without those that are made from the code. It may only become less."""
    written = [page for page in PAGES if page.stem not in {"api", "commands"}]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in written) <= 66_000


def test_a_page_is_read_in_one_sitting() -> None:
    """Except in the reference, where a reader looks up a line."""
    read = [page for page in PAGES if page.parent.name != "reference"]
    assert {p.name: p.stat().st_size for p in read if p.stat().st_size > 16_000} == {}
