"""Plain English, checked: phrases that nobody needs, and sentences that are too long.

    python -m docs.style [FILE...]

What must not be written, and what to write instead, is the table in ``docs/style.md``. A test runs
the same over README, pages of documentation, help of commands and notebooks."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 25  #: words of a sentence
_TABLE = "| not | but |"  #: heads the table of phrases, which is not checked itself
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_MATH = re.compile(r"\$\$.*?\$\$|\$[^$\n]+\$", re.S)
_MARKUP = re.compile(r"<!--.*?-->|<[^>\n]+>|!\[[^\]]*\]\([^)]*\)|^\s*\[[^\]]+\]: .*$", re.M | re.S)
_ENDS = re.compile(r"(?<=[.!?;:])[\"')*_]*\s+")
_WORD = re.compile(r"[A-Za-z0-9][\w'.,/%-]*")


@dataclass(frozen=True)
class Flaw:
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@cache
def phrases() -> dict[str, str]:
    """What must not be written, and what to write instead, by ``docs/style.md``."""
    table = (ROOT / "docs" / "style.md").read_text(encoding="utf-8").partition(_TABLE)[2]
    rows = (line.split("|")[1:3] for line in table.splitlines() if line.startswith("| "))
    return {a.strip(): b.strip() for a, b in rows if set(a.strip()) != {"-"}}


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


def of_file(path: Path) -> Iterator[Flaw]:
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    text = notebook(path) if path.suffix == ".ipynb" else path.read_text(encoding="utf-8")
    return flaws(name, text.partition(_TABLE)[0])


def main(paths: Iterable[str]) -> int:
    found = [f for path in paths for f in of_file(Path(path).resolve())]
    print(*found, f"{len(found)} flaws", sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
