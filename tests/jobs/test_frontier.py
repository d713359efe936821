"""A study of protection methods from its records to its page."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from das.errors import SpecError, UserError
from das.files import rows_csv
from das.tools.protection.study.page import PUBLISHED, WITH_ALSO, FrontierMean, FrontierRow
from das.tools.protection.truth import frontier, study_input
from das.tools.protection.truth import frontier as frontier_module
from das.tools.protection.truth.frontier import FrontierResult, run_study
from das.tools.protection.truth.method import Guarantee
from das.tools.protection.truth.results import SampledRatio
from das.tools.protection.truth.study import TopDown, load_study
from tests.jobs import frontier_small
from tests.stopped import Killed, Step


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return frontier_small.write(tmp_path_factory.mktemp("frontier"))


@pytest.fixture(scope="module")
def made(study: Path) -> FrontierResult:
    return run_study(load_study(study, also=study.with_name("other.toml")), study.with_name("out"))


def value(
    made: FrontierResult, curve: str, measure: str, tables: str = PUBLISHED, **of: str
) -> float:
    """Of the last setting of a curve."""
    for m in reversed(made.means):
        wanted = {"curve": curve, "measure": measure, "tables": tables, **of}
        if all(getattr(m, k) == v for k, v in wanted.items()):
            assert m.value is not None
            return m.value
    raise AssertionError(f"no {measure} of {curve}")


def test_what_is_published_exactly_has_no_error(made: FrontierResult) -> None:
    for level in ("Town", "Block", "areas"):
        assert value(made, "No protection", "error", level=level, use="origin") == 0
        assert value(made, "Rounding", "error", level=level, use="origin") > 0
    assert value(made, "No protection", "lines withheld", level="Block") == 0
    # crossed nowhere, so everything is a guess, and some of it is wrong
    assert value(made, "No protection", "withheld", level="Block", use="crossed") == 100
    assert value(made, "No protection", "error", level="Block", use="crossed") > 0


def test_swapping_keeps_towns_and_protects(made: FrontierResult) -> None:
    """Persons are exchanged, so places keep their number of persons."""
    assert value(made, "Swapping", "error", level="Block", use="total") == 0
    assert value(made, "Swapping", "error", level="Block", use="origin") > 0
    assert value(made, "Swapping", "agreement", persons="all") < value(
        made, "No protection", "agreement", persons="all"
    )


def test_lines_of_tables_that_a_method_does_not_publish_are_withheld(made: FrontierResult) -> None:
    """It publishes origin alone. Of the 1 + 5 + 4 lines of a block the total and those of origin
    are known: sex by age has a total, too."""
    assert value(made, "coarse", "lines withheld", level="Block") == pytest.approx(100 * 6 / 12)
    assert value(made, "coarse", "error", level="Block", use="origin") == 0
    assert value(made, "coarse", "error", level="Block", use="total") == 0


def test_the_next_product_gives_everybody_away(made: FrontierResult) -> None:
    """With the full cross, the records follow from the tables."""
    assert value(made, "No protection", "agreement", WITH_ALSO, persons="all") == 100
    uniques = {"persons": "nonmodal unique"}
    assert value(made, "No protection", "precision", WITH_ALSO, **uniques) == 100
    assert value(made, "No protection", "agreement", persons="all") < 100


def test_who_stands_out_is_counted(study: Path, made: FrontierResult) -> None:
    """Alone in the block with sex and age, and of an origin that is not the most frequent there;
    of several as frequent, the first of the schema is."""
    text = study.with_name("people.csv").read_text()
    people = [tuple(line.split(",")[1:]) for line in text.splitlines()[1:]]
    alone = Counter(p[:3] for p in people)
    origins = Counter((block, origin) for block, _, _, origin in people)
    names = ("north", "south", "other")
    most = {p[0]: max(names, key=lambda o: origins[p[0], o]) for p in people}
    n = sum(alone[p[:3]] == 1 and p[3] != most[p[0]] for p in people)
    assert f"Only {n} people stand out here" in made.picture.says


def test_a_method_without_random_numbers_is_not_repeated(made: FrontierResult) -> None:
    rows = rows_csv.read_rows(made.table, FrontierRow, "results")
    repeats = {(r.curve, r.setting): r.random for r in rows if r.repeat == 1}
    assert repeats == {("Swapping", 0): "yes", ("Swapping", 1): "yes"}
    summary = rows_csv.read_rows(made.summary, FrontierMean, "summary")
    assert [vars(m) for m in summary] == [vars(m) for m in made.means]
    held = [m for m in summary if m.low is not None]
    assert held
    assert {m.curve for m in held} == {"Swapping"}
    assert all(m.low <= m.value <= m.high for m in held)  # type: ignore[operator]


@pytest.mark.parametrize(
    "step",
    [
        Step(frontier_module.study_input, "sample"),
        Step(frontier_module.atomic, "write_text"),
        Step(frontier_module.atomic, "write_json"),
    ],
    ids=["read", "spec", "state"],
)
def test_a_study_that_was_killed_before_its_state_is_begun_again(
    study: Path, tmp_path: Path, step: Step
) -> None:
    """Its own records and its specification do not make the folder somebody else's."""
    resolved, out = load_study(study.with_name("short.toml")), tmp_path / "killed"
    with pytest.MonkeyPatch.context() as patch:
        step.arm(patch)
        with pytest.raises(Killed):
            run_study(resolved, out)
    assert not (out / "study.json").exists()
    with pytest.MonkeyPatch.context() as patch:  # it gets beyond its state
        Step(frontier_module, "opened").arm(patch)
        with pytest.raises(Killed):
            run_study(resolved, out)
    assert (out / "study.json").exists()


