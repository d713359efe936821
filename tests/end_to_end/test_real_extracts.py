"""The readers other than that of 2010, on official files: from the file to published counts."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from das import spec
from das.files.microdata import reading as microdata_reading
from das.release.opened import open_release
from das.runs import pipeline

FILES = {
    "pl94-2020": "pl94_2020/ri_2018_e2e_prototype",
    "ppmf": "ppmf/ppmf_20210428_eps12-2_P_01105_perry_al.csv.gz",
}

CONFIG = """
[run]
name = "real"
seed = 1
[data]
reader = "{reader}"
[schema]
name = "pl94"
[geography]
levels = ["County", "Tract", "Block_Group", "Block"]
[constraints]
total = "County"
[budget]
rho = "1000"
neighbors = "bounded"
[budget.levels]
County = "1/4"
Tract = "1/4"
Block_Group = "1/4"
Block = "1/4"
{queries}
"""


@pytest.mark.parametrize("reader", FILES)
def test_with_hardly_any_noise_the_counts_of_the_file_are_published(
    reader: str, shared_data: Path, tmp_path: Path
) -> None:
    """sigma is 1/15: no draw moves an answer by chance, so what is published is what was read."""
    queries = "".join(
        f'[budget.queries.{lv}]\ndetailed = "1"\n'
        for lv in ("County", "Tract", "Block_Group", "Block")
    )
    text = CONFIG.format(reader=reader, queries=queries)
    run = spec.parse(text, where="test", overrides=("output.report=false",))
    path = shared_data / FILES[reader]
    outcome = pipeline.run(run, tmp_path / "run", paths=[path])
    assert all(r.mae == 0 for r in outcome.rows["persons"] if r.source == "postprocessed")
    opened = open_release(outcome.directory.release)
    (persons,) = run.universes
    published = microdata_reading.read(
        outcome.directory.release / "microdata" / "persons", persons, opened.spine.codes[-1]
    )
    assert published.totals().sum() == COUNTED[reader](path) > 10_000


def prototype(folder: Path) -> int:
    """P0010001 of every block: field 6 of segment 1, where the header's summary level, field 3, is
    750.
    """
    (header,), (segment,) = folder.glob("rigeo*.pl"), folder.glob("ri00001*.pl")
    blocks = {f[7] for f in rows(header) if f[2] == "750"}  # LOGRECNO
    return sum(int(f[5]) for f in rows(segment) if f[4] in blocks)


def rows(path: Path) -> list[list[str]]:
    return [line.split("|") for line in path.read_text(encoding="latin-1").splitlines()]


def persons_of_a_ppmf(path: Path) -> int:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return sum(1 for _ in lines) - 1


#: Persons of the files, counted without the project's readers.
COUNTED: dict[str, Callable[[Path], int]] = {"pl94-2020": prototype, "ppmf": persons_of_a_ppmf}
