"""How well areas will be known on each spine, before anything is measured."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import das as package
from das.engine import Silent
from das.estimate.areas.estimates import pieces, variances
from das.files.readers import pl94_2010
from das.fold import Tiers
from das.model.areas import Areas, off_spine
from das.model.names import text
from das.model.redistricting import PL94
from das.release.area_counts import counts, statistics
from das.release.opened import open_release
from das.release.own_replicates import OwnReplicates
from das.tools.areas.page import planned, weights
from das.truth.readers import read
from tests.commands import Commands, Das
from tests.estimate.world import random_spine
from tests.worlds import Worlds


@pytest.fixture
def das(commands: Commands) -> Das:
    return commands.named("plan")


def written(path: Path, areas: Areas, blocks: NDArray[np.str_]) -> Path:
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["area", "block"])
        out.writerows(
            (areas.code(a), blocks[u]) for a, u in zip(areas.area, areas.unit, strict=True)
        )
    return path


@pytest.fixture
def places(worlds: Worlds, tmp_path: Path) -> Path:
    release = open_release(
        worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand") / "release"
    )
    kind, blocks = (
        next(a for a in release.areas() if a.kind == "Place"),
        release.spine.geocodes("Block"),
    )
    path = written(tmp_path / "places.csv", kind, blocks)
    path.write_text(path.read_text() + "".join(f"every second,{b}\n" for b in blocks[::2]))
    return path


def test_the_estimate_is_what_the_release_then_states(worlds: Worlds, places: Path) -> None:
    """On the spine of the run: the standard error depends on no count, so it is known before."""
    spec = package.load_spec("configs/pl94-2010.toml")
    found = planned(spec, [worlds.data("three thousand")], "persons", places, Silent())
    now = {"tabulation": "tabulation", "optimized": "production"}[spec.geography.spine]
    release = open_release(
        worlds.run("run.seed=1", "geography.spine=optimized", data="three thousand") / "release"
    )
    source = OwnReplicates.from_release(release)
    said = counts(source, found.areas, statistics(source, ["total"])).columns[0]
    at = {s.name: s for s in found.spines}
    assert np.allclose(
        at[now].estimate, said.error, rtol=1e-5, atol=1e-5
    )  # variances in the files are of single precision
    assert (at[now].estimate <= at[now].full_information + 1e-6).all()  # structures tell something
    assert (at[now].full_information <= at[now].topdown + 1e-6).all()
    mean = {name: float(np.mean(s.estimate**2)) for name, s in at.items()}
    assert mean["these areas"] < mean["tabulation"] / 4
    assert sum(s.best for s in found.shares) == pytest.approx(1)
    assert sum(s.now for s in found.shares) == pytest.approx(1)


@pytest.mark.parametrize("seed", range(3))
def test_weights_of_the_levels_give_the_variance_of_the_descent(seed: int) -> None:
    """Of any precisions of the levels: what is least by the weights is least by the recursion."""
    rng = np.random.default_rng(seed)
    spine = random_spine(rng, 4, 4)
    member = rng.random((5, spine.units("L3"))) < 0.5
    area, unit = np.nonzero(member)
    for known in (-1, 0, 1):
        tiers = Tiers.from_spine(
            spine,
            {lv: np.zeros(spine.units(lv), dtype=np.int64) for lv in spine.levels[: known + 1]},
        )
        cut = pieces(tiers.parents, area, unit)
        w = np.array(weights(spine, cut, known))
        assert not w[: known + 1].any()
        for _ in range(3):
            level = rng.uniform(0.1, 3, 4)
            precision = [np.full(len(c), p) for c, p in zip(spine.codes, level, strict=True)]
            exact = variances(tiers, precision, cut, 5, full_information=False).sum()
            assert exact == pytest.approx(float((w / level).sum()), rel=1e-9)


def test_the_figures_of_rhode_island(
    shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they were computed independently of this code, with a facility where no unit is occupied:
    root mean squares over the state-house districts.
    """
    monkeypatch.setattr(pl94_2010, "MOST_AT_HOME", 10**6)
    path = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    if not path.is_file():
        pytest.skip(f"no {path}")
    keys = [
        "geography.spine=optimized",
        'geography.targets=["Block_Group", "Place", "SLDL", "SLDU", "CD"]',
    ]
    spec = package.load_spec("configs/pl94-2010.toml", keys)
    blocks = read("pl94-2010", [path], PL94).blocks
    kind = next(
        a
        for a in off_spine(blocks.fields, [], np.arange(len(blocks)), len(blocks))
        if a.kind == "SLDL"
    )
    listed = written(tmp_path / "districts.csv", kind, text(blocks.fields["Block"]))
    found = {s.name: s for s in planned(spec, [path], "persons", listed, Silent()).spines}

    def over(name: str, figure: str) -> float:
        return float(np.sqrt(np.mean(getattr(found[name], figure) ** 2)))

    assert [round(over(s, "topdown")) for s in ("tabulation", "production")] == [247, 272]
    assert (
        round(over("targets", "topdown"), 2),
        round(over("targets", "full_information"), 2),
    ) == (5.33, 4.93)


def test_the_terminal_and_json_say_the_same(das: Das, worlds: Worlds, places: Path) -> None:
    args = ("configs/pl94-2010.toml", "--areas", places, "--data", worlds.data("three thousand"))
    code, out, _ = das(*args)
    assert code == 0
    assert all(
        word in out for word in ("tabulation", "production", "these areas", "best for these areas")
    )
    said = json.loads(das(*args, "--json")[1])
    assert [s["name"] for s in said["spines"]] == ["tabulation", "production", "these areas"]
    assert f"{said['spines'][0]['root_mean_square']['topdown']:,.2f}" in out
    assert f"{said['spines'][0]['areas'][0]['estimate']:,.2f}" in out
    housing = json.loads(das(*args, "--json", "--universe", "housing")[1])
    assert housing["spines"][0]["root_mean_square"]["estimate"] == 0  # exact in every block
    assert housing["shares"] == []


def test_bad_input_is_told(das: Das, worlds: Worlds, places: Path, tmp_path: Path) -> None:
    config, data = "configs/pl94-2010.toml", worlds.data("three thousand")
    (tmp_path / "bad.csv").write_text("area,block\nx,9\n")
    code, out, err = das(config, "--areas", tmp_path / "bad.csv", "--data", data)
    assert (code, out) == (2, "")
    assert "'9' is not a unit" in err
    for args, said in (
        (("--areas", places, "--data", data, "--margin", "Tract:total=5"), "goes without --areas"),
        (("--data", data), "goes with --areas"),
        (("--areas", tmp_path / "none.csv", "--data", data), "none.csv"),
    ):
        code, out, err = das(config, *args)
        assert (code, out) == (2, ""), args
        assert said in err
