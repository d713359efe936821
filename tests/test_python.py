"""The functions that a notebook calls: what they take, refuse, pass on, and say of a seeded run."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import das
from das.engine import Progress, Silent
from das.engine.choice import TLS, EngineChoice
from das.errors import InputError, SpecError, UserError
from das.files.run.run_directory import RunDirectory
from das.files.simulators import census_2010 as simulate_2010
from das.microdata import expand
from das.model.not_private import CELL, COLUMN
from das.release.opened import open_release
from das.release.outcome import Outcome
from das.runs import pipeline
from das.truth import files as truth_file
from das.truth.assessment import published_of


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("python") / "data"
    simulate_2010.write(folder, seed=1, states=1, persons=1000)
    return folder


@pytest.fixture(scope="module")
def seeded(data: Path) -> Path:
    """A seeded run, of one input that is not in a list."""
    spec = das.load_spec(
        "pl94-2010", ["run.seed=7", "output.report=false", "geography.spine=tabulation"]
    )
    with pytest.warns(UserWarning, match=COLUMN) as said:
        das.run(spec, data.parent / "seeded", paths=data)
    assert [w.filename for w in said] == [__file__]
    return data.parent / "seeded"


def test_every_row_of_a_seeded_run_says_so(seeded: Path) -> None:
    release = seeded / "release"
    frames = [
        das.read_nmf(p, level="County", query="total") for p in (seeded, release, release / "nmf")
    ]
    parts = release / "microdata" / "persons"
    frames += [das.read_microdata(p) for p in (seeded, parts, parts / "part-00000.parquet")]
    frames += [das.read_nmf(seeded, tidy=False), das.read_microdata(seeded, labels=True)]
    for frame in frames:
        assert len(frame)
        assert frame.columns[-1] == COLUMN
        assert set(frame[COLUMN]) == {CELL}


def test_arrays_with_a_seed_are_the_measurements_of_a_run_with_it(seeded: Path) -> None:
    """The records of the run in another order, counted and measured in memory: every noisy value of
    its files.
    """
    release = open_release(seeded / "release")
    persons, spine = release.spec.persons, release.spine
    unit, cell = expand(
        truth_file.read(seeded / "confidential" / "truth" / "persons.parquet").open("test")
    )
    shuffled = np.random.default_rng(0).permutation(len(unit))
    levels = np.unravel_index(cell[shuffled], persons.schema.shape)
    records = {"Block": spine.codes[-1][unit[shuffled]]}
    records |= {a.name: x for a, x in zip(persons.schema.attributes, levels, strict=True)}
    truth = das.count(
        records, persons.schema, spine, positions=[a.name for a in persons.schema.attributes]
    )
    with pytest.warns(UserWarning, match=COLUMN):
        noisy = das.measure(truth, persons.plan, seed=7)
    source = release.source(persons)
    for level, units in zip(spine.levels, map(len, spine.codes), strict=True):
        for query in source.queries(level):
            theirs, mine = source.read(level, query, 0, units), noisy.read(level, query, spine)
            assert np.array_equal(mine.values, theirs.values)
            assert np.array_equal(mine.variance, theirs.variance)
    mine = das.topdown(noisy, spine, das.read_noisy(seeded)[2])
    for level, counts in published_of(release, ["persons"])["persons"].items():
        assert mine.histograms[level].histogram.same_as(counts)


def test_arrays_from_the_frames_of_a_release_give_its_counts(seeded: Path) -> None:
    """Everything that das.read_nmf returns, as arrays: measurements, and the constraints that are
    exact or bound dwellings.
    """
    noisy, spine, known = das.read_noisy(seeded)
    more = das.bounds(noisy.schema, spine, structures=np.zeros((spine.units("Block"), 8), int))
    with pytest.raises(
        InputError, match="cannot be put together with the bounds that the measurements have"
    ):
        das.topdown(noisy, spine, more)
    release = open_release(seeded / "release")
    schema = release.spec.persons.schema
    measured, exact = {}, {}
    for level in spine.levels:
        frame, units = das.read_nmf(seeded, level), spine.units(level)
        for query, rows in frame.groupby("query", sort=False):
            values = rows["value"].to_numpy().reshape(units, -1)
            measured[level, str(query)] = (
                values,
                rows["variance"].to_numpy().reshape(units, -1)[:, 0],
            )
    rules = das.read_nmf(seeded, kind="Constraint")
    total = rules[(rules["query"] == "total") & (rules["level"] == "State")]
    exact["State", "total"] = total["value"].to_numpy()
    facilities = (
        rules[rules["query"] == "hhgq_total_lb"]["value"]
        .to_numpy()
        .reshape(spine.units("Block"), -1)
    )
    homes = (
        rules[rules["query"] == "hhgq_total_ub"]["value"]
        .to_numpy()
        .reshape(spine.units("Block"), -1)
        // 99_999
    )
    bounds = das.bounds(schema, spine, exact, np.where(np.arange(8) == 0, homes, facilities))
    result = das.topdown(das.Noisy.from_measurements(schema, measured), spine, bounds)
    for level, counts in published_of(release, ["persons"])["persons"].items():
        assert bounds[level] == known[level]
        assert result.histograms[level].histogram.same_as(counts)
        again = (
            das.topdown(noisy, spine, known).histograms[level]
            if level == "State"
            else result.histograms[level]
        )
        assert again.histogram.same_as(counts)


def test_a_private_run_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "run", lambda *a, **k: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        das.run(das.load_spec("pl94-2010"), "out")


def test_every_argument_reaches_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    got: dict[str, Any] = {}
    monkeypatch.setattr(pipeline, "run", lambda spec, out, **given: got.update(given))
    told = Silent()
    asked = {"resume": True, "accept_spent": True, "ignore_memory": True, "progress": told}
    das.run(das.load_spec("pl94-2010"), "out", paths="ri.zip", workers=3, **asked)
    assert got == {"paths": [Path("ri.zip")], "engine": EngineChoice(workers=3), **asked}


def test_every_choice_of_an_engine_reaches_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A folder of certificates may be given as a text."""
    got: list[EngineChoice] = []
    monkeypatch.setattr(pipeline, "run", lambda spec, out, *, engine, **given: got.append(engine))
    for name in TLS:
        (tmp_path / name).touch(0o600)
    spec = das.load_spec("pl94-2010")
    das.run(spec, "out", engine="dask", scheduler="tls://h:1", tls=str(tmp_path), partition=100)
    das.run(spec, "out", engine="array", wait=True)
    assert got == [
        EngineChoice("dask", 1, "tls://h:1", tmp_path, size=100),
        EngineChoice("array", wait=True),
    ]
    with pytest.raises(UserError, match="only for this machine"):
        das.run(spec, "out", engine="dask", scheduler="tcp://10.0.0.1:8786")
    assert len(got) == 2


