"""The folder of parameters: ``config.json``, and the tables of codes, of iterations, and of the
codes in each iteration."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from das.errors import InputError, SpecError
from das.files import atomic
from das.files.delimited import DELIMITER, Faults, TextRow, pattern, rows
from das.publications.detailed.files import config
from das.publications.detailed.model.iterations import LEVELS, REGIONS, GroupLevel, Iterations, Kind
from das.publications.detailed.model.tables import Parameters, Product

CODES = "race-and-ethnicity-codes.txt"
RACE, ETHNICITY = "race-characteristic-iterations.txt", "ethnicity-characteristic-iterations.txt"
MEMBERS = "race-and-ethnicity-code-to-iteration.txt"
#: All files of the folder.
FILES = (config.FILE, CODES, RACE, ETHNICITY, MEMBERS)

_ITERATION = pattern("[0-9]{4}", "four digits")
_CODE = pattern("[1-9][0-9]{3}", "four digits, the first not 0")
_TEXT = pattern(r".*\S.*", "a name")
_FLAG = pattern("True|False|Null", "True, False or Null")
_OF_CODES = {"RACE_ETH_CODE": _CODE, "RACE_ETH_NAME": _TEXT}
_OF_MEMBERS = {"ITERATION_CODE": _ITERATION, "RACE_ETH_CODE": _CODE}
_OF_ITERATIONS = {
    "ITERATION_CODE": _ITERATION,
    "ITERATION_NAME": _TEXT,
    "LEVEL": pattern("[012]", "0, 1 or 2"),
    "ALONE": pattern("True|False", "True or False"),
    "DETAILED_ONLY": _FLAG,
    "COARSE_ONLY": _FLAG,
}

REMEDY = "fix these lines, and read the folder again"


@dataclass(frozen=True)
class _Described:
    """A line of either table of iterations."""

    code: str
    name: str
    level: int
    kind: Kind
    detailed_only: bool
    coarse_only: bool

    @property
    def measured(self) -> tuple[str, ...]:
        """Where it is: at states and above, and below."""
        return (
            *(["states and above"] if not self.coarse_only else []),
            *(["regions below states"] if not self.detailed_only else []),
        )


@dataclass(frozen=True)
class _Tables:
    """The lines of the tables; ``None`` for one that cannot be read."""

    codes: Sequence[TextRow] | None
    iterations: Mapping[str, Sequence[TextRow] | None]
    members: Sequence[TextRow] | None


def read(folder: Path, product: Product) -> Parameters:
    """All parameters of a product.

    Raises:
        SpecError: faults of ``config.json`` alone.
        InputError: faults of other files. Either names all of them, or as many as a message has
            room for, and how many."""
    faults = Faults()
    settings = config.read(folder / config.FILE, product, faults)
    tables = _Tables(
        rows(folder / CODES, _OF_CODES, faults),
        {
            RACE: rows(folder / RACE, _OF_ITERATIONS, faults),
            ETHNICITY: rows(
                folder / ETHNICITY,
                {n: p for n, p in _OF_ITERATIONS.items() if n != "ALONE"},
                faults,
            ),
        },
        rows(folder / MEMBERS, _OF_MEMBERS, faults),
    )
    known = _iterations(tables, faults)
    pairs = _pairs(tables, known, faults)
    _refuse(folder, faults)
    assert settings is not None  # or there is a fault
    out = Parameters(
        product,
        _put_together(known, pairs),
        settings.race_codes,
        settings.mechanism,
        settings.budgets,
        settings.first,
        settings.thresholds,
        settings.chance,
        settings.negative,
        settings.runs,
        settings.states,
        {r.fields[0]: r.fields[1].strip() for r in tables.codes or ()},
    )
    _check_inhabited(out, faults)
    _refuse(folder, faults)
    return out


def copy(folder: Path, into: Path) -> None:
    """The files of a folder, as they are."""
    for name in FILES:
        atomic.write_bytes(into / name, (folder / name).read_bytes())


def _refuse(folder: Path, faults: Faults) -> None:
    kind = SpecError if all(f.file == config.FILE for f in faults.found) else InputError
    faults.refuse(folder, REMEDY, kind)


def _iterations(tables: _Tables, faults: Faults) -> dict[str, _Described]:
    """Those of both tables by their codes, of sound lines."""
    out: dict[str, _Described] = {}
    where: dict[str, tuple[str, int]] = {}
    for file, table in tables.iterations.items():
        for row in table or ():
            code, name, level, *alone, detailed_only, coarse_only = row.fields
            if code in where:
                other, line = where[code]
                faults.add(
                    file, row.line, f"ITERATION_CODE {code} is also that of line {line} of {other}"
                )
                continue
            where[code] = file, row.line
            if not row.sound:
                continue
            if what := _contradiction(level, detailed_only, coarse_only):
                faults.add(file, row.line, what)
                continue
            kind = (
                Kind.ETHNICITY
                if not alone
                else Kind.ALONE
                if alone == ["True"]
                else Kind.COMBINATION
            )
            out[code] = _Described(
                code, name.strip(), int(level), kind, detailed_only == "True", coarse_only == "True"
            )
    _check_once(CODES, tables.codes, 1, faults)
    return out


def _contradiction(level: str, detailed_only: str, coarse_only: str) -> str | None:
    flags = (detailed_only, coarse_only)
    if level == "0" and flags != ("Null", "Null"):
        return (
            f"LEVEL is 0, and DETAILED_ONLY and COARSE_ONLY are {' and '.join(flags)}: both must be"
            " Null"
        )
    if level != "0" and "Null" in flags:
        return (
            f"LEVEL is {level}, and DETAILED_ONLY and COARSE_ONLY are {' and '.join(flags)}: Null"
            " is for LEVEL 0"
        )
    if flags == ("True", "True"):
        return "DETAILED_ONLY and COARSE_ONLY are both True: the iteration would be nowhere"
    return None


def _check_once(file: str, table: Iterable[TextRow] | None, fields: int, faults: Faults) -> None:
    """No two lines have the same first fields."""
    lines: dict[tuple[str, ...], int] = {}
    for row in table or ():
        key = row.fields[:fields]
        if lines.setdefault(key, row.line) != row.line:
            faults.add(file, row.line, f"{DELIMITER.join(key)} is also on line {lines[key]}")


def _pairs(
    tables: _Tables, known: Mapping[str, _Described], faults: Faults
) -> list[tuple[str, str]]:
    """Iterations and the codes in them. An unreadable table is not compared with this one."""
    listed = None if tables.codes is None else {r.fields[0] for r in tables.codes}
    every = list(tables.iterations.values())
    numbered = None if None in every else {r.fields[0] for t in every for r in t or ()}
    _check_once(MEMBERS, tables.members, 2, faults)
    of: dict[tuple[str, Kind, int, str], str] = {}
    for row in tables.members or ():
        iteration, code = row.fields
        if not row.sound:
            continue
        if numbered is not None and iteration not in numbered:
            faults.add(
                MEMBERS,
                row.line,
                f"ITERATION_CODE {iteration} is in neither {RACE} nor {ETHNICITY}",
            )
        if listed is not None and code not in listed:
            faults.add(MEMBERS, row.line, f"RACE_ETH_CODE {code} is not in {CODES}")
        if (held := known.get(iteration)) and held.level in LEVELS:
            others = {
                w: of.setdefault((w, held.kind, held.level, code), iteration) for w in held.measured
            }
            if clash := next((f"{o}, at {w}" for w, o in others.items() if o != iteration), None):
                faults.add(
                    MEMBERS,
                    row.line,
                    f"code {code} is of iteration {iteration} and of {clash}: of one kind and LEVEL"
                    " it may be of one",
                )
    return [(row.fields[0], row.fields[1]) for row in tables.members or ()]


def _put_together(known: Mapping[str, _Described], pairs: Iterable[tuple[str, str]]) -> Iterations:
    """In the order of their codes."""
    every = [known[code] for code in sorted(known)]
    number = {i.code: n for n, i in enumerate(every)}
    held = sorted((number[iteration], int(code)) for iteration, code in pairs)
    return Iterations(
        np.array([i.code for i in every], dtype=np.str_),
        np.array([i.name for i in every], dtype=np.str_),
        np.array([i.level for i in every], dtype=np.int8),
        np.array([i.kind for i in every], dtype=np.int8),
        np.array([i.detailed_only for i in every], dtype=bool),
        np.array([i.coarse_only for i in every], dtype=bool),
        np.array([n for n, _ in held], dtype=np.int32),
        np.array([code for _, code in held], dtype=np.int16),
    )


def _check_inhabited(parameters: Parameters, faults: Faults) -> None:
    """Budget can only be spent on groups that somebody can be in: others have no noise to draw."""
    levels = [at for run in REGIONS for at in GroupLevel.of_run(run)]
    empty = [at for at in levels if not parameters.iterations.stability(at, parameters.race_codes)]
    for table in parameters.product.tables:
        for at in (at for at in empty if parameters.budgets[table.name][at]):
            key = config.budget_key(parameters.product, table, at)
            faults.add(
                config.FILE,
                None,
                f"{key} is not 0, and no code is of an iteration of this level: say 0",
            )
