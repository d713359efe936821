"""An attack on the linked population of a release: what its records say about true persons and
households (:mod:`das.tools.link.truth.risk`).

A run does not keep who lives with whom, so the true records are read again from their folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from das.errors import UserError
from das.files.run import run_directory
from das.files.run.run_directory import RunDirectory, read_json
from das.model.spine import Spine
from das.publications.dhc.model.members import HEADS, HousedPersons
from das.publications.dhc.model.persons import DHCP
from das.publications.dhc.release import open_dhc
from das.release.replicate_source import digest_of
from das.tools.link.release import FIGURES
from das.tools.protection.attack.reidentification import (
    KeyedRecords,
    ReidentificationScores,
    score_records,
)
from das.tools.protection.truth.reconstructing import score_rows
from das.tools.protection.truth.study_input import housed_people


def attack_link(run: Path, linked: Path | None, truth: Path) -> Iterator[Mapping[str, object]]:
    """The scores, as rows: of each attack on the records of the own block and of another. ``run``:
    a run or release of the DHC. ``linked``: its link; absent, that of the run.

    Raises:
        UserError: no link, or that of another release.
        InputError: true records that contradict each other, or live elsewhere."""
    release = run_directory.release_of(run)
    folder = linked or RunDirectory(run).linked
    if not (folder / FIGURES).is_file():
        raise UserError(
            "there is no link of the release here",
            where=folder,
            remedy=f"das link {run} --out DIR, then --linked DIR",
        )
    if read_json(folder / FIGURES)["release"] != digest_of(release):
        raise UserError(
            "this is the link of another release", where=folder, remedy=f"name that of {run}"
        )
    spine = open_dhc(release).spine
    found, true = (
        housed_people(path, spine).open("to score linked records; the result stays confidential")
        for path in (folder, truth)
    )
    for (records, read), scores in attacks(found, true, spine).items():
        for row in score_rows(scores):
            yield {"records": records, "read": read, **row}


# What a linked population tells an intruder about true persons and households.
#
# Linked records look like families. An intruder who takes them at face value knows something of a
# true record. He looks it up among the linked records of the same unit, and reads the rest there.
# Formulas and baselines are those of :mod:`das.tools.protection.attack.reidentification`. There are three such attacks:
#
# * *persons*: known by sex and age; race and origin are read. Households do not matter here.
# * *members*: a household known by the sex and age of its householder; who else lives there is read,
#   as a multiset of sexes and ages. This is what the link adds to the published files.
# * *households* of two persons or more: known by sexes and ages of all members; their races and
#   origins are read. Agreement is that of whole households: all members with all attributes.
#
# *Another block.* The same intruder reads the linked records of the next unit with records in the
# same tract (more exactly: of the unit two levels above). They cannot say anything about his targets
# that is not true of the neighborhood. So attack less this baseline is what is learned because the
# unit's own published counts went into its linked records.
#
# A household is *unique* if no other one of its unit has the same known values.

Ints = NDArray[np.int64]

PERSONS, MEMBERS, HOUSEHOLDS = "persons", "members", "households"
LINKED, ELSEWHERE = "own block", "another block"
_AGES, _ORIGINS, _RACES = (len(DHCP.attribute(a).levels) for a in ("age", "hispanic", "cenrace"))
#: How many levels above the lowest one blocks are neighbors.
_ABOVE = 2


def attacks(
    linked: HousedPersons, truth: HousedPersons, spine: Spine
) -> Mapping[tuple[str, str], ReidentificationScores]:
    """The scores of each attack on records of the unit itself, and of another."""
    out = {}
    for name, (guess, true) in _keyed(linked, truth).items():
        out[name, LINKED] = score_records(guess, true, spine)
        out[name, ELSEWHERE] = score_records(moved(guess, spine), true, spine)
    return out


def _keyed(
    linked: HousedPersons, truth: HousedPersons
) -> Mapping[str, tuple[KeyedRecords, KeyedRecords]]:
    both, cut = (linked, truth), linked.households
    who = [p.people.sex * _AGES + p.people.age for p in both]
    whole = [
        (w * _ORIGINS + p.people.hispanic) * _RACES + p.people.cenrace
        for w, p in zip(who, both, strict=True)
    ]
    head = [np.isin(p.people.relgq, HEADS) for p in both]
    others = _multisets(both, who, [~h for h in head])
    ages, everything = (_multisets(both, x, [h | ~h for h in head]) for x in (who, whole))
    out: dict[str, list[KeyedRecords]] = {PERSONS: [], MEMBERS: [], HOUSEHOLDS: []}
    for i, p in enumerate(both):
        here = slice(None, cut) if i == 0 else slice(cut, None)
        of_head = np.zeros(p.households, dtype=np.int64)
        of_head[p.people.household[head[i]]] = who[i][head[i]]
        race = p.people.hispanic * _RACES + p.people.cenrace
        out[PERSONS].append(_records(p.place, who[i], race))
        out[MEMBERS].append(_records(p.home, of_head, others[here]))
        large = np.bincount(p.people.household[p.people.household >= 0]) > 1
        out[HOUSEHOLDS].append(_records(p.home[large], ages[here][large], everything[here][large]))
    return {name: (guess, true) for name, (guess, true) in out.items()}


def _records(unit: Ints, known: Ints, sensitive: Ints) -> KeyedRecords:
    return KeyedRecords(unit, known, sensitive, np.ones_like(unit))


def _multisets(
    both: tuple[HousedPersons, ...], code: list[Ints], which: list[NDArray[np.bool_]]
) -> Ints:
    """A number for each different multiset of the codes of some members, ``(households,)`` of both
    one after the other.

    Members are in order of their codes. The number of the first k + 1 members follows from that of
    the first k and the next code; 0 stands for no member."""
    start, home, value = 0, [], []
    for p, c, w in zip(both, code, which, strict=True):
        inside = w & (p.people.household >= 0)
        home.append(p.people.household[inside] + start)
        value.append(c[inside] + 1)
        start += p.households
    household, codes = np.concatenate(home), np.concatenate(value)
    order = np.lexsort((codes, household))
    household, codes = household[order], codes[order]
    size = np.bincount(household, minlength=start)
    first = np.cumsum(size) - size
    out = np.zeros(start, dtype=np.int64)
    width = int(codes.max(initial=0)) + 1
    for k in range(int(size.max(initial=0))):
        there = size > k
        following = np.zeros(start, dtype=np.int64)
        following[there] = codes[first[there] + k]
        _, number = np.unique(out * width + following, return_inverse=True)
        out = number.reshape(-1).astype(np.int64)
    return out


def moved(guess: KeyedRecords, spine: Spine) -> KeyedRecords:
    """Every unit with the records of the next one with records in the same unit above, and the last
    with those of the first. Records of a unit that has no neighbor are left out."""
    above = np.arange(spine.units(spine.levels[-1]))
    for depth in range(len(spine) - 1, max(0, len(spine) - 1 - _ABOVE), -1):
        above = np.asarray(spine.parent[depth])[above]
    there = np.unique(guess.unit)
    to = np.full(len(above), -1, dtype=np.int64)
    cuts = np.flatnonzero(np.diff(above[there], prepend=-1))
    for some in np.split(there, cuts[1:]):
        if len(some) > 1:
            to[np.roll(some, -1)] = some
    unit = to[guess.unit]
    kept = unit >= 0
    return KeyedRecords(unit[kept], guess.known[kept], guess.sensitive[kept], guess.count[kept])
