"""Seeded runs of every publication as digests: what a change of structure must leave as it is, byte
by byte.

    python -m benchmarks.golden --write before.json     # before the change
    python -m benchmarks.golden --against before.json   # after it; exit 1 where something differs

Files that hold numbers count with their bytes: measurements, what is revealed and tied, microdata,
tables, estimates, replicates and intervals. A privacy statement counts with its numbers alone: its sentences, digests and
software may change. Floating-point sums differ between processors, so compare on one machine."""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.common import ROOT

SEED = "run.seed=7"
Digests = dict[str, str]


def _das(*arguments: object) -> None:
    """Run a command of ``das``. Raises ``RuntimeError`` with its message if it fails."""
    command = [sys.executable, "-m", "das", *map(str, arguments), "--quiet"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"das {' '.join(map(str, arguments))}: {done.stderr.strip()}")


def _counts(name: str, *more: str) -> Callable[[Path], Path]:
    def run(folder: Path) -> Path:
        _das("run", name, "--out", folder / "run", "--set", SEED, *more)
        return folder / "run"

    return run


def _dhc(folder: Path) -> Path:
    """The DHC on the packaged extract, with persons and households made up to its counts."""
    extract = ROOT / "data" / "pl94_2010"
    below = _counts("pl94-2010")(folder)
    _das("data", "simulate", "dhc", "--blocks", extract, "--out", folder / "linked", "--seed", 1)
    _das(
        "run",
        "dhc-2020",
        "--data",
        folder / "linked",
        "--out",
        folder / "dhc",
        "--set",
        f"constraints.from={below}",
        "--set",
        SEED,
    )
    return folder / "dhc"


def _intervals(folder: Path) -> Path:
    """Replicates of a run, with intervals and their page."""
    run = _counts("pl94-2010", "--set", "output.report=false")(folder)
    _das("intervals", run, "--replicates", 2, "--seed", 5)
    return run


def _detailed(folder: Path) -> Path:
    made = folder / "simulated"
    _das("data", "simulate", "detailed", "--out", made, "--seed", 1, "--persons", 20_000)
    named = ("--data", made / "data", "--set", f"data.parameters={made / 'parameters'}")
    _das("run", "detailed-dhc", *named, "--out", folder / "run", "--set", SEED)
    return folder / "run"


#: Publications by name; each makes a run in a folder and says where it is.
CASES: dict[str, Callable[[Path], Path]] = {
    "pl94-2010": _counts("pl94-2010"),
    "pl94-2010 full-information": _counts(
        "pl94-2010", "--set", "estimation.method=full-information"
    ),
    "pl94-2010-best": _counts("pl94-2010-best"),
    "1940-pure-dp": _counts("1940-pure-dp"),
    "intervals": _intervals,
    "dhc-2020": _dhc,
    "detailed": _detailed,
}

#: Folders of a release that are made of numbers, by the beginning of their names.
_NUMBERS = ("nmf", "revealed", "tied", "microdata", "tables", "estimates")


def digests(release: Path) -> Digests:
    """SHA-256 of every file of numbers of a release, by its path, and of the numbers of its
    statement.
    """
    found = {
        path.relative_to(release).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(release.rglob("*"))
        if path.is_file() and _has_numbers(path.relative_to(release))
    }
    said = json.loads((release / "privacy.json").read_text(encoding="utf-8"))
    numbers = json.dumps(list(_numbers(said, ())))
    return found | {"privacy.json": hashlib.sha256(numbers.encode()).hexdigest()}


def _has_numbers(path: Path) -> bool:
    """Whether a file has numbers: intervals also have a page, and a file on how they were made."""
    first = path.parts[0]
    return first.startswith(_NUMBERS) or (first == "intervals" and path.suffix == ".parquet")


def _numbers(value: Any, at: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Every number of a document and where it stands. An exact one is text, such as
    ``"104/4099"``.
    """
    if isinstance(value, dict):
        for key in sorted(value):
            if key not in ("digests", "software"):
                yield from _numbers(value[key], (*at, key))
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _numbers(item, (*at, str(i)))
    elif isinstance(value, (int, float)) or (
        isinstance(value, str) and value[:1] in "-.0123456789"
    ):
        yield "/".join(at), str(value)


def differing(one: Digests, other: Digests) -> list[str]:
    """The files that are not the same in both, or not in both."""
    return sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--write", type=Path, help="a file for the digests")
    what.add_argument("--against", type=Path, help="such a file")
    parser.add_argument(
        "--only",
        choices=list(CASES),
        action="append",
        help="some of the runs; otherwise all, or all that the file has",
    )
    given = parser.parse_args()
    found: dict[str, Digests] = {}
    before: dict[str, Digests] = {}
    if given.against:
        before = json.loads(given.against.read_text(encoding="utf-8"))
    for name in given.only or before or CASES:
        with tempfile.TemporaryDirectory() as folder:
            found[name] = digests(CASES[name](Path(folder)) / "release")
        print(
            json.dumps({"benchmark": "golden", "run": name, "files": len(found[name])}), flush=True
        )
    if given.write:
        given.write.write_text(json.dumps(found, indent=1), encoding="utf-8")
        return 0
    changed = {name: odd for name in found if (odd := differing(before.get(name, {}), found[name]))}
    print(json.dumps({"benchmark": "golden", "same": not changed, "differ": changed}))
    return int(bool(changed))


if __name__ == "__main__":
    sys.exit(main())
