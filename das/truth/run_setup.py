"""The beginning of a run: it writes down what it will measure, subtree by subtree."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import Invariant
from das.accounting.statement import invariants
from das.errors import UserError
from das.files import atomic
from das.files.measurements import nmf
from das.files.release import areas as areas_file
from das.files.release import measured_spine as tree_file
from das.files.release import spine as spine_file
from das.files.release.statement import adopt
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory, read_json
from das.model.confidential import Confidential
from das.model.constraint import Constraint, summed
from das.model.histogram import Histogram
from das.model.measured_spine import Subtrees, UnitClasses
from das.model.not_private import marked
from das.model.source import Source
from das.model.spine import Spine
from das.spec import RunSpec
from das.truth import files
from das.truth.prepared import Prepared

# What a run in subtrees keeps of its input, besides the files of its parts. With it, the run can
# resume without reading the input again.
#
# The file is ``confidential/resume.json``, because the digests of the input could confirm a guess.
# Everything else in it is also in the privacy statement.


@dataclass(frozen=True)
class ResumeState:
    """``outside`` lists what is published exactly. ``unit_classes`` has, by universe, what its plan
    must know about the tree. The rest is as in :class:`das.truth.prepared.Prepared`."""

    sources: tuple[Source, ...]
    assigned: Mapping[str, Mapping[str, str]]
    outside: tuple[Invariant, ...]
    unit_classes: Mapping[str, UnitClasses]
    areas: tuple[str, ...]

    @staticmethod
    def from_prepared(prepared: Prepared) -> ResumeState:
        return ResumeState(
            prepared.sources,
            prepared.assigned,
            tuple(invariants(prepared.constraints)),
            {name: UnitClasses.from_tree(tree) for name, tree in prepared.trees.items()},
            tuple(a.kind for a in prepared.areas),
        )

    def write(self, directory: RunDirectory, private: bool) -> None:
        said = marked(
            {
                "sources": [asdict(s) for s in self.sources],
                "areas": self.areas,
                "assigned": {u: dict(a) for u, a in self.assigned.items()},
                "outside": [dict(i) for i in self.outside],
                "unit_classes": {
                    u: {
                        "units": {lv: dict(c) for lv, c in w.units.items()},
                        "places_on": [[list(path), n] for path, n in w.places_on.items()],
                        "usual": w.usual,
                        "split": w.split,
                    }
                    for u, w in self.unit_classes.items()
                },
            },
            private,
        )
        atomic.write_json(directory.resume_state, said, 0o600)

    @staticmethod
    def read(directory: RunDirectory) -> ResumeState:
        found = read_json(directory.resume_state)
        return ResumeState(
            tuple(Source(**s) for s in found["sources"]),
            found["assigned"],
            tuple(Invariant.make(**i) for i in found["outside"]),
            {u: _unit_classes(w) for u, w in found["unit_classes"].items()},
            tuple(found["areas"]),
        )


def _unit_classes(given: Mapping[str, Any]) -> UnitClasses:
    def path(pairs: Any) -> tuple[tuple[str, str], ...]:
        return tuple((level, unit_class) for level, unit_class in pairs)

    return UnitClasses(
        given["units"],
        {path(p): n for p, n in given["places_on"]},
        path(given["usual"]),
        tuple(given["split"]),
    )


def begin(
    spec: RunSpec, prepared: Prepared, directory: RunDirectory, measured: RunDirectory | None = None
) -> None:
    """Make the folder of a run, and write down what it will measure, subtree by subtree. A failure
    here leaves no folder.

    If another run has ``measured`` the same input, take over its measurements and its ledger;
    nothing is left to draw."""
    _check_whole(spec, prepared.subtrees)
    directory.create()
    with directory.whole_or_nothing():
        store(prepared, prepared.trees, directory)
        _write_public(spec, prepared, directory, measured)
        ResumeState.from_prepared(prepared).write(directory, spec.run.private)
        digests = truth_digests(directory, [u.name for u in spec.universes])
        taken = {"measured_in": measured.root.name} if measured is not None else {}
        read = {"inputs": [asdict(s) for s in prepared.sources], "truth": digests}
        atomic.write_json(directory.inputs, marked(read | taken, spec.run.private))


class CountsOfSubtrees(Protocol):
    """True counts of the lowest units of a tree, and how the tree is cut into subtrees."""

    @property
    def spine(self) -> Spine: ...

    @property
    def subtrees(self) -> Subtrees: ...

    def rows(self, universe: str, start: int, stop: int) -> Confidential[Histogram]: ...


def _check_whole(spec: RunSpec, subtrees: Subtrees) -> None:
    """Housing units are estimated after all persons, so both must be estimated in one piece."""
    if len(subtrees) and spec.constraints.occupied == "consistent":
        raise UserError(
            "is for runs in one piece, and this one is cut into subtrees",
            where='constraints.occupied = "consistent"',
            remedy='leave it at "measured"; `das link` corrects a release of the DHC afterwards',
        )


def store(prepared: CountsOfSubtrees, universes: Iterable[str], directory: RunDirectory) -> None:
    """Write the true counts of each subtree to a file. A tree without subtrees is one upper tree
    and has one file."""
    ends = prepared.subtrees.lowest(prepared.spine).tolist()
    parts = list(enumerate(pairwise(ends), 1)) or [(0, (0, len(prepared.spine.codes[-1])))]
    for name in universes:
        for i, (a, b) in parts:
            files.write(directory.truth_of(name, i), prepared.rows(name, a, b))


def _write_public(
    spec: RunSpec, prepared: Prepared, directory: RunDirectory, measured: RunDirectory | None
) -> None:
    """Write what a release rests on, except its measurements. If another run has ``measured``,
    write that run's measurements, too."""
    release, spine, subtrees = directory.release, prepared.spine, prepared.subtrees
    private = spec.run.private
    atomic.write_text(release / "spec.toml", spec.dump())
    spine_file.write(release / "spine.parquet", spine, subtrees, private=private)
    if prepared.areas:
        path = release / areas_file.NAME
        areas_file.write(path, prepared.areas, spine, subtrees, private=private)
    if measured is not None:
        adopt(measured.release, release)
        return
    _write_constraints(spec, prepared, directory)
    for name, tree in prepared.trees.items():
        path = directory.nmf(name) / tree_file.NAME
        tree_file.write(path, tree, spine, subtrees, private=private)


