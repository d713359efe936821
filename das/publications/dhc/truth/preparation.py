"""The input of the DHC: linked records become histograms over the tree of an earlier release.

Everything taken over from that release is public. The records must agree with it in what both
releases publish exactly: the blocks, their housing units, and a facility of group quarters in each
block where somebody lives in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.accounting.document import NAME, Document, Statement
from das.engine import Progress
from das.errors import InputError, SpecError, UserError
from das.files.readers import area_list
from das.files.readers.source import source_of
from das.files.release import statement
from das.files.run import run_directory
from das.geography import optimized
from das.geography.tabulation import NATIONAL, Geocodes
from das.model.areas import Areas
from das.model.confidential import Confidential
from das.model.frozen import NoRepr
from das.model.histogram import Histogram
from das.model.measured_spine import MeasuredSpine, Subtrees
from das.model.names import text
from das.model.not_private import UNKNOWN
from das.model.records import Blocks
from das.model.redistricting import H1, PL94
from das.model.source import Source
from das.model.spine import Spine
from das.model.universe import HOUSING
from das.model.universe import PERSONS as PEOPLE
from das.publications.dhc.files import linked
from das.publications.dhc.files.linked import LinkedExtract
from das.publications.dhc.model import strategy
from das.publications.dhc.model.households import TENVACGQ
from das.publications.dhc.release import Ints, OpenedDhc, fixed_units
from das.publications.dhc.spec import HOUSEHOLDS, PERSONS, UNITS, DhcSpec, Earlier, replaced
from das.release.opened import OpenedRelease, open_release
from das.release.verify.sealed import check_digests
from das.truth import prepared
from das.truth.preparation import check_lists
from das.truth.prepared import lowest_histogram

# The trees that the DHC is measured over.
#
# The rule of an optimized spine (:mod:`das.geography.optimized`) needs fields of the blocks. Here
# they come from the earlier release: the levels of its tree, and its areas off the spine. Structures
# are those that the DHC publishes exactly: housing units, and facilities by class. So a tree is a
# function of what is public. That of persons also divides blocks by their types of facilities, as in
# the redistricting runs of 2020; that of units and households does not.
#
# *No bypass.* Each unit is measured with its own level's share, also an only child, whose
# measurements count for its parent (:mod:`das.estimate.pooled`). So every path costs what it costs on
# the published tree, and the statement is the same.

#: The code of a block outside of any area of a kind, where the rule knows the kind.
_NONE = {"Place": b"99999", "County_Subdivision": b"99999", "AIAN": b"9999"}


def trees_of(
    spec: DhcSpec, spine: Spine, areas: Sequence[Areas], structures: NDArray[np.int64]
) -> tuple[dict[str, MeasuredSpine], tuple[Source, ...]]:
    """The measured tree of each universe over the published ``spine``, and the lists of blocks that
    were read for them. ``structures``: housing units, and facilities by class, ``(units, 8)``.

    Raises :class:`das.errors.InputError` as :func:`das.geography.optimized.measured_spine` does,
    and for a target that is no level, no kind of area and no list of blocks."""
    g = spec.geography
    if g.spine == "tabulation":
        return {u.name: MeasuredSpine.from_published(spine) for u in spec.universes}, ()
    unit = np.arange(len(spine.codes[-1]))
    fields = {
        lv: spine.codes[i][spine.up(spine.levels[-1], lv)] for i, lv in enumerate(spine.levels)
    }
    for kind in areas:
        codes = optimized.listed(kind, len(unit))
        fields[kind.kind] = np.where(codes == b"", _NONE.get(kind.kind, b""), codes)
    blocks = Blocks(fields, structures)
    paths = [Path(path) for path in g.lists]
    lists = {path.name: area_list.read(path, spine) for path in paths}
    rule = optimized.Rule(
        g.runs,
        optimized.target_codes(g.named, blocks, spine, unit, lists),
        Geocodes(g.geocodes or "2020", {**NATIONAL, **(g.digits or {})}),
    )
    trees = {
        housed: optimized.measured_spine(blocks, spine, unit, rule, facilities=housed)
        for housed in {u.housed for u in spec.universes}
    }
    found = {u.name: trees[u.housed].without_bypass() for u in spec.universes}
    return found, tuple(source_of(path) for path in paths)


#: The remedy if the release has other records.
_NAME = "constraints.from must name a redistricting release of persons and housing units"


@dataclass(frozen=True, eq=False, repr=False)
class PreparedDhc(NoRepr):
    """What a run knows before it measures. ``spine`` is that of the earlier release, which ``spec``
    names; ``trees`` are measured. ``fixed`` are counts of persons and of units, and ``lowest`` true
    counts of the lowest units by universe."""

    spec: DhcSpec
    spine: Spine
    trees: Mapping[str, MeasuredSpine]
    fixed: Mapping[str, Histogram]
    lowest: Mapping[str, Confidential[Histogram]]
    areas: tuple[Areas, ...]
    sources: tuple[Source, ...]

    @cached_property
    def subtrees(self) -> Subtrees:
        return Subtrees.from_spine(self.spine, self.trees.values(), largest=prepared.LARGEST)

    def opened(self, folder: Path) -> OpenedDhc:
        """The public part of it, as a release in ``folder`` has it."""
        return OpenedDhc(folder, self.spec, self.spine, self.trees, self.fixed, self.subtrees)

    def rows(self, universe: str, start: int, stop: int) -> Confidential[Histogram]:
        """The counts of the lowest units ``start:stop``."""
        counts = self.lowest[universe].open("a part of what was counted")
        return Confidential(counts.rows(start, stop))

    @property
    def stored(self) -> dict[str, int]:
        """The number of nonempty cells of lowest units, by universe. It decides how much memory and
        time a run takes."""
        return {name: int(self._occupied(name)[-1]) for name in self.lowest}

    @property
    def stored_in_subtrees(self) -> dict[str, Ints]:
        """The number for each subtree, ``(subtrees,)``, by universe."""
        ends = self.subtrees.lowest(self.spine)
        return {name: np.diff(self._occupied(name)[ends]) for name in self.lowest}

    def _occupied(self, universe: str) -> Ints:
        """How many nonempty cells the lowest units before each have, ``(units + 1,)``."""
        counts = self.lowest[universe]
        return counts.open("how many cells have somebody, for the memory that they take").indptr


@dataclass(frozen=True, eq=False)
class EarlierRelease:
    """A redistricting release, measured over any tree. It has its published spine from some level
    down, published counts of the lowest units, and areas. ``named`` is what a release that rests on
    it says about it."""

    spine: Spine
    persons: Histogram
    homes: Histogram
    areas: tuple[Areas, ...]
    named: Earlier

    @staticmethod
    def read(folder: Path, spec: DhcSpec) -> EarlierRelease:
        """Raises :class:`UserError` if the release has other records or was altered, and
        :class:`SpecError` if it has other levels."""
        said, opened = statement.read(folder), open_release(folder)
        _check_schemas(opened)
        check_digests(folder, said)  # its counts are published again: they must be unaltered
        if spec.run.private:
            _check_private(opened, folder)
        counts = {u.name: opened.published(u) for u in opened.after.universes}
        spine = _from(spec.lower(opened.spine.levels), opened.spine)
        digest = run_directory.file_digest(folder / NAME)
        if spec.constraints.digest not in ("", digest):
            raise UserError(
                "its privacy.json has not the SHA-256 that constraints.digest names",
                where=folder,
                remedy="name the release of that digest; or leave constraints.digest out",
            )
        named = Earlier.model_validate(
            {
                "from": opened.after.name,
                "digest": digest,
                "exact": _exact_persons(said, spine),
                "rho": replaced(said) if isinstance(said, Statement) else {},
            }
        )
        persons, homes = counts[PEOPLE.name], counts[HOUSING.name]
        return EarlierRelease(spine, persons, homes, opened.areas(), named)


def _exact_persons(said: Document, spine: Spine) -> list[tuple[str, str]]:
    """Level and query of each exact count of persons in a release, at the levels of the tree, whose
    blocks keep the release's counts."""
    return [
        (c.level, c.query)
        for c in said.outside
        if c.universe == PEOPLE.name and c.sign == "=" and c.level in spine.levels
    ]


