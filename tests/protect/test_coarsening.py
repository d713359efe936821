"""Coarsening: what is shown is exact, what is not is unknown, or has bounds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from das.cli import main
from das.engine.tasks import SILENT
from das.errors import InputError, SpecError
from das.files.microdata.reading import read_frame
from das.model.confidential import Confidential
from das.model.names import encoded
from das.model.tabulation import Tabulation
from das.tables import table
from das.tools.protection.attack import reconstruct
from das.tools.protection.least import files
from das.tools.protection.least.files import LeastRelease
from das.tools.protection.published import UNBOUNDED, TableSet
from das.tools.protection.truth.method import exact_lines
from das.tools.protection.truth.methods.coarsening import Coarsening, LeastCoarsening, coarsened
from das.tools.protection.truth.results import part, part_of
from das.tools.protection.truth.study_input import CountedPlaces
from das.tools.protection.uses import TableUse
from tests.protect.people import SCHEMA, records, tables


def test_categories_are_other_tables_not_crossed() -> None:
    people = records()
    shown = Coarsening(("total", "race * hispanic", "sex")).published(people, tables(), b"")
    block = shown.levels["Block"]
    assert block.shown.all()
    assert block.value.shape[1] == 1 + 6 + 2
    assert len(shown.tables.lines("Block")) == 9
    assert (block.value[:, 0] == people.histogram().totals()).all()
    assert (block.value[:, 1:7].sum(axis=1) == block.value[:, 7:].sum(axis=1)).all()
    assert (block.lower == block.upper).all()


def test_tables_down_to_a_level_with_the_totals_of_blocks() -> None:
    people = records()
    shown = Coarsening(level="Group").published(people, tables(), b"")
    assert list(shown.levels) == ["Tract", "Group", "Block"]
    block, group = shown.levels["Block"], shown.levels["Group"]
    assert (block.shown.sum(axis=1) == 1).all()
    assert (block.value[:, 0] == people.histogram().totals()).all()
    assert (block.upper[:, 1:] == UNBOUNDED).all()
    assert not block.lower[:, 1:].any()
    every = people.histogram().upward(people.spine)["Group"]
    assert (group.value == tables().lines("Block").counts(every)).all()


def test_small_units_show_their_total_alone() -> None:
    people = records()
    truth = exact_lines(people.histogram(), people.spine, tables())["Block"].value
    typical = int(np.median(truth[:, 0]))
    shown = Coarsening(threshold=typical).published(people, tables(), b"")
    block, few = shown.levels["Block"], truth[:, 0] < typical
    assert few.any()
    assert (block.shown[few].sum(axis=1) == 1).all()
    assert block.shown[~few].all()
    assert (block.value[block.shown] == truth[block.shown]).all()
    assert (block.lower <= truth).all()
    assert (truth <= block.upper).all()
    assert shown.tables is tables()


def test_the_three_together() -> None:
    people = records()
    method = Coarsening(("total", "race"), "Group", 120)
    shown = method.published(people, tables(), b"")
    assert [lines.value.shape[1] for lines in shown.levels.values()] == [4, 4, 4]
    assert method.label == (
        "tables of total, race; tables down to Group; totals alone under 120 persons"
    )
    assert not method.random


def test_refusals() -> None:
    with pytest.raises(SpecError, match="nothing is made coarser"):
        Coarsening()
    with pytest.raises(SpecError, match="threshold is -1"):
        Coarsening(threshold=-1)
    with pytest.raises(SpecError, match="religion"):
        Coarsening(("religion",)).published(records(), tables(), b"")
    tracts = TableSet("tracts", SCHEMA, {"Tract": tables().tables["Tract"]})
    with pytest.raises(SpecError, match="the tables end at Tract already"):
        Coarsening(level="Block").published(records(), tracts, b"")
    with pytest.raises(InputError, match="no level 'Ward'"):
        Coarsening(level="Ward").published(records(), tables(), b"")
    races = TableSet(
        "races", SCHEMA, {"Block": (table(Tabulation("R", "", "race", total=False), SCHEMA),)}
    )
    with pytest.raises(SpecError, match="is a total"):
        Coarsening(threshold=10).published(records(), races, b"")


# --- the least coarsening as a method, and as a publication

CHAIN = ("total", "race", "race * hispanic", "votingage * race * hispanic")


def least(**more: Any) -> LeastCoarsening:
    return LeastCoarsening(CHAIN, **{"k": 30, "m": 3, **more})


@pytest.mark.parametrize("rules", [{}, {"k": 60, "totals": 45}])
def test_lines_are_exact_or_have_bounds_that_hold(rules: dict[str, int]) -> None:
    """What is printed is true; what is not lies between its bounds; the rules hold for all that is
    printed of a group of the chain."""
    people = records()
    shown = least(order="best", **rules).published(people, tables(), b"")
    truth = exact_lines(people.histogram(), people.spine, tables())
    for level, lines in shown.levels.items():
        t = truth[level].value
        assert (lines.lower <= t).all()
        assert (t <= lines.upper).all()
        assert (lines.value[lines.shown] == t[lines.shown]).all()
        names = np.array(tables().lines(level).names)
        race = np.flatnonzero(np.char.startswith(names, "T002"))[1:]
        printed = t[:, race][lines.shown[:, race].all(axis=1)]
        assert not ((printed > 0) & (printed < 3)).any()
    assert shown.levels["Tract"].shown.mean() > shown.levels["Block"].shown.mean() > 0
    assert 0 < shown.levels["Block"].shown[:, race[0]].sum() < people.spine.units("Block")
    again = least(order="best", **rules).published(people, tables(), b"other")
    assert (again.levels["Block"].value == shown.levels["Block"].value).all()


def test_users_of_a_level_weigh() -> None:
    people = records()
    _, tree = least(users={"Block": 5, "County": 0}).tree(SCHEMA, people.spine, people.histogram())
    assert tree.users == (0.0, 1.0, 1.0, 5.0)
    assert len(tree.counts[-1][0]) < people.spine.units("Block")  # the first has nobody
    with pytest.raises(SpecError, match="no level 'Ward'"):
        least(users={"Ward": 1}).tree(SCHEMA, people.spine, people.histogram())
    for wrong in ({"order": "any"}, {"rounds": -1}, {"users": {"Block": -1}}):
        with pytest.raises(SpecError):
            least(**wrong)
    for k, m in ((0, 3), (100, 0), (100, 1), (3, 10)):
        with pytest.raises(SpecError, match=f"k is {k}, and m is {m}"):
            LeastCoarsening(CHAIN, k=k, m=m)
    for few in (1, 31):
        with pytest.raises(SpecError, match=f"totals is {few}: it must be 0"):
            least(totals=few)
    assert least(other=2, totals=5).label.endswith("2 others or more, no total under 5")


def publication(kinds: tuple[str, ...] = (), persons: bool = False, **more: Any) -> LeastRelease:
    people = records()
    place = np.arange(people.spine.units("Block"))
    fields = {"Ward": encoded([f"w{(u + 4) // 12}" for u in place]), "Part": encoded(["9"] * 36)}
    places = CountedPlaces(SCHEMA, people.spine, Confidential(people.histogram()), fields, {})
    return coarsened(least(order="best", **more), places, kinds, SILENT, persons)[0]


def test_a_publication_is_checked_from_its_folder(tmp_path: Path) -> None:
    release = publication(("Ward",))
    files.write(tmp_path, release)
    right, left = files.check(tmp_path)
    assert len(right) == 5
    assert "tables of districts that cut atoms" in left[0]
    again = files.read(tmp_path)
    assert again.tables.count[2].sum() == len(records())
    assert [a.codes for a in again.areas.values()] == [a.codes for a in release.areas.values()]
    assert (again.areas["Ward"].grain == release.areas["Ward"].grain).all()
    assert release.areas["Ward"].grain.max() > 0
    page = (tmp_path / "index.html").read_text()
    assert "epsilon is infinite" in page
    assert "exact, and may be small" in page
    assert '<th scope="col">race by hispanic</th>' in page  # titles, not the names of queries
    groups, grain = release.areas["Group"].codes, release.areas["Group"].grain
    assert page.count("<rect") == len(groups)  # a tile for each, with its finest grain
    for h in range(5):
        assert page.count(f">{h}</text>") == int((grain == h).sum())


def test_small_totals_are_printed_with_others(tmp_path: Path) -> None:
    """Of such places there is no table, and all that is known of them are bounds, which hold; a
    total of their own, or one that is too small, is found."""
    release = publication(("Ward",), persons=True, k=60, totals=45)
    files.write(tmp_path, release)
    right = files.check(tmp_path)[0]
    assert "each total is 45 or more" in right[2]
    truth = records().histogram()
    finest, some = release.tables.chain.grains[-1], truth.some(np.flatnonzero(truth.totals()))
    blocks, tables = release.areas["Block"], files.read(tmp_path).tables
    assert min(t.sum() for t in blocks.table if len(t)) >= 45 > some.totals().min()
    assert ((blocks.grain < 0) == (tables.size > 1)).all()
    for h, n in ((0, some.totals()[:, None]), (3, finest.counts(some))):
        lower, upper = tables.bounds(h, np.arange(len(tables)))
        assert (lower <= n).all()
        assert (n <= upper).all()
    assert release.persons is not None
    assert release.persons.totals().min() > 0
    assert (release.persons.totals() != some.totals()).any()
    page = (tmp_path / "index.html").read_text()
    assert "where it has at least 45 persons" in page
    path, certificate = tmp_path / "tables.csv", tmp_path / "certificate.json"
    u = int(np.flatnonzero(blocks.grain < 0)[0])
    name = f"Block,{blocks.codes[u]},{blocks.names[u]},"
    text = path.read_text()
    assert f"{name},," in text
    path.write_text(text.replace(f"{name},,", f"{name}total,Total,{some.totals()[u]}"))
    with pytest.raises(InputError, match=f"{blocks.codes[u]} by total is no sum of atoms"):
        files.check(tmp_path)
    path.write_text(text)
    certificate.write_text(certificate.read_text().replace('"totals": 45', '"totals": 50'))
    with pytest.raises(InputError, match="atoms have fewer than 50 persons"):
        files.check(tmp_path)


def test_persons_have_exactly_the_tables(tmp_path: Path) -> None:
    """Nobody's records: most places have others than the true ones, and each table is right. Of
    what the finest grain does not tell they have the first level."""
    release = publication(persons=True)
    files.write(tmp_path, release)
    assert files.check(tmp_path)[0][0] == "persons have exactly the tables of units and atoms"
    assert release.persons is not None
    truth = records().histogram()
    assert (release.persons.totals() == truth.totals()[truth.totals() > 0]).all()
    frame = read_frame(tmp_path / "persons")
    assert len(frame) == len(records())
    assert set(frame.columns) == {"geocode", "EPNUM", *(a.name for a in SCHEMA.attributes)}
    assert set(frame["sex"]) == {SCHEMA.attribute("sex").levels[0]}
    part = next((tmp_path / "persons").iterdir())
    table = pq.read_table(part)
    race = table["race"].combine_chunks()
    other = pa.DictionaryArray.from_arrays(pc.subtract(2, race.indices), race.dictionary)
    pq.write_table(table.set_column(table.column_names.index("race"), "race", other), part)
    with pytest.raises(InputError, match="persons do not agree with the tables"):
        files.check(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("atoms.csv", None, None, "do not add up"),
        ("places.csv", None, None, "atoms.csv: is damaged, cut short or of another"),
        ("tables.csv", "Tract", None, "is no sum of atoms|do not add up"),
        ("tables.csv", "Ward", None, "the table of Ward w0 by total has other sums"),
        ("certificate.json", '"k": 30', '"k": 3000', "fewer than 3000 persons"),
        ("certificate.json", '"m": 3', '"m": 30', "a count under 30"),
        ("certificate.json", '"levels"', '"lever"', "is damaged"),
        ("bounds.parquet", None, None, "bounds are not those|bounds of other counts"),
    ],
)
def test_what_was_changed_is_found(
    tmp_path: Path, file: str, old: str | None, new: str | None, message: str
) -> None:
    files.write(tmp_path, publication(("Ward",)))
    path = tmp_path / file
    if path.suffix == ".parquet":
        found = pq.read_table(path)
        pq.write_table(found.set_column(3, "upper", pc.add(found["upper"], 1)), path)
    elif new is not None and old is not None:
        path.write_text(path.read_text().replace(old, new))
    else:
        lines = path.read_text().splitlines()
        at = next(i for i, x in enumerate(lines) if i and x.startswith(old or ""))
        fields = lines[at].split(",")
        fields[-1] = str(int(fields[-1]) + 1) if fields[-1].isdigit() else "elsewhere"
        lines[at] = ",".join(fields)
        path.write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=message):
        files.check(tmp_path)


def test_what_is_cut_short_or_missing_is_named(tmp_path: Path) -> None:
    files.write(tmp_path, publication(("Ward",)))
    for name in ("certificate.json", "places.csv", "tables.csv", "atoms.csv", "bounds.parquet"):
        path = tmp_path / name
        whole = path.read_bytes()
        half = whole[: len(whole) // 2]
        for some in (b"", half, half[: half.rindex(b"\n") + 1] if b"\n" in half else half[:9]):
            path.write_bytes(some)
            with pytest.raises(InputError, match=rf"{name}: is damaged, cut short.*\n.*published"):
                files.check(tmp_path)
        path.unlink()
        with pytest.raises(InputError, match=r"is missing|is no publication"):
            files.check(tmp_path)
        path.write_bytes(whole)
    files.check(tmp_path)


def test_changed_tables_of_districts_are_found(tmp_path: Path) -> None:
    """Their totals are kept. Where all districts show a table, or atoms divide one, sums tell; else
    the rules and the bounds do, and what lies within these is said not to be checked."""
    release = publication(("Ward",))
    tables, wards = release.tables, release.areas["Ward"]
    u = int(np.flatnonzero(wards.grain > tables.own(wards.area))[0])
    totals = [np.array([t.sum()]) for t in wards.table]
    alone = np.where(np.arange(len(totals)) == u, wards.grain, 0)
    order = np.argsort(wards.table[u])

    def checked(grain: np.ndarray, less: int, persons: int) -> list[str]:
        table = wards.table[u].copy()
        table[order[less]] -= persons
        table[order[-1]] += persons
        every = [
            table if v == u else wards.table[v] if g else totals[v] for v, g in enumerate(grain)
        ]
        changed = replace(wards, grain=grain, table=tuple(every))
        files.write(tmp_path, replace(release, areas={**release.areas, "Ward": changed}))
        return files.check(tmp_path)[1]

    few = int(wards.table[u][order[-2]])
    for grain, less, persons, says in (
        (wards.grain, -2, 1, "has other sums than the atoms"),
        (alone, -2, few - 1, "does not pass the rules"),
        (alone, -2, few, "has counts beyond the bounds"),
    ):
        with pytest.raises(InputError, match=says):
            checked(grain, less, persons)
    assert checked(alone, -2, 1)[0].startswith("1 tables of districts that cut atoms")


def test_districts_without_a_code_are_none() -> None:
    with pytest.raises(SpecError, match="no place is in one"):
        publication(("Part",))
    with pytest.raises(SpecError, match="no 'Town'") as said:
        publication(("Town",))
    assert "Ward, Part" in str(said.value)


def test_the_command_writes_and_verifies(shared_data: Path, tmp_path: Path) -> None:
    official = shared_data / "pl94_2010" / "ri" / "ri2010_bristol_44001.pl.zip"
    if not official.exists():
        pytest.skip(f"no {official}")
    data = tmp_path / "bristol.zip"  # the names of what is in it tell the year
    data.symlink_to(official)
    out = tmp_path / "out"
    command = ["frontier", "protect", "coarsen-least", "--data", str(data), "--out", str(out)]
    more = ["--set", "order=number", "--districts", "SLDL", "--microdata"]
    done = CliRunner().invoke(main, [*command, *more])
    assert done.exit_code == 0, done.output
    solution = json.loads((out / "confidential" / "solution.json").read_text())
    assert solution["lower_bound_bits"] <= solution["cost_bits"]
    assert not solution.keys() & json.loads((out / "certificate.json").read_text()).keys()
    frame = read_frame(out / "persons")  # in the columns of the Bureau's files
    assert {"TABBLK", "VOTING_AGE", "CENHISP", "CENRACE"} < set(frame.columns)
    assert "State House district: 4, 4" in done.output
    assert "not reached: " in done.output  # a county has too few for the finest grains
    page = (out / "index.html").read_text()
    assert "Not even the whole passes at what is finer" in page
    assert "<title>Census Tract 301, Block Group 1: " in page
    checked = CliRunner().invoke(main, ["frontier", "verify", str(out)])
    assert checked.exit_code == 0, checked.output
    assert checked.output.count("right: ") == 6
    for wrong in (["--seed", "1"], ["--study", str(data)]):
        assert CliRunner().invoke(main, [*command, *wrong]).exit_code == 2
    assert "bits" not in done.output  # the cost is confidential, and any output may be kept
    for name, says in (("no.zip", "is not there"), ("people.csv", "is no redistricting file")):
        (tmp_path / "people.csv").touch()
        elsewhere = [*command[:4], str(tmp_path / name), "--out", str(tmp_path / "other")]
        assert says in CliRunner().invoke(main, elsewhere).output
    assert "needs --data" in CliRunner().invoke(main, [*command[:3], *command[5:]]).output
    wrong = ["frontier", "protect", "none", "--data", "x", "--out", "y", "--districts", "SLDL"]
    assert "belongs to coarsen-least" in CliRunner().invoke(main, wrong).output


def test_an_attack_has_the_tables_of_atoms() -> None:
    """What they make it expect adds up to each atom's table, survives the way to a task, and gives
    a better guess than the bounds of the places alone."""
    people = records()
    method = least(order="best")
    shown = method.published(people, tables(), b"")
    assert shown.expected is not None
    assert shown.expected.count.sum() == pytest.approx(len(people))
    every = np.arange(people.spine.units("Tract"))
    arrays = part(shown, "Tract", every)
    again = part_of(arrays, people.spine, "Tract", every, tables())
    assert again.expected is not None
    assert (again.expected.count == shown.expected.count).all()
    assert (again.expected.share(5, np.full(SCHEMA.cells, 1 / SCHEMA.cells)) > 0).all()
    truth, right = people.histogram().dense()[:9], []
    for published in (shown, replace(shown, expected=None)):
        guess = reconstruct(published, units=np.arange(9)).histogram.dense()[:9]
        race = np.stack([SCHEMA.level_of("race"), SCHEMA.level_of("hispanic")])
        group = race[0] * 2 + race[1]
        both = (np.stack([h[:, group == g].sum(axis=1) for g in range(6)]) for h in (guess, truth))
        right.append(int(np.minimum(*both).sum()))
    assert right[0] > right[1]


def test_users_have_the_expected_counts() -> None:
    """In integers, with each place's total; they say nothing of what divides groups."""
    people = records()
    expected = least(order="best").published(people, tables(), b"").expected
    assert expected is not None
    dealt = expected.histogram()
    assert (dealt.totals() == people.histogram().totals()).all()
    group = np.zeros(expected.count.shape, dtype=np.int64)
    np.add.at(group, (dealt.unit, expected.group[dealt.cell]), dealt.count)
    assert (np.abs(group - expected.count) < 1).all()
    assert expected.tells(TableUse.of_query("r", "", SCHEMA, "race * hispanic").matrix)
    assert not expected.tells(TableUse.of_query("s", "", SCHEMA, "sex").matrix)
