"""The terminal, and rows of any kind as a table of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

#: Columns of output that goes to no terminal.
WIDE = 160


def console() -> Console:
    """Standard output: as wide as the terminal, or wide enough for any table where it is a file or a pipe."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=WIDE)


def records_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Rows of one kind, as they are. Long texts are folded before short ones are cut, and what a row is called never is."""
    table = Table(title=title, title_justify="left")
    for i, (name, value) in enumerate(rows[0].items() if rows else ()):
        text = isinstance(value, str)
        longest = max(len(str(row[name])) for row in rows)
        short = text and longest <= 30
        table.add_column(name, justify="left" if text else "right", no_wrap=short,
                         min_width=max(longest, len(name)) if short and i == 0 else None)  # fmt: skip
    for row in rows:
        table.add_row(*(v if isinstance(v, str) else f"{v:,.6g}" for v in row.values()))
    return table
