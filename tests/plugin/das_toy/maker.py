"""The half of the toy publication that sees the truth."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from das.accounting.statement import statement
from das.engine.choice import EngineChoice
from das.engine.tasks import Progress
from das.files import atomic, rows_csv
from das.files.readers.source import source_of
from das.files.run import run_directory
from das.files.run.ledger import LedgerFile, MeasuredPart
from das.files.run.run_directory import RunDirectory
from das.model.not_private import marked
from das.noise import entropy
from das.noise.entropy import ChunkLabel
from das.noise.samplers import SAMPLERS
from das.release.seal import seal
from das.runs.protocol import DerivedOutputs, MeasuringRecord, RunContext, RunInput
from das.stages import Stages
from das.truth.bookkeeping import BudgetBook, StagePlan
from das.truth.run_noise import noise_for
from das_toy.public import TABLE
from das_toy.specification import LEVEL, ToySpec


class ToyMaker:
    def __init__(self, spec: ToySpec, given: RunInput) -> None:
        self.spec, self._given = spec, given

    def begin(
        self, directory: RunDirectory, choice: EngineChoice, stages: Stages, progress: Progress
    ) -> None:
        (path,) = self._given.paths
        found = Counter(row["region"] for row in csv.DictReader(path.read_text().splitlines()))
        directory.create()
        with directory.whole_or_nothing():
            atomic.write_text(directory.release / "spec.toml", self.spec.dump())
            counts = {region: found[region] for region in self.spec.regions}
            atomic.write_json(_truth(directory), counts, 0o600)
            read = {"inputs": [asdict(source_of(path))], "truth": _digests(directory)}
            atomic.write_json(directory.inputs, marked(read, self.spec.run.private))

    def check_same(self, directory: RunDirectory) -> None:
        assert run_directory.read_text(directory.release / "spec.toml", "x") == self.spec.dump()

    def performed_by(self, choice: EngineChoice, directory: RunDirectory) -> EngineChoice:
        return choice

    def measure(self, work: RunContext) -> MeasuringRecord:
        began, directory, stage = datetime.now(UTC), work.directory, ("persons", LEVEL)
        plan = {stage: StagePlan(self.spec.events, (0,))}
        budget_book = BudgetBook.start(
            self.spec, plan, directory, _digests(directory), work.accept_spent
        )
        budget_book.begin(stage)
        for part in budget_book.missing(stage):
            source = noise_for([stage], budget_book.entries, self.spec, directory)
            truth = run_directory.read_json(_truth(directory))
            first, *_, last = [r.encode() for r in self.spec.regions]
            digest = bytes.fromhex(_digests(directory)["persons"]["counts.json"])
            plan_of = self.spec.digest.encode()
            label = ChunkLabel(
                *stage, budget_book.number(stage), first, last, plan_of, "toy", digest
            )
            mark, noise = source.mark(label), source.chunk(label)
            (draw,) = self.spec.events
            sampler = SAMPLERS[draw.mechanism.name]
            noisy = np.array(list(truth.values())) + sampler.sample(
                draw.parameter, len(truth), noise
            )
            lines = zip(self.spec.regions, noisy.tolist(), strict=True)
            path, private = directory.release / TABLE, self.spec.run.private
            rows_csv.write(path, ("region", "persons"), lines, private=private)
            files = {TABLE: run_directory.file_digest(path)}
            budget_book.acknowledge([MeasuredPart(*stage, part, mark, files)])
        name, private = entropy.stated(self.spec.run.entropy, self.spec.run.seed)
        said = statement(self.spec.terms, budget_book.close(), (), name, private)
        files = LedgerFile(directory.ledger).entries.files()
        privacy = seal(directory.release, said, self.spec.run.name, files)
        return MeasuringRecord(began, privacy)

    def derive(self, work: RunContext, measured: MeasuringRecord) -> DerivedOutputs:
        return DerivedOutputs()

    def evaluate(
        self, work: RunContext, measured: MeasuringRecord, derived: DerivedOutputs
    ) -> Mapping[str, Any]:
        return {"tables": {TABLE: len(self.spec.regions)}}

    def finished(self, directory: RunDirectory) -> Mapping[str, Any]:
        return {}


def _truth(directory: RunDirectory) -> Path:
    return directory.confidential / "truth" / "counts.json"


def _digests(directory: RunDirectory) -> dict[str, dict[str, str]]:
    return {"persons": {"counts.json": run_directory.file_digest(_truth(directory))}}
