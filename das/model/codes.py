"""Codes of places: bytes of one width in an array, never a string object for each place.

A code is text in UTF-8, filled up with zeros to the width of the array, ``S<width>``: a quarter of
what NumPy needs for the same as text, and compared byte by byte. The order of the bytes is that of
the code points, so codes stand in the order of their texts. They become text at the rim alone: in
reports, pages, messages."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das.errors import InputError

Codes = NDArray[np.bytes_]


def encoded(texts: ArrayLike) -> Codes:
    """Texts as codes, no wider than the longest needs; what is bytes already, as it is.

    >>> encoded(["07", "1"])
    array([b'07', b'1'], dtype='|S2')

    Raises:
        InputError: bytes that are no UTF-8.
    """
    given = np.asarray(texts)
    if given.dtype.kind == "S":
        if (characters(given) > 127).any():
            text(given)
        return given
    given = given.astype(np.str_, copy=False)
    points = (
        np.ascontiguousarray(given).view(np.uint32).reshape(*given.shape, given.dtype.itemsize // 4)
    )
    if (points > 127).any():
        return np.strings.encode(given, "utf-8")
    width = max(1, int(np.strings.str_len(given).max(initial=0)))
    return np.ascontiguousarray(points[..., :width].astype(np.uint8)).view(f"S{width}")[..., 0]


def text(codes: Codes) -> NDArray[np.str_]:
    """Codes as texts.

    >>> text(encoded(["ä", "1"]))
    array(['ä', '1'], dtype='<U1')
    """
    if not (characters(codes) > 127).any():
        width = codes.dtype.itemsize
        return characters(codes).astype(np.uint32).view(f"U{width}").reshape(codes.shape)
    try:
        return np.strings.decode(codes, "utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"a code is not UTF-8 ({error})", where="codes of places") from None


def characters(codes: Codes) -> NDArray[np.uint8]:
    """The bytes of each code, ``(..., width)``, zeros behind a shorter one."""
    if codes.dtype.kind != "S":
        raise TypeError(f"codes are bytes, not {codes.dtype}: see das.model.codes.encoded")
    return np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, codes.dtype.itemsize)


def of_characters(rows: NDArray[np.uint8]) -> Codes:
    """The codes whose bytes are the rows, ``(n, width)``."""
    return np.ascontiguousarray(rows).view(f"S{rows.shape[1]}")[:, 0]
