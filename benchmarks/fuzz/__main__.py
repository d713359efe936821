"""``python -m benchmarks.fuzz --cases 100000 --seed 1``: altered input of every kind, and how each
case ended.

Prints one JSON line for each kind. It exits 1 if a case ended in anything except a correct run or a
clean refusal: exit code 2 with one message of at most 2,000 characters, no traceback, no warning.
What ``das account verify`` accepts must have the same content as before. The input of a failed case
is kept under ``--keep``, with ``case.json``; the same ``--kind``, ``--seed`` and ``--first`` make
it again."""

from __future__ import annotations

import argparse
import json
import logging
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path
from random import Random
from time import perf_counter

from benchmarks.fuzz.signals import COMMANDS
from benchmarks.fuzz.worlds import Case, Worlds

#: How many of a thousand cases are of each kind.
PARTS = {
    "configuration": 260,
    "set": 122,
    "arguments": 120,
    "redistricting": 80,
    "zip": 60,
    "fixed-width": 50,
    "table": 70,
    "parquet": 50,
    "linked": 20,
    "safetab": 30,
    "published": 20,
    "release": 30,
    "small-world": 2,
    "s-dhc": 20,
    "study": 20,
    "release-counts": 6,
    "release-dhc": 2,
    "release-detailed": 6,
    "release-s-dhc": 6,
    "resealed-counts": 3,
    "resealed-dhc": 1,
    "resealed-detailed": 4,
    "resealed-s-dhc": 4,
    "store": 4,
    "surroundings": 10,
}
#: Those that are asked for by name: each case is a process.
BY_NAME = [f"signals-{command}" for command in COMMANDS]


def run(
    kind: str, case: Case, seed: int, first: int, cases: int, keep: Path | None
) -> dict[str, object]:
    """Cases ``first`` and so on of a kind: a count of how they ended, and the faults."""
    ended: Counter[str] = Counter()
    faults, began = [], perf_counter()
    for number in range(first, first + cases):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as name:
            verdict, asked = case(Random(f"{seed}/{kind}/{number}"), Path(name))
            ended[verdict.ended] += 1
            if verdict.fault:
                line = {
                    "kind": kind,
                    "seed": seed,
                    "number": number,
                    "ended": verdict.ended,
                    "asked": asked,
                }
                faults.append(line)
                if keep:
                    there = keep / f"{kind}-{seed}-{number}"
                    shutil.copytree(name, there, dirs_exist_ok=True)
                    (there / "case.json").write_text(
                        json.dumps(line | {"said": verdict.said[-8000:]}, indent=2)
                    )
    seconds = round(perf_counter() - began, 1)
    return {
        "kind": kind,
        "seed": seed,
        "cases": cases,
        "ended": dict(ended),
        "faults": faults[:20],
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument(
        "--cases", type=int, default=1000, help="cases in all; of one --kind, of this kind"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--kind", choices=[*PARTS, *BY_NAME])
    parser.add_argument(
        "--keep", type=Path, help="folder for the input of the cases that are at fault"
    )
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    parts = (
        {given.kind: given.cases}
        if given.kind
        else {k: given.cases * n // 1000 for k, n in PARTS.items()}
    )
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-worlds-") as name:
        every = Worlds(Path(name))
        for kind, cases in parts.items():
            found = run(kind, every[kind], given.seed, given.first, cases, given.keep)
            wrong += len(found["faults"])  # type: ignore[arg-type]
            print(json.dumps(found), flush=True)
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
