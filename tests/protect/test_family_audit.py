"""A family audited as one unit: differences are found, and nothing is narrower than it should be."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from benchmarks.family_audit import FamilyLines
from das.tools.protection.published import UNBOUNDED, ProtectedTables, withheld
from das.tools.protection.truth.method import exact_lines
from das.tools.protection.truth.methods.complementary import audit, ranges
from das.tools.protection.truth.methods.suppression import Suppression
from tests.protect.people import records, tables


def test_a_line_hidden_in_one_block_alone_is_found() -> None:
    people = records(households=25)
    exact = exact_lines(people.histogram(), people.spine, tables())
    count, line = exact["Block"].value, tables().lines("Block").names.index("T0020002")
    block = int(np.flatnonzero((count[:, line] > 0) & (count[:, line] < count[:, 0]))[0])
    hidden = np.zeros(exact["Block"].value.shape, dtype=bool)
    hidden[block, 1:] = True  # all lines of a block, except its total
    shown = ProtectedTables(
        people.spine, tables(), {**exact, "Block": withheld(exact["Block"], hidden)}
    )
    tract = int(people.spine.up("Block", "Tract")[block])
    family = FamilyLines.of(shown, "Tract", tract, "Block")
    at = family.row[np.flatnonzero(family.parts == block)[0], line]
    low, high = ranges(family.lines, np.array([at]))
    assert low[at] == high[at] == count[block, line]
    alone = audit(shown.levels["Block"], tables().lines("Block"))
    assert alone.width[block, line] > 0


def test_against_linear_programs_over_all_cells() -> None:
    """Cells of every block, no row made distinct, nothing left out."""
    people = records(households=8)
    shown = Suppression("complementary").published(people, tables(), b"")
    block = people.spine.up("Block", "Tract")
    tract = int(block[people.place[0]])
    family = FamilyLines.of(shown, "Tract", tract, "Block")
    matrix, n = tables().lines("Block").matrix, len(family.parts)
    single = sparse.block_diag([matrix] * n)
    both = sparse.vstack([single, sparse.hstack([matrix] * n)], format="csr").astype(float)
    low, top = shown.levels["Block"], shown.levels["Tract"]
    value = np.concatenate([low.value[family.parts].ravel(), top.value[tract]])
    known = value >= 0
    hidden = np.flatnonzero(~known[: single.shape[0]])[:5]
    for i in hidden:
        rows = family.row.ravel()
        least, most = ranges(family.lines, np.array([rows[i]]))
        ends = [
            linprog(s * both[[i]].toarray()[0], A_eq=both[known], b_eq=value[known], method="highs")
            for s in (1, -1)
        ]
        assert least[rows[i]] == np.ceil(ends[0].fun - 1e-6)
        if ends[1].status == 3:
            assert most[rows[i]] == UNBOUNDED
        else:
            assert most[rows[i]] == np.floor(-ends[1].fun + 1e-6)


def test_truth_lies_in_the_ranges_of_the_family_and_these_in_those_of_its_parts() -> None:
    people = records(households=25)
    shown = Suppression("complementary").published(people, tables(), b"")
    truth = exact_lines(people.histogram(), people.spine, tables())["Block"].value
    alone = audit(shown.levels["Block"], tables().lines("Block"))
    family = FamilyLines.of(shown, "Tract", 1, "Block")
    asked = np.unique(family.row[~shown.levels["Block"].shown[family.parts]])
    low, high = ranges(family.lines, asked)
    here = family.row >= 0
    t = truth[family.parts][here]
    assert (low[family.row[here]] <= t).all()
    assert (t <= high[family.row[here]]).all()
    assert (low[family.row[here]] >= alone.lower[family.parts][here]).all()
    assert (high[family.row[here]] <= alone.upper[family.parts][here]).all()
