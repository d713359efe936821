"""``make accept-all``: every chain of commands on the official files. Prints what each command took.
The table in docs/reference/acceptance.md has a line for each chain, written when it has ended well;
the lines of chains that are not run stay.

Ends with 1 where a command fails, leaves something behind, or makes a release that does not add
up."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from das.version import __version__
from docs.pages import page
from tests.accept import checks, printed
from tests.accept.reader import Absent, Done, Reader
from tests.accept.steps import CHAINS
from tests.accept.whole_steps import WHOLE

PAGE = page("acceptance")
HEAD = """ by `make accept-all`. -->

Python {python}, {cores} processors. *Persons* and *units* are those of the largest release. *Peak* is the largest process of a command. *Seconds* are of a clock on the wall: there are more of them where other programs run.

| chain | version, day | commands | seconds | processor seconds | peak, MB | persons | units | longest command: its processor seconds |
|---|---|---|---|---|---|---|---|---|
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.accept.whole", description=__doc__)
    parser.add_argument("--data", type=Path, default=printed.ROOT.parent / "shared" / "data")
    parser.add_argument("--chains", help="some of them, with commas")
    given = parser.parse_args(arguments)
    chosen, failed = given.chains.split(",") if given.chains else list(CHAINS | WHOLE), False
    for chain in chosen:
        with tempfile.TemporaryDirectory() as name:
            lines = list[Line]()
            for line in _lines(chain, Reader(Path(name), given.data)):
                print(line, flush=True)
                lines.append(line)
        if well := all(line.well for line in lines):
            _write(chain, lines)
        failed |= not well
    return int(failed)


@dataclass(frozen=True)
class Line:
    """What a command took, and the persons and units of its release."""

    command: str
    well: bool
    seconds: float = 0
    processor: float = 0
    peak_mb: float = 0
    persons: int = 0
    units: int = 0

    def __str__(self) -> str:
        figures = (
            f"{self.seconds:.1f} s, {self.processor:.1f} of the processor, {self.peak_mb:,.0f} MB"
        )
        return f"{self.command}: {figures}, {self.persons:,} persons, {self.units:,} units"


def _row(chain: str, lines: Sequence[Line]) -> str:
    """The line of a chain in the table."""
    longest = max(lines, key=lambda line: line.processor)
    cells = [
        *(chain, f"{__version__}, {date.today()}", str(len(lines))),
        *(f"{sum(getattr(line, x) for line in lines):,.0f}" for x in ("seconds", "processor")),
        f"{max(line.peak_mb for line in lines):,.0f}",
    ]
    for name in ("persons", "units"):
        most = max(getattr(line, name) for line in lines)
        cells.append(f"{most:,}" if most else "")
    return f"| {' | '.join(cells)} | `{' '.join(longest.command.split()[:3])}`: {longest.processor:.1f} |"


def _write(chain: str, lines: Sequence[Line]) -> None:
    """The page, with these figures of a chain."""
    above, _, below = PAGE.read_text(encoding="utf-8").partition(printed.MADE)
    of = {c: [s for s in below.splitlines() if s.startswith(f"| {c} |")] for c in CHAINS | WHOLE}
    of[chain] = [_row(chain, lines)]
    head = HEAD.format(python=platform.python_version(), cores=_cores())
    table = "\n".join(line for some in of.values() for line in some)
    PAGE.write_text(above + printed.MADE + head + table + "\n", encoding="utf-8")


def _lines(chain: str, reader: Reader) -> Iterator[Line]:
    """What each command of a chain took; a chain ends where a command fails."""
    steps = (CHAINS | WHOLE)[chain]
    for step in steps:
        try:
            done = reader.done(steps, step.name)
        except Absent as file:
            yield Line(f"{step.line}: {file} is absent", well=False)
            return
        persons, units, wrong = _figures(done)
        well = done.code == 0 and not done.left and not wrong
        first = "python" if done.words[0] == "-m" else "das"
        line = " ".join([first, *done.words]).replace(str(reader.folder), ".").replace("|", "\\|")
        yield Line(line, well, done.seconds, done.processor, done.peak_mb, persons, units)
        if not well:
            print(f"{done}\n{done.left}\n{wrong}", file=sys.stderr)
        if done.code:
            return


def _figures(done: Done) -> tuple[int, int, str]:
    """Persons and units of a release, and what is wrong with it."""
    release = done.release
    if done.code or not done.step.out or not (release / "microdata" / "persons").is_dir():
        return 0, 0, ""
    try:
        sums = checks.check_tables(release)
        persons = checks.rows(release / "microdata" / "persons")
        units = checks.rows(release / "microdata" / "units", "2")
        assert sums.get("P0010001", persons) == persons
    except AssertionError as error:
        return 0, 0, f"{release}: {error}"
    return persons, units, ""


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
