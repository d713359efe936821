"""A release of the Detailed DHC: its parameters, and what a run decides besides them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from das.accounting.changes import Change
from das.accounting.draws import Differing, DrawCounts, Moves, differing
from das.accounting.guarantee import DEFAULT_DELTA
from das.accounting.statement import Terms
from das.errors import SpecError
from das.model.budget import Neighbours, PlannedMeasurement, UnitPath, check_covered
from das.model.plan import Plan
from das.model.tabulation import UNMEASURED
from das.publications.detailed.model.iterations import FINE
from das.publications.detailed.model.tables import PRODUCTS, LevelPlan, Parameters, Product
from das.publications.detailed.planning.losses import by_iterations, drowns, mixtures
from das.spec.parts import DeltaNumber, Files, OneOrMore, Part, Run
from das.spec.specification import Specification

if TYPE_CHECKING:
    ProductName = str
else:
    ProductName = Literal[tuple(PRODUCTS)]


_SIZES = {
    True: (
        "The size of a group's table follows from its noisy count in the first stage, which is"
        " published too: it tells nothing beyond. A record is in one cell of a table of any size,"
        " so that what the second stage costs does not depend on it."
    ),
    False: (
        "Which groups are measured, and the size of each table, follows from totals of groups of"
        " persons that were published before (pop-group-totals.txt): they are taken as public, and"
        " what they told is not counted here. A record is in one cell of a table of any size."
    ),
}
SAYS = (
    (
        "Data sets that are called neighbors agree on the code tables (parameters/) and on the"
        " list of blocks, with the regions of each block (regions.parquet). Every group of every"
        " listed region is measured, even if nobody is in it."
    ),
    (
        "A record is in several groups of a level at once, in 'stability' of them at most: that"
        " many answers of each measurement differ, and its budget is for all of them. Somebody who writes"
        " down fewer codes is in fewer groups, and loses less."
    ),
    (
        "The bits of the noise come from a cryptographic generator: the guarantee is computational,"
        " as with any such."
    ),
    (
        "This is the cost of this release alone. Other releases from the same records add their"
        " own; and one of households also tells of the persons in them."
    ),
    (
        "A record that changes is one record removed and one added: each line under 'changes' in"
        " privacy.json counts both."
    ),
)


class DetailedRun(Run):
    """``[run]``."""

    publication: Literal["detailed-dhc"] = "detailed-dhc"
    """The Detailed DHC."""


class DetailedData(Files):
    """``[data]``."""

    path: OneOrMore = ()
    """A folder of records in SafeTab's format. ``--data`` replaces it."""
    parameters: str = ""
    """The folder of parameters: ``config.json`` and the code tables."""
    totals: str | None = None
    """For households: the published totals of persons by group. Absent: ``pop-group-totals.txt``
    in the folder of the data."""


class DetailedPart(Part):
    """``[detailed]``."""

    product: ProductName
    """``"persons"`` (SafeTab-P) or ``"households"`` (SafeTab-H)."""
    delta: DeltaNumber = DEFAULT_DELTA
    """The privacy statement gives epsilon at this delta."""


class DetailedFolders(Specification):
    """The configuration of a run of the Detailed DHC: what it says, and the folders that say the
    rest (:class:`DetailedSpec`)."""

    title: ClassVar[str] = "the Detailed DHC"
    public: ClassVar[str] = "das.publications.detailed.public:PublicDetailed"
    maker: ClassVar[str | None] = "das.publications.detailed.truth.maker:DetailedMaker"
    tasks: ClassVar[str | None] = "das.publications.detailed.truth.run:TASKS"
    remedy: ClassVar[str] = (
        "its tables are in tables/; of measurements of persons `das detailed estimate` makes"
        " estimates with intervals"
    )
    of_a_machine: ClassVar[Any] = {"data": True}

    run: DetailedRun
    data: DetailedData = DetailedData()
    detailed: DetailedPart

    @property
    def product(self) -> Product:
        return PRODUCTS[self.detailed.product]

    def on(self, parameters: Parameters) -> DetailedSpec:
        """With what the folder of parameters says."""
        return DetailedSpec(self, parameters)


