"""A study of protection methods, resolved: its schema, table sets, uses, and every point of the
frontier, a setting of a method with one key."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from das.accounting.document import decimal
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.zcdp import tight
from das.engine import Progress
from das.errors import InputError, SpecError, UserError
from das.files import atomic, packaged
from das.files.run.run_directory import create_private, read_text, refuse_full
from das.model.exact import exact
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.tabulation import Tabulation
from das.release.opened import open_release
from das.runs import pipeline
from das.spec import RunSpec, of_kind, of_tree
from das.spec.tree import built, override
from das.tools.protection.attack import AttackOptions
from das.tools.protection.census_tables import DHC as WITHOUT_RELATIONSHIPS
from das.tools.protection.census_tables import joined_set, named_set, own_set, schema_of
from das.tools.protection.least import files as least_files
from das.tools.protection.least.files import LeastRelease
from das.tools.protection.published import ProtectedTables, TableSet
from das.tools.protection.study import files
from das.tools.protection.study.spec import (
    OWN,
    OWN_METHOD,
    MethodSetting,
    StudySpec,
    StudyTable,
    draft_of_linked,
    study_of,
)
from das.tools.protection.truth import method as protection_method
from das.tools.protection.truth import study_input
from das.tools.protection.truth.method import (
    Guarantee,
    ProtectionMethod,
    StudyRecords,
    exact_lines,
    own_method,
)
from das.tools.protection.truth.methods.coarsening import LeastCoarsening, coarsened
from das.tools.protection.uses import AREAS, TableUse, UsesAtLevels


class StudyMethods(Mapping[str, type[ProtectionMethod]]):
    """Every method that a study can name: those of packages, which it lists, and those of files,
    ``file.py:Class``."""

    def __contains__(self, name: object) -> bool:
        return OWN_METHOD in str(name) or name in protection_method.METHODS

    def __getitem__(self, name: str) -> type[ProtectionMethod]:
        return (
            own_method(name, Path(), "") if OWN_METHOD in name else protection_method.METHODS[name]
        )

    def __iter__(self) -> Iterator[str]:
        return iter(protection_method.METHODS)

    def __len__(self) -> int:
        return len(protection_method.METHODS)


METHODS = StudyMethods()
#: What an intruder knows and wants to know, of the schemas of named sets.
_KNOWN, _SENSITIVE = ("sex", "age"), ("hispanic", "cenrace")


@dataclass(frozen=True)
class IntruderOptions:
    """``[attack]``: the attributes that an intruder ``known`` persons by, and those that are
    ``sensitive``; ``options`` are those of the reconstruction."""

    known: tuple[str, ...] = _KNOWN
    sensitive: tuple[str, ...] = _SENSITIVE
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _ = self.reconstruction  # refuses unknown options
        if not self.known or not self.sensitive or set(self.known) & set(self.sensitive):
            raise SpecError("known and sensitive must be different attributes, one at least each")

    @property
    def reconstruction(self) -> AttackOptions:
        return built(AttackOptions, self.options, "options")


@dataclass(frozen=True)
class FrontierPoint:
    """A setting of a curve with the key of one repeat. ``also`` is the digest of another product's
    tables, where the attack has them besides."""

    curve: str
    title: str
    setting: MethodSetting
    number: int
    repeat: int
    also: str = ""

    @property
    def method(self) -> ProtectionMethod:
        value: ProtectionMethod = self.setting.value
        return value

    @property
    def name(self) -> str:
        """The name of its files: the same for the same setting of the same curve."""
        text = json.dumps([type(self.method).name, self.setting.given], sort_keys=True)
        curve = re.sub(r"[^\w-]+", "_", self.curve).strip("_") or "method"
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        return f"{curve}-{digest}-{self.repeat}" + (f"-also-{self.also}" if self.also else "")


@dataclass(frozen=True, eq=False)
class ResolvedStudy:
    """What a study says, as values."""

    spec: StudySpec

    @cached_property
    def schema(self) -> Schema:
        spec = self.spec
        if spec.published.set != OWN:
            return schema_of(spec.published.set)
        if spec.schema_ is not None:
            return spec.schema_.build()
        return schema_of(WITHOUT_RELATIONSHIPS)

    @cached_property
    def published(self) -> TableSet:
        """The tables that every method protects."""
        spec = self.spec
        own = self._own(spec.tables, spec.table_levels, spec.study.name)
        if spec.published.set == OWN:
            assert own is not None
            return own
        named = named_set(spec.published.set, spec.table_levels)
        return named if own is None else joined_set("tables", named, own)

    @cached_property
    def both(self) -> TableSet | None:
        """The same with those of another product."""
        other = self._own(self.spec.also, self.spec.table_levels[-1:], "also")
        return None if other is None else joined_set("--also", self.published, other)

    def _own(
        self, tables: Mapping[str, StudyTable], levels: Sequence[str], name: str
    ) -> TableSet | None:
        found: dict[str, list[Tabulation]] = {}
        for key, t in tables.items():
            columns = tuple((c.label, c.where) for c in t.columns)
            one = Tabulation(key, t.title, t.query, columns, t.where, total=t.query != "total")
            for level in t.levels or levels:
                found.setdefault(level, []).append(one)
        return own_set(name, self.schema, found) if found else None

    def tables(self, also: object) -> TableSet:
        """Those that are attacked."""
        found = self.both if also else self.published
        assert found is not None
        return found

    def uses_of(self, published: TableSet, also: object) -> UsesAtLevels:
        """How tables that are published instead of those of the study answer its uses."""
        return UsesAtLevels(published, self.uses, self.tables(also))

    @cached_property
    def uses(self) -> tuple[TableUse, ...]:
        """The counts whose errors are measured."""
        spec, out = self.spec, []
        for name, u in spec.uses.items():
            if u.query is not None:
                out.append(TableUse.of_query(name, u.title, self.schema, u.query))
            else:
                out.append(TableUse.of_tables(name, u.title, self.published, u.tables))
        if not out:
            out.append(TableUse.of_query("total", "", self.schema, "total"))
            whole = " * ".join(a.name for a in self.schema.attributes)
            out.append(TableUse.of_query("crossed", "", self.schema, whole))
        return tuple(out)

    @cached_property
    def intruder(self) -> IntruderOptions:
        found = built(IntruderOptions, self.spec.attack, "attack")
        for name in (*found.known, *found.sensitive):
            self.schema.attribute(name)
        return found

    @property
    def map_use(self) -> tuple[str, str]:
        """The use and the level whose error is the map's horizontal axis."""
        use = self.spec.map.use or self.uses[-1].name
        level = self.spec.map.level or self.spec.geography.levels[-1]
        if level != AREAS and level not in self.spec.geography.levels:
            raise SpecError(
                f"there is no level {level!r}",
                where="map.level",
                remedy=f"use {', '.join(self.spec.geography.levels)} or {AREAS}",
            )
        return use, level

    def points(self) -> Iterator[FrontierPoint]:
        """Every point: of a method without random numbers one repeat, which others would copy."""
        other = [self.spec.digest_of("also")[:10]] if self.spec.also else []
        for curve, part in self.spec.methods.items():
            for number, setting in enumerate(part.resolved(METHODS)):
                repeats = self.spec.study.repeats if setting.value.random else 1
                for repeat in range(repeats):
                    for also in ("", *other):
                        yield FrontierPoint(
                            curve, part.title or curve, setting, number, repeat, also
                        )

    def checked(self) -> ResolvedStudy:
        """The same, after everything was built. Raises :class:`SpecError`."""
        _ = self.published, self.both, self.uses, self.intruder, self.map_use
        names = [p.name for p in self.points()]
        if len(set(names)) < len(names):
            raise SpecError(
                "two curves have the same name and setting",
                where="methods",
                remedy="give curves names that differ in letters and digits",
            )
        return self


