"""Plain English, checked: phrases that nobody needs, and sentences that are too long.

    python -m docs.style [FILE...]

What must not be written, and what to write instead, is in ``docs/phrases.csv``. A test runs the same checks over the README, the documentation and the notebooks, and over ``das/``: docstrings,
messages and the templates of pages."""

from __future__ import annotations

import ast
import csv
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from docs import pages

ROOT = pages.ROOT
LONGEST = 25  #: words of a sentence
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_MATH = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.S)
_MARKUP = re.compile(r"<!--.*?-->|<[^>\n]+>|!\[[^\]]*\]\([^)]*\)|^\s*\[[^\]]+\]: .*$", re.M | re.S)
_ENDS = re.compile(r"(?<=[.!?;:])[\"')*_]*\s+")
_TEMPLATE = re.compile(r"<(style|script)\b.*?</\1>|\{[{%].*?[%}]\}", re.S)
_BLOCK = re.compile(r"</?(?!(a|b|i|em|strong|span|sub|sup|abbr)\b)\w[^>]*>", re.S)
_DIRECTIVE = re.compile(r"^( *)\.\. [\w-]+::.*(\n *$|\n\1 +.*)*", re.M)
_RULE = re.compile(r"^ *=+( +=+)+$")  #: above, within and below a table of a docstring
_EXAMPLE = re.compile(r"^ *>>> .*(\n *\S.*)*", re.M)
_WORD = re.compile(r"[A-Za-z0-9][\w'.,/%-]*")


@dataclass(frozen=True)
class Flaw:
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@cache
def phrases() -> dict[str, str]:
    """What must not be written, and what to write instead, by ``docs/phrases.csv``."""
    with (ROOT / "docs" / "phrases.csv").open(newline="", encoding="utf-8") as file:
        return dict(list(csv.reader(file))[1:])


def _blank(found: re.Match[str]) -> str:
    """Its lines, empty: numbers of lines stay what they are."""
    return "\n" * found.group().count("\n")


def paragraphs(markdown: str) -> Iterator[tuple[int, str]]:
    """The prose of a page, with the number of its line: paragraphs, items of lists, cells of
    tables; code is one word."""
    text = _MARKUP.sub(_blank, _FENCE.sub(_blank, markdown))
    text = re.sub(r"`[^`\n]*(\n[^`\n]*)?`", lambda m: "code" + "\n" * m.group().count("\n"), text)
    text = re.sub(r"\]\([^)]*\)", "]", _MATH.sub(lambda m: "math" + _blank(m), text))
    start, held = 1, list[str]()
    for number, line in enumerate([*text.splitlines(), ""], 1):
        new = not line.strip() or re.match(r"\s*([*+-]|\d+\.|#+|>|\|)\s?", line)
        if new and held:
            yield start, " ".join(held)
            held = []
        if line.lstrip().startswith("|"):
            yield from ((number, cell) for cell in line.split("|") if cell.strip(" -:"))
        elif line.strip() and not line.startswith("    "):
            start, held = (start, held) if held else (number, [])
            held.append(re.sub(r"^\s*([*+-]|\d+\.|#+|>)\s+", "", line).strip())


def flaws(name: str, markdown: str) -> Iterator[Flaw]:
    """Everything in a text that the style does not allow."""
    for line, text in paragraphs(markdown):
        where = f"{name}:{line}"
        for phrase, better in phrases().items():
            if re.search(rf"(?<![\w-]){phrase}(?![\w-])", text, 0 if phrase[0].isupper() else re.I):
                yield Flaw(where, f"{phrase!r}: write {better}")
        for sentence in _ENDS.split(text):
            if (words := len(_WORD.findall(sentence))) > LONGEST:
                yield Flaw(where, f"a sentence of {words} words: {sentence[:60]}...")


def notebook(path: Path) -> str:
    """The prose of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def _cells(docstring: str) -> Iterator[str]:
    """The lines of a docstring; those of a table as rows of cells, as in Markdown."""
    table = False
    for line in docstring.splitlines():
        rule = _RULE.match(line) is not None
        table = bool(line.strip()) and (table or rule)
        row = "" if rule else "|" + re.sub(r" {2,}", "|", line.strip()) + "|"
        yield row if table else line


def prose(docstring: str) -> str:
    """A docstring as Markdown: without its formulas and examples, code between single backticks."""
    text = _EXAMPLE.sub(_blank, _DIRECTIVE.sub(_blank, inspect.cleandoc(docstring)))
    text = re.sub(r"(:[\w:]+:)?(?<!`)`(?!`)", "`", text.replace("``", "`"))
    return "\n".join(_cells(text))


def _value(text: ast.Constant | ast.JoinedStr) -> str:
    """What a string says; each value that it formats is one word."""
    parts = text.values if isinstance(text, ast.JoinedStr) else [text]
    return "".join(str(p.value) if isinstance(p, ast.Constant) else "value" for p in parts)


def _is_data(text: str) -> bool:
    """Whether a string is a table of numbers: a third of its words has a digit."""
    words = text.split()
    return 3 * sum(any(c.isdigit() for c in word) for word in words) > len(words)


def of_code(name: str, source: str) -> Iterator[Flaw]:
    """The flaws of a module's docstrings and messages: of every string that has a space."""
    tree = ast.parse(source)
    passed = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            match node.body:
                case [ast.Expr(value=ast.Constant(value=str(text)) as docstring), *_]:
                    passed.add(id(docstring))
                    yield from _moved(name, docstring.lineno, prose(text))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in node.values}
        elif not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        text = _value(node)
        if id(node) not in passed and re.search(r"[a-z] ", text) and not _is_data(text):
            yield from _moved(name, node.lineno, text)


def _moved(name: str, start: int, text: str) -> Iterator[Flaw]:
    """The flaws of a text that begins at a line of a file."""
    for flaw in flaws(name, text):
        line = start + int(flaw.where.rpartition(":")[2]) - 1
        yield Flaw(f"{name}:{line}", flaw.what)


def template(html: str) -> str:
    """The text of a page's template: without styles, scripts, tags and what is filled in.

    A sentence ends with its paragraph, heading or cell."""
    text = re.sub(r"</?code>", "`", _TEMPLATE.sub(_blank, html))
    return re.sub(r"<[^>]+>", _blank, _BLOCK.sub(lambda m: ". " + _blank(m), text))


def of_file(path: Path) -> Iterator[Flaw]:
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    if path.suffix == ".py":
        return of_code(name, path.read_text(encoding="utf-8"))
    if path.suffix == ".html":
        return flaws(name, template(path.read_text(encoding="utf-8")))
    text = notebook(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    if path.suffix == ".j2":  # of a configuration: its comments
        text = "\n\n".join(re.findall(r"#  *(.*)", text))
    return flaws(name, text)


def main(paths: Iterable[str]) -> int:
    found = [f for path in paths for f in of_file(Path(path).resolve())]
    print(*found, f"{len(found)} flaws", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
