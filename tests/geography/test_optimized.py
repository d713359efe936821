"""The optimised spine: worked cases and published digests, an oracle on random geographies, and what is always so."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das.files.readers import pl94_2010
from das.geography import tabulation, targets
from das.geography.geocodes import Geocodes
from das.geography.optimized import Rule, measured_spine
from das.model import chains
from das.model.measured_spine import MeasuredSpine
from das.model.records import Blocks
from das.model.schema import PL94

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
#: Shares of the levels in the production run of persons, times 4099.
PRODUCTION = (104, 1440, 447, 687, 1256, 165)


def geography(rows: Sequence[Mapping[str, Any]]) -> Blocks:
    """Blocks as the worked cases list them."""
    column = {k: [str(r[k]) for r in rows] for k in ("state", "county", "tract", "block", "cousub", "place", "aianhh")}
    state, county, tract, block = (column[k] for k in ("state", "county", "tract", "block"))
    fields = {
        "State": state, "County": list(map("".join, zip(state, county, strict=True))),
        "Tract": list(map("".join, zip(state, county, tract, strict=True))),
        "Block_Group": [f"{s}{c}{t}{b[0]}" for s, c, t, b in zip(state, county, tract, block, strict=True)],
        "Block": [f"{s}{c}{t}{b[0]}{b}" for s, c, t, b in zip(state, county, tract, block, strict=True)],
        "County_Subdivision": list(map("".join, zip(state, county, column["cousub"], strict=True))),
        "Place": column["place"], "AIAN": column["aianhh"],
    }  # fmt: skip
    facilities = [[int(r["housing_units"]), *map(int, r["gq_types"])] for r in rows]
    return Blocks({k: np.array(v) for k, v in fields.items()}, np.array(facilities, dtype=np.int64))


def tree(
    blocks: Blocks, rule: Rule | None = None, levels: Sequence[str] = LEVELS, *, facilities: bool = True,
    kept_apart: Sequence[str] = (),
) -> MeasuredSpine:  # fmt: skip
    spine, unit = tabulation.spine(blocks, levels)
    rule = rule or Rule(geocodes=Geocodes(digits={}))
    codes = targets.of(kept_apart, blocks, spine, unit, {})
    rule = Rule(rule.fanout, codes, rule.geocodes, rule.structures, rule.facilities)
    return measured_spine(blocks, spine, unit, rule, facilities=facilities)


def shares(tree: MeasuredSpine, levels: Sequence[Fraction]) -> dict[str, Fraction]:
    """The share of every unit; that of a root above the states under an empty code."""
    out = {}
    for depth, level in enumerate(tree.spine.levels):
        for unit_class, units in tree.classes(level).items():
            held = chains.held(tree.spine.levels, level, unit_class)
            share = sum((levels[tree.spine.index(lv)] for lv in held), Fraction(0))
            for code in tree.spine.codes[depth][units].tolist():
                out[code.decode() if level != "US" else ""] = share
    return out


def by_block(tree: MeasuredSpine) -> dict[str, str]:
    """The code of each block on the tree, by its 16 digits."""
    return {code[-16:]: code for code in tree.spine.geocodes("Block").tolist()}


def test_the_worked_cases_of_production(shared_data: Path) -> None:
    """Blocks, and what the published code makes of them: geocodes, units, how many are measured, and with which shares."""
    cases = json.loads((shared_data.parent / "facts" / "spine_cases.json").read_text())["cases"]
    cases = [c for c in cases if c["kind"] == "production"]
    assert len(cases) == 20
    for case in cases:
        asked, expected = case["settings"], case["expect"]
        layout = {"2021": "2020", "later": "2010"}[asked["geocode_layout"]]
        found = tree(geography(case["blocks"]), Rule(asked["fanout_cutoff"], geocodes=Geocodes(layout, {})),
                     asked["levels"], facilities=not asked["ignore_gq"],
                     kept_apart=["Block_Group"] * asked["target_tabulation_block_groups"])  # fmt: skip
        assert by_block(found) == expected["geocodes"], case["id"]
        levels = found.spine.levels
        assert {lv: found.spine.units(lv) for lv in levels} == expected["units"], case["id"]
        assert {lv: int(found.measured(lv).sum()) for lv in levels} == expected["measured"], case["id"]
        said = {code: Fraction(share) for code, share in expected["shares"]}
        assert shares(found, [Fraction(s) for s in asked["shares"]]) == said, case["id"]


@pytest.fixture(scope="module", params=["ri2010.pl.zip", "ri2010_bristol_44001.pl.zip"])
def real(request: pytest.FixtureRequest, shared_data: Path) -> tuple[bool, Blocks]:
    """Rhode Island, or one county of it."""
    path = shared_data / "pl94_2010" / "ri" / request.param
    if not path.exists():
        pytest.skip(f"no {path}")
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
    """The independent program's tree of a state and of a county, block by block and unit by unit."""
    state, blocks = real
    for (whole, facilities, layout), expected in DIGESTS.items():
        if whole == state:
            found = by_block(tree(blocks, Rule(geocodes=Geocodes(layout, {})), facilities=facilities))
            assert digest([f"{block} {code}" for block, code in found.items()]) == expected
    given = shares(tree(blocks), [Fraction(s, 4099) for s in PRODUCTION])
    assert digest([f"{code or '-'} {share}" for code, share in given.items()]) == DIGESTS_OF_SHARES[state]


def test_the_one_published_geocode(real: tuple[bool, Blocks]) -> None:
    """Of a block of the 2010 demonstration data; with the digits of the nation, which a state alone does not need."""
    state, blocks = real
    if state:
        found = by_block(tree(blocks, Rule(geocodes=Geocodes("2010"))))
        assert found["4400701070233001"] == "0441000700491024400701070233001"


def test_the_units_of_rhode_island(real: tuple[bool, Blocks]) -> None:
    state, blocks = real
    persons, housing = tree(blocks), tree(blocks, facilities=False)
    units = [[t.spine.units(lv) for lv in LEVELS] for t in (persons, housing)]
    unmeasured = [[t.spine.units(lv) - int(t.measured(lv).sum()) for lv in LEVELS] for t in (persons, housing)]
    if not state:
        assert units == [[1, 1, 1, 11, 48, 905], [1, 1, 1, 11, 47, 905]]
        assert unmeasured == [[0, 1, 1, 0, 0, 1]] * 2
        return
    assert units == [[1, 2, 6, 242, 967, 17_850], [1, 2, 6, 242, 941, 17_850]]
    assert unmeasured == [[0, 0, 1, 1, 4, 32], [0, 0, 1, 1, 5, 10]]
    by_depth = [Counter[int]() for _ in LEVELS]
    for code, share in shares(persons, [Fraction(s, 4099) for s in PRODUCTION]).items():
        by_depth[[0, 3, 9, 12, 13, 29].index(len(code))][int(share * 4099)] += 1
    assert by_depth[1:] == [{1440: 1, 3830: 1}, {447: 5, 0: 1}, {687: 238, 1943: 2, 2108: 1, 0: 1},
                            {1256: 932, 1421: 31, 0: 4}, {165: 17_818, 0: 32}]  # fmt: skip
    everywhere = tree(blocks, Rule(geocodes=Geocodes(digits={}), structures=False))
    assert [everywhere.spine.units(lv) for lv in LEVELS] == [1, 2, 6, 246, 1239, 25_181]