def load_study(
    path: Path, overrides: Sequence[str] = (), also: Path | None = None
) -> ResolvedStudy:
    """The study of a TOML file."""
    text = read_text(path, "study", "check the path, or write one: das frontier init")
    other = None if also is None else packaged.configuration(also)[0]
    return resolved_study(text, str(path), overrides, other, path.parent)


def resolved_study(
    text: str,
    where: str,
    overrides: Sequence[str] = (),
    also: str | None = None,
    folder: Path = Path(),
) -> ResolvedStudy:
    """The study of a text, whose own methods are in ``folder``. Raises :class:`SpecError`."""
    spec = study_of(
        text,
        where=where,
        methods=METHODS,
        attack=IntruderOptions,
        overrides=overrides,
        also=also,
        folder=folder,
    )
    try:
        return ResolvedStudy(spec).checked()
    except SpecError as error:
        raise SpecError(
            error.what,
            where=f"{where}, {error.where}" if error.where else where,
            remedy=error.remedy,
        ) from None


# TopDown as a method of protection: the ordinary pipeline on the records of a study, in a temporary
# folder.

#: Of the budget the lowest level has this share, as in the redistricting data of 2020, and the
#: others have equal ones.
LOWEST = Fraction(1, 20)
#: Of a level the full histogram has half of the budget; the total and the attributes the rest.
DETAILED = Fraction(1, 2)


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
        epsilon = tight(exact(self.rho), DEFAULT_DELTA)
        return f"TopDown, rho {float(exact(self.rho)):.3g} (epsilon {epsilon:.3g} at {decimal(DEFAULT_DELTA)})"

    def published(self, records: StudyRecords, tables: TableSet, key: bytes) -> ProtectedTables:
        """Raises :class:`SpecError` where the plan does not fit the schema or the levels."""
        spine = records.spine
        with tempfile.TemporaryDirectory(prefix="das-topdown-") as folder:
            path = Path(folder) / "records.parquet"
            files.write_counts(path, spine, records.histogram(), records.schema)
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


