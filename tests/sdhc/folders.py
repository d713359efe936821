"""Small folders as PHSafe reads them, of households that are what their unit records say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das.publications.sdhc.files.columns import LAYOUTS
from das.publications.sdhc.model.tables import LEFT_OUT, TABLES

SHARED = Path(os.environ.get("DAS_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data"))
PHSAFE = SHARED / "phsafe"

needs_shared = pytest.mark.skipif(
    not PHSAFE.is_dir(), reason="data/phsafe is not at hand: set DAS_SHARED_DATA"
)

#: By HHT2: HHT, CPLT, the relationship of a partner, whether there are own children.
TYPES = {
    1: (1, 1, 21, True),
    2: (1, 2, 23, False),
    3: (5, 3, 22, True),
    4: (5, 4, 24, False),
    5: (6, 5, None, False),
    6: (3, 5, None, True),
    7: (3, 5, None, False),
    8: (7, 5, None, False),
    9: (4, 5, None, False),
    10: (2, 5, None, True),
    12: (5, 5, None, False),
}


@dataclass
class Folder:
    """Lines of the three files, without their first."""

    lines: dict[str, list[list[str]]] = field(
        default_factory=lambda: {name: [] for name in LAYOUTS}
    )

    def household(
        self,
        mafid: int,
        state: str,
        hht2: int,
        people: Sequence[tuple[int, int, int, int]],
        ten: int,
    ) -> None:
        """``people``: age, origin, race, relationship; the householder first."""
        hht, cplt, _, _ = TYPES[hht2]
        family = sum(r in (20, 21, 23, *range(25, 34)) for *_, r in people)
        for age, hisp, race, relship in people:
            row = ["3", mafid, age, hisp, f"{race:02d}", relship]
            self.lines["persons.csv"].append([str(x) for x in row])
        _, hisp, race, _ = people[0]
        npf = family if family > 1 else 0
        unit = ["2", mafid, len(people), npf, hisp, f"{race:02d}", ten, hht, f"{hht2:02d}", cplt]
        self.lines["units.csv"].append([str(x) for x in unit])
        self._place("2", mafid, state)

    def vacant(self, mafid: int, state: str) -> None:
        self.lines["units.csv"].append(["2", str(mafid), *"0000", "0", "0", "00", "0"])
        self._place("2", mafid, state)

    def quarters(self, mafid: int, state: str, people: int) -> None:
        for age in range(people):
            self.lines["persons.csv"].append(["5", str(mafid), str(20 + age), "1", "01", "38"])
        unit = ["4", mafid, people, 0, 0, "00", 0, 0, "00", 0]
        self.lines["units.csv"].append([str(x) for x in unit])
        self._place("4", mafid, state)

    def _place(self, rtype: str, mafid: int, state: str) -> None:
        row = [rtype, str(mafid), state, "001", "000100", "1000", "1", "1", "1", "99999", "9999"]
        self.lines["geo.csv"].append(row)

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.lines.items():
            text = [",".join(LAYOUTS[name]), *(",".join(row) for row in rows)]
            (folder / name).write_text("\n".join([*text, ""]))
        return folder


def made_up(seed: int, households: int, states: Sequence[str] = ("44", "49")) -> Folder:
    """Households of every type, a few of them very large; vacant units and quarters, too."""
    rng, out = np.random.default_rng(seed), Folder()
    for n in range(households):
        mafid, state = 100_000_001 + 7 * n, states[int(rng.integers(len(states)))]
        hht2 = int(rng.choice(list(TYPES)))
        _, _, partner, own = TYPES[hht2]

        def person(relship: int, low: int, high: int) -> tuple[int, int, int, int]:
            race = int(rng.choice([1, 1, 1, 2, 3, 4, 5, 6, 7, 33]))
            return int(rng.integers(low, high)), int(rng.integers(1, 3)), race, relship

        people = [person(20, 18, 90)]
        if partner is not None:
            people.append(person(partner, 18, 90))
        large = rng.random() < 0.03
        if own:
            people += [person(25, 0, 18) for _ in range(rng.integers(1, 16 if large else 5))]
        if hht2 not in (5, 9):
            more = int(rng.integers(1, 16 if large else 3))
            kinds = [34] if hht2 in (8, 12) else [28, 29, 30, 33, 34] if hht2 != 7 else [28, 29, 30]
            people += [person(int(rng.choice(kinds)), 0, 80) for _ in range(more)]
        out.household(mafid, state, hht2, people, int(rng.integers(1, 5)))
    out.vacant(800_000_001, states[0])
    out.quarters(800_000_002, states[0], 3)
    return out


def said() -> dict[str, Any]:
    """What a ``config.json`` of PHSafe says: one budget for all, one threshold."""
    budget = {
        t.name: {f"{r}_{g}": 0.5 for r in ("usa", "state") for g in t.groups}
        for t in TABLES.values()
        if t.name not in LEFT_OUT
    }
    tau = dict.fromkeys(("PH1_num", "PH2", "PH3", "PH4", "PH6", "PH7"), 5)
    more = {"state_filter": ["44"], "reader": "csv", "privacy_defn": "zcdp"}
    return {"privacy_budget": budget, "tau": tau, **more}
