"""Altered input of the other publications: linked tables, folders of SafeTab, zips, Parquet,
published measurements; and command lines.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from random import Random
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import ROOT
from benchmarks.fuzz import mutate
from benchmarks.fuzz.judge import Verdict, call, command
from das import load_spec
from das import spec as specification
from das.cli import main
from das.engine import Silent
from das.engine.tasks import SILENT
from das.files.readers import profile
from das.files.simulators import census_2010
from das.publications.detailed.simulation import files as detailed
from das.publications.detailed.truth.folders import GivenFolders, read_folders
from das.publications.dhc.spec import DhcSpec
from das.publications.dhc.truth import simulated
from das.publications.dhc.truth.preparation import EarlierRelease
from das.publications.dhc.truth.preparation import prepare as prepare_dhc
from das.publications.published.files.layout import convert
from das.runs import pipeline
from das.spec import load, of_kind, parse
from das.stages import Stages
from das.truth.preparation import prepare


def linked_to(original: Path, here: Path) -> Path:
    """A copy of a folder whose files are shared until they are written anew."""
    shutil.copytree(original, here, copy_function=os.link)
    return here


def own(path: Path) -> bytes:
    """The bytes of a file, which is from now on nobody else's."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)
    return data


def altered_table(path: Path, rng: Random) -> None:
    """A Parquet file with other columns, rows or bytes."""
    own(path)
    if rng.random() < 0.6:
        table = mutate.table(pq.read_table(path), rng)
        try:
            pq.write_table(table, path)
        except (pa.ArrowException, ValueError):  # two columns of one name, say
            return
    if rng.random() < 0.5:
        path.write_bytes(mutate.altered(path.read_bytes(), rng))


# --- records
# ---------------------------------------------------------------------------------------------------------


class Linked:
    """The three tables of the DHC, besides the redistricting release of the same
    records.
    """

    def __init__(self, folder: Path) -> None:
        data = census_2010.write(folder / "pl", seed=1, states=1, persons=1000)
        changes = ["run.seed=1", "output.report=false", "geography.spine=tabulation"]
        pipeline.run(
            load_spec(ROOT / "configs" / "pl94-2010.toml", changes), folder / "run", paths=data
        )
        text = (ROOT / "configs" / "dhc-2020.toml").read_text(encoding="utf-8")
        changes = ["run.seed=1", f"constraints.from={folder / 'run'}"]
        self._spec = of_kind(DhcSpec, load(text, where="dhc", overrides=changes), "dhc")
        self._earlier = EarlierRelease.read(folder / "run" / "release", self._spec)
        self._tables = folder / "linked"
        simulated.simulate(data, self._tables, seed=1)

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        here = linked_to(self._tables, at / "linked")
        path = rng.choice(sorted(here.iterdir()))
        altered_table(path, rng)
        return (
            call(lambda: prepare_dhc(self._spec, here, self._earlier, SILENT)),
            f"read; altered {path.name}",
        )


class SafeTab:
    """Parameters and records of detailed groups."""

    def __init__(self, folder: Path) -> None:
        self._folders = {}
        for product in ("persons", "households"):
            detailed.write(folder / product, seed=1, states="RI", persons=600, product=product)
            self._folders[product] = folder / product

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        product = rng.choice(sorted(self._folders))
        here = linked_to(self._folders[product], at / "given")
        path = rng.choice(sorted(p for p in here.rglob("*") if p.is_file()))
        path.write_bytes(mutate.altered(own(path), rng))
        given = GivenFolders.from_paths(here / "parameters", here / "data", product)
        return (
            call(lambda: read_folders(given).counted()),
            f"read {product}; altered {path.relative_to(here)}",
        )


