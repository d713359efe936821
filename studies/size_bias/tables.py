"""What ``benchmarks.blocks`` has measured, as the tables and the figure of the page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.blocks import GROUPS, SIZES, size_words
from benchmarks.common import Figures
from das.files import rows_csv
from das.model.error_rows import SizeRow
from studies.figure import Curve, Curves, FigureData
from studies.size_bias.four_blocks import Compared

Line = Mapping[str, Any]
#: A table: its heading, and its rows.
Table = tuple[Sequence[str], Sequence[Sequence[str]]]
CLASSES = [f"blocks of {size_words(*size)}" for size in SIZES]
#: Lines of the table of gains: what the page calls it, and what the benchmark does.
GAINS = {
    "total, block": "total, all blocks",
    "Hispanic, block": "Hispanic, all blocks",
    "race by origin, block (sum over its answers)": "race by origin, L1, all blocks",
    **{f"total, {c}": f"total, {c}" for c in (CLASSES[1], CLASSES[5], CLASSES[6])},
    "total, state-house district": "total, SLDL",
}


class Lines(Figures):
    """Keeps what a benchmark prints, by its name."""

    def __init__(self, benchmark: str) -> None:
        super().__init__(benchmark)
        self.kept: dict[str, Line] = {}

    def put(self, line: dict[str, object]) -> None:
        self.kept[str(line["name"])] = line

    def of(self, method: str) -> dict[str, Line]:
        """The lines of a method, without its name."""
        start = f"{method}: "
        return {k.removeprefix(start): v for k, v in self.kept.items() if k.startswith(start)}


def tables(of: Mapping[str, Mapping[str, Line]]) -> dict[str, Table]:
    """From the lines of each method."""
    first, *_ = of.values()
    return {
        "check": _check(first),
        "gains": _gains(of),
        "bias": _bias(first),
        "losers": _losers(first),
        "enclaves": _enclaves(first),
    }


def _check(lines: Mapping[str, Line]) -> Table:
    found = {c: lines[at] for c in CLASSES if (at := f"{c}, predicted bias off by") in lines}
    heading = ["persons of the block", *(c.removeprefix("blocks of ") for c in found)]
    return heading, [
        [what, *(f"{line[what]:.1f}" for line in found.values())]
        for what in ("predicted", "actual")
    ]


def _gains(of: Mapping[str, Mapping[str, Line]]) -> Table:
    heading = ["", *(cell for method in of for cell in (f"`{method}`", ""))]
    return heading, [
        [words, *(cell for lines in of.values() for cell in _change(lines[name]))]
        for words, name in GAINS.items()
        if all(name in lines for lines in of.values())
    ]


def _change(line: Line) -> tuple[str, str]:
    """The mean absolute error without and with the correction, and the change in percent."""
    change = round(100 * (line["value"] - 1))
    before, after = (f"{line[kind]:#.3g}".rstrip(".") for kind in ("none", "housing"))
    return f"{before} -> {after}", f"{change:+d} %" if change else "0 %"


def _lean(line: Line, kind: str = "housing") -> str:
    before, after = (
        f"{line[of]:.1f}".replace("-0.0", "0.0") for of in ("bias_none", f"bias_{kind}")
    )
    return f"{before} -> {after}"


def _bias(lines: Mapping[str, Line]) -> Table:
    rows = [
        [c, _lean(lines[at]), _lean(lines[at], "alone")]
        for c in CLASSES
        if (at := f"total, {c}") in lines
    ]
    return ["bias of totals", "`topdown`", "without housing"], rows


def sizes(lines: Mapping[str, Line]) -> Table:
    """Totals by size of the block."""
    found = [(c, lines[at]) for c in CLASSES if (at := f"total, {c}") in lines]
    rows = [[c, _change(line)[0], _lean(line)] for c, line in found]
    return ["", "mean absolute error", "bias"], rows


def of_four(found: Sequence[Compared]) -> Table:
    """The closed form against draws."""
    rows = [[f"{x.people:.1f}", f"{x.formula:.3f}", f"{x.drawn:.3f}"] for x in found]
    return ["people", "formula", "draws"], rows


def intervals(run: Path) -> Table:
    """Of corrected totals that somebody lives in, by the true size: how many of their intervals hold
    the truth."""
    path = run / "confidential" / "evaluation" / "sizes.csv"
    rows = [r for r in rows_csv.read_rows(path, SizeRow, "errors by size") if r.intervals]
    some = [
        (r, r.size.replace("-", " to ").replace("+", " and more")) for r in rows if r.size != "0"
    ]
    heading = ["persons of the block", *(words for _, words in some)]
    held = ["in their interval", *(f"{r.coverage:.0%}".replace("%", " %") for r, _ in some)]
    return heading, [held, ["width, persons", *(f"{r.width:.0f}" for r, _ in some)]]


def _losers(lines: Mapping[str, Line]) -> Table:
    """Classes of density, and of race by origin."""
    rows = [
        [name, str(line["units"]), *_change(line)]
        for name, line in lines.items()
        if "density" in name or name.startswith("race by origin, L1, blocks")
    ]
    return ["", "blocks", "mean absolute error", "change"], rows


def _enclaves(lines: Mapping[str, Line]) -> Table:
    def row(words: str, line: Line, total: Line | None) -> list[str]:
        counts, change = _change(line)
        whole = _change(total)[0] if total else ""
        return [words, str(line["units"]), counts, change, _lean(line), whole]

    rows = [
        row(group, lines[f"{group}, enclaves"], lines[f"total, enclaves of {group}"])
        for group in GROUPS
        if f"{group}, enclaves" in lines
    ]
    if (pooled := "group, enclaves pooled") in lines:
        rows.append(row("all", lines[pooled], None))
    heading = ["", "enclaves", "mean absolute error", "change", "bias", "total of the block"]
    return heading, rows


def markdown(title: str, table: Table) -> Iterator[str]:
    heading, rows = table
    yield f"## {title}\n"
    for cells in (heading, ["---"] * len(heading), *rows):
        yield f"| {' | '.join(cells)} |".replace("|  |", "| |")
    yield ""


def figure(lines: Mapping[str, Line]) -> FigureData:
    """Bias and mean absolute error of totals by size of the block."""
    known = [c for c in CLASSES if f"total, {c}" in lines]
    ticks = [
        c.removeprefix("blocks of ").replace(" and more", "+").replace(" to ", "-") for c in known
    ]
    kinds = {
        "without correction": "none",
        "corrected": "housing",
        "corrected, without housing": "alone",
    }

    def curves(prefix: str) -> list[Curve]:
        at = range(len(known))
        return [
            Curve(words, at, [lines[f"total, {c}"][prefix + kind] for c in known], points=True)
            for words, kind in kinds.items()
        ]

    said = {
        i: lines[at]["predicted"]
        for i, c in enumerate(known)
        if (at := f"{c}, predicted bias off by") in lines
    }
    predicted = Curve("predicted", list(said), list(said.values()), dashed=True, points=True)
    persons = "persons of the block"
    return FigureData(
        "size-bias",
        [
            Curves("Bias", persons, "persons", [*curves("bias_"), predicted], ticks=ticks),
            Curves("Mean absolute error", persons, "persons", curves(""), ticks=ticks),
        ],
    )