def _check_private(opened: OpenedRelease, folder: Path) -> None:
    """Raises :class:`UserError` for a release whose noise is not private, or may not be."""
    trial = "or, for a trial, set run.seed, which makes this one not private either"
    if opened.after.private == UNKNOWN:
        raise UserError(
            "whether the noise of this release is private is not known: its measurements came"
            " without their ledger",
            where=folder,
            remedy=f"name a release that das run made; {trial}",
        )
    if not opened.after.private:
        raise UserError(
            "this release was seeded: its counts are not private, and would be published again",
            where=folder,
            remedy=f"name one that is private; {trial}",
        )


def _from(first: int, whole: Spine) -> Spine:
    """The tree from its level ``first`` down. Raises :class:`SpecError` if it has several roots."""
    if (roots := len(whole.codes[first])) > 1:
        raise SpecError(
            f"the earlier release has {roots:,} units of {whole.levels[first]}, and a tree has one"
            " root",
            where="geography.levels",
            remedy=f"begin above, such as with {whole.levels[0]}",
        )
    return Spine(
        whole.levels[first:], whole.codes[first:], whole.parent[first:], whole.names[first:]
    )


def _check_schemas(opened: OpenedRelease) -> None:
    known = {u.name: u.schema for u in opened.after.universes}
    for name, schema in ((PEOPLE.name, PL94), (HOUSING.name, H1)):
        if name not in known or known[name].attributes != schema.attributes:
            raise UserError(
                f"it has no {name} by {', '.join(a.name for a in schema.attributes)}",
                where=opened.folder,
                remedy=_NAME,
            )


