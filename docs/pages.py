"""The pages of the documentation, by what a reader needs: each has a name of its own, in one of
four folders."""

from __future__ import annotations

from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
#: To learn, to do, to understand, to look up.
FOLDERS = ("tutorials", "how-to", "explanation", "reference")


def pages() -> list[Path]:
    """The index, and every page of the four folders."""
    return [DOCS / "index.md", *sorted(p for f in FOLDERS for p in (DOCS / f).glob("*.md"))]


def page(name: str) -> Path:
    """The page of a name, with or without ``.md``, in whichever folder it is.

    >>> page("glossary").parent.name
    'reference'
    """
    found = [path for path in pages() if path.stem == name.removesuffix(".md")]
    if len(found) != 1:
        raise ValueError(f"{len(found)} pages of docs/ are named {name!r}")
    return found[0]


def text(name: str) -> str:
    """What a page says."""
    return page(name).read_text(encoding="utf-8")


def path_of(name: str) -> str:
    """A page's path from the root of the repository."""
    return page(name).relative_to(ROOT).as_posix()
