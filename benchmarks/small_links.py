"""Links of random small tracts: a link, or a proof that there is none, and never a hang.

A tract has one to three blocks, of up to eight persons each, with any age and relationship that the
file allows. Households and units are random, and nothing makes them agree. CP-SAT decides by itself
whether there are householders and households for everyone. Where there are, the link must end and
satisfy all identities; where there are not, it must say so."""

from __future__ import annotations

import argparse
from time import perf_counter

import numpy as np
from ortools.sat.python import cp_model

from benchmarks.common import Figures
from das.errors import InputError
from das.model.histogram import Histogram
from das.publications.dhc.agreement.counted import HOME, AgreementCounts
from das.publications.dhc.agreement.identities import agreement
from das.publications.dhc.model.households import DHCH, TENVACGQ
from das.publications.dhc.model.persons import DHCP
from das.tools.link.linking import TractInput, link_tract
from das.tools.link.people import HomePersons
from das.tools.link.population import joined

_PERSONS = np.flatnonzero(np.asarray(DHCP.possible)[: HOME * DHCP.cells // DHCP.shape[0]])
_HOUSEHOLDS = np.flatnonzero(DHCH.possible)
#: Occupied and vacant units.
_HOMES = 11
_MINOR = 15


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    given = parser.parse_args()
    figures = Figures("small_links")
    cases = range(given.first, given.first + given.cases)
    began, wrong, exist, longest = perf_counter(), list[int](), 0, 0.0
    for case in cases:
        start = perf_counter()
        there, right = linked_as_proved(np.random.default_rng(case))
        longest = max(longest, perf_counter() - start)
        exist += there
        wrong += [] if right else [case]
    figures(
        "tracts linked other than CP-SAT proves",
        len(wrong),
        "cases",
        at_most=0,
        cases=len(cases),
        exist=exist,
        seconds=perf_counter() - began,
        longest_seconds=longest,
        first_wrong=wrong[:5],
    )


def random_tract(rng: np.random.Generator) -> TractInput:
    """Persons, households and units of one to three blocks of one block group, or of as many."""
    blocks = int(rng.integers(1, 4))
    people, homes = rng.integers(0, 9, blocks), rng.integers(0, 5, blocks)
    persons = _histogram(blocks, DHCP.cells, people, _typical(rng, int(people.sum())))
    households = _histogram(blocks, DHCH.cells, homes, rng.choice(_HOUSEHOLDS, homes.sum()))
    vacant = rng.integers(0, 2, blocks)
    kinds = np.concatenate([rng.integers(0, 4, homes.sum()), rng.integers(4, _HOMES, vacant.sum())])
    block = np.repeat(np.tile(np.arange(blocks), 2), np.concatenate([homes, vacant]))
    units = Histogram.from_triplets(blocks, TENVACGQ.cells, block, kinds, np.ones_like(kinds))
    group = np.arange(blocks) if rng.random() < 0.5 else np.zeros(blocks, dtype=np.int64)
    return TractInput(persons, households, units, group, rng.bytes(32))


def _typical(rng: np.random.Generator, many: int) -> np.ndarray:
    """Cells of persons: of a relationship first, so that rare ones are there."""
    cells = rng.choice(_PERSONS, (many, 2))
    few = rng.random(many) < 0.2
    relgq = cells // (DHCP.cells // DHCP.shape[0])
    return np.where(few, cells[:, 0], np.take_along_axis(cells, relgq.argmin(1)[:, None], 1)[:, 0])


def _histogram(blocks: int, cells: int, many: np.ndarray, cell: np.ndarray) -> Histogram:
    unit = np.repeat(np.arange(blocks), many)
    return Histogram.from_triplets(blocks, cells, unit, cell, np.ones_like(unit))


def linked_as_proved(rng: np.random.Generator) -> tuple[bool, bool]:
    """Whether a link exists, and whether the link ends as that says."""
    given = random_tract(rng)
    there = _households_exist(given)
    counts = {"persons": given.persons, "households": given.households, "units": given.units}
    try:
        linked = joined([link_tract(given)], counts, given.group)
    except InputError:
        return there, not there
    rows = agreement(AgreementCounts(**linked.counts), "Block")
    return there, there and not any(r.violated for r in rows)


def _households_exist(given: TractInput) -> bool:
    """By CP-SAT: who is a householder, in no more units than there are; and whose household
    everybody is in. A block without anyone of 15 and over gets someone in exchange, or its oldest
    becomes 15. Either way one of its persons can be a householder."""
    people = HomePersons.from_histogram(given.persons)
    model = cp_model.CpModel()
    housing = np.bincount(given.units.unit, given.units.count, len(given.group)).astype(int)
    for block in np.unique(people.block):
        age = people.age[people.block == block]
        able = age >= min(_MINOR, int(age.max()))
        head = [model.new_bool_var("") for _ in age]
        model.add(sum(head) <= int(housing[block]))
        for i, person in enumerate(able):
            if not person:
                model.add(head[i] == 0)
            within = [model.new_bool_var("") for _ in age]
            model.add_exactly_one(within)
            model.add(within[i] == head[i])
            for h, inside in zip(head, within, strict=True):
                model.add_implication(inside, h)
    return _solved(model)


def _solved(model: cp_model.CpModel) -> bool:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.FEASIBLE, cp_model.INFEASIBLE)
    return bool(status != cp_model.INFEASIBLE)


if __name__ == "__main__":
    main()