def prepare(
    spec: DhcSpec, folder: Path, earlier: EarlierRelease, progress: Progress
) -> PreparedDhc:
    """Read linked tables from a folder. Raises :class:`InputError` if the records do not have the
    published blocks, housing units and facilities."""
    check_lists(spec.geography)
    given = linked.read(folder, encoding=spec.data.encoding, progress=progress)
    spine = earlier.spine
    unit = _units_of(given, spine)
    records = {PERSONS: given.persons, UNITS: given.units, HOUSEHOLDS: given.households}
    lowest = {name: lowest_histogram(r, unit, spine) for name, r in records.items()}
    exact = exact_units(lowest[UNITS])
    _check_homes(exact[:, 0], earlier, spine)
    facilities = exact[:, 1:]
    _check_facilities(facilities, earlier, spine)
    fixed = {PERSONS: earlier.persons, UNITS: fixed_units(earlier.homes, facilities)}
    structures = np.concatenate([exact[:, :1], by_class(facilities)], axis=1)
    trees, lists = trees_of(spec, spine, earlier.areas, structures)
    _check_covered(earlier, trees[PERSONS])
    sources = (*given.sources, *lists)
    return PreparedDhc(
        spec.after(earlier.named), spine, trees, fixed, lowest, earlier.areas, sources
    )


def by_class(facilities: Ints) -> Ints:
    """Facilities by the seven classes of the redistricting data, ``(units, 7)``, from types."""
    types = facilities.shape[1]
    of_type = np.array(TENVACGQ.query("hhgq8lev").groupings[0].index)[-types:] - 1
    out = np.zeros((len(facilities), of_type.max() + 1), dtype=np.int64)
    np.add.at(out.T, of_type, facilities.T)
    return out


def exact_units(units: Confidential[Histogram]) -> Ints:
    """Housing units, and facilities by type: published exactly, ``(units, 25)``."""
    return units.open("what is published exactly: housing units and facilities").answer(
        TENVACGQ.query(strategy.UNITS_EXACT)
    )


def _units_of(given: LinkedExtract, spine: Spine) -> Ints:
    """The unit of each block of the records."""
    lowest = spine.levels[-1]
    unit = spine.find(lowest, given.blocks)
    remedy = "give the records of the blocks of the earlier release, all of them"
    if (unit < 0).any():
        raise InputError(
            f"{int((unit < 0).sum()):,} blocks are not in the earlier release, such as"
            f" {text(given.blocks[unit < 0])[0]}",
            where=UNITS,
            remedy=remedy,
        )
    if len(unit) < spine.units(lowest):
        lost = np.setdiff1d(np.arange(spine.units(lowest)), unit)
        raise InputError(
            f"{len(lost):,} blocks of the earlier release are not here, such as"
            f" {spine.code(lowest, int(lost[0]))}",
            where=UNITS,
            remedy=remedy,
        )
    return unit


def _check_homes(units: Ints, earlier: EarlierRelease, spine: Spine) -> None:
    """Raises :class:`InputError` if the housing units, which were published exactly, differ."""
    odd = np.flatnonzero(units != earlier.homes.totals())
    if len(odd):
        lowest, at = spine.levels[-1], int(odd[0])
        raise InputError(
            f"{len(odd):,} blocks have other housing units than were published, as"
            f" {spine.code(lowest, at)}, which has {units[at]} and not"
            f" {earlier.homes.totals()[at]}",
            where=UNITS,
            remedy="give the records that the earlier release was made of",
        )


def _check_facilities(facilities: Ints, earlier: EarlierRelease, spine: Spine) -> None:
    """Raises :class:`InputError` if a block was published with persons in a class of group quarters
    but has no facility of that class."""
    hhgq = PL94.query("hhgq")
    persons = earlier.persons.answer(hhgq)[:, 1:]
    odd = np.flatnonzero(((persons > 0) & (by_class(facilities) == 0)).any(axis=1))
    if len(odd):
        raise InputError(
            f"{len(odd):,} blocks were published with persons in a class of group quarters but have"
            f" no facility of that class, such as {spine.code(spine.levels[-1], int(odd[0]))}",
            where=UNITS,
            remedy="give the facilities that the earlier release was made of",
        )


def _check_covered(earlier: EarlierRelease, tree: MeasuredSpine) -> None:
    """Raises :class:`InputError` if persons were published outside of the measured tree."""
    there = np.zeros(earlier.persons.units, dtype=bool)
    there[tree.place] = True
    odd = np.unique(earlier.persons.unit[~there[earlier.persons.unit]])
    if len(odd):
        spine = earlier.spine
        raise InputError(
            f"{len(odd):,} blocks were published with persons but have no housing unit and no"
            f" facility, such as {spine.code(spine.levels[-1], int(odd[0]))}: an optimized spine"
            " leaves them out",
            where="geography.spine",
            remedy='set geography.spine = "tabulation", or rest on a release that publishes'
            " housing units and facilities exactly",
        )
