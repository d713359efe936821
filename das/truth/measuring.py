"""The measurement of a whole release: every level into its file, in the ledger on disk before its
first draw.

This is the part of a run that sees the truth and spends the budget.
:class:`das.truth.bookkeeping.Books` are opened, each part is measured by :func:`measure_part` and
acknowledged, and they are closed. A run that was interrupted goes on with what its ledger says:
parts that were acknowledged stand, others are measured again. That is the same draw where there is
a run key; otherwise what was drawn and lost is spent, and is stated."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from das.errors import PrivacyError, UserError
from das.files.measurements import nmf
from das.files.run import run_directory
from das.files.run.ledger import Entries, MeasuredPart, StageKey
from das.files.run.run_directory import RunDirectory
from das.model.confidential import Confidential
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine
from das.model.measurement import Measurement
from das.model.source import Source
from das.model.universe import Planned
from das.model.ways import Ways
from das.noise.entropy import Entropy
from das.spec import RunSpec
from das.truth.bookkeeping import Measuring, StagePlan, source_of
from das.truth.measure import draw, events


def planned(
    spec: RunSpec,
    ways: Mapping[str, Ways],
    shards: Callable[[str], tuple[int, ...]] = lambda _: (0,),
) -> dict[StageKey, StagePlan]:
    """What each stage draws, over whole trees; ``spec`` knows them (:meth:`das.spec.RunSpec.on`).
    ``shards``: those that a level is measured by."""
    return {
        (u.name, level): StagePlan(events(level, u.name, u.schema, units, u.plan), shards(level))
        for u in spec.universes
        for level, units in ways[u.name].units.items()
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
    shard: int = 0,
) -> MeasuredPart:
    """Measure one level of a shard, whose tree and truth these are, and write its files: they are
    on disk when this returns.

    It is the same whenever and wherever it is done, if ``noise`` is that of a key; ``number`` is
    how often the level is drawn (:meth:`das.truth.bookkeeping.Books.number`). Its draws are in the
    ledger before; the part is acknowledged after.

    Raises:
        PrivacyError: the noise cannot be drawn again, and may have been drawn, by somebody who was
            lost.
    """
    if noise.key_mark is None and not RunDirectory(release.parent).claim(
        u.name, level, shard, number
    ):
        raise PrivacyError(
            "it may have been drawn by a task that was lost, and its noise cannot be drawn again",
            where=f"{u.name} at {level}, part {shard}",
            remedy="go on with --resume --accept-spent, which counts a second draw",
        )
    marks, root = hashlib.sha256(), run_directory.nmf_folder(release, u.name)

    def drawn() -> Iterator[Measurement]:
        for chunk in draw(truth, level, u.name, u.schema, tree, u.plan, noise, number):
            marks.update(bytes.fromhex(chunk.mark))
            yield from chunk.measurements

    files = nmf.write(root, level, u.schema, tree.spine, drawn(), shard, private=noise.private)
    return MeasuredPart(
        u.name,
        level,
        shard,
        marks.hexdigest()[:32],
        {f"{root.name}/{p}": sha256 for p, sha256 in files.items()},
    )


_REMEDY = "resume with what the run began with, or start another in a new folder"


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


def noise_of(spec: Measuring, directory: RunDirectory) -> Entropy:
    """The source of a run whose books are open: whoever measures reads the run key from its
    file.
    """
    source = source_of(spec, directory)
    if source is None:
        raise PrivacyError(
            "there is no run key", where=directory.confidential, remedy="resume the run"
        )
    return source


def noise_for(
    stages: Iterable[StageKey], books: Entries, spec: Measuring, directory: RunDirectory
) -> Entropy:
    """The same for who measures these ``stages``, as often drawn as these ``books`` say.

    Raises:
        PrivacyError: the key is not the one that the last attempt at a stage goes by. A task that
            outlives its run has the number of one attempt, and finds the key of a later one: what
            follows from both is a draw that no line of the ledger counts.
    """
    source, last = noise_of(spec, directory), books.last()
    for stage in stages:
        if stage not in last or last[stage].key != source.key_mark:
            raise PrivacyError(
                f"the run key is not the one that {stage[0]} at {stage[1]} is measured by",
                where=directory.ledger,
                remedy="resume the run: it says what is lost, and how it goes on",
            )
    return source


def check_sources(sources: Sequence[Source], directory: RunDirectory) -> None:
    """The input is the one that the run began with. Raises :class:`UserError`."""
    if run_directory.read_json(directory.inputs)["inputs"] != [asdict(s) for s in sources]:
        raise UserError(
            "the input is not the one that this run began with",
            where=directory.root,
            remedy=_REMEDY,
        )
