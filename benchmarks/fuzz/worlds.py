"""What is altered: configurations, options, redistricting files, fixed-width files, tables,
releases; and what each altered case is asked to do."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import tomli_w

from benchmarks.common import ROOT
from benchmarks.fuzz import inputs, mutate, signals, small, surroundings
from benchmarks.fuzz.judge import Verdict, call, command
from das import load_spec, pipeline, read_microdata
from das import spec as specification
from das.engine import Silent
from das.files.simulators import census_1940 as simulate_1940
from das.files.simulators import census_2010 as simulate_2010
from das.spec import RunSpec, Specification
from das.stages import Stages
from das.truth.preparation import prepare

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

    def wide(self) -> Path:
        """A file of 1940, not packed."""
        (packed,) = simulate_1940.write(self.folder("wide"), seed=1, states=1, persons=1000)
        path = packed.with_suffix("")
        path.write_bytes(gzip.decompress(packed.read_bytes()))
        return path

    def releases(self) -> _Releases:
        found = self["release"]
        assert isinstance(found, _Releases)
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
        _file(one, rng)
    else:
        one.write_bytes(mutate.altered(one.read_bytes(), rng))
    return call(lambda: prepare(spec, [at], Stages(), Silent())), "read"


def _table(spec: RunSpec, rng: Random, at: Path) -> tuple[Verdict, str]:
    if rng.random() < 0.7:
        path = at / "people.csv"
        path.write_bytes(mutate.altered(PEOPLE.encode(), rng))
        if rng.random() < 0.05:
            _file(path, rng)
    else:
        path = at / "people.parquet"
        rows = [line.split(",") for line in PEOPLE.splitlines()]
        whole = pa.table(dict(zip(rows[0], map(list, zip(*rows[1:], strict=True)), strict=True)))
        _write(path, mutate.table(whole, rng))
        if rng.random() < 0.3:
            path.write_bytes(mutate.altered(path.read_bytes(), rng))
    return call(lambda: prepare(spec, [path], Stages(), Silent())), "read"


def _file(path: Path, rng: Random) -> None:
    """A file that is gone, empty, a folder, or something else altogether."""
    data = path.read_bytes()
    path.unlink()
    match rng.randrange(5):
        case 0:
            path.write_bytes(b"")
        case 1:
            path.mkdir()
        case 2:
            path.write_bytes(b"\x1f\x8b\x08\x00" + data)
        case 3:
            path.write_bytes(rng.randbytes(300))


def _write(path: Path, table: pa.Table) -> None:
    """As Parquet, each query in a row group of its own."""
    names = table["query_name"].to_pylist() if table.column_names.count("query_name") == 1 else []
    cuts = [0, *(i for i in range(1, len(names)) if names[i] != names[i - 1]), table.num_rows]
    with pq.ParquetWriter(path, table.schema) as writer:
        for a, b in pairwise(cuts):
            writer.write_table(table.slice(a, b - a))


# --- releases
# ------------------------------------------------------------------------------------------------------

#: What is asked of an altered release; ``NEW`` is a folder to write into.
QUICK = (
    ["nmf", "summary", "RUN"],
    ["nmf", "show", "RUN", "--level", "LEVEL"],
    ["nmf", "verify", "RUN"],
    ["account", "RUN"],
    ["tables", "RUN", "--level", "LEVEL"],
    ["account", "verify", "RUN"],
    ["compare", "ORIGINAL", "RUN"],
    ["evaluate", "RUN"],
    ["microdata"],
)
SLOW = (["estimate", "--from", "RUN", "--out", "NEW"],)


class _Releases:
    """Two small releases, of either estimator. Files are shared with the original until they are
    altered.
    """

    def __init__(self, folder: Path) -> None:
        self.runs: list[Path] = []
        (folder / "own").mkdir()
        (folder / "own" / "people.csv").write_text(PEOPLE, encoding="utf-8")
        (data,) = simulate_1940.write(folder / "data", seed=2, states=1, persons=1000)
        text = (ROOT / "configs" / "1940.toml").read_text(encoding="utf-8")
        for name, what, path, method in (
            ("bounds", text, data, "topdown"),
            ("estimates", OWN, folder / "own" / "people.csv", "full-information"),
        ):
            chosen = specification.parse(
                what, where=name, overrides=(f"estimation.method={method}", "budget.rho=1")
            )
            pipeline.run(chosen, folder / name, paths=[path])
            self.runs.append(folder / name / "release")

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        original, here = rng.choice(self.runs), at / "release"
        shutil.copytree(original, here, copy_function=os.link)
        files = sorted(p for p in here.rglob("*") if p.is_file())
        weights = [
            4 if p.name in ("privacy.json", "spec.toml", "ledger.jsonl", "spine.parquet") else 1
            for p in files
        ]
        (path,) = rng.choices(files, weights)
        data = path.read_bytes()
        path.unlink()
        path.write_bytes(data)
        self._alter(path, files, rng)
        asked = list(rng.choice(SLOW if rng.random() < 0.02 else QUICK))
        level = rng.choice(sorted(p.stem for p in (original / "nmf").glob("*.parquet")))
        words = [
            {
                "RUN": str(here),
                "NEW": str(at / "new"),
                "LEVEL": level,
                "ORIGINAL": str(original),
            }.get(w, w)
            for w in asked
        ]
        if asked == ["microdata"]:
            verdict = call(lambda: read_microdata(here))
        else:
            verdict, _ = command([*words, "--quiet"] if asked in SLOW else words)
        if (
            asked[:2] == ["account", "verify"]
            and verdict.ended == "right"
            and not same(original, here)
        ):
            verdict = Verdict("accepted, and altered", str(path.relative_to(here)))
        if verdict.ended == "refused" and (at / "new").exists():
            verdict = Verdict("refused, and left something", verdict.said)
        return verdict, f"{' '.join(asked)}; altered {path.relative_to(here)}"

    @staticmethod
    def _alter(path: Path, files: list[Path], rng: Random) -> None:
        kind = rng.random()
        if kind < 0.05:
            _file(path, rng)
        elif kind < 0.1:
            path.write_bytes(rng.choice(files).read_bytes())
        elif path.suffix == ".parquet" and kind < 0.8:
            _write(path, mutate.table(pq.read_table(path), rng))
        elif path.suffix == ".json" and kind < 0.8:
            path.write_text(
                json.dumps(mutate.tree(json.loads(path.read_text()), rng), indent=2),
                encoding="utf-8",
            )
        elif path.suffix == ".jsonl" and kind < 0.5:
            lines = mutate.tree([json.loads(x) for x in path.read_text().splitlines()], rng)
            path.write_text("".join(json.dumps(x) + "\n" for x in lines), encoding="utf-8")
        else:
            path.write_bytes(mutate.altered(path.read_bytes(), rng))


def same(one: Path, other: Path) -> bool:
    """Two releases say the same: their files are the same bytes, and their statements the same
    values.
    """
    names = [{str(p.relative_to(r)) for p in r.rglob("*") if p.is_file()} for r in (one, other)]
    if names[0] != names[1]:
        return False
    values = [json.loads((r / "privacy.json").read_text(encoding="utf-8")) for r in (one, other)]
    return values[0] == values[1] and all(
        (one / n).read_bytes() == (other / n).read_bytes() for n in names[0] - {"privacy.json"}
    )


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
    "release": lambda of: _Releases(of.folder("release")),
    "small-world": lambda _: small.case,
    "surroundings": lambda of: surroundings.Surroundings(
        of.releases().runs[-1].parent, OWN, PEOPLE
    ),
    **{f"signals-{c}": _signals(c) for c in signals.COMMANDS},
}
