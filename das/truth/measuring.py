"""The measurement of a whole release: every level goes to its file, and is in the ledger on disk
before its first draw.

This is the part of a run that sees the truth and spends the budget. The run opens a
:class:`das.truth.bookkeeping.BudgetBook`, measures each part with :func:`measure_part`,
acknowledges it, and closes the book. An interrupted run resumes from its ledger: parts that were
acknowledged stand, and others are measured again. With a run key that is the same draw. Otherwise
the lost draws are spent, and the privacy statement says so."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from das.errors import PrivacyError, UserError
from das.files.measurements import nmf
from das.files.run import run_directory
from das.files.run.ledger import MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, UnitClasses
from das.model.measurement import Measurement
from das.model.source import Source
from das.model.universe import Planned
from das.noise.entropy import Entropy
from das.spec import RunSpec
from das.truth.bookkeeping import StagePlan
from das.truth.measure import draw, events


def planned(
    spec: RunSpec,
    unit_classes: Mapping[str, UnitClasses],
    subtrees: Callable[[str], tuple[int, ...]] = lambda _: (0,),
) -> dict[StageKey, StagePlan]:
    """The draws of each stage, over whole trees; ``spec`` knows the trees
    (:meth:`das.spec.RunSpec.on`). ``subtrees`` says by which subtrees a level is measured."""
    return {
        (u.name, level): StagePlan(events(level, u.name, u.schema, units, u.plan), subtrees(level))
        for u in spec.universes
        for level, units in unit_classes[u.name].units.items()
    }


def measure_part(
    universe: Planned,
    level: str,
    truth: Confidential[Histogram],
    tree: MeasuredSpine,
    noise: Entropy,
    release: Path,
    *,
    number: int = 1,
    subtree: int = 0,
) -> MeasuredPart:
    """Measure one level of a subtree, given its tree and its truth, and write its files. They are
    on disk when this returns.

    If ``noise`` has a key, the result is the same at any time and on any machine. ``number`` is how
    often the level is drawn (:meth:`das.truth.bookkeeping.BudgetBook.number`). The ledger must have
    the draws before this is called; the caller acknowledges the part afterwards.

    Raises:
        PrivacyError: the noise cannot be drawn again, and a lost task may have drawn it."""
    if noise.key_mark is None and not RunDirectory(release.parent).claim(
        universe.name, level, subtree, number
    ):
        raise PrivacyError(
            "a lost task may have drawn it, and its noise cannot be drawn again",
            where=f"{universe.name} at {level}, part {subtree}",
            remedy="continue with --resume --accept-spent, which charges a second measurement",
        )
    marks, root = hashlib.sha256(), run_directory.nmf_folder(release, universe.name)

    def drawn() -> Iterator[Measurement]:
        for chunk in draw(
            truth, level, universe.name, universe.schema, tree, universe.plan, noise, number
        ):
            marks.update(bytes.fromhex(chunk.mark))
            yield from chunk.measurements

    files = nmf.write(
        root, level, universe.schema, tree.spine, drawn(), subtree, private=noise.private
    )
    return MeasuredPart(
        universe.name,
        level,
        subtree,
        marks.hexdigest()[:32],
        {f"{root.name}/{p}": sha256 for p, sha256 in files.items()},
    )


_REMEDY = "resume with the inputs that the run began with, or start another run in a new folder"


def check_configuration(spec: RunSpec, directory: RunDirectory) -> None:
    """Raises :class:`UserError` if the folder is not that of a run of this specification."""
    if (
        run_directory.read_text(directory.release / "spec.toml", "release specification")
        != spec.dump()
    ):
        raise UserError(
            "the configuration is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )


def check_sources(sources: Sequence[Source], directory: RunDirectory) -> None:
    """Raises :class:`UserError` if the input is not the one that the run began with."""
    if run_directory.read_json(directory.inputs)["inputs"] != [asdict(s) for s in sources]:
        raise UserError(
            "the input is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )
