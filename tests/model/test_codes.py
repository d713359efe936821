"""Codes of places as bytes: the same texts, in the same order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das.errors import InputError
from das.files import codes as files
from das.model.names import characters, encoded, of_characters, text

#: Without the sign that fills codes up.
TEXTS = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)), max_size=6),
    max_size=8,
)


@given(TEXTS)
def test_texts_come_back_in_their_order(texts: list[str]) -> None:
    codes = encoded(np.array(texts, dtype=np.str_))
    assert text(codes).tolist() == texts
    assert text(np.sort(codes)).tolist() == sorted(texts)  # of code points
    assert [c.decode() for c in codes.tolist()] == texts
    assert codes.dtype.itemsize == max([1, *(len(t.encode()) for t in texts)])


@given(TEXTS, st.integers(0, 4), st.integers(0, 4))
def test_arrow_has_the_same_texts(texts: list[str], skipped: int, left: int) -> None:
    codes = encoded(np.array(texts, dtype=np.str_))
    assert files.column(codes).equals(pa.array(texts, pa.string()))
    part = slice(skipped, max(0, len(texts) - left))
    whole = pa.array(texts, pa.string())
    for column in (
        whole[part],
        whole.cast(pa.large_string())[part],
        pa.chunked_array([whole, whole[part]], pa.string()),
    ):
        read = files.codes(column)
        assert (
            [c.decode() for c in read.tolist()]
            == column.to_pylist()
            == files.texts(column).tolist()
        )
    assert files.codes(pa.chunked_array([], pa.string())).tolist() == []


def test_one_width_is_not_copied() -> None:
    codes = encoded(["4401", "4402"])
    assert np.shares_memory(np.frombuffer(files.column(codes).buffers()[2], np.uint8), codes)


def test_bytes_are_codes_and_texts_are_not() -> None:
    codes = encoded(["a", "bc"])
    assert encoded(codes) is codes
    assert np.array_equal(of_characters(characters(codes)), codes)
    with pytest.raises(TypeError, match="codes are bytes, not <U2"):
        characters(np.array(["a", "bc"]))
    for wrong in (text, encoded):
        with pytest.raises(InputError, match="a code is not UTF-8"):
            wrong(np.array([b"\xff"]))
