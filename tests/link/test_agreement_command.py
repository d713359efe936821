"""``das evaluate --agreement`` on a folder of tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from das.cli import main
from das.files.release import tables as table_lines
from das.model.histogram import Histogram
from das.publications.dhc import release_files
from das.publications.dhc.agreement.tables import CHECKED_TABLES
from tests import dhc_small


@pytest.fixture(scope="module")
def world() -> dict[str, Histogram]:
    return dhc_small.simulated(20)


def tables(folder: Path, of: dict[str, Histogram]) -> Path:
    spine = dhc_small.tree()
    release_files.write_tables(folder, spine, dhc_small.counted(spine, of), private=True)
    return folder


def asked(*arguments: object) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["evaluate", *map(str, arguments)])
    return found.exit_code, found.output


def test_tables_of_linked_records_agree(tmp_path: Path, world: dict[str, Histogram]) -> None:
    code, text = asked(tables(tmp_path, world), "--agreement", "--json")
    rows = json.loads(text[text.index("[") :])
    assert code == 0
    assert {r["level"] for r in rows} == set(dhc_small.LEVELS)
    assert rows[0]["level"] == "Block"
    assert not any(r["violated"] for r in rows)


def test_other_names_of_columns_and_a_contradiction(
    tmp_path: Path, world: dict[str, Histogram]
) -> None:
    h = world["households"]
    moved = Histogram.from_triplets(h.units, h.cells, (h.unit + 1) % h.units, h.cell, h.count)
    folder = tables(tmp_path, world | {"households": moved})
    path = folder / "P17_Block.csv"
    before = table_lines.lines(folder, "Block", ["P17"])
    path.write_text(re.sub(r"P017(\d)(\d{3})", r"P17_\2N", path.read_text()))
    after = table_lines.lines(folder, "Block", ["P17"])
    assert before.keys() == after.keys()
    assert np.array_equal(after["P17:3"], before["P17:4"] + before["P17:7"])
    (folder / "H9_Block.csv").unlink()
    code, text = asked(folder, "--agreement")
    assert code == 0
    assert "householders are occupied units" in text
    assert "any of these" in text


def test_what_is_refused(tmp_path: Path, world: dict[str, Histogram]) -> None:
    code, text = asked(tmp_path, "--agreement")
    assert code == 2
    assert "neither a release of the DHC nor tables" in text
    code, text = asked(tmp_path, "--agreement", "--areas", "x.csv")
    assert code == 2
    assert "--areas" in text
    folder = tables(tmp_path / "t", world)
    path = folder / f"{CHECKED_TABLES[0]}_Block.csv"
    path.write_text("\n".join(path.read_text().splitlines()[:-1]) + "\n")
    code, text = asked(folder, "--agreement")
    assert code == 2
    assert "other places" in text
