"""Runs that many tests read: each is made once on a machine, by the first process that asks, and
altered by nobody.

A test that alters a run, or calls a command that writes into it, takes a copy.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from das import spec
from das.files.simulators import census_2010
from das.runs import pipeline

ROOT = Path(__file__).resolve().parents[1]

#: Extracts by name: a path in the checkout, how one is simulated, or a file of another.
DATA: dict[str, str | dict[str, Any] | tuple[str, str]] = {
    "shipped": "data/pl94_2010",  # three states, 12,000 persons
    "one state": "data/pl94_2010/nj2010.pl.zip",
    "three thousand": {"seed": 2010, "states": 3, "persons": 3000},  # the same states
    "two thousand": {"seed": 2010, "states": 2, "persons": 2000},
    "one of three": ("three thousand", "nj2010.pl.zip"),
    "one thousand": {"seed": 1, "states": 1, "persons": 1000},
    "19 blocks": {
        "seed": 3,
        "states": 1,
        "persons": 1000,
    },  # no housing units of a tract are measured by their own share
    "1940": "data/ext1940",
}


class Worlds:
    """Extracts and runs in a folder that all processes of a test session share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: set[Path] = set()  #: what this process handed out
        folder.mkdir(parents=True, exist_ok=True)

    def data(self, name: str) -> Path:
        given = DATA[name]
        if isinstance(given, str):
            return ROOT / given
        if isinstance(given, tuple):
            return self.data(given[0]) / given[1]
        return self._made(f"data {name}", lambda folder: census_2010.write(folder, **given))

    def run(
        self, *changes: str, config: str = "pl94-2010", data: str = "shipped", report: bool = False
    ) -> Path:
        """A finished run of a configuration of ours with ``changes``, as of ``--set``; its page
        only if asked for, for the figures take longer than all the rest."""
        text = (ROOT / "configs" / f"{config}.toml").read_text(encoding="utf-8")
        if not any(
            c.startswith("geography.") for c in changes
        ):  # unless asked for: quicker, and units are those of tables
            text = text.replace('spine = "optimized"', 'spine = "tabulation"')
        return self.run_of(text, *changes, *([] if report else ["output.report=false"]), data=data)

    def run_of(self, text: str, *changes: str, data: str) -> Path:
        """A run of any configuration."""
        chosen, paths = spec.parse(text, where="c", overrides=changes), [self.data(data)]
        return self._made(
            f"{chosen!r} {data}", lambda folder: pipeline.run(chosen, folder, paths=paths)
        )

    def linked(self, data: str = "one thousand") -> Path:
        """Linked records of the DHC, with the redistricting counts of an extract."""
        from das.publications.dhc.truth import simulated

        return self._made(
            f"linked {data}", lambda folder: simulated.simulate([self.data(data)], folder, seed=1)
        )

    def dhc(self, *changes: str, data: str = "one thousand") -> Path:
        """A finished run of the DHC on these."""

        text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
        earlier = self.run("run.seed=1", data=data)
        every = [f"constraints.from={earlier}", "run.seed=1", "output.report=false", *changes]
        chosen = spec.load(text, where="c", overrides=every)
        return self._made(
            f"dhc {changes} {data}",
            lambda folder: pipeline.run(chosen, folder, paths=[self.linked(data)]),
        )

    def dhc_with_intervals(self) -> Path:
        """The DHC with intervals from two replicates of seed 5, of two tables at one level."""
        from das.engine import Silent
        from das.release.replicate_source import IntervalOptions
        from das.release.replicates import make

        asked = IntervalOptions(2, 5, 0.9, tables=("P1", "P12"), levels=("County",))

        def with_intervals(run: Path) -> None:
            release = self.copy(self.dhc(), run) / "release"
            quiet = {"workers": 1, "resume": False, "progress": Silent()}
            make(release, release / "intervals", asked, **quiet)

        return self.made("dhc with intervals", with_intervals)

    def group_folders(self, product: str = "persons") -> Path:
        """Parameters and records of the Detailed DHC, made up."""
        from das.publications.detailed.simulation import files as detailed

        made = {"seed": 3, "states": "NM,PR", "persons": 6_000, "codes": 60, "product": product}
        return self._made(f"groups {product}", lambda folder: detailed.write(folder, **made))

    def groups(self, product: str = "persons") -> Path:
        """A finished run of the Detailed DHC on these."""
        from tests.detailed.runs import run_groups

        given, run = self.group_folders(product), {"name": "groups", "seed": 1}
        return self._made(
            f"groups run {product}",
            lambda folder: run_groups(
                given / "parameters", given / "data", product, folder, run=run
            ),
        )

    def made(self, key: str, make: Callable[[Path], object]) -> Path:
        """What ``make`` writes into a folder, once for each ``key``."""
        return self._made(f"made {key}", make)

    def copy(self, run: Path, to: Path) -> Path:
        """All of a run, to be altered."""
        return Path(shutil.copytree(run, to))

    def altered(self) -> list[str]:
        """Files of what was handed out since this was last asked that are not as they were made."""
        asked, self.asked = self.asked, set()
        return sorted(
            {str(f / name) for f in asked for name, _ in set(_listed(f)) ^ set(_as_made(f))}
        )

    def _made(self, key: str, make: Callable[[Path], object]) -> Path:
        folder = self.folder / hashlib.sha256(key.encode()).hexdigest()[:12]
        with folder.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.with_suffix(".json").exists():
                make(folder)
                folder.with_suffix(".json").write_text(json.dumps(_listed(folder)))
        self.asked.add(folder)
        return folder


def _listed(folder: Path) -> list[tuple[str, tuple[int, int]]]:
    """Every file with its size and when it was written."""
    files = ((p, p.stat()) for p in folder.rglob("*") if p.is_file())
    return sorted((p.relative_to(folder).as_posix(), (s.st_size, s.st_mtime_ns)) for p, s in files)


def _as_made(folder: Path) -> list[tuple[str, tuple[int, int]]]:
    return [
        (name, (size, when))
        for name, (size, when) in json.loads(folder.with_suffix(".json").read_text())
    ]
