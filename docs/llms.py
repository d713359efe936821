"""The documentation for machines and for search: ``python -m docs.llms [FOLDER]`` (``make docs``).

Writes ``llms.txt``, an index with a sentence for each page, and ``llms-full.txt``, all pages as one
Markdown file, by the convention of https://llmstxt.org. Links lead from the root of the site, and in
the whole file from the root of the repository."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from docs import pages

SITE = pages.ROOT / "build" / "docs"
_LINK = re.compile(r"(\]\()(?!\w+:)([^)\s#]*)")
_TREES = re.compile(r"```\{toctree\}\n:caption: (.*?)\n(.*?)```", re.DOTALL)


def chapters() -> Iterator[tuple[str, list[Path]]]:
    """The parts of the index with their pages, in its order; notebooks are left out."""
    for caption, listed in _TREES.findall(pages.text("index")):
        names = [line for line in listed.splitlines() if re.match(r"[a-z]", line)]
        if found := [pages.DOCS / f"{name}.md" for name in names]:
            yield caption, found


def title(text: str) -> str:
    """The heading of a page."""
    return text.partition("\n")[0].removeprefix("# ")


def summary(text: str) -> str:
    """The first sentence after the heading, of four words or more, without its links."""
    for paragraph in text.split("\n\n")[1:]:
        said = " ".join(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph).split())
        sentence = re.split(r"(?<=[.?]) ", said)[0]
        if re.match(r"\w|\*|`(?!``)", said) and len(sentence.split()) > 3:
            return re.sub(":$", ".", sentence)
    raise ValueError(f"{title(text)}: no sentence says what the page is for")


def index() -> str:
    """An index: the project in a sentence, and a line for each page."""
    overview = (pages.ROOT / "README.md").read_text(encoding="utf-8")
    lines = [f"# {title(overview)}", f"\n> {summary(overview)}"]
    for caption, listed in chapters():
        lines.append(f"\n## {caption}\n")
        for path in listed:
            text = path.read_text(encoding="utf-8")
            address = path.relative_to(pages.ROOT).with_suffix(".html").as_posix()
            lines.append(f"- [{title(text)}]({address}): {summary(text)}")
    return "\n".join([*lines, "\nAll of it as one file: [llms-full.txt](llms-full.txt)", ""])


def rooted(path: Path) -> str:
    """A page whose links lead from the root of the repository."""

    def link(found: re.Match[str]) -> str:
        target = os.path.normpath(path.parent / found[2]) if found[2] else path
        return found[1] + os.path.relpath(target, pages.ROOT)

    return _LINK.sub(link, path.read_text(encoding="utf-8"))


def whole() -> str:
    """The README and all pages, each below a comment with its path."""
    listed = [pages.ROOT / "README.md", *(path for _, part in chapters() for path in part)]
    return "\n".join(
        f"<!-- {path.relative_to(pages.ROOT).as_posix()} -->\n\n{rooted(path)}" for path in listed
    )


def main(folder: Path = SITE) -> None:
    """Write both files."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "llms.txt").write_text(index(), encoding="utf-8")
    (folder / "llms-full.txt").write_text(whole(), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:2]))
