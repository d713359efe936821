"""Altered releases of every publication, and what is asked of them. Some are altered with care:
other numbers, under digests, ledger and pages that are made anew."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import ROOT
from benchmarks.fuzz import mutate
from benchmarks.fuzz.judge import Verdict, call, command
from das import read_microdata
from das import spec as specification
from das.files.simulators import census_1940
from das.release.verify import sealed
from das.runs import pipeline
from tests.altered import resealed
from tests.detailed import runs
from tests.sdhc.folders import made_up
from tests.worlds import Worlds


def two(folder: Path, own: str, people: str) -> list[Path]:
    """Releases of counts, of either estimator."""
    (folder / "own").mkdir()
    (folder / "own" / "people.csv").write_text(people, encoding="utf-8")
    (data,) = census_1940.write(folder / "data", seed=2, states=1, persons=1000)
    text = (ROOT / "configs" / "1940.toml").read_text(encoding="utf-8")
    for name, what, path, method in (
        ("bounds", text, data, "topdown"),
        ("estimates", own, folder / "own" / "people.csv", "full-information"),
    ):
        chosen = specification.parse(
            what, where=name, overrides=(f"estimation.method={method}", "budget.rho=1")
        )
        pipeline.run(chosen, folder / name, paths=[path])
    return [folder / name / "release" for name in ("bounds", "estimates")]


def make(name: str, worlds: Worlds, out: Path) -> None:
    """A seeded run of a publication."""
    if name == "detailed":
        runs.go(*runs.given(out.with_name("given")), out, seed=1)
    elif name == "s-dhc":
        text = (ROOT / "configs" / "sdhc-2020.toml").read_text(encoding="utf-8")
        chosen = specification.load(text, where=name, overrides=["run.seed=1"])
        pipeline.run(chosen, out, paths=[made_up(1, 60).write(out.with_name("phsafe"))])
    else:
        made = worlds.dhc() if name == "dhc" else worlds.run("run.seed=1", data="one thousand")
        shutil.copytree(made, out)


# --- files
# --------------------------------------------------------------------------------------------------


def replace_file(path: Path, rng: Random) -> None:
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


def write_table(path: Path, table: pa.Table) -> None:
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


class Releases:
    """Small releases. Files are shared with the original until they are altered."""

    def __init__(self, runs: Sequence[Path]) -> None:
        self.runs = runs

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
        levels = sorted(p.stem for p in (original / "nmf").glob("*.parquet")) or ["State"]
        level = rng.choice(levels)
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
            replace_file(path, rng)
        elif kind < 0.1:
            path.write_bytes(rng.choice(files).read_bytes())
        elif path.suffix == ".parquet" and kind < 0.8:
            write_table(path, mutate.table(pq.ParquetFile(path).read(), rng))
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


# --- numbers under a new seal
# --------------------------------------------------------------------------------------------------

#: Folders of a release that are made of numbers.
NUMBERS = ("microdata", "tables", "nmf", "revealed", "estimates", "measurements", "rows")

#: Columns of noisy answers. An answer can be another one and every published count the same, as of a
#: group that is not published, or after rounding: recomputing shows that it is so.
NOISY = ("FIRST_STAGE", "VALUES", "value")


class Resealed(Releases):
    """One number of a release is another one, and everything that tells what the files are says so:
    only what follows from what can show it."""

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        original, here = rng.choice(self.runs), at / "release"
        shutil.copytree(original, here)
        files = [p.relative_to(here) for p in sorted(here.rglob("*")) if p.is_file()]
        some = [p for p in files if len(p.parts) > 1 and p.parts[0].startswith(NUMBERS)]
        what = ""
        while not what:  # some files have no number
            folder = rng.choice(sorted({p.parts[0] for p in some}))
            path = here / rng.choice([p for p in some if p.parts[0] == folder])
            what = another_number(path, rng)
        resealed(here)
        verdict, _ = command(["account", "verify", str(here), "--recompute", "--quiet"])
        if verdict.ended == "exit 3" and sealed.INTACT in verdict.said:
            verdict = Verdict("refused", verdict.said)
        noisy = folder.startswith("nmf") and what.split()[0] in NOISY
        if verdict.ended == "right" and not noisy:
            verdict = Verdict("accepted, and altered", what)
        return verdict, f"verify --recompute; {path.relative_to(here)}: {what}"


def another_number(path: Path, rng: Random) -> str:
    """Alter one number of a table; says what it was and is. Nothing where there is none."""
    if path.suffix != ".parquet":
        lines = path.read_text(encoding="utf-8").split("\n")
        places = [
            (i, k)
            for i, line in enumerate(lines[1:], 1)
            for k, field in enumerate(re.split("[,|]", line))
            if field.isdigit()
        ]
        if not places:
            return ""
        i, k = rng.choice(places)
        parts = re.split("([,|])", lines[i])
        old, parts[2 * k] = parts[2 * k], str(int(parts[2 * k]) + 1)
        lines[i] = "".join(parts)
        path.write_text("\n".join(lines), encoding="utf-8")
        return f"line {i}: {old} is {parts[2 * k]}"
    table = pq.ParquetFile(path).read()
    numeric = [i for i, f in enumerate(table.schema) if _is_numeric(f.type)]
    if not table.num_rows or not numeric:
        return ""
    i, k = rng.choice(numeric), rng.randrange(table.num_rows)
    name, column = table.column_names[i], table.column(i)
    rows = column.to_pylist()
    old = rows[k]
    rows[k] = _another(old, rng)
    write_table(path, table.set_column(i, table.schema.field(i), pa.array(rows, column.type)))
    return "" if rows[k] == old else f"{name} {k}: {str(old)[:80]} is {str(rows[k])[:80]}"


def _is_numeric(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _is_numeric(kind.value_type)
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _another(value: Any, rng: Random) -> Any:
    if isinstance(value, list) and value:
        k = rng.randrange(len(value))
        return [*value[:k], _another(value[k], rng), *value[k + 1 :]]
    return value if value is None or value == [] else value + (1 if value < 100 else -1)
