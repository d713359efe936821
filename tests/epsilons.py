"""The epsilon of a plan is found once on a machine, by the first process of a test session that
asks: tests that make runs have few different budgets. What is tested of accounting itself asks
:mod:`das.accounting.profile`, and is not answered from here."""

from __future__ import annotations

import hashlib
import os
import pickle
from fractions import Fraction
from pathlib import Path

from das.accounting import profile
from das.accounting.draws import Differing
from das.accounting.worst import WorstLoss


class Epsilons:
    """:func:`das.accounting.guarantee.worst_epsilon`, from a folder that all processes share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, found: Differing, delta: Fraction) -> WorstLoss:
        asked = pickle.dumps((found, delta))
        path = self.folder / hashlib.sha256(asked).hexdigest()
        if not path.exists():
            draft = path.with_suffix(f".{os.getpid()}")
            draft.write_bytes(pickle.dumps(profile.worst_epsilon(found, delta)))
            draft.replace(path)
        known: WorstLoss = pickle.loads(path.read_bytes())
        return known
