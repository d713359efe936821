"""The TopDown disclosure-avoidance system.

>>> import das
>>> spec = das.load_spec("configs/pl94-2010.toml")  # doctest: +SKIP
>>> das.run(spec, "runs/first", paths=["ri2010.pl.zip"])  # doctest: +SKIP
>>> das.read_nmf("runs/first", level="County", query="total")  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from das.pipeline import Outcome
    from das.spec import RunSpec

__all__ = ["load_spec", "read_microdata", "read_nmf", "run"]


def load_spec(path: Path | str, overrides: Sequence[str] = ()) -> RunSpec:
    """The checked specification of a TOML file; ``overrides`` are ``dotted.key=value``."""
    from das.files.run_directory import read_text
    from das.spec import parse

    return parse(read_text(Path(path), "configuration"), where=str(path), overrides=overrides)


def run(spec: RunSpec, out: Path | str, *, paths: Sequence[Path | str] = (), workers: int = 1) -> Outcome:
    """The whole pipeline into the new folder ``out``; ``paths`` replace ``data.path``."""
    from das.pipeline import run as run_pipeline

    return run_pipeline(spec, Path(out), paths=[Path(p) for p in paths], workers=workers)


def __getattr__(name: str) -> object:
    """``read_nmf`` and ``read_microdata`` load pandas, so only when they are asked for."""
    if name == "read_nmf":
        from das.files.nmf_frame import read_nmf

        return read_nmf
    if name == "read_microdata":
        from das.files.microdata_reading import read_frame

        return read_frame
    raise AttributeError(f"module 'das' has no attribute {name!r}")