class Zips:
    """A state of redistricting files in its zip; its bytes or a member are altered."""

    def __init__(self, folder: Path) -> None:
        (self._zip,) = census_2010.write(folder, seed=1, states=1, persons=1000)
        text = (ROOT / "configs" / "pl94-2010.toml").read_text("utf-8")
        self._spec = parse(text, where="c")

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        path = at / self._zip.name
        if rng.random() < 0.5:
            path.write_bytes(mutate.altered(self._zip.read_bytes(), rng))
        else:
            with zipfile.ZipFile(self._zip) as old, zipfile.ZipFile(path, "w") as new:
                for info in old.infolist():
                    data = old.read(info)
                    if rng.random() < 0.3:
                        data = mutate.altered(data, rng)
                    if rng.random() < 0.1:
                        continue
                    how = rng.choice(
                        (
                            zipfile.ZIP_STORED,
                            zipfile.ZIP_DEFLATED,
                            zipfile.ZIP_BZIP2,
                            zipfile.ZIP_LZMA,
                        )
                    )
                    new.writestr(
                        info.filename if rng.random() < 0.95 else f"../{info.filename}", data, how
                    )
        return call(lambda: prepare(self._spec, [path], Stages(), Silent())), "read"


class Parquet:
    """A table of one's own in Parquet, for a run and for ``das init``."""

    def __init__(self, text: str, people: str) -> None:
        rows = [line.split(",") for line in people.splitlines()]
        self._whole = pa.table(
            dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True))
        )
        self._spec = specification.parse(text, where="own")

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        path = at / "people.parquet"
        compression = rng.choice(("none", "snappy", "zstd", "gzip"))
        pq.write_table(self._whole, path, compression=compression, store_schema=rng.random() < 0.5)
        altered_table(path, rng)
        if rng.random() < 0.3:
            return call(lambda: profile.read(path)), "profile"
        return call(lambda: prepare(self._spec, [path], Stages(), Silent())), "read"


class Published:
    """Measurements in another publisher's layout: rows, bytes and whole parts altered or taken
    away.
    """

    def __init__(self, folder: Path) -> None:
        data = census_2010.write(folder / "pl", seed=1, states=2, persons=2000)
        changes = ["run.seed=1", "output.report=false", "geography.spine=tabulation"]
        pipeline.run(
            load_spec(ROOT / "configs" / "pl94-2010.toml", changes), folder / "run", paths=data
        )
        self._folders = [folder / "run" / "release" / name for name in ("nmf", "nmf-housing")]

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        here = linked_to(rng.choice(self._folders), at / "nmf")
        files = sorted(p for p in here.rglob("*") if p.is_file())
        path = rng.choice(files)
        if rng.random() < 0.15:
            shutil.rmtree(
                rng.choice(
                    [p for p in path.parents if p.is_relative_to(here) and p != here]
                    or [path.parent]
                )
            )
        else:
            altered_table(path, rng)
        return call(lambda: convert(here, at / "out")), f"convert; altered {path.relative_to(here)}"


# --- command lines
# ---------------------------------------------------------------------------------------------------

#: What is asked, before it is altered. Nothing that takes long, or asks another machine.
LINES = (
    "check CONFIG",
    "check CONFIG --json --set budget.rho=1",
    "plan CONFIG",
    "plan CONFIG --json",
    "account RUN",
    "account CONFIG --json",
    "account verify RUN",
    "tables RUN",
    "tables RUN --level LEVEL",
    "tables RUN --level LEVEL --table TABLE --out OUT/x.csv",
    "nmf summary RUN",
    "nmf show RUN --level LEVEL --query total",
    "nmf verify RUN",
    "status RUN",
    "tasks RUN",
    "task RUN branch 1",
    "evaluate RUN",
    "compare RUN RUN",
    "init --from CSV --out OUT/x.toml",
    "data list --json",
    "area RUN --blocks CSV",
    "data simulate 1940 --out OUT/sim --persons 1000 --states 1 --seed 1",
    "map RUN --level LEVEL --boundaries CSV",
    "store pull file://OUT/there OUT/here",
    "store push RUN file://OUT/there",
    "intervals RUN --replicates 2 --out OUT/int",
    "estimate --from CSV --out OUT/est",
    "check detailed-dhc --data OUT --set data.parameters=CSV",
    "detailed plan CSV",
    "risk RUN",
    "run CONFIG --out OUT/run --data CSV",
    "sweep CONFIG --rho 1 --out OUT/sweep --data CSV",
    "frontier init --data CSV --out OUT/study.toml",
    "frontier CSV --out OUT/study",
    "protect rounding --data RUN --out OUT/tables",
    "register init OUT/register --cap-rho 8",
    "register add OUT/register RUN",
    "register show CSV",
    "account RUN CONFIG --json",
    "ages RUN",
    "link RUN --out OUT/linked",
    "detailed estimate RUN --out OUT/groups",
    "risk posterior --rho 1",
)
PATHS = (
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "..",
    "/",
    "run:1",
    "s3://bucket/x",
    "https://x/y",
    "x" * 300,
    "\udcff",
    "~",
    "-",
)


