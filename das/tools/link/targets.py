r"""Average sizes of households by tenure and race that a release of the S-DHC measured better: a link
is moved towards them.

The S-DHC counts persons in households of a State by tenure, and by race of the householder and
age. Two exchanges change these totals and hardly anything else:

* *tenures*: two households of a block exchange their tenures. They are alike in the householder's
  sex, age class, origin and race. They are alike in their couple, relatives, own children and
  generations, too.
* *heads*: the householders of two households of a block and tenure exchange their places. They are
  alike in sex, origin and class of age. A household's new one is at most :data:`YEARS` years older
  or younger than its first.

**What stays.** Both keep every person in their block, of their age and relationship. So all tables
of persons stay. Households by tenure, and householders by sex, age, origin and race, stay in each
block; so do units. The type of a household follows from relationships and ages of its members, and
from whether its householder is under 18, and stays; so does the class of its oldest member, because
classes of ages of householders and of the old have the same bounds. So all identities of
:mod:`das.publications.dhc.agreement.identities` hold as before, and only tables that cross tenure or race with size or type
change.

**What is aimed at.** The link knows these totals, too, with an error :math:`\tau` that grows with the
households (:data:`OWN_ERROR`). The S-DHC's error :math:`\sigma` does not. So the S-DHC decides in a
State of a million households, and the link in a county. The aim is the mean of both, with weights
:math:`1/\sigma^2` and :math:`1/\tau^2`. Its error is :math:`\epsilon = (1/\sigma^2 + 1/\tau^2)^{-1/2}`.
The S-DHC counts at most 18 persons of an address; so do these totals of the link, with all ages in
proportion. The total is that of the link: targets are scaled to it.

**When it ends.** With :math:`d` what is linked less the aim, the distance is :math:`\sum
(d/\epsilon)^2`. Exchanges are judged at the distance of the moment and made one by one, the best
first, while one :math:`|d|` is above its :math:`\epsilon`. Nearer than that the aim itself is not
known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from das.errors import InputError, UserError
from das.files.release import statement
from das.model.frozen import Frozen
from das.model.names import text
from das.model.spine import Spine
from das.publications.dhc.agreement.counted import Floats, Ints, household_attributes, type_fields
from das.publications.dhc.model.households import ATTRIBUTE, DHCH, TENURE
from das.publications.dhc.model.members import ADULT, HEADS
from das.publications.dhc.release import OpenedDhc
from das.publications.sdhc.least_squares import RegionEstimates
from das.publications.sdhc.model.tables import GROUPS, PHSAFE, STATE, TABLES, column
from das.publications.sdhc.page import OpenedSdhc, open_sdhc
from das.publications.sdhc.tables import region_estimates
from das.release.verify.sealed import check_digests
from das.tools.link.people import HomePersons
from das.tools.link.population import LinkedPopulation

RACES, TENURES = 7, len(TENURE.levels)
#: How far apart in age householders are who exchange their places, in years.
YEARS = 4
#: The error of a total of persons in a link without targets: parts of the households of a tenure or
#: race, and of their square root. From simulated counties, where averages by tenure are off by 0.004
#: to 0.018, by race by 0.02 to 0.03 of 18,000 households and by 0.4 of 235.
OWN_ERROR = {"tenure": (0.015, 0.0), "race": (0.02, 5.0)}
#: How often pairs are drawn anew, at most.
ROUNDS = 40


@dataclass(frozen=True, eq=False)
class SizeTargets(Frozen):
    """Persons in households of a State by ``tenure``, ``(3,)``, and by ``race`` of the householder
    and whether 18 or over, ``(7, 2)``, with their standard errors. Of a household, ``most`` persons
    are counted, if it has more."""

    tenure: Floats
    race: Floats
    tenure_error: Floats
    race_error: Floats
    most: int

    def __post_init__(self) -> None:
        shapes = [x.shape for x in (self.tenure, self.race, self.tenure_error, self.race_error)]
        if shapes != [(TENURES,), (RACES, 2)] * 2:
            raise InputError("not all totals of tenures and races", where="targets of a link")
        if min(self.tenure_error.min(), self.race_error.min()) <= 0:
            raise InputError("an error is not above zero", where="targets of a link")
        if self.most < 1:
            raise InputError("nobody is counted", where="targets of a link")


@dataclass(frozen=True, eq=False)
class _AlikeHouseholds:
    """Pairs of households, ``(pairs,)`` each, and the cell that each of the two counts in."""

    a: Ints
    b: Ints
    cell_a: Ints
    cell_b: Ints

    def some(self, which: Ints) -> _AlikeHouseholds:
        return _AlikeHouseholds(*(x[which] for x in (self.a, self.b, self.cell_a, self.cell_b)))


def steered_to(
    linked: LinkedPopulation, state: Ints, targets: Sequence[SizeTargets | None], seed: int
) -> LinkedPopulation:
    """The link moved towards the targets of each State, ``None`` for a State without. ``state``:
    that of each block. The same arguments give the same link."""
    rng = np.random.default_rng(seed)
    of = household_attributes(linked.cell)
    members = np.stack([_members(linked, minor) for minor in (True, False)], axis=1).astype(float)
    race, tenure = of["race"].copy(), of[TENURE.name].copy()
    heads = np.flatnonzero(np.isin(linked.people.relgq, HEADS))
    at = state[linked.block]
    for s, target in enumerate(targets):
        if target is None:
            continue
        here = np.flatnonzero(at == s)
        size = members * np.minimum(1, target.most / linked.size)[:, None]
        _exchange(
            partial(_alike_but_tenure, linked.block, of, race, tenure, here, rng),
            tenure,
            size.sum(axis=1, keepdims=True),
            here,
            _Aim(target.tenure[:, None], target.tenure_error[:, None], OWN_ERROR["tenure"]),
        )
        _exchange(
            partial(_alike_heads, linked, of, race, tenure, here, rng, heads),
            race,
            size,
            here,
            _Aim(target.race, target.race_error, OWN_ERROR["race"]),
            heads,
        )
    return _with(linked, of, race, tenure, heads)


def _members(linked: LinkedPopulation, minor: bool) -> Ints:
    """Persons of each household under 18, or not."""
    which = (linked.people.age < ADULT) == minor
    return np.bincount(linked.household[which], minlength=len(linked.cell))


@dataclass(frozen=True, eq=False)
class _Aim:
    """A target and its error, ``(labels, kinds)``, and the two parts of that of the link."""

    target: Floats
    error: Floats
    own: tuple[float, float]

    def over(self, total: Floats, households: Ints) -> tuple[Floats, Floats]:
        """What is linked, ``total``, less the mean of it and the target; and the error of that."""
        of_households, of_root = self.own
        own = of_households * households + of_root * np.sqrt(households) + 1
        weight = own[:, None] ** -2.0
        error = (self.error**-2 + weight) ** -0.5
        target = self.target * (total.sum() / self.target.sum())
        return (total - target) * error**2 / self.error**2, error


def _exchange(
    pairs: Callable[[], _AlikeHouseholds],
    label: Ints,
    size: Floats,
    here: Ints,
    aim: _Aim,
    heads: Ints | None = None,
) -> None:
    """Exchange the ``label`` of pairs of households, and their ``heads``, until their totals
    ``size`` by label are near the aim."""
    total = np.zeros(aim.target.shape)
    np.add.at(total, label[here], size[here])
    over, error = aim.over(total, np.bincount(label[here], minlength=len(total)))
    for _ in range(ROUNDS):
        if (np.abs(over) <= error).all():
            break
        made = _made(pairs(), size, over, error)
        if not len(made.a):
            break
        for of in (label,) if heads is None else (label, heads):
            of[made.a], of[made.b] = of[made.b], of[made.a]


def _made(alike: _AlikeHouseholds, size: Floats, over: Floats, error: Floats) -> _AlikeHouseholds:
    """The pairs that gain, the best first, each judged at what the ones before left ``over``."""
    step = size[alike.b] - size[alike.a]  # what the label of a gains
    gain = _change(over, error, alike.cell_a, alike.cell_b, step)
    made = []
    for i in np.argsort(gain, kind="stable")[: int((gain < 0).sum())].tolist():
        if (np.abs(over) <= error).all():
            break
        one = slice(i, i + 1)
        x, y = alike.cell_a[one], alike.cell_b[one]
        if _change(over, error, x, y, step[one])[0] < 0:
            over[x] += step[one]
            over[y] -= step[one]
            made.append(i)
    return alike.some(np.array(made, dtype=np.int64))


def _change(over: Floats, error: Floats, a: Ints, b: Ints, step: Floats) -> Floats:
    """By how much the distance grows, ``(pairs,)``."""
    at_a = step * (2 * over[a] + step) / error[a] ** 2
    at_b = step * (step - 2 * over[b]) / error[b] ** 2
    return (at_a + at_b).sum(axis=1)


def _alike_but_tenure(
    block: Ints,
    attributes: dict[str, Ints],
    race: Ints,
    tenure: Ints,
    here: Ints,
    rng: np.random.Generator,
) -> _AlikeHouseholds:
    t, kind = type_fields(), attributes[ATTRIBUTE][here]
    fields = (t.couple, t.relatives, t.own, t.multig)
    alike = [attributes["sex"], attributes["hhage"], attributes["hisp"], race]
    key = _key([block[here], *(x[here] for x in alike), *(f[kind] for f in fields)])
    a, b = _drawn(key, rng)
    a, b = here[a], here[b]
    differ = tenure[a] != tenure[b]
    return _AlikeHouseholds(a[differ], b[differ], tenure[a[differ]], tenure[b[differ]])


def _alike_heads(
    linked: LinkedPopulation,
    attributes: dict[str, Ints],
    race: Ints,
    tenure: Ints,
    here: Ints,
    rng: np.random.Generator,
    heads: Ints,
) -> _AlikeHouseholds:
    age, first = linked.people.age[heads], _first_ages(linked)
    alone = linked.people.relgq[heads] == HEADS[0]
    several = here[~alone[here]]
    alike = [
        linked.block,
        tenure,
        attributes["sex"],
        attributes["hhage"],
        attributes["hisp"],
        (age < ADULT).astype(int),
    ]
    a, b = _drawn(_key([x[several] for x in alike]), rng)
    a, b = several[a], several[b]
    apart = np.maximum(np.abs(age[a] - first[b]), np.abs(age[b] - first[a]))
    near = (race[a] != race[b]) & (apart <= YEARS)
    return _AlikeHouseholds(a[near], b[near], race[a[near]], race[b[near]])


def _first_ages(linked: LinkedPopulation) -> Ints:
    """The age of the householder of each household in the link, ``(households,)``."""
    return linked.people.age[np.isin(linked.people.relgq, HEADS)]


def _key(columns: Sequence[Ints]) -> Ints:
    """A number for each combination."""
    out = np.zeros(len(columns[0]), dtype=np.int64)
    for values in columns:
        _, out = np.unique(out * (int(values.max(initial=0)) + 1) + values, return_inverse=True)
        out = out.reshape(-1)
    return out


def _drawn(key: Ints, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Pairs of different rows with the same key, each row in one at most, drawn at random."""
    order = np.lexsort((rng.permutation(len(key)), key))
    start = np.searchsorted(key[order], key[order])
    even = (np.arange(len(key)) - start) % 2 == 0
    first = np.flatnonzero(even[:-1] & (key[order][:-1] == key[order][1:]))
    return order[first], order[first + 1]


def _with(
    linked: LinkedPopulation, attributes: dict[str, Ints], race: Ints, tenure: Ints, heads: Ints
) -> LinkedPopulation:
    """The link with these races and tenures of households, and these householders."""
    people, place = linked.people, np.flatnonzero(np.isin(linked.people.relgq, HEADS))
    levels = {}
    for name in ("relgq", "sex", "age", "hispanic", "cenrace"):
        value = getattr(people, name).copy()
        value[place] = value[heads]
        levels[name] = value
    new = {**attributes, "race": race, TENURE.name: tenure}
    cell = np.ravel_multi_index([new[a.name] for a in DHCH.attributes], DHCH.shape)
    return replace(linked, people=HomePersons(people.block, **levels), cell=cell.astype(np.int64))


# Targets of a link from a release of the S-DHC: persons in households of each State by tenure, and
# by race of the householder and age. Both releases are published: this costs no budget.

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
            ReleaseError: not a release of the S-DHC, or one that is not whole, or was altered."""
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
