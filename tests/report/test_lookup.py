"""The look-up of the pages, run in JavaScript: what a person types finds the place, by name, by code or by GEOID."""

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from das.model.areas import Areas
from das.model.spine import Spine
from das.report import across, lookup, release_page
from das.report.answers import Answers, Shown

HERE = Path(__file__).parent
SCRIPT = Path(lookup.__file__).with_name("lookup.js")


def spine() -> Spine:
    codes = (["US"], ["44"], ["44005", "44007"], ["4400504010011000", "4400700010011000", "4400700010022003"])
    parent = ([0], [0], [0, 0], [0, 1, 1])
    names = ([""], ["Rhode Island"], ["Nuñez County", "Providence County"], [""] * 3)
    return Spine(
        ("US", "State", "County", "Block"),
        tuple(map(np.array, codes)),
        tuple(np.array(p, dtype=np.int64) for p in parent),
        tuple(map(np.array, names)),
    )


def shown(tree: Spine) -> Shown:
    answers = tuple(
        Answers(
            "persons",
            level,
            "total",
            "Total",
            ("total",),
            10 * i + np.arange(tree.units(level))[:, None],
            None,
            None,
            False,
        )
        for i, level in enumerate(tree.levels)
    )
    return Shown(tree, answers, tree.levels)


def typed(tmp_path: Path, page: Shown, *words: str) -> list[dict]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the page's script with")
    (tmp_path / "data.json").write_text(lookup.data(page))
    command = [node, HERE / "lookup_dom.js", SCRIPT, tmp_path / "data.json", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_names_codes_and_geoids_find_a_place(tmp_path):
    words = {
        "providence": "Providence County (County 44007)",
        " Rhode ": "Rhode Island (State 44)",
        "nunez county": "Nuñez County (County 44005)",  # nobody types the tilde
        "44007": "Providence County (County 44007)",
        "440070001002003": "Block 4400700010022003",  # 15 digits, as in TIGER and in block-assignment files
        "440070001001000": "Block 4400700010011000",
        "4400504010011000": "Block 4400504010011000",
        "County=44": "",
        "Block=": "",
        "Wonderland": "",
    }
    got = dict(zip(words, typed(tmp_path, shown(spine()), *words), strict=True))
    assert {w: g["title"] for w, g in got.items()} == words
    assert got["44007"]["tables"] == [[["total", "21", "not measured", "–"]]]
    assert got["440070001001000"]["says"] == ["GEOID 440070001001000", "Part of Providence County (County 44007)"]
    assert got["County=44"]["choices"] == ["Nuñez County (County 44005)", "Providence County (County 44007)"]
    assert len(got["Block="]["choices"]) == 3
    assert got["Wonderland"]["says"] == ["No unit has “Wonderland” in its name, its code or its GEOID."]


def test_intervals_are_those_of_the_page_from_python(tmp_path):
    """By query one kind of unit and another, an answer that nothing tells, one outside, one that is certain."""
    tree = spine()
    published = np.array([[5, 1451], [7, 0], [3, 20]])
    middle, within = np.array([[9, 1231], [7, -2], [3, 21]]), np.array([[-1, 6], [0, 6], [0, 6]])
    noisy, margin = published + 1, np.array([4, -1, 4])
    blocks = Answers("persons", "Block", "sex", "Sex", ("f", "m"), published, noisy, margin, False, middle, within)
    page = Shown(tree, (*shown(tree).answers[:3], blocks), tree.levels)
    codes = tree.codes[-1].tolist()
    got = [g["tables"][0] for g in typed(tmp_path, page, *codes)]
    for unit, rows in enumerate(got):
        for i, row in enumerate(rows):
            count, *cells = release_page._cells(blocks, unit, i)
            assert row == ["fm"[i], f"{count:,}", *cells]
    assert got[0][1] == ["m", "1,451", "1,452", "\u2691 outside 1,225 to 1,237"]
    assert got[0][0][3] == "–"
    assert got[1] == [["f", "7", "not measured", "7"], ["m", "0", "not measured", "−8 to 4"]]


def test_a_tree_without_names_is_searched_by_code(tmp_path):
    tree = spine()
    bare = Spine(tree.levels, tree.codes, tree.parent)
    (got,) = typed(tmp_path, shown(bare), "007")
    assert got["choices"] == ["County 44007", "Block 4400700010011000", "Block 4400700010022003"]


def test_places_across_the_levels_are_found_too(tmp_path):
    tree = spine()
    town = Areas("Place", np.array(["4459000"]), np.array([0, 0]), np.array([0, 2]), np.array(["Providence city"]))
    counts = Answers("persons", "Place", "total", "Total", ("total",), np.array([[42]]), None, None, False)
    page = Shown(tree, (*shown(tree).answers, counts), tree.levels, (town,))
    both, one, county = typed(tmp_path, page, "Providence", "Place=city", "44007")
    assert both["choices"] == ["Providence County (County 44007)", "Providence city (Place 4459000)"]
    assert (one["title"], one["tables"][0][0][1]) == ("Providence city (Place 4459000)", "42")
    assert "sums of published counts" in one["says"][0]
    assert county["title"] == "Providence County (County 44007)"


def test_errors_of_areas_are_those_of_their_sums():
    tree = spine()
    towns = Areas("Place", np.array(["a", "b"]), np.array([0, 1]), np.array([0, 2]), np.array(["Aton", ""]))
    counts = Answers("persons", "Place", "total", "Total", ("total",), np.array([[42], [7]]), None, None, False)
    page = Shown(tree, (*shown(tree).answers, counts), tree.levels, (towns,))
    (row,) = across.errors(page, {counts.key: np.array([[45], [6]])})
    assert (row.kind, row.n, row.mae, row.p50, row.max, row.bias, row.worst) == (
        "Place",
        2,
        2.0,
        1,
        3,
        -1.0,
        "Aton (a)",
    )
