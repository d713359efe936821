"""Lines of tables as trees: each line counts those of the line above it that meet a condition
more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from das.model.attribute import Attribute
from das.model.dhc.persons import ages, years
from das.model.grouping import Grouping
from das.model.tabulation import LabelledWhere, Where

#: A label, the condition, and the lines below it, whose conditions come beside it or, on the same
#: attribute, in its place.
TableLine = tuple[str, Where, tuple["TableLine", ...]]
TableLines = tuple[TableLine, ...]


def columns(lines: TableLines, of: Where | None = None) -> tuple[LabelledWhere, ...]:
    """Each line before those below it.

    >>> from das.model.dhc.persons import SEX
    >>> columns(total({}, by(SEX)))
    (('Total', {}), ('Male', {'sex': ('male',)}), ('Female', {'sex': ('female',)}))
    """
    return tuple(_walk(lines, of or {}))


def _walk(lines: TableLines, above: Where) -> Iterator[LabelledWhere]:
    for label, where, below in lines:
        here = {**above, **where}
        yield label, here
        yield from _walk(below, here)


def line(label: str, where: Where, *below: TableLines) -> TableLine:
    """One, with everything below it."""
    return label, where, tuple(x for lines in below for x in lines)


def total(of: Where, *below: TableLines) -> TableLines:
    """A line for all that meet a condition."""
    return (line("Total", of, *below),)


def by(named: Attribute | Grouping, *below: TableLines) -> TableLines:
    """A line for each level of an attribute, or group of a grouping."""
    codes = named.levels if isinstance(named, Attribute) else named.groups
    return tuple(
        line(label, {named.name: (code,)}, *below)
        for code, label in zip(codes, named.labels, strict=True)
    )


def by_age(spans: Iterable[tuple[int, int]], *below: TableLines) -> TableLines:
    """A line for each range of ages."""
    return tuple(line(years(*span), {"age": ages(*span)}, *below) for span in spans)
