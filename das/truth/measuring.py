"""The measurement of a whole release: every level into its file, in the ledger on disk before its
first draw.

This is the part of a run that sees the truth and spends the budget.
:class:`das.truth.bookkeeping.BudgetBook` are opened, each part is measured by :func:`measure_part`
and acknowledged, and they are closed. A run that was interrupted goes on with what its ledger says:
parts that were acknowledged stand, others are measured again. That is the same draw where there is
a run key; otherwise what was drawn and lost is spent, and is stated."""

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
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.source import Source
from das.model.unit_classes import UnitClasses
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
    """What each stage draws, over whole trees; ``spec`` knows them (:meth:`das.spec.RunSpec.on`).
    ``subtrees``: those that a level is measured by."""
    return {
        (u.name, level): StagePlan(events(level, u.name, u.schema, units, u.plan), subtrees(level))
        for u in spec.universes
        for level, units in unit_classes[u.name].units.items()
    }


def measure_part(
    u: Planned,
    level: str,
    truth: Confidential[Histogram],
    tree: MeasuredSpine,
    noise: Entropy,
    release: Path,
    *,
    number: int = 1,
    subtree: int = 0,
) -> MeasuredPart:
    """Measure one level of a subtree, whose tree and truth these are, and write its files: they are
    on disk when this returns.

    It is the same whenever and wherever it is done, if ``noise`` is that of a key; ``number`` is
    how often the level is drawn (:meth:`das.truth.bookkeeping.BudgetBook.number`). Its draws are in
    the ledger before; the part is acknowledged after.

    Raises:
        PrivacyError: the noise cannot be drawn again, and may have been drawn, by somebody who was
            lost.
    """
    if noise.key_mark is None and not RunDirectory(release.parent).claim(
        u.name, level, subtree, number
    ):
        raise PrivacyError(
            "a lost task may have drawn it, and its noise cannot be drawn again",
            where=f"{u.name} at {level}, part {subtree}",
            remedy="continue with --resume --accept-spent, which charges a second measurement",
        )
    marks, root = hashlib.sha256(), run_directory.nmf_folder(release, u.name)

    def drawn() -> Iterator[Measurement]:
        for chunk in draw(truth, level, u.name, u.schema, tree, u.plan, noise, number):
            marks.update(bytes.fromhex(chunk.mark))
            yield from chunk.measurements

    files = nmf.write(root, level, u.schema, tree.spine, drawn(), subtree, private=noise.private)
    return MeasuredPart(
        u.name,
        level,
        subtree,
        marks.hexdigest()[:32],
        {f"{root.name}/{p}": sha256 for p, sha256 in files.items()},
    )


_REMEDY = "resume with the inputs that the run began with, or start another run in a new folder"


def check_configuration(spec: RunSpec, directory: RunDirectory) -> None:
    """The folder is that of a run of this specification."""
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
    """The input is the one that the run began with. Raises :class:`UserError`."""
    if run_directory.read_json(directory.inputs)["inputs"] != [asdict(s) for s in sources]:
        raise UserError(
            "the input is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )
