"""`das nmf`: what files hold, rows of them, and that an altered release is refused with exit code
2.
"""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import das
from das.cli import main
from tests.worlds import Worlds


@pytest.fixture(scope="module")
def finished(worlds: Worlds) -> Path:
    return worlds.run("run.seed=1", "geography.spine=tabulation", data="one thousand")


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    def call(*args: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            main(["nmf", *(str(a) for a in args)])
        return int(end.value.code or 0), *capsys.readouterr()

    return call


def test_summary(said, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.delenv("COLUMNS", raising=False)
    code, out, _ = said("summary", finished)
    assert code == 0
    for word in (
        "Block_Group",
        "votingage * hispanic * cenrace",
        "variance from",
        "least value",
        "2,016",
    ):
        assert word in out  # whole, though no terminal says how wide it may be
    rows = json.loads(said("summary", finished / "release", "--json")[1])
    assert len(rows) == 65


def test_levels_and_queries_take_any_spelling(said, finished: Path) -> None:  # type: ignore[no-untyped-def]
    exact = said("show", finished, "--level", "Block_Group", "--query", "votingage * hispanic")
    assert (
        said("show", finished, "--level", "block group", "--query", "Hispanic*VotingAge") == exact
    )
    code, _, err = said("show", finished, "--level", "block grop", "--query", "total")
    assert (code, "did you mean Block_Group" in err) == (2, True)
    code, _, err = said("show", finished, "--level", "blockgroup", "--query", "race")
    assert (code, "did you mean cenrace" in err) == (2, True)


def test_show(said, finished: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = said("show", finished, "--level", "County", "--query", "votingage * hispanic")
    expected = das.read_nmf(finished, level="County", query="votingage * hispanic")
    frame = pd.read_csv(io.StringIO(out), dtype={"geocode": str})
    assert code == 0
    assert frame["value"].tolist() == expected["value"].tolist()
    assert frame["hispanic"].tolist() == expected["hispanic"].tolist()
    assert frame["label"].tolist()[:2] == [
        "Under 18 years, Not Hispanic or Latino",
        "Under 18 years, Hispanic or Latino",
    ]
    code, out, _ = said("show", finished, "--level", "State", "--constraints")
    assert code == 0
    assert "=" in pd.read_csv(io.StringIO(out))["sign"].tolist()
    code, _, err = said("show", finished, "--level", "Nation")
    assert code == 2
    assert "Block_Group" in err


def change_part(release: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    path = sorted((release / "nmf" / "Tract.parquet" / "DPQuery").rglob("*.parquet"))[0]
    file = pq.ParquetFile(path)
    groups = [change(file.read_row_group(g)) for g in range(file.num_row_groups)]
    with pq.ParquetWriter(path, groups[0].schema) as out:
        for t in groups:
            out.write_table(t)


def altered_variance(release: Path) -> None:
    def change(t: pa.Table) -> pa.Table:
        at = t.schema.get_field_index("variance")
        return t.set_column(
            at, "variance", pa.array([x * 1.01 for x in t["variance"].to_pylist()], pa.float32())
        )

    change_part(release, change)


def removed_unit(release: Path) -> None:
    change_part(release, lambda t: t.slice(1))


def altered_scale(release: Path) -> None:
    path = release / "privacy.json"
    statement: dict[str, Any] = json.loads(path.read_text())
    statement["ledger"][5]["sigma_sq"] = "100/7"
    path.write_text(json.dumps(statement))


def test_verify(said, finished: Path) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = said("verify", finished)
    assert code == 0
    assert "71 draws" in out


def statement(release: Path, change: Callable[[dict[str, Any]], None]) -> None:
    path = release / "privacy.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json.dumps(value))


def cheaper_total(release: Path) -> None:
    statement(release, lambda p: p["rho"].update(total="1/2"))


def cheaper_draw(release: Path) -> None:
    statement(release, lambda p: p["ledger"][0].update(rho="1/1000"))


def forgotten_attempt(release: Path) -> None:
    """The ledger on disk has draws that the statement does not own up to."""
    path = release / "ledger.jsonl"
    begin = path.read_text().splitlines()[:2]
    path.write_text("\n".join(begin) + "\n" + path.read_text())


SPOILT = {
    altered_variance: "variance",
    removed_unit: "Tract",
    altered_scale: "variance",
    cheaper_total: "add up to",
    cheaper_draw: "does not cost 1/1000",
    forgotten_attempt: "ledger.jsonl",
}


@pytest.mark.parametrize("spoil,word", SPOILT.items(), ids=[s.__name__ for s in SPOILT])
def test_verify_refuses(
    said, finished: Path, tmp_path: Path, spoil: Callable[[Path], None], word: str
) -> None:  # type: ignore[no-untyped-def]
    copied = Path(shutil.copytree(finished, tmp_path / "copied"))
    spoil(copied / "release")
    code, _, err = said("verify", copied)
    assert code == 2
    assert word in err
    assert "Traceback" not in err
