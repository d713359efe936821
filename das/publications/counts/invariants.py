"""What is published exactly, held together: the specification, the constraint files and the
statement list the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from das.accounting.document import ALTERED, NAME, Invariant, Statement
from das.errors import ReleaseError
from das.files.measurements.nmf_reader import NmfReader
from das.files.run import run_directory
from das.model.constraint import Constraint, summed
from das.model.measured_spine import MeasuredSpine
from das.model.spine import Spine
from das.model.universe import Universe
from das.plugins import READERS
from das.spec import RunSpec
from das.spec.notes import bounds_in_words, counts_in_words, states_structures


def listed(spec: RunSpec, trees: Mapping[str, MeasuredSpine], published: Spine) -> list[Invariant]:
    """The lines that follow from the specification and the trees, in their order and their
    words.
    """
    return [line for u in spec.universes for line in _of(u, spec, trees[u.name], published)]


def _of(
    universe: Universe, spec: RunSpec, tree: MeasuredSpine, published: Spine
) -> Iterator[Invariant]:
    lowest, dwelling = tree.spine.levels[-1], universe.schema.dwelling
    if (
        dwelling is not None
        and states_structures(spec)
        and (universe.exact.housing_units or universe.exact.group_quarters)
    ):
        says = bounds_in_words(lowest)
        for end, sign in (("lb", ">="), ("ub", "<=")):
            yield Invariant.make(
                universe=universe.name,
                constraint=f"{dwelling}_total_{end}",
                level=lowest,
                query=dwelling,
                sign=sign,
                says=says[end],
            )
    for level, query in universe.exact.counts:
        whole = tree.home_units(level, published)
        name = query if len(np.unique(whole)) == len(whole) else "joint_total"
        yield Invariant.make(
            universe=universe.name,
            constraint=name,
            level=level,
            query=query,
            sign="=",
            says=counts_in_words(universe, level, query),
        )


def check_constraints(
    release: Path, spec: RunSpec, trees: Mapping[str, MeasuredSpine], said: Statement
) -> None:
    """Check that the statement lists exactly the constraints of the files. Above the lowest level
    of a measured tree, the sums of what is known there count as constraints, too."""
    stated = {(c.universe, c.level, c.constraint, c.sign) for c in said.outside}
    there = set()
    for u in spec.universes:
        tree, root = trees[u.name], run_directory.nmf_folder(release, u.name)
        reader = NmfReader(root, tree.spine, tree.measured, private=spec.run.private)
        found = {level: reader.constraints(level) for level in tree.spine.levels}
        if not tree.alike:
            lowest = tree.spine.levels[-1]
            given = [
                Constraint(name, lowest, name, sign, bound)
                for name, (sign, bound) in found[lowest].items()
            ]
            for c in summed(given, tree.spine):
                sign, bound = found[c.level].pop(c.name, ("", c.bound[:0]))
                if sign != c.sign or not np.array_equal(bound, c.bound):
                    raise ReleaseError(
                        f"constraint {c.name!r} of {c.level!r} is not the sum of those below it",
                        where=root,
                        remedy=ALTERED,
                    )
        there |= {
            (u.name, level, name, sign)
            for level, names in found.items()
            for name, (sign, _) in names.items()
        }
    for odd in sorted(stated ^ there):
        where = release / NAME if odd in stated else run_directory.nmf_folder(release, odd[0])
        raise ReleaseError(
            f"constraint {odd[2]!r} of {odd[0]} at {odd[1]!r} is"
            f" {'not ' if odd in stated else ''}in the files, and"
            f" {'' if odd in stated else 'not '}in the statement",
            where=where,
            remedy=ALTERED,
        )


def check_assigned(release: Path, spec: RunSpec, said: Statement) -> None:
    """What a statement says was assigned is what the reader of the configuration may assign, in its
    words. (Whether it had to depends on the input, which nobody sees.)"""
    can = READERS[spec.data.reader].assigned
    for universe, attributes in said.assigned.items():
        for name, says in attributes.items():
            known = universe == spec.persons.name and name in {
                a.name for a in spec.persons.schema.attributes
            }
            if not known or can.get(name) != says:
                raise ReleaseError(
                    f"assigned.{universe}.{name} is what the reader {spec.data.reader!r} does"
                    " not say",
                    where=release / NAME,
                    remedy=ALTERED,
                )
