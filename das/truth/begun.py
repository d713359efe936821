"""What a run that is cut into shards keeps of its input beside the files of its parts: so that it
can go on without reading it again.

It lies in ``confidential/begun.json``, for the digests of the input could confirm a guess; all else
is in the privacy statement."""

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
from das.model.ways import Ways
from das.truth.prepared import Prepared


@dataclass(frozen=True)
class Begun:
    """``outside``: what is published exactly; ``ways``, by universe, what its plan asks of the
    tree; the rest is as in
    :class:`das.truth.prepared.Prepared`."""

    sources: tuple[Source, ...]
    assigned: Mapping[str, Mapping[str, str]]
    outside: tuple[Invariant, ...]
    ways: Mapping[str, Ways]
    areas: tuple[str, ...]

    @staticmethod
    def of(prepared: Prepared) -> Begun:
        return Begun(
            prepared.sources,
            prepared.assigned,
            tuple(invariants(prepared.constraints)),
            {name: Ways.of(tree) for name, tree in prepared.trees.items()},
            tuple(a.kind for a in prepared.areas),
        )

    def write(self, directory: RunDirectory, private: bool) -> None:
        said = marked(
            {
                "sources": [asdict(s) for s in self.sources],
                "areas": self.areas,
                "assigned": {u: dict(a) for u, a in self.assigned.items()},
                "outside": [dict(i) for i in self.outside],
                "ways": {
                    u: {
                        "units": {lv: dict(c) for lv, c in w.units.items()},
                        "places_on": [[list(path), n] for path, n in w.places_on.items()],
                        "usual": w.usual,
                        "split": w.split,
                    }
                    for u, w in self.ways.items()
                },
            },
            private,
        )
        atomic.write_json(directory.begun, said, 0o600)

    @staticmethod
    def read(directory: RunDirectory) -> Begun:
        found = read_json(directory.begun)
        return Begun(
            tuple(Source(**s) for s in found["sources"]),
            found["assigned"],
            tuple(Invariant.make(**i) for i in found["outside"]),
            {u: _ways(w) for u, w in found["ways"].items()},
            tuple(found["areas"]),
        )


def _ways(given: Mapping[str, Any]) -> Ways:
    def path(pairs: Any) -> tuple[tuple[str, str], ...]:
        return tuple((level, unit_class) for level, unit_class in pairs)

    return Ways(
        given["units"],
        {path(p): n for p, n in given["places_on"]},
        path(given["usual"]),
        tuple(given["split"]),
    )
