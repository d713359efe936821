"""What the units of a run are measured over: fields and lists of blocks that its block groups keep
apart.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from das.engine import Silent
from das.errors import InputError
from das.geography import optimized
from das.spec import RunSpec, parse
from das.spec.notes import notes
from das.stages import Stages
from das.truth.preparation import prepare
from das.truth.prepared import Prepared
from tests.worlds import ROOT, Worlds

TEXT = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")


def spec_of(*changes: str) -> RunSpec:
    return parse(TEXT, where="c", overrides=["geography.spine=optimized", *changes])


def prepared(spec: RunSpec, data: Path) -> Prepared:
    return prepare(spec, [data], Stages(), Silent())


def parts(p: Prepared, home: np.ndarray) -> np.ndarray:
    """Of each block group the number of different places that its blocks are in."""
    tree = p.trees["persons"]
    pairs = np.unique(np.stack([tree.spine.parent[-1], home[tree.place]]), axis=1)
    return np.bincount(pairs[0])


def test_block_groups_keep_targets_together_fields_and_lists_of_blocks(
    worlds: Worlds, tmp_path: Path
) -> None:
    data = worlds.data("three thousand")
    blocks = prepared(spec_of(), data).spine.geocodes("Block")
    ward = np.arange(len(blocks)) % 3
    wards = tmp_path / "wards.csv"
    wards.write_text(
        "area,block\n" + "".join(f"w{w},{b}\n" for w, b in zip(ward, blocks, strict=True) if w)
    )
    p = prepared(spec_of(f'geography.targets=["Block_Group", "{wards}"]'), data)
    assert (parts(p, ward) == 1).all()
    assert (parts(p, p.spine.parent[-1]) == 1).all()
    assert {a.kind for a in p.areas} >= {"wards", "Place"}
    assert p.sources[-1].name == "wards.csv"
    assert p.sources[-1].sha256 == hashlib.sha256(wards.read_bytes()).hexdigest()
    assert (parts(prepared(spec_of(), data), ward) > 1).any()


def test_a_target_that_is_no_field_and_a_list_that_is_none_are_refused(
    worlds: Worlds, tmp_path: Path
) -> None:
    data = worlds.data("three thousand")
    with pytest.raises(InputError, match="no geographic field 'Ward'"):
        prepared(spec_of("geography.targets=Ward"), data)
    with pytest.raises(InputError, match=r"geography\.targets: no such file: .*none\.csv"):
        prepared(spec_of(f"geography.targets={tmp_path / 'none.csv'}"), data)


def test_states_in_two_branches_have_their_total_exactly_and_a_level_below_cannot(
    worlds: Worlds,
) -> None:
    """The two units of a state state one total, which is that of its people."""
    data = worlds.data("three thousand")
    p = prepared(spec_of(), data)
    (joint,) = [c for c in p.constraints["persons"] if c.sign == "="]
    assert (joint.name, joint.level) == ("joint_total", "State")
    codes = p.trees["persons"].spine.geocodes("State")
    true = dict(
        zip(
            p.spine.geocodes("State").tolist(),
            p.truth["persons"]["State"].open("t").totals(),
            strict=True,
        )
    )
    assert {c: int(t) for c, t in zip(codes.tolist(), joint.bound[:, 0], strict=True)} == {
        c: true[c[1:]] for c in codes
    }
    assert len(codes) > len(true)
    with pytest.raises(InputError, match="'Block_Group' are not those of units"):
        prepared(spec_of("constraints.total=Block_Group"), data)


def test_a_total_of_a_block_group_that_is_in_several_units_is_not_stated_of_each(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Targets keep block groups whole unions of units, siblings under one tract; but the total of
    all says of none of these what it is, and their noisy totals tell neighbors apart that agree on
    it."""
    data = worlds.data("three thousand")
    monkeypatch.setattr(optimized, "branches", lambda area, code: np.zeros(len(code), dtype=bool))
    whole = prepared(spec_of("geography.spine=tabulation", "constraints.total=Block_Group"), data)
    assert [c.level for c in whole.constraints["persons"] if c.sign == "="] == ["Block_Group"]
    tracts = prepared(
        spec_of("constraints.total=Tract"), data
    )  # one unit each, now that no tract is in two branches
    assert [(c.name, c.level) for c in tracts.constraints["persons"] if c.sign == "="] == [
        ("total", "Tract")
    ]
    with pytest.raises(InputError, match="'Block_Group' are not those of units"):
        prepared(spec_of("constraints.total=Block_Group", "geography.targets=Block_Group"), data)


def test_a_tree_rests_on_structures_only_where_these_are_published(worlds: Worlds) -> None:
    """Where the bounds are off, or the schema has no dwelling that they could bound, the tree says
    nothing of them.
    """
    data = worlds.data("three thousand")
    queries = ", ".join(f'{lv} = {{ votingage = "1" }}' for lv in LEVELS)
    no_dwelling = (
        'schema={ name = "ages", attributes = { votingage = ["0", "1"] } }',
        f"budget.queries={{ {queries} }}",
        "estimation.passes={}",
        "rounding.chain=[]",
    )
    for changes in (
        ("constraints.group_quarters=false",),
        ("constraints.housing_units=false",),
        no_dwelling,
    ):
        spec = spec_of(*changes)
        p = prepared(spec, data)
        assert len(p.trees["persons"].place) == p.spine.units("Block")
        assert len(p.trees["housing"].place) == p.spine.units("Block")
        assert "which blocks" not in notes(spec)[-1]
    p = prepared(spec_of(), data)
    assert len(p.trees["persons"].place) < p.spine.units("Block")
    assert (
        "which blocks have a housing unit or a facility of group quarters, and which types"
        in notes(spec_of())[-1]
    )
    assert notes(spec_of("geography.spine=tabulation")) == notes(spec_of())[:-1]
