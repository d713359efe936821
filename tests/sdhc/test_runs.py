"""Whole runs of the S-DHC: of households, of linked records, by commands."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from das.errors import UserError
from das.files.readers.rows import CodedTexts
from das.publications.dhc.files import linked
from das.publications.published.public import estimate_from
from das.publications.sdhc import modelled
from das.publications.sdhc.files import records as from_linked
from das.publications.sdhc.model.tables import PERSON, TIGHT, TRUNCATED, column
from das.publications.sdhc.truth.counts import counts
from das.release import verify
from das.runs import pipeline
from tests.commands import Commands
from tests.sdhc.folders import made_up, said
from tests.sdhc.test_known_answers import packaged
from tests.worlds import Worlds


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the model of 2020: how good they are is tested where the model is."""
    monkeypatch.setattr(modelled, "DRAWS", 600)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_up(9, 250).write(tmp_path_factory.mktemp("sdhc"))


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("sdhc-2020", ("sdhc.relation=household",)),
        ("sdhc-2020", ("sdhc.definition=puredp",)),
        ("sdhc-2020", ("sdhc.states=['49']",)),
        ("sdhc-2020-phsafe", ()),
    ],
)
def test_a_run_is_verified_and_made_again(
    folder: Path, tmp_path: Path, name: str, changes: tuple[str, ...]
) -> None:
    outcome = pipeline.run(packaged(name, *changes), tmp_path / "run", paths=[folder])
    release = outcome.directory.release
    statement = verify.statement(release)
    assert statement.private
    assert ("household" in statement.neighbours_of.any) is False
    assert ("all records of one address" in statement.neighbours_of.any) is (
        "sdhc.relation=household" in changes
    )
    again = estimate_from(release, tmp_path / "again").directory.release
    for path in (p for p in release.rglob("*.csv")):
        assert (again / path.relative_to(release)).read_bytes() == path.read_bytes()
    assert {r["source"] for r in outcome.beside} == {"measured", "published"}
    assert (outcome.directory.root / "confidential" / "evaluation").is_dir()


def test_with_hardly_any_noise_tables_are_the_truth(folder: Path, tmp_path: Path) -> None:
    """And their intervals are short; what is left out is counted."""
    spec = packaged("sdhc-2020", "sdhc.most.persons=4", "sdhc.most.children=2")
    budget = {t: dict.fromkeys(of, 10**9) for t, of in spec.model_dump()["sdhc"]["budget"].items()}
    spec = spec.amended_by({"budget": budget})
    release = pipeline.run(spec, tmp_path / "run", paths=[folder]).directory.release
    total = {
        (r["region_id"], r["label"]): float(r["estimate"])
        for name in ("PH1", "PH7", "excess")
        for r in rows(release / "tables" / f"{name}.csv")
        if r["iteration"] == "*" and r["cell"] == "1"
    }
    people = rows(folder / "persons.csv")
    of = Counter(p["MAFID"] for p in people if p["RTYPE"] == "3")
    excess = [r for r in rows(release / "tables" / "excess.csv") if r["cell"] == "1"]
    assert float(excess[0]["estimate"]) == pytest.approx(
        sum(max(0, n - 4) for n in of.values()), abs=0.01
    )
    (young,) = rows(release / "tables" / "excess_children.csv")[:1]
    minors = Counter(p["MAFID"] for p in people if p["RTYPE"] == "3" and int(p["QAGE"]) < 18)
    ph3 = next(r for r in rows(release / "tables" / "PH3.csv") if r["cell"] == "1")
    every = float(young["estimate"]) + float(ph3["estimate"])
    assert every == pytest.approx(sum(minors.values()), abs=0.01)
    assert float(young["estimate"]) >= sum(max(0, n - 2) for n in minors.values()) - 0.01
    ph7 = next(r for r in rows(release / "tables" / "PH7.csv") if r["cell"] == "1")
    assert float(ph7["estimate"]) == pytest.approx(sum(min(n, 4) for n in of.values()), abs=0.01)
    ph1 = next(r for r in rows(release / "tables" / "PH1.csv") if r["cell"] == "1")
    assert float(ph1["estimate"]) == pytest.approx(sum(of.values()) / len(of), abs=0.001)
    assert (ph1["most_per_address"], ph7["most_per_address"]) == ("", "4")
    assert len(total) == 3


def test_a_household_more_leaves_the_others_as_they_are(worlds: Worlds) -> None:
    """Who is kept follows from the number of the address, which is the household's own."""
    every = linked.tables(worlds.linked()).homes.rows.household
    fewer = CodedTexts(every.values.slice(1), every.index[every.index > 0] - 1)
    assert np.array_equal(from_linked.numbers(every)[every.index > 0], from_linked.numbers(fewer))
    assert len(np.unique(from_linked.numbers(every))) == len(every.index)


def test_linked_records_of_the_dhc(worlds: Worlds) -> None:
    """Everybody in a household is in a table, once."""
    found, sources = from_linked.linked_records(worlds.linked(), ())
    tables = linked.tables(worlds.linked())
    home = tables.people.rows.levels()["relgq"] < 18
    tau = dict.fromkeys(TRUNCATED, 10**6)
    exact = counts(found, TIGHT, PERSON, tau).sum(axis=0)
    assert sum(exact[column("PH7", "*", c)] for c in (2, 3, 4)) == int(home.sum())
    assert sum(exact[column("PH2", "*", c)] for c in (3, 4, 6, 7, 9, 10, 12, 13)) == home.sum()
    assert exact[column("PH1_denom", "*", 1)] == len(tables.homes.rows)
    assert len(sources) == 3
    assert np.array_equal(np.unique(found.residents.address), np.arange(len(found.addresses)))


def test_a_configuration_for_a_folder_of_phsafe(
    folder: Path, tmp_path: Path, commands: Commands
) -> None:
    import json

    given = tmp_path / "given"
    made_up(9, 40, ("44",)).write(given)
    (given / "config.json").write_text(json.dumps(said()))
    config = tmp_path / "mine.toml"
    code, out, err = commands.named("init")("--from-phsafe", given, "--out", config)
    assert (code, err) == (0, "")
    assert "das run mine.toml" in out
    for command in ("check", "plan"):
        code, out, err = commands.named(command)(config)
        assert (code, err) == (0, "")
        assert "PH3 A-G" in out
    code, out, err = commands.named("check")(config, "--data", given)
    assert "43 persons" not in err
    assert "addresses in the states 44" in out
    code, _, err = commands.named("init")("--from-phsafe", tmp_path, "--out", tmp_path / "x.toml")
    assert code == 2
    assert "config.json" in err


def test_a_run_does_not_go_on_with_another_configuration(folder: Path, tmp_path: Path) -> None:
    pipeline.run(packaged("sdhc-2020"), tmp_path / "run", paths=[folder])
    with pytest.raises(UserError, match="began with another configuration"):
        pipeline.run(packaged("sdhc-2020", "sdhc.most.persons=12"), tmp_path / "run", resume=True)
    with pytest.raises(UserError, match="0 folders of records are named"):
        pipeline.run(packaged("sdhc-2020"), tmp_path / "other")
    with pytest.raises(UserError, match="no query has a budget"):
        packaged("sdhc-2020").amended_by({"budget": {}})
