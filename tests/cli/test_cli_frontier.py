"""`das frontier` and `das frontier protect`: from a table of persons without households to the page."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from das.cli import main
from das.errors import SpecError
from das.files import codes
from das.publications.dhc.truth import simulated
from das.tools.protection.study.spec import StudySpec
from das.tools.protection.truth import study_input
from das.tools.protection.truth.methods.swapping import Swapping
from das.tools.protection.truth.study import TopDown, load_study, resolved_study
from docs import pages
from tests.jobs import frontier_small
from tests.test_docs import keys
from tests.worlds import Worlds

ROOT = Path(__file__).resolve().parents[2]


def das(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, [str(w) for w in words])
    return done.exit_code, done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("cli")
    frontier_small.write(here)
    return here


def test_a_study_is_drafted_and_made(folder: Path) -> None:
    """The draft has about nine methods; two of them are run here."""
    people, study = folder / "people.csv", folder / "drafted.toml"
    code, said = das(
        "frontier", "init", "--data", people, "--geography", "town,block", "--out", study
    )
    assert code == 0, said
    assert "none: swapping exchanges single persons" in said
    resolved = load_study(study)
    assert len({type(p.method) for p in resolved.points()}) >= 7
    assert resolved.intruder.known == ("sex", "age")
    assert das("frontier", "init", "--data", people, "--out", study)[0] == 2  # it is there already
    text = study.read_text()
    short = text[: text.index("[methods.swapping]")]
    study.write_text(short)
    out = folder / "made"
    code, said = das("frontier", study, "--out", out, "--all", "--workers", 1, "--json")
    assert code == 0, said
    (row,) = json.loads(said)
    assert row["setting"] == "No protection"
    code, said = das("frontier", study, "--out", out, "--all", "--workers", 1, "--quiet")
    assert code == 0, said
    headline = re.search(r'<p class="lead">(.*?)</p>', (out / "frontier.html").read_text())
    assert headline is not None
    assert headline[1] in said
    assert {p.name for p in out.iterdir()} == {
        "study.toml", "study.json", "records.npz", "scores", "results.csv", "summary.csv",
        "frontier.html",
    }  # fmt: skip


def test_linked_records_are_drafted_with_the_tables_of_the_published_attack(tmp_path: Path) -> None:
    blocks = ROOT / "data" / "pl94_2010" / "nj2010.pl.zip"
    simulated.simulate([blocks], tmp_path / "linked", seed=1)
    study = tmp_path / "study.toml"
    code, said = das("frontier", "init", "--data", tmp_path / "linked", "--points", blocks,
                     "--out", study)  # fmt: skip
    assert code == 0, said
    resolved = load_study(study)
    records = study_input.read(resolved.spec, resolved.schema)
    known = records.open("a test of what was read")
    assert known.spine.levels == ("State", "County", "Tract", "Block_Group", "Block")
    assert known.households > 0
    assert known.points is not None
    assert len(resolved.published.lines("Block")) == 773
    again = tmp_path / "records.npz"
    study_input.write(again, records)
    same = study_input.load(again, resolved.schema).open("a test of what was kept")
    assert same.histogram().same_as(known.histogram())
    assert same.spine.unlike(known.spine) == ""
    some = study_input.restricted(records, "Tract", [0]).open("a test of a part")  # type: ignore[arg-type]
    assert 0 < some.households < known.households
    assert len(some) == known.histogram().rows(0, some.spine.units("Block")).totals().sum()
    assert codes.codes(codes.column(some.spine.codes[-1])).tolist() == list(some.spine.codes[-1])


@pytest.fixture(scope="module")
def two_states(worlds: Worlds) -> Path:
    return worlds.linked("two thousand")


def fits(study: Path) -> int:
    """How many settings name levels; each fits the records, which are read and swapped."""
    resolved, n = load_study(study), 0
    records = study_input.read(resolved.spec, resolved.schema)
    spine = records.open("a test of a draft").spine
    for point in resolved.points():
        if point.repeat:
            continue
        if isinstance(point.method, TopDown):
            assert point.method.specification(resolved.schema, spine, study, 1).geography
        elif isinstance(point.method, Swapping):
            point.method.swapped(records.open("a test of a draft"), b"1" * 32)
        else:
            continue
        n += 1
    return n


@pytest.mark.parametrize("kind", ["linked", "own codes", "table"])
def test_a_quick_draft_says_what_it_leaves_out(
    kind: str, two_states: Path, folder: Path, tmp_path: Path
) -> None:
    """One key, and few places; everything else is as in the full draft."""
    full, quick = tmp_path / "full.toml", tmp_path / "quick.toml"
    data = (
        ("--data", folder / "people.csv", "--geography", "town,block")
        if kind == "table"
        else ("--data", two_states if kind == "linked" else _own_codes(two_states, tmp_path))
    )
    assert das("frontier", "init", *data, "--out", full)[0] == 0
    code, said = das("frontier", "init", *data, "--quick", "--out", quick)
    assert code == 0, said
    assert "do not decide by it" in said
    first, second = load_study(full).spec, load_study(quick).spec
    assert (first.study.repeats, second.study.repeats) == (5, 1)
    assert second.sample.units == {"linked": 1, "own codes": 60, "table": 5}[kind]
    assert second.sample.level == ("Block" if kind == "own codes" else first.sample.level)
    same = {"study", "sample"}
    assert first.model_dump(exclude=same) == second.model_dump(exclude=same)


def test_the_draft_of_several_states_runs(two_states: Path, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    code, said = das("frontier", "init", "--data", two_states, "--out", study)
    assert code == 0, said
    assert load_study(study).spec.geography.levels[:2] == ("US", "State")
    assert fits(study) == 6


def _own_codes(two_states: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "linked"
    folder.mkdir()
    for path in two_states.glob("*.parquet"):
        rows = pq.read_table(path)
        code = [f"B{b[-6:]}{b[1]}" for b in rows["block"].to_pylist()]
        at = rows.schema.get_field_index("block")
        pq.write_table(rows.set_column(at, "block", pa.array(code)), folder / path.name)
    return folder


def test_the_draft_of_blocks_with_codes_of_ones_own_runs(two_states: Path, tmp_path: Path) -> None:
    folder, study = _own_codes(two_states, tmp_path), tmp_path / "study.toml"
    code, said = das("frontier", "init", "--data", folder, "--out", study)
    assert code == 0, said
    assert load_study(study).spec.geography.levels == ("All", "Block")
    assert fits(study) == 6


def test_a_draft_that_could_not_run_is_not_written(folder: Path, tmp_path: Path) -> None:
    """No place has a point; a household in two places."""
    points, study, people = tmp_path / "p.csv", tmp_path / "study.toml", tmp_path / "people.csv"
    points.write_text("code,x,y\nelsewhere,1,2\n")
    code, said = das("frontier", "init", "--data", folder / "people.csv", "--geography",
                     "town,block", "--points", points, "--out", study)  # fmt: skip
    assert code == 2
    assert "have no point" in said
    people.write_text("town,hh,sex,job\n" + "a,1,f,x\nb,1,m,y\na,2,m,y\nb,3,f,x\n" * 10)
    code, said = das("frontier", "init", "--data", people, "--household", "hh", "--geography",
                     "town", "--out", study)  # fmt: skip
    assert code == 2
    assert "in more than one place" in said
    assert not study.exists()


def test_a_column_of_households_is_no_place(tmp_path: Path) -> None:
    people, study = tmp_path / "people.csv", tmp_path / "study.toml"
    rows = [f"T{h % 3},H{h},{'fm'[i]},{'xyz'[(h + i) % 3]}" for h in range(90) for i in range(2)]
    people.write_text("\n".join(["town,hh,sex,job", *rows, ""]))
    code, said = das("frontier", "init", "--data", people, "--out", study)
    assert code == 0, said
    assert load_study(study).spec.geography.levels == ("All", "Town")


def test_decimals_are_set_as_the_help_says(folder: Path, tmp_path: Path) -> None:
    study = folder / "decimals.toml"
    study.write_text(frontier_small.STUDY.format(folder=folder))
    for n, (rate, label) in enumerate((("0.2", "20 %"), ("1e-1", "10 %"), ("1/4", "25 %"))):
        code, said = das("frontier", "protect", "swapping", "--study", study, "--set", f"rate={rate}", "--set",
                         "unit=person", "--out", tmp_path / f"{n}")  # fmt: skip
        assert code == 0, said
        assert said.startswith(label)
    code, said = das("frontier", "protect", "swapping", "--study", study, "--set", "rate=many", "--out",
                     tmp_path / "no")  # fmt: skip
    assert (code, "rate: Input should be a valid number" in said) == (2, True)


def test_a_withheld_line_is_at_most_its_total(folder: Path, tmp_path: Path) -> None:
    """The total of each place is exact in this study, and so is every bound that follows."""
    study = folder / "bounds.toml"
    study.write_text(frontier_small.STUDY.format(folder=folder))
    code, said = das("frontier", "protect", "suppression", "--study", study, "--set", "rule=complementary",
                     "--set", "threshold=4", "--out", tmp_path / "out")  # fmt: skip
    assert code == 0, said
    table, upper = (
        list(csv.DictReader((tmp_path / "out" / f"{name}.csv").read_text().splitlines()))
        for name in ("tables/Block", "bounds/Block_upper")
    )
    (total,) = (c for c in table[0] if c.startswith("A"))
    withheld = [
        (t, u, c)
        for t, u in zip(table, upper, strict=True)
        for c in t
        if t[c] == "" and c != "NAME"
    ]
    known = [(int(u[c]), int(t[total])) for t, u, c in withheld if t[total]]
    assert len(known) > 5
    assert all(most <= whole for most, whole in known)


def test_what_is_wrong_is_one_message(folder: Path) -> None:
    study = folder / "study.toml"
    for words, said in (
        (("frontier", study, "--out", folder / "x", "--set", "sample.unit=2"), "did you mean 'units'?"),
        (("frontier", folder / "none.toml", "--out", folder / "x"), "das frontier init"),
        (("frontier", "protect", "rounding", "--out", folder / "x"), "name the records"),
        (("frontier", "protect", "rounding", "--data", study, "--out", folder / "x"), "a file, not a folder"),
        (("frontier", "protect", "rounding", "--study", study, "--out", folder / "x", "--set", "bas=3"),
         "did you mean 'base'?"),
        (("frontier", "init", "--data", folder / "people.csv", "--household", "hh",
          "--out", folder / "y.toml"), "there is no column 'hh'"),
    ):  # fmt: skip
        code, output = das(*words)
        assert (code, said in output) == (2, True), output
    assert not (folder / "x").exists()


def test_one_method_protects_tables(folder: Path) -> None:
    """Every printed count is a multiple of the base, and lies between its bounds."""
    out = folder / "rounded"
    code, said = das("frontier", "protect", "rounding", "--study", folder / "study.toml", "--out", out,
                     "--set", "base=5", "--seed", 1, "--quiet")  # fmt: skip
    assert code == 0, said
    printed, least, most = (
        table(out / name)
        for name in ("tables/Block.csv", "bounds/Block_lower.csv", "bounds/Block_upper.csv")
    )
    assert len(printed) == 10
    assert [len(row) for row in printed] == [12] * 10
    assert {value % 5 for row in printed for value in row} == {0}
    for rows in zip(printed, least, most, strict=True):
        assert all(a <= v <= b for v, a, b in zip(*rows, strict=True))
    with (out / "lines.csv").open(newline="") as file:
        assert {r["line"] for r in csv.DictReader(file)} >= {"A0001", "C0004"}
    assert out.stat().st_mode & 0o077 == 0


def table(path: Path) -> list[list[int]]:
    """The numbers of each place."""
    with path.open(newline="") as file:
        return [[int(v) for k, v in r.items() if k[0] in "ABC"] for r in csv.DictReader(file)]


def test_every_key_of_a_study_is_explained() -> None:
    """In the table of docs/explanation/frontier.md, below its table or under its own name."""
    text = pages.text("frontier")
    listed = text.partition("## The study file")[2].partition("\n## ")[0]
    said = set(re.findall(r"`([\w.]+)`", listed))
    schema = StudySpec.model_json_schema(by_alias=True)
    for key in set(keys(schema, schema)):
        top, _, rest = key.partition(".")
        if top == "schema":
            continue
        parts = rest.replace("<name>.", "").split(".")
        assert top in said | {s.split(".")[0] for s in said}, key
        if rest and top not in ("tables", "also", "uses", "methods"):
            assert f"{top}.{rest}" in said, key
        elif rest:
            assert parts[0] in said, key


def test_the_method_that_the_page_shows_is_one(folder: Path) -> None:
    """A new method, in a study: counts from 5 on are one range."""
    block = re.findall(r"```python\n(.*?)```", pages.text("frontier-methods"), re.DOTALL)[0]
    (folder / "mine.py").write_text(block)
    own = 'methods.mine={ method = "mine.py:Ranges", starts = [0, 1, 5] }'
    resolved = load_study(folder / "study.toml", [own])
    (method,) = (p.method for p in resolved.points() if p.curve == "mine")
    records = study_input.read(resolved.spec, resolved.schema)
    lines = method.protect(records, resolved.published, b"key").levels["Block"]
    assert (lines.value.max(), lines.upper[lines.value < 5].max()) == (5, 4)
    again = resolved_study(resolved.spec.dump(), "a worker, in another folder")
    assert {p.name for p in again.points()} == {p.name for p in resolved.points()}
    with pytest.raises(SpecError, match="has no method 'Rangez'"):
        load_study(folder / "study.toml", [own.replace("Ranges", "Rangez")])