@dataclass(frozen=True, eq=False)
class Groups:
    """The records of a product, as what is measured of them: the one universe of such a release."""

    name: str
    plan: Plan


@dataclass(frozen=True, eq=False)
class DetailedSpec:
    """``parameters`` as in their folder; ``folders`` has the rest of the configuration."""

    folders: DetailedFolders
    parameters: Parameters

    def __post_init__(self) -> None:
        if drowned := [
            p for p in self.plans if any(drowns(d.mechanism, d.parameter) for d in p.measurements)
        ]:
            raise SpecError(
                f"the budget of {drowned[0].level} is so small that its noise drowns any count:"
                f" {float(drowned[0].cost):.3g}",
                where="config.json",
                remedy="give this level a budget that buys something, or 0, which leaves it out",
            )

    @property
    def run(self) -> DetailedRun:
        return self.folders.run

    @property
    def delta(self) -> Fraction:
        return self.folders.detailed.delta

    @property
    def private(self) -> bool:
        return self.run.private

    @property
    def digest(self) -> str:
        return self.folders.digest

    def dump(self) -> str:
        """``spec.toml`` of the release. Its parameters are next to it, as they were given."""
        return self.folders.dump()

    @cached_property
    def plans(self) -> tuple[LevelPlan, ...]:
        """The plans of every run and level."""
        return tuple(plan for run in self.parameters.runs for plan in self.parameters.plans(run))

    @cached_property
    def universes(self) -> tuple[Groups, ...]:
        draws = tuple(
            d for p in self.plans for d in p.measurements if d.unit_class in self.classes(p)
        )
        return (
            Groups(
                self.parameters.product.name,
                Plan(Neighbours.UNBOUNDED, draws, tuple(self._paths())),
            ),
        )

    def classes(self, plan: LevelPlan) -> dict[str, int]:
        """The classes that a level has groups of, and of how many iterations."""
        alone = self.parameters.iterations.detailed_only[
            self.parameters.iterations.measured_at(plan.at)
        ] & bool(plan.first)
        found = {plan.tables: int((~alone).sum()), plan.totals: int(alone.sum())}
        return {c: n for c, n in found.items() if n}

    def _paths(self) -> Iterable[UnitPath]:
        """Of somebody who lives where one run is (nobody lives in both): with tables for all
        groups, or with totals alone wherever there are such. Any mixture of them costs the same
        rho, group by group; its epsilon is another (:meth:`_seen`)."""
        for run in self.parameters.runs:
            tables, totals = [], []
            for p in self.plans:
                classes = list(self.classes(p)) if p.run == run else [UNMEASURED]
                tables.append((p.level, classes[0]))
                totals.append((p.level, classes[-1]))
            yield from dict.fromkeys([tuple(tables), tuple(totals)])

    @property
    def terms(self) -> Terms:
        (groups,) = self.universes
        name = groups.name
        return Terms(
            self.parameters.mechanism,
            Neighbours.UNBOUNDED,
            self.delta,
            tuple(p.level for p in self.plans),
            {},
            {name: ()},
            paths={name: groups.plan.paths},
            changed={name: self._changes},
            says=(*SAYS[:2], _SIZES[self.parameters.product.staged], *SAYS[2:]),
            neighboring={name: self._neighboring},
        )

    def _seen(self, draws: Sequence[PlannedMeasurement]) -> dict[str, dict[DrawCounts, UnitPath]]:
        """The sets of draws that one record can be in, by run, each with a name. A record can be in
        t groups with only a total and s - t with a table, for every possible t
        (:mod:`das.publications.detailed.planning.losses`). Levels with the same iterations have the same t."""
        check_covered(draws, self.universes[0].plan.paths)
        return {run: self._seen_in(run, draws) for run in self.parameters.runs}

    def _seen_in(self, run: str, draws: Sequence[PlannedMeasurement]) -> dict[DrawCounts, UnitPath]:
        noises = sorted({(d.mechanism, d.parameter) for d in draws}, key=lambda noise: noise[1])
        number = {noise: i for i, noise in enumerate(noises)}
        drawn: dict[tuple[str, str], NDArray[np.int64]] = {
            (d.level, d.unit_class): np.zeros(len(noises), int) for d in draws
        }
        for d in draws:
            drawn[d.level, d.unit_class][number[d.mechanism, d.parameter]] += 1

        def mixed(plans: Sequence[LevelPlan], t: int) -> tuple[NDArray[np.int64], UnitPath]:
            """What is seen at levels of the same iterations, as numbers of the ``noises``, and its
            name."""
            seen, name = np.zeros(len(noises), int), []
            for plan in plans:
                groups = {plan.totals: t, plan.tables: plan.stability - t}
                seen += sum(n * drawn.get((plan.level, kind), 0) for kind, n in groups.items())
                name.append(
                    (plan.level, " and ".join(f"{n} {kind}" for kind, n in groups.items() if n))
                )
            return seen, tuple(name)

        each = [
            [mixed(plans, t) for t, _ in mixtures(self.parameters, plans[0])]
            for plans in by_iterations(self.parameters, run).values()
        ]
        out: dict[bytes, tuple[NDArray[np.int64], UnitPath]] = {}
        for chosen in product(*each):
            seen = np.sum([seen for seen, _ in chosen], axis=0)
            out.setdefault(
                seen.tobytes(), (seen, tuple(part for _, name in chosen for part in name))
            )
        return {
            tuple((noises[i], int(seen[i])) for i in np.flatnonzero(seen)): name
            for seen, name in out.values()
        }

    def _neighboring(self, draws: Sequence[PlannedMeasurement]) -> Differing:
        """A record added or removed."""
        names, runs = _numbered(self._seen(draws))
        return _moves(names, [(i,) for run in runs for i in run])

    def _changes(self, draws: Sequence[PlannedMeasurement]) -> list[Change]:
        """A record replaced; what is in its cells; its groups; its place."""
        paths = self.universes[0].plan.paths
        (names, runs), there = _numbered(self._seen(draws)), [(p, p) for p in paths]
        within = [pair for run in runs for pair in combinations_with_replacement(run, 2)]
        region = {p.level: p.at.region for p in self.plans}
        below = [d for d in draws if region[d.level] not in FINE]
        cells = {
            t.name: [d for d in draws if d.query == t.name] for t in self.parameters.product.tables
        }
        words = {"t2": "age and sex", "t3": "type of household", "t4": "tenure"}
        return [
            Change(
                "record",
                "anything",
                _moves(names, combinations_with_replacement(range(len(names)), 2)),
            ),
            *(
                Change("attributes", words[t], differing(found, _cut(there, found)))
                for t, found in cells.items()
                if found
            ),
            Change("attributes", "race and ethnicity", _moves(names, within)),
            *(
                [Change("place", "place within one STATE", differing(below, _cut(there, below)))]
                if below
                else []
            ),
        ]


def _numbered(
    seen: Mapping[str, Mapping[DrawCounts, UnitPath]],
) -> tuple[dict[DrawCounts, UnitPath], list[list[int]]]:
    """All that a record can see, each with a name; and by run which of them, by their numbers."""
    names: dict[DrawCounts, UnitPath] = {}
    for of_run in seen.values():
        names = {**of_run, **names}
    number = {found: i for i, found in enumerate(names)}
    return names, [[number[found] for found in of_run] for of_run in seen.values()]


def _moves(names: Mapping[DrawCounts, UnitPath], moves: Iterable[tuple[int, ...]]) -> Differing:
    """Changes of one record, each by the numbers of what it sees before and after."""
    distinct = dict.fromkeys(tuple(sorted(move)) for move in moves)
    return (Moves(tuple(names), tuple(distinct), tuple(names.values()), len(names) > 1),)


def _cut(
    moves: Sequence[tuple[UnitPath, UnitPath]], draws: Sequence[PlannedMeasurement]
) -> list[tuple[UnitPath, UnitPath]]:
    """The moves that concern at least one of the measurements. If this leaves none out, all
    measurements are on a path."""
    places = {d.place for d in draws}
    return [move for move in moves if places & {place for path in move for place in path}]
