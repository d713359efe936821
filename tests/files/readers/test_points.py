"""Coordinates of places."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from das.errors import InputError
from das.tools.protection.study.files import read_points


def test_degrees_become_kilometers(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("code,x,y\n02,10,60\n01,11,60\n03,10,61\n")
    codes = np.array([b"01", b"02", b"03"])
    at = read_points(path, codes, codes)
    east = np.linalg.norm(at[0] - at[1])
    north = np.linalg.norm(at[2] - at[1])
    assert north == pytest.approx(111.195, rel=1e-6)
    assert east / north == pytest.approx(np.cos(np.radians(60 + 1 / 3)), rel=1e-3)


def test_meters_stay(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("code,x,y\na,500000,6000000\nb,500100,6000000\n")
    codes = np.array([b"a", b"b"])
    assert np.ptp(read_points(path, codes, codes)[:, 0]) == 100


def test_every_place_has_one(tmp_path: Path) -> None:
    path = tmp_path / "points.csv"
    path.write_text("code,x,y\na,1,2\n")
    codes = np.array([b"a", b"b"])
    with pytest.raises(InputError, match="1 of 2 places have no point, such as b"):
        read_points(path, codes, codes)
    path.write_text("code,x\na,1\n")
    with pytest.raises(InputError, match="no table of points"):
        read_points(path, codes, codes)
    with pytest.raises(InputError, match="no such file"):
        read_points(tmp_path / "none.csv", codes, codes)


def test_the_header_of_2010_has_internal_points(shared_data: Path) -> None:
    path = shared_data / "pl94_2010" / "ri" / "ri2010.pl.zip"
    codes = np.array([b"4400103010011000", b"4400103010011001"])
    at = read_points(path, codes, codes)
    assert np.linalg.norm(at[0] - at[1]) == pytest.approx(0.103, abs=0.01)  # next to each other
