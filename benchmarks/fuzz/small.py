"""Random small worlds, through a configuration to the end: 1 to 50 blocks, trees whose units have
one child each, no households, only group quarters, empty counties. Whatever the world is like, its
release is whole, verifies, and can be estimated again; or the run is refused before it measures
anything."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import ROOT
from benchmarks.fuzz.judge import Verdict, call
from das import spec as specification
from das.errors import SpecError
from das.files.run.ledger import LedgerFile
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.records import Blocks, Extract, Records
from das.model.redistricting import H1
from das.model.schema import Schema
from das.model.source import Source
from das.model.universe import HOUSING
from das.publications.published.public import estimate_from
from das.release.verify import whole
from das.runs import pipeline
from das.spec import RunSpec
from das.truth import preparation

Ints = NDArray[np.int64]

CONFIGS = (
    "pl94-2010",
    "pl94-2010-best",
    "pl94-2010-areas",
    "kazan-reiter",
    "dhc-2022-08-25",
    "1940",
    "1940-pure-dp",
)
#: How likely it is that a unit has one more child, up to five: 0 makes a chain.
BRANCHING = (0.0, 0.3, 0.6, 0.9)
#: A budget whose noise is 0 at every query of the configurations, so that what is published is the
#: truth.
EXACT = 1_000_000
#: The most that a case takes.
SECONDS = 900


def case(rng: Random, at: Path) -> tuple[Verdict, str]:
    """One world and one configuration, with some changes of it."""
    spec, changes = chosen(rng)
    extract = world(spec, rng)
    pages = "pages" if spec.output.report else "no pages"
    asked = f"run {spec.run.name}, {', '.join(changes)}, {len(extract.blocks)} blocks, {pages}"
    (at / "asked.json").write_text(json.dumps({"changes": changes}), encoding="utf-8")
    return call(lambda: to_the_end(spec, extract, at), SECONDS), asked


def chosen(rng: Random) -> tuple[RunSpec, list[str]]:
    """A configuration of ours, with some changes."""
    name = rng.choice(CONFIGS)
    changes = [
        f"estimation.method={rng.choice(('topdown', 'full-information'))}",
        f"run.seed={rng.randrange(1000)}",
        f"output.report={str(rng.random() < 0.2).lower()}",
    ]
    if not name.startswith("1940"):
        changes.append(f"geography.spine={rng.choice(('tabulation', 'optimized'))}")
    if rng.random() < 0.3:
        changes.append(
            f"budget.rho={rng.choice(('1/1000', EXACT))}"
            if name != "1940-pure-dp"
            else "budget.epsilon=1/100"
        )
    text = (ROOT / "configs" / f"{name}.toml").read_text(encoding="utf-8")
    usable: list[str] = []
    for change in changes:  # a configuration that says something else about it stays as it is
        try:
            specification.parse(text, where=name, overrides=[*usable, change])
            usable.append(change)
        except SpecError:
            continue
    return specification.parse(text, where=name, overrides=usable), usable


def to_the_end(spec: RunSpec, extract: Extract, at: Path) -> None:
    """Run, verify, estimate again."""
    run = RunDirectory(at / "run")
    read, apart = (
        mock.patch.object(preparation, name, work)
        for name, work in (
            ("read", lambda *_, **__: extract),
            ("_apart", lambda _, paths: [list(paths)]),
        )
    )
    with read, apart:
        try:
            outcome = pipeline.run(spec, run.root, paths=[at])
        except Exception as error:
            if run.ledger.exists() and LedgerFile(run.ledger).entries.attempts:
                raise AssertionError(
                    f"the budget is spent, and there is no release: {error}"
                ) from error
            raise
    if outcome.notes:
        raise AssertionError(outcome.notes[0])
    if spec.budget.rho is not None and spec.budget.rho >= EXACT:
        wrong = [
            f"{name}: {r.query} at {r.level}"
            for name, rows in outcome.rows.items()
            for r in rows
            if r.source == "postprocessed" and r.max > 0
        ]
        assert not wrong, f"almost no noise, and not the truth: {wrong[0]}"
    whole.statement(run.release)
    again = at / "again"
    estimate_from(run.release, again)
    for path in sorted((run.release / "tables").rglob("*.csv")):
        there = again / "release" / path.relative_to(run.release)
        assert there.read_bytes() == path.read_bytes(), (
            f"{path.name} is another when estimated again"
        )
    shutil.rmtree(again)


# --- worlds
# --------------------------------------------------------------------------------------------------------


def world(spec: RunSpec, rng: Random, most: int = 50) -> Extract:
    """Blocks on a random tree, who lives there, and their homes."""
    blocks = places(rng, rng.choice((1, 2, 5, 20, most)))
    schema, n = spec.persons.schema, len(blocks["Block"])
    kind = rng.choice(
        ("mixed", "mixed", "mixed", "no households", "nobody", "one block", "homes stand empty")
    )
    structures = _structures(schema, n, kind, rng)
    persons = _persons(schema, structures, n, kind, rng)
    if schema.dwelling is not None:  # each facility holds somebody
        types = _types(schema)
        held = np.zeros_like(structures)
        np.add.at(held, (persons.block, types[persons.cell]), persons.count)
        structures[:, 1:] = np.minimum(structures[:, 1:], held[:, 1:])
    homes = structures[:, 0]
    occupied = np.array([rng.randint(0, int(h)) if int(h) else 0 for h in homes], dtype=np.int64)
    unit, block = np.nonzero(np.stack([homes - occupied, occupied]))
    number = np.stack([homes - occupied, occupied])[unit, block]
    others = {HOUSING.name: Confidential(Records(H1, block, unit, number))}
    source = Source("random", 0, "0" * 64)
    return Extract(Blocks(_fields(blocks), structures), Confidential(persons), others, (source,))


def _types(schema: Schema) -> Ints:
    """Where those of each cell live, ``(cells,)``."""
    return np.asarray(schema.level_of(str(schema.dwelling)), dtype=np.int64)


def _structures(schema: Schema, n: int, kind: str, rng: Random) -> Ints:
    """Housing units and facilities by type, ``(blocks, types)``."""
    types = schema.shape[schema.axis(schema.dwelling)] if schema.dwelling is not None else 8
    out = np.zeros((n, types), dtype=np.int64)
    for row in out:
        if kind != "no households" and rng.random() < 0.7:
            row[0] = rng.choice((1, 2, 30))
        if rng.random() < (0.8 if kind == "no households" else 0.2):
            row[rng.randrange(1, types)] = rng.choice((1, 1, 3))
    if not out.any():
        out[rng.randrange(n), 0 if kind != "no households" else 1] = 1
    return out


def _persons(schema: Schema, structures: Ints, n: int, kind: str, rng: Random) -> Records:
    """Somebody in each facility; households as it happens, in some counties in none."""
    possible = np.flatnonzero(schema.possible)
    types = (
        _types(schema) if schema.dwelling is not None else np.zeros(schema.cells, dtype=np.int64)
    )
    by_type = [possible[types[possible] == t].tolist() for t in range(int(types.max()) + 1)]
    rows: list[tuple[int, int, int]] = []
    only = rng.randrange(n)
    for i in range(n):
        for t in range(len(by_type)):
            there = int(structures[i, t]) if schema.dwelling is not None else 1
            empty = t == 0 and (
                kind in ("nobody", "homes stand empty")
                or (kind == "one block" and i != only)
                or rng.random() < 0.2
            )
            if there and not empty and by_type[t]:
                for _ in range(rng.randint(1, 4)):
                    rows.append((i, rng.choice(by_type[t]), rng.choice((1, 2, 7, 500))))
                rows[-1] = (*rows[-1][:2], max(rows[-1][2], there))
    block, cell, count = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return Records(schema, block, cell, count)


def places(rng: Random, most: int) -> Mapping[str, list[str]]:
    """State, county, tract, group and block of at most ``most`` blocks, as complete columns of
    codes.
    """
    branching = rng.choice(BRANCHING)
    rows: list[Sequence[str]] = []

    def grow(code: tuple[str, ...]) -> None:
        if len(code) == 5:
            rows.append(code)
            return
        first = (
            ("44", "01", "34"),
            ("001", "003", "510"),
            ("000100", "000200", "980000"),
            ("1", "2"),
            (),
        )[len(code)]
        for i in range(5):
            if len(rows) >= most or (i and rng.random() >= branching):
                return
            if len(code) == 4:
                grow((*code, f"{code[3]}{i:03d}"))
            elif i < len(first):
                grow((*code, first[i]))

    grow(())
    columns = dict(
        zip(
            ("state", "county", "tract", "group", "number"),
            map(list, zip(*rows, strict=True)),
            strict=True,
        )
    )
    return columns | {
        "Block": ["".join(r) for r in rows],
        "aian": [_aian(rng) for _ in rows],
        "place": [rng.choice(("99999", "10000", "30000")) for _ in rows],
        "cousub": [rng.choice(("10000", "20000")) for _ in rows],
    }


def _aian(rng: Random) -> str:
    return rng.choice(("9999", "9999", "9999", "0010", "2415", "8100"))


def _fields(b: Mapping[str, list[str]]) -> dict[str, Any]:
    """Every field of places that a configuration of ours asks for."""

    def joined(*names: str) -> list[str]:
        return ["".join(parts) for parts in zip(*(b[n] for n in names), strict=True)]

    county, n = joined("state", "county"), len(b["Block"])
    none = {f: ["9" * width] * n for f, width in (("CD", 2), ("SLDU", 3), ("SLDL", 3), ("VTD", 6))}
    return {
        "State": b["state"],
        "County": county,
        "Tract": joined("state", "county", "tract"),
        "Tract_Group": [c + t[:4] for c, t in zip(county, b["tract"], strict=True)],
        "Block_Group": joined("state", "county", "tract", "group"),
        "Block": b["Block"],
        "Enumdist": b["Block"],
        "County_Subdivision": joined("state", "county", "cousub"),
        "Place": b["place"],
        "AIAN": b["aian"],
    } | none
