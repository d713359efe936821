"""errors.csv: the columns of the contract, every digit, and clear refusals."""

import os

import pytest

from das.errors import InputError
from das.files.run import tallies
from das.model.error_rows import ErrorRow

ROWS = [
    ErrorRow(
        "US",
        "total",
        "nmf",
        "all",
        1,
        1 / 3,
        0.1 + 0.2,
        -1e-9,
        0.0,
        1.0,
        2.0,
        0.987654321987654,
        mape=1 / 7,
        clusters=12,
        zero_to_positive=0,
    ),
    ErrorRow(
        "Block",
        "votingage * hispanic",
        "postprocessed",
        "10000+",
        21_000_000_000,
        2.5,
        3.5,
        0.0,
        1,
        2,
        3,
        None,
    ),
]


def test_round_trip_keeps_every_digit(tmp_path):
    path = tallies.write_errors(tmp_path / "evaluation" / "errors.csv", ROWS)
    header = path.read_text().splitlines()[0]
    assert header.startswith(
        "level,query,source,bin,n,mae,rmse,bias,p50,p95,max,tvd,"
    )  # the contract's, first
    assert tallies.read_errors(path) == ROWS
    assert os.listdir(path.parent) == ["errors.csv"]


def test_a_failure_leaves_what_was_there(tmp_path):
    path = tallies.write_errors(tmp_path / "errors.csv", ROWS)
    with pytest.raises(AttributeError):
        tallies.write_errors(path, [*ROWS, None])
    assert tallies.read_errors(path) == ROWS
    assert os.listdir(tmp_path) == ["errors.csv"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.replace("rmse", "RMSE"), "the columns are"),
        (lambda t: "", "the columns are"),
        (lambda t: t.replace("21000000000", "many"), "line 3: not a number"),
        (lambda t: t[: t.rindex(",2.5")], "line 3: 5 fields, not 27"),
        (lambda t: t + "\x00", "line 4|not readable"),
    ],
)
def test_damage_is_told_with_its_line(tmp_path, change, message):
    path = tallies.write_errors(tmp_path / "errors.csv", ROWS)
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=message):
        tallies.read_errors(path)


def test_other_bytes_and_no_file(tmp_path):
    (tmp_path / "errors.csv").write_bytes(b"\xff\xfe\x00")
    for name in ("errors.csv", "absent.csv"):
        with pytest.raises(InputError, match="not readable as errors"):
            tallies.read_errors(tmp_path / name)
