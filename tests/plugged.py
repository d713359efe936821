"""Packages that declare plugins, as installers leave them: a folder of metadata on the path."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import das_toy

from das import plugins

#: The package of tests/plugin, which is on the path of the tests and not declared.
TOY = Path(das_toy.__file__).parents[1]


def declare(
    folder: Path, package: str, version: str, groups: Mapping[str, Mapping[str, str]]
) -> None:
    """Write the metadata of a package that has these entry points, by group and name."""
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    (info / "METADATA").write_text(head)
    lines = [
        (f"[{g}]", *(f"{name} = {value}" for name, value in e.items())) for g, e in groups.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(line for group in lines for line in group))


@contextmanager
def on_the_path(*folders: Path) -> Iterator[None]:
    """What these folders declare is found in this process."""
    before = list(sys.path)
    sys.path[:0] = map(str, folders)
    plugins._declarations.cache_clear()
    try:
        yield
    finally:
        sys.path[:] = before
        plugins._declarations.cache_clear()


@contextmanager
def toy_declared() -> Iterator[None]:
    """The package of tests/plugin, as its pyproject.toml declares it."""
    project = tomllib.loads((TOY / "pyproject.toml").read_text())["project"]
    with TemporaryDirectory(prefix="das-toy-") as folder:
        declare(Path(folder), project["name"], project["version"], project["entry-points"])
        with on_the_path(Path(folder)):
            yield