def _in_order(histogram: Histogram, theirs: Spine, ours: Spine) -> Histogram:
    """Their lowest units in our order."""
    level = ours.levels[-1]
    at = theirs.find(level, ours.codes[-1])
    if (at < 0).any() or theirs.units(level) != len(at):
        raise InputError("the run has other places than the study", where="topdown")
    return histogram.some(at)


# The tables of records, protected by one method.


def study_of_method(
    method: str,
    settings: Sequence[str],
    *,
    data: Path | None,
    study: Path | None,
    points: Path | None = None,
) -> tuple[ResolvedStudy, ProtectionMethod]:
    """The records and tables, of a study or of linked ``data``; and the method with ``settings``
    such as ``rate=0.05``. Raises :class:`UserError` for both of them, or neither."""
    if (data is None) == (study is None):
        raise UserError("name the records: one of the two", where="--data, --study")
    if study is not None:
        if points is not None:
            raise UserError("belongs to --data", where="--points", remedy="write data.points")
        resolved = load_study(study)
    else:
        assert data is not None
        if data.is_file():
            raise UserError(
                "is a file, not a folder of linked records",
                where=f"--data {data}",
                remedy=f"for a table of persons: das frontier init --data {data.name} --out"
                " study.toml, then --study study.toml",
            )
        resolved = resolved_study(
            draft_of_linked("linked", data, points, study_input.blocks(data)), "--data"
        )
    given: dict[str, Any] = {}
    for item in settings:
        override(given, item)
    return resolved, built(METHODS[method], given, f"--set, {method}")


#: What ``das frontier protect`` takes for the name of a method: a folder to publish.
COARSEN = "coarsen-least"


def coarsen_least(
    data: Path,
    settings: Sequence[str],
    kinds: Sequence[str],
    persons: bool,
    out: Path,
    progress: Progress,
) -> LeastRelease:
    """Write the publication of the least coarsening of redistricting files, or of linked records,
    to the folder ``out``. What is confidential about it has a folder by itself there."""
    if out.exists():
        refuse_full(out)
    given: dict[str, Any] = {}
    for item in settings:
        override(given, item)
    method = built(LeastCoarsening, given, f"--set, {COARSEN}")
    if data.is_dir():
        drafted = draft_of_linked("linked", data, None, study_input.blocks(data))
        resolved = resolved_study(drafted, "--data")
        records = study_input.read(resolved.spec, resolved.schema, progress)
        places = study_input.counted(records)
    else:
        places = study_input.redistricting(data, progress)
    found, solution = coarsened(method, places, kinds, progress, persons)
    progress.stage("write", None)
    with atomic.folder(out) as draft:
        least_files.write(draft, found)
        create_private(draft / "confidential")
        atomic.write_json(draft / "confidential" / "solution.json", solution, 0o600)
    return found


def protect_records(
    resolved: ResolvedStudy, method: ProtectionMethod, key: bytes, out: Path, progress: Progress
) -> list[Path]:
    """Write what is published to the folder ``out``; its files."""
    if out.exists():
        refuse_full(out)
    records = study_input.read(resolved.spec, resolved.schema, progress)
    progress.stage("protect", None)
    published = method.protect(records, resolved.published, key)
    progress.stage("write the tables", None)
    create_private(out)
    return files.write_protected(out, published)
