"""Blocks as worked cases list them, random ones, their optimized spine, and what an independent
program makes of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isqrt
from typing import Any

import numpy as np
from hypothesis import strategies as st

from das.geography import optimized, tabulation
from das.geography.optimized import Rule, measured_spine
from das.geography.tabulation import Geocodes
from das.model import tabulation as chains
from das.model.measured_spine import MeasuredSpine
from das.model.records import Blocks

LEVELS = ("US", "State", "County", "Tract", "Block_Group", "Block")
#: As few digits as the tree needs, as the worked cases have them.
BARE = Rule(geocodes=Geocodes(digits={}))
Row = Mapping[str, Any]


def row(block: str, **other: Any) -> Row:
    """A block by its code of 15 digits, in no area unless ``other`` says so."""
    plain = {
        "cousub": "00000",
        "place": "99999",
        "aianhh": "9999",
        "housing_units": 1,
        "gq_types": "0000000",
    }
    return {
        "state": block[:2],
        "county": block[2:5],
        "tract": block[5:11],
        "block": block[11:],
        **plain,
        **other,
    }


def geography(rows: Sequence[Row]) -> Blocks:
    """The blocks that are listed."""
    state, county, tract, block, cousub, place, aian = (
        [str(r[k]) for r in rows]
        for k in ("state", "county", "tract", "block", "cousub", "place", "aianhh")
    )

    def joined(*columns: Sequence[str]) -> list[str]:
        return ["".join(parts) for parts in zip(*columns, strict=True)]

    group = [b[0] for b in block]
    fields = {
        "State": state,
        "County": joined(state, county),
        "Tract": joined(state, county, tract),
        "Block_Group": joined(state, county, tract, group),
        "Block": joined(state, county, tract, group, block),
        "County_Subdivision": joined(state, county, cousub),
        "Place": place,
        "AIAN": aian,
    }
    structures = [[int(r["housing_units"]), *map(int, r["gq_types"])] for r in rows]
    return Blocks({k: np.array(v) for k, v in fields.items()}, np.array(structures, dtype=np.int64))


def measured(
    blocks: Blocks,
    rule: Rule = BARE,
    levels: Sequence[str] = LEVELS,
    *,
    facilities: bool = True,
    define: Mapping[str, Sequence[str]] | None = None,
    kept_apart: Sequence[str] = (),
) -> MeasuredSpine:
    """The optimized spine of blocks, with some fields of theirs for targets."""
    spine, unit = tabulation.spine(blocks, levels, define)
    rule = replace(rule, targets=optimized.target_codes(kept_apart, blocks, spine, unit, {}))
    return measured_spine(blocks, spine, unit, rule, facilities=facilities)


def shares(tree: MeasuredSpine, of_levels: Sequence[Fraction]) -> dict[str, Fraction]:
    """The share of every unit by its code; that of a nation has none."""
    out = {}
    for depth, level in enumerate(tree.spine.levels):
        for unit_class, units in tree.classes(level).items():
            held = chains.measured_levels(tree.spine.levels, level, unit_class)
            share = sum((of_levels[tree.spine.index(lv)] for lv in held), Fraction(0))
            for code in tree.spine.codes[depth][units].tolist():
                out["" if level == "US" else code.decode()] = share
    return out


def by_block(tree: MeasuredSpine) -> dict[str, str]:
    """The code of each block on the tree, by its 16 digits."""
    return {code[-16:]: code for code in tree.spine.geocodes("Block").tolist()}


@st.composite
def places(draw: st.DrawFn, most: int = 40) -> list[Row]:
    """Blocks of two states, in any order, some without a structure; one state uses county
    subdivisions.
    """
    some = st.tuples(
        st.sampled_from(["44", "01"]),
        st.sampled_from(["001", "003"]),
        st.sampled_from(["000100", "000200"]),
        st.integers(1, 2),
        st.sampled_from(["10000", "20000"]),
        st.sampled_from(["99999", "10000", "30000"]),
        st.sampled_from(["9999", "9999", "9999", "0010", "2415", "8100", "9400", "9600"]),
        st.sampled_from(["0000000", "0000000", "0000001", "1000000", "0010001"]),
        st.sampled_from([0, 1, 1, 1]),
    )
    out = []
    for i, (state, county, tract, group, cousub, place, aian, gq, homes) in enumerate(
        draw(st.lists(some, min_size=1, max_size=most))
    ):
        number = f"{group}{(i * 37) % 1000:03d}"
        out.append(
            row(
                state + county + tract + number,
                cousub=cousub,
                place=place,
                aianhh=aian,
                gq_types=gq,
                housing_units=homes,
            )
        )
    if not any(r["housing_units"] or "1" in r["gq_types"] for r in out):
        out[0] = {**out[0], "housing_units": 1}
    return out


STRONG = {"09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55"}


def oracle(
    rows: Sequence[Row],
    of_levels: Sequence[Fraction],
    fanout: int | None,
    *,
    facilities: bool,
    groups_too: bool,
) -> tuple[dict[str, str], dict[str, Fraction]]:
    """The geocode of each block by its 16 digits and the share of each unit by its code: the rule
    in plain Python, block by block, in the layout of 2020. ``groups_too``: tabulation block groups
    are targets."""
    tree: dict[tuple[str, ...], dict[tuple[str, ...], list[Any]]] = {}
    for r in rows:
        if not (r["housing_units"] or "1" in r["gq_types"]):
            continue
        code = r["aianhh"]
        branch = "1" if code < "8000" or "9000" <= code < "9500" else "0"
        entity = r["cousub"] if r["state"] in STRONG and branch == "0" else r["place"]
        key = (entity, code if branch == "1" else "9999", r["gq_types"] if facilities else "")
        key += (r["block"][0],) if groups_too else ()
        tree.setdefault((branch + r["state"], r["county"], r["tract"]), {}).setdefault(
            key, []
        ).append(r)
    groups: dict[tuple[str, ...], list[list[str]]] = {}
    for tract, keys in tree.items():
        blocks = sum(map(len, keys.values()))
        size = blocks if fanout is None else isqrt(blocks) + fanout + 1
        runs: list[list[str]] = []
        for key in sorted(keys):
            here = sorted(
                r["state"] + r["county"] + r["tract"] + r["block"][0] + r["block"]
                for r in keys[key]
            )
            runs += [here[i : i + size] for i in range(0, len(here), size)]
        groups[tract] = [g for g in runs if len(g) > 1] + [g for g in runs if len(g) == 1]
    counties = {t[:2] for t in groups}
    tracts = {c: sorted(t for t in groups if t[:2] == c) for c in counties}
    wide = [len(str(max(map(len, found.values())))) for found in (tracts, groups)]
    children: dict[str, list[str]] = {"": sorted({t[0] for t in groups})}
    for state, county in sorted(counties):
        own = f"{state}10{county}1"
        children.setdefault(state, []).append(own)
        for i, t in enumerate(tracts[state, county], 1):
            unit = f"{own}{i:0{wide[0]}d}"
            children.setdefault(own, []).append(unit)
            for j, g in enumerate(groups[t], 1):
                group = f"{unit}{j:0{wide[1]}d}"
                children.setdefault(unit, []).append(group)
                children[group] = [group + b for b in g]
    share: dict[str, Fraction] = {}

    def give(unit: str, depth: int) -> None:
        share[unit] = of_levels[depth]
        for child in children.get(unit, []):
            give(child, depth + 1)
        if len(below := children.get(unit, [])) == 1:
            share[unit], share[below[0]] = share[unit] + share[below[0]], Fraction(0)

    give("", 0)
    return {c[-16:]: c for c in share if len(c) > 16}, share