def _write_constraints(spec: RunSpec, prepared: Prepared, directory: RunDirectory) -> None:
    """Write what is published exactly, part by part. If the measured tree differs from the
    published one, also write the sums of the bounds on its lowest units
    (:func:`das.model.constraint.summed`). The upper tree gets these sums from its subtrees."""
    subtrees, spine, level = prepared.subtrees, prepared.spine, prepared.subtrees.level
    below, above = subtrees.levels(spine, 1), subtrees.levels(spine, 0)
    for u in spec.universes:
        tree, root = prepared.trees[u.name], directory.nmf(u.name)
        home, told = tree.home_units(level, spine), dict[str, Constraint]()
        for i in range(1, len(subtrees) + 1):
            units = np.flatnonzero(
                (home >= subtrees.units(i).start) & (home < subtrees.units(i).stop)
            )
            part = tree.spine.restricted(level, units)
            own = prepared.stated_of(u.name, tree.spine.kept(level, units), below)
            sums = [] if tree.alike else list(summed(own, part))
            kept = [*own, *(c for c in sums if c.level in below)]
            nmf.write_constraints(root, u.schema, part, kept, i, private=spec.run.private)
            for c in (c for c in sums if c.level == level):
                empty = np.zeros((len(home), c.bound.shape[1]), dtype=np.int64)
                told.setdefault(c.name, replace(c, bound=empty))
                told[c.name] = replace(c, bound=_put(told[c.name].bound, units, c.bound))
        own = prepared.stated(u.name, above)
        at_upper_tree = list(told.values())
        if len(subtrees):
            upper_tree = tree.spine.truncated(level)
            sums = [*at_upper_tree, *summed(at_upper_tree, upper_tree)]
        else:
            upper_tree, sums = tree.spine, [] if tree.alike else list(summed(own, tree.spine))
        nmf.write_constraints(
            root, u.schema, upper_tree, [*own, *sums], 0, private=spec.run.private
        )


def _put(
    bound: NDArray[np.int64], units: NDArray[np.int64], rows: NDArray[np.int64]
) -> NDArray[np.int64]:
    out = bound.copy()
    out[units] = rows
    return out


def truth_digests(directory: RunDirectory, universes: Sequence[str]) -> dict[str, dict[str, str]]:
    """Digests that identify the true counts that are measured, by universe."""
    return {name: run_directory.file_digests(directory.truth_of(name).parent) for name in universes}
