"""What a run in subtrees keeps of its input, besides the files of its parts. With it, the run can
resume without reading the input again.

The file is ``confidential/resume.json``, because the digests of the input could confirm a guess.
Everything else in it is also in the privacy statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from das.accounting.document import Invariant
from das.accounting.statement import invariants
from das.files import atomic
from das.files.run.run_directory import RunDirectory, read_json
from das.model.not_private import marked
from das.model.source import Source
from das.model.unit_classes import UnitClasses
from das.truth.prepared import Prepared


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
    def of(prepared: Prepared) -> ResumeState:
        return ResumeState(
            prepared.sources,
            prepared.assigned,
            tuple(invariants(prepared.constraints)),
            {name: UnitClasses.of(tree) for name, tree in prepared.trees.items()},
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
