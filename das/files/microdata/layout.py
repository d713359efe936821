"""Which columns the microdata file of a universe has over the places of a release."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das.model.codes import Codes, characters
from das.model.microdata_form import BUILD, WHOLE, CodedColumn, MicrodataForm


@dataclass(frozen=True)
class MicrodataLayout:
    """The columns of one file. ``order`` is the header.

    ``geography`` gives name and width of each part of a block's code, taken from its right end. Or
    it is the single part ``geocode`` of any width (0)."""

    title: str
    geography: tuple[tuple[str, int], ...]
    constants: Mapping[str, str]
    columns: tuple[CodedColumn, ...]
    order: tuple[str, ...]

    @property
    def width(self) -> int:
        """Characters of a block's code that the file holds, 0 for all of them."""
        return sum(width for _, width in self.geography)


def layout(form: MicrodataForm, codes: Codes, build: str) -> MicrodataLayout:
    """The layout where the lowest level has the units ``codes``.

    The block columns of the redistricting or 1940 file are used if every code ends in a block code
    of that file: 16, and exactly 10, digits. Otherwise one column ``geocode`` holds the whole
    code."""
    geography = form.geography if _fits(codes, form) else WHOLE
    order = (*form.before, *(name for name, _ in geography), *form.after)
    named = {BUILD: build} if BUILD in order else {}
    return MicrodataLayout(form.title, geography, named | dict(form.constants), form.columns, order)


def _fits(codes: Codes, form: MicrodataForm) -> bool:
    width = sum(w for _, w in form.geography)
    length = np.strings.str_len(codes)
    if not len(codes) or (length < width).any() or (form.sole and (length > width).any()):
        return False
    tail = tails(codes, width)
    return bool(((tail >= ord("0")) & (tail <= ord("9"))).all())


def tails(codes: Codes, width: int) -> NDArray[np.uint8]:
    """The last ``width`` bytes of each code, ``(units, width)``."""
    at = np.strings.str_len(codes)[:, None] - width + np.arange(width)
    return np.take_along_axis(characters(codes), at, axis=1)
