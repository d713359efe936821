"""Plain English: the check finds what the style forbids, and what we write passes it."""

from __future__ import annotations

import pytest

from docs import pages, style

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


#: Pages and notebooks that are held to the style: all.
PAGES = [
    *(path.name for path in sorted(style.ROOT.glob("[A-Z]*.md"))),
    *(pages.path_of(path.stem) for path in pages.pages()),
    *(f"notebooks/{path.name}" for path in sorted((style.ROOT / "notebooks").glob("*.ipynb"))),
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_flaw(page: str) -> None:
    assert [str(flaw) for flaw in style.of_file(style.ROOT / page)] == []


#: Those that name no term, or do not link it yet.
WITHOUT_LINKS = {
    *("CHANGELOG.md", "CODE_OF_CONDUCT.md", "RELEASING.md"),
    *(
        pages.path_of(name)
        for name in (
            *("accounting", "estimation", "evaluation", "frontier", "frontier-methods"),
            *("intervals", "reconstruction", "risk", "spine", "acceptance", "api"),
            *("architecture", "commands", "configuration", "dependencies", "glossary"),
            *("measurements", "privacy-statement", "publications"),
        )
    ),
}


def test_pages_link_to_the_glossary() -> None:
    """A term is linked where it is first used."""
    prose = [p for p in PAGES if p not in WITHOUT_LINKS and not p.endswith(".ipynb")]
    texts = {page: (style.ROOT / page).read_text(encoding="utf-8") for page in prose}
    assert [page for page, text in texts.items() if "glossary.md" not in text] == []


def of_code(source: str) -> list[str]:
    return [str(flaw) for flaw in style.of_code("module.py", source)]


@pytest.mark.parametrize(
    "source",
    [
        '"""Reads ``whoever`` and :func:`whoever of which`."""',
        'r"""A formula:\n\n.. math:: a \\quad whoever\n          of which\n\nEnds."""',
        '"""An example.\n\n>>> f("whoever of which")\nwhoever\n"""',
        'WORDS = {"whoever": 1}',
        "text = f'{len(x)} whole {what}'",
    ],
)
def test_what_is_no_prose_of_code_passes(source: str) -> None:
    assert of_code(source) == []


def test_cells_of_a_table_in_a_docstring_are_sentences_by_themselves() -> None:
    row = "  ".join(["=" * 40] * 2)
    cells = "  ".join([("word " * 20).strip()] * 2)
    assert of_code(f'"""Table:\n\n{row}\n{cells}\n{row}\n"""') == []
    assert len(of_code(f'"""Table:\n\n{"word " * 40}\n"""')) == 1


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('"""Fine.\n\nFor whoever asks."""', 3),
        ('def f() -> None:\n    """Fine.\n\n    For whoever asks.\n    """', 4),
        ('class A:\n    """For whoever asks."""', 2),
        ('\nraise ValueError(f"{n} for whoever asks")', 2),
        ('say = (\n    "a message that"\n    " is for whoever asks"\n)', 2),
    ],
)
def test_a_flaw_of_code_has_its_line(source: str, line: int) -> None:
    (flaw,) = of_code(source)
    assert flaw.startswith(f"module.py:{line}: 'whoever'")


def test_a_value_in_a_message_is_one_word() -> None:
    words = " ".join(["word"] * (style.LONGEST - 1))
    assert of_code(f'say = f"{words} {{a + b + c}}"') == []
    assert len(of_code(f'say = f"{words} more {{a + b + c}}"')) == 1
    assert of_code(f'table = "{"AL 01 6 Alabama " * 20}"') == []  # data


@pytest.mark.parametrize(
    ("html", "flaws"),
    [
        ("<style>whoever</style><script>whoever</script>{{ whoever }}{% if whoever %}", 0),
        ("<p>For <b>whoever</b> asks</p>", 1),
        ("<ul>" + "<li>three plain words</li>" * 20 + "</ul>", 0),
        ("<p>" + "three plain <em>words</em> " * 9 + "</p>", 1),
    ],
)
def test_the_text_of_a_template_is_checked(html: str, flaws: int) -> None:
    assert len(said(style.template(html))) == flaws


PACKAGE = style.ROOT / "das"
ROOMS = ["*", *sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py"))]


@pytest.mark.parametrize("room", ROOMS)
def test_docstrings_messages_and_templates_are_plain(room: str) -> None:
    files = PACKAGE.glob("*.py") if room == "*" else (PACKAGE / room).rglob("*")
    checked = [path for path in sorted(files) if path.suffix in (".py", ".html", ".j2")]
    assert checked
    assert [str(flaw) for path in checked for flaw in style.of_file(path)] == []
