"""``make accept-all``: every chain of commands on the official files, and the table of what each
took, in docs/reference/acceptance.md. A chain's lines are written when it has ended well; the lines of chains
that are not run stay.

Ends with 1 where a command fails, leaves something behind, or makes a release that does not add
up."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
from collections.abc import Iterator, Sequence
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

Python {python}, {cores} processors. *Persons* and *units* are those of the release. *Peak* is the largest process of the command. *Seconds* are of a clock on the wall: there are more of them where other programs run.

| chain | version, day | command | seconds | processor seconds | peak, MB | persons | units |
|---|---|---|---|---|---|---|---|
"""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.accept.whole", description=__doc__)
    parser.add_argument("--data", type=Path, default=printed.ROOT.parent / "shared" / "data")
    parser.add_argument("--chains", help="some of them, with commas")
    given = parser.parse_args(arguments)
    chosen, failed = given.chains.split(",") if given.chains else list(CHAINS | WHOLE), False
    for chain in chosen:
        with tempfile.TemporaryDirectory() as name:
            lines, well = [], True
            for line, right in _told(chain, Reader(Path(name), given.data)):
                print(line, flush=True)
                lines.append(line)
                well &= right
        if well:
            _write(chain, lines)
        failed |= not well
    return int(failed)


def _write(chain: str, lines: Sequence[str]) -> None:
    """The page, with these lines of a chain."""
    above, _, below = PAGE.read_text(encoding="utf-8").partition(printed.MADE)
    of = {c: [s for s in below.splitlines() if s.startswith(f"| {c} |")] for c in CHAINS | WHOLE}
    of[chain] = list(lines)
    head = HEAD.format(python=platform.python_version(), cores=_cores())
    table = "\n".join(line for some in of.values() for line in some)
    PAGE.write_text(above + printed.MADE + head + table + "\n", encoding="utf-8")


def _told(chain: str, reader: Reader) -> Iterator[tuple[str, bool]]:
    """A line for each command of a chain, and whether all was well; a chain ends where a command
    fails."""
    steps, when = (CHAINS | WHOLE)[chain], f"{__version__}, {date.today()}"
    for step in steps:
        try:
            done = reader.done(steps, step.name)
        except Absent as file:
            yield f"| {chain} | {when} | {step.line}: {file} is absent | | | | | |", False
            return
        persons, units, wrong = _figures(done)
        well = done.code == 0 and not done.left and not wrong
        told = f"{done.seconds:.1f} | {done.processor:.1f} | {done.peak_mb:,.0f}"
        first = "python" if done.words[0] == "-m" else "das"
        line = " ".join([first, *done.words]).replace(str(reader.folder), ".").replace("|", "\\|")
        yield f"| {chain} | {when} | `{line}` | {told} | {persons} | {units} |", well
        if not well:
            print(f"{done}\n{done.left}\n{wrong}", file=sys.stderr)
        if done.code:
            return


def _figures(done: Done) -> tuple[str, str, str]:
    """Persons and units of a release, and what is wrong with it."""
    release = done.release
    if done.code or not done.step.out or not (release / "microdata" / "persons").is_dir():
        return "", "", ""
    try:
        sums = checks.check_tables(release)
        persons = checks.rows(release / "microdata" / "persons")
        units = checks.rows(release / "microdata" / "units", "2")
        assert sums.get("P0010001", persons) == persons
    except AssertionError as error:
        return "", "", f"{release}: {error}"
    return f"{persons:,}", f"{units:,}" if units else "", ""


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


if __name__ == "__main__":
    sys.exit(main())
