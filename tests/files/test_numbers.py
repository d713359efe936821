"""Numbers by their buffers are those that Arrow makes and reads, and pandas is not asked."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps

from das.files import codes, csv_text

arrays = nps.arrays(
    st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64, np.float32, np.float64]),
    st.integers(0, 40),
)


@given(arrays, st.data())
def test_a_column_is_what_arrow_makes(values: np.ndarray, data: st.DataObject) -> None:
    assert csv_text.column(values).equals(pa.array(values)) or np.isnan(values.astype(float)).any()
    there = np.array(
        data.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))), dtype=bool
    )
    held = csv_text.column(values, there)
    held.validate(full=True)
    expected = pa.array(values, mask=~there)
    assert str(held.to_pylist()) == str(expected.to_pylist())  # nan is nan
    for some in (held, held.slice(len(values) // 3), expected.slice(1, 9)):
        assert csv_text.there(some).tolist() == some.is_valid().to_pylist()
        filled = csv_text.array(some, absent=7)
        assert str(filled.tolist()) == str(some.fill_null(7).to_pylist())
        assert filled.dtype == values.dtype


@given(arrays, st.integers(0, 40))
def test_a_column_is_read_as_arrow_reads_it(values: np.ndarray, cut: int) -> None:
    whole = pa.chunked_array([values[:cut], values[cut:]], pa.from_numpy_dtype(values.dtype))
    for column in (
        pa.array(values).slice(cut),
        whole,
        whole.slice(1),
        pa.chunked_array([], whole.type),
    ):
        found = csv_text.array(column)
        assert found.dtype == values.dtype
        assert np.array_equal(found, column.to_numpy(), equal_nan=values.dtype.kind == "f")


@given(nps.arrays(np.bool_, st.integers(0, 40)))
def test_a_mask_chooses_the_rows_that_it_says(chosen: np.ndarray) -> None:
    mask = csv_text.mask(chosen)
    mask.validate(full=True)
    rows = csv_text.column(np.arange(len(chosen)))
    assert rows.filter(mask).to_pylist() == np.flatnonzero(chosen).tolist()


def test_strides_are_followed() -> None:
    assert csv_text.column(np.arange(12).reshape(3, 4)[:, 1]).to_pylist() == [1, 5, 9]


@pytest.mark.parametrize("values", [np.zeros((2, 2)), np.array(["a"]), np.array([True])])
def test_what_is_no_column_of_numbers_is_refused(values: np.ndarray) -> None:
    with pytest.raises(TypeError, match="no column of numbers"):
        csv_text.column(values)


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (pa.array(["a"]), "a column of string"),
        (pa.array([1, None]), "a number is missing"),
        (pa.array([True]), "bool"),
    ],
)
def test_what_is_no_number_is_refused(column: pa.Array, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        csv_text.array(column)


def test_a_word_that_is_repeated() -> None:
    for word in ("", "a word", "é"):
        assert codes.repeated(word, 3).to_pylist() == [word] * 3
        assert codes.repeated(word, 0).to_pylist() == []


def test_pandas_is_not_loaded() -> None:
    code = """
import sys
import numpy as np
from das.files import codes, csv_text
csv_text.array(csv_text.column(np.arange(3), np.array([True, False, True])), absent=0)
codes.codes(codes.repeated("x", 2))
sys.exit("pandas" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
