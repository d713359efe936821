"""What is altered: configurations, options, redistricting files, fixed-width files, tables; and what
each altered case is asked to do. Every kind by its name."""

from __future__ import annotations

import gzip
import json
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import tomli_w

from benchmarks.common import ROOT
from benchmarks.fuzz import inputs, mutate, releases, signals, small, surroundings, tools
from benchmarks.fuzz.judge import Verdict, call, command
from das import load_spec
from das import spec as specification
from das.engine import Silent
from das.files.simulators import census_1940 as simulate_1940
from das.files.simulators import census_2010 as simulate_2010
from das.spec import RunSpec, Specification
from das.stages import Stages
from das.truth.preparation import prepare
from tests import worlds as shared

#: A case: it alters something in a folder of its own, asks, and gives the verdict and what it
#: asked.
Case = Callable[[Random, Path], tuple[Verdict, str]]

OWN = """
run.name = "own"
data.reader = "table"
data.path = ["people.csv"]
data.columns.geography = { Region = "region", Village = "village" }
schema.name = "mine"
schema.attributes = { sex = ["f", "m"], age = ["young", "middle", "old"] }
schema.groupings.adult = { attribute = "age", groups = { minor = ["young"], adult = ["middle", "old"] } }
geography.levels = ["Country", "Region", "Village"]
constraints.total = "Region"
[budget]
rho = "2"
neighbours = "bounded"
[budget.levels]
Country = "1/10"
Region = "3/10"
Village = "6/10"
[budget.queries]
Country = { "sex * age" = "1/2", total = "1/2" }
Region = { total = "1/4", adult = "1/4", detailed = "1/2" }
Village = { detailed = "1" }
"""
PEOPLE = "region,village,sex,age\n" + "".join(
    f"{r},{r}{v},{s},{a}\n"
    for r in "AB"
    for v in "123"
    for s in "fm"
    for a in ("young", "middle", "old")
)


#: Whose releases are altered.
PUBLICATIONS = ("counts", "dhc", "detailed", "s-dhc")


class Worlds(Mapping[str, Case]):
    """Every kind of case, by its name. What it begins from is made under ``folder`` when the kind
    is asked for.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __iter__(self) -> Iterator[str]:
        return iter(_MADE)

    def __len__(self) -> int:
        return len(_MADE)

    def __getitem__(self, kind: str) -> Case:
        made: dict[str, Case] = self.__dict__.setdefault("_cases", {})
        if kind not in made:
            made[kind] = _MADE[kind](self)
        return made[kind]

    def configs(self) -> list[str]:
        return [
            p.read_text(encoding="utf-8") for p in sorted((ROOT / "configs").glob("*.toml"))
        ] + [OWN]

    def folder(self, kind: str) -> Path:
        """One for what a kind begins from, new."""
        path = self._folder / kind
        path.mkdir(parents=True)
        return path

    def published(self, name: str) -> Path:
        """A small seeded release of a publication."""
        worlds = self.__dict__.setdefault("_shared", shared.Worlds(self._folder / "shared"))
        return worlds.made(name, lambda out: releases.make(name, worlds, out)) / "release"

    def wide(self) -> Path:
        """A file of 1940, not packed."""
        (packed,) = simulate_1940.write(self.folder("wide"), seed=1, states=1, persons=1000)
        path = packed.with_suffix("")
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return path

    def releases(self) -> releases.Releases:
        found = self["release"]
        assert isinstance(found, releases.Releases)
        return found


def _lines(of: Worlds) -> Case:
    return inputs.Arguments(of.releases().runs[-1], OWN, PEOPLE)


def _signals(command: str) -> Callable[[Worlds], Case]:
    return lambda of: signals.made(command, of.folder(f"signals-{command}"))


def _of_spec(name: str, files: Callable[[Worlds], list[Path]]) -> Callable[[Worlds], Case]:
    def made(of: Worlds) -> Case:
        spec, paths = _spec(name), files(of)
        return lambda rng, at: _input(spec, paths, rng, at)

    return made


def _of_release(kind: type[releases.Releases], name: str) -> Callable[[Worlds], Case]:
    return lambda of: kind([of.published(name)])


def _of_configs(
    work: Callable[[list[str], Random, Path], tuple[Verdict, str]],
) -> Callable[[Worlds], Case]:
    def made(of: Worlds) -> Case:
        configs = of.configs()
        return lambda rng, at: work(configs, rng, at)

    return made


def _spec(name: str) -> RunSpec:
    return specification.parse((ROOT / "configs" / f"{name}.toml").read_text("utf-8"), where="c")


# --- configurations
# ------------------------------------------------------------------------------------------------


def _configuration(configs: list[str], rng: Random, at: Path) -> tuple[Verdict, str]:
    text, path = rng.choice(configs), at / "c.toml"
    if rng.random() < 0.5:
        path.write_bytes(mutate.altered(text.encode(), rng))
    else:
        changed = mutate.tree(tomllib.loads(text), rng)
        try:
            path.write_text(tomli_w.dumps(changed), encoding="utf-8")
        except (TypeError, UnicodeEncodeError):  # no TOML: as JSON, which is none either
            path.write_text(json.dumps(changed), encoding="utf-8")
    if rng.random() < 0.02:
        return (
            command(["check", str(path), *(["--json"] if rng.random() < 0.5 else [])])[0],
            "check c.toml",
        )
    return call(lambda: _round_trip(load_spec(path))), "load c.toml"


def _set(configs: list[str], rng: Random, at: Path) -> tuple[Verdict, str]:
    """``--set`` with odd keys and values."""
    text, path = rng.choice(configs), at / "c.toml"
    path.write_text(text, encoding="utf-8")
    keys = _keys(tomllib.loads(text))
    changes = []
    for _ in range(rng.choice((1, 1, 2))):
        key = rng.choice(keys)
        key = (
            key
            if rng.random() < 0.8
            else mutate.altered(key.encode(), rng).decode(errors="replace")
        )
        value = rng.choice([*mutate.WORDS, *map(repr, mutate.VALUES)])[:20_000]
        if rng.random() < 0.5:
            value = str(_leaf(tomllib.loads(text), rng))
        changes.append(f"{key}={value}" if rng.random() < 0.97 else value)
    (at / "set.json").write_text(json.dumps(changes), encoding="utf-8")
    return call(lambda: _round_trip(load_spec(path, changes))), "load c.toml, --set as in set.json"


def _keys(tree: Mapping[str, Any], above: str = "") -> list[str]:
    out = []
    for key, value in tree.items():
        out.append(f"{above}{key}")
        if isinstance(value, dict):
            out += _keys(value, f"{above}{key}.")
    return out


def _leaf(tree: Any, rng: Random) -> Any:
    """Some value of a configuration, which may be another key's."""
    while isinstance(tree, dict | list) and tree:
        tree = rng.choice(list(tree.values()) if isinstance(tree, dict) else tree)
    return tree


