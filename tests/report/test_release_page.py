"""The two pages of a run, as written: sound and true to the files that they come with; one of them
is public.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from das import spec
from das.files.measurements.frame import read_nmf
from das.model.redistricting import PL94
from das.publications.published import public as from_release
from das.release.opened import open_release
from das.release.precision import achieved_precision
from das.report import answers as lookup
from das.report import privacy, template
from das.report.template import in_bytes
from das.runs import pipeline
from tests.report.parsed import Page, assert_sound, unpack
from tests.worlds import Worlds

#: As a name, and as a level of the data: what would run, close the script of the look-up, or break
#: an attribute.
HOSTILE = """</script><script>alert("a&b")</script>'"""


def load(root: Path, name: str, *changes: str):
    text = (root / "configs" / f"{name}.toml").read_text(encoding="utf-8")
    return spec.parse(text, where=name, overrides=changes)


@pytest.fixture(scope="module")
def run(worlds: Worlds) -> Path:
    return worlds.run(
        data="three thousand", report=True
    )  # noisy and published counts are of the same units


@pytest.fixture(scope="module")
def public(run: Path) -> str:
    return (run / "release" / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def secret(run: Path) -> str:
    return (run / "confidential" / "report.html").read_text(encoding="utf-8")


def data_of(text: str):
    """The look-up of a page: by level its codes, parents, and answers by records and query."""
    out = {}
    for level in json.loads(Page(text).scripts[0])["levels"]:
        codes = json.loads(lookup.zlib.decompress(lookup.base64.b64decode(level["codes"])))
        queries = {}
        for q in level["queries"]:
            sides = {
                s: unpack(q[s]).reshape(len(q["labels"]), len(codes)).T
                for s in ("published", "noisy", "off", "true")
                if s in q
            }
            within = unpack(q["within"]).reshape(-1, len(q["labels"]))[unpack(q["kind"])]
            queries[q["records"], q["name"]] = sides | {"within": within, "exact": q["exact"]}
        out[level["name"]] = codes, unpack(level["parent"]), queries
    return out


def test_both_pages_are_sound_and_stand_alone(public: str, secret: str) -> None:
    for text in (public, secret):
        page = assert_sound(text)
        assert len(page.scripts) == 2  # data, and the code that reads them
        assert "look-up" in text
    assert "Confidential." in Page(secret).text
    assert "confidential" not in Page(public).text.lower()


def test_without_javascript_the_look_up_says_where_the_numbers_are(
    public: str, secret: str
) -> None:
    for text, folder in ((public, ""), (secret, "release/")):
        fallback = " ".join(text.partition("<noscript>")[2].partition("</noscript>")[0].split())
        assert (
            f"The same numbers are in <code>{folder}tables/</code> and <code>{folder}nmf/</code>."
            in fallback
        )


def test_the_look_up_comes_first_and_speaks_in_words(public: str, secret: str) -> None:
    for text in (public, secret):
        words = Page(text).text
        at = [words.index(part) for part in ("Look up a", "ε = ", "Schema")]
        assert at == sorted(at)
        by_name = {
            q["name"]: q
            for lv in json.loads(Page(text).scripts[0])["levels"]
            for q in lv["queries"]
        }
        assert by_name["hhgq"]["title"] == "Group quarters (NOT COUNTED: hhgq assigned)"
        assert by_name["hhgq"]["labels"][3] == "Nursing facilities/Skilled-nursing facilities"
        assert by_name["votingage * hispanic"]["labels"][1] == "Under 18 years, Hispanic or Latino"
        assert by_name["cenrace"]["labels"][6] == "White; Black or African American"
        assert by_name["h1"]["title"] == "Occupancy status"


def test_words_stand_for_codes_and_decimals_for_fractions(
    public: str, secret: str, run: Path
) -> None:
    rho = json.loads((run / "release" / "privacy.json").read_text())["rho"]["total"]
    for text in (public, secret):
        words = Page(text).text
        assert "ρ = 2.6312" in words
        assert rho not in words
        assert "Voting age by Hispanic" in words  # the first line of a label of a figure
        assert "Block group" in words
    statement = Page((run / "release" / "privacy.html").read_text(encoding="utf-8")).text
    assert "ρ = 2.6312" in statement
    assert rho in statement
    assert (
        "Voting age by Hispanic origin by Race votingage * hispanic * cenrace 252"
        in Page(public).text
    )
    assert "Occupancy status detailed" in Page(secret).text


def test_the_public_page_shows_nothing_that_the_release_does_not_hold(
    public: str, run: Path
) -> None:
    for _, _, queries in data_of(public).values():
        for sides in queries.values():
            assert set(sides) <= {"published", "off", "within", "exact"}
    words = Page(public).text
    assert not re.search(r"\berror of|mean absolute|true value of", words)
    assert str(run) not in public
    assert str(json.loads((run / "manifest.json").read_text())["began"]) not in public


@pytest.mark.parametrize("which", ["public", "secret"])
def test_the_look_up_has_the_numbers_of_the_release(
    which: str, run: Path, request: pytest.FixtureRequest
) -> None:
    data = data_of(request.getfixturevalue(which))
    assert list(data) == ["US", "State", "County", "Tract", "Block_Group", "Block"]
    for level, (codes, _, queries) in data.items():
        p1, p3, h1 = (
            pd.read_csv(run / "release" / "tables" / f"{t}_{level}.csv", dtype={"GEOCODE": str})
            for t in ("P1", "P3", "H1")
        )
        assert codes == p1["GEOCODE"].tolist()
        assert np.array_equal(queries["persons", "total"]["published"][:, 0], p1["P0010001"])
        assert np.array_equal(queries["persons", "votingage"]["published"][:, 1], p3["P0030001"])
        assert np.array_equal(
            queries["persons", "cenrace"]["published"][:, 0], p1["P0010003"]
        )  # white alone
        assert np.array_equal(queries["housing units", "h1"]["published"][:, 1], h1["H0010002"])
        if which == "public":  # noisy counts are in the files
            assert not any("noisy" in sides for sides in queries.values())
        hispanic = read_nmf(run, level, "hispanic").pivot_table(
            index="geocode", columns="hispanic", values="value"
        )
        if which == "secret":
            assert np.array_equal(
                queries["persons", "hispanic"]["noisy"],
                hispanic.loc[codes][["not-hispanic", "hispanic"]],
            )
        assert queries["persons", "total"]["exact"] == (level in ("US", "State"))
        assert queries["housing units", "total"][
            "exact"
        ]  # the number of units of every block is invariant


def test_the_page_is_called_as_its_place_and_opens_with_the_largest(public: str, run: Path) -> None:
    page, data = Page(public), json.loads(Page(public).scripts[0])
    spine = pd.read_parquet(run / "release" / "spine.parquet").set_index("level")["name"]
    one, two, three = spine["State"]
    title = f"{one}, {two} and {three}: redistricting data, 2010 Census"
    assert page.text.strip().startswith(f"{title} {title} ")
    counts = pd.read_csv(run / "release" / "tables" / "P1_State.csv", dtype={"GEOCODE": str})
    place = counts.sort_values("P0010001", ascending=False, kind="stable")
    level, unit = data["example"]
    assert (level, counts["GEOCODE"][unit]) == ("State", place["GEOCODE"].iloc[0])
    listed = page.text.split("Persons by state")[1].split("How sure")[0]
    at = [listed.index(f" {n:,} ") for n in place["P0010001"].head(10)]
    assert at == sorted(at)


def test_epsilon_of_each_relation_stands_once_and_is_that_of_the_statement(
    public: str, run: Path
) -> None:
    said = json.loads((run / "release" / "privacy.json").read_text())
    row, agree = (
        next(e for e in said[relation]["total"]["epsilon"] if e["delta"] == "1e-10")
        for relation in ("guarantee", "guarantee_of_neighbours_that_agree")
    )
    told = re.findall(r"ε = ([\d.]+)", Page(public).text)
    assert told == [template.upward(e["pld"][1]) for e in (row, agree)]
    assert "between data sets that agree on what is published exactly" in Page(public).text
    assert "one record of each kind replaced by any other (bounded neighbors)" in Page(public).text
    first = Page((run / "release" / "privacy.html").read_text(encoding="utf-8")).text
    assert re.search(r"ε = ([\d.]+)", first)[1] == privacy.bound(row["pld"])
    assert first.index("Quote this one.") < first.index("ε and δ")


def test_every_link_leads_to_a_file_and_says_its_size(public: str, run: Path) -> None:
    page = Page(public)
    paths = [unquote(r) for r in page.references if "#" not in r]
    assert [path for path in paths if not (run / "release" / path).is_file()] == []
    tables = sorted(p.name for p in (run / "release" / "tables").glob("*.csv"))
    assert sorted(p.removeprefix("tables/") for p in paths if "/" in p) == tables
    for name in ("tables/P1_Block.csv", "dictionary.csv"):
        assert in_bytes((run / "release" / name).stat().st_size) in page.text
    assert {r[1:] for r in page.references if r.startswith("#")} <= set(page.ids)


def test_parents_in_the_look_up_are_those_of_the_spine(public: str, run: Path) -> None:
    spine = pd.read_parquet(run / "release" / "spine.parquet").set_index(["level", "geocode"])[
        "parent"
    ]
    above = None
    for level, (codes, parent, _) in data_of(public).items():
        if above:
            assert [above[p] for p in parent] == [spine[level, c] for c in codes]
        above = codes


def test_margins_are_those_that_check_prints_and_intervals_those_of_the_release(
    public: str, run: Path
) -> None:
    from das.release.intervals import Intervals

    release = open_release(run / "release")
    persons, intervals = release.spec.persons, Intervals(release, release.spec.persons)
    data, words = data_of(public), Page(public).text
    narrower = 0
    for r in persons.plan.measurements:
        assert f"±{r.margin():,}" in words
        query = PL94.query(r.query)
        if query.answers <= 64:
            found = data[r.level][2]["persons", r.query]
            middle, within = intervals.read(
                r.level, query.index[None, :] == np.arange(query.answers)[:, None]
            )
            assert np.array_equal(found["within"], within)
            assert np.array_equal(found["published"] + found["off"], middle)
            assert (within <= r.margin()).all()
            narrower += bool((within < r.margin()).any())
    assert narrower > 10
    assert "noisy" not in data["US"][2]["persons", "total"]
    assert not data["US"][2]["persons", "total"][
        "within"
    ].any()  # the sum of the states' known totals


def test_the_confidential_look_up_adds_the_truth_and_the_errors_agree(
    secret: str, run: Path
) -> None:
    with (run / "confidential" / "evaluation" / "errors.csv").open() as file:
        rows = {
            (r["level"], r["query"], r["source"]): r
            for r in csv.DictReader(file)
            if r["bin"] == "all"
        }
    words = Page(secret).text
    for level, (_, _, queries) in data_of(secret).items():
        for (records, query), sides in queries.items():
            if records == "persons" and (level, query, "postprocessed") in rows:
                error = sides["published"] - sides["true"]
                row = rows[level, query, "postprocessed"]
                assert np.abs(error).mean() == pytest.approx(float(row["mae"]))
                if query == "total":
                    assert f"{error.shape[0]:,}" in words
    worst = data_of(secret)["Block"][2]["persons", "total"]
    place = int(np.abs(worst["published"] - worst["true"]).argmax())
    assert data_of(secret)["Block"][0][place] in words


def test_the_public_page_is_the_same_from_the_release_alone(run: Path, tmp_path: Path) -> None:
    """With manifest, confidential part and all that was computed gone, and by two workers."""
    alone = tmp_path / "elsewhere"
    alone.mkdir()
    for name in ("spec.toml", "spine.parquet", "areas.parquet", "privacy.json", "ledger.jsonl"):
        shutil.copy(run / "release" / name, alone)
    for name in ("nmf", "nmf-housing"):
        shutil.copytree(run / "release" / name, alone / name)
    from_release.estimate_from(alone, tmp_path / "again", workers=2)
    again = (tmp_path / "again" / "release" / "report.html").read_bytes()
    assert again == (run / "release" / "report.html").read_bytes()
    for out in (run, tmp_path / "again"):
        outputs = json.loads((out / "manifest.json").read_text())["outputs"]
        assert "release/report.html" in outputs


def test_the_page_says_what_the_budget_buys(public: str, run: Path) -> None:
    """Of every measurement of persons, and which could be left out: state totals are published
    exactly."""
    words = Page(public).text
    assert "no estimate would be worse without Total at State (32.4% of the budget)." in words
    section = words.split("Where the budget goes, and what it buys")[1].split(
        "Published worse than measured"
    )[0]
    release = open_release(run / "release")
    found = achieved_precision(release, release.after.persons)
    assert len(found) == len(release.after.persons.noise) == 65
    tract = found["Tract", "total"].deviation
    assert f" {tract:.2f} " in section
    assert section.count("adds nothing") == 2  # in the words, and in the figure


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """Of the run, of a level, of an attribute's labels, and as codes of units."""
    level, code = "W<script>alert('&')", "<b onclick=alert(1)>w"
    people = pd.DataFrame({"ward": [code, "z"] * 30, "kind": [HOSTILE, "plain", "plain"] * 20})
    people.to_csv(tmp_path / "people.csv", index=False)
    shares = """= { total = "1/2", detailed = "1/2" }"""
    config = f"""
run.name = {json.dumps(HOSTILE)}
data = {{ reader = "table", path = {json.dumps(str(tmp_path / "people.csv"))}, columns.geography.{json.dumps(level)} = "ward" }}
schema = {{ name = {json.dumps(HOSTILE)}, attributes.kind = [{json.dumps(HOSTILE)}, "plain"] }}
geography.levels = ["Land", {json.dumps(level)}]
[budget]
rho = "1"
neighbors = "bounded"
levels = {{ Land = "1/2", {json.dumps(level)} = "1/2" }}
[budget.queries]
Land {shares}
{json.dumps(level)} {shares}
"""
    out = tmp_path / "run"
    pipeline.run(spec.parse(config, where="hostile"), out)
    for page in (out / "release" / "report.html", out / "confidential" / "report.html"):
        text = page.read_text(encoding="utf-8")
        parsed = assert_sound(text)
        assert len(parsed.scripts) == 2
        assert HOSTILE in parsed.text
        assert level in parsed.text
        assert "<b onclick" not in text
        codes, _, queries = data_of(text)[level]
        assert codes == sorted([code, "z"])
        table = pd.read_csv(out / "release" / "tables" / f"T1_{level}.csv")
        assert np.array_equal(
            queries["persons", "kind"]["published"], table[["T0010001", "T0010002"]]
        )


def test_places_off_the_spine_are_in_both_pages(run: Path, public: str, secret: str) -> None:
    """By name, with the sums of their blocks; how far off they are stands in the confidential page
    alone.
    """
    kept = pd.read_parquet(run / "release" / "areas.parquet")
    blocks = pd.read_csv(
        run / "release" / "tables" / "P1_Block.csv", dtype={"GEOCODE": str}
    ).set_index("GEOCODE")["P0010001"]
    for text in (public, secret):
        areas = {a["name"]: a for a in json.loads(Page(text).scripts[0])["areas"]}
        assert list(areas) == list(dict.fromkeys(kept["kind"]))
        for kind, rows in kept.groupby("kind"):
            unpacked = json.loads(
                lookup.zlib.decompress(lookup.base64.b64decode(areas[kind]["codes"]))
            )
            sums = blocks[rows["geocode"]].groupby(rows["area"].to_numpy()).sum()
            assert (
                unpack(areas[kind]["queries"][0]["published"]).tolist() == sums[unpacked].tolist()
            )
        assert (
            "Simulated city"
            in lookup.zlib.decompress(lookup.base64.b64decode(areas["Place"]["names"])).decode()
        )
        assert ("true" in areas["Place"]["queries"][0]) == (text is secret)
    assert "Places and other areas" in secret
    assert "Places and other areas" not in public
    assert (
        '"true":' not in public.split('"areas":')[1].split("</script>")[0]
    )  # a count beside the others


def test_a_published_count_outside_its_own_interval_is_marked() -> None:
    from das.report import release_page, template
    from das.report.answers import Answers

    published, middle, within = (
        [[1451], [1228], [5], [7], [3]],
        [[1231], [1231], [5], [6], [9]],
        [[6], [6], [0], [0], [-1]],
    )
    answers = Answers(
        "persons",
        "L",
        "total",
        "Total",
        ("total",),
        np.array(published),
        None,
        None,
        False,
        np.array(middle),
        np.array(within),
    )
    shown = [release_page._interval(answers, unit, 0) for unit in range(5)]
    assert shown == [
        f"{release_page.OUTSIDE}1,225 to 1,237",
        "1,225 to 1,237",
        "5",
        f"{release_page.OUTSIDE}6",
        "–",
    ]
    script = (Path(template.__file__).parent / "lookup.js").read_text(encoding="utf-8")
    assert release_page.OUTSIDE.encode("ascii", "backslashreplace").decode() in script
