"""Targets of a link from a release of the S-DHC: persons in households of each State by tenure, and
by race of the householder and age. Both releases are published: this costs no budget."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from das.errors import UserError
from das.files.release import statement
from das.model.frozen import Frozen
from das.model.names import text
from das.model.spine import Spine
from das.publications.dhc.agreement.counted import Ints
from das.publications.dhc.release import OpenedDhc
from das.publications.sdhc.least_squares import RegionEstimates
from das.publications.sdhc.model.tables import GROUPS, PHSAFE, STATE, TABLES, column
from das.publications.sdhc.page import OpenedSdhc, open_sdhc
from das.publications.sdhc.tables import region_estimates
from das.release.verify.sealed import check_digests
from das.tools.link.population import LinkedPopulation
from das.tools.link.targets import SizeTargets, steered_to

LEVEL = "State"
#: How far apart the totals of both releases can be: a part of all persons in households.
_PART = 20
_TENURE = [column("PH7", "*", c) for c in TABLES["PH7"].cells]
_RACE = [[column("PH1_num", i, c) for c in TABLES["PH1_num"].cells] for i in GROUPS["A-G"]]


@dataclass(frozen=True, eq=False)
class LinkTargets(Frozen):
    """The targets of each State of the tree, ``None`` where the S-DHC has none; ``state``: that of
    each lowest unit; ``release``: where they are from."""

    release: Path
    names: Sequence[str]
    state: Ints
    targets: Sequence[SizeTargets | None]

    @staticmethod
    def read(release: Path, linked: OpenedDhc) -> LinkTargets:
        """Those of a release of the S-DHC for that of the DHC.

        Raises:
            UserError: a tree without States, a release without any of them, or of PHSafe's mode, or
                a seeded one for a release that is private.
            ReleaseError: not a release of the S-DHC, or one that is not whole, or was altered.
        """
        opened, spine = open_sdhc(release), linked.spine
        check_digests(release, statement.read(release))
        _check(opened, linked)
        found = {
            region: _targets(e, n, opened.spec.tau["PH7"])
            for e in region_estimates(opened)
            if e.level == STATE
            for n, region in enumerate(e.regions)
        }
        names = text(spine.geoids(LEVEL)).tolist()
        if not set(names) & set(found):
            raise UserError(
                f"has totals of {', '.join(sorted(found))}, and the tree has {', '.join(names)}",
                where=release,
                remedy="name the S-DHC of the same States",
            )
        return LinkTargets(release, names, _states(spine), [found.get(s) for s in names])

    def steered(self, linked: LinkedPopulation, seed: int) -> LinkedPopulation:
        """The link moved towards the targets. Raises :class:`UserError` where they count other
        people."""
        people = np.bincount(self.state[linked.people.block], minlength=len(self.names))
        for name, many, target in zip(self.names, people, self.targets, strict=True):
            if target is not None and abs(target.tenure.sum() - many) > many / _PART:
                raise UserError(
                    f"counts {target.tenure.sum():,.0f} persons in households of State {name}, and"
                    f" the link has {many:,}",
                    where=self.release,
                    remedy="name the S-DHC of the same records",
                )
        return steered_to(linked, self.state, self.targets, seed)


def _check(sdhc: OpenedSdhc, linked: OpenedDhc) -> None:
    says, remedy = "", ""
    if sdhc.spec.sdhc.mode == PHSAFE:
        says = f"was made in the mode {PHSAFE!r}, whose estimates are biased"
        remedy = 'run the S-DHC with sdhc.mode = "tight"'
    elif LEVEL not in linked.spine.levels:
        says = f"has totals of States, and the tree of {linked.folder} has no level {LEVEL}"
        remedy = "link a release with States, or leave --targets out"
    elif linked.spec.run.private and not sdhc.spec.run.private:
        says = "was seeded, and the release that is linked was not"
        remedy = "name a private release of the S-DHC"
    if says:
        raise UserError(says, where=sdhc.folder, remedy=remedy)


def _states(spine: Spine) -> Ints:
    """The State of each lowest unit."""
    out = np.arange(len(spine.codes[-1]))
    for depth in range(len(spine) - 1, spine.index(LEVEL), -1):
        out = np.asarray(spine.parent[depth])[out]
    return out


def _targets(e: RegionEstimates, n: int, most: int) -> SizeTargets:
    value, error = e.values[n], np.sqrt(np.maximum(np.diag(e.covariance), 1.0))
    return SizeTargets(value[_TENURE], value[_RACE], error[_TENURE], error[_RACE], most)
