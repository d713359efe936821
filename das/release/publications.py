"""What can be done with a release of each publication: the halves that cannot see the truth.

The other halves, which make a publication from records, are in :mod:`das.runs.protocol`. No other code
asks which publication it has: it asks for the half it needs, or what that half
:data:`cannot <PublicHalf>` do."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import NAME, ForeignLine, Invariant, Line, Pure, Zcdp
from das.accounting.planning import Repricing
from das.accounting.statement import Terms
from das.engine import Progress, Silent, refuse_within_import
from das.errors import ReleaseError, UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory
from das.model.ledger import Event, RedundantMeasurements
from das.model.not_private import Private, marked
from das.model.plan import Plan
from das.model.spelling import named
from das.model.universe import FEATURES
from das.release.outcome import Outcome
from das.spec.parse import PUBLICATIONS
from das.spec.parse import publication_of as parse_named
from das.spec.parts import Run
from das.spec.specification import PlannedRecords
from das.spec.tree import tree_of
from das.stages import Stages
from das.version import __version__

if TYPE_CHECKING:  # none of it is needed to read a configuration
    from das.release.replicate_source import ReleaseSource
    from das.release.seal import Wording
    from das.size import Size


# Which rows of noisy measurements a user wants, and how many rows are summarized.
#
# Those that were drawn whole are read as files of any publisher are
# (:mod:`das.files.measurements.frame`); of others it is :mod:`das.publications.dhc.public` and
# :mod:`das.publications.detailed.public`. Like ``das.release.post_processing``, nothing here can see the truth.

#: A column by its name, as long as the others.
RowColumns = dict[str, Any]
DRAWN, STATED = "DPQuery", "Constraint"


@dataclass(frozen=True)
class RowOptions:
    """Which rows are asked for: all, or those of a ``level``, a ``query`` and some ``geocodes``; of
    a ``universe`` (persons, where none is named); ``tidy``: a row for each answer. ``kind``:
    measurements, or constraints."""

    level: str | None = None
    query: str | None = None
    geocodes: tuple[str, ...] = ()
    universe: str | None = None
    kind: str = DRAWN
    tidy: bool = True

    def on(self, path: Path, folders: Mapping[str, str]) -> RowOptions:
        """These options with the universe of the folder of files ``path``, if no universe is
        named."""
        if self.universe is not None or path.resolve().name not in folders:
            return self
        return replace(self, universe=folders[path.resolve().name])

    def among(self, universes: Sequence[str]) -> str:
        """The name of the universe."""
        if self.universe is None:
            return universes[0]
        return named(self.universe, universes, "universe", "--universe")

    def refuse_lists(self, where: Path) -> None:
        """Raises :class:`UserError` where rows are not tidy, which only files of whole measurements
        have."""
        if not self.tidy:
            raise UserError(
                "there are no rows of lists here", where=where, remedy="leave out tidy=False"
            )


def spread(variance: NDArray[np.float64], values: NDArray[np.int64]) -> dict[str, Any]:
    there = bool(len(values))
    return {
        "variance": round(float(variance.max()), 6) if len(variance) else None,
        "least value": int(values.min()) if there else None,
        "most": int(values.max()) if there else None,
    }


class Specified(Protocol):
    """What is to be measured, and stated of it: a specification, with what it names read."""

    @property
    def universes(self) -> Sequence[PlannedRecords]: ...

    @property
    def run(self) -> Run: ...

    @property
    def terms(self) -> Terms: ...

    @property
    def digest(self) -> str: ...


@dataclass(frozen=True, eq=False)
class Recomputation:
    """A second estimate from the measurements of a release.

    It has the specification's ``name`` and ``digest``, and ``said``, what else the manifest says
    about it. ``tables`` and ``cost`` are as in an outcome."""

    name: str
    digest: str
    private: Private
    said: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    tables: Mapping[str, int] = field(default_factory=dict)
    cost: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Rerun:
    """A second estimate from the measurements of ``release``, ``into`` another folder. ``changes``
    (``dotted.key=value``) are of the specification."""

    release: Path
    into: RunDirectory
    changes: Sequence[str]
    workers: int
    stages: Stages
    progress: Progress


class PublicHalf(Protocol):
    """One publication, as far as its releases go. What a subclass does not say is as here; how its
    releases are verified, each says."""

    #: What is published, in words.
    title: str
    #: By feature (:mod:`das.model.universe`), why there is none of it; it has all others.
    cannot: Mapping[str, str] = MappingProxyType({})
    #: Files without which nothing can be verified.
    needed: Sequence[str] = ()
    #: What verifying a release computes again besides its spending; in words.
    recounted: str = ""

    def resolved(self, spec: Any) -> Specified:
        """A configuration, with the public files that it names read."""
        return cast(Specified, spec)

    def outlook(self, spec: Any) -> tuple[Sequence[Size], RedundantMeasurements]:
        """By the specification alone, what a run takes, and which of its draws add nothing."""
        return (), ()

    def spare_of(self, release: Path) -> RedundantMeasurements:
        """Which draws of a run have added nothing, by the trees that were measured."""
        return ()

    def opened(self, release: Path) -> Any:
        """Open a release. Raises :class:`ReleaseError` or :class:`SpecError` if it is not whole."""

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        """A row for each level and query of the measurements of a run, a release, or of a folder of
        one; of a publication that has ``nmf``."""

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        """Rows of them, as columns by name; as :meth:`measured_summary`."""

    def planned(self, release: Path) -> tuple[Specified, Mapping[str, Sequence[Event]]]:
        """The specification, and what it draws, by universe, in the order of the ledger."""

    def notes(self, spec: Any) -> tuple[str, ...]:
        """Sentences of the statement that do not follow from its spending."""
        return ()

    @abstractmethod
    def check_measured(self, release: Path, said: Any) -> Sequence[Line | ForeignLine]:
        """Check the measurements against the statement: of its ledger or, of another publisher's
        measurements, the list of them; returns these lines. Raises :class:`ReleaseError`."""

    @abstractmethod
    def check_layout(self, release: Path) -> None:
        """Check that the folder of the measurements has no unknown file."""

    @abstractmethod
    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        """Check the exact counts that are published with the measurements against their sources,
        and return them."""

    @abstractmethod
    def check_published(self, release: Path, wording: Wording) -> None:
        """Check that the published files agree with each other."""

    @abstractmethod
    def again(self, rerun: Rerun) -> Recomputation:
        """Everything after measurement, from the files of the release alone: a whole release."""


@dataclass(frozen=True, eq=False)
class PlanChoices:
    """What a steward chooses a plan from: of a universe with this ``name``, whose records ``title``
    names; how its plan is changed, and at which ``levels``. ``spelt`` is the name of the query that
    is meant at a level (with where that is said); ``guarantee`` what a plan promises at some deltas;
    ``toml`` the tables of the configuration that has it."""

    name: str
    title: str
    repricing: Repricing
    levels: Sequence[str]
    delta: Fraction
    spelt: Callable[[str, str, str], str]
    guarantee: Callable[[Plan, Iterable[Fraction]], Zcdp | Pure]
    toml: Callable[[Plan], str]
    redundant: RedundantMeasurements = ()
    #: What else is known of a plan, in sentences.
    notes: Callable[[Plan], Sequence[str]] = lambda _: ()


class PlanningHalf(PublicHalf, Protocol):
    """Of a publication that has ``plan --margin``."""

    def choices(self, spec: Any, universe: str | None) -> PlanChoices:
        """``universe``: the first where none is named. Raises :class:`UserError` for another."""


class OptimizedHalf(PublicHalf, Protocol):
    """Of a publication that has ``optimize``."""

    #: What the best shares are found from: ``tree``, the units that are measured, or ``release``,
    #: the cells of an earlier release, where there are too many to list.
    optimized_from: Literal["tree", "release"]


class TabulatedHalf(PublicHalf, Protocol):
    """One whose counts are over a tree: of a publication that has ``tables``, and all that follows
    from counts of places."""

    def source(self, release: Path) -> ReleaseSource:
        """Its tables, and what intervals ask of it."""


def publication_of(release: Path) -> PublicHalf:
    """The public half for a release; that of counts over a tree if there is neither a specification
    nor a statement. Raises :class:`ReleaseError` if only the specification is missing, and
    :class:`SpecError` if it cannot be read."""
    path = release / "spec.toml"
    if path.is_file():
        tree = tree_of(run_directory.read_text(path, "release specification"), str(path))
        return publication(parse_named(tree, str(path)))
    if (release / NAME).is_file():
        raise ReleaseError(
            "there is no spec.toml, which says what was published and how it was measured",
            where=release,
            remedy="the release is incomplete: get it again from where it was published",
        )
    return publication(PUBLICATIONS.first[0])


def publication(name: str) -> PublicHalf:
    """The public half for a value of ``run.publication``."""
    return cast(PublicHalf, PUBLICATIONS.load_part(name, "public")())


def require(half: PublicHalf, feature: str, where: object) -> None:
    """Raises :class:`UserError`, with the reason, where a publication has no such feature."""
    if feature not in FEATURES:
        raise ValueError(f"there is no feature {feature!r}")
    if feature in half.cannot:
        raise UserError(
            f"{FEATURES[feature]} is not there for {half.title}",
            where=where,
            remedy=half.cannot[feature],
        )


# Everything after measurement, from the files of a release alone, by its publication.
#
# Like ``das.release.post_processing``, nothing here can see the truth.


def estimate_again(
    release: Path,
    out: Path,
    half: PublicHalf,
    *,
    changes: Sequence[str] = (),
    workers: int = 1,
    progress: Progress | None = None,
) -> Outcome:
    """Estimate again from a ``release`` of this publication.

    ``out/release`` is a complete release with the same measurements, ledger and statement.
    ``changes`` (``dotted.key=value``) change how it is made, if its publication allows. An
    interruption leaves nothing in ``out``; files that another process has begun there stay."""
    refuse_within_import()
    progress, directory, stages = progress or Silent(), RunDirectory(out), Stages()
    directory.refuse_if_taken()
    _refuse(changes, half)
    directory.create(confidential=False)  # ours from here on: nobody else's is ever deleted
    with directory.whole_or_nothing():
        made = half.again(Rerun(release, directory, changes, workers, stages, progress))
        said: dict[str, object] = {
            "name": made.name,
            "release": str(release.resolve()),
            "spec_digest": made.digest,
            "changes": list(changes),
            "version": __version__,
            "stages": stages.done,
            **made.said,
            "outputs": directory.digests(),
        }
        directory.write_manifest(marked(said, made.private))
    return Outcome(
        directory,
        stages.seconds,
        (*made.notes, *stages.notes),
        private=made.private,
        tables=made.tables,
        cost=made.cost,
    )


def _refuse(changes: Sequence[str], half: PublicHalf) -> None:
    """Raises :class:`UserError` for changes of a release whose estimates have none."""
    if changes and "estimate --set" in half.cannot:
        raise UserError(
            f"{changes[0].partition('=')[0]} of a release of {half.title} does not change",
            where="--set, --method",
            remedy=half.cannot["estimate --set"],
        )


# Which source of replicates a release is. Like ``das.release.post_processing``, nothing here can see the
# truth.


def source_of(release: Path, feature: str = "tables") -> ReleaseSource:
    """The tables and counts of a release, as intervals need them. Raises :class:`UserError` if its
    publication has no such ``feature``. Raises :class:`ReleaseError` or :class:`SpecError` if the
    folder is not a complete release."""
    half = publication_of(release)
    require(half, feature, release)
    return cast(TabulatedHalf, half).source(release)
