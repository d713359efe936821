"""The figures of the pages, held against the code: ``python -m docs.claims``.

``docs/claims.toml`` lists them. A claim is a piece of a page, word for word, with each figure in
braces, and what gives these figures: a ``das`` command that prints JSON, a Python expression, or,
where it takes long, the command alone. White space and the targets of links do not count, and
neither do commas in numbers. A figure holds if it is what was found, rounded to the digits that
are printed (with ``up``, rounded up, as bounds are), or no further off than ``within``.

.. code-block:: toml

    [[claim]]
    page = "docs/explanation/accounting.md"           # from the root of the repository
    says = "all together is {13.126} for persons"
    command = "das account pl94-2010 --json"          # what it prints is `out` in the expression
    found = "epsilon(out, 'persons')"                 # a number, or one for each pair of braces
    cost = "cheap"                                    # "seconds": not in the tests; "long": never
                                                      # rerun here, the command says how

Names in expressions are those of :mod:`docs.figures`. ``{RI}`` in a command is the file of Rhode
Island, and such a claim is passed over where ``DAS_SHARED_DATA`` does not name a folder that has
it."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from time import process_time
from typing import Any

from click.testing import CliRunner

from das.cli import main as das_command
from docs import figures

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "docs" / "claims.toml"
COSTS = ("cheap", "seconds", "long")
RHODE_ISLAND = Path("pl94_2010", "ri", "ri2010.pl.zip")


@dataclass(frozen=True)
class Claim:
    """One entry of the table."""

    page: str
    says: str
    cost: str
    command: str = ""
    found: str = ""
    within: str = ""
    up: bool = False

    def __post_init__(self) -> None:
        if self.cost not in COSTS:
            raise ValueError(f"{self.says!r}: cost is one of {', '.join(COSTS)}")
        if self.cost == "long" and (self.found or not self.command):
            raise ValueError(f"{self.says!r}: what takes long is a command that is not rerun")
        if self.cost != "long" and not (self.found and self.figures):
            raise ValueError(
                f"{self.says!r}: there is no figure in braces, or nothing that gives it"
            )

    @property
    def text(self) -> str:
        """What stands on the page."""
        return _plain(re.sub(r"\{([^{}]*)\}", r"\1", self.says) if self.found else self.says)

    @property
    def figures(self) -> list[str]:
        return re.findall(r"\{([^{}]*)\}", self.says)

    def stands(self) -> bool:
        return self.text in _page(self.page)

    def rerun(self) -> list[bool]:
        """Whether each figure holds."""
        values = _evaluated(self.command, self.found)
        if len(values) != len(self.figures):
            raise ValueError(
                f"{self.says!r}: {len(self.figures)} figures, and {len(values)} were found"
            )
        return [
            holds(shown, value, self.within, up=self.up)
            for shown, value in zip(self.figures, values, strict=True)
        ]


def holds(shown: str, value: float | Fraction, within: str = "", *, up: bool = False) -> bool:
    """Whether ``shown`` is ``value`` rounded to its digits, to the nearest or upwards, or is
    ``within`` of it.
    """
    digits = Decimal(shown.replace(",", "").replace("−", "-"))
    exponent = digits.as_tuple().exponent
    assert isinstance(exponent, int)
    above, unit = Fraction(digits) - Fraction(value), Fraction(10) ** exponent
    if up:
        return 0 <= above < unit
    return abs(above) <= (Fraction(within) if within else unit / 2) * (1 + Fraction(1, 10**6))


def claims() -> list[Claim]:
    """Those of the table, in its order."""
    return [Claim(**entry) for entry in tomllib.loads(TABLE.read_text(encoding="utf-8"))["claim"]]


def _plain(text: str) -> str:
    """A text without its line ends, and without the targets of links, which move."""
    return " ".join(re.sub(r"\]\([^)\s]*\)", "]", text).split())


@cache
def _page(name: str) -> str:
    return _plain((ROOT / name).read_text(encoding="utf-8"))


@cache
def _printed(command: str) -> Any:
    """What a command prints with ``--json``, read."""
    words = shlex.split(command.replace("{RI}", str(rhode_island())))
    done = CliRunner().invoke(das_command, words[1:])
    if done.exit_code:
        raise RuntimeError(f"{command}: exit code {done.exit_code}: {done.output}")
    return json.loads(done.stdout)


def _evaluated(command: str, expression: str) -> list[float]:
    names: dict[str, Any] = {n: getattr(figures, n) for n in figures.__all__}
    if command:
        names["out"] = _printed(command)
    value = eval(expression, names)  # the table is ours, as a test is
    return list(value) if isinstance(value, Sequence) else [value]


def rhode_island() -> Path | None:
    path = Path(os.environ.get("DAS_SHARED_DATA", "")) / RHODE_ISLAND
    return path if path.is_file() else None


def checked(entries: Sequence[Claim], costs: Sequence[str]) -> Iterator[Mapping[str, Any]]:
    """A line for each claim; ``holds`` is absent where it was not rerun."""
    for claim in entries:
        line: dict[str, Any] = {
            "page": claim.page,
            "says": claim.text,
            "cost": claim.cost,
            "stands": claim.stands(),
        }
        if claim.command:
            line["command"] = claim.command
        if claim.cost in costs and claim.cost != "long":
            if "{RI}" in claim.command and rhode_island() is None:
                line["skipped"] = "DAS_SHARED_DATA has no file of Rhode Island"
            else:
                began = process_time()
                try:
                    line["holds"] = all(claim.rerun())
                    if not line["holds"]:
                        line["found"] = [float(v) for v in _evaluated(claim.command, claim.found)]
                except Exception as error:  # the others are still to be seen
                    line |= {"holds": False, "error": f"{type(error).__name__}: {error}"}
                line["seconds"] = round(process_time() - began, 2)
        yield line


def unclaimed(page: str, entries: Sequence[Claim]) -> list[str]:
    """Lines of a page with a decimal number that no claim covers: to see how far the table goes.
    What takes long covers all of its table.
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    said = [c for c in entries if c.page == page]
    out = []
    for part in re.split(r"\n(?!\|)|(?<!\|)\n(?=\|)", text):  # a line, or a whole table
        if any(c.cost == "long" and c.text in _plain(part) for c in said):
            continue
        for line in map(_plain, part.splitlines()):
            if re.search(r"\d\.\d", line) and not any(
                c.text in line or line in c.text or _overlap(line, c.text) for c in said
            ):
                out.append(line)
    return out


def _overlap(line: str, said: str) -> bool:
    """Whether what is said goes on from the line before, or to the next."""
    return any(
        line.startswith(said[-n:]) or line.endswith(said[:n])
        for n in range(min(len(said), len(line)), 7, -1)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m docs.claims", description=__doc__.partition("\n")[0]
    )
    parser.add_argument(
        "--cheap", action="store_true", help="rerun only what takes well under a second"
    )
    parser.add_argument(
        "--page",
        action="append",
        help="claims of this page alone, such as docs/explanation/accounting.md; repeatable",
    )
    parser.add_argument(
        "--unclaimed",
        action="store_true",
        help="list lines with decimal numbers that no claim covers",
    )
    given = parser.parse_args(arguments)
    entries = [c for c in claims() if not given.page or c.page in given.page]
    if given.unclaimed:
        for page in given.page or sorted({c.page for c in entries}):
            for line in unclaimed(page, entries):
                print(f"{page}: {line}")
        return 0
    good = True
    for line in checked(entries, COSTS[:1] if given.cheap else COSTS):
        print(json.dumps(line, ensure_ascii=False), flush=True)
        good &= line["stands"] and line.get("holds", True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
