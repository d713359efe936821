"""What the tests reach: ``python -m tests.covered FILE`` prints the modules that they reach least,
and the total.

FILE is what ``make coverage`` has measured: lines and branches, in the processes of the tests
themselves. What only a worker process, a kernel or a command started by a test runs is not counted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

SHOWN = 20  #: modules


def table(measured: dict) -> str:
    """Percent of lines and branches together, then how many of each are missed of how many."""
    rows = sorted(
        (f["summary"]["percent_covered"], name, f["summary"])
        for name, f in measured["files"].items()
    )
    whole = measured["summary"]
    chosen = [
        *((name, s) for p, name, s in rows[:SHOWN] if p < 100),
        (f"all {len(rows)} modules", whole),
    ]
    lines = [f"{'covered':>8} {'lines missed':>16} {'branches missed':>16}"]
    for name, s in chosen:
        cells = [
            f"{s[f'missing_{k}']} of {s[f'missing_{k}'] + s[f'covered_{k}']}"
            for k in ("lines", "branches")
        ]
        lines.append(f"{s['percent_covered']:7.1f}% {cells[0]:>16} {cells[1]:>16}  {name}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
