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

import das
from das.errors import InputError, UserError
from das.model.not_private import COLUMN
from das.publications.dhc.release import open_dhc
from das.tools.maps.choropleth import classes, map_page
from das.tools.maps.truth import mapping
from das.tools.maps.truth.mapping import MapOptions
from das.truth.assessment import true_counts
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


def boundaries(
    path: Path, keys: list[Any], column: str = "GEOID", land: list[int] | None = None, **more: Any
) -> Path:
    """A row of unit squares, the first with a hole in it; without a third dimension, in degrees."""
    features = []
    for i, key in enumerate(keys):
        square = [[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]
        rings = [square, HOLE] if i == 0 else [square]
        more |= {} if land is None else {"ALAND20": land[i]}
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
    data = mapping.choropleth(run, MapOptions("county"), file)
    p1 = pd.read_csv(run / "release" / "tables" / "P1_County.csv")
    assert data.values.tolist() == p1["P0010001"].tolist()
    assert [len(rings) for rings in data.shapes] == [2, *[1] * (len(counties) - 3), 0, 0]
    assert data.lacks[0].startswith(f"2 of {len(counties)} units have no boundary in the file: ")
    assert all(code in data.lacks[0] for code in counties[-2:])
    assert data.lacks[1] == "1 boundaries are of no unit of this release: 99001."
    hispanic = mapping.choropleth(run, MapOptions("County", "hispanic", "hispanic or latino"), file)
    p2 = pd.read_csv(run / "release" / "tables" / "P2_County.csv")
    assert hispanic.values.tolist() == p2["P0020002"].tolist()
    margins = mapping.choropleth(run, MapOptions("County", "hispanic", "2", "margin"), file)
    assert (margins.values > 0).all()
    assert (margins.values < 75).all()  # the margin of the one measurement, as das check prints it
    units = mapping.choropleth(run, MapOptions("County", "h1", "Vacant", universe="housing"), file)
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
        assert not mapping.choropleth(run, MapOptions("County"), file).lacks
    states = boundaries(tmp_path / "s.geojson", [34, 36, 42], "STATE")
    assert not mapping.choropleth(run, MapOptions("State"), states).lacks
    blocks = pd.read_parquet(run / "release" / "spine.parquet").query("level == 'Block'")
    for column in ("geoid", "geocode"):
        file = boundaries(tmp_path / "b.geojson", blocks[column].tolist(), "key")
        assert not mapping.choropleth(run, MapOptions("Block"), file).lacks


def test_every_format_is_whole_and_says_what_it_must(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties[1:])
    data = mapping.choropleth(run, MapOptions("County"), file)
    for suffix in (".html", ".svg"):
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
    with pytest.raises(UserError, match="is none of"):
        mapping.write(data, tmp_path / "map.pdf")
    assert COLUMN not in page.text + drawing
    quarters = mapping.choropleth(run, MapOptions("County", "hhgq", "2"), file)
    assert (
        "NOT COUNTED: hhgq assigned" in quarters.title
    )  # 2010 files do not say who lives in group quarters
    for suffix in (".html", ".svg"):
        mapping.write(replace(data, private=False), tmp_path / f"seeded{suffix}")
        assert COLUMN in (tmp_path / f"seeded{suffix}").read_text(encoding="utf-8")


def test_errors_are_those_of_the_evaluation_and_stay_confidential(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    data = mapping.choropleth(run, MapOptions("County", show="error"), file)
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
    for place in (run / "release" / "map.html", run / "release" / "tables" / "map.svg"):
        with pytest.raises(UserError, match="which may be published"):
            mapping.write(data, place)
        assert not place.exists()
    with pytest.raises(UserError):  # a release alone has no truth
        mapping.choropleth(run / "release", MapOptions("County", show="error"), file)


def test_areas_across_the_levels_are_drawn_as_well(run, tmp_path) -> None:  # type: ignore[no-untyped-def]
    areas = pd.read_parquet(run / "release" / "areas.parquet", filters=[("kind", "==", "Place")])
    blocks = pd.read_csv(run / "release" / "tables" / "P1_Block.csv", dtype={"GEOCODE": str})
    places = (
        areas.merge(blocks, left_on="geocode", right_on="GEOCODE").groupby("area")["P0010001"].sum()
    )
    file = boundaries(tmp_path / "p.geojson", places.index.tolist(), column="GEOID10")
    assert (
        mapping.choropleth(run / "release", MapOptions("place"), file).values.tolist()
        == places.tolist()
    )
    error = mapping.choropleth(run, MapOptions("Place", show="error"), file)
    rows = pd.read_csv(run / "confidential" / "evaluation" / "tables.csv")
    row = rows.query("geography == 'Place' and column == 'P0010001' and size == 'all'").iloc[0]
    assert np.abs(error.values).mean() == pytest.approx(row["mae"])
    assert error.confidential
    assert "NOT COUNTED" in mapping.choropleth(run, MapOptions("Place", "hhgq", "2"), file).title
    margins = mapping.choropleth(run, MapOptions("Place", show="margin"), file).values
    known = das.read_areas(run, kind="Place", statistics=["total"]).set_index("area")
    known = known.loc[places.index]
    ends = pd.concat(
        [known["estimate_high"] - known["estimate"], known["estimate"] - known["estimate_low"]],
        axis=1,
    ).max(axis=1)
    assert (margins > 0).any()  # a place that is a whole state is exact
    assert np.abs(margins - ends.astype(float)).max() <= 1


def test_where_nothing_tells_a_count_there_is_no_margin_to_draw() -> None:
    with pytest.raises(InputError, match="nothing that was measured at 'County' tells 'sex'"):
        mapping._known(np.array([-1, -1]), "County", "sex")
    values = mapping._known(np.array([3, -1]), "County", "sex")
    assert (values[0], np.isnan(values[1])) == (3, True)


def test_a_line_of_a_table_is_drawn_by_its_number_its_words_or_its_field(
    run, counties, tmp_path
) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    p2 = pd.read_csv(run / "release" / "tables" / "P2_County.csv")["P0020002"].tolist()
    for answer in ("2", "P0020002", "hispanic or latino"):
        data = mapping.choropleth(run, MapOptions("County", answer=answer, table="p2"), file)
        assert data.values.tolist() == p2
        assert "P0020002" in data.title
    with pytest.raises(UserError, match="no answer '99'"):
        mapping.choropleth(run, MapOptions("County", answer="99", table="P2"), file)


def test_the_demographic_file_is_drawn_by_its_tables(worlds, commands, tmp_path) -> None:  # type: ignore[no-untyped-def]
    run = worlds.dhc()
    rows = pd.read_csv(run / "release" / "tables" / "P12_County.csv", dtype={"GEOCODE": str})
    file = boundaries(tmp_path / "c.geojson", rows["GEOCODE"].tolist())
    wanted = MapOptions("County", answer="P0120002", table="P12")
    data = mapping.choropleth(run / "release", wanted, file)
    assert data.values.tolist() == rows["P0120002"].tolist()
    error = mapping.choropleth(run, replace(wanted, show="error"), file)
    assert error.confidential
    opened = open_dhc(run / "release")
    truth = true_counts(run, ["persons"], opened.spine)["persons"]["County"].open("a test")
    male = truth.answer(opened.spec.universe("persons").schema.query("sex"))[:, 0]
    assert (data.values - error.values).tolist() == male.tolist()
    units = MapOptions("County", "tenure3", "1", universe="units")
    with pytest.raises(InputError, match="the attributes are"):
        mapping.choropleth(run, units, file)
    with pytest.raises(UserError, match="'under 5 years' is 3 and 27 of 'P12'"):
        mapping.choropleth(run, replace(wanted, answer="under 5 years"), file)
    margin = ("--table", "P12", "--answer", "2", "--show", "margin", "--out", tmp_path / "m.svg")
    call = (run, "--boundaries", file, "--level", "County", *margin)
    code, _, err = commands.named("map")(*call)
    assert (code, "drawn on request" in err) == (2, True)
    run = worlds.dhc_with_intervals()
    assert commands.named("map")(run, *call[1:])[0] == 0
    found = das.read_intervals(run, "P12", "County", method="replicates").query(
        "field == 'P0120002'"
    )
    farther = np.maximum(found["value"] - found["lower"], found["upper"] - found["value"])
    drawn = mapping.choropleth(run, replace(wanted, show="margin"), file).values
    np.testing.assert_array_equal(drawn, farther.to_numpy(float, na_value=np.nan))


def test_mistakes_are_told_with_what_there_is(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    other = boundaries(tmp_path / "o.geojson", ["1", "2"])
    (text := tmp_path / "x.geojson").write_text("no boundaries")
    for wanted, path, key, said in (
        (MapOptions("Countie"), file, None, "no level 'Countie'"),
        (
            MapOptions("County", "hispanic"),
            file,
            None,
            "has 2 answers, and a map shows one.*1: Not Hispanic or Latino",
        ),
        (MapOptions("County", "hispanic", "nobody"), file, None, "no answer 'nobody'"),
        (MapOptions("County"), file, "FIPS", "there is no column 'FIPS'.*NAME, GEOID"),
        (MapOptions("County"), other, None, "no boundary belongs to a unit.*34001"),
        (MapOptions("County"), text, None, "cannot be read as boundaries"),
        (MapOptions("County"), tmp_path / "none.gpkg", None, "no such file"),
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
    # and before any work: no release is looked at
    code, _, err = commands.named("map")(tmp_path / "none", *call[1:])
    assert (code, "topdown-das[maps]" in err) == (2, True), err


def test_shares_of_the_total_and_of_a_line(run, counties, tmp_path, commands) -> None:  # type: ignore[no-untyped-def]
    file = boundaries(tmp_path / "c.geojson", counties)
    table = pd.read_csv(run / "release" / "tables" / "P2_County.csv")
    share = (100 * table["P0020002"] / table["P0020001"]).tolist()
    of_query = mapping.choropleth(
        run, MapOptions("County", "hispanic", "2", share_of="total"), file
    )
    assert of_query.values.tolist() == pytest.approx(share)
    assert "Hispanic or Latino in % of Total (persons) by County: share" in of_query.title
    of_line = MapOptions("County", answer="P0020002", table="P2", share_of="P0020001")
    assert mapping.choropleth(run, of_line, file).values.tolist() == pytest.approx(share)
    with pytest.raises(UserError, match="shares and densities are of published counts"):
        mapping.choropleth(run, replace(of_line, show="margin"), file)
    out = tmp_path / "share.html"
    asked = ("--table", "P2", "--answer", "P0020002", "--share-of", "P0020001", "--out", out)
    code, _, err = commands.named("map")(run, "--boundaries", file, "--level", "county", *asked)
    assert code == 0, err
    assert f"{share[0]:.1f} %" in out.read_text()


def test_densities_per_square_mile_of_land_and_per_another_column(
    run, counties, tmp_path, commands
) -> None:  # type: ignore[no-untyped-def]
    """TIGER's land area is in square meters; another office's column is taken as it is. Without
    land there is no number, and boundaries in two parts have the land of both."""
    persons = pd.read_csv(run / "release" / "tables" / "P1_County.csv")["P0010001"].to_numpy()
    mile = 1609.344**2
    land = [round(mile * (i + 1)) for i in range(len(counties))]
    land[1] = 0
    file = boundaries(tmp_path / "c.geojson", counties, land=land)
    data = mapping.choropleth(run, MapOptions("County", per="land-area"), file)
    size = np.arange(1.0, len(counties) + 1)
    size[1] = np.nan
    np.testing.assert_allclose(data.values, persons / size, rtol=1e-6)
    assert data.title == "Total (persons) per square mile of land by County: density"
    assert "column ALAND20 of the boundaries" in data.says[0]
    parts = boundaries(tmp_path / "p.geojson", [*counties, counties[0]], land=[*land, land[0]])
    twice = mapping.choropleth(run, MapOptions("County", per="land-area"), parts)
    assert twice.values[0] == pytest.approx(data.values[0] / 2)
    other = mapping.choropleth(run, MapOptions("County", per="ALAND20"), file)
    np.testing.assert_allclose(other.values, persons / np.where(size > 0, land, np.nan))
    out = tmp_path / "density.svg"
    call = (run, "--boundaries", file, "--level", "County", "--per", "land-area", "--out", out)
    code, _, err = commands.named("map")(*call)
    assert code == 0, err
    assert "no number (1)" in out.read_text()


def test_a_density_without_land_is_refused_once(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    land = [1] * len(counties)
    bare, with_land = (
        boundaries(tmp_path / "a.geojson", counties),
        boundaries(tmp_path / "b.geojson", counties, land=land),
    )
    for wanted, file, said in (
        (MapOptions("County", per="land-area"), bare, "no column of land area .*it has no numbers"),
        (MapOptions("County", per="area"), with_land, "no column of numbers 'area'.*of ALAND20"),
        (MapOptions("County", per="NAME"), with_land, "no column of numbers 'NAME'"),
        (
            MapOptions("County", show="margin", per="land-area"),
            with_land,
            "--per: shares and densit",
        ),
        (
            MapOptions("County", per="land-area", share_of="total"),
            with_land,
            "a share or a density",
        ),
    ):
        with pytest.raises(UserError) as caught:
            mapping.choropleth(run, wanted, file)
        assert re.search(said, str(caught.value), re.DOTALL), str(caught.value)


def test_every_area_says_its_name_and_number_at_the_pointer(run, counties, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """In the drawing of each class the units are in their order: every title is where its square
    is."""
    keys = counties[1:]
    data = mapping.choropleth(run, MapOptions("County"), boundaries(tmp_path / "c.geojson", keys))
    assert data.tooltip(1) == f"{data.units[1]}: {data.text(data.values[1])}"
    titles = [data.tooltip(u) for u in range(1, len(counties))]
    assert sorted(re.findall("<title>([^<]*)</title></", map_page(data))) == sorted(titles)
    assert_sound(map_page(data))
    two = replace(data, values=np.array([0, 1, 2, 1, 2, 1.0]))  # two classes
    found = re.findall(r'<path d="([^"]*)"[^>]*><title>([^<]*)</title></path>', map_page(two))
    at = {title: min(map(float, re.findall(r"[ML]([\d.]+) ", d))) for d, title in found}
    assert sorted(at, key=at.__getitem__) == [two.tooltip(u) for u in range(1, len(counties))]
    named = replace(data, units=[f"<b> & {u}" for u in data.units])
    assert map_page(named).count("<title>&lt;b&gt; &amp; ") == len(keys)
    nothing = replace(data, values=np.full(len(counties), np.nan))
    assert map_page(nothing).count(": no number</title>") == len(keys)


def test_a_map_has_the_name_of_its_place(worlds: Worlds, tmp_path: Path) -> None:
    run = worlds.run("run.seed=1", data="one thousand")
    codes = pd.read_csv(run / "release" / "tables" / "P1_County.csv", dtype=str)["GEOCODE"]
    data = mapping.choropleth(run, MapOptions("County"), boundaries(tmp_path / "c.json", [*codes]))
    names = das.read_tables(run, "P1", "State")["name"]
    assert data.title.startswith(f"{names[0]}: Total (persons) by County")


def test_classes_have_no_gaps() -> None:
    rng = np.random.default_rng(6)
    for signed in (False, True):
        values = rng.integers(-900 if signed else 0, 900, 40).astype(float)
        found = classes(values, signed)
        assert (found[0][0], found[-1][1]) == (values.min(), values.max())
        gaps = [(a[1], b[0]) for a, b in pairwise(found)]
        assert all(high + 1 == low or {high, low} & {-1.0, 1.0} for high, low in gaps)
        assert signed or all(high + 1 == low for high, low in gaps)
    found = classes(rng.random(40), False)
    assert all(a[1] == b[0] for a, b in pairwise(found))


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
