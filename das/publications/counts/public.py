"""Counts over a tree: what can be done with a release, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from das import spec as specification
from das.accounting.document import (
    ALTERED,
    NAME,
    ForeignLine,
    ForeignStatement,
    Invariant,
    Line,
    Statement,
)
from das.accounting.draws import changed
from das.accounting.guarantee import guarantee
from das.accounting.planning import Repricing
from das.engine.choice import EngineChoice
from das.errors import InfeasibleError, ReleaseError, SpecError, UserError
from das.files import atomic
from das.files.run import run_directory
from das.files.run.ledger import digests
from das.files.run.run_directory import file_digest
from das.files.run.task_store import TaskStore
from das.model.constraint import Constraint, summed
from das.model.ledger import Event, RedundantMeasurements
from das.model.measured_spine import MeasuredSpine
from das.model.mechanisms import MECHANISMS
from das.model.not_private import Private
from das.model.spelling import query as spelt_query
from das.model.spine import Spine
from das.model.universe import PERSONS, Universe
from das.plugins import READERS
from das.release.publications import PlanChoices, PublicHalf, Recomputation, Rerun, RowOptions
from das.spec import RunSpec, Spec, budget_toml
from das.spec.notes import (
    bounds_in_words,
    counts_in_words,
    notes,
    redundant_by_spec,
    redundant_by_trees,
    states_structures,
)

if TYPE_CHECKING:
    from das.release.opened import OpenedRelease
    from das.release.replicate_source import ReleaseSource
    from das.release.seal import Wording
    from das.size import Size

#: The parts of a specification that say nothing of what is measured.
AFTERWARDS = ("estimation", "rounding", "output")
_NEEDED = ("ledger.jsonl", "spec.toml", "spine.parquet")


class PublicCounts(PublicHalf):
    title = "counts over a tree"
    optimized_from: Literal["tree", "release"] = "tree"
    needed = _NEEDED
    recounted = "; microdata, tables and exact counts, which agree"

    def resolved(self, spec: Spec) -> RunSpec:
        return spec.measured_by_us("a configuration")

    def outlook(self, spec: RunSpec) -> tuple[Sequence[Size], RedundantMeasurements]:
        from das.size import sizes  # what reads a release does without

        return sizes(spec), redundant_by_spec(spec)

    def choices(self, spec: RunSpec, universe: str | None) -> PlanChoices:
        try:
            asked = spec.universe(universe or PERSONS.name)
        except SpecError as error:
            raise UserError(error.what, where="--universe", remedy=error.remedy) from None
        plan, schema = asked.plan, asked.schema
        return PlanChoices(
            asked.name,
            asked.records,
            Repricing.of_schema(plan, schema),
            spec.geography.levels,
            spec.budget.delta,
            lambda level, query, where: spelt_query(
                query, schema, [d.query for d in plan.at(level)], where
            ),
            lambda p, deltas: guarantee(p.mechanism.currency, changed(p), deltas, [asked.name]),
            lambda p: budget_toml(spec, asked.name, p),
            [(u, i) for u, i in redundant_by_spec(spec) if u is asked],
        )

    def spare_of(self, release: Path) -> RedundantMeasurements:
        opened = self.opened(release)
        return redundant_by_trees(opened.run, opened.trees, opened.spine)

    def opened(self, release: Path) -> OpenedRelease:
        from das.release.opened import open_release  # what reads a configuration does without

        return open_release(release)

    def source(self, release: Path) -> ReleaseSource:
        from das.release.own_replicates import OwnReplicates  # no run needs it

        return OwnReplicates.from_release(self.opened(release))

    def measured_summary(self, path: Path, asked: RowOptions) -> list[dict[str, Any]]:
        from das.files.measurements import frame  # with pandas, which a run does without

        return frame.summary(_files(path, asked))

    def measured_rows(self, path: Path, asked: RowOptions) -> Any:
        """The measured rows, with the words of the release's own specification, if there is one."""
        from das.files.measurements import frame  # with pandas, which a run does without

        root, release, schema = _files(path, asked), run_directory.release_above(path), None
        if release is not None:
            every = _universes(release)
            schema = next(
                (u.schema for u in every if u.kind.file("nmf") == root.resolve().name),
                every[0].schema,
            )
        return frame.read_nmf(
            root,
            asked.level,
            asked.query,
            asked.geocodes or None,
            tidy=asked.tidy,
            schema=schema,
            kind=asked.kind,
        )

    # What verifies a release is loaded when one is verified: a run does without.

    def planned(self, release: Path) -> tuple[RunSpec, Mapping[str, Sequence[Event]]]:
        from das.release.verify.sealed import check_places, trees_of

        spec = specification.parse(
            run_directory.read_text(release / "spec.toml", "specification"),
            where=str(release / "spec.toml"),
        )
        trees = trees_of(release, [u.name for u in spec.universes])
        check_places(trees, release)
        spec = spec.on(trees)
        events = {
            u.name: [
                Event.from_measurement(
                    d,
                    u.name,
                    int(trees[u.name].classes(d.level)[d.unit_class].sum()),
                    u.schema.query(d.query).answers,
                )
                for d in u.plan.measurements
            ]
            for u in spec.universes
        }
        return spec, events

    def notes(self, spec: RunSpec) -> tuple[str, ...]:
        return notes(spec)

    def check_measured(
        self, release: Path, said: Statement | ForeignStatement
    ) -> Sequence[Line | ForeignLine]:
        from das.release.verify.measured import check_files

        lines = said.measured if isinstance(said, ForeignStatement) else said.ledger
        check_files(release, MECHANISMS[said.mechanism], lines)
        return lines

    def check_layout(self, release: Path) -> None:
        from das.release.verify.sealed import check_layout

        spec, _ = self.planned(release)
        check_layout(release, [u.name for u in spec.universes], spec.geography.levels)

    def check_content(self, release: Path, wording: Wording) -> Sequence[Invariant]:
        from das.files.release import spine as spine_file
        from das.release import dictionary
        from das.release.verify.measured import check_described
        from das.release.verify.sealed import check_dictionary, trees_of

        spec, _ = self.planned(release)
        said, names = wording.said, [u.name for u in spec.universes]
        trees, spine = trees_of(release, names), spine_file.read(release / "spine.parquet")
        for u in spec.universes:
            check_described(release, u)
        check_constraints(release, spec, trees, said)
        check_assigned(release, spec, said)
        own_spine = [name for name, tree in trees.items() if not tree.alike]
        check_dictionary(
            release, wording, dictionary.text(spec.after, spine, said.assigned, own_spine)
        )
        return tuple(listed(spec, trees, spine))

    def check_published(self, release: Path, wording: Wording) -> None:
        from das.release.verify.published import check_published

        check_published(self.opened(release), wording)

    def again(self, rerun: Rerun) -> Recomputation:
        """Estimate again. ``changes`` (``dotted.key=value``) change how it is estimated, rounded
        and written, such as ``estimation.method=topdown``; the measurements stay the same."""
        return self.estimated(rerun, rerun.release)

    def estimated(self, rerun: Rerun, taken: Path) -> Recomputation:
        """Estimate from the measurements and public files of the folder ``taken``: the release
        itself, or what was made of files of another layout."""
        from das.engine.local import LocalEngine  # what reads a release does without
        from das.files.release import statement
        from das.release.estimating import certificates_json, post_process
        from das.release.seal import seal

        release, into, progress = rerun.release, rerun.into.release, rerun.progress
        opened = self.opened(taken)
        opened = opened.changed(_changed(opened.spec, rerun.changes))
        _check_root(opened, release)
        privacy = statement.read(taken)
        if taken == release:
            with rerun.stages("take over"):
                statement.adopt(release, into)
                mine = digests(into) | {"spec.toml": file_digest(release / "spec.toml")}
                statement.check_taken(release, mine, privacy, opened.after.private)
        atomic.write_text(into / "spec.toml", opened.spec.dump())
        seal(into, privacy, opened.after.name)
        choice = EngineChoice(workers=rerun.workers)
        try:
            with LocalEngine(rerun.workers) as engine:
                made = post_process(
                    rerun.into.root, opened.spec, engine, choice, rerun.stages, progress
                )
        except InfeasibleError as error:  # what was published contradicts itself
            raise ReleaseError(
                f"its constraints cannot be met together: {error.what}",
                where=release,
                remedy="the release is altered: get it again from where it was published",
            ) from None
        TaskStore(rerun.into.root).remove()
        return Recomputation(
            opened.after.name,
            opened.spec.digest,
            privacy.private,
            {"certificates": certificates_json(made.certificates)},
            privacy.says if isinstance(privacy, ForeignStatement) else (),
        )


