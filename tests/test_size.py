"""What a run takes, said before it takes it; and refused, before anything is measured, where it
does not fit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.default_passes import LARGE, MARGINS, configuration, people
from das import size
from das import spec as specification
from das.cli import main
from das.engine import Silent
from das.errors import UserError
from das.publications.counts.truth.maker import sizes_of
from das.stages import Stages
from das.truth.preparation import prepare

SHARES = {**dict.fromkeys(MARGINS[12960], "1/8"), "detailed": "1/2"}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A configuration of 12,960 cells, and a small table for it."""
    folder = tmp_path_factory.mktemp("own")
    people(4000, LARGE).to_csv(folder / "people.csv", index=False)
    (folder / "own.toml").write_text(configuration(LARGE, SHARES), encoding="utf-8")
    return folder / "own.toml", folder / "people.csv"


def sizes(own: tuple[Path, Path], *changes: str) -> size.Size:
    spec = specification.parse(own[0].read_text(encoding="utf-8"), where="own", overrides=changes)
    return sizes_of(spec, prepare(spec, [own[1]], Stages(), Silent()))[0]


def test_memory_is_foretold_within_two(own: tuple[Path, Path], tmp_path: Path) -> None:
    """In a process of its own, for the peak is that of a process."""
    out = tmp_path / "run"
    command = [
        sys.executable,
        "-m",
        "das",
        "run",
        str(own[0]),
        "--data",
        str(own[1]),
        "--out",
        str(out),
        "--quiet",
        "--workers",
        "1",
        "--set",
        "output.report=false",
    ]
    subprocess.run(command, check=True, capture_output=True)
    stages = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["stages"]
    measured = max(s["peak_mb"] for s in stages) * (1 << 20)
    assert measured / 2 <= sizes(own).memory <= 2 * measured


def test_full_information_of_many_cells_takes_matrices_of_them(own: tuple[Path, Path]) -> None:
    assert sizes(own).memory < 1e9
    assert sizes(own, "estimation.method=full-information").memory > 8 * 12960**2 * 4


def test_a_run_that_cannot_fit_is_refused_before_anything_is_measured(
    own: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(size, "machine", lambda: 3e8)
    with pytest.raises(SystemExit) as stop:
        main(["run", str(own[0]), "--data", str(own[1]), "--out", str(tmp_path / "run"), "--quiet"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    for words in ("GB of memory", "--ignore-memory", "12,960 cells"):
        assert words in said
    assert not (tmp_path / "run").exists()


def test_workers_count_and_a_machine_that_does_not_say_is_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = [size.Size("persons", 10, 1e9, 1.0, "L")]
    monkeypatch.setattr(size, "machine", lambda: 2e9)
    size.refuse_beyond(one, 1)
    with pytest.raises(UserError, match="memory"):
        size.refuse_beyond(one, 4)
    monkeypatch.setattr(size, "machine", lambda: None)
    size.refuse_beyond(one, 400)


def test_check_says_the_size(own: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    for more, with_data in (([], False), (["--data", str(own[1])], True)):
        with pytest.raises(SystemExit) as stop:
            main(["check", str(own[0]), "--json", *more])
        assert not stop.value.code
        found = json.loads(capsys.readouterr().out)["sizes"]
        assert [(s["cells"], s["with_data"]) for s in found] == [
            (int(np.prod(list(LARGE.values()))), with_data)
        ]


def test_the_peak_is_that_of_the_run_and_not_of_who_started_it() -> None:
    held = np.ones(60_000_000)  # 480 MB
    script = "from das.files.machine import peak; print(peak())"
    done = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    )
    assert 1e6 < int(done.stdout) < held.nbytes / 2
