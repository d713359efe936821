"""Files of a release and their sizes, as a page lists them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from das.model.listed_files import ListedFile, TableFiles


def listed(out: Path, says: Mapping[str, str]) -> list[ListedFile]:
    """The files and folders under ``out`` that begin with a name of ``says``, each with its size
    and the text of that name.
    """
    return [
        ListedFile(path.name + "/" * path.is_dir(), _size(path), text)
        for name, text in says.items()
        for path in sorted(out.glob(f"{name}*"))
    ]


def tables(out: Path, named: Iterable[tuple[str, str]], levels: Iterable[str]) -> list[TableFiles]:
    """The CSV files of tables, given by name and title, at those levels where there are any."""
    levels = list(levels)
    found = [
        TableFiles(
            name,
            title,
            [
                (level, ListedFile(path, _size(out / path)))
                for level in levels
                if (out / (path := f"tables/{name}_{level}.csv")).is_file()
            ],
        )
        for name, title in named
    ]
    return [table for table in found if table.files]


def _size(path: Path) -> int:
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    return sum(f.stat().st_size for f in files)
