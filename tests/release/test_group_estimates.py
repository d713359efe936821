"""Estimates of the Detailed DHC from a release's folder: sums hold, regions of the same blocks
agree, intervals hold.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from das.cli import main
from das.errors import ReleaseError, UserError
from das.publications.detailed.estimation.release import estimate
from das.publications.detailed.model.tables import PRODUCTS
from das.publications.detailed.release import open_groups
from tests.detailed.estimation_worlds import World, measure, world

CELL = ["AGESTART", "AGEEND", "SEX"]
KEY = ["REGION_TYPE", "REGION_ID", "ITERATION_CODE", *CELL]
FAMILIES = {
    ("USA", "1"): ["STATE"],
    ("STATE", "01"): ["COUNTY"],
    ("STATE", "02"): ["COUNTY"],
    ("COUNTY", "01001"): ["TRACT"],
    ("COUNTY", "01003"): ["TRACT"],
    ("COUNTY", "02001"): ["TRACT"],
    ("PR-STATE", "72"): ["PR-COUNTY"],
    ("PR-COUNTY", "72001"): ["PR-TRACT"],
}
#: Names of one region.
SAME = [
    [("COUNTY", "01003"), ("TRACT", "01003000001"), ("PLACE", "0100300"), ("AIANNH", "0001")],
    [("TRACT", "01001000001"), ("PLACE", "0100100")],
    [("STATE", "02"), ("COUNTY", "02001")],
    [
        ("PR-STATE", "72"),
        ("PR-COUNTY", "72001"),
        ("PR-TRACT", "72001000001"),
        ("PR-PLACE", "7200100"),
    ],
]


def read(out: Path) -> pd.DataFrame:
    return pd.concat(
        [pq.read_table(p).to_pandas() for p in sorted(out.glob("*/*.parquet"))], ignore_index=True
    )


def tables(
    frame: pd.DataFrame, column: str
) -> dict[tuple[str, str, str], dict[tuple[str, str, str], float]]:
    out: dict[tuple[str, str, str], dict[tuple[str, str, str], float]] = {}
    for kind, region, code, a, b, sex, value in frame[[*KEY, column]].itertuples(index=False):
        out.setdefault((kind, region, code), {})[a, b, sex] = value
    return out


def cell(table: dict[tuple[str, str, str], float], of: tuple[str, str, str]) -> float:
    """A cell of a coarser table, summed."""
    if of in table:
        return table[of]
    return sum(
        v
        for (a, b, sex), v in table.items()
        if a != "*" and sex == of[2] and int(of[0]) <= int(a) and int(b) <= int(of[1])
    )


@pytest.fixture(scope="module", params=[2.0, 0.8])
def estimated(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[World, pd.DataFrame, dict[str, int]]:
    folder = tmp_path_factory.mktemp("groups")
    made = world(folder, np.random.default_rng(3), request.param)
    rows = estimate(made.opened, folder / "out", integers=True, csv=True)
    return made, read(folder / "out"), rows


@pytest.mark.parametrize("column", ["VALUE", "COUNT"])
def test_families_add_up_in_the_coarsest_common_cells(
    estimated: tuple[World, pd.DataFrame, dict[str, int]], column: str
) -> None:
    _, frame, _ = estimated
    every, shared = tables(frame, column), 0
    for (kind, region), (below,) in FAMILIES.items():
        for code in sorted(frame.ITERATION_CODE.unique()):
            children = [
                t
                for (k, r, c), t in every.items()
                if (k, c) == (below, code) and (region == "1" or r.startswith(region))
            ]
            if (kind, region, code) in every and children:
                for of in min([every[kind, region, code], *children], key=len):
                    total = sum(cell(t, of) for t in children)
                    assert cell(every[kind, region, code], of) == pytest.approx(
                        total, abs=1e-9 if column == "VALUE" else 0
                    )
                    shared += of[0] != "*"
    assert shared > 20


@pytest.mark.parametrize("column", ["VALUE", "COUNT"])
def test_cells_add_up_to_their_total(
    estimated: tuple[World, pd.DataFrame, dict[str, int]], column: str
) -> None:
    for table in tables(estimated[1], column).values():
        cells = [v for (a, _, _), v in table.items() if a != "*"]
        sexes = [v for (a, _, sex), v in table.items() if a == "*" and sex != "*"]
        for some in (cells, sexes):
            assert not some or sum(some) == pytest.approx(table["*", "*", "*"], abs=1e-9)


@pytest.mark.parametrize("column", ["VALUE", "COUNT"])
def test_regions_of_the_same_blocks_agree(
    estimated: tuple[World, pd.DataFrame, dict[str, int]], column: str
) -> None:
    every, agreed = tables(estimated[1], column), 0
    for names in SAME:
        for one, other in pairwise(names):
            for code in sorted({c for _, _, c in every}):
                if (*one, code) in every and (*other, code) in every:
                    a, b = every[*one, code], every[*other, code]
                    for of in min([a, b], key=len):
                        assert cell(a, of) == pytest.approx(cell(b, of), abs=1e-9)
                        agreed += 1
    assert agreed > 100


@pytest.mark.parametrize("column", ["VALUE", "COUNT"])
def test_a_regional_group_is_the_sum_of_its_detailed_groups(
    estimated: tuple[World, pd.DataFrame, dict[str, int]], column: str
) -> None:
    frame = estimated[1]
    totals = (
        frame[frame.SEX == "*"]
        .set_index(["REGION_TYPE", "REGION_ID", "ITERATION_CODE"])[column]
        .unstack()
    )
    np.testing.assert_allclose(totals["3010"], totals["3011"] + totals["3012"], atol=1e-9)
    assert not np.allclose(
        totals["2001"].astype(float), (totals["3001"] + totals["4001"]).astype(float), atol=1
    )  # race: no sum


def test_counts_are_whole_and_not_negative(
    estimated: tuple[World, pd.DataFrame, dict[str, int]],
) -> None:
    frame = estimated[1]
    assert frame.COUNT.dtype == np.int64
    assert frame.COUNT.min() == 0
    assert frame.VALUE.min() < 0


def test_every_group_that_was_measured_is_there(
    estimated: tuple[World, pd.DataFrame, dict[str, int]],
) -> None:
    made, frame, rows = estimated
    opened = made.opened
    groups = {kind: len(f) for kind, f in frame[frame.SEX == "*"].groupby("REGION_TYPE")}
    for kind, ids in opened.regions.ids.items():
        levels = [p for p in opened.spec.plans if p.at.region == kind]
        assert groups[kind] == sum(len(ids) * len(opened.codes[p.level]) for p in levels)
    assert sum(rows.values()) == len(frame)
    assert not frame.duplicated(KEY).any()


def repeated(
    made: World, out: Path, rng: np.random.Generator, times: int, scale: float = 1.0
) -> pd.DataFrame:
    """Estimates of the same truth from fresh noise, and the truth."""
    leaves = made.opened.spec.parameters.product.tables[0].cells[3]
    codes = made.opened.spec.parameters.iterations.code.tolist()
    regions, parts = made.opened.regions, []
    of = {
        (k, i.decode()): made.of(k, n) for k, ids in regions.ids.items() for n, i in enumerate(ids)
    }
    inside: dict[tuple[str, str, str], np.ndarray] = {}
    for _ in range(times):
        measure(made, rng, scale)
        estimate(made.opened, out)
        frame = read(out)
        for key in {tuple(k) for k in frame[CELL].to_numpy().tolist()} - inside.keys():
            a, b, sex = key
            inside[key] = np.array(
                [sex in ("*", s) and (a == "*" or int(a) <= int(x) <= int(b)) for x, _, s in leaves]
            )
        frame["TRUTH"] = [
            of[k, r][codes.index(i)][inside[a, b, s]].sum()
            for k, r, i, a, b, s in frame[KEY].itertuples(index=False)
        ]
        parts.append(frame)
    return pd.concat(parts, ignore_index=True)


def held(frame: pd.DataFrame) -> float:
    return float(((frame.LOWER <= frame.TRUTH) & (frame.TRUTH <= frame.UPPER)).mean())


def test_intervals_hold_and_estimates_are_unbiased(tmp_path: Path) -> None:
    made = world(tmp_path, np.random.default_rng(8), 1.0)
    frame = repeated(made, tmp_path / "out", np.random.default_rng(1), 6)
    z = (frame.VALUE - frame.TRUTH) / frame.STANDARD_ERROR
    total, near = frame.SEX == "*", frame.TRUNCATED
    for some in (total, ~total, total & near, total & ~near, ~total & near):
        assert some.sum() > 400
        assert 0.93 <= held(frame[some]) <= 0.97
        assert abs(z[some].mean()) < 0.1
    wrong = repeated(made, tmp_path / "out", np.random.default_rng(2), 1, scale=1.4)
    assert held(wrong) < 0.88


def test_laplacian_noise_is_estimated_too(tmp_path: Path) -> None:
    made = world(tmp_path, np.random.default_rng(8), 1.0, pure=True)
    frame = repeated(made, tmp_path / "out", np.random.default_rng(1), 2)
    assert not frame.TRUNCATED.any()
    assert 0.92 <= held(frame) <= 0.98


# --- the command
# ---------------------------------------------------------------------------------------------


def test_the_command_writes_what_the_function_does(tmp_path: Path) -> None:
    made, out = world(tmp_path, np.random.default_rng(3), 0.5), tmp_path / "out"
    run = CliRunner().invoke(
        main,
        ["detailed", "estimate", str(made.opened.folder), "--out", str(out), "--csv", "--json"],
    )
    assert run.exit_code == 0, run.output
    said = json.loads(run.output)
    assert said["private"] is True
    frame = read(out)
    assert sum(said["rows"].values()) == len(frame)
    assert "COUNT" not in frame.columns
    texts = pd.concat(
        [
            pd.read_csv(p, dtype={"REGION_ID": str, "ITERATION_CODE": str})
            for p in sorted(out.glob("csv/*/*.csv"))
        ]
    )
    assert len(texts) == len(frame)
    np.testing.assert_allclose(texts.VALUE, frame.VALUE)
    again = CliRunner().invoke(
        main, ["detailed", "estimate", str(made.opened.folder), "--out", str(out)]
    )
    assert again.exit_code == 0, again.output
    assert not list(out.glob("csv/*/*.csv"))


def test_another_folder_is_not_replaced(tmp_path: Path) -> None:
    made = world(tmp_path, np.random.default_rng(3), 0.5)
    with pytest.raises(UserError, match="is complete"):
        estimate(made.opened, made.opened.folder)
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "one.txt").write_text("dear")
    with pytest.raises(UserError, match="would be lost"):
        estimate(made.opened, tmp_path / "letters")


def test_a_part_that_is_lost_is_told(tmp_path: Path) -> None:
    made = world(tmp_path, np.random.default_rng(3), 0.5)
    shutil.rmtree(next(made.opened.folder.rglob("COUNTY-detailed.parquet")))
    with pytest.raises(ReleaseError, match="no measurements of COUNTY detailed"):
        estimate(open_groups(made.opened.folder), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_households_are_refused(tmp_path: Path) -> None:
    made = world(tmp_path, np.random.default_rng(3), 0.5)
    spec, product = made.opened.spec, PRODUCTS["households"]
    parameters = replace(
        spec.parameters, product=product, budgets={t.name: {} for t in product.tables}
    )
    homes = replace(made.opened, spec=replace(spec, parameters=parameters))
    with pytest.raises(UserError, match="estimates are of persons"):
        estimate(homes, tmp_path / "out")
