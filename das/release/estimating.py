"""Everything after measurement, as one piece of work: of a run that goes on, or of a release that
somebody published.

Like ``das.release.post``, nothing here can see the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from das import spec as specification
from das.accounting.document import ForeignStatement
from das.engine import Progress, Silent, executor, refuse_within_import
from das.engine.choice import EngineChoice
from das.engine.local import LocalEngine
from das.engine.tasks import Engine
from das.errors import InfeasibleError, ReleaseError, UserError
from das.files import atomic
from das.files.measurements import published_layout
from das.files.release import spine as spine_file
from das.files.release import statement
from das.files.release.adoption import adopt, check_taken
from das.files.run import run_directory
from das.files.run.board import Board
from das.files.run.ledger import LedgerFile, digests
from das.files.run.run_directory import RunDirectory
from das.files.run.staged import perform
from das.model.error_rows import ErrorRow
from das.model.histogram import Histogram
from das.model.not_private import Private, marked
from das.model.prior import HousingPrior
from das.model.release import Release
from das.model.solution import Certificates
from das.model.spine import Spine
from das.release import assumed, by_shard, dictionary
from das.release import page as release_report
from das.release.post import Opened, estimate, open_part, open_release, publish
from das.release.residuals import ResidualSums, misfits, residual_sums
from das.release.seal import seal
from das.report.answers import Shown
from das.spec import Spec
from das.stages import Stages
from das.version import __version__

MISFITS = "worse-than-measured.json"  #: in a release: see :mod:`das.release.residuals`
WORSE = "worse_than_measured"  #: the list in it
#: The parts of a specification that say nothing of what is measured.
AFTERWARDS = ("estimation", "rounding", "output")


@dataclass(frozen=True, eq=False)
class Made:
    """What post-processing makes: published histograms and certificates, by universe and level; and
    what its page shows, where it has one, for another page of the same."""

    published: Mapping[str, Mapping[str, Histogram]]
    certificates: Mapping[str, Mapping[str, Certificates]]
    shown: Shown | None


@dataclass(frozen=True)
class Outcome:
    """What a run has written, and how well it did (``rows`` by universe; empty without the truth).
    ``notes``: what of published files could not be taken over as it stands, and pages that could
    not be made. ``was_finished``: this was to resume a run that had ended, and nothing was done.
    ``private``: the noise was not seeded."""

    directory: RunDirectory
    rows: Mapping[str, Sequence[ErrorRow]] = field(repr=False)
    seconds: float
    notes: tuple[str, ...] = ()
    was_finished: bool = False
    private: Private = True


def estimate_from(
    release: Path,
    out: Path,
    *,
    changes: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Outcome:
    """Everything after measurement, from the files of a release alone: of ours, or in the Bureau's
    layout.

    ``out/release`` is a whole release: it has the same measurements, ledger and statement.
    ``changes`` (``dotted.key=value``) change how it is estimated, rounded and written, such as
    ``estimation.method=topdown``; what is measured stays. What stops it leaves nothing in ``out``;
    what another process has begun there stays."""
    refuse_within_import()
    progress, directory = progress or Silent(), RunDirectory(out)
    directory.refuse_if_taken()
    if not published_layout.is_published(release) and not (release / "spec.toml").is_file():
        raise ReleaseError(
            "this is no release: it has no spec.toml, and no folders <Level>.parquet",
            where=release,
            remedy=(
                "give the folder release/ of a run, or noisy measurement files in the "
                "Bureau's layout"
            ),
        )
    with executor(workers) as pool:
        directory.create(confidential=False)  # ours from here on: nobody else's is ever deleted
        try:
            return _estimate_from(release, directory, changes, pool, workers, progress)
        except (
            InfeasibleError
        ) as error:  # what was published contradicts itself: the fault is in the input
            directory.remove()
            raise ReleaseError(
                f"its constraints cannot be met together: {error.what}",
                where=release,
                remedy="the release is altered: get it again from where it was published",
            ) from None
        except BaseException:
            directory.remove()
            raise


def _estimate_from(
    given: Path,
    directory: RunDirectory,
    changes: Sequence[str],
    pool: Executor,
    workers: int,
    progress: Progress,
) -> Outcome:
    stages, release = Stages(), given
    if published_layout.is_published(given):
        with stages("convert"):
            published_layout.convert(given, directory.release, progress=progress)
        release = directory.release
    opened = open_release(release)
    opened = opened.changed(_changed(opened.spec, changes))
    privacy = statement.read(release)
    if release == given:
        with stages("take over"):
            adopt(release, directory.release)
            taken = digests(directory.release) | {
                "spec.toml": run_directory.file_digest(release / "spec.toml")
            }
            check_taken(release, taken, privacy)
    atomic.write_text(directory.release / "spec.toml", specification.dump(opened.spec))
    seal(directory.release, privacy, opened.after.name)
    if len(spine_file.read_shards(directory.release / "spine.parquet")):
        with LocalEngine(workers) as engine:
            made = post_process_cut(
                directory.root, opened.spec, engine, EngineChoice(workers=workers), stages, progress
            )
        Board(directory.root).remove()
    else:
        made = post_process(opened, directory.release, pool, stages, progress)
    said: dict[str, object] = {
        "name": opened.after.name,
        "release": str(given.resolve()),
        "spec_digest": specification.digest(opened.spec),
        "changes": list(changes),
        "version": __version__,
        "stages": stages.done,
        "certificates": certificates_json(made.certificates),
        "outputs": directory.digests(),
    }
    directory.write_manifest(marked(said, privacy.private))
    return Outcome(
        directory,
        {},
        stages.seconds,
        (*(privacy.says if isinstance(privacy, ForeignStatement) else ()), *stages.notes),
        private=privacy.private,
    )


def _changed(spec: Spec, changes: Sequence[str]) -> Spec:
    """The specification with changes that leave alone what was measured. Raises :class:`UserError`
    for others.
    """
    if not changes:
        return spec
    new = specification.of_release(specification.dump(spec), where="--set", overrides=changes)
    for name, key in type(spec).model_fields.items():
        if name not in AFTERWARDS and getattr(new, name) != getattr(spec, name):
            raise UserError(
                f"{key.alias or name} was settled when this release was measured",
                where="--set",
                remedy=(
                    f"what can change afterwards is in {', '.join(AFTERWARDS)}; for anything else, "
                    "run again: that measures again"
                ),
            )
    return new


def post_processed(release: Path, workers: int) -> tuple[Made, Stages]:
    """Everything after measurement of one run, as one piece of work for another process."""
    stages = Stages()
    with executor(workers) as pool:
        return post_process(open_release(release), release, pool, stages, Silent()), stages


def post_process(
    opened: Opened, out: Path, pool: Executor, stages: Stages, progress: Progress
) -> Made:
    """Estimate, round, and write under ``out`` what is published of it. The pool ends with the
    estimates: its memory is free for what follows, and counted in the record of the stage."""
    results: dict[str, Release] = {}
    with stages("estimate and round"):
        for u in opened.after.universes:
            results[u.name] = estimate(opened, u, pool, progress, out)
        pool.shutdown()
    with stages("microdata and tables"):
        published = {
            u.name: publish(opened, u, results[u.name], out, progress)
            for u in opened.after.universes
        }
    certificates = {name: r.certificates for name, r in results.items()}
    with stages("residuals"):
        sums = [
            s
            for u in opened.after.universes
            for s in residual_sums(u, opened.source(u), results[u.name].histograms)
        ]
    prior = results[opened.after.persons.name].prior
    return _described(
        replace(opened, folder=out),
        opened.spine,
        published,
        certificates,
        sums,
        prior,
        stages,
        progress,
    )


def post_process_cut(
    root: Path, spec: Spec, engine: Engine, choice: EngineChoice, stages: Stages, progress: Progress
) -> Made:
    """The same of a release that is cut into shards, in the folder ``release`` of ``root``: by
    tasks over its partitions for the ``engine`` of this ``choice``. ``spec`` knows the classes of
    units that there are."""
    desk = by_shard.Desk(root)
    tasks = partial(by_shard.tasks, desk, choice.size)
    with stages("collect"):
        said = perform(engine, by_shard.collect, tasks("collect"), progress)
        by_shard.write_columns(desk, list(said.values()))
    opened = replace(open_part(desk.release, 0), spec=spec)
    with stages("trunk"), executor(choice.workers) as pool:
        trunk = by_shard.trunk(desk, opened, pool, progress)
    prior = None
    if opened.after.prior != "none":
        with stages("look"):
            perform(engine, by_shard.look, tasks("look"), progress)
            prior = by_shard.find_prior(desk, opened)
    with stages("branches"):
        answers = list(perform(engine, by_shard.branch, tasks("branch"), progress).values())
    with stages("merge"):
        published = {u.name: by_shard.sums(desk, opened, u) for u in opened.after.universes}
        by_shard.merge(desk, opened, published, progress)
        certificates = by_shard.certificates(answers, trunk)
        sums = by_shard.residuals(opened, answers, trunk)
    whole = open_part(desk.release, 1).spine
    return _described(opened, whole, published, certificates, sums, prior, stages, progress)


def _described(
    opened: Opened,
    spine: Spine,
    published: Mapping[str, Mapping[str, Histogram]],
    certificates: Mapping[str, Mapping[str, Certificates]],
    sums: Sequence[ResidualSums],
    prior: HousingPrior | None,
    stages: Stages,
    progress: Progress,
) -> Made:
    """What a release says of itself, in its folder: its dictionary (of a ``spine`` with all its
    levels), what is worse than measured, its page; and its seal."""
    out, after = opened.folder, opened.after
    assigned = {u.name: opened.assigned(u.name) for u in after.universes}
    atomic.write_text(out / dictionary.NAME, dictionary.text(after, spine, assigned, opened.apart))
    persons = after.persons
    if prior is not None:
        atomic.write_json(
            out / assumed.NAME, marked(assumed.document(prior, persons.schema), after.private)
        )
    found = misfits(sums, sum(len(u.noise) for u in after.universes))
    atomic.write_json(out / MISFITS, marked({WORSE: [asdict(m) for m in found]}, after.private))
    shown = None
    if after.report:
        with stages.page("report of the release", out / release_report.NAME):
            progress.stage("report of the release", None)
            shown = release_report.shown(opened, published)
            release_report.write(
                opened,
                shown,
                out,
                found,
                [] if prior is None else assumed.listed(prior, persons.schema),
            )
    with stages("seal"):
        seal(out, statement.read(out), after.name, LedgerFile(out / "ledger.jsonl").entries.files())
    return Made(published, certificates, shown)


def certificates_json(certificates: Mapping[str, Mapping[str, Certificates]]) -> dict[str, Any]:
    """As the manifest has them."""
    return {u: {lv: asdict(c) for lv, c in levels.items()} for u, levels in certificates.items()}
