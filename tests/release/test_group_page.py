"""The page of a Detailed DHC release: its content is that of the measurements and the tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from das.model.not_private import WARNING
from das.publications.detailed.release import open_groups
from das.publications.detailed.simulation import files as detailed
from das.publications.detailed.tables import ListedLevel, outcomes
from das.release.outcome import Outcome
from das.report.template import upward
from tests.detailed.runs import run_groups
from tests.report.parsed import Page, assert_sound

ROW = re.compile(
    r'<tr><th scope="row">([^<]*)</th><td>([\d,]+)</td><td'
    r' class="strong">([\d,]+)</td>((?:<td>[\d,]+</td>)+)'
)


def run(folder: Path, product: str, out: Path, seed: int | None = None) -> Outcome:
    return run_groups(
        folder / "parameters",
        folder / "data",
        product,
        out,
        run={"name": "groups & more", "seed": seed},
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("page")
    for product in ("persons", "households"):
        detailed.write(
            out / product, seed=3, states="NM,PR", persons=6_000, codes=60, product=product
        )
    return out


@pytest.fixture(scope="module", params=["persons", "households"])
def outcome(request: pytest.FixtureRequest, folder: Path) -> Outcome:
    return run(folder / request.param, request.param, folder / f"run-{request.param}")


def page_of(outcome: Outcome) -> str:
    return (outcome.directory.release / "report.html").read_text(encoding="utf-8")


def counts(page: str) -> list[tuple[str, int, int, list[int]]]:
    return [
        (
            level,
            int(measured.replace(",", "")),
            int(published.replace(",", "")),
            [int(n.replace(",", "")) for n in re.findall(r"<td>([\d,]+)", rest)],
        )
        for level, measured, published, rest in ROW.findall(page)
    ]


def test_it_says_how_many_groups_have_which_table(outcome: Outcome) -> None:
    """Against the Parquet files of the measurements, read by themselves, and the rows of the
    tables.
    """
    release, opened = outcome.directory.release, open_groups(outcome.directory.release)
    rows = counts(page_of(outcome))
    plans = sorted(opened.spec.plans, key=lambda p: p.table.name)
    for plan, (level, measured, published, found) in zip(plans, rows, strict=True):
        root = (
            release
            / ("nmf" if plan.first else "nmf-households")
            / f"{plan.at.name.replace(' ', '-')}.parquet"
        )
        files = (root / "DPQuery" / plan.table.name).iterdir()
        sizes = [
            n
            for f in files
            for n in pq.ParquetFile(f).read(["TABLE_SIZE"])["TABLE_SIZE"].to_pylist()
        ]
        assert (level, measured) == (plan.at.name, len(sizes))
        if plan.first:
            kept = (
                pq.read_table(release / "tables" / "t1.parquet")["REGION_TYPE"]
                .to_pylist()
                .count(plan.at.region)
            )
            others = sum(
                p
                for other, (_, _, p, _) in zip(plans, rows, strict=True)
                if other.at.region == plan.at.region
            )
            assert others == kept
            assert found == [
                measured - published,
                sizes.count(0) - measured + published,
                *(sizes.count(n) for n in (1, 2, 3)),
            ]
        else:
            assert published == measured
            assert found == [sizes.count(n) for n in range(len(plan.table.sizes))]
    for name, n in outcome.tables.items():
        assert f"<code>{name}</code> ({n:,} rows)" in page_of(outcome)


def test_it_says_what_is_guaranteed(outcome: Outcome) -> None:
    said = Page(page_of(outcome)).text
    assert_sound(page_of(outcome))
    privacy = json.loads((outcome.directory.release / "privacy.json").read_text())
    assert WARNING not in said
    assert f"Budget ρ = {'4.944' if 't1' in outcome.tables else '8.8954'} " in said
    every = list(privacy["guarantee"].values())[-1]
    (row,) = (e for e in every["epsilon"] if e["delta"] == "1e-10")
    assert re.findall(r"ε = ([\d.]+)", said) == [upward(row["pld"][1])]
    statement = Page((outcome.directory.release / "privacy.html").read_text("utf-8")).text
    for sentence in privacy["what_this_means"]:
        assert re.sub(r"\s+", " ", sentence) in statement
    assert "groups & more" in said


def test_it_is_sealed_and_listed_and_needs_no_other_file(outcome: Outcome) -> None:
    release, page = outcome.directory.release, page_of(outcome)
    assert "report.html" in json.loads((release / "privacy.json").read_text())["digests"]
    assert "release/report.html" in outcome.directory.read_manifest()["outputs"]
    links = re.findall(r'(?:src|href)="(?!#)([^"]*)"', page.replace("xlink:", ""))
    assert [link for link in links if not (release / link).is_file()] == []


def test_a_seeded_page_is_the_same_and_warns(folder: Path, tmp_path: Path) -> None:
    pages = [
        page_of(run(folder / "persons", "persons", tmp_path / name, seed=5)) for name in ("a", "b")
    ]
    assert pages[0] == pages[1]
    assert WARNING in pages[0]


def test_the_figure_leaves_out_what_is_not_there() -> None:
    level = ListedLevel(
        "USA detailed", "t2", 1, 5, "1", 9, {}, None, {"left out": 0, "total only": 4, "8 cells": 1}
    )
    text = outcomes([level], "t2")
    assert "8 cells" in text
    assert "left out" not in text
    assert "USA detailed" in outcomes([level], "t2")
