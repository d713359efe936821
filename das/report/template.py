"""The templates of the pages, and how numbers are written on them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

import jinja2
from jinja2.bccache import Bucket

from das.model.names import level_inside, level_words
from das.model.not_private import WARNING, WITHOUT
from das.model.source import ListedFile, TableFiles
from das.model.spine import Spine
from das.model.universe import kind_of
from das.report.facts import Facts, decimal

# What every page for the public begins and ends with: whose numbers it shows, and where the files
# are.


@dataclass(frozen=True)
class PublicFrame:
    """``place`` is the name of the place, ``what`` the publication in words, ``run`` the name of
    the run, ``version`` that of the software."""

    place: str
    what: str
    run: str
    version: str
    tables: Sequence[TableFiles] = ()
    files: Sequence[ListedFile] = ()

    @property
    def title(self) -> str:
        return f"{self.place}: {self.what}"


def place_of(spine: Spine, other: str) -> str:
    """The smallest named place that holds everybody, or the few that do together; ``other`` where
    they have no names."""
    names: list[str] = []
    for depth, level in enumerate(spine.levels):
        here = [str(name) for name in spine.names[depth][: FEW + 1] if name]
        if spine.units(level) > 1:
            if not names and spine.levels[0] == NATION and spine.units(level) >= STATES:
                return "United States"
            if not names and len(here) == spine.units(level) <= FEW:
                return f"{', '.join(here[:-1])} and {here[-1]}"
            break
        names += here
    return ", ".join(reversed(names[-2:])) or other


#: The level that is the nation, which its files give no name, and the least states that it has.
NATION, STATES = "US", 50
#: Places that a title names.
FEW = 3


def in_bytes(size: int) -> str:
    """The size of a file as a person reads it.

    >>> in_bytes(320), in_bytes(47_445), in_bytes(4_643_126)
    ('1 kB', '47 kB', '4.6 MB')"""
    if size < 999_500:
        return f"{max(1, round(size / 1000)):,} kB"
    return f"{size / 1_000_000:,.1f} MB"


#: How templates are compiled. No filter is applied then: compiled code stays right when the code of
#: a filter changes.
OPTIONS: dict[str, Any] = {
    "autoescape": True,
    "trim_blocks": True,
    "lstrip_blocks": True,
    "optimized": False,
}


class CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """Compiled templates next to Python's own compiled modules, so that a process does not compile
    them again. Jinja keeps a digest of each template's text with its code and ignores the code of
    other texts.

    As for modules, nothing is kept where Python is told to write no byte code, or where the folder
    cannot be written to."""

    def __init__(self) -> None:
        folder = Path(cache_from_source(__file__)).parent
        super().__init__(
            str(folder), f"%s.{sys.implementation.cache_tag}-{version('jinja2')}.jinja"
        )

    def get_source_checksum(self, source: str) -> str:
        return super().get_source_checksum(f"{OPTIONS} {source}")

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            super().load_bytecode(bucket)

    def dump_bytecode(self, bucket: Bucket) -> None:
        if not sys.dont_write_bytecode:
            with suppress(OSError):
                super().dump_bytecode(bucket)


@cache
def environment(**more: Callable[..., object]) -> jinja2.Environment:
    """An environment that escapes all text given to a template, unless it is ``Markup``; a missing
    name is an error.

    ``more`` are filters added to ours. There is one environment in a process, so each template is
    loaded once."""
    out = jinja2.Environment(
        loader=jinja2.PackageLoader("das.report", ""),
        undefined=jinja2.StrictUndefined,
        bytecode_cache=CompiledTemplates(),
        **OPTIONS,
    )
    filters = (figure, upward, whole, signed, clock, in_bytes, decimal)
    out.filters |= {f.__name__: f for f in filters} | more
    out.filters |= {
        "words": level_words,
        "inside": level_inside,
        "called": lambda name: kind_of(name).records,
    }
    out.globals |= {"warning": WARNING, "without": WITHOUT, "confidential": False}
    return out


def render(template: str, *, confidential: bool = False, **values: Any) -> str:
    """A page from its ``template``. The same values give the same page."""
    return environment().get_template(template).render(confidential=confidential, **values)


def public_page(template: str, facts: Facts, frame: PublicFrame, **values: Any) -> str:
    """The page of a release, with its mark. It is as public as the values that it is given."""
    return render(template, private=facts["private"], facts=facts, frame=frame, **values)


def figure(value: float | None) -> str:
    """Three significant digits, a separator for thousands, and no exponent for common numbers.

    >>> [figure(x) for x in (0, 1234.5, 0.04567, 2.5, None)]
    ['0', '1,234', '0.0457', '2.50', '–']"""
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    digits = 2 - math.floor(math.log10(abs(value)))
    if digits > 8:
        return f"{value:.1e}"
    return f"{value:,.{max(0, digits)}f}".replace("-", "−")


def upward(value: float) -> str:
    """Two decimals, rounded up: what a privacy loss may be rounded to.

    >>> upward(17.1431)
    '17.15'"""
    return f"{math.ceil(value * 100) / 100:.2f}"


def whole(value: float) -> str:
    """A whole number, thousands apart."""
    return f"{value:,.0f}".replace("-", "−")


def signed(value: float) -> str:
    """A whole number with its sign."""
    return f"{value:+,.0f}".replace("-", "−")


def clock(seconds: float) -> str:
    """Seconds, or minutes and seconds, or hours and minutes.

    >>> clock(3.21), clock(75), clock(7322)
    ('3.2 s', '1 min 15 s', '2 h 02 min')"""
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"