def _check_root(opened: OpenedRelease, where: Path) -> None:
    """Raises :class:`UserError` for the method topdown where no measurement says what to begin
    with: the root has several children, and is not measured."""
    for u in opened.after.universes:
        tree = opened.tree(u)
        root, *below = tree.spine.levels
        alone = not below or tree.spine.units(below[0]) == 1
        if opened.after.method == "topdown" and not alone and not tree.measured(root).any():
            raise UserError(
                f"the method topdown begins with {root}, and nothing is measured there",
                where=where,
                remedy="use --method full-information, which estimates it from the levels below",
            )


def _universes(release: Path) -> Sequence[Universe]:
    path = release / "spec.toml"
    text = run_directory.read_text(
        path, "release specification", "name the folder of a run, or of a release"
    )
    return specification.of_release(text, where=str(path)).after.universes


def _files(path: Path, asked: RowOptions) -> Path:
    """Where the files are: of the universe that is asked for, where one is."""
    if asked.universe is None:
        return path
    release = run_directory.release_above(path)
    if release is None:
        raise UserError(
            "of files by themselves nobody knows the universe",
            where="--universe",
            remedy="leave it out, or give a run or its release",
        )
    return run_directory.nmf_folder(release, asked.among([u.name for u in _universes(release)]))


def _changed(spec: Spec, changes: Sequence[str]) -> Spec:
    """The specification with changes that leave alone what was measured. Raises :class:`UserError`
    for others."""
    if not changes:
        return spec
    new = specification.of_release(spec.dump(), where="--set", overrides=changes)
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


