"""The half of the toy publication that sees releases alone."""

from __future__ import annotations

import csv
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from das.accounting.document import ALTERED, Invariant, Line, Statement
from das.errors import ReleaseError
from das.files.release import statement
from das.files.run.run_directory import RunDirectory, read_text
from das.model.features import FEATURES
from das.model.ledger import Event
from das.release.publications import Recomputation
from das.release.wording import Wording
from das.spec.parse import load, of_kind
from tests.toy.specification import ToySpec

TABLE = "nmf/Region.parquet/DPQuery/table.csv"
HAS = ("resume", "sealed", "check", "estimate", "recompute", "store")


class PublicToy:
    title = "the toy publication"
    cannot: Mapping[str, str] = {f: "it is a toy" for f in FEATURES if f not in HAS}
    needed = ("ledger.jsonl", TABLE)
    recounted = ""

    def resolved(self, spec: ToySpec) -> ToySpec:
        return spec

    def outlook(self, spec: ToySpec) -> tuple[Sequence[Any], Sequence[Any]]:
        return (), ()

    def spare_of(self, release: Path) -> Sequence[Any]:
        return ()

    def opened(self, release: Path) -> ToySpec:
        text = read_text(release / "spec.toml", "specification")
        return of_kind(ToySpec, load(text, where="spec.toml"), "spec.toml")

    def planned(self, release: Path) -> tuple[ToySpec, Mapping[str, Sequence[Event]]]:
        spec = self.opened(release)
        return spec, {"persons": spec.events}

    def notes(self, spec: ToySpec) -> tuple[str, ...]:
        return ()

    def check_measured(self, release: Path, said: Statement) -> Sequence[Line]:
        rows = list(csv.DictReader((release / TABLE).read_text().splitlines()))
        if tuple(r["region"] for r in rows) != self.opened(release).regions:
            raise ReleaseError("has other regions", where=release / TABLE, remedy=ALTERED)
        return said.ledger

    def check_layout(self, release: Path) -> None: ...

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        return ()

    def check_published(self, release: Path, wording: Wording) -> None: ...

    def again(self, release: Path, into: RunDirectory, *_: Any) -> Recomputation:
        shutil.copytree(release, into.release, dirs_exist_ok=True)
        spec = self.opened(into.release)
        return Recomputation(spec.run.name, spec.digest, statement.read(release).private)
