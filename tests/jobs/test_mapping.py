"""Maps: boundaries joined by GEOID or code, what does not match named, errors kept confidential."""

from __future__ import annotations

import importlib.util
import json
import re
import stat
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from das.errors import InputError, UserError
from das.jobs import mapping
from das.jobs.mapping import Wanted
from das.model.not_private import COLUMN
from das.report.answers import Answers
from das.report.choropleth import classes
from tests.report.parsed import assert_sound
from tests.worlds import Worlds

needs_geopandas = pytest.mark.skipif(
    importlib.util.find_spec("geopandas") is None, reason="without the extra maps"
)
pytestmark = needs_geopandas
HOLE = [[0.25, 0.25], [0.25, 0.75], [0.75, 0.75], [0.75, 0.25], [0.25, 0.25]]


@pytest.fixture(scope="module")
def run(worlds: Worlds, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy, for a map of errors is written into the run."""
    return worlds.copy(worlds.run(data="three thousand"), tmp_path_factory.mktemp("maps") / "run")


@pytest.fixture(scope="module")
def counties(run: Path) -> list[str]:
    return pd.read_csv(run / "release" / "tables" / "P1_County.csv", dtype=str)["GEOCODE"].tolist()


def boundaries(path: Path, keys: list[Any], column: str = "GEOID", **more: Any) -> Path:
    """A row of unit squares, the first with a hole in it; without a third dimension, in degrees."""
    features = []
    for i, key in enumerate(keys):
        square = [[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]
        rings = [square, HOLE] if i == 0 else [square]
        features.append(
            {
                "type": "Feature",
                "properties": {"NAME": f"square {i}", column: key} | more,
                "geometry": {"type": "Polygon", "coordinates": rings},
            }
        )
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return path


def test_a_map_has_the_published_counts_and_names_what_does_not_match(
    run, counties, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", [*counties[:-2], "99001"])
    data = mapping.choropleth(run, Wanted("county"), file)
    p1 = pd.read_csv(run / "release" / "tables" / "P1_County.csv")
    assert data.values.tolist() == p1["P0010001"].tolist()
    assert [len(rings) for rings in data.shapes] == [2, *[1] * (len(counties) - 3), 0, 0]
    assert data.lacks[0].startswith(f"2 of {len(counties)} units have no boundary in the file: ")
    assert all(code in data.lacks[0] for code in counties[-2:])
    assert data.lacks[1] == "1 boundaries are of no unit of this release: 99001."
    hispanic = mapping.choropleth(run, Wanted("County", "hispanic", "hispanic or latino"), file)
    p2 = pd.read_csv(run / "release" / "tables" / "P2_County.csv")
    assert hispanic.values.tolist() == p2["P0020002"].tolist()
    margins = mapping.choropleth(run, Wanted("County", "hispanic", "2", "margin"), file)
    assert (margins.values > 0).all()
    assert (margins.values < 75).all()  # the margin of the one measurement, as das check prints it
    units = mapping.choropleth(run, Wanted("County", "h1", "Vacant", universe="housing"), file)
    assert (
        units.values.tolist()
        == pd.read_csv(run / "release" / "tables" / "H1_County.csv")["H0010003"].tolist()
    )


def test_numbers_that_lost_their_zeros_and_columns_of_other_names_join_as_well(
    run, counties, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    for file in (
        boundaries(tmp_path / "n.geojson", list(map(int, counties)), "fips"),
        boundaries(tmp_path / "t.geojson", counties, "GEOID20", STATEFP="34"),
    ):
        assert not mapping.choropleth(run, Wanted("County"), file).lacks
    states = boundaries(tmp_path / "s.geojson", [34, 36, 42], "STATE")
    assert not mapping.choropleth(run, Wanted("State"), states).lacks
    blocks = pd.read_parquet(run / "release" / "spine.parquet").query("level == 'Block'")
    for column in ("geoid", "geocode"):
        file = boundaries(tmp_path / "b.geojson", blocks[column].tolist(), "key")
        assert not mapping.choropleth(run, Wanted("Block"), file).lacks


def test_every_format_is_whole_and_says_what_it_must(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties[1:])
    data = mapping.choropleth(run, Wanted("County"), file)
    for suffix in (".html", ".svg", ".png"):
        mapping.write(data, tmp_path / f"map{suffix}")
        mapping.write(data, tmp_path / f"again{suffix}")
        assert (tmp_path / f"map{suffix}").read_bytes() == (
            tmp_path / f"again{suffix}"
        ).read_bytes()
    page = assert_sound((tmp_path / "map.html").read_text(encoding="utf-8"))
    assert f"1 of {len(counties)} units have no boundary" in page.text
    assert "Total (persons) by County: count" in page.text
    assert counties[0] in page.text  # its number stands in the table
    drawing = (tmp_path / "map.svg").read_text(encoding="utf-8")
    assert drawing.startswith("<svg ")
    assert ">Total (persons) by County: count</text>" in drawing  # text, and not its outlines
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="is none of"):
        mapping.write(data, tmp_path / "map.pdf")
    assert COLUMN not in page.text + drawing
    quarters = mapping.choropleth(run, Wanted("County", "hhgq", "2"), file)
    assert (
        "NOT COUNTED: hhgq assigned" in quarters.title
    )  # 2010 files do not say who lives in group quarters
    for suffix in (".html", ".svg"):
        mapping.write(replace(data, private=False), tmp_path / f"seeded{suffix}")
        assert COLUMN in (tmp_path / f"seeded{suffix}").read_text(encoding="utf-8")


def test_errors_are_those_of_the_evaluation_and_stay_confidential(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    data = mapping.choropleth(run, Wanted("County", show="error"), file)
    rows = pd.read_csv(run / "confidential" / "evaluation" / "errors.csv")
    row = rows.query(
        "level == 'County' and query == 'total' and source == 'postprocessed' and bin == 'all'"
    ).iloc[0]
    assert np.abs(data.values).mean() == pytest.approx(row["mae"])
    assert np.abs(data.values).max() == row["max"]
    out = run / "confidential" / "map.html"
    mapping.write(data, out)
    assert "Confidential." in assert_sound(out.read_text(encoding="utf-8")).text
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    out.unlink()
    for place in (run / "release" / "map.html", run / "release" / "tables" / "map.png"):
        with pytest.raises(UserError, match="which may be published"):
            mapping.write(data, place)
        assert not place.exists()
    with pytest.raises(UserError):  # a release alone has no truth
        mapping.choropleth(run / "release", Wanted("County", show="error"), file)


def test_areas_across_the_levels_are_drawn_as_well(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    areas = pd.read_parquet(run / "release" / "areas.parquet", filters=[("kind", "==", "Place")])
    blocks = pd.read_csv(run / "release" / "tables" / "P1_Block.csv", dtype={"GEOCODE": str})
    places = (
        areas.merge(blocks, left_on="geocode", right_on="GEOCODE").groupby("area")["P0010001"].sum()
    )
    file = boundaries(tmp_path / "p.geojson", places.index.tolist(), column="GEOID10")
    assert (
        mapping.choropleth(run / "release", Wanted("place"), file).values.tolist()
        == places.tolist()
    )
    error = mapping.choropleth(run, Wanted("Place", show="error"), file)
    rows = pd.read_csv(run / "confidential" / "evaluation" / "tables.csv")
    row = rows.query("geography == 'Place' and column == 'P0010001' and size == 'all'").iloc[0]
    assert np.abs(error.values).mean() == pytest.approx(row["mae"])
    assert error.confidential
    assert "NOT COUNTED" in mapping.choropleth(run, Wanted("Place", "hhgq", "2"), file).title
    with pytest.raises(InputError, match="nothing that was measured at 'Place' tells"):
        mapping.choropleth(run, Wanted("Place", show="margin"), file)


def test_where_nothing_tells_a_count_there_is_no_margin_to_draw() -> None:
    one = np.ones((2, 1), dtype=np.int64)
    for within in (None, -one):
        found = Answers(
            "persons", "County", "sex", "Sex", ("f",), one, None, None, False, within, within
        )
        with pytest.raises(InputError, match="nothing that was measured at 'County' tells 'sex'"):
            mapping._values(Path(), None, found, 0, "margin", None)  # type: ignore[arg-type]
    found = replace(found, middle=one, within=np.array([[3], [-1]]))
    values = mapping._values(Path(), None, found, 0, "margin", None)  # type: ignore[arg-type]
    assert (values[0], np.isnan(values[1])) == (3, True)


def test_mistakes_are_told_with_what_there_is(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    other = boundaries(tmp_path / "o.geojson", ["1", "2"])
    (text := tmp_path / "x.geojson").write_text("no boundaries")
    for wanted, path, key, said in (
        (Wanted("Countie"), file, None, "no level 'Countie'"),
        (
            Wanted("County", "hispanic"),
            file,
            None,
            "has 2 answers, and a map shows one.*1: Not Hispanic or Latino",
        ),
        (Wanted("County", "hispanic", "nobody"), file, None, "no answer 'nobody'"),
        (Wanted("County"), file, "FIPS", "there is no column 'FIPS'.*NAME, GEOID"),
        (Wanted("County"), other, None, "no boundary is that of a unit.*34001"),
        (Wanted("County"), text, None, "cannot be read as boundaries"),
        (Wanted("County"), tmp_path / "none.gpkg", None, "no such file"),
    ):
        with pytest.raises((UserError, InputError)) as caught:
            mapping.choropleth(run, wanted, path, key)
        assert re.search(said, str(caught.value), re.DOTALL), str(caught.value)


def test_the_command_names_the_extra_where_it_is_missing(
    run, counties, tmp_path, commands, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    call = (run, "--boundaries", file, "--level", "county")
    code, out, err = commands.named("map")(*call, "--show", "error")
    assert code == 0, err
    assert f"written: {run / 'confidential' / 'map-county.html'} (confidential)" in out
    monkeypatch.setitem(sys.modules, "geopandas", None)
    code, _, err = commands.named("map")(*call)
    assert code == 2
    assert "topdown-das[maps]" in err
    assert "Traceback" not in err


def test_classes_hold_every_number_once_and_in_order() -> None:
    rng = np.random.default_rng(5)
    for signed in (False, True):
        for size in (1, 3, 40):
            values = rng.integers(-20 if signed else 0, 20, size).astype(float)
            found = classes(values, signed)
            inside = [sum(low <= v <= high for low, high, _ in found) for v in values]
            assert inside == [1] * size
            assert all(a[1] < b[0] for a, b in pairwise(found))
            assert 1 <= len(found) <= 5