def _round_trip(spec: Specification) -> None:
    """What is written of a configuration says the same."""
    again = specification.load(spec.dump(), where="written")
    assert again.digest == spec.digest


# --- input
# ---------------------------------------------------------------------------------------------------------


def _redistricting(folder: Path) -> list[Path]:
    """The members of a small P.L. 94-171 extract, as files."""
    (packed,) = simulate_2010.write(folder, seed=1, states=1, persons=1000)
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(folder)
    packed.unlink()
    return sorted(p for p in folder.iterdir() if p.is_file())


def _input(spec: RunSpec, paths: list[Path], rng: Random, at: Path) -> tuple[Verdict, str]:
    """Files of a folder, one of them altered, read and counted."""
    for p in paths:
        shutil.copy(p, at / p.name)
    one = at / rng.choice(paths).name
    if rng.random() < 0.05:
        releases.replace_file(one, rng)
    else:
        one.write_bytes(mutate.altered(one.read_bytes(), rng))
    return call(lambda: prepare(spec, [at], Stages(), Silent())), "read"


def _table(spec: RunSpec, rng: Random, at: Path) -> tuple[Verdict, str]:
    if rng.random() < 0.7:
        path = at / "people.csv"
        path.write_bytes(mutate.altered(PEOPLE.encode(), rng))
        if rng.random() < 0.05:
            releases.replace_file(path, rng)
    else:
        path = at / "people.parquet"
        rows = [line.split(",") for line in PEOPLE.splitlines()]
        whole = pa.table(dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True)))
        releases.write_table(path, mutate.table(whole, rng))
        if rng.random() < 0.3:
            path.write_bytes(mutate.altered(path.read_bytes(), rng))
    return call(lambda: prepare(spec, [path], Stages(), Silent())), "read"


_MADE: dict[str, Callable[[Worlds], Case]] = {
    "configuration": _of_configs(_configuration),
    "set": _of_configs(_set),
    "arguments": _lines,
    "redistricting": _of_spec("pl94-2010", lambda of: _redistricting(of.folder("pl"))),
    "zip": lambda of: inputs.Zips(of.folder("zip")),
    "fixed-width": _of_spec("1940", lambda of: [of.wide()]),
    "table": lambda _: lambda rng, at: _table(specification.parse(OWN, where="own"), rng, at),
    "parquet": lambda _: inputs.Parquet(OWN, PEOPLE),
    "linked": lambda of: inputs.Linked(of.folder("linked")),
    "safetab": lambda of: inputs.SafeTab(of.folder("safetab")),
    "published": lambda of: inputs.Published(of.folder("published")),
    "release": lambda of: releases.Releases(releases.two(of.folder("release"), OWN, PEOPLE)),
    **{
        f"{kind}-{name}": _of_release(made, name)
        for kind, made in (("release", releases.Releases), ("resealed", releases.Resealed))
        for name in PUBLICATIONS
    },
    "s-dhc": lambda of: tools.SDhc(of.folder("s-dhc")),
    "study": lambda of: tools.Study(of.folder("study")),
    "store": lambda of: tools.Stores(of.releases().runs[-1].parent),
    "small-world": lambda _: small.case,
    "surroundings": lambda of: surroundings.Surroundings(
        of.releases().runs[-1].parent, OWN, PEOPLE, of.folder("locales")
    ),
    **{f"signals-{c}": _signals(c) for c in signals.COMMANDS},
}