# What is published exactly, held together: the specification, the constraint files and the
# statement list the same.


def listed(spec: RunSpec, trees: Mapping[str, MeasuredSpine], published: Spine) -> list[Invariant]:
    """The lines that follow from the specification and the trees, in their order and their
    words."""
    return [line for u in spec.universes for line in _of(u, spec, trees[u.name], published)]


def _of(
    universe: Universe, spec: RunSpec, tree: MeasuredSpine, published: Spine
) -> Iterator[Invariant]:
    lowest, dwelling = tree.spine.levels[-1], universe.schema.dwelling
    if (
        dwelling is not None
        and states_structures(spec)
        and (universe.exact.housing_units or universe.exact.group_quarters)
    ):
        says = bounds_in_words(lowest)
        for end, sign in (("lb", ">="), ("ub", "<=")):
            yield Invariant.make(
                universe=universe.name,
                constraint=f"{dwelling}_total_{end}",
                level=lowest,
                query=dwelling,
                sign=sign,
                says=says[end],
            )
    for level, query in universe.exact.counts:
        whole = tree.home_units(level, published)
        name = query if len(np.unique(whole)) == len(whole) else "joint_total"
        yield Invariant.make(
            universe=universe.name,
            constraint=name,
            level=level,
            query=query,
            sign="=",
            says=counts_in_words(universe, level, query),
        )


def check_constraints(
    release: Path, spec: RunSpec, trees: Mapping[str, MeasuredSpine], said: Statement
) -> None:
    """Check that the statement lists exactly the constraints of the files. Above the lowest level
    of a measured tree, the sums of what is known there count as constraints, too."""
    stated = {(c.universe, c.level, c.constraint, c.sign) for c in said.outside}
    there = set()
    for u in spec.universes:
        tree, root = trees[u.name], run_directory.nmf_folder(release, u.name)
        found = _constraints(root, tree, spec.run.private)
        if not tree.alike:
            lowest = tree.spine.levels[-1]
            given = [
                Constraint(name, lowest, name, sign, bound)
                for name, (sign, bound) in found[lowest].items()
            ]
            for c in summed(given, tree.spine):
                sign, bound = found[c.level].pop(c.name, ("", c.bound[:0]))
                if sign != c.sign or not np.array_equal(bound, c.bound):
                    raise ReleaseError(
                        f"constraint {c.name!r} of {c.level!r} is not the sum of those below it",
                        where=root,
                        remedy=ALTERED,
                    )
        there |= {
            (u.name, level, name, sign)
            for level, names in found.items()
            for name, (sign, _) in names.items()
        }
    for odd in sorted(stated ^ there):
        where = release / NAME if odd in stated else run_directory.nmf_folder(release, odd[0])
        raise ReleaseError(
            f"constraint {odd[2]!r} of {odd[0]} at {odd[1]!r} is"
            f" {'not ' if odd in stated else ''}in the files, and"
            f" {'' if odd in stated else 'not '}in the statement",
            where=where,
            remedy=ALTERED,
        )


def _constraints(
    root: Path, tree: MeasuredSpine, private: Private
) -> dict[str, dict[str, tuple[str, NDArray[np.int64]]]]:
    from das.files.measurements.nmf_reader import NmfReader  # what reads a plan does without

    reader = NmfReader(root, tree.spine, tree.measured, private=private)
    return {level: reader.constraints(level) for level in tree.spine.levels}


def check_assigned(release: Path, spec: RunSpec, said: Statement) -> None:
    """What a statement says was assigned is what the reader of the configuration may assign, in its
    words. (Whether it had to depends on the input, which nobody sees.)"""
    can = READERS[spec.data.reader].assigned
    for universe, attributes in said.assigned.items():
        for name, says in attributes.items():
            known = universe == spec.persons.name and name in {
                a.name for a in spec.persons.schema.attributes
            }
            if not known or can.get(name) != says:
                raise ReleaseError(
                    f"assigned.{universe}.{name} is what the reader {spec.data.reader!r} does"
                    " not say",
                    where=release / NAME,
                    remedy=ALTERED,
                )
