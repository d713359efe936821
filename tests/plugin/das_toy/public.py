"""The half of the toy publication that sees releases alone."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from das.accounting.document import ALTERED, Invariant, Line, Statement
from das.errors import ReleaseError
from das.files.release import statement
from das.files.run.run_directory import read_text
from das.model.ledger import Event
from das.model.universe import FEATURES
from das.release.publications import PublicHalf, Recomputation, Rerun
from das.release.seal import Wording
from das.spec.parse import load, of_kind
from das_toy.specification import ToySpec

TABLE = "nmf/Region.parquet/DPQuery/table.csv"
HAS = ("resume", "sealed", "check", "estimate", "recompute", "store")


class PublicToy(PublicHalf):
    title = "the toy publication"
    cannot: Mapping[str, str] = {f: "it is a toy" for f in FEATURES if f not in HAS}
    needed = ("ledger.jsonl", TABLE)

    def opened(self, release: Path) -> ToySpec:
        text = read_text(release / "spec.toml", "specification")
        return of_kind(ToySpec, load(text, where="spec.toml"), "spec.toml")

    def planned(self, release: Path) -> tuple[ToySpec, Mapping[str, Sequence[Event]]]:
        spec = self.opened(release)
        return spec, {"persons": spec.events}

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        rows = list(csv.DictReader((release / TABLE).read_text().splitlines()))
        if tuple(r["region"] for r in rows) != self.opened(release).regions:
            raise ReleaseError("has other regions", where=release / TABLE, remedy=ALTERED)
        return said.ledger

    def check_layout(self, release: Path) -> None: ...

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return ()

    def check_published(self, release: Path, wording: Wording) -> None: ...

    def again(self, rerun: Rerun) -> Recomputation:
        shutil.copytree(rerun.release, rerun.into.release, dirs_exist_ok=True)
        spec = self.opened(rerun.into.release)
        return Recomputation(spec.run.name, spec.digest, statement.read(rerun.release).private)
