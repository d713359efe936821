"""Inputs that are meant to break it: totals that leave no room, a user's own table, nothing
invariant at all.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from das import spec
from das.files.simulators import census_2010 as simulate_2010
from das.publications.published import public as from_release
from das.runs import pipeline
from tests.end_to_end import independent as free

# --- few persons, many facilities
# ------------------------------------------------------------------------------

KINDS = "habcdefg"
TIGHT = """
[run]
name = "tight"
seed = 1
[data]
reader = "table"
[data.columns]
count = "n"
housing_units = "units"
[data.columns.geography]
State = "state"
County = "county"
Block = "block"
[schema]
name = "tight"
dwelling = "kind"
impossible = [{ kind = ["c"], age = ["young"] }]
[schema.attributes]
kind = ["h", "a", "b", "c", "d", "e", "f", "g"]
age = ["young", "old"]
[geography]
levels = ["Nation", "State", "County", "Block"]
[constraints]
total = "State"
[estimation.passes]
default = [["total"], ["*"]]
Nation = [["*"]]
Block = [["*"]]
[budget]
rho = "1/100"
neighbors = "bounded"
[budget.levels]
Nation = "1/4"
State = "1/4"
County = "1/4"
Block = "1/4"
[budget.queries.Nation]
detailed = "1"
[budget.queries.State]
total = "1/4"
kind = "1/4"
detailed = "1/2"
[budget.queries.County]
total = "1/4"
kind = "1/4"
detailed = "1/2"
[budget.queries.Block]
total = "1/4"
kind = "1/4"
detailed = "1/2"
"""


def write_tight(path: Path, seed: int) -> pd.DataFrame:
    """States of a few dozen persons: some live only in facilities of one person each, so that the
    total of the state *is* the sum of the lower bounds; some have no housing unit; some have no
    facility."""
    rng = np.random.default_rng(seed)
    rows = []
    for state in range(9):
        style = rng.integers(
            5
        )  # 0: a person in each facility, no home; 1: no home; 2: homes empty; 3, 4: anything
        for county in range(rng.integers(1, 4)):
            for block in range(rng.integers(1, 6)):
                code = (f"{state}", f"{state}{county}", f"{state}{county}{block}")
                units = 0 if style < 2 else int(rng.integers(0, 4))
                rows.append((*code, "h", "old", 0, units))
                for kind in KINDS:
                    if kind == "h":
                        n = int(rng.integers(0, 12)) if units and style > 2 else 0
                    else:
                        n = int(rng.random() < (0.05, 0.3, 0.6)[seed % 3])
                        n *= 1 if style in (0, 2) else int(rng.integers(1, 15))
                    old = n if kind == "c" else int(rng.integers(0, n + 1))
                    rows += [
                        (*code, kind, "old", old, units),
                        (*code, kind, "young", n - old, units),
                    ]
    table = pd.DataFrame(rows, columns=["state", "county", "block", "kind", "age", "n", "units"])
    table.to_csv(path, index=False)
    return table


@pytest.mark.parametrize("seed", range(9))
def test_totals_that_leave_no_room_are_met_with_every_facility_and_home(
    seed: int, tmp_path: Path
) -> None:
    table = write_tight(tmp_path / "in.csv", seed)
    pipeline.run(
        spec.parse(TIGHT, where="tight", overrides=("output.report=false",)),
        tmp_path / "run",
        paths=[tmp_path / "in.csv"],
    )
    out = pd.read_parquet(tmp_path / "run" / "release" / "microdata" / "persons").astype(str)
    state = table.groupby("state")["n"].sum()
    assert out["geocode"].str[0].value_counts().to_dict() == state[state > 0].to_dict()
    held = pd.crosstab(out["geocode"], out["kind"])
    held = held.reindex(index=sorted(set(table["block"])), columns=list(KINDS), fill_value=0)
    true = table.groupby(["block", "kind"])["n"].sum().unstack(fill_value=0)[list(KINDS)]
    for kind in KINDS[1:]:
        assert ((held[kind] > 0) == (true[kind] > 0)).all(), f"a facility of type {kind}"
    units = table.groupby("block")["units"].first()
    assert (held["h"][units == 0] == 0).all()
    assert not ((out["kind"] == "c") & (out["age"] == "young")).any()
    for level, width in (("Nation", 0), ("State", 1), ("County", 2), ("Block", 3)):
        cross = pd.read_csv(
            tmp_path / "run" / "release" / "tables" / f"T3_{level}.csv", dtype={"GEOCODE": str}
        )
        mine = pd.crosstab(out["geocode"].str[:width], [out["kind"], out["age"]])
        mine = mine.reindex(
            columns=pd.MultiIndex.from_product([list(KINDS), ["young", "old"]]), fill_value=0
        )
        mine = mine.reindex(cross["GEOCODE"] if width else [""], fill_value=0)
        assert np.array_equal(mine.to_numpy(), cross.filter(regex="^T003").to_numpy()), level


def test_the_hostile_tables_are_hostile(tmp_path: Path) -> None:
    """Among them are states whose total is the sum of their lower bounds, and states without a
    home.
    """
    tables = [write_tight(tmp_path / "t.csv", seed) for seed in range(9)]
    tight = homeless = 0
    for t in tables:
        here = t[t["n"] > 0].groupby("state").agg(n=("n", "sum"), units=("units", "max"))
        lower = (
            t[(t["n"] > 0) & (t["kind"] != "h")]
            .groupby(["state", "block", "kind"])
            .size()
            .groupby("state")
            .size()
        )
        tight += int((here["n"] == lower.reindex(here.index, fill_value=0)).sum())
        homeless += int((here["units"] == 0).sum())
    assert tight > 5
    assert homeless > 10


@pytest.mark.parametrize("seed,sf1", [(1, False), (2, True)])
def test_many_small_states_at_a_budget_of_a_hundredth(
    root: Path, seed: int, sf1: bool, tmp_path: Path
) -> None:
    """Noise of hundreds of persons on states of a thousand: the national histogram must leave each
    state room.
    """
    paths = simulate_2010.write(tmp_path / "in", seed=seed, states=5, persons=5_000, sf1=sf1)
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    changed = spec.parse(
        text,
        where="pl94-2010",
        overrides=(
            "budget.rho=1/100",
            f"run.seed={seed}",
            "output.report=false",
            "geography.spine=tabulation",
        ),
    )
    pipeline.run(changed, tmp_path / "run", paths=[tmp_path / "in"])
    truth = free.published_rows(p for p in paths if ".pl." in p.name)
    if not sf1:
        free.assert_invariants(tmp_path / "run" / "release", truth)
        return
    people = free.persons(tmp_path / "run" / "release")
    state = truth.groupby(truth.index.str[:2])["P0010001"].sum()
    assert people.groupby(people["block"].str[:2]).size().to_dict() == state.to_dict()
    true = published_group_quarters(p for p in paths if ".sf1." in p.name).reindex(truth.index)
    assert true.to_numpy().sum() > 0
    held = pd.crosstab(people["block"], people["GQTYPE_PL"])
    held = held.reindex(index=truth.index, columns=range(8), fill_value=0)
    assert ((held[range(1, 8)].to_numpy() > 0) == (true.to_numpy() > 0)).all()
    assert (held[0][truth["H0010001"] == 0] == 0).all()
    assert not ((people["GQTYPE_PL"] == 3) & (people["VOTING_AGE"] == 1)).any()


def published_group_quarters(zips: Iterable[Path]) -> pd.DataFrame:
    """P42 of every block, by its seven types."""
    parts = []
    for path in zips:
        ss = path.name[:2]
        with zipfile.ZipFile(path) as archive:
            header = archive.read(f"{ss}geo2010.sf1").decode("latin-1").splitlines()
            segment = pd.read_csv(io.BytesIO(archive.read(f"{ss}000062010.sf1")), header=None)
        rows = [i for i, line in enumerate(header) if line[8:13] == "10100"]
        code = [header[i][27:32] + header[i][54:65] for i in rows]
        parts.append(
            pd.DataFrame(
                segment.to_numpy()[rows][:, [170, 171, 172, 173, 175, 176, 177]], index=code
            )
        )
    return pd.concat(parts).astype(int)


# --- a user's own table
# -----------------------------------------------------------------------------------------

OWN = """
[run]
name = "own"
seed = {seed}
[data]
reader = "table"
[data.columns.geography]
Canton = "canton"
Commune = "commune"
[data.columns.attributes]
language = "lang"
[data.columns.codes.language]
de = "German"
fr = "French"
it = "Italian"
[schema]
name = "swiss"
[schema.attributes]
language = ["German", "French", "Italian"]
age = ["0-19", "20-64", "65+"]
[schema.groupings.adult]
attribute = "age"
groups = {{ minor = ["0-19"], adult = ["20-64", "65+"] }}
[geography]
levels = ["Country", "Canton", "Commune"]
[budget]
rho = "{rho}"
neighbors = "unbounded"
[budget.levels]
Country = "1/5"
Canton = "2/5"
Commune = "2/5"
[budget.queries.Country]
detailed = "1"
[budget.queries.Canton]
"language * adult" = "1/2"
detailed = "1/2"
[budget.queries.Commune]
total = "1/2"
"adult * language" = "1/4"
detailed = "1/4"
[output]
csv = true
report = false
"""


@pytest.fixture
def own(tmp_path: Path) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    n = 3_000
    canton = rng.choice(["ZH", "VD", "TI"], n, p=[0.5, 0.3, 0.2])
    commune = np.char.add(np.char.add(canton, "-"), rng.integers(1, 9, n).astype(str))
    table = pd.DataFrame(
        {
            "commune": commune,
            "age": rng.choice(["0-19", "20-64", "65+"], n, p=[0.2, 0.6, 0.2]),
            "lang": rng.choice(["de", "fr", "it"], n, p=[0.6, 0.3, 0.1]),
            "canton": canton,
            "note": "not used",
        }
    )
    table.to_csv(tmp_path / "people.csv", index=False)
    return table


def own_run(tmp_path: Path, name: str, **keys: object) -> tuple[Path, pd.DataFrame]:
    parsed = spec.parse(OWN.format(**keys), where="own")
    pipeline.run(parsed, tmp_path / name, paths=[tmp_path / "people.csv"])
    return tmp_path / name, pd.read_parquet(tmp_path / name / "release" / "microdata" / "persons")


def test_an_own_table_without_any_invariant(own: pd.DataFrame, tmp_path: Path) -> None:
    run, out = own_run(tmp_path, "run", seed=1, rho="2")
    assert list(out.columns) == ["geocode", "EPNUM", "language", "age"]
    assert abs(len(out) - len(own)) < 60  # estimated: close, ...
    totals = {len(out)} | {len(own_run(tmp_path, f"r{s}", seed=s, rho="1/10")[1]) for s in (2, 3)}
    assert len(totals) > 1  # ... and not the true total
    true = own.replace({"lang": {"de": "German", "fr": "French", "it": "Italian"}})
    text = out.astype(str)
    a = pd.crosstab(text["geocode"].str[:2], [text["language"], text["age"]])
    b = pd.crosstab(true["canton"], [true["lang"], true["age"]])
    assert (a - b).abs().to_numpy().mean() < 3
    assert (a - b).abs().to_numpy().sum() > 0
    statement = free.read_json(run / "release" / "privacy.json")
    assert statement["outside_the_guarantee"] == []
    assert statement["rho"] == {"persons": "2", "total": "2"}
    assert not list((run / "release").rglob("Constraint"))
    for level, digits in (("Country", 0), ("Canton", 2), ("Commune", 4)):
        table = pd.read_csv(
            run / "release" / "tables" / f"T0_{level}.csv", index_col="GEOCODE"
        ).iloc[:, 0]
        place = (
            out["geocode"].astype(str).str[:digits]
            if digits
            else pd.Series("Country", index=out.index)
        )
        assert table.to_dict() == place.value_counts().reindex(table.index, fill_value=0).to_dict()


def test_the_microdata_as_text_are_the_same_rows(own: pd.DataFrame, tmp_path: Path) -> None:
    run, out = own_run(tmp_path, "run", seed=1, rho="1")
    text = pd.read_csv(
        run / "release" / "microdata" / "persons.csv", sep="|", comment="#", dtype=str
    )
    assert len(own)
    assert text.equals(out.astype(str))


def test_an_own_table_is_estimated_again_from_its_release(
    own: pd.DataFrame, tmp_path: Path
) -> None:
    assert len(own)
    run, _ = own_run(tmp_path, "run", seed=1, rho="1")
    (tmp_path / "people.csv").unlink()
    from_release.estimate_from(run / "release", tmp_path / "new")
    for part in ("microdata", "tables"):
        assert free.digests(tmp_path / "new" / "release" / part) == free.digests(
            run / "release" / part
        )


# --- 1940
# --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name,currency", [("1940", "rho"), ("1940-pure-dp", "epsilon")])
def test_1940_with_both_mechanisms(root: Path, name: str, currency: str, tmp_path: Path) -> None:
    text = (root / "configs" / f"{name}.toml").read_text(encoding="utf-8")
    parsed = spec.parse(text, where=name, overrides=("run.seed=3", "output.report=false"))
    pipeline.run(parsed, tmp_path / "run", paths=[root / "data" / "ext1940"])
    statement = free.read_json(tmp_path / "run" / "release" / "privacy.json")
    budget = {"rho": Fraction(1, 32), "epsilon": Fraction(1, 4)}[currency]
    assert Fraction(statement[currency]["total"]) == budget
    assert sum(Fraction(e[currency]) for e in statement["ledger"]) == budget
    for e in statement["ledger"]:
        if currency == "rho":
            assert Fraction(e["sigma_sq"]) == 1 / Fraction(e["rho"])
        else:
            assert Fraction(e["scale"]) == 2 / Fraction(e["epsilon"])

    people: Counter[str] = Counter()
    places: dict[str, Counter[int]] = defaultdict(Counter)
    shift = {0: 0, 2: 1, 3: 2, 4: 3, 6: 4, 7: 5, 8: 6, 9: 7}
    with gzip.open(next((root / "data" / "ext1940").glob("*.gz")), "rt") as file:
        for line in file:
            if line[0] == "H":
                district = line[53:55] + line[55:59] + line[124:128]
                places[district][shift[int(line[94])]] += 1
            else:
                people[district[:2]] += 1
    got = pd.read_parquet(tmp_path / "run" / "release" / "microdata" / "persons").astype(str)
    assert got["STATE"].value_counts().to_dict() == dict(people)
    got["district"] = got["STATE"] + got["COUNTY"] + got["ENUMDIST"]
    kind = got["GQTYPE"].map(lambda t: 0 if t == "000" else int(t[0]))
    held = Counter(zip(got["district"], kind, strict=True))
    assert set(got["district"]) <= set(places)
    for district, here in places.items():
        assert (here[0] > 0) or held[district, 0] == 0
        for k in range(1, 8):
            assert held[district, k] >= here[k]
            assert held[district, k] == 0 or here[k] > 0
