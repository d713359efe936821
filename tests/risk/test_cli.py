"""`das risk`: every published number from the command line, and reports that stay where they
belong.
"""

from __future__ import annotations

import json
import re
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from das import risk, spec
from das.cli import main
from das.model.mechanisms import DISCRETE_GAUSSIAN
from das.risk.recursion import Noise
from das.runs import pipeline

RHO1, RHO2 = "0.0992263542254750", "0.2464845096070356"
TWO = ("--rho1", RHO1, "--rho2", RHO2, "--d", "27")
SubtreeMoments = Callable[..., tuple[int, str, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> SubtreeMoments:
    def call(*args: object) -> tuple[int, str, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            main(["risk", *(str(a) for a in args)])
        return int(end.value.code or 0), *capsys.readouterr()

    return call


def values(said: SubtreeMoments, *args: object) -> Any:
    code, out, err = said(*args, "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_table_3(said: SubtreeMoments) -> None:
    rows = values(said, "posterior", "--x", 4, "--x", -1, "--rho", RHO1, "--prior", "1/5")
    assert [f"{rows[0][k]:.3f}" for k in ("posterior", "probability")] == ["0.334", "0.073"]
    assert f"{rows[0]['risk']:.2f}" == "1.67"
    assert rows[1]["x"] == -1
    moved = values(said, "posterior", "--x", 9, "--known", 5, "--rho", RHO1, "--prior", "1/5")
    assert moved[0]["posterior"] == rows[0]["posterior"]


def test_table_4_and_decisions(said: SubtreeMoments) -> None:
    rows = values(said, "marginal", "--rho", RHO1)
    assert [f"{r['marginal_posterior']:.4f}" for r in rows] == [
        "0.5237",
        "0.2254",
        "0.1168",
        "0.0242",
    ]
    assert [f"{r['risk']:.3f}" for r in rows] == ["1.047", "1.127", "1.168", "1.208"]
    rows = values(said, "decision", "--rho", RHO1)
    assert f"{rows[0]['decision_probability']:.6f}" == "0.588860"
    assert [f"{r['decision_probability']:.1e}" for r in rows[1:]] == [
        "1.8e-03",
        "1.2e-06",
        "1.0e-18",
    ]


def test_several_levels_and_other_conventions(said: SubtreeMoments) -> None:
    one, two = (
        values(said, "marginal", *("--rho", RHO1) * 1, *extra) for extra in ((), ("--rho", RHO2))
    )
    assert two[0]["risk"] > one[0]["risk"]
    assert values(said, "decision", "--rho", RHO1, "--rho", RHO2)[0]["decision_probability"] > 0.66
    bounded = values(said, "marginal", "--rho", "2/10", "--neighbors", "bounded")
    assert bounded == values(said, "marginal", "--rho", "0.1")
    pure = values(said, "posterior", "--x", 3, "--epsilon", "1", "--prior", "1/2")
    assert pure[0]["posterior"] == pytest.approx(1 / (1 + np.exp(-1)))


def test_the_hierarchy(said: SubtreeMoments) -> None:
    data = ("hierarchical", "--x1", 2, "--x2", 1, "--y1", -1, *TWO)
    exact = values(said, *data)
    assert f"{exact['posterior']:.5f}" == "0.50329"
    assert [f"{exact['upper'][str(j)]:.4f}" for j in range(5)] == [
        "0.1294",
        "0.3866",
        "0.2979",
        "0.1392",
        "0.0394",
    ]
    sampler = values(said, *data, "--method", "gibbs-unconstrained")
    assert f"{sampler['posterior']:.5f}" == "0.57770"
    certain = values(said, *data, "--upper", "point:25")
    assert certain["upper"] == {"25": 1.0}
    flat, same = (
        values(said, *data, "--upper", u) for u in ("weights:" + ",".join("1" * 11), "uniform:10")
    )
    assert flat["posterior"] == pytest.approx(same["posterior"], abs=1e-12)
    assert flat["upper"] == pytest.approx(same["upper"], abs=1e-12)
    assert "P[X1 = 1 | D] = 0.50329" in said(*data)[1]


def test_changes(said: SubtreeMoments) -> None:
    (row,) = values(said, "changes", *TWO)
    assert (f"{100 * row['towards']:.2f}", f"{100 * row['away']:.2f}") == ("0.21", "27.28")
    (row,) = values(said, "changes", *TWO, "--method", "gibbs-unconstrained")
    assert (f"{100 * row['towards']:.2f}", f"{100 * row['away']:.2f}") == ("2.38", "1.81")


# --- a run
# ----------------------------------------------------------------------------------------------------------


CONFIG = """
run = { name = "risk", seed = 1 }
schema = { name = "mine", attributes = { sex = ["f", "m"], age = ["young", "old"] } }
geography = { levels = ["Country", "Town", "Block"] }
[data]
reader = "table"
path = [%s]
columns.geography = { Town = "town", Block = "block" }
[budget]
rho = "3/2"
neighbors = "unbounded"
[budget.levels]
Country = "1/3"
Town = "1/3"
Block = "1/3"
[budget.queries]
Country.detailed = "1"
Town.detailed = "1"
Block = { detailed = "4/5", sex = "1/5" }
"""
BLOCK = 0.4


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """300 blocks of 15 towns, with 0 to 2 persons in each cell; the last two cells are rare."""
    folder = tmp_path_factory.mktemp("risk")
    rng = np.random.default_rng(2)
    lines = ["town,block,sex,age"]
    for block in range(300):
        counts = rng.binomial(2, [0.4, 0.4, 0.02, 0.004])
        for cell, n in zip(
            ("f,young", "m,old", "f,old", "m,young"), (1 + counts[0], *counts[1:]), strict=True
        ):
            lines += [f"{block // 20:02d},{block:03d},{cell}"] * int(n)
    (folder / "people.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    path = folder / "mine.toml"
    path.write_text(CONFIG % json.dumps(str(folder / "people.csv")), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def finished(config: Path) -> Path:
    out = config.parent / "run"
    pipeline.run(
        spec.parse(
            config.read_text(encoding="utf-8"), where="c", overrides=("output.report=false",)
        ),
        out,
    )
    return out


def test_a_run_reports_on_its_uniques_in_confidence(said: SubtreeMoments, finished: Path) -> None:
    before = sorted(p for p in (finished / "release").rglob("*"))
    rows = values(said, finished, "--prior", "1/2")
    kept = finished / "confidential" / "risk" / "uniques.json"
    assert json.loads(kept.read_text())["rows"] == rows
    assert stat.S_IMODE((finished / "confidential").stat().st_mode) == 0o700
    assert sorted(p for p in (finished / "release").rglob("*")) == before
    blocks = next(r for r in rows if (r["level"], r["bin"], r["levels"]) == ("Block", "all", 1))
    z, p = Noise(DISCRETE_GAUSSIAN, BLOCK).pmf()
    after = risk.posterior(1 + z, rho=BLOCK, prior=0.5)
    spread = (p @ after**2 - (p @ after) ** 2) ** 0.5
    assert blocks["uniques"] > 200
    assert abs(blocks["mean"] - p @ after) < 4.5 * spread / blocks["uniques"] ** 0.5
    assert {r["levels"] for r in rows} >= {1, 2}
    code, out, _ = said("report", finished, "--prior", "1/2", "--show-errors")
    assert code == 0
    assert "uniques.json" in out
    summary = json.loads(kept.read_text())["summary"]
    assert summary.startswith("Confidential: ")
    assert 0 <= out.index(summary) < out.index("Unique persons")
    assert f"There are {blocks['uniques']:,} such persons (a true count, confidential)" in out
    assert f"gives it {100 * blocks['mean']:.1f} % on average" in out
    assert f"right for {100 * blocks['decided']:.1f} % of such" in out
    most = max(r["max"] for r in rows if r["bin"] == "all")
    assert f"At most it is {100 * most:.1f} %" in out
    code, out, _ = said("report", finished, "--public", "--prior", "1/2", "--query", "sex")
    assert code == 0
    assert "Town does not measure 'sex': its finest query is 'detailed'" in out
    assert "\nA neighbor who knows everybody else in a block gives it 50.0 %" in out


@pytest.mark.parametrize("command", [("report",), ()])
def test_a_pipe_gets_nothing_of_real_persons(
    said: SubtreeMoments, finished: Path, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of a job is no place for a true count. A terminal is, and so is one who asks."""
    folder = finished / "confidential" / "risk"
    code, piped, err = said(*command, finished, "--prior", "1/2")
    assert (code, err) == (0, "")
    kept = json.loads((folder / "uniques.json").read_text())
    digits = {f"{n:,}" for row in kept["rows"] for n in (row["uniques"],) if n > 9}
    assert digits
    assert not digits & set(re.findall(r"[\d,]+", piped.replace(str(finished), "")))
    assert "neighbor" not in piped
    assert f"in {folder}; --show-errors prints them" in piped
    assert f"written: {folder / 'uniques.json'}" in piped
    assert kept["summary"] in said(*command, finished, "--prior", "1/2", "--show-errors")[1]
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert kept["summary"] in said(*command, finished, "--prior", "1/2")[1]


def test_what_is_public_is_a_function_of_the_plan(
    said: SubtreeMoments, finished: Path, config: Path
) -> None:
    """The same from the run, from its configuration, and from a run without its confidential
    part.
    """
    rows = values(said, finished, "--public")
    assert rows == values(said, config)
    block = next(r for r in rows if r["level"] == "Block" and r["prior"] == 0.5)
    assert block["marginal_posterior"] == pytest.approx(
        risk.marginal_posterior(rho=BLOCK, prior=0.5), abs=1e-12
    )
    hidden = finished / "confidential"
    away = hidden.rename(finished / "away")
    try:
        assert values(said, finished, "--public") == rows
        code, _, err = said(finished)
        assert code == 2
        assert "there is no truth here" in err
        assert not hidden.exists()
    finally:
        away.rename(hidden)


def test_the_paper_s_allocation(said: SubtreeMoments, root: Path) -> None:
    rows = values(said, root / "configs" / "kazan-reiter.toml")
    block = [r for r in rows if r["level"] == "Block" and r["query"] == "detailed"]
    assert [f"{r['marginal_posterior']:.4f}" for r in block] == [
        "0.5237",
        "0.2254",
        "0.1168",
        "0.0242",
    ]
    six = [r for r in rows if r["levels"] == 6]
    assert [f"{r['marginal_posterior']:.3f}" for r in six] == ["0.610", "0.335", "0.203", "0.053"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("no-such-thing",), "not a command"),
        (("marginal",), "give --rho or --epsilon"),
        (("marginal", "--rho", "x"), "not a number"),
        (("posterior", "--x", 1), "one --rho"),
        (("marginal", "--rho", "-1"), "positive"),
        (("marginal", "--rho", "1", "--prior", "2"), "between 0 and 1"),
        (("marginal", "--rho", "1", "--prior", "0"), "above 0"),
        (
            ("hierarchical", "--x1", 1, "--x2", 1, "--y1", 1, *TWO, "--upper", "flat"),
            "none of uniform",
        ),
        (
            ("hierarchical", "--x1", 1, "--x2", 1, "--y1", 1, *TWO, "--upper", "weights:0,0"),
            "not all 0",
        ),
        (("configs/kazan-reiter.toml", "--query", "h1"), "not measured"),
    ],
)
def test_mistakes(
    said: SubtreeMoments,
    root: Path,
    args: tuple[object, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(root)
    code, out, err = said(*args)
    assert code == 2, err
    assert words in err
    assert out == ""
    assert "Traceback" not in err
