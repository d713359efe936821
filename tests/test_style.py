"""Plain English: the check finds what the style forbids, and what we write passes it."""

from __future__ import annotations

import pytest

from docs import style

CLEAN = "`das` reads the file. It writes a release; you can publish it.\n"


def said(text: str) -> list[str]:
    return [f.what for f in style.flaws("page", text)]


def test_what_is_plain_passes() -> None:
    assert said(CLEAN) == []
    assert said("```\nof which whoever beside\n```\n" + "`of which`\n") == []


@pytest.mark.parametrize("phrase", style.phrases())
def test_each_phrase_is_found_wherever_it_stands(phrase: str) -> None:
    for text in (f"Some {phrase} words.", f"* {phrase} words", f"| a | {phrase} b |"):
        assert any(repr(phrase) in f for f in said(text)), text


@pytest.mark.parametrize(("words", "long"), [(style.LONGEST, False), (style.LONGEST + 1, True)])
def test_a_sentence_has_at_most_25_words(words: int, long: bool) -> None:
    text = "Short one. " + "\n".join(["word"] * words) + ". Short one.\n"
    assert any("a sentence of" in f for f in said(text)) == long


def test_the_line_is_that_of_the_paragraph() -> None:
    (flaw,) = style.flaws("page", "Fine.\n\n```\na\n```\n\nHere, but for this.\n")
    assert flaw.where == "page:7"


#: Pages and notebooks that are held to the style: what a newcomer reads.
PAGES = [
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "index",
            "glossary",
            "style",
            "start",
            "method",
            "tables",
            "own-data",
            "limits",
            "recipes",
            "areas",
            "arrays",
            "citing",
            "stores",
            "dhc",
            "simulated-dhc",
            "detailed",
            "detailed-estimates",
            "sdhc",
            "engines",
            "dependencies",
        )
    ),
    *(f"notebooks/{path.name}" for path in sorted((style.ROOT / "notebooks").glob("*.ipynb"))),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_a_newcomer_reads_has_no_flaw(page: str) -> None:
    assert [str(flaw) for flaw in style.of_file(style.ROOT / page)] == []


def test_pages_link_to_the_glossary() -> None:
    """A term is linked where it is first used: each of these pages uses some."""
    without = {"docs/index.md", "docs/glossary.md", "docs/dependencies.md", "docs/engines.md"}
    prose = [page for page in PAGES if page not in without and not page.endswith(".ipynb")]
    texts = {page: (style.ROOT / page).read_text(encoding="utf-8") for page in prose}
    assert [page for page, text in texts.items() if "glossary.md" not in text] == []


#: Pages on methods, accounting and code, and those that are made from the code.
TECHNICAL = [
    "accounting",
    "api",
    "architecture",
    "commands",
    "configuration",
    "estimation",
    "evaluation",
    "intervals",
    "measurements",
    "privacy-statement",
    "publications",
    "reconstruction",
    "risk",
    "spine",
    "strategy",
]


@pytest.mark.parametrize("page", TECHNICAL)
def test_technical_pages_are_plain(page: str) -> None:
    path = style.ROOT / "docs" / f"{page}.md"
    assert [str(flaw) for flaw in style.of_file(path)] == []
