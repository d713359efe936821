"""What a run of the DHC needs, simulated: a redistricting release of the extract that comes with
the package, and linked records with its counts. It is for a first look without data of one's
own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from das import spec
from das.engine.choice import EngineChoice
from das.engine.tasks import Progress
from das.files import packaged
from das.files.run.run_directory import RunDirectory
from das.publications.dhc.truth import simulated
from das.runs import pipeline

#: The packaged configuration of the redistricting release.
CONFIG = "pl94-2010"
#: Of the simulated records: everybody gets the same.
SEED = 1


@dataclass(frozen=True)
class SimulatedInput:
    """Two folders next to that of the run: a ``redistricting`` run, and ``linked`` records."""

    redistricting: Path
    linked: Path

    @staticmethod
    def beside(out: Path) -> SimulatedInput:
        return SimulatedInput(
            out.with_name(f"{out.name}-redistricting"), out.with_name(f"{out.name}-linked")
        )

    @property
    def release(self) -> Path:
        return self.redistricting / "release"

    def make(
        self, seed: int | None, workers: int, progress: Progress, *, release: bool = True
    ) -> None:
        """Make what is missing; ``seed`` is that of the noise, if the run has one. If ``release``
        is false, it makes the linked records alone.

        Raises:
            UserError: a folder has something else in it."""
        changes = [] if seed is None else [f"run.seed={seed}"]
        text, folder = packaged.configuration(Path(CONFIG))
        chosen = spec.parse(text, where=CONFIG, overrides=changes, folder=folder)
        run = RunDirectory(self.redistricting)
        if release and not run.manifest.exists():
            pipeline.run(
                chosen,
                run.root,
                engine=EngineChoice(workers=workers),
                progress=progress,
                resume=run.can_go_on(),
            )
        if not self.linked.exists():
            paths = [Path(p) for p in chosen.data.path]
            simulated.simulate(paths, self.linked, seed=SEED, progress=progress)