@pytest.mark.parametrize("asked", [True, False])
def test_progress_is_shown_where_it_is_asked_for(
    asked: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each stage where there is no terminal; the last one as the run ends, and not where
    it fails.
    """

    def staged(spec: Any, out: Path, progress: Progress, **given: Any) -> None:
        for name in ("read", "measure"):
            progress.stage(name, 3)
            progress.advance(3)
        if out.name == "fails":
            raise RuntimeError

    monkeypatch.setattr(pipeline, "run", staged)
    das.run(das.load_spec("pl94-2010"), "out", progress=asked)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["read", "measure"] * asked
    with pytest.raises(RuntimeError):
        das.run(das.load_spec("pl94-2010"), "fails", progress=asked)
    assert [line.split()[0] for line in capsys.readouterr().err.splitlines()] == ["read"] * asked


@pytest.mark.parametrize("looks", [True, False])
def test_a_notebook_shows_progress_unasked(
    looks: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def staged(spec: Any, out: Path, progress: Progress, **given: Any) -> None:
        progress.stage("measure", 3)
        progress.advance(3)

    shell = type("ZMQInteractiveShell", (), {"initialized": lambda: looks})
    kernel = type("zmqshell", (), {"ZMQInteractiveShell": shell})
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", kernel)
    monkeypatch.setattr(pipeline, "run", staged)
    das.run(das.load_spec("pl94-2010"), "out")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["measure"] * looks


def test_what_a_run_returns_has_links(seeded: Path) -> None:
    """In a notebook to what there is, in text by path."""
    outcome = Outcome(RunDirectory(seeded), 2.5, notes=("<note>",), private=False)
    page = outcome._repr_html_()
    assert f'<a href="{seeded}/release">release</a>' in page
    assert "errors (confidential)" in page
    assert "report.html" not in page  # there is none
    assert "&lt;note&gt;" in page
    assert "written in 2.5 s" in page
    assert str(seeded / "release") in repr(outcome)
    assert repr(outcome).splitlines()[-1] == "<note>"


@pytest.mark.parametrize("drawn", [True, False])
def test_an_interrupted_run_says_how_it_goes_on(
    drawn: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(spec: Any, out: Path, **given: Any) -> None:
        if drawn:
            (out / "release").mkdir(parents=True)
            (out / "release" / "ledger.jsonl").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(pipeline, "run", stopped)
    with pytest.raises(KeyboardInterrupt) as caught:
        das.run(das.load_spec("pl94-2010"), tmp_path / "out")
    notes = getattr(caught.value, "__notes__", [])
    assert [f"das.run(spec, '{tmp_path / 'out'}', resume=True)" in n for n in notes] == [
        True
    ] * drawn


@pytest.mark.parametrize(
    "overrides", ["budget.rho=1/2", {("budget.rho", 0.5): 1}, [("budget.rho", 0.5)], [0.5]]
)
def test_overrides_that_are_no_list_of_texts_are_refused(overrides: Any) -> None:
    with pytest.raises(SpecError, match=r'list of texts[\s\S]*"budget.rho=1/2"'):
        das.load_spec("pl94-2010", overrides)


def test_the_name_of_a_configuration_is_no_specification(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"'pl94-2010'[\s\S]*das.load_spec"):
        das.run("pl94-2010", tmp_path / "out")  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("geocode", [44, [44]])
def test_a_code_is_text(geocode: Any, seeded: Path) -> None:
    with pytest.raises(UserError, match='codes are text, such as "04"'):
        das.read_nmf(seeded, level="State", geocode=geocode)
