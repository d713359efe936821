"""The attack on linked records: by hand, against plain counting, and by the command."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError
from das.publications.dhc.model.members import HEADS, LEVEL, HousedPersons, LinkedPersons
from das.tools.link.truth.risk import ELSEWHERE, HOUSEHOLDS, LINKED, MEMBERS, PERSONS, attacks
from das.tools.protection.attack.reidentification import KeyedRecords
from tests import awkward, dhc_small
from tests import linked_worlds as linked_small
from tests.commands import Commands
from tests.worlds import Worlds

SPINE = dhc_small.tree()
HEAD, ALONE, WIFE, CHILD = HEADS[1], HEADS[0], LEVEL["opposite-sex-spouse"], LEVEL["stepchild"]
MAN, WOMAN = 0, 1


def population(*homes: tuple[int, list[tuple[int, int, int, int]]]) -> HousedPersons:
    """Households by block, each with the relationship, sex, age and race of its members."""
    rows = [(i, b, *p) for i, (b, members) in enumerate(homes) for p in members]
    home, place, relgq, sex, age, race = map(np.array, zip(*rows, strict=True))
    people = LinkedPersons(home, relgq, sex, age, np.zeros_like(race), race)
    return HousedPersons(people, place, len(homes))


def test_scores_by_hand() -> None:
    """Blocks 0 and 1 are of one tract. In block 0 the household of the man of 40 is linked as it
    is, except that the child is of another race; that of the woman of 70 has another member."""
    couple = [(HEAD, MAN, 40, 0), (WIFE, WOMAN, 38, 0), (CHILD, MAN, 7, 1)]
    truth = population((0, couple), (0, [(ALONE, WOMAN, 70, 0)]), (1, [(ALONE, WOMAN, 70, 0)]))
    linked = population(
        (0, [*couple[1::-1], (CHILD, MAN, 7, 0)]),  # members in another order
        (0, [(HEAD, WOMAN, 70, 0), (CHILD, MAN, 40, 0)]),
        (1, [(ALONE, WOMAN, 70, 0)]),
    )
    found = attacks(linked, truth, SPINE)
    members = found[MEMBERS, LINKED].score()
    assert (members.persons, members.putative, members.confirmed) == (3, 3, 2)
    whole = found[HOUSEHOLDS, LINKED].score()
    assert (whole.persons, whole.putative, whole.confirmed, whole.agree) == (1, 1, 0, 0)
    assert found[PERSONS, LINKED].score().agree == 4
    elsewhere = found[MEMBERS, ELSEWHERE].score()  # block 0 reads block 1, and the other way round
    assert (elsewhere.putative, elsewhere.confirmed) == (2, 1)


def test_it_counts_like_counting() -> None:
    """Agreement of households of two or more is the sum of what both have by block and members."""
    first, other = (linked_small.linked(linked_small.disagreeing(seed=s)) for s in (1, 2))
    both = [
        HousedPersons(of.people.linked(of.household), of.people.block, len(of.cell))
        for of in (first, other)
    ]
    counted = []
    for p in both:
        members: list[list[tuple[int, ...]]] = [[] for _ in range(p.households)]
        q = p.people
        for row in zip(*(x.tolist() for x in (q.household, q.sex, q.age, q.hispanic, q.cenrace)),
                       strict=True):  # fmt: skip
            members[row[0]].append(row[1:])
        home = p.home.tolist()
        counted.append(
            Counter((b, *sorted(m)) for b, m in zip(home, members, strict=True) if len(m) > 1)
        )
    found = attacks(both[0], both[1], SPINE)
    assert found[HOUSEHOLDS, LINKED].score().agree == sum((counted[0] & counted[1]).values())
    same = attacks(both[0], both[0], SPINE)
    for name in (PERSONS, MEMBERS, HOUSEHOLDS):
        assert same[name, LINKED].agreement == 1
        assert same[name, ELSEWHERE].agreement < 1


def test_what_does_not_fit_is_refused() -> None:
    one = np.zeros(1, dtype=np.int64)
    with pytest.raises(InputError, match="of another household"):
        HousedPersons(LinkedPersons(one + 1, one, one, one, one, one), one, 1)
    with pytest.raises(InputError, match="not a value for each record"):
        KeyedRecords(one, one, one, np.zeros(2, dtype=np.int64))


def test_the_command(worlds: Worlds, commands: Commands, tmp_path: Path) -> None:
    run, risk, truth = awkward.dhc(worlds), commands.named("risk"), awkward.linked(worlds)
    code, _, err = risk("link", run, "--truth", truth)
    assert (code, "there is no link of the release here" in err) == (2, True)
    out = worlds.copy(awkward.link(worlds), tmp_path / "linked")
    code, text, err = risk("link", run, "--truth", truth, "--linked", out, "--json")
    assert code == 0, err
    found = json.loads(text)
    assert found["private"] is False
    every = {
        (s["records"], s["read"]): s
        for s in found["scores"]
        if (s["group"], s["size"]) == ("all", "all")
    }
    assert set(every) == {
        (r, x) for r in (PERSONS, MEMBERS, HOUSEHOLDS) for x in (LINKED, ELSEWHERE)
    }
    assert every[HOUSEHOLDS, LINKED]["agreement"] < every[PERSONS, LINKED]["agreement"] < 1
    said = json.loads((out / "link.json").read_text())
    (out / "link.json").write_text(json.dumps(said | {"release": "0"}))
    code, _, err = risk("link", run, "--truth", truth, "--linked", out)
    assert (code, "the link of another release" in err) == (2, True)
