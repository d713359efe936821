"""TopDown as a method of protection: the ordinary pipeline on the records of a study, in a temporary
folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

from das import pipeline
from das.accounting.zcdp import tight
from das.errors import InputError, SpecError
from das.files import study_files
from das.model.exact import exact
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.protect.method import Guarantee, ProtectionMethod
from das.protect.published import ProtectedTables
from das.protect.study_records import StudyRecords
from das.protect.table_set import TableSet
from das.protect.unprotected import exact_lines
from das.release.opened import open_release
from das.spec import RunSpec, of_kind, of_tree

#: Of the budget the lowest level has this share, as in the redistricting data of 2020, and the
#: others have equal ones.
LOWEST = Fraction(1, 20)
#: Of a level the full histogram has half of the budget; the total and the attributes the rest.
DETAILED = Fraction(1, 2)
DELTA = Fraction(1, 10**10)


@dataclass(frozen=True)
class TopDown(ProtectionMethod):
    """Noisy measurements and what is estimated from them, at ``rho`` in all.

    ``levels``: the share of each level; absent, the lowest has 1/20 and the others equal shares.
    ``queries``: the shares of queries, the same at each level; absent, half for the full histogram,
    the rest for the total and the attributes alike. ``by_level``: shares of one level instead.
    ``estimation``: ``topdown`` or ``full-information``. ``total``: the level whose totals are
    exact, outside the guarantee; absent, the root.

    A study runs it on the tree of the sampled places: its noise in a place does not depend on the
    others, and a whole state of large histograms takes minutes a run."""

    rho: str = "1"
    levels: Mapping[str, str] = field(default_factory=dict)
    queries: Mapping[str, str] = field(default_factory=dict)
    by_level: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    estimation: str = "topdown"
    total: str = ""

    name: ClassVar[str] = "topdown"
    random: ClassVar[bool] = True
    guarantee: ClassVar[Guarantee] = Guarantee.FORMAL

    def __post_init__(self) -> None:
        try:
            positive = exact(self.rho) > 0
        except (ValueError, SpecError):
            positive = False
        if not positive:
            raise SpecError(
                f"rho is {self.rho!r}", where=self.name, remedy='give a positive one such as "5/2"'
            )

    @property
    def label(self) -> str:
        epsilon = tight(exact(self.rho), DELTA)
        return f"TopDown, rho {float(exact(self.rho)):.3g} (epsilon {epsilon:.3g} at 1e-10)"

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        """Raises :class:`SpecError` where the plan does not fit the schema or the levels."""
        spine = records.spine
        with tempfile.TemporaryDirectory(prefix="das-topdown-") as folder:
            path = Path(folder) / "records.parquet"
            study_files.write_counts(path, spine, records.histogram(), records.schema)
            spec = self.specification(records.schema, spine, path, int.from_bytes(key[:7], "big"))
            outcome = pipeline.run(spec, Path(folder) / "run", ignore_memory=True)
            opened = open_release(outcome.directory.release)
            found = opened.published(opened.run.persons)
            microdata = _in_order(found, opened.spine, spine)
        return ProtectedTables(spine, tables, exact_lines(microdata, spine, tables), microdata)

    def specification(self, schema: Schema, spine: Spine, path: Path, seed: int) -> RunSpec:
        """The configuration of the run. The schema has another name, so that no published layout
        is taken for its own."""
        levels = list(spine.levels)
        tree: dict[str, Any] = {
            "run": {"name": "study", "seed": seed},
            "data": {
                "reader": "table",
                "path": [str(path)],
                "columns": {
                    "count": "count",
                    "geography": {lv: f"code:{lv}" for lv in levels},
                    "attributes": {a.name: f"attribute:{a.name}" for a in schema.attributes},
                },
            },
            "schema": _schema_tree(schema),
            "geography": {"levels": levels},
            "constraints": {"total": self.total or levels[0]},
            "estimation": {"method": self.estimation},
            "budget": {
                "rho": self.rho,
                "neighbours": "bounded",
                "delta": "1e-10",
                "levels": dict(self.levels) or _shares(levels),
                "queries": {
                    lv: dict(self.by_level.get(lv, self.queries)) or _queries(schema)
                    for lv in levels
                },
            },
            "output": {"report": False, "tables": False},
        }
        return of_kind(RunSpec, of_tree(tree, where=self.name), self.name)


def _shares(levels: list[str]) -> dict[str, str]:
    if len(levels) == 1:
        return {levels[0]: "1"}
    upper = (1 - LOWEST) / (len(levels) - 1)
    return {**dict.fromkeys(levels[:-1], str(upper)), levels[-1]: str(LOWEST)}


def _queries(schema: Schema) -> dict[str, str]:
    names = [a.name for a in schema.attributes]
    if len(names) == 1:
        return {"total": "1/2", "detailed": "1/2"}
    part = (1 - DETAILED) / (len(names) + 1)
    return {**dict.fromkeys(["total", *names], str(part)), "detailed": str(DETAILED)}


def _schema_tree(schema: Schema) -> dict[str, Any]:
    return {
        "name": f"study-{schema.name}",
        "attributes": {a.name: list(a.levels) for a in schema.attributes},
        "groupings": {
            g.name: {
                "attribute": g.attribute,
                "groups": {
                    name: [
                        x
                        for x, i in zip(schema.attribute(g.attribute).levels, g.index, strict=True)
                        if i == number
                    ]
                    for number, name in enumerate(g.groups)
                },
            }
            for g in schema.recodes
        },
        "impossible": [{k: list(v) for k, v in box.items()} for box in schema.impossible],
    }


def _in_order(found: Histogram, theirs: Spine, ours: Spine) -> Histogram:
    """Their lowest units in our order."""
    level = ours.levels[-1]
    at = theirs.find(level, ours.codes[-1])
    if (at < 0).any() or theirs.units(level) != len(at):
        raise InputError("the run has other places than the study", where="topdown")
    return found.some(at)
