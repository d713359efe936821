"""The commands that README and docs print, and what a reader puts in the place of their
placeholders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import lru_cache

from docs import pages

ROOT = pages.ROOT
PAGES = [ROOT / "README.md", *pages.pages()]
MADE = "<!-- Below this line the page is made"
#: Words in capitals that stand for something of the reader's.
PLACEHOLDERS = (
    *("CONFIG", "RUN_OR_RELEASE", "RUN", "RELEASE", "TARGETS", "PATH", "KEY=VALUE"),
    *("N,N,...", "N", "FILE.svg", "FILE.html", "FILE", "METHOD", "M", "A", "B", "PARAMETERS"),
    *("DATA", "PPMF_DIR", "FOLDER", "DIR", "OUT", "LINKED", "STUDY.toml", "KEY", "L", "T"),
    *("s3://BUCKET/PREFIX", "s3://ANOTHER/PREFIX", "tls://HOST:8786", "RECORDS"),
)


@lru_cache
def text_of(page: str) -> str:
    """What people wrote of a page."""
    path = ROOT / page if page == "README.md" else pages.page(page)
    return path.read_text(encoding="utf-8").partition(MADE)[0]


def written(page: str) -> Iterator[str]:
    """Lines that begin with ``das``: in blocks, and, with arguments, in the table of
    commands by task."""
    text = text_of(page)
    blocks = [
        line for b in re.findall(r"```\w*\n(.*?)```", text, re.DOTALL) for line in b.splitlines()
    ]
    cells = re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE) if page == "by-task.md" else []
    named = [line for cell in cells for line in re.findall(r"`(das [^`]+[A-Z][^`]*)`", cell)]
    yield from (line for line in [*blocks, *named] if re.match(r"das [a-z]", line))


def bare(line: str) -> str:
    """A line without its comment."""
    return re.split(r"\s+#", line)[0].strip()


@lru_cache
def printed() -> dict[str, tuple[str, ...]]:
    """Every command, without its comment, and the pages that print it."""
    found: dict[str, list[str]] = {}
    for path in PAGES:
        for line in written(path.name):
            found.setdefault(bare(line), []).append(path.name)
    return {line: tuple(pages) for line, pages in found.items()}


def is_printed(page: str, line: str, more: str = "") -> bool:
    """Whether a page has a command, in a block or in its text between backticks; and some page each
    option of ``more``."""
    options = re.findall(r"--\S+", more)
    told = all(any(option in text_of(p.name) for p in PAGES) for option in options)
    return told and (line in map(bare, written(page)) or f"`{line}`" in text_of(page))


def words(line: str, given: Mapping[str, str], more: str = "") -> list[str]:
    """The words after ``das``, with what is ``given`` for placeholders, and ``more`` at their end.
    A part in brackets is left out if nothing is given for it.

    >>> words("das tables RUN [--level L] --table P1", {"RUN": "a b"}, "--margins")
    ['tables', 'a b', '--table', 'P1', '--margins']
    """
    assert set(given) <= set(PLACEHOLDERS), f"{line!r} prints {set(given) - set(PLACEHOLDERS)}"
    names = sorted(given, key=len, reverse=True)
    one = rf"(?<![\w-])({'|'.join(map(re.escape, names)) or '(?!)'})(?![\w=-])"
    line = re.sub(r"\[([^][]*)\]", lambda m: m[1] if re.search(one, m[1]) else "", line)
    found = shlex.split(f"{line} {more}".replace(" ...", ""))[1:]
    said = [re.sub(one, lambda m: given[m[1]], word) for word in found]
    left = [w for w, s in zip(found, said, strict=True) if w == s and w in PLACEHOLDERS]
    assert not left, f"nothing stands for {left} of {line!r}"
    return said
