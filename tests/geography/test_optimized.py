"""The optimized spine: the worked cases and digests of an independent program, on real and on
made-up places.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das.errors import InputError
from das.files.readers import pl94_2010
from das.geography import optimized
from das.geography.optimized import Rule
from das.geography.tabulation import Geocodes
from das.model.names import encoded
from das.model.records import Blocks
from das.model.redistricting import PL94
from tests.geography.blocks import BARE, LEVELS, by_block, geography, measured, row, shares

#: Shares of the levels in the production run of persons, times 4099.
PRODUCTION = [Fraction(n, 4099) for n in (104, 1440, 447, 687, 1256, 165)]


@pytest.fixture(scope="module")
def cases(shared_data: Path) -> list[dict[str, Any]]:
    """Blocks, and what the published code makes of them."""
    path = shared_data.parent / "facts" / "spine_cases.json"
    if not path.exists():
        pytest.skip(f"no {path}")
    found: list[dict[str, Any]] = json.loads(path.read_text())["cases"]
    return found


def test_the_worked_cases_of_production(cases: list[dict[str, Any]]) -> None:
    """Geocodes, units, how many of them are measured, and with which shares."""
    found = [c for c in cases if c["kind"] == "production"]
    assert len(found) == 20
    for case in found:
        asked, expected = case["settings"], case["expect"]
        layout = {"2021": "2020", "later": "2010"}[asked["geocode_layout"]]
        tree = measured(
            geography(case["blocks"]),
            Rule(asked["fanout_cutoff"], geocodes=Geocodes(layout, {})),
            asked["levels"],
            facilities=not asked["ignore_gq"],
            kept_apart=["Block_Group"] * asked["target_tabulation_block_groups"],
        )
        assert by_block(tree) == expected["geocodes"], case["id"]
        levels = tree.spine.levels
        assert {lv: tree.spine.units(lv) for lv in levels} == expected["units"], case["id"]
        assert {lv: int(tree.measured(lv).sum()) for lv in levels} == expected["measured"], case[
            "id"
        ]
        said = {code: Fraction(share) for code, share in expected["shares"]}
        assert shares(tree, [Fraction(s) for s in asked["shares"]]) == said, case["id"]


def test_the_worked_classification(cases: list[dict[str, Any]]) -> None:
    said = next(c for c in cases if c["kind"] == "classification")["codes"]
    for code, branch in said:
        if branch == "error":
            with pytest.raises(InputError, match=code):
                optimized.branches(encoded([code]), encoded(["1"]))
        else:
            assert optimized.branches(encoded([code]), encoded(["1"])).tolist() == [branch == "1"]


def test_the_worked_cases_of_the_demographic_and_housing_file(cases: list[dict[str, Any]]) -> None:
    """Levels of tract subsets below primary places, groups of these, and runs of even lengths.
    There are another county and another state, so that the unit of the case is no only child."""
    levels = (
        "US",
        "State",
        "County",
        "Prim",
        "Tract_Subset_Group",
        "Tract_Subset",
        "Block_Group",
        "Block",
    )
    found = [c for c in cases if c["kind"] == "dhc-county"]
    assert len(found) == 3
    for case in found:
        asked, blocks = case["settings"], case["blocks"]
        digits = [b["geocode16"] for b in blocks]
        places = geography(
            [row(d[:11] + d[12:]) for d in digits]
            + [row("010030001001000"), row("020010001001000")]
        )
        own = np.array([b["group_key"] for b in blocks] + ["", ""])
        prim = np.array([b["prim"] for b in blocks] + ["01003", "02001"])
        more = {
            "Prim": prim,
            "Tract_Subset_Group": prim,
            "key": own,
            "Tract_Subset": np.strings.add(
                prim, [b["tract"] for b in blocks] + ["000100", "000100"]
            ),
        }
        fields = {k: v.astype(np.str_) for k, v in places.fields.items()} | more
        rule = Rule(
            asked["fanout_cutoff"],
            geocodes=Geocodes("2022", {}),
            even=asked["grouping"] == "even",
            entities=False,
            grouped=("Tract_Subset_Group",),
        )
        define = {"Block_Group": ["Tract_Subset", "Block_Group"]}
        tree = measured(Blocks(fields), rule, levels, define=define, kept_apart=["key"])
        county = case["county_code"]
        of_case = {k: v for k, v in by_block(tree).items() if v.startswith(county)}
        assert of_case == case["expect"]["geocodes"], case["id"]
        given = shares(tree, [Fraction(0), Fraction(0), *map(Fraction, asked["shares"])])
        said = {code: Fraction(share) for code, share in case["expect"]["shares"]}
        assert {k: v for k, v in given.items() if k.startswith(county)} == said, case["id"]


@pytest.fixture(scope="module", params=["ri2010.pl.zip", "ri2010_bristol_44001.pl.zip"])
def real(request: pytest.FixtureRequest, shared_data: Path) -> tuple[bool, Blocks]:
    """Rhode Island, or one county of it. The independent program took a facility to be where no unit
    is occupied, however many persons live to a unit elsewhere."""
    path = shared_data / "pl94_2010" / "ri" / request.param
    if not path.exists():
        pytest.skip(f"no {path}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pl94_2010, "MOST_AT_HOME", 10**6)
        return request.param == "ri2010.pl.zip", pl94_2010.read([path], PL94).blocks


DIGESTS = {
    (True, True, "2020"): "445f1635d1f6efa8c6c8ad065268f9efbf2cd38eb8451cac9fe2ebde496cbbe2",
    (True, True, "2010"): "03bb29b251ed6eaa4ceeceeca97b03095a261e04f309d109f3222da97288dad9",
    (True, False, "2020"): "5327fbc5fb68af28ca1db4e922cbdc3f8409de08ad05a6256dcf9d8179bde1c2",
    (False, True, "2020"): "34c022155262847de11929c4ec4911a3b060165830031c7ff7ce8991aac0cbbc",
    (False, False, "2020"): "7ae03e35a58cf35f6ad7fdf207ff89959680ef924efeefa8237f1091e0f2d171",
}
DIGESTS_OF_SHARES = {
    True: "804e02ea201b3d5f390b9c66bdbe8b8babbc31f387bb0383d22ab20fff7fa50f",
    False: "a293c91b692b542a099a20d25068953053fa1ea121885ee825608880b88ee39f",
}


def digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(f"{line}\n" for line in sorted(lines)).encode()).hexdigest()


def test_the_codes_and_shares_of_rhode_island(real: tuple[bool, Blocks]) -> None:
    """The independent program's tree of a state and of a county, block by block and unit by
    unit.
    """
    state, blocks = real
    for (whole, facilities, layout), expected in DIGESTS.items():
        if whole == state:
            found = by_block(
                measured(blocks, Rule(geocodes=Geocodes(layout, {})), facilities=facilities)
            )
            assert digest([f"{block} {code}" for block, code in found.items()]) == expected
    given = shares(measured(blocks), PRODUCTION)
    assert (
        digest([f"{code or '-'} {share}" for code, share in given.items()])
        == DIGESTS_OF_SHARES[state]
    )


def test_the_one_published_geocode(real: tuple[bool, Blocks]) -> None:
    """Of a block of the 2010 demonstration data; with the digits of the nation, which a state alone
    does not need.
    """
    state, blocks = real
    if state:
        found = by_block(measured(blocks, Rule(geocodes=Geocodes("2010"))))
        assert found["4400701070233001"] == "0441000700491024400701070233001"


def test_the_units_of_rhode_island(real: tuple[bool, Blocks]) -> None:
    state, blocks = real
    persons, housing = measured(blocks), measured(blocks, facilities=False)
    units = [[t.spine.units(lv) for lv in LEVELS] for t in (persons, housing)]
    unmeasured = [
        [t.spine.units(lv) - int(t.measured(lv).sum()) for lv in LEVELS] for t in (persons, housing)
    ]
    if not state:
        assert units == [[1, 1, 1, 11, 48, 905], [1, 1, 1, 11, 47, 905]]
        assert unmeasured == [[0, 1, 1, 0, 0, 1]] * 2
        return
    assert units == [[1, 2, 6, 242, 967, 17_850], [1, 2, 6, 242, 941, 17_850]]
    assert unmeasured == [[0, 0, 1, 1, 4, 32], [0, 0, 1, 1, 5, 10]]
    by_depth = [Counter[int]() for _ in LEVELS]
    for code, share in shares(persons, PRODUCTION).items():
        by_depth[[0, 3, 9, 12, 13, 29].index(len(code))][int(share * 4099)] += 1
    assert by_depth[1:] == [
        {1440: 1, 3830: 1},
        {447: 5, 0: 1},
        {687: 238, 1943: 2, 2108: 1, 0: 1},
        {1256: 932, 1421: 31, 0: 4},
        {165: 17_818, 0: 32},
    ]
    everywhere = measured(blocks, replace(BARE, structures=False))
    assert [everywhere.spine.units(lv) for lv in LEVELS] == [1, 2, 6, 246, 1239, 25_181]