def test_a_folder_with_something_else_is_not_taken_for_a_study(study: Path, tmp_path: Path) -> None:
    resolved = load_study(study.with_name("short.toml"))
    for names in (["study.toml"], ["records.npz", "mine.txt"], ["study.toml", ".study.toml.tmp"]):
        out = tmp_path / "-".join(names)
        out.mkdir()
        for name in names:
            (out / name).write_text("mine")
        with pytest.raises(UserError, match="not empty"):
            run_study(resolved, out)
        assert {p.name: p.read_text() for p in out.iterdir()} == dict.fromkeys(names, "mine")


def test_a_study_goes_on_where_it_stopped(
    study: Path, made: FrontierResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is interrupted in its second attack; what is scored stays, and the results are those of a
    study that ran through."""
    out, real = study.with_name("stopped"), frontier.measured
    scored: list[object] = []

    def stopped(*args: object) -> object:
        if len(scored) == 1:
            raise UserError("no more power")
        scored.append(args)
        return real(*args)  # type: ignore[arg-type]

    resolved = load_study(study.with_name("short.toml"))
    with monkeypatch.context() as patch:
        patch.setattr(frontier, "measured", stopped)
        with pytest.raises(UserError, match="no more power"):
            run_study(resolved, out)
    first = next(iter((out / "scores").glob("*/*.npz")))
    before = first.stat().st_mtime_ns
    again = run_study(resolved, out)
    assert first.stat().st_mtime_ns == before
    mine, theirs = (
        [vars(m) for m in r.means if m.measure != "seconds a unit" and m.tables == PUBLISHED]
        for r in (again, made)
    )
    assert mine == theirs[: len(mine)]
    assert not (out / "work").exists()


def test_methods_can_be_added_and_nothing_else(study: Path, made: FrontierResult) -> None:
    kept = {p: p.stat().st_mtime_ns for p in made.table.parent.glob("scores/*/*.npz")}
    more = ['methods.more={ method = "rounding", base = 3 }', "study.repeats=1"]
    added = run_study(load_study(study, more), made.table.parent)
    assert {m.curve for m in added.means} >= {"more", "No protection"}
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
    with pytest.raises(UserError, match="a study with other records, tables, sample or attack"):
        run_study(load_study(study, ["sample.units=1"]), made.table.parent)
    (study.parent / "full").mkdir()
    (study.parent / "full" / "x").write_text("")
    with pytest.raises(UserError, match="full"):
        run_study(load_study(study), study.parent / "full")


def test_the_page_says_what_it_shows(made: FrontierResult) -> None:
    page = made.page.read_text(encoding="utf-8")
    ids = set(re.findall(r'id="([\w-]+)"', page))
    assert set(re.findall(r'href="#([\w-]+)"', page)) <= ids
    assert not re.findall(r'(?:src|href)="(?!#)', page)  # one file, for a machine without a network
    for said in (
        "An attack measures itself", "Only a formal statement bounds all attacks",
        "Exact tables compose badly",
        "Simulated records", "Legal words are not ours", "as in 2010", "leave-one-out baseline",
        "All attributes crossed", "swapping exchanges single persons",
    ):  # fmt: skip
        assert said in page, said
    # with other tables, the settings with a prime; without, the option (methods were added since)
    assert ("the settings with a prime" in page) != ("--also OTHER_TABLES.toml" in page)
    assert made.page.stat().st_mode & 0o077 == 0


def test_a_ratio_has_the_error_of_a_simple_sample() -> None:
    """Against the variance over all samples of two of four, with equal denominators."""
    top, bottom = np.array([1.0, 4.0, 2.0, 7.0]), np.full(4, 10.0)
    pairs = [[i, j] for i in range(4) for j in range(i + 1, 4)]
    each = [SampledRatio("m", top[p], bottom[p]) for p in pairs]
    squares = [e for r in each if (e := r.error(4)) is not None]
    values = [r.value() for r in each]
    assert np.mean(np.square(squares)) == pytest.approx(np.var(np.array(values, float)))
    assert SampledRatio("m", top, bottom).error(4) is None
    assert SampledRatio("m", top, 0 * bottom).value() is None


def test_topdown_is_a_method(study: Path) -> None:
    """The ordinary pipeline: its tables are those of its records, and the total is exact."""
    resolved = load_study(study)
    records = study_input.read(resolved.spec, resolved.schema)
    method = TopDown(rho="4")
    assert (method.guarantee, method.random) == (Guarantee.FORMAL, True)
    found = method.protect(records, resolved.published, b"a key of it")
    assert found.records is not None
    assert found.records.totals().sum() == 120
    lines = resolved.published.lines("Block").counts(found.records)
    assert np.array_equal(found.levels["Block"].value, lines)
    again = method.protect(records, resolved.published, b"a key of it")
    assert again.records is not None
    assert again.records.same_as(found.records)
    with pytest.raises(SpecError, match="rho is '-1'"):
        TopDown(rho="-1")


def test_what_is_wrong_in_a_study_is_said_at_once(study: Path) -> None:
    """Every fault with its key, and a near name where there is one."""
    wrong = [
        "sample.unit=3",
        "methods.swap.raet=0.1",
        "attack.known=[]",
        "published.levels=['Twon']",
        "methods.x.method=noise",
    ]
    with pytest.raises(SpecError) as caught:
        load_study(study, wrong)
    said = str(caught.value)
    for part in (
        "sample.unit: unknown key; did you mean 'units'?",
        "raet: unknown key; did you mean 'rate'?",
        "known and sensitive must be different",
        "there is no method 'noise'",
    ):
        assert part in said, said
    with pytest.raises(SpecError, match="there is no level 'Twon'"):
        load_study(study, ["published.levels=['Twon']"])
    with pytest.raises(SpecError, match="no level 'Blok'"):
        load_study(study, ["map.level=Blok"])