PLAUSIBLE = (
    "0",
    "1",
    "2",
    "3",
    "0.5",
    "1/2",
    "total",
    "sex",
    "age",
    "sex * age",
    "Country",
    "Region",
    "Village",
    "A",
    "run",
    "c.toml",
    "people.csv",
    "out",
    "csv",
    "json",
    "parquet",
    "markdown",
    "full-information",
    "budget.rho=3",
    "Village=2",
)


class Arguments:
    """A command line with words altered, taken away, added and exchanged."""

    def __init__(self, release: Path, config: str, people: str) -> None:
        self._run, self._config, self._people = release.parent, config, people

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        linked_to(self._run, at / "run")
        (at / "c.toml").write_text(self._config, encoding="utf-8")
        (at / "people.csv").write_text(self._people, encoding="utf-8")
        (at / "out" / "there").mkdir(parents=True)
        level = rng.choice(
            sorted(p.stem for p in (self._run / "release" / "nmf").glob("*.parquet"))
        )
        named = {
            "CONFIG": "c.toml",
            "RUN": "run",
            "CSV": "people.csv",
            "LEVEL": level,
            "TABLE": "T1",
            "OUT": str(at / "out"),
        }
        line = rng.choice(LINES)
        words = [_filled(w, named) for w in line.split()]
        for _ in range(rng.choice((1, 1, 2, 3))):
            self._alter(words, rng)
        words = [w.replace("\0", "") for w in words]
        before = Path.cwd()
        os.chdir(at)
        try:
            verdict, _ = command(words)
        finally:
            os.chdir(before)
        return verdict, " ".join(w[:80] for w in words)

    @staticmethod
    def _alter(words: list[str], rng: Random) -> None:
        i = (
            rng.randrange(len(words))
            if rng.random() < 0.3
            else rng.randrange(min(1, len(words) - 1), len(words))
        )
        odd = (
            rng.choice((*mutate.WORDS, *PATHS, *map(str, mutate.VALUES)))[:6000]
            if rng.random() < 0.5
            else rng.choice(PLAUSIBLE)
        )
        match rng.randrange(7):
            case 0 if len(words) > 1:
                del words[i]
            case 1:
                words.insert(i, words[i])
            case 2:
                j = rng.randrange(len(words))
                words[i], words[j] = words[j], words[i]
            case 3 | 4:
                words[i] = odd
            case 5:
                options = _options(words)
                words += [rng.choice(options), odd] if options else [odd]
            case _:
                words[i] = mutate.altered(words[i].encode(errors="surrogateescape"), rng).decode(
                    errors="surrogateescape"
                )[:6000]
        if words[:1] == ["data"] and "fetch" in words:
            words[:] = ["data", "list"]


def _filled(word: str, named: dict[str, str]) -> str:
    for name, value in named.items():
        word = word.replace(name, value)
    return word


def _options(words: list[str]) -> list[str]:
    """Those of the command that is called, as far as it can be told."""
    here: Any = main
    for word in words:
        if not isinstance(here, click.Group):
            break
        here = here.get_command(click.Context(here), word) or here
    return [name for p in here.params for name in p.opts if name.startswith("-")]
